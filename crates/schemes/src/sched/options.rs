//! The options of orders of queues: the number of queues, their key, and their parts.

use crate::aqm::LIMIT;
use units::declare::{OptionDeclaration, Unit};

/// The number of queues.
pub(crate) const FLOWS: OptionDeclaration = OptionDeclaration {
    name: "flows",
    unit: Unit::Count,
    default: "1024",
    least: 1,
    most: 1 << 17,
    doc: "the number of queues to which flows are hashed",
};

/// The packets of all queues.
pub(crate) const TOGETHER: OptionDeclaration = OptionDeclaration {
    default: "10240",
    doc: "the most packets in all queues together; beyond that the longest queue loses half of its packets, at most 64, from its front",
    ..LIMIT
};

/// The bytes of a turn.
pub(crate) const QUANTUM: OptionDeclaration = OptionDeclaration {
    name: "quantum",
    unit: Unit::Size,
    default: "1514b",
    least: 300,
    most: 1 << 20,
    doc: "the bytes that a queue may send in a turn",
};

/// The weights of classes.
pub(crate) const WEIGHTS: OptionDeclaration = OptionDeclaration {
    name: "weights",
    unit: Unit::Weights,
    default: "1",
    least: 1,
    most: u64::MAX,
    doc: "the weights of queues of class 0, 1, 2 and so on, the last also for higher classes; a flow has the class of its first packet",
};

/// The key of a queue.
pub(crate) const BY: OptionDeclaration = OptionDeclaration {
    name: "by",
    unit: Unit::Choice(&["flow", "class"]),
    default: "flow",
    least: 0,
    most: 1,
    doc: "the key of a queue: the flow, or the class of the path",
};
