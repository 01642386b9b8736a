//! A detector for reordering: finds packets of a computation that overtook others on their way to a processing place (spec E-52). It compares arrival
//! times at the router, across all workers.
//!
//! A table of fixed size remembers computations by hash. A collision evicts the older computation until its next packet. So each counted event did
//! happen, but some events are missed.

use crate::store::{Key, below};
use units::Instant;

/// Slots of the table, one per computation except for hash collisions.
const COMPUTATIONS: usize = 4096;

/// The arrival time of the last executed packet of each computation.
#[derive(Debug)]
pub(crate) struct ReorderDetector {
    key: Key,
    last: Box<[(u64, Instant)]>,
    /// Packets executed after a later packet of their computation.
    pub reordered: u64,
}

impl ReorderDetector {
    pub fn new(key: Key) -> ReorderDetector {
        ReorderDetector { key, last: vec![(0, Instant::START); COMPUTATIONS].into(), reordered: 0 }
    }

    /// Records that a packet of `computation`, received at `came`, is executed now.
    pub fn record(&mut self, computation: u64, arrival: Instant) {
        let slot = &mut self.last[below(self.key.hash(computation), COMPUTATIONS as u64) as usize];
        if slot.0 == computation && arrival < slot.1 {
            self.reordered += 1;
        } else {
            *slot = (computation, arrival);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reordered_packets_of_a_computation_are_counted() {
        let mut order = ReorderDetector::new(Key::new([1, 2]));
        for (computation, came) in [(7, 10), (8, 5), (7, 12), (7, 11), (7, 12), (8, 6), (8, 4)] {
            order.record(computation, Instant::new(came));
        }
        assert_eq!(order.reordered, 2, "11 behind 12, 4 behind 6");
    }
}
