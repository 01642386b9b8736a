//! The two stages of a batch: parse each packet, then execute each. In both every instruction has its own straight-line code.

use super::{ExecutionRules, InstructionFate, PacketBuffer, Prepared, SiteCounters, Todo};
use crate::guard::Guard;
use crate::isa::{
    Abort, InstructionVerdict, Opcode, StateInstruction, decide_repeat, execute, instructions, kind, mark_tag,
};
use crate::store::{InstructionTags, MAX_TAGS, Session, StoreResult, TagLookup};
use crate::variables::{self, Reading, Readings};
use crate::wire::{Locations, PartHead, UsualHead, computation, peek, rewrite, set_error_in};
use units::Instant;

/// The state that an execution needs.
pub(super) struct ExecutionContext<'a, 'b> {
    pub node: u64,
    pub session: &'a mut Session<'b>,
    pub guard: Option<&'a mut Guard>,
    pub now: Instant,
}

/// The first stage.
#[inline(always)]
pub(super) fn prepare(
    (rules, readings): (&ExecutionRules, &Readings),
    (here, requested): (Locations, &mut u8),
    session: &Session<'_>,
    l3: &[u8],
    slot: &mut Prepared,
    counters: &mut SiteCounters,
) -> Todo {
    let Some((range, _)) = rules.carriages.find(l3) else { return Todo::Pass };
    slot.at = range.start as u16;
    let bytes = &l3[range];
    let Some(head) = peek(bytes) else { return Todo::Pass };
    *requested |= head.bits();
    if !head.is_addressed_to(here) {
        return Todo::Pass;
    }
    if head.error() {
        counters.failed_before += 1;
        return Todo::Pass;
    }
    slot.computation = head.computation;
    let opcode = match head.opcode() {
        Ok(opcode) if rules.allowed >> opcode.number() & 1 == 0 => {
            return slot.aborted(refusal_reason((opcode, head), bytes));
        }
        Ok(opcode) => opcode,
        Err(why) => return slot.aborted(why),
    };
    prepare_each(opcode, head, (rules, readings), session, bytes, slot)
}

/// The first stage of an instruction that may be executed.
#[inline(always)]
pub(super) fn prepare_each(
    opcode: Opcode,
    head: PartHead,
    with: (&ExecutionRules, &Readings),
    session: &Session<'_>,
    bytes: &[u8],
    slot: &mut Prepared,
) -> Todo {
    macro_rules! known {
        ($($opcode:ident $_number:literal $tags:literal $_operands:tt $_about:tt)*) => {
            match opcode {
                $(Opcode::$opcode => match head.instruction(Opcode::$opcode, bytes) {
                    Ok(instruction) => {
                        let known = (instruction, Todo::$opcode);
                        prepare_known::<$tags>(known, head.computation, with, session, slot)
                    }
                    Err(why) => slot.aborted(why),
                })*
            }
        };
    }
    instructions!(known)
}

/// The same for a part with the usual head at `at` in its packet. `None`, and nothing prepared, if the part has another error.
#[inline(always)]
pub(super) fn prepare_usual_part(
    head: UsualHead,
    with: (&ExecutionRules, &Readings),
    session: &Session<'_>,
    (at, bytes): (usize, &[u8]),
    slot: &mut Prepared,
) -> Option<Todo> {
    macro_rules! known {
        ($($opcode:ident $_number:literal $tags:literal $_operands:tt $_about:tt)*) => {
            match Opcode::of(head.number() as u8)? {
                $(Opcode::$opcode => {
                    let known = (head.instruction(Opcode::$opcode, bytes)?, Todo::$opcode);
                    (slot.at, slot.computation) = (at as u16, computation(bytes)?);
                    prepare_known::<$tags>(known, slot.computation, with, session, slot)
                })*
            }
        };
    }
    Some(instructions!(known))
}

/// The abort reason of an instruction that is not allowed. A malformed part reports that instead.
#[cold]
fn refusal_reason((opcode, head): (Opcode, PartHead), bytes: &[u8]) -> Abort {
    let wrong = head.instruction(opcode, bytes).err().filter(|why| *why != Abort::BadOpcode);
    wrong.unwrap_or(Abort::NotEnabled)
}

