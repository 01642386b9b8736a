//! Runs in parallel on the available cores. Results do not depend on their number. Measurements are repeated round after round, and medians are
//! reported, so that good and bad minutes of a machine affect all runs of an experiment alike.

use super::cache::RunCache;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::Measurements;
use sim::experiment::{CompletedRun, Experiment, ExperimentReport, Job, Runner, describe};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// A finished experiment.
pub struct ExperimentOutcome {
    /// Its report.
    pub report: ExperimentReport,
    /// Its runs.
    pub runs: Vec<CompletedRun>,
}

/// An experiment and the selected runs.
pub struct ExperimentRuns {
    /// The experiment.
    pub experiment: Experiment,
    /// Its runs.
    pub jobs: Vec<Job>,
    /// Remarks for the report, one line each.
    pub remarks: Vec<String>,
    /// How often all runs are carried out. With more than one round the results are medians.
    pub rounds: usize,
}

/// Experiments with the same runner.
pub struct RunBatch<'a> {
    /// The experiments to run.
    pub experiments: Vec<ExperimentRuns>,
    /// The runner.
    pub runner: &'a dyn Runner,
    /// How many runs are carried out in parallel.
    pub at_once: usize,
}

/// Carries out all runs, except for cached and duplicate ones. `done` gets each experiment as soon as it and all earlier ones are finished. The
/// progress bar does not disturb the output of `done`. A run that fails is an error in its experiment's report.
///
/// # Errors
///
/// The error of `done`.
pub fn run_all(
    batch: &RunBatch<'_>,
    kept: &RunCache,
    mut done: impl FnMut(ExperimentOutcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (orders, runner) = (&batch.experiments, batch.runner);
    let tasks = tasks(orders, runner);
    let turns: Vec<&Task> = tasks
        .chunk_by(|one, other| one.places[0].0 == other.places[0].0)
        .flat_map(|of_one| std::iter::repeat_n(of_one, orders[of_one[0].places[0].0].rounds).flatten())
        .collect();
    let bar = progress(turns.len());
    let next = AtomicUsize::new(0);
    let (results, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..batch.at_once.clamp(1, turns.len().max(1)) {
            let results = results.clone();
            let (turns, next) = (&turns, &next);
            scope.spawn(move || {
                while let Some(task) = turns.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (order, number) = task.places[0];
                    let result =
                        kept.get_or_run(task.follows_from.as_deref(), || runner.run(&orders[order].jobs[number]));
                    if results.send((&task.places[..], result)).is_err() {
                        // The receiver has stopped after an error.
                        return;
                    }
                }
            });
        }
        // Keep no sender of our own: `gather` has to see the end of the channel if all threads have ended.
        drop(results);
        gather(batch, arrivals, &bar, &mut done)
    })
}

/// A run, and the experiments that need it: several may need the same.
struct Task {
    places: Vec<(usize, usize)>,
    follows_from: Option<String>,
}

fn tasks(orders: &[ExperimentRuns], runner: &dyn Runner) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (order, of) in orders.iter().enumerate() {
        for (number, job) in of.jobs.iter().enumerate() {
            let follows_from = runner.cache_key(job);
            match follows_from.as_ref().and_then(|text| known.get(text)) {
                Some(&task) => tasks[task].places.push((order, number)),
                None => {
                    known.extend(follows_from.iter().map(|text| (text.clone(), tasks.len())));
                    tasks.push(Task { places: vec![(order, number)], follows_from });
                }
            }
        }
    }
    tasks
}

/// The result of a run.
type RunResult = Result<Measurements, String>;

fn gather(
    batch: &RunBatch<'_>,
    arrivals: mpsc::Receiver<(&[(usize, usize)], RunResult)>,
    bar: &ProgressBar,
    done: &mut impl FnMut(ExperimentOutcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let orders = &batch.experiments;
    let mut came: Vec<Vec<Vec<RunResult>>> =
        orders.iter().map(|o| o.jobs.iter().map(|_| Vec::new()).collect()).collect();
    let mut reported = 0;
    loop {
        // Report experiments in order, so hold back those that finish before an earlier one.
        while reported < orders.len() && came[reported].iter().all(|rounds| rounds.len() == orders[reported].rounds) {
            let outcome = outcome(&orders[reported], came[reported].drain(..).map(median_result), batch);
            bar.suspend(|| done(outcome))?;
            reported += 1;
        }
        if reported == orders.len() {
            bar.finish_and_clear();
            return Ok(());
        }
        let Ok((places, result)) = arrivals.recv() else {
            anyhow::bail!("a run ended without a result");
        };
        bar.set_message(orders[places[0].0].experiment.document.experiment.clone());
        bar.inc(1);
        for &(order, number) in places {
            came[order][number].push(result.clone());
        }
    }
}

/// The results of all rounds of a run together: the first error, or medians.
fn median_result(rounds: Vec<RunResult>) -> RunResult {
    let mut rounds = rounds.into_iter().collect::<Result<Vec<Measurements>, String>>()?;
    Ok(if rounds.len() == 1 { rounds.remove(0) } else { medians(rounds) })
}

/// The median of each value over all runs. A value that a run does not have counts as zero.
pub fn medians(mut runs: Vec<Measurements>) -> Measurements {
    let count = runs.len();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut series: BTreeMap<String, Vec<Vec<(f64, f64)>>> = BTreeMap::new();
    for run in &mut runs {
        std::mem::take(&mut run.values)
            .into_iter()
            .for_each(|(name, value)| values.entry(name).or_default().push(value));
        std::mem::take(&mut run.series)
            .into_iter()
            .for_each(|(name, points)| series.entry(name).or_default().push(points));
    }
    let middle = |mut list: Vec<f64>| {
        list.resize(count.max(list.len()), 0.0);
        list.sort_by(f64::total_cmp);
        list[list.len() / 2]
    };
    let along = |runs: Vec<Vec<(f64, f64)>>| {
        let points = runs.iter().map(Vec::len).min().unwrap_or(0);
        (0..points).map(|at| (runs[0][at].0, middle(runs.iter().map(|run| run[at].1).collect()))).collect()
    };
    Measurements {
        parameters: runs.pop().map(|run| run.parameters).unwrap_or_default(),
        values: values.into_iter().map(|(name, list)| (name, middle(list))).collect(),
        series: series.into_iter().map(|(name, runs)| (name, along(runs))).collect(),
        // Only worlds of hosts in virtual time have pooled samples, and those are not repeated.
        samples: Default::default(),
    }
}

fn outcome(
    ExperimentRuns { experiment, jobs, remarks, rounds }: &ExperimentRuns,
    came: impl Iterator<Item = RunResult>,
    batch: &RunBatch<'_>,
) -> ExperimentOutcome {
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    for (job, came) in jobs.iter().zip(came) {
        match came {
            Ok(measured) => runs.push(CompletedRun { parameters: job.parameters.clone(), measured }),
            Err(error) => errors.push(format!("the run with {} failed: {error}", describe(&job.parameters))),
        }
    }
    let mut report = experiment.report(runs.clone(), batch.runner);
    report.errors.splice(0..0, errors);
    let rounds = (*rounds > 1).then(|| format!("medians of {rounds} rounds"));
    report.remarks.extend(rounds.into_iter().chain(remarks.iter().cloned()));
    ExperimentOutcome { report, runs }
}

/// A progress bar on a terminal; hidden elsewhere.
fn progress(runs: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:32} {pos} of {len} runs, {elapsed}, {eta} to go  {msg}");
    bar.set_style(style.expect("the template is sound"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The default number of threads: the processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
