//! `[state]`: ephemeral state, what packets may leave in the router for a while, and what they may do with it.

pub use super::port::state::{MOST_ENTRIES, Places, PortStatePlan, Variable};

use super::port::PortPlan;
use super::port::state::{ENTRIES, several};
use crate::diagnostic::Report;
use crate::diff::{Edit, edit, joined, or_none};
use crate::document::{Node, Path, Section};
use crate::key::{FILE, Form, Key, Kind, PACKET_RATE, TIME, key, required};
use crate::named::{as_optional_text, named, nanoseconds};
use crate::text::quote;
use crate::{Catalogue, Code, InstructionDeclaration};
use serde::Serialize;
use std::fmt;
use std::ops::RangeInclusive;
use units::{Nanos, PacketRate};

pub(crate) const KEY: Key = key(
    "state",
    Kind::Table(KEYS),
    "",
    "{ lifetime = \"10s\" }",
    "Ephemeral state: what packets may leave in the router for a while; without the table they may not.",
);

/// The most queues that packets may wait in on their way from one worker to another.
pub const MOST_QUEUES: u64 = 16;

/// How long entries may live: the ticks of a store can tell no more apart.
const LIFETIMES: RangeInclusive<Nanos> = Nanos::millis(1)..=Nanos::secs(1800);
const RATES: RangeInclusive<PacketRate> = PacketRate::pps(1)..=PacketRate::pps(1_000_000_000);

const KEYS: &[Key] = &[
    key(
        "lifetime",
        Kind::Text(TIME),
        "\"10s\"",
        "\"10s\"",
        "How long each entry lives, 1ms to 1800s: from its creation, whatever is done to it.",
    ),
    key(
        "capacity",
        ENTRIES,
        "65536",
        "2000000",
        "Entries of each port's store. A store of two entries for each packet that the line brings in a lifetime never \
         overflows: `switchpath state size`.",
    ),
    key(
        "central",
        Kind::Integer { least: 0, most: MOST_ENTRIES },
        "65536",
        "0",
        "Entries of the central store; with 0 nothing is executed in the middle.",
    ),
    key(
        "strict",
        Kind::Boolean,
        "false",
        "true",
        "Whether a port that could overflow its store, by its `line_rate` or else its device's, is an error, not a warning.",
    ),
    key(
        "full",
        Kind::Text(Form::Choice(WhenFull::NAMES)),
        "\"abort_creates\"",
        "\"abort_all\"",
        "What a full store does: `abort_creates` aborts instructions that would create an entry, `abort_all` every one.",
    ),
    key(
        "on_abort",
        Kind::Text(Form::Choice(OnAbort::NAMES)),
        "\"forward\"",
        "\"drop\"",
        "What becomes of packets whose instruction cannot be executed: `forward` lets them go on with their error bit set, \
         `drop` drops them.",
    ),
    key(
        "overload",
        Kind::Text(Form::Choice(Overload::NAMES)),
        "\"execute\"",
        "\"pass\"",
        "What becomes of instructions where more packets come than a worker keeps up with: `execute` executes them, and what \
         finds no room is dropped, with an instruction or without; `pass` lets packets pass unexecuted until the worker has \
         caught up.",
    ),
    key(
        "cleaner",
        Kind::Text(Form::Choice(Cleaning::NAMES)),
        "\"inline\"",
        "\"assist\"",
        "Who takes away what has expired: `inline` the worker that owns the part, with each batch; `assist` the first worker, \
         beside its other work; `dedicated` a thread of its own.",
    ),
    key(
        "shards",
        Kind::Integer { least: 1, most: 64 },
        "",
        "1",
        "Parts that each store is divided into, each with a worker of its own that executes all instructions on it; by default as many \
         as there are workers. A part that is full is full, whatever room the others have: fewer waste less, and leave more to do to \
         fewer workers.",
    ),
    key(
        "queues",
        Kind::Integer { least: 1, most: MOST_QUEUES },
        "1",
        "4",
        "Queues that packets wait in on their way from the worker that received them to the one that their computation belongs to, each with \
         its part of the room for 1024 that each two workers have. A computation is in one of them, so what is too much of it takes no room \
         from those in others; nor does it find any but that of its own.",
    ),
    key(
        "batch",
        Kind::Integer { least: 1, most: 64 },
        "32",
        "1",
        "Packets whose entries are fetched from memory together.",
    ),
    key(
        "protocol",
        Kind::Integer { least: 143, most: 254 },
        "253",
        "254",
        "The protocol of IPv4 and IPv6 that carries instructions: 253 and 254 are for experiments (RFC 3692), 143 to 252 are \
         not assigned.",
    ),
    key(
        "udp_port",
        Kind::Integer { least: 0, most: 65_535 },
        "5937",
        "0",
        "The UDP port that carries instructions; 0 for none.",
    ),
    key(
        "ip_option",
        Kind::Integer { least: 0, most: 255 },
        "158",
        "0",
        "The type of the IPv4 option that carries instructions along with other packets; 0 for none. 30, 94, 158 and 222 are for \
         experiments (RFC 4727).",
    ),
    key(
        "single_store",
        Kind::Boolean,
        "false",
        "true",
        "Whether all ports and the centre have one store, that of `central`: subcast does not work then. For comparison.",
    ),
    key(
        "by_computation",
        Kind::Boolean,
        "false",
        "true",
        "Whether two computations that use the same tag mean two entries.",
    ),
    key(
        "flow_order",
        Kind::Boolean,
        "true",
        "false",
        "With several workers: whether the other packets of a flow that carries instructions along go by the same worker, in \
         order.",
    ),
    key(
        "diagnostics",
        Kind::Boolean,
        "false",
        "true",
        "Whether entries remember which computation created them: `switchpath state show` has it then, and tags that two \
         computations use are counted. Two bytes an entry, and memory touched once more.",
    ),
    key(
        "instructions",
        Kind::Texts(Form::Choice(Instruction::NAMES)),
        "",
        "[\"count\", \"compare\"]",
        "The instructions that are executed; by default all.",
    ),
    key(
        "source_rate",
        Kind::Text(PACKET_RATE),
        "",
        "\"1kpps\"",
        "Instructions a second that each worker executes for one source (an IPv4 address, or a /64) at each store, a second's \
         worth at once; without it as many as come.",
    ),
    key(
        "source_creates",
        Kind::Text(PACKET_RATE),
        "",
        "\"100pps\"",
        "Entries a second that one source may create in each worker's part of a store, a second's worth at once; without it as \
         many as fit.",
    ),
    key(
        "key",
        Kind::Text(FILE),
        "",
        "\"/etc/switchpath/state.key\"",
        "The file of the operator's key, 32 hexadecimal digits, read with each apply and reload: with it, only instructions are \
         executed that are sealed with this key, or with that of a second line.",
    ),
    key(
        "instruction",
        Kind::Tables { name: "[a-z][a-z0-9_-]{0,31}", keys: INSTRUCTION },
        "",
        "{ mean = { number = 128 } }",
        "Instructions besides the built-in ones, by their names: guests (`mean.wasm` in the directory of `--guests`).",
    ),
];

