//! The format of an experiment: one TOML file with its question, its world, its sweep and its claims.
//!
//! The comments of the fields are the key reference in `docs/operate/simulation.md`.

use super::agreement::{MOST_TOLERANCE, PublishedFigure};
use super::parameters::{Parameters, Sweep, Variant};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::ops::Range;
use toml::Spanned;

/// One experiment. A value marked *expression* is a short script over the measured runs (see `expression.rs`).
// Large: a field for each key of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The paper that it reproduces, in one word; also the name of its folder.
    pub paper: String,
    /// Its name within the paper, like `E9`.
    pub experiment: String,
    /// Its subject, in one line.
    pub title: String,
    /// The question that it answers.
    pub question: String,
    /// The method: the setup, the varied parameters, and the differences from the paper.
    #[serde(default)]
    pub method: String,
    /// The place of the published result: section, table, figure.
    pub published: String,
    /// Parameters that are the same in all runs.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters and their values; every combination is a run.
    #[serde(default)]
    pub sweep: Sweep,
    /// Parameters that change together, under a name.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Parameters computed from others: `name = expression`, evaluated in order for each run.
    #[serde(default)]
    pub derive: Vec<String>,
    /// A file beside the experiment with computed parameters. They are evaluated before those of `derive`.
    pub derive_file: Option<String>,
    /// Parameters whose values are separate cases: the report repeats claims, tables and plots for the runs of each case.
    #[serde(default)]
    pub each: Vec<String>,
    /// Replacements for `--quick` and for the tests.
    #[serde(default)]
    pub quick: RunOverrides,
    /// Replacements for `--real`, on real packets. Without this key `--real` does not run the experiment.
    pub real: Option<RunOverrides>,
    /// The kind of its runs.
    #[serde(default)]
    pub measures: RunKind,
    /// The world, as text. `${name}` is replaced by the parameter.
    pub world: Option<Spanned<String>>,
    /// The world as a file beside the experiment, for a world that several experiments share.
    pub world_file: Option<String>,
    /// Its claims.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// Tables of measured values.
    #[serde(default, rename = "table")]
    pub tables: Vec<TableDefinition>,
    /// Plots of measured values.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

/// Computed parameters, in a file that several experiments share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivations {
    /// As in an experiment.
    pub derive: Vec<String>,
}

/// The kind of an experiment's runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunKind {
    /// A world.
    #[default]
    World,
    /// The cost per packet of path functions on this machine. There is no world and no virtual time.
    Functions,
    /// The cost per packet of queueing schemes on this machine.
    Schemes,
    /// A trial of ephemeral state ([`crate::ephemeral`]) in place of a world. On real packets it runs in a laboratory.
    State,
    /// A trial of route lookup ([`crate::routes`]) in place of a world. With `--real` it measures this machine's processor.
    Routes,
    /// A trial of quanta in batches ([`crate::quantum`]) in place of a world. With `--real` it measures this machine's processor.
    Quanta,
    /// A trial of quanta beside fluid servers ([`crate::fluid`]) in place of a world.
    Fluid,
    /// A trial of the table of filters of slices ([`crate::filters`]) in place of a world.
    Filters,
    /// A count of the lines of code options ([`crate::effort`]) in place of a world.
    Lines,
    /// A world. With `--real` it measures calls of guest functions on this machine's processor instead.
    Calls,
    /// A trial of ephemeral state that runs only in a laboratory, not in virtual time.
    Laboratory,
    /// The packet rates of a fast path of slices and of a slow path. They are measured on real packets only.
    Forwarders,
    /// A world that runs twice: on real packets, and in virtual time in the runs whose parameter `on` is `"model"`. It does not run in virtual time
    /// alone.
    Beside,
}

impl RunKind {
    /// True if it can run without real packets and without measuring this machine's processor.
    pub fn in_virtual_time(self) -> bool {
        !matches!(
            self,
            RunKind::Functions | RunKind::Schemes | RunKind::Laboratory | RunKind::Forwarders | RunKind::Beside
        )
    }
}

/// Replacements for short runs, or for runs on real packets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunOverrides {
    /// Parameters that are the same in all runs.
    #[serde(default)]
    pub parameters: Parameters,
    /// Fewer values for swept parameters.
    #[serde(default)]
    pub sweep: Sweep,
    /// How often each measurement is repeated; its median is reported. The default is 5 in `[real]` and 3 in `[quick]`.
    pub rounds: Option<NonZeroU16>,
}

impl Document {
    /// The number of repetitions of a measurement, on real packets or on the machine's own processor.
    pub fn rounds(&self, quick: bool) -> u16 {
        let of = |said: Option<NonZeroU16>, usual: u16| said.map_or(usual, NonZeroU16::get);
        if quick { of(self.quick.rounds, 3) } else { of(self.real.as_ref().and_then(|real| real.rounds), 5) }
    }
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name, unique within the experiment.
    pub id: String,
    /// The claim in one sentence.
    pub text: String,
    /// The paper's figure: a number, a list of numbers, or words without digits.
    pub published: Option<PublishedFigure>,
    /// *Expression* of the parameters: true if these runs can decide the claim. If false, the claim is not judged.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// *Expression*: the measured figure, as a number, a text, a flag or a list of these.
    pub measured: String,
    /// *Expression*: true if `text` is true. `measured` is our figure, `published` the paper's. With published numbers it states the direction that
    /// must hold even if the numbers are missed.
    pub holds: Option<String>,
    /// The largest relative difference between `measured` and the published numbers that still matches: from 0 (equal) to 0.1. Without `holds` and
    /// `tolerance` there is no claim, and the figure is only reported.
    pub tolerance: Option<f64>,
    /// The reason why our figure misses the published one, in a sentence.
    pub differs: Option<String>,
    /// Number of decimals.
    pub digits: Option<usize>,
    /// The unit of the measured figure, for display.
    #[serde(default)]
    pub unit: String,
    /// Changes for real packets.
    pub real: Option<OnRealPackets>,
}

