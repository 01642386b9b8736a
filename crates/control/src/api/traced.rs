//! Packets that were followed through the router.

use super::DropExplained;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of one packet through the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TracedPacket {
    /// When it came in, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The packet in one line.
    pub packet: String,
    /// The port it came in by.
    pub in_port: String,
    /// The station address of that port.
    #[serde(default)]
    pub in_station: Option<String>,
    /// What it was seen doing, in that order.
    pub stages: Vec<TracedStage>,
    /// Stages there was no room for.
    pub skipped_stages: u64,
    /// `sent`, `consumed`, `dropped`, or `unknown` where it was on its way when the trace ended.
    pub fate: String,
    /// The port it left by.
    pub out_port: Option<String>,
    /// The station address of that port.
    #[serde(default)]
    pub out_station: Option<String>,
    /// Why it was dropped.
    pub drop: Option<DropExplained>,
    /// How long it took.
    pub took_ns: u64,
    /// The frame as it came in, in hexadecimal.
    pub frame: String,
    /// The frame as it left, in hexadecimal.
    pub sent_frame: Option<String>,
}

/// Frames were given to the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Injected {
    /// Packets that came in.
    pub packets: u64,
    /// Frames the router had no room for.
    pub refused_packets: u64,
}

/// A stage of a packet's way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TracedStage {
    /// `received`, `classified`, `queued`, `function`, `host`, `link`, `changed`, or its fate.
    pub stage: String,
    /// How long after it came in.
    pub after_ns: u64,
    /// How long after the stage before.
    pub waited_ns: u64,
    /// What was seen.
    pub text: String,
}
