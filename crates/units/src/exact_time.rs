//! Exact times with fractions of nanoseconds. Rounding errors do not accumulate: at three packets a second the thousandth packet arrives at 333 1/3
//! s, not some microseconds off.

use crate::{Instant, Nanos};

/// A time that advances by fractions of nanoseconds without losing any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExactTime {
    at: Instant,
    numerator: u64,
    denominator: u64,
}

impl ExactTime {
    /// Starts at this time exactly.
    pub fn new(at: Instant) -> ExactTime {
        ExactTime { at, numerator: 0, denominator: 1 }
    }

    /// The time, rounded down to a nanosecond.
    #[inline]
    pub fn at(self) -> Instant {
        self.at
    }

    /// Advances by whole nanoseconds.
    pub fn advance(&mut self, span: Nanos) {
        self.at += span;
    }

    /// Advances by `part / whole` nanoseconds.
    #[inline]
    pub fn advance_fraction(&mut self, (part, whole): (u64, u64)) {
        if whole != self.denominator {
            // The denominator changes: the rest is rounded down to it. That loses less than a nanosecond, once.
            self.numerator =
                (u128::from(self.numerator) * u128::from(whole) / u128::from(self.denominator.max(1))) as u64;
            self.denominator = whole;
        }
        // The rest is below `whole`, and is carried to the next step.
        let sum = self.numerator + part;
        self.at += Nanos::new(sum / whole);
        self.numerator = sum % whole;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pace, PacketRate, Rate};
    #[allow(unused_imports)]
    use std::prelude::v1::*;

    #[test]
    fn third_of_a_second_steps_accumulate_no_rounding_error() {
        let mut time = ExactTime::new(Instant::START);
        (0..3000).for_each(|_| time.advance_fraction(Pace::Packets(PacketRate::pps(3)).gap(64)));
        assert_eq!(time.at(), Instant::new(1_000_000_000_000));
        let mut time = ExactTime::new(Instant::new(5));
        (0..7).for_each(|_| time.advance_fraction(Pace::Bits(Rate::bits(7)).gap(1)));
        assert_eq!(time.at(), Instant::new(8_000_000_005));
    }
}
