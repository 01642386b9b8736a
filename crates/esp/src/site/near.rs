//! Instructions on a store whose entries are so few that they lie near the processor. Nothing has to be fetched ahead, so a packet is
//! read and executed at once: what it asks for goes from its bytes into registers, and from there into the entries.
//!
//! That is for what nearly all packets are: nothing is wrong with them, their tags are their own, and all of these have
//! entries where they have their home, or in the next line. All else goes the longer way, and is what it was.

use super::{Carrier, Fate, Rules, SiteCounters};
use crate::isa::{Opcode, Verdict, execute, instructions};
use crate::store::{Near, Present, Tags, Value};
use crate::wire::{Heads, Locations, Ordinary, peek, rewrite};
use std::cell::Cell;
use std::hint::cold_path;

/// What all packets of a batch have in common.
pub(super) struct Means<'a> {
    pub near: Near<'a>,
    pub rules: &'a Rules,
    pub heads: Heads,
    /// Where the packets are.
    pub wanted: Locations,
    /// Look-ups that read two lines.
    pub twice: &'a Cell<u64>,
}

/// What becomes of a packet. `None` where it is unusual: then nothing has been done.
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

/// The same, whatever carries it, and wherever else it is to be executed.
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

/// The same of a part that begins as most do.
#[inline(always)]
#[expect(clippy::manual_range_patterns, reason = "a range is two comparisons")]
fn execute_begun(means: &Means<'_>, head: Ordinary, bytes: &mut [u8], counters: &mut SiteCounters) -> Option<Fate> {
    macro_rules! lines {
        ($($opcode:ident $number:literal $tags:literal $_operands:tt $_about:tt)*) => {
            match head.number() {
                $($number => execute_known::<$tags>(Opcode::$opcode, means, head, bytes, counters),)*
                // No head is one of these. Each by itself, so that nothing is compared before the jump.
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

/// The same where it is known which instruction it is.
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
    // Tags that stand for something of the router are never found.
    let values = usual(means.near.find(tags, means.twice))?;
    let mut view = Present::of(values.map(Value::get));
    let verdict = execute(&mut instruction, &mut view, means.rules.node);
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

/// Nearly always there is something.
#[inline(always)]
fn usual<T>(some: Option<T>) -> Option<T> {
    if some.is_none() {
        cold_path();
    }
    some
}
