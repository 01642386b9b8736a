//! The options of the tools for ephemeral state.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use esp::isa::{Operator, StateInstruction};
use esp::registered::{InvalidCall, RegisteredInstruction};
use std::net::IpAddr;
use std::path::PathBuf;
use units::{Nanos, PacketRate, Rate};

/// Use ephemeral state: values that packets leave in routers for a while, and computations of host groups with them.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath state size --line 1gbit                 the number of entries the store of a port needs
  switchpath state show lan                          the entries in the store of a port of the running router
  switchpath state ping 192.0.2.1                    which routers on the way execute instructions, and where
  switchpath state branch 192.0.2.1 198.51.100.7     where the paths to several hosts diverge
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3   subscribe, and receive
  switchpath state subcast 7 --to 239.1.2.3 hello    send: only branches with a subscriber get a copy
  switchpath state collect 0x5eed --to 192.0.2.1 --value 17 --operator max
  switchpath state collect 0x5eed --operator max     the root they report to: prints the largest value
  switchpath state group-size 0x5eed                 the number of members
  switchpath state send 192.0.2.1 mark 0x2a 1        one instruction
  switchpath state listen                            print instructions that reach this host
  switchpath state listen --carriage ip              print those that arrive in their own IP packets
  switchpath state generate 192.0.2.1 --rate 10kpps --new 50
  switchpath state dump capture.pcapng
  switchpath state conform                           test the instructions against the vectors

{EXIT}"))]
pub struct StateArguments {
    /// The subcommand.
    #[command(subcommand)]
    pub command: StateCommand,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    /// Carry instructions in `udp`, datagrams, or in `ip`, IP packets of `--protocol`. `ip` needs root or CAP_NET_RAW.
    #[arg(long, value_name = "WHAT", default_value = "udp", global = true)]
    pub carriage: CarriageArgument,
    /// Use this UDP port for instructions: `udp_port` of routers.
    #[arg(long, visible_alias = "udp-port", value_name = "PORT", default_value = "5937", global = true,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Use this IPv4 and IPv6 protocol number for instructions: `protocol` of routers.
    #[arg(long, value_name = "NUMBER", default_value = "253", global = true,
          value_parser = clap::value_parser!(u8).range(143..=254))]
    pub protocol: u8,
    /// Seal sent packets with the operator's key, and accept only packets sealed with it. Needed for routers that execute only sealed instructions.
    /// The key is a file of 32 hexadecimal digits.
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub socket: Socket,
}

