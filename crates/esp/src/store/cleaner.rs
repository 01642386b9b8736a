//! The cleaner: unlinks expired entries, waits until no worker can still be using them, and frees them.
//!
//! The caller determines the mode: a thread of its own (`dedicated`), or a worker between its batches (`assist`). With `inline` cleaning, owners
//! clean their own shards and there is no cleaner.

use super::epochs::{Grace, GracePeriod, WorkerEpochs};
use super::space::Space;
use super::sweep::{CleaningCounters, Sweep};
use super::sync::Arc;
use units::{Instant, Nanos};

/// The cleaning mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CleanerMode {
    /// The owner of each shard cleans it after each batch.
    #[default]
    Inline,
    /// A dedicated thread.
    Dedicated,
    /// A worker cleans when it is idle, and at least a few times per lifetime.
    Assist,
}

/// The most entries of a shard in limbo: unlinked, not yet free.
const LIMBO: usize = 1024;

/// Cleans the shards of one store.
pub struct Cleaner {
    shards: Vec<(Sweep, Option<Limbo>)>,
    epochs: Arc<WorkerEpochs>,
    grace: Grace,
    counters: CleanerCounters,
}

/// Unlinked entries, and the workers that may still use them.
struct Limbo {
    /// The end of these entries in the log.
    end: u64,
    waiting: GracePeriod,
}

/// The counters of a cleaner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CleanerCounters {
    /// Entries freed.
    pub freed: u64,
    /// Entries in limbo.
    pub limbo: u64,
    /// The high-water mark of entries in limbo.
    pub most_limbo: u64,
    /// The delay between expiry and unlinking of the last unlinked entry.
    pub lag: Nanos,
    /// The longest such delay.
    pub most_lag: Nanos,
}

impl Cleaner {
    pub(super) fn new(spaces: impl Iterator<Item = Arc<Space>>, epochs: Arc<WorkerEpochs>, grace: Grace) -> Cleaner {
        let shards = spaces.map(|space| (Sweep::new(space), None)).collect();
        Cleaner { shards, epochs, grace, counters: CleanerCounters::default() }
    }

    /// Cleans at most [`LIMBO`] entries of each shard. Returns the number of entries unlinked or freed. Zero means that there is nothing to do before
    /// [`Cleaner::due`], or that a worker still holds the entries in limbo.
    pub fn step(&mut self, now: Instant) -> usize {
        let Cleaner { shards, epochs, grace, counters } = self;
        let mut done = 0;
        counters.limbo = 0;
        for (sweep, limbo) in shards {
            let mut free = |limbo: &mut Option<Limbo>, sweep: &mut Sweep| {
                if limbo.as_mut().is_some_and(|waits| epochs.is_over(&mut waits.waiting, *grace)) {
                    let freed = limbo.take().map_or(0, |waits| sweep.free(waits.end));
                    counters.freed += freed;
                    done += freed as usize;
                }
            };
            free(limbo, sweep);
            // One group in limbo per shard: the next unlinks only after the last is free, which bounds the memory held back.
            if limbo.is_none() {
                let unlinked = sweep.unlink(now, LIMBO);
                if unlinked > 0 {
                    *limbo = Some(Limbo { end: sweep.unlinked, waiting: epochs.start_grace() });
                    // Try at once: often no worker is active. A worker that cleans is not.
                    free(limbo, sweep);
                    counters.lag = sweep.lag;
                    counters.most_lag = counters.most_lag.max(sweep.lag);
                    done += unlinked;
                }
            }
            counters.limbo += sweep.unlinked - sweep.freed;
        }
        counters.most_limbo = counters.most_limbo.max(counters.limbo);
        done
    }

    /// The next expiry, or `now` if entries are in limbo; `None` if the store is empty.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = |(sweep, limbo): &(Sweep, Option<Limbo>)| {
            // An expiry more than a lifetime ahead is a wrapped tick: the store was not cleaned for too long, and its owner aborts. Look again within
            // one lifetime.
            let expires = || sweep.due(now).map(|due| due.min(now + sweep.lifetime()));
            if limbo.is_some() { Some(now) } else { expires() }
        };
        self.shards.iter().filter_map(due).min()
    }

    /// The counters of all shards.
    pub fn cleaning_counters(&self) -> CleaningCounters {
        let mut all = CleaningCounters::default();
        self.shards.iter().for_each(|(sweep, _)| all.add(&sweep.cleaning_counters()));
        all
    }

    /// The cleaner's own counters.
    pub fn counters(&self) -> CleanerCounters {
        self.counters
    }
}
