//! Times that fractions of nanoseconds add up to. No rounding adds up: the thousandth packet of three a second comes at
//! 333 s and a third, not some microseconds off.

use crate::{Instant, Nanos};

/// A time that goes on by fractions of nanoseconds of which none is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exact {
    at: Instant,
    rest: u64,
    over: u64,
}

impl Exact {
    /// That time exactly.
    pub fn new(at: Instant) -> Exact {
        Exact { at, rest: 0, over: 1 }
    }

    /// The time, rounded down to a nanosecond.
    #[inline]
    pub fn at(self) -> Instant {
        self.at
    }

    /// Goes on by whole nanoseconds.
    pub fn wait(&mut self, span: Nanos) {
        self.at += span;
    }

    /// Goes on by `(part, whole)`: that many nanoseconds and parts of one.
    #[inline]
    pub fn pass(&mut self, (part, whole): (u64, u64)) {
        if whole != self.over {
            // Another denominator: what is left of the old one is rounded down, less than a nanosecond once.
            self.rest = (u128::from(self.rest) * u128::from(whole) / u128::from(self.over.max(1))) as u64;
            self.over = whole;
        }
        let sum = self.rest + part;
        self.at += Nanos::new(sum / whole);
        self.rest = sum % whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pace, PacketRate, Rate};
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn three_a_second_lose_nothing_to_rounding() {
        let mut time = Exact::new(Instant::START);
        (0..3000).for_each(|_| time.pass(Pace::Packets(PacketRate::pps(3)).gap(64)));
        assert_eq!(time.at(), Instant::new(1_000_000_000_000));
        let mut time = Exact::new(Instant::new(5));
        (0..7).for_each(|_| time.pass(Pace::Bits(Rate::bits(7)).gap(1)));
        assert_eq!(time.at(), Instant::new(8_000_000_005));
    }
}
