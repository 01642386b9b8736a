//! The parameters of an experiment: sweeps, variants, and their substitution into the text of a world.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The most runs of one experiment.
pub const MOST_RUNS: usize = 10_000;

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum ParameterValue {
    /// `true`, `false`.
    Flag(bool),
    /// A number; whole numbers print without a decimal point.
    Number(f64),
    /// Any other text: `"30us"`, `"simple(packets=8)"`.
    Text(String),
}

impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParameterValue::Flag(flag) => write!(f, "{flag}"),
            // `f64` prints the shortest text that parses to the same number, and whole numbers without a point.
            ParameterValue::Number(number) => write!(f, "{number}"),
            ParameterValue::Text(text) => f.write_str(text),
        }
    }
}

impl ParameterValue {
    /// Parses a command-line value: a number or a flag if possible, else a text.
    pub fn read(text: &str) -> ParameterValue {
        match (text.parse::<bool>(), text.parse::<f64>()) {
            (Ok(flag), _) => ParameterValue::Flag(flag),
            (_, Ok(number)) if number.is_finite() => ParameterValue::Number(number),
            _ => ParameterValue::Text(text.to_owned()),
        }
    }
}

/// The parameters of one run, by name.
pub type Parameters = BTreeMap<String, ParameterValue>;

/// The values of each swept parameter, by name. `"1..74"` stands for all whole numbers from 1 to 74.
pub type Sweep = BTreeMap<String, Vec<ParameterValue>>;

/// Parameters that change together. Its name is the value of the parameter `variant`.
#[derive(Clone, PartialEq, Default, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// The parameters that it sets.
    #[serde(default)]
    pub set: Parameters,
    /// Its sweep, which replaces that of the experiment for the same parameters.
    #[serde(default)]
    pub sweep: Sweep,
    /// Its sweep on real packets, in place of `sweep`. An empty list leaves the variant out there.
    #[serde(default)]
    pub real: Sweep,
}

/// The parameters of every run: for each variant in order, every combination of the swept values. Parameters are ordered by name; the last one varies
/// fastest.
///
/// # Errors
///
/// There are more than [`MOST_RUNS`] runs, or a parameter has no values; the message names it.
pub fn expand(constants: &Parameters, variants: &[Variant], sweep: &Sweep) -> Result<Vec<Parameters>, String> {
    let nameless = [Variant::default()];
    let mut runs = Vec::new();
    for variant in if variants.is_empty() { &nameless[..] } else { variants } {
        let mut start = constants.clone();
        if !variant.name.is_empty() {
            start.insert("variant".into(), ParameterValue::Text(variant.name.clone()));
        }
        start.extend(variant.set.clone());
        let mut swept = sweep.clone();
        swept.retain(|name, _| !variant.set.contains_key(name));
        swept.extend(variant.sweep.clone());
        runs.extend(combinations(start, &swept)?);
        if runs.len() > MOST_RUNS {
            return Err(format!("more than {MOST_RUNS} runs; sweep over fewer values"));
        }
    }
    Ok(runs)
}

fn combinations(start: Parameters, sweep: &Sweep) -> Result<Vec<Parameters>, String> {
    let mut runs = vec![start];
    for (name, values) in sweep {
        let values = &spread(values);
        if values.is_empty() {
            return Err(format!("`{name}` is swept over no values"));
        }
        if runs.len().saturating_mul(values.len()) > MOST_RUNS {
            return Err(format!("more than {MOST_RUNS} runs; sweep over fewer values"));
        }
        let with = |run: &Parameters, value: &ParameterValue| {
            let mut run = run.clone();
            run.insert(name.clone(), value.clone());
            run
        };
        runs = runs.iter().flat_map(|run| values.iter().map(move |value| with(run, value))).collect();
    }
    Ok(runs)
}

/// The number of values, with ranges like `1..74` expanded.
pub(super) fn count(values: &[ParameterValue]) -> usize {
    spread(values).len()
}

/// The values, with ranges like `1..74` expanded.
fn spread(values: &[ParameterValue]) -> Vec<ParameterValue> {
    let mut all = Vec::new();
    for value in values {
        let ends = match value {
            ParameterValue::Text(text) => {
                text.split_once("..").and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)))
            }
            _ => None,
        };
        match ends {
            Some((from, to)) => {
                all.extend((from..=to).take(MOST_RUNS).map(|number: u32| ParameterValue::Number(number.into())))
            }
            None => all.push(value.clone()),
        }
    }
    all
}

