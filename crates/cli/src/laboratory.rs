//! Commands of the laboratory: `switchpath bench` and similar commands execute `switchpath-lab`. It is a program and a package of its own, so that a
//! router includes no plots, experiments or load generators.

use anyhow::{Result, anyhow};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The program.
const PROGRAM: &str = "switchpath-lab";

/// Replaces this process with the laboratory, which gets the same command line. It has been parsed already.
pub fn execute() -> Result<ExitCode> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM)).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let error = Command::new(&program).args(&arguments).exec();
    let name = arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Err(match error.kind() {
        ErrorKind::NotFound => anyhow!(
            "`switchpath {name}` needs the program of the laboratory, and it is not installed; install the package {PROGRAM}, or \
             build it with `cargo build --release --bin {PROGRAM}` and copy it next to switchpath"
        ),
        _ => anyhow!("{} cannot be executed: {error}", program.display()),
    })
}
