//! Who is using a store: a counter for each worker, odd while it is active (spec E-31, E-32).
//!
//! What the cleaner has unlinked, a worker that was active then may still be using. It is free once every counter that was
//! odd has changed: a worker that is always busy changes its counter with every batch, so it pins nothing. With a bare bit it
//! would: the cleaner, looking now and then, would find it set each time.

use super::sync::{AtomicU64, Ordering, fence};

/// The counters of all workers, each in a cache line of its own.
#[derive(Debug)]
pub struct Epochs(Box<[Counter]>);

#[derive(Debug)]
#[repr(align(64))]
struct Counter(AtomicU64);

/// What a cleaner waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grace {
    /// That each counter that was odd has changed.
    #[default]
    Counters,
    /// That each worker is found inactive once, as with a register of bits (Calvert et al. 2003, 3.2): a busy worker pins
    /// what is unlinked. To compare with, not to use.
    Bits,
}

/// The counters as they were when something was unlinked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Waiting(Vec<(usize, u64)>);

impl Epochs {
    /// Of so many workers, all inactive.
    pub fn new(workers: usize) -> Epochs {
        Epochs((0..workers).map(|_| Counter(AtomicU64::new(0))).collect())
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    /// A worker becomes active: what it finds from now on it may use until it leaves.
    #[inline]
    pub(super) fn enter(&self, worker: usize) {
        let counter = &self.0[worker].0;
        let before = counter.load(Ordering::Relaxed);
        debug_assert!(before.is_multiple_of(2), "a worker enters once");
        counter.store(before + 1, Ordering::Relaxed);
        // Its first read is not before this; the cleaner's fence stands between unlinking and looking here. So either the
        // cleaner sees the worker, or the worker sees that the entry is unlinked.
        fence(Ordering::SeqCst);
    }

    /// It uses nothing any more.
    #[inline]
    pub(super) fn leave(&self, worker: usize) {
        let counter = &self.0[worker].0;
        // Whatever it did is done before the cleaner sees this.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Everything unlinked so far may be in use by those who are active now.
    pub(super) fn unlinked(&self) -> Waiting {
        fence(Ordering::SeqCst);
        let counters = self.0.iter().map(|counter| counter.0.load(Ordering::Acquire)).enumerate();
        Waiting(counters.filter(|(_, count)| !count.is_multiple_of(2)).collect())
    }

    /// Whether nobody is waited for any more.
    pub(super) fn are_over(&self, waiting: &mut Waiting, grace: Grace) -> bool {
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
