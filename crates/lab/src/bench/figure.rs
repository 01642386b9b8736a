//! A figure: what was measured, beside its reference and its budget; and the medians of rounds that figures are made of.

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
    pub(crate) fn alone(
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
    pub(crate) fn no_less(
        group: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        budget: f64,
    ) -> Figure {
        let figure = Figure::alone(group, name, value, unit, Some(budget));
        Figure { bound: Bound::Least, met: Some(value >= budget), ..figure }
    }

    /// As [`Figure::beside`], with a ratio that is better the greater it is.
    pub(crate) fn at_least(
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
    pub(crate) fn beside(
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

/// What is being done, told to whoever waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub quiet: bool,
}

impl Progress {
    pub(crate) fn say(self, what: &str) {
        if !self.quiet {
            self.note(what);
        }
    }

    /// What whoever reads the figures has to know as well.
    #[allow(clippy::unused_self)]
    pub(crate) fn note(self, what: &str) {
        eprintln!("{what}");
    }
}

/// How many measurements to take the median of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounds(pub usize);

/// The median; the list must not be empty.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians over rounds of `(value, reference)`: of the values, of the references, of the ratios.
pub(crate) fn medians(rounds: &[(f64, f64)]) -> (f64, f64, f64) {
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
}
