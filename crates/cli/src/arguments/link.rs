//! The options of `link`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Run a command behind an emulated link: slow, long, lossy, or replayed from a trace.
///
/// The command runs in its own network namespace. Its packets cross two emulated links, one in each direction, and a router in this process. Both
/// ends use the TCP of the kernel. At the far end is a second namespace, where --far starts a server. With --outside the far end is the network of
/// the caller, so that links can be nested. No root is needed if user namespaces are allowed; --outside needs root unless it runs inside another
/// link.
///
/// A link is a rate (`15mbit`), a trace file of milliseconds as in mahimahi and cellsim, or a synthetic link such as `lte(mean=5mbit,seed=1)`. IPv4
/// and IPv6 cross it alike. Rates count IP packets. The delay applies to each direction: the round-trip time is twice the delay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath link --down 15mbit --up 15mbit --delay 75ms --far 'iperf3 -s -1' -- iperf3 -c '{far}' -R -t 10
  switchpath link --down Verizon-LTE-short.down --up Verizon-LTE-short.up --delay 20ms --scheme codel \\
      --far 'iperf3 -s -1' --log run --out results -- iperf3 -c '{far}' -R -t 60
  switchpath link --down 'lte(mean=5mbit)' --scheme 'fq{codel}' --loss 0.1% --far 'nc -lk 9' -- ./my-test '{far}'
  switchpath link --delay 20ms -- ping -c 5 '{far6}'
  switchpath link --delay 40ms --far 'iperf3 -s -1' -- switchpath link --down 5mbit -- iperf3 -c '{far}' -t 5

'{far}' in the command is the IPv4 address of the far end, '{far6}' its IPv6 address. The environment of the command has both as
SWITCHPATH_FAR and SWITCHPATH_FAR6.
With --log run, run.down and run.up list every packet: 't + size' received, 't d packets bytes' dropped, 't - size delay' sent, 't # size'
an opportunity of a trace. t and delay are in milliseconds; sizes are those of IP packets.

Exit status:
  that of the command; 128 and the number of the signal that ended it; 1 if the link cannot be created, 2 for a wrong command line")]
// Large: a field for each option of the command.
pub struct LinkArguments {
    /// Emulate this link to the command [default: no limit].
    #[arg(long, value_name = "FILE|RATE")]
    pub down: Option<String>,
    /// Emulate this link from the command [default: no limit].
    #[arg(long, value_name = "FILE|RATE")]
    pub up: Option<String>,
    /// Delay each packet by this time, in each direction.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    pub delay: String,
    /// Add a random delay up to this time. Packets stay in order.
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<String>,
    /// Lose this part of the packets in each direction; or gilbert(begin=1%,end=30%,good=0%,bad=100%).
    #[arg(long, value_name = "PART")]
    pub loss: Option<String>,
    /// Deliver this part of the packets twice.
    #[arg(long, value_name = "PART")]
    pub duplicate: Option<String>,
    /// Delay this part of the packets by a millisecond more, so that others overtake them.
    #[arg(long, value_name = "PART")]
    pub reorder: Option<String>,
    /// Send this much at each opportunity of a trace: packet, bytes(1500), bytes(1504).
    #[arg(long, value_name = "MODE", default_value = "bytes(1504)")]
    pub mode: String,
    /// After the last line of a trace: repeat, stop, error.
    #[arg(long, value_name = "END", default_value = "repeat")]
    pub end: String,
    /// Use this queueing scheme before each link (docs/reference/schemes.md).
    #[arg(long, value_name = "SCHEME", default_value = "fifo")]
    pub scheme: String,
    /// Use another queueing scheme before the link from the command.
    #[arg(long, value_name = "SCHEME")]
    pub up_scheme: Option<String>,
    /// Seed the random losses, delays and synthetic links with this number.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u32,
    /// Hold at most this many packets in queues and on the links together.
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1024..=2_000_000))]
    pub packets: u32,
    /// Run this shell command at the far end until the main command ends, such as a server.
    #[arg(long, value_name = "COMMAND", conflicts_with = "outside")]
    pub far: Option<String>,
    /// Use the network of the caller, and everything behind it, as the far end. Default inside another link.
    #[arg(long)]
    pub outside: bool,
    /// Log every packet to PREFIX.down and PREFIX.up.
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Write a report with plots into this folder: index.html, report.json, series.csv.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print the report as JSON on the standard output instead of as text on the standard error.
    #[arg(short, long)]
    pub json: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}
