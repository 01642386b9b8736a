//! Partitions of rules: buckets by some of the bits of a rule.
//!
//! All parts are shared between versions of a rule set through `Arc`. A change copies the parts on the way from the root to its bucket.

use crate::rule::{Key, TernaryRule};
use crate::selector::Selector;
use std::sync::Arc;

/// The rank of no rule.
pub(crate) const NONE: u32 = u32::MAX;
/// Partitions with at most so many bits in the number of a slot have their slots in one piece.
const ONE_PIECE: u32 = 6;

/// Rules spread over buckets by the bits of a selector. Without any bit there is one bucket, for rules that no other partition takes.
#[derive(Clone, Debug)]
pub(crate) struct Partition<const W: usize> {
    pub selector: Selector<W>,
    /// The lowest rank in it.
    pub best: u32,
    /// The number of bits in the number of a slot.
    pub bits: u8,
    /// How many of these, the lowest, are the place within a chunk.
    low_bits: u8,
    slots: Slots<W>,
}

#[derive(Clone, Debug)]
enum Slots<const W: usize> {
    Few(Arc<[Slot<W>]>),
    /// As many chunks as slots in a chunk, so that the copies of a change are short.
    Many(Arc<[Chunk<W>]>),
}

/// Slots with numbers that differ in the low bits only, and the lowest rank in them.
#[derive(Clone, Debug)]
struct Chunk<const W: usize> {
    best: u32,
    slots: Arc<[Slot<W>]>,
}

/// A bucket, and the lowest rank in it.
#[derive(Clone, Debug)]
pub(crate) struct Slot<const W: usize> {
    pub best: u32,
    pub bucket: Bucket<W>,
}

#[derive(Clone, Debug)]
pub(crate) enum Bucket<const W: usize> {
    Empty,
    /// In the order of ranks.
    Rules(Arc<[TernaryRule<W>]>),
    /// Too many rules to try one by one.
    Partitions(Arc<[Partition<W>]>),
}

impl<const W: usize> Slot<W> {
    pub fn new(bucket: Bucket<W>) -> Self {
        Slot { best: bucket.best(), bucket }
    }
}

impl<const W: usize> Bucket<W> {
    fn best(&self) -> u32 {
        match self {
            Bucket::Empty => NONE,
            Bucket::Rules(rules) => rules.first().map_or(NONE, |rule| rule.rank),
            Bucket::Partitions(partitions) => partitions.iter().map(|partition| partition.best).min().unwrap_or(NONE),
        }
    }
}

impl<const W: usize> Partition<W> {
    /// A partition with these slots, a power of two of them.
    pub fn new(selector: Selector<W>, slots: Vec<Slot<W>>) -> Self {
        let best = lowest(&slots);
        let bits = slots.len().ilog2();
        let low_bits = if bits <= ONE_PIECE { bits } else { bits.div_ceil(2) };
        let slots = if bits <= ONE_PIECE {
            Slots::Few(slots.into())
        } else {
            let mut chunks = Vec::with_capacity(slots.len() >> low_bits);
            let mut slots = slots.into_iter().peekable();
            while slots.peek().is_some() {
                let slots: Arc<[Slot<W>]> = slots.by_ref().take(1 << low_bits).collect();
                chunks.push(Chunk { best: lowest(&slots), slots });
            }
            Slots::Many(chunks.into())
        };
        Partition { selector, best, bits: bits as u8, low_bits: low_bits as u8, slots }
    }

    /// The partition of rules that no other takes, in the order of ranks.
    pub fn of_the_rest(rules: impl Into<Arc<[TernaryRule<W>]>>) -> Self {
        Partition::new(Selector::NONE, vec![Slot::new(Bucket::Rules(rules.into()))])
    }

    /// The rules of a partition without bits; `None` for other partitions, and without rules.
    #[inline]
    pub fn list(&self) -> Option<&Arc<[TernaryRule<W>]>> {
        let slot = self.slots().next().filter(|_| self.selector == Selector::NONE)?;
        match &slot.bucket {
            Bucket::Rules(rules) => Some(rules),
            _ => None,
        }
    }

    /// The number of the slot of keys with this hash.
    #[inline(always)]
    fn number(&self, hash: u64) -> usize {
        // Shifted twice, for a shift by 64 is not possible.
        (hash >> 1 >> (63 - self.bits)) as usize
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn slot(&self, key: &Key<W>) -> &Slot<W> {
        self.slot_at(self.number(self.selector.hash(key)))
    }

    /// The slot with this number.
    #[inline(always)]
    pub fn slot_at(&self, number: usize) -> &Slot<W> {
        match &self.slots {
            Slots::Few(slots) => &slots[number],
            Slots::Many(chunks) => {
                let low = (1 << self.low_bits) - 1;
                &chunks[number >> self.low_bits].slots[number & low]
            }
        }
    }

    /// The numbers of the slots that `rule` belongs to, each once.
    pub fn numbers(&self, rule: &TernaryRule<W>) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.selector.hashes(rule).map(|hash| self.number(hash)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Changes the bucket of a slot. Only what another version uses is copied.
    pub fn change<T>(&mut self, number: usize, change: impl FnOnce(&mut Bucket<W>) -> T) -> T {
        let edit = |slot: &mut Slot<W>| {
            let result = change(&mut slot.bucket);
            slot.best = slot.bucket.best();
            result
        };
        match &mut self.slots {
            Slots::Few(slots) => {
                let slots = Arc::make_mut(slots);
                let result = edit(&mut slots[number]);
                self.best = lowest(slots);
                result
            }
            Slots::Many(chunks) => {
                let chunks = Arc::make_mut(chunks);
                let chunk = &mut chunks[number >> self.low_bits];
                let slots = Arc::make_mut(&mut chunk.slots);
                let result = edit(&mut slots[number & ((1 << self.low_bits) - 1)]);
                chunk.best = lowest(slots);
                self.best = chunks.iter().map(|chunk| chunk.best).min().unwrap_or(NONE);
                result
            }
        }
    }

    /// All slots.
    pub fn slots(&self) -> impl Iterator<Item = &Slot<W>> {
        let (few, many): (&[Slot<W>], &[Chunk<W>]) = match &self.slots {
            Slots::Few(slots) => (slots, &[]),
            Slots::Many(chunks) => (&[], chunks),
        };
        few.iter().chain(many.iter().flat_map(|chunk| chunk.slots.iter()))
    }
}

fn lowest<const W: usize>(slots: &[Slot<W>]) -> u32 {
    slots.iter().map(|slot| slot.best).min().unwrap_or(NONE)
}

/// Two counters of references stand in front of the contents of an `Arc`.
const COUNTERS: usize = 16;

/// Bytes of memory of these partitions and all below them. The allocator's own are not counted.
pub(crate) fn bytes<const W: usize>(partitions: &[Partition<W>]) -> usize {
    let of_bucket = |bucket: &Bucket<W>| match bucket {
        Bucket::Empty => 0,
        Bucket::Rules(rules) => COUNTERS + size_of_val(&**rules),
        Bucket::Partitions(partitions) => COUNTERS + bytes(partitions),
    };
    let of_partition = |partition: &Partition<W>| {
        let chunks = match &partition.slots {
            Slots::Few(_) => COUNTERS,
            Slots::Many(chunks) => COUNTERS + chunks.len() * (size_of::<Chunk<W>>() + COUNTERS),
        };
        let buckets: usize = partition.slots().map(|slot| size_of::<Slot<W>>() + of_bucket(&slot.bucket)).sum();
        size_of::<Partition<W>>() + chunks + buckets
    };
    partitions.iter().map(of_partition).sum()
}
