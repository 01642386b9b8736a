//! The rate bound of a link: in each busy period it carries no more bits than its rate allows. This holds for any way to compute departure times.

use units::Rate;

/// The state of one direction of a link.
#[derive(Debug)]
pub(crate) struct RateBound {
    rate: Rate,
    /// The start of its busy period.
    since: u64,
    /// The time at which the last accepted frame has left.
    until: u64,
    bits: u128,
}

impl RateBound {
    /// A link of this rate that has carried nothing.
    pub fn new(rate: Rate) -> RateBound {
        RateBound { rate, since: 0, until: 0, bits: 0 }
    }

    /// Records a frame of `bits` bits that is given to the link at `now` and leaves at `left`. If it leaves too early, returns by how many
    /// nanoseconds.
    #[inline]
    pub fn record_frame(&mut self, now: u64, left: u64, bits: u64) -> Option<u64> {
        if self.rate == Rate::MAX {
            return None;
        }
        if now >= self.until {
            (self.since, self.bits) = (now, 0);
        }
        self.bits += u128::from(bits);
        self.until = left;
        // Rounded down, like the departure times.
        let least = self.since + (self.bits * 1_000_000_000 / u128::from(self.rate.get().max(1))) as u64;
        (left < least).then(|| least - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_frame_is_detected() {
        let mut bound = RateBound::new(Rate::mbit(100));
        // 672 bits take 6.72 us.
        assert_eq!(bound.record_frame(0, 6_720, 672), None);
        assert_eq!(bound.record_frame(100, 13_440, 672), None);
        assert_eq!(bound.record_frame(200, 13_440 + 6_000, 672), Some(720));
        // A new busy period begins.
        assert_eq!(bound.record_frame(50_000, 56_720, 672), None);
        assert_eq!(RateBound::new(Rate::MAX).record_frame(50_000, 50_000, 672), None);
    }
}
