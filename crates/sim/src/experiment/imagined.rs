//! Claims that cannot fail are refused when an experiment is read: each is judged by measurements that are made up, in worlds that differ as
//! far as measurements can. A claim whose verdict is the same in all of them says nothing about what was measured.

use super::agreement::Agreement;
use super::expression::Evaluator;
use super::file::Claim;
use super::parameters::{Parameters, Value};
use super::report::{Common, judge};
use super::runner::{Run, digest};
use std::sync::Arc;

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
    fn worlds() -> impl Iterator<Item = Imagined> {
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

/// The text of a sweep like `1..74`, shortened: what claims say of many seeds they say of three.
pub(super) fn few(values: &mut [Value]) {
    for value in values {
        if let Value::Text(text) = value
            && let Some((from, to)) = text.split_once("..")
            && let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>())
        {
            *text = format!("{from}..{}", to.min(from.saturating_add(2)));
        }
    }
}

/// What is wrong with claims of runs with these parameters: each that cannot fail, with what to do about it.
pub(super) fn refuse(claims: &[Claim], runs: Vec<Parameters>) -> Result<(), String> {
    let runs: Vec<Arc<Run>> =
        runs.into_iter().map(|parameters| Arc::new(Run { parameters, measured: Default::default() })).collect();
    let common = Common::of(&runs);
    for claim in claims.iter().filter(|claim| claim.holds.is_some() || claim.tolerance.is_some()) {
        let decides = claim.filter.as_ref().is_none_or(|filter| {
            let evaluator = Evaluator::imagining(Imagined::Alike(1.0));
            evaluator.evaluate(filter, &runs, &common.0, &[]) != Ok(super::expression::Answer::Flag(false))
        });
        if decides {
            can_fail(claim, &runs, &common).map_err(|why| format!("claim `{}`: {why}", claim.id))?;
        }
    }
    Ok(())
}

fn can_fail(claim: &Claim, runs: &[Arc<Run>], common: &Common) -> Result<(), String> {
    let verdict = |world| {
        let evaluator = Evaluator::imagining(world);
        // What cannot be evaluated is an error of the report, where what was measured is known.
        let measured = evaluator.evaluate(&claim.measured, runs, &common.0, &[]).ok()?;
        let verdict = judge(&evaluator, claim, &measured, runs, common).ok()?;
        Some((format!("{measured:?}"), verdict))
    };
    let (mut first, mut varies, mut fails) = (None, false, false);
    for world in Imagined::worlds() {
        let Some((measured, verdict)) = verdict(world) else { continue };
        varies |= *first.get_or_insert_with(|| measured.clone()) != measured;
        fails |= verdict == Agreement::NotReproduced;
        if varies && fails {
            return Ok(());
        }
    }
    let advice =
        "Leave out `holds` and `tolerance` to report the figure without a claim, or claim what could turn out false.";
    match first {
        // Nothing could be evaluated.
        None => Ok(()),
        Some(_) if !varies => Err(format!("`measured` does not depend on what is measured. {advice}")),
        // Of something counted, that there is any is a claim; of a ratio or a time it is none.
        Some(_)
            if claim.digits == Some(0)
                && verdict(Imagined::Alike(0.0)).is_some_and(|(_, v)| v == Agreement::NotReproduced) =>
        {
            Ok(())
        }
        Some(_) => Err(format!("it holds whatever is measured. {advice}")),
    }
}
