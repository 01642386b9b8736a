//! A worker's reader of a list.

use super::counters::{NO_RULE, WorkerCounters};
use super::{RuleList, RuleTable};
use crate::flow_cache::{FEW_PARTS, FlowCache, FlowCacheCounters};
use crate::packet_key::{WORDS4, WORDS6};
use crate::packet_rules::PacketKeys;
use crate::publish::PublishedReader;
use crate::rule::{Key, RuleResult};
use plan::MatchFields;
use std::sync::Arc;
use units::{Instant, InterfaceId, VrfId};

/// A worker's view of a list, and its counters. Nothing is counted, and no memory used for counters, before the first [`count`](RuleReader::count).
pub struct RuleReader {
    list: Arc<RuleList>,
    table: PublishedReader<RuleTable>,
    counters: WorkerCounters,
    caches: Option<Box<FlowCaches>>,
}

/// The flow caches of a reader, and the bits that the rules of their version test.
struct FlowCaches {
    version: u64,
    mask4: Key<WORDS4>,
    mask6: Key<WORDS6>,
    /// Made for the first packet of their family.
    v4: Option<Box<FlowCache<WORDS4>>>,
    v6: Option<Box<FlowCache<WORDS6>>>,
}

impl FlowCaches {
    fn new() -> Box<FlowCaches> {
        let (mask4, mask6) = (Key([0; WORDS4]), Key([0; WORDS6]));
        Box::new(FlowCaches { version: u64::MAX, mask4, mask6, v4: None, v6: None })
    }
}

/// A reader of an empty list.
impl Default for RuleReader {
    fn default() -> Self {
        RuleReader::new(&Arc::default())
    }
}

impl RuleReader {
    /// A reader that starts with the current rules.
    pub fn new(list: &Arc<RuleList>) -> RuleReader {
        RuleReader {
            list: list.clone(),
            table: PublishedReader::new(&list.published),
            counters: WorkerCounters::new(&list.counters),
            caches: None,
        }
    }

    /// The same reader with flow caches. They are used for lists of many rules, while most packets find an entry.
    pub fn with_flow_caches(self) -> RuleReader {
        RuleReader { caches: Some(FlowCaches::new()), ..self }
    }

    /// True if it reads this list.
    #[inline]
    pub fn reads(&self, list: &Arc<RuleList>) -> bool {
        Arc::ptr_eq(&self.list, list)
    }

    /// The list.
    pub fn list(&self) -> &Arc<RuleList> {
        &self.list
    }

    /// Takes over the newest rules. Call it once for each batch. Returns false if there are none.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        !self.table.refresh().is_empty()
    }

    /// The result of the first matching rule for each packet of `keys`, limits left out. Packets without a matching rule are left out.
    pub fn look_up(&mut self, keys: &mut PacketKeys, mut matched: impl FnMut(usize, RuleResult)) {
        let (version, rules) = (self.table.version(), &self.table.get().rules);
        let Some(caches) = self.caches.as_mut().filter(|_| rules.parts_count() >= FEW_PARTS) else {
            return rules.look_up(keys, &self.list.sets, matched);
        };
        if caches.version != version {
            (caches.version, caches.mask4, caches.mask6) = (version, rules.flow_mask4(), rules.flow_mask6());
        }
        let reader = rules.refreshed_sets(keys, &self.list.sets);
        let sets = reader.as_ref();
        let versions = (version, sets.map_or(0, |sets| sets.version()));
        if keys.v4.len() > 0 {
            let list = |keys: &mut _, matched: &mut dyn FnMut(usize, RuleResult)| rules.look_up4(keys, sets, matched);
            let cache = caches.v4.get_or_insert_with(FlowCache::new);
            cache.look_up(&mut keys.v4, (&caches.mask4, versions), list, &mut matched);
        }
        if keys.v6.len() > 0 {
            let list = |keys: &mut _, matched: &mut dyn FnMut(usize, RuleResult)| rules.look_up6(keys, sets, matched);
            let cache = caches.v6.get_or_insert_with(FlowCache::new);
            cache.look_up(&mut keys.v6, (&caches.mask6, versions), list, &mut matched);
        }
        keys.sets = reader.or(keys.sets.take());
    }

    /// The counters of the flow caches, and whether the one for IPv4 pauses because too few packets find an entry. `None` without flow caches.
    pub fn flow_caches(&self) -> Option<(FlowCacheCounters, bool)> {
        let caches = self.caches.as_ref()?;
        let v4 = caches.v4.as_ref().map(|cache| cache.counters()).unwrap_or_default();
        let v6 = caches.v6.as_ref().map(|cache| cache.counters()).unwrap_or_default();
        let sum =
            FlowCacheCounters { hits: v4.hits + v6.hits, misses: v4.misses + v6.misses, passed: v4.passed + v6.passed };
        Some((sum, caches.v4.as_ref().is_some_and(|cache| cache.pauses())))
    }

    /// The result of the first matching rule for one packet, limits left out.
    pub fn find(&self, fields: &MatchFields, came: (InterfaceId, VrfId)) -> Option<RuleResult> {
        self.table.get().rules.find(fields, came, &self.list.sets)
    }

    /// True if the rule with this result has a limit.
    #[inline]
    pub fn is_limited(&self, result: RuleResult) -> bool {
        self.table.get().limit(result).is_some()
    }

    /// The rule that decides about a packet that matches the rule of `first`: this or, if its limit does not apply, a later one. `length` is that of
    /// the IP packet in bytes. A dry run uses no credit.
    pub fn within_limits(
        &self,
        first: RuleResult,
        (fields, came): (&MatchFields, (InterfaceId, VrfId)),
        (now, length, dry_run): (Instant, usize, bool),
    ) -> Option<RuleResult> {
        let table = self.table.get();
        let mut found = first;
        // Each step leads to a later rule.
        while let Some((rank, limit)) = table.limit(found) {
            if limit.applies(now, length, dry_run) {
                break;
            }
            found = table.rules.find_behind(fields, came, &self.list.sets, Some(rank))?;
        }
        Some(found)
    }

    /// Counts a packet for the rule that has decided about it, or as one that no rule has decided about. `bytes` are those of its frame.
    #[inline]
    pub fn count(&mut self, result: Option<RuleResult>, bytes: usize, now: Instant) {
        self.counters.count(result.map_or(NO_RULE, |result| result.counter), bytes, now);
    }
}
