//! End systems in virtual time: what a sender and a receiver of TCP do, without the packets.
//!
//! A [`Sender`] and a [`Receiver`] are pure: they are handed the time and what came, and say what to send and when they want
//! to be looked at again. Data is counted in packets, all of one size. What a connection is like is said by [`Settings`]:
//! [`Settings::plain`] is the sender that the literature's simulations have (NewReno with its window, one acknowledgement a packet,
//! no selective acknowledgements), [`Settings::kernel`] what Linux does. How fast it sends is decided by a [`Control`].
//!
//! Not modelled: connections are never opened, closed or reset, receivers read everything at once, acknowledgements carry no data,
//! and numbers never wrap.
//!
//! ```
//! use sim::tcp::{Receiver, Reno, Sender, Settings};
//! use units::{Instant, Nanos};
//!
//! let settings = Settings::plain();
//! let mut sender = Sender::new(settings, Box::new(Reno::new(&settings)));
//! let mut receiver = Receiver::new(&settings);
//! let mut now = Instant::START;
//! sender.offer(now, 6);                                       // the application wants six packets sent
//! let mut rounds = Vec::new();
//! while sender.acknowledged() < 6 {
//!     let window: Vec<_> = std::iter::from_fn(|| sender.next(now)).collect();
//!     rounds.push(window.len());
//!     now += Nanos::millis(100);
//!     for segment in window {
//!         let ack = receiver.segment(now, segment, false).expect("every packet is acknowledged");
//!         sender.acknowledge(now, &ack);
//!     }
//! }
//! assert_eq!(rounds, [2, 4]);                                 // slow start
//! ```

pub mod application;
mod control;
mod delivery;
mod frames;
mod newreno;
mod ranges;
mod receiver;
mod rtt;
mod scoreboard;
mod sender;
mod settings;
#[cfg(test)]
mod tests;

pub use control::{Bbr, Cause, Control, Cubic, Dctcp, Progress, Reno};
pub use delivery::Delivered;
pub use receiver::Receiver;
pub use sender::{Sender, Told};
pub use settings::{Acknowledging, Floor, Restart, Settings, TCP_PACKET, TCP_PAYLOAD};

use units::Instant;

/// What a sender puts on its way: one packet of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The number of the packet, from zero.
    pub seq: u64,
    /// When it was sent: the timestamp option (RFC 7323), which its acknowledgement echoes.
    pub sent: Instant,
    /// Whether it has been sent before.
    pub again: bool,
    /// Whether the receiver is not to wait for more before it answers: the PSH flag.
    pub pushed: bool,
}

/// Packets that have come while an earlier one has not: a block of the selective acknowledgement option (RFC 2018), beside
/// [`Ack::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// How many packets lie between `next` and the first of the block; at least one where there is a block.
    pub after: u32,
    /// How many packets it has; zero where there is no block.
    pub packets: u32,
}

/// What a receiver answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// All packets before this one have come.
    pub next: u64,
    /// The timestamp of the last packet that came when it was its turn (RFC 7323, 4.3).
    pub echo: Instant,
    /// What has come beyond `next`, the block with the newest packet first; empty where the connection has no such option.
    pub blocks: [Block; 3],
    /// How many of the packets that it answers bore a congestion mark.
    pub marked: u32,
    /// Whether the packet that it answers had come before: what the first block of RFC 2883 would say.
    pub duplicate: bool,
}

impl Ack {
    /// The blocks, as the number of the first packet and that behind the last.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks.iter().filter(|block| block.packets > 0).map(|block| {
            let from = self.next + u64::from(block.after);
            (from, from + u64::from(block.packets))
        })
    }
}
