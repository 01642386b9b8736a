//! The flow caches in front of a list, one for each thread that looks packets up.
//!
//! All readers of a thread share its cache: a filter has a reader for each port, and a cache for each of them would take too much memory. A reader takes
//! the cache of its thread out for a batch and puts it back, so no lock is held during a look-up.

use crate::flow_cache::{FlowCache, FlowCacheCounters};
use crate::packet_key::{WORDS4, WORDS6};
use crate::packet_rules::{PacketKeys, PacketRules};
use crate::publish::PublishedReader;
use crate::rule::{Key, RuleResult};
use crate::set::Sets;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The most threads that have a cache. The oldest entries are those of workers that have ended.
const MOST_THREADS: usize = 64;

/// The flow caches of one thread, and the bits that the rules of their version test.
pub(super) struct FlowCaches {
    version: u64,
    mask4: Key<WORDS4>,
    mask6: Key<WORDS6>,
    /// Made for the first packet of their family.
    v4: Option<Box<FlowCache<WORDS4>>>,
    v6: Option<Box<FlowCache<WORDS6>>>,
}

impl FlowCaches {
    fn new() -> Box<FlowCaches> {
        Box::new(FlowCaches { version: u64::MAX, mask4: Key::default(), mask6: Key::default(), v4: None, v6: None })
    }

    /// The results of a batch by the rules of this version.
    pub fn look_up(
        &mut self,
        keys: &mut PacketKeys,
        (version, rules): (u64, &PacketRules),
        sets: &PublishedReader<Sets>,
        mut matched: impl FnMut(usize, RuleResult),
    ) {
        if self.version != version {
            (self.version, self.mask4, self.mask6) = (version, rules.flow_mask4(), rules.flow_mask6());
        }
        // Changes of sets do not matter to rules that use none.
        let versions = (version, if rules.uses_sets() { sets.version() } else { 0 });
        let sets = sets.get();
        if keys.v4.len() > 0 {
            let list = |keys: &mut _, matched: &mut dyn FnMut(usize, RuleResult)| rules.look_up4(keys, sets, matched);
            let cache = self.v4.get_or_insert_with(FlowCache::new);
            cache.look_up(&mut keys.v4, (&self.mask4, versions), list, &mut matched);
        }
        if keys.v6.len() > 0 {
            let list = |keys: &mut _, matched: &mut dyn FnMut(usize, RuleResult)| rules.look_up6(keys, sets, matched);
            let cache = self.v6.get_or_insert_with(FlowCache::new);
            cache.look_up(&mut keys.v6, (&self.mask6, versions), list, &mut matched);
        }
    }

    fn state(&self) -> (FlowCacheCounters, bool) {
        let v4 = self.v4.as_ref().map(|cache| (cache.counters(), cache.pauses())).unwrap_or_default();
        let v6 = self.v6.as_ref().map(|cache| (cache.counters(), cache.pauses())).unwrap_or_default();
        (v4.0 + v6.0, v4.1 | v6.1)
    }
}

/// The caches of all threads for one list.
#[derive(Default)]
pub(super) struct FlowCachePool {
    slots: Mutex<Vec<Slot>>,
}

struct Slot {
    thread: ThreadId,
    /// `None` while a reader has it.
    caches: Option<Box<FlowCaches>>,
    counters: FlowCacheCounters,
    pauses: bool,
}

impl FlowCachePool {
    /// The cache of this thread. [`put_back`](FlowCachePool::put_back) returns it.
    pub fn take(&self) -> Box<FlowCaches> {
        let thread = thread::current().id();
        let mut slots = self.lock();
        let caches = slots.iter_mut().find(|slot| slot.thread == thread).and_then(|slot| slot.caches.take());
        caches.unwrap_or_else(FlowCaches::new)
    }

    pub fn put_back(&self, caches: Box<FlowCaches>) {
        let thread = thread::current().id();
        let (counters, pauses) = caches.state();
        let mut slots = self.lock();
        let new = Slot { thread, caches: Some(caches), counters, pauses };
        if let Some(slot) = slots.iter_mut().find(|slot| slot.thread == thread) {
            *slot = new;
            return;
        }
        if slots.len() >= MOST_THREADS {
            slots.remove(0);
        }
        slots.push(new);
    }

    /// The counters of all threads, and how many threads pause, of how many.
    pub fn state(&self) -> (FlowCacheCounters, (usize, usize)) {
        let slots = self.lock();
        let sum = slots.iter().fold(FlowCacheCounters::default(), |sum, slot| sum + slot.counters);
        (sum, (slots.iter().filter(|slot| slot.pauses).count(), slots.len()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        // Nothing panics under the lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
