//! The options of `link`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

/// Run a command behind a link that is not there: slow, far, lossy, or as one was recorded.
///
/// The command gets a network of its own, whose packets go through a router in this process and over two links, one each way, with real
/// TCP of the kernel. At the far end is another network, in which --far starts a server; or with --outside the network that
/// this is started in, so that links can be put one inside the other. Needs no root where user namespaces are allowed (--outside does, but inside of another link).
///
/// A link is a rate (`15mbit`), a file of milliseconds as mahimahi and cellsim have them, or `lte(mean=5mbit,seed=1)`, one that is made
/// up. IPv4 and IPv6 go by it alike. Rates count IP packets. The delay is that of each way: a round trip takes twice as long.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  switchpath link --down 15mbit --up 15mbit --delay 75ms --far 'iperf3 -s -1' -- iperf3 -c '{far}' -R -t 10
  switchpath link --down Verizon-LTE-short.down --up Verizon-LTE-short.up --delay 20ms --scheme codel \\
      --far 'iperf3 -s -1' --log run --out results -- iperf3 -c '{far}' -R -t 60
  switchpath link --down 'lte(mean=5mbit)' --scheme 'fq{codel}' --loss 0.1% --far 'nc -lk 9' -- ./my-test '{far}'
  switchpath link --delay 20ms -- ping -c 5 '{far6}'
  switchpath link --delay 40ms --far 'iperf3 -s -1' -- switchpath link --down 5mbit -- iperf3 -c '{far}' -t 5

'{far}' in the command is the IPv4 address of the far end, '{far6}' its IPv6 address; so are SWITCHPATH_FAR and SWITCHPATH_FAR6 in
its environment.
With --log run, run.down and run.up have every packet: 't + size' came, 't d packets bytes' was dropped, 't - size delay' left, 't # size'
an opportunity of a trace; t and delay in milliseconds, sizes those of IP packets.

Exit status:
  that of the command, 128 and its number where a signal ended it; 1 where the link cannot be made, 2 for a wrong command line")]
// Large: a field for each option of the command.
pub struct Link {
    /// The link to the command [default: no limit].
    #[arg(long, value_name = "FILE|RATE")]
    pub down: Option<String>,
    /// The link from the command [default: no limit].
    #[arg(long, value_name = "FILE|RATE")]
    pub up: Option<String>,
    /// How long a packet is under way, each way.
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    pub delay: String,
    /// How much longer at most; order is kept.
    #[arg(long, value_name = "TIME")]
    pub jitter: Option<String>,
    /// The part of the packets that are lost, each way; or gilbert(begin=1%,end=30%,good=0%,bad=100%).
    #[arg(long, value_name = "PART")]
    pub loss: Option<String>,
    /// The part of the packets that come twice.
    #[arg(long, value_name = "PART")]
    pub duplicate: Option<String>,
    /// The part of the packets that come a millisecond late, so that others overtake them.
    #[arg(long, value_name = "PART")]
    pub reorder: Option<String>,
    /// What an opportunity of a trace carries: packet, bytes(1500), bytes(1504).
    #[arg(long, value_name = "MODE", default_value = "bytes(1504)")]
    pub mode: String,
    /// What comes after the last line of a trace: repeat, stop, error.
    #[arg(long, value_name = "END", default_value = "repeat")]
    pub end: String,
    /// The queueing scheme before each link: see docs/schemes.md.
    #[arg(long, value_name = "SCHEME", default_value = "fifo")]
    pub scheme: String,
    /// Another one before the link from the command.
    #[arg(long, value_name = "SCHEME")]
    pub up_scheme: Option<String>,
    /// What chance follows from.
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u32,
    /// Packets that may be in queues and under way together.
    #[arg(long, value_name = "N", default_value = "65536", value_parser = clap::value_parser!(u32).range(1024..=2_000_000))]
    pub packets: u32,
    /// A command for the shell that runs at the far end until the other has ended: a server.
    #[arg(long, value_name = "COMMAND", conflicts_with = "outside")]
    pub far: Option<String>,
    /// The far end is the network that this is started in, and what that leads to. The default inside of another link.
    #[arg(long)]
    pub outside: bool,
    /// Write every packet to PREFIX.down and PREFIX.up.
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Write a report with plots into this folder: index.html, report.json, series.csv.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Print the report as JSON on the standard output; without it, it is printed on the standard error.
    #[arg(short, long)]
    pub json: bool,
    /// The command, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<String>,
}
