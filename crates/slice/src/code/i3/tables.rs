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

use super::header::I3Packet;
use super::id::{BLOCK_BITS, ChordKey, I3Id};
use super::node::{I3Node, I3Target, I3Trigger};
use super::ring::{RingHop, RingRange};
use crate::bands::{BandFilters, KeyCondition};
use crate::code::{DATA_BYTES, KEY_BYTES};
use classifier::prefixes;
use std::net::SocketAddrV4;

const TRIGGER: u32 = 0;
const OWN_BOUNDARY: u32 = 1;
const OWN: u32 = 2;
const LAST: u32 = 3;
const BOUNDARY: u32 = 4;
const RANGE: u32 = 5;

/// The kind of packets with the last-hop mark. All others have 0.
const LAST_KIND: u8 = 1;
const LAST_BLOCK: u128 = (1 << BLOCK_BITS) - 1;

/// The action for packets that match a filter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum I3Action {
    /// Forward to a router.
    Forward {
        /// Its address.
        to: SocketAddrV4,
        /// The last-hop mark that the packet then has.
        is_last: bool,
    },
    /// Deliver to an end system, if the packet's identifier agrees with the trigger's.
    Deliver {
        /// The address of the end system.
        to: SocketAddrV4,
        /// The identifier of the trigger.
        id: I3Id,
        /// The leading bits that must agree, at least 192.
        prefix: u16,
    },
    /// Leave it to the slow path.
    Exception(I3Exception),
}

/// The reason why the tables leave a packet to the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum I3Exception {
    /// This router is responsible, and has no trigger with the block.
    NoTrigger,
    /// The block is on both sides of a boundary between two routers.
    Boundary,
    /// Several triggers have the block.
    SharedBlock,
    /// The trigger leads to other identifiers.
    StackTarget,
}

// The first byte of the data of a filter.
const FORWARD: u8 = 0;
const FORWARD_LAST: u8 = 1;
const DELIVER: u8 = 2;
const NO_TRIGGER: u8 = 3;
const SHARED_BLOCK: u8 = 4;
const ON_BOUNDARY: u8 = 5;
const STACK_TARGET: u8 = 6;

/// The bits of an identifier that a lookup key has no room for.
type IdRest = [u8; 19];

/// An action as the formatter finds it in the data of a filter. The address is not its business.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FilterOrder {
    Forward { is_last: bool },
    Deliver { rest: IdRest, prefix: u16 },
    Exception(I3Exception),
}

impl I3Action {
    /// The data of a filter with this action: its kind in the first byte. To deliver, the next two have the prefix length, and those behind the
    /// identifier from its 105th bit on.
    pub fn data(&self) -> [u8; DATA_BYTES] {
        let mut data = [0; DATA_BYTES];
        data[0] = match self {
            I3Action::Forward { is_last: false, .. } => FORWARD,
            I3Action::Forward { is_last: true, .. } => FORWARD_LAST,
            I3Action::Deliver { .. } => DELIVER,
            I3Action::Exception(I3Exception::NoTrigger) => NO_TRIGGER,
            I3Action::Exception(I3Exception::SharedBlock) => SHARED_BLOCK,
            I3Action::Exception(I3Exception::Boundary) => ON_BOUNDARY,
            I3Action::Exception(I3Exception::StackTarget) => STACK_TARGET,
        };
        if let I3Action::Deliver { id, prefix, .. } = self {
            data[1..3].copy_from_slice(&prefix.to_be_bytes());
            data[3..22].copy_from_slice(&id.0[13..]);
        }
        data
    }

    /// The address of the next hop, if there is one.
    pub fn next_hop(&self) -> Option<SocketAddrV4> {
        match self {
            I3Action::Forward { to, .. } | I3Action::Deliver { to, .. } => Some(*to),
            I3Action::Exception(_) => None,
        }
    }
}

impl FilterOrder {
    /// The order in the data of a filter. `None` for data of no action.
    pub fn of(data: &[u8; DATA_BYTES]) -> Option<FilterOrder> {
        Some(match data[0] {
            FORWARD => FilterOrder::Forward { is_last: false },
            FORWARD_LAST => FilterOrder::Forward { is_last: true },
            DELIVER => {
                let rest = *data[3..].first_chunk()?;
                FilterOrder::Deliver { rest, prefix: u16::from_be_bytes([data[1], data[2]]) }
            }
            NO_TRIGGER => FilterOrder::Exception(I3Exception::NoTrigger),
            SHARED_BLOCK => FilterOrder::Exception(I3Exception::SharedBlock),
            ON_BOUNDARY => FilterOrder::Exception(I3Exception::Boundary),
            STACK_TARGET => FilterOrder::Exception(I3Exception::StackTarget),
            _ => return None,
        })
    }
}

/// The lookup key of a packet.
pub(super) fn lookup_key(packet: &I3Packet<'_>) -> [u8; KEY_BYTES] {
    key_of(if packet.mark.is_last { LAST_KIND } else { 0 }, packet.id().block())
}

fn key_of(kind: u8, block: u128) -> [u8; KEY_BYTES] {
    let [_, _, key @ ..] = (u128::from(kind) << BLOCK_BITS | block).to_be_bytes();
    key
}

/// A condition on the block of packets of all kinds.
fn block_condition(value: u128, mask: u128) -> KeyCondition {
    KeyCondition { value: key_of(0, value), mask: key_of(0, mask) }
}

/// The filters of a router.
pub fn filters(node: &I3Node) -> BandFilters<I3Action> {
    let ring = &node.ring;
    let mut filters = BandFilters::new();
    let local: Vec<&I3Trigger> = node.triggers().filter(|trigger| ring.is_local(&trigger.id.chord_key())).collect();
    for triggers in local.chunk_by(|a, b| a.id.block() == b.id.block()) {
        let action = match triggers {
            [I3Trigger { id, prefix, target: I3Target::Address(to) }] => {
                I3Action::Deliver { to: *to, id: *id, prefix: *prefix }
            }
            [_] => I3Action::Exception(I3Exception::StackTarget),
            _ => I3Action::Exception(I3Exception::SharedBlock),
        };
        filters.insert((TRIGGER, block_condition(triggers[0].id.block(), LAST_BLOCK)), action);
    }
    if let Some(predecessor) = ring.predecessor() {
        let last_kind = KeyCondition { value: key_of(LAST_KIND, 0), mask: key_of(LAST_KIND, 0) };
        filters.insert((LAST, last_kind), I3Action::Forward { to: predecessor.address, is_last: true });
        for RingRange { after, .. } in ring.ranges() {
            let is_own = after == ring.own().key || after == predecessor.key;
            if !after.ends_block() {
                let band = if is_own { OWN_BOUNDARY } else { BOUNDARY };
                let condition = block_condition(after.block(), LAST_BLOCK);
                filters.insert((band, condition), I3Action::Exception(I3Exception::Boundary));
            }
        }
    }
    for RingRange { after, up_to, hop } in ring.ranges() {
        let (band, action) = match hop {
            RingHop::Local => (OWN, I3Action::Exception(I3Exception::NoTrigger)),
            RingHop::Router { to, is_last } => (RANGE, I3Action::Forward { to, is_last }),
        };
        for (first, last) in whole_blocks(&after, &up_to).into_iter().flatten() {
            for prefix in prefixes(first, last, BLOCK_BITS) {
                filters.insert((band, block_condition(prefix.value, prefix.mask)), action);
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
