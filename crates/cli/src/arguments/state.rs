//! The options of tools for ephemeral state.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use esp::isa::{Instruction, Operator};
use esp::registered::{NoCall, RegisteredInstruction};
use std::net::IpAddr;
use std::path::PathBuf;
use units::{Nanos, PacketRate, Rate};

/// Ephemeral state: what packets leave in routers for a while, and what a group of hosts can find out with it.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath state size --line 1gbit                 how large the store of a port has to be
  switchpath state show lan                          what is in the store of a port of the running router
  switchpath state ping 192.0.2.1                    which routers on the way execute instructions, and where
  switchpath state branch 192.0.2.1 198.51.100.7     where the ways to several hosts part
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3   receive, of what is sent to those who ask for it
  switchpath state subcast 7 --to 239.1.2.3 hello    send it: no branch without such a receiver gets a copy
  switchpath state collect 0x5eed --to 192.0.2.1 --value 17 --operator max
  switchpath state collect 0x5eed --operator max     the one that they report to: the largest value of all
  switchpath state group-size 0x5eed                 how many members there are
  switchpath state send 192.0.2.1 mark 0x2a 1        one instruction
  switchpath state listen                            instructions that come to this host
  switchpath state listen --carriage ip              those that come in IP packets of their own
  switchpath state generate 192.0.2.1 --rate 10kpps --new 50
  switchpath state dump capture.pcapng
  switchpath state conform                           whether instructions do what the vectors say

