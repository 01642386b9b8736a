//! The options of what runs in virtual time: `sim`, `reproduce`.

use super::GuestDirectory;
use clap::{Args, ValueHint};
use std::path::PathBuf;

const EXIT: &str = "\
Exit status:
  0  done, and every claim holds
  1  a claim does not hold, or the file has errors
  2  the command line cannot be understood";

/// Run a world, or an experiment, in virtual time: the same router, the same bytes each time.
///
/// A file with the key `experiment` is an experiment: its runs are carried out and its claims held against what they
/// measured. Any other file is a world, of which everything that was measured is told.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath sim examples/worlds/slow-link.toml             two stations and a slow link
  switchpath sim world.toml --set seed=7                    the same with other chances
  switchpath sim my.toml --out results                      with CSV, JSON and plots
  switchpath sim experiments/scheduling/E9.toml --set limit=8 -j

{EXIT}"))]
pub struct Simulate {
    /// The world or the experiment.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Set a parameter of an experiment, or what `${NAME}` is in a world; may be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub settings: Vec<(String, String)>,
    /// Where results are written.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Runs that are carried out side by side [default: one for each core].
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// The shorter runs that the tests make, where the experiment has such.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Print JSON: the claims of an experiment, or what was measured in a world.
    #[arg(short, long)]
    pub json: bool,
}

/// Reproduce published results: what the paper says, what Switchpath does, and whether the claim holds.
///
/// Writes CSV, JSON, a plot for every figure as SVG and PNG, and an index.html that shows them all. The experiments come
/// with the program.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath reproduce                              everything there is
  switchpath reproduce scheduling                   one paper
  switchpath reproduce scheduling E9 --out results
  switchpath reproduce --list
  switchpath reproduce --experiments experiments    those of a folder, as PAPER/NAME.toml in it
  sudo switchpath reproduce scheduling E3 --real    on real packets: namespaces, cables, the kernel between
  sudo switchpath reproduce scheduling --real --quick --repeat 1
  sudo switchpath reproduce queueing --real         the kernel's TCP in namespaces, the links those of a router
  switchpath reproduce queueing --transport cubic --trace my.down

With --real the same worlds run on real packets: the router in a thread on one processor, sources and sinks in network
namespaces of their own in a thread on another, virtual Ethernet cables and AF_PACKET rings between. All of it is slower
than the world says by a whole number, so that this machine is faster than what it plays; what work costs there it takes
here, by waiting. The time of a world stands still while other programs have one of the two processors.

Worlds of hosts have the kernel at both ends of their flows instead, and run as long as they say, several at a time: each in namespaces of its
own, with a router in between whose ports have the world's links.

{EXIT}"))]
pub struct Reproduce {
    /// The paper, as `--list` has it.
    pub paper: Option<String>,
    /// The experiment, like E9.
    pub experiment: Option<String>,
    /// List the experiments and run none.
    #[arg(long)]
    pub list: bool,
    /// Where results are written.
    #[arg(long, value_name = "DIR", default_value = "results", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Experiments of this folder, instead of those that come with the program.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub experiments: Option<PathBuf>,
    /// Runs that are carried out side by side [default: one for each core; of hosts with --real four].
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// The shorter runs that the tests make, where an experiment has such.
    #[arg(long)]
    pub quick: bool,
    /// Any other trace of a link for the experiments that have one: a file of milliseconds, one for each opportunity to send.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<String>,
    /// How senders react to congestion, in the experiments that have any: newreno, cubic, bbr or dctcp, with options.
    #[arg(long, value_name = "NAME")]
    pub transport: Option<String>,
    /// Run them on real packets: routers one after the other, hosts several at a time. Needs root, or CAP_SYS_ADMIN and CAP_NET_RAW.
    #[arg(long)]
    pub real: bool,
    /// With --real, of routers: run so many times slower than the world says [default: as slow as this machine needs].
    #[arg(long, value_name = "TIMES", requires = "real", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub slower: Option<u64>,
    /// With --real, of routers and of what only a processor does: carry out each run so many times, round after round, and take medians [default: what an experiment says, else 5, with --quick 3].
    #[arg(long, value_name = "TIMES", requires = "real", value_parser = clap::value_parser!(u16).range(1..=99))]
    pub repeat: Option<u16>,
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
