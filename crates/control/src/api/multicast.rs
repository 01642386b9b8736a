//! Multicast groups, and the packets replicated to them.

use super::CounterFields;
use plane::multicast::GroupCounters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The multicast groups.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Multicast {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The groups by VRF, address and source.
    pub groups: Vec<MulticastGroup>,
}

/// A multicast group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MulticastGroup {
    /// The VRF; null for the default one.
    pub vrf: Option<String>,
    /// The group.
    pub group: String,
    /// The source; null for all sources without a group of their own.
    pub source: Option<String>,
    /// `configuration`, or `kernel`: a program of the machine, such as a PIM daemon, has made it.
    pub origin: String,
    /// The ingress interface of its packets.
    pub from: String,
    /// The egress interfaces, each of which gets a copy.
    pub to: Vec<String>,
    /// Its counters.
    #[serde(flatten)]
    pub counters: CounterFields<GroupCounters>,
}
