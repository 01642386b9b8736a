//! Functions of paths, and the connections that one of them translates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The functions of all paths.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Functions {
    /// When the counters were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The functions, path by path in their order.
    pub functions: Vec<Function>,
}

/// A function of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// The path.
    pub path: String,
    /// The function with its options.
    pub function: String,
    /// What it declares to cost a packet.
    pub packet_ns: u64,
    /// What it declares to cost besides for each 1000 bytes.
    pub kilobyte_ns: u64,
    /// Whether that is `declared`, or `assumed` as long as nothing is measured.
    pub cost_source: String,
    /// What it has counted.
    pub counters: Vec<FunctionCounter>,
}

/// Something a function counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCounter {
    /// What: a rule of a packet filter.
    pub name: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Address and port translation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Nat {
    /// Connections there may be; zero where nothing is translated.
    pub most: u64,
    /// Connections there are.
    pub total: u64,
    /// Connections ever made.
    pub made: u64,
    /// Connections evicted before their time because there were too many: unanswered, half-open or closing ones, or answered UDP and ICMP.
    pub evicted: u64,
    /// Connections that one host inside may have begun at a time.
    pub per_host: u64,
    /// Connections refused because their host had begun so many.
    pub limited: u64,
    /// The host inside that has begun the most connections.
    pub busiest: Option<NatHost>,
    /// Packets from the inside that were translated.
    pub out_packets: u64,
    /// Packets to the inside.
    pub back_packets: u64,
    /// ICMP errors translated.
    pub error_packets: u64,
    /// Fragments translated that have no ports.
    pub fragment_packets: u64,
    /// Packets to the router's own addresses on the outside that were for the router.
    pub own_packets: u64,
    /// Packets dropped by translation.
    pub refused_packets: u64,
    /// Whether there are more connections than were asked for.
    pub truncated: bool,
    /// The connections.
    pub connections: Vec<NatConnection>,
}

/// A host inside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NatHost {
    /// Its address.
    pub address: String,
    /// Connections it has begun.
    pub connections: u64,
}

/// A translated connection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct NatConnection {
    /// `tcp`, `udp` or `icmp`.
    pub protocol: String,
    /// `opening`, `established`, `closing`, `udp` or `icmp`.
    pub state: String,
    /// The host inside, with its port or, of ICMP, identifier.
    pub inside: String,
    /// The address of ours and the port that stand for it.
    pub outside: String,
    /// The other side.
    pub peer: String,
    /// Whether both sides have been heard.
    pub replied: bool,
    /// Whether the other side began it.
    pub inbound: bool,
    /// How long nothing has come.
    pub idle_ns: u64,
    /// When it is forgotten if nothing comes.
    pub left_ns: u64,
    /// Packets from the inside.
    pub out_packets: u64,
    /// Packets to the inside.
    pub back_packets: u64,
}
