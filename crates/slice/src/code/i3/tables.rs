//! The filters of an I3 router's fast path, from its view of the ring and its triggers.
//!
//! A lookup key has 112 bits: 8 for the kind of the packet, 104 for the leading bits of its identifier, which are its block. One look-up decides, by
//! bands of filters. The lowest band that matches counts:
//!
//! | band | keys | action |
//! |---|---|---|
//! | trigger | the block of a trigger that this router is responsible for | deliver; an exception if two triggers share the block |
//! | own boundary | the blocks of this router and its predecessor | exception |
//! | own | all other blocks that this router is responsible for | exception: no trigger |
//! | last | packets with the last-hop mark | to the predecessor |
//! | boundary | the blocks of all other routers | exception |
//! | range | the blocks between two routers | to the next hop |
//!
//! The block of a router is on both sides of a boundary: 104 bits do not say which. A trigger in such a block still decides, since the formatter
//! compares all bits that the trigger asks for, at least 192.

use super::fast_path::{BOUNDARY, FilterOrder, LAST_KIND, STACK_TARGET, key_of};
use super::id::{BLOCK_BITS, ChordKey};
use super::node::{I3Node, I3Target, I3Trigger};
use super::ring::{RingHop, RingRange};
use crate::bands::{BandFilters, KeyCondition};
use crate::code::ExceptionCode;
use crate::spec::FilterAction;
use classifier::prefixes;
use std::net::SocketAddrV4;

const TRIGGER_BAND: u32 = 0;
const OWN_BOUNDARY_BAND: u32 = 1;
const OWN_BAND: u32 = 2;
const LAST_BAND: u32 = 3;
const BOUNDARY_BAND: u32 = 4;
const RANGE_BAND: u32 = 5;

const LAST_BLOCK: u128 = (1 << BLOCK_BITS) - 1;

/// A condition on the block of packets of all kinds.
fn block_condition(value: u128, mask: u128) -> KeyCondition {
    KeyCondition { value: key_of(0, value), mask: key_of(0, mask) }
}

/// The filters of a router. `way` selects the queue and the meta-interface for the packets to a router or an end system.
pub fn filters(node: &I3Node, way: impl Fn(SocketAddrV4) -> (u16, u16)) -> BandFilters {
    let send = |to: SocketAddrV4, order: FilterOrder| {
        let (queue, interface) = way(to);
        FilterAction::Send { queue, interface, next: to.into(), data: order.data() }
    };
    let ring = &node.ring;
    let mut filters = BandFilters::new();
    let local: Vec<&I3Trigger> = node.triggers().filter(|trigger| ring.is_local(&trigger.id.chord_key())).collect();
    for triggers in local.chunk_by(|a, b| a.id.block() == b.id.block()) {
        let action = match triggers {
            [I3Trigger { id, prefix, target: I3Target::Address(to) }] => send(*to, FilterOrder::deliver(id, *prefix)),
            [_] => FilterAction::Exception(STACK_TARGET),
            _ => FilterAction::Exception(ExceptionCode::MultiMatch),
        };
        filters.insert((TRIGGER_BAND, block_condition(triggers[0].id.block(), LAST_BLOCK)), action);
    }
    if let Some(predecessor) = ring.predecessor() {
        let last_kind = KeyCondition { value: key_of(LAST_KIND, 0), mask: key_of(LAST_KIND, 0) };
        filters.insert((LAST_BAND, last_kind), send(predecessor.address, FilterOrder::Forward { is_last: true }));
        for RingRange { after, .. } in ring.ranges() {
            let is_own = after == ring.own().key || after == predecessor.key;
            if !after.ends_block() {
                let band = if is_own { OWN_BOUNDARY_BAND } else { BOUNDARY_BAND };
                let condition = block_condition(after.block(), LAST_BLOCK);
                filters.insert((band, condition), FilterAction::Exception(BOUNDARY));
            }
        }
    }
    for RingRange { after, up_to, hop } in ring.ranges() {
        let (band, action) = match hop {
            RingHop::Local => (OWN_BAND, FilterAction::Exception(ExceptionCode::NoMatch)),
            RingHop::Router { to, is_last } => (RANGE_BAND, send(to, FilterOrder::Forward { is_last })),
        };
        for (first, last) in whole_blocks(&after, &up_to).into_iter().flatten() {
            for prefix in prefixes(first, last, BLOCK_BITS) {
                filters.insert((band, block_condition(prefix.value, prefix.mask)), action.clone());
            }
        }
    }
    filters
}

/// The first and last block of those with all places behind `after`, up to `up_to`. Across the end of the ring these are two ranges.
fn whole_blocks(after: &ChordKey, up_to: &ChordKey) -> [Option<(u128, u128)>; 2] {
    let (before, end) = (after.block(), up_to.block());
    if after == up_to {
        return [Some((0, LAST_BLOCK)), None];
    }
    let next = |block: u128| (block + 1) & LAST_BLOCK;
    let last = if up_to.ends_block() { end } else { end.wrapping_sub(1) & LAST_BLOCK };
    // Within one block there is no whole one; otherwise none if the last one is the block that `after` is in.
    if before == end && after < up_to || last == before {
        return [None; 2];
    }
    match next(before) {
        first if first <= last => [Some((first, last)), None],
        first => [Some((first, LAST_BLOCK)), Some((0, last))],
    }
}
