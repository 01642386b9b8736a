//! Explains what the router would do with a packet, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of `explain`: the steps of a packet, and its result. No packet was sent, and no counter changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainReply {
    /// The packet in one line.
    pub packet: String,
    /// The ingress port.
    pub in_port: String,
    /// The steps in order.
    pub steps: Vec<ExplainedStep>,
    /// The result: `sent`, `consumed`, `copied` to the interfaces of a group, `dropped`, `waits` for a neighbour, or `collected` with the other
    /// fragments of its packet.
    pub verdict: String,
    /// The result in one sentence.
    pub conclusion: String,
    /// The ingress interface, if it has one.
    pub interface: Option<String>,
    /// The prefix of its route.
    pub prefix: Option<String>,
    /// The address of the next hop.
    pub next_hop: Option<String>,
    /// Its path.
    pub path: Option<String>,
    /// The egress port.
    pub out_port: Option<String>,
    /// Why it is dropped.
    pub drop: Option<DropExplained>,
    /// The fields that differ in the sent frame.
    pub changes: Vec<FieldChange>,
    /// The sent frame, in hexadecimal.
    pub sent_frame: Option<String>,
}

/// A step in the processing of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedStep {
    /// The subject of the step: `station`, `interface`, `header`, `route`, `rule`, `function` and so on.
    pub step: String,
    /// The result of the step.
    pub outcome: StepOutcome,
    /// The finding in words.
    pub text: String,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// The packet continues.
    Pass,
    /// The step stops the packet, or a rule does not match.
    Fail,
    /// The step decides nothing.
    Note,
}

/// A frame field that changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// The field: `ip ttl`, `eth daddr`.
    pub field: String,
    /// Its value before.
    pub before: String,
    /// Its value after.
    pub after: String,
}

/// A drop reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DropExplained {
    /// Its name, the same in metrics and captures.
    pub reason: String,
    /// Its meaning, and its source.
    pub explanation: String,
    /// The remedy, if the packet should not have been dropped.
    pub hint: String,
}

impl From<packet::DropReason> for DropExplained {
    fn from(reason: packet::DropReason) -> DropExplained {
        DropExplained {
            reason: reason.name().to_owned(),
            explanation: reason.explanation().trim().to_owned(),
            hint: reason.hint().to_owned(),
        }
    }
}

impl From<packet::wire::FieldDifference> for FieldChange {
    fn from(d: packet::wire::FieldDifference) -> FieldChange {
        FieldChange { field: d.field.to_owned(), before: d.before, after: d.after }
    }
}