/// The same with the instruction as a constant: straight-line code for each.
#[inline(always)]
fn prepare_known<const TAGS: usize>(
    (instruction, mut todo): (StateInstruction, Todo),
    computation: u64,
    (rules, readings): (&ExecutionRules, &Readings),
    session: &Session<'_>,
    slot: &mut Prepared,
) -> Todo {
    slot.instruction = instruction;
    instruction.put_tags(&mut slot.tags);
    if slot.tags.as_slice().iter().any(|tag| *tag >= variables::FIRST_VARIABLE) {
        if slot.tags.as_slice().iter().any(|tag| readings.of(*tag) == Reading::NotPermitted) {
            // A variable that the port does not permit: forward the packet like a router without ephemeral state (spec E-19).
            return Todo::Pass;
        }
        todo = Todo::Read;
    }
    if rules.scoped {
        slot.tags = slot.tags.scoped(computation);
    }
    session.prepare::<TAGS>(&mut slot.tags);
    todo
}

/// The second stage, with straight-line code for each instruction.
#[inline(always)]
pub(super) fn run<C: PacketBuffer, const GUARDED: bool>(
    means: &mut ExecutionContext<'_, '_>,
    packet: &mut C,
    (slot, readings): (&Prepared, &Readings),
    counters: &mut SiteCounters,
) -> InstructionFate {
    // Destructured and rebuilt, so that the compiler knows the variant in each arm.
    macro_rules! known {
        ($($opcode:ident $_number:literal $tags:literal { $($operand:ident)* } $_about:tt)*) => {
            match slot.todo {
                $(Todo::$opcode => {
                    let StateInstruction::$opcode { $($operand,)* } = slot.instruction else { return InstructionFate::PassedThrough };
                    let instruction = StateInstruction::$opcode { $($operand,)* };
                    let about = (&slot.tags, slot.computation);
                    one::<C, GUARDED, $tags>(means, packet, (slot.at, slot.source), about, instruction, counters)
                })*
                Todo::Read => read_and_run(means, packet, (slot, readings), counters),
                Todo::Pass | Todo::Sealed | Todo::Registered | Todo::Traced => InstructionFate::PassedThrough,
                Todo::Abort => abort(packet, slot.at, slot.why, counters),
            }
        };
    }
    instructions!(known)
}

/// Executes an instruction with `TAGS` tags.
#[inline(always)]
fn one<C: PacketBuffer, const GUARDED: bool, const TAGS: usize>(
    means: &mut ExecutionContext<'_, '_>,
    packet: &mut C,
    (at, source): (u16, u16),
    (tags, computation): (&InstructionTags, u64),
    mut instruction: StateInstruction,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let before = means.session.created();
    // Checked before the look-up, against the most that the instruction may create, because a commit cannot be undone.
    if GUARDED && !means.may_create(source, instruction.opcode()) {
        return abort(packet, at, Abort::Quota, counters);
    }
    let done = match means.session.look_up::<TAGS>(tags, computation) {
        Some(mut found) => match execute(&mut instruction, &mut found.view, means.node) {
            InstructionVerdict::Repeated => {
                commit_repeated(means.session, (tags, computation), found, &mut instruction, means.node)
            }
            verdict => means.session.commit::<TAGS, _>(tags, computation, found, verdict),
        },
        None => StoreResult::Full,
    };
    if GUARDED {
        means.charge(source, before);
    }
    finish(packet, (at, &instruction), done, counters)
}

impl ExecutionContext<'_, '_> {
    /// True if the source's allowance has room for the instruction's creates.
    pub fn may_create(&self, source: u16, opcode: Opcode) -> bool {
        self.guard.as_ref().is_none_or(|guard| guard.may_create(source.into(), opcode.creates(), self.now))
    }

    /// Charges the source for the entries created since `before`.
    pub fn charge(&mut self, source: u16, before: u64) {
        if let Some(guard) = &mut self.guard {
            guard.created(source.into(), self.session.created() - before, self.now);
        }
    }
}

