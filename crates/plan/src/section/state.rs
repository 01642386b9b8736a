//! `[state]`: ephemeral state, which packets create in the router for a limited time, and its limits.

pub use super::port::state::{ExecutionPlaces, MOST_ENTRIES, PortStatePlan, Variable};

use super::port::PortPlan;
use super::port::state::{ENTRIES, several};
use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, joined, or_none};
use crate::document::{Node, Path, Section};
use crate::key::{FILE, Form, Key, Kind, PACKET_RATE, TIME, key, required};
use crate::named::{as_optional_text, named, nanoseconds};
use crate::table::{self, table};
use crate::text::quote;
use crate::{Catalogue, GuestCode, InstructionDeclaration};
use serde::Serialize;
use std::fmt;
use units::{Nanos, PacketRate};

pub(crate) const KEY: Key = key(
    "state",
    Kind::Table(KEYS),
    "",
    "{ lifetime = \"10s\" }",
    "Ephemeral state, which packets create in the router for a limited time. Without the table it is off.",
);

/// The most queues for packets that one worker hands over to another.
pub const MOST_QUEUES: u64 = 16;

const RATE: Kind = Kind::Quantity { form: PACKET_RATE, least: "1pps", most: "1000000000pps" };

const INSTRUCTION: &[Key] =
    &[required("number", Kind::Integer { least: 128, most: 255 }, "128", "The instruction's number in packets.")];

