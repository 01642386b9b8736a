//! The options of `guest`: write a queueing scheme, a packet function or a code option, and put it onto a live port, path or slice.

use super::EXIT;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// The published guests that `guest new --example` can start from: queueing schemes, one instruction, and packet functions.
pub const EXAMPLE_GUESTS: [&str; 9] = ["sfb", "mean", "afd", "edd", "names", "dns", "capsule", "thin", "police"];

/// Write your own queueing schemes, packet functions and code options of slices: create, build, check and measure guests.
///
/// A guest is a queueing scheme, a packet function or a code option in WebAssembly. A port, a path or a slice loads it by name while the router runs.
/// docs/operate/guests.md describes what a guest may do.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest new mine --language c        create a folder with a working scheme
  switchpath guest build mine --guests guests   build it, check it, and put it where a router finds it
  sed -i '/^\\[port.wan\\]/a scheme = \"guest:mine\"' router.toml
  switchpath apply router.toml --guests guests  use it on the running port
  switchpath show queues                        show its queues and state

{EXIT}"))]
pub struct GuestArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub of: GuestCommand,
}

/// Subcommands of `guest`.
#[derive(Subcommand, Debug)]
pub enum GuestCommand {
    /// Create a guest: write a folder with a working scheme for you to change.
    New(NewGuest),
    /// Build the guest of a folder, check it, and put it where the router finds it.
    Build(BuildGuest),
    /// Print what a guest declares, and test it against the rules of queueing schemes in virtual time.
    Check(CheckGuest),
    /// Measure the cost of a guest per packet, next to built-in schemes.
    Bench(BenchGuest),
}

/// The language of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Language {
    /// Built with cargo.
    Rust,
    /// Built with clang and lld.
    C,
    /// Built with asc from the npm package assemblyscript.
    #[value(name = "assemblyscript", alias = "as")]
    AssemblyScript,
}

impl Language {
    /// The name of the language for people.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::C => "C",
            Language::AssemblyScript => "AssemblyScript",
        }
    }
}

/// The kind of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum GuestKind {
    /// A queueing scheme of a port.
    #[default]
    Scheme,
    /// A packet function of a path.
    Function,
    /// A code option of slices.
    Slice,
}

/// Create a guest: write a folder with a working scheme, function or code option for you to change. Existing files are not overwritten.
///
/// The folder contains everything that the build needs except the compiler of the language.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest new mine --language rust
  switchpath guest new mine --language assemblyscript
  switchpath guest new mine --language rust --kind function
  switchpath guest new mine --language c --kind slice
  switchpath guest new fair --example sfb      begin with a published scheme

Published schemes:
  sfb      Rust            Stochastic Fair BLUE: limits flows that do not respond to drops
  afd      C               Approximate Fair Dropping: the same share of one queue for all flows
  edd      AssemblyScript  earliest due date: bounds the queueing delay of each class

Published packet functions:
  names    Rust            forwards connections by server name: TLS SNI, HTTP Host
  dns      Rust            filters DNS responses by name, and foreign names with private addresses
  capsule  Rust            runs the programs of active capsules
  thin     C               drops the enhancement layers of RTP video
  police   AssemblyScript  a token bucket, for the path or for each flow

Published instruction of ephemeral state:
  mean     Rust            the mean of reported values

{EXIT}"))]
pub struct NewGuest {
    /// Create the guest in this folder, and name it after the folder: `guest:NAME` in a configuration. NAME may be a path.
    #[arg(value_name = "NAME", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Write the guest in this language.
    #[arg(short, long, value_enum, required_unless_present = "example", conflicts_with = "example")]
    pub language: Option<Language>,
    /// Write a guest of this kind.
    #[arg(short, long, value_enum, default_value = "scheme", conflicts_with = "example")]
    pub kind: GuestKind,
    /// Start with this published guest, in its own language.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(EXAMPLE_GUESTS))]
    pub example: Option<String>,
}

/// Build the guest of a folder, check it, and put it where the router finds it.
///
/// The folder contains Cargo.toml (Rust), asconfig.json (AssemblyScript) or .c files. The build writes NAME.wasm into the folder; NAME is the name of
/// the folder. With --guests, a guest that passes the check is also copied into that directory.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest build                                     the current folder
  switchpath guest build mine --guests /etc/switchpath/guests

{EXIT}"))]
pub struct BuildGuest {
    /// Build the guest of this folder.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// Copy the guest into this directory, where the router finds guests.
    #[arg(long, value_name = "DIR", env = "SWITCHPATH_GUESTS", value_hint = ValueHint::DirPath)]
    pub guests: Option<PathBuf>,
}

/// A guest and its options.
#[derive(Args, Debug, Clone)]
pub struct GuestFile {
    /// The guest, a file NAME.wasm.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Set options as in a configuration: 'limit=50,patience=5ms' [default: the declared values].
    #[arg(short, long, value_name = "OPTIONS")]
    pub options: Option<String>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Print what a guest declares, and test it against the rules of queueing schemes in virtual time.
///
/// The same code always gets the same verdict: seeds determine the traffic, the clock is virtual, and a call ends after a fixed number of
/// instructions.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest check mine.wasm
  switchpath guest check mine.wasm --options limit=3
  switchpath guest check -j mine.wasm | jq '.laws[] | select(.broken)'

{EXIT}"))]
pub struct CheckGuest {
    #[command(flatten)]
    pub of: GuestFile,
    /// Test the guest with this many seeds of traffic.
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
}

/// Measure the cost of a guest per packet, next to built-in schemes in the same run.
///
/// The queue always holds ten packets. Packets arrive and leave in batches of the same size. The cost of queues without a scheme is subtracted.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest bench mine.wasm
  switchpath guest bench -j mine.wasm | jq '.costs[] | select(.batch == 32)'

{EXIT}"))]
pub struct BenchGuest {
    #[command(flatten)]
    pub of: GuestFile,
    /// Run one short round instead of the median of many: a smoke test, not a measurement.
    #[arg(short, long)]
    pub quick: bool,
}
