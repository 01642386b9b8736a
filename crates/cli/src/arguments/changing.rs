//! The options of commands that look at configurations and change them.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Where guests come from.
#[derive(Args, Debug, Clone)]
pub struct GuestDirectory {
    /// The directory with guests: `scheme = "guest:mine"` is its file mine.wasm (docs/guests.md) [default: there are none].
    #[arg(long, value_name = "DIR", env = "SWITCHPATH_GUESTS", value_hint = ValueHint::DirPath)]
    pub guests: Option<PathBuf>,
}

/// Check a configuration: every error at once, with its place, a reason and a hint; and what each task gets of the
/// processor, where something is promised.
///
/// Nothing is measured: what the configuration does not say (`cost`, `switch_cost`, `line_rate`) is assumed, and the
/// assumptions are named. The router that takes it goes by what it measures.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath check router.toml
  switchpath check -j router.toml | jq '.diagnostics[] | .reason'
  switchpath check --shares router.toml      what each task gets, though nothing is promised

{EXIT}"))]
pub struct Check {
    /// The configuration; `-` for the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Show what each task gets of the processor even where nothing is promised.
    #[arg(long)]
    pub shares: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print what was found as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Say what is different between two configurations, or between the one the running router has and another.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath diff router.toml                what `apply` would change
  switchpath diff old.toml new.toml          no router is needed
  switchpath diff --from 3                   what has changed since generation 3
  switchpath diff --from 3 --to 5            between two generations of the history

{EXIT}"))]
pub struct Diff {
    /// The configuration, or the older of two.
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "from")]
    pub file: Option<PathBuf>,
    /// From this generation of the history.
    #[arg(long, value_name = "GENERATION", conflicts_with_all = ["file", "new"])]
    pub from: Option<u64>,
    /// To this one; to what runs where it is left out.
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

/// Change the running router to a configuration: all of it, or nothing. No packet is lost and none sees half of it.
///
/// With --confirm it is on trial: unless `switchpath confirm` comes in time, the router goes back by itself to what ran before,
/// whatever becomes of this command and of the connection it was given over. While one is on trial no other is applied.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath apply router.toml
  switchpath apply router.toml --dry-run     only say what would change
  switchpath apply router.toml --confirm 60s && ping -c 3 192.0.2.1 && switchpath confirm

{EXIT}"))]
pub struct Apply {
    /// The configuration; `-` for the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Only say what would change.
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    #[command(flatten)]
    pub trial: Trial,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Under which conditions a configuration is applied.
#[derive(Args, Debug, Clone)]
pub struct Trial {
    /// Go back by itself unless `switchpath confirm` comes within this time: 60s.
    #[arg(long, value_name = "TIME")]
    pub confirm: Option<units::Nanos>,
    /// Take interfaces even where they carry your login.
    #[arg(long)]
    pub force: bool,
}

/// Keep the configuration that was applied with --confirm. Fails where none waits, and says whether it was left already.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath confirm

{EXIT}"))]
pub struct Confirm {
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Have an earlier configuration run again: the one before, where nothing else is said.
///
/// It is applied as any other, as a generation of its own. Going back twice goes two configurations back; those that were
/// left by a rollback, or never confirmed, are passed over. Of a configuration on trial this is the end. The file the
/// configuration came from is not changed.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath rollback                        the one before
  switchpath rollback 3                      three back
  switchpath rollback --to 17                generation 17 of `switchpath history`
  switchpath rollback --confirm 60s          and forward again unless confirmed

{EXIT}"))]
pub struct Rollback {
    /// How many configurations back.
    #[arg(default_value = "1", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pub steps: u64,
    /// To the configuration of this generation.
    #[arg(long, value_name = "GENERATION", conflicts_with = "steps")]
    pub to: Option<u64>,
    #[command(flatten)]
    pub trial: Trial,
    /// Print the answer as JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// List the configurations that have run, who brought them and what became of them; the latest hundred.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath history
  switchpath history show 17                 the text of generation 17
  switchpath history show 17 > old.toml
  switchpath diff --from 17                  what has changed since

States:
  running      it runs
  pending      it runs, and is left again unless confirmed
  replaced     it ran until another one, or the end of the router
  rolled back  it was left by `switchpath rollback`
  unconfirmed  it was left because nobody confirmed it

{EXIT}"))]
pub struct History {
    /// What of it.
    #[command(subcommand)]
    pub of: Option<OfHistory>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What of the history.
#[derive(Subcommand, Debug, Clone)]
pub enum OfHistory {
    /// Print the text of a configuration.
    Show {
        /// Its number.
        generation: u64,
    },
}