{EXIT}"))]
pub struct State {
    /// What to do.
    #[command(subcommand)]
    pub command: StateCommand,
    /// Print JSON.
    #[arg(short, long, global = true)]
    pub json: bool,
    /// What instructions travel in: `udp`, datagrams, or `ip`, IP packets of `--protocol`, which takes root or CAP_NET_RAW.
    #[arg(long, value_name = "WHAT", default_value = "udp", global = true)]
    pub carriage: Carriage,
    /// The UDP port that carries instructions: `udp_port` of routers.
    #[arg(long, visible_alias = "udp-port", value_name = "PORT", default_value = "5937", global = true,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// The protocol of IPv4 and IPv6 that carries instructions: `protocol` of routers.
    #[arg(long, value_name = "NUMBER", default_value = "253", global = true,
          value_parser = clap::value_parser!(u8).range(143..=254))]
    pub protocol: u8,
    /// The operator's key, for routers that execute nothing else: what is sent is sealed with it, and only what is sealed with
    /// it is taken. A file of 32 hexadecimal digits.
    #[arg(long, value_name = "FILE", global = true, value_hint = ValueHint::FilePath)]
    pub key: Option<PathBuf>,
    #[command(flatten)]
    pub socket: Socket,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum StateCommand {
    /// Say how many entries a store needs so that it never overflows.
    Size {
        /// The rate of the line, in frames of the shortest length.
        #[arg(long, value_name = "RATE", conflicts_with = "pps", required_unless_present = "pps")]
        line: Option<Rate>,
        /// Packets a second.
        #[arg(long, value_name = "RATE")]
        pps: Option<PacketRate>,
        /// The most entries that a packet creates.
        #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=256))]
        creates: u64,
        /// How long entries live.
        #[arg(long, value_name = "TIME", default_value = "10s")]
        lifetime: Nanos,
    },
    /// Show what is in the stores of the running router.
    Show {
        /// Only that of this port; `central` is the one in the middle.
        store: Option<String>,
        /// At most so many entries.
        #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=100_000))]
        limit: u64,
    },
    /// Send one instruction.
    Send {
        /// To whom: the routers on the way execute it.
        to: IpAddr,
        /// The instruction, like `count 0x2a below 3`, `mark 0x2a 1`, `get 0x2a`; one that the operator has registered as
        /// `call NUMBER OPERATOR TAG ... VALUE`.
        #[arg(required = true, value_name = "INSTRUCTION")]
        instruction: Vec<String>,
        #[command(flatten)]
        how: How,
    },
    /// Print the instructions that come to this host.
    Listen {
        /// End after so many.
        #[arg(short, long, value_name = "PACKETS")]
        count: Option<u64>,
        /// End after this time.
        #[arg(long, value_name = "TIME")]
        time: Option<Nanos>,
        /// Also those sent to this multicast group.
        #[arg(long, value_name = "ADDRESS")]
        group: Option<IpAddr>,
        /// Send each back as it came, with whatever it carries; routers on the way back leave it alone. Not with `--carriage ip`.
        #[arg(long)]
        answer: bool,
    },
    /// Find out which routers on the way to a host execute instructions, and at which of their places.
    ///
    /// Probes whose time to live ends at one router after the other come back as they arrived there, in ICMP errors. What a router
    /// executes changes them. Behind one that could not execute a probe nothing is known: none does.
    #[command(after_help = "\
Examples:
  switchpath state ping 192.0.2.1
  switchpath state ping 2001:db8::1 --hops 8 --wait 300ms -j

  yes     executes instructions there      no   forwards them like any packet
  failed  could not: the store is full,    ?    it, or a neighbour, does not answer, or a router before has failed
          or it does not execute this one")]
    Ping {
        /// The host, which need not know of any of this.
        host: IpAddr,
        #[command(flatten)]
        way: Way,
    },
    /// Find the routers at which the ways from this host to several others part.
    ///
    /// All are asked with the same tag, which a router executes with the same answer: the ways are one for as long as the answers are.
    /// Routers that execute nothing are told apart by their addresses.
    #[command(after_help = "\
Examples:
  switchpath state branch 198.51.100.7 203.0.113.9
  switchpath state branch 198.51.100.7 203.0.113.9 203.0.113.77 -j | jq '.branches[].router'")]
    Branch {
        /// The hosts.
        #[arg(required = true, num_args = 2..=64)]
        hosts: Vec<IpAddr>,
        #[command(flatten)]
        way: Way,
    },
    /// Send to a part of a multicast group: to those who ask for it; or receive as one of them.
    ///
    /// Receivers mark the ports by which what the source sends goes to them, again and again for as long as they run; copies of data leave
    /// by marked ports only. A receiver that ends gets data for another two thirds of a lifetime at most.
    #[command(after_help = "\
Examples:
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3      a receiver; 192.0.2.1 is the source
  switchpath state subcast 7 --to 239.1.2.3 --count 10 a message     the source
  switchpath state subcast 7 --from 192.0.2.1 --group 239.1.2.3 --layer 2   wants layers 0 to 2
  switchpath state subcast 7 --to 239.1.2.3 --layer 3 details        of a layer that some want")]
    Subcast {
        /// The computation: a number that the source and its receivers know.
        #[arg(value_parser = number)]
        computation: u64,
        #[command(flatten)]
        part: Subcasting,
    },
    /// Send a message of which no router lets a second copy pass within a lifetime.
    Dedup {
        /// To whom.
        to: IpAddr,
        /// The number of the message.
        #[arg(value_parser = number)]
        message: u64,
        #[command(flatten)]
        how: How,
    },
    /// Collect a value from all members of a group: one packet, or few, come to its root, whatever the size of the group.
    ///
    /// Rounds begin at multiples of twice the lifetime, by everybody's clock. Members say `--to`, the root does not.
    /// With `--attempts` a round that is not complete is followed by another.
    Collect {
        /// The computation: a number that root and members know.
        #[arg(value_parser = number)]
        computation: u64,
        /// How values are combined: add, min, max, and, or, xor, first, last.
        #[arg(long, value_name = "OPERATOR", default_value = "add")]
        operator: Operator,
        #[command(flatten)]
        member: Member,
    },
    /// Count the members of a group.
    GroupSize {
        /// The computation: a number that root and members know.
        #[arg(value_parser = number)]
        computation: u64,
        #[command(flatten)]
        member: Member,
    },
    /// Send many instructions: to see what a router does with them.
    Generate {
        /// To whom.
        to: IpAddr,
        /// Packets a second.
        #[arg(long, value_name = "RATE", default_value = "1kpps")]
        rate: PacketRate,
        /// How long.
        #[arg(long, value_name = "TIME", default_value = "10s")]
        time: Nanos,
        /// Of a hundred packets so many name a tag that was not used before.
        #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u64).range(0..=100))]
        new: u64,
        /// Computations they belong to, in turn.
        #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        computations: u64,
        /// The instruction, or several and how often each: `count=3,compare=1`.
        #[arg(long, value_name = "MIX", default_value = "count")]
        instruction: String,
        /// Bytes of each IP packet, filled up with data behind the instruction; as short as they can be by default.
        #[arg(long, value_name = "BYTES", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=65_000))]
        size: u64,
        /// What tags and computations are drawn from.
        #[arg(long, default_value = "1")]
        seed: u64,
        /// Have routers note what becomes of them, by computation: `switchpath show state` tells it.
        #[arg(long)]
        trace: bool,
    },
    /// Print the instructions in a capture: of Ethernet, of any device of Linux, of a loopback, or of IP packets without a link.
    Dump {
        /// The capture, pcap or pcapng.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The IPv4 option that carries instructions: `ip_option` of routers; 0 for none.
        #[arg(long, value_name = "NUMBER", default_value = "158")]
        ip_option: u8,
    },
    /// Hold the instructions of this build to test vectors.
    Conform {
        /// The vectors; those of this build where none are given.
        #[arg(value_hint = ValueHint::FilePath)]
        vectors: Option<PathBuf>,
    },
}

