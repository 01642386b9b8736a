//! A place of a router where instructions are executed: the store of a port, or the central one, as one worker has it.
//!
//! A batch goes through in two stages (spec E-35): every packet is parsed, its tags are hashed and the lines of the store
//! fetched; then all are executed in the order in which they came. What the first has read the second does not read again, and in both
//! each instruction has its own straight line, in which it is known how many tags it has and what may become of it: two jumps a packet.
//! Where entries are so few that they stay near the processor there is nothing to fetch, and both stages are one.

mod near;
mod stages;
mod unusual;

pub use crate::fate::{Fate, Location, OpcodeCounters};
use crate::guard::{Guard, Limits};
use crate::isa::{Abort, Instruction, KINDS, Opcode, instructions, kind_name};
use crate::registered::{Registry, Tally};
use crate::report::Trace;
use crate::seal::OperatorKey;
use crate::store::{Cleaned, Key, Occupancy, Session, Shard, ShardCounters, Tags};
use crate::traces::Traces;
use crate::variables::Readings;
use crate::wire::{Carriages, Heads, Locations, is_traced};
use near::execute_at_once;
use packet::wire::{ethernet, ipv4};
use packet::{Meta, Packet};
use plane::hook::{Dedicated, UNKNOWN, Variables};
pub(crate) use stages::commit_repeated;
use stages::{Means, prepare, prepare_begun, run};
use std::cell::Cell;
use std::hint::cold_path;
use units::{Instant, Nanos};
use unusual::Registers;

/// The most packets of a batch: as many lines as a core can wait for several times over.
pub const BATCH: usize = 64;

/// What is done at every place of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How packets with instructions are known.
    pub carriages: Carriages,
    /// Instructions that are executed of parts without a seal, a bit for each by its number.
    pub allowed: u16,
    /// Whether two computations that use the same tag mean two entries (spec E-12).
    pub scoped: bool,
    /// The number by which a parent knows this router.
    pub node: u64,
    /// Packets whose lines are fetched together, at most [`BATCH`].
    pub batch: usize,
    /// What one source may.
    pub limits: Limits,
    /// The operator's key, and the instructions that are executed of parts sealed with it. None: sealed ones pass, for what
    /// was written into them could not be sealed anew.
    pub sealed: Option<(OperatorKey, u16)>,
}

impl Rules {
    /// Every instruction, as carried by default, in batches of 32.
    pub const fn of(node: u64) -> Rules {
        let carriages = Carriages::USUAL;
        let limits = Limits { rate: None, creates: None };
        Rules { carriages, allowed: u16::MAX, scoped: false, node, batch: 32, limits, sealed: None }
    }
}

/// Anything that has an IP packet in it.
pub trait Carrier {
    /// The packet from the first byte of its IP header.
    fn network(&self) -> &[u8];
    /// The same, to change.
    fn network_mut(&mut self) -> &mut [u8];
    /// What is behind the header of one that is known to be [dedicated](Dedicated); `None` where it is shorter than any instruction.
    #[inline(always)]
    fn dedicated_mut(&mut self) -> Option<&mut [u8]> {
        behind_header::<0>(self.network_mut())
    }
}

impl Carrier for Packet {
    /// Nothing where it is refused, made by the router itself, passes, or is a super-frame, which holds several packets.
    #[inline(always)]
    fn network(&self) -> &[u8] {
        if !executes(self) {
            return &[];
        }
        self.bytes().get(usize::from(self.meta().l3)..).unwrap_or_default()
    }

    #[inline(always)]
    fn network_mut(&mut self) -> &mut [u8] {
        if !executes(self) {
            cold_path();
            return &mut [];
        }
        let at = usize::from(self.meta().l3);
        let Some(l3) = self.bytes_mut().get_mut(at..) else {
            cold_path();
            return &mut [];
        };
        l3
    }

    #[inline(always)]
    fn dedicated_mut(&mut self) -> Option<&mut [u8]> {
        behind_header::<{ ethernet::HEADER }>(self.bytes_mut())
    }
}

/// What is behind an IPv4 header without options that begins at `L3`.
#[inline(always)]
fn behind_header<const L3: usize>(bytes: &mut [u8]) -> Option<&mut [u8]> {
    if bytes.len() < L3 + ipv4::HEADER + Opcode::Nop.length() {
        cold_path();
        return None;
    }
    Some(&mut bytes[L3 + ipv4::HEADER..])
}

/// Whether anything of a packet is executed.
#[inline(always)]
fn executes(packet: &Packet) -> bool {
    goes_on(packet) && !packet.offload().is_super_frame()
}

