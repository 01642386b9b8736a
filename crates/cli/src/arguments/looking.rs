//! The options of commands that look into a router, running or not.

use super::{EXIT, GuestDirectory, Socket};
use clap::{Args, Subcommand, ValueHint};
use control::replay::Speed;
use std::path::PathBuf;
use units::Nanos;

/// Ask the running router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath show                            the router as a whole
  switchpath show ports --watch              rates, once a second
  switchpath show queues wan                 how long packets wait there, what its scheme drops and remembers
  switchpath show routes --prefix 192.0.2.0/24
  switchpath show drops -j                   JSON, as documented in docs/control-api.md

{EXIT}"))]
pub struct Show {
    /// What to show.
    #[command(subcommand)]
    pub noun: Option<Noun>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    /// Show it again every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", global = true,
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub watch: Option<u64>,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to show.
#[derive(Subcommand, Debug, Clone)]
pub enum Noun {
    /// The router as a whole.
    Status,
    /// The ports and their links.
    Ports,
    /// The switching paths.
    Paths,
    /// How long the packets of each path took: before its functions, behind them, and in total.
    Latency,
    /// The queues of paths and links; of one port what its scheme did with them: waiting times, drops, marks, and what it remembers.
    Queues {
        /// Only those before this port.
        port: Option<String>,
    },
    /// The workers: what each does, on which core, how busy it is.
    Workers,
    /// What the CPU scheduler of each worker runs.
    Tasks,
    /// The routes.
    Routes {
        /// Only routes to destinations within this prefix.
        #[arg(long)]
        prefix: Option<plan::Prefix>,
        /// Only routes of this VRF; `main` is that of everything that is in no other.
        #[arg(long)]
        vrf: Option<String>,
        /// Only routes from here: local, broadcast, static, api, connected, neighbour.
        #[arg(long)]
        origin: Option<String>,
        /// At most so many.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
    /// The functions of paths and what their rules have counted.
    Functions,
    /// Address translation and its connections.
    Nat {
        /// At most so many connections.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Ephemeral state: how full its stores are, and what packets asked for.
    State,
    /// What packets want at ports with a policy, and which scheme serves it.
    Policy,
    /// The multicast groups that are forwarded, and what was copied for them.
    Multicast,
    /// Every counter of ports, links, paths and multicast groups, with a sentence about each.
    Counters,
    /// The neighbours.
    Neighbours,
    /// Drops by reason.
    Drops,
    /// What happened lately.
    Events {
        /// Only events with this number or a later one.
        #[arg(long, default_value = "0")]
        since: u64,
    },
    /// The packet ledgers: that every packet has met one fate.
    Ledger,
    /// The configuration that runs.
    Config,
}

/// Watch packets of the running router as they meet their fates, or write them to a pcapng file in which each packet has
/// its fate as a comment.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath capture                                 one line a packet
  switchpath capture -c 10 iif lan ip dscp ef udp    ten packets that match
  switchpath capture -w trouble.pcapng icmp
  switchpath capture -w - | wireshark -k -i -

A match is written as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL.

{EXIT}"))]
pub struct Capture {
    /// Which packets; all where it is left out.
    #[arg(value_name = "MATCH")]
    pub matching: Vec<String>,
    /// Write to this pcapng file; `-` for the standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// End after so many packets.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// At most so many bytes of each packet.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(14..))]
    pub snaplen: Option<u32>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Watch the running router live: rates, queues, drops, how busy its workers are, and what happens.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath top
  switchpath top --interval 250ms
  switchpath top --once                  everything once, as text
  switchpath top -j --interval 5s        everything once, as JSON: rates over five seconds

Keys: q quit, tab or arrows from pane to pane, s sort, p pause, d drops with what they mean, b backlog and waiting times of links,
? help. Where the output is no terminal, everything is printed once.

{EXIT}"))]
pub struct Top {
    /// How often the router is asked.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Nanos,
    /// Print everything once as text, and end.
    #[arg(long)]
    pub once: bool,
    /// Print everything once as JSON, and end.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

fn interval(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let fits = (Nanos::millis(100)..=Nanos::secs(3600)).contains(&time);
    if fits { Ok(time) } else { Err("write a time from 100ms to 3600s".to_owned()) }
}

/// Follow packets of the running router through its stages: where they came in, how they were classified, which queue they
/// waited in and how long, what each function changed, what the link did, and their fate.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath trace                                   every packet, up to 100 a second
  switchpath trace -c 5 iif lan udp dport 5060       five packets that match
  switchpath trace --port wan icmp -w way.pcapng     frames before and after, their way as a comment
  switchpath trace --rate 10/s -j                    a line of JSON for each packet
  switchpath trace --cpu -w cpu.json                 who had the processor for a second, to look at in ui.perfetto.dev
  switchpath trace --cpu --time 100ms --events 1000000 -w cpu.json

A match is written as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL. Without a trace a packet costs what it always costs; beyond the rate, packets are
not looked at.

With --cpu it is not packets that are followed, but the tasks of the CPU scheduler: each run with its packets, bytes and cost,
how long it waited for packets or for the processor, time-outs, drops, queues and the efficiency index. A table says who had
the processor; the file is for ui.perfetto.dev or chrome://tracing.

{EXIT}"))]
pub struct Trace {
    /// Which packets; all where it is left out.
    #[arg(value_name = "MATCH")]
    pub matching: Vec<String>,
    /// End after so many packets.
    #[arg(short, long, visible_short_alias = 'n', value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Only what comes in by this port.
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Follow at most so many packets a second.
    #[arg(long, value_name = "PACKETS/s", default_value = "100/s", value_parser = per_second)]
    pub rate: u64,
    /// Print a line of JSON for each packet; with --cpu, the table as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Look at what the CPU scheduler does instead of packets.
    #[arg(long, conflicts_with_all = ["matching", "count", "port", "rate"])]
    pub cpu: bool,
    /// With --cpu: how long.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "cpu", value_parser = look)]
    pub time: Nanos,
    /// With --cpu: keep the latest so many events of each worker.
    #[arg(long, value_name = "EVENTS", default_value_t = control::request::EVENTS as u64, requires = "cpu",
          value_parser = clap::value_parser!(u64).range(1..=control::request::MOST_EVENTS as u64))]
    pub events: u64,
    /// Write the frames to this pcapng file besides, with their way as a comment; with --cpu, trace events. `-` is the standard
    /// output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub socket: Socket,
}

/// How long the CPU scheduler may be looked at.
fn look(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let fits = (Nanos::millis(1)..=Nanos::secs(60)).contains(&time);
    if fits { Ok(time) } else { Err("write a time from 1ms to 60s".to_owned()) }
}

/// A rate in packets a second: `100/s`, or the number alone.
fn per_second(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse().ok().filter(|rate| (1..=10_000).contains(rate));
    rate.ok_or_else(|| "write packets a second, from 1/s to 10000/s".to_owned())
}

/// Say what the router would do with a packet, step by step, and why. Nothing is sent and nothing is counted: it is a dry
/// run of the very code that forwards.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath explain in lan ip saddr 10.0.0.5 daddr 192.0.2.9 udp dport 5060 dscp ef len 1400 ttl 64
  switchpath explain --config router.toml daddr 192.0.2.9     no router is needed, nor root
  switchpath explain --pcap trouble.pcapng --packet 3 --port lan
  switchpath explain --drop martian_source                    what a reason means, and what to do

A packet is written in words: in INTERFACE, saddr|daddr ADDRESS, tcp|udp|icmp|icmpv6|proto PROTOCOL, sport|dport PORT,
dscp CLASS, ecn BITS, ttl HOPS, len BYTES, df, smac|dmac MAC. What is not said has a default: a packet of 60 bytes from a
host beside the router on that interface, to the router itself.

With --config the router is one in memory, and every neighbour it asks for answers.

{EXIT}"))]
pub struct Explain {
    /// The packet in words.
    #[arg(value_name = "PACKET", conflicts_with_all = ["pcap", "drop"])]
    pub packet: Vec<String>,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Take the packet from this capture.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub pcap: Option<PathBuf>,
    /// Which packet of the capture, from 1.
    #[arg(long = "packet", value_name = "N", default_value = "1", requires = "pcap",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub number: u64,
    /// The port a packet of a capture comes in by.
    #[arg(long, value_name = "PORT", requires = "pcap")]
    pub port: Option<String>,
    /// Take the packet of a capture as one for that port, whatever station it names.
    #[arg(long, requires = "pcap")]
    pub as_ours: bool,
    /// Ask this configuration instead of the running router.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub config: Option<PathBuf>,
    /// Say what a reason to drop packets means, and what to do.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Put a capture through a configuration and say what becomes of each packet; or through two, and say which packets meet
/// another fate. The router is one in memory and in virtual time: no device is touched, no router has to run, and the same
/// capture gives the same answer, byte for byte. Without a configuration the packets go into the running router, by one of its
/// ports and in real time.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath replay trouble.pcapng --config new.toml --port lan
  switchpath replay trouble.pcapng --config new.toml --port lan --against old.toml    what the change changes
  switchpath replay day.pcap --config new.toml --port wan --as-ours --write out.pcapng
  switchpath replay burst.pcap --config new.toml --port lan --speed 10x --loop 100 -j
  switchpath replay trouble.pcapng --port lan         into the running router, as if they came in by lan

Without --port each packet comes in by the port that has the name of its interface in the capture, as those of
`switchpath capture` do. Packets that the capture says were sent are left out. Every neighbour that is asked for answers.

With --against, packets that are sent are compared byte by byte; where any packet meets another fate the exit status is 1.

{EXIT}"))]
pub struct Replay {
    /// The capture: pcap or pcapng, of Ethernet.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The configuration; without it, the running router has the packets.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "port")]
    pub config: Option<PathBuf>,
    /// Another configuration to compare with: the one before, say.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "config")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// The port the packets come in by.
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Take packets as ones for that port, whatever station they name.
    #[arg(long)]
    pub as_ours: bool,
    /// How fast, as the router's clock goes: so many times as recorded, or `max` for no pause.
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub speed: Speed,
    /// How often.
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rounds: u64,
    /// Write what the router sends to this pcapng file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}
