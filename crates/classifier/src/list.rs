//! A list of rules that changes while packets flow: the rules of paths, and those of a filter.
//!
//! The list keeps the rules in their order, with an id for each that never changes. Workers look packets up in a [`RuleTable`], which the list
//! publishes after each change. A change of many rules is complete or has no effect, and no worker waits for it.
//!
//! A rule's rank in the table is not its position: ranks have gaps, so that a new rule between two others leaves all others as they are (`ranks`). The
//! counters of a rule lie in a slot of its own, so that no change moves them (`counters`).

mod counters;
mod edit;
mod flows;
mod hold;
mod limit;
mod ranks;
mod reader;

pub use counters::RuleCount;
pub use edit::{Place, RuleEdit, RuleListError};
pub use hold::RuleHold;
pub use limit::RuleLimit;
pub use reader::RuleReader;

use crate::flow_cache::{FEW_PARTS, FlowCacheCounters};
use crate::packet_rules::{PacketRule, PacketRules};
use crate::publish::Published;
use crate::rule::RuleResult;
use crate::set::SetStore;
use counters::{Counters, NO_RULE, Slots};
use edit::TableChange;
use flows::FlowCachePool;
use plan::{FilterLimit, Match};
use ranks::Ranks;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{InterfaceId, VrfId};

/// The most rules of one list.
pub const MOST_LISTED: usize = 1 << 20;
/// The most rules of one list that have a limit.
pub const MOST_LIMITS: usize = 16;
/// The bits of [`RuleResult::action`] that belong to the user of a list. The bits above have the number of the limit.
const ACTION_BITS: u32 = 16;

/// A rule of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedRule {
    /// The conditions.
    pub matching: Match,
    /// The input interface that `iif` of the match names. An id that is never given out matches no packet.
    pub interface: Option<InterfaceId>,
    /// The VRF that the match names.
    pub vrf: Option<VrfId>,
    /// The rule as the operator writes it.
    pub text: Arc<str>,
    /// The result. The list gives it the counter. The action has 16 bits.
    pub result: RuleResult,
    /// The rule decides only about packets within this limit, or only about those beyond it.
    pub limit: Option<FilterLimit>,
    /// Something that exists as long as the rule.
    pub held: RuleHold,
}

/// A rule of a list with its id and its counters.
#[derive(Clone, Debug)]
pub struct RuleStatus {
    /// The id. Rules of the configuration are numbered from 1; no id is used twice.
    pub id: u32,
    /// The rule.
    pub rule: Arc<ListedRule>,
    /// The packets that it has decided about.
    pub count: RuleCount,
}

/// The use of flow caches in front of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCacheUse {
    /// The counters of all workers.
    pub counters: FlowCacheCounters,
    /// The workers whose cache pauses because too few packets find an entry.
    pub pausing: usize,
    /// All workers that have looked up packets.
    pub workers: usize,
    /// True if the list is too short to gain from a cache.
    pub is_short: bool,
}

/// The rules as workers look them up.
#[derive(Clone, Debug, Default)]
pub struct RuleTable {
    rules: PacketRules,
    /// The rank of each rule with a limit, and its limit.
    limits: Vec<Option<(u32, Arc<RuleLimit>)>>,
    /// The result for every packet, if the first rule has no conditions.
    always: Option<RuleResult>,
}

impl RuleTable {
    /// The limit of the rule with this result, and its rank.
    #[inline]
    fn limit(&self, result: RuleResult) -> Option<(u32, &RuleLimit)> {
        match result.action >> ACTION_BITS {
            0 => None,
            number => self.limits.get(number as usize - 1)?.as_ref().map(|(rank, limit)| (*rank, &**limit)),
        }
    }
}

/// A list of rules.
pub struct RuleList {
    sets: Arc<SetStore>,
    published: Arc<Published<RuleTable>>,
    counters: Arc<Counters>,
    flows: FlowCachePool,
    /// The rules of the configuration from which the list was made.
    configured: Vec<Arc<ListedRule>>,
    writer: Mutex<Writer>,
}

/// A rule in its place.
#[derive(Clone)]
struct Entry {
    id: u32,
    slot: u32,
    /// The number of the limit plus one, or zero.
    limit: u32,
    rule: Arc<ListedRule>,
    /// The count of its slot when the rule got it.
    base: RuleCount,
}

impl Entry {
    fn result(&self) -> RuleResult {
        let own = self.rule.result;
        debug_assert!(own.action < 1 << ACTION_BITS);
        RuleResult { action: own.action | self.limit << ACTION_BITS, counter: self.slot, ..own }
    }

    fn packet_rule(&self, rank: u32) -> PacketRule<'_> {
        let (matching, interface, vrf) = (&self.rule.matching, self.rule.interface, self.rule.vrf);
        PacketRule { matching, interface, vrf, rank, result: self.result() }
    }
}

/// The state that changes of the list share.
#[derive(Default)]
struct Writer {
    table: RuleTable,
    /// By rank.
    entries: BTreeMap<u32, Entry>,
    /// The rank of each id.
    ranks: HashMap<u32, u32>,
    last_id: u32,
    slots: Slots,
    /// The changes since a rebuild of the table began.
    since_rebuild: Option<Vec<TableChange>>,
}

