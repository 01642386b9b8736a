//! What the router starts with: its file, unless that has what was tried and never confirmed; and where its history is.

use crate::arguments::Run;
use crate::configuration::Configuration;
use anyhow::{Context, Result, bail};
use control::history::{History, Resumed};
use plan::Catalogue;
use std::path::{Path, PathBuf};

/// The state directory of the system's router, used where it is there and can be written.
const SYSTEM: &str = "/var/lib/switchpath";

/// The history, and what of it could not be had.
pub fn open(arguments: &Run) -> Result<(History, Vec<String>)> {
    let given = arguments.state_dir.clone().or_else(of_service);
    let system = Path::new(SYSTEM);
    if given.is_none() && (arguments.until_idle || !is_writable(system)) {
        return Ok((History::in_memory(), Vec::new()));
    }
    match History::open(given.as_deref().unwrap_or(system)) {
        // A second router must not use the directory of the first.
        Err(error) if given.is_some() => Err(error).context("give another --state-dir"),
        // The directory is optional unless an option names it.
        Err(error) => Ok((History::in_memory(), vec![error.to_string()])),
        Ok(opened) => Ok(opened),
    }
}

/// The directory that systemd made for the service (systemd.exec(5), StateDirectory=): the first of them.
fn of_service() -> Option<PathBuf> {
    let list = std::env::var_os("STATE_DIRECTORY")?;
    std::env::split_paths(&list).next().filter(|path| !path.as_os_str().is_empty())
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

/// What to start with.
pub struct Start {
    /// The configuration.
    pub configuration: Configuration,
    /// The generation it was first run as, where it is not what the file says.
    pub restores: Option<u64>,
}

/// The configuration of the file, or the one before it, where the file has what was applied on trial and never confirmed:
/// it may be what cut its operator off.
pub fn choose(history: &History, file: Configuration, force: bool, catalogue: &Catalogue) -> Result<Start> {
    let before = match history.resume(&file.text) {
        Resumed::Instead(before) if !force => before,
        _ => return Ok(Start { configuration: file, restores: None }),
    };
    tracing::warn!(
        "{} has what was applied on trial and never confirmed: starting with the configuration of generation {}, from {}; \
         mend the file, or start with --force",
        file.name,
        before.generation,
        before.name
    );
    let checked = plan::examine(&before.text, &before.name, catalogue);
    if checked.plan.is_none() {
        bail!("generation {} cannot be read any more:\n{}", before.generation, checked.diagnostics);
    }
    let restores = Some(before.restores.unwrap_or(before.generation));
    Ok(Start {
        configuration: Configuration { name: before.name.clone(), text: before.text.clone(), checked },
        restores,
    })
}
