//! The walk of a packet through a worker, a file each: [`receive`], [`classify`], [`forward`], [`transmit`]. Their cost is the
//! cost of the router.
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

/// The result of an input task for one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Received {
    /// Packets received.
    pub received: usize,
    /// The port may have more packets.
    pub more: bool,
    /// Packets of other workers transmitted.
    pub drained: usize,
    /// The port waits for room on the paths.
    pub stalled: bool,
    /// The time that the vector took.
    pub used: Nanos,
}

/// The result of a forwarding task for one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarded {
    /// Packets moved.
    pub moved: usize,
    /// The time that the vector took.
    pub used: Nanos,
    /// Preempted functions still hold packets: they go on when the core is lent again.
    pub away: bool,
}
