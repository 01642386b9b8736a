//! Histograms of round-trip times: one for each side of each circuit, which workers fill and the control side reads.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use units::Nanos;

/// The number of buckets.
const BUCKETS: usize = 32;

/// The first time of each bucket and the end of the last, in microseconds. From the second one to the last they cover 0.143 ms to 10 s in equal steps of
/// the logarithm, each 1.43 times the one before. The first has all shorter times; longer ones are counted in the last.
const BOUNDS: [u32; BUCKETS + 1] = [
    0, 143, 205, 294, 422, 604, 866, 1241, 1778, 2548, 3652, 5233, 7499, 10746, 15399, 22067, 31623, 45316, 64938,
    93057, 133352, 191095, 273842, 392419, 562341, 805842, 1154782, 1654817, 2371374, 3398208, 4869675, 6978306,
    10000000,
];

/// The most samples that a mean remembers. A mean of 16 bits would not move by less than a 256th of the difference.
const MEMORY: i32 = 256;

/// A bucket of a histogram. It is stored in one word, so that a sample is one atomic change: the weight of the bucket's times in the upper 16 bits, their
/// mean in the lower ones. The mean counts 65536ths of the bucket's width.
#[derive(Clone, Copy, Default)]
struct Bucket {
    weight: u16,
    mean: u16,
}

impl Bucket {
    fn of(word: u32) -> Bucket {
        Bucket { weight: (word >> 16) as u16, mean: word as u16 }
    }

    fn word(self) -> u32 {
        u32::from(self.weight) << 16 | u32::from(self.mean)
    }

    /// With one more time at this place in the bucket.
    #[inline(always)]
    fn with(self, place: u16) -> Bucket {
        let weight = self.weight.saturating_add(1);
        let (mean, place) = (i32::from(self.mean), i32::from(place));
        // Between the two, so it has 16 bits.
        Bucket { weight, mean: (mean + (place - mean) / i32::from(weight).min(MEMORY)) as u16 }
    }

    fn halved(self) -> Bucket {
        Bucket { weight: self.weight / 2, ..self }
    }
}

/// The bucket of a time, and its place in the bucket.
#[inline(always)]
fn place_of(time: Nanos) -> (usize, u16) {
    let micros = u32::try_from(time.get() / 1000).unwrap_or(u32::MAX);
    let bucket = BOUNDS[1..BUCKETS].partition_point(|end| *end <= micros);
    let (start, end) = (u64::from(BOUNDS[bucket]), u64::from(BOUNDS[bucket + 1]));
    let nanos = time.get().saturating_sub(start * 1000);
    let place = (nanos << 16) / ((end - start) * 1000);
    (bucket, place.min(u16::MAX.into()) as u16)
}

/// The cells of a histogram. Several workers may record at the same time.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct RttCells([AtomicU32; BUCKETS]);

const _: () = assert!(size_of::<RttCells>() == 128, "there are two for each of 100,000 circuits");

impl RttCells {
    /// Records a time.
    #[inline]
    pub fn record(&self, time: Nanos) {
        let (bucket, place) = place_of(time);
        let cell = &self.0[bucket];
        if Bucket::of(cell.load(Relaxed)).weight == u16::MAX {
            self.halve();
        }
        change(cell, |bucket| bucket.with(place));
    }

    /// Halves the weight of all times so far, rounding down.
    pub fn halve(&self) {
        // Most buckets are empty, and a load is cheaper than an atomic change.
        self.0.iter().filter(|cell| cell.load(Relaxed) != 0).for_each(|cell| change(cell, Bucket::halved));
    }

    /// Forgets all times.
    pub fn clear(&self) {
        self.0.iter().for_each(|cell| cell.store(0, Relaxed));
    }

    /// The histogram at present.
    pub fn load(&self) -> RttHistogram {
        let mut histogram = RttHistogram::default();
        for (at, cell) in self.0.iter().enumerate() {
            let Bucket { weight, mean } = Bucket::of(cell.load(Relaxed));
            (histogram.weights[at], histogram.means[at]) = (weight.into(), mean);
        }
        histogram
    }
}

#[inline(always)]
fn change(cell: &AtomicU32, new: impl Fn(Bucket) -> Bucket) {
    // Never refused: the closure always has a result.
    let _ = cell.fetch_update(Relaxed, Relaxed, |word| Some(new(Bucket::of(word)).word()));
}

/// Round-trip times up to 10 s on a logarithmic scale, read from the cells that workers fill. Old times fade: each weight is halved from time to time,
/// and when a bucket is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttHistogram {
    weights: [u32; BUCKETS],
    means: [u16; BUCKETS],
}

impl RttHistogram {
    /// The weight of its times.
    pub fn weight(&self) -> u64 {
        self.weights.iter().copied().map(u64::from).sum()
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &RttHistogram) {
        for (at, (&weight, &mean)) in other.weights.iter().zip(&other.means).enumerate() {
            let (own, sum) = (self.weights[at], u64::from(self.weights[at]) + u64::from(weight));
            let total = u64::from(own) * u64::from(self.means[at]) + u64::from(weight) * u64::from(mean);
            if let Some(mean) = total.checked_div(sum) {
                // No more than the larger of the two.
                (self.weights[at], self.means[at]) = (sum.min(u32::MAX.into()) as u32, mean as u16);
            }
        }
    }

