//! Activity of workers on a store: a counter per worker, odd while the worker is active (spec E-31, E-32).
//!
//! A worker that was active when the cleaner unlinked an entry may still use it. The entry is free once every counter that was odd has changed. A
//! busy worker changes its counter with every batch, so it does not pin entries. With one bit per worker it would: the cleaner samples the bit,
//! and could find it set every time.

use super::sync::{AtomicU64, Ordering, fence};

/// The counters of all workers, each in its own cache line.
#[derive(Debug)]
pub struct WorkerEpochs(Box<[Counter]>);

#[derive(Debug)]
#[repr(align(64))]
struct Counter(AtomicU64);

/// The condition that ends a grace period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grace {
    /// Each counter that was odd has changed.
    #[default]
    Counters,
    /// Each worker was seen inactive once, as with a register of bits (Calvert et al. 2003, 3.2). A busy worker pins unlinked entries. For comparison
    /// only.
    Bits,
}

/// The odd counters at the time of unlinking.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct GracePeriod(Vec<(usize, u64)>);

impl WorkerEpochs {
    /// Counters for this many workers, all inactive.
    pub fn new(workers: usize) -> WorkerEpochs {
        WorkerEpochs((0..workers).map(|_| Counter(AtomicU64::new(0))).collect())
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    /// The worker becomes active: entries that it finds from now on stay valid until it leaves.
    #[inline]
    pub(super) fn enter(&self, worker: usize) {
        let counter = &self.0[worker].0;
        let before = counter.load(Ordering::Relaxed);
        debug_assert!(before.is_multiple_of(2), "a worker enters once");
        // Only this worker writes its counter; the fence below orders the store.
        counter.store(before + 1, Ordering::Relaxed);
        // Orders this store before the worker's first read. The cleaner has the same fence between unlinking and reading the counters. So either the
        // cleaner sees the worker active, or the worker sees the entry unlinked.
        fence(Ordering::SeqCst);
    }

    /// The worker becomes inactive, and uses no entry any more.
    #[inline]
    pub(super) fn leave(&self, worker: usize) {
        let counter = &self.0[worker].0;
        // Release: the cleaner sees this only after all accesses of the batch.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Starts a grace period: the currently active workers may use any entry unlinked so far.
    pub(super) fn start_grace(&self) -> GracePeriod {
        fence(Ordering::SeqCst);
        // Pairs with the fence in `enter`: a worker not seen active here finds every unlinked entry unlinked.
        let counters = self.0.iter().map(|counter| counter.0.load(Ordering::Acquire)).enumerate();
        GracePeriod(counters.filter(|(_, count)| !count.is_multiple_of(2)).collect())
    }

    /// True if the grace period is over: no worker is waited for.
    pub(super) fn is_over(&self, waiting: &mut GracePeriod, grace: Grace) -> bool {
        let over = |(worker, then): &(usize, u64)| {
            let now = self.0[*worker].0.load(Ordering::Acquire);
            match grace {
                Grace::Counters => now != *then,
                Grace::Bits => now.is_multiple_of(2),
            }
        };
        waiting.0.retain(|which| !over(which));
        waiting.0.is_empty()
    }
}