/// Whether it was neither refused nor made here, nor is to pass unexecuted.
#[inline(always)]
fn goes_on(packet: &Packet) -> bool {
    // In one look at both.
    let (refused, marks) = (packet.meta().refused, packet.meta().flags & (Meta::GENERATED | Meta::PASSES));
    refused | marks == 0
}

impl Carrier for Vec<u8> {
    fn network(&self) -> &[u8] {
        self
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// What a place has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SiteCounters {
    /// By instruction.
    pub executed: [OpcodeCounters; Opcode::ALL.len()],
    /// By reason, and by what kind of instruction.
    pub(crate) aborted: [[u64; KINDS]; Abort::ALL.len()],
    /// Packets that a router before could not execute.
    pub failed_before: u64,
}

impl SiteCounters {
    /// Packets that were not executed for this reason.
    pub fn aborted(&self, why: Abort) -> u64 {
        self.aborted[why as usize].iter().sum()
    }

    /// Packets that were not executed: for which reason, and what their instruction is called. Where there were any.
    pub(crate) fn aborts(&self) -> impl Iterator<Item = (Abort, &'static str, u64)> + '_ {
        let of = |(why, kinds): (&Abort, &[u64; KINDS])| {
            let why = *why;
            kinds.iter().enumerate().map(move |(kind, count)| (why, kind_name(kind), *count)).collect::<Vec<_>>()
        };
        Abort::ALL.iter().zip(&self.aborted).flat_map(of).filter(|(.., count)| *count > 0)
    }
}

/// A packet between the two stages: the second looks at its bytes again only to change them.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Prepared {
    todo: Todo,
    /// Why it is not executed.
    why: Abort,
    /// What is done with a part that is sealed, once it has none.
    unsealed: Todo,
    /// What is done with one that is traced.
    traced: Todo,
    /// Where its part begins, from the IP header.
    at: u16,
    /// Whose it is, where sources are told apart.
    source: u16,
    computation: u64,
    instruction: Instruction,
    tags: Tags,
}

macro_rules! todos {
    ($($opcode:ident $_number:literal $_tags:literal $_operands:tt $_about:tt)*) => {
        /// What the second stage does: execute one of the instructions, or anything else, told by one jump.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Todo {
            $($opcode,)*
            /// One that reads something of the router.
            Read,
            /// The instruction of a part that is sealed.
            Sealed,
            /// One that the operator has registered.
            Registered,
            /// Any of them, whose sender wants to know what becomes of it.
            Traced,
            /// Nothing.
            Pass,
            /// Tell that it was not executed.
            Abort,
        }
    };
}
instructions!(todos);

impl Prepared {
    const NONE: Prepared = Prepared {
        todo: Todo::Pass,
        why: Abort::NotEnabled,
        unsealed: Todo::Pass,
        traced: Todo::Pass,
        at: 0,
        source: 0,
        computation: 0,
        instruction: Instruction::Nop,
        tags: Tags::NONE,
    };

    /// What is done with it, traced or not.
    fn inside(&mut self) -> &mut Todo {
        if self.todo == Todo::Traced { &mut self.traced } else { &mut self.todo }
    }

    /// It is not to be executed.
    #[cold]
    fn aborted(&mut self, why: Abort) -> Todo {
        self.why = why;
        Todo::Abort
    }
}

/// A store's shard, and what is done to the packets that come by.
pub struct Site {
    shard: Shard,
    counters: [SiteCounters; Location::ALL.len()],
    prepared: Box<[Prepared; BATCH]>,
    /// How parts begin that are executed at once, by location.
    heads: [Heads; Location::ALL.len()],
    /// What sources have used; none where they may do as they like.
    guard: Option<Box<Guard>>,
    /// What it has counted of registered instructions.
    tally: Tally,
    traces: Traces,
}

impl Site {
    /// The place of a shard.
    pub fn new(shard: Shard) -> Site {
        let heads = Location::ALL.map(|at| Heads::of((0, at.locations())));
        let (prepared, counters) = (Box::new([Prepared::NONE; BATCH]), Default::default());
        Site { shard, counters, prepared, heads, guard: None, tally: Tally::default(), traces: Traces::default() }
    }

    /// The same where sources are held to limits.
    pub(crate) fn guarded(shard: Shard, limits: Limits, key: Key) -> Site {
        let mut site = Site::new(shard);
        site.guard_by(limits, key);
        site
    }

