//! Cleaners with a thread of their own (spec E-33, `dedicated`). There are no threads here: whoever has one calls [`Cleaners::clean`] again and again.

use crate::store::{Cleaned, Cleaner};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Instant;

/// Rounds of a cleaner at a time, each of about a thousand entries of every shard.
const ROUNDS: usize = 64;

/// What a cleaner has taken away, told to whoever owns the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<Cleaned>>);

impl Told {
    /// The same as it stands.
    pub fn read(&self) -> Cleaned {
        lock(&self.0).clone()
    }
}

/// The cleaners of all stores that are cleaned by a thread of their own, shared by that thread and whoever makes stores.
#[derive(Clone, Default)]
pub struct Cleaners(Arc<Mutex<Vec<(Cleaner, Told)>>>);

/// Who holds it panics nowhere in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cleaners {
    /// Takes over the cleaner of a store, for as long as somebody has what it answers.
    pub(crate) fn take(&self, cleaner: Cleaner) -> Told {
        let told = Told::default();
        lock(&self.0).push((cleaner, told.clone()));
        told
    }

    /// Cleans what is due by a clock. Answers when there is more; [`Instant::FAR`] where there is nothing.
    pub fn clean(&self, clock: impl Fn() -> Instant) -> Instant {
        let mut due = Instant::FAR;
        // Of a store that is gone nobody is told any more.
        lock(&self.0).retain_mut(|(cleaner, told)| {
            if Arc::strong_count(&told.0) == 1 {
                return false;
            }
            let now = clock();
            let done = (0..ROUNDS).take_while(|_| cleaner.step(now) > 0).count();
            if done > 0 {
                let spent = told.read().spent + clock().since(now);
                *lock(&told.0) = Cleaned { spent, ..cleaner.cleaned() };
            }
            due = due.min(cleaner.due(now).unwrap_or(Instant::FAR));
            true
        });
        due
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

impl fmt::Debug for Cleaners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cleaners", self.count())
    }
}
