//! Trials of route lookup on this machine's processor: the router's caches and forwarding table with the packets of virtual time (spec P, F6).

use crate::bench::route_cache_costs;
use io::cores;
use sim::Measurements;
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use sim::routes::RoutesPlan;
use std::thread;

/// Measurements of a cost, of which the median is reported.
const MEASURED: usize = 9;

/// Carries out trials of route lookup, one after the other.
pub struct RealRoutes;

impl RealRoutes {
    /// True if the run is such a trial.
    pub fn supports(job: &Job) -> bool {
        job.measures == RunKind::Routes
    }
}

impl Runner for RealRoutes {
    fn name(&self) -> &str {
        "on this machine's processor"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let trial = RoutesPlan::read(&job.world, &job.file)?;
        let costs = move || {
            // Without permission to pin, the thread stays where the system puts it.
            if let Some(&last) = cores::allowed().ok().as_deref().and_then(<[u16]>::last) {
                cores::pin(last).map_err(|error| error.to_string())?;
            }
            Ok::<_, String>(route_cache_costs(&trial, MEASURED))
        };
        let values = thread::spawn(costs).join().map_err(|_| "a thread panicked".to_owned())??;
        Ok(Measurements { values, ..Measurements::default() })
    }

    fn remarks(&self, _: &[CompletedRun]) -> Vec<String> {
        vec![format!("look-ups in batches of 256, medians of {MEASURED}")]
    }
}
