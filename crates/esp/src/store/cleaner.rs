//! The cleaner beside the owners: unlinks what has expired, waits for those who may be using it, and frees it.
//!
//! Who calls it is its mode: a thread that does nothing else (dedicated), or a worker between its vectors, whose spare time
//! it takes (assist). Where owners clean their own shards (inline) there is none.

use super::epochs::{Epochs, Grace, Waiting};
use super::space::Space;
use super::sweep::{Cleaned, Sweep};
use super::sync::Arc;
use units::{Instant, Nanos};

/// Who cleans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cleaning {
    /// The owner of each shard, after each batch.
    #[default]
    Inline,
    /// A thread of its own.
    Dedicated,
    /// A worker, when it has nothing else to do, and at least a few times in a lifetime.
    Assist,
}

/// Entries of a shard in limbo at a time: unlinked and not yet free.
const LIMBO: usize = 1024;

/// Cleans the shards of one store.
pub struct Cleaner {
    shards: Vec<(Sweep, Option<Limbo>)>,
    epochs: Arc<Epochs>,
    grace: Grace,
    counters: CleanerCounters,
}

/// What is unlinked and waits for somebody.
struct Limbo {
    /// Entries up to this one.
    end: u64,
    waiting: Waiting,
}

/// What a cleaner has counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CleanerCounters {
    /// Entries freed.
    pub freed: u64,
    /// Entries in limbo, and the most there were at a time.
    pub limbo: u64,
    /// The most there were.
    pub most_limbo: u64,
    /// How long the entry unlinked last had been expired, and the longest there was.
    pub lag: Nanos,
    /// The longest lag there was.
    pub most_lag: Nanos,
}

impl Cleaner {
    pub(super) fn new(spaces: impl Iterator<Item = Arc<Space>>, epochs: Arc<Epochs>, grace: Grace) -> Cleaner {
        let shards = spaces.map(|space| (Sweep::new(space), None)).collect();
        Cleaner { shards, epochs, grace, counters: CleanerCounters::default() }
    }

    /// Cleans at most [`LIMBO`] entries of each shard. Answers how many it unlinked or freed: where none, nothing is to be
    /// done before [`Cleaner::due`], or somebody is waited for.
    pub fn step(&mut self, now: Instant) -> usize {
        let Cleaner { shards, epochs, grace, counters } = self;
        let mut done = 0;
        counters.limbo = 0;
        for (sweep, limbo) in shards {
            let mut free = |limbo: &mut Option<Limbo>, sweep: &mut Sweep| {
                if limbo.as_mut().is_some_and(|waits| epochs.are_over(&mut waits.waiting, *grace)) {
                    let freed = limbo.take().map_or(0, |waits| sweep.free(waits.end));
                    counters.freed += freed;
                    done += freed as usize;
                }
            };
            free(limbo, sweep);
            if limbo.is_none() {
                let unlinked = sweep.unlink(now, LIMBO);
                if unlinked > 0 {
                    *limbo = Some(Limbo { end: sweep.unlinked, waiting: epochs.unlinked() });
                    // Often nobody is active: a worker that cleans is not.
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

    /// When something expires next; none where there is nothing.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let due = |(sweep, limbo): &(Sweep, Option<Limbo>)| {
            // What seems to live for longer than anything does is what ticks are wrong about: its owner will say so.
            let expires = || sweep.due(now).map(|due| due.min(now + sweep.lifetime()));
            if limbo.is_some() { Some(now) } else { expires() }
        };
        self.shards.iter().filter_map(due).min()
    }

    /// What it has taken away.
    pub fn cleaned(&self) -> Cleaned {
        let mut all = Cleaned::default();
        self.shards.iter().for_each(|(sweep, _)| all.add(&sweep.cleaned()));
        all
    }

    /// What it has counted.
    pub fn counters(&self) -> CleanerCounters {
        self.counters
    }
}
