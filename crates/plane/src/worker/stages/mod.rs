//! The stages of a packet's way through a worker, one file each: [`receive`], [`classify`], [`forward`], [`transmit`]. They are
//! the fast path: their cost is the cost of the router.
//!
//! ```text
//!  receive ─ batch ─> classify ─> input queue of the path ─> forward ─> output queue of the path ─> transmit
//!  (input task)                                              (forwarding task)                      (output task)
//! ```
//!
//! Packets leave this sequence for the router's own protocols and for the neighbour queue ([`divert`]), for another
//! classification ([`reclassify`]), and for segmentation ([`segment`]).
//!
//! [`divert`]: super::divert
//! [`reclassify`]: super::reclassify
//! [`segment`]: super::segment

mod classify;
mod forward;
mod interleave;
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
    /// Functions have run, but no packet has passed all of them: preempted functions continue when the core is lent to them again, and interleaved ones
    /// with the next vector.
    pub unfinished: bool,
}
