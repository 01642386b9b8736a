//! An experiment as it is written: one TOML file with its question, its world, what is swept over, and what is claimed.
//!
//! The comments of the fields here are the reference that `docs/simulation.md` has of every key.

use super::agreement::{MOST_TOLERANCE, Published};
use super::parameters::{Parameters, Sweep, Variant};
use serde::Deserialize;
use std::num::NonZeroU16;
use std::ops::Range;
use toml::Spanned;

/// One experiment. What is marked *expression* is a small script over the measured runs (see `expression.rs`).
// Large: a field for each key of an experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The paper it belongs to, in one word: the folder it lies in.
    pub paper: String,
    /// Its name within the paper, like `E9`.
    pub experiment: String,
    /// What it is about, in a line.
    pub title: String,
    /// What one wants to know.
    pub question: String,
    /// How it is found out: what is built, what is varied, what differs from the paper.
    #[serde(default)]
    pub method: String,
    /// Where the result was published: section, table, figure.
    pub published: String,
    /// Parameters that are the same in all runs.
    #[serde(default)]
    pub parameters: Parameters,
    /// Parameters and the values they take; every combination is a run.
    #[serde(default)]
    pub sweep: Sweep,
    /// Parameters that change together, under a name.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Parameters that follow from others: `name = expression`, one after the other, for each run.
    #[serde(default)]
    pub derive: Vec<String>,
    /// A file beside the experiment, with parameters that follow from others before those of `derive`.
    pub derive_file: Option<String>,
    /// Parameters of which each value is a case by itself: claims, tables and plots are of the runs of a case, and stand once for each.
    #[serde(default)]
    pub each: Vec<String>,
    /// What `--quick` and the tests run instead.
    #[serde(default)]
    pub quick: Quick,
    /// What `--real` runs instead, on real packets; nothing of the experiment where it is left out.
    pub real: Option<Quick>,
    /// What runs are of.
    #[serde(default)]
    pub measures: Measures,
    /// The world, as text in which `${name}` is replaced by the parameter.
    pub world: Option<Spanned<String>>,
    /// The world as a file beside the experiment, where several experiments share it.
    pub world_file: Option<String>,
    /// What is claimed.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
    /// Tables of what was measured.
    #[serde(default, rename = "table")]
    pub tables: Vec<Table>,
    /// Plots of what was measured.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

/// Parameters that follow from others, in a file that several experiments share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivations {
    /// As in an experiment.
    pub derive: Vec<String>,
}

/// What runs of an experiment are of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measures {
    /// A world.
    #[default]
    World,
    /// What functions of paths cost a packet on this machine. There is no world, and nothing in virtual time.
    Functions,
    /// The same of queueing schemes.
    Schemes,
    /// A trial of ephemeral state ([`crate::ephemeral`]), which stands where the world does; on real packets the same in a laboratory.
    State,
    /// Such a trial that there is in a laboratory only, and nothing in virtual time.
    Laboratory,
    /// A world twice: on real packets, and beside it, in runs whose parameter `on` is `"model"`, in virtual time. Nothing in virtual time alone.
    Beside,
}

impl Measures {
    /// Whether there is anything to be run without real packets or the machine's own processor.
    pub fn in_virtual_time(self) -> bool {
        matches!(self, Measures::World | Measures::State)
    }
}

/// What is different when there is little time, or on real packets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Parameters that are the same in all runs.
    #[serde(default)]
    pub parameters: Parameters,
    /// Fewer values for what is swept over.
    #[serde(default)]
    pub sweep: Sweep,
    /// How often each run is carried out where that is a measurement, of which medians are told: five times where `[real]` does not say, three with `--quick` where `[quick]` does not.
    pub rounds: Option<NonZeroU16>,
}

impl Document {
    /// How often runs that are measurements are carried out where nobody says: on real packets, and on the machine's own processor.
    pub fn rounds(&self, quick: bool) -> u16 {
        let of = |said: Option<NonZeroU16>, usual: u16| said.map_or(usual, NonZeroU16::get);
        if quick { of(self.quick.rounds, 3) } else { of(self.real.as_ref().and_then(|real| real.rounds), 5) }
    }
}

/// Something that is to be so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name, unique within the experiment.
    pub id: String,
    /// What is claimed, in a sentence.
    pub text: String,
    /// The paper's figure: a number, a list of numbers, or words without digits.
    pub published: Option<Published>,
    /// *Expression* of the parameters: whether these runs decide it; where they do not, nothing is claimed.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// *Expression*: what was measured, as a number, a text, a flag or a list of these.
    pub measured: String,
    /// *Expression*: whether `text` is true; `measured` is our figure, `published` the paper's. With published numbers it is the direction that
    /// remains where they are missed.
    pub holds: Option<String>,
    /// How far `measured` may be from published numbers to match them, as a part of them: at most 0.1, and zero for the same number. Without `holds` and
    /// `tolerance` nothing is claimed: the figure is reported.
    pub tolerance: Option<f64>,
    /// The reason why the published figure is missed, in a sentence.
    pub differs: Option<String>,
    /// Digits behind the point.
    pub digits: Option<usize>,
    /// The unit of what was measured, for people.
    #[serde(default)]
    pub unit: String,
    /// What is different on real packets.
    pub real: Option<OnRealPackets>,
}

