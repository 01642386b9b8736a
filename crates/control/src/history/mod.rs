//! The configurations a router has run: what `history` lists and `rollback` goes back to.
//!
//! They are numbered by generation, across restarts where there is a directory to keep them in ([`store`]). A return to
//! an earlier configuration is a generation of its own that says which one it restores, so that going back twice goes
//! two steps back, not to and fro.

mod store;

pub use store::StoreError;

use crate::api::{self, HistoryState as State, Who};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use store::Store;

/// Configurations kept, and bytes of their texts together: the oldest go first.
const MOST: usize = 100;
const MOST_BYTES: usize = 128 << 20;
/// Lines that are kept of what a configuration changed.
const MOST_CHANGES: usize = 100;

/// One configuration that ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub generation: u64,
    /// When it came, in nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Who brought it.
    pub who: Who,
    /// Where it came from: a file name.
    pub name: String,
    /// What became of it.
    pub state: State,
    /// The generation whose text this is, where it is a return to one.
    pub restores: Option<u64>,
    /// What it changed: the first lines.
    pub changes: Vec<String>,
    /// How many changes there were.
    pub changes_total: u64,
    /// Its text.
    pub text: String,
}

impl Entry {
    /// The generation this text was first run as.
    fn origin(&self) -> u64 {
        self.restores.unwrap_or(self.generation)
    }

    fn told(&self) -> api::HistoryEntry {
        api::HistoryEntry {
            generation: self.generation,
            time_ns: self.time_ns,
            who: self.who.clone(),
            name: self.name.clone(),
            state: self.state,
            restores: self.restores,
            changes: self.changes.clone(),
            changes_total: self.changes_total,
        }
    }
}

/// The configurations a router has run, the latest last.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<Arc<Entry>>,
    store: Option<Store>,
}

/// What a router is to be started with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resumed {
    /// What its file says.
    File,
    /// The file says what was tried before and never confirmed: the configuration before it.
    Instead(Arc<Entry>),
}

impl History {
    /// A history that ends with the router.
    pub fn in_memory() -> History {
        History::default()
    }

    /// The history kept in a directory, with remarks about what of it could not be read. Configurations that ran when
    /// the router before this one ended are marked so. If the directory cannot be written, as after a fault of
    /// the disk, its entries are read and new ones are kept in memory.
    pub fn open(directory: &Path) -> Result<(History, Vec<String>), StoreError> {
        let (store, entries, mut remarks) = match Store::open(directory) {
            Ok((store, entries, remarks)) => (Some(store), entries, remarks),
            Err(error) if error.is_shared() => return Err(error),
            Err(error) => {
                let (entries, mut remarks) = store::read(&directory.join(store::FOLDER)).unwrap_or_default();
                remarks.push(format!("{error}; what is applied from now on is forgotten when the router ends"));
                (None, entries, remarks)
            }
        };
        let mut history = History { entries: entries.into_iter().map(Arc::new).collect(), store };
        for at in 0..history.entries.len() {
            let left = match history.entries[at].state {
                State::Running => State::Replaced,
                State::Pending => State::Unconfirmed,
                _ => continue,
            };
            remarks.extend(history.set_state(history.entries[at].generation, left).err());
        }
        history.shorten();
        Ok((history, remarks))
    }

