//! The slow path: sealed parts, parts that lack a required seal (adr/0049), registered instructions (adr/0050) and traced packets. The fast path
//! sends packets here only after one of its checks fails, so other packets pay nothing.

use super::stages::{Means, abort, prepare_each, run};
use super::{Carrier, Fate, Prepared, Rules, SiteCounters, Todo, act, read};
use crate::isa::{Abort, REGISTERED, Verdict};
use crate::registered::{self, RegisteredPart, Registry, Tally};
use crate::seal::{OperatorKey, Plain, is_sealed};
use crate::site::Location;
use crate::store::{Done, MAX_TAGS, Session, Tags, View};
use crate::traces::Traces;
use crate::variables::{FIRST, Reading, Readings};
use crate::wire::{Locations, Unread, peek, set_error};
use packet::wire::{Ipv4Header, Ipv6};
use plane::registered::{Call, Outcome, TAGS};

/// The first stage for a part that the fast path refused.
#[cold]
pub(super) fn prepare(
    (rules, readings, registry): (&Rules, &Readings, &Registry),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
) -> Todo {
    let why = slot.why;
    let bytes = l3.get(usize::from(slot.at)..).unwrap_or_default();
    if why == Abort::BadLength && is_cut(l3, bytes) {
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
        (true, ..) => prepare_registered((rules, readings, registry), session, plain.map_or(bytes, Plain::bytes), slot),
        (false, Some((_, allowed)), Some(plain)) => prepare_sealed((rules, readings), allowed, session, plain, slot),
        _ => slot.aborted(why),
    }
}

