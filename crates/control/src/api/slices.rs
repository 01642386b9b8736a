//! Slices: fast paths of tenants.

use super::CounterFields;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slice::SliceCounters;

/// The slices of the router.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlicesReply {
    /// The time of the answer, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The entries of the table of filters that no slice has in its quota.
    pub free_filters: u64,
    /// The code options that slices may use.
    pub code_options: Vec<CodeOptionReply>,
    /// The slices.
    pub slices: Vec<SliceReply>,
}

/// A code option.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CodeOptionReply {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub summary: String,
    /// Its version.
    pub version: u32,
    /// The bytes of its keys.
    pub key_bytes: u64,
}

/// A slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceReply {
    /// Its name.
    pub name: String,
    /// Its code option.
    pub code: String,
    /// The guest that is its code option; null for one of the router.
    pub guest: Option<SliceGuestReply>,
    /// The results so far of a code option that may replace it; null without one.
    pub double_run: Option<SliceDoubleRunReply>,
    /// `running`, `suspended`, or `failed` if its code option has panicked.
    pub state: String,
    /// Why it has failed; null if it has not.
    pub failure: Option<String>,
    /// The user whose programs may change it, by number; null if only the operator may.
    pub owner_uid: Option<u32>,
    /// The treatment of packets without a filter: `exception` or `drop`.
    pub unmatched: String,
    /// Its quotas.
    pub quota: SliceQuotaReply,
    /// Its filters.
    pub filters: u64,
    /// The entries of the table that they use.
    pub entries: u64,
    /// The fates of its packets.
    pub counters: CounterFields<SliceCounters>,
    /// Its meta-interfaces.
    pub interfaces: Vec<SliceInterfaceReply>,
    /// Its parts of schedulers.
    pub reservations: Vec<SliceReservationReply>,
    /// Its queues.
    pub queues: Vec<SliceQueueReply>,
}

/// A guest that is the code option of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceGuestReply {
    /// The version of its keys, data and memory.
    pub version: u32,
    /// A hash of its module.
    pub hash: String,
}

/// A code option of a slice compared with another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceDoubleRunReply {
    /// Calls of both with the same packet.
    pub compared: u64,
    /// Calls in which they decided otherwise, or made other packets.
    pub differences: u64,
    /// Why the second one failed; null if it has not.
    pub failure: Option<String>,
}

/// The quotas of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceQuotaReply {
    /// Entries of the table of filters.
    pub filters: u64,
    /// Queues.
    pub queues: u64,
    /// Meta-interfaces.
    pub interfaces: u64,
    /// Statistics indices.
    pub stats: u64,
    /// Memory of its code option.
    pub memory_bytes: u64,
    /// The sum of the limits of its queues.
    pub buffers_bytes: u64,
    /// The sum of the rates that it reserves.
    pub rate_bps: u64,
    /// Packets a second for its slow path.
    pub exceptions_pps: u64,
    /// The part of a processor for its parse and format, in millionths; null without a limit.
    pub cpu_ppm: Option<u32>,
    /// The processor time that they have used of it.
    pub cpu_used_ns: Option<u64>,
}

/// A meta-interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceInterfaceReply {
    /// Its number.
    pub number: u16,
    /// Its address and UDP port.
    pub address: String,
}

/// A slice's part of a scheduler.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceReservationReply {
    /// The port.
    pub port: String,
    /// The share of the port that is the scheduler; null for the port itself.
    pub scheduler: Option<String>,
    /// The reserved rate.
    pub rate_bps: Option<u64>,
    /// The rate that is never exceeded.
    pub ceiling_bps: Option<u64>,
    /// The weight; null for 1.
    pub weight: Option<u32>,
}

/// A queue of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceQueueReply {
    /// Its number.
    pub queue: u16,
    /// The port.
    pub port: String,
    /// The share of the port that is its scheduler; null for the port itself.
    pub scheduler: Option<String>,
    /// Its weight.
    pub weight: u32,
    /// Its limit; null for that of the port's queueing scheme.
    pub limit_bytes: Option<u64>,
    /// Packets sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// Packets that wait.
    pub waiting_packets: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// The filters of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceFiltersReply {
    /// The number of all filters of the slice.
    pub total: u64,
    /// The filters, in ascending order of their positions.
    pub filters: Vec<SliceFilterReply>,
}

/// A filter of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceFilterReply {
    /// Its position: the filter at the lowest position that matches decides.
    pub position: u32,
    /// The rest of the line that inserts it.
    pub text: String,
    /// The entries of the table that it uses.
    pub entries: u32,
    /// Packets that it decided about.
    pub hits: u64,
}

/// The changes that make slices as they are: `/v1/slices/batch` takes them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceDefinitions {
    /// One change each, in their order.
    pub lines: Vec<String>,
}

/// The statistics of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceStatsReply {
    /// When they were read, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The indices that have counted packets.
    pub indices: Vec<SliceIndexReply>,
}

/// A statistics index of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceIndexReply {
    /// Its number.
    pub index: u64,
    /// Packets.
    pub packets: u64,
    /// Their bytes, without outer headers.
    pub bytes: u64,
}

/// A part of a slice's memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceMemoryReply {
    /// How often `mem commit` has made changes.
    pub version: u64,
    /// The bytes of changes for the next `mem commit`.
    pub staged_bytes: u64,
    /// The offset of the first byte.
    pub offset: u64,
    /// The size of the whole memory.
    pub size_bytes: u64,
    /// Two hexadecimal digits for each byte.
    pub bytes: String,
}

/// Packets for the slow path of a slice, which the router gives out once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceExceptionsReply {
    /// The packets, the oldest first.
    pub exceptions: Vec<SliceExceptionReply>,
}

/// A packet for the slow path of a slice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceExceptionReply {
    /// Why it left the fast path.
    pub code: String,
    /// The meta-interface by which it arrived.
    pub interface: u16,
    /// Its key, two hexadecimal digits for each byte.
    pub key: String,
    /// The MTU of its next hop, if it exceeds that; null otherwise.
    pub mtu: Option<u16>,
    /// How often the slow path has returned it before.
    pub rounds: u8,
    /// The packet without outer headers, two hexadecimal digits for each byte.
    pub packet: String,
}

/// Packets of a slow path have returned to the fast path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SliceReinjected {
    /// Packets that the fast path processes.
    pub packets: u64,
    /// Packets above the limit of the slice, which were dropped.
    pub limited_packets: u64,
    /// Packets for which the router had no buffer.
    pub lost_packets: u64,
}

/// Changes of slices were made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SlicesEdited {
    /// The number of changes.
    pub changes: u64,
    /// The entries of the table that the filters among them use.
    pub entries: u64,
}
