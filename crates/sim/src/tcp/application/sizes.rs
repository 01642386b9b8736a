//! The sizes of transfers in the Internet: an ascending table of 100,001 sizes, from which one is drawn uniformly. The table of the literature is a
//! file of measurements (Allman, "Comments on Bufferbloat", CCR 43(1), 2013). If that file is missing, a table with the same quantiles replaces it.

use crate::random::RandomStream;
use std::sync::Arc;
use units::Bytes;

/// A distribution of sizes.
#[derive(Clone, Debug)]
pub struct FlowSizes(Arc<[u64]>);

/// The number of distinct draws. The last entry of the table is never drawn, as in the experiments that the table comes from.
const DRAWS: usize = 100_000;
/// Quantiles of the measurements: the part of the draws that are larger, and the size. Between two of them sizes follow a Pareto distribution; before
/// the first they are zero.
const QUANTILES: [(f64, f64); 7] = [
    (1.0 - 0.073_94, 1.0),
    (0.5, 542.0),
    (0.1, 14_019.0),
    (0.01, 247_533.0),
    (0.001, 11_944_254.0),
    (0.000_1, 119_593_306.0),
    (0.000_01, TOP),
];
/// The size of the last draw, chosen to match the mean of the measurements.
const TOP: f64 = 2.761e9;
/// The largest size.
const LARGEST: u64 = 3_288_637_712;

impl FlowSizes {
    /// A table made from the quantiles of the measurements. It has the same median, tails, mean (within a thousandth) and number of zeros.
    pub fn fitted() -> FlowSizes {
        let mut sizes: Vec<u64> = (0..DRAWS).map(|n| fitted(1.0 - n as f64 / DRAWS as f64)).collect();
        sizes.push(LARGEST);
        FlowSizes(sizes.into())
    }

    /// Parses a table: one size in bytes per line, ascending. An error names the line.
    pub fn parse(text: &str) -> Result<FlowSizes, String> {
        let mut sizes = Vec::with_capacity(DRAWS + 1);
        for (number, line) in text.lines().enumerate() {
            let size: u64 =
                line.trim().parse().map_err(|_| format!("line {}: '{line}' is no size in bytes", number + 1))?;
            if sizes.last().is_some_and(|&before| before > size) {
                return Err(format!("line {}: the sizes do not ascend", number + 1));
            }
            sizes.push(size);
        }
        if sizes.len() <= DRAWS {
            return Err(format!("{} sizes instead of {}", sizes.len(), DRAWS + 1));
        }
        Ok(FlowSizes(sizes.into()))
    }

    /// Draws the size of a transfer.
    pub(crate) fn draw(&self, chance: &mut RandomStream) -> Bytes {
        Bytes::new(self.0[(chance.unit() * DRAWS as f64) as usize])
    }

    /// The size that this part of the table does not exceed.
    pub fn quantile(&self, part: f64) -> Bytes {
        Bytes::new(self.0[((part * DRAWS as f64) as usize).min(DRAWS)])
    }

    /// The mean of the table.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|&size| size as f64).sum::<f64>() / self.0.len() as f64
    }
}

/// The size that this part of all sizes exceeds.
fn fitted(larger: f64) -> u64 {
    if larger > QUANTILES[0].0 {
        return 0;
    }
    let between = |pair: &[(f64, f64)]| {
        let [(a, from), (b, to)] = [pair[0], pair[1]];
        // The margin allows for rounding, because the quantiles are not exact in binary.
        (larger >= b * (1.0 - 1e-9)).then(|| from * libm::pow(to / from, libm::log(a / larger) / libm::log(a / b)))
    };
    QUANTILES.windows(2).find_map(between).unwrap_or(TOP).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_like_the_measurements(sizes: &FlowSizes, mean: f64) {
        let quantile = |part| sizes.quantile(part).get();
        assert_eq!(
            [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0].map(quantile),
            [542, 14_019, 247_533, 11_944_254, 119_593_306, LARGEST]
        );
        assert!((sizes.mean() / mean - 1.0).abs() < 0.001, "{}", sizes.mean());
        assert_eq!(sizes.0.iter().filter(|&&size| size == 0).count(), 7394);
    }

    #[test]
    fn fitted_sizes_match_measured_quantiles() {
        is_like_the_measurements(&FlowSizes::fitted(), 139_460.0);
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that had nothing to test says so")]
    fn measured_sizes_are_parsed() {
        let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
        let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| beside.into(), std::path::PathBuf::from);
        match std::fs::read_to_string(data.join("links/flowcdf-allman-icsi.txt")) {
            Ok(text) => is_like_the_measurements(&FlowSizes::parse(&text).unwrap(), 139_460.0),
            Err(_) => eprintln!(
                "skipped: no flow sizes; set SWITCHPATH_DATA to a directory with links/flowcdf-allman-icsi.txt"
            ),
        }
    }

    #[test]
    fn invalid_size_table_error_names_line() {
        assert_eq!(FlowSizes::parse("1\nx\n").unwrap_err(), "line 2: 'x' is no size in bytes");
        assert_eq!(FlowSizes::parse("2\n1\n").unwrap_err(), "line 2: the sizes do not ascend");
        assert_eq!(FlowSizes::parse("1\n2\n").unwrap_err(), "2 sizes instead of 100001");
    }
}
