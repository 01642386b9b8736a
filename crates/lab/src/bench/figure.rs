//! A figure: a measured value beside its reference and its budget. Also the medians of rounds.

use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct BenchFigure {
    /// The group it belongs to.
    pub group: &'static str,
    /// The measured quantity.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of the value.
    pub unit: &'static str,
    /// The value it is compared to, in the same unit. `None` for a figure without reference.
    pub reference: Option<f64>,
    /// `value / reference`.
    pub ratio: Option<f64>,
    /// The bound for the ratio, or for the value if there is no reference. `None` if the figure is only reported.
    pub budget: Option<f64>,
    /// Says if the budget is an upper or a lower bound.
    pub bound: BudgetBound,
    /// True if the figure is within its budget. `None` if it is only reported.
    pub met: Option<bool>,
}

impl BenchFigure {
    /// A figure without reference.
    pub(crate) fn alone(
        group: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        budget: Option<f64>,
    ) -> BenchFigure {
        let met = budget.map(|budget| value <= budget);
        BenchFigure {
            group,
            name: name.into(),
            value,
            unit,
            reference: None,
            ratio: None,
            budget,
            bound: BudgetBound::Most,
            met,
        }
    }

    /// A figure without reference; greater is better.
    pub(crate) fn no_less(
        group: &'static str,
        name: impl Into<String>,
        value: f64,
        unit: &'static str,
        budget: f64,
    ) -> BenchFigure {
        let figure = BenchFigure::alone(group, name, value, unit, Some(budget));
        BenchFigure { bound: BudgetBound::Least, met: Some(value >= budget), ..figure }
    }

    /// As [`BenchFigure::against`], but a greater ratio is better.
    pub(crate) fn at_least(
        group: &'static str,
        name: impl Into<String>,
        (value, reference, ratio): (f64, f64, f64),
        unit: &'static str,
        budget: Option<f64>,
    ) -> BenchFigure {
        let met = budget.map(|budget| ratio >= budget);
        let figure = BenchFigure::against(group, name, (value, reference, ratio), unit, budget);
        BenchFigure { bound: BudgetBound::Least, met, ..figure }
    }

    /// A figure with its reference. The caller passes the ratio, because the median of ratios is not the ratio of medians.
    pub(crate) fn against(
        group: &'static str,
        name: impl Into<String>,
        (value, reference, ratio): (f64, f64, f64),
        unit: &'static str,
        budget: Option<f64>,
    ) -> BenchFigure {
        let met = budget.map(|budget| ratio <= budget);
        let (reference, ratio) = (Some(reference), Some(ratio));
        BenchFigure { group, name: name.into(), value, unit, reference, ratio, budget, bound: BudgetBound::Most, met }
    }
}

/// The direction of a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BudgetBound {
    /// An upper bound.
    Most,
    /// A lower bound.
    Least,
}

/// Prints the progress of a measurement on the terminal.
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

    /// Prints a remark that readers of the figures need.
    #[allow(clippy::unused_self)]
    pub(crate) fn note(self, what: &str) {
        eprintln!("{what}");
    }
}

/// The number of measurements of which the median is taken.
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
    fn median_of_ratios_is_not_ratio_of_medians() {
        assert_eq!(medians(&[(10.0, 5.0), (30.0, 10.0), (20.0, 20.0)]), (20.0, 10.0, 2.0));
    }

    #[test]
    fn budget_limits_the_ratio_of_a_figure_with_reference() {
        assert_eq!(BenchFigure::against("g", "n", (20.0, 10.0, 2.0), "ns", Some(2.5)).met, Some(true));
        assert_eq!(BenchFigure::alone("g", "n", 20.0, "ns", Some(2.5)).met, Some(false));
        assert_eq!(BenchFigure::alone("g", "n", 20.0, "ns", None).met, None);
    }
}
