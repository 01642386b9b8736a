//! The walk of a packet through a worker, a file each: [`receive`], [`classify`], [`forward`], [`transmit`]. What these cost is
//! what the router costs.
//!
//! ```text
//!  receive ─ batch ─> classify ─> input queue of the path ─> forward ─> output queue of the path ─> transmit
//!  (input task)                                              (forwarding task)                      (output task)
//! ```
//!
//! Packets that do not simply go on leave the walk: to the router's own protocols and to wait for next hops ([`divert`]),
//! back to classification ([`reclassify`]), or to be cut ([`segment`]).
//!
//! [`divert`]: super::divert
//! [`reclassify`]: super::reclassify
//! [`segment`]: super::segment

mod classify;
mod forward;
mod receive;
mod transmit;

use units::Nanos;

/// What an input task did in one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Packets received.
    pub received: usize,
    /// Whether more may wait in the port.
    pub more: bool,
    /// Packets of other workers transmitted.
    pub drained: usize,
    /// Whether the port waits for room on the paths.
    pub stalled: bool,
    /// What it took.
    pub used: Nanos,
}

/// What a forwarding task did in one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarded {
    /// Packets moved.
    pub moved: usize,
    /// What it took.
    pub used: Nanos,
    /// Whether others are away still: somebody works on them when the core is lent again.
    pub away: bool,
}