table! {
    /// Ephemeral state (Calvert et al. 2003).
    #[derive(Clone, PartialEq, Eq, Debug, Serialize)]
    pub struct StatePlan, KEYS {
        /// The lifetime of every entry.
        #[serde(serialize_with = "nanoseconds")]
        pub lifetime: Nanos = (
            Kind::Quantity { form: TIME, least: "1ms", most: "1800s" }, "\"10s\"", "\"10s\"",
            "The lifetime of each entry, 1ms to 1800s. It begins with the entry's creation and is never extended."
        );
        /// Entries of each port's store, unless the port sets another number.
        pub capacity: u64 = (
            ENTRIES, "65536", "2000000",
            "Entries of each port's store. A store with two entries for each packet that the line delivers within a \
             lifetime never overflows: see `switchpath state size`."
        );
        /// Entries of the central store; zero for no central store.
        pub central: u64 = (
            Kind::Integer { least: 0, most: MOST_ENTRIES }, "65536", "0",
            "Entries of the central store; 0 for no central execution."
        );
        /// True if a store that is too small for its line rate is refused.
        pub strict: bool = (
            Kind::Boolean, "false", "true",
            "Whether a store that packets at the port's `line_rate` (or the device's rate) could fill is an error, \
             not a warning."
        );
        /// The behaviour of a full store.
        pub full: WhenFull = (
            Kind::Text(Form::Choice(WhenFull::NAMES)), "\"abort_creates\"", "\"abort_all\"",
            "The behaviour of a full store: `abort_creates` aborts instructions that would create an entry, \
             `abort_all` aborts every instruction."
        );
        /// The treatment of packets whose instruction is aborted.
        pub on_abort: OnAbort = (
            Kind::Text(Form::Choice(OnAbort::NAMES)), "\"forward\"", "\"drop\"",
            "How packets with an aborted instruction are handled: `forward` forwards them with their error bit set, \
             `drop` drops them."
        );
        /// The treatment of instructions when a worker is overloaded.
        pub overload: Overload = (
            Kind::Text(Form::Choice(Overload::NAMES)), "\"execute\"", "\"pass\"",
            "How instructions are handled if packets arrive faster than a worker executes them. `execute` executes \
             them all, and packets that overflow a queue are dropped, with instructions or without. `pass` forwards \
             packets without execution until the worker has caught up."
        );
        /// The cleaner of expired entries.
        pub cleaner: Cleaning = (
            Kind::Text(Form::Choice(Cleaning::NAMES)), "\"inline\"", "\"assist\"",
            "The cleaner of expired entries: `inline` is the worker that owns the shard, with each batch. `assist` \
             is the first worker, beside its other work. `dedicated` is a thread of its own."
        );
        /// Shards of each store; `None`: as many as there are workers.
        pub shards: Option<u16> = (
            Kind::Integer { least: 1, most: 64 }, "", "1",
            "The shards of each store. Each has a worker of its own that executes all instructions on it. The \
             default is one for each worker. A shard may be full while others have room. Fewer shards waste less \
             room, but leave the work to fewer workers."
        );
        /// Queues for packets handed over between workers, at most [`MOST_QUEUES`].
        pub queues: u8 = (
            Kind::Integer { least: 1, most: MOST_QUEUES }, "1", "4",
            "The number of queues for packets handed over from the worker that received them to the one that owns \
             their computation. The queues divide the 1024 places between each two workers. Packets of one \
             computation use one queue, so an overload of it takes no room from computations in other queues."
        );
        /// Packets whose memory is prefetched together.
        pub batch: u8 = (
            Kind::Integer { least: 1, most: 64 }, "32", "1",
            "Packets whose entries are prefetched together."
        );
        /// The IPv4 protocol and IPv6 next header of packets with an instruction.
        pub protocol: u8 = (
            Kind::Integer { least: 143, most: 254 }, "253", "254",
            "The IPv4 protocol and IPv6 next header of packets with an instruction. 253 and 254 are for experiments \
             (RFC 3692), 143 to 252 are not assigned."
        );
        /// The UDP port of datagrams with an instruction; zero for none.
        pub udp_port: u16 = (
            Kind::Integer { least: 0, most: 65_535 }, "5937", "0",
            "The UDP port of packets with an instruction; 0 for none."
        );
        /// The type of the IPv4 option with an instruction; zero for none.
        pub ip_option: u8 = (
            Kind::Integer { least: 0, most: 255 }, "158", "0",
            "The type of the IPv4 option that adds an instruction to other packets; 0 for none. 30, 94, 158 and 222 \
             are for experiments (RFC 4727)."
        );
        /// True if all ports and the central location share one store.
        pub single_store: bool = (
            Kind::Boolean, "false", "true",
            "If true, all ports and the central location share one store, with the size `central`. Subcast does not \
             work then. For comparison."
        );
        /// True if computations have separate entries for the same tag.
        pub by_computation: bool = (
            Kind::Boolean, "false", "true",
            "If true, computations have separate entries for the same tag."
        );
        /// True if packets of a flow stay in order even if some of them carry instructions.
        pub flow_order: bool = (
            Kind::Boolean, "true", "false",
            "With several workers: whether the other packets of a flow that carries instructions are processed by \
             the same worker, in order."
        );
        /// True if entries record their creator.
        pub diagnostics: bool = (
            Kind::Boolean, "false", "true",
            "If true, entries record the computation that created them. `switchpath state show` prints it then, and \
             tags that two computations use are counted. It takes two bytes per entry and one more memory access."
        );
        /// The enabled instructions, in the order of their numbers.
        pub instructions: Vec<Instruction> = (
            Kind::Texts { form: Form::Choice(Instruction::NAMES), most: Instruction::ALL.len() }, "", "[\"count\", \"compare\"]",
            "The enabled instructions. The default is all."
        ) by instructions;
        /// Limit of instructions a second per source.
        #[serde(serialize_with = "as_optional_text")]
        pub source_rate: Option<PacketRate> = (
            RATE, "", "\"1kpps\"",
            "The limit of instructions a second that each worker executes for one source (an IPv4 address, or a /64) \
             at each store. Bursts of one second's worth are allowed. The default is no limit."
        );
        /// Limit of created entries a second per source.
        #[serde(serialize_with = "as_optional_text")]
        pub source_creates: Option<PacketRate> = (
            RATE, "", "\"100pps\"",
            "The limit of entries a second that one source may create in each worker's shard. Bursts of one second's \
             worth are allowed. The default is no limit."
        );
        /// The file with the operator's key. With a key, only sealed parts are executed.
        pub key: Option<String> = (
            Kind::Text(FILE), "", "\"/etc/switchpath/state.key\"",
            "The file of the operator's key, 32 hexadecimal digits. It is read at each apply and reload. With it \
             only instructions are executed that are sealed with this key, or with one in a second line."
        ) by key_file;
        /// Registered instructions, by number.
        pub registered as "instruction": Vec<RegisteredPlan> = (
            Kind::Tables { name: "[a-z][a-z0-9_-]{0,31}", keys: INSTRUCTION }, "", "{ mean = { number = 128 } }",
            "Registered instructions by name: guests (`mean.wasm` in the directory of `--guests`)."
        ) by |_, _| Vec::new();
    }
}

/// A registered instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RegisteredPlan {
    /// Its number in packets, 128 to 255.
    pub number: u8,
    /// Its declaration.
    pub declared: InstructionDeclaration,
    /// Its code. A rebuilt instruction counts as another one.
    #[serde(skip)]
    pub code: GuestCode,
}

impl fmt::Display for RegisteredPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{:016x}", self.number, self.declared.name, self.code.digest)
    }
}

/// The most entries that one packet with a built-in instruction creates (Calvert et al. 2003, 2).
const CREATES: u64 = 2;

impl StatePlan {
    /// The most entries that one packet creates.
    pub fn creates(&self) -> u64 {
        self.registered.iter().map(|one| one.declared.creates.into()).fold(CREATES, u64::max)
    }

    /// The most entries that packets at this line rate can fill within a lifetime.
    pub fn most_live_entries(&self, line: PacketRate) -> u64 {
        PacketRate::pps(line.get().saturating_mul(self.creates())).within(self.lifetime)
    }
}

/// The behaviour of a full store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenFull {
    /// Instructions that would create an entry are aborted.
    #[default]
    AbortCreates,
    /// All instructions are aborted.
    AbortAll,
}

