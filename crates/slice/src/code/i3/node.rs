//! An I3 router without tables: it forwards packets by whole identifiers.
//!
//! It is the slow path of a router with a fast path, and the reference that the tables are compared with. It takes its time, and knows all cases:
//! several triggers (multicast), stacks, and triggers that lead to another stack. The messages in option lists are its caller's.

use super::header::{DATA, FIXED, HOP_LIMIT, I3Error, I3Packet, OPTIONS, RingMark, fixed_header};
use super::id::{I3Id, LEAST_PREFIX};
use super::ring::{RingHop, RingView};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

/// Identifiers of a stack.
pub const LONGEST_STACK: usize = 15;
/// Copies of one packet. Triggers that lead to each other could otherwise double it at each hop.
const MOST_COPIES: usize = 256;

/// The destination of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum I3Target {
    /// An end system: its address and UDP port.
    Address(SocketAddrV4),
    /// Other identifiers, which replace the trigger's.
    Stack(Vec<I3Id>),
}

/// A rule of an end system: packets for this identifier go to that target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct I3Trigger {
    /// The identifier.
    pub id: I3Id,
    /// Leading bits in which a packet's identifier must agree. At least 192 count.
    pub prefix: u16,
    /// The destination.
    pub target: I3Target,
}

impl I3Trigger {
    /// True if a packet for `id` matches. More than one trigger may.
    pub fn matches(&self, id: &I3Id) -> bool {
        self.id.common_prefix(id) >= self.prefix.max(LEAST_PREFIX)
    }
}

/// The reason why the router drops a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum I3Drop {
    /// The header is invalid.
    Invalid(I3Error),
    /// 64 routers have forwarded it, or triggers lead it in a circle.
    HopLimit,
    /// No trigger matches.
    NoTrigger,
    /// A stack would have more than 15 identifiers, or there are too many copies.
    TooLarge,
}

/// The fate of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum I3Fate {
    /// It was sent: one packet to the next router, or one to each target.
    Sent(Vec<(SocketAddrV4, Vec<u8>)>),
    /// It was dropped.
    Dropped(I3Drop),
    /// It has messages for this router in its option list.
    Message,
}

/// A router, and the triggers that it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct I3Node {
    /// The ring as the router knows it.
    pub ring: RingView,
    triggers: BTreeMap<I3Id, Vec<I3Trigger>>,
}

impl I3Node {
    /// A router with these triggers.
    pub fn new(ring: RingView, triggers: impl IntoIterator<Item = I3Trigger>) -> I3Node {
        let mut by_id: BTreeMap<I3Id, Vec<I3Trigger>> = BTreeMap::new();
        triggers.into_iter().for_each(|trigger| by_id.entry(trigger.id).or_default().push(trigger));
        I3Node { ring, triggers: by_id }
    }

    /// The triggers in the order of their identifiers.
    pub fn triggers(&self) -> impl Iterator<Item = &I3Trigger> {
        self.triggers.values().flatten()
    }

    /// The triggers that a packet for `id` goes to: of those that match, the ones that agree in the most bits.
    pub fn matching(&self, id: &I3Id) -> Vec<&I3Trigger> {
        let (mut low, mut high) = (*id, *id);
        low.0[usize::from(LEAST_PREFIX / 8)..].fill(0);
        high.0[usize::from(LEAST_PREFIX / 8)..].fill(0xff);
        let near = self.triggers.range(low..=high).flat_map(|(_, triggers)| triggers);
        let mut matching: Vec<&I3Trigger> = near.filter(|trigger| trigger.matches(id)).collect();
        let most = matching.iter().map(|trigger| trigger.id.common_prefix(id)).max();
        matching.retain(|trigger| Some(trigger.id.common_prefix(id)) == most);
        matching
    }

    /// The fate of a packet. It does not change the router.
    pub fn process(&self, bytes: &[u8]) -> I3Fate {
        let packet = match I3Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return I3Fate::Dropped(I3Drop::Invalid(error)),
        };
        let mut copies =
            vec![StackCopy { mark: packet.mark, stack: packet.stack.iter().map(|id| I3Id(*id)).collect() }];
        let (mut sent, mut dropped) = (Vec::new(), None);
        let mut made = 1;
        while let Some(copy) = copies.pop() {
            let to = match self.ring.next_hop(&copy.stack[0].chord_key(), copy.mark.is_last) {
                RingHop::Router { to, is_last } => {
                    match copy.mark.hops < HOP_LIMIT {
                        true => sent.push((to, copy.packet(&packet, Some(is_last)))),
                        false => dropped = Some(I3Drop::HopLimit),
                    }
                    continue;
                }
                RingHop::Local if packet.flags & OPTIONS != 0 => return I3Fate::Message,
                RingHop::Local => self.matching(&copy.stack[0]),
            };
            if to.is_empty() {
                dropped = Some(I3Drop::NoTrigger);
            }
            for trigger in to {
                let rest = &copy.stack[1..];
                match &trigger.target {
                    I3Target::Address(to) => {
                        let delivered = StackCopy { mark: RingMark::default(), stack: rest.to_vec() };
                        sent.push((*to, delivered.packet(&packet, None)));
                    }
                    I3Target::Stack(_) if copy.mark.hops >= HOP_LIMIT => dropped = Some(I3Drop::HopLimit),
                    I3Target::Stack(ids) if ids.is_empty() || ids.len() + rest.len() > LONGEST_STACK => {
                        dropped = Some(I3Drop::TooLarge);
                    }
                    I3Target::Stack(_) if made == MOST_COPIES => dropped = Some(I3Drop::TooLarge),
                    I3Target::Stack(ids) => {
                        made += 1;
                        // A change of the stack counts as a hop, so that triggers that lead to each other end.
                        let mark = RingMark { hops: copy.mark.hops + 1, is_last: false };
                        copies.push(StackCopy { mark, stack: [ids, rest].concat() });
                    }
                }
            }
        }
        match dropped {
            Some(reason) if sent.is_empty() => I3Fate::Dropped(reason),
            _ => I3Fate::Sent(sent),
        }
    }
}

/// A copy of a packet with its own header.
struct StackCopy {
    mark: RingMark,
    stack: Vec<I3Id>,
}

impl StackCopy {
    /// The bytes of the copy of `packet`: to a router with the last-hop mark or without it, or to an end system.
    fn packet(&self, packet: &I3Packet<'_>, to_router: Option<bool>) -> Vec<u8> {
        let mark = match to_router {
            Some(is_last) => RingMark { hops: self.mark.hops + 1, is_last },
            None => RingMark::default(),
        };
        let flags = packet.flags & (DATA | OPTIONS);
        let mut bytes = Vec::with_capacity(FIXED + self.stack.len() * 32 + packet.rest.len());
        bytes.extend(fixed_header(flags, mark, self.stack.len()));
        self.stack.iter().for_each(|id| bytes.extend(id.0));
        bytes.extend(packet.rest);
        bytes
    }
}
