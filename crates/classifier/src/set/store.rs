//! All sets of a router, by name and by id, published together: a reader has one consistent view of them for each batch.

use super::{Set, SetEdit, SetEditCounts, SetError};
use crate::publish::{Published, PublishedReader};
use plan::{SetKind, SetLookup, did_you_mean};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use units::Instant;

/// A set, independent of its name. Ids are never reused: a packet rule of an old generation finds its own set or none, never another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SetId(pub u32);

/// A set with its name.
#[derive(Clone, Debug)]
pub struct StoredSet {
    /// Its id.
    pub id: SetId,
    /// Its name.
    pub name: Arc<str>,
    /// Its elements.
    pub set: Set,
    /// The time of its last change.
    pub changed: Instant,
}

/// The sets of a router at one moment.
#[derive(Clone, Default, Debug)]
pub struct Sets {
    /// In ascending order of ids.
    sets: Vec<Arc<StoredSet>>,
}

impl Sets {
    /// The set with this id; `None` if it was removed.
    #[inline]
    pub fn get(&self, id: SetId) -> Option<&Set> {
        self.sets.binary_search_by_key(&id, |stored| stored.id).ok().map(|at| &self.sets[at].set)
    }

    /// The set with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<StoredSet>> {
        self.sets.iter().find(|stored| &*stored.name == name)
    }

    /// The set with this name, or the error that the operator reads.
    pub fn named(&self, name: &str) -> Result<&Arc<StoredSet>, SetWriteError> {
        self.find(name).ok_or_else(|| self.unknown(name))
    }

    /// All sets in the order in which they were defined.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<StoredSet>> {
        self.sets.iter()
    }

    fn unknown(&self, name: &str) -> SetWriteError {
        let hint = if self.sets.is_empty() {
            "the configuration has no [set.NAME]".to_string()
        } else {
            did_you_mean(name, self.sets.iter().map(|stored| &*stored.name))
        };
        SetWriteError::UnknownSet { name: name.to_string(), hint }
    }

    fn stored(&mut self, name: &str) -> Result<&mut StoredSet, SetWriteError> {
        match self.sets.iter().position(|stored| &*stored.name == name) {
            Some(at) => Ok(Arc::make_mut(&mut self.sets[at])),
            None => Err(self.unknown(name)),
        }
    }
}

/// For the conditions of a match. The sets of a removed name have no elements.
impl SetLookup for Sets {
    fn contains_address(&self, set: &str, address: IpAddr) -> bool {
        self.find(set).is_some_and(|stored| stored.set.contains_address(address))
    }

    fn contains_port(&self, set: &str, port: u16) -> bool {
        self.find(set).is_some_and(|stored| stored.set.contains_port(port))
    }
}

/// A reason to refuse a change of sets. All sets stay as they were.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetWriteError {
    /// There is no set of this name.
    UnknownSet {
        /// The name.
        name: String,
        /// Similar names.
        hint: String,
    },
    /// The set refuses the edits.
    Refused {
        /// The name of the set.
        name: String,
        /// Its reason.
        error: SetError,
    },
}

impl fmt::Display for SetWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetWriteError::UnknownSet { name, hint } => write!(f, "there is no set {}; {hint}", plan::quote(name)),
            SetWriteError::Refused { name, error } => write!(f, "set '{name}': {error}"),
        }
    }
}

impl std::error::Error for SetWriteError {}

/// All sets of a router. Writers exclude each other; readers never wait for a change to be computed.
pub struct SetStore {
    published: Arc<Published<Sets>>,
    writer: Mutex<Ids>,
}

/// The ids that are given out.
#[derive(Default)]
struct Ids {
    next: u32,
    /// Ids of sets that are not defined yet, by name and kind.
    promised: HashMap<(String, SetKind), SetId>,
}

impl Ids {
    /// The id of a new set. Panics after 2^32 sets.
    fn take(&mut self, name: &str, kind: SetKind) -> SetId {
        self.promised.remove(&(name.to_string(), kind)).unwrap_or_else(|| {
            let id = SetId(self.next);
            self.next = id.0.checked_add(1).expect("fewer sets are defined in a router's lifetime");
            id
        })
    }
}

impl Default for SetStore {
    fn default() -> Self {
        SetStore { published: Arc::new(Published::new(Sets::default())), writer: Mutex::default() }
    }
}

impl fmt::Debug for SetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SetStore").field("sets", &self.latest().sets.len()).finish_non_exhaustive()
    }
}

