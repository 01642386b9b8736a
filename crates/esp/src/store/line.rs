//! A cache line of three entries. Most look-ups read only one line.
//!
//! The shard's owner writes tags, values, and the expiry of a new entry. The cleaner writes the expiry of an expired entry: first `UNLINKED`, later
//! `FREE`. So each word has one writer at a time, and the expiry hands a slot from one writer to the other. Both update `spilled`.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::time::{FREE, LiveRange, Tick};
use std::hint::cold_path;

/// Entries per line.
pub(super) const SLOTS: usize = 3;
/// How many lines after its home line an entry may be stored.
pub(super) const REACH: usize = 15;

/// Three entries, and the locations of other entries that have this home line.
#[cfg_attr(not(all(loom, test)), derive(zerocopy::FromZeros))]
#[cfg_attr(all(loom, test), derive(Default))]
#[repr(C, align(64))]
pub(super) struct Line {
    pub tags: [AtomicU64; SLOTS],
    pub values: [AtomicU64; SLOTS],
    pub expiries: [AtomicU32; SLOTS],
    /// Two bits for each of the following lines: how many entries with this home line it holds.
    pub spilled: AtomicU32,
}

impl Line {
    /// The slot of `tag`, if it is in this line and has not expired.
    #[inline(always)]
    pub fn find(&self, tag: u64, now: Tick) -> Option<usize> {
        // Compare all three without a branch: the slot is random, so a branch would be mispredicted.
        let hit = |slot: usize| u32::from(self.tags[slot].load(Ordering::Relaxed) == tag) << slot;
        let mut hits = hit(0) | hit(1) | hit(2);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            // The first match is nearly always live: expired entries are cleaned soon, and their tags are not used again.
            if now.is_before(self.expiries[slot].load(Ordering::Relaxed)) {
                return Some(slot);
            }
            hits &= hits - 1;
        }
        None
    }

    /// The value of `tag`, if it is in this line and live. May also return `None` if two slots have the tag and only one is live.
    #[inline(always)]
    pub fn value(&self, tag: u64, alive: LiveRange) -> Option<&AtomicU64> {
        let is_in = |slot: usize| self.tags[slot].load(Ordering::Relaxed) == tag;
        let value =
            |slot: usize| alive.contains(self.expiries[slot].load(Ordering::Relaxed)).then_some(&self.values[slot]);
        // A branch between the first two slots would be mispredicted. The third slot is rarely used, since a store has a line per live entry.
        let slot = usize::from(is_in(1));
        if is_in(slot) {
            return value(slot);
        }
        cold_path();
        if is_in(2) { value(2) } else { None }
    }

    /// A free slot. Skips the slots whose bits are set in `but`.
    #[inline(always)]
    pub fn vacant(&self, but: u32) -> Option<usize> {
        let free = |slot: usize| u32::from(self.expiries[slot].load(Ordering::Acquire) == FREE) << slot;
        let vacant = (free(0) | free(1) | free(2)) & !but;
        (vacant != 0).then(|| vacant.trailing_zeros() as usize)
    }

    /// Counts an entry of this home line stored `distance` lines after it.
    pub fn spill(&self, distance: usize) {
        self.spilled.fetch_add(1 << (2 * (distance - 1)), Ordering::Relaxed);
    }

    /// Removes such an entry from the count.
    pub fn unspill(&self, distance: usize) {
        self.spilled.fetch_sub(1 << (2 * (distance - 1)), Ordering::Relaxed);
    }
}

/// The address of a slot in a shard: line and slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlotAddress(u32);

impl SlotAddress {
    /// No slot.
    pub const NONE: SlotAddress = SlotAddress(u32::MAX);
    /// The most lines of a shard.
    pub const MOST_LINES: usize = 1 << 30;

    #[inline(always)]
    pub fn new(line: usize, slot: usize) -> SlotAddress {
        SlotAddress((line as u32) << 2 | slot as u32)
    }

    #[inline(always)]
    pub fn line(self) -> usize {
        (self.0 >> 2) as usize
    }

    #[inline(always)]
    pub fn slot(self) -> usize {
        (self.0 & 3) as usize
    }

    #[inline(always)]
    pub fn number(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub fn from_number(number: u32) -> SlotAddress {
        SlotAddress(number)
    }
}