/// The fate of the packet.
#[inline(always)]
fn finish<C: PacketBuffer>(
    packet: &mut C,
    (at, instruction): (u16, &StateInstruction),
    done: StoreResult<InstructionVerdict>,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let count = &mut counters.executed[usize::from(instruction.opcode().number())];
    match done {
        StoreResult::Executed(InstructionVerdict::Forward) => count.forwarded += 1,
        StoreResult::Executed(InstructionVerdict::Rewritten) => {
            count.forwarded += 1;
            if let Some(bytes) = packet.network_mut().get_mut(usize::from(at)..) {
                rewrite(bytes, instruction);
            }
        }
        StoreResult::Executed(InstructionVerdict::Drop | InstructionVerdict::Repeated) => {
            count.dropped += 1;
            return InstructionFate::Dropped;
        }
        StoreResult::Executed(InstructionVerdict::Abort(why)) => return abort(packet, at, why, counters),
        StoreResult::Full => return abort(packet, at, Abort::Full, counters),
    }
    InstructionFate::Forwarded
}

/// Executes an instruction that reads router variables. It finds their values in its view, and must not write them.
#[cold]
fn read_and_run<C: PacketBuffer>(
    means: &mut ExecutionContext<'_, '_>,
    packet: &mut C,
    (slot, readings): (&Prepared, &Readings),
    counters: &mut SiteCounters,
) -> InstructionFate {
    let mut instruction = slot.instruction;
    let mut variables = [None; MAX_TAGS];
    for (read, tag) in variables.iter_mut().zip(instruction.tags().as_slice()) {
        if let Reading::Value(value) = readings.of(*tag) {
            *read = Some(value);
        }
    }
    let before = means.session.created();
    if !means.may_create(slot.source, instruction.opcode()) {
        return abort(packet, slot.at, Abort::Quota, counters);
    }
    let about = (&slot.tags, slot.computation);
    let done = match means.session.look_up::<MAX_TAGS>(about.0, about.1) {
        Some(mut found) => {
            for (index, value) in variables.iter().enumerate() {
                if let Some(value) = value {
                    found.view.set_stored(index, *value);
                }
            }
            let verdict = execute(&mut instruction, &mut found.view, means.node);
            // A write to a variable discards the whole view, including writes to ordinary tags.
            let wrote = (0..MAX_TAGS).any(|index| variables[index].is_some() && found.view.is_written(index));
            match if wrote { InstructionVerdict::Abort(Abort::NotEnabled) } else { verdict } {
                InstructionVerdict::Repeated => {
                    commit_repeated(means.session, about, found, &mut instruction, means.node)
                }
                verdict => means.session.commit::<MAX_TAGS, _>(about.0, about.1, found, verdict),
            }
        }
        None => StoreResult::Full,
    };
    means.charge(slot.source, before);
    finish(packet, (slot.at, &instruction), done, counters)
}

/// Decides and commits a child's repeated report after completion. Only this function looks up the mark and reads its line; no other packet needs it.
#[cold]
#[inline(never)]
pub(crate) fn commit_repeated<'a>(
    session: &mut Session<'a>,
    (tags, computation): (&InstructionTags, u64),
    mut found: TagLookup<'a>,
    instruction: &mut StateInstruction,
    node: u64,
) -> StoreResult<InstructionVerdict> {
    let (mark, mut tags) = (tags.count(), tags.with(mark_tag));
    session.prepare::<MAX_TAGS>(&mut tags);
    session.look_up_one(mark, &tags, computation, &mut found);
    // The mark may be the entry that the full store refuses. Then the decision is made again without it.
    let mut without_mark = found.view;
    let verdict = decide_repeat(instruction, &mut found.view, node, true);
    match session.commit::<MAX_TAGS, _>(&tags, computation, found, verdict) {
        StoreResult::Full => StoreResult::Executed(decide_repeat(instruction, &mut without_mark, node, false)),
        done => done,
    }
}

/// Aborts: sets the error bit and counts the reason.
#[cold]
pub(super) fn abort<C: PacketBuffer>(
    packet: &mut C,
    at: u16,
    why: Abort,
    counters: &mut SiteCounters,
) -> InstructionFate {
    let (l3, at) = (packet.network_mut(), usize::from(at));
    counters.aborted[why as usize][kind(l3.get(at + 1).copied().unwrap_or_default())] += 1;
    set_error_in(l3, at);
    InstructionFate::Aborted(why)
}
