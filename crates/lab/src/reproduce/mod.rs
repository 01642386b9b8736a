//! `switchpath reproduce` and `switchpath sim`: experiments and single worlds in virtual time.

mod cache;
mod captures;
pub mod files;
mod page;
mod parallel;
pub mod plot;
mod real;
mod world;

pub use real::{RealCosts, RealHosts, RealPackets, RealProcessor, RealSlices, RealState};

use anyhow::{Context, Result, bail};
use cache::RunCache;
use cli::arguments::{ReproduceArguments, SimulateArguments, UsageError};
use cli::guests;
use cli::output::{Rows, print_json};
use parallel::{ExperimentOutcome, ExperimentRuns, RunBatch};
use serde::Serialize;
use sim::experiment::{
    Agreement, DataFiles, Experiment, ExperimentFile, ExperimentReport, ExpressionValue, Job, ParameterValue,
    Parameters, PublishedFigure, RunMode, Simulation, VerdictCounts, entries, is_experiment,
};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// One line of `-j`.
#[derive(Serialize)]
struct ClaimLine<'a> {
    paper: &'a str,
    experiment: &'a str,
    claim: &'a str,
    published: Option<&'a PublishedFigure>,
    measured: Option<&'a ExpressionValue>,
    unit: &'a str,
    verdict: Agreement,
    #[serde(skip_serializing_if = "Option::is_none")]
    differs: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The summary that `-j` prints.
#[derive(Serialize)]
struct Summary<'a> {
    summary: VerdictCounts,
    claims: Vec<ClaimLine<'a>>,
}

fn lines(report: &ExperimentReport) -> impl Iterator<Item = ClaimLine<'_>> {
    report.verdicts.iter().map(|verdict| ClaimLine {
        paper: &report.paper,
        experiment: &report.experiment,
        claim: &verdict.claim,
        published: verdict.published.as_ref(),
        measured: verdict.measured.as_ref(),
        unit: &verdict.unit,
        verdict: verdict.verdict,
        differs: verdict.differs.as_deref(),
        error: verdict.error.as_deref(),
    })
}

fn lines_of(reports: &[ExperimentReport]) -> Vec<ClaimLine<'_>> {
    reports.iter().flat_map(lines).collect()
}

