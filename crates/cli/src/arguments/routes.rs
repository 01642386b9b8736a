//! The options of commands that add and take away routes and neighbours.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Add and take away routes while the router runs.
///
/// They stand beside those of the configuration, whose routes to the same destination come first. They stay when another
/// configuration is applied, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath route add 10.0.0.0/8 via 192.0.2.1
  switchpath route add 10.1.0.0/16 via 192.0.2.1 weight 2 via 192.0.2.2
  switchpath route add vrf red ::/0 via fe80::1 port wan leak
  switchpath route add 10.2.0.0/16 blackhole
  switchpath route del 10.0.0.0/8
  switchpath route batch changes.txt         one change a line, all of them or none; docs/routes.md
  switchpath route list

{EXIT}"))]
pub struct Routes {
    /// What to do.
    #[command(subcommand)]
    pub command: RouteCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to do with routes.
#[derive(Subcommand, Debug)]
pub enum RouteCommand {
    /// Add a route, or have one lead elsewhere.
    Add {
        /// `[vrf NAME] PREFIX via ADDRESS [port NAME] [weight N] ... [leak]`, or `blackhole` or `unreachable` behind the
        /// prefix.
        #[arg(required = true, value_name = "ROUTE")]
        route: Vec<String>,
    },
    /// Take a route away.
    Del {
        /// `[vrf NAME] PREFIX`
        #[arg(required = true, value_name = "ROUTE")]
        route: Vec<String>,
    },
    /// Take all such routes away.
    Flush {
        /// Only those of this VRF.
        #[arg(long)]
        vrf: Option<String>,
    },
    /// Make the changes of a file, one a line: all of them, or none.
    Batch {
        /// The file; `-` for the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// List the routes that were added this way.
    List {
        /// At most so many.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
}

/// Add and take away neighbours while the router runs. They are never asked, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath neighbour add 192.0.2.9 02:00:00:00:00:09 --port lan
  switchpath neighbour del 192.0.2.9 --port lan
  switchpath show neighbours

{EXIT}"))]
pub struct Neighbours {
    /// What to do.
    #[command(subcommand)]
    pub command: NeighbourCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to do with neighbours.
#[derive(Subcommand, Debug)]
pub enum NeighbourCommand {
    /// Add a neighbour, or give it another MAC address.
    Add {
        /// Its address.
        address: std::net::IpAddr,
        /// Its MAC address.
        mac: String,
        /// The interface it is on: `lan`, or `lan.20`.
        #[arg(long)]
        port: String,
    },
    /// Take a neighbour away that was added this way.
    Del {
        /// Its address.
        address: std::net::IpAddr,
        /// The interface it is on.
        #[arg(long)]
        port: String,
    },
}
