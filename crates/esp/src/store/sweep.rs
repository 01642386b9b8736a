//! The far end of a shard's log: what has expired is unlinked, and later freed.
//!
//! Between the two stands whoever may be using it: [`super::Cleaner`] waits for them, an owner that cleans its own shard
//! between two batches has nobody to wait for.

use super::space::Space;
use super::sync::{Arc, Ordering};
use super::time::{FREE, GAP, Tick, UNLINKED};
use packet::latency::{Histogram, Spread};
use units::{Instant, Nanos};

/// Records whose lines are fetched together, while those of as many that were fetched earlier are written to: as much as a core can have
/// under way at a time.
const TOGETHER: u64 = 32;

/// What was taken away of a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cleaned {
    /// Entries freed.
    pub freed: u64,
    /// Entries unlinked and not free yet.
    pub limbo: u64,
    /// How long the entry unlinked last had been expired; none where none was.
    pub lag: Option<Nanos>,
    /// How long entries had been expired: all that were unlinked together as long as the first of them.
    pub lags: Spread,
    /// What that took, where somebody has a clock for it.
    pub spent: Nanos,
}

impl Cleaned {
    /// Adds what was taken away of another part.
    pub fn add(&mut self, other: &Cleaned) {
        self.freed += other.freed;
        self.limbo += other.limbo;
        self.lag = self.lag.max(other.lag);
        self.lags.add(&other.lags);
        self.spent += other.spent;
    }
}

/// How far a shard is cleaned.
pub(super) struct Sweep {
    space: Arc<Space>,
    /// Entries unlinked so far, and where the next record is.
    pub unlinked: u64,
    next_unlinked: usize,
    /// The same for those whose lines were fetched.
    fetched: u64,
    next_fetched: usize,
    /// The same for those freed.
    pub freed: u64,
    next_freed: usize,
    /// When it was last looked, and how much had been created.
    looked: (Instant, u64),
    /// What was created before has expired, whatever its ticks look like.
    outdated: u64,
    /// How long the entry unlinked last had been expired.
    pub lag: Nanos,
    lags: Histogram,
    /// Before that nothing expires, for whoever cleans alone.
    quiet: Instant,
}

impl Sweep {
    pub fn new(space: Arc<Space>) -> Sweep {
        let (looked, lag) = ((Instant::START, 0), Nanos::ZERO);
        Sweep {
            space,
            unlinked: 0,
            next_unlinked: 0,
            fetched: 0,
            next_fetched: 0,
            freed: 0,
            next_freed: 0,
            looked,
            outdated: 0,
            lag,
            lags: Histogram::default(),
            quiet: Instant::START,
        }
    }

    /// Unlinks at most `most` entries that have expired by `now`: no instruction finds them any more. Answers how many.
    pub fn unlink(&mut self, now: Instant, most: usize) -> usize {
        let created = self.space.created.load(Ordering::Acquire);
        if now.since(self.looked.0) > GAP {
            self.outdated = self.looked.1;
        }
        self.looked = (now, created);
        let tick = Tick::of(now);
        let (length, begun, mut first) = (self.space.log_length() as usize, self.unlinked, None);
        let end = created.min(begun + most as u64);
        let mut expires = true;
        while expires && self.unlinked < end {
            self.fetch(created.min(self.unlinked + 2 * TOGETHER));
            let outdated = self.outdated();
            let (mut unlinked, mut at, mut lag) = (self.unlinked, self.next_unlinked, self.lag);
            while expires && unlinked < end.min(self.unlinked + TOGETHER) {
                let record = self.space.record(at);
                expires = unlinked < outdated || !tick.is_before(record.expiry);
                if expires {
                    let line = self.space.line(record.place.line());
                    line.expiries[record.place.slot()].store(UNLINKED, Ordering::Release);
                    lag = tick.since(record.expiry);
                    first = first.or(Some(lag));
                    unlinked += 1;
                    at = next(at, length);
                }
            }
            (self.unlinked, self.next_unlinked, self.lag) = (unlinked, at, lag);
        }
        let count = (self.unlinked - begun) as usize;
        if let Some(first) = first {
            self.lags.record(first, count as u64);
        }
        count
    }

    /// Fetches the lines of records up to the `end`th.
    fn fetch(&mut self, end: u64) {
        let (length, mut at) = (self.space.log_length() as usize, self.next_fetched);
        for _ in self.fetched..end {
            self.space.fetch(self.space.record(at).place.line());
            at = next(at, length);
        }
        (self.fetched, self.next_fetched) = (self.fetched.max(end), at);
    }

    /// Up to which entry all have expired, also where they look alive.
    fn outdated(&mut self) -> u64 {
        // An owner that goes on while its cleaner stands still knows better what is alive.
        self.outdated = self.outdated.max(self.space.given_up.load(Ordering::Acquire));
        self.outdated
    }

    /// What was taken away so far.
    pub fn cleaned(&self) -> Cleaned {
        let lag = (self.unlinked > 0).then_some(self.lag);
        let (limbo, lags, spent) = (self.unlinked - self.freed, self.lags.told(), Nanos::ZERO);
        Cleaned { freed: self.freed, limbo, lag, lags, spent }
    }

    /// Frees what was unlinked before the `end`th: nobody uses it.
    pub fn free(&mut self, end: u64) -> u64 {
        let (length, before) = (self.space.log_length() as usize, self.freed);
        while self.freed < end {
            let place = self.space.record(self.next_freed).place;
            let line = self.space.line(place.line());
            let home = self.space.home(line.tags[place.slot()].load(Ordering::Relaxed));
            if home != place.line() {
                self.space.line(home).unspill(place.line() - home);
            }
            line.expiries[place.slot()].store(FREE, Ordering::Release);
            self.freed += 1;
            self.next_freed = next(self.next_freed, length);
        }
        if self.freed != before {
            self.space.freed.store(self.freed, Ordering::Release);
        }
        self.freed - before
    }

    /// Unlinks and frees at once, where nobody uses anything.
    #[inline]
    pub fn clean(&mut self, now: Instant, most: usize) -> usize {
        if now < self.quiet {
            self.looked = (now, self.space.created.load(Ordering::Acquire));
            return 0;
        }
        self.clean_due(now, most)
    }

    fn clean_due(&mut self, now: Instant, most: usize) -> usize {
        let count = self.unlink(now, most);
        self.free(self.unlinked);
        // What is created from now on expires behind what there is.
        self.quiet = self.due(now).unwrap_or(now);
        count
    }

    /// How long entries live.
    pub fn lifetime(&self) -> Nanos {
        self.space.lifetime.span()
    }

    /// When the next entry expires; none where there is none.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let created = self.space.created.load(Ordering::Acquire);
        (self.unlinked < created).then(|| {
            let expiry = self.space.record(self.next_unlinked).expiry;
            let tick = Tick::of(now);
            if tick.is_before(expiry) { now + tick.until(expiry) } else { now }
        })
    }
}

/// The place behind `at` in a log of this length.
#[inline(always)]
pub(super) fn next(at: usize, length: usize) -> usize {
    if at + 1 == length { 0 } else { at + 1 }
}
