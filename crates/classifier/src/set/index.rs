//! The arrays of a node that a search reads, in two forms: for short values, and for IPv6 addresses.
//!
//! A search takes three steps: the block, the entry in the block, and the entry's own values. Each step prefetches what the next one reads, so that the
//! accesses of many searches overlap.

use super::key::{Key, ShortKey};
use packet::pool::prefetch;

/// The largest number of entries of a node.
pub(super) const CAPACITY: usize = 128;

/// First values of entries, in ascending order. With each goes a largest last value: in a leaf that of the entry and all before it, in an inner node that
/// of all before it.
pub(super) trait Index<K: Key>: Sized {
    /// The index of up to [`CAPACITY`] entries, at least one.
    fn of(entries: &[(K, K)]) -> Self;

    /// The first value of an entry.
    fn start(&self, entry: usize) -> K;

    /// Prefetches what [`Index::block`] reads.
    fn prefetch(&self);

    /// Finds the block of the last entry that starts at or before `value`, or the first block. Prefetches the block.
    fn block(&self, value: K) -> u64;

    /// In an inner node: the last entry that starts at or before `value`, or the first entry, and true if an element before that entry holds the value.
    fn descend(&self, block: u64, value: K) -> (usize, bool);

    /// In a leaf: true if an element holds `value`. An error has the entry to ask for with [`Index::decide`]; it is prefetched.
    fn covers(&self, block: u64, value: K) -> Result<bool, usize>;

    /// In a leaf: true if an element holds `value`, after [`Index::covers`] has returned `entry`.
    fn decide(&self, entry: usize, value: K) -> bool;

    /// Bytes of memory outside of the index itself.
    fn bytes(&self) -> usize;
}

/// A value with the index that suits it.
pub(super) trait Indexed: Key {
    /// The index of a node.
    type Index: Index<Self> + Send + Sync;
}

impl Indexed for u16 {
    type Index = ShortIndex<u16>;
}

impl Indexed for u32 {
    type Index = ShortIndex<u32>;
}

impl Indexed for u128 {
    type Index = LongIndex;
}

const BLOCKS: usize = 16;
const BLOCK: usize = 8;

/// The index of IPv4 addresses and ports: a search reads two cache lines.
#[repr(C, align(64))]
pub(super) struct ShortIndex<K> {
    /// The first value of each block.
    pivots: [K; BLOCKS],
    blocks: [Block<K>; BLOCKS],
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Block<K> {
    starts: [K; BLOCK],
    reach: [K; BLOCK],
}

impl<K: ShortKey> ShortIndex<K> {
    /// The last entry that starts at or before `value`, or the first entry. For the largest value of all this may be a place without an entry.
    #[inline(always)]
    fn entry(&self, block: u64, value: K) -> (usize, usize) {
        let block = block as usize % BLOCKS;
        (block, K::rank(&self.blocks[block].starts, value).saturating_sub(1) % BLOCK)
    }
}

impl<K: ShortKey> Index<K> for ShortIndex<K> {
    fn of(entries: &[(K, K)]) -> Self {
        // The largest value is found at a place without an entry, and is held there if the last entry holds it.
        let (_, reach) = entries[entries.len() - 1];
        let empty = Block { starts: [K::MAX; BLOCK], reach: [reach; BLOCK] };
        let mut index = ShortIndex { pivots: [K::MAX; BLOCKS], blocks: [empty; BLOCKS] };
        for (i, (start, reach)) in entries.iter().enumerate() {
            let block = &mut index.blocks[i / BLOCK];
            (block.starts[i % BLOCK], block.reach[i % BLOCK]) = (*start, *reach);
            if i % BLOCK == 0 {
                index.pivots[i / BLOCK] = *start;
            }
        }
        index
    }

    fn start(&self, entry: usize) -> K {
        self.blocks[entry / BLOCK].starts[entry % BLOCK]
    }

    #[inline(always)]
    fn prefetch(&self) {
        prefetch(&raw const self.pivots);
    }

    #[inline(always)]
    fn block(&self, value: K) -> u64 {
        let block = K::rank(&self.pivots, value).saturating_sub(1);
        prefetch(&raw const self.blocks[block % BLOCKS]);
        block as u64
    }

    #[inline(always)]
    fn descend(&self, block: u64, value: K) -> (usize, bool) {
        let (block, place) = self.entry(block, value);
        let entry = block * BLOCK + place;
        (entry, (self.blocks[block].reach[place] >= value) & (entry > 0))
    }