/// Replaces each `${name}` by the value of the parameter. A literal `${` cannot be written.
///
/// # Errors
///
/// A name is no parameter, or a `${` has no `}`; the message has the line, counted from 1.
pub fn substitute(text: &str, parameters: &Parameters) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        out += &rest[..at];
        let line = || text[..text.len() - rest.len() + at].matches('\n').count() + 1;
        let name = &rest[at + 2..];
        let end = name.find('}').ok_or_else(|| format!("line {}: `${{` without `}}`", line()))?;
        let name = &name[..end];
        let value = parameters.get(name).ok_or_else(|| {
            let known = parameters.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("line {}: unknown parameter `{name}`; the parameters are: {known}", line())
        })?;
        out += &value.to_string();
        rest = &rest[at + 2 + end + 1..];
    }
    Ok(out + rest)
}

/// Formats parameters for display: `name=value, name=value`.
pub fn describe(parameters: &Parameters) -> String {
    parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: f64) -> ParameterValue {
        ParameterValue::Number(n)
    }

    fn text(t: &str) -> ParameterValue {
        ParameterValue::Text(t.into())
    }

    #[test]
    fn sweep_lists_all_combinations_by_variant() {
        let constants = [("seed".to_owned(), number(1.0)), ("limit".into(), number(9.0))].into();
        let sweep: Sweep =
            [("cost".to_owned(), vec![text("3us"), text("10us")]), ("limit".into(), vec![number(1.0), number(8.0)])]
                .into();
        let variants = [
            Variant { name: "a".into(), ..Variant::default() },
            Variant {
                name: "b".into(),
                set: [("limit".to_owned(), number(64.0))].into(),
                sweep: [("cost".to_owned(), vec![text("30us")])].into(),
                ..Variant::default()
            },
        ];
        let runs = expand(&constants, &variants, &sweep).unwrap();
        let lines: Vec<String> = runs.iter().map(describe).collect();
        assert_eq!(
            lines,
            [
                "cost=3us, limit=1, seed=1, variant=a",
                "cost=3us, limit=8, seed=1, variant=a",
                "cost=10us, limit=1, seed=1, variant=a",
                "cost=10us, limit=8, seed=1, variant=a",
                "cost=30us, limit=64, seed=1, variant=b",
            ]
        );
        assert_eq!(expand(&constants, &[], &Sweep::new()).unwrap(), [constants]);
        let range: Sweep = [("seed".to_owned(), vec![text("3..5"), number(9.0)])].into();
        let seeds: Vec<ParameterValue> =
            expand(&Parameters::new(), &[], &range).unwrap().iter().map(|run| run["seed"].clone()).collect();
        assert_eq!(seeds, [3.0, 4.0, 5.0, 9.0].map(number));
    }

    #[test]
    fn empty_or_oversized_sweep_is_error() {
        let of = |lists: &[(&str, usize)]| -> Sweep {
            lists.iter().map(|&(name, n)| (name.to_owned(), vec![number(0.0); n])).collect()
        };
        for (sweep, why) in
            [(of(&[("a", 0)]), "`a` is swept over no values"), (of(&[("a", 200), ("b", 200)]), "more than 10000 runs")]
        {
            let error = expand(&Parameters::new(), &[], &sweep).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn parameters_are_substituted_as_they_were_written() {
        let parameters: Parameters =
            [("n".to_owned(), number(8.0)), ("x".into(), number(0.25)), ("c".into(), text("30us"))].into();
        assert_eq!(
            substitute("batch = ${n}\nx=${x} \"${c}\" $c", &parameters).unwrap(),
            "batch = 8\nx=0.25 \"30us\" $c"
        );
        for (bad, why) in [
            ("a\n${m}", "line 2: unknown parameter `m`; the parameters are: c, n, x"),
            ("${n}\n\n${n", "line 3: `${` without `}`"),
        ] {
            assert_eq!(substitute(bad, &parameters).unwrap_err(), why);
        }
    }

    #[test]
    fn command_line_values_are_numbers_if_they_parse_as_numbers() {
        for (written, value) in [
            ("8", number(8.0)),
            ("0.5", number(0.5)),
            ("true", ParameterValue::Flag(true)),
            ("30us", text("30us")),
            ("inf", text("inf")),
        ] {
            assert_eq!(ParameterValue::read(written), value);
        }
    }
}
