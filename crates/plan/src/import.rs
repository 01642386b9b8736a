//! Rules of other programs in the language of this router: for `switchpath filter import`, tests and benchmarks.

pub mod classbench;
mod nftables;

use crate::FilterRule;
use serde::Serialize;
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
    /// Its name in options.
    pub const fn name(self) -> &'static str {
        match self {
            ImportFormat::Nftables => "nftables",
            ImportFormat::Classbench => "classbench",
        }
    }

    /// The format of a text by its first character: JSON is that of nftables.
    pub fn guess(text: &str) -> ImportFormat {
        if text.trim_start().starts_with('{') { ImportFormat::Nftables } else { ImportFormat::Classbench }
    }
}

/// The rules of a text, in order, and a report of the parts that were left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// The rules, each with the place that it comes from.
    pub rules: Vec<(ImportPlace, FilterRule)>,
    /// The parts that were left out.
    pub problems: Vec<ImportProblem>,
    /// Translated parts whose meaning here may surprise.
    pub warnings: Vec<ImportProblem>,
}

/// A place in a text of rules.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum ImportPlace {
    /// A line, and a column in characters; both from 1.
    Line {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
    /// A chain of nftables, or a rule of it.
    Chain {
        /// The family of the table: `ip`, `ip6`, `inet`.
        family: String,
        /// The name of the table.
        table: String,
        /// The name of the chain.
        chain: String,
        /// The handle of the rule.
        #[serde(skip_serializing_if = "Option::is_none")]
        handle: Option<u64>,
    },
}

impl fmt::Display for ImportPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportPlace::Line { line, column } => write!(f, "{line}:{column}"),
            ImportPlace::Chain { family, table, chain, handle } => {
                write!(f, "table {family} {table}, chain {chain}")?;
                handle.map_or(Ok(()), |handle| write!(f, ", rule with handle {handle}"))
            }
        }
    }
}

/// A part of a text that was left out, or that needs the reader's attention.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImportProblem {
    /// Its place.
    #[serde(flatten)]
    pub place: ImportPlace,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for ImportProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl Imported {
    fn problem(&mut self, place: ImportPlace, reason: impl Into<String>) {
        self.problems.push(ImportProblem { place, reason: reason.into() });
    }

    fn warn(&mut self, place: ImportPlace, reason: impl Into<String>) {
        self.warnings.push(ImportProblem { place, reason: reason.into() });
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

/// Checks the rules that hold for any text, for tests and the fuzzer. Returns the number of translated rules.
pub fn exercise(text: &str) -> usize {
    let translated = [ImportFormat::Nftables, ImportFormat::Classbench].map(|format| {
        let Ok(imported) = import(text, format, None) else { return 0 };
        assert!(imported.rules.len() <= MOST_RULES);
        for (place, rule) in &imported.rules {
            let text = rule.to_string();
            assert_eq!(FilterRule::parse(&text).as_ref(), Ok(rule), "{place}: {text}");
        }
        for problem in imported.problems.iter().chain(&imported.warnings) {
            assert!(!problem.reason.is_empty());
            if let ImportPlace::Line { line, column } = problem.place {
                let wrong = line.checked_sub(1).and_then(|line| text.lines().nth(line));
                assert!(wrong.is_some_and(|wrong| (1..=wrong.chars().count()).contains(&column)), "{problem}");
            }
        }
        imported.rules.len()
    });
    translated.iter().sum()
}
