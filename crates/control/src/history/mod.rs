//! The history of configurations: `history` lists it, and `rollback` returns to its entries.
//!
//! Configurations are numbered by generation, across restarts if a directory keeps them ([`store`]). A return to an earlier configuration is a new
//! generation that names the restored one. So two rollbacks go two configurations back, and do not toggle between two.

mod store;

pub use store::StoreError;

use crate::api::{self, Author, HistoryState as State};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use store::Store;

/// The most configurations kept, and the byte limit of their texts. The oldest are removed first.
const MOST_ENTRIES: usize = 100;
const MOST_BYTES: usize = 128 << 20;
/// The most lines kept about the changes of a configuration.
const MOST_CHANGES: usize = 100;

/// A configuration that has run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StoredConfiguration {
    /// Its generation.
    pub generation: u64,
    /// The time of its start, in nanoseconds since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its author.
    pub who: Author,
    /// Its origin: a file name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// The generation whose text was restored, if it is a return.
    pub restores: Option<u64>,
    /// The first lines of its changes.
    pub changes: Vec<String>,
    /// The number of its changes.
    pub changes_total: u64,
    /// Its text.
    pub text: String,
}

impl StoredConfiguration {
    /// Returns the generation that first had this text.
    fn origin(&self) -> u64 {
        self.restores.unwrap_or(self.generation)
    }

    fn to_reply(&self) -> api::HistoryEntry {
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

/// The history of configurations, the latest last.
#[derive(Debug, Default)]
pub struct ConfigurationHistory {
    entries: VecDeque<Arc<StoredConfiguration>>,
    store: Option<Store>,
}

/// The configuration to start a router with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartConfiguration {
    /// The configuration of its file.
    File,
    /// The file has a configuration whose trial was never confirmed: start with the one before it.
    Previous(Arc<StoredConfiguration>),
}

impl ConfigurationHistory {
    /// Creates a history that ends with the router.
    pub fn in_memory() -> ConfigurationHistory {
        ConfigurationHistory::default()
    }

    /// Opens the history in a directory; also returns warnings about unreadable entries. Configurations that ran when the previous router ended are
    /// marked. If the directory cannot be written, as after a disk fault, its entries are read and new ones are kept in memory.
    pub fn open(directory: &Path) -> Result<(ConfigurationHistory, Vec<String>), StoreError> {
        let (store, entries, mut warnings) = match Store::open(directory) {
            Ok((store, entries, warnings)) => (Some(store), entries, warnings),
            Err(error) if error.is_shared() => return Err(error),
            Err(error) => {
                let (entries, mut warnings) = store::read(&directory.join(store::FOLDER)).unwrap_or_default();
                warnings.push(format!("{error}; from now on configurations are not kept after the router stops"));
                (None, entries, warnings)
            }
        };
        let mut history = ConfigurationHistory { entries: entries.into_iter().map(Arc::new).collect(), store };
        for at in 0..history.entries.len() {
            let left = match history.entries[at].state {
                State::Running => State::Replaced,
                State::Pending => State::Unconfirmed,
                _ => continue,
            };
            warnings.extend(history.set_state(history.entries[at].generation, left).err());
        }
        history.enforce_limits();
        Ok((history, warnings))
    }

    /// Returns its directory.
    pub fn directory(&self) -> Option<&Path> {
        self.store.as_ref().map(Store::directory)
    }

    /// Writes the reservations that survive a restart, one a line.
    ///
    /// # Errors
    /// Why they do not survive it.
    pub fn keep_flows(&self, text: &str) -> Result<(), String> {
        match &self.store {
            Some(store) if *text != store.read_flows() => store.write_flows(text),
            None if !text.is_empty() => Err("without a state directory a restart loses kept reservations".into()),
            _ => Ok(()),
        }
    }

    /// The reservations that survive a restart.
    pub fn kept_flows(&self) -> String {
        self.store.as_ref().map_or_else(String::new, Store::read_flows)
    }

    /// Returns the latest generation; zero without one.
    pub fn last(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.generation)
    }

    /// Adds the configuration that runs from now on; the one before it gets the state `before`. Returns a warning if it could not be written; the
    /// history in memory is correct anyway.
    pub fn push(&mut self, mut entry: StoredConfiguration, before: State) -> Result<(), String> {
        entry.changes.truncate(MOST_CHANGES);
        // Write the new one first: if the power fails between the two writes, it is the important one.
        let written = self.store.as_mut().map_or(Ok(()), |store| store.write(&entry));
        let running = self.running().map(|entry| entry.generation);
        let settled = running.map_or(Ok(()), |generation| self.set_state(generation, before));
        self.entries.push_back(Arc::new(entry));
        self.enforce_limits();
        written.and(settled)
    }

