//! Runs, side by side on the cores there are. What comes of them does not depend on how many.

use super::kept::Kept;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::Measured;
use sim::experiment::{Experiment, Job, Report, Run, Runner, describe};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// An experiment that has been run.
pub struct Outcome {
    /// What came of it.
    pub report: Report,
    /// Its runs.
    pub runs: Vec<Run>,
}

/// An experiment, and what of it is to be run.
pub struct Order {
    /// The experiment.
    pub experiment: Experiment,
    /// Its runs.
    pub jobs: Vec<Job>,
    /// What is to be known of them, a line each.
    pub remarks: Vec<String>,
}

/// Runs all of them on so many threads, but those that have been kept and those that are as another. `done` gets each experiment as soon as it and those before it are done, and what it
/// prints is not torn by the progress bar. A run that fails is an error of its experiment's report.
///
/// # Errors
///
/// What `done` fails with.
pub fn carry_out(
    orders: &[Order],
    runner: &dyn Runner,
    threads: usize,
    kept: &Kept,
    mut done: impl FnMut(Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let tasks = tasks(orders, runner);
    let bar = progress(tasks.len());
    let next = AtomicUsize::new(0);
    let (results, arrivals) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, tasks.len().max(1)) {
            let results = results.clone();
            let (tasks, next) = (&tasks, &next);
            scope.spawn(move || {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (order, number) = task.places[0];
                    let result = kept.take_or(task.follows_from.as_deref(), || runner.run(&orders[order].jobs[number]));
                    if results.send((&task.places[..], result)).is_err() {
                        // Nobody wants to know any more.
                        return;
                    }
                }
            });
        }
        drop(results);
        gather(orders, runner, arrivals, &bar, &mut done)
    })
}

/// A run, and where it is wanted: several experiments may want the same.
struct Task {
    places: Vec<(usize, usize)>,
    follows_from: Option<String>,
}

fn tasks(orders: &[Order], runner: &dyn Runner) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (order, of) in orders.iter().enumerate() {
        for (number, job) in of.jobs.iter().enumerate() {
            let follows_from = runner.follows_from(job);
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

/// What a run came to.
type Came = Result<Measured, String>;

fn gather(
    orders: &[Order],
    runner: &dyn Runner,
    arrivals: mpsc::Receiver<(&[(usize, usize)], Came)>,
    bar: &ProgressBar,
    done: &mut impl FnMut(Outcome) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut came: Vec<Vec<Option<Came>>> = orders.iter().map(|o| o.jobs.iter().map(|_| None).collect()).collect();
    let mut reported = 0;
    loop {
        while reported < orders.len() && came[reported].iter().all(Option::is_some) {
            let outcome = outcome(&orders[reported], came[reported].drain(..).flatten(), runner);
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
            came[order][number] = Some(result.clone());
        }
    }
}

fn outcome(
    Order { experiment, jobs, remarks }: &Order,
    came: impl Iterator<Item = Came>,
    runner: &dyn Runner,
) -> Outcome {
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    for (job, came) in jobs.iter().zip(came) {
        match came {
            Ok(measured) => runs.push(Run { parameters: job.parameters.clone(), measured }),
            Err(error) => errors.push(format!("the run with {} failed: {error}", describe(&job.parameters))),
        }
    }
    let mut report = experiment.report(runs.clone(), runner);
    report.errors.splice(0..0, errors);
    report.remarks.extend(remarks.iter().cloned());
    Outcome { report, runs }
}

/// A bar on a terminal; nothing where nobody looks.
fn progress(runs: usize) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:32} {pos} of {len} runs, {elapsed}, {eta} to go  {msg}");
    bar.set_style(style.expect("the template is sound"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The threads that runs are spread over where nobody says: the processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
