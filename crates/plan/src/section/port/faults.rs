//! `[port.NAME.faults]`: fault injection on the frames of a port, for tests.

use crate::diagnostic::Report;
use crate::document::Section;
use crate::key::{Key, Kind, key};
use serde::Serialize;
use std::fmt;

pub(crate) const FAULTS: &[Key] = &[
    key("loss", Kind::Probability, "0.0", "0.01", "The fraction of frames that is lost."),
    key("corrupt", Kind::Probability, "0.0", "0.001", "The fraction of frames that gets a bit error."),
    key("duplicate", Kind::Probability, "0.0", "0.001", "The fraction of frames that is duplicated."),
    key("truncate", Kind::Probability, "0.0", "0.001", "The fraction of frames that is truncated."),
    key(
        "seed",
        Kind::Integer { least: 0, most: i64::MAX as u64 },
        "1",
        "1",
        "The seed of the random choices. Equal seeds give equal faults.",
    ),
];

/// Fault injection on the frames of a port. Probabilities are in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FaultsPlan {
    /// Frames lost, ppm.
    pub loss: u32,
    /// Frames with a flipped bit, ppm.
    pub corrupt: u32,
    /// Frames duplicated, ppm.
    pub duplicate: u32,
    /// Frames truncated, ppm.
    pub truncate: u32,
    /// The seed of the random choices.
    pub seed: u64,
}

impl fmt::Display for FaultsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |ppm: u32| f64::from(ppm) / 1e6;
        write!(f, "loss {} corrupt {} ", part(self.loss), part(self.corrupt))?;
        write!(f, "duplicate {} truncate {} seed {}", part(self.duplicate), part(self.truncate), self.seed)
    }
}

pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>) -> Option<FaultsPlan> {
    let node = section.node("faults")?;
    let section = node.section(report, FAULTS, "faults = { loss = 0.01 }")?;
    let mut part = |name| section.probability(report, name);
    let (loss, corrupt, duplicate, truncate) = (part("loss"), part("corrupt"), part("duplicate"), part("truncate"));
    let seed = section.integer(report, "seed").unwrap_or(1);
    if loss == 1_000_000 {
        report.warning(section.span.clone(), section.path, || {
            ("every frame is lost".to_string(), "give a loss below 1".to_string())
        });
    }
    Some(FaultsPlan { loss, corrupt, duplicate, truncate, seed })
}
