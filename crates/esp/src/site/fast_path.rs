//! The fast path for a store that fits the core's cache. It needs no prefetch, so a packet is parsed and executed in one pass, with its operands in
//! registers.
//!
//! It handles nearly all packets: well-formed ones with distinct tags that all exist in their home line or the next. For any other packet it changes
//! nothing, and the two stages process it.

use super::{ExecutionRules, InstructionFate, PacketBuffer, SiteCounters};
use crate::isa::{InstructionVerdict, Opcode, execute, instructions};
use crate::store::{CachedShard, InstructionTags, PresentTags, Value};
use crate::wire::{Locations, UsualHead, UsualHeads, peek, rewrite};
use std::cell::Cell;
use std::hint::cold_path;

/// The state that all packets of a batch share.
pub(super) struct FastPathContext<'a> {
    pub cached: CachedShard<'a>,
    pub rules: &'a ExecutionRules,
    pub heads: UsualHeads,
    /// The location.
    pub here: Locations,
    /// Look-ups that read two lines.
    pub two_line_lookups: &'a Cell<u64>,
}

/// Executes a packet. `None` if it needs the two stages; then nothing has changed.
#[inline(always)]
pub(super) fn execute_cached<C: PacketBuffer>(
    means: &FastPathContext<'_>,
    requested: &mut u8,
    (packet, is_known): (&mut C, bool),
    counters: &mut SiteCounters,
) -> Option<InstructionFate> {
    if is_known
        && let Some(bytes) = packet.dedicated_mut()
        && let Some(head) = means.heads.match_exactly(bytes)
    {
        return execute_usual(means, head, bytes, counters);
    }
    execute_carried(means, requested, packet.network_mut(), counters)
}

/// The same for any carriage, and for packets that ask for other locations too.
#[inline(never)]
fn execute_carried(
    means: &FastPathContext<'_>,
    requested: &mut u8,
    l3: &mut [u8],
    counters: &mut SiteCounters,
) -> Option<InstructionFate> {
    let Some((range, _)) = means.rules.carriages.find(l3) else { return Some(InstructionFate::PassedThrough) };
    let bytes = &mut l3[range];
    let Some(head) = peek(bytes) else { return Some(InstructionFate::PassedThrough) };
    *requested |= head.bits();
    if !head.is_addressed_to(means.here) {
        return Some(InstructionFate::PassedThrough);
    }
    execute_usual(means, means.heads.match_head(bytes)?, bytes, counters)
}

/// The same for a part with the usual head.
#[inline(always)]
#[expect(clippy::manual_range_patterns, reason = "a range is two comparisons")]
fn execute_usual(
    means: &FastPathContext<'_>,
    head: UsualHead,
    bytes: &mut [u8],
    counters: &mut SiteCounters,
) -> Option<InstructionFate> {
    macro_rules! lines {
        ($($opcode:ident $number:literal $tags:literal $_operands:tt $_about:tt)*) => {
            match head.number() {
                $($number => execute_known::<$tags>(Opcode::$opcode, means, head, bytes, counters),)*
                // No head has these numbers. Listed separately, they fill the jump table, so that the match needs no range check.
                11 | 12 | 13 | 14 | 15 => unknown(),
                _ => None,
            }
        };
    }
    instructions!(lines)
}

#[inline(never)]
fn unknown() -> Option<InstructionFate> {
    None
}

/// The same with the opcode as a constant.
#[inline(always)]
fn execute_known<const TAGS: usize>(
    opcode: Opcode,
    means: &FastPathContext<'_>,
    head: UsualHead,
    bytes: &mut [u8],
    counters: &mut SiteCounters,
) -> Option<InstructionFate> {
    let mut instruction = likely(head.instruction(opcode, bytes))?;
    let mut tags = InstructionTags::NONE;
    instruction.put_tags(&mut tags);
    let tags: [u64; TAGS] = likely(tags.distinct())?;
    // Router variables are never in the store, so their tags end the fast path here.
    let values = likely(means.cached.find(tags, means.two_line_lookups))?;
    let mut view = PresentTags::of(values.map(Value::get));
    let verdict = execute(&mut instruction, &mut view, means.rules.node);
    // Nothing has been written yet; the two stages execute the instruction again.
    if matches!(verdict, InstructionVerdict::Repeated | InstructionVerdict::Abort(_)) {
        cold_path();
        return None;
    }
    for (tag, value) in values.iter().enumerate() {
        if let Some(written) = view.written(tag) {
            value.set(written);
        }
    }
    let count = &mut counters.executed[usize::from(opcode.number())];
    if verdict == InstructionVerdict::Drop {
        count.dropped += 1;
        return Some(InstructionFate::Dropped);
    }
    count.forwarded += 1;
    if verdict == InstructionVerdict::Rewritten {
        rewrite(bytes, &instruction);
    }
    Some(InstructionFate::Forwarded)
}

/// Tells the compiler that `None` is rare.
#[inline(always)]
fn likely<T>(some: Option<T>) -> Option<T> {
    if some.is_none() {
        cold_path();
    }
    some
}
