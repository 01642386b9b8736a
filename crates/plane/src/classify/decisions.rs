//! Decisions about packets that the router has encapsulated, by their headers.

use super::{ETHERNET, PORTS, REFUSED, Target};
use crate::filter::PathMarks;
use classifier::RuleResult;
use packet::{Meta, Packet};
use units::Generation;

/// The words of the header of an IPv4 packet behind an untagged link header, from its ethertype to its ports: all that classification reads of it. `None` if
/// the frame has another length than the header says.
#[inline(always)]
pub(super) fn header_words(packet: &Packet) -> Option<[u64; 4]> {
    let frame = packet.bytes().first_chunk::<PORTS>()?;
    let word = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let length = u16::from_be_bytes([frame[ETHERNET + 2], frame[ETHERNET + 3]]);
    // The last two overlap.
    let words = [word(ETHERNET - 2), word(ETHERNET + 6), word(ETHERNET + 14), word(PORTS - 8)];
    (ETHERNET + usize::from(length) == packet.len()).then_some(words)
}

/// The decision about packets with one header.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Decision {
    pub words: [u64; 4],
    pub epoch: u64,
    /// The destination, and the word of the forwarding table for it after so many [changes](fib::Tables::changes).
    pub destination: u32,
    pub route: u32,
    pub changes: u64,
    /// The MTU of the output interface after these changes.
    pub mtu: u16,
    /// The rule that selected the path.
    pub rule: Option<RuleResult>,
    pub target: Target,
    pub meta: Meta,
}

impl Decision {
    /// Gives a packet the fields that classification sets.
    #[inline(always)]
    pub fn apply(&self, meta: &mut Meta) {
        let same = &self.meta;
        meta.exception = 0;
        (meta.ecn, meta.objective) = (same.ecn, same.objective);
        (meta.adjacency, meta.version, meta.out_interface) = (same.adjacency, same.version, same.out_interface);
        (meta.path, meta.class) = (same.path, same.class);
    }
}

/// The number of decisions, a power of two: those of the hops of a moment.
const DECISIONS: usize = 256;

/// A generation, and the versions of its rules and sets.
type Versions = (Generation, (u64, u64));

/// The decisions about recent packets, by a hash of their headers.
pub(super) struct Decisions {
    versions: Versions,
    /// The number of changes of the versions, from one on: a decision is for one of them.
    epoch: u64,
    /// The changes of routes before the present batch.
    pub changes: u64,
    known: Box<[Decision; DECISIONS]>,
}

impl Decisions {
    pub fn new() -> Decisions {
        let (rule, target, meta) = (None, REFUSED, Meta::default());
        let none =
            Decision { words: [0; 4], epoch: 0, destination: 0, route: 0, changes: 0, mtu: 0, rule, target, meta };
        Decisions { versions: Default::default(), epoch: 1, changes: 0, known: Box::new([none; DECISIONS]) }
    }

    /// Forgets decisions by other versions. `changes` is the number of changes of routes until now.
    #[inline]
    pub fn adopt(&mut self, versions: Versions, changes: u64) {
        self.changes = changes;
        if self.versions != versions {
            self.versions = versions;
            self.epoch += 1;
        }
    }

    #[inline(always)]
    fn place(words: [u64; 4]) -> usize {
        // Addresses and ports: most hops differ in their last bits, which a multiplication moves to the first (Knuth, TAOCP 3, 6.4).
        let hash = (words[2] ^ words[3].rotate_left(29) ^ words[0]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - DECISIONS.ilog2())) as usize
    }

    #[inline(always)]
    pub fn find(&mut self, words: [u64; 4]) -> Option<&mut Decision> {
        let known = &mut self.known[Decisions::place(words)];
        (known.epoch == self.epoch && known.words == words).then_some(known)
    }

    /// Keeps the decision about a packet whose rule gives it nothing but its path.
    pub fn store(
        &mut self,
        packet: &Packet,
        (destination, route): (u32, u32),
        (target, mtu): (Target, u16),
        rule: Option<RuleResult>,
    ) {
        if !rule.is_none_or(|rule| PathMarks::of(rule).is_empty()) || packet.meta().exception != 0 {
            return;
        }
        if let Some(words) = header_words(packet) {
            let (epoch, changes, meta) = (self.epoch, self.changes, *packet.meta());
            self.known[Decisions::place(words)] =
                Decision { words, epoch, destination, route, changes, mtu, rule, target, meta };
        }
    }
}
