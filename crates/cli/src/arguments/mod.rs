//! Every option, declared once: the parser, `--help`, the manual pages and the shell completions follow from it.

mod changing;
mod demo;
mod guests;
mod link;
mod looking;
mod machine;
mod routes;
mod running;
mod simulating;
mod state;

pub use changing::*;
use clap::{Args, Parser, Subcommand, ValueHint};
pub use demo::*;
pub use guests::*;
pub use link::*;
pub use looking::*;
pub use machine::*;
pub use routes::*;
pub use running::*;
pub use simulating::*;
pub use state::*;
use std::fmt;
use std::path::PathBuf;

const EXIT: &str = "\
Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood";

/// A software router that keeps its promises.
#[derive(Parser, Debug)]
#[command(name = "switchpath", version, after_help = concat!("\
Examples:
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change it while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to mend what it cannot
"), after_long_help = concat!("\
Examples:
  switchpath check router.toml        every error at once, with its line
  switchpath run router.toml          forward until ended
  switchpath show ports               ask the running router, from another terminal
  switchpath apply router.toml        change it while it forwards
  switchpath capture udp dport 53     watch packets meet their fates
  switchpath doctor                   what this machine can do, and how to mend what it cannot

Exit status:
  0  done
  1  failed, or the configuration has errors
  2  the command line cannot be understood

Environment:
  SWITCHPATH_SOCKET  where the router is asked, instead of --socket
  SWITCHPATH_LOG     what is logged: error, warn, info, debug
  NO_COLOR           no colours, even on a terminal"))]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Forward packets as a configuration says, until ended.
    Run(Run),
    /// Check a configuration: every error at once.
    Check(Check),
    /// Say what is different between two configurations, or between one and the running router.
    Diff(Diff),
    /// Change the running router to a configuration: all of it, or nothing.
    Apply(Apply),
    /// Keep the configuration that was applied with a time to confirm it.
    Confirm(Confirm),
    /// Have an earlier configuration run again.
    Rollback(Rollback),
    /// List the configurations that have run, who brought them and what became of them.
    History(History),
    /// Ask the running router.
    Show(Show),
    /// Add and take away routes while the router runs.
    Route(Routes),
    /// Add and take away neighbours while the router runs.
    Neighbour(Neighbours),
    /// Ephemeral state: what packets leave in routers for a while, and what hosts find out with it.
    State(State),
    /// Watch packets as they meet their fates, or write them to a file.
    Capture(Capture),
    /// Watch the running router live: ports, paths, drops, workers, events.
    Top(Top),
    /// Follow packets through the stages of the running router.
    Trace(Trace),
    /// Say what the router would do with a packet, step by step, and why; or why packets are dropped.
    Explain(Explain),
    /// Put a capture through a configuration, or through two, and say what becomes of each packet.
    Replay(Replay),
    /// Run a command behind a link that is not there.
    Link(Link),
    /// Run a world, or an experiment, in virtual time.
    Sim(Simulate),
    /// Reproduce published results, each with its verdict.
    Reproduce(Reproduce),
    /// Watch hosts talk through Switchpath, with every packet accounted for.
    Demo(Demo),
    /// Measure what forwarding costs, beside a straight-line loop in the same run.
    Bench(Bench),
    /// Make queueing schemes of your own: write, build, check and measure guests.
    Guest(Guest),
    /// Make a certificate, its key and tokens for the API from other machines.
    Certificate(Certificate),
    /// Say what this machine can and cannot do, and how to mend it.
    Doctor(Doctor),
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
    #[command(after_help = "Examples:\n  switchpath man | man -l -\n  switchpath man /usr/share/man/man1")]
    Man {
        /// Where to write the pages.
        #[arg(value_hint = ValueHint::DirPath)]
        directory: Option<PathBuf>,
    },
}

/// Which router to ask.
#[derive(Args, Debug, Clone)]
pub struct Socket {
    /// The socket of the running router [default: /run/switchpath/control.sock, or in $XDG_RUNTIME_DIR for users].
    #[arg(long, value_name = "PATH", env = "SWITCHPATH_SOCKET", value_hint = ValueHint::FilePath, global = true)]
    pub socket: Option<PathBuf>,
    /// Ask a router on another machine, which was started with --listen: https://HOST:PORT.
    #[arg(long, value_name = "URL", env = "SWITCHPATH_REMOTE", global = true, requires = "token_file",
          value_hint = ValueHint::Url)]
    pub remote: Option<String>,
    /// The file with the token for it.
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_TOKEN_FILE", global = true, value_hint = ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
    /// The certificates its own is checked against, PEM [default: those the system believes].
    #[arg(long, value_name = "FILE", env = "SWITCHPATH_CA", global = true, value_hint = ValueHint::FilePath)]
    pub ca: Option<PathBuf>,
}

impl Socket {
    /// A client of that router.
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

/// A command line that clap takes and that means nothing all the same.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_option_is_declared_soundly() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_teaches_by_example() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn a_match_needs_no_quotes() {
        let arguments = Arguments::try_parse_from(["switchpath", "capture", "-c", "3", "udp", "dport", "53"]).unwrap();
        let Command::Capture(capture) = arguments.command else { panic!() };
        assert_eq!((capture.count, capture.matching.join(" ").as_str()), (Some(3), "udp dport 53"));
    }
}