    /// The directory it is kept in.
    pub fn directory(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::directory)
    }

    /// The number of the latest configuration; zero where there is none.
    pub fn last(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.generation)
    }

    /// Adds what runs from now on; what ran before it becomes `before`. Where that cannot be written, says so: the
    /// history in memory is right all the same.
    pub fn push(&mut self, mut entry: Entry, before: State) -> Result<(), String> {
        entry.changes.truncate(MOST_CHANGES);
        // The new one first: were the power to fail between the two, it is the one that matters.
        let written = self.store.as_mut().map_or(Ok(()), |store| store.write(&entry));
        let running = self.running().map(|entry| entry.generation);
        let settled = running.map_or(Ok(()), |generation| self.set_state(generation, before));
        self.entries.push_back(Arc::new(entry));
        self.shorten();
        written.and(settled)
    }

    /// Says what became of a configuration.
    pub fn set_state(&mut self, generation: u64, state: State) -> Result<(), String> {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.generation == generation) else { return Ok(()) };
        if entry.state == state {
            return Ok(());
        }
        Arc::make_mut(entry).state = state;
        let entry = entry.clone();
        self.store.as_mut().map_or(Ok(()), |store| store.write(&entry))
    }

    /// The running configuration has another text that means the same.
    pub fn reword(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some(at) = self.entries.iter().position(|entry| entry.state == State::Running) else { return Ok(()) };
        let entry = Arc::make_mut(&mut self.entries[at]);
        if (&*entry.name, &*entry.text) == (name, text) {
            return Ok(());
        }
        (entry.name, entry.text) = (name.into(), text.into());
        let entry = self.entries[at].clone();
        self.store.as_mut().map_or(Ok(()), |store| store.write(&entry))
    }

    /// The configuration that runs.
    pub fn running(&self) -> Option<&Arc<Entry>> {
        self.entries.iter().rev().find(|entry| matches!(entry.state, State::Running | State::Pending))
    }

    /// The configuration of that number.
    pub fn get(&self, generation: u64) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.generation == generation)
    }

    /// What is so many steps before the configuration `from`: those that were left by a rollback or never confirmed are
    /// no steps, and a return to a configuration is that configuration.
    pub fn back(&self, from: u64, steps: u64) -> Option<&Arc<Entry>> {
        let mut at = self.get(from)?.origin();
        let mut found = None;
        for _ in 0..steps {
            let good = |entry: &&Arc<Entry>| !matches!(entry.state, State::RolledBack | State::Unconfirmed);
            let before = self.entries.iter().filter(|entry| entry.origin() < at).filter(good);
            let next = before.max_by_key(|entry| (entry.origin(), entry.generation))?;
            (at, found) = (next.origin(), Some(next));
        }
        found
    }

    /// What a router whose file has this text is to be started with. A text that was tried with a time to confirm it, and
    /// never was, may be what cut its operator off.
    pub fn resume(&self, text: &str) -> Resumed {
        let tried = self.entries.iter().rev().find(|entry| entry.text == text);
        let refused = tried.filter(|entry| matches!(entry.state, State::Unconfirmed | State::Pending));
        match refused.and_then(|entry| self.back(entry.generation, 1)) {
            Some(before) => Resumed::Instead(before.clone()),
            None => Resumed::File,
        }
    }

    /// The whole history, without texts.
    pub fn told(&self) -> api::History {
        api::History {
            entries: self.entries.iter().map(|entry| entry.told()).collect(),
            directory: self.directory().map(|directory| directory.display().to_string()),
        }
    }

    fn shorten(&mut self) {
        let mut bytes: usize = self.entries.iter().map(|entry| entry.text.len()).sum();
        // The last two are what runs and what an unconfirmed one goes back to.
        while self.entries.len() > 2 && (self.entries.len() > MOST || bytes > MOST_BYTES) {
            let Some(oldest) = self.entries.pop_front() else { return };
            bytes -= oldest.text.len();
            if let Some(store) = &mut self.store {
                store.remove(oldest.generation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Via;

    fn entry(generation: u64, restores: Option<u64>) -> Entry {
        Entry {
            generation,
            time_ns: generation * 1000,
            who: Who::by(Via::Socket),
            name: "a.toml".into(),
            state: State::Running,
            restores,
            changes: vec!["+ port a".into()],
            changes_total: 1,
            text: format!("text {}", restores.unwrap_or(generation)),
        }
    }

    /// A history from a story: `7` is a new configuration, `7=3` a return to the third, `!` before it says that the one
    /// before was never confirmed, `<` that it was rolled back.
    fn told(history: &mut History, story: &str) {
        for word in story.split_whitespace() {
            let (before, word) = match word.split_at(1) {
                ("!", rest) => (State::Unconfirmed, rest),
                ("<", rest) => (State::RolledBack, rest),
                _ => (State::Replaced, word),
            };
            let (generation, restores) = word.split_once('=').unwrap_or((word, ""));
            history.push(entry(generation.parse().unwrap(), restores.parse().ok()), before).unwrap();
        }
    }

    #[test]
    fn going_back_walks_back_and_never_to_what_was_left() {
        for (story, from, steps, expected) in [
            ("1 2 3", 3, 1, Some(2)),
            ("1 2 3", 3, 2, Some(1)),
            ("1 2 3", 3, 3, None),
            ("1", 1, 1, None),
            // After a rollback the next one goes further back.
            ("1 2 3 <4=2", 4, 1, Some(1)),
            ("1 2 3 <4=2 <5=1", 5, 1, None),
            // What came after a rollback goes back to what it replaced.
            ("1 2 3 <4=2 5", 5, 1, Some(4)),
            ("1 2 3 <4=2 5", 5, 2, Some(1)),
            // Nobody confirmed 3.
            ("1 2 3 !4=2 5", 5, 1, Some(4)),
            ("1 2 3 !4=2", 4, 1, Some(1)),
        ] {
            let mut history = History::in_memory();
            told(&mut history, story);
            let found = history.back(from, steps).map(|entry| entry.generation);
            assert_eq!(found, expected, "{steps} back from {from} in '{story}'");
        }
    }

    #[test]
    fn a_text_that_was_never_confirmed_is_not_started_with() {
        let mut history = History::in_memory();
        told(&mut history, "1 2 !3=1");
        let Resumed::Instead(before) = history.resume("text 2") else { panic!() };
        assert_eq!(before.text, "text 1");
        for text in ["text 1", "text 7"] {
            assert_eq!(history.resume(text), Resumed::File);
        }
        // Somebody has applied it again, and for good.
        let again = Entry { text: "text 2".into(), ..entry(4, None) };
        history.push(again, State::Replaced).unwrap();
        assert_eq!(history.resume("text 2"), Resumed::File);
    }

    #[test]
    fn it_is_bounded_and_the_oldest_go_first() {
        let mut history = History::in_memory();
        for generation in 1..=500 {
            let changes = vec!["~ x".to_owned(); 1000];
            history.push(Entry { changes, ..entry(generation, None) }, State::Replaced).unwrap();
        }
        let told = history.told();
        assert_eq!((told.entries.len(), told.entries[0].generation), (MOST, 401));
        assert_eq!((told.entries[0].changes.len(), history.last()), (MOST_CHANGES, 500));
        assert!(told.entries[..MOST - 1].iter().all(|entry| entry.state == State::Replaced));
        let large = Entry { text: "x".repeat(MOST_BYTES), ..entry(501, None) };
        history.push(large, State::Replaced).unwrap();
        assert_eq!(history.told().entries.len(), 2);
    }
}
