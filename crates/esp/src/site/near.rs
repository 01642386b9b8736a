//! Instructions on a store whose entries are so few that they lie near the processor. Nothing has to be fetched ahead, so a packet is
//! read and executed at once: what it asks for goes from its bytes into registers, and from there into the entries.
//!
//! That is for what nearly all packets are: nothing is wrong with them, their tags are their own, and all of these have
//! entries where they have their home. All else goes the longer way, and is what it was.

use super::{Carrier, Fate, Rules, SiteCounters};
use crate::isa::{Opcode, Verdict, execute};
use crate::store::{Near, Tags, View};
use crate::wire::{Locations, Ordinary, peek, rewrite};
use std::hint::cold_path;

/// What becomes of a packet. `None` where it is unusual: then nothing has been done.
#[inline(always)]
pub(super) fn execute_at_once<C: Carrier>(
    near: &Near<'_>,
    rules: &Rules,
    (wanted, asked): (Locations, &mut u8),
    packet: &mut C,
    counters: &mut SiteCounters,
) -> Option<Fate> {
    let l3 = packet.network_mut();
    let Some((range, _)) = rules.carriages.find(l3) else {
        cold_path();
        return Some(Fate::Passed);
    };
    let bytes = &mut l3[range];
    let Some(head) = Ordinary::of(bytes) else {
        cold_path();
        return passes(bytes, (wanted, asked));
    };
    *asked |= head.bits();
    if !wanted.any_of(head.bits()) {
        cold_path();
        return Some(Fate::Passed);
    }
    if u32::from(rules.allowed) >> (head.number() & 0x1f) & 1 == 0 {
        cold_path();
        return None;
    }
    macro_rules! lines {
        ($($opcode:ident $tags:literal)*) => {
            match usual(Opcode::of(head.number()))? {
                $(Opcode::$opcode => execute_known::<$tags>(Opcode::$opcode, near, rules.node, head, bytes, counters),)*
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
    near: &Near<'_>,
    node: u64,
    head: Ordinary,
    bytes: &mut [u8],
    counters: &mut SiteCounters,
) -> Option<Fate> {
    let mut instruction = usual(head.instruction(opcode, bytes))?;
    let mut tags = Tags::NONE;
    instruction.put_tags(&mut tags);
    let tags: [u64; TAGS] = usual(tags.apart())?;
    // Tags that stand for something of the router are never found.
    let values = usual(near.find(tags))?;
    let mut view = View::new();
    for (tag, value) in values.iter().enumerate() {
        view.found(tag, value.get());
    }
    let verdict = execute(&mut instruction, &mut view, node);
    if matches!(verdict, Verdict::Abort(_)) {
        cold_path();
        return None;
    }
    for (tag, value) in values.iter().enumerate() {
        if view.wrote(tag) {
            value.set(view.get(tag).unwrap_or_default());
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
