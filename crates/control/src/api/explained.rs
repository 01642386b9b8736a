//! What the router would do with a packet, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the router would do with a packet, and why. Nothing was sent and nothing was counted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The packet in one line.
    pub packet: String,
    /// The port it comes in by.
    pub in_port: String,
    /// One thing after the other.
    pub steps: Vec<ExplainedStep>,
    /// What becomes of it: `sent`, `consumed`, `copied` to the interfaces of a group, `dropped`, `waits` for a neighbour, or is `collected` with the other
    /// fragments of its packet.
    pub verdict: String,
    /// The same in one sentence.
    pub conclusion: String,
    /// The interface it comes in by, where it has one.
    pub interface: Option<String>,
    /// The prefix of the route it goes by.
    pub prefix: Option<String>,
    /// The next hop's address.
    pub next_hop: Option<String>,
    /// The path it takes.
    pub path: Option<String>,
    /// The port it leaves by.
    pub out_port: Option<String>,
    /// Why it is dropped.
    pub drop: Option<DropExplained>,
    /// What is different in the frame that leaves.
    pub changes: Vec<FieldChange>,
    /// The frame that leaves, in hexadecimal.
    pub sent_frame: Option<String>,
}

/// A step on the way of a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedStep {
    /// What is looked at: `station`, `interface`, `header`, `route`, `rule`, `function` and so on.
    pub step: String,
    /// How it went.
    pub outcome: StepOutcome,
    /// What was found.
    pub text: String,
}

/// How a step went.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// The packet goes on.
    Pass,
    /// This is why it does not, or why a rule does not hold.
    Fail,
    /// It decides nothing.
    Note,
}

/// A field of a frame that changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// The field: `ip ttl`, `eth daddr`.
    pub field: String,
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// A reason to drop a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DropExplained {
    /// Its name, the same in metrics and captures.
    pub reason: String,
    /// What it means, and its source.
    pub explanation: String,
    /// What to do where it should not have been dropped.
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

impl From<packet::wire::Difference> for FieldChange {
    fn from(d: packet::wire::Difference) -> FieldChange {
        FieldChange { field: d.field.to_owned(), before: d.before, after: d.after }
    }
}