/// The sets during a change. Nothing is published before the change is complete.
pub struct SetsDraft<'a> {
    sets: Sets,
    ids: &'a mut Ids,
}

impl SetsDraft<'_> {
    /// The sets as changed so far.
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    /// Adds a set, or replaces the one with this name, which keeps its id unless its kind changes. Panics after 2^32 sets.
    pub fn define(&mut self, name: &str, set: Set, now: Instant) -> SetId {
        if self.sets.find(name).is_some_and(|old| old.set.kind() != set.kind()) {
            // A rule about addresses must not find ports.
            self.remove(name);
        }
        if let Ok(stored) = self.sets.stored(name) {
            (stored.set, stored.changed) = (set, now);
            return stored.id;
        }
        let id = self.ids.take(name, set.kind());
        // A promised id may be lower than others.
        let at = self.sets.sets.partition_point(|stored| stored.id < id);
        self.sets.sets.insert(at, Arc::new(StoredSet { id, name: name.into(), set, changed: now }));
        id
    }

    /// Removes a set. Returns false if there is none of this name.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.sets.sets.len();
        self.sets.sets.retain(|stored| &*stored.name != name);
        self.sets.sets.len() < before
    }

    /// Changes elements of a set: all edits, or none.
    pub fn edit(
        &mut self,
        name: &str,
        edits: impl IntoIterator<Item = SetEdit>,
        now: Instant,
    ) -> Result<SetEditCounts, SetWriteError> {
        let stored = self.sets.stored(name)?;
        let refused = |error| SetWriteError::Refused { name: name.to_string(), error };
        let (set, counts) = stored.set.edited(edits).map_err(refused)?;
        if counts.added + counts.renewed + counts.removed > 0 {
            (stored.set, stored.changed) = (set, now);
        }
        Ok(counts)
    }
}

impl SetStore {
    /// The sets of this moment.
    pub fn latest(&self) -> Arc<Sets> {
        self.published.latest()
    }

    /// A worker's view: the sets of the last [`PublishedReader::refresh`].
    pub fn reader(&self) -> PublishedReader<Sets> {
        PublishedReader::new(&self.published)
    }

    /// The id of the set with this name and kind, or the one that it will have when it is defined: rules are prepared before their sets are
    /// published.
    pub fn promise(&self, name: &str, kind: SetKind) -> SetId {
        let mut ids = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = self.latest().find(name).filter(|stored| stored.set.kind() == kind) {
            return stored.id;
        }
        let id = ids.take(name, kind);
        *ids.promised.entry((name.to_string(), kind)).or_insert(id)
    }