    /// Holds sources to these limits from now on.
    pub(crate) fn guard_by(&mut self, limits: Limits, key: Key) {
        self.guard = limits.any().then(|| Box::new(Guard::new(limits, key)));
    }

    /// These instructions are registered from now on.
    pub(crate) fn register(&mut self, registry: &Registry) {
        self.tally.rename(registry.names());
    }

    /// What it has counted of each instruction at a location, by their names; of those that are registered in the end.
    pub(crate) fn executed_at(&self, location: Location) -> impl Iterator<Item = (&'static str, OpcodeCounters)> {
        let names = Opcode::ALL.iter().map(|opcode| opcode.name());
        names.zip(self.counters_at(location).executed.iter().copied()).chain(self.tally.at(location))
    }

    /// How much was executed at all locations.
    pub(crate) fn executed(&self) -> u64 {
        let counts = Location::ALL.iter().flat_map(|&location| self.executed_at(location));
        counts.map(|(_, counters)| counters.forwarded + counters.dropped).sum()
    }

    /// What became at a location of the packets that ask for it, by computation.
    pub(crate) fn traced_at(&self, location: Location) -> impl Iterator<Item = Trace> {
        self.traces.at(location)
    }

    /// The shard, to be cleaned or asked.
    pub fn shard(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// What its shard has counted.
    pub fn shard_counters(&self) -> ShardCounters {
        self.shard.counters()
    }

    /// How full its shard is.
    pub fn occupancy(&self, now: Instant) -> Occupancy {
        self.shard.occupancy(now)
    }

    /// How late its owner frees what has expired; none where another does.
    pub fn lag(&self) -> Option<Nanos> {
        self.shard.lag()
    }

    /// What its owner has cleaned.
    pub(crate) fn cleaned(&self) -> Cleaned {
        self.shard.cleaned()
    }

    /// What it has counted, at all places.
    pub fn counters(&self) -> SiteCounters {
        let mut sum = SiteCounters::default();
        for counters in &self.counters {
            for (sum, count) in sum.executed.iter_mut().zip(&counters.executed) {
                sum.forwarded += count.forwarded;
                sum.dropped += count.dropped;
            }
            let aborted = sum.aborted.as_flattened_mut().iter_mut().zip(counters.aborted.as_flattened());
            aborted.for_each(|(sum, count)| *sum += count);
            sum.failed_before += counters.failed_before;
        }
        sum
    }

    /// What it has counted at one.
    pub fn counters_at(&self, location: Location) -> &SiteCounters {
        &self.counters[location as usize]
    }

    /// Executes what packets ask for at `location`, in their order. `fates` are as many as packets.
    #[inline]
    pub fn process<C: Carrier>(&mut self, of: (&Rules, Location), now: Instant, packets: &mut [C], fates: &mut [Fate]) {
        let (permitted, of_port) = (Default::default(), Variables::default());
        let readings = Readings { permitted, of_port, node: of.0.node, now };
        self.process_reading(of, (&readings, &mut Registry::default()), now, (packets, UNKNOWN), fates);
    }

    /// The same where they may read something of the router. Answers where else one of them asks to be executed.
    #[inline]
    pub(crate) fn process_reading<C: Carrier>(
        &mut self,
        (rules, location): (&Rules, Location),
        (readings, registry): (&Readings, &mut Registry),
        now: Instant,
        (packets, known): (&mut [C], &Dedicated),
        fates: &mut [Fate],
    ) -> Locations {
        let (mut asked, mut seen) = (0, 0);
        let batch = rules.batch.clamp(1, BATCH);
        let guarded = self.guard.is_some();
        for (packets, fates) in packets.chunks_mut(batch).zip(fates.chunks_mut(batch)) {
            let (of, end) = ((rules, location), seen + packets.len());
            let known = known.get(seen..end).unwrap_or(&UNKNOWN[..packets.len()]);
            seen = end;
            // Nobody pays for limits where there are none.
            if guarded {
                asked |= self.step::<C, true>(of, (readings, registry), now, (packets, known), fates);
            } else {
                asked |= self.step::<C, false>(of, (readings, registry), now, (packets, known), fates);
            }
        }
        Locations::of(asked)
    }

    #[inline]
    fn step<C: Carrier, const GUARDED: bool>(
        &mut self,
        (rules, location): (&Rules, Location),
        (readings, registry): (&Readings, &mut Registry),
        now: Instant,
        (packets, known): (&mut [C], &Dedicated),
        fates: &mut [Fate],
    ) -> u8 {
        let Site { shard, counters, prepared, heads, guard, tally, traces } = self;
        let counters = &mut counters[location as usize];
        let mut session = shard.begin(now);
        let (wanted, mut asked) = (location.locations(), 0);
        let heads = &mut heads[location as usize];
        heads.keep_to((rules.allowed, wanted));
        if !GUARDED
            && !rules.scoped
            && let Some(near) = session.near()
        {
            let twice = Cell::new(0);
            let at_once = near::Means { near, rules, heads: heads.clone(), wanted, twice: &twice };
            let mut means = Means { node: rules.node, session: &mut session, guard: None, now };
            for ((packet, known), fate) in packets.iter_mut().zip(known).zip(fates) {
                *fate = match execute_at_once(&at_once, &mut asked, (packet, *known), counters) {
                    Some(fate) => fate,
                    None => {
                        let mut registers = Registers { registry, tally, traces, location };
                        let about = (wanted, &mut asked);
                        unusual::alone(&mut means, (rules, readings), &mut registers, about, packet, counters)
                    }
                };
            }
            session.note_twice(twice.get());
            return asked;
        }
        for ((packet, known), slot) in packets.iter_mut().zip(known).zip(prepared.iter_mut()) {
            let at_once = begun((rules, readings, heads), &session, (packet, *known), slot);
            slot.todo = match at_once {
                Some(todo) => todo,
                None => {
                    let about = (wanted, &mut asked);
                    read((rules, readings, registry), about, &session, packet.network(), slot, counters)
                }
            };
            if GUARDED
                && let Some(guard) = guard
                && !matches!(slot.inside(), Todo::Pass | Todo::Abort)
            {
                slot.source = guard.source(packet.network()) as u16;
                if !guard.instruction(slot.source.into(), now) {
                    *slot.inside() = slot.aborted(Abort::RateLimited);
                }
            }
        }
        // One after the other, with nothing between: a fetch ends only when the page of its line is known, and no more of them go on at
        // the same time than lie among the few hundred instructions that a core has under way.
        for slot in prepared[..packets.len()].iter().filter(|slot| !matches!(slot.todo, Todo::Pass | Todo::Abort)) {
            session.fetch(&slot.tags);
        }
        let guard = if GUARDED { guard.as_deref_mut() } else { None };
        let mut means = Means { node: rules.node, session: &mut session, guard, now };
        let mut registers = Registers { registry, tally, traces, location };
        for ((packet, slot), fate) in packets.iter_mut().zip(prepared.iter()).zip(fates) {
            *fate = act::<C, GUARDED>(&mut means, (rules, readings), &mut registers, packet, slot, counters);
        }
        asked
    }
}

/// The first stage of a packet that is known to carry a part, if that is to be executed here alone, and begins as most do.
#[inline(always)]
fn begun<C: Carrier>(
    (rules, readings, heads): (&Rules, &Readings, &Heads),
    session: &Session<'_>,
    (packet, known): (&mut C, bool),
    slot: &mut Prepared,
) -> Option<Todo> {
    let bytes = if known { packet.dedicated_mut()? } else { return None };
    prepare_begun(heads.only_here(bytes)?, (rules, readings), session, (ipv4::HEADER, bytes), slot)
}

/// The first stage of a packet, whatever it asks for.
#[inline(always)]
fn read(
    (rules, readings, registry): (&Rules, &Readings, &Registry),
    about: (Locations, &mut u8),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
    counters: &mut SiteCounters,
) -> Todo {
    let mut todo = prepare((rules, readings), about, session, l3, slot, counters);
    if todo == Todo::Abort {
        todo = unusual::prepare((rules, readings, registry), session, l3, slot);
    }
    if todo != Todo::Pass && l3.get(slot.at.into()..).is_some_and(is_traced) {
        cold_path();
        slot.traced = todo;
        return Todo::Traced;
    }
    todo
}

/// The second.
#[inline(always)]
fn act<C: Carrier, const GUARDED: bool>(
    means: &mut Means<'_, '_>,
    (rules, readings): (&Rules, &Readings),
    registers: &mut Registers<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> Fate {
    match slot.todo {
        Todo::Sealed => unusual::run_sealed(means, (rules, readings), packet, slot, counters),
        Todo::Registered => unusual::run_registered(means, (rules, readings), registers, packet, slot, counters),
        Todo::Traced => unusual::run_traced::<C, GUARDED>(means, (rules, readings), registers, packet, slot, counters),
        _ => run::<C, GUARDED>(means, packet, (slot, readings), counters),
    }
}
