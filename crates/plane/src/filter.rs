//! The rules of a packet filter, made ready for look-ups once and shared by all workers.

use classifier::{PacketKeys, PacketRule, PacketRules, RuleResult, Sets};
use plan::{FilterRule, FilterVerdict};
use std::fmt;
use std::sync::Arc;
use units::InterfaceId;

/// The rules of one filter. Equal if the rules are.
#[derive(Default)]
pub struct FilterTable {
    rules: Vec<(FilterRule, Option<InterfaceId>)>,
    names: Vec<Arc<str>>,
    table: PacketRules,
}

impl FilterTable {
    /// The filter with these rules, each with its required input interface. The first that matches a packet decides about it.
    pub fn new(rules: Vec<(FilterRule, Option<InterfaceId>)>) -> FilterTable {
        fn packet_rule((position, (rule, interface)): (usize, &(FilterRule, Option<InterfaceId>))) -> PacketRule<'_> {
            let result = RuleResult { counter: position as u32, ..RuleResult::default() };
            let (matching, interface) = (&rule.matching, *interface);
            PacketRule { matching, interface, vrf: None, rank: position as u32, result }
        }
        // The check of a plan refuses what a table cannot have: lists with too many combinations, and unknown sets.
        let table = PacketRules::build(rules.iter().enumerate().map(packet_rule), |_| None).unwrap_or_default();
        let names = rules.iter().map(|(rule, _)| rule.to_string().into()).collect();
        FilterTable { rules, names, table }
    }

    /// The filter with these rules: the one of the last generation if that has the same, for a table of many rules takes time to make.
    pub fn shared(rules: Vec<(FilterRule, Option<InterfaceId>)>, last: Option<&Arc<FilterTable>>) -> Arc<FilterTable> {
        match last.filter(|last| last.rules == rules) {
            Some(last) => last.clone(),
            None => Arc::new(FilterTable::new(rules)),
        }
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// The text of each rule.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The first rule that matches each packet of a batch: its position and its verdict. Packets that match no rule are left out.
    pub fn look_up(&self, keys: &mut PacketKeys, mut matched: impl FnMut(usize, u32, FilterVerdict)) {
        self.table.look_up(keys, &Sets::default(), |packet, result| {
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
