//! Guests: where those of a configuration come from.

use crate::arguments::GuestDirectory;
use anyhow::{Error, Result, anyhow};
use extension::{Directory, Runtime};
use io::clock;
use plan::{Catalogue, Guests};
use std::fmt::Display;
use std::sync::Arc;

/// The directory that was named, if one was.
///
/// # Errors
///
/// Where guests cannot run on this machine.
pub fn directory(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    from(arguments, || Runtime::timed(clock::processor_time))
}

/// The same for simulations: what a guest may do is counted in instructions, so that every run is the same.
///
/// # Errors
///
/// Where guests cannot run on this machine.
pub fn counted(arguments: &GuestDirectory) -> Result<Option<Arc<dyn Guests>>> {
    from(arguments, Runtime::counted)
}

fn from<E: Display>(
    arguments: &GuestDirectory,
    runtime: impl FnOnce() -> Result<Runtime, E>,
) -> Result<Option<Arc<dyn Guests>>> {
    let Some(path) = &arguments.guests else { return Ok(None) };
    let runtime = runtime().map_err(no_runtime)?;
    Ok(Some(Arc::new(Directory::new(path, runtime))))
}

/// What a configuration may name.
pub fn catalogue(guests: Option<Arc<dyn Guests>>) -> Catalogue {
    Catalogue { guests, ..plane::catalogue() }
}

/// Why no guest can run here.
pub fn no_runtime(error: impl Display) -> Error {
    anyhow!("guests cannot run on this machine: {error:#}")
}
