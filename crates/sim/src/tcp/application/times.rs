//! How long transfers took, and how long round trips: measured as in the literature, so that numbers can be laid side by side.

use units::{Instant, Nanos};

/// A transfer of an application that has several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// When it began.
    pub began: Instant,
    /// Its packets.
    pub packets: u64,
    /// When it was seen to be over; nothing while it is not.
    pub over: Option<Instant>,
    /// Whether any of its packets has been acknowledged.
    pub heard: bool,
}

/// Transfers of many runs, pooled.
#[derive(Clone, Debug, Default)]
pub struct FlowTimes {
    times: Vec<Nanos>,
    unfinished: usize,
}

impl FlowTimes {
    /// Adds the transfers of a run that ended at `end`. `unfinished` says whether those that were not over then count, with the time
    /// they had taken so far; those of which nothing had been acknowledged never do.
    pub fn add(&mut self, completions: &[Completion], end: Instant, unfinished: bool) {
        for transfer in completions {
            match transfer.over {
                Some(over) => self.times.push(over.since(transfer.began)),
                None if unfinished && transfer.heard => {
                    self.times.push(end.since(transfer.began));
                    self.unfinished += 1;
                }
                None => {}
            }
        }
    }

    /// How many there are, and how many of them were not over.
    pub fn count(&self) -> (usize, usize) {
        (self.times.len(), self.unfinished)
    }

    /// The time at index `floor(part n)` of all in order: with a part of 0.999 the tail of the literature. Nothing where there
    /// are no transfers.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let mut times = self.times.clone();
        // With a hair's breadth, for 0.999 x 1000 is less than 999 in binary.
        let index = ((part * times.len() as f64 + 1e-9) as usize).min(times.len().checked_sub(1)?);
        Some(*times.select_nth_unstable(index).1)
    }

    /// All of them, in seconds.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.times.iter().map(|time| time.as_secs_f64())
    }

    /// The mean, in seconds; zero where there is none.
    pub fn mean(&self) -> f64 {
        self.times.iter().map(|time| time.as_secs_f64()).sum::<f64>() / self.times.len().max(1) as f64
    }
}

/// The mean of the smoothed round-trip time, looked at every few milliseconds and counted where it, or what was acknowledged,
/// has changed. The published tables have this mean less the delay of the way back for a one-way delay, which it is not.
#[derive(Clone, Debug)]
pub struct SmoothedRtt {
    every: u64,
    /// The interval that the last acknowledgement fell into, and the smoothed round-trip time since.
    last: Option<(u64, Nanos)>,
    sum: u128,
    samples: u64,
}

impl SmoothedRtt {
    /// How often the literature's scripts look.
    pub const EVERY: Nanos = Nanos::millis(5);

    /// Nothing yet; it will be looked at at every multiple of `every`.
    pub fn new(every: Nanos) -> SmoothedRtt {
        SmoothedRtt { every: every.get().max(1), last: None, sum: 0, samples: 0 }
    }

    /// New data was acknowledged, and the smoothed round-trip time is this now.
    #[inline]
    pub fn acknowledged(&mut self, now: Instant, smoothed: Nanos) {
        // What happens at the very moment of a look is seen by it.
        let interval = now.get().div_ceil(self.every);
        match &mut self.last {
            Some((before, value)) if *before == interval => *value = smoothed,
            last => {
                let before = last.replace((interval, smoothed));
                self.count(before);
            }
        }
    }

    fn count(&mut self, look: Option<(u64, Nanos)>) {
        if let Some((_, smoothed)) = look {
            self.sum += u128::from(smoothed.get());
            self.samples += 1;
        }
    }

    /// The mean of all looks until `end`, in seconds, and how many there were; nothing where there was none.
    pub fn mean(&self, end: Instant) -> Option<(f64, u64)> {
        let mut all = self.clone();
        let last = all.last.take().filter(|&(interval, _)| interval * self.every <= end.get());
        all.count(last);
        (all.samples > 0).then(|| (all.sum as f64 / all.samples as f64 / 1e9, all.samples))
    }

    /// The same less the delay of the way back: the published "one-way delay", in seconds.
    pub fn mean_less(&self, back: Nanos, end: Instant) -> Option<f64> {
        Some(self.mean(end)?.0 - back.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::START + Nanos::millis(millis)
    }

    #[test]
    fn fct_pooled_p999_index() {
        let over = |took: u64| Completion { began: at(100), packets: 1, over: Some(at(100 + took)), heard: true };
        let mut pool = FlowTimes::default();
        // Two seeds, 1000 transfers of 1..=1000 ms: sorted, index floor(0.999 x 1000) = 999 is the longest.
        pool.add(&(1..=500).map(|n| over(2 * n)).collect::<Vec<_>>(), at(9999), true);
        pool.add(&(1..=500).map(|n| over(2 * n - 1)).collect::<Vec<_>>(), at(9999), true);
        assert_eq!(pool.quantile(0.999), Some(Nanos::millis(1000)));
        assert_eq!(pool.quantile(0.5), Some(Nanos::millis(501)));
        assert!((pool.mean() - 0.5005).abs() < 1e-9);
        // One more, of 2000: floor(0.999 x 1001) = 999, which is again the 1000th.
        pool.add(&[over(2000)], at(9999), true);
        assert_eq!(pool.quantile(0.999), Some(Nanos::millis(1000)));
        assert_eq!(FlowTimes::default().quantile(0.999), None);
    }

    #[test]
    fn transfers_that_are_not_over_count_where_they_are_asked_for_and_have_begun_to_arrive() {
        let open = |heard| Completion { began: at(100), packets: 9, over: None, heard };
        let (mut with, mut without) = (FlowTimes::default(), FlowTimes::default());
        with.add(&[open(true), open(false)], at(350), true);
        without.add(&[open(true), open(false)], at(350), false);
        assert_eq!((with.count(), without.count()), ((1, 1), (0, 0)));
        assert_eq!(with.quantile(0.999), Some(Nanos::millis(250)));
    }

    #[test]
    fn srtt_minus_75_metric() {
        let mut seen = SmoothedRtt::new(SmoothedRtt::EVERY);
        // Of two in one interval the later is seen; 10 ms is looked at at 10 ms; nothing in between, nothing counted.
        for (when, smoothed) in [(1, 150), (4, 160), (7, 200), (10, 170), (31, 150), (37, 999)] {
            seen.acknowledged(at(when), Nanos::millis(smoothed));
        }
        // Looks at 5, 10, 35 ms: 160, 170, 150. The one at 40 ms is after the end.
        assert_eq!(seen.mean(at(38)), Some((0.16, 3)));
        let delay = seen.mean_less(Nanos::millis(75), at(38)).unwrap();
        assert!((delay - 0.085).abs() < 1e-12);
        assert_eq!(SmoothedRtt::new(SmoothedRtt::EVERY).mean(at(9)), None);
    }
}