/// Subcommands of `state`.
#[derive(Subcommand, Debug)]
pub enum StateCommand {
    /// Print the number of entries with which a store never overflows.
    Size {
        /// The rate of the line, filled with frames of the shortest length.
        #[arg(long, value_name = "RATE", conflicts_with = "pps", required_unless_present = "pps")]
        line: Option<Rate>,
        /// The packet rate.
        #[arg(long, value_name = "RATE")]
        pps: Option<PacketRate>,
        /// The most entries that a packet creates.
        #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=256))]
        creates: u64,
        /// The lifetime of entries.
        #[arg(long, value_name = "TIME", default_value = "10s")]
        lifetime: Nanos,
    },
    /// Show the entries in the stores of the running router.
    Show {
        /// Show only the store of this port; `central` is the central store.
        store: Option<String>,
        /// Show at most this many entries.
        #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Send one instruction.
    Send {
        /// Send to this address; the routers on the way execute the instruction.
        to: IpAddr,
        /// The instruction, such as `count 0x2a below 3`, `mark 0x2a 1`, `get 0x2a`. An instruction registered by the operator is `call NUMBER
        /// OPERATOR TAG ... VALUE`.
        #[arg(required = true, value_name = "INSTRUCTION")]
        instruction: Vec<String>,
        #[command(flatten)]
        how: SendArguments,
    },
    /// Print the instructions that reach this host.
    Listen {
        /// End after this many instructions.
        #[arg(short, long, value_name = "PACKETS")]
        count: Option<u64>,
        /// End after this time.
        #[arg(long, value_name = "TIME")]
        time: Option<Nanos>,
        /// Also receive those sent to this multicast group.
        #[arg(long, value_name = "ADDRESS")]
        group: Option<IpAddr>,
        /// Send each packet back unchanged, with its data. Routers on the way back do not execute it. Not with `--carriage ip`.
        #[arg(long)]
        answer: bool,
    },
    /// Find out which routers on the way to a host execute instructions, and at which places.
    ///
    /// Probes expire (TTL) at one router after the other. Each router quotes its probe in an ICMP error, and the quote shows whether instructions
    /// have changed it. Behind a router that failed to execute a probe nothing is known, because no later router executes it.
    #[command(after_help = "\
Examples:
  switchpath state ping 192.0.2.1
  switchpath state ping 2001:db8::1 --hops 8 --wait 300ms -j

  yes     executes instructions there      no   forwards them like any packet
  failed  could not: the store is full,    ?    unknown: it, or a neighbour, does not answer, or an earlier
          or the instruction is unknown         router has failed")]
    Ping {
        /// The host. It needs no support for ephemeral state.
        host: IpAddr,
        #[command(flatten)]
        way: ProbeArguments,
    },
    /// Find the routers at which the paths from this host to several others diverge.
    ///
    /// All probes carry the same tag, and a router gives the same answer to all of them. Two paths share their routers as long as the answers are
    /// equal. Routers that execute nothing are distinguished by their addresses.
    #[command(after_help = "\
Examples:
  switchpath state branch 198.51.100.7 203.0.113.9
  switchpath state branch 198.51.100.7 203.0.113.9 203.0.113.77 -j | jq '.branches[].router'")]
    Branch {
        /// The hosts.
        #[arg(required = true, num_args = 2..=64)]
        hosts: Vec<IpAddr>,
        #[command(flatten)]
        way: ProbeArguments,
    },
    /// Send to the subscribers in a multicast group, or receive as one of them.
    ///
    /// Receivers repeatedly mark the ports that lead from the source towards them. Data leaves by marked ports only. A receiver that ends still gets
    /// data for at most two thirds of a lifetime.
    #[command(after_help = "\
Examples:
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3      a receiver; 192.0.2.1 is the source
  switchpath state subcast 7 --to 239.1.2.3 --count 10 a message     the source
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3 --layer 2   subscribe to layers 0 to 2
  switchpath state subcast 7 --to 239.1.2.3 --layer 3 details        data of layer 3, for its subscribers")]
    Subcast {
        /// The computation: a number that the source and its receivers share.
        #[arg(value_parser = number)]
        computation: u64,
        #[command(flatten)]
        part: SubcastArguments,
    },
    /// Send a message that each router forwards at most once within a lifetime.
    Dedup {
        /// Send to this address.
        to: IpAddr,
        /// The number of the message.
        #[arg(value_parser = number)]
        message: u64,
        #[command(flatten)]
        how: SendArguments,
    },
    /// Collect a value from all members of a group. Only one packet, or a few, reach the root, independent of the group's size.
    ///
    /// Rounds begin at multiples of twice the lifetime, by the clock of each host. Members give `--to`, the root does not. With `--attempts` an
    /// incomplete round is followed by another.
    Collect {
        /// The computation: a number that root and members share.
        #[arg(value_parser = number)]
        computation: u64,
        /// Combine values with this operator: add, min, max, and, or, xor, first, last.
        #[arg(long, value_name = "OPERATOR", default_value = "add")]
        operator: Operator,
        #[command(flatten)]
        member: MemberArguments,
    },
    /// Count the members of a group.
    GroupSize {
        /// The computation: a number that root and members share.
        #[arg(value_parser = number)]
        computation: u64,
        #[command(flatten)]
        member: MemberArguments,
    },
    /// Send many instructions, to test a router under load.
    Generate {
        /// Send to this address.
        to: IpAddr,
        /// Send this many packets a second.
        #[arg(long, value_name = "RATE", default_value = "1kpps")]
        rate: PacketRate,
        /// Send for this time.
        #[arg(long, value_name = "TIME", default_value = "10s")]
        time: Nanos,
        /// Use a new tag in this many of a hundred packets.
        #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u64).range(0..=100))]
        new: u64,
        /// Spread the packets over this many computations, in turn.
        #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        computations: u64,
        /// Send this instruction, or several with weights: `count=3,compare=1`.
        #[arg(long, value_name = "MIX", default_value = "count")]
        instruction: String,
        /// Pad each IP packet with data to this many bytes [default: no data].
        #[arg(long, value_name = "BYTES", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=65_000))]
        size: u64,
        /// Draw tags and computations from this seed.
        #[arg(long, default_value = "1")]
        seed: u64,
        /// Have routers record the results, by computation: `switchpath show state` shows them.
        #[arg(long)]
        trace: bool,
    },
    /// Print the instructions in a capture of Ethernet, a Linux cooked device, a loopback interface, or raw IP packets.
    Dump {
        /// Read this capture, pcap or pcapng.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The IPv4 option that carries instructions: `ip_option` of routers; 0 for none.
        #[arg(long, value_name = "NUMBER", default_value = "158")]
        ip_option: u8,
    },
    /// Test the instructions of this build against test vectors.
    Conform {
        /// Read the vectors from this file [default: the built-in vectors].
        #[arg(value_hint = ValueHint::FilePath)]
        vectors: Option<PathBuf>,
    },
}

/// The carriage of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum CarriageArgument {
    /// In datagrams.
    Udp,
    /// In their own IP packets.
    Ip,
}

