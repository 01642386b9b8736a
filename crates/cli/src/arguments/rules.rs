//! The options of `switchpath rule`.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// List and change the rules of paths, routes and packet filters while the router runs.
///
/// A list is `paths`, the rules that select paths, `routing`, the rules that select routes, or the name of a path with the function `filter`. Each rule has an id that never changes. Changes
/// take effect at once. They survive a new configuration that leaves the rules of the list alone, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath rule list                         all lists, with packets and bytes
  switchpath rule list guests --unused         rules that have decided about no packet
  switchpath rule add guests ip saddr 203.0.113.0/24 drop
  switchpath rule add guests --before 3 tcp dport 22 accept
  switchpath rule replace guests 3 tcp dport 22 limit rate 10/second accept
  switchpath rule remove guests 3 4
  switchpath rule add paths ip daddr 10.9.0.0/16 path gold
  switchpath rule add routing ip saddr 10.1.0.0/16 vrf isp2
  switchpath rule batch guests changes.txt     one change a line; docs/operate/rules.md

{EXIT}"))]
pub struct RuleArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: RuleSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// The rules to list.
#[derive(Args, Debug, Clone)]
pub struct RuleSelection {
    /// List only these rules: `paths`, `routing`, or the name of a path with the function `filter`.
    pub list: Option<String>,
    /// List only rules that have decided about no packet.
    #[arg(long)]
    pub unused: bool,
    /// List at most this many rules of each list.
    #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub limit: u64,
}

/// Subcommands of `rule`.
#[derive(Subcommand, Debug)]
pub enum RuleSubcommand {
    /// List rules with their ids and counters, like `switchpath show rules`.
    List(RuleSelection),
    /// Add a rule.
    Add {
        /// The list.
        list: String,
        /// Add it before the rule with this id [default: behind all others].
        #[arg(long, value_name = "ID")]
        before: Option<u32>,
        /// Add it behind the rule with this id.
        #[arg(long, value_name = "ID", conflicts_with = "before")]
        after: Option<u32>,
        /// The rule, as in a configuration: of a filter it ends with accept, drop or reject, of `paths` with `path NAME`, of `routing` with
        /// `vrf NAME`, `via ADDRESS`, accept, drop or unreachable.
        #[arg(required = true, value_name = "RULE")]
        rule: Vec<String>,
    },
    /// Remove rules: all, or none.
    Remove {
        /// The list.
        list: String,
        /// The ids of the rules.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<u32>,
    },
    /// Put another rule in the place of one.
    Replace {
        /// The list.
        list: String,
        /// The id of the rule to replace.
        id: u32,
        /// The new rule.
        #[arg(required = true, value_name = "RULE")]
        rule: Vec<String>,
    },
    /// Make many changes at once: all, or none.
    Batch {
        /// The list.
        list: String,
        /// Read the changes from this file, one a line; `-` reads the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}
