//! Instructions on a store whose entries are so few that they lie near the processor. Nothing has to be fetched ahead, so a packet is
//! read and executed at once: what it asks for goes from its bytes into registers, and from there into the entries.
//!
//! That is for what nearly all packets are: nothing is wrong with them, their tags are their own, and all of these have
//! entries where they have their home, or in the next line. All else goes the longer way, and is what it was.

use super::{Carrier, Fate, Rules, SiteCounters};
use crate::isa::{Opcode, Verdict, execute};
use crate::store::{Near, Tags, View};
use crate::wire::{Heads, Locations, Ordinary, peek, rewrite};
use std::cell::Cell;
use std::hint::cold_path;

/// What all packets of a batch have in common.
pub(super) struct Means<'a> {
    pub near: Near<'a>,
    pub rules: &'a Rules,
    pub heads: Heads,
    /// Where the packets are, and the bit of that.
    pub wanted: Locations,
    pub bit: u8,
    /// Look-ups that read two lines.
    pub twice: &'a Cell<u64>,
}

/// What becomes of a packet. `None` where it is unusual: then nothing has been done.
#[inline(always)]
pub(super) fn execute_at_once<C: Carrier>(
    means: &Means<'_>,
    asked: &mut u8,
    packet: &mut C,
    counters: &mut SiteCounters,
) -> Option<Fate> {
    let l3 = packet.network_mut();
    // It is known in each of both where a part may begin.
    match means.rules.carriages.plain(l3) {
        Some(bytes) => execute_part(means, asked, bytes, counters),
        None => execute_carried(means, asked, packet.network_mut(), counters),
    }
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
    let Some(head) = means.heads.begin(bytes) else {
        cold_path();
        return passes(bytes, (means.wanted, asked));
    };
    *asked |= head.bits();
    if head.bits() & means.bit == 0 {
        cold_path();
        return Some(Fate::Passed);
    }
    macro_rules! lines {
        ($($opcode:ident $tags:literal)*) => {
            match usual(Opcode::of(head.number()))? {
                $(Opcode::$opcode => execute_known::<$tags>(Opcode::$opcode, means, head, bytes, counters),)*
            }
        };
    }
    lines!(Nop 0 Count 1 Compare 1 Collect 2 Rcollect 3 Rchld 2 Mark 1 Test 1 Get 1 Put 1 Setfwd 1)
}

/// Whether a part that is not as most are passes here, whatever it is. `None` where that is yet to be found out.
#[cold]
fn passes(bytes: &[u8], (wanted, asked): (Locations, &mut u8)) -> Option<Fate> {
    let Some(head) = peek(bytes) else { return Some(Fate::Passed) };
    *asked |= head.bits();
    (!head.asks(wanted)).then_some(Fate::Passed)
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
    let mut view = View::new();
    for (tag, value) in values.iter().enumerate() {
        view.found(tag, value.get());
    }
    let verdict = execute(&mut instruction, &mut view, means.rules.node);
    if matches!(verdict, Verdict::Abort(_)) {
        cold_path();
        return None;
    }
    if view.wrote_any() {
        for (tag, value) in values.iter().enumerate() {
            if view.wrote(tag) {
                value.set(view.get(tag).unwrap_or_default());
            }
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
