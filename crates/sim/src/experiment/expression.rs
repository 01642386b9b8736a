//! The expressions of claims, tables and plots over the runs of an experiment. Their syntax is Python's, as implemented by
//! [minijinja](https://docs.rs/minijinja), with these functions:
//!
//! | function | gives |
//! |---|---|
//! | `get(name, p=v)` | a measured value of the one run with these parameters |
//! | `all(name, p=v)` | the list of that value over all runs with these parameters, in their order; `*` in the name matches any text |
//! | `total(name, p=v)` | the sum of that list |
//! | `totals(name, p=v)` | the list of the sums of each run, for a name with `*` |
//! | `every(name, from, to, p=v)` | the mean time between the rises of a series of the one run, from second `from` until `to` |
//! | `between(name, from, to, p=v)` | the values of a series of the one run, from second `from` until `to` |
//! | `pooled(name, p=v)` | the samples under that name of all runs with these parameters, in one list |
//! | `quantile(list, part)` | the element at index `floor(part n)` of the sorted list |
//! | `count(list)` | the number of elements |
//! | `sums(name, from, to, p=v)` | the list of the sums of `between` for all runs with these parameters |
//! | `compared(list, other)` | the quotient of the means of two lists of measurements: lower end of the 95 % interval, estimate, upper end |
//! | `ratios(list, other)` | the quotients of two lists, element by element |
//! | `min(list)`, `max(list)`, `sum(list)`, `mean(list)` | of the numbers |
//! | `spread(list)` | the maximum minus the minimum |
//! | `rises(list, slack)` | true if no element is more than `slack` below the previous one |
//! | `linear(x, y)` | the part of the variance of `y` that a straight line over `x` explains: R squared |
//! | `near(a, b, part)` | true if `a` differs from `b` by at most that part of `b` |
//! | `round(a, digits)` | rounded to this number of decimals |
//! | `reversed(list)` | the list in reverse order |
//! | `trace_rate(trace, bytes, seconds)` | bit rate of the first seconds of a trace, with one packet of `bytes` at each opportunity; 0 without the file |
//! | `trace_spread(trace, seconds, part)` | standard deviation of that rate over intervals of `part` seconds, divided by its mean; 0 without the file |
//! | `time("30us")` | the nanoseconds of a time as configurations write it |
//!
//! Also available are `+ - * / ** ( )`, `< <= == != >= >`, `and`, `or`, `not`, `a if condition else b`, and lists `[a, b]`. Division always gives a
//! fraction. The parameters of a single run or row are variables.

use super::data::DataFiles;
use super::lookup::{self, Numbers, SharedSelection, dynamic_of_value, expression_error};
use super::parameters::Parameters;
use super::runner::CompletedRun;
use super::synthetic::SyntheticWorld;
use minijinja::value::{Value as Dynamic, ValueKind};
use minijinja::{Environment, Error, UndefinedBehavior};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of an expression.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum ExpressionValue {
    /// True or false.
    Flag(bool),
    /// A number; NaN for 0/0.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<ExpressionValue>),
}

/// Evaluates expressions over runs.
pub struct Evaluator {
    environment: Environment<'static>,
    selected: SharedSelection,
}

impl Default for Evaluator {
    fn default() -> Evaluator {
        let selected = SharedSelection::default();
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        lookup::register(&mut environment, &selected);
        register_lists(&mut environment);
        Evaluator { environment, selected }
    }
}

impl Evaluator {
    /// An evaluator with made-up measurements: every run has measured the values of this world.
    pub(super) fn with_synthetic(world: SyntheticWorld) -> Evaluator {
        let mut evaluator = Evaluator::default();
        // No run is carried out, so traces need not exist; these are plausible constants.
        evaluator.environment.add_function("trace_rate", |_: &str, _: f64, _: f64| 1e6);
        evaluator.environment.add_function("trace_spread", |_: &str, _: f64, _: f64| 0.5);
        evaluator.selected.lock().expect("nobody panics with it").synthetic = Some(world);
        evaluator
    }

