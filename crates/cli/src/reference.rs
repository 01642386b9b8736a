//! Output generated from the declarations: manual pages, shell completions, the schema of configurations.

use crate::arguments::Arguments;
use crate::manual;
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

/// The name of the manual page of the configuration.
const CONFIGURATION_PAGE: &str = "switchpath.toml.5";

/// Prints the manual page of the program or of the configuration. Into `directory` it writes one for each command, or that of the configuration.
pub fn man(directory: Option<&Path>, configuration: bool) -> Result<ExitCode> {
    let command = Arguments::command();
    if configuration {
        let page = manual::page(&plan::reference(), &plane::catalogue());
        match directory {
            None => stdout().write_all(page.as_bytes())?,
            Some(directory) => {
                let file = directory.join(CONFIGURATION_PAGE);
                let write = || std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&file, page));
                write().with_context(|| format!("'{}' cannot be written", file.display()))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
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
