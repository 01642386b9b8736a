//! Stalls with their duration (spec P-66): a queue to another worker is full, the pool has no frame, or the medium of a port has no room.

use units::Instant;

/// Detects the stalls of one resource. A stall begins with the first refusal and ends when the owner of the meter finds room again: it looks at each
/// use of the resource, and during a stall also at each step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StallMeter {
    /// During a stall: the time until which its duration is counted.
    counted_until: Option<Instant>,
}

/// The two counters of a kind of stall: the number of stalls, and their duration in nanoseconds.
pub type StallCount<'a> = (&'a mut u64, &'a mut u64);

impl StallMeter {
    /// True during a stall.
    #[inline(always)]
    pub fn is_stalled(&self) -> bool {
        self.counted_until.is_some()
    }

    /// The resource has no room (`full`), or has some.
    #[inline]
    pub fn observe(&mut self, full: bool, now: Instant, count: StallCount<'_>) {
        if full | self.is_stalled() {
            self.record(full, now, count);
        }
    }

    #[cold]
    fn record(&mut self, full: bool, now: Instant, (stalls, duration): StallCount<'_>) {
        match self.counted_until {
            Some(since) => *duration += now.since(since).get(),
            None => *stalls += 1,
        }
        self.counted_until = full.then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_lasts_from_the_first_refusal_until_there_is_room() {
        let (mut meter, mut stalls, mut duration) = (StallMeter::default(), 0, 0);
        let mut observe = |full, now| {
            meter.observe(full, Instant::new(now), (&mut stalls, &mut duration));
            (stalls, duration, meter.is_stalled())
        };
        assert_eq!(observe(false, 5), (0, 0, false));
        assert_eq!(observe(true, 10), (1, 0, true));
        assert_eq!(observe(true, 20), (1, 10, true), "counted while it lasts");
        assert_eq!(observe(false, 40), (1, 30, false));
        assert_eq!(observe(false, 99), (1, 30, false));
        assert_eq!(observe(true, 100), (2, 30, true));
        assert_eq!(observe(false, 101), (2, 31, false));
    }
}