    /// The value of an expression over these runs. The parameters and the values in `more` are variables.
    ///
    /// # Errors
    ///
    /// The expression is invalid; the message has line and column.
    pub fn evaluate(
        &self,
        expression: &str,
        runs: &[Arc<CompletedRun>],
        parameters: &Parameters,
        more: &[(&str, &ExpressionValue)],
    ) -> Result<ExpressionValue, String> {
        let of_parameters = parameters.iter().map(|(name, value)| (name.as_str(), dynamic_of_value(value)));
        let of_more = more.iter().map(|(name, answer)| (*name, dynamic(answer)));
        let variables: BTreeMap<&str, Dynamic> = of_parameters.chain(of_more).collect();
        let told = |error: Error| error_message(&error, expression);
        let compiled = self.environment.compile_expression(expression).map_err(told)?;
        let is_known =
            |name: &str| variables.contains_key(name) || self.environment.globals().any(|(global, _)| global == name);
        let mut unknown: Vec<String> = compiled.undeclared_variables(false).into_iter().collect();
        unknown.retain(|name| !is_known(name));
        unknown.sort();
        if let Some(name) = unknown.first() {
            let at = line_and_column(expression, word(expression, name));
            return Err(format!("{at}: `{name}` is neither a parameter nor a function"));
        }
        self.selected.lock().expect("nobody panics with it").runs = runs.to_vec();
        let result = compiled.eval(Dynamic::from(variables));
        self.selected.lock().expect("nobody panics with it").runs.clear();
        answer(&result.map_err(told)?)
    }
}

/// The error message with its position.
fn error_message(error: &Error, expression: &str) -> String {
    let reason = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    format!("{}: {reason}", line_and_column(expression, error.range().map_or(0, |range| range.start)))
}

/// Line and column of a byte, counted from 1.
fn line_and_column(expression: &str, at: usize) -> String {
    let before = expression.get(..at).unwrap_or("");
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {}, column {column}", before.matches('\n').count() + 1)
}

/// The position of a name as a whole word.
fn word(expression: &str, name: &str) -> usize {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let alone = |&(at, _): &(usize, &str)| {
        !expression[..at].ends_with(is_letter) && !expression[at + name.len()..].starts_with(is_letter)
    };
    expression.match_indices(name).find(alone).map_or(0, |(at, _)| at)
}

fn dynamic(answer: &ExpressionValue) -> Dynamic {
    match answer {
        ExpressionValue::Flag(flag) => (*flag).into(),
        ExpressionValue::Number(number) => (*number).into(),
        ExpressionValue::Text(text) => text.clone().into(),
        ExpressionValue::List(list) => list.iter().map(dynamic).collect::<Vec<_>>().into(),
    }
}

fn answer(value: &Dynamic) -> Result<ExpressionValue, String> {
    match value.kind() {
        ValueKind::Bool => Ok(ExpressionValue::Flag(value.is_true())),
        ValueKind::Number => number(value).map(ExpressionValue::Number).map_err(|error| error.to_string()),
        ValueKind::String => Ok(ExpressionValue::Text(value.to_string())),
        ValueKind::Seq | ValueKind::Iterable => {
            let list = value.try_iter().map_err(|error| error.to_string())?;
            list.map(|item| answer(&item)).collect::<Result<_, _>>().map(ExpressionValue::List)
        }
        other => Err(format!("gives {other}, which is no number, flag, text or list")),
    }
}

fn number(value: &Dynamic) -> Result<f64, Error> {
    f64::try_from(value.clone()).map_err(|_| expression_error(format!("{value} is no number")))
}

/// The mean of one list divided by that of another, with its 95 % interval. The logarithm of the quotient is taken as normally distributed, with
/// Student's t. A list with one number has no known variance.
fn compared(list: &[f64], other: &[f64]) -> Result<[f64; 3], Error> {
    let (mut variance, mut freedom, mut means) = (0.0, 0.0, [0.0; 2]);
    for (mean, list) in means.iter_mut().zip([list, other]) {
        let count = list.len() as f64;
        *mean = list.iter().sum::<f64>() / count;
        if list.len() < 2 || *mean <= 0.0 {
            return Err(expression_error("it needs at least two measurements of each, with means above zero"));
        }
        let squares: f64 = list.iter().map(|value| (value / *mean - 1.0).powi(2)).sum();
        // Relative variances of two independent means add up for the logarithm of their quotient.
        variance += squares / (count - 1.0) / count;
        freedom += count - 1.0;
    }
    // The 97.5 % quantile of Student's t, accurate to a hundredth from four degrees of freedom on.
    let quantile: f64 = 1.96 + 2.4 / freedom + 3.3 / (freedom * freedom);
    let (ratio, width) = (means[0] / means[1], quantile * variance.sqrt());
    Ok([ratio * (-width).exp(), ratio, ratio * width.exp()])
}

/// The numbers of a list.
fn numbers(list: &Dynamic) -> Result<Vec<f64>, Error> {
    match list.downcast_object_ref::<Numbers>() {
        Some(Numbers(numbers)) => Ok(numbers.clone()),
        None => list.try_iter()?.map(|item| number(&item)).collect(),
    }
}

