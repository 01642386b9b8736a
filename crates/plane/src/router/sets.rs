//! The named sets of a configuration, with the elements of their files.
//!
//! A set is replaced if its section or the content of its file differs from that of the running configuration. All other sets keep their elements, with
//! those that the API has added.

use super::Router;
use super::opener::{ApplyError, Opener};
use classifier::{Set, SetEdit, SetElement, SetStore, SetWriteError};
use plan::{Name, Plan, SetEntry, SetPlan, set_entries};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;
use units::Instant;

/// The sets of a router.
pub(super) struct RouterSets {
    pub store: Arc<SetStore>,
    /// Digests of the files that were read for the running configuration.
    digests: HashMap<Name, u64>,
    /// The time from which lifetimes of the next configuration count.
    pub now: Instant,
}

impl Default for RouterSets {
    fn default() -> Self {
        RouterSets { store: Arc::default(), digests: HashMap::new(), now: Instant::START }
    }
}

/// The changes of sets for a configuration.
#[derive(Default)]
pub(super) struct SetChanges {
    /// New and replaced sets.
    defined: Vec<(Name, Set)>,
    digests: HashMap<Name, u64>,
    /// Warnings about files that a rollback could not read.
    pub warnings: Vec<String>,
}

fn digest(bytes: &[u8]) -> u64 {
    // The keys of this hasher are constant, so equal files have equal digests.
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn place(set: &SetPlan) -> String {
    format!("set {}", set.name)
}

/// The set of these elements.
fn build(plan: &SetPlan, more: Vec<SetEntry>, now: Instant) -> Result<Set, ApplyError> {
    let edits = plan.elements.iter().copied().chain(more).map(|entry| {
        SetEdit::Add(SetElement {
            value: entry.value,
            expires: entry.lifetime.map_or(Instant::NEVER, |time| now + time),
        })
    });
    let limit = usize::try_from(plan.size).unwrap_or(usize::MAX);
    let (set, _) = Set::new(plan.kind, limit).edited(edits).map_err(|error| {
        let hint = "raise its size, or use fewer elements".to_string();
        ApplyError { place: place(plan), reason: error.to_string(), hint }
    })?;
    Ok(set)
}

/// The elements of a file.
fn parse(plan: &SetPlan, file: &str, bytes: Vec<u8>) -> Result<Vec<SetEntry>, Vec<ApplyError>> {
    let one = |reason: String, hint: String| ApplyError { place: place(plan), reason, hint };
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        vec![one(format!("{file}:{line}: the file is not UTF-8"), "save the file as UTF-8".to_string())]
    })?;
    set_entries(&text, file, plan.kind).map_err(|found| {
        let wrong = found
            .errors()
            .map(|error| one(format!("{file}:{}:{}: {}", error.line, error.column, error.reason), error.hint.clone()));
        wrong.collect()
    })
}

impl Router {
    /// The named sets. Readers and writers use them beside the generations.
    pub fn sets(&self) -> &Arc<SetStore> {
        &self.sets.store
    }

    /// Sets the time from which lifetimes of elements in the next configuration and leases of shares count.
    pub fn set_time(&mut self, now: Instant) {
        self.sets.now = now;
        self.shares.now = now;
    }

    /// True if the file of a set has changed since it was read for the running configuration, and the set's section is the same in `plan`.
    pub fn set_files_changed(&self, plan: &Plan, opener: &mut dyn Opener) -> bool {
        let unchanged = plan.sets.iter().filter(|set| self.has_section(set));
        unchanged.filter_map(|set| Some((set, set.file.as_ref()?))).any(|(set, file)| {
            // A file that cannot be read any more counts as changed, so that the apply reports it.
            let now = opener.read_file(&place(set), file).ok().map(|bytes| digest(&bytes));
            now != self.sets.digests.get(&set.name).copied()
        })
    }

    fn has_section(&self, set: &SetPlan) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.sets.contains(set))
    }

    /// Reads the files of all sets and builds those that differ. In a rollback, a set whose file is missing or wrong keeps its elements.
    pub(super) fn prepare_sets(
        &self,
        plan: &Plan,
        opener: &mut dyn Opener,
        is_rollback: bool,
    ) -> Result<SetChanges, Vec<ApplyError>> {
        let (mut changes, mut errors) = (SetChanges::default(), Vec::new());
        for set in &plan.sets {
            match self.prepare_set(set, opener, &mut changes.digests) {
                Ok(None) => {}
                Ok(Some(built)) => changes.defined.push((set.name.clone(), built)),
                Err(wrong) if is_rollback => {
                    let first = wrong.first().map(ApplyError::to_string).unwrap_or_default();
                    let old = self.sets.store.latest().find(&set.name).map(|stored| stored.set.clone());
                    let left = if old.as_ref().is_some_and(|old| old.kind() == set.kind) {
                        "it keeps its elements"
                    } else {
                        // The elements of the section alone fit: `check` compares their number with the size.
                        let alone = build(set, Vec::new(), self.sets.now);
                        changes.defined.extend(alone.ok().map(|built| (set.name.clone(), built)));
                        "it has only the elements of the configuration itself"
                    };
                    changes.warnings.push(format!("{first}; {left}"));
                }
                Err(wrong) => errors.extend(wrong),
            }
        }
        if errors.is_empty() { Ok(changes) } else { Err(errors) }
    }

    /// The set if it differs from the running one.
    fn prepare_set(
        &self,
        set: &SetPlan,
        opener: &mut dyn Opener,
        digests: &mut HashMap<Name, u64>,
    ) -> Result<Option<Set>, Vec<ApplyError>> {
        let has_section = self.has_section(set);
        let Some(file) = &set.file else {
            let built = (!has_section).then(|| build(set, Vec::new(), self.sets.now));
            return built.transpose().map_err(|error| vec![error]);
        };
        let bytes = opener.read_file(&place(set), file).map_err(|error| vec![error])?;
        let digest = digest(&bytes);
        let is_read = self.sets.digests.get(&set.name) == Some(&digest);
        digests.insert(set.name.clone(), digest);
        if has_section && is_read {
            return Ok(None);
        }
        let entries = parse(set, file, bytes)?;
        build(set, entries, self.sets.now).map(Some).map_err(|error| vec![error])
    }

    /// Publishes new and replaced sets, all at once. Sets that the configuration does not have remain for workers of the old generation.
    pub(super) fn publish_sets(&mut self, changes: SetChanges) {
        self.sets.digests = changes.digests;
        if changes.defined.is_empty() {
            return;
        }
        let now = self.sets.now;
        let defined = self.sets.store.write(|draft| {
            for (name, set) in changes.defined {
                draft.define(&name, set, now);
            }
            Ok::<_, SetWriteError>(())
        });
        defined.expect("a definition does not fail");
    }

    /// Removes the sets that the configuration does not have, when no worker uses them any more.
    pub(super) fn remove_old_sets(&mut self, plan: &Plan) {
        let has = |name: &str| plan.sets.iter().any(|set| &*set.name == name);
        let gone: Vec<Arc<str>> =
            self.sets.store.latest().iter().map(|stored| stored.name.clone()).filter(|name| !has(name)).collect();
        if gone.is_empty() {
            return;
        }
        let removed = self.sets.store.write(|draft| {
            for name in &gone {
                draft.remove(name);
            }
            Ok::<_, SetWriteError>(())
        });
        removed.expect("a removal does not fail");
    }
}
