//! Rings, triggers and traffic of I3, made from a seed: for tests and experiments.

use super::header::{DATA, FIRST_HOP, HOP_LIMIT, OPTIONS, RingMark, fixed_header};
use super::id::{ChordKey, I3Id};
use super::node::{I3Node, I3Target, I3Trigger};
use super::ring::{RingNode, RingView};
use link::RandomStream;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Fingers, successors and predecessors that a router of Chord knows.
const FINGERS: u32 = 160;
const SUCCESSORS: usize = 8;
const PREDECESSORS: usize = 3;

/// The UDP port of routers and of end systems.
const PORT: u16 = 5610;

/// A ring with triggers.
#[derive(Clone, Debug)]
pub struct I3Workload {
    nodes: BTreeMap<ChordKey, RingNode>,
    triggers: Vec<I3Trigger>,
    random: RandomStream,
}

impl I3Workload {
    /// A ring of `routers` with `triggers`. Keys are random. With `is_hostile` many agree in 104 or 192 bits, or lie beside the key of a router.
    pub fn new(seed: u64, routers: u32, triggers: usize, is_hostile: bool) -> I3Workload {
        let (nodes, random) = (BTreeMap::new(), RandomStream::new(seed, "i3"));
        let mut workload = I3Workload { nodes, triggers: Vec::new(), random };
        for number in 0..routers {
            let id = if is_hostile { workload.hostile_id() } else { workload.random_id() };
            let address = SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0001 + number), PORT);
            let key = id.chord_key();
            workload.nodes.entry(key).or_insert(RingNode { key, address });
        }
        for number in 0..triggers as u32 {
            let id = if is_hostile { workload.hostile_id() } else { workload.random_id() };
            let target = match workload.random.below(8) {
                0 if is_hostile => {
                    let ids = 1 + workload.random.below(3);
                    I3Target::Stack((0..ids).map(|_| workload.hostile_id()).collect())
                }
                _ => I3Target::Address(SocketAddrV4::new(Ipv4Addr::from_bits(0xc612_0000 + number), PORT)),
            };
            let prefix = if is_hostile { workload.random.below(257) as u16 } else { 256 };
            workload.triggers.push(I3Trigger { id, prefix, target });
        }
        workload
    }

    fn random_id(&mut self) -> I3Id {
        I3Id(std::array::from_fn(|_| self.random.below(256) as u8))
    }

    /// An identifier near one of the workload, or at the end of a block.
    fn hostile_id(&mut self) -> I3Id {
        let mut id = self.known_id();
        match self.random.below(8) {
            // In the same block, or agreeing in at least 192 bits.
            0 | 1 => id.0[13..].copy_from_slice(&self.random_id().0[13..]),
            2 | 3 => id.0[24..].copy_from_slice(&self.random_id().0[24..]),
            // The last place of a block, and its neighbours.
            4 => id.0[13..20].fill(0xff),
            5 => step(&mut id, 19, 1),
            6 => step(&mut id, 12, 0xff),
            _ => {}
        }
        id
    }

    /// An identifier of a trigger, the key of a router, or a random identifier.
    fn known_id(&mut self) -> I3Id {
        let triggers = self.triggers.len() as u64;
        match self.random.below(4) {
            0 | 1 if triggers > 0 => self.triggers[self.random.below(triggers) as usize].id,
            2 if !self.nodes.is_empty() => {
                let number = self.random.below(self.nodes.len() as u64) as usize;
                let mut id = self.random_id();
                let key = self.nodes.keys().nth(number).expect("the number is below the number of routers");
                id.0[..20].copy_from_slice(&key.0);
                id
            }
            _ => self.random_id(),
        }
    }

    /// The routers clockwise from zero on.
    pub fn nodes(&self) -> impl Iterator<Item = &RingNode> {
        self.nodes.values()
    }

    /// The router responsible for a key. Panics without routers.
    pub fn responsible(&self, key: &ChordKey) -> &RingNode {
        let next = self.nodes.range(key..).next().or(self.nodes.first_key_value());
        next.expect("the ring has routers").1
    }

    /// The router `own` with all that a settled ring lets it know: 160 fingers, 8 successors, 3 predecessors, and the triggers that it is responsible
    /// for.
    pub fn router(&self, own: &RingNode) -> I3Node {
        let finger = |power: u32| {
            let mut id = I3Id([0; 32]);
            id.0[..20].copy_from_slice(&own.key.0);
            step(&mut id, 19 - power as usize / 8, 1 << (power % 8));
            *self.responsible(&id.chord_key())
        };
        let after = || self.nodes.range(own.key..).chain(self.nodes.range(..own.key)).map(|(_, node)| *node).skip(1);
        let clockwise: Vec<RingNode> = after().collect();
        let predecessors = clockwise.iter().rev().take(PREDECESSORS);
        let others = (0..FINGERS).map(finger).chain(clockwise.iter().take(SUCCESSORS).chain(predecessors).copied());
        let ring = RingView::new(*own, others.collect::<Vec<_>>());
        let local =
            self.triggers.iter().filter(|trigger| ring.is_local(&trigger.id.chord_key())).cloned().collect::<Vec<_>>();
        I3Node::new(ring, local)
    }

    /// A data packet for a trigger with one identifier, from an end system.
    pub fn packet(&mut self, payload: usize) -> Vec<u8> {
        let number = self.random.below(self.triggers.len() as u64) as usize;
        let id = self.triggers.get(number).map_or(I3Id([0; 32]), |trigger| trigger.id);
        let mut bytes = fixed_header(DATA | FIRST_HOP, RingMark::default(), 1).to_vec();
        bytes.extend(id.0);
        bytes.extend((0..payload).map(|i| i as u8));
        bytes
    }

    /// A packet for any identifier of a hostile workload: often with a mark, options or several identifiers, at times with bytes changed or cut off.
    pub fn hostile_packet(&mut self) -> Vec<u8> {
        let ids = if self.random.below(8) == 0 { 1 + self.random.below(15) as usize } else { 1 };
        let flags = match self.random.below(16) {
            0 => DATA | OPTIONS,
            1 => OPTIONS,
            2..6 => DATA | FIRST_HOP,
            _ => DATA,
        };
        let hops = match self.random.below(4) {
            0 => self.random.below(128) as u8,
            1 => HOP_LIMIT - self.random.below(2) as u8,
            _ => 0,
        };
        let mark = RingMark { hops, is_last: self.random.below(4) == 0 };
        let mut bytes = fixed_header(flags, mark, ids).to_vec();
        (0..ids).for_each(|_| bytes.extend(self.hostile_id().0));
        bytes.extend((0..self.random.below(20)).map(|i| i as u8));
        for _ in 0..self.random.below(12).saturating_sub(8) {
            let at = self.random.below(bytes.len().min(40) as u64) as usize;
            match self.random.below(4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = self.random.below(256) as u8,
                _ => bytes[at] ^= 1 << self.random.below(8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        bytes
    }
}

/// Adds to the byte at `at`, and carries to the bytes before it.
fn step(id: &mut I3Id, at: usize, add: u8) {
    let mut carry = u16::from(add);
    for byte in id.0[..=at].iter_mut().rev() {
        carry += u16::from(*byte);
        *byte = carry as u8;
        carry >>= 8;
    }
}
