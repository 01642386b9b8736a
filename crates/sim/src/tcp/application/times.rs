//! The durations of transfers and of round trips, measured as in the literature so that the numbers are comparable.

use units::{Instant, Nanos};

/// A finite transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Its start.
    pub began: Instant,
    /// The number of its packets.
    pub packets: u64,
    /// The time at which its end was observed; none while it is running.
    pub ended: Option<Instant>,
    /// True if any of its packets has been acknowledged.
    pub acknowledged: bool,
}

/// Transfers of several runs, pooled.
#[derive(Clone, Debug, Default)]
pub struct FlowTimes {
    times: Vec<Nanos>,
    unfinished: usize,
}

impl FlowTimes {
    /// Adds the transfers of a run that ended at `end`. With `unfinished`, running transfers count with their duration so far. Transfers without any
    /// acknowledged packet never count.
    pub fn add(&mut self, completions: &[Transfer], end: Instant, unfinished: bool) {
        for transfer in completions {
            match transfer.ended {
                Some(over) => self.times.push(over.since(transfer.began)),
                None if unfinished && transfer.acknowledged => {
                    self.times.push(end.since(transfer.began));
                    self.unfinished += 1;
                }
                None => {}
            }
        }
    }

    /// The number of transfers, and how many of them are unfinished.
    pub fn count(&self) -> (usize, usize) {
        (self.times.len(), self.unfinished)
    }

    /// The duration at index `floor(part n)` of the sorted list: with 0.999 the tail that the literature uses. None without transfers.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let mut times = self.times.clone();
        // The small addend compensates for binary rounding: 0.999 x 1000 is less than 999.
        let index = ((part * times.len() as f64 + 1e-9) as usize).min(times.len().checked_sub(1)?);
        Some(*times.select_nth_unstable(index).1)
    }

    /// All durations, in seconds.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.times.iter().map(|time| time.as_secs_f64())
    }

    /// The mean, in seconds; zero without transfers.
    pub fn mean(&self) -> f64 {
        self.times.iter().map(|time| time.as_secs_f64()).sum::<f64>() / self.times.len().max(1) as f64
    }
}

/// The mean of the smoothed round-trip time, sampled every few milliseconds. A sample counts only if the value or the acknowledged data has changed.
/// The published tables subtract the delay of the way back and call the result one-way delay, although it is not.
#[derive(Clone, Debug)]
pub struct SmoothedRtt {
    every: u64,
    /// The sampling interval of the last acknowledgement, and the smoothed round-trip time since then.
    last: Option<(u64, Nanos)>,
    sum: u128,
    samples: u64,
}

impl SmoothedRtt {
    /// The sampling interval of the literature's scripts.
    pub const EVERY: Nanos = Nanos::millis(5);

    /// No samples yet. Samples are taken at every multiple of `every`.
    pub fn new(every: Nanos) -> SmoothedRtt {
        SmoothedRtt { every: every.get().max(1), last: None, sum: 0, samples: 0 }
    }

    /// New data was acknowledged; `smoothed` is the new smoothed round-trip time.
    #[inline]
    pub fn acknowledged(&mut self, now: Instant, smoothed: Nanos) {
        // A change at the very time of a sample belongs to that sample.
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

    /// The mean of all samples until `end`, in seconds, and their number; none without samples.
    pub fn mean(&self, end: Instant) -> Option<(f64, u64)> {
        let mut all = self.clone();
        let last = all.last.take().filter(|&(interval, _)| interval * self.every <= end.get());
        all.count(last);
        (all.samples > 0).then(|| (all.sum as f64 / all.samples as f64 / 1e9, all.samples))
    }

    /// The same minus the delay of the way back: the published "one-way delay", in seconds.
    pub fn mean_minus(&self, back: Nanos, end: Instant) -> Option<f64> {
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
        let over = |took: u64| Transfer { began: at(100), packets: 1, ended: Some(at(100 + took)), acknowledged: true };
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
    fn unfinished_transfers_count_only_on_request() {
        let open = |heard| Transfer { began: at(100), packets: 9, ended: None, acknowledged: heard };
        let (mut with, mut without) = (FlowTimes::default(), FlowTimes::default());
        with.add(&[open(true), open(false)], at(350), true);
        without.add(&[open(true), open(false)], at(350), false);
        assert_eq!((with.count(), without.count()), ((1, 1), (0, 0)));
        assert_eq!(with.quantile(0.999), Some(Nanos::millis(250)));
    }

    #[test]
    fn srtt_minus_75_metric() {
        let mut seen = SmoothedRtt::new(SmoothedRtt::EVERY);
        // Of two changes in one interval the later is sampled; a change at 10 ms belongs to the sample at 10 ms; without a change there is no sample.
        for (when, smoothed) in [(1, 150), (4, 160), (7, 200), (10, 170), (31, 150), (37, 999)] {
            seen.acknowledged(at(when), Nanos::millis(smoothed));
        }
        // Samples at 5, 10 and 35 ms: 160, 170, 150. The sample at 40 ms is after the end.
        assert_eq!(seen.mean(at(38)), Some((0.16, 3)));
        let delay = seen.mean_minus(Nanos::millis(75), at(38)).unwrap();
        assert!((delay - 0.085).abs() < 1e-12);
        assert_eq!(SmoothedRtt::new(SmoothedRtt::EVERY).mean(at(9)), None);
    }
}
