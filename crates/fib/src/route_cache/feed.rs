//! The connection between a table and its caches: the plan, the ranges, and the changes that the caches have not seen yet (P-19).
//!
//! The control side changes the forwarding table first and the feed second. Both are done before it reports the change, so a look-up that begins
//! later sees the new generation. A cache that sees another generation than its own removes the affected entries before it looks up. A cache
//! never waits: while the control side holds the lock, the caller uses the forwarding table instead.

use super::address::Address;
use super::cache::{CacheShape, Fill, MOST, RouteCache};
use super::index::{IndexPlan, PlanOptions, PlanStep};
use super::partitions::Partitions;
use crate::sync::{AtomicU64, Ordering};
use parking_lot::RwLock;
use std::collections::VecDeque;
use std::sync::Arc;

/// Changes that the feed remembers. A cache that is further behind removes all entries.
const REMEMBERED: usize = 256;

/// The entries that a cache removes after a change of a route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Invalidation {
    /// The entries of the partitions with addresses in the prefix.
    #[default]
    Affected,
    /// All entries, as the paper's router did.
    Full,
}

/// The changes of one table for its caches.
pub struct CacheFeed<A: Address> {
    /// Increases with every change, while the lock is held.
    generation: AtomicU64,
    state: RwLock<State<A>>,
    mode: Invalidation,
}

struct State<A: Address> {
    partitions: Partitions<A>,
    /// The prefixes of the last changes. The last of them made the current generation.
    changes: VecDeque<(A, u8)>,
}

impl<A: Address> CacheFeed<A> {
    /// The feed of a table of ranges over `width`-bit addresses.
    pub fn new(width: u8, table: &[(A, u32)], options: &PlanOptions, mode: Invalidation) -> CacheFeed<A> {
        CacheFeed::with_plan(IndexPlan::choose(width, table, options), table, mode)
    }

    /// The same with a plan of the caller.
    pub fn with_plan(plan: IndexPlan<A>, table: &[(A, u32)], mode: Invalidation) -> CacheFeed<A> {
        let partitions = Partitions::new(Arc::new(plan), table);
        let state = State { partitions, changes: VecDeque::with_capacity(REMEMBERED) };
        CacheFeed { generation: AtomicU64::new(0), state: RwLock::new(state), mode }
    }

    /// The current generation.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The plan, and the generation it belongs to.
    pub fn plan(&self) -> (Arc<IndexPlan<A>>, u64) {
        let state = self.state.read();
        (state.partitions.plan().clone(), self.generation())
    }

    /// The number of ranges and their variance, as of now.
    pub fn totals(&self) -> PlanStep {
        self.state.read().partitions.totals()
    }

    /// Replaces the ranges within a prefix, after the forwarding table has changed there.
    pub fn change(&self, prefix: A, length: u8, inside: &[(A, u32)]) {
        let mut state = self.state.write();
        state.partitions.patch(prefix, length, inside);
        if state.changes.len() == REMEMBERED {
            state.changes.pop_front();
        }
        state.changes.push_back((prefix, length));
        self.advance();
    }

    /// Replaces plan and ranges together.
    pub fn replace(&self, plan: IndexPlan<A>, table: &[(A, u32)]) {
        let partitions = Partitions::new(Arc::new(plan), table);
        let mut state = self.state.write();
        state.partitions = partitions;
        // No cache may follow the changes of the old plan only.
        state.changes.clear();
        self.advance();
    }

    fn advance(&self) {
        // Only the holder of the lock counts, so load and store need not be one operation.
        self.generation.store(self.generation.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// The range of an address that missed.
    pub fn resolve(&self, address: A) -> Fill<A> {
        let state = self.state.read();
        let range = state.partitions.find(state.partitions.plan().permute(address));
        Fill { address, range, generation: self.generation() }
    }

    /// Makes a cache current. Returns false if that is impossible at this moment: then its entries may be stale.
    #[inline(always)]
    pub fn synchronise(&self, cache: &mut RouteCache<A>) -> bool {
        self.generation() == cache.generation() || self.catch_up(cache)
    }

    #[cold]
    fn catch_up(&self, cache: &mut RouteCache<A>) -> bool {
        let Some(state) = self.state.try_read() else { return false };
        let now = self.generation();
        let behind = (now - cache.generation()) as usize;
        if !std::ptr::eq(cache.plan(), &**state.partitions.plan()) {
            cache.replace_plan(state.partitions.plan().clone(), now);
        } else if self.mode == Invalidation::Full || behind > state.changes.len() {
            cache.invalidate_all(now);
        } else {
            for &(prefix, length) in state.changes.range(state.changes.len() - behind..) {
                cache.invalidate(prefix, length, now);
            }
        }
        true
    }

    /// An empty cache of this table.
    pub fn cache(&self, shape: CacheShape) -> RouteCache<A> {
        let (plan, generation) = self.plan();
        RouteCache::new(plan, generation, shape)
    }

    /// Looks up many addresses in a cache of this table. `table` looks up the misses, and the cache stores their ranges. Panics if the slices
    /// differ in length, or if the cache keeps the order of packets.
    #[inline]
    pub fn lookup_bulk(
        &self,
        cache: &mut RouteCache<A>,
        addresses: &[A],
        words: &mut [u32],
        mut table: impl FnMut(&[A], &mut [u32]),
    ) {
        assert_eq!(addresses.len(), words.len(), "one answer for each address");
        cache.assert_batches();
        for (addresses, words) in addresses.chunks(MOST).zip(words.chunks_mut(MOST)) {
            if !self.synchronise(cache) {
                // A change is being made at this moment.
                cache.bypass(addresses.len());
                table(addresses, words);
            } else if cache.probe(addresses, words) {
                self.answer(cache, addresses, words, &mut table);
            }
        }
    }

    #[inline(never)]
    fn answer(
        &self,
        cache: &mut RouteCache<A>,
        addresses: &[A],
        words: &mut [u32],
        table: &mut impl FnMut(&[A], &mut [u32]),
    ) {
        cache.ask(addresses, words, table);
        let state = self.state.try_read();
        // The generation changes only under the lock, so the ranges are those of the cache's generation.
        let current = state.as_ref().filter(|_| self.generation() == cache.generation());
        cache.fill(current.map(|state| &state.partitions));
    }
}
