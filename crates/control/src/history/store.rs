//! The history on disk: one file for each configuration, `history/GENERATION.json` in the state directory.
//!
//! A file is written under a temporary name, flushed and renamed, so that a power failure leaves the old or the new one. A lock keeps two routers
//! from sharing a directory.

use super::StoredConfiguration;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file of the reservations that survive a restart.
const FLOWS: &str = "reservations";
/// The folder of the files in the state directory.
pub(super) const FOLDER: &str = "history";
/// The largest file read: JSON makes a text at most six times as long.
const MOST_BYTES: u64 = 512 << 20;
/// The most files read. The history has fewer entries, but others may have put files there.
const MOST_FILES: usize = 10_000;

/// Why a directory cannot keep a history.
#[derive(Debug)]
pub struct StoreError {
    directory: PathBuf,
    reason: String,
    is_shared: bool,
}

impl StoreError {
    /// Returns whether another router uses the directory.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot keep the history in {}: {}", self.directory.display(), self.reason)
    }
}

impl std::error::Error for StoreError {}

/// The directory, locked.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    /// Held only for its lock.
    _lock: File,
}

impl Store {
    /// Opens a state directory, and creates it if necessary. Returns its entries, the oldest first, and warnings about unreadable files.
    pub fn open(state: &Path) -> Result<(Store, Vec<StoredConfiguration>, Vec<String>), StoreError> {
        let failed = |reason: String| StoreError { directory: state.to_owned(), reason, is_shared: false };
        let directory = state.join(FOLDER);
        // A router that becomes another user has to pass through the state directory to its own folder.
        let make = |path: &Path, mode| DirBuilder::new().recursive(true).mode(mode).create(path);
        make(state, 0o711).and_then(|()| make(&directory, 0o700)).map_err(|error| failed(error.to_string()))?;
        let lock = private().open(state.join("lock")).map_err(|error| failed(error.to_string()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let reason = "another router uses this directory; give this one its own --state-dir".into();
                return Err(StoreError { is_shared: true, ..failed(reason) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error.to_string())),
        }
        let (entries, warnings) = read(&directory).map_err(|error| failed(error.to_string()))?;
        Ok((Store { directory, _lock: lock }, entries, warnings))
    }

    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes an entry, whole or not at all.
    pub fn write(&mut self, entry: &StoredConfiguration) -> Result<(), String> {
        let written = self.replace(&self.path(entry.generation), |whole| {
            serde_json::to_writer(&mut *whole, entry)?;
            whole.write_all(b"\n")
        });
        written.map_err(|error| {
            let directory = self.directory.display();
            format!("cannot write generation {} to {directory}, so it is lost at a restart: {error}", entry.generation)
        })
    }

    /// Writes a file, whole or not at all.
    fn replace(&self, path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let beside = path.with_extension("tmp");
        let replace = || -> io::Result<()> {
            let mut file = private().truncate(true).open(&beside)?;
            let mut whole = io::BufWriter::new(&mut file);
            write(&mut whole)?;
            whole.flush()?;
            drop(whole);
            // The data must be on disk before its name, and the directory after both, or a power failure could leave an empty file.
            file.sync_all()?;
            fs::rename(&beside, path)?;
            File::open(&self.directory)?.sync_all()
        };
        replace().inspect_err(|_| drop(fs::remove_file(&beside)))
    }

    /// Writes the reservations that survive a restart, one a line.
    pub fn write_flows(&self, text: &str) -> Result<(), String> {
        let written = self.replace(&self.directory.join(FLOWS), |whole| whole.write_all(text.as_bytes()));
        written.map_err(|error| {
            format!(
                "cannot write the kept reservations to {}, so a restart loses them: {error}",
                self.directory.display()
            )
        })
    }

    /// The reservations that survive a restart. Empty if there are none, or the file cannot be read.
    pub fn read_flows(&self) -> String {
        fs::read_to_string(self.directory.join(FLOWS)).unwrap_or_default()
    }

    /// Removes an entry. If that fails, the next start finds and removes it.
    pub fn remove(&mut self, generation: u64) {
        let _ = fs::remove_file(self.path(generation));
    }

    fn path(&self, generation: u64) -> PathBuf {
        place(&self.directory, generation)
    }
}

/// Returns the entries of a folder, the oldest first, and warnings about unreadable files.
pub(super) fn read(folder: &Path) -> io::Result<(Vec<StoredConfiguration>, Vec<String>)> {
    let (mut entries, mut warnings) = (Vec::new(), Vec::new());
    for file in fs::read_dir(folder)?.take(MOST_FILES) {
        let path = file?.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => {}
            // Left by a router that was killed while it wrote.
            Some("tmp") => {
                let _ = fs::remove_file(&path);
                continue;
            }
            _ => continue,
        }
        match read_entry(&path) {
            Ok(entry) if place(folder, entry.generation) == path => entries.push(entry),
            Ok(entry) => warnings.push(skipped(&path, &format!("its content is of generation {}", entry.generation))),
            Err(reason) => warnings.push(skipped(&path, &reason)),
        }
    }
    entries.sort_by_key(|entry| entry.generation);
    Ok((entries, warnings))
}

