//! Result files, and the experiments in a folder.

use super::page::page;
use super::parallel::ExperimentOutcome;
use super::plot::{Colours, png, svg};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use sim::Measurements;
use sim::experiment::{Experiment, ExperimentReport, Parameters, golden, is_experiment};
use std::fs;
use std::path::{Path, PathBuf};

/// The text of a file beside an experiment, by the name that the experiment uses.
pub fn beside(folder: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
}

/// The experiments of a folder: `PAPER/NAME.toml` or `NAME.toml`, sorted by name with `E9` before `E10`.
///
/// # Errors
///
/// A file cannot be read, or there is none.
pub fn experiments(folder: &Path) -> Result<Vec<Experiment>> {
    let mut files = Vec::new();
    for entry in read_dir(folder)? {
        match entry.is_dir() {
            true => files.extend(read_dir(&entry)?),
            false => files.push(entry),
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort_by_key(|file| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let digits = stem.trim_start_matches(|c: char| !c.is_ascii_digit()).to_owned();
        (file.parent().map(Path::to_owned), digits.parse::<u64>().unwrap_or(u64::MAX), stem)
    });
    let mut found = Vec::new();
    for path in files {
        let file = path.display().to_string();
        let text = fs::read_to_string(&path).with_context(|| format!("{file} cannot be read"))?;
        if is_experiment(&text) {
            let parent = path.parent().unwrap_or(Path::new("."));
            found.push(Experiment::read(&file, &text, &|name| beside(parent, name)).map_err(anyhow::Error::msg)?);
        }
    }
    if found.is_empty() {
        bail!("{} has no experiment: a file PAPER/NAME.toml with the key `experiment`", folder.display());
    }
    Ok(found)
}

fn read_dir(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

/// The JSON of an experiment.
#[derive(Serialize)]
struct ExperimentJson<'a> {
    #[serde(flatten)]
    report: &'a ExperimentReport,
    measured: Vec<RunValues<'a>>,
}

#[derive(Serialize)]
struct RunValues<'a> {
    parameters: &'a Parameters,
    values: &'a std::collections::BTreeMap<String, f64>,
}

/// Writes the results of an experiment into a folder: CSV, JSON and its figures.
///
/// # Errors
///
/// The file that cannot be written.
pub fn write(folder: &Path, ExperimentOutcome { report, runs }: &ExperimentOutcome) -> Result<()> {
    let of_paper = folder.join(&report.paper);
    fs::create_dir_all(&of_paper).with_context(|| format!("cannot create {}", of_paper.display()))?;
    let put = |name: String, content: &[u8]| put(&of_paper.join(name), content);
    let name = &report.experiment;
    let measured = runs.iter().map(|run| RunValues { parameters: &run.parameters, values: &run.measured.values });
    let everything = ExperimentJson { report, measured: measured.collect() };
    put(format!("{name}.csv"), golden(report).as_bytes())?;
    put(format!("{name}.json"), serde_json::to_string_pretty(&everything)?.as_bytes())?;
    for picture in &report.pictures {
        let drawn = svg(picture, &format!("{name}-{}", picture.id), &Colours::printed());
        put(format!("{name}-{}.svg", picture.id), drawn.as_bytes())?;
        put(format!("{name}-{}.png", picture.id), &png(&drawn)?)?;
    }
    Ok(())
}

/// Writes `index.html` over all experiments in a folder.
///
/// # Errors
///
/// It cannot be written.
pub fn write_page(folder: &Path, reports: &[ExperimentReport]) -> Result<()> {
    put(&folder.join("index.html"), page(reports).as_bytes())
}

/// Writes the measurements of a single world: `values.csv`, and a file for each time series.
///
/// # Errors
///
/// The file that cannot be written.
pub fn write_measured(folder: &Path, measured: &Measurements) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let values: String = measured.values.iter().map(|(name, value)| format!("{name},{value}\n")).collect();
    put(&folder.join("values.csv"), format!("name,value\n{values}").as_bytes())?;
    for (name, points) in &measured.series {
        let safe: String =
            name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
        let lines: String = points.iter().map(|(x, y)| format!("{x},{y}\n")).collect();
        put(&folder.join(format!("{safe}.csv")), format!("seconds,value\n{lines}").as_bytes())?;
    }
    Ok(())
}

/// Checks that the folder is writable before the runs start.
///
/// # Errors
///
/// Why it is not.
pub fn prepare(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let trial = folder.join("trial");
    put(&trial, &[])?;
    fs::remove_file(&trial).with_context(|| format!("{} cannot be removed", trial.display()))
}

/// Writes a file atomically: the old file stays if there is no space for the new one.
pub fn put(path: &Path, content: &[u8]) -> Result<()> {
    let beside = path.with_added_extension("partly");
    let written = fs::write(&beside, content).and_then(|()| fs::rename(&beside, path));
    written
        .inspect_err(|_| drop(fs::remove_file(&beside)))
        .with_context(|| format!("{} cannot be written", path.display()))
}
