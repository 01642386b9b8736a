//! The keys of `faults` of a port.

use super::{Key, Kind, key};

pub(crate) const FAULTS: &[Key] = &[
    key("loss", Kind::Probability, "0.0", "0.01", "The part of the frames that is lost."),
    key("corrupt", Kind::Probability, "0.0", "0.001", "The part of the frames that gets a wrong bit."),
    key("duplicate", Kind::Probability, "0.0", "0.001", "The part of the frames that comes twice."),
    key("truncate", Kind::Probability, "0.0", "0.001", "The part of the frames that is cut short."),
    key(
        "seed",
        Kind::Integer { least: 0, most: i64::MAX as u64 },
        "1",
        "1",
        "The seed of the random choices: equal seeds give equal faults.",
    ),
];