fn place(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("{generation:012}.json"))
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

fn skipped(path: &Path, reason: &str) -> String {
    format!("ignoring {} in the history: {reason}", path.display())
}

fn read_entry(path: &Path) -> Result<StoredConfiguration, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    if length > MOST_BYTES {
        return Err(format!("it has {length} bytes"));
    }
    serde_json::from_reader(io::BufReader::new(file)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::ConfigurationHistory;
    use super::*;
    use crate::api::{Author, HistoryState as State, Via};
    use std::os::unix::fs::PermissionsExt;

    fn entry(generation: u64) -> StoredConfiguration {
        StoredConfiguration {
            generation,
            time_ns: 7,
            who: Author { uid: Some(0), user: Some("root".into()), ..Author::by(Via::Socket) },
            name: "a.toml".into(),
            state: State::Running,
            restores: None,
            changes: vec![],
            changes_total: 0,
            text: format!("# {generation} \u{1f600}\n"),
        }
    }

    #[test]
    fn stored_history_is_read_back_and_marked_as_ended() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let (mut history, warnings) = ConfigurationHistory::open(&state).unwrap();
        assert!(warnings.is_empty() && history.last() == 0);
        history.push(entry(1), State::Replaced).unwrap();
        history.push(StoredConfiguration { state: State::Pending, ..entry(2) }, State::Replaced).unwrap();
        let file = state.join("history/000000000002.json");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(ConfigurationHistory::open(&state).unwrap_err().to_string().contains("another router"));
        drop(history);
        let (history, warnings) = ConfigurationHistory::open(&state).unwrap();
        assert!(warnings.is_empty());
        let states: Vec<State> = history.to_reply().entries.iter().map(|entry| entry.state).collect();
        assert_eq!(states, [State::Replaced, State::Unconfirmed]);
        assert_eq!(history.get(2).unwrap().text, entry(2).text);
    }

    #[test]
    fn corrupt_files_are_skipped_with_warning_and_not_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let (mut history, _) = ConfigurationHistory::open(directory.path()).unwrap();
        (1..=3).for_each(|generation| history.push(entry(generation), State::Replaced).unwrap());
        drop(history);
        let at = |name: &str| directory.path().join("history").join(name);
        let whole = fs::read(at("000000000002.json")).unwrap();
        fs::write(at("000000000002.json"), &whole[..whole.len() / 2]).unwrap();
        fs::write(at("000000000009.json"), &whole).unwrap();
        fs::write(at("000000000004.json"), b"\xff\xfe").unwrap();
        fs::write(at("000000000003.tmp"), b"half").unwrap();
        fs::write(at("README"), b"mine").unwrap();
        let (history, warnings) = ConfigurationHistory::open(directory.path()).unwrap();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        let kept: Vec<u64> = history.to_reply().entries.iter().map(|entry| entry.generation).collect();
        assert_eq!(kept, [1, 3]);
        assert!(!at("000000000003.tmp").exists() && at("README").exists() && at("000000000004.json").exists());
    }

    /// A file instead of the directory simulates a full disk: writing fails in the same way.
    #[test]
    fn a_failed_write_is_reported_and_kept_in_memory() {
        let directory = tempfile::tempdir().unwrap();
        let (mut history, _) = ConfigurationHistory::open(directory.path()).unwrap();
        history.push(entry(1), State::Replaced).unwrap();
        fs::remove_dir_all(directory.path().join("history")).unwrap();
        let said = history.push(entry(2), State::Replaced).unwrap_err();
        assert!(said.contains("cannot write generation 2 to"), "{said}");
        assert_eq!((history.last(), history.step_back(2, 1).unwrap().generation), (2, 1));
    }

    /// A folder instead of the lock file simulates a read-only disk, because root may write anywhere else.
    #[test]
    fn unwritable_directory_is_still_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut history, _) = ConfigurationHistory::open(directory.path()).unwrap();
        (1..=2).for_each(|generation| history.push(entry(generation), State::Replaced).unwrap());
        drop(history);
        fs::remove_file(directory.path().join("lock")).unwrap();
        fs::create_dir(directory.path().join("lock")).unwrap();
        let (mut history, warnings) = ConfigurationHistory::open(directory.path()).unwrap();
        assert!(warnings.iter().any(|warning| warning.contains("not kept after the router stops")), "{warnings:?}");
        assert_eq!((history.last(), history.directory()), (2, None));
        history.push(entry(3), State::Replaced).unwrap();
        assert_eq!(history.last(), 3);
        // A state directory that is a file.
        let file = directory.path().join("README");
        fs::write(&file, b"mine").unwrap();
        let (history, warnings) = ConfigurationHistory::open(&file).unwrap();
        assert_eq!((history.last(), warnings.len()), (0, 1), "{warnings:?}");
    }

    #[test]
    fn old_entries_are_removed_from_disk() {
        let directory = tempfile::tempdir().unwrap();
        let (mut history, _) = ConfigurationHistory::open(directory.path()).unwrap();
        (1..=105).for_each(|generation| history.push(entry(generation), State::Replaced).unwrap());
        assert_eq!(fs::read_dir(directory.path().join("history")).unwrap().count(), 100);
    }
}
