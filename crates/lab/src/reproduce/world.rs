//! `switchpath sim` for a single world: prints its input, then all measurements.

use super::parallel::ExperimentOutcome;
use super::{captures, files};
use anyhow::{Result, anyhow};
use cli::arguments::SimulateArguments;
use cli::output::{Rows, print_json};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sim::Measurements;
use sim::experiment::{
    Axis, Curve, ExperimentReport, ExpressionValue, Grid, Job, Parameters, Picture, RunKind, Simulation, format_value,
    substitute,
};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Steps of the progress bar.
const STEPS: u64 = 1000;

/// Runs the world.
pub fn world(
    file: &str,
    text: &str,
    set: &Parameters,
    options: &SimulateArguments,
    simulation: &Simulation,
) -> Result<ExitCode> {
    let world = substitute(text, set).map_err(|error| anyhow!("{file}: {error}; give it with --set"))?;
    let job = Job { file: file.to_owned(), world, measures: RunKind::World, parameters: set.clone() };
    let folder = options.file.parent().unwrap_or(Path::new("."));
    let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{bar:32} {percent}%, {elapsed}, {eta} to go").expect("it is sound"));
    let mut captures = captures::Folder(folder.to_owned(), simulation.files.clone());
    let measured = simulation.simulate(&job, &mut captures, &mut |part| bar.set_position((part * STEPS as f64) as u64));
    bar.finish_and_clear();
    let measured = measured.map_err(anyhow::Error::msg)?;
    let mut out = std::io::stdout().lock();
    if let Some(folder) = &options.out {
        files::write_measured(folder, &measured)?;
        let outcome = world_report(&options.file, text, &measured);
        files::write(folder, &outcome)?;
        files::write_page(folder, &[outcome.report])?;
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
        rows.add([name.clone(), format_value(&ExpressionValue::Number(*value), None)]);
    }
    rows.print(&mut out)?;
    Ok(ExitCode::SUCCESS)
}

/// A single world as a report. The comment at the beginning of its file is the question. There are no claims. A run that breaks a law of worlds has
/// no report.
fn world_report(file: &Path, text: &str, measured: &Measurements) -> ExperimentOutcome {
    let name = file.file_stem().map_or_else(|| "world".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    let row = |(name, value): (&String, &f64)| vec![name.clone(), format_value(&ExpressionValue::Number(*value), None)];
    let values = Grid {
        title: "All measurements".to_owned(),
        columns: vec!["name".to_owned(), "value".to_owned()],
        rows: measured.values.iter().map(row).collect(),
        printed: false,
    };
    let report = ExperimentReport {
        paper: "world".to_owned(),
        title: name.clone(),
        experiment: name,
        question: comment.collect::<Vec<_>>().join(" "),
        method: String::new(),
        published: "none: a world without an experiment".to_owned(),
        measured_by: "simulated".to_owned(),
        runs: 1,
        remarks: measured.parameters.iter().map(|(name, value)| format!("{name} = {value}")).collect(),
        verdicts: Vec::new(),
        tables: vec![values],
        pictures: pictures(measured),
        errors: Vec::new(),
    };
    ExperimentOutcome { report, runs: Vec::new() }
}

/// The most curves in a figure of a world: more would not be readable.
const MOST_LINES: usize = 12;

/// A figure for each kind of time series, with a curve for each flow, link or path.
fn pictures(measured: &Measurements) -> Vec<Picture> {
    let mut pictures: BTreeMap<(&str, &str), Vec<Curve>> = BTreeMap::new();
    for (name, points) in &measured.series {
        // `flow.one.cwnd`: the kind, the name, the quantity.
        let Some((kind, rest)) = name.split_once('.') else { continue };
        let (which, what) = rest.split_once('.').unwrap_or(("", rest));
        let curves = pictures.entry((kind, what)).or_default();
        if curves.len() < MOST_LINES {
            curves
                .push(Curve { label: if which.is_empty() { kind } else { which }.to_owned(), points: points.clone() });
        }
    }
    let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
    let picture = |((kind, what), curves): ((&str, &str), Vec<Curve>)| Picture {
        id: format!("{kind}-{what}"),
        title: format!("{kind}: {what}"),
        published: String::new(),
        x: axis("time (s)"),
        y: axis(what),
        curves,
        references: Vec::new(),
    };
    pictures.into_iter().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_world_has_a_page_with_a_figure_for_each_series() {
        let series =
            |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), vec![(0.0, 1.0), (1.0, 2.0)])).collect();
        let measured = Measurements {
            series: series(&["flow.one.cwnd", "flow.two.cwnd", "link.a-b.state.count", "cpu.idle"]),
            values: [("flow.one.sent".to_owned(), 7.0)].into(),
            ..Measurements::default()
        };
        let outcome = world_report(
            Path::new("far/office.toml"),
            "# An office.\n# Behind a link.\nduration = \"1s\"\n",
            &measured,
        );
        let named: Vec<(&str, usize)> =
            outcome.report.pictures.iter().map(|picture| (picture.id.as_str(), picture.curves.len())).collect();
        assert_eq!(named, [("cpu-idle", 1), ("flow-cwnd", 2), ("link-state.count", 1)]);
        let folder = tempfile::tempdir().unwrap();
        files::write(folder.path(), &outcome).unwrap();
        files::write_page(folder.path(), &[outcome.report]).unwrap();
        let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
        assert!(page.contains("An office. Behind a link.") && page.contains("flow.one.sent"), "{page}");
        assert!(folder.path().join("world/office-flow-cwnd.png").is_file());
    }
}
