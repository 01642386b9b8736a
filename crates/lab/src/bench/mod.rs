//! `switchpath bench`: what things cost, as ratios taken side by side in one run.
//!
//! Every figure that has a budget is the median of several rounds in which the thing and its reference take turns, so
//! that a noisy neighbour hits both.

mod aside;
mod ephemeral;
mod forwarding;
mod functions;
pub mod guests;
mod io;
mod link;
mod parts;
mod promises;
mod routes;
mod schemes;
mod sim;
mod workers;

pub use ephemeral::costs as ephemeral_costs;
pub use forwarding::managed as path_costs;
pub use functions::costs as function_costs;
pub use schemes::costs as scheme_costs;

use cli::arguments::Bench;
use cli::output::span;
use comfy_table::Table;
use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The group it belongs to.
    pub group: &'static str,
    /// What was measured.
    pub name: String,
    /// How much.
    pub value: f64,
    /// In what unit.
    pub unit: &'static str,
    /// What it is compared to, in the same unit; none where the figure stands alone.
    pub reference: Option<f64>,
    /// `value / reference`.
    pub ratio: Option<f64>,
    /// What the ratio, or the value where there is no reference, is held to; none where it is only reported.
    pub budget: Option<f64>,
    /// Whether the budget is the most or the least it may be.
    pub bound: Bound,
    /// Whether it is within its budget; none where it is only reported.
    pub met: Option<bool>,
}

impl Figure {
    /// A figure by itself.
    fn alone(
        group: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        budget: Option<f64>,
    ) -> Figure {
        let met = budget.map(|budget| value <= budget);
        Figure { group, name: name.into(), value, unit, reference: None, ratio: None, budget, bound: Bound::Most, met }
    }

    /// A figure by itself that is better the greater it is.
    fn no_less(group: &'static str, name: impl Into<String>, value: f64, unit: &'static str, budget: f64) -> Figure {
        let figure = Figure::alone(group, name, value, unit, Some(budget));
        Figure { bound: Bound::Least, met: Some(value >= budget), ..figure }
    }

    /// As [`Figure::beside`], with a ratio that is better the greater it is.
    fn at_least(
        group: &'static str,
        name: impl Into<String>,
        (value, reference, ratio): (f64, f64, f64),
        unit: &'static str,
        budget: Option<f64>,
    ) -> Figure {
        let met = budget.map(|budget| ratio >= budget);
        let figure = Figure::beside(group, name, (value, reference, ratio), unit, budget);
        Figure { bound: Bound::Least, met, ..figure }
    }

    /// A figure beside its reference. The ratio is passed, because the median of ratios is not the ratio of medians.
    fn beside(
        group: &'static str,
        name: impl Into<String>,
        (value, reference, ratio): (f64, f64, f64),
        unit: &'static str,
        budget: Option<f64>,
    ) -> Figure {
        let met = budget.map(|budget| ratio <= budget);
        let (reference, ratio) = (Some(reference), Some(ratio));
        Figure { group, name: name.into(), value, unit, reference, ratio, budget, bound: Bound::Most, met }
    }
}

/// How a budget is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// No more than it.
    Most,
    /// No less.
    Least,
}

