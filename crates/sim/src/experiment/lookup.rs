//! The functions of expressions that query runs: values, samples and series by name, from real or from imagined runs.

use super::parameters::{ParameterValue, describe};
use super::runner::CompletedRun;
use super::synthetic::SyntheticWorld;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Value as Dynamic};
use minijinja::{Environment, Error, ErrorKind};
use std::sync::{Arc, Mutex};

/// The runs that the functions below see.
pub(super) type SharedSelection = Arc<Mutex<RunSelection>>;

/// The selected runs, and the source of their values.
#[derive(Default)]
pub(super) struct RunSelection {
    pub(super) runs: Vec<Arc<CompletedRun>>,
    /// If given, it replaces the measured values of the runs.
    pub(super) synthetic: Option<SyntheticWorld>,
}

pub(super) fn expression_error(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

/// Converts a parameter for use in expressions.
pub(super) fn dynamic_of_value(value: &ParameterValue) -> Dynamic {
    match value {
        ParameterValue::Flag(flag) => (*flag).into(),
        // An integer prints without a decimal point when it is put into a text.
        ParameterValue::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => (*number as i64).into(),
        ParameterValue::Number(number) => (*number).into(),
        ParameterValue::Text(text) => text.clone().into(),
    }
}

fn matches(run: &CompletedRun, filter: &Kwargs) -> Result<bool, Error> {
    for name in filter.args() {
        let Some(value) = run.parameters.get(name) else {
            return Err(expression_error(format!(
                "unknown parameter `{name}`; the parameters are: {}",
                describe(&run.parameters)
            )));
        };
        if dynamic_of_value(value) != filter.get::<Dynamic>(name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if a name matches a pattern in which `*` matches any text.
fn matches_pattern(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Error {
    // Suggests the names that share the most words with the wrong one.
    let words = |text: &str| text.split(['.', '_', '*']).map(str::to_owned).collect::<Vec<_>>();
    let wanted = words(name);
    let mut near: Vec<(usize, &String)> =
        known.map(|k| (words(k).iter().filter(|w| wanted.contains(w)).count(), k)).collect();
    let count = near.len();
    near.sort_by_key(|&(common, _)| std::cmp::Reverse(common));
    let near = near.iter().take(8).map(|(_, k)| k.as_str()).collect::<Vec<_>>().join(", ");
    expression_error(format!("there is no measurement `{name}`; similar ones of the {count} are {near}"))
}

impl RunSelection {
    fn chosen(&self, filter: &Kwargs) -> Result<Vec<&CompletedRun>, Error> {
        let mut chosen = Vec::new();
        for run in &self.runs {
            if matches(run, filter)? {
                chosen.push(&**run);
            }
        }
        Ok(chosen)
    }

    fn only(&self, filter: &Kwargs) -> Result<&CompletedRun, Error> {
        match &self.chosen(filter)?[..] {
            [run] => Ok(run),
            [] => Err(expression_error("no run has these parameters")),
            [one, other, ..] => Err(expression_error(format!(
                "several runs have these parameters; select one: {} or {}",
                describe(&one.parameters),
                describe(&other.parameters)
            ))),
        }
    }

    fn value(&self, run: &CompletedRun, name: &str) -> Result<f64, Error> {
        let of = &run.measured.values;
        match &self.synthetic {
            Some(imagined) => Ok(imagined.number(run, name, 0)),
            None => of.get(name).copied().ok_or_else(|| unknown(name, of.keys())),
        }
    }

    /// The values of a run whose names match.
    fn values(&self, run: &CompletedRun, name: &str) -> Result<Vec<f64>, Error> {
        if let Some(imagined) = &self.synthetic {
            return Ok(imagined.matching_values(run, name));
        }
        let of = &run.measured.values;
        let found: Vec<f64> = match of.get(name) {
            Some(value) => vec![*value],
            None => of.iter().filter(|(known, _)| matches_pattern(known, name)).map(|(_, value)| *value).collect(),
        };
        if found.is_empty() { Err(unknown(name, of.keys())) } else { Ok(found) }
    }

    fn samples(&self, run: &CompletedRun, name: &str) -> Result<Vec<f64>, Error> {
        let of = &run.measured.samples;
        match &self.synthetic {
            Some(imagined) => Ok(imagined.list(run, name)),
            None => of.get(name).cloned().ok_or_else(|| unknown(name, of.keys())),
        }
    }

    /// The values of a series from second `from` until `to`.
    fn within(&self, run: &CompletedRun, name: &str, from: f64, to: f64) -> Result<Vec<f64>, Error> {
        let of = &run.measured.series;
        match &self.synthetic {
            Some(imagined) => Ok(imagined.list(run, name)),
            None => {
                let series = of.get(name).ok_or_else(|| unknown(name, of.keys()))?;
                Ok(series.iter().filter(|(x, _)| *x >= from && *x < to).map(|&(_, y)| y).collect())
            }
        }
    }

    /// The mean time between the rises of a series.
    fn every(&self, run: &CompletedRun, name: &str, from: f64, to: f64) -> Result<f64, Error> {
        if let Some(imagined) = &self.synthetic {
            return Ok(imagined.number(run, name, 0));
        }
        let of = &run.measured.series;
        let series = of.get(name).ok_or_else(|| unknown(name, of.keys()))?;
        let rises = series.windows(2).filter(|pair| pair[1].1 > pair[0].1).map(|pair| pair[1].0);
        let rises: Vec<f64> = rises.filter(|at| *at >= from && *at < to).collect();
        match &rises[..] {
            [first, .., last] => Ok((last - first) / (rises.len() - 1) as f64),
            _ => Err(expression_error(format!("`{name}` does not rise twice between {from} and {to} s"))),
        }
    }
}

/// Registers the functions that query runs.
pub(super) fn register(environment: &mut Environment<'_>, selected: &SharedSelection) {
    let looked = |selected: &SharedSelection| Arc::clone(selected);
    let runs = looked(selected);
    environment.add_function("get", move |name: &str, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        runs.value(runs.only(&filter)?, name)
    });
    let all = |selected: &SharedSelection, name: &str, filter: &Kwargs| {
        let runs = selected.lock().expect("nobody panics with it");
        let mut found = Vec::new();
        for run in runs.chosen(filter)? {
            found.extend(runs.values(run, name)?);
        }
        Ok::<Vec<f64>, Error>(found)
    };
    let runs = looked(selected);
    environment.add_function("all", move |name: &str, filter: Kwargs| all(&runs, name, &filter));
    let runs = looked(selected);
    environment.add_function("total", move |name: &str, filter: Kwargs| {
        all(&runs, name, &filter).map(|found| found.iter().sum::<f64>())
    });
    let runs = looked(selected);
    environment.add_function("totals", move |name: &str, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        let totals = runs.chosen(&filter)?.into_iter().map(|run| Ok(runs.values(run, name)?.iter().sum::<f64>()));
        totals.collect::<Result<Vec<f64>, Error>>()
    });
    let runs = looked(selected);
    environment.add_function("pooled", move |name: &str, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        let mut pool = Vec::new();
        for run in runs.chosen(&filter)? {
            pool.extend(runs.samples(run, name)?);
        }
        Ok::<_, Error>(Dynamic::from_object(Numbers(pool)))
    });
    let runs = looked(selected);
    environment.add_function("every", move |name: &str, from: f64, to: f64, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        runs.every(runs.only(&filter)?, name, from, to)
    });
    let runs = looked(selected);
    environment.add_function("between", move |name: &str, from: f64, to: f64, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        runs.within(runs.only(&filter)?, name, from, to)
    });
    let runs = looked(selected);
    environment.add_function("sums", move |name: &str, from: f64, to: f64, filter: Kwargs| {
        let runs = runs.lock().expect("nobody panics with it");
        let sums =
            runs.chosen(&filter)?.into_iter().map(|run| Ok(runs.within(run, name, from, to)?.iter().sum::<f64>()));
        sums.collect::<Result<Vec<f64>, Error>>()
    });
}

/// A long list of numbers that is shared between functions and not copied.
#[derive(Debug)]
pub(super) struct Numbers(pub(super) Vec<f64>);

impl Object for Numbers {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, index: &Dynamic) -> Option<Dynamic> {
        self.0.get(index.as_usize()?).map(|number| Dynamic::from(*number))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text_in_names() {
        for (name, pattern, like) in [
            ("path.a.dropped", "path.*.dropped", true),
            ("path.a.dropped", "*", true),
            ("path.a.dropped", "path.a.dropped", true),
            ("path.a.dropped", "path.a", false),
            ("path.a.dropped", "path.*.d*ped", true),
            ("path.dropped", "path.*.dropped", false),
            ("aa", "a*aa", false),
        ] {
            assert_eq!(matches_pattern(name, pattern), like, "{name} {pattern}");
        }
    }
}
