//! Runs that are kept: what a run follows from and what came of it, a file each, so that nothing is run again that would give the same. Who
//! stops a long reproduction goes on where it was.

use serde::{Deserialize, Serialize};
use sim::Measured;
use sim::experiment::digest;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where runs are kept; nowhere, where there is no folder.
pub struct Kept {
    folder: Option<PathBuf>,
    /// The program, whose every change may change what comes of a run.
    program: u64,
}

/// A run as it is kept. Numbers are kept by their bits, so that they are the same to the last.
#[derive(Serialize, Deserialize)]
struct Entry {
    program: u64,
    follows_from: String,
    parameters: Vec<(String, String)>,
    values: BTreeMap<String, u64>,
    series: BTreeMap<String, Vec<(u64, u64)>>,
    samples: BTreeMap<String, Vec<u64>>,
}

/// Each list under its name, otherwise.
fn each<A, B>(lists: &BTreeMap<String, Vec<A>>, turn: impl Fn(&A) -> B) -> BTreeMap<String, Vec<B>> {
    lists.iter().map(|(name, list)| (name.clone(), list.iter().map(&turn).collect())).collect()
}

impl Entry {
    fn new(program: u64, follows_from: &str, measured: &Measured) -> Entry {
        Entry {
            program,
            follows_from: follows_from.to_owned(),
            parameters: measured.parameters.clone(),
            values: measured.values.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect(),
            series: each(&measured.series, |(x, y)| (x.to_bits(), y.to_bits())),
            samples: each(&measured.samples, |value| value.to_bits()),
        }
    }

    fn measured(self) -> Measured {
        Measured {
            parameters: self.parameters,
            values: self.values.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))).collect(),
            series: each(&self.series, |(x, y)| (f64::from_bits(*x), f64::from_bits(*y))),
            samples: each(&self.samples, |bits| f64::from_bits(*bits)),
        }
    }
}

impl Kept {
    /// Nothing is kept.
    pub fn nowhere() -> Kept {
        Kept { folder: None, program: 0 }
    }

    /// In `runs` of a folder of results. Nothing is kept where the program cannot be told from others.
    pub fn within(folder: &Path) -> Kept {
        let program = std::env::current_exe().and_then(fs::read);
        match program {
            Ok(bytes) => Kept { folder: Some(folder.join("runs")), program: digest(&bytes) },
            Err(_) => Kept::nowhere(),
        }
    }

    /// What came of a run, where it is kept; else it is carried out, and kept. What cannot be written is run again some time.
    pub fn take_or(
        &self,
        follows_from: Option<&str>,
        run: impl FnOnce() -> Result<Measured, String>,
    ) -> Result<Measured, String> {
        let (Some(folder), Some(follows_from)) = (&self.folder, follows_from) else { return run() };
        let path = folder.join(format!("{:016x}.json", digest(follows_from.as_bytes())));
        if let Ok(text) = fs::read(&path)
            && let Ok(entry) = serde_json::from_slice::<Entry>(&text)
            && entry.program == self.program
            && entry.follows_from == follows_from
        {
            return Ok(entry.measured());
        }
        let measured = run()?;
        let entry = Entry::new(self.program, follows_from, &measured);
        let beside = path.with_extension("partly");
        // Whole or not at all, for the next one to read.
        if let Ok(text) = serde_json::to_vec(&entry)
            && fs::create_dir_all(folder).is_ok()
            && fs::write(&beside, text).is_ok()
        {
            let _ = fs::rename(&beside, &path);
        }
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_carried_out_again_only_where_something_else_follows_from_it() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { folder: Some(folder.path().to_owned()), program: 1 };
        let give = |value: f64| Measured {
            parameters: vec![("seed".into(), "1".into())],
            values: [("x".to_owned(), value)].into(),
            series: [("s".to_owned(), vec![(value / 3.0, value)])].into(),
            samples: [("t".to_owned(), vec![value / 7.0, f64::NAN.min(1.0)])].into(),
        };
        assert_eq!(kept.take_or(Some("world"), || Ok(give(0.1))), Ok(give(0.1)));
        assert_eq!(kept.take_or(Some("world"), || Err("not again".into())), Ok(give(0.1)));
        assert_eq!(kept.take_or(Some("another"), || Ok(give(2.0))), Ok(give(2.0)));
        assert_eq!(kept.take_or(None, || Err("not kept".into())), Err("not kept".into()));
        let newer = Kept { program: 2, ..kept };
        assert_eq!(newer.take_or(Some("world"), || Ok(give(3.0))), Ok(give(3.0)));
        assert_eq!(newer.take_or(Some("failing"), || Err("why".into())), Err("why".into()));
        assert_eq!(newer.take_or(Some("failing"), || Ok(give(4.0))), Ok(give(4.0)), "what failed is not kept");
    }
}
