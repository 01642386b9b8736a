//! Measurements that are made up, in worlds that differ as far as measurements can: claims are tried on them.

use super::runner::Run;
use crate::digest::digest;

/// Values that begin so are no measurements: they follow from the code or the model alone, and are alike in all worlds.
const INPUT: &str = "input.";
/// How many names a pattern is imagined to stand for.
const NAMES: usize = 2;

/// A world of made-up measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Imagined {
    /// Everything that is measured is this number.
    Alike(f64),
    /// Every number is another, by this seed, from a thousandth of a millionth to a thousand million.
    Scattered(u64),
    /// Every number is another, by this seed, within a tenth of this one.
    Near(f64, u64),
}

impl Imagined {
    /// The worlds in which claims are judged, those that say most first. All numbers are above zero.
    pub(super) fn worlds() -> impl Iterator<Item = Imagined> {
        let scattered = (0..12).map(Imagined::Scattered);
        let levels = || [1.0, 1e-6, 1e-3, 0.5, 3.0, 10.0, 1e2, 1e4, 1e6, 1e9];
        let near = levels().into_iter().zip(20..).map(|(level, seed)| Imagined::Near(level, seed));
        scattered.chain(levels().map(Imagined::Alike)).chain(near)
    }

    /// A number of a run by its name; of several under one name the one at this place.
    pub(super) fn number(&self, run: &Run, name: &str, at: usize) -> f64 {
        let of = |seed: u64| {
            let parameters = run.parameters.iter().map(|(name, value)| format!("{name}={value};")).collect::<String>();
            let hash = digest(format!("{seed} {name} {at} {parameters}").as_bytes());
            // FNV leaves its last letters in the low bits, which are mixed into the high ones.
            (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / u64::MAX as f64
        };
        match *self {
            _ if name.starts_with(INPUT) => 1.0 + digest(name.as_bytes()) as f64 / u64::MAX as f64,
            Imagined::Alike(level) => level,
            Imagined::Scattered(seed) => libm::exp10(18.0 * of(seed) - 9.0),
            Imagined::Near(level, seed) => level * (0.9 + 0.2 * of(seed)),
        }
    }

    /// Samples, or a series: of two to nine numbers, by the world, for how many there are is measured as well.
    pub(super) fn list(&self, run: &Run, name: &str) -> Vec<f64> {
        let length = 2 + digest(format!("{self:?}").as_bytes()) % 8;
        (0..length as usize).map(|at| self.number(run, name, at)).collect()
    }

    /// The values whose names are like a pattern.
    pub(super) fn like(&self, run: &Run, pattern: &str) -> Vec<f64> {
        let names = if pattern.contains('*') { NAMES } else { 1 };
        (0..names).map(|at| self.number(run, pattern, at)).collect()
    }
}
