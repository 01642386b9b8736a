//! Applies batches of routes and neighbours while the router runs: all of a batch, or nothing.

use super::failure::ApplyFailure;
use super::{ADOPTION_TIMEOUT, Daemon, RUNNING};
use crate::api;
use crate::events::LoggedEvent;
use io::clock;
use plan::MOST_DIAGNOSTICS;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of the present batch, readable without a lock.
#[derive(Debug, Default)]
pub(super) struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Daemon {
    /// Applies the changes of a batch, `text`, which came from `name`: see [`plan::batch`]. A batch with an error changes nothing.
    pub fn edit(&self, text: &str, name: &str) -> Result<api::Edited, ApplyFailure> {
        let result = self.try_edit(text, name);
        self.log_edit(name, &result, |edited| LoggedEvent::Edited { edited: edited.clone(), name: name.to_owned() });
        result
    }

    /// Logs a change that was made beside the configuration, or that it was refused. `source` is the name of its text.
    pub(super) fn log_edit<T>(
        &self,
        source: &str,
        result: &Result<T, ApplyFailure>,
        event: impl FnOnce(&T) -> LoggedEvent,
    ) {
        let refused =
            |failure| LoggedEvent::Refused { name: source.to_owned(), reason: api::ApiError::from(failure).reason };
        self.log.push(clock::now(), result.as_ref().map_or_else(refused, event));
    }

    fn try_edit(&self, text: &str, name: &str) -> Result<api::Edited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        loop {
            let plan = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?.router.plan().cloned();
            let plan = plan.ok_or(ApplyFailure::Unavailable)?;
            // Without the lock: parsing a million lines takes time.
            let batch = plan::batch::batch(text, name, &plan).map_err(ApplyFailure::Batch)?;
            let mut guard = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
            if guard.router.plan().is_none_or(|now| !Arc::ptr_eq(now, &plan)) {
                // Another configuration runs now, in which the lines may mean something else: parse them again.
                continue;
            }
            let edits = guard.router.prepare_edits(&batch.lines, MOST_DIAGNOSTICS).map_err(|errors| {
                let wrong = errors.into_iter().map(|error| (error.line, error.reason, error.hint));
                ApplyFailure::Batch(batch.refuse(wrong))
            })?;
            let progress = &self.progress;
            // Relaxed: the progress is only displayed.
            progress.total.store(edits.routes() as u64, Ordering::Relaxed);
            let summary = guard.router.apply_edits(edits, |done| progress.done.store(done as u64, Ordering::Relaxed));
            progress.total.store(0, Ordering::Relaxed);
            progress.done.store(0, Ordering::Relaxed);
            self.linux.get().into_iter().for_each(|linux| linux.note_edit());
            return Ok(api::Edited {
                routes_added: summary.routes_added as u64,
                routes_removed: summary.routes_removed as u64,
                routes_shadowed: summary.routes_shadowed as u64,
                neighbours_added: summary.neighbours_added as u64,
                neighbours_removed: summary.neighbours_removed as u64,
            });
        }
    }

    /// Returns the progress of the present batch.
    pub fn editing(&self) -> api::Editing {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        api::Editing { routes_done: of(&self.progress.done), routes_total: of(&self.progress.total) }
    }
}
