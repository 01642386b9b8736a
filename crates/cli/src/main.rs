//! `switchpath`: the command line.

#![forbid(unsafe_code)]
// Printing is what a command line is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod allotment;
mod arguments;
mod bench;
mod bounds;
mod capture;
mod certificate;
mod configuration;
mod demo;
mod doctor;
mod explain;
mod failure;
mod guests;
mod history;
mod link;
mod notify;
mod output;
mod reference;
mod replay;
mod reproduce;
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

fn main() -> ExitCode {
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
        Command::Link(options) => link::link(&options),
        Command::Sim(options) => reproduce::simulate(&options),
        Command::Reproduce(options) => reproduce::reproduce(&options),
        Command::Demo(options) => {
            demo::run(&options).map(|good| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Bench(options) => {
            bench::run(&options).map(|met| if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Guest(options) => guests::guest(&options),
        Command::Certificate(options) => certificate::certificate(&options),
        Command::Doctor(doctor) => doctor::doctor(&doctor),
        Command::Schema => reference::schema(),
        Command::Completions { shell } => reference::completions(shell),
        Command::Man { directory } => reference::man(directory.as_deref()),
    };
    result.unwrap_or_else(|error| {
        // Whoever reads our output has had enough: `switchpath show routes | head`.
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
