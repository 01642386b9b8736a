//! Output generated from the declarations: manual pages, shell completions, the schema of configurations.

use crate::arguments::Arguments;
use crate::output::print_json;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::io::{Write, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Prints the JSON schema of configurations.
pub fn schema() -> Result<ExitCode> {
    print_json(&mut stdout(), &plan::schema(&plane::catalogue()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints shell completions.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // Into memory first: clap panics if the output is closed.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "switchpath", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page, or writes one for each command into `directory`.
pub fn man(directory: Option<&Path>) -> Result<ExitCode> {
    let command = Arguments::command();
    match directory {
        None => stdout().write_all(&page(command)?)?,
        Some(directory) => {
            std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
            clap_mangen::generate_to(command, directory)
                .with_context(|| format!("the pages cannot be written to {}", directory.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: clap::Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}
