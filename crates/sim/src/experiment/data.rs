//! The files that worlds name: traces of links, and sizes of transfers.

use crate::source::{CapturedPacket, Captures};
use link::medium::{Medium, Trace};
use plan::{MediumPlan, MediumText, Report};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders in which files are searched, after the path that their name gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DataFiles {
    folders: Vec<PathBuf>,
}

impl DataFiles {
    /// The hint in messages about a missing file.
    pub const HINT: &str = "set SWITCHPATH_DATA to the folder that contains it in links/";

    /// The folders of the environment: `SWITCHPATH_DATA`, or `../shared/data` by default, and `links` within it. `beside` is searched first.
    pub fn from_environment(beside: Option<&Path>) -> DataFiles {
        let data = std::env::var_os("SWITCHPATH_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
        DataFiles { folders: beside.into_iter().map(Path::to_owned).chain([data.join("links"), data]).collect() }
    }

    /// True if a trace is generated and not read from a file.
    pub fn is_generated(trace: &str) -> bool {
        trace == "lte" || trace.starts_with("lte(")
    }

    /// Finds a file.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let places = [PathBuf::from(name)].into_iter().chain(self.folders.iter().map(|folder| folder.join(name)));
        places.into_iter().find(|place| place.is_file())
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// The file does not exist, or cannot be read.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let Some(place) = self.find(name) else {
            return Err(format!("there is no file '{name}'; {}", DataFiles::HINT));
        };
        std::fs::read(&place).map_err(|error| format!("{}: {error}", place.display()))
    }

    /// The bit rate that a trace carries in its first `seconds` with one packet of `bytes` at each opportunity. The trace is given by name or
    /// description. A shorter trace is repeated.
    ///
    /// # Errors
    ///
    /// The trace is invalid.
    pub fn trace_rate(&self, trace: &str, bytes: f64, seconds: f64) -> Result<f64, String> {
        let trace = self.trace(trace)?;
        let (millis, end) = (trace.millis(), (seconds * 1000.0).max(1.0) as u64);
        let last = u64::from(millis.last().copied().unwrap_or(1)).max(1);
        let rest = millis.partition_point(|at| u64::from(*at) < end % last) as u64;
        let lines = end / last * millis.len() as u64 + rest;
        Ok(lines as f64 * bytes * 8.0 / (end as f64 / 1000.0))
    }

    /// How much the rate of a trace varies in its first `seconds`. It counts the opportunities in each interval of `part` seconds, and divides their
    /// standard deviation by their mean. A shorter trace is repeated.
    ///
    /// # Errors
    ///
    /// As of [`DataFiles::trace_rate`].
    pub fn trace_spread(&self, trace: &str, seconds: f64, part: f64) -> Result<f64, String> {
        let trace = self.trace(trace)?;
        let part = ((part * 1000.0) as u64).max(1);
        let mut counts = vec![0.0; ((seconds * 1000.0) as u64 / part).max(1) as usize];
        let last = u64::from(trace.millis().last().copied().unwrap_or(1)).max(1);
        for round in 0..=counts.len() as u64 * part / last {
            for at in trace.millis() {
                if let Some(count) = counts.get_mut(((round * last + u64::from(*at)) / part) as usize) {
                    *count += 1.0;
                }
            }
        }
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        Ok(if mean > 0.0 { variance.sqrt() / mean } else { 0.0 })
    }

    /// A trace, by its name or description.
    fn trace(&self, trace: &str) -> Result<Arc<Trace>, String> {
        let text = MediumText { key: "trace", text: trace, span: 0..0 };
        let mut report = Report::new("", trace);
        let plan = MediumPlan::read(&mut report, "trace", &[text], &MediumPlan::default());
        if report.failed() {
            return Err(report.finish().to_string());
        }
        Medium::trace(&plan, |file| self.read(file))?.ok_or_else(|| "it is no trace".to_owned())
    }
}

impl Captures for DataFiles {
    fn read(&mut self, file: &str) -> Result<Vec<CapturedPacket>, String> {
        Err(format!("cannot read '{file}': experiments open no captures"))
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, String> {
        DataFiles::read(self, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_rate_counts_lines() {
        let folder = std::env::temp_dir().join(format!("switchpath-traces-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("a.down"), "0\n100\n200\n200\n500\n").unwrap();
        let files = DataFiles { folders: vec![folder.clone()] };
        // Four packets of 1250 bytes in 400 ms; ten in two rounds of 500 ms; and 1.1 s with the line of time zero of the third round.
        for seconds in [0.4, 1.0, 1.1] {
            let rate = files.trace_rate("a.down", 1250.0, seconds).unwrap();
            assert!((rate - 100_000.0).abs() < 0.001, "{seconds}: {rate}");
        }
        // Four in the first quarter of a second and none in the next; then a constant rate.
        std::fs::write(folder.join("even.down"), "50\n100\n").unwrap();
        assert!((files.trace_spread("a.down", 0.5, 0.25).unwrap() - 1.0).abs() < 1e-9);
        assert!(files.trace_spread("even.down", 20.0, 1.0).unwrap() < 0.02);
        let made_up = files.trace_rate("lte(mean=6mbit, length=100s)", 1500.0, 100.0).unwrap();
        assert!((made_up / 6e6 - 1.0).abs() < 0.2, "{made_up}");
        assert!(files.trace_rate("b.down", 1250.0, 1.0).unwrap_err().contains("there is no file 'b.down'"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
