//! The fast path for a store that fits the core's cache. It needs no prefetch, so a packet is parsed and executed in one pass, with its operands in
//! registers.
//!
//! It handles nearly all packets: well-formed ones with distinct tags that all exist in their home line or the next. For any other packet it changes
//! nothing, and the two stages process it.

use super::{Carrier, Fate, Rules, SiteCounters};
use crate::isa::{Opcode, Verdict, execute, instructions};
use crate::store::{Near, Present, Tags, Value};
use crate::wire::{Heads, Locations, Ordinary, peek, rewrite};
use std::cell::Cell;
use std::hint::cold_path;

/// The state that all packets of a batch share.
pub(super) struct Means<'a> {
    pub near: Near<'a>,
    pub rules: &'a Rules,
    pub heads: Heads,
    /// The location.
    pub wanted: Locations,
    /// Look-ups that read two lines.
    pub twice: &'a Cell<u64>,
}

/// Executes a packet. `None` if it needs the two stages; then nothing has changed.
#[inline(always)]
pub(super) fn execute_at_once<C: Carrier>(
    means: &Means<'_>,
    asked: &mut u8,
    (packet, is_known): (&mut C, bool),
    counters: &mut SiteCounters,
) -> Option<Fate> {
    if is_known
        && let Some(bytes) = packet.dedicated_mut()
        && let Some(head) = means.heads.only_here(bytes)
    {
        return execute_begun(means, head, bytes, counters);
    }
    execute_carried(means, asked, packet.network_mut(), counters)
}

/// The same for any carriage, and for packets that ask for other locations too.
#[inline(never)]
fn execute_carried(means: &Means<'_>, asked: &mut u8, l3: &mut [u8], counters: &mut SiteCounters) -> Option<Fate> {
    let Some((range, _)) = means.rules.carriages.find(l3) else { return Some(Fate::Passed) };
    let bytes = &mut l3[range];
    let Some(head) = peek(bytes) else { return Some(Fate::Passed) };
    *asked |= head.bits();
    if !head.asks(means.wanted) {
        return Some(Fate::Passed);
    }
    execute_begun(means, means.heads.begin(bytes)?, bytes, counters)
}

/// The same for a part with the usual head.
#[inline(always)]
#[expect(clippy::manual_range_patterns, reason = "a range is two comparisons")]
fn execute_begun(means: &Means<'_>, head: Ordinary, bytes: &mut [u8], counters: &mut SiteCounters) -> Option<Fate> {
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
fn unknown() -> Option<Fate> {
    None
}

/// The same with the opcode as a constant.
#[inline(always)]
fn execute_known<const TAGS: usize>(
    opcode: Opcode,
    means: &Means<'_>,
    head: Ordinary,
    bytes: &mut [u8],
    counters: &mut SiteCounters,
) -> Option<Fate> {
    let mut instruction = usual(head.instruction(opcode, bytes))?;
    let mut tags = Tags::NONE;
    instruction.put_tags(&mut tags);
    let tags: [u64; TAGS] = usual(tags.apart())?;
    // Router variables are never in the store, so their tags end the fast path here.
    let values = usual(means.near.find(tags, means.twice))?;
    let mut view = Present::of(values.map(Value::get));
    let verdict = execute(&mut instruction, &mut view, means.rules.node);
    // Nothing has been written yet; the two stages execute the instruction again.
    if matches!(verdict, Verdict::Repeated | Verdict::Abort(_)) {
        cold_path();
        return None;
    }
    for (tag, value) in values.iter().enumerate() {
        if let Some(written) = view.written(tag) {
            value.set(written);
        }
    }
    let count = &mut counters.executed[usize::from(opcode.number())];
    if verdict == Verdict::Drop {
        count.dropped += 1;
        return Some(Fate::Dropped);
    }
    count.forwarded += 1;
    if verdict == Verdict::Rewritten {
        rewrite(bytes, &instruction);
    }
    Some(Fate::Forwarded)
}

/// Tells the compiler that `None` is rare.
#[inline(always)]
fn usual<T>(some: Option<T>) -> Option<T> {
    if some.is_none() {
        cold_path();
    }
    some
}
