//! Named sets while the router runs: lists, changes of elements, expiry.

use super::failure::ApplyFailure;
use super::{Daemon, RUNNING};
use crate::api::{self, Author};
use crate::events::LoggedEvent;
use classifier::{Set, SetEdit, SetElement, SetWriteError, StoredSet};
use io::clock;
use io::wait::{Sleeper, Waker};
use plan::{SetValue, set_entries};
use std::sync::atomic::Ordering;
use units::{Instant, Nanos};

/// The interval at which expired elements are removed, and lists of rules maintained. Expired elements match until then.
const UPKEEP_INTERVAL: Nanos = Nanos::millis(500);

/// A change of the elements of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetCommand {
    /// Adds elements, or changes their lifetimes.
    Add,
    /// Removes elements.
    Remove,
    /// Removes all elements and adds others, at once.
    Replace,
    /// Removes all elements.
    Flush,
}

impl Daemon {
    /// Changes elements of the set `name`: all, or none. `text` has one element a line; `source` is its name in messages.
    pub fn edit_set(
        &self,
        name: &str,
        command: SetCommand,
        (text, source): (&str, &str),
        author: &Author,
    ) -> Result<api::SetEdited, ApplyFailure> {
        let result = self.try_edit_set(name, command, text, source);
        self.log_edit(source, &result, |edited| LoggedEvent::SetEdited {
            set: name.to_owned(),
            edited: edited.clone(),
            author: author.clone(),
        });
        result
    }

    fn try_edit_set(
        &self,
        name: &str,
        command: SetCommand,
        text: &str,
        source: &str,
    ) -> Result<api::SetEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let kind = self.sets.latest().named(name).map_err(ApplyFailure::Set)?.set.kind();
        // Before the lock of the store: parsing a million lines takes time.
        let entries = set_entries(text, source, kind).map_err(ApplyFailure::Batch)?;
        let now = clock::now();
        let add = |entry: plan::SetEntry| {
            let expires = entry.lifetime.map_or(Instant::NEVER, |time| now + time);
            SetEdit::Add(SetElement { value: entry.value, expires })
        };
        let written = self.sets.write(|draft| {
            let stored = draft.sets().named(name)?;
            let (kind, limit, before) = (stored.set.kind(), stored.set.limit(), stored.set.len());
            let counts = match command {
                SetCommand::Add => draft.edit(name, entries.into_iter().map(add), now)?,
                SetCommand::Remove => {
                    draft.edit(name, entries.into_iter().map(|entry| SetEdit::Remove(entry.value)), now)?
                }
                SetCommand::Replace | SetCommand::Flush => {
                    draft.define(name, Set::new(kind, limit), now);
                    let mut counts = draft.edit(name, entries.into_iter().map(add), now)?;
                    counts.removed = before;
                    counts
                }
            };
            Ok::<_, SetWriteError>((counts, draft.sets().named(name)?.set.len()))
        });
        let (counts, elements) = written.map_err(ApplyFailure::Set)?;
        Ok(api::SetEdited {
            added: counts.added as u64,
            renewed: counts.renewed as u64,
            removed: counts.removed as u64,
            unchanged: counts.unchanged as u64,
            elements: elements as u64,
        })
    }

    /// Returns all sets.
    pub fn sets(&self) -> api::SetsReply {
        let files = self.set_files();
        let mut sets: Vec<api::SetReply> =
            self.sets.latest().iter().map(|stored| self.set_reply(stored, &files)).collect();
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        api::SetsReply { sets }
    }

    /// Returns up to `limit` elements of a set, from `first` on.
    pub fn set_elements(
        &self,
        name: &str,
        first: Option<SetValue>,
        limit: usize,
    ) -> Result<api::SetElements, ApplyFailure> {
        let sets = self.sets.latest();
        let stored = sets.named(name).map_err(ApplyFailure::Set)?;
        let now = clock::now();
        let mut elements = stored.set.elements_from(first);
        let listed = elements.by_ref().take(limit).map(|element| api::SetElementReply {
            element: element.value.to_string(),
            left_ns: (element.expires != Instant::NEVER).then(|| element.expires.since(now).get()),
        });
        let listed = listed.collect();
        let next = elements.next().map(|element| element.value.to_string());
        Ok(api::SetElements { set: self.set_reply(stored, &self.set_files()), elements: listed, next })
    }

    /// The file of each set in the running configuration.
    fn set_files(&self) -> Vec<(plan::Name, String)> {
        let plan = self.control.lock().router.plan().cloned();
        let sets = plan.iter().flat_map(|plan| &plan.sets);
        sets.filter_map(|set| Some((set.name.clone(), set.file.clone()?))).collect()
    }

    fn set_reply(&self, stored: &StoredSet, files: &[(plan::Name, String)]) -> api::SetReply {
        let set = &stored.set;
        let next = set.next_expiry();
        api::SetReply {
            name: stored.name.to_string(),
            kind: set.kind().name().to_owned(),
            elements: set.len() as u64,
            size: set.limit() as u64,
            memory_bytes: set.memory().get(),
            file: files.iter().find(|(name, _)| *name == stored.name).map(|(_, file)| file.clone()),
            changed_ns: (stored.changed + self.epoch).get(),
            next_expiry_ns: (next != Instant::NEVER).then(|| next.since(clock::now()).get()),
        }
    }

    /// Starts the thread that removes expired elements and maintains the lists of rules.
    pub(super) fn start_expiry(self: &std::sync::Arc<Self>) -> std::io::Result<()> {
        let mut sleeper = Sleeper::new(Waker::new()?);
        // Nothing wakes it early: new elements live for a second at least.
        let work = |daemon: &Daemon| {
            daemon.sets.expire(clock::now());
            daemon.maintain_rules();
        };
        self.spawn_background("rule-upkeep", work, move |()| drop(sleeper.sleep([], UPKEEP_INTERVAL)))
    }
}
