//! The cache of one port on one worker: ranges of permuted addresses, in sets that the index bits select (P-18).

use super::address::Address;
use super::index::IndexPlan;
use super::partitions::{CachedRange, Partitions};
use std::collections::HashMap;
use std::sync::Arc;

/// The largest number of addresses in a batch.
pub(super) const MOST: usize = 256;

units::counters! {
    /// The counters of a route cache since it was made.
    pub struct RouteCacheCounters {
        /// Look-ups that found a range.
        hits "route_cache_hits";
        /// Look-ups that found no range.
        misses "route_cache_misses";
        /// Look-ups that the table had to answer although a range may match.
        forced "route_cache_forced_misses";
        /// Ranges that were stored.
        fills "route_cache_fills";
        /// Ranges that were dropped, because the table had changed since they were read.
        stale "route_cache_stale_fills";
        /// Times that ranges were removed after a change of the table.
        invalidations "route_cache_invalidations";
    }
}

/// A range for a cache, and the generation of the table it was read from (P-1A).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill<A> {
    /// The address that missed.
    pub address: A,
    /// Its range.
    pub range: CachedRange<A>,
    /// The generation of the table.
    pub generation: u64,
}

#[derive(Clone, Copy)]
struct Entry<A> {
    first: A,
    last: A,
    word: u32,
    /// The entry is valid if this equals that of the cache. Zero is never valid.
    epoch: u32,
}

/// The shape of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Ranges in a set, at least 1. With more than one, a new range replaces the least recently used.
    pub ways: usize,
    /// True to send packets past a range while an earlier packet with their address waits for its look-up (P-1B).
    pub keeps_order: bool,
}

impl Default for CacheShape {
    fn default() -> Self {
        CacheShape { ways: 1, keeps_order: false }
    }
}

/// A route cache. It belongs to one worker, which synchronises it with its [`super::CacheFeed`] before it looks up.
pub struct RouteCache<A: Address> {
    plan: Arc<IndexPlan<A>>,
    shape: CacheShape,
    /// `ways` entries for each partition, the most recently used first.
    entries: Vec<Entry<A>>,
    /// The generation of the table that all valid entries agree with.
    generation: u64,
    epoch: u32,
    /// The addresses of misses that have no answer yet, with their number. Used only if the shape keeps order.
    waiting: HashMap<A, usize>,
    counters: RouteCacheCounters,
    /// The positions of the misses of one batch, and their addresses.
    missed: Vec<u16>,
    asked: Vec<A>,
    answers: Vec<u32>,
}

impl<A: Address> RouteCache<A> {
    /// An empty cache for a plan. It agrees with the table of this generation.
    pub(super) fn new(plan: Arc<IndexPlan<A>>, generation: u64, shape: CacheShape) -> RouteCache<A> {
        assert!(shape.ways > 0, "a set has at least one entry");
        let mut cache = RouteCache {
            plan,
            shape,
            entries: Vec::new(),
            generation,
            epoch: 1,
            waiting: HashMap::new(),
            counters: RouteCacheCounters::default(),
            missed: Vec::with_capacity(MOST),
            asked: Vec::with_capacity(MOST),
            answers: Vec::with_capacity(MOST),
        };
        cache.clear();
        cache
    }

    /// The number of ranges it can store.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The plan of its entries.
    pub fn plan(&self) -> &IndexPlan<A> {
        &self.plan
    }

    /// The counters.
    pub fn counters(&self) -> &RouteCacheCounters {
        &self.counters
    }

    /// The generation of its entries.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Removes all entries and gives them the size of the plan.
    fn clear(&mut self) {
        let none = Entry { first: A::from(0), last: A::from(0), word: 0, epoch: 0 };
        self.entries.clear();
        self.entries.resize(self.plan.partitions() * self.shape.ways, none);
        self.epoch = 1;
    }

    /// Uses another plan, without any entry of the old one: entries and plan change together (P-19).
    pub(super) fn replace_plan(&mut self, plan: Arc<IndexPlan<A>>, generation: u64) {
        (self.plan, self.generation) = (plan, generation);
        self.counters.invalidations += 1;
        self.clear();
    }

    /// Removes all entries.
    pub(super) fn invalidate_all(&mut self, generation: u64) {
        self.generation = generation;
        self.counters.invalidations += 1;
        match self.epoch.checked_add(1) {
            Some(epoch) => self.epoch = epoch,
            // After the last epoch the entries of the first would be valid again.
            None => self.clear(),
        }
    }

    /// Removes the entries of all partitions with addresses in a prefix.
    pub(super) fn invalidate(&mut self, prefix: A, length: u8, generation: u64) {
        let affected = self.plan.partitions_of(prefix, length);
        if affected.len() == self.plan.partitions() {
            return self.invalidate_all(generation);
        }
        self.generation = generation;
        self.counters.invalidations += 1;
        let ways = self.shape.ways;
        self.entries[affected.start * ways..affected.end * ways].iter_mut().for_each(|entry| entry.epoch = 0);
    }