const INSTRUCTION: &[Key] =
    &[required("number", Kind::Integer { least: 128, most: 255 }, "128", "The number by which packets name it.")];

/// Ephemeral state (Calvert et al. 2003).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StatePlan {
    /// How long each entry lives.
    #[serde(serialize_with = "nanoseconds")]
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
    #[serde(serialize_with = "as_optional_text")]
    pub source_rate: Option<PacketRate>,
    /// Entries a second that one source may create.
    #[serde(serialize_with = "as_optional_text")]
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

named! {
    WhenFull { AbortCreates "abort_creates", AbortAll "abort_all" }
    OnAbort { Forward "forward", Drop "drop" }
    Overload { Execute "execute", Pass "pass" }
    Cleaning { Inline "inline", Assist "assist", Dedicated "dedicated" }
    Instruction {
        Nop "nop", Count "count", Compare "compare", Collect "collect", Rcollect "rcollect", Rchld "rchld", Mark "mark",
        Test "test", Get "get", Put "put", Setfwd "setfwd",
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
            write!(f, " registered {}", joined(&self.registered))?;
        }
        if self.instructions.len() < Instruction::ALL.len() {
            write!(f, " instructions {}", joined(&self.instructions))?;
        }
        Ok(())
    }
}

pub(crate) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    (ports, workers): (&[PortPlan], u16),
    catalogue: &Catalogue,
) -> Option<StatePlan> {
    let Some(node) = root.node("state") else {
        if let Some(port) = ports.iter().find(|port| !port.state.is_default()) {
            report.warning(root.span.clone(), "port", || {
                let reason =
                    format!("port '{}' says what it does with ephemeral state, and there is no [state]", port.name);
                (reason, "add [state]".to_string())
            });
        }
        return None;
    };
    let span = node.span.clone();
    let section = node.section(report, KEYS, "[state]")?;
    let plan = StatePlan {
        lifetime: section.within(report, "lifetime", LIFETIMES).unwrap_or(Nanos::secs(10)),
        capacity: section.integer(report, "capacity").unwrap_or(1),
        central: section.integer(report, "central").unwrap_or(0),
        strict: section.boolean(report, "strict"),
        full: section.choice(report, "full", WhenFull::ALL).unwrap_or_default(),
        on_abort: section.choice(report, "on_abort", OnAbort::ALL).unwrap_or_default(),
        overload: section.choice(report, "overload", Overload::ALL).unwrap_or_default(),
        cleaning: section.choice(report, "cleaner", Cleaning::ALL).unwrap_or_default(),
        shards: shards(report, &section, workers),
        queues: section.integer(report, "queues").unwrap_or(1) as u8,
        batch: section.integer(report, "batch").unwrap_or(1) as u8,
        protocol: section.integer(report, "protocol").unwrap_or(253) as u8,
        udp_port: section.integer(report, "udp_port").unwrap_or(0) as u16,
        ip_option: section.integer(report, "ip_option").unwrap_or(0) as u8,
        single_store: section.boolean(report, "single_store"),
        by_computation: section.boolean(report, "by_computation"),
        flow_order: section.boolean(report, "flow_order"),
        diagnostics: section.boolean(report, "diagnostics"),
        instructions: several(report, &section, "instructions", Instruction::ALL)
            .unwrap_or_else(|| Instruction::ALL.to_vec()),
        source_rate: section.within(report, "source_rate", RATES),
        source_creates: section.within(report, "source_creates", RATES),
        key: file(report, &section, "key"),
        registered: registered(report, &section, catalogue),
    };
    if plan.single_store && plan.central == 0 {
        report.error(span.clone(), "state.single_store", || {
            ("the one store is that of the centre, and has no entries".to_string(), "give `central` some".to_string())
        });
    }
    for port in ports {
        too_small(report, &plan, port, span.clone());
    }
    Some(plan)
}

