//! Reports about ephemeral state: its stores, and the instructions executed on them.

use super::LatencyReply;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ephemeral state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ephemeral {
    /// The time of the report, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// The lifetime of entries; null without `[state]`.
    pub lifetime_ns: Option<u64>,
    /// Packets handed off to the worker that owns their entries.
    pub handed_packets: u64,
    /// Packets in the handoff queues of those workers.
    pub waiting_packets: u64,
    /// The stores, summed over all workers.
    pub stores: Vec<EphemeralStore>,
}

/// A store.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralStore {
    /// Its port; null for the central store, or if all ports share a store.
    pub port: Option<String>,
    /// The most entries it can hold.
    pub capacity_entries: u64,
    /// Entries that have not expired.
    pub live_entries: u64,
    /// Entries that have expired and are not free yet.
    pub expired_entries: u64,
    /// Entries created since the store was made.
    pub created_entries: u64,
    /// The largest number of entries, including those not yet free.
    pub high_water_entries: u64,
    /// How late the latest freed entry was freed after its expiry; null if none was freed.
    pub lag_ns: Option<u64>,
    /// How late expired entries were freed. Entries freed together count with the delay of the first one. Null if none was freed.
    pub lags: Option<LatencyReply>,
    /// Entries freed since the store was made.
    pub freed_entries: u64,
    /// Entries removed but not free yet, because another thread may still read them.
    pub limbo_entries: u64,
    /// The time spent on cleaning, outside of packet batches.
    pub cleaning_ns: u64,
    /// Packets executed by the worker that cleans for all workers (`cleaner = "assist"`); 0 with other cleaners.
    pub assist_packets: u64,
    /// Look-ups that read two lines of memory, three, four to seven, or more. All others read one.
    pub probes: Vec<u64>,
    /// Look-ups that found an entry of another computation; counted with `diagnostics`.
    pub collisions: u64,
    /// The most memory it can use.
    pub memory_bytes: u64,
    /// The places at which packets use it.
    pub places: Vec<EphemeralPlace>,
}

/// The instructions executed at one place of a store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralPlace {
    /// `input`, `central` or `output`.
    pub location: String,
    /// Packets that an earlier router could not execute.
    pub failed_before_packets: u64,
    /// Packets that passed unexecuted because the worker was overloaded (`overload = "pass"`).
    pub overloaded_packets: u64,
    /// Packets overtaken by later ones of their computation; counted with `diagnostics`.
    pub reordered_packets: u64,
    /// Executed packets by instruction.
    pub instructions: Vec<EphemeralInstruction>,
    /// Unexecuted packets by reason and instruction.
    pub aborts: Vec<EphemeralAbort>,
    /// Traced packets by computation: the latest 32 computations of each worker.
    pub traces: Vec<EphemeralTrace>,
}

/// The packets with one instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralInstruction {
    /// The instruction.
    pub name: String,
    /// Packets forwarded.
    pub forwarded_packets: u64,
    /// Packets dropped.
    pub dropped_packets: u64,
    /// The execution time, sampled in one of 32 batches in which all packets have this instruction; null without samples. `mixed` stands for batches
    /// with different instructions.
    pub spent: Option<LatencyReply>,
}

/// Packets with one instruction that were not executed for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralAbort {
    /// `full`, `absent_tag`, `underflow`, `bad_opcode`, `bad_length`, `bad_checksum`, `not_enabled`, `rate_limited`, `quota`,
    /// `unauthenticated`, `guest_failed`.
    pub reason: String,
    /// Their instruction; `registered` for those that operators register, `unknown` for an unknown number.
    pub instruction: String,
    /// Packets.
    pub packets: u64,
}

/// The traced packets of a computation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralTrace {
    /// The computation, in hexadecimal.
    pub computation: String,
    /// Packets executed and forwarded.
    pub forwarded_packets: u64,
    /// Packets executed and dropped.
    pub dropped_packets: u64,
    /// Packets that could not be executed.
    pub aborted_packets: u64,
    /// A hash of their instructions and results, in hexadecimal. Equal hashes mean equal results in the same order.
    pub digest: String,
}

/// The entries in the stores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralEntries {
    /// The time of the report, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// True if there are more entries than requested.
    pub truncated: bool,
    /// Entries that have not expired.
    pub entries: Vec<EphemeralEntry>,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralEntry {
    /// The port of its store; null for the central one.
    pub port: Option<String>,
    /// The worker that owns it.
    pub worker: u16,
    /// Its tag, in hexadecimal.
    pub tag: String,
    /// Its value.
    pub value: u64,
    /// The time since its creation.
    pub age_ns: u64,
    /// A hash of the computation that created it, in hexadecimal; with `diagnostics`.
    pub creator: Option<String>,
}
