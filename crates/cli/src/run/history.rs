//! Opens the history, and selects the configuration to start with: the file, unless it contains a trial that was never confirmed.

use crate::arguments::RunArguments;
use crate::configuration::Configuration;
use anyhow::{Context, Result, bail};
use control::history::{ConfigurationHistory, StartConfiguration};
use plan::Catalogue;
use std::path::{Path, PathBuf};

/// The state directory of the system's router, used if it exists and is writable.
const SYSTEM: &str = "/var/lib/switchpath";

/// Opens the history, and returns warnings about parts that could not be read.
pub fn open(arguments: &RunArguments) -> Result<(ConfigurationHistory, Vec<String>)> {
    let given = arguments.state_dir.clone().or_else(service_directory);
    let system = Path::new(SYSTEM);
    if given.is_none() && (arguments.until_idle || !is_writable(system)) {
        return Ok((ConfigurationHistory::in_memory(), Vec::new()));
    }
    match ConfigurationHistory::open(given.as_deref().unwrap_or(system)) {
        // A second router must not use the directory of the first.
        Err(error) if given.is_some() => Err(error).context("give another --state-dir"),
        // The directory is optional unless an option names it.
        Err(error) => Ok((ConfigurationHistory::in_memory(), vec![error.to_string()])),
        Ok(opened) => Ok(opened),
    }
}

/// Returns the first directory that systemd made for the service (systemd.exec(5), StateDirectory=).
fn service_directory() -> Option<PathBuf> {
    let list = std::env::var_os("STATE_DIRECTORY")?;
    std::env::split_paths(&list).next().filter(|path| !path.as_os_str().is_empty())
}

fn is_writable(directory: &Path) -> bool {
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

/// The configuration to start with.
pub struct Start {
    /// The configuration.
    pub configuration: Configuration,
    /// The generation that first had this configuration, if it is not the one in the file.
    pub restores: Option<u64>,
}

/// Selects the configuration of the file, or the one before it if the file contains a trial that was never confirmed. Such a trial may have cut its
/// operator off.
pub fn choose(
    history: &ConfigurationHistory,
    file: Configuration,
    force: bool,
    catalogue: &Catalogue,
) -> Result<Start> {
    let before = match history.resume(&file.text) {
        StartConfiguration::Previous(before) if !force => before,
        _ => return Ok(Start { configuration: file, restores: None }),
    };
    tracing::warn!(
        "{} contains a configuration that was on trial and never confirmed: starting with generation {} instead, from {}; \
         correct the file, or start with --force",
        file.name,
        before.generation,
        before.name
    );
    let checked = plan::examine(&before.text, &before.name, catalogue);
    if checked.plan.is_none() {
        bail!("this program cannot read generation {}:\n{}", before.generation, checked.diagnostics);
    }
    let restores = Some(before.restores.unwrap_or(before.generation));
    Ok(Start {
        configuration: Configuration { name: before.name.clone(), text: before.text.clone(), checked },
        restores,
    })
}
