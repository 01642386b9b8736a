//! The options of `switchpath reserve`.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Reserve rate and delay for flows while the router runs.
///
/// The router derives the share of the link and of the processor that a flow needs, and admits the flow or names the resource that is short. A reserved flow
/// has a share and a queue of its own: it gets its rate under any other load, and packets beyond its reservation delay only itself.
#[derive(Args, Debug)]
#[command(after_help = format!("\
A flow: NAME rate R packet B [burst B] [delay T] [path P] [out PORT] [in SHARE] [lease T] [keep] match MATCH...

  rate, packet   the long-term rate, and the size of the packets with the Ethernet header
  burst          the bytes that it may send at once [default: two packets]
  delay          the longest delay of a packet through the router [default: no bound]
  path           a path with reservations = true, whose functions process the packets [default: reserved]
  out, in        the output port [default: that of the route], and the share above its own [default: the port]
  lease          the reservation ends after this time, unless it is renewed
  keep           the reservation survives a restart of the router
  match          its packets, to the end of the line; docs/reference/configuration.md#matches

Examples:
  switchpath reserve add call7 rate 87200bit packet 218b delay 5ms match iif lan ip daddr 10.2.0.7 udp dport 5060
  switchpath reserve whatif video rate 8mbit packet 1200b out wan match ip saddr 10.1.0.9
  switchpath reserve list
  switchpath reserve renew call7 lease 60s
  switchpath reserve remove call7
  switchpath reserve batch flows.txt           one change a line; docs/operate/reservations.md
  switchpath reserve bound a.json b.json c.json
                                               the delay through three routers in a row; each file has the answer of `reserve add -j` at one of them

{EXIT}"))]
pub struct ReserveArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: ReserveSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Words of a line.
#[derive(Args, Debug, Clone)]
pub struct FlowLine {
    /// The name of the flow, and the rest of the line.
    #[arg(required = true, value_name = "FLOW")]
    pub flow: Vec<String>,
}

/// Subcommands of `reserve`.
#[derive(Subcommand, Debug)]
pub enum ReserveSubcommand {
    /// Reserve a flow.
    Add(FlowLine),
    /// List the reserved flows, with what they were promised and what they got.
    List {
        /// List at most this many flows [default: 50, or all with --json].
        #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
        limit: Option<u64>,
    },
    /// End reservations.
    Remove {
        /// The names of the flows.
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Begin a lease anew: NAME, or NAME lease 60s.
    Renew(FlowLine),
    /// Say whether a flow would fit, and change nothing. Exit with 1 if it does not.
    Whatif(FlowLine),
    /// Compute the delay bound through routers in a row from their answers. Exit with 1 if a reservation has too small a burst.
    Bound {
        /// The files with the answers of `reserve add -j` or `reserve whatif -j`, in the order of the packets.
        #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
    /// Make many changes at once: all, or none.
    Batch {
        /// Read the changes from this file, one a line; `-` reads the standard input.
        #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
        file: PathBuf,
        /// Say whether the batch would fit, and change nothing.
        #[arg(long)]
        whatif: bool,
    },
}
