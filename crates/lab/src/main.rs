//! `switchpath-lab`: measurements, experiments and demonstrations of Switchpath that are no part of the router. `switchpath` executes it for the
//! commands `bench`, `demo`, `guest`, `link`, `reproduce` and `sim`.

#![forbid(unsafe_code)]
// A command line tool has to print.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod demo;
mod guests;
mod link;
#[cfg(test)]
mod machine_lock;
mod reproduce;

use anyhow::Result;
use cli::arguments::{CliCommand, UsageError};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (arguments, json) = match cli::failure::arguments() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    cli::exit_code(carry_out(&arguments.command), json)
}

fn carry_out(command: &CliCommand) -> Result<ExitCode> {
    let code = |good: bool| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    match command {
        CliCommand::Bench(options) => bench::run(options).map(code),
        CliCommand::Demo(options) => demo::run(options).map(code),
        CliCommand::Guest(options) => guests::guest(options),
        CliCommand::Link(options) => link::link(options),
        CliCommand::Reproduce(options) => reproduce::reproduce(options),
        CliCommand::Sim(options) => reproduce::simulate(options),
        _ => Err(UsageError(String::from(
            "switchpath-lab has only bench, demo, guest, link, reproduce and sim; use `switchpath` for this command",
        ))
        .into()),
    }
}
