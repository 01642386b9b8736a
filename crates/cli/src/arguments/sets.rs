//! The options of `switchpath set`.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// List and change named sets of addresses and ports while the router runs.
///
/// The configuration declares each set in [set.NAME]. Changes take effect at once. They survive a new configuration that leaves the set alone, and end
/// with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath set list
  switchpath set list bad --limit 20
  switchpath set add bad 203.0.113.0/24 2001:db8::1
  switchpath set add bad 192.0.2.1 --expires 1h
  switchpath set remove bad 203.0.113.0/24
  switchpath set replace bad --file blocklist.txt     one element a line; docs/operate/sets.md
  switchpath set flush bad

{EXIT}"))]
pub struct SetArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: SetSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `set`.
#[derive(Subcommand, Debug)]
pub enum SetSubcommand {
    /// List the sets, or the elements of one.
    List {
        /// List the elements of this set.
        name: Option<String>,
        /// List elements from this one on.
        #[arg(long, requires = "name")]
        first: Option<String>,
        /// List at most this many elements.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
    /// Add elements, or change their lifetimes: all, or none.
    Add {
        /// The name of the set.
        name: String,
        /// Prefixes, addresses, ports or ranges of ports.
        #[arg(required = true)]
        elements: Vec<String>,
        /// Remove the elements after this time, like 90s or 1h. Without it they stay.
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
    },
    /// Remove elements. Others that overlap them stay.
    Remove {
        /// The name of the set.
        name: String,
        /// Prefixes, addresses, ports or ranges of ports, as they were added.
        #[arg(required = true)]
        elements: Vec<String>,
    },
    /// Replace all elements at once by those of a file.
    Replace {
        /// The name of the set.
        name: String,
        /// Read the elements from this file; `-` reads the standard input.
        #[arg(long, value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Remove all elements.
    Flush {
        /// The name of the set.
        name: String,
    },
}
