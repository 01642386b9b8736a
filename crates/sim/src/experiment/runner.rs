//! Who carries out a run: the simulator here, real packets elsewhere.

use super::data::DataFiles;
use super::file::Measures;
use super::parameters::Parameters;
use crate::digest::digest;
use crate::{Captures, Measured, World, ephemeral, run};
use plan::Guests;
use std::sync::Arc;

/// A run that has been carried out.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// What it was run with.
    pub parameters: Parameters,
    /// What came of it.
    pub measured: Measured,
}

/// A run that is to be carried out.
#[derive(Clone, Debug)]
pub struct Job {
    /// The file the world comes from, for messages.
    pub file: String,
    /// The world, with every parameter in its place; its lines are those of the file.
    pub world: String,
    /// Whether it is of a world at all.
    pub measures: Measures,
    /// The parameters.
    pub parameters: Parameters,
}

/// Carries out runs. Several threads may do so at once.
pub trait Runner: Sync {
    /// What the result was measured with, in a word or two.
    fn name(&self) -> &str;

    /// Whether what it measures is of real packets: what is claimed may differ there.
    fn is_real(&self) -> bool {
        false
    }

    /// What is to be known of how these runs were carried out, a line each.
    fn remarks(&self, _runs: &[Run]) -> Vec<String> {
        Vec::new()
    }

    /// Everything that comes of a run follows from, but for the program: nothing where there is more to it than can be written down.
    fn follows_from(&self, _job: &Job) -> Option<String> {
        None
    }

    /// Carries out one run.
    ///
    /// # Errors
    ///
    /// What is wrong with the world, or why it could not be run, with its place.
    fn run(&self, job: &Job) -> Result<Measured, String>;
}

/// The simulator.
#[derive(Clone, Debug, Default)]
pub struct Simulation {
    /// Where the guests of its routers come from; none where they may have none.
    pub guests: Option<Arc<dyn Guests>>,
    /// Where the files are that worlds name.
    pub files: DataFiles,
}

impl Runner for Simulation {
    fn name(&self) -> &str {
        "simulated"
    }

    fn follows_from(&self, job: &Job) -> Option<String> {
        // A guest may have been built anew.
        if self.guests.is_some() {
            return None;
        }
        if job.measures == Measures::State {
            return Some(job.world.clone());
        }
        let world = World::parse(&job.world, &job.file).ok()?;
        let mut all = job.world.clone();
        for file in world.files() {
            // What is not there does not become what it is by another name.
            let bytes = self.files.read(file).unwrap_or_default();
            all += &format!("\n# {file} {:016x}", digest(&bytes));
        }
        Some(all)
    }

    fn run(&self, job: &Job) -> Result<Measured, String> {
        if job.measures == Measures::State {
            return ephemeral::run(&job.world, &job.file);
        }
        self.simulate(job, &mut self.files.clone(), &mut |_| {})
    }
}

impl Simulation {
    /// Simulates the world of a job; `progress` is told how far it is, in parts of one.
    ///
    /// # Errors
    ///
    /// What is wrong with the world, or which of its laws was broken.
    pub fn simulate(
        &self,
        job: &Job,
        captures: &mut dyn Captures,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measured, String> {
        let world =
            World::parse_with(&job.world, &job.file, self.guests.clone()).map_err(|wrong| wrong.render(false))?;
        run(&world, captures, progress).map_err(|error| error.to_string())
    }
}
