//! Shares by an exact key: addresses and prefixes of one length, MAC addresses, pairs of VLAN tags.
//!
//! Open addressing with linear probing. A batch prefetches the first slots of later keys, so a look-up costs about one access to memory that others
//! overlap. The hash is chosen when the table is built: one with which no key lies far from its first slot. So packets with many unknown addresses, which
//! any subscriber can send, cost at most that many probes each.

use packet::pool::prefetch;
use units::ShareId;

/// The farthest that a key may lie from its first slot, in slots.
const MOST_PROBES: usize = 32;
/// Hashes that are tried before the table is made larger.
const HASHES: u64 = 8;
/// Odd, with half its bits set: from the fractional part of the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Keys that are prefetched ahead of the one being looked up. More loads than the processor has in flight at once would gain nothing.
const AHEAD: usize = 24;

/// A key of a table.
pub(super) trait ExactKey: Copy + Eq + Default {
    /// 64 bits that depend on all bits of the key.
    fn word(self) -> u64;
}

impl ExactKey for u32 {
    #[inline(always)]
    fn word(self) -> u64 {
        self.into()
    }
}

impl ExactKey for u64 {
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
}

impl ExactKey for u128 {
    #[inline(always)]
    fn word(self) -> u64 {
        // The halves of addresses are often small numbers: one is spread before they are combined.
        (self >> 64) as u64 ^ (self as u64).wrapping_mul(ODD).rotate_left(29)
    }
}

/// A key with its share. A slot is empty if its share is zero.
#[derive(Clone, Copy, Default)]
struct Slot<K> {
    key: K,
    share: u32,
}

/// An immutable table of shares by key.
pub(super) struct ExactKeys<K> {
    slots: Box<[Slot<K>]>,
    /// Selects the hash.
    seed: u64,
    /// The number of bits of a hash after those that number a slot.
    shift: u32,
    /// The number of slots after the first that a look-up may have to read.
    probes: usize,
    keys: usize,
}

impl<K: ExactKey> ExactKeys<K> {
    /// The table of these entries. Each key occurs once, and no share is zero.
    pub fn new(entries: &[(K, ShareId)]) -> Self {
        if entries.is_empty() {
            return ExactKeys { slots: Box::default(), seed: 0, shift: 63, probes: 0, keys: 0 };
        }
        // At most half full. Doubling halves the load, so the search ends: distinct keys have distinct hashes in a table that is large enough.
        let mut size = (entries.len() * 2).next_power_of_two().max(MOST_PROBES * 2);
        loop {
            let table = (0..HASHES).find_map(|hash| Self::with_hash(entries, size, hash.wrapping_mul(ODD)));
            if let Some(table) = table {
                return table;
            }
            size *= 2;
        }
    }

    /// The table with this hash. `None` if a key lies too far from its first slot.
    fn with_hash(entries: &[(K, ShareId)], size: usize, seed: u64) -> Option<Self> {
        let (slots, shift) = (vec![Slot::default(); size].into(), u64::BITS - size.trailing_zeros());
        let mut table = ExactKeys { slots, seed, shift, probes: 0, keys: entries.len() };
        for &(key, share) in entries {
            let first = table.first(key);
            let free = |distance: &usize| table.slots[(first + distance) & (size - 1)].share == 0;
            let distance = (0..=MOST_PROBES).find(free)?;
            table.slots[(first + distance) & (size - 1)] = Slot { key, share: share.0 };
            table.probes = table.probes.max(distance);
        }
        Some(table)
    }

    /// True if it has no keys.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.keys
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    /// Looks up the keys of a batch. Calls `found` with the position of each key and its share.
    #[inline(always)]
    pub fn look_up(&self, keys: &[K], mut found: impl FnMut(usize, Option<ShareId>)) {
        keys.iter().take(AHEAD).for_each(|&key| self.prefetch(key));
        for (i, &key) in keys.iter().enumerate() {
            if let Some(&later) = keys.get(i + AHEAD) {
                self.prefetch(later);
            }
            found(i, self.get(key));
        }
    }

    #[inline(always)]
    fn prefetch(&self, key: K) {
        if let Some(slot) = self.slots.get(self.first(key)) {
            prefetch(slot);
        }
    }

    #[inline(always)]
    fn get(&self, key: K) -> Option<ShareId> {
        let last = self.slots.len().checked_sub(1)?;
        let first = self.first(key);
        for distance in 0..=self.probes {
            let slot = &self.slots[(first + distance) & last];
            if slot.share == 0 {
                return None;
            }
            if slot.key == key {
                return Some(ShareId(slot.share));
            }
        }
        None
    }

    #[inline(always)]
    fn first(&self, key: K) -> usize {
        // The uppermost bits: they depend on all bits of the key, and the multiples of the golden ratio lie evenly apart in them (Knuth, volume 3, 6.4).
        // So keys that follow each other, such as the addresses of a pool, rarely collide.
        ((key.word() ^ self.seed).wrapping_mul(ODD) >> self.shift) as usize
    }
}
