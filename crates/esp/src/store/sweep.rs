//! The cleaner's end of a shard's log: unlinks expired entries, and later frees them.
//!
//! Between the two steps a worker may still use an unlinked entry. [`super::Cleaner`] waits for such workers. An owner that cleans its own shard
//! between two batches need not wait.

use super::space::Space;
use super::sync::{Arc, Ordering};
use super::time::{FREE, MAX_PAUSE, Tick, UNLINKED};
use packet::latency::{Histogram, HistogramSnapshot};
use units::{Instant, Nanos};

/// Records whose lines are prefetched together, while the lines prefetched before are written. About as many cache misses as a core can have
/// outstanding.
const PREFETCH_GROUP: u64 = 32;

/// The counters of cleaning.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CleaningCounters {
    /// Entries freed.
    pub freed: u64,
    /// Entries unlinked and not free yet.
    pub limbo: u64,
    /// The delay between expiry and unlinking of the last unlinked entry; `None` if there was none.
    pub lag: Option<Nanos>,
    /// The distribution of that delay. Each group of entries counts with the delay of its first.
    pub lags: HistogramSnapshot,
    /// The time spent, if there is a clock.
    pub spent: Nanos,
}

impl CleaningCounters {
    /// Adds the counters of another shard.
    pub fn add(&mut self, other: &CleaningCounters) {
        self.freed += other.freed;
        self.limbo += other.limbo;
        self.lag = self.lag.max(other.lag);
        self.lags.add(&other.lags);
        self.spent += other.spent;
    }
}

/// The progress of cleaning in a shard.
pub(super) struct Sweep {
    space: Arc<Space>,
    /// Entries unlinked so far, and the position of the next record.
    pub unlinked: u64,
    next_unlinked: usize,
    /// Entries whose lines were prefetched, and the position of the next.
    fetched: u64,
    next_fetched: usize,
    /// Entries freed, and the position of the next.
    pub freed: u64,
    next_freed: usize,
    /// The time of the last sweep, and the number of entries created by then.
    last_sweep: (Instant, u64),
    /// Entries before this number have expired, even if their ticks look live.
    outdated: u64,
    /// The delay between expiry and unlinking of the last unlinked entry.
    pub lag: Nanos,
    lags: Histogram,
    /// With inline cleaning: no entry expires before this time.
    next_expiry: Instant,
}

impl Sweep {
    pub fn new(space: Arc<Space>) -> Sweep {
        let (last_sweep, lag) = ((Instant::START, 0), Nanos::ZERO);
        Sweep {
            space,
            unlinked: 0,
            next_unlinked: 0,
            fetched: 0,
            next_fetched: 0,
            freed: 0,
            next_freed: 0,
            last_sweep,
            outdated: 0,
            lag,
            lags: Histogram::default(),
            next_expiry: Instant::START,
        }
    }

