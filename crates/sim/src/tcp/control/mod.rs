//! Congestion controls: how much may be under way. Which packets are lost, and which are sent again, is the sender's to find out.

mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod reno;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

use super::delivery::Delivered;
use units::{Instant, Nanos};

/// What an acknowledgement has told.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Progress {
    /// When it came.
    pub now: Instant,
    /// When the one before came that told of new data.
    pub before: Instant,
    /// Packets that are known for the first time to have come.
    pub delivered: u64,
    /// How many of them were marked.
    pub marked: u64,
    /// Packets under way before it came.
    pub in_flight: u64,
    /// Whether the window was all that held the sender back.
    pub full: bool,
    /// Whether lost packets are being made up for.
    pub recovering: bool,
    /// Whether the window is to stay: they are, or nothing has come that was next in order.
    pub held: bool,
    /// The packets before this one have been acknowledged, in order.
    pub next: u64,
    /// The packets before this one have been sent.
    pub sent: u64,
    /// This round trip, where it was measured.
    pub rtt: Option<Nanos>,
    /// The smoothed round-trip time.
    pub smoothed: Option<Nanos>,
    /// How fast packets were delivered, for controls that want to know.
    pub delivery: Option<Delivered>,
}

/// Why the window is to become smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A packet was lost, others have come since.
    Loss,
    /// A packet was marked.
    Mark,
    /// Nothing has come for too long.
    Timeout,
}

/// A congestion control: a window, in packets, and what changes it.
pub trait Control: std::fmt::Debug + Send {
    /// How many packets may be under way.
    fn window(&self) -> f64;

    /// The window below which it is doubled with each round trip; infinite at first.
    fn threshold(&self) -> f64;

    /// Something has been delivered. Called for every acknowledgement of new data, after what was lost has been found out.
    fn acknowledged(&mut self, progress: &Progress);

    /// There is congestion: at most once for a window's worth of packets for losses and marks.
    fn congested(&mut self, now: Instant, cause: Cause, in_flight: u64);

    /// What was lost before has been made up for.
    fn recovered(&mut self, now: Instant);

    /// The sender has been silent for long and begins anew with no more than `window` packets.
    fn restart(&mut self, now: Instant, window: f64);

    /// The time between two packets, where it spaces them.
    fn gap(&self) -> Option<Nanos> {
        None
    }

    /// Whether the window holds also while losses are made up for; otherwise the sender takes it down in proportion.
    fn rules_recovery(&self) -> bool {
        false
    }

    /// Whether it wants to know how fast packets are delivered ([`Progress::delivery`]), which costs memory for each packet under way.
    fn wants_delivery(&self) -> bool {
        false
    }

    /// Whether marks are told with [`Control::acknowledged`] alone, never as a [`Cause::Mark`].
    fn counts_marks(&self) -> bool {
        false
    }
}
