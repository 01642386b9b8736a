//! The slow path: sealed parts, parts that lack a required seal (adr/0049), registered instructions (adr/0050) and traced packets. The fast path
//! sends packets here only after one of its checks fails, so other packets pay nothing.

use super::stages::{ExecutionContext, abort, prepare_each, run};
use super::{
    ExecutionRules, InstructionFate, PacketBuffer, Prepared, SiteCounters, Todo, execute_prepared, prepare_any,
};
use crate::isa::{Abort, InstructionVerdict, REGISTERED};
use crate::registered::{self, RegisteredCounters, RegisteredPart, Registry};
use crate::seal::{OperatorKey, PlainPart, is_sealed};
use crate::site::Location;
use crate::store::{InstructionTags, MAX_TAGS, Session, StoreResult, TagView};
use crate::traces::Traces;
use crate::variables::{FIRST_VARIABLE, Reading, Readings};
use crate::wire::{Locations, PartError, peek, set_error};
use packet::wire::{Ipv4Header, Ipv6};
use plane::instructions::{InstructionCall, InstructionOutcome, TAGS};

/// The first stage for a part that the fast path refused.
#[cold]
pub(super) fn prepare(
    (rules, readings, registry): (&ExecutionRules, &Readings, &Registry),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
) -> Todo {
    let why = slot.why;
    let bytes = l3.get(usize::from(slot.at)..).unwrap_or_default();
    if why == Abort::BadLength && is_truncated(l3, bytes) {
        return Todo::Pass;
    }
    // Only a wrong length or an instruction off the allow-list can mean a sealed or registered part. All other errors are final.
    let is_registered = bytes.get(1).is_some_and(|number| *number >= REGISTERED);
    if !matches!((why, is_registered), (Abort::BadLength, false) | (Abort::NotEnabled, _)) {
        return slot.aborted(why);
    }
    let plain = match (rules.sealed, is_sealed(bytes)) {
        (None, true) => return Todo::Pass,
        (Some((key, _)), true) => match key.open(bytes) {
            Ok(plain) => Some(plain),
            Err(why) => return slot.aborted(why),
        },
        // With a key, a plain part of any length lacks its seal.
        (Some(_), false) if why == Abort::NotEnabled => return slot.aborted(Abort::Unauthenticated),
        (_, false) => None,
    };
    let plain = plain.as_ref();
    match (is_registered, rules.sealed, plain) {
        (true, ..) => {
            prepare_registered((rules, readings, registry), session, plain.map_or(bytes, PlainPart::bytes), slot)
        }
        (false, Some((_, allowed)), Some(plain)) => prepare_sealed((rules, readings), allowed, session, plain, slot),
        _ => slot.aborted(why),
    }
}

/// True if the rest of the part is in another fragment (spec E-16). That is no error.
fn is_truncated(l3: &[u8], bytes: &[u8]) -> bool {
    let whole = bytes.get(2).is_some_and(|length| usize::from(*length) <= bytes.len());
    let is_fragment = match Ipv4Header::of(l3) {
        Some(header) if header.version() == 4 => header.is_fragment(),
        _ => Ipv6::parse(l3).is_ok_and(|packet| packet.chain().is_ok_and(|chain| chain.is_fragment())),
    };
    !whole && is_fragment
}

/// Both stages of a packet that the merged stage refused.
#[cold]
#[inline(never)]
pub(super) fn process_single<C: PacketBuffer>(
    means: &mut ExecutionContext<'_, '_>,
    (rules, readings): (&ExecutionRules, &Readings),
    registers: &mut WorkerRegisters<'_>,
    about: (Locations, &mut u8),
    packet: &mut C,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let (mut slot, with) = (Prepared::NONE, (rules, readings, &*registers.registry));
    slot.todo = prepare_any(with, about, means.session, packet.network(), &mut slot, counters);
    execute_prepared::<C, false>(means, (rules, readings), registers, packet, &slot, counters)
}

fn prepare_sealed(
    // The allow-list of sealed parts; the one of plain parts is empty when there is a key.
    with: (&ExecutionRules, &Readings),
    allowed: u16,
    session: &Session<'_>,
    plain: &PlainPart,
    slot: &mut Prepared,
) -> Todo {
    let plain = plain.bytes();
    let Some((head, Ok(opcode))) = peek(plain).map(|head| (head, head.opcode())) else {
        return slot.aborted(Abort::BadLength);
    };
    if allowed >> opcode.number() & 1 == 0 {
        return slot.aborted(Abort::NotEnabled);
    }
    match prepare_each(opcode, head, with, session, plain, slot) {
        other @ (Todo::Pass | Todo::Abort) => other,
        todo => {
            slot.unsealed = todo;
            Todo::Sealed
        }
    }
}

