//! The options of `guest`: schemes of one's own, from an empty folder to a live port.

use super::EXIT;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// The published schemes, and the instruction, that a guest can be begun with.
pub const EXAMPLE_GUESTS: [&str; 4] = ["sfb", "mean", "afd", "edd"];

/// Make queueing schemes of your own: write, build, check and measure guests.
///
/// A guest is a scheme in WebAssembly that a port gets by name while the router runs. docs/guests.md tells what it may do.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest new mine --language c        a folder with a scheme that works
  switchpath guest build mine --guests guests   built, checked, and where a router finds it
  sed -i '/^\\[port.wan\\]/a scheme = \"guest:mine\"' router.toml
  switchpath apply router.toml --guests guests  onto the live port
  switchpath show queues                        what it does there

{EXIT}"))]
pub struct Guest {
    /// What to do.
    #[command(subcommand)]
    pub of: OfGuest,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum OfGuest {
    /// Begin a guest: write a folder with a scheme that works, to be changed.
    New(NewGuest),
    /// Build the guest of a folder, check it, and put it where the router finds it.
    Build(BuildGuest),
    /// Say what a guest declares, and hold it to the laws of queueing schemes in virtual time.
    Check(CheckGuest),
    /// Measure what a guest costs a packet, beside schemes that are built in.
    Bench(BenchGuest),
}

/// What a guest is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Language {
    /// Built with cargo.
    Rust,
    /// Built with clang and lld.
    C,
    /// Built with asc, of the npm package assemblyscript.
    #[value(name = "assemblyscript", alias = "as")]
    AssemblyScript,
}

impl Language {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::C => "C",
            Language::AssemblyScript => "AssemblyScript",
        }
    }
}

/// Begin a guest: write a folder with a scheme that works, to be changed. Nothing that is there is overwritten.
///
/// Everything that it is built with is in the folder too, but for the tools of the language.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest new mine --language rust
  switchpath guest new mine --language assemblyscript
  switchpath guest new fair --example sfb      begin with a published scheme

Examples to begin with:
  sfb   Rust            Stochastic Fair BLUE: holds back flows that do not yield
  afd   C               Approximate Fair Dropping: the same share of one queue for all flows
  edd   AssemblyScript  earliest due date: a bound for how long each class waits
  mean  Rust            no scheme: an instruction of ephemeral state, the mean of what packets report

{EXIT}"))]
pub struct NewGuest {
    /// The guest's name, and the folder's: `scheme = "guest:NAME"`. May be a path that ends in it.
    #[arg(value_name = "NAME", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// What to write it in.
    #[arg(short, long, value_enum, required_unless_present = "example", conflicts_with = "example")]
    pub language: Option<Language>,
    /// Begin with this published scheme, in the language it is written in.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(EXAMPLE_GUESTS))]
    pub example: Option<String>,
}

/// Build the guest of a folder, check it, and put it where the router finds it.
///
/// The folder has Cargo.toml (Rust), asconfig.json (AssemblyScript) or files that end in .c. The guest is called as the folder, and is
/// NAME.wasm in it; with --guests also there, where it passes the check.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest build                                     the folder one is in
  switchpath guest build mine --guests /etc/switchpath/guests

{EXIT}"))]
pub struct BuildGuest {
    /// The folder.
    #[arg(value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The directory in which the router finds guests.
    #[arg(long, value_name = "DIR", env = "SWITCHPATH_GUESTS", value_hint = ValueHint::DirPath)]
    pub guests: Option<PathBuf>,
}

/// A guest and its options.
#[derive(Args, Debug, Clone)]
pub struct GuestFile {
    /// The guest, NAME.wasm.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Its options, as a configuration has them: 'limit=50,patience=5ms' [default: what it declares].
    #[arg(short, long, value_name = "OPTIONS")]
    pub options: Option<String>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// Say what a guest declares, and hold it to the laws of queueing schemes in virtual time.
///
/// The same code gets the same verdict: traffic is drawn from seeds, time passes as it is told, and a call is ended after a number of
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
    /// How many seeds of traffic to try it with.
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
}

/// Measure what a guest costs a packet, beside schemes that are built in, in the same run.
///
/// Ten packets wait all the time; so many come, and as many leave, at once. What queues without any scheme take is taken off.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath guest bench mine.wasm
  switchpath guest bench -j mine.wasm | jq '.costs[] | select(.batch == 32)'

{EXIT}"))]
pub struct BenchGuest {
    #[command(flatten)]
    pub of: GuestFile,
    /// One short round instead of the median of many: to see that it works, not what it costs.
    #[arg(short, long)]
    pub quick: bool,
}
