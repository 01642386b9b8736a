//! Shares by an exact key of 64 bits: MAC addresses and pairs of VLAN tags.
//!
//! Open addressing with linear probing. A batch prefetches the first slot of each key, so a look-up costs about one access to memory that other look-ups
//! overlap. The hash is chosen when the table is built: one with which no key lies far from its first slot. So frames with many unknown addresses, which
//! any subscriber can send, cost at most that many probes each.

use packet::pool::prefetch;
use units::ShareId;

/// The farthest that a key may lie from its first slot, in slots.
const MOST_PROBES: usize = 32;
/// Hashes that are tried before the table is made larger.
const HASHES: u64 = 8;
/// Odd, with half its bits set: from the fractional part of the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key with its share. A slot is empty if its share is zero.
#[derive(Clone, Copy, Default)]
#[repr(align(16))]
struct Slot {
    key: u64,
    share: u32,
}

/// An immutable table of shares by key.
pub(super) struct ExactKeys {
    slots: Box<[Slot]>,
    /// Selects the hash.
    seed: u64,
    /// The number of slots after the first that a look-up may have to read.
    probes: usize,
    keys: usize,
}

impl ExactKeys {
    /// The table of these entries. Each key occurs once, and no share is zero.
    pub fn new(entries: &[(u64, ShareId)]) -> ExactKeys {
        if entries.is_empty() {
            return ExactKeys { slots: Box::default(), seed: 0, probes: 0, keys: 0 };
        }
        // At most half full. Doubling halves the load, so the search ends: distinct keys have distinct hashes in a table that is large enough.
        let mut size = (entries.len() * 2).next_power_of_two().max(MOST_PROBES * 2);
        loop {
            if let Some(table) =
                (0..HASHES).find_map(|hash| ExactKeys::with_hash(entries, size, hash.wrapping_mul(ODD)))
            {
                return table;
            }
            size *= 2;
        }
    }

    /// The table with this hash. `None` if a key lies too far from its first slot.
    fn with_hash(entries: &[(u64, ShareId)], size: usize, seed: u64) -> Option<ExactKeys> {
        let mut table = ExactKeys { slots: vec![Slot::default(); size].into(), seed, probes: 0, keys: entries.len() };
        for &(key, share) in entries {
            let first = table.first(key);
            let free = |distance: &usize| table.slots[first + distance & size - 1].share == 0;
            let distance = (0..=MOST_PROBES).find(free)?;
            table.slots[first + distance & size - 1] = Slot { key, share: share.0 };
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

    /// Prefetches the first slot of a key.
    #[inline(always)]
    pub fn prefetch(&self, key: u64) {
        if let Some(slot) = self.slots.get(self.first(key)) {
            prefetch(slot);
        }
    }

    /// The share of a key.
    #[inline(always)]
    pub fn get(&self, key: u64) -> Option<ShareId> {
        let last = self.slots.len().checked_sub(1)?;
        let first = self.first(key);
        for distance in 0..=self.probes {
            let slot = &self.slots[first + distance & last];
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
    fn first(&self, key: u64) -> usize {
        // The product's upper half depends on all bits of the key. Adding it to the lower half would cost as much as this shift.
        let mixed = (key ^ self.seed).wrapping_mul(ODD);
        (mixed ^ mixed >> 32) as usize & self.slots.len().wrapping_sub(1)
    }
}
