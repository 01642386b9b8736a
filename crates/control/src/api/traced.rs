//! Reports about traced packets.

use super::DropExplained;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of one packet through the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TracedPacket {
    /// The time of its arrival, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The packet in one line.
    pub packet: String,
    /// The ingress port.
    pub in_port: String,
    /// The MAC address of that port.
    #[serde(default)]
    pub in_station: Option<String>,
    /// Its stages in order.
    pub stages: Vec<TracedStage>,
    /// Stages that were not recorded for lack of space.
    pub skipped_stages: u64,
    /// `sent`, `consumed`, `dropped`, or `unknown` if the trace ended before.
    pub fate: String,
    /// The egress port.
    pub out_port: Option<String>,
    /// The MAC address of that port.
    #[serde(default)]
    pub out_station: Option<String>,
    /// Why it was dropped.
    pub drop: Option<DropExplained>,
    /// The time from its arrival to its fate.
    pub took_ns: u64,
    /// The received frame, in hexadecimal.
    pub frame: String,
    /// The sent frame, in hexadecimal.
    pub sent_frame: Option<String>,
}

/// The result of injecting frames.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Injected {
    /// Packets accepted.
    pub packets: u64,
    /// Frames refused because the router was full.
    pub refused_packets: u64,
}

/// A stage of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TracedStage {
    /// `received`, `classified`, `queued`, `function`, `host`, `link`, `changed`, or its fate.
    pub stage: String,
    /// The time since its arrival.
    pub after_ns: u64,
    /// The time since the previous stage.
    pub waited_ns: u64,
    /// The stage in words.
    pub text: String,
}
