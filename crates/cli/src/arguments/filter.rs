//! The options of `switchpath filter`.

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Prepare rules for the function `filter`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  nft -j list ruleset | switchpath filter import - > acl.rules
  switchpath filter import rules.json --chain forward --output acl.rules")]
pub struct FilterArguments {
    /// The action.
    #[command(subcommand)]
    pub command: FilterCommand,
}

/// Subcommands of `switchpath filter`.
#[derive(Subcommand, Debug)]
pub enum FilterCommand {
    /// Translate rules of another program, one on each line: for `filter = { file = "acl.rules" }` of a path.
    ///
    /// Reports each part that has no counterpart here, with its place, and leaves it out. The exit status is then 1.
    #[command(after_help = "\
Examples:
  nft -j list ruleset | switchpath filter import - > acl.rules
  switchpath filter import rules.json --chain forward --output acl.rules
  switchpath filter import acl2_1000.txt --format classbench
  switchpath filter import rules.json -j | jq '.left_out[]'

Exit status:
  0  every rule was translated
  1  failed, or a part was left out
  2  the command line cannot be understood")]
    Import(FilterImportArguments),
}

/// Options of `switchpath filter import`.
#[derive(Args, Debug)]
pub struct FilterImportArguments {
    /// The rules; `-` reads the standard input.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The format of the rules.
    #[arg(long, value_enum, default_value_t = RuleFormat::Guess)]
    pub format: RuleFormat,
    /// Translate this base chain of nftables [default: the only one of type filter, or that of the hook forward].
    #[arg(long, value_name = "CHAIN")]
    pub chain: Option<String>,
    /// Print the rules, the parts that were left out, and warnings as JSON, each with its place.
    #[arg(short, long)]
    pub json: bool,
    /// Write the rules to this file [default: the standard output].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// A format of rules.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleFormat {
    /// By the first character: JSON is that of nftables, all else ClassBench.
    Guess,
    /// The output of `nft -j list ruleset`.
    Nftables,
    /// A filter set of ClassBench. Its rules have no verdict, and get `accept`.
    Classbench,
}