/// Options of commands that send an instruction.
#[derive(Args, Debug)]
pub struct SendArguments {
    /// The computation that the instruction belongs to.
    #[arg(long, value_name = "NUMBER", value_parser = number, default_value = "1")]
    pub computation: u64,
    /// Execute the instruction at these places of routers, any of: input, central, output.
    #[arg(long, value_name = "PLACES", value_delimiter = ',', default_value = "input")]
    pub at: Vec<LocationArgument>,
    /// Have routers record the result, by computation: `switchpath show state` shows it.
    #[arg(long)]
    pub trace: bool,
}

/// A place in a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum LocationArgument {
    /// At the ingress port.
    Input,
    /// At the central store.
    Central,
    /// At the egress port.
    Output,
}

/// Options of commands that probe the routers on the way to a host.
#[derive(Args, Clone, Copy, Debug)]
pub struct ProbeArguments {
    /// Probe at most this many hops.
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u8).range(1..=200))]
    pub hops: u8,
    /// Wait this long for an answer.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub wait: Nanos,
    /// Probe each hop this many times: answers get lost, and routers limit their rate.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub tries: u8,
}

/// Options of `subcast`, for a source or a receiver.
#[derive(Args, Debug)]
pub struct SubcastArguments {
    /// Receive the data of this source.
    #[arg(long, value_name = "SOURCE", requires = "group", conflicts_with = "to", required_unless_present = "to")]
    pub from: Option<IpAddr>,
    /// Receive from this group.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub group: Option<IpAddr>,
    /// Send to this group, as the source.
    #[arg(long, value_name = "GROUP")]
    pub to: Option<IpAddr>,
    /// The layer of the data; for a receiver, the highest layer to subscribe to.
    #[arg(long, value_name = "N")]
    pub layer: Option<u64>,
    /// Change the subscription of a receiver: each line of the standard input is the new highest layer, or `none`.
    #[arg(long, requires = "layer", requires = "from")]
    pub ask: bool,
    /// Send to all members of the group, subscribed or not.
    #[arg(long, requires = "to", conflicts_with = "layer")]
    pub everybody: bool,
    /// The lifetime of entries in routers.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lifetime: Nanos,
    /// Send, or receive, this many packets.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Send a packet at this interval.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "to")]
    pub every: Nanos,
    /// Receive for this time.
    #[arg(long, value_name = "TIME", requires = "from")]
    pub time: Option<Nanos>,
    /// Send this data; `{n}` in it is the number of the packet, from 0.
    #[arg(value_name = "DATA")]
    pub data: Vec<String>,
}

/// Options of a group member, or its root.
#[derive(Args, Debug)]
pub struct MemberArguments {
    /// Report to this root, as a member.
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<IpAddr>,
    /// Report this value.
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub value: Vec<u64>,
    /// Act as this many members, each with its own socket. They report the values in turn.
    #[arg(long, value_name = "N", default_value = "1", requires = "to", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub members: u64,
    /// The lifetime of entries in routers.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lifetime: Nanos,
    /// The delay of a packet from the farthest member to the root.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub delay: Nanos,
    /// Send each packet this many times in a phase, against losses.
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
    /// Repeat an incomplete round up to this many rounds, one every twice the lifetime. Members do not learn how a round ended, and take part in all
    /// of them: give the same number to members and root.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub attempts: u16,
}

/// Parses a number, in decimal or as `0x2a`.
fn number(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| "write a number below 2^64, like 42 or 0x2a".to_owned())
}

impl StateCommand {
    /// Parses an instruction that the operator of a router has registered.
    pub fn registered(words: &[String]) -> Result<RegisteredInstruction, super::UsageError> {
        words.join(" ").parse().map_err(|error: InvalidCall| super::UsageError(error.to_string()))
    }

    /// Parses an instruction.
    pub fn instruction(words: &[String]) -> Result<StateInstruction, super::UsageError> {
        words.join(" ").parse().map_err(|error: esp::isa::InvalidInstruction| super::UsageError(error.to_string()))
    }
}
