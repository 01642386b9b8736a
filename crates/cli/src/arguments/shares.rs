//! The options of `switchpath share` and `switchpath subscribers`.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use control::api::{ShareOrder, SubscriberOrder};
use std::path::PathBuf;

/// The default number of shares, or subscribers, in a table.
pub const LISTED: u64 = 50;

/// List and change the shares of ports while the router runs.
///
/// A share is a node of the tree by which a port with the scheme `share` divides its link. Changes take effect at once and lose no packets. They survive
/// a new configuration, and end with the router, or with their lease.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath share list lan                    the tree, with packets, drops, sojourn times and rates
  switchpath share list lan --leaves --sort drops -n 10
  switchpath share add lan gold rate 100mbit ceiling 1gbit
  switchpath share add lan \"Doe, Jane\" in gold rate 10mbit weight 2 lease 60s
  switchpath share set lan gold ceiling none priority 1
  switchpath share move lan gold in north
  switchpath share remove lan gold all         with all shares below it
  switchpath share batch lan changes.txt       one change a line; docs/operate/shares.md

{EXIT}"))]
pub struct ShareArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: ShareSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// The shares to list.
#[derive(Args, Debug, Clone)]
pub struct ShareSelection {
    /// List only the shares of this port.
    pub port: Option<String>,
    /// List only shares without others below them.
    #[arg(long)]
    pub leaves: bool,
    /// List the shares with most of this first: bytes, drops, sojourn, rate, use [default: the order of the tree].
    #[arg(long, value_name = "ORDER")]
    pub sort: Option<ShareOrder>,
    /// List at most this many shares of each port [default: 50, or all with --json].
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub limit: Option<u64>,
}

/// A change of a share.
#[derive(Args, Debug, Clone)]
pub struct ShareLine {
    /// The port.
    pub port: String,
    /// The name of the share, and what to change.
    #[arg(required = true, value_name = "SHARE")]
    pub share: Vec<String>,
}

/// Subcommands of `share`.
#[derive(Subcommand, Debug)]
pub enum ShareSubcommand {
    /// List shares with their counters and rates, like `switchpath show shares`.
    List(ShareSelection),
    /// Add a share: NAME [in PARENT] [rate R] [ceiling R] [weight N] [burst B] [delay D] [priority P] [lease 60s].
    Add(ShareLine),
    /// Change settings of a share: NAME [rate R] [ceiling R|none] [weight N] [burst B] [delay D|none] [priority P] [lease 60s|none].
    Set(ShareLine),
    /// Move a share with all below it: NAME in PARENT, or NAME in root.
    Move(ShareLine),
    /// Remove a share: NAME, or NAME all with all below it.
    Remove(ShareLine),
    /// Make many changes at once: all, or none.
    Batch {
        /// The port.
        port: String,
        /// Read the changes from this file, one a line; `-` reads the standard input.
        #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
        file: PathBuf,
    },
}

/// List the subscribers of an access network, and read their files again.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath subscribers list --worst drops    the 50 subscribers with most drops
  switchpath subscribers list --worst rtt      those with the longest round-trip times
  switchpath subscribers reload                read changed files now

The router reads the files again by itself when one has changed (docs/operate/shares.md).

{EXIT}"))]
pub struct SubscribersArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: SubscribersSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// The subscribers, or the sites, to list.
#[derive(Args, Debug, Clone, Default)]
pub struct SubscriberSelection {
    /// List those with most of this first: rtt (round-trip time toward the subscriber), or in one of the directions bytes, drops, sojourn, rate, use
    /// [default: the order of the file].
    #[arg(long, value_name = "ORDER")]
    pub worst: Option<SubscriberOrder>,
    /// List at most this many [default: 50, or all with --json].
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub limit: Option<u64>,
}

/// Subcommands of `subscribers`.
#[derive(Subcommand, Debug)]
pub enum SubscribersSubcommand {
    /// List subscribers with the packets of both directions, like `switchpath show subscribers`.
    List(SubscriberSelection),
    /// Read the files of subscribers again.
    Reload,
}
