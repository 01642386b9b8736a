//! Declares every option once. The parser, `--help`, the manual pages and the shell completions are generated from these declarations.

mod configuration;
mod convert;
mod demo;
mod filter;
mod guests;
mod init;
mod inspection;
mod link;
mod machine;
mod reserve;
mod routes;
mod rules;
mod run;
mod sets;
mod shares;
mod simulation;
mod slices;
mod state;

use clap::{Args, Parser, Subcommand, ValueHint};
pub use configuration::*;
pub use convert::*;
pub use demo::*;
pub use filter::*;
pub use guests::*;
pub use init::*;
pub use inspection::*;
pub use link::*;
pub use machine::*;
pub use reserve::*;
pub use routes::*;
pub use rules::*;
pub use run::*;
pub use sets::*;
pub use shares::*;
pub use simulation::*;
pub use slices::*;
pub use state::*;
use std::fmt;
use std::path::PathBuf;

const EXIT: &str = "\
Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood";

/// A software router that accounts for every packet and keeps its reservations.
#[derive(Parser, Debug)]
#[command(name = "switchpath", version, after_help = concat!("\
Examples:
  switchpath init                     write a configuration for this machine
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change the configuration while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to fix the rest
"), after_long_help = concat!("\
Examples:
  switchpath init                     write a configuration for this machine
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change the configuration while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to fix the rest

Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood

Environment:
  SWITCHPATH_SOCKET  the control socket, instead of --socket
  SWITCHPATH_LOG     the log level: error, warn, info, debug
  NO_COLOR           no colours, even on a terminal"))]
pub struct Arguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Subcommands of `switchpath`.
#[derive(Subcommand, Debug)]
pub enum CliCommand {
    /// Write a configuration for this machine, after a few questions.
    Init(InitArguments),
    /// Convert the configuration of a Linux router: interfaces, routes, queues, filters, translation.
    Convert(ConvertArguments),
    /// Run the router with a configuration, until ended.
    Run(RunArguments),
    /// Check a configuration and report every error at once.
    Check(CheckArguments),
    /// Print the differences between two configurations, or between one and the running router.
    Diff(DiffArguments),
    /// Draw the way of packets through a configuration: classification, queues, functions, links.
    Graph(GraphArguments),
    /// Apply a configuration to the running router: all of it, or nothing.
    Apply(ApplyArguments),
    /// Keep the configuration that was applied with --confirm.
    Confirm(ConfirmArguments),
    /// Apply an earlier configuration again.
    Rollback(RollbackArguments),
    /// List the configurations that have run: when, by whom, and their states.
    History(HistoryArguments),
    /// Show the state of the running router.
    Show(ShowArguments),
    /// Add and remove routes while the router runs.
    Route(RouteArguments),
    /// Add and remove neighbours while the router runs.
    Neighbour(NeighbourArguments),
    /// List and change the rules of paths, routes and packet filters while the router runs.
    Rule(RuleArguments),
    /// List and change named sets of addresses and ports while the router runs.
    Set(SetArguments),
    /// Reserve rate and delay for flows while the router runs.
    Reserve(ReserveArguments),
    /// List and change the shares of ports while the router runs.
    Share(ShareArguments),
    /// Make and change slices: fast paths of tenants.
    Slice(SliceArguments),
    /// List the subscribers of an access network, and read their files again.
    Subscribers(SubscribersArguments),
    /// Translate rules of other programs for the function `filter`.
    Filter(FilterArguments),
    /// Use ephemeral state: values that packets leave in routers for a while, and computations of hosts with them.
    State(StateArguments),
    /// Watch packets as they meet their fates, or write them to a file.
    Capture(CaptureArguments),
    /// Watch the running router live: ports, paths, drops, workers, events.
    Top(TopArguments),
    /// Follow packets through the stages of the running router.
    Trace(TraceArguments),
    /// Explain what the router would do with a packet, step by step; or explain a drop reason.
    Explain(ExplainArguments),
    /// Replay a capture through one configuration, or two, and report the fate of each packet.
    Replay(ReplayArguments),
    /// Run a command behind an emulated link.
    Link(LinkArguments),
    /// Run a simulated world, or an experiment, in virtual time.
    Sim(SimulateArguments),
    /// Reproduce published results, each with a verdict.
    Reproduce(ReproduceArguments),
    /// Watch hosts talk through Switchpath, with every packet accounted for.
    Demo(DemoArguments),
    /// Measure the cost of forwarding, next to a straight-line loop in the same run.
    Bench(BenchArguments),
    /// Write your own queueing schemes: create, build, check and measure guests.
    Guest(GuestArguments),
    /// Make a certificate, its key and tokens for remote access to the API.
    Certificate(CertificateArguments),
    /// Report what this machine can and cannot do, and how to fix it.
    Doctor(DoctorArguments),
    /// Print the JSON schema of configurations, for editors.
    #[command(after_help = "Examples:\n  switchpath schema > switchpath.schema.json")]
    Schema,
    /// Print completions for a shell.
    #[command(after_help = "Examples:\n  switchpath completions bash > /etc/bash_completion.d/switchpath")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command into a directory.
    #[command(after_help = "Examples:\n  switchpath man | man -l -\n  switchpath man --configuration | man -l -\n  \
                            switchpath man /usr/share/man/man1")]
    Man {
        /// Print or write switchpath.toml(5) instead, the page of the configuration with all keys.
        #[arg(long)]
        configuration: bool,
        /// Write the pages into this directory.
        #[arg(value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

/// Options that select the router to ask.
#[derive(Args, Debug, Clone)]
pub struct Socket {
    /// The control socket of the running router [default: /run/switchpath/control.sock, or in $XDG_RUNTIME_DIR for users].
    #[arg(long, value_name = "PATH", env = "SWITCHPATH_SOCKET", value_hint = ValueHint::FilePath, global = true)]
    pub socket: Option<PathBuf>,
    /// Ask a router on another machine, started with --listen: https://HOST:PORT.
    #[arg(long, value_name = "URL", env = "SWITCHPATH_REMOTE", global = true, requires = "token_file",
          value_hint = ValueHint::Url)]
    pub remote: Option<String>,
    /// Read the token for the remote router from this file.
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_TOKEN_FILE", global = true, value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// Verify the remote router's certificate against these certificates, PEM [default: those that the system trusts].
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_CA", global = true, value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
}

impl Socket {
    /// Returns a client of the selected router.
    pub fn client(&self) -> control::Client {
        match (&self.remote, &self.token_file) {
            (Some(url), Some(token)) => control::Client::remote(control::RemoteRouter {
                url: url.clone(),
                token: token.clone(),
                authorities: self.ca.clone(),
            }),
            _ => control::Client::new(&self.socket.clone().unwrap_or_else(control::socket::default_path)),
        }
    }
}

/// A command line that clap accepts but that is contradictory or incomplete.
#[derive(Debug)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_declarations_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_help_has_examples() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn match_words_need_no_quotes() {
        let arguments = Arguments::try_parse_from(["switchpath", "capture", "-c", "3", "udp", "dport", "53"]).unwrap();
        let CliCommand::Capture(capture) = arguments.command else { panic!() };
        assert_eq!((capture.count, capture.matching.join(" ").as_str()), (Some(3), "udp dport 53"));
    }
}
