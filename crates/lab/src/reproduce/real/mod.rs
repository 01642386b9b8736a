//! `reproduce --real`: runs on real packets. Cables of a laboratory replace the links of a world, and two threads on processors of their own replace
//! its virtual time ([`sim::real`]).

mod cabling;
mod costs;
mod hosts;
mod slices;
mod slowdown;
mod state;

pub use costs::RealCosts;
pub use hosts::RealHosts;
pub use slices::RealSlices;
pub use state::{RealProcessor, RealState};

use crate::bench::{function_costs, path_costs, scheme_costs};
use anyhow::{Context, Result, bail};
use cabling::{Cabling, MachineClock};
use io::cores;
use io::thread_priority::RealtimePriority;
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use sim::real::RealRun;
use sim::{Measurements, NoCaptures, RunError, WorldPlan};
use slowdown::ForwardingCosts;
use std::sync::{Arc, Mutex};
use std::thread;

/// Attempts per run: a run in which the kernel lost packets by itself is repeated.
const ATTEMPTS: usize = 3;
/// Measurements of a cost, of which the median is reported.
const MEASURED: usize = 3;

/// Carries out runs on real packets.
pub struct RealPackets {
    cabling: Mutex<Cabling>,
    clock: Arc<MachineClock>,
    /// The router's processor, and the hosts'.
    processors: (u16, u16),
    slower: Option<u64>,
    costs: ForwardingCosts,
}

impl RealPackets {
    /// Runs `slower` times slower than real time, or as slow as this machine requires.
    ///
    /// # Errors
    ///
    /// Why this machine cannot do it, and what to do about it.
    pub fn new(slower: Option<u64>) -> Result<RealPackets> {
        let allowed = cores::allowed()?;
        let (Some(&stations), Some(&router)) = (allowed.first(), allowed.last()) else {
            bail!("there is no processor")
        };
        if stations == router {
            bail!(
                "real packets need two processors, one for the router and one for sources and sinks; this process has one"
            );
        }
        let cabling = Cabling::new().context("real packets need network namespaces: run it as root")?;
        let (cabling, clock) = (Mutex::new(cabling), Arc::new(MachineClock::calibrated()));
        let processors = (router, stations);
        let mut real = RealPackets { cabling, clock, processors, slower, costs: ForwardingCosts::default() };
        real.costs = slowdown::measure(|world, slower| real.run_once(world, slower).map_err(|error| error.to_string()))
            .map_err(anyhow::Error::msg)
            .context("measuring the cost of packets on this machine")?;
        eprintln!("switchpath: cost of a packet on this machine: {}", real.costs);
        Ok(real)
    }

    /// Runs a world once.
    pub fn run_once(&self, world: &WorldPlan, slower: u64) -> Result<Measurements, RunError> {
        let wrong = |error: anyhow::Error| RunError::Real(format!("{error:#}"));
        let mut cabling = self.cabling.lock().map_err(|_| RunError::Real("an earlier run failed".into()))?;
        let cables = cabling.cables(world.cards.len()).map_err(wrong)?;
        let (course, mut stations) = RealRun::new(world, &mut NoCaptures, slower, self.clock.clone(), cables)?;
        let mut course = course;
        let (router, far) = self.processors;
        thread::scope(|scope| {
            // The thread must start in any case: the other one waits for it.
            let stations = scope.spawn(move || {
                let pinned = cores::pin(far);
                let _first = RealtimePriority::acquire();
                stations.run();
                pinned.map(|()| stations)
            });
            let course = scope.spawn(move || {
                let pinned = cores::pin(router);
                // Without permission for a real-time priority the run continues, but stalls more often.
                let _first = RealtimePriority::acquire();
                let done = course.run(&mut |_| {});
                pinned.map_err(|error| RunError::Real(error.to_string())).and(done).map(|()| course)
            });
            let gone = |_| RunError::Real("a thread of it panicked".into());
            let course = course.join().map_err(gone);
            let stations = stations.join().map_err(gone)?.map_err(|error| RunError::Real(error.to_string()))?;
            course??.finish(stations)
        })
    }

    /// The smallest factor by which a world has to run slower here; one if this machine is fast enough.
    pub fn at_least(&self, world: &WorldPlan) -> u64 {
        self.slower.unwrap_or_else(|| self.costs.at_least(world))
    }

    /// The costs of functions or schemes on the router's processor.
    fn costs(&self, measures: RunKind) -> Result<Measurements, String> {
        let router = self.processors.0;
        let costs = move || {
            cores::pin(router).map(|()| match measures {
                RunKind::Schemes => scheme_costs(MEASURED).into_iter().chain(path_costs(MEASURED)).collect(),
                _ => function_costs(MEASURED),
            })
        };
        let costs = thread::spawn(costs).join().map_err(|_| "a thread panicked".to_owned())?;
        Ok(Measurements { values: costs.map_err(|error| error.to_string())?, ..Measurements::default() })
    }

    /// Repeats a run until the kernel loses no packets by itself.
    fn run_with_retries(&self, world: &WorldPlan, slower: u64) -> Result<Measurements, String> {
        let mut lost = 0.0;
        for _ in 0..ATTEMPTS {
            let measured = self.run_once(world, slower).map_err(|error| error.to_string())?;
            lost = measured.get("real.kernel_lost").unwrap_or(0.0);
            if lost == 0.0 {
                return Ok(measured);
            }
        }
        Err(format!("the kernel lost packets in {ATTEMPTS} attempts, {lost} in the last one; use a higher --slower"))
    }
}

impl Runner for RealPackets {
    fn name(&self) -> &str {
        "on real packets"
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        if matches!(job.measures, RunKind::Functions | RunKind::Schemes) {
            return self.costs(job.measures);
        }
        let world = WorldPlan::parse(&job.world, &job.file).map_err(|wrong| wrong.render(false))?;
        let slower = self.slower.unwrap_or_else(|| self.costs.slowdown(&world));
        self.run_with_retries(&world, slower)
    }

    fn is_real(&self) -> bool {
        true
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let of = |name: &str| -> Vec<f64> { runs.iter().filter_map(|run| run.measured.get(name)).collect() };
        let most = |name: &str| of(name).into_iter().fold(0.0, f64::max);
        let mean = |name: &str| of(name).iter().sum::<f64>() / of(name).len().max(1) as f64;
        let slower = of("real.slower");
        if slower.is_empty() {
            return vec![format!("on this machine's processor, medians of {MEASURED}")];
        }
        let least = slower.iter().copied().fold(f64::INFINITY, f64::min);
        vec![
            format!("on real packets, {least:.0} to {:.0} times slower than the world", most("real.slower")),
            format!(
                "work exceeded the cost in the world in {:.2} % of laps, {:.2} % of the time (at most {:.2} %); other \
                 programs stopped the world's clock for {:.1} % of the time",
                mean("real.dearer_laps") * 100.0,
                mean("real.excess") * 100.0,
                most("real.excess") * 100.0,
                mean("real.stood_still") * 100.0
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
