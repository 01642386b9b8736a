//! A flow whose every packet has to arrive within a delay bound.

use super::traffic::FlowResult;
use std::fmt;
use units::Nanos;

/// A flow in a run.
#[derive(Debug)]
pub struct BoundedFlow {
    /// Its name.
    pub name: String,
    /// Its packets.
    pub result: FlowResult,
    /// Its delay bound.
    pub bound: Nanos,
    /// Packets that were lost or later than the bound in the time after the reservation in which the router settles.
    pub at_first: u64,
}

impl BoundedFlow {
    /// True if all packets arrived in order and within the bound.
    pub fn is_kept(&self) -> bool {
        self.result.reordered == 0 && self.result.missed(self.bound) == 0
    }

    /// The part of its bound that its slowest packet used.
    pub fn used(&self) -> f64 {
        self.result.longest().get() as f64 / self.bound.get().max(1) as f64
    }
}

impl fmt::Display for BoundedFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BoundedFlow { name, result, bound, at_first } = self;
        write!(
            f,
            "{name}: {} of {} packets lost, {} lost or late, {} overtaken, longest {} of {}; {at_first} lost or late just after the reservation",
            result.lost(),
            result.sent,
            result.missed(*bound),
            result.reordered,
            result.longest().rounded(),
            bound.rounded()
        )
    }
}
