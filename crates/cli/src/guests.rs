//! Guests: finds those that a configuration names.

use crate::arguments::GuestDirectory;
use anyhow::{Error, Result, anyhow};
use extension::{Directory, Runtime};
use io::clock;
use plan::{Catalogue, Guests};
use std::fmt::Display;
use std::sync::Arc;

/// Returns the guest directory of the command line, if there is one.
///
/// # Errors
///
/// If guests cannot run on this machine.
pub fn directory(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    directory_with(arguments, || Runtime::timed(clock::processor_time))
}

/// Returns the guest directory for simulations. Guests get a budget of instructions instead of time, so that every run is the same.
///
/// # Errors
///
/// If guests cannot run on this machine.
pub fn simulation_directory(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    directory_with(arguments, Runtime::counted)
}

fn directory_with<E: Display>(
    arguments: &GuestDirectory,
    runtime: impl FnOnce() -> Result<Runtime, E>,
) -> Result<Option<Arc<dyn Guests>>> {
    let Some(path) = &arguments.guests else { return Ok(None) };
    let runtime = runtime().map_err(no_runtime)?;
    Ok(Some(Arc::new(Directory::new(path, runtime))))
}

/// Returns the names that a configuration may use.
pub fn catalogue(guests: Option<Arc<dyn Guests>>) -> Catalogue {
    Catalogue { guests, ..plane::catalogue() }
}

/// Builds the error for a machine that cannot run guests.
pub fn no_runtime(error: impl Display) -> Error {
    anyhow!("guests cannot run on this machine: {error:#}")
}
