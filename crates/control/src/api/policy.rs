//! What packets want, and which schemes it brings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What packets want, and what serves it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Policies {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The ports that have a policy.
    pub ports: Vec<PortPolicy>,
    /// What code points ask for where they are trusted.
    pub code_points: Vec<CodePoints>,
    /// The interfaces that trust code points, or say what packets want.
    pub interfaces: Vec<InterfaceWants>,
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
    /// How often another objective came into force since the port has a policy.
    pub changes: u64,
    /// For how long all stays as it is, whatever arrives.
    pub held_ns: u64,
    /// What is wanted.
    pub wanted: Vec<Wanted>,
}

/// An objective at a port with a policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// The objective.
    pub objective: String,
    /// The scheme that would serve it.
    pub scheme: String,
    /// Packets that wanted it when they were offered to the port's scheme.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Packets in the last window that is over.
    pub window_packets: u64,
    /// Bytes of those.
    pub window_bytes: u64,
}

/// The code points of an objective.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CodePoints {
    /// The objective.
    pub objective: String,
    /// The code points, by name or by number.
    pub code_points: Vec<String>,
}

/// What an interface says of the packets that come in by it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceWants {
    /// The interface.
    pub interface: String,
    /// Whether their code points say what they want.
    pub trust: bool,
    /// What they want otherwise.
    pub objective: String,
}

impl PortPolicy {
    /// The part that an objective had of the bytes of the last window, in millionths; nothing where there were none.
    pub fn share_ppm(&self, wanted: &Wanted) -> Option<u64> {
        let total: u64 = self.wanted.iter().map(|wanted| wanted.window_bytes).sum();
        (total > 0).then(|| (u128::from(wanted.window_bytes) * 1_000_000 / u128::from(total)) as u64)
    }
}