fn prepare_registered(
    (rules, readings, registry): (&ExecutionRules, &Readings, &Registry),
    session: &Session<'_>,
    plain: &[u8],
    slot: &mut Prepared,
) -> Todo {
    let Some((_, wanted, _)) = plain.get(1).and_then(|number| registry.find(*number)) else {
        return slot.aborted(Abort::NotEnabled);
    };
    let part = match RegisteredPart::read(plain) {
        Ok(part) => part,
        Err(PartError::Invalid(why)) => return slot.aborted(why),
        Err(_) => return Todo::Pass,
    };
    let tags = part.instruction.tags();
    if usize::from(wanted) != tags.len() {
        return slot.aborted(Abort::BadLength);
    }
    if tags.iter().any(|tag| readings.of(*tag) == Reading::NotPermitted) {
        // A variable that the port does not permit: forward the packet like a router without ephemeral state (spec E-19).
        return Todo::Pass;
    }
    slot.tags = match *tags {
        [] => InstructionTags::of([]),
        [a] => InstructionTags::of([a]),
        [a, b] => InstructionTags::of([a, b]),
        [a, b, c] => InstructionTags::of([a, b, c]),
        [a, b, c, d, ..] => InstructionTags::of([a, b, c, d]),
    };
    if rules.scoped {
        slot.tags = slot.tags.scoped(slot.computation);
    }
    session.prepare::<MAX_TAGS>(&mut slot.tags);
    Todo::Registered
}

/// Executes a sealed part without its seal. Seals it again if the instruction rewrote it.
fn execute_unsealed<C: PacketBuffer>(
    packet: &mut C,
    at: usize,
    key: Option<OperatorKey>,
    execute: impl FnOnce(&mut PlainPart) -> InstructionFate,
) -> InstructionFate {
    let (Some(key), Some(before)) = (key, packet.network().get(at..).and_then(PlainPart::of)) else {
        return InstructionFate::PassedThrough;
    };
    let mut plain = before;
    let fate = execute(&mut plain);
    let bytes = packet.network_mut().get_mut(at..).unwrap_or_default();
    match fate {
        // The seal excludes the error bit, so it stays valid.
        InstructionFate::Aborted(_) => _ = set_error(bytes),
        _ if plain != before => key.reseal(bytes, &plain),
        _ => {}
    }
    fate
}

/// Executes a sealed part.
#[inline(never)]
pub(super) fn run_sealed<C: PacketBuffer>(
    means: &mut ExecutionContext<'_, '_>,
    (rules, readings): (&ExecutionRules, &Readings),
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let key = rules.sealed.map(|(key, _)| key);
    execute_unsealed(packet, slot.at.into(), key, |plain| {
        let slot = Prepared { at: 0, todo: slot.unsealed, ..*slot };
        // `GUARDED` is true: without limits the guard is absent and its checks succeed.
        run::<PlainPart, true>(means, plain, (&slot, readings), counters)
    })
}

/// The worker's state beyond the store: registered instructions, their counters, traces.
pub(super) struct WorkerRegisters<'a> {
    pub registry: &'a mut Registry,
    pub registered_counters: &'a mut RegisteredCounters,
    pub traces: &'a mut Traces,
    pub location: Location,
}

/// Executes a traced packet and records its fate.
#[cold]
#[inline(never)]
pub(super) fn run_traced<C: PacketBuffer, const GUARDED: bool>(
    means: &mut ExecutionContext<'_, '_>,
    with: (&ExecutionRules, &Readings),
    registers: &mut WorkerRegisters<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let inside = Prepared { todo: slot.traced, ..*slot };
    let fate = execute_prepared::<C, GUARDED>(means, with, registers, packet, &inside, counters);
    let number = packet.network().get(usize::from(slot.at) + 1).copied().unwrap_or_default();
    registers.traces.record(registers.location, (slot.computation, number), fate, means.now);
    fate
}

