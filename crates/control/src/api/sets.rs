//! Named sets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The named sets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetsReply {
    /// The sets, sorted by name.
    pub sets: Vec<SetReply>,
}

/// A named set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetReply {
    /// Its name.
    pub name: String,
    /// `address` or `port`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The number of elements.
    pub elements: u64,
    /// The largest number of elements.
    pub size: u64,
    /// The memory of the elements.
    pub memory_bytes: u64,
    /// The file of the configuration with elements; null without one.
    pub file: Option<String>,
    /// The time of the last change, since 1970-01-01 UTC.
    pub changed_ns: u64,
    /// The time until the next element expires; null if none does.
    pub next_expiry_ns: Option<u64>,
}

/// The elements of a set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetElements {
    /// The set.
    pub set: SetReply,
    /// Elements in ascending order, as they were added.
    pub elements: Vec<SetElementReply>,
    /// The first element that is not listed, for the parameter `first` of another request; null at the end.
    pub next: Option<String>,
}

/// An element of a set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetElementReply {
    /// A prefix, an address, a port or a range of ports.
    pub element: String,
    /// The time until it expires; null if it stays.
    pub left_ns: Option<u64>,
}

/// The result of a change of elements.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SetEdited {
    /// Added elements.
    pub added: u64,
    /// Elements with another lifetime.
    pub renewed: u64,
    /// Removed elements.
    pub removed: u64,
    /// Elements of the request that changed nothing: the set had them, or had them not, or they were given twice.
    pub unchanged: u64,
    /// Elements of the set after the change.
    pub elements: u64,
}