/// Parts of each store: none where nothing is said of them.
fn shards(report: &mut Report<'_>, section: &Section<'_>, workers: u16) -> Option<u16> {
    let node = section.node("shards")?;
    let shards = section.integer(report, "shards")? as u16;
    if shards > workers {
        report.error(node.span, node.path, || {
            let reason = format!(
                "{shards} parts, and {workers} to execute instructions on one each: nobody would have the rest"
            );
            (reason, format!("give at most {workers}, or the router more `workers`"))
        });
        return None;
    }
    Some(shards)
}

/// Says so where the line of a port can bring more than its store holds (spec E-04).
fn too_small(report: &mut Report<'_>, plan: &StatePlan, port: &PortPlan, span: std::ops::Range<usize>) {
    let Some(rate) = port.cpu.line_rate.filter(|_| port.state.at != Places::None && !plan.single_store) else { return };
    let bound = plan.bound(rate);
    let capacity = port.state.capacity.unwrap_or(plan.capacity);
    if capacity >= bound {
        return;
    }
    let say = || {
        let reason = format!("the store of port '{}' has {capacity} entries, and {rate} can fill {bound}", port.name);
        (reason, format!("give it a capacity of {bound}, or what is more is aborted"))
    };
    match plan.strict {
        true => report.error(span, "state.capacity", say),
        false => report.warning(span, "state.capacity", say),
    }
}

/// Instructions besides the built-in ones, in the order of their numbers.
fn registered(report: &mut Report<'_>, section: &Section<'_>, catalogue: &Catalogue) -> Vec<RegisteredPlan> {
    let parent = Path::Key(&section.path, "instruction");
    let mut all: Vec<RegisteredPlan> = Vec::new();
    for (span, name, value) in section.tables(report, "instruction") {
        let node = Node::new(value.get_ref(), value.span(), Path::Key(&parent, name));
        let Some(table) = node.section(report, INSTRUCTION, "{ number = 128 }") else { continue };
        let Some(number) = table.integer(report, "number").map(|number| number as u8) else { continue };
        if let Some(other) = all.iter().find(|other| other.number == number) {
            let reason = format!("'{}' has the number {number} already", other.declared.name);
            report.error(span, table.path, || (reason, "give each instruction a number of its own".to_string()));
            continue;
        }
        let found = match &catalogue.guests {
            Some(guests) => guests.instruction(name),
            None => {
                let hint = "name the directory they are in with --guests, or set SWITCHPATH_GUESTS".to_string();
                Err(("there are no guests here".to_string(), hint))
            }
        };
        match found {
            Ok((declared, code)) => all.push(RegisteredPlan { number, declared, code }),
            Err(wrong) => report.error(span, table.path, || wrong),
        }
    }
    all.sort_unstable_by_key(|one| one.number);
    all
}

/// The name of a file; none where it is left out or reported.
fn file(report: &mut Report<'_>, section: &Section<'_>, name: &'static str) -> Option<String> {
    let text = section.text(report, name)?;
    if text.value.is_empty() || text.value.chars().any(char::is_control) {
        let reason = format!("{} is no name of a file", quote(text.value));
        text.error(report, || (reason, format!("write {name} = \"/etc/switchpath/state.key\"")));
        return None;
    }
    Some(text.value.to_owned())
}

pub(crate) fn diff(old: &Option<StatePlan>, new: &Option<StatePlan>) -> Vec<Edit> {
    let mut what = Vec::new();
    edit(&mut what, "rules", or_none(old), or_none(new));
    what
}
