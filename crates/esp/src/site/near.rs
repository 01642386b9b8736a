//! Instructions on a store whose entries are so few that they lie near the processor. Nothing has to be fetched ahead, so a packet is
//! read and executed at once: what it asks for goes from its bytes into registers, and from there into the entries.
//!
//! That is for what nearly all packets are: nothing is wrong with them, their tags are their own, and all of these have
//! entries where they have their home, or in the next line. All else goes the longer way, and is what it was.

use super::{Carrier, Fate, Rules, SiteCounters};
use crate::isa::{Opcode, Verdict, execute};
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
    let bytes = if is_known {
        packet.dedicated_mut()
    } else {
        // It is known in each of both where a part may begin.
        let l3 = packet.network_mut();
        match means.rules.carriages.plain(l3) {
            Some(bytes) => bytes,
            None => return execute_carried(means, asked, packet.network_mut(), counters),
        }
    };
    execute_part(means, asked, bytes, counters)
}

/// The same, whatever carries it.
#[inline(never)]
fn execute_carried(means: &Means<'_>, asked: &mut u8, l3: &mut [u8], counters: &mut SiteCounters) -> Option<Fate> {
    let Some((range, _)) = means.rules.carriages.find(l3) else { return Some(Fate::Passed) };
    execute_part(means, asked, &mut l3[range], counters)
}

/// The same of a part.
#[inline(always)]
fn execute_part(means: &Means<'_>, asked: &mut u8, bytes: &mut [u8], counters: &mut SiteCounters) -> Option<Fate> {
    let head = match means.heads.only_here(bytes) {
        Some(head) => head,
        None => match elsewhere(means, asked, bytes) {
            Ok(head) => head,
            Err(fate) => return fate,
        },
    };
    macro_rules! lines {
        ($($opcode:ident $tags:literal)*) => {
            match usual(Opcode::of(head.number()))? {
                $(Opcode::$opcode => execute_known::<$tags>(Opcode::$opcode, means, head, bytes, counters),)*
            }
        };
    }
    lines!(Nop 0 Count 1 Compare 1 Collect 2 Rcollect 3 Rchld 2 Mark 1 Test 1 Get 1 Put 1 Setfwd 1)
}

/// The beginning of a part that is not to be executed here alone, or not as most are. Else what becomes of it; `None` where that is yet to be found out.
#[inline(never)]
fn elsewhere(means: &Means<'_>, asked: &mut u8, bytes: &[u8]) -> Result<Ordinary, Option<Fate>> {
    let Some(head) = peek(bytes) else { return Err(Some(Fate::Passed)) };
    *asked |= head.bits();
    if !head.asks(means.wanted) {
        return Err(Some(Fate::Passed));
    }
    means.heads.begin(bytes).ok_or(None)
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
    if matches!(verdict, Verdict::Abort(_)) {
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
