//! Objectives of packets, and the schemes that policies select for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The objectives of packets, and the schemes that serve them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policies {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The ports that have a policy.
    pub ports: Vec<PortPolicy>,
    /// The objectives of trusted code points.
    pub code_points: Vec<CodePointsReply>,
    /// The interfaces that trust code points, or set an objective.
    pub interfaces: Vec<InterfaceObjective>,
}

/// A port with a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PortPolicy {
    /// The port.
    pub port: String,
    /// Its policy.
    pub policy: String,
    /// The objective in force: `throughput`, `delay`, `power`, `fct`, `tail` or `none`.
    pub objective: String,
    /// The scheme that serves it.
    pub scheme: String,
    /// How often the objective has changed since the port has a policy.
    pub changes: u64,
    /// The time until the objective may change again.
    pub held_ns: u64,
    /// The objectives of the port's packets.
    pub wanted: Vec<ObjectiveReply>,
}

/// An objective at a port with a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ObjectiveReply {
    /// The objective.
    pub objective: String,
    /// The scheme that would serve it.
    pub scheme: String,
    /// Packets with this objective that were offered to the scheme.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
    /// Packets in the last complete window.
    pub window_packets: u64,
    /// Bytes in the last complete window.
    pub window_bytes: u64,
}

/// The code points of an objective.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CodePointsReply {
    /// The objective.
    pub objective: String,
    /// The code points, by name or by number.
    pub code_points: Vec<String>,
}

/// The objective of packets from an interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceObjective {
    /// The interface.
    pub interface: String,
    /// True if the code points of its packets select the objective.
    pub trust: bool,
    /// The objective of other packets.
    pub objective: String,
}

impl PortPolicy {
    /// Returns the share of an objective in the bytes of the last window, in millionths; none without packets.
    pub fn share_ppm(&self, wanted: &ObjectiveReply) -> Option<u64> {
        let total: u64 = self.wanted.iter().map(|wanted| wanted.window_bytes).sum();
        (total > 0).then(|| (u128::from(wanted.window_bytes) * 1_000_000 / u128::from(total)) as u64)
    }
}