    #[inline(always)]
    fn covers(&self, block: u64, value: K) -> Result<bool, usize> {
        let (block, place) = self.entry(block, value);
        let block = &self.blocks[block];
        // An element that starts at or before the value holds it if it ends at or behind it. So only the largest end of all those counts. The
        // comparison of the start excludes a value before the first element of the set: the search then stops at that element.
        Ok((block.starts[place] <= value) & (block.reach[place] >= value))
    }

    fn decide(&self, _: usize, _: K) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        0
    }
}

const LONG_BLOCKS: usize = 8;
const LONG_BLOCK: usize = 16;

/// The index of IPv6 addresses, by numbers of 32 bits, which vector instructions compare: those 30 bits of an address that follow the bits that all
/// entries of the node share, and one more.
///
/// If n are the 30 bits of an address, its number is 2n + 1. An entry that starts with zeros behind these bits has the number 2n, any other 2n + 1. An
/// entry that ends with ones behind them has the end 2n + 2, any other 2n + 1. So unequal numbers decide the comparison, and equal ones leave it open: then
/// the search reads the whole addresses, from another place, so that the memory of most searches is dense.
#[repr(C, align(64))]
pub(super) struct LongIndex {
    /// The numbers of the first entries of all blocks.
    pivots: [i32; LONG_BLOCKS],
    /// The bits that all entries share, and zeros.
    base: u128,
    /// Start and reach of all entries. Places without an entry have those of the last.
    entries: Box<[(u128, u128); CAPACITY]>,
    /// The bits behind those of the number.
    shift: u8,
    /// The number of entries, less one.
    last: u8,
    blocks: [LongBlock; LONG_BLOCKS],
}

/// Places without an entry hold the largest number as start.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct LongBlock {
    starts: [i32; LONG_BLOCK],
    reach: [i32; LONG_BLOCK],
}

impl LongIndex {
    /// The number of a searched value. Values before the first number have -1, those behind the last the largest.
    #[inline(always)]
    fn number(&self, value: u128) -> i32 {
        // Twice the bits fit: the bits are 30, and a value beyond them has the largest number in any case.
        let bits = (value.wrapping_sub(self.base) >> self.shift).min(i32::MAX as u128 >> 1) as i32;
        if value < self.base { -1 } else { bits << 1 | 1 }
    }

    /// The entry, and true if its number leaves open whether it starts at or before the value.
    #[inline(always)]
    fn entry(&self, block: u64, number: i32) -> (usize, bool) {
        let block = block as u32 as usize % LONG_BLOCKS;
        let starts = &self.blocks[block].starts;
        let place = rank(starts, number).saturating_sub(1) % LONG_BLOCK;
        (block * LONG_BLOCK + place, starts[place] == number)
    }

    #[inline(always)]
    fn reach(&self, entry: usize) -> i32 {
        self.blocks[entry / LONG_BLOCK % LONG_BLOCKS].reach[entry % LONG_BLOCK]
    }

    /// The last entry up to `entry` that starts at or before `value`, or the first entry.
    fn exact(&self, entry: usize, value: u128) -> usize {
        let mut entry = entry.min(self.last.into());
        while entry > 0 && self.entries[entry % CAPACITY].0 > value {
            entry -= 1;
        }
        entry
    }

    #[cold]
    #[inline(never)]
    fn descend_exactly(&self, entry: usize, value: u128) -> (usize, bool) {
        let entry = self.exact(entry, value);
        (entry, entry > 0 && self.entries[entry].1 >= value)
    }
}

/// The keys that are at most `value`. The sum has the width of a key, so that a vector register holds as many sums as keys.
#[inline(always)]
fn rank<const N: usize>(keys: &[i32; N], value: i32) -> usize {
    // The sign of the difference: no difference overflows, for the smallest number of all is -1.
    (N as i32 + keys.iter().map(|key| value.wrapping_sub(*key) >> 31).sum::<i32>()) as usize
}

