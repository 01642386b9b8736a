//! The rate bound of a link: since it last became busy it has carried no more bits than its rate, whatever computes when
//! frames leave.

use units::Rate;

/// What is known of one direction of a link.
#[derive(Debug, Default)]
pub(crate) struct RateBound {
    /// When it became busy.
    since: u64,
    /// When what it was given has left.
    until: u64,
    bits: u128,
}

impl RateBound {
    /// A frame of so many bits was given to the link at `now` and has left it at `left`. Answers how much too early that
    /// is, in nanoseconds, where it is.
    #[inline]
    pub fn carried(&mut self, rate: Rate, now: u64, left: u64, bits: u64) -> Option<u64> {
        if rate == Rate::MAX {
            return None;
        }
        if now >= self.until {
            (self.since, self.bits) = (now, 0);
        }
        self.bits += u128::from(bits);
        self.until = left;
        // Rounded down, as times are.
        let least = self.since + (self.bits * 1_000_000_000 / u128::from(rate.get().max(1))) as u64;
        (left < least).then(|| least - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_leaves_too_early_is_found() {
        let mut bound = RateBound::default();
        let rate = Rate::mbit(100);
        // 672 bits take 6.72 us.
        assert_eq!(bound.carried(rate, 0, 6_720, 672), None);
        assert_eq!(bound.carried(rate, 100, 13_440, 672), None);
        assert_eq!(bound.carried(rate, 200, 13_440 + 6_000, 672), Some(720));
        // A new busy time begins.
        assert_eq!(bound.carried(rate, 50_000, 56_720, 672), None);
        assert_eq!(bound.carried(Rate::MAX, 50_000, 50_000, 672), None);
    }
}
