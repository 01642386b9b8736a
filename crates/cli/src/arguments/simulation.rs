//! The options of commands that run in virtual time: `sim`, `reproduce`.

use super::GuestDirectory;
use clap::{Args, ValueHint};
use std::path::PathBuf;

const EXIT: &str = "\
Exit status:
  0  done, and every claim holds
  1  a claim does not hold, or the file has errors
  2  the command line cannot be understood";

/// Run a simulated world, or an experiment, in virtual time: the same router, with identical results each time.
///
/// A file with the key `experiment` is an experiment: the command carries out its runs and tests its claims against the measurements. Any other file
/// is a world, and the command prints all measurements.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath sim examples/worlds/slow-link.toml             two hosts and a slow link
  switchpath sim world.toml --set seed=7                    the same with other random numbers
  switchpath sim my.toml --out results                      with CSV, JSON and plots
  switchpath sim experiments/scheduling/E9.toml --set limit=8 -j

{EXIT}"))]
pub struct SimulateArguments {
    /// Run this world or experiment.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Set a parameter of an experiment, or the variable `${NAME}` of a world; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Write results into this directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Carry out this many runs in parallel [default: one for each core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Carry out the shorter runs of the tests, if the experiment has them.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print JSON: the claims of an experiment, or the measurements of a world.
    #[arg(short, long)]
    pub json: bool,
}

/// Reproduce published results: the paper's figure, the figure measured here, and the verdict.
///
/// Writes CSV, JSON, a plot of every figure as SVG and PNG, and an index.html with all of them. The experiments are built into the program.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath reproduce                              all papers
  switchpath reproduce scheduling                   one paper
  switchpath reproduce scheduling E9 --out results
  switchpath reproduce --list
  switchpath reproduce --experiments experiments    experiments of a folder, PAPER/NAME.toml
  sudo switchpath reproduce scheduling E3 --real    on real packets: namespaces, veth pairs, the kernel between
  sudo switchpath reproduce scheduling --real --quick --repeat 1
  sudo switchpath reproduce slices --real           slices between sockets of the kernel; a fast path beside a slow path
  sudo switchpath reproduce slices slow-path --real --click ./click    beside the Click modular router, too
  sudo switchpath reproduce queueing --real         the kernel's TCP in namespaces, links emulated by a router
  switchpath reproduce queueing --transport cubic --trace my.down

With --real the same worlds run on real packets. The router runs in a thread on one processor, sources and sinks run in
network namespaces in a thread on another, and veth pairs with AF_PACKET rings connect them. The run is slower than the world by a
whole number, so that this machine keeps up; the router waits for the cost that the world gives each piece of work. The clock of
the world stops while other programs have one of the two processors.

Worlds of hosts use the kernel's TCP at both ends of their flows, and run in real time, several at once. Each has its own
namespaces, and a router between them whose ports emulate the world's links.

{EXIT}"))]
pub struct ReproduceArguments {
    /// Reproduce this paper, named as in `--list`.
    pub paper: Option<String>,
    /// Reproduce this experiment, such as E9.
    pub experiment: Option<String>,
    /// List the experiments and run none.
    #[arg(long)]
    pub list: bool,
    /// Write results into this directory.
    #[arg(long, value_name = "DIR", default_value = "results", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Run the experiments of this folder instead of the built-in ones.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub experiments: Option<PathBuf>,
    /// Carry out this many runs in parallel [default: one for each core; four for hosts with --real].
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Carry out the shorter runs of the tests, if an experiment has them.
    #[arg(long)]
    pub quick: bool,
    /// Use this link trace in the experiments that have one: a file of milliseconds, one line for each opportunity to send.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<String>,
    /// Use this congestion control in the experiments that have senders: newreno, cubic, bbr or dctcp, with options.
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,
    /// Run on real packets: routers one after the other, hosts several at a time. Needs root, or CAP_SYS_ADMIN and CAP_NET_RAW.
    #[arg(long)]
    pub real: bool,
    /// With --real, for routers: run this many times slower than the world [default: as slow as this machine needs].
    #[arg(long, value_name = "TIMES", requires = "real", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub slower: Option<u64>,
    /// With --real, for routers, slices and processor experiments: carry out each run this many times, in rounds, and report medians [default: from the
    /// experiment, else 5, with --quick 3].
    #[arg(long, value_name = "TIMES", requires = "real", value_parser = clap::value_parser!(u16).range(1..=99))]
    pub repeat: Option<u16>,
    /// With --real, for slices: measure the Click modular router, too. This is its program [default: `click` in PATH, if it is that router].
    #[arg(long, value_name = "PROGRAM", requires = "real", value_hint = ValueHint::ExecutablePath)]
    pub click: Option<PathBuf>,
    /// Print the claims as a JSON array: paper, experiment, claim, published, measured, holds.
    #[arg(short, long)]
    pub json: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err(String::from("is not NAME=VALUE, like seed=7")),
    }
}
