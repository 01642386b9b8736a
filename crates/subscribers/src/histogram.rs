//! A histogram of round-trip times in 64 bytes: one for each side of each subscriber.

use units::Nanos;

/// The number of buckets.
const BUCKETS: usize = 32;

/// The first time of each bucket and the end of the last, in microseconds: 0.1 ms to 10 s in equal steps of the logarithm, each 1.43 times the one before.
/// Shorter times are counted in the first bucket, longer ones in the last.
const BOUNDS: [u32; BUCKETS + 1] = [
    100, 143, 205, 294, 422, 604, 866, 1241, 1778, 2548, 3652, 5233, 7499, 10746, 15399, 22067, 31623, 45316, 64938,
    93057, 133352, 191095, 273842, 392419, 562341, 805842, 1154782, 1654817, 2371374, 3398208, 4869675, 6978306,
    10000000,
];

/// Round-trip times from 0.1 ms to 10 s on a logarithmic scale. Old times fade: their weight halves with each [`decay`](RttHistogram::decay), and when a
/// bucket is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttHistogram([u16; BUCKETS]);

const _: () = assert!(size_of::<RttHistogram>() == 64, "there are two for each of 100,000 subscribers");

impl RttHistogram {
    /// Records a time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        let micros = u32::try_from(time.get() / 1000).unwrap_or(u32::MAX);
        let bucket = BOUNDS[1..BUCKETS].partition_point(|end| *end <= micros);
        if self.0[bucket] == u16::MAX {
            self.decay();
        }
        self.0[bucket] += 1;
    }

    /// Halves the weight of all times so far, rounding down.
    pub fn decay(&mut self) {
        self.0.iter_mut().for_each(|times| *times /= 2);
    }

    /// The weight of its times.
    pub fn count(&self) -> u32 {
        self.0.iter().copied().map(u32::from).sum()
    }

    /// Adds the times of another histogram. Halves the weight of both if a bucket would be too full.
    pub fn merge(&mut self, other: &RttHistogram) {
        let sums: [u32; BUCKETS] = std::array::from_fn(|i| u32::from(self.0[i]) + u32::from(other.0[i]));
        let halve = sums.iter().any(|sum| *sum > u32::from(u16::MAX));
        self.0 = sums.map(|sum| (sum >> u32::from(halve)) as u16);
    }

    /// The quantile, in thousandths: at most 43 % from the exact one within 0.1 ms to 10 s, and less where many times lie close together. `None` without times.
    pub fn quantile(&self, thousandths: u32) -> Option<Nanos> {
        let total = u64::from(self.count());
        let rank = (total * u64::from(thousandths.min(1000))).div_ceil(1000).max(1);
        let mut below = 0;
        for (&times, bounds) in self.0.iter().zip(BOUNDS.windows(2)) {
            let times = u64::from(times);
            if below + times >= rank {
                // Linear within the bucket: the first of four times lies after an eighth of it, the last after seven eighths.
                let (start, width) = (u64::from(bounds[0]), u64::from(bounds[1] - bounds[0]));
                return Some(Nanos::micros(start + width * (2 * (rank - below) - 1) / (2 * times)));
            }
            below += times;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_exact_ones(
            mut micros in proptest::collection::vec((2.0..7.0f64).prop_map(|exponent| 10f64.powf(exponent) as u64), 1..300),
            thousandths in 0u32..=1000,
        ) {
            let mut histogram = RttHistogram::default();
            micros.iter().for_each(|time| histogram.record(Nanos::micros(*time)));
            micros.sort_unstable();
            let rank = (micros.len() * thousandths as usize).div_ceil(1000).max(1);
            let (exact, found) = (micros[rank - 1] as f64, histogram.quantile(thousandths).unwrap().get() as f64 / 1000.0);
            prop_assert!(found <= exact * 1.44 && found >= exact / 1.44, "{} instead of {}", found, exact);
        }
    }

    #[test]
    fn decay_halves_old_times() {
        let mut histogram = RttHistogram::default();
        assert_eq!(histogram.quantile(500), None);
        (0..1000).for_each(|_| histogram.record(Nanos::millis(200)));
        (0..3).for_each(|_| histogram.decay());
        assert_eq!(histogram.count(), 125);
        (0..126).for_each(|_| histogram.record(Nanos::millis(20)));
        assert!(histogram.quantile(500).unwrap() < Nanos::millis(23));
        (0..10).for_each(|_| histogram.decay());
        assert_eq!((histogram.count(), histogram.quantile(500)), (0, None));
    }

    #[test]
    fn full_buckets_lose_weight_and_keep_proportions() {
        let mut histogram = RttHistogram::default();
        for _ in 0..100_000 {
            histogram.record(Nanos::millis(5));
            histogram.record(Nanos::secs(60));
        }
        assert!(histogram.count() > 60_000);
        assert!(histogram.quantile(250).unwrap() < Nanos::millis(6));
        assert!(histogram.quantile(750).unwrap() > Nanos::secs(7));
        let mut sum = histogram;
        sum.merge(&histogram);
        assert!(sum.count() >= histogram.count() && sum.quantile(499) == histogram.quantile(499));
    }
}
