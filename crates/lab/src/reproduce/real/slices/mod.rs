//! Experiments with slices on real packets: worlds whose hosts are network namespaces ([`network`]), and the packet rates of a fast path and of a slow
//! path ([`rates`]).

mod click;
mod network;
mod rates;
mod slow_path;
mod traffic;

use crate::bench::io::require_kernel;
use anyhow::{Context, Result, anyhow};
use click::ClickProgram;
use io::netns::Lab;
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use sim::forwarders::ForwardersPlan;
use sim::{Measurements, WorldPlan};
use std::env;
use std::path::Path;
use std::thread;

/// Carries out such experiments, one run after the other.
pub struct RealSlices {
    /// The Click modular router, or the reason why there is none.
    click: Result<ClickProgram, String>,
}

impl RealSlices {
    /// Checks that this machine can run them; `measures` are the kinds of the runs. `click` is the Click modular router, if it is not to be searched
    /// in PATH.
    ///
    /// # Errors
    ///
    /// Why it cannot, or why the file `click` is not that router.
    pub fn new(measures: impl IntoIterator<Item = RunKind>, click: Option<&Path>) -> Result<RealSlices> {
        drop(Lab::new().context("real packets need network namespaces: run it as root")?);
        if measures.into_iter().any(|measures| measures == RunKind::Forwarders) {
            require_kernel("reproduce slices --real")?;
        }
        let click = match click {
            Some(file) => Ok(ClickProgram::in_file(file).map_err(|why| anyhow!("--click: {why}"))?),
            None => ClickProgram::installed(&env::var_os("PATH").unwrap_or_default()),
        };
        Ok(RealSlices { click })
    }

    /// Removes the runs that need Click if there is none. Returns a remark about it for the report.
    pub fn skip_missing(&self, jobs: &mut Vec<Job>) -> Option<String> {
        let why = self.click.as_ref().err()?;
        let needs_click = |job: &mut Job| {
            job.measures == RunKind::Forwarders
                && ForwardersPlan::read(&job.world, &job.file).is_ok_and(|plan| plan.router.is_click())
        };
        let skipped = jobs.extract_if(.., needs_click).count() > 0;
        skipped
            .then(|| format!("skipped Click: {why}; install the Click modular router, or give its program as --click"))
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
                rates::measure(&ForwardersPlan::read(&job.world, &job.file)?, self.click.as_ref())
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
            let processors = "one processor for the router, the other one for the generator and for the kernel's reception of its packets";
            let click = self.click.as_ref().ok().map(|click| format!("Click {} runs one thread", click.version));
            return [processors.to_owned()].into_iter().chain(click).collect();
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