    /// Unlinks at most `most` entries that have expired by `now`. No instruction finds them any more. Returns their number.
    pub fn unlink(&mut self, now: Instant, most: usize) -> usize {
        let created = self.space.created.load(Ordering::Acquire);
        // After a pause longer than any lifetime all entries that existed then have expired, and ticks might not show it.
        if now.since(self.last_sweep.0) > MAX_PAUSE {
            self.outdated = self.last_sweep.1;
        }
        self.last_sweep = (now, created);
        let tick = Tick::of(now);
        let (length, begun, mut first) = (self.space.log_length() as usize, self.unlinked, None);
        let end = created.min(begun + most as u64);
        let mut expires = true;
        while expires && self.unlinked < end {
            // Two groups ahead: the lines of the next group arrive while this one is written.
            self.prefetch(created.min(self.unlinked + 2 * PREFETCH_GROUP));
            // Once per group. The owner may give up entries while the cleaner runs.
            let outdated = self.outdated();
            let (mut unlinked, mut at, mut lag) = (self.unlinked, self.next_unlinked, self.lag);
            while expires && unlinked < end.min(self.unlinked + PREFETCH_GROUP) {
                let record = self.space.record(at);
                expires = unlinked < outdated || !tick.is_before(record.expiry);
                if expires {
                    let line = self.space.line(record.place.line());
                    line.expiries[record.place.slot()].store(UNLINKED, Ordering::Release);
                    lag = tick.since(record.expiry);
                    first = first.or(Some(lag));
                    unlinked += 1;
                    at = next_position(at, length);
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

    /// Prefetches the lines of records before the `end`th.
    fn prefetch(&mut self, end: u64) {
        let (length, mut at) = (self.space.log_length() as usize, self.next_fetched);
        for _ in self.fetched..end {
            self.space.prefetch(self.space.record(at).place.line());
            at = next_position(at, length);
        }
        (self.fetched, self.next_fetched) = (self.fetched.max(end), at);
    }

    /// The number of entries that have expired even if their ticks look live.
    fn outdated(&mut self) -> u64 {
        // An owner that runs while its cleaner is stalled has the newer information.
        self.outdated = self.outdated.max(self.space.declared_expired.load(Ordering::Acquire));
        self.outdated
    }

    /// The counters so far.
    pub fn cleaning_counters(&self) -> CleaningCounters {
        let lag = (self.unlinked > 0).then_some(self.lag);
        let (limbo, lags, spent) = (self.unlinked - self.freed, self.lags.snapshot(), Nanos::ZERO);
        CleaningCounters { freed: self.freed, limbo, lag, lags, spent }
    }

    /// Frees the unlinked entries before the `end`th. No worker may be using them any more.
    pub fn free(&mut self, end: u64) -> u64 {
        let (length, before) = (self.space.log_length() as usize, self.freed);
        while self.freed < end {
            let place = self.space.record(self.next_freed).place;
            // Read the tag and correct `spilled` before the slot is free: the owner may fill it at once, and its two-bit count would overflow.
            let line = self.space.line(place.line());
            let home = self.space.home(line.tags[place.slot()].load(Ordering::Relaxed));
            if home != place.line() {
                self.space.line(home).unspill(place.line() - home);
            }
            // Release: an owner that sees the slot free also sees `spilled` corrected.
            line.expiries[place.slot()].store(FREE, Ordering::Release);
            self.freed += 1;
            self.next_freed = next_position(self.next_freed, length);
        }
        // One store per group: owners and inspectors read this line.
        if self.freed != before {
            self.space.freed.store(self.freed, Ordering::Release);
        }
        self.freed - before
    }

    /// Unlinks and frees at once: with inline cleaning no other worker uses the shard.
    #[inline]
    pub fn clean(&mut self, now: Instant, most: usize) -> usize {
        if now < self.next_expiry {
            self.last_sweep = (now, self.space.created.load(Ordering::Acquire));
            return 0;
        }
        self.clean_due(now, most)
    }

    fn clean_due(&mut self, now: Instant, most: usize) -> usize {
        let count = self.unlink(now, most);
        self.free(self.unlinked);
        // Later creates expire after all present entries, so nothing expires before the next record does.
        self.next_expiry = self.due(now).unwrap_or(now);
        count
    }

    /// The lifetime of entries.
    pub fn lifetime(&self) -> Nanos {
        self.space.lifetime.span()
    }

    /// The next expiry; `None` if there are no entries.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let created = self.space.created.load(Ordering::Acquire);
        (self.unlinked < created).then(|| {
            let expiry = self.space.record(self.next_unlinked).expiry;
            let tick = Tick::of(now);
            if tick.is_before(expiry) { now + tick.until(expiry) } else { now }
        })
    }
}

/// The position after `at` in a log of this length.
#[inline(always)]
pub(super) fn next_position(at: usize, length: usize) -> usize {
    if at + 1 == length { 0 } else { at + 1 }
}
