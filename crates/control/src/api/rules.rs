//! Lists of rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The lists of rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleLists {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The rules that select paths, then the rules of each path's filter.
    pub lists: Vec<RuleListReply>,
}

/// A list of rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleListReply {
    /// `paths`, or the path with the filter.
    pub list: String,
    /// The rules in their order, as far as they were asked for.
    pub rules: Vec<RuleReply>,
    /// The number of all rules.
    pub total: u64,
    /// Packets that matched no rule.
    pub other_packets: u64,
    /// Bytes of these packets.
    pub other_bytes: u64,
    /// True if the rules differ from those of the configuration, because they were changed since.
    pub changed: bool,
    /// Memory of the table that workers look up.
    pub memory_bytes: u64,
    /// The flow caches of the workers in front of the list.
    pub flow_cache: FlowCacheReply,
}

/// Flow caches in front of a list of rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowCacheReply {
    /// `on`; `short`: the list is too short to gain from a cache; `paused`: too few packets find an entry, so the workers look packets up in the list.
    pub state: String,
    /// Packets whose result was in a cache.
    pub hits: u64,
    /// Packets that were looked up in the list, and whose result was stored.
    pub misses: u64,
    /// Packets that were looked up in the list while a cache paused.
    pub passed: u64,
}

/// A rule of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RuleReply {
    /// The id, which never changes. The rules of the configuration are numbered from 1.
    pub id: u32,
    /// The rule.
    pub rule: String,
    /// Packets that it has decided about.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// The time since the last of them; null if there was none.
    pub idle_ns: Option<u64>,
}

/// The result of changes of a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RulesEdited {
    /// The ids of new rules, in the order of the changes.
    pub added: Vec<u32>,
    /// The number of removed rules.
    pub removed: u64,
    /// The number of rules after the changes.
    pub total: u64,
}
