//! Trials of ephemeral state on real packets. The descriptions are the same, but hosts and routers are network namespaces of this machine, packets
//! are the kernel's UDP datagrams, and time is real. Each router is the one that `switchpath run` runs, in this process.

mod cable;
mod group;
mod lifetime;
mod load;
mod network;
mod processor;
mod stalls;
mod subcast;

use anyhow::{Context, Result};
use io::clock;
use io::wait::{Sleeper, Waker};
use sim::Measurements;
use sim::ephemeral::StateTrial;
use sim::experiment::{CompletedRun, Job, RunKind, Runner};
use std::collections::BTreeMap;
use units::Instant;

pub use network::started;
pub use processor::RealProcessor;

/// Measurements by name.
type Values = BTreeMap<String, f64>;

/// Carries out trials on real packets.
pub struct RealState {
    at_once: usize,
}

impl RealState {
    /// Trials in parallel per core: they are idle most of the time.
    pub const ON_A_CORE: usize = 2;

    /// Runs at most `at_once` trials in parallel.
    ///
    /// # Errors
    ///
    /// Why this machine cannot provide a laboratory.
    pub fn new(at_once: usize) -> Result<RealState> {
        drop(io::netns::Lab::new().context("real packets need network namespaces: run it as root")?);
        Ok(RealState { at_once })
    }

    /// True if the runs are trials of this kind.
    pub fn supports(job: &Job) -> bool {
        matches!(job.measures, RunKind::State | RunKind::Laboratory)
    }

    /// True if a run needs this machine for itself: the sender takes packets that other processes delay for lost.
    pub fn needs_machine_alone(job: &Job) -> bool {
        matches!(StateTrial::read(&job.world, &job.file), Ok(StateTrial::Cable(_)))
    }
}

impl Runner for RealState {
    fn name(&self) -> &str {
        "on real packets"
    }

    fn is_real(&self) -> bool {
        true
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        let values = match StateTrial::read(&job.world, &job.file)? {
            StateTrial::Store(plan) => load::run(&plan),
            StateTrial::Subcast(plan) => subcast::run(&plan),
            StateTrial::Group(plan) => group::run(&plan),
            StateTrial::Lifetime(plan) => lifetime::run(&plan),
            StateTrial::Cable(plan) => cable::run(&plan),
            _ => return Err("this trial has no version on real packets; run it without --real".to_owned()),
        };
        let values = values.map_err(|error| format!("{error:#}"))?;
        Ok(Measurements { values, ..Measurements::default() })
    }

    fn remarks(&self, runs: &[CompletedRun]) -> Vec<String> {
        let at_once =
            if self.at_once > 1 { format!("{} runs at a time", self.at_once) } else { "one run at a time".to_owned() };
        let mut remarks =
            vec![format!("packets of the kernel, hosts and routers in network namespaces of this machine, {at_once}")];
        let lost: f64 = runs.iter().filter_map(|run| run.measured.get("real.lost")).sum();
        if lost > 0.0 {
            remarks
                .push(format!("the kernel lost {lost:.0} packets: this machine is too slow for so many parallel runs"));
        }
        remarks
    }
}

/// Sleeps until a point in time.
pub fn sleep_until(at: Instant) -> Result<()> {
    let mut sleeper = Sleeper::new(Waker::new()?);
    while clock::now() < at {
        sleeper.sleep([], at.since(clock::now()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
