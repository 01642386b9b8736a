//! Experiments with slices on real packets: worlds whose hosts are network namespaces ([`network`]), and the packet rates of a fast path and of a slow
//! path ([`rates`]).

mod network;
mod rates;
mod slow_path;
mod traffic;

use crate::bench::io::require_kernel;
use anyhow::{Context, Result};
use io::netns::Lab;
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use sim::forwarders::ForwardersPlan;
use sim::{Measurements, WorldPlan};
use std::thread;

/// Carries out such experiments, one run after the other.
pub struct RealSlices;

impl RealSlices {
    /// Checks that this machine can run them; `measures` are the kinds of the runs.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub fn new(measures: impl IntoIterator<Item = RunKind>) -> Result<RealSlices> {
        drop(Lab::new().context("real packets need network namespaces: run it as root")?);
        if measures.into_iter().any(|measures| measures == RunKind::Forwarders) {
            require_kernel("reproduce slices --real")?;
        }
        Ok(RealSlices)
    }

    /// True if a run is one of them.
    pub fn supports(job: &Job) -> bool {
        match job.measures {
            RunKind::Forwarders => true,
            RunKind::World => {
                let world = WorldPlan::parse(&job.world, &job.file);
                world.is_ok_and(|world| world.routers.iter().any(|router| !router.slices.1.is_empty()))
            }
            _ => false,
        }
    }
}

impl Runner for RealSlices {
    fn name(&self) -> &str {
        "on real packets"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let run = || {
            let measured = if job.measures == RunKind::Forwarders {
                rates::measure(&ForwardersPlan::read(&job.world, &job.file)?)
            } else {
                let world = WorldPlan::parse(&job.world, &job.file).map_err(|wrong| wrong.render(false))?;
                network::run(&world)
            };
            measured.map_err(|error| format!("{error:#}"))
        };
        // A thread of its own: a run leaves it on one processor.
        thread::scope(|scope| scope.spawn(run).join()).map_err(|_| "a thread panicked".to_owned())?
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let most = |name: &str| runs.iter().filter_map(|run| run.measured.get(name)).fold(0.0, f64::max);
        let has = |name: &str| runs.iter().any(|run| run.measured.get(name).is_some());
        if has("max_pps") {
            return vec![
                "one processor for the router, the other one for the generator and for the kernel's reception of its packets"
                    .to_owned(),
            ];
        }
        let mut remarks = vec![
            "UDP packets of the kernel on virtual Ethernet cables, hosts and router in network namespaces of this machine"
                .to_owned(),
            format!("the latest packet left its source {:.1} ms late", most("real.late_max_us") / 1e3),
        ];
        let lost = most("real.kernel_lost");
        if lost > 0.0 {
            remarks.push(format!("the kernel lost {lost:.0} packets between the hosts and the router"));
        }
        remarks
    }
}

#[cfg(test)]
mod tests;