/// `switchpath reproduce`.
pub fn reproduce(options: &ReproduceArguments) -> Result<ExitCode> {
    let experiments = match &options.experiments {
        Some(folder) => files::experiments(folder)?,
        None => built_in()?,
    };
    let chosen = choose(experiments, options.paper.as_deref(), options.experiment.as_deref())?;
    if options.list {
        return list(&chosen).map(|()| ExitCode::SUCCESS);
    }
    let files = DataFiles::from_environment(None);
    let wanted = requested_parameters(options);
    let order = |experiment: Experiment| {
        // Only the parameters that the experiment has: one on a constant link has no trace.
        let set = wanted.iter().filter(|(name, _)| experiment.has_parameter(name));
        let set = set.map(|(name, value)| (name.clone(), value.clone())).collect();
        let extent = RunMode { quick: options.quick, real: options.real };
        let jobs = experiment.jobs_with_files(&set, extent, &files);
        let (jobs, remarks) = jobs.map_err(anyhow::Error::msg)?;
        Ok(ExperimentRuns { experiment, jobs, remarks, rounds: 1 })
    };
    let mut orders = chosen.into_iter().map(order).collect::<Result<Vec<ExperimentRuns>>>()?;
    let told = OutputOptions { folder: Some(&options.out), json: options.json, is_partial: false };
    let elsewhere =
        if options.real { "only in virtual time, without --real" } else { "only in real time, with --real" };
    let left_out: Vec<String> = orders
        .extract_if(.., |order| order.jobs.is_empty())
        .map(|order| order.experiment.document.experiment)
        .collect();
    if orders.is_empty() {
        bail!(UsageError(format!("{}: {elsewhere}", left_out.join(", "))));
    }
    if !left_out.is_empty() {
        eprintln!("switchpath: skipped {}: {elsewhere}", left_out.join(", "));
    }
    let threads = options.jobs.unwrap_or_else(parallel::cores);
    if !options.real {
        let simulation = Simulation { files, ..Simulation::default() };
        return carry_out(&[RunBatch { experiments: orders, runner: &simulation, at_once: threads }], told);
    }
    let (mut of_processor, orders): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        orders.into_iter().partition(|order| jobs_satisfy(order, RealProcessor::supports));
    let (mut of_costs, orders): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        orders.into_iter().partition(|order| jobs_satisfy(order, RealCosts::supports));
    let (mut slices, orders): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        orders.into_iter().partition(|order| jobs_satisfy(order, RealSlices::supports));
    let (state, orders): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        orders.into_iter().partition(|order| jobs_satisfy(order, RealState::supports));
    let (hosts, mut routers): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        orders.into_iter().partition(|order| jobs_satisfy(order, RealHosts::supports));
    let (alone, state): (Vec<ExperimentRuns>, Vec<ExperimentRuns>) =
        state.into_iter().partition(|order| jobs_satisfy(order, RealState::needs_machine_alone));
    for order in of_processor.iter_mut().chain(&mut of_costs).chain(&mut slices).chain(&mut routers) {
        let usual = order.experiment.document.rounds(options.quick);
        order.rounds = usize::from(options.repeat.unwrap_or(usual));
    }
    let (of_slices, of_routers, of_hosts, of_state, of_alone);
    let mut batches: Vec<RunBatch<'_>> = Vec::new();
    // One at a time: two would compete for the same processors.
    if !of_processor.is_empty() {
        batches.push(RunBatch { experiments: of_processor, runner: &RealProcessor, at_once: 1 });
    }
    if !of_costs.is_empty() {
        batches.push(RunBatch { experiments: of_costs, runner: &RealCosts, at_once: 1 });
    }
    if !slices.is_empty() {
        let measures = slices.iter().map(|order| order.experiment.document.measures);
        of_slices = RealSlices::new(measures, options.click.as_deref())?;
        for order in &mut slices {
            order.remarks.extend(of_slices.skip_missing(&mut order.jobs));
        }
        batches.push(RunBatch { experiments: slices, runner: &of_slices, at_once: 1 });
    }
    if !routers.is_empty() {
        of_routers = RealPackets::new(options.slower)?;
        batches.push(RunBatch { experiments: routers, runner: &of_routers, at_once: 1 });
    }
    if !hosts.is_empty() {
        let at_once = options.jobs.unwrap_or(parallel::cores() * RealHosts::ON_A_CORE);
        of_hosts = RealHosts::new(files, at_once)?;
        batches.push(RunBatch { experiments: hosts, runner: &of_hosts, at_once });
    }
    if !state.is_empty() {
        let at_once = options.jobs.unwrap_or(parallel::cores() * RealState::ON_A_CORE);
        of_state = RealState::new(at_once)?;
        batches.push(RunBatch { experiments: state, runner: &of_state, at_once });
    }
    if !alone.is_empty() {
        of_alone = RealState::new(1)?;
        batches.push(RunBatch { experiments: alone, runner: &of_alone, at_once: 1 });
    }
    carry_out(&batches, told)
}

/// True if the runs of an experiment satisfy `such`.
fn jobs_satisfy(order: &ExperimentRuns, such: fn(&Job) -> bool) -> bool {
    order.jobs.first().is_some_and(such)
}

/// The parameters requested for all experiments that have them.
fn requested_parameters(options: &ReproduceArguments) -> Parameters {
    let of =
        |name: &str, value: &Option<String>| value.clone().map(|value| (name.to_owned(), ParameterValue::Text(value)));
    [of("trace", &options.trace), of("transport", &options.transport)].into_iter().flatten().collect()
}

