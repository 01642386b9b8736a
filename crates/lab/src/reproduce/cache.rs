//! Cached runs: a file each with the input of a run and its result, so that an identical run is not repeated. A long reproduction that was stopped
//! continues from them.

use serde::{Deserialize, Serialize};
use sim::Measurements;
use sim::experiment::digest;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The cache of runs; disabled without a folder.
pub struct RunCache {
    folder: Option<PathBuf>,
    /// Hash of the program, because any change of it may change a run's result.
    program: u64,
}

/// A cached run. Numbers are stored as bits, so that they are exact.
#[derive(Serialize, Deserialize)]
struct Entry {
    program: u64,
    follows_from: String,
    parameters: Vec<(String, String)>,
    values: BTreeMap<String, u64>,
    series: BTreeMap<String, Vec<(u64, u64)>>,
    samples: BTreeMap<String, Vec<u64>>,
}

/// Applies `turn` to each element of each list.
fn each<A, B>(lists: &BTreeMap<String, Vec<A>>, turn: impl Fn(&A) -> B) -> BTreeMap<String, Vec<B>> {
    lists.iter().map(|(name, list)| (name.clone(), list.iter().map(&turn).collect())).collect()
}

impl Entry {
    fn new(program: u64, follows_from: &str, measured: &Measurements) -> Entry {
        Entry {
            program,
            follows_from: follows_from.to_owned(),
            parameters: measured.parameters.clone(),
            values: measured.values.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect(),
            series: each(&measured.series, |(x, y)| (x.to_bits(), y.to_bits())),
            samples: each(&measured.samples, |value| value.to_bits()),
        }
    }

    fn measured(self) -> Measurements {
        Measurements {
            parameters: self.parameters,
            values: self.values.into_iter().map(|(name, bits)| (name, f64::from_bits(bits))).collect(),
            series: each(&self.series, |(x, y)| (f64::from_bits(*x), f64::from_bits(*y))),
            samples: each(&self.samples, |bits| f64::from_bits(*bits)),
        }
    }
}

impl RunCache {
    /// A disabled cache.
    pub fn disabled() -> RunCache {
        RunCache { folder: None, program: 0 }
    }

    /// A cache in the directory `runs` of a results folder. Disabled if the program's hash cannot be computed.
    pub fn in_folder(folder: &Path) -> RunCache {
        let program = std::env::current_exe().and_then(fs::read);
        match program {
            Ok(bytes) => RunCache { folder: Some(folder.join("runs")), program: digest(&bytes) },
            Err(_) => RunCache::disabled(),
        }
    }

    /// The cached result of a run. If there is none, carries it out and stores it. An entry that cannot be written is run again some time.
    pub fn get_or_run(
        &self,
        follows_from: Option<&str>,
        run: impl FnOnce() -> Result<Measurements, String>,
    ) -> Result<Measurements, String> {
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
        // Write atomically, so that a reader never finds half an entry.
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
    fn run_is_repeated_only_if_its_input_changed() {
        let folder = tempfile::tempdir().unwrap();
        let kept = RunCache { folder: Some(folder.path().to_owned()), program: 1 };
        let give = |value: f64| Measurements {
            parameters: vec![("seed".into(), "1".into())],
            values: [("x".to_owned(), value)].into(),
            series: [("s".to_owned(), vec![(value / 3.0, value)])].into(),
            samples: [("t".to_owned(), vec![value / 7.0, f64::NAN.min(1.0)])].into(),
        };
        assert_eq!(kept.get_or_run(Some("world"), || Ok(give(0.1))), Ok(give(0.1)));
        assert_eq!(kept.get_or_run(Some("world"), || Err("not again".into())), Ok(give(0.1)));
        assert_eq!(kept.get_or_run(Some("another"), || Ok(give(2.0))), Ok(give(2.0)));
        assert_eq!(kept.get_or_run(None, || Err("not kept".into())), Err("not kept".into()));
        let newer = RunCache { program: 2, ..kept };
        assert_eq!(newer.get_or_run(Some("world"), || Ok(give(3.0))), Ok(give(3.0)));
        assert_eq!(newer.get_or_run(Some("failing"), || Err("why".into())), Err("why".into()));
        assert_eq!(newer.get_or_run(Some("failing"), || Ok(give(4.0))), Ok(give(4.0)), "what failed is not kept");
    }
}
