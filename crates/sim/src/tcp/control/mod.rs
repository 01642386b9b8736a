//! Congestion controls: how many packets may be in flight. The sender detects losses and retransmits.

mod bbr;
mod cubic;
mod dctcp;
mod hystart;
mod reno;

pub use bbr::Bbr;
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

use super::delivery::DeliverySample;
use units::{Instant, Nanos};

/// The information in an acknowledgement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AckSample {
    /// Its arrival time.
    pub now: Instant,
    /// The arrival time of the previous acknowledgement of new data.
    pub before: Instant,
    /// Packets newly known to have arrived.
    pub delivered: u64,
    /// The number of them that were marked.
    pub marked: u64,
    /// Packets in flight before it arrived.
    pub in_flight: u64,
    /// True if only the window limited the sender.
    pub window_limited: bool,
    /// True during loss recovery.
    pub recovering: bool,
    /// True if the window must not grow: during recovery, or if the acknowledgement does not advance.
    pub growth_blocked: bool,
    /// All packets before this one have been acknowledged.
    pub next: u64,
    /// All packets before this one have been sent.
    pub sent: u64,
    /// The round-trip time of this acknowledgement, if it was measured.
    pub rtt: Option<Nanos>,
    /// The smoothed round-trip time.
    pub smoothed: Option<Nanos>,
    /// The delivery rate, for controls that request it.
    pub delivery: Option<DeliverySample>,
}

/// The reason for a reduction of the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionCause {
    /// A packet was lost, and later ones have arrived.
    Loss,
    /// A packet was marked.
    Mark,
    /// The retransmission timer expired.
    Timeout,
}

/// A congestion control: a window in packets, and the events that change it.
pub trait CongestionControl: std::fmt::Debug + Send {
    /// The number of packets that may be in flight.
    fn window(&self) -> f64;

    /// The slow start threshold: below it the window doubles with each round trip. It is infinite at first.
    fn threshold(&self) -> f64;

    /// Data was delivered. Called for every acknowledgement of new data, after losses have been detected.
    fn acknowledged(&mut self, progress: &AckSample);

    /// Congestion occurred. For losses and marks it is called at most once per window of packets.
    fn congested(&mut self, now: Instant, cause: CongestionCause, in_flight: u64);

    /// Loss recovery is complete.
    fn recovered(&mut self, now: Instant);

    /// The sender restarts after a long silence, with a window of at most `window` packets.
    fn restart(&mut self, now: Instant, window: f64);

    /// The time between two packets, if the control paces them.
    fn pacing_gap(&self) -> Option<Nanos> {
        None
    }

    /// True if the window also applies during recovery. Otherwise the sender reduces it proportionally (RFC 6937).
    fn controls_recovery(&self) -> bool {
        false
    }

    /// True if it needs delivery rates ([`AckSample::delivery`]), which cost memory for each packet in flight.
    fn needs_delivery_rate(&self) -> bool {
        false
    }

    /// True if marks are reported only by [`CongestionControl::acknowledged`], never as a [`CongestionCause::Mark`].
    fn counts_marks(&self) -> bool {
        false
    }
}
