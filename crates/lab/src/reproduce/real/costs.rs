//! Trials on this machine's processor in place of virtual time: route lookup, quanta in batches, and calls of guest functions (spec P, F1 and F3 to F7).

use crate::bench::{CallLoad, call_costs, quanta_costs, route_cache_costs};
use io::cores;
use sim::Measurements;
use sim::experiment::{CompletedRun, Job, ParameterValue, RunKind, Runner};
use sim::quantum::QuantaPlan;
use sim::routes::RoutesPlan;
use std::collections::BTreeMap;
use std::thread;

/// Measurements of a look-up, of which the median is reported.
const LOOKUPS: usize = 9;

/// Carries out such trials, one after the other.
pub struct RealCosts;

impl RealCosts {
    /// True if the run is such a trial.
    pub fn supports(job: &Job) -> bool {
        matches!(job.measures, RunKind::Routes | RunKind::Quanta | RunKind::Calls)
    }
}

/// The load of a run with calls, from its parameters.
fn call_load(job: &Job) -> Result<CallLoad, String> {
    let number = |name: &str| match job.parameters.get(name) {
        Some(ParameterValue::Number(number)) if (0.0..=1e4).contains(number) => Ok(*number),
        other => Err(format!("{}: the parameter `{name}` is {other:?}, and not a number from 0 to 10000", job.file)),
    };
    let has_extension = job.parameters.get("function") == Some(&ParameterValue::Text("extension".into()));
    let calls = if has_extension { number("calls")? as usize } else { 0 };
    Ok(CallLoad { share: number("share")?, calls, vector: number("vector")? as usize })
}

fn measure(job: &Job) -> Result<BTreeMap<String, f64>, String> {
    match job.measures {
        RunKind::Routes => Ok(route_cache_costs(&RoutesPlan::read(&job.world, &job.file)?, LOOKUPS)),
        RunKind::Quanta => {
            quanta_costs(&QuantaPlan::read(&job.world, &job.file)?).map_err(|error| format!("{error:#}"))
        }
        _ => call_costs(call_load(job)?).map_err(|error| format!("{error:#}")),
    }
}

impl Runner for RealCosts {
    fn name(&self) -> &str {
        "on this machine's processor"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let job = job.clone();
        let costs = move || {
            // Without permission to pin, the thread stays where the system puts it.
            if let Some(&last) = cores::allowed().ok().as_deref().and_then(<[u16]>::last) {
                cores::pin(last).map_err(|error| error.to_string())?;
            }
            measure(&job)
        };
        let values = thread::spawn(costs).join().map_err(|_| "a thread panicked".to_owned())??;
        Ok(Measurements { values, ..Measurements::default() })
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let has = |name: &str| runs.iter().any(|run| run.measured.get(name).is_some());
        let remark = match () {
            () if has("quantum_ns") => {
                "each a median of 101 measurements of 64 batches, without the preparation of batches"
            }
            () if has("call_ns") => "the router's steps with packets in memory, each a median of 15 measurements",
            () => "look-ups in batches of 256, medians of 9",
        };
        vec![remark.to_owned()]
    }
}
