//! The memory of one shard: its lines, and the log of created entries.
//!
//! All entries have the same lifetime, so the order of creation in the log is also the order of expiry. The next entry to expire is always the next
//! record.

use super::key::{Key, Scatter};
use super::line::{Line, REACH, SLOTS, SlotAddress};
use super::memory::{HashTable, Pages, Table, fetch, hash_table, table};
use super::sync::{AtomicU16, AtomicU64, Ordering};
use super::time::{Lifetime, Tick};

/// Lines, log, and the positions of both ends of the log.
pub(super) struct Space {
    /// Home lines of tags, and a few lines more for the last ones to spill into.
    lines: HashTable<Line>,
    log: Table<AtomicU64>,
    /// Entries created so far: the owner's end of the log.
    pub created: AtomicU64,
    /// Entries freed so far: the cleaner's end.
    pub freed: AtomicU64,
    /// The owner's statement that this many entries, from the first, have expired, even if their ticks look live.
    pub declared_expired: AtomicU64,
    /// The hash of the computation that created each entry, by place. With diagnostics only.
    creators: Option<Table<AtomicU16>>,
    /// The hash that determines home lines.
    scatter: Scatter,
    pub capacity: u64,
    pub lifetime: Lifetime,
}

/// A record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub place: SlotAddress,
    pub expiry: u32,
}

impl Space {
    /// Allocates room for `capacity` live entries, and a quarter more that expired and are not freed yet.
    ///
    /// # Panics
    /// If the capacity is zero or above [`Space::MOST`].
    pub fn new(capacity: u64, lifetime: Lifetime, key: Key, diagnostics: bool, pages: Pages) -> Space {
        assert!((1..=Space::MOST).contains(&capacity), "a store of {capacity} entries");
        let homes = Space::homes(capacity) as usize;
        let lines = homes + REACH;
        Space {
            lines: hash_table(lines, homes, pages),
            log: table((capacity + Space::slack(capacity)) as usize, pages),
            created: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            declared_expired: AtomicU64::new(0),
            // Place numbers have two bits for the slot, hence four places per line.
            creators: diagnostics.then(|| table(lines << 2, pages)),
            scatter: key.scatter(),
            capacity,
            lifetime,
        }
    }

    /// The largest capacity of a shard.
    pub const MOST: u64 = (SlotAddress::MOST_LINES - REACH) as u64;

    /// Twelve slots per five entries, including those not yet freed: a line per live entry. With eight slots per five, one create in a million found
    /// all lines within reach full. With twelve none of 10^9 did.
    fn homes(capacity: u64) -> u64 {
        ((capacity + Space::slack(capacity)) * 12 / 5).div_ceil(SLOTS as u64)
    }

    /// The most expired entries that are not freed yet.
    fn slack(capacity: u64) -> u64 {
        capacity / 4 + 64
    }

    /// The memory of a shard of `capacity` entries, in bytes.
    pub fn bytes(capacity: u64) -> u64 {
        (Space::homes(capacity) + REACH as u64) * size_of::<Line>() as u64 + (capacity + Space::slack(capacity)) * 8
    }

    /// The index of a tag's home line.
    #[inline(always)]
    pub fn home(&self, tag: u64) -> usize {
        self.lines.index_of(self.scatter.hash(tag))
    }

    /// A tag's home line.
    #[inline(always)]
    pub fn home_line(&self, tag: u64) -> &Line {
        self.lines.select(self.scatter.hash(tag))
    }

    #[inline(always)]
    pub fn line(&self, index: usize) -> &Line {
        &self.lines[index]
    }

    #[inline(always)]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[inline(always)]
    pub fn prefetch(&self, home: usize) {
        fetch(&self.lines[home]);
    }

    /// The number of records that the log can hold.
    #[inline(always)]
    pub fn log_length(&self) -> u64 {
        self.log.len() as u64
    }

    /// Writes a record to a position of the log, which is below its length.
    #[inline(always)]
    pub fn write(&self, at: usize, record: Record) {
        // Place and expiry in one word, so the cleaner never reads half of a record.
        self.log[at].store(u64::from(record.place.number()) << 32 | u64::from(record.expiry), Ordering::Relaxed);
    }

    /// The record at a position of the log.
    #[inline(always)]
    pub fn record(&self, at: usize) -> Record {
        let word = self.log[at].load(Ordering::Relaxed);
        Record { place: SlotAddress::from_number((word >> 32) as u32), expiry: word as u32 }
    }

    /// The position of the `number`th created entry in the log.
    pub fn position(&self, number: u64) -> usize {
        (number % self.log_length()) as usize
    }

    /// The first entry of `first..end` that has not expired, or `end`. Ticks must be able to compare all of them.
    pub fn first_live(&self, (mut first, mut end): (u64, u64), now: Tick) -> u64 {
        while first < end {
            let middle = first + (end - first) / 2;
            if now.is_before(self.record(self.position(middle)).expiry) {
                end = middle;
            } else {
                first = middle + 1;
            }
        }
        first
    }

    /// The place of a slot in one of the lines.
    pub fn place_of(&self, line: &Line, slot: usize) -> SlotAddress {
        // From the address: the fast path passes references to lines, not their indices.
        let offset = std::ptr::from_ref(line).addr() - self.lines.as_ptr().addr();
        SlotAddress::new(offset / size_of::<Line>(), slot)
    }

    /// A free slot for a tag of this home line, other than those in `taken`.
    #[inline(always)]
    pub fn vacant(&self, home: usize, taken: &[SlotAddress]) -> Option<SlotAddress> {
        // The nearest line first, so that look-ups read as few lines as possible.
        (home..=home + REACH).find_map(|index| {
            let in_line = taken.iter().filter(|place| place.line() == index);
            let but = in_line.fold(0, |but, place| but | 1 << place.slot());
            self.lines[index].vacant(but).map(|slot| SlotAddress::new(index, slot))
        })
    }

    /// Publishes an entry. Look-ups find it from now on.
    #[inline(always)]
    pub fn put(&self, place: SlotAddress, (tag, home): (u64, usize), value: u64, expiry: u32) {
        let (line, slot) = (&self.lines[place.line()], place.slot());
        // Release: an inspector that reads the new tag or value also sees that the old expiry is gone, and reads again.
        line.tags[slot].store(tag, Ordering::Release);
        line.values[slot].store(value, Ordering::Release);
        // Last: a slot counts as used from here on.
        line.expiries[slot].store(expiry, Ordering::Release);
        if place.line() != home {
            self.lines[home].spill(place.line() - home);
        }
    }

    /// True if creators are recorded.
    #[inline(always)]
    pub fn records_creators(&self) -> bool {
        self.creators.is_some()
    }

    /// Records the creator of an entry.
    #[inline(always)]
    pub fn record_creator(&self, place: SlotAddress, creator: u16) {
        if let Some(creators) = &self.creators {
            creators[place.number() as usize].store(creator, Ordering::Relaxed);
        }
    }

    /// The creator of an entry, if it was recorded.
    #[inline(always)]
    pub fn creator(&self, place: SlotAddress) -> Option<u16> {
        self.creators.as_ref().map(|creators| creators[place.number() as usize].load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Space of {} entries", self.capacity)
    }
}