    #[inline(always)]
    fn is_match(&self, entry: &Entry<A>, permuted: A) -> bool {
        entry.epoch == self.epoch && entry.first <= permuted && permuted <= entry.last
    }

    /// The outcome of a permuted address, if a range has it.
    #[inline(always)]
    fn find(&mut self, permuted: A) -> Option<u32> {
        let set = self.plan.partition(permuted) * self.shape.ways;
        let entry = &self.entries[set];
        if self.is_match(entry, permuted) {
            return Some(entry.word);
        }
        if self.shape.ways == 1 { None } else { self.find_later(set, permuted) }
    }

    /// Searches the other entries of a set and moves the found one to the front.
    #[inline(never)]
    fn find_later(&mut self, set: usize, permuted: A) -> Option<u32> {
        let at = (set + 1..set + self.shape.ways).find(|&at| self.is_match(&self.entries[at], permuted))?;
        self.entries[set..=at].rotate_right(1);
        Some(self.entries[set].word)
    }

    /// Looks up an address. After `None` the caller looks it up in the table, and returns the answer by [`install`](Self::install) or
    /// [`abandon`](Self::abandon).
    pub fn lookup(&mut self, address: A) -> Option<u32> {
        let found = self.find(self.plan.permute(address));
        if self.shape.keeps_order {
            let waits = self.waiting.get_mut(&address);
            if found.is_some() && waits.is_none() {
                self.counters.hits += 1;
                return found;
            }
            self.counters.misses += u64::from(found.is_none());
            self.counters.forced += u64::from(found.is_some());
            match waits {
                Some(count) => *count += 1,
                None => _ = self.waiting.insert(address, 1),
            }
            return None;
        }
        self.counters.hits += u64::from(found.is_some());
        self.counters.misses += u64::from(found.is_none());
        found
    }

    /// Stores a range, unless the table has changed since the range was read. Returns whether it was stored.
    pub fn install(&mut self, fill: Fill<A>) -> bool {
        self.abandon(fill.address);
        if fill.generation != self.generation {
            self.counters.stale += 1;
            return false;
        }
        self.store(fill.range);
        true
    }

    /// The miss of this address was answered without a range, or its packet was dropped.
    pub fn abandon(&mut self, address: A) {
        if let Some(count) = self.waiting.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.waiting.remove(&address);
            }
        }
    }

    fn store(&mut self, CachedRange { first, last, word }: CachedRange<A>) {
        let set = self.plan.partition(first) * self.shape.ways;
        let entries = &mut self.entries[set..set + self.shape.ways];
        // Other packets of the same range may have stored it meanwhile.
        if !entries.iter().any(|entry| entry.epoch == self.epoch && entry.first == first) {
            // The last entry is the least recently used.
            entries.rotate_right(1);
            entries[0] = Entry { first, last, word, epoch: self.epoch };
            self.counters.fills += 1;
        }
    }

    /// Panics if the cache keeps the order of packets. In a batch no packet waits for an answer.
    pub(super) fn assert_batches(&self) {
        assert!(!self.shape.keeps_order, "the misses of a batch are answered at once");
    }

    /// Finds the ranges of at most [`MOST`] addresses, and records the misses. Returns true if there are any.
    #[inline]
    pub(super) fn probe(&mut self, addresses: &[A], words: &mut [u32]) -> bool {
        self.missed.clear();
        for (i, (&address, word)) in addresses.iter().zip(words).enumerate() {
            match self.find(self.plan.permute(address)) {
                Some(found) => *word = found,
                None => self.missed.push(i as u16),
            }
        }
        let missed = self.missed.len() as u64;
        self.counters.hits += addresses.len() as u64 - missed;
        self.counters.misses += missed;
        missed > 0
    }

    /// Counts a batch that the table answers, because the cache cannot be made current at this moment.
    pub(super) fn bypass(&mut self, addresses: usize) {
        self.counters.forced += addresses as u64;
    }

    /// Answers the misses of the last [`probe`](Self::probe) from the table.
    pub(super) fn ask(&mut self, addresses: &[A], words: &mut [u32], table: &mut impl FnMut(&[A], &mut [u32])) {
        self.asked.clear();
        self.asked.extend(self.missed.iter().map(|&i| addresses[usize::from(i)]));
        self.answers.clear();
        self.answers.resize(self.asked.len(), 0);
        table(&self.asked, &mut self.answers);
        for (&i, &word) in self.missed.iter().zip(&self.answers) {
            words[usize::from(i)] = word;
        }
    }

    /// Stores the ranges of these misses. `partitions` is `None` if the table has changed since the probe.
    pub(super) fn fill(&mut self, partitions: Option<&Partitions<A>>) {
        let Some(partitions) = partitions else {
            self.counters.stale += self.asked.len() as u64;
            return;
        };
        for i in 0..self.asked.len() {
            let permuted = self.plan.permute(self.asked[i]);
            // An earlier miss of this batch may have stored the range.
            if self.find(permuted).is_none() {
                self.store(partitions.find(permuted));
            }
        }
    }
}