    /// Changes any number of sets at once. Readers see all changes or, if `change` returns an error, none.
    pub fn write<R, E>(&self, change: impl FnOnce(&mut SetsDraft<'_>) -> Result<R, E>) -> Result<R, E> {
        // A change that panics publishes nothing; at worst it leaves an id unused.
        let mut ids = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let sets = Sets::clone(&self.published.latest());
        let mut draft = SetsDraft { sets, ids: &mut ids };
        let result = change(&mut draft)?;
        self.published.publish(draft.sets);
        Ok(result)
    }

    /// Changes elements of a set: all edits, or none.
    pub fn edit(
        &self,
        name: &str,
        edits: impl IntoIterator<Item = SetEdit>,
        now: Instant,
    ) -> Result<SetEditCounts, SetWriteError> {
        self.write(|draft| draft.edit(name, edits, now))
    }

    /// Removes expired elements, and frees old versions that no worker has any more. Returns the number of expired elements and the next expiry of an
    /// element, [`Instant::NEVER`] if none expires. Call it again at that time, and at least once a second after changes.
    pub fn expire(&self, now: Instant) -> (usize, Instant) {
        let next = |sets: &Sets| sets.iter().map(|stored| stored.set.next_expiry()).min().unwrap_or(Instant::NEVER);
        if next(&self.latest()) > now {
            self.published.free_retired();
            return (0, next(&self.latest()));
        }
        let expired = self.write(|draft| {
            let mut expired = 0;
            for stored in draft.sets.sets.iter_mut().filter(|stored| stored.set.next_expiry() <= now) {
                let (set, gone) = stored.set.unexpired(now);
                let stored = Arc::make_mut(stored);
                (stored.set, stored.changed) = (set, now);
                expired += gone.len();
            }
            Ok::<_, SetWriteError>(expired)
        });
        (expired.unwrap_or(0), next(&self.latest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::SetElement;
    use plan::SetValue;

    fn add(text: &str) -> SetEdit {
        SetEdit::Add(SetElement { value: text.parse().unwrap(), expires: Instant::NEVER })
    }

    fn define(store: &SetStore, name: &str, kind: SetKind) -> SetId {
        store.write(|draft| Ok::<_, SetWriteError>(draft.define(name, Set::new(kind, 100), Instant::START))).unwrap()
    }

    #[test]
    fn removed_set_never_lends_its_id_to_another() {
        let store = SetStore::default();
        let first = define(&store, "bad", SetKind::Address);
        assert!(store.write(|draft| Ok::<_, SetWriteError>(draft.remove("bad"))).unwrap());
        let second = define(&store, "bad", SetKind::Address);
        assert_ne!(first, second);
        assert!(store.latest().get(first).is_none());
        assert!(store.latest().get(second).is_some());
    }

    #[test]
    fn set_gets_the_id_that_was_promised() {
        let store = SetStore::default();
        let promised = store.promise("bad", SetKind::Address);
        assert_eq!(store.promise("bad", SetKind::Address), promised);
        let web = define(&store, "web", SetKind::Port);
        assert_ne!(web, promised);
        assert_eq!(define(&store, "bad", SetKind::Address), promised);
        assert_eq!(store.promise("bad", SetKind::Address), promised);
        // Both are found, although the later one has the lower id.
        let sets = store.latest();
        assert_eq!(
            [promised, web].map(|id| sets.get(id).map(Set::kind)),
            [Some(SetKind::Address), Some(SetKind::Port)]
        );
        // A set of another kind is another set.
        let ports = store.promise("bad", SetKind::Port);
        assert_ne!(ports, promised);
        assert_eq!(define(&store, "bad", SetKind::Port), ports);
        assert!(store.latest().get(promised).is_none());
    }

    #[test]
    fn replaced_set_keeps_its_id_and_leaves_others_alone() {
        let store = SetStore::default();
        let (bad, web) = (define(&store, "bad", SetKind::Address), define(&store, "web", SetKind::Port));
        store.edit("web", [add("80")], Instant::new(1)).unwrap();
        store.edit("bad", [add("10.0.0.0/8")], Instant::new(2)).unwrap();
        assert_eq!(define(&store, "bad", SetKind::Address), bad);
        let sets = store.latest();
        assert_eq!((sets.get(bad).unwrap().len(), sets.get(web).unwrap().len()), (0, 1));
        assert_eq!(sets.named("web").unwrap().changed, Instant::new(1));
    }

    #[test]
    fn failed_change_of_several_sets_changes_none() {
        let store = SetStore::default();
        define(&store, "bad", SetKind::Address);
        define(&store, "web", SetKind::Port);
        let error = store.write(|draft| {
            draft.edit("bad", [add("10.0.0.0/8")], Instant::START)?;
            draft.edit("web", [add("10.0.0.0/8")], Instant::START)
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            "set 'web': 10.0.0.0/8 is no port; the set holds ports and ranges of ports, like 443 or 8000-8080"
        );
        assert!(store.latest().named("bad").unwrap().set.is_empty());
        let unknown = store.edit("bda", [], Instant::START).unwrap_err();
        assert_eq!(unknown.to_string(), "there is no set 'bda'; did you mean 'bad'?");
    }

    #[test]
    fn reader_keeps_its_view_until_it_refreshes() {
        let store = SetStore::default();
        let id = define(&store, "bad", SetKind::Address);
        let mut reader = store.reader();
        store.edit("bad", [add("10.0.0.0/8")], Instant::START).unwrap();
        assert_eq!(reader.get().get(id).unwrap().len(), 0);
        assert_eq!(reader.refresh().get(id).unwrap().len(), 1);
    }

    #[test]
    fn expiry_removes_due_elements_and_reports_the_next() {
        let store = SetStore::default();
        define(&store, "web", SetKind::Port);
        let until = |port, expires| {
            SetEdit::Add(SetElement { value: SetValue::Ports(port, port), expires: Instant::new(expires) })
        };
        store.edit("web", [until(1, 10), until(2, 20), until(3, 30), add("4")], Instant::START).unwrap();
        assert_eq!(store.expire(Instant::new(9)), (0, Instant::new(10)));
        assert_eq!(store.expire(Instant::new(20)), (2, Instant::new(30)));
        assert_eq!(store.latest().named("web").unwrap().changed, Instant::new(20));
        assert_eq!(store.expire(Instant::new(30)), (1, Instant::NEVER));
        assert_eq!(store.latest().named("web").unwrap().set.len(), 1);
    }
}
