//! `[state]`: ephemeral state, what packets may leave in the router for a while, and what they may do with it.

use crate::cpu::named;
use crate::{Code, InstructionDeclaration};
use serde::{Serialize, Serializer};
use std::fmt;
use units::{Nanos, PacketRate};

/// Entries of a store at most.
pub const MOST_ENTRIES: u64 = 1 << 28;

/// The most queues that packets may wait in on their way from one worker to another.
pub const MOST_QUEUES: u64 = 16;

/// Ephemeral state (Calvert et al. 2003).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StatePlan {
    /// How long each entry lives.
    #[serde(serialize_with = "crate::model::nanoseconds")]
    pub lifetime: Nanos,
    /// Entries of each port's store, where the port does not say another number.
    pub capacity: u64,
    /// Entries of the central store; none where nothing is executed in the middle.
    pub central: u64,
    /// Whether a store that is smaller than its bound is refused.
    pub strict: bool,
    /// What a full store does.
    pub full: WhenFull,
    /// What becomes of packets whose instruction cannot be executed.
    pub on_abort: OnAbort,
    /// What becomes of instructions where a worker has too little of the processor.
    pub overload: Overload,
    /// Who takes away what has expired.
    pub cleaning: Cleaning,
    /// Parts of each store; none for as many as there are workers.
    pub shards: Option<u16>,
    /// Queues that packets wait in on their way from one worker to another, at most [`MOST_QUEUES`].
    pub queues: u8,
    /// Packets whose memory is fetched together.
    pub batch: u8,
    /// The protocol of IPv4, and next header of IPv6, of packets with an instruction.
    pub protocol: u8,
    /// The port of datagrams with an instruction; zero for none.
    pub udp_port: u16,
    /// The type of the IPv4 option with an instruction; zero for none.
    pub ip_option: u8,
    /// Whether all ports and the centre have one store together.
    pub single_store: bool,
    /// Whether two computations that use the same tag mean two entries.
    pub by_computation: bool,
    /// Whether other packets of a flow that carries instructions along stay behind them.
    pub flow_order: bool,
    /// Whether entries remember who created them.
    pub diagnostics: bool,
    /// The instructions that are executed, in the order of their numbers.
    pub instructions: Vec<Instruction>,
    /// Instructions a second that are executed for one source.
    #[serde(serialize_with = "crate::cpu::as_optional_text")]
    pub source_rate: Option<PacketRate>,
    /// Entries a second that one source may create.
    #[serde(serialize_with = "crate::cpu::as_optional_text")]
    pub source_creates: Option<PacketRate>,
    /// The file of the operator's key: with one, only parts that are sealed with it are executed.
    pub key: Option<String>,
    /// Instructions that the operator has registered, by their numbers.
    pub registered: Vec<RegisteredPlan>,
}

/// An instruction that the operator has registered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RegisteredPlan {
    /// Its number in packets, 128 to 255.
    pub number: u8,
    /// What it declares.
    pub declared: InstructionDeclaration,
    /// What makes it. One that was built anew is another.
    #[serde(skip)]
    pub code: Code,
}

impl fmt::Display for RegisteredPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{:016x}", self.number, self.declared.name, self.code.digest)
    }
}

/// The most entries that one packet with an instruction of the built-in set creates (Calvert et al. 2003, 2).
const CREATES: u64 = 2;

impl StatePlan {
    /// The most entries that one packet creates.
    pub fn creates(&self) -> u64 {
        self.registered.iter().map(|one| one.declared.creates.into()).fold(CREATES, u64::max)
    }

    /// The most entries that a line can fill which brings so many packets.
    pub fn bound(&self, line: PacketRate) -> u64 {
        PacketRate::pps(line.get().saturating_mul(self.creates())).within(self.lifetime)
    }
}

/// What a full store does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// Instructions that would create an entry are aborted.
    #[default]
    AbortCreates,
    /// All are.
    AbortAll,
}

/// What becomes of packets whose instruction cannot be executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnAbort {
    /// They go on and say so.
    #[default]
    Forward,
    /// They are dropped.
    Drop,
}

/// What becomes of instructions where more packets come than a worker keeps up with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overload {
    /// They are executed; packets that find no room are dropped, with instructions or without.
    #[default]
    Execute,
    /// Packets pass without being executed until the worker has caught up.
    Pass,
}