impl Claim {
    /// Checks that a verdict can follow from it ([`super::agreement`]).
    ///
    /// # Errors
    ///
    /// The key that is missing or too much, and the correction.
    pub(super) fn check(&self) -> Result<(), String> {
        let numbers = self.published.as_ref().and_then(Published::numbers);
        let of_real = self.real.iter().flat_map(|real| [real.holds.is_some(), real.tolerance.is_some()]);
        let claims = self.holds.is_some() || self.tolerance.is_some() || of_real.into_iter().any(|given| given);
        if let Some(Published::Words(words)) = &self.published
            && claims
            && words.contains(|c: char| c.is_ascii_digit())
        {
            return Err(format!(
                "`published` is \"{words}\": numbers in words cannot be compared. Give a number or a list of numbers with a `tolerance`"
            ));
        }
        if numbers.is_some() && claims && self.tolerance.is_none() {
            return Err("`published` is a number. Say with `tolerance` how far a figure that matches may be off, or leave out `holds` to \
                        report it without a claim"
                .into());
        }
        let tolerances = self.tolerance.into_iter().chain(self.real.as_ref().and_then(|real| real.tolerance));
        for tolerance in tolerances {
            if numbers.is_none() {
                return Err("`tolerance` is for published numbers; say with `holds` what is claimed".into());
            }
            if !(0.0..=MOST_TOLERANCE).contains(&tolerance) {
                return Err(format!(
                    "a `tolerance` is from 0 to {MOST_TOLERANCE}, and {tolerance} is not: with more, different figures would match. A direction \
                     is what `holds` says"
                ));
            }
        }
        Ok(())
    }
}

/// What is different about a claim on real packets. Every report says so.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnRealPackets {
    /// *Expression*, in place of `holds`. Where neither this nor `tolerance` nor `only` is given nothing is claimed of real packets.
    pub holds: Option<String>,
    /// In place of `tolerance`.
    pub tolerance: Option<f64>,
    /// Whether it is claimed of nothing but real packets, by what the claim itself says.
    #[serde(default)]
    pub only: bool,
    /// Why, in a sentence. It stands in place of `differs` there.
    pub why: String,
}

/// A table: a row for each group of runs that are equal in some parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Parameters: runs that agree in all of them make a row. None: all runs make one.
    #[serde(default)]
    pub by: Vec<String>,
    /// *Expression* of the parameters: whether a run belongs into the table.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// The columns behind those of the parameters.
    pub columns: Vec<Column>,
    /// Instead of `by` and of what columns say: rows, an *expression* for each column. They know claims by their names, and as `NAME_holds`
    /// whether what they say is so, be the published number missed or not.
    #[serde(default)]
    pub rows: Vec<Vec<String>>,
    /// Whether it is printed with the verdicts, and not only written.
    #[serde(default)]
    pub printed: bool,
}

/// A column of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head, with its unit.
    pub name: String,
    /// *Expression* over the runs of the row.
    pub value: Option<String>,
    /// Instead of `value`: what was published, one for each row, in order.
    #[serde(default)]
    pub published: Vec<super::parameters::Value>,
    /// Digits behind the point.
    pub digits: Option<usize>,
}

/// A picture: lines of points, or of what a run recorded over time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The name of its files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The figure of the paper that it stands beside.
    #[serde(default)]
    pub published: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Its lines.
    #[serde(rename = "line")]
    pub lines: Vec<Line>,
    /// What was published, to compare with.
    #[serde(default, rename = "reference")]
    pub references: Vec<Reference>,
}

/// An axis.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it counts, with its unit.
    pub label: String,
    /// Where it begins; none: with what there is to show.
    pub min: Option<f64>,
    /// Where it ends; none: with what there is to show.
    pub max: Option<f64>,
    /// Whether equal ratios are equally long.
    #[serde(default)]
    pub log: bool,
    /// What values are multiplied by before they are shown: 0.001 for thousands.
    pub scale: Option<f64>,
}

/// A line, or one for each value of a parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its name; `${name}` is replaced by the parameter.
    pub label: String,
    /// A line for each value of these parameters.
    #[serde(default)]
    pub by: Vec<String>,
    /// *Expression* of the parameters: whether a run belongs to it.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// *Expression* over one run: where its point lies horizontally.
    pub x: Option<String>,
    /// *Expression* over one run: where its point lies vertically.
    pub y: Option<String>,
    /// Instead of `x` and `y`: the name of what one run recorded over time.
    pub series: Option<String>,
}

/// Published points; a single `y` is a line from side to side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Its name.
    pub label: String,
    /// Points.
    #[serde(default)]
    pub points: Vec<(f64, f64)>,
    /// A level.
    pub y: Option<f64>,
}

/// Where in the file the text of the world begins.
pub fn line_of(text: &str, span: &Range<usize>) -> usize {
    text[..span.start.min(text.len())].matches('\n').count() + 1
}