/// The treatment of packets whose instruction is aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnAbort {
    /// They are forwarded with the abort flag set.
    #[default]
    Forward,
    /// They are dropped.
    Drop,
}

/// The treatment of instructions when packets arrive faster than a worker executes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Overload {
    /// They are executed. Packets that overflow a queue are dropped, with instructions or without.
    #[default]
    Execute,
    /// Packets pass without execution until the worker has caught up.
    Pass,
}

/// The cleaner of expired entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleaning {
    /// The owner of each shard, with each batch.
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
    /// Keeps a value, and forwards packets by the result of a comparison.
    Compare,
    /// Combines the reports of children.
    Collect,
    /// The same, robust against packet loss.
    Rcollect,
    /// Registers a child for RCOLLECT.
    Rchld,
    /// Creates a value if there is none.
    Mark,
    /// Forwards if there is a value.
    Test,
    /// Reads a value.
    Get,
    /// Writes a value.
    Put,
    /// Forwards if a value allows it.
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
    /// All keys with their values; `overload`, `queues`, `instructions` and those without a default only if they are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = [("overload", Overload::default().to_string()), ("queues", "1".to_string())];
        let all = ("instructions", joined(Instruction::ALL));
        let is_said = |field: &(&str, String)| field.1 != "none" && *field != all && !usual.contains(field);
        let mut fields: Vec<_> = self.fields().into_iter().filter(is_said).collect();
        fields.sort_by_key(|(name, _)| *name == "instructions");
        // `instruction` is the key of a table in the file; here it lists the registered ones.
        fields.iter_mut().filter(|(name, _)| *name == "instruction").for_each(|(name, _)| *name = "registered");
        f.write_str(&table::text(&fields))
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
                let reason = format!("port '{}' sets ephemeral state, but there is no [state]", port.name);
                (reason, "add [state]".to_string())
            });
        }
        return None;
    };
    let span = node.span.clone();
    let section = node.section(report, KEYS, "[state]")?;
    let mut plan = StatePlan::read(report, &section);
    plan.shards = plan.shards.filter(|shards| has_workers(report, &section, *shards, workers));
    plan.registered = registered(report, &section, catalogue);
    if plan.single_store && plan.central == 0 {
        report.error(span.clone(), "state.single_store", || {
            ("the single store has no entries: `central` is 0".to_string(), "set `central` above 0".to_string())
        });
    }
    for port in ports {
        check_capacity(report, &plan, port, span.clone());
    }
    Some(plan)
}

/// True if each shard of a store has a worker. Otherwise reports it.
fn has_workers(report: &mut Report<'_>, section: &Section<'_>, shards: u16, workers: u16) -> bool {
    if shards > workers {
        report.error(section.place("shards"), Path::Key(&section.path, "shards"), || {
            let reason = format!("{shards} shards are more than the {workers} workers that execute instructions");
            (reason, format!("write at most {workers}, or raise `workers` in [router]"))
        });
    }
    shards <= workers
}

/// Reports a store that packets at the port's line rate can fill (spec E-04).
fn check_capacity(report: &mut Report<'_>, plan: &StatePlan, port: &PortPlan, span: std::ops::Range<usize>) {
    let Some(rate) = port.cpu.line_rate.filter(|_| port.state.at != ExecutionPlaces::None && !plan.single_store) else {
        return;
    };
    let bound = plan.most_live_entries(rate);
    let capacity = port.state.capacity.unwrap_or(plan.capacity);
    if capacity >= bound {
        return;
    }
    let say = || {
        let reason = format!("the store of port '{}' has {capacity} entries, but {rate} can fill {bound}", port.name);
        (reason, format!("set a capacity of {bound}; a full store aborts instructions"))
    };
    match plan.strict {
        true => report.error(span, "state.capacity", say),
        false => report.warning(span, "state.capacity", say),
    }
}

/// The registered instructions, in the order of their numbers.
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
                let hint = "give their directory with --guests, or set SWITCHPATH_GUESTS".to_string();
                Err(("no directory of guests is set".to_string(), hint))
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

/// The enabled instructions; all if none are named.
fn instructions(report: &mut Report<'_>, section: &Section<'_>) -> Vec<Instruction> {
    several(report, section, "instructions", Instruction::ALL).unwrap_or_else(|| Instruction::ALL.to_vec())
}

/// The name of the key file; `None` if it is missing or was reported.
fn key_file(report: &mut Report<'_>, section: &Section<'_>) -> Option<String> {
    let text = section.text(report, "key")?;
    if text.value.is_empty() || text.value.chars().any(char::is_control) {
        let reason = format!("{} is no name of a file", quote(text.value));
        text.error(report, || (reason, "write key = \"/etc/switchpath/state.key\"".to_string()));
        return None;
    }
    Some(text.value.to_owned())
}

pub(crate) fn diff(old: &Option<StatePlan>, new: &Option<StatePlan>) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    edit(&mut what, "rules", or_none(old), or_none(new));
    what
}