impl Index<u128> for LongIndex {
    fn of(entries: &[(u128, u128)]) -> Self {
        let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
        let shared = (first ^ last).leading_zeros();
        let shift = 98u32.saturating_sub(shared);
        let behind = (1u128 << shift) - 1;
        let empty = LongBlock { starts: [i32::MAX; LONG_BLOCK], reach: [i32::MAX; LONG_BLOCK] };
        let mut index = LongIndex {
            pivots: [i32::MAX; LONG_BLOCKS],
            base: first & !u128::MAX.checked_shr(shared).unwrap_or(0),
            entries: Box::new(std::array::from_fn(|i| entries[i.min(entries.len() - 1)])),
            shift: shift as u8,
            last: (entries.len() - 1) as u8,
            blocks: [empty; LONG_BLOCKS],
        };
        for (i, (start, reach)) in entries.iter().enumerate() {
            let number = index.number(*start) & !i32::from(start & behind == 0);
            // An end beyond all numbers is left open, as is one before them.
            let end = index.number(*reach);
            let is_known = reach & behind == behind && (0..i32::MAX - 1).contains(&end);
            let block = &mut index.blocks[i / LONG_BLOCK];
            block.starts[i % LONG_BLOCK] = number;
            block.reach[i % LONG_BLOCK] = if is_known { end + 1 } else { end };
            if i % LONG_BLOCK == 0 {
                index.pivots[i / LONG_BLOCK] = number;
            }
        }
        index
    }

    fn start(&self, entry: usize) -> u128 {
        self.entries[entry].0
    }

    #[inline(always)]
    fn prefetch(&self) {
        prefetch(&raw const self.pivots);
    }

    /// The number of the value in the high half, and the block.
    #[inline(always)]
    fn block(&self, value: u128) -> u64 {
        let number = self.number(value);
        let block = rank(&self.pivots, number).saturating_sub(1) % LONG_BLOCKS;
        prefetch(&raw const self.blocks[block].starts);
        prefetch(&raw const self.blocks[block].reach);
        u64::from(number as u32) << 32 | block as u64
    }

    #[inline(always)]
    fn descend(&self, block: u64, value: u128) -> (usize, bool) {
        let number = (block >> 32) as i32;
        let (entry, is_open) = self.entry(block, number);
        if is_open | (self.reach(entry) == number) {
            return self.descend_exactly(entry, value);
        }
        (entry, (self.reach(entry) > number) & (entry > 0))
    }

    #[inline(always)]
    fn covers(&self, block: u64, _: u128) -> Result<bool, usize> {
        let number = (block >> 32) as i32;
        let (entry, is_open) = self.entry(block, number);
        let (start, reach) = (self.blocks[entry / LONG_BLOCK].starts[entry % LONG_BLOCK], self.reach(entry));
        if is_open | (reach == number) {
            prefetch(self.entries.as_ptr().wrapping_add(entry));
            return Err(entry);
        }
        Ok((start < number) & (reach > number))
    }

    fn decide(&self, entry: usize, value: u128) -> bool {
        let (start, reach) = self.entries[self.exact(entry, value)];
        start <= value && value <= reach
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn search_in_a_node_finds_the_last_entry_that_starts_at_or_before_a_value(
            base: u128, width in 0u32..128, starts in proptest::collection::vec((any::<u128>(), 0u32..128), 1..=CAPACITY),
            values in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8, any::<u128>()), 50),
        ) {
            let near = |number: u128| base ^ (number >> width);
            let mut starts: Vec<u128> = starts.into_iter().map(|(bits, zeros)| near(bits) >> zeros << zeros).collect();
            starts.sort_unstable();
            let mut reach = 0;
            let entries: Vec<(u128, u128)> = starts.iter().enumerate().map(|(i, start)| {
                reach = reach.max(start | u128::MAX.checked_shr(30 + i as u32 % 99).unwrap_or(0));
                (*start, reach)
            }).collect();
            let index = LongIndex::of(&entries);
            for (at, how, random) in values {
                let (start, reach) = entries[at.index(entries.len())];
                let value = match how {
                    0 => start,
                    1 => start.wrapping_sub(1),
                    2 => start.wrapping_add(1),
                    3 => reach,
                    4 => reach.wrapping_add(1),
                    5 => [0, 1, u128::MAX][(random % 3) as usize],
                    6 => random,
                    _ => near(random),
                };
                let expected = entries.partition_point(|(start, _)| *start <= value);
                let (entry, is_before) = index.descend(index.block(value), value);
                let last = expected.saturating_sub(1);
                prop_assert_eq!(entry.min(entries.len() - 1), last, "{:x}", value);
                prop_assert_eq!(is_before, last > 0 && entries[last].1 >= value);
                let covers = index.covers(index.block(value), value).unwrap_or_else(|entry| index.decide(entry, value));
                prop_assert_eq!(covers, expected > 0 && entries[last].1 >= value, "{:x}", value);
            }
        }
    }
}