/// `switchpath sim`.
pub fn simulate(options: &SimulateArguments) -> Result<ExitCode> {
    let file = options.file.display().to_string();
    let text = std::fs::read_to_string(&options.file).with_context(|| format!("{file} cannot be read"))?;
    let set: Parameters =
        options.settings.iter().map(|(name, value)| (name.clone(), ParameterValue::read(value))).collect();
    let folder = options.file.parent().unwrap_or(Path::new("."));
    let files = DataFiles::from_environment(Some(folder));
    let simulation = Simulation { guests: guests::simulation_directory(&options.guests)?, files: files.clone() };
    if !is_experiment(&text) {
        return world::world(&file, &text, &set, options, &simulation);
    }
    let experiment = Experiment::read(&file, &text, &|name| files::beside(folder, name)).map_err(anyhow::Error::msg)?;
    let extent = RunMode { quick: options.quick, real: false };
    let (jobs, remarks) = experiment.jobs_with_files(&set, extent, &files).map_err(anyhow::Error::msg)?;
    if !options.json {
        let mut out = std::io::stdout().lock();
        for (number, job) in jobs.iter().enumerate() {
            writeln!(out, "run {}: {}", number + 1, sim::experiment::describe(&job.parameters))?;
        }
        writeln!(out)?;
    }
    let partly = !set.is_empty();
    let told = OutputOptions { folder: options.out.as_deref(), json: options.json, is_partial: partly };
    let threads = options.jobs.unwrap_or_else(parallel::cores);
    let orders = vec![ExperimentRuns { experiment, jobs, remarks, rounds: 1 }];
    carry_out(&[RunBatch { experiments: orders, runner: &simulation, at_once: threads }], told)
}

/// The destinations of results.
struct OutputOptions<'a> {
    /// The folder for files.
    folder: Option<&'a Path>,
    json: bool,
    /// True if only some of the runs were requested.
    is_partial: bool,
}

