//! The rate bound of a link: since it last became busy it has carried no more bits than its rate, whatever computes when
//! frames leave.

use units::Rate;

/// What is known of one direction of a link.
#[derive(Debug)]
pub(crate) struct RateBound {
    rate: Rate,
    /// When it became busy.
    since: u64,
    /// When what it was given has left.
    until: u64,
    bits: u128,
}

impl RateBound {
    /// A link of this rate that has carried nothing.
    pub fn new(rate: Rate) -> RateBound {
        RateBound { rate, since: 0, until: 0, bits: 0 }
    }

    /// A frame of so many bits was given to the link at `now` and has left it at `left`. Answers how much too early that
    /// is, in nanoseconds, where it is.
    #[inline]
    pub fn carried(&mut self, now: u64, left: u64, bits: u64) -> Option<u64> {
        if self.rate == Rate::MAX {
            return None;
        }
        if now >= self.until {
            (self.since, self.bits) = (now, 0);
        }
        self.bits += u128::from(bits);
        self.until = left;
        // Rounded down, as times are.
        let least = self.since + (self.bits * 1_000_000_000 / u128::from(self.rate.get().max(1))) as u64;
        (left < least).then(|| least - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_leaves_too_early_is_found() {
        let mut bound = RateBound::new(Rate::mbit(100));
        // 672 bits take 6.72 us.
        assert_eq!(bound.carried(0, 6_720, 672), None);
        assert_eq!(bound.carried(100, 13_440, 672), None);
        assert_eq!(bound.carried(200, 13_440 + 6_000, 672), Some(720));
        // A new busy time begins.
        assert_eq!(bound.carried(50_000, 56_720, 672), None);
        assert_eq!(RateBound::new(Rate::MAX).carried(50_000, 50_000, 672), None);
    }
}
