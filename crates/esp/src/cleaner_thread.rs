//! Cleaners that run in a thread of their own (spec E-33, `dedicated`). This module starts no thread: the caller's thread calls [`Cleaners::clean`]
//! in a loop.

use crate::store::{Cleaner, CleaningCounters};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Instant;

/// Cleaner steps per store and call. A step covers about a thousand entries of every shard.
const STEPS_PER_CALL: usize = 64;

/// The cleaner's counters, which the owner of the store reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedCleaningCounters(Arc<Mutex<CleaningCounters>>);

impl SharedCleaningCounters {
    /// A copy of the current counters.
    pub fn read(&self) -> CleaningCounters {
        lock(&self.0).clone()
    }
}

/// The cleaners of all stores with a dedicated cleaner thread. The cleaner thread and the workers that create stores share it.
#[derive(Clone, Default)]
pub struct Cleaners(Arc<Mutex<Vec<(Cleaner, SharedCleaningCounters)>>>);

/// Locks, ignoring poison: no holder of the lock can panic between two dependent writes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cleaners {
    /// Adopts the cleaner of a store. The cleaner is removed when the returned handle is dropped.
    pub(crate) fn adopt(&self, cleaner: Cleaner) -> SharedCleaningCounters {
        let counters = SharedCleaningCounters::default();
        lock(&self.0).push((cleaner, counters.clone()));
        counters
    }

    /// Cleans every store that is due by the clock. Returns the time of the next call, or [`Instant::NEVER`] if there are no stores.
    pub fn clean(&self, clock: impl Fn() -> Instant) -> Instant {
        let mut due = Instant::NEVER;
        // The only reference left is ours: the worker dropped its store, so its cleaner ends too.
        lock(&self.0).retain_mut(|(cleaner, counters)| {
            if Arc::strong_count(&counters.0) == 1 {
                return false;
            }
            let now = clock();
            let done = (0..STEPS_PER_CALL).take_while(|_| cleaner.step(now) > 0).count();
            if done > 0 {
                // The lock was not held while cleaning, so a worker that reads its report never blocks for a sweep.
                let spent = counters.read().spent + clock().since(now);
                *lock(&counters.0) = CleaningCounters { spent, ..cleaner.cleaning_counters() };
            }
            due = due.min(cleaner.due(now).unwrap_or(Instant::NEVER));
            true
        });
        due
    }

    /// The number of cleaners.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

impl fmt::Debug for Cleaners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cleaners", self.count())
    }
}
