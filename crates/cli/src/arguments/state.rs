//! The options of tools for ephemeral state.

use super::{EXIT, Socket};
use clap::{Args, Subcommand, ValueHint};
use esp::isa::{Instruction, Operator};
use std::net::IpAddr;
use std::path::PathBuf;
use units::{Nanos, PacketRate, Rate};

/// Ephemeral state: what packets leave in routers for a while, and what a group of hosts can find out with it.
#[derive(Args, Debug)]
#[command(after_help = format!("\
Examples:
  switchpath state size --line 1gbit                 how large the store of a port has to be
  switchpath state show lan                          what is in the store of a port of the running router
  switchpath state collect 0x5eed --to 192.0.2.1 --value 17 --operator max
  switchpath state collect 0x5eed --operator max     the one that they report to: the largest value of all
  switchpath state group-size 0x5eed                 how many members there are
  switchpath state send 192.0.2.1 mark 0x2a 1        one instruction
  switchpath state listen                            instructions that come to this host
  switchpath state generate 192.0.2.1 --rate 10kpps --new 50%
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
    /// The UDP port that carries instructions.
    #[arg(long, value_name = "PORT", default_value = "5937", global = true,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
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
        /// The instruction, like `count 0x2a below 3`, `mark 0x2a 1`, `get 0x2a`.
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
        /// The instruction: count, compare, mark, put, get, test, nop.
        #[arg(long, default_value = "count")]
        instruction: String,
        /// What tags and computations are drawn from.
        #[arg(long, default_value = "1")]
        seed: u64,
    },
    /// Print the instructions in a capture.
    Dump {
        /// The capture, pcap or pcapng.
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Hold the instructions of this build to test vectors.
    Conform {
        /// The vectors; those of this build where none are given.
        #[arg(value_hint = ValueHint::FilePath)]
        vectors: Option<PathBuf>,
    },
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

/// A member of a group, or its root.
#[derive(Args, Debug)]
pub struct Member {
    /// A member that reports to this root.
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<IpAddr>,
    /// What it reports.
    #[arg(long, value_name = "N", default_value = "1")]
    pub value: u64,
    /// How long routers keep entries.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub lifetime: Nanos,
    /// How long a packet takes from the farthest member to the root.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub delay: Nanos,
    /// How often each packet is sent in a phase: against losses.
    #[arg(long, value_name = "N", default_value = "6", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
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
    /// The instruction of words.
    pub fn instruction(words: &[String]) -> Result<Instruction, super::Usage> {
        words.join(" ").parse().map_err(|error: esp::isa::NoInstruction| super::Usage(error.to_string()))
    }
}
