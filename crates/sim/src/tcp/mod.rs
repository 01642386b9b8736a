//! TCP end systems in virtual time: the behaviour of senders and receivers, without packet bytes.
//!
//! A [`Sender`] and a [`Receiver`] are pure. They get the time and the arriving segments, and return segments to send and the time of their next
//! timer. Data is counted in packets of one size. [`Settings`] describe a connection. [`Settings::plain`] is the sender of the literature's
//! simulations: NewReno, one acknowledgement per packet, no selective acknowledgements. [`Settings::kernel`] behaves like Linux. A [`CongestionControl`]
//! decides how fast it sends.
//!
//! Not modelled: opening, closing and reset of connections, receivers that do not read, data in acknowledgements, and wrapping sequence numbers.
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

pub use control::{AckSample, Bbr, CongestionCause, CongestionControl, Cubic, Dctcp, Reno};
pub use delivery::DeliverySample;
pub use receiver::Receiver;
pub use sender::{Sender, SenderCounters};
pub use settings::{AckPolicy, IdleRestart, Settings, TCP_PACKET, TCP_PAYLOAD, TimeoutFloor};

use units::Instant;

/// A segment that a sender sends: one packet of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSegment {
    /// The number of the packet, from zero.
    pub seq: u64,
    /// Its send time: the timestamp option (RFC 7323), which the acknowledgement echoes.
    pub sent: Instant,
    /// True if it is a retransmission.
    pub retransmitted: bool,
    /// The PSH flag: the receiver must answer without waiting for more.
    pub pushed: bool,
}

/// Packets that arrived beyond a hole: a block of the selective acknowledgement option (RFC 2018), relative to [`Ack::next`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// The number of packets between `next` and the first of the block; at least one for a valid block.
    pub after: u32,
    /// The number of packets in it; zero for an unused block.
    pub packets: u32,
}

/// An acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// All packets before this one have arrived.
    pub next: u64,
    /// The timestamp of the last packet that arrived in order (RFC 7323, 4.3).
    pub echo: Instant,
    /// The blocks beyond `next`, the one with the newest packet first; empty if the connection does not use the option.
    pub blocks: [SackBlock; 3],
    /// The number of acknowledged packets with a congestion mark.
    pub marked: u32,
    /// True if the packet had arrived before: the information of the first block of RFC 2883.
    pub duplicate: bool,
}

impl Ack {
    /// The blocks as ranges, from the first packet to one behind the last.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks.iter().filter(|block| block.packets > 0).map(|block| {
            let from = self.next + u64::from(block.after);
            (from, from + u64::from(block.packets))
        })
    }
}
