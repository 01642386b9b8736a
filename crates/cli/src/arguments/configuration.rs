//! The options of commands that check, compare and change configurations.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// The guest directory of a command.
#[derive(Args, Debug, Clone)]
pub struct GuestDirectory {
    /// Load guests from this directory: `scheme = "guest:mine"` is the file mine.wasm in it (docs/operate/guests.md) [default: no guests].
    #[arg(long, value_name = "DIR", env = "SWITCHPATH_GUESTS", value_hint = ValueHint::DirPath)]
    pub guests: Option<PathBuf>,
}

/// Check a configuration and report every error at once, each with its position, its reason and a hint.
///
/// If the configuration has reservations, also print the processor share of each task.
///
/// Nothing is measured. Costs that the configuration does not state (`cost`, `switch_cost`, `line_rate`) are assumed, and the assumptions are listed.
/// A running router measures the costs and uses the measured values.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath check router.toml
  switchpath check -j router.toml | jq '.diagnostics[] | .reason'
  switchpath check --shares router.toml      the share of each task, even without reservations

{EXIT}"))]
pub struct CheckArguments {
    /// Check this configuration; `-` reads the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print the processor share of each task even without reservations.
    #[arg(long)]
    pub shares: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print the result as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Print the differences between two configurations, or between a configuration and the running router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath diff router.toml                what `apply` would change
  switchpath diff old.toml new.toml          compare two files, without a router
  switchpath diff --from 3                   compare generation 3 with the running configuration
  switchpath diff --from 3 --to 5            compare two generations of the history

{EXIT}"))]
pub struct DiffArguments {
    /// The configuration to compare with the running router, or the older of two.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "from")]
    pub file: Option<PathBuf>,
    /// Compare this generation of the history.
    #[arg(long, value_name = "GENERATION", conflicts_with_all = ["file", "new"])]
    pub from: Option<u64>,
    /// Compare with this generation [default: the running configuration].
    #[arg(long, value_name = "GENERATION", requires = "from")]
    pub to: Option<u64>,
    /// The newer of two.
    #[arg(value_hint = ValueHint::FilePath)]
    pub new: Option<PathBuf>,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print the changes as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Draw the way of packets through a configuration: classification, queues, functions, links.
///
/// Without a file it draws the configuration of the running router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath graph router.toml                         the paths as text
  switchpath graph router.toml --format svg > way.svg  a picture
  switchpath graph --format dot | dot -Tpdf > way.pdf  the running router, drawn by Graphviz

{EXIT}"))]
pub struct GraphArguments {
    /// Draw this configuration; `-` reads the standard input [default: that of the running router].
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Write text, a graph for Graphviz, or a picture.
    #[arg(long, value_enum, default_value = "text")]
    pub format: GraphFormat,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print the graph as JSON.
    #[arg(short, long, conflicts_with = "format")]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// The format of a graph.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphFormat {
    /// Text for a terminal.
    Text,
    /// The language of Graphviz.
    Dot,
    /// An SVG picture.
    Svg,
}

/// Apply a configuration to the running router: all of it, or nothing. No packet is lost, and none sees a mixture of old and new.
///
/// With --confirm the configuration is on trial: the router rolls back by itself unless `switchpath confirm` arrives in time. It also rolls back if
/// this command or its connection has died. During a trial the router refuses other configurations.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath apply router.toml
  switchpath apply router.toml --dry-run     print the changes, apply nothing
  switchpath apply router.toml --confirm 60s && ping -c 3 192.0.2.1 && switchpath confirm

{EXIT}"))]
pub struct ApplyArguments {
    /// Apply this configuration; `-` reads the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Print the changes and apply nothing.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    #[command(flatten)]
    pub trial: TrialArguments,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Options of commands that apply a configuration.
#[derive(Args, Debug, Clone)]
pub struct TrialArguments {
    /// Roll back after this time unless `switchpath confirm` arrives before: 60s.
    #[arg(long, value_name = "TIME")]
    pub confirm: Option<units::Nanos>,
    /// Detach interfaces from the kernel even if they carry your login.
    #[arg(long)]
    pub force: bool,
}

/// Keep the configuration that was applied with --confirm.
///
/// Fails if no configuration is on trial, and reports whether the router has rolled back already.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath confirm

{EXIT}"))]
pub struct ConfirmArguments {
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Apply an earlier configuration again, by default the previous one.
///
/// A rollback is a new generation, applied like any other. Two rollbacks go two configurations back: a rollback skips configurations that were rolled
/// back or never confirmed. A rollback during a trial ends the trial. The file of the configuration is not changed.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath rollback                        to the previous configuration
  switchpath rollback 3                      three configurations back
  switchpath rollback --to 17                to generation 17 of `switchpath history`
  switchpath rollback --confirm 60s          undone after 60 s unless confirmed

{EXIT}"))]
pub struct RollbackArguments {
    /// Go back this many configurations.
    #[arg(default_value = "1", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub steps: u64,
    /// Go back to the configuration of this generation.
    #[arg(long, value_name = "GENERATION", conflicts_with = "steps")]
    pub to: Option<u64>,
    #[command(flatten)]
    pub trial: TrialArguments,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// List the latest hundred configurations: when each was applied, by whom, and its state.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath history
  switchpath history show 17                 print the text of generation 17
  switchpath history show 17 > old.toml
  switchpath diff --from 17                  print what has changed since then

States:
  running      it is in force
  pending      it is in force on trial: the router rolls back unless you confirm
  replaced     it was in force until you applied another one or the router ended
  rolled back  `switchpath rollback` replaced it
  unconfirmed  its trial ended without confirmation

{EXIT}"))]
pub struct HistoryArguments {
    /// The part of the history to show.
    #[command(subcommand)]
    pub of: Option<HistoryCommand>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `history`.
#[derive(Subcommand, Debug, Clone)]
pub enum HistoryCommand {
    /// Print the text of a configuration.
    Show {
        /// The number of the generation.
        generation: u64,
    },
}
