//! Functions of paths, and translated connections.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The functions of all paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FunctionsReply {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The functions of each path, in order.
    pub functions: Vec<FunctionReply>,
}

/// A function of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FunctionReply {
    /// The path.
    pub path: String,
    /// The function with its options.
    pub function: String,
    /// The declared cost of a packet.
    pub packet_ns: u64,
    /// The declared additional cost of each 1000 bytes.
    pub kilobyte_ns: u64,
    /// The source of the costs: `declared`, or `assumed` until they are measured.
    pub cost_source: String,
    /// Its counters.
    pub counters: Vec<FunctionCounter>,
}

/// A counter of a function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCounter {
    /// Its subject: a rule of a packet filter.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Address and port translation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NatReply {
    /// The most connections; zero without translation.
    pub most: u64,
    /// Present connections.
    pub total: u64,
    /// Connections created so far.
    pub made: u64,
    /// Connections evicted early because the table was full: unanswered, half-open or closing ones, or answered UDP and ICMP.
    pub evicted: u64,
    /// The most connections that one inside host may open at the same time.
    pub per_host: u64,
    /// Connections refused because their host had reached its limit.
    pub limited: u64,
    /// The inside host with the most connections.
    pub busiest: Option<NatHost>,
    /// Packets translated from the inside.
    pub out_packets: u64,
    /// Packets translated to the inside.
    pub back_packets: u64,
    /// ICMP errors translated.
    pub error_packets: u64,
    /// Fragments without ports that were translated.
    pub fragment_packets: u64,
    /// Packets to the router's own outside addresses that were addressed to the router itself.
    pub own_packets: u64,
    /// Packets dropped by translation.
    pub refused_packets: u64,
    /// True if there are more connections than requested.
    pub truncated: bool,
    /// The connections.
    pub connections: Vec<NatConnection>,
}

/// An inside host.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NatHost {
    /// Its address.
    pub address: String,
    /// The connections it has opened.
    pub connections: u64,
}

/// A translated connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NatConnection {
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// `opening`, `established`, `closing`, `udp` or `icmp`.
    pub state: String,
    /// The inside host with its port, or its ICMP identifier.
    pub inside: String,
    /// The router's own address and port that represent the host.
    pub outside: String,
    /// The peer.
    pub peer: String,
    /// True if packets have arrived from both sides.
    pub replied: bool,
    /// True if the peer opened it.
    pub inbound: bool,
    /// The time since the last packet.
    pub idle_ns: u64,
    /// The time until it expires without further packets.
    pub left_ns: u64,
    /// Packets from the inside.
    pub out_packets: u64,
    /// Packets to the inside.
    pub back_packets: u64,
}
