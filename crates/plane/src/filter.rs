//! The rules of a packet filter, made ready for look-ups once and shared by all workers.

use classifier::{PacketKeys, PacketRule, PacketRules, RuleResult, SetStore};
use plan::{FilterRule, FilterVerdict};
use std::fmt;
use std::sync::Arc;
use units::{InterfaceId, VrfId};

/// The input interface and the VRF that a match names. An interface that no longer exists has an id that is never given out.
pub type RuleOrigin = (Option<InterfaceId>, Option<VrfId>);

/// The rules of one filter. Equal if the rules are.
#[derive(Default)]
pub struct FilterTable {
    rules: Vec<(FilterRule, RuleOrigin)>,
    names: Vec<Arc<str>>,
    sets: Arc<SetStore>,
    table: PacketRules,
}

impl FilterTable {
    /// The filter with these rules, each with its required input interface and VRF. The first that matches a packet decides about it.
    pub fn new(rules: Vec<(FilterRule, RuleOrigin)>, sets: &Arc<SetStore>) -> FilterTable {
        fn packet_rule((position, (rule, came)): (usize, &(FilterRule, RuleOrigin))) -> PacketRule<'_> {
            let result = RuleResult { counter: position as u32, ..RuleResult::default() };
            let (matching, (interface, vrf)) = (&rule.matching, *came);
            PacketRule { matching, interface, vrf, rank: position as u32, result }
        }
        // The check of a plan refuses what a table cannot have: lists with too many combinations, and unknown sets.
        let table =
            PacketRules::build(rules.iter().enumerate().map(packet_rule), |name, kind| Some(sets.promise(name, kind)))
                .unwrap_or_else(|(rule, error)| unreachable!("rule {rule}: {error}"));
        let names = rules.iter().map(|(rule, _)| rule.to_string().into()).collect();
        FilterTable { rules, names, sets: sets.clone(), table }
    }

    /// The filter with these rules: the one of the last generation if that has the same, for a table of many rules takes time to make.
    pub fn shared(
        rules: Vec<(FilterRule, RuleOrigin)>,
        sets: &Arc<SetStore>,
        last: Option<&Arc<FilterTable>>,
    ) -> Arc<FilterTable> {
        match last.filter(|last| last.rules == rules) {
            Some(last) => last.clone(),
            None => Arc::new(FilterTable::new(rules, sets)),
        }
    }

    /// The number of rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The text of each rule.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The first rule that matches each packet of a batch: its position and its verdict. Packets that match no rule are left out.
    pub fn look_up(&self, keys: &mut PacketKeys, mut matched: impl FnMut(usize, u32, FilterVerdict)) {
        self.table.look_up(keys, &self.sets, |packet, result| {
            let verdict = self.rules[result.counter as usize].0.verdict;
            matched(packet, result.counter, verdict);
        });
    }
}

impl PartialEq for FilterTable {
    fn eq(&self, other: &FilterTable) -> bool {
        self.rules == other.rules
    }
}

impl Eq for FilterTable {}

impl fmt::Debug for FilterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilterTable").field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}
