//! Claims that cannot fail are refused when an experiment is read. Each claim is judged with made-up measurements, in worlds that differ as much as
//! measurements can. A claim with the same verdict in all of them depends on no measurement.

use super::agreement::Agreement;
use super::expression::{Evaluator, ExpressionValue};
use super::file::Claim;
use super::parameters::{ParameterValue, Parameters};
use super::report::{Common, judge};
use super::runner::CompletedRun;
use super::synthetic::SyntheticWorld;
use std::sync::Arc;

/// Shortens a sweep like `1..74`: claims about many seeds are tried on three.
pub(super) fn shorten_sweep(values: &mut [ParameterValue]) {
    for value in values {
        if let ParameterValue::Text(text) = value
            && let Some((from, to)) = text.split_once("..")
            && let (Ok(from), Ok(to)) = (from.parse::<u32>(), to.parse::<u32>())
        {
            *text = format!("{from}..{}", to.min(from.saturating_add(2)));
        }
    }
}

/// Checks the claims of runs with these parameters. The error names the first claim that cannot fail, with advice.
pub(super) fn check_falsifiable(claims: &[Claim], runs: Vec<Parameters>) -> Result<(), String> {
    let runs: Vec<Arc<CompletedRun>> = runs
        .into_iter()
        .map(|parameters| Arc::new(CompletedRun { parameters, measured: Default::default() }))
        .collect();
    let common = Common::of(&runs);
    for claim in claims.iter().filter(|claim| claim.holds.is_some() || claim.tolerance.is_some()) {
        let decides = claim.filter.as_ref().is_none_or(|filter| {
            let evaluator = Evaluator::with_synthetic(SyntheticWorld::Constant(1.0));
            evaluator.evaluate(filter, &runs, &common.0, &[]) != Ok(ExpressionValue::Flag(false))
        });
        if decides {
            check_claim(claim, &runs, &common).map_err(|why| format!("claim `{}`: {why}", claim.id))?;
        }
    }
    Ok(())
}

fn check_claim(claim: &Claim, runs: &[Arc<CompletedRun>], common: &Common) -> Result<(), String> {
    let verdict = |world| {
        let evaluator = Evaluator::with_synthetic(world);
        // Evaluation errors are ignored here; the report shows them with the real measurements.
        let measured = evaluator.evaluate(&claim.measured, runs, &common.0, &[]).ok()?;
        let verdict = judge(&evaluator, claim, &measured, runs, common).ok()?;
        Some((format!("{measured:?}"), verdict))
    };
    let (mut first, mut varies, mut fails) = (None, false, false);
    for world in SyntheticWorld::worlds() {
        let Some((measured, verdict)) = verdict(world) else { continue };
        varies |= *first.get_or_insert_with(|| measured.clone()) != measured;
        fails |= verdict == Agreement::NotReproduced;
        if varies && fails {
            return Ok(());
        }
    }
    let advice = "Remove `holds` and `tolerance` to report the figure without a claim, or write a claim that can fail.";
    match first {
        // No world could be evaluated; the report shows the error.
        None => Ok(()),
        Some(_) if !varies => Err(format!("`measured` does not depend on any measurement. {advice}")),
        // For a count, "more than zero" can fail: the world of all zeros refutes it. For a ratio or a time it cannot fail.
        Some(_)
            if claim.digits == Some(0)
                && verdict(SyntheticWorld::Constant(0.0)).is_some_and(|(_, v)| v == Agreement::NotReproduced) =>
        {
            Ok(())
        }
        Some(_) => Err(format!("it holds for every measurement. {advice}")),
    }
}