/// What instructions travel in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Carriage {
    /// Datagrams.
    Udp,
    /// IP packets of their own.
    Ip,
}

/// How an instruction is sent.
#[derive(Args, Debug)]
pub struct How {
    /// The computation it belongs to.
    #[arg(long, value_name = "NUMBER", value_parser = number, default_value = "1")]
    pub computation: u64,
    /// Where routers execute it, any of: input, central, output.
    #[arg(long, value_name = "PLACES", value_delimiter = ',', default_value = "input")]
    pub at: Vec<Place>,
    /// Have routers note what becomes of it, by computation: `switchpath show state` tells it.
    #[arg(long)]
    pub trace: bool,
}

/// A place in a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Place {
    /// Where it comes in.
    Input,
    /// In the middle.
    Central,
    /// Where it leaves.
    Output,
}

/// How a way is searched.
#[derive(Args, Clone, Copy, Debug)]
pub struct Way {
    /// Look no farther.
    #[arg(long, value_name = "N", default_value = "30", value_parser = clap::value_parser!(u8).range(1..=200))]
    pub hops: u8,
    /// How long an answer may take.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub wait: Nanos,
    /// How often to ask: answers get lost, and routers give few at a time.
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub tries: u8,
}

/// A source, or a receiver that asks for what it sends.
#[derive(Args, Debug)]
pub struct Subcasting {
    /// A receiver, of what this source sends.
    #[arg(long, value_name = "SOURCE", requires = "group", conflicts_with = "to", required_unless_present = "to")]
    pub from: Option<IpAddr>,
    /// The group that it receives.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub group: Option<IpAddr>,
    /// The source, which sends to this group.
    #[arg(long, value_name = "GROUP")]
    pub to: Option<IpAddr>,
    /// Of data: the layer it is of. Of a receiver: the highest it wants.
    #[arg(long, value_name = "N")]
    pub layer: Option<u64>,
    /// A receiver changes its mind: each line of the standard input is the highest layer that it wants from then on, or `none`.
    #[arg(long, requires = "layer", requires = "from")]
    pub ask: bool,
    /// Send to everybody in the group, whoever asks for it.
    #[arg(long, requires = "to", conflicts_with = "layer")]
    pub everybody: bool,
    /// How long routers keep entries.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lifetime: Nanos,
    /// Packets to send, or to receive.
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The time from one packet to the next.
    #[arg(long, value_name = "TIME", default_value = "1s", requires = "to")]
    pub every: Nanos,
    /// How long to receive.
    #[arg(long, value_name = "TIME", requires = "from")]
    pub time: Option<Nanos>,
    /// What to send; `{n}` in it is the number of the packet, from 0.
    #[arg(value_name = "DATA")]
    pub data: Vec<String>,
}

/// A member of a group, or its root.
#[derive(Args, Debug)]
pub struct Member {
    /// A member that reports to this root.
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<IpAddr>,
    /// What it reports.
    #[arg(long, value_name = "N", default_value = "1", value_delimiter = ',')]
    pub value: Vec<u64>,
    /// Be so many members, each with a socket of its own; they take the values in turn.
    #[arg(long, value_name = "N", default_value = "1", requires = "to", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub members: u64,
    /// How long routers keep entries.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lifetime: Nanos,
    /// How long a packet takes from the farthest member to the root.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub delay: Nanos,
    /// How often each packet is sent in a phase: against losses.
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
    /// Play up to so many rounds where one is not complete, one every twice the lifetime. Members do not hear how a
    /// round ended, and play all of them: say the same to them and to the root.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub attempts: u16,
}

/// A number, in decimal or as `0x2a`.
fn number(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    read.map_err(|_| "write a number below 2^64, like 42 or 0x2a".to_owned())
}

impl StateCommand {
    /// The instruction of words that the operator of a router has registered.
    pub fn registered(words: &[String]) -> Result<RegisteredInstruction, super::Usage> {
        words.join(" ").parse().map_err(|error: NoCall| super::Usage(error.to_string()))
    }

    /// The instruction of words.
    pub fn instruction(words: &[String]) -> Result<Instruction, super::Usage> {
        words.join(" ").parse().map_err(|error: esp::isa::NoInstruction| super::Usage(error.to_string()))
    }
}
