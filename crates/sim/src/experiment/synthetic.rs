//! Made-up measurements, in worlds that differ as much as measurements can. Claims are tried on them.

use super::runner::CompletedRun;
use crate::digest::digest;

/// Values with this prefix are not measurements. They follow from the code or the model alone, and are equal in all worlds.
const INPUT: &str = "input.";
/// The number of names that a pattern is assumed to match.
const NAMES: usize = 2;

/// A world of made-up measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum SyntheticWorld {
    /// All measured values are this number.
    Constant(f64),
    /// Values are scattered by this seed, from a thousandth of a millionth to a thousand million.
    Scattered(u64),
    /// Values are scattered by this seed, within a tenth of this number.
    Around(f64, u64),
}

impl SyntheticWorld {
    /// The worlds in which claims are judged, the most informative first. All numbers are above zero.
    pub(super) fn worlds() -> impl Iterator<Item = SyntheticWorld> {
        let scattered = (0..12).map(SyntheticWorld::Scattered);
        let levels = || [1.0, 1e-6, 1e-3, 0.5, 3.0, 10.0, 1e2, 1e4, 1e6, 1e9];
        let near = levels().into_iter().zip(20..).map(|(level, seed)| SyntheticWorld::Around(level, seed));
        scattered.chain(levels().map(SyntheticWorld::Constant)).chain(near)
    }

    /// A value of a run by its name; of several under one name the one at index `at`.
    pub(super) fn number(&self, run: &CompletedRun, name: &str, at: usize) -> f64 {
        let of = |seed: u64| {
            let parameters = run.parameters.iter().map(|(name, value)| format!("{name}={value};")).collect::<String>();
            let hash = digest(format!("{seed} {name} {at} {parameters}").as_bytes());
            // FNV leaves the last characters in the low bits. This step mixes them into the high bits.
            (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / u64::MAX as f64
        };
        match *self {
            _ if name.starts_with(INPUT) => 1.0 + digest(name.as_bytes()) as f64 / u64::MAX as f64,
            SyntheticWorld::Constant(level) => level,
            SyntheticWorld::Scattered(seed) => libm::exp10(18.0 * of(seed) - 9.0),
            SyntheticWorld::Around(level, seed) => level * (0.9 + 0.2 * of(seed)),
        }
    }

    /// Samples or a series: two to nine numbers depending on the world, because their count is a measurement too.
    pub(super) fn list(&self, run: &CompletedRun, name: &str) -> Vec<f64> {
        let length = 2 + digest(format!("{self:?}").as_bytes()) % 8;
        (0..length as usize).map(|at| self.number(run, name, at)).collect()
    }

    /// The values whose names match a pattern.
    pub(super) fn matching_values(&self, run: &CompletedRun, pattern: &str) -> Vec<f64> {
        let names = if pattern.contains('*') { NAMES } else { 1 };
        (0..names).map(|at| self.number(run, pattern, at)).collect()
    }
}
