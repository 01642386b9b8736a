//! The memory of one shard: its lines, and the log of what was created.
//!
//! All entries live equally long, so the log, in the order of creation, is also in the order of expiry: the next one to
//! expire is always the next record.

use super::key::{Key, Scatter};
use super::line::{Line, Place, REACH, SLOTS};
use super::memory::{Chosen, Pages, Table, chosen, fetch, table};
use super::sync::{AtomicU16, AtomicU64, Ordering};
use super::time::{Lifetime, Tick};

/// Lines, log, and how far both ends of the log are.
pub(super) struct Space {
    /// Tags have the first of them as their homes; a few more stand behind those for the last ones to spill to.
    lines: Chosen<Line>,
    log: Table<AtomicU64>,
    /// Entries created so far: the owner's end of the log.
    pub created: AtomicU64,
    /// Entries freed so far: the cleaner's.
    pub freed: AtomicU64,
    /// The owner's word that so many of the first have expired, whatever their ticks look like.
    pub given_up: AtomicU64,
    /// The hash of the computation that created each entry, by place; only where somebody wants to know.
    creators: Option<Table<AtomicU16>>,
    /// Where tags have their home.
    scatter: Scatter,
    pub capacity: u64,
    pub lifetime: Lifetime,
}

/// An entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub place: Place,
    pub expiry: u32,
}

impl Space {
    /// Room for `capacity` entries that live, and a quarter more that are still to be cleaned.
    ///
    /// # Panics
    /// Beyond [`Space::MOST`], or for none.
    pub fn new(capacity: u64, lifetime: Lifetime, key: Key, diagnostics: bool, pages: Pages) -> Space {
        assert!((1..=Space::MOST).contains(&capacity), "a store of {capacity} entries");
        let homes = Space::homes(capacity) as usize;
        let lines = homes + REACH;
        Space {
            lines: chosen(lines, homes, pages),
            log: table((capacity + Space::slack(capacity)) as usize, pages),
            created: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            creators: diagnostics.then(|| table(lines << 2, pages)),
            scatter: key.scatter(),
            capacity,
            lifetime,
        }
    }

    /// The most entries of a shard.
    pub const MOST: u64 = (Place::MOST_LINES - REACH) as u64;

    /// Twelve slots for each five entries, those included that wait to be freed: a line for each that lives. With eight, one create in a
    /// million found all lines full that it may lie in; with twelve none of 10^9 did.
    fn homes(capacity: u64) -> u64 {
        ((capacity + Space::slack(capacity)) * 12 / 5).div_ceil(SLOTS as u64)
    }

    /// How many expired entries may wait to be freed.
    fn slack(capacity: u64) -> u64 {
        capacity / 4 + 64
    }

    /// Bytes that a shard of `capacity` entries takes.
    pub fn bytes(capacity: u64) -> u64 {
        (Space::homes(capacity) + REACH as u64) * size_of::<Line>() as u64 + (capacity + Space::slack(capacity)) * 8
    }

    /// The home of a tag.
    #[inline(always)]
    pub fn home(&self, tag: u64) -> usize {
        self.lines.place(self.scatter.hash(tag))
    }

    /// The line there.
    #[inline(always)]
    pub fn home_line(&self, tag: u64) -> &Line {
        self.lines.choose(self.scatter.hash(tag))
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
    pub fn fetch(&self, home: usize) {
        fetch(&self.lines[home]);
    }

    /// Records the log has room for.
    #[inline(always)]
    pub fn log_length(&self) -> u64 {
        self.log.len() as u64
    }

    /// Writes the record at a place of the log, which is below its length.
    #[inline(always)]
    pub fn write(&self, at: usize, record: Record) {
        self.log[at].store(u64::from(record.place.number()) << 32 | u64::from(record.expiry), Ordering::Relaxed);
    }

    /// The record at a place of the log.
    #[inline(always)]
    pub fn record(&self, at: usize) -> Record {
        let word = self.log[at].load(Ordering::Relaxed);
        Record { place: Place::numbered((word >> 32) as u32), expiry: word as u32 }
    }

    /// Where in the log something is that was created as the `number`th.
    pub fn position(&self, number: u64) -> usize {
        (number % self.log_length()) as usize
    }

    /// Of the entries from `first` to `end`, which ticks can tell of, the first that has not expired; `end` where all have.
    pub fn expired(&self, (mut first, mut end): (u64, u64), now: Tick) -> u64 {
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

    /// The place of a slot of one of its lines.
    pub fn place_of(&self, line: &Line, slot: usize) -> Place {
        let offset = std::ptr::from_ref(line).addr() - self.lines.as_ptr().addr();
        Place::new(offset / size_of::<Line>(), slot)
    }

    /// An empty slot for a tag of this home, other than those in `taken`.
    #[inline(always)]
    pub fn vacant(&self, home: usize, taken: &[Place]) -> Option<Place> {
        (home..=home + REACH).find_map(|index| {
            let in_line = taken.iter().filter(|place| place.line() == index);
            let but = in_line.fold(0, |but, place| but | 1 << place.slot());
            self.lines[index].vacant(but).map(|slot| Place::new(index, slot))
        })
    }

    /// Makes an entry, which is there for all to find.
    #[inline(always)]
    pub fn put(&self, place: Place, (tag, home): (u64, usize), value: u64, expiry: u32) {
        let (line, slot) = (&self.lines[place.line()], place.slot());
        // Whoever looks in from outside and sees these knows by the expiry that the slot has changed hands.
        line.tags[slot].store(tag, Ordering::Release);
        line.values[slot].store(value, Ordering::Release);
        line.expiries[slot].store(expiry, Ordering::Release);
        if place.line() != home {
            self.lines[home].spill(place.line() - home);
        }
    }

    /// Whether it is kept who created what.
    #[inline(always)]
    pub fn knows_creators(&self) -> bool {
        self.creators.is_some()
    }

    /// Notes who created an entry.
    #[inline(always)]
    pub fn note(&self, place: Place, creator: u16) {
        if let Some(creators) = &self.creators {
            creators[place.number() as usize].store(creator, Ordering::Relaxed);
        }
    }

    /// Who created an entry, where that is known.
    #[inline(always)]
    pub fn creator(&self, place: Place) -> Option<u16> {
        self.creators.as_ref().map(|creators| creators[place.number() as usize].load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Space {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Space of {} entries", self.capacity)
    }
}
