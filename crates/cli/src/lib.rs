//! The command line of `switchpath`, and the code it shares with the laboratory, `switchpath-lab`: the options of every command, error messages,
//! tables.

#![forbid(unsafe_code)]
// A command line has to print.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod allotment;
#[allow(missing_docs, reason = "a group of options that commands share is documented where it is declared")]
pub mod arguments;
mod bounds;
mod capture;
mod certificate;
pub mod configuration;
mod doctor;
mod explain;
pub mod failure;
pub mod guests;
mod history;
mod laboratory;
mod notify;
pub mod output;
mod reference;
mod replay;
mod routes;
mod run;
mod schedule;
mod seen;
mod show;
mod state;
mod top;
mod trace;

use arguments::Command;
use std::io::ErrorKind;
use std::process::ExitCode;

/// `switchpath`: executes the command line of this process.
pub fn main() -> ExitCode {
    let (arguments, json) = match failure::arguments() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let result = match arguments.command {
        Command::Run(run) => run::run(&run),
        Command::Check(check) => configuration::check(&check),
        Command::Diff(diff) => configuration::diff(&diff),
        Command::Apply(apply) => configuration::apply(&apply),
        Command::Confirm(confirm) => history::confirm(&confirm),
        Command::Rollback(rollback) => history::rollback(&rollback),
        Command::History(history) => history::history(&history),
        Command::Show(show) => show::show(&show),
        Command::Top(options) => top::top(&options),
        Command::Trace(options) => trace::trace(&options),
        Command::Explain(options) => explain::explain(&options),
        Command::Replay(options) => replay::replay(&options),
        Command::Route(route) => routes::route(&route),
        Command::Neighbour(neighbour) => routes::neighbour(&neighbour),
        Command::State(options) => state::state(&options),
        Command::Capture(capture) => capture::capture(&capture),
        Command::Certificate(options) => certificate::certificate(&options),
        Command::Doctor(doctor) => doctor::doctor(&doctor),
        Command::Schema => reference::schema(),
        Command::Completions { shell } => reference::completions(shell),
        Command::Man { directory } => reference::man(directory.as_deref()),
        Command::Link(_)
        | Command::Sim(_)
        | Command::Reproduce(_)
        | Command::Demo(_)
        | Command::Bench(_)
        | Command::Guest(_) => laboratory::execute(),
    };
    exit_code(result, json)
}

/// Returns the exit code of a command. If it failed, prints the reason, as JSON if the command line asks for that.
pub fn exit_code(result: anyhow::Result<ExitCode>, json: bool) -> ExitCode {
    result.unwrap_or_else(|error| {
        // A closed pipe is no error: the reader has enough, as in `switchpath show routes | head`.
        let is_pipe = |e: &std::io::Error| e.kind() == ErrorKind::BrokenPipe;
        let is_json_pipe = |e: &serde_json::Error| e.io_error_kind() == Some(ErrorKind::BrokenPipe);
        let had_enough = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref().is_some_and(is_pipe) || cause.downcast_ref().is_some_and(is_json_pipe)
        };
        if error.chain().any(had_enough) {
            return ExitCode::SUCCESS;
        }
        failure::report(&error, json)
    })
}
