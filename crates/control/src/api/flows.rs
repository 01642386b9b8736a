//! Flows that are reserved while the router runs.

use super::ShareTraffic;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reserved flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowsReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Their number.
    pub total: u64,
    /// The flows by name, as far as they were asked for.
    pub flows: Vec<FlowReply>,
}

/// A reserved flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowReply {
    /// Its name, which is also that of its share.
    pub name: String,
    /// Its packets.
    #[serde(rename = "match")]
    pub matching: String,
    /// The reservation and the promise.
    pub promise: FlowPromiseReply,
    /// The id of its rule in the list `paths`.
    pub rule: u64,
    /// The time until its lease ends; null if it stays.
    pub lease_left_ns: Option<u64>,
    /// True if it survives a restart.
    pub keep: bool,
    /// The processor time of its functions; null unless its path is interleaved.
    pub functions: Option<FlowFunctions>,
    /// The packets of its share.
    pub traffic: ShareTraffic,
}

/// The processor time that the functions of an interleaved path have used for a flow, since it was reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowFunctions {
    /// Packets that have passed all functions.
    pub packets: u64,
    /// The time of the functions.
    pub time_ns: u64,
    /// The mean for a packet; null without packets. Its reservation relies on `cost_ns` of the promise.
    pub mean_ns: Option<u64>,
}

/// The reservation of a flow, and what the router has derived from it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowPromiseReply {
    /// The path whose functions process its packets.
    pub path: String,
    /// Its output port.
    pub port: String,
    /// The share above its own; null for the port.
    pub parent: Option<String>,
    /// The reserved long-term rate, of frames.
    pub rate_bps: u64,
    /// The size of its packets.
    pub packet_bytes: u64,
    /// The bytes that it may send at once.
    pub burst_bytes: u64,
    /// The longest delay that it asked for; null for none.
    pub delay_ns: Option<u64>,
    /// The longest delay of its packets through the router.
    pub bound_ns: u64,
    /// The guaranteed rate of its share, on the line: the long-term rate, or what its delay needs.
    pub share_bps: u64,
    /// The bytes that its queue at the link holds.
    pub queue_bytes: u64,
    /// Its part of the processor at its rate, in millionths.
    pub cpu_ppm: u64,
    /// The time of the path's functions for a packet on which the reservation relies.
    pub cost_ns: u64,
}

/// The result of changes of the reserved flows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowsEdited {
    /// True if nothing was changed: the request was a trial.
    pub trial: bool,
    /// The flows that were reserved, in the order of the batch.
    pub added: Vec<FlowAdded>,
    /// The number of renewed reservations.
    pub renewed: u64,
    /// The number of ended reservations.
    pub removed: u64,
    /// The number of reserved flows afterwards.
    pub total: u64,
    /// True if the workers of all ports have carried out the changes. False if one did not within 1 s.
    pub carried_out: bool,
    /// The flows that do not fit, but are reserved because `admission` is `warn`.
    pub overbooked: Vec<FlowRefusedReply>,
    /// Why the batch does not fit; null if it does. Only a trial says so: another request fails.
    pub refused: Option<FlowRefusedReply>,
}

/// A flow that was reserved.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowAdded {
    /// Its name.
    pub name: String,
    /// The reservation and the promise.
    pub promise: FlowPromiseReply,
}

/// Why a flow does not fit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FlowRefusedReply {
    /// The line of the batch, from 1.
    pub line: u64,
    /// The resource that ran out: `cpu`, `link`, `buffer` or `delay`; null if the line is wrong.
    pub resource: Option<String>,
    /// The demand, and the rest.
    pub reason: String,
    /// The largest reservation that would fit, or a correction.
    pub hint: String,
}