/// The element at index `floor(part n)` of the sorted list: with 0.999 the tail that the literature uses for flow completion times.
fn quantile(mut of: Vec<f64>, part: f64) -> f64 {
    // The small addend compensates for binary rounding: 0.999 x 1000 is less than 999.
    let index = ((part * of.len() as f64 + 1e-9) as usize).min(of.len() - 1);
    *of.select_nth_unstable_by(index, f64::total_cmp).1
}

/// The coefficient of determination of a least-squares line; one if all points lie on a line.
fn linear(x: &[f64], y: &[f64]) -> f64 {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (mean_x, mean_y) = (mean(x), mean(y));
    let products =
        x.iter().zip(y).map(|(x, y)| ((x - mean_x).powi(2), (y - mean_y).powi(2), (x - mean_x) * (y - mean_y)));
    let (xx, yy, xy) = products.fold((0.0, 0.0, 0.0), |sum, next| (sum.0 + next.0, sum.1 + next.1, sum.2 + next.2));
    if xx * yy == 0.0 { 1.0 } else { xy * xy / (xx * yy) }
}

/// The minimum and the maximum.
fn ends(of: &[f64]) -> (f64, f64) {
    let least = of.iter().copied().fold(f64::INFINITY, f64::min);
    (least, of.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

fn register_lists(environment: &mut Environment) {
    fn over(list: &Dynamic, what: impl Fn(&[f64]) -> f64) -> Result<f64, Error> {
        let list = numbers(list)?;
        if list.is_empty() {
            Err(expression_error("this function is undefined for an empty list"))
        } else {
            Ok(what(&list))
        }
    }
    environment.add_function("min", |list: Dynamic| over(&list, |n| ends(n).0));
    environment.add_function("max", |list: Dynamic| over(&list, |n| ends(n).1));
    environment.add_function("spread", |list: Dynamic| over(&list, |n| ends(n).1 - ends(n).0));
    environment.add_function("sum", |list: Dynamic| numbers(&list).map(|n| n.iter().sum::<f64>()));
    environment.add_function("count", |list: Dynamic| numbers(&list).map(|n| n.len()));
    environment.add_function("mean", |list: Dynamic| over(&list, |n| n.iter().sum::<f64>() / n.len() as f64));
    environment.add_function("quantile", |list: Dynamic, part: f64| over(&list, |n| quantile(n.to_vec(), part)));
    environment.add_function("rises", |list: Vec<f64>, slack: f64| list.windows(2).all(|p| p[1] >= p[0] - slack));
    environment.add_function("linear", |x: Vec<f64>, y: Vec<f64>| {
        if x.len() == y.len() && !x.is_empty() {
            Ok(linear(&x, &y))
        } else {
            Err(expression_error("a line needs at least two different points"))
        }
    });
    environment.add_function("ratios", |list: Vec<f64>, other: Vec<f64>| match list.len() == other.len() {
        true => Ok(list.iter().zip(&other).map(|(one, other)| one / other).collect::<Vec<f64>>()),
        false => Err(expression_error(format!(
            "lists of {} and {} values have no element-wise ratios",
            list.len(),
            other.len()
        ))),
    });
    environment.add_function("near", |a: f64, b: f64, part: f64| (a - b).abs() <= part * b.abs());
    environment.add_function("round", |a: f64, digits: u32| {
        let scale = 10f64.powi(digits.min(12) as i32);
        let rounded = (a * scale).round() / scale;
        if digits == 0 && rounded.abs() < 1e15 { Dynamic::from(rounded as i64) } else { Dynamic::from(rounded) }
    });
    environment.add_function("reversed", |list: Vec<f64>| list.into_iter().rev().collect::<Vec<f64>>());
    environment.add_function("compared", |list: Vec<f64>, other: Vec<f64>| compared(&list, &other).map(Vec::from));
    environment.add_function("trace_rate", |trace: &str, bytes: f64, seconds: f64| {
        let files = DataFiles::from_environment(None);
        // Runs with a missing trace are left out.
        if !DataFiles::is_generated(trace) && files.find(trace).is_none() {
            return Ok(0.0);
        }
        files.trace_rate(trace, bytes, seconds).map_err(expression_error)
    });
    environment.add_function("trace_spread", |trace: &str, seconds: f64, part: f64| {
        let files = DataFiles::from_environment(None);
        if !DataFiles::is_generated(trace) && files.find(trace).is_none() {
            return Ok(0.0);
        }
        files.trace_spread(trace, seconds, part).map_err(expression_error)
    });
    environment.add_function("time", |text: &str| {
        let nanos: Result<units::Nanos, _> = text.parse();
        nanos.map(|nanos| nanos.get() as f64).map_err(|error| expression_error(format!("`{text}`: {error}")))
    });
}

#[cfg(test)]
mod tests {
    use super::super::parameters::ParameterValue;
    use super::*;
    use crate::Measurements;

    fn runs() -> Vec<Arc<CompletedRun>> {
        let of = |limit: f64, cost: &str, efficiency: f64| {
            Arc::new(CompletedRun {
                parameters: [
                    ("limit".to_owned(), ParameterValue::Number(limit)),
                    ("cost".into(), ParameterValue::Text(cost.into())),
                ]
                .into(),
                measured: Measurements {
                    values: [
                        ("efficiency".to_owned(), efficiency),
                        ("path.a.dropped".into(), limit),
                        ("path.b.dropped".into(), 2.0),
                    ]
                    .into(),
                    samples: [("fct".to_owned(), vec![limit, 2.0 * limit])].into(),
                    series: [("path.a.rate".to_owned(), vec![(0.0, 1.0), (1.0, 2.0), (2.0, 9.0)])].into(),
                    ..Measurements::default()
                },
            })
        };
        vec![of(1.0, "3us", 0.5), of(8.0, "3us", 0.625), of(8.0, "30us", 0.75)]
    }

    fn say(expression: &str) -> Result<ExpressionValue, String> {
        Evaluator::default().evaluate(
            expression,
            &runs(),
            &Parameters::new(),
            &[("measured", &ExpressionValue::Number(3.0))],
        )
    }

    #[test]
    fn expressions_query_measured_values() {
        for (expression, value) in [
            ("get('efficiency', limit=1)", 0.5),
            ("get(\"efficiency\", limit=8, cost=\"30us\") + measured", 3.75),
            ("total('path.*.dropped', limit=8)", 20.0),
            ("totals('path.*.dropped')[1]", 10.0),
            ("max(ratios(all('efficiency', cost='3us'), [1, 5]))", 0.5),
            ("max(all('efficiency'))", 0.75),
            ("spread(all('efficiency', cost='3us'))", 0.125),
            ("mean(between('path.a.rate', 0, 2, limit=1))", 1.5),
            ("sums('path.a.rate', 0, 2, cost='3us')[1]", 3.0),
            ("compared([2, 2, 2], [1, 1])[0] + compared([9, 11], [4, 6])[1]", 4.0),
            ("1 if compared([9, 11], [4, 6])[0] < 2 and compared([9, 11], [4, 6])[2] > 2 else 0", 1.0),
            ("quantile(pooled('fct', limit=8), 0.5) + count(pooled('fct'))", 22.0),
            ("mean(pooled('fct', limit=1)) + quantile([3, 1, 2], 0.999)", 4.5),
            ("1 / 2", 0.5),
            ("linear([1, 2, 3], [2, 4, 6]) + linear([0, 1, 0, 1], [0, 0, 1, 1])", 1.0),
            ("time('30us') / 1000", 30.0),
            ("round(2 / 3, 2) + reversed([1, 2])[0]", 2.67),
            ("1 if rises(all('efficiency'), 0) and not rises([2, 1.5], 0.2) and near(98, 100, 0.02) else 0", 1.0),
        ] {
            assert_eq!(say(expression), Ok(ExpressionValue::Number(value)), "{expression}");
        }
        assert_eq!(
            say("all('path.a.*', limit=8)"),
            Ok(ExpressionValue::List(vec![ExpressionValue::Number(8.0), ExpressionValue::Number(8.0)]))
        );
        assert_eq!(say("'no ' ~ 'loss'"), Ok(ExpressionValue::Text("no loss".into())));
        assert_eq!(say("'slice=' ~ round(29.7, 0) ~ 'us'"), Ok(ExpressionValue::Text("slice=30us".into())));
        assert_eq!(say("1 < 2"), Ok(ExpressionValue::Flag(true)));
    }

    #[test]
    fn errors_in_expressions_have_their_position() {
        for (expression, why) in [
            (
                "get('efficency', limit=1)",
                "line 1, column 1: there is no measurement `efficency`; similar ones of the 3 are efficiency",
            ),
            (
                "get('efficiency')",
                "several runs have these parameters; select one: cost=3us, limit=1 or cost=3us, limit=8",
            ),
            ("get('efficiency', limit=2)", "no run has these parameters"),
            ("get('efficiency', size=2)", "unknown parameter `size`"),
            ("1 +", "line 1, column "),
            ("1\n  + nonsense", "line 2, column 5: `nonsense` is neither a parameter nor a function"),
            ("max([])", "an empty list"),
            ("max(['a'])", "line 1, column 1: "),
            ("ratios([1], [1, 2])", "lists of 1 and 2"),
            ("compared([1], [1, 2])", "at least two measurements of each"),
            ("{}", "gives map, which is no number, flag, text or list"),
        ] {
            let error = say(expression).unwrap_err();
            assert!(error.contains(why), "{expression}: {error}");
        }
    }
}
