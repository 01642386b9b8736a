//! Durations: a histogram with a resolution of a thousandth, with exact mean and extremes.

use hdrhistogram::Histogram;
use std::collections::BTreeMap;

/// The longest distinguishable time: 1000 s.
const LONGEST: u64 = 1_000_000_000_000;

/// Times in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct DurationHistogram {
    histogram: Histogram<u64>,
    sum: u128,
    least: u64,
    most: u64,
}

impl DurationHistogram {
    pub fn new() -> DurationHistogram {
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
        DurationHistogram { histogram, sum: 0, least: u64::MAX, most: 0 }
    }

    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.sum += u128::from(nanos);
        self.least = self.least.min(nanos);
        self.most = self.most.max(nanos);
    }

    pub fn add(&mut self, other: &DurationHistogram) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// The mean in nanoseconds; none without samples.
    pub fn mean(&self) -> Option<f64> {
        let count = self.histogram.len();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The same with the 95th percentile, which is usual for networks.
    pub fn report_with_p95(&self, name: &str, values: &mut BTreeMap<String, f64>) {
        self.report(name, values);
        if !self.histogram.is_empty() {
            let micros = self.histogram.value_at_quantile(0.95).clamp(self.least, self.most) as f64 / 1e3;
            values.insert(format!("{name}_p95_us"), micros);
        }
    }

    /// Adds values in microseconds whose names begin with `name`; none without samples.
    pub fn report(&self, name: &str, values: &mut BTreeMap<String, f64>) {
        let count = self.histogram.len();
        if count == 0 {
            return;
        }
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let mut put = |key: &str, value: f64| _ = values.insert(format!("{name}_{key}_us"), value);
        put("mean", self.sum as f64 / count as f64 / 1e3);
        put("min", micros(self.least));
        for (key, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            put(key, micros(self.histogram.value_at_quantile(quantile).clamp(self.least, self.most)));
        }
        put("max", micros(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_extremes_are_exact_and_quantiles_are_within_a_thousandth() {
        let (mut all, mut half) = (DurationHistogram::new(), DurationHistogram::new());
        (1..=1000u64).for_each(|n| if n % 2 == 0 { &mut all } else { &mut half }.record(n * 1_234_567));
        all.add(&half);
        let mut values = BTreeMap::new();
        all.report("x", &mut values);
        assert_eq!((values["x_min_us"], values["x_max_us"]), (1234.567, 1_234_567.0));
        assert_eq!(values["x_mean_us"], 1234.567 * 500.5);
        assert!((values["x_p90_us"] / (1234.567 * 900.0) - 1.0).abs() < 0.001);
        let mut none = BTreeMap::new();
        DurationHistogram::new().report("x", &mut none);
        assert!(none.is_empty());
    }
}
