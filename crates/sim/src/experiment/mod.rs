//! Experiments: a question, a world, a sweep and claims in one file, with the golden file beside it.
//!
//! [`Experiment::read`] parses the file, and [`Experiment::jobs`] lists the runs. A [`Runner`] carries them out, and [`Experiment::report`] checks
//! the claims against the measurements.

mod agreement;
mod data;
mod expression;
mod falsifiable;
mod file;
mod golden;
mod library;
mod lookup;
mod parameters;
mod report;
mod runner;
mod synthetic;

pub use crate::digest::digest;
pub use agreement::{Agreement, MOST_TOLERANCE, PublishedFigure, VerdictCounts};
pub use data::DataFiles;
pub use expression::{Evaluator, ExpressionValue};
pub use file::{Axis, Document, OnRealPackets, Reference, RunKind, RunOverrides};
pub use golden::golden;
pub use library::{ExperimentFile, entries};
pub use parameters::{MOST_RUNS, ParameterValue, Parameters, Sweep, describe, substitute};
pub use report::{ClaimVerdict, Curve, ExperimentReport, Grid, Picture, format_value};
pub use runner::{CompletedRun, Job, Runner, Simulation};

use parameters::expand;

/// A parsed experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The content of its file.
    pub document: Document,
    /// Its file name, for messages.
    pub file: String,
    /// The name of the file with its world, and the text of the world. Blank lines in front keep its line numbers as in that file.
    world: (String, String),
}

/// The kind of runs to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunMode {
    /// The short form.
    pub quick: bool,
    /// On real packets.
    pub real: bool,
}

/// True if the text is an experiment and not a world: only an experiment has a key `experiment`.
pub fn is_experiment(text: &str) -> bool {
    toml::from_str::<toml::Table>(text).is_ok_and(|table| table.contains_key("experiment"))
}

impl Experiment {
    /// Parses an experiment. `beside` reads a file in the same folder.
    ///
    /// # Errors
    ///
    /// The text is invalid; the message has file and line.
    pub fn read(file: &str, text: &str, beside: &dyn Fn(&str) -> Result<String, String>) -> Result<Experiment, String> {
        let mut document: Document = toml::from_str(text).map_err(|error| format!("{file}: {error}"))?;
        if let Some(name) = &document.derive_file {
            let wrong = |error: &dyn std::fmt::Display| format!("{file}: derive_file `{name}`: {error}");
            let text = beside(name).map_err(|error| wrong(&error))?;
            let shared: file::Derivations = toml::from_str(&text).map_err(|error| wrong(&error))?;
            document.derive.splice(0..0, shared.derive);
        }
        let world = match (&document.world, &document.world_file) {
            (Some(world), None) => {
                // Blank lines keep the line numbers of the file. The text of the world begins one line below its quotes.
                let above = file::line_of(text, &world.span());
                (file.to_owned(), "\n".repeat(above) + world.get_ref().as_str())
            }
            (None, Some(name)) => {
                let text = beside(name).map_err(|error| format!("{file}: world_file `{name}`: {error}"))?;
                (name.clone(), text)
            }
            (None, None) if matches!(document.measures, RunKind::Functions | RunKind::Schemes) => {
                (file.to_owned(), String::new())
            }
            _ => return Err(format!("{file}: an experiment has either a `world` or a `world_file`")),
        };
        let experiment = Experiment { document, file: file.to_owned(), world };
        experiment.check().map_err(|error| format!("{file}: {error}"))?;
        Ok(experiment)
    }

