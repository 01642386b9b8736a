//! Finds packets that overtook others of their computation on their way to a place (spec E-52: a detector for those who look for a fault). It goes by the
//! time at which packets came to the router, whoever received them.
//!
//! Computations are remembered by a hash, in a table of fixed size: one that lapses from it is not looked at until its next packet, so what is counted did
//! happen, and not all that happens is counted.

use crate::store::{Key, below};
use units::Instant;

/// Computations that are remembered at a time, about.
const COMPUTATIONS: usize = 4096;

/// When the packet came that was executed last, of each computation.
#[derive(Debug)]
pub(crate) struct Order {
    key: Key,
    last: Box<[(u64, Instant)]>,
    /// Packets that came before one that was executed before them.
    pub overtaken: u64,
}

impl Order {
    pub fn new(key: Key) -> Order {
        Order { key, last: vec![(0, Instant::START); COMPUTATIONS].into(), overtaken: 0 }
    }

    /// A packet of a computation, which came at that time, is executed now.
    pub fn executed(&mut self, computation: u64, came: Instant) {
        let slot = &mut self.last[below(self.key.hash(computation), COMPUTATIONS as u64) as usize];
        if slot.0 == computation && came < slot.1 {
            self.overtaken += 1;
        } else {
            *slot = (computation, came);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_behind_a_later_one_of_its_computation_is_counted() {
        let mut order = Order::new(Key::new([1, 2]));
        for (computation, came) in [(7, 10), (8, 5), (7, 12), (7, 11), (7, 12), (8, 6), (8, 4)] {
            order.executed(computation, Instant::new(came));
        }
        assert_eq!(order.overtaken, 2, "11 behind 12, 4 behind 6");
    }
}
