//! The options of `switchpath slice`.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Make and change slices: fast paths of tenants on this router.
///
/// A slice receives UDP packets to its meta-interfaces. Its code option makes a key of each, its filters decide, and its queues send. Slices survive a new
/// configuration, and end with the router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath slice create overlay code ipv4 filters 5000 rate 100mbit
  switchpath slice mi add overlay 0 192.0.2.1:20000
  switchpath slice reserve overlay wan/engine rate 100mbit
  switchpath slice queue set overlay 1 wan/engine weight 3 limit 100kb
  switchpath slice filter insert overlay 10 value 000a000000 mask 00ff000000 send 1 0 198.51.100.9:20000
  switchpath slice filter list overlay
  switchpath slice list overlay                its state, queues and counters
  switchpath slice code overlay guest:mine double    compare a guest with the present code option
  switchpath slice code overlay guest:mine           replace it
  switchpath slice mem read overlay 0 64
  switchpath slice exc overlay                 packets for its slow path
  switchpath slice export > overlay.slices     its definition
  switchpath slice batch overlay.slices        one change a line; docs/operate/slices.md

{EXIT}"))]
pub struct SliceArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: SliceSubcommand,
    /// Print the answer as JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// A change of a slice.
#[derive(Args, Debug, Clone)]
pub struct SliceLine {
    /// The words of the change.
    #[arg(required = true, value_name = "WORD")]
    pub words: Vec<String>,
}

/// Subcommands of `slice`.
#[derive(Subcommand, Debug)]
pub enum SliceSubcommand {
    /// List the slices, or show one with its use of each quota.
    #[command(visible_alias = "show")]
    List {
        /// The slice.
        name: Option<String>,
        /// Show again every so many seconds.
        #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
        watch: Option<u64>,
    },
    /// Make a slice: `NAME code CODE [filters N] [queues N] [interfaces N] [stats N] [memory B] [buffers B] [rate R] [exceptions N] [cpu P] [unmatched drop] [owner USER] [set KEY=TEXT]`.
    Create(SliceLine),
    /// Give a slice another code option while packets flow: `NAME CODE [set KEY=TEXT] [drain | double [N]]`. With `double` both process each Nth packet, and
    /// `list` shows how many results differ.
    Code(SliceLine),
    /// Delete a slice with all that it has: `NAME`.
    Delete(SliceLine),
    /// Stop a slice: `NAME`. Its packets are dropped.
    Suspend(SliceLine),
    /// Start a suspended or failed slice again: `NAME`.
    Resume(SliceLine),
    /// Change meta-interfaces: `add NAME NUMBER ADDRESS:PORT`, or `delete NAME NUMBER`.
    Mi(SliceLine),
    /// Give a slice a part of a scheduler: `NAME PORT[/SHARE] [rate R] [ceiling R] [weight N]`.
    Reserve(SliceLine),
    /// Change queues: `set NAME NUMBER PORT[/SHARE] [weight N] [limit B]`, or `delete NAME NUMBER`.
    Queue(SliceLine),
    /// Change filters: `insert NAME POSITION [value HEX] [mask HEX] [range FIRST WIDTH LOW HIGH] send QUEUE MI ADDRESS:PORT`, `replace` the same, `delete NAME POSITION`, or `list NAME [POSITION]`.
    Filter(SliceLine),
    /// Read or write the memory of a slice: `read NAME [OFFSET] [LENGTH]`, `write NAME OFFSET HEX`, or `stage NAME OFFSET HEX` for writes that `commit NAME` makes at once.
    Mem(SliceLine),
    /// Print the changes that make the slices, or one, as they are: for `batch`, and for `switchpath run --slices`.
    Export {
        /// The slice.
        name: Option<String>,
    },
    /// Show the statistics indices of a slice that have counted packets.
    Stats {
        /// The slice.
        name: String,
        /// Show again every so many seconds.
        #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
        watch: Option<u64>,
    },
    /// Receive packets for the slow path of a slice.
    Exc {
        /// The slice.
        name: String,
        /// At most so many packets.
        #[arg(short = 'n', long, default_value_t = 256)]
        limit: u64,
    },
    /// Run the slow path of a slice with the code option `ipv4`: ICMP errors, echo replies, fragments, and routes.
    ///
    /// Each line of the file is an address of a meta-interface within the network of the slice, or a route:
    ///
    ///   address NUMBER ADDRESS
    ///   route PREFIX via ADDRESS:PORT mi NUMBER queue NUMBER [mtu BYTES]
    ///   route PREFIX blackhole
    ///
    /// SIGHUP reads the file again, and changes only the filters that differ. The routes stay when the program ends.
    #[command(verbatim_doc_comment)]
    Router {
        /// The slice.
        name: String,
        /// Read addresses and routes from this file. Without it the router has the addresses of its meta-interfaces, and no routes.
        #[arg(long, value_hint = ValueHint::FilePath)]
        routes: Option<PathBuf>,
    },
    /// Make many changes.
    Batch {
        /// Read the changes from this file, one a line; `-` reads the standard input.
        #[arg(value_hint = ValueHint::FilePath, default_value = "-")]
        file: PathBuf,
    },
}
