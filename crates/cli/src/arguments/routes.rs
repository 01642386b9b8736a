//! The options of commands that add and remove routes and neighbours.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Add and remove routes while the router runs.
///
/// The routes complement those of the configuration, which win for the same destination. They survive a new configuration, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath route add 10.0.0.0/8 via 192.0.2.1
  switchpath route add 10.1.0.0/16 via 192.0.2.1 weight 2 via 192.0.2.2
  switchpath route add vrf red ::/0 via fe80::1 port wan leak
  switchpath route add 10.2.0.0/16 blackhole
  switchpath route del 10.0.0.0/8
  switchpath route batch changes.txt         one change a line, all or none; docs/operate/routes.md
  switchpath route list

{EXIT}"))]
pub struct RouteArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: RouteCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `route`.
#[derive(Subcommand, Debug)]
pub enum RouteCommand {
    /// Add a route, or change its next hops.
    Add {
        /// `[vrf NAME] PREFIX via ADDRESS [port NAME] [weight N] ... [leak]`, or `[vrf NAME] PREFIX blackhole|unreachable`.
        #[arg(required = true, value_name = "ROUTE")]
        route: Vec<String>,
    },
    /// Remove a route.
    Del {
        /// `[vrf NAME] PREFIX`
        #[arg(required = true, value_name = "ROUTE")]
        route: Vec<String>,
    },
    /// Remove all routes that were added with `route`.
    Flush {
        /// Remove only routes of this VRF.
        #[arg(long)]
        vrf: Option<String>,
    },
    /// Apply the changes of a file, one a line: all of them, or none.
    Batch {
        /// Read the changes from this file; `-` reads the standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// List the routes that were added with `route`.
    List {
        /// List at most this many routes.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
}

/// Add and remove neighbours while the router runs. The router never probes them; they end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath neighbour add 192.0.2.9 02:00:00:00:00:09 --port lan
  switchpath neighbour del 192.0.2.9 --port lan
  switchpath show neighbours

{EXIT}"))]
pub struct NeighbourArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: NeighbourCommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `neighbour`.
#[derive(Subcommand, Debug)]
pub enum NeighbourCommand {
    /// Add a neighbour, or change its MAC address.
    Add {
        /// The IP address of the neighbour.
        address: std::net::IpAddr,
        /// The MAC address of the neighbour.
        mac: String,
        /// The interface of the neighbour: `lan`, or `lan.20`.
        #[arg(long)]
        port: String,
    },
    /// Remove a neighbour that was added with `neighbour add`.
    Del {
        /// The IP address of the neighbour.
        address: std::net::IpAddr,
        /// The interface of the neighbour.
        #[arg(long)]
        port: String,
    },
}
