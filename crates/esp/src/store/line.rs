//! A cache line of three entries, which is all a lookup of most tags touches.
//!
//! Who writes what: the owner of the shard writes tags, values, and the expiry of what it creates; the cleaner writes the
//! expiry of what has expired, `UNLINKED` first and `FREE` later. So each word has one writer at a time, and a slot changes
//! hands with its expiry. Both count in `spilled`.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::time::{Alive, FREE, Tick};
use std::hint::cold_path;

/// Entries of a line.
pub(super) const SLOTS: usize = 3;
/// How many lines behind its own a tag may lie.
pub(super) const REACH: usize = 15;

/// Three entries, and where else entries of this line are.
#[cfg_attr(not(all(loom, test)), derive(zerocopy::FromZeros))]
#[cfg_attr(all(loom, test), derive(Default))]
#[repr(C, align(64))]
pub(super) struct Line {
    pub tags: [AtomicU64; SLOTS],
    pub values: [AtomicU64; SLOTS],
    pub expiries: [AtomicU32; SLOTS],
    /// For each of the lines behind this one, two bits: how many entries of this line it holds.
    pub spilled: AtomicU32,
}

impl Line {
    /// The slot of `tag`, if it is here and has not expired.
    #[inline(always)]
    pub fn find(&self, tag: u64, now: Tick) -> Option<usize> {
        // Without a branch for each slot: which one it is cannot be foretold.
        let hit = |slot: usize| u32::from(self.tags[slot].load(Ordering::Relaxed) == tag) << slot;
        let mut hits = hit(0) | hit(1) | hit(2);
        while hits != 0 {
            let slot = hits.trailing_zeros() as usize;
            // Nearly always: what has expired is taken away, and its tag is drawn at random.
            if now.is_before(self.expiries[slot].load(Ordering::Relaxed)) {
                return Some(slot);
            }
            hits &= hits - 1;
        }
        None
    }

    /// The value of `tag`, if it is here and alive. `None` also where two slots have the tag, of which one is.
    #[inline(always)]
    pub fn value(&self, tag: u64, alive: Alive) -> Option<&AtomicU64> {
        let is_in = |slot: usize| self.tags[slot].load(Ordering::Relaxed) == tag;
        let value = |slot: usize| alive.has(self.expiries[slot].load(Ordering::Relaxed)).then_some(&self.values[slot]);
        // Which of the first two it is cannot be foretold; that it is the third is rare in a store with a line for each entry.
        let slot = usize::from(is_in(1));
        if is_in(slot) {
            return value(slot);
        }
        cold_path();
        if is_in(2) { value(2) } else { None }
    }

    /// An empty slot but those whose bit is set in `but`.
    #[inline(always)]
    pub fn vacant(&self, but: u32) -> Option<usize> {
        let free = |slot: usize| u32::from(self.expiries[slot].load(Ordering::Acquire) == FREE) << slot;
        let vacant = (free(0) | free(1) | free(2)) & !but;
        (vacant != 0).then(|| vacant.trailing_zeros() as usize)
    }

    /// One more entry of this line lies `distance` lines behind it, or one less.
    pub fn spill(&self, distance: usize) {
        self.spilled.fetch_add(1 << (2 * (distance - 1)), Ordering::Relaxed);
    }

    pub fn unspill(&self, distance: usize) {
        self.spilled.fetch_sub(1 << (2 * (distance - 1)), Ordering::Relaxed);
    }
}

/// A slot of a shard: its line and its number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u32);

impl Place {
    /// Nowhere.
    pub const NONE: Place = Place(u32::MAX);
    /// The most lines a shard can have.
    pub const MOST_LINES: usize = 1 << 30;

    #[inline(always)]
    pub fn new(line: usize, slot: usize) -> Place {
        Place((line as u32) << 2 | slot as u32)
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
    pub fn numbered(number: u32) -> Place {
        Place(number)
    }
}