/// A group of figures and how to measure it.
type Group = (&'static str, Measure);

/// How a group is measured.
#[derive(Clone, Copy)]
enum Measure {
    /// In this process alone.
    Here(fn(Rounds) -> Vec<Figure>),
    /// With the help of the kernel, which may refuse.
    WithKernel(fn(Rounds, &Progress) -> anyhow::Result<Vec<Figure>>),
}

/// What is being done, told to whoever waits.
#[derive(Clone, Copy, Debug)]
struct Progress {
    quiet: bool,
}

impl Progress {
    fn say(self, what: &str) {
        if !self.quiet {
            self.note(what);
        }
    }

    /// What whoever reads the figures has to know as well.
    #[allow(clippy::unused_self)]
    fn note(self, what: &str) {
        eprintln!("{what}");
    }
}

/// How many measurements to take the median of.
#[derive(Clone, Copy, Debug)]
struct Rounds(usize);

const GROUPS: &[Group] = &[
    ("forwarding", Measure::Here(forwarding::measure)),
    ("functions", Measure::Here(functions::measure)),
    ("ephemeral", Measure::Here(ephemeral::measure)),
    ("lookup", Measure::Here(parts::lookup)),
    ("routes", Measure::Here(routes::measure)),
    ("schemes", Measure::Here(schemes::measure)),
    ("guests", Measure::Here(guests::measure)),
    ("scheduler", Measure::Here(parts::scheduler)),
    ("sim", Measure::Here(sim::measure)),
    ("promises", Measure::WithKernel(promises::measure)),
    ("workers", Measure::WithKernel(workers::measure)),
    ("io", Measure::WithKernel(io::measure)),
    ("link", Measure::WithKernel(link::measure)),
];

/// Measures one group, or all, and prints the figures as a table or as one JSON array. Answers whether every budget was
/// met.
pub fn run(options: &Bench) -> anyhow::Result<bool> {
    let (group, json) = (options.group.as_deref(), options.json);
    let rounds = Rounds(if options.quick { 1 } else { 15 });
    let chosen: Vec<&Group> = GROUPS.iter().filter(|(name, _)| group.is_none_or(|wanted| wanted == *name)).collect();
    let progress = Progress { quiet: json };
    if cfg!(debug_assertions) {
        progress.note("note: this is a debug build; its figures say nothing about a release build");
    }
    let mut figures = Vec::new();
    let (began, groups) = (::io::clock::now(), chosen.len());
    for (number, (name, measure)) in (1..).zip(chosen) {
        let passed = span(::io::clock::now().since(began).get());
        progress.say(&format!("group {number} of {groups}, {passed} so far: measuring {name} ..."));
        match measure {
            Measure::Here(measure) => figures.extend(measure(rounds)),
            Measure::WithKernel(measure) => match measure(rounds, &progress) {
                Ok(measured) => figures.extend(measured),
                // Not what was asked for above all: the rest is worth something without it.
                Err(error) if group.is_none() => progress.note(&format!("{name} is left out: {error:#}")),
                Err(error) => return Err(error.context(format!("{name} cannot be measured here"))),
            },
        }
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        println!("{}", table(&figures));
    }
    Ok(figures.iter().all(|figure| figure.met != Some(false)))
}

/// Figures for people.
pub fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["GROUP", "FIGURE", "VALUE", "UNIT", "REFERENCE", "RATIO", "BUDGET", "MET"]);
    let number = |value: Option<f64>| value.map_or(String::from("-"), |value| format!("{value:.2}"));
    for f in figures {
        let met = match f.met {
            None => "-",
            Some(true) => "yes",
            Some(false) => "NO",
        };
        table.add_row([
            f.group.to_string(),
            f.name.clone(),
            number(Some(f.value)),
            f.unit.to_string(),
            number(f.reference),
            number(f.ratio),
            f.budget.map_or(String::from("-"), |budget| {
                format!("{} {budget:.2}", if f.bound == Bound::Most { "<=" } else { ">=" })
            }),
            met.to_string(),
        ]);
    }
    table
}

/// The median; the list must not be empty.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians over rounds of `(value, reference)`: of the values, of the references, of the ratios.
fn medians(rounds: &[(f64, f64)]) -> (f64, f64, f64) {
    let value = median(rounds.iter().map(|r| r.0).collect());
    let reference = median(rounds.iter().map(|r| r.1).collect());
    (value, reference, median(rounds.iter().map(|r| r.0 / r.1).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_taken_of_ratios_not_ratios_of_medians() {
        assert_eq!(medians(&[(10.0, 5.0), (30.0, 10.0), (20.0, 20.0)]), (20.0, 10.0, 2.0));
    }

    #[test]
    fn a_budget_is_met_by_the_ratio_where_there_is_one() {
        assert_eq!(Figure::beside("g", "n", (20.0, 10.0, 2.0), "ns", Some(2.5)).met, Some(true));
        assert_eq!(Figure::alone("g", "n", 20.0, "ns", Some(2.5)).met, Some(false));
        assert_eq!(Figure::alone("g", "n", 20.0, "ns", None).met, None);
    }

    #[test]
    fn the_command_line_knows_every_group() {
        let names: Vec<&str> = super::GROUPS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, cli::arguments::BENCH_GROUPS);
    }
}