impl Claim {
    /// Checks that a verdict can follow from the claim ([`super::agreement`]).
    ///
    /// # Errors
    ///
    /// A key is missing or not allowed; the message has the correction.
    pub(super) fn check(&self) -> Result<(), String> {
        let numbers = self.published.as_ref().and_then(PublishedFigure::numbers);
        let of_real = self.real.iter().flat_map(|real| [real.holds.is_some(), real.tolerance.is_some()]);
        let claims = self.holds.is_some() || self.tolerance.is_some() || of_real.into_iter().any(|given| given);
        if let Some(PublishedFigure::Words(words)) = &self.published
            && claims
            && words.contains(|c: char| c.is_ascii_digit())
        {
            return Err(format!(
                "`published` is \"{words}\": numbers in words cannot be compared. Give a number or a list of numbers with a `tolerance`"
            ));
        }
        if numbers.is_some() && claims && self.tolerance.is_none() {
            return Err(
                "`published` is a number. Give the largest deviation of a matching figure as `tolerance`, or remove \
                 `holds` to report it without a claim"
                    .into(),
            );
        }
        let tolerances = self.tolerance.into_iter().chain(self.real.as_ref().and_then(|real| real.tolerance));
        for tolerance in tolerances {
            if numbers.is_none() {
                return Err("`tolerance` is for published numbers; write the claim as `holds`".into());
            }
            if !(0.0..=MOST_TOLERANCE).contains(&tolerance) {
                return Err(format!(
                    "`tolerance` is {tolerance}, not from 0 to {MOST_TOLERANCE}: with more, different figures would match. \
                     Write a direction as `holds`"
                ));
            }
        }
        Ok(())
    }
}

/// The changes of a claim for real packets. Every report lists them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnRealPackets {
    /// *Expression*, in place of `holds`. Without this key, `tolerance` and `only` there is no claim about real packets.
    pub holds: Option<String>,
    /// In place of `tolerance`.
    pub tolerance: Option<f64>,
    /// If true, the claim is about real packets only, with its own `holds` and `tolerance`.
    #[serde(default)]
    pub only: bool,
    /// The reason, in a sentence. It replaces `differs` on real packets.
    pub why: String,
}

/// A table: one row for each group of runs that agree in some parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDefinition {
    /// Its title.
    pub title: String,
    /// Parameters: runs that agree in all of them form a row. Without any, all runs form one row.
    #[serde(default)]
    pub by: Vec<String>,
    /// *Expression* of the parameters: true if a run belongs to the table.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// The columns after those of the parameters.
    pub columns: Vec<Column>,
    /// Rows in place of `by` and of column values: an *expression* for each column. Claims are variables: `NAME` is the measured figure, and
    /// `NAME_holds` is true if the claim matches or its direction is reproduced.
    #[serde(default)]
    pub rows: Vec<Vec<String>>,
    /// If true, the table is printed with the verdicts, not only written to a file.
    #[serde(default)]
    pub printed: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its heading, with its unit.
    pub name: String,
    /// *Expression* over the runs of the row.
    pub value: Option<String>,
    /// In place of `value`: the published figures, one for each row, in order.
    #[serde(default)]
    pub published: Vec<super::parameters::ParameterValue>,
    /// Number of decimals.
    pub digits: Option<usize>,
}

/// A plot: curves of points, or of time series of runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The name of its files.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The figure of the paper to compare with.
    #[serde(default)]
    pub published: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Its curves.
    #[serde(rename = "line")]
    pub lines: Vec<Line>,
    /// Published points or levels, to compare with.
    #[serde(default, rename = "reference")]
    pub references: Vec<Reference>,
}

/// An axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Its quantity, with its unit.
    pub label: String,
    /// Its lower end; by default the smallest value.
    pub min: Option<f64>,
    /// Its upper end; by default the largest value.
    pub max: Option<f64>,
    /// If true, the axis is logarithmic.
    #[serde(default)]
    pub log: bool,
    /// A factor for all values: 0.001 shows thousands.
    pub scale: Option<f64>,
}

/// A curve, or one for each value of a parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its name; `${name}` is replaced by the parameter.
    pub label: String,
    /// A curve for each value of these parameters.
    #[serde(default)]
    pub by: Vec<String>,
    /// *Expression* of the parameters: true if a run belongs to the curve.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// *Expression* over one run: the horizontal position of its point.
    pub x: Option<String>,
    /// *Expression* over one run: the vertical position of its point.
    pub y: Option<String>,
    /// In place of `x` and `y`: the name of a time series of one run.
    pub series: Option<String>,
}

/// Published points, or a level drawn as a horizontal line.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    pub label: String,
    /// Its points.
    #[serde(default)]
    pub points: Vec<(f64, f64)>,
    /// Its level.
    pub y: Option<f64>,
}

/// The line of the file at which the world's text begins.
pub fn line_of(text: &str, span: &Range<usize>) -> usize {
    text[..span.start.min(text.len())].matches('\n').count() + 1
}
