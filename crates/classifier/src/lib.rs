//! Classification: which rule of a list a packet matches, among up to a million rules, and which named sets have its addresses and ports.
//!
//! A [`RuleSet`] and a [`Set`] are values that many share. A change makes a new one, which shares all but the changed parts with the old one, and
//! [`Published`] gives it to the workers.

#![forbid(unsafe_code)]

mod build;
mod flow_cache;
mod list;
mod lookup;
mod packet_key;
mod packet_rules;
mod partition;
mod publish;
mod rule;
mod rule_set;
mod selector;
mod set;
mod short_list;
mod sync;
mod tenants;

pub use flow_cache::FlowCacheCounters;
pub use list::{
    FlowCacheUse, ListedRule, MOST_LIMITS, MOST_LISTED, Place, RuleCount, RuleEdit, RuleHold, RuleLimit, RuleList,
    RuleListError, RuleReader, RuleStatus, RuleTable,
};
pub use packet_key::KeyFields;
pub use packet_rules::{PacketKeys, PacketRule, PacketRuleError, PacketRules};
pub use publish::{Published, PublishedReader};
pub use rule::{Key, RuleResult, TernaryRule};
pub use rule_set::RuleSet;
pub use set::{
    Set, SetEdit, SetEditCounts, SetElement, SetError, SetId, SetStore, SetWriteError, Sets, SetsDraft, StoredSet,
};
pub use tenants::{
    FilterChange, FilterUse, KeyRange, NumberPrefix, OpaqueKey, RebuiltFilters, RefusedChanges, ReusedNumbers,
    TenantError, TenantFilter, TenantFilters, TenantId, TenantKey, TenantTable, TenantUse, WornFilters, prefixes,
};
