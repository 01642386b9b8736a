//! Multicast groups, and what was copied for them.

use super::Counted;
use plane::multicast::GroupCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The multicast groups that are forwarded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Multicast {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The groups by VRF, address and source.
    pub groups: Vec<MulticastGroup>,
}

/// A multicast group that is forwarded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MulticastGroup {
    /// The VRF; null for the main one.
    pub vrf: Option<String>,
    /// The group.
    pub group: String,
    /// Whose packets; null for those of every source without a group of its own.
    pub source: Option<String>,
    /// The interface its packets come by.
    pub from: String,
    /// The interfaces that each get a copy.
    pub to: Vec<String>,
    /// What it has counted.
    #[serde(flatten)]
    pub counters: Counted<GroupCounters>,
}