/// Executes a registered instruction, sealed or plain.
#[inline(never)]
pub(super) fn run_registered<C: PacketBuffer>(
    means: &mut ExecutionContext<'_, '_>,
    (rules, readings): (&ExecutionRules, &Readings),
    registers: &mut WorkerRegisters<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let at = usize::from(slot.at);
    if packet.network().get(at..).is_some_and(is_sealed) {
        let key = rules.sealed.map(|(key, _)| key);
        return execute_unsealed(packet, at, key, |plain| {
            execute_registered(means, readings, registers, plain, &Prepared { at: 0, ..*slot }, counters)
        });
    }
    execute_registered(means, readings, registers, packet, slot, counters)
}

fn execute_registered<C: PacketBuffer>(
    means: &mut ExecutionContext<'_, '_>,
    readings: &Readings,
    registers: &mut WorkerRegisters<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let WorkerRegisters { registry, registered_counters, location, .. } = registers;
    let part = packet.network().get(usize::from(slot.at)..).map(RegisteredPart::read);
    let Some(Ok(RegisteredPart { instruction, .. })) = part else { return InstructionFate::PassedThrough };
    let Some((which, _, creates)) = registry.find(instruction.number) else { return InstructionFate::PassedThrough };
    let may = means.guard.as_ref().is_none_or(|guard| guard.may_create(slot.source.into(), creates.into(), means.now));
    if !may {
        return abort(packet, slot.at, Abort::Quota, counters);
    }
    let tags = instruction.tags();
    let (operator, value) = (instruction.operator.number(), instruction.value);
    let (none, now, node) = ([None; TAGS], readings.now, readings.node);
    let mut call = InstructionCall { now, node, operator, value, entries: none, written: none };
    // Router variables can be read, but not written.
    let mut read = none;
    for (read, tag) in read.iter_mut().zip(tags).filter(|(_, tag)| **tag >= FIRST_VARIABLE) {
        if let Reading::Value(value) = readings.of(*tag) {
            *read = Some(value);
        }
    }
    let before = means.session.created();
    let execute = |view: &mut TagView| {
        for (tag, value) in read.iter().enumerate() {
            value.iter().for_each(|value| view.set_stored(tag, *value));
        }
        (0..tags.len()).for_each(|tag| call.entries[tag] = view.get(tag));
        let outcome = match registry.execute(which, &mut call) {
            Ok(outcome) => outcome,
            Err(why) => return InstructionVerdict::Abort(why),
        };
        // A write to a variable discards all writes of the instruction.
        if read.iter().zip(&call.written).any(|(read, written)| read.is_some() && written.is_some()) {
            return InstructionVerdict::Abort(Abort::NotEnabled);
        }
        for (tag, written) in call.written.iter().enumerate().take(tags.len()) {
            written.iter().for_each(|value| view.set(tag, *value));
        }
        match outcome {
            InstructionOutcome::Forward => InstructionVerdict::Rewritten,
            InstructionOutcome::Drop => InstructionVerdict::Drop,
            InstructionOutcome::Absent => InstructionVerdict::Abort(Abort::AbsentTag),
            InstructionOutcome::Underflow => InstructionVerdict::Abort(Abort::Underflow),
        }
    };
    let (session, computation) = (&mut *means.session, slot.computation);
    let done = match tags.len() {
        0 => session.execute::<0, _>(&slot.tags, computation, execute),
        1 => session.execute::<1, _>(&slot.tags, computation, execute),
        2 => session.execute::<2, _>(&slot.tags, computation, execute),
        3 => session.execute::<3, _>(&slot.tags, computation, execute),
        _ => session.execute::<4, _>(&slot.tags, computation, execute),
    };
    means.charge(slot.source, before);
    match done {
        StoreResult::Executed(InstructionVerdict::Abort(why)) => return abort(packet, slot.at, why, counters),
        StoreResult::Full => return abort(packet, slot.at, Abort::Full, counters),
        StoreResult::Executed(verdict) => {
            let is_forwarded = verdict != InstructionVerdict::Drop;
            registered_counters.count(which, *location, is_forwarded);
            if !is_forwarded {
                return InstructionFate::Dropped;
            }
        }
    }
    // Rewrite only a changed value, so that most packets need no new checksum.
    if call.value != value {
        registered::rewrite_value(packet.network_mut().get_mut(usize::from(slot.at)..).unwrap_or_default(), call.value);
    }
    InstructionFate::Forwarded
}

impl PacketBuffer for PlainPart {
    fn network(&self) -> &[u8] {
        self.bytes()
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}
