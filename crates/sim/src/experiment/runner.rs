//! Runners carry out runs: the simulator here, and real packets elsewhere.

use super::data::DataFiles;
use super::file::RunKind;
use super::parameters::Parameters;
use crate::digest::digest;
use crate::{Captures, Measurements, WorldPlan, effort, ephemeral, filters, fluid, quantum, routes, run};
use plan::Guests;
use std::sync::Arc;

/// A completed run.
#[derive(Clone, PartialEq, Debug)]
pub struct CompletedRun {
    /// Its parameters.
    pub parameters: Parameters,
    /// Its measurements.
    pub measured: Measurements,
}

/// A run to carry out.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file of the world, for messages.
    pub file: String,
    /// The world with all parameters substituted. Its line numbers are those of the file.
    pub world: String,
    /// The kind of run; it may have no world.
    pub measures: RunKind,
    /// The parameters.
    pub parameters: Parameters,
}

/// Carries out runs, possibly in several threads at once.
pub trait Runner: Sync {
    /// A short name of the means of measurement.
    fn name(&self) -> &str;

    /// True if it measures real packets, for which claims may differ.
    fn is_real(&self) -> bool {
        false
    }

    /// Remarks about how these runs were carried out, one line each.
    fn remarks(&self, _runs: &[CompletedRun]) -> Vec<String> {
        Vec::new()
    }

    /// A text that determines the result of a run, apart from the program itself. None if the result also depends on other things.
    fn cache_key(&self, _job: &Job) -> Option<String> {
        None
    }

    /// Carries out one run.
    ///
    /// # Errors
    ///
    /// The world is invalid or cannot run; the message has the position.
    fn run(&self, job: &Job) -> Result<Measurements, String>;
}

/// The simulator.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// The source of its routers' guests; none if routers may not have guests.
    pub guests: Option<Arc<dyn Guests>>,
    /// The folders of the files that worlds name.
    pub files: DataFiles,
}

impl Runner for Simulation {
    fn name(&self) -> &str {
        "simulated"
    }

    fn cache_key(&self, job: &Job) -> Option<String> {
        // The code of a guest may have changed.
        if self.guests.is_some() {
            return None;
        }
        use RunKind::{Filters, Fluid, Lines, Quanta, Routes, State};
        if matches!(job.measures, State | Routes | Quanta | Fluid | Filters | Lines) {
            return Some(job.world.clone());
        }
        let world = WorldPlan::parse(&job.world, &job.file).ok()?;
        let mut all = job.world.clone();
        for file in world.files() {
            // A missing file counts as empty here; the run itself reports the error.
            let bytes = self.files.read(file).unwrap_or_default();
            all += &format!("\n# {file} {:016x}", digest(&bytes));
        }
        Some(all)
    }

    fn run(&self, job: &Job) -> Result<Measurements, String> {
        match job.measures {
            RunKind::State => return ephemeral::run(&job.world, &job.file),
            RunKind::Routes => return routes::run(&job.world, &job.file),
            RunKind::Quanta => return quantum::run(&job.world, &job.file),
            RunKind::Fluid => return fluid::run(&job.world, &job.file),
            RunKind::Filters => return filters::run(&job.world, &job.file),
            RunKind::Lines => return effort::run(&job.world, &job.file),
            _ => {}
        }
        self.simulate(job, &mut self.files.clone(), &mut |_| {})
    }
}

impl Simulation {
    /// Simulates the world of a job. `progress` receives the completed part, from 0 to 1.
    ///
    /// # Errors
    ///
    /// The world is invalid, or one of its laws was broken.
    pub fn simulate(
        &self,
        job: &Job,
        captures: &mut dyn Captures,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measurements, String> {
        let world =
            WorldPlan::parse_with(&job.world, &job.file, self.guests.clone()).map_err(|wrong| wrong.render(false))?;
        run(&world, captures, progress).map_err(|error| error.to_string())
    }
}
