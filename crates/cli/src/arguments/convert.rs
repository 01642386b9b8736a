//! The options of `switchpath convert`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Convert the configuration of a Linux router: interfaces, routes, queueing disciplines, packet filters and address translation.
///
/// Reads dumps of ip(8), tc(8) and nft(8) in JSON, and prints a configuration that `switchpath check` accepts. Reports each part that has no
/// counterpart, with its place and the reason, and leaves it out. The exit status is then 1.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath convert --live > switchpath.toml             run the tools on this machine; changes nothing
  switchpath convert --addr a.json --route r.json --route r6.json --tc q.json --nft n.json
  switchpath convert dumps/ --output switchpath.toml      every *.json of a directory, recognised by its contents
  switchpath convert --live -j | jq '.left_out[]'

The dumps:
  ip -j -d addr > addr.json                               -d adds the numbers of VLANs
  ip -j route > route.json; ip -6 -j route > route6.json
  ip -j rule > rule.json
  tc -j qdisc > qdisc.json
  tc -j class show dev eth0 > class-eth0.json             the name of the file has the interface
  nft -j list ruleset > nft.json

Exit status:
  0  everything was converted
  1  failed, or a part was left out
  2  the command line cannot be understood")]
pub struct ConvertArguments {
    /// Read every *.json of this directory.
    #[arg(value_hint = ValueHint::DirPath, conflicts_with = "live")]
    pub directory: Option<PathBuf>,
    /// Read the output of `ip -j addr`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "live")]
    pub addr: Vec<PathBuf>,
    /// Read the output of `ip -j route` or `ip -6 -j route`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "live")]
    pub route: Vec<PathBuf>,
    /// Read the output of `ip -j rule`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "live")]
    pub rule: Vec<PathBuf>,
    /// Read the output of `tc -j qdisc` or `tc -j class show dev INTERFACE`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "live")]
    pub tc: Vec<PathBuf>,
    /// Read the output of `nft -j list ruleset`.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "live")]
    pub nft: Vec<PathBuf>,
    /// Run these tools on this machine, in the present network namespace.
    #[arg(long)]
    pub live: bool,
    /// Print the configuration, the parts that were left out, and warnings as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Write the configuration to this file [default: the standard output].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}
