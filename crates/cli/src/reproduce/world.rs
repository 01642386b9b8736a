//! `switchpath sim` of a world by itself: what it follows from, then everything that was measured.

use super::{captures, files};
use crate::arguments::Simulate;
use crate::output::{Rows, print_json};
use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::experiment::{Answer, Job, Measures, Parameters, Simulation, substitute, written};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Runs it.
pub fn world(
    file: &str,
    text: &str,
    set: &Parameters,
    options: &Simulate,
    simulation: &Simulation,
) -> Result<ExitCode> {
    let world = substitute(text, set).map_err(|error| anyhow!("{file}: {error}; give it with --set"))?;
    let job = Job { file: file.to_owned(), world, measures: Measures::World, parameters: set.clone() };
    let folder = options.file.parent().unwrap_or(Path::new("."));
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:32} {percent}%, {elapsed}, {eta} to go").expect("it is sound"));
    let mut captures = captures::Folder(folder.to_owned());
    let measured = simulation.simulate(&job, &mut captures, &mut |part| bar.set_position((part * STEPS as f64) as u64));
    bar.finish_and_clear();
    let measured = measured.map_err(anyhow::Error::msg)?;
    let mut out = std::io::stdout().lock();
    if let Some(folder) = &options.out {
        files::write_measured(folder, &measured)?;
    }
    if options.json {
        return print_json(&mut out, &measured).map(|()| ExitCode::SUCCESS);
    }
    for (name, value) in &measured.parameters {
        let mut lines = value.lines();
        writeln!(out, "{name} = {}", lines.next().unwrap_or(""))?;
        lines.try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    writeln!(out)?;
    let mut rows = Rows::new(&["MEASURED", ">VALUE"]);
    for (name, value) in &measured.values {
        rows.add([name.clone(), written(&Answer::Number(*value), None)]);
    }
    rows.print(&mut out)?;
    Ok(ExitCode::SUCCESS)
}
