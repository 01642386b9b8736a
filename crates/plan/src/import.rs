//! Rules of other programs in the language of this router: for `switchpath filter import`, tests and benchmarks.

pub mod classbench;
mod nftables;

use crate::FilterRule;
use std::fmt;

/// Limit of imported rules, that of a filter.
const MOST_RULES: usize = 1_000_000;

/// A format of rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImportFormat {
    /// The output of `nft -j list ruleset`.
    Nftables,
    /// The filter sets of ClassBench (Taylor and Turner, 2004), one rule a line.
    Classbench,
}

impl ImportFormat {
    /// The format of a text by its first character: JSON is that of nftables.
    pub fn guess(text: &str) -> ImportFormat {
        if text.trim_start().starts_with('{') { ImportFormat::Nftables } else { ImportFormat::Classbench }
    }
}

/// The rules of a text, in order, and a report of the parts that were left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// The rules.
    pub rules: Vec<FilterRule>,
    /// The parts that were left out.
    pub problems: Vec<ImportProblem>,
}

/// A part of a text that was left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportProblem {
    /// Its place: a line, or a table, chain and rule.
    pub place: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for ImportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl Imported {
    fn problem(&mut self, place: impl fmt::Display, reason: impl Into<String>) {
        self.problems.push(ImportProblem { place: place.to_string(), reason: reason.into() });
    }
}

/// Translates the rules of a text. The error says why there is none at all. `chain` selects a base chain of nftables; without it, the only one of
/// type `filter`, or else the first one of the hook `forward`.
pub fn import(text: &str, format: ImportFormat, chain: Option<&str>) -> Result<Imported, String> {
    match format {
        ImportFormat::Nftables => nftables::import(text, chain),
        ImportFormat::Classbench => Ok(classbench::import(text)),
    }
}
