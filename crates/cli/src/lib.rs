//! The command line of `switchpath`, and the code it shares with the laboratory, `switchpath-lab`: the options of every command, error messages,
//! tables.

#![forbid(unsafe_code)]
// A command line has to print.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[allow(missing_docs, reason = "a group of options that commands share is documented where it is declared")]
pub mod arguments;
mod capture;
mod certificate;
pub mod configuration;
mod convert;
mod cpu_trace;
mod doctor;
mod explain;
pub mod failure;
mod filter;
mod graph;
pub mod guests;
mod history;
mod init;
mod laboratory;
mod manual;
mod notify;
pub mod output;
mod reference;
mod replay;
mod reservations;
mod reserve;
mod routes;
mod rules;
mod run;
mod set_files;
mod sets;
mod share_files;
mod shares;
mod show;
mod slice_router;
mod slices;
mod state;
mod stats;
mod store_bounds;
mod top;
mod trace;

use arguments::CliCommand;
use std::io::ErrorKind;
use std::process::ExitCode;

/// `switchpath`: executes the command line of this process.
pub fn main() -> ExitCode {
    let (arguments, json) = match failure::arguments() {
        Ok(parsed) => parsed,
        Err(code) => return code,
    };
    let result = match arguments.command {
        CliCommand::Init(options) => init::init(&options),
        CliCommand::Convert(options) => convert::convert(&options),
        CliCommand::Run(run) => run::run(&run),
        CliCommand::Check(check) => configuration::check(&check),
        CliCommand::Diff(diff) => configuration::diff(&diff),
        CliCommand::Graph(options) => graph::graph(&options),
        CliCommand::Apply(apply) => configuration::apply(&apply),
        CliCommand::Confirm(confirm) => history::confirm(&confirm),
        CliCommand::Rollback(rollback) => history::rollback(&rollback),
        CliCommand::History(history) => history::history(&history),
        CliCommand::Show(show) => show::show(&show),
        CliCommand::Top(options) => top::top(&options),
        CliCommand::Trace(options) => trace::trace(&options),
        CliCommand::Explain(options) => explain::explain(&options),
        CliCommand::Replay(options) => replay::replay(&options),
        CliCommand::Filter(options) => filter::filter(&options),
        CliCommand::Route(route) => routes::route(&route),
        CliCommand::Neighbour(neighbour) => routes::neighbour(&neighbour),
        CliCommand::Rule(options) => rules::rule(&options),
        CliCommand::Set(options) => sets::set(&options),
        CliCommand::Share(options) => shares::share(&options),
        CliCommand::Slice(options) => slices::slice(&options),
        CliCommand::Reserve(options) => reserve::reserve(&options),
        CliCommand::Subscribers(options) => shares::subscribers(&options),
        CliCommand::State(options) => state::state(&options),
        CliCommand::Capture(capture) => capture::capture(&capture),
        CliCommand::Certificate(options) => certificate::certificate(&options),
        CliCommand::Doctor(doctor) => doctor::doctor(&doctor),
        CliCommand::Schema => reference::schema(),
        CliCommand::Completions { shell } => reference::completions(shell),
        CliCommand::Man { directory, configuration } => reference::man(directory.as_deref(), configuration),
        CliCommand::Link(_)
        | CliCommand::Sim(_)
        | CliCommand::Reproduce(_)
        | CliCommand::Demo(_)
        | CliCommand::Bench(_)
        | CliCommand::Guest(_) => laboratory::execute(),
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
