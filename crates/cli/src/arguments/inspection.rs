//! The options of commands that inspect a router, running or not.

use super::{EXIT, GuestDirectory, RuleSelection, ShareSelection, Socket, SubscriberSelection};
use clap::{Args, Subcommand, ValueHint};
use control::replay::Speed;
use std::path::PathBuf;
use units::Nanos;

/// Show the state of the running router.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath show                            the router as a whole
  switchpath show ports --watch              rates, once a second
  switchpath show queues wan                 waiting times, drops and scheme state of one port
  switchpath show routes --prefix 192.0.2.0/24
  switchpath show subscribers --worst rtt    the longest round-trip times toward subscribers first
  switchpath show sites --worst use -n 20    the 20 sites that use most of their ceiling
  switchpath show drops -j                   JSON, as documented in docs/reference/control-api.md

{EXIT}"))]
pub struct ShowArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub noun: Option<ShowTarget>,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    /// Repeat every so many seconds.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", global = true,
          value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub watch: Option<u64>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `show`.
#[derive(Subcommand, Debug, Clone)]
pub enum ShowTarget {
    /// Show the router as a whole.
    Status,
    /// Show the ports and their links.
    Ports,
    /// Show the paths.
    Paths,
    /// Show the latency of packets on each path: before its functions, after them, and in total.
    Latency,
    /// Show the queues of paths and links. With a port: waiting times, drops, marks and scheme state.
    Queues {
        /// Show only the queues of this port.
        port: Option<String>,
    },
    /// Show the workers: state, core, and load of each.
    Workers,
    /// Show the tasks of each worker's CPU scheduler.
    Tasks,
    /// Show the routes.
    Routes {
        /// Show only routes to destinations within this prefix.
        #[arg(long)]
        prefix: Option<plan::Prefix>,
        /// Show only routes of this VRF; `main` is the default VRF.
        #[arg(long)]
        vrf: Option<String>,
        /// Show only routes of this origin: local, broadcast, static, api, connected, kernel, neighbour.
        #[arg(long)]
        origin: Option<String>,
        /// Show at most this many routes.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        limit: u64,
    },
    /// Show the functions of paths and their counters.
    Functions,
    /// Show the rules that select paths and routes, and those of filters: packets, bytes, time since the last packet.
    Rules(RuleSelection),
    /// Show the shares of ports: their settings, packets, drops, sojourn times, and rates.
    Shares(ShareSelection),
    /// Show the reserved flows: what they were promised, packets, drops, sojourn times, and rates.
    Reservations {
        /// Show at most this many flows [default: 50, or all with --json].
        #[arg(short = 'n', long, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
        limit: Option<u64>,
    },
    /// Show the subscribers of an access network, with the packets of both directions and round-trip times.
    Subscribers(SubscriberSelection),
    /// Show the sites of an access network: how much of each link is in use, and the round-trip times of the subscribers below it.
    Sites(SubscriberSelection),
    /// Show address translation and its connections.
    Nat {
        /// Show at most this many connections.
        #[arg(long, default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Show the named sets: elements, memory, last change.
    Sets,
    /// Show the stores of ephemeral state: how full they are, and how many instructions they have executed.
    State,
    /// Show the objectives of packets at ports with a policy, and the scheme that serves them.
    Policy,
    /// Show the interfaces of the kernel, and the packets for programs of the machine by protocol.
    Linux,
    /// Show the multicast groups, and how many packets were replicated to them.
    Multicast,
    /// Show every counter of ports, links, paths and multicast groups, each with its description.
    Counters,
    /// Show the neighbours.
    Neighbours,
    /// Show drops by reason.
    Drops,
    /// Show the latest events.
    Events {
        /// Show only events from this number on.
        #[arg(long, default_value = "0")]
        since: u64,
    },
    /// Show the accounting of packets, which proves that every packet has met one fate.
    Accounting,
    /// The former name of `accounting`.
    #[command(hide = true)]
    Ledger,
    /// Show the running configuration.
    Config,
}

/// Watch packets of the running router as they meet their fates, or write them to a pcapng file.
///
/// In the file each packet carries its fate as a comment.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath capture                                 one line a packet
  switchpath capture -c 10 iif lan ip dscp ef udp    ten packets that match
  switchpath capture -w trouble.pcapng icmp
  switchpath capture -w - | wireshark -k -i -

Write a match as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL.

{EXIT}"))]
pub struct CaptureArguments {
    /// Capture only packets that match [default: all].
    #[arg(value_name = "MATCH")]
    pub matching: Vec<String>,
    /// Write to this pcapng file; `-` writes to the standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// End after this many packets.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Capture at most this many bytes of each packet.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(14..))]
    pub snaplen: Option<u32>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Watch the running router live: rates, queues, drops, worker load, events.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath top
  switchpath top --interval 250ms
  switchpath top --once                  print everything once, as text
  switchpath top -j --interval 5s        print everything once, as JSON with rates over five seconds
  switchpath top subscribers             the subscribers with the highest rates

Keys: q quit, tab or arrows next pane, s sort, p pause, d drops with their meanings, b backlog and waiting times of links,
? help. Without a terminal, everything is printed once.

{EXIT}"))]
pub struct TopArguments {
    /// Watch one thing instead of the router as a whole.
    #[command(subcommand)]
    pub view: Option<TopView>,
    /// Ask the router this often.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval, global = true)]
    pub interval: Nanos,
    /// Print everything once as text, and end.
    #[arg(long, global = true)]
    pub once: bool,
    /// Print everything once as JSON, and end.
    #[arg(short, long, global = true)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `top`.
#[derive(Subcommand, Debug, Clone)]
pub enum TopView {
    /// Watch the subscribers of an access network, those with the highest rates first. Keys: q quit, s sort, p pause, arrows scroll.
    Subscribers,
}

fn interval(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let fits = (Nanos::millis(100)..=Nanos::secs(3600)).contains(&time);
    if fits { Ok(time) } else { Err("write a time from 100ms to 3600s".to_owned()) }
}

/// Follow packets of the running router through its stages.
///
/// A trace shows the ingress port of a packet, its classification, each queue and the waiting time in it, the changes of each function, the actions
/// of the link, and the fate.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath trace                                   every packet, up to 100 a second
  switchpath trace -c 5 iif lan udp dport 5060       five packets that match
  switchpath trace --port wan icmp -w way.pcapng     frames before and after, with their stages as a comment
  switchpath trace --rate 10/s -j                    one line of JSON for each packet
  switchpath trace --cpu -w cpu.json                 trace the processor for a second, to view in ui.perfetto.dev
  switchpath trace --cpu --time 100ms --events 1000000 -w cpu.json

Write a match as for a path: any, iif NAME, ip/ip6 saddr|daddr PREFIX, ip dscp CLASS, tcp|udp [sport|dport PORTS],
icmp, icmpv6, meta l4proto PROTOCOL. Packets that are not traced cost nothing extra; packets beyond the rate are not
traced.

With --cpu the trace follows the tasks of the CPU scheduler instead: each run with its packets, bytes and cost, waiting times for
packets and for the processor, time-outs, drops, queues and the efficiency index. The table shows how the processor time was
divided; view the file in ui.perfetto.dev or chrome://tracing.

{EXIT}"))]
pub struct TraceArguments {
    /// Follow only packets that match [default: all].
    #[arg(value_name = "MATCH")]
    pub matching: Vec<String>,
    /// End after this many packets.
    #[arg(short, long, visible_short_alias = 'n', value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Follow only packets received on this port.
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Follow at most this many packets a second.
    #[arg(long, value_name = "PACKETS/s", default_value = "100/s", value_parser = per_second)]
    pub rate: u64,
    /// Print one line of JSON for each packet; with --cpu, the table as JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Trace the CPU scheduler instead of packets.
    #[arg(long, conflicts_with_all = ["matching", "count", "port", "rate"])]
    pub cpu: bool,
    /// With --cpu: trace for this time.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "cpu", value_parser = look)]
    pub time: Nanos,
    /// With --cpu: keep the latest so many events of each worker.
    #[arg(long, value_name = "EVENTS", default_value_t = control::request::DEFAULT_EVENTS as u64, requires = "cpu",
          value_parser = clap::value_parser!(u64).range(1..=control::request::MOST_EVENTS as u64))]
    pub events: u64,
    /// Write the frames to this pcapng file, with their stages as comments; with --cpu, write trace events. `-` is the standard output.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Parses the duration of a CPU trace.
fn look(text: &str) -> Result<Nanos, String> {
    let time: Nanos = text.parse().map_err(|error: units::UnitError| error.to_string())?;
    let fits = (Nanos::millis(1)..=Nanos::secs(60)).contains(&time);
    if fits { Ok(time) } else { Err("write a time from 1ms to 60s".to_owned()) }
}

/// Parses a rate in packets a second: `100/s`, or the number alone.
fn per_second(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse().ok().filter(|rate| (1..=10_000).contains(rate));
    rate.ok_or_else(|| "write packets a second, from 1/s to 10000/s".to_owned())
}

/// Explain what the router would do with a packet, step by step, and why.
///
/// A dry run of the code that forwards: no packet is sent and no counter changes.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath explain in lan ip saddr 10.0.0.5 daddr 192.0.2.9 udp dport 5060 dscp ef len 1400 ttl 64
  switchpath explain --config router.toml daddr 192.0.2.9     without a router, and without root
  switchpath explain --pcap trouble.pcapng --packet 3 --port lan
  switchpath explain --drop martian_source                    the meaning of a drop reason, and its remedy

Describe a packet in words: in INTERFACE, saddr|daddr ADDRESS, tcp|udp|icmp|icmpv6|proto PROTOCOL, sport|dport PORT,
dscp CLASS, ecn BITS, ttl HOPS, len BYTES, df, smac|dmac MAC. Everything else has a default: a packet of 60 bytes from a
host next to the router on that interface, to the router itself.

With --config the router runs in memory, and every neighbour it asks for answers.

{EXIT}"))]
pub struct ExplainArguments {
    /// The packet in words.
    #[arg(value_name = "PACKET", conflicts_with_all = ["pcap", "drop"])]
    pub packet: Vec<String>,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Use a packet of this capture.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub pcap: Option<PathBuf>,
    /// Use the packet with this number in the capture, counted from 1.
    #[arg(long = "packet", value_name = "N", default_value = "1", requires = "pcap",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub number: u64,
    /// Receive the packet of the capture on this port.
    #[arg(long, value_name = "PORT", requires = "pcap")]
    pub port: Option<String>,
    /// Accept the packet of the capture as addressed to that port, despite its destination MAC address.
    #[arg(long, requires = "pcap")]
    pub as_ours: bool,
    /// Use this configuration instead of the running router.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "drop")]
    pub config: Option<PathBuf>,
    /// Explain a drop reason and its remedy.
    #[arg(long, value_name = "REASON")]
    pub drop: Option<String>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}

/// Replay a capture through a configuration, and report the fate of each packet.
///
/// With two configurations, report the packets whose fates differ. The router runs in memory and in virtual time: no device is touched, no router has
/// to run, and the same capture gives the same result, byte for byte. Without a configuration the packets enter the running router on one of its
/// ports, in real time.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath replay trouble.pcapng --config new.toml --port lan
  switchpath replay trouble.pcapng --config new.toml --port lan --against old.toml    the effect of a change
  switchpath replay day.pcap --config new.toml --port wan --as-ours --write out.pcapng
  switchpath replay burst.pcap --config new.toml --port lan --speed 10x --loop 100 -j
  switchpath replay trouble.pcapng --port lan         into the running router, as if lan had received them

Without --port each packet enters on the port named like its interface in the capture, as in the captures of
`switchpath capture`. Packets that the capture marks as sent are skipped. Every neighbour answers.

With --against, sent packets are compared byte by byte. The exit status is 1 if any packet meets another fate.

{EXIT}"))]
pub struct ReplayArguments {
    /// Replay this capture: pcap or pcapng, of Ethernet.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Use this configuration; without it, the packets enter the running router.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "port")]
    pub config: Option<PathBuf>,
    /// Compare with another configuration, such as the previous one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "config")]
    pub against: Option<PathBuf>,
    #[command(flatten)]
    pub guests: GuestDirectory,
    /// Receive the packets on this port.
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Accept packets as addressed to that port, despite their destination MAC addresses.
    #[arg(long)]
    pub as_ours: bool,
    /// Replay this many times faster than recorded, by the router's clock; `max` for no pauses.
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub speed: Speed,
    /// Replay the capture this many times.
    #[arg(long = "loop", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rounds: u64,
    /// Write the packets that the router sends to this pcapng file.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Print JSON.
    #[arg(short, long)]
    pub json: bool,
    #[command(flatten)]
    pub socket: Socket,
}