/// True if the rest of the part is in another fragment (spec E-16). That is no error.
fn is_cut(l3: &[u8], bytes: &[u8]) -> bool {
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
pub(super) fn alone<C: Carrier>(
    means: &mut Means<'_, '_>,
    (rules, readings): (&Rules, &Readings),
    registers: &mut Registers<'_>,
    about: (Locations, &mut u8),
    packet: &mut C,
    counters: &mut SiteCounters,
) -> Fate {
    let (mut slot, with) = (Prepared::NONE, (rules, readings, &*registers.registry));
    slot.todo = read(with, about, means.session, packet.network(), &mut slot, counters);
    act::<C, false>(means, (rules, readings), registers, packet, &slot, counters)
}

fn prepare_sealed(
    // The allow-list of sealed parts; the one of plain parts is empty when there is a key.
    with: (&Rules, &Readings),
    allowed: u16,
    session: &Session<'_>,
    plain: &Plain,
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
    (rules, readings, registry): (&Rules, &Readings, &Registry),
    session: &Session<'_>,
    plain: &[u8],
    slot: &mut Prepared,
) -> Todo {
    let Some((_, wanted, _)) = plain.get(1).and_then(|number| registry.find(*number)) else {
        return slot.aborted(Abort::NotEnabled);
    };
    let part = match RegisteredPart::read(plain) {
        Ok(part) => part,
        Err(Unread::Wrong(why)) => return slot.aborted(why),
        Err(_) => return Todo::Pass,
    };
    let tags = part.instruction.tags();
    if usize::from(wanted) != tags.len() {
        return slot.aborted(Abort::BadLength);
    }
    if tags.iter().any(|tag| readings.of(*tag) == Reading::Closed) {
        // A variable that the port does not permit: forward the packet like a router without ephemeral state (spec E-19).
        return Todo::Pass;
    }
    slot.tags = match *tags {
        [] => Tags::of([]),
        [a] => Tags::of([a]),
        [a, b] => Tags::of([a, b]),
        [a, b, c] => Tags::of([a, b, c]),
        [a, b, c, d, ..] => Tags::of([a, b, c, d]),
    };
    if rules.scoped {
        slot.tags = slot.tags.scoped(slot.computation);
    }
    session.prepare::<MAX_TAGS>(&mut slot.tags);
    Todo::Registered
}

/// Executes a sealed part without its seal. Seals it again if the instruction rewrote it.
fn without_seal<C: Carrier>(
    packet: &mut C,
    at: usize,
    key: Option<OperatorKey>,
    execute: impl FnOnce(&mut Plain) -> Fate,
) -> Fate {
    let (Some(key), Some(before)) = (key, packet.network().get(at..).and_then(Plain::of)) else { return Fate::Passed };
    let mut plain = before;
    let fate = execute(&mut plain);
    let bytes = packet.network_mut().get_mut(at..).unwrap_or_default();
    match fate {
        // The seal excludes the error bit, so it stays valid.
        Fate::Aborted(_) => _ = set_error(bytes),
        _ if plain != before => key.close(bytes, &plain),
        _ => {}
    }
    fate
}

/// Executes a sealed part.
#[inline(never)]
pub(super) fn run_sealed<C: Carrier>(
    means: &mut Means<'_, '_>,
    (rules, readings): (&Rules, &Readings),
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> Fate {
    let key = rules.sealed.map(|(key, _)| key);
    without_seal(packet, slot.at.into(), key, |plain| {
        let slot = Prepared { at: 0, todo: slot.unsealed, ..*slot };
        // `GUARDED` is true: without limits the guard is absent and its checks succeed.
        run::<Plain, true>(means, plain, (&slot, readings), counters)
    })
}

/// The worker's state beyond the store: registered instructions, their counters, traces.
pub(super) struct Registers<'a> {
    pub registry: &'a mut Registry,
    pub tally: &'a mut Tally,
    pub traces: &'a mut Traces,
    pub location: Location,
}

/// Executes a traced packet and records its fate.
#[cold]
#[inline(never)]
pub(super) fn run_traced<C: Carrier, const GUARDED: bool>(
    means: &mut Means<'_, '_>,
    with: (&Rules, &Readings),
    registers: &mut Registers<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> Fate {
    let inside = Prepared { todo: slot.traced, ..*slot };
    let fate = act::<C, GUARDED>(means, with, registers, packet, &inside, counters);
    let number = packet.network().get(usize::from(slot.at) + 1).copied().unwrap_or_default();
    registers.traces.note(registers.location, (slot.computation, number), fate, means.now);
    fate
}

/// Executes a registered instruction, sealed or plain.
#[inline(never)]
pub(super) fn run_registered<C: Carrier>(
    means: &mut Means<'_, '_>,
    (rules, readings): (&Rules, &Readings),
    registers: &mut Registers<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> Fate {
    let at = usize::from(slot.at);
    if packet.network().get(at..).is_some_and(is_sealed) {
        let key = rules.sealed.map(|(key, _)| key);
        return without_seal(packet, at, key, |plain| {
            call(means, readings, registers, plain, &Prepared { at: 0, ..*slot }, counters)
        });
    }
    call(means, readings, registers, packet, slot, counters)
}

fn call<C: Carrier>(
    means: &mut Means<'_, '_>,
    readings: &Readings,
    registers: &mut Registers<'_>,
    packet: &mut C,
    slot: &Prepared,
    counters: &mut SiteCounters,
) -> Fate {
    let Registers { registry, tally, location, .. } = registers;
    let part = packet.network().get(usize::from(slot.at)..).map(RegisteredPart::read);
    let Some(Ok(RegisteredPart { instruction, .. })) = part else { return Fate::Passed };
    let Some((which, _, creates)) = registry.find(instruction.number) else { return Fate::Passed };
    let may = means.guard.as_ref().is_none_or(|guard| guard.may_create(slot.source.into(), creates.into(), means.now));
    if !may {
        return abort(packet, slot.at, Abort::Quota, counters);
    }
    let tags = instruction.tags();
    let (operator, value) = (instruction.operator.number(), instruction.value);
    let (none, now, node) = ([None; TAGS], readings.now, readings.node);
    let mut call = Call { now, node, operator, value, there: none, written: none };
    // Router variables can be read, but not written.
    let mut read = none;
    for (read, tag) in read.iter_mut().zip(tags).filter(|(_, tag)| **tag >= FIRST) {
        if let Reading::Value(value) = readings.of(*tag) {
            *read = Some(value);
        }
    }
    let before = means.session.created();
    let execute = |view: &mut View| {
        for (tag, value) in read.iter().enumerate() {
            value.iter().for_each(|value| view.found(tag, *value));
        }
        (0..tags.len()).for_each(|tag| call.there[tag] = view.get(tag));
        let outcome = match registry.execute(which, &mut call) {
            Ok(outcome) => outcome,
            Err(why) => return Verdict::Abort(why),
        };
        // A write to a variable discards all writes of the instruction.
        if read.iter().zip(&call.written).any(|(read, written)| read.is_some() && written.is_some()) {
            return Verdict::Abort(Abort::NotEnabled);
        }
        for (tag, written) in call.written.iter().enumerate().take(tags.len()) {
            written.iter().for_each(|value| view.set(tag, *value));
        }
        match outcome {
            Outcome::Forward => Verdict::Rewritten,
            Outcome::Drop => Verdict::Drop,
            Outcome::Absent => Verdict::Abort(Abort::AbsentTag),
            Outcome::Underflow => Verdict::Abort(Abort::Underflow),
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
    means.pay(slot.source, before);
    match done {
        Done::Executed(Verdict::Abort(why)) => return abort(packet, slot.at, why, counters),
        Done::Full => return abort(packet, slot.at, Abort::Full, counters),
        Done::Executed(verdict) => {
            let goes_on = verdict != Verdict::Drop;
            tally.count(which, *location, goes_on);
            if !goes_on {
                return Fate::Dropped;
            }
        }
    }
    // Rewrite only a changed value, so that most packets need no new checksum.
    if call.value != value {
        registered::rewrite(packet.network_mut().get_mut(usize::from(slot.at)..).unwrap_or_default(), call.value);
    }
    Fate::Forwarded
}

impl Carrier for Plain {
    fn network(&self) -> &[u8] {
        self.bytes()
    }

    fn network_mut(&mut self) -> &mut [u8] {
        self.bytes_mut()
    }
}