    /// Sets the state of a configuration.
    pub fn set_state(&mut self, generation: u64, state: State) -> Result<(), String> {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.generation == generation) else { return Ok(()) };
        if entry.state == state {
            return Ok(());
        }
        Arc::make_mut(entry).state = state;
        let entry = entry.clone();
        self.store.as_mut().map_or(Ok(()), |store| store.write(&entry))
    }

    /// Replaces the text of the running configuration by another one with the same meaning.
    pub fn replace_text(&mut self, name: &str, text: &str) -> Result<(), String> {
        let Some(at) = self.entries.iter().position(|entry| entry.state == State::Running) else { return Ok(()) };
        let entry = Arc::make_mut(&mut self.entries[at]);
        if (&*entry.name, &*entry.text) == (name, text) {
            return Ok(());
        }
        (entry.name, entry.text) = (name.into(), text.into());
        let entry = self.entries[at].clone();
        self.store.as_mut().map_or(Ok(()), |store| store.write(&entry))
    }

    /// Returns the running configuration.
    pub fn running(&self) -> Option<&Arc<StoredConfiguration>> {
        self.entries.iter().rev().find(|entry| matches!(entry.state, State::Running | State::Pending))
    }

    /// Returns the configuration of a generation.
    pub fn get(&self, generation: u64) -> Option<&Arc<StoredConfiguration>> {
        self.entries.iter().find(|entry| entry.generation == generation)
    }

    /// Returns the configuration this many steps before `from`. Configurations that were rolled back or never confirmed do not count as steps, and a
    /// return counts as the configuration it restored.
    pub fn step_back(&self, from: u64, steps: u64) -> Option<&Arc<StoredConfiguration>> {
        let mut at = self.get(from)?.origin();
        let mut found = None;
        for _ in 0..steps {
            let good =
                |entry: &&Arc<StoredConfiguration>| !matches!(entry.state, State::RolledBack | State::Unconfirmed);
            // Compare origins, not generations: a return stands at the place of the configuration it restored.
            let before = self.entries.iter().filter(|entry| entry.origin() < at).filter(good);
            let next = before.max_by_key(|entry| (entry.origin(), entry.generation))?;
            (at, found) = (next.origin(), Some(next));
        }
        found
    }

    /// Selects the configuration to start a router whose file has this text. A text whose trial was never confirmed may have cut its operator off.
    pub fn resume(&self, text: &str) -> StartConfiguration {
        let tried = self.entries.iter().rev().find(|entry| entry.text == text);
        let refused = tried.filter(|entry| matches!(entry.state, State::Unconfirmed | State::Pending));
        match refused.and_then(|entry| self.step_back(entry.generation, 1)) {
            Some(before) => StartConfiguration::Previous(before.clone()),
            None => StartConfiguration::File,
        }
    }

    /// Returns the whole history, without texts.
    pub fn to_reply(&self) -> api::History {
        api::History {
            entries: self.entries.iter().map(|entry| entry.to_reply()).collect(),
            directory: self.directory().map(|directory| directory.display().to_string()),
        }
    }

    fn enforce_limits(&mut self) {
        let mut bytes: usize = self.entries.iter().map(|entry| entry.text.len()).sum();
        // The last two are the running one and the target of its rollback.
        while self.entries.len() > 2 && (self.entries.len() > MOST_ENTRIES || bytes > MOST_BYTES) {
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

    fn entry(generation: u64, restores: Option<u64>) -> StoredConfiguration {
        StoredConfiguration {
            generation,
            time_ns: generation * 1000,
            who: Author::by(Via::Socket),
            name: "a.toml".into(),
            state: State::Running,
            restores,
            changes: vec!["+ port a".into()],
            changes_total: 1,
            text: format!("text {}", restores.unwrap_or(generation)),
        }
    }

    /// Builds a history from a story: `7` is a new configuration, `7=3` a return to the third. `!` before a word marks the previous one as never
    /// confirmed, `<` as rolled back.
    fn push_story(history: &mut ConfigurationHistory, story: &str) {
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
    fn rollback_skips_unconfirmed_and_rolled_back_configurations() {
        for (story, from, steps, expected) in [
            ("1 2 3", 3, 1, Some(2)),
            ("1 2 3", 3, 2, Some(1)),
            ("1 2 3", 3, 3, None),
            ("1", 1, 1, None),
            // A second rollback goes further back.
            ("1 2 3 <4=2", 4, 1, Some(1)),
            ("1 2 3 <4=2 <5=1", 5, 1, None),
            // A rollback of a configuration applied after a rollback returns to the one it replaced.
            ("1 2 3 <4=2 5", 5, 1, Some(4)),
            ("1 2 3 <4=2 5", 5, 2, Some(1)),
            // 3 was never confirmed.
            ("1 2 3 !4=2 5", 5, 1, Some(4)),
            ("1 2 3 !4=2", 4, 1, Some(1)),
        ] {
            let mut history = ConfigurationHistory::in_memory();
            push_story(&mut history, story);
            let found = history.step_back(from, steps).map(|entry| entry.generation);
            assert_eq!(found, expected, "{steps} back from {from} in '{story}'");
        }
    }

    #[test]
    fn an_unconfirmed_text_is_not_resumed() {
        let mut history = ConfigurationHistory::in_memory();
        push_story(&mut history, "1 2 !3=1");
        let StartConfiguration::Previous(before) = history.resume("text 2") else { panic!() };
        assert_eq!(before.text, "text 1");
        for text in ["text 1", "text 7"] {
            assert_eq!(history.resume(text), StartConfiguration::File);
        }
        // Another apply without a trial confirms the text.
        let again = StoredConfiguration { text: "text 2".into(), ..entry(4, None) };
        history.push(again, State::Replaced).unwrap();
        assert_eq!(history.resume("text 2"), StartConfiguration::File);
    }

    #[test]
    fn history_is_bounded_and_drops_oldest_first() {
        let mut history = ConfigurationHistory::in_memory();
        for generation in 1..=500 {
            let changes = vec!["~ x".to_owned(); 1000];
            history.push(StoredConfiguration { changes, ..entry(generation, None) }, State::Replaced).unwrap();
        }
        let told = history.to_reply();
        assert_eq!((told.entries.len(), told.entries[0].generation), (MOST_ENTRIES, 401));
        assert_eq!((told.entries[0].changes.len(), history.last()), (MOST_CHANGES, 500));
        assert!(told.entries[..MOST_ENTRIES - 1].iter().all(|entry| entry.state == State::Replaced));
        let large = StoredConfiguration { text: "x".repeat(MOST_BYTES), ..entry(501, None) };
        history.push(large, State::Replaced).unwrap();
        assert_eq!(history.to_reply().entries.len(), 2);
    }
}