impl RuleList {
    /// The list of these rules, in their order. The check of a plan refuses what a list cannot have: rules with too many combinations, unknown sets,
    /// too many rules or limits.
    pub fn new(rules: Vec<ListedRule>, sets: &Arc<SetStore>) -> Result<RuleList, (usize, RuleListError)> {
        let configured: Vec<Arc<ListedRule>> = rules.into_iter().map(Arc::new).collect();
        let mut writer = Writer::default();
        let ranks = Ranks::spread(configured.len());
        for (position, (rule, rank)) in configured.iter().zip(ranks).enumerate() {
            let entry = writer.entry(rule.clone()).map_err(|error| (position, error))?;
            writer.place(rank, entry);
        }
        writer.rebuild(sets).map_err(|(position, error)| (position, RuleListError::Rule(error)))?;
        let published = Arc::new(Published::new(writer.finished_table()));
        let (sets, counters) = (sets.clone(), Arc::default());
        let flows = FlowCachePool::default();
        Ok(RuleList { sets, published, counters, flows, configured, writer: Mutex::new(writer) })
    }

    /// The list of these rules: `last` if it was made from the same, with the changes since then.
    pub fn shared(
        rules: Vec<ListedRule>,
        sets: &Arc<SetStore>,
        last: Option<&Arc<RuleList>>,
    ) -> Result<Arc<RuleList>, (usize, RuleListError)> {
        let same = |last: &&Arc<RuleList>| last.configured.iter().map(|rule| &**rule).eq(&rules);
        match last.filter(same) {
            Some(last) => Ok(last.clone()),
            None => RuleList::new(rules, sets).map(Arc::new),
        }
    }

    /// A list of the same rules of the configuration, without the changes since then.
    pub fn as_configured(&self) -> Arc<RuleList> {
        let rules: Vec<ListedRule> = self.configured.iter().map(|rule| ListedRule::clone(rule)).collect();
        let list = RuleList::new(rules, &self.sets);
        Arc::new(
            list.unwrap_or_else(|(rule, error)| unreachable!("rule {rule}: {error}: the list was made of it before")),
        )
    }

    /// The rules in their order, with their counts.
    pub fn rules(&self) -> Vec<RuleStatus> {
        let writer = self.lock();
        let totals = self.counters.totals();
        let total = |slot: u32| totals.get(slot as usize).copied().unwrap_or_default();
        let status = |entry: &Entry| {
            let (id, rule) = (entry.id, entry.rule.clone());
            RuleStatus { id, rule, count: total(entry.slot).since(entry.base) }
        };
        writer.entries.values().map(status).collect()
    }

    /// The packets that no rule decided about.
    pub fn others(&self) -> RuleCount {
        self.counters.totals().get(NO_RULE as usize).copied().unwrap_or_default()
    }

    /// The use of flow caches in front of the list.
    pub fn flow_caches(&self) -> FlowCacheUse {
        let (counters, (pausing, workers)) = self.flows.state();
        let is_short = self.published.latest().rules.parts_count() < FEW_PARTS;
        FlowCacheUse { counters, pausing, workers, is_short }
    }

    /// The id and the text of the rule with this counter.
    pub fn rule_of(&self, counter: u32) -> Option<(u32, Arc<ListedRule>)> {
        let writer = self.lock();
        let mut entries = writer.entries.values();
        entries.find(|entry| entry.slot == counter).map(|entry| (entry.id, entry.rule.clone()))
    }

    /// The rules that select the path at this position.
    pub fn rules_to(&self, path: u16) -> Vec<Arc<ListedRule>> {
        let writer = self.lock();
        let rules = writer.entries.values().map(|entry| &entry.rule);
        rules.filter(|rule| rule.result.path == path).cloned().collect()
    }

    /// The id of the rule behind the one with this id, or of the first rule without one. None at the end, and if there is no such rule.
    pub fn rule_behind(&self, id: Option<u32>) -> Option<u32> {
        let writer = self.lock();
        let from = match id {
            Some(id) => Bound::Excluded(*writer.ranks.get(&id)?),
            None => Bound::Unbounded,
        };
        writer.entries.range((from, Bound::Unbounded)).next().map(|(_, entry)| entry.id)
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// True without rules.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the table that workers look up.
    pub fn bytes(&self) -> usize {
        self.published.latest().rules.bytes()
    }

    /// True if the rules differ from those of the configuration.
    pub fn is_changed(&self) -> bool {
        let writer = self.lock();
        !writer.entries.values().map(|entry| &entry.rule).eq(&self.configured)
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        // A change that panics has published nothing, and the table it has begun is dropped with it.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for RuleList {
    fn default() -> Self {
        RuleList::new(Vec::new(), &Arc::default()).unwrap_or_else(|_| unreachable!("no rule is wrong"))
    }
}

impl fmt::Debug for RuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleList").field("rules", &self.len()).finish_non_exhaustive()
    }
}
