//! Ephemeral state: what packets have left in the router, and what they asked for.

use super::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ephemeral state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Ephemeral {
    /// When it was looked at, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// How long entries live; null where there is no `[state]`.
    pub lifetime_ns: Option<u64>,
    /// Packets that were handed to the worker they belong to.
    pub handed_packets: u64,
    /// Packets that have been handed over and wait for that worker.
    pub waiting_packets: u64,
    /// The stores, all workers' parts together.
    pub stores: Vec<EphemeralStore>,
}

/// A store.
// Large: a field for each value of the answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralStore {
    /// The port it belongs to; null for the central one, and where there is one for all.
    pub port: Option<String>,
    /// Entries there may be.
    pub capacity_entries: u64,
    /// Entries that live.
    pub live_entries: u64,
    /// Entries that have expired and are not free yet.
    pub expired_entries: u64,
    /// Entries created since the store was made.
    pub created_entries: u64,
    /// The most entries there were at a time, those not yet free included.
    pub high_water_entries: u64,
    /// How long the entry freed last had been expired; null where none was.
    pub lag_ns: Option<u64>,
    /// How late expired entries were freed: all that were taken away together as late as the first of them; null where none was.
    pub lags: Option<Latency>,
    /// Entries freed since the store was made.
    pub freed_entries: u64,
    /// Entries that nobody finds any more and that are not free yet, because somebody may be using them.
    pub limbo_entries: u64,
    /// The time that cleaning took besides batches of packets.
    pub cleaning_ns: u64,
    /// Packets executed by the worker that cleans for all workers, besides cleaning (`cleaner = "assist"`); nothing where others clean.
    pub assist_packets: u64,
    /// Look-ups that read two lines of memory, three, four to seven, more. All others read one.
    pub probes: Vec<u64>,
    /// Look-ups that found another computation's entry; counted with `diagnostics`.
    pub collisions: u64,
    /// The memory it may use.
    pub memory_bytes: u64,
    /// What was executed there.
    pub places: Vec<EphemeralPlace>,
}

/// What was executed at one place of a store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralPlace {
    /// `input`, `central` or `output`.
    pub location: String,
    /// Packets that a router before could not execute.
    pub failed_before_packets: u64,
    /// Packets that passed unexecuted because the worker did not keep up (`overload = "pass"`).
    pub overloaded_packets: u64,
    /// Packets that were behind others of their computation that had come later; counted with `diagnostics`.
    pub reordered_packets: u64,
    /// By instruction.
    pub instructions: Vec<EphemeralInstruction>,
    /// Why instructions were not executed.
    pub aborts: Vec<EphemeralAbort>,
    /// By computation, what became of packets that ask for it: of the 32 heard of last, on each worker.
    pub traces: Vec<EphemeralTrace>,
}

/// What became of the packets with one instruction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralInstruction {
    /// The instruction.
    pub name: String,
    /// Packets that went on.
    pub forwarded_packets: u64,
    /// Packets that ended.
    pub dropped_packets: u64,
    /// How long it takes, of batches of packets that all had it, one of 32; null where there was none. `mixed` is an instruction of its own here: batches of
    /// several.
    pub spent: Option<Latency>,
}

/// Packets with one instruction that were not executed for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralAbort {
    /// `full`, `absent_tag`, `underflow`, `bad_opcode`, `bad_length`, `bad_checksum`, `not_enabled`, `rate_limited`, `quota`,
    /// `unauthenticated`, `guest_failed`.
    pub reason: String,
    /// Their instruction; `registered` for all that operators register, `unknown` where there is none of that number.
    pub instruction: String,
    /// Packets.
    pub packets: u64,
}

/// What became of those packets of a computation that ask for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralTrace {
    /// The computation, in hexadecimal.
    pub computation: String,
    /// Packets that were executed and went on.
    pub forwarded_packets: u64,
    /// Packets that were executed and ended.
    pub dropped_packets: u64,
    /// Packets that could not be executed.
    pub aborted_packets: u64,
    /// A hash of their instructions and of what became of each, in hexadecimal: equal where the same happened in the same order.
    pub digest: String,
}

/// What is in the stores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralEntries {
    /// When it was looked at, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Whether there is more than was asked for.
    pub truncated: bool,
    /// Entries that live.
    pub entries: Vec<EphemeralEntry>,
}

/// An entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EphemeralEntry {
    /// The port of its store; null for the central one.
    pub port: Option<String>,
    /// The worker whose part it is in.
    pub worker: u16,
    /// Its tag, in hexadecimal.
    pub tag: String,
    /// Its value.
    pub value: u64,
    /// How long ago it was created.
    pub age_ns: u64,
    /// A hash of the computation that created it, in hexadecimal; with `diagnostics`.
    pub creator: Option<String>,
}
