//! A worker's reader of a list.

use super::counters::{NO_RULE, WorkerCounters};
use super::{RuleLimit, RuleList, RuleTable};
use crate::flow_cache::FEW_PARTS;
use crate::packet_rules::PacketKeys;
use crate::publish::PublishedReader;
use crate::rule::RuleResult;
use crate::set::Sets;
use plan::MatchFields;
use std::sync::Arc;
use units::{Instant, InterfaceId, VrfId};

/// A worker's view of a list, and its counters. Nothing is counted, and no memory used for counters, before the first [`count`](RuleReader::count).
pub struct RuleReader {
    list: Arc<RuleList>,
    table: PublishedReader<RuleTable>,
    sets: PublishedReader<Sets>,
    counters: WorkerCounters,
    uses_flow_caches: bool,
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
            sets: list.sets.reader(),
            counters: WorkerCounters::new(&list.counters),
            uses_flow_caches: false,
        }
    }

    /// The same reader with flow caches. They are used for lists of many rules, while most packets find an entry.
    pub fn with_flow_caches(self) -> RuleReader {
        RuleReader { uses_flow_caches: true, ..self }
    }

    /// The list.
    pub fn list(&self) -> &Arc<RuleList> {
        &self.list
    }

    /// Takes over the newest rules and sets. Call it once for each batch.
    #[inline]
    pub fn refresh(&mut self) {
        self.sets.refresh();
        self.table.refresh();
    }

    /// The versions of the rules and of the sets: with the same ones, a packet has the same result.
    #[inline]
    pub fn versions(&self) -> (u64, u64) {
        (self.table.version(), self.sets.version())
    }

    /// True without rules.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.get().rules.is_empty()
    }

    /// The result for every packet, if the first rule has no conditions: then no keys are needed.
    #[inline]
    pub fn always(&self) -> Option<RuleResult> {
        self.table.get().always
    }

    /// The result of the first matching rule for each packet of `keys`, limits left out. Packets without a matching rule are left out.
    pub fn look_up(&self, keys: &mut PacketKeys, matched: impl FnMut(usize, RuleResult)) {
        let (version, rules) = (self.table.version(), &self.table.get().rules);
        if !self.uses_flow_caches || rules.parts_count() < FEW_PARTS {
            return rules.look_up(keys, self.sets.get(), matched);
        }
        let mut caches = self.list.flows.take();
        caches.look_up(keys, (version, rules), &self.sets, matched);
        self.list.flows.put_back(caches);
    }

    /// The result of the first matching rule for one packet, limits left out.
    pub fn find(&self, fields: &MatchFields, came: (InterfaceId, VrfId)) -> Option<RuleResult> {
        self.table.get().rules.find(fields, came, self.sets.get())
    }

    /// True if the rule with this result has a limit.
    #[inline]
    pub fn is_limited(&self, result: RuleResult) -> bool {
        self.table.get().limit(result).is_some()
    }

    /// The rule that decides about a packet that matches the rule of `first`: this or, if its limit does not apply or `applies` is false for it, a
    /// later one. `length` is that of the IP packet in bytes. A dry run uses no credit.
    pub fn decide(
        &self,
        first: RuleResult,
        (fields, came): (&MatchFields, (InterfaceId, VrfId)),
        (now, length, dry_run): (Instant, usize, bool),
        mut applies: impl FnMut(RuleResult) -> bool,
    ) -> Option<RuleResult> {
        let table = self.table.get();
        let behind = |rank| table.rules.find_behind(fields, came, self.sets.get(), rank);
        let (mut found, mut rank) = (first, table.limit(first).map(|(rank, _)| rank));
        loop {
            // The limit last: a packet that the rule leaves to others uses no credit.
            let within = |(_, limit): (u32, &RuleLimit)| limit.applies(now, length, dry_run);
            if applies(found) && table.limit(found).is_none_or(within) {
                return Some(found);
            }
            // A result has no rank: that of the first rule is found with the rule.
            let at = match rank {
                Some(rank) => rank,
                None => behind(None)?.0,
            };
            // Each step leads to a later rule.
            let (next, result) = behind(Some(at))?;
            (found, rank) = (result, Some(next));
        }
    }

    /// Fetches the counter of a rule into the cache, for [`count`](RuleReader::count) a little later.
    #[inline]
    pub fn prefetch_count(&self, result: RuleResult) {
        self.counters.prefetch(result.counter);
    }

    /// Counts a packet for the rule that has decided about it, or as one that no rule has decided about. `bytes` are those of its frame.
    #[inline]
    pub fn count(&mut self, result: Option<RuleResult>, bytes: usize, now: Instant) {
        self.count_many(result, 1, bytes, now);
    }

    /// Counts several packets with `bytes` together.
    #[inline]
    pub fn count_many(&mut self, result: Option<RuleResult>, packets: u64, bytes: usize, now: Instant) {
        self.counters.count(result.map_or(NO_RULE, |result| result.counter), (packets, bytes), now);
    }
}
