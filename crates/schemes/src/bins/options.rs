//! What orders of queues can be told: how many queues there are, what has one, and what each may send.

use crate::aqm::LIMIT;
use units::declare::{OptionDeclaration, Unit};

/// How many queues flows are hashed to.
pub(crate) const FLOWS: OptionDeclaration = OptionDeclaration {
    name: "flows",
    unit: Unit::Count,
    default: "1024",
    least: 1,
    most: 1 << 17,
    doc: "queues that flows are spread over by their hash",
};

/// Packets of all queues.
pub(crate) const TOGETHER: OptionDeclaration = OptionDeclaration {
    default: "10240",
    doc: "the most packets that wait in all queues; beyond that the longest loses half of its own, 64 at most, from its front",
    ..LIMIT
};

/// Bytes of a turn.
pub(crate) const QUANTUM: OptionDeclaration = OptionDeclaration {
    name: "quantum",
    unit: Unit::Size,
    default: "1514b",
    least: 300,
    most: 1 << 20,
    doc: "bytes that a queue may send in its turn",
};

/// What classes count for.
pub(crate) const WEIGHTS: OptionDeclaration = OptionDeclaration {
    name: "weights",
    unit: Unit::Weights,
    default: "1",
    least: 1,
    most: u64::MAX,
    doc: "what a queue of class 0, 1, 2 and so on counts for, the last for those above too; a flow has the class of the packet that began it",
};

/// What has a queue.
pub(crate) const BY: OptionDeclaration = OptionDeclaration {
    name: "by",
    unit: Unit::Choice(&["flow", "class"]),
    default: "flow",
    least: 0,
    most: 1,
    doc: "what has a queue: each flow, or each class of the paths",
};