/// Carries out all runs, prints and writes the results. If only some of the runs were requested, claims about the others are left out.
fn carry_out(batches: &[RunBatch<'_>], output: OutputOptions<'_>) -> Result<ExitCode> {
    let OutputOptions { folder, json, is_partial: partly } = output;
    folder.map_or(Ok(()), files::prepare)?;
    let kept = folder.map_or(RunCache::disabled(), RunCache::in_folder);
    let mut reports = Vec::new();
    let mut done = |mut outcome: ExperimentOutcome| {
        if partly {
            outcome.report.verdicts.retain(|verdict| verdict.error.is_none());
            outcome.report.errors.retain(|error| error.starts_with("the run "));
        }
        if !json {
            print(&outcome.report)?;
        }
        // Write while other runs continue, and free the memory: time series take megabytes per run.
        folder.map_or(Ok(()), |folder| files::write(folder, &outcome))?;
        reports.push(outcome.report);
        Ok(())
    };
    for batch in batches {
        parallel::run_all(batch, &kept, &mut done)?;
    }
    let mut out = std::io::stdout().lock();
    if json {
        print_json(&mut out, &Summary { summary: summary(&reports), claims: lines_of(&reports) })?;
        let errors = reports.iter().flat_map(|report| &report.errors);
        errors.for_each(|error| eprintln!("switchpath: {error}"));
    }
    if !json {
        print_summary(&mut out, &reports)?;
    }
    if let Some(folder) = folder {
        files::write_page(folder, &reports)?;
        if !json {
            writeln!(out, "All of it, with plots: {}", folder.join("index.html").display())?;
        }
    }
    let explained = reports.iter().all(ExperimentReport::is_explained);
    Ok(if explained { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The count of each verdict over all experiments.
fn summary(reports: &[ExperimentReport]) -> VerdictCounts {
    reports.iter().flat_map(|report| &report.verdicts).map(|verdict| verdict.verdict).collect()
}

/// A line for each experiment if there are several, and one for all.
fn print_summary(out: &mut impl Write, reports: &[ExperimentReport]) -> Result<()> {
    if reports.len() > 1 {
        let mut rows =
            Rows::new(&["EXPERIMENT", ">MATCHES", ">DIRECTION ONLY", ">NOT REPRODUCED", ">REPORTED", "ABOUT"]);
        for report in reports {
            let tally = report.verdict_counts();
            let mut row = vec![format!("{} {}", report.paper, report.experiment)];
            row.extend(Agreement::ALL.map(|verdict| tally.count(verdict).to_string()));
            row.push(report.title.clone());
            rows.line(row);
        }
        rows.print(out)?;
    }
    writeln!(out, "{}", summary(reports))?;
    Ok(())
}

/// The experiments compiled into the program.
fn built_in() -> Result<Vec<Experiment>> {
    let beside = |paper: &str, name: &str| {
        let found = entries().find(|entry| entry.paper == paper && entry.file == name);
        found.map(|entry| entry.text.to_owned()).ok_or_else(|| format!("{name} is missing"))
    };
    let read = |entry: &'static ExperimentFile| {
        let file = format!("{}/{}", entry.paper, entry.file);
        Experiment::read(&file, entry.text, &|name| beside(entry.paper, name)).map_err(anyhow::Error::msg)
    };
    entries().filter(|entry| is_experiment(entry.text)).map(read).collect()
}

fn choose(experiments: Vec<Experiment>, paper: Option<&str>, experiment: Option<&str>) -> Result<Vec<Experiment>> {
    let is = |wanted: Option<&str>, have: &str| wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(have));
    let names = |list: Vec<&str>| {
        let mut list = list;
        list.dedup();
        list.join(", ")
    };
    if let Some(wanted) = paper.filter(|wanted| !experiments.iter().any(|e| is(Some(wanted), &e.document.paper))) {
        let known = names(experiments.iter().map(|e| e.document.paper.as_str()).collect());
        bail!(UsageError(format!("no paper `{wanted}`; choose one of: {known}")));
    }
    let mut of_paper: Vec<Experiment> = experiments.into_iter().filter(|e| is(paper, &e.document.paper)).collect();
    if let Some(wanted) = experiment {
        let known = names(of_paper.iter().map(|e| e.document.experiment.as_str()).collect());
        of_paper.retain(|e| is(experiment, &e.document.experiment));
        if of_paper.is_empty() {
            bail!(UsageError(format!("no experiment `{wanted}`; choose one of: {known}")));
        }
    }
    Ok(of_paper)
}

fn list(experiments: &[Experiment]) -> Result<()> {
    let mut rows = Rows::new(&["PAPER", "EXPERIMENT", "ABOUT", ">CLAIMS"]);
    for Experiment { document: d, .. } in experiments {
        rows.add([d.paper.clone(), d.experiment.clone(), d.title.clone(), d.claims.len().to_string()]);
    }
    rows.print(&mut std::io::stdout().lock())
}

fn print(report: &ExperimentReport) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {}: {} ({} runs)", report.paper, report.experiment, report.title, report.runs)?;
    let mut rows = Rows::new(&["CLAIM", ">PUBLISHED", ">MEASURED", "VERDICT", ""]);
    for verdict in &report.verdicts {
        let published = verdict.published.as_ref().map_or(String::from("-"), ToString::to_string);
        let measured = format!("{} {}", verdict.shown, verdict.unit);
        let agreement = verdict.verdict.to_string();
        rows.add([verdict.claim.clone(), published, measured.trim().to_owned(), agreement, verdict.text.clone()]);
    }
    rows.print(&mut out)?;
    for table in report.tables.iter().filter(|table| table.printed) {
        writeln!(out, "\n {}", table.title)?;
        let heads: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        let mut rows = Rows::new(&heads);
        table.rows.iter().for_each(|row| rows.line(row.clone()));
        rows.print(&mut out)?;
    }
    for verdict in &report.verdicts {
        if let Some(differs) = &verdict.differs {
            writeln!(out, " {}: {differs}", verdict.claim)?;
        }
    }
    for remark in &report.remarks {
        writeln!(out, " {remark}")?;
    }
    let errors = report.verdicts.iter().filter_map(|verdict| verdict.error.as_ref()).chain(&report.errors);
    for error in errors {
        writeln!(out, " error: {error}")?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests;