    fn check(&self) -> Result<(), String> {
        let mut ids: Vec<&str> = self.document.claims.iter().map(|claim| claim.id.as_str()).collect();
        ids.sort_unstable();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("two claims are called `{}`", twice[0]));
        }
        for claim in &self.document.claims {
            claim.check().map_err(|error| format!("claim `{}`: {error}", claim.id))?;
        }
        let document = &self.document;
        if document.measures.in_virtual_time() {
            falsifiable::check_falsifiable(&report::claims_of_virtual(document), self.synthetic_runs(None))?;
        }
        if let Some(real) = &document.real {
            falsifiable::check_falsifiable(
                &report::claims_of_real(document, &mut Vec::new()),
                self.synthetic_runs(Some(real)),
            )?;
        }
        Ok(())
    }

    /// The parameters of its runs in the first case, with which claims are tried. It is empty if they cannot be computed; [`Experiment::jobs`] then
    /// reports the error.
    fn synthetic_runs(&self, real: Option<&RunOverrides>) -> Vec<Parameters> {
        let evaluator = Evaluator::with_synthetic(synthetic::SyntheticWorld::Constant(1.0));
        let mut few = self.clone();
        let of_document = [&mut few.document.sweep].into_iter();
        let of_variants = few.document.variants.iter_mut().flat_map(|variant| [&mut variant.sweep, &mut variant.real]);
        of_document
            .chain(of_variants)
            .flat_map(Sweep::values_mut)
            .for_each(|values| falsifiable::shorten_sweep(values));
        let mut real = real.cloned();
        real.iter_mut().flat_map(|real| real.sweep.values_mut()).for_each(|values| falsifiable::shorten_sweep(values));
        let runs = few.runs_with(&Parameters::new(), real.as_ref(), false);
        let derived = runs.and_then(|runs| {
            runs.into_iter().map(|parameters| self.add_derived(&evaluator, parameters)).collect::<Result<Vec<_>, _>>()
        });
        let mut runs = derived.unwrap_or_default();
        let each = &self.document.each;
        if let Some(first) = runs.first().cloned() {
            runs.retain(|run| each.iter().all(|name| run.get(name) == first.get(name)));
        }
        runs
    }

    /// The runs to carry out, in order. `set` overrides the parameters of the file, and `quick` selects the short form. The list is empty for an
    /// experiment without virtual time.
    ///
    /// # Errors
    ///
    /// A parameter is unknown or invalid; the message names the file.
    pub fn jobs(&self, set: &Parameters, quick: bool) -> Result<Vec<Job>, String> {
        if !self.document.measures.in_virtual_time() {
            return Ok(Vec::new());
        }
        self.jobs_with(set, None, quick)
    }

    /// The same on real packets. The list is empty if the file has no `[real]`.
    ///
    /// # Errors
    ///
    /// As of [`Experiment::jobs`].
    pub fn real_jobs(&self, set: &Parameters, quick: bool) -> Result<Vec<Job>, String> {
        let Some(real) = &self.document.real else { return Ok(Vec::new()) };
        self.jobs_with(set, Some(real), quick)
    }

    /// The [`Experiment::jobs`] for which all files exist, and remarks about missing files. Jobs whose `trace` is missing are left out. If the file
    /// of `sizes` is missing, a built-in table replaces it.
    ///
    /// # Errors
    ///
    /// As of [`Experiment::jobs`].
    pub fn jobs_with_files(
        &self,
        set: &Parameters,
        extent: RunMode,
        files: &DataFiles,
    ) -> Result<(Vec<Job>, Vec<String>), String> {
        let jobs = |set: &Parameters| match extent.real {
            true => self.real_jobs(set, extent.quick),
            false => self.jobs(set, extent.quick),
        };
        let of = |job: &Job, name: &str| match job.parameters.get(name) {
            Some(ParameterValue::Text(file)) if !file.is_empty() => Some(file.clone()),
            _ => None,
        };
        let is_there = |file: &str| files.find(file).is_some();
        let mut remarks: Vec<String> = Vec::new();
        let mut all = jobs(set)?;
        if let Some(file) = all.iter().find_map(|job| of(job, "sizes").filter(|file| !is_there(file))) {
            let mut set = set.clone();
            set.insert("sizes".into(), ParameterValue::Text(String::new()));
            all = jobs(&set)?;
            remarks.push(format!(
                "{file} is missing, so a similar table provides the sizes of transfers; {}",
                DataFiles::HINT
            ));
        }
        all.retain(|job| {
            let Some(trace) = of(job, "trace") else { return true };
            let there = DataFiles::is_generated(&trace) || is_there(&trace);
            let remark = format!("skipped {trace}: the file is missing; {}", DataFiles::HINT);
            if !there && !remarks.contains(&remark) {
                remarks.push(remark);
            }
            there
        });
        Ok((all, remarks))
    }

    fn jobs_with(&self, set: &Parameters, real: Option<&RunOverrides>, quick: bool) -> Result<Vec<Job>, String> {
        let evaluator = Evaluator::default();
        self.runs_with(set, real, quick)?.into_iter().map(|parameters| self.job(&evaluator, parameters)).collect()
    }

    /// The parameters of its runs, without computed ones.
    fn runs_with(&self, set: &Parameters, real: Option<&RunOverrides>, quick: bool) -> Result<Vec<Parameters>, String> {
        let at = |error: String| format!("{}: {error}", self.file);
        let document = &self.document;
        let (mut constants, mut variants, mut sweep) =
            (document.parameters.clone(), document.variants.clone(), document.sweep.clone());
        if let Some(real) = real {
            variants.retain(|variant| variant.real.values().all(|values| !values.is_empty()));
            // A sweep for real packets may have parameters that are not swept in virtual time, where repeated runs would be equal.
            let of_variant = |name: &String| variants.iter().any(|variant| variant.sweep.contains_key(name));
            sweep.extend(real.sweep.clone().into_iter().filter(|(name, _)| !of_variant(name)));
            variants.iter_mut().for_each(|variant| variant.sweep.extend(variant.real.clone()));
        }
        for less in real.into_iter().chain(quick.then_some(&document.quick)) {
            constants.extend(less.parameters.clone());
            narrow(&mut sweep, &less.sweep);
            variants.iter_mut().for_each(|variant| narrow(&mut variant.sweep, &less.sweep));
        }
        // A variant without values for a parameter it sweeps is left out of short runs.
        variants.retain(|variant| variant.sweep.values().all(|values| !values.is_empty()));
        for (name, value) in set {
            let mut known = constants.contains_key(name) | sweep.remove(name).is_some();
            for variant in &mut variants {
                known |= variant.set.remove(name).is_some() | variant.sweep.remove(name).is_some();
            }
            if name == "variant" {
                variants.retain(|variant| ParameterValue::Text(variant.name.clone()) == *value);
                known = !variants.is_empty();
            }
            if !known {
                return Err(at(format!(
                    "there is no parameter `{name}` with the value {value}; there are: {}",
                    self.names()
                )));
            }
            constants.insert(name.clone(), value.clone());
        }
        expand(&constants, &variants, &sweep).map_err(at)
    }

    /// True if it has a parameter of that name.
    pub fn has_parameter(&self, name: &str) -> bool {
        let Document { parameters, sweep, variants, .. } = &self.document;
        let in_variant =
            |variant: &parameters::Variant| variant.set.contains_key(name) || variant.sweep.contains_key(name);
        parameters.contains_key(name) || sweep.contains_key(name) || variants.iter().any(in_variant)
    }

    fn names(&self) -> String {
        let document = &self.document;
        let of_variants = document.variants.iter().flat_map(|variant| variant.set.keys().chain(variant.sweep.keys()));
        let mut names: Vec<&String> =
            document.parameters.keys().chain(document.sweep.keys()).chain(of_variants).collect();
        names.sort();
        names.dedup();
        names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Adds the computed parameters.
    fn add_derived(&self, evaluator: &Evaluator, mut parameters: Parameters) -> Result<Parameters, String> {
        for line in &self.document.derive {
            let at = |error: String| format!("{}: derive `{line}`: {error}", self.file);
            let (name, expression) = line.split_once('=').ok_or_else(|| at("is not `name = expression`".into()))?;
            let value = match evaluator.evaluate(expression, &[], &parameters, &[]).map_err(at)? {
                ExpressionValue::Flag(flag) => ParameterValue::Flag(flag),
                ExpressionValue::Number(number) if number.is_finite() => ParameterValue::Number(number),
                ExpressionValue::Text(text) => ParameterValue::Text(text),
                other => return Err(at(format!("{other:?} cannot be a parameter"))),
            };
            parameters.insert(name.trim().to_owned(), value);
        }
        Ok(parameters)
    }

    fn job(&self, evaluator: &Evaluator, parameters: Parameters) -> Result<Job, String> {
        let parameters = self.add_derived(evaluator, parameters)?;
        let (file, world) = &self.world;
        let world = substitute(world, &parameters).map_err(|error| format!("{file}: {error}"))?;
        Ok(Job { file: file.clone(), world, measures: self.document.measures, parameters })
    }

    /// Checks the claims against the measured runs, which must be those of [`Experiment::jobs`] in that order. Errors in expressions are part of the
    /// report.
    pub fn report(&self, runs: Vec<CompletedRun>, runner: &dyn Runner) -> ExperimentReport {
        report::report(self, runs, runner)
    }
}

fn narrow(sweep: &mut Sweep, to: &Sweep) {
    for (name, values) in sweep.iter_mut() {
        // A variant that already has fewer values keeps them; a short run must not add runs.
        if let Some(fewer) = to.get(name).filter(|fewer| parameters::count(fewer) <= parameters::count(values)) {
            values.clone_from(fewer);
        }
    }
}

#[cfg(test)]
mod tests;