/// Who takes away what has expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleaning {
    /// The owner of each part, with each batch.
    #[default]
    Inline,
    /// A worker beside its other work.
    Assist,
    /// A thread of its own.
    Dedicated,
}

/// An instruction of the built-in set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Instruction {
    /// Does nothing.
    Nop,
    /// Counts, and forwards below a threshold.
    Count,
    /// Keeps a value, and forwards what compares to it as asked.
    Compare,
    /// Combines what children report.
    Collect,
    /// The same, where packets get lost.
    Rcollect,
    /// Makes a child known to that.
    Rchld,
    /// Creates a value where there is none.
    Mark,
    /// Forwards where there is a value.
    Test,
    /// Reads a value.
    Get,
    /// Writes a value.
    Put,
    /// Forwards where a value allows it.
    Setfwd,
}

/// Something of the router that instructions may read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Variable {
    /// Packets that wait at the port.
    Queue,
    /// Packets that the port's link has dropped.
    Drops,
    /// What its medium carries, in bits a second.
    Rate,
    /// The number by which others know the router.
    Node,
    /// Its time, in nanoseconds since it began.
    Time,
}

/// Where a port executes instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Places {
    /// Where packets come in and where they leave.
    #[default]
    Both,
    /// Only where they come in.
    Input,
    /// Only where they leave.
    Output,
    /// Nowhere.
    None,
}

named! {
    WhenFull { AbortCreates "abort_creates", AbortAll "abort_all" }
    OnAbort { Forward "forward", Drop "drop" }
    Overload { Execute "execute", Pass "pass" }
    Cleaning { Inline "inline", Assist "assist", Dedicated "dedicated" }
    Instruction {
        Nop "nop", Count "count", Compare "compare", Collect "collect", Rcollect "rcollect", Rchld "rchld", Mark "mark",
        Test "test", Get "get", Put "put", Setfwd "setfwd",
    }
    Variable { Queue "queue", Drops "drops", Rate "rate", Node "node", Time "time" }
    Places { Both "both", Input "input", Output "output", None "none" }
}

impl Places {
    /// Whether packets are worked on where they come in, and where they leave.
    pub const fn are(self) -> (bool, bool) {
        (matches!(self, Places::Both | Places::Input), matches!(self, Places::Both | Places::Output))
    }
}

/// What a port does with ephemeral state.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PortStatePlan {
    /// Where it executes.
    pub at: Places,
    /// Entries of its store; those that `[state]` says where none.
    pub capacity: Option<u64>,
    /// What of the router packets may read there.
    pub variables: Vec<Variable>,
}

impl PortStatePlan {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == PortStatePlan::default()
    }
}

fn all(list: &[impl fmt::Display]) -> String {
    if list.is_empty() {
        return "none".to_string();
    }
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for PortStatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", self.at)?;
        self.capacity.iter().try_for_each(|capacity| write!(f, " capacity {capacity}"))?;
        if self.variables.is_empty() { Ok(()) } else { write!(f, " variables {}", all(&self.variables)) }
    }
}

impl fmt::Display for StatePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lifetime {} capacity {} central {}", self.lifetime, self.capacity, self.central)?;
        write!(f, " strict {} full {} on_abort {}", self.strict, self.full, self.on_abort)?;
        if self.overload != Overload::default() {
            write!(f, " overload {}", self.overload)?;
        }
        write!(f, " cleaner {}", self.cleaning)?;
        self.shards.iter().try_for_each(|shards| write!(f, " shards {shards}"))?;
        if self.queues != 1 {
            write!(f, " queues {}", self.queues)?;
        }
        write!(f, " batch {} protocol {}", self.batch, self.protocol)?;
        write!(f, " udp_port {} ip_option {} single_store {}", self.udp_port, self.ip_option, self.single_store)?;
        write!(f, " by_computation {} flow_order {}", self.by_computation, self.flow_order)?;
        write!(f, " diagnostics {}", self.diagnostics)?;
        self.source_rate.iter().try_for_each(|rate| write!(f, " source_rate {rate}"))?;
        self.source_creates.iter().try_for_each(|rate| write!(f, " source_creates {rate}"))?;
        self.key.iter().try_for_each(|file| write!(f, " key {file:?}"))?;
        if !self.registered.is_empty() {
            write!(f, " registered {}", all(&self.registered))?;
        }
        if self.instructions.len() < Instruction::ALL.len() {
            write!(f, " instructions {}", all(&self.instructions))?;
        }
        Ok(())
    }
}