    /// The quantile, in thousandths: the mean of the times in its bucket. So it is exact where all of them are equal, and otherwise at most 43 % from the
    /// exact one within 0.1 ms to 10 s. `None` without times.
    pub fn quantile(&self, thousandths: u32) -> Option<Nanos> {
        let rank = (self.weight() * u64::from(thousandths.min(1000))).div_ceil(1000).max(1);
        let mut below = 0;
        let bucket = self.weights.iter().position(|weight| {
            below += u64::from(*weight);
            below >= rank
        })?;
        let (start, end) = (u64::from(BOUNDS[bucket]) * 1000, u64::from(BOUNDS[bucket + 1]) * 1000);
        Some(Nanos::new(start + (((end - start) * u64::from(self.means[bucket])) >> 16)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(times: impl IntoIterator<Item = Nanos>) -> RttHistogram {
        let cells = RttCells::default();
        times.into_iter().for_each(|time| cells.record(time));
        cells.load()
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_bucket_of_the_exact_ones(
            mut micros in proptest::collection::vec((2.0..7.0f64).prop_map(|exponent| 10f64.powf(exponent) as u64), 1..300),
            thousandths in 0u32..=1000,
        ) {
            let histogram = histogram(micros.iter().map(|time| Nanos::micros(*time)));
            micros.sort_unstable();
            let rank = (micros.len() * thousandths as usize).div_ceil(1000).max(1);
            let (exact, found) = (micros[rank - 1] as f64, histogram.quantile(thousandths).unwrap().get() as f64 / 1000.0);
            prop_assert!(found <= exact * 1.44 && found >= exact / 1.44, "{} instead of {}", found, exact);
        }

        #[test]
        fn quantiles_of_equal_times_are_exact(time in 1_000u64..9_000_000_000, count in 1usize..2000) {
            let found = histogram(std::iter::repeat_n(Nanos::new(time), count)).quantile(500).unwrap().get();
            // A 65536th of the bucket's width, which is at most 43 % of the time, and for the first bucket 143 us.
            prop_assert!(found <= time && time - found <= time / 100_000 + 3000, "{} instead of {}", found, time);
        }

        #[test]
        fn merged_histogram_is_that_of_all_times(
            micros in proptest::collection::vec(proptest::collection::vec(1u64..10_000_000, 0..40), 1..8),
            thousandths in 0u32..=1000,
        ) {
            let one = |micros: &Vec<u64>| histogram(micros.iter().map(|time| Nanos::micros(*time)));
            let mut merged = RttHistogram::default();
            micros.iter().for_each(|times| merged.merge(&one(times)));
            let all = one(&micros.concat());
            prop_assert_eq!(merged.weights, all.weights);
            let (merged, all) = (merged.quantile(thousandths), all.quantile(thousandths));
            let apart = merged.unwrap_or_default().get().abs_diff(all.unwrap_or_default().get());
            prop_assert!(apart <= all.unwrap_or_default().get() / 100 + 3000, "{:?} instead of {:?}", merged, all);
        }
    }

    #[test]
    fn halved_histogram_forgets_old_times() {
        let cells = RttCells::default();
        assert_eq!(cells.load().quantile(500), None);
        (0..1000).for_each(|_| cells.record(Nanos::millis(200)));
        (0..3).for_each(|_| cells.halve());
        assert_eq!(cells.load().weight(), 125);
        (0..126).for_each(|_| cells.record(Nanos::millis(20)));
        assert_eq!(cells.load().quantile(500).unwrap().get() / 100_000, 199);
        (0..10).for_each(|_| cells.halve());
        assert_eq!((cells.load().weight(), cells.load().quantile(500)), (0, None));
    }

    #[test]
    fn mean_of_a_bucket_follows_new_times() {
        let cells = RttCells::default();
        (0..60_000).for_each(|_| cells.record(Nanos::micros(16_000)));
        (0..2_000).for_each(|_| cells.record(Nanos::micros(21_000)));
        let found = cells.load().quantile(500).unwrap().get();
        assert!(found.abs_diff(21_000_000) < 100_000, "{found}");
    }

    #[test]
    fn full_buckets_lose_weight_and_keep_proportions() {
        let cells = RttCells::default();
        for _ in 0..100_000 {
            cells.record(Nanos::millis(5));
            cells.record(Nanos::secs(60));
        }
        let histogram = cells.load();
        assert!(histogram.weight() > 60_000);
        assert!(histogram.quantile(250).unwrap() < Nanos::millis(6));
        assert!(histogram.quantile(750).unwrap() > Nanos::secs(9));
        let mut sum = histogram;
        sum.merge(&histogram);
        assert!(sum.weight() == 2 * histogram.weight() && sum.quantile(499) == histogram.quantile(499));
    }
}
