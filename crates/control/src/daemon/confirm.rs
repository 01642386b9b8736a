//! Trials, which roll back unless they are confirmed in time, and rollbacks by hand.
//!
//! The router itself keeps the time. So a trial ends even if the new configuration has cut off the connection of its author.

use super::apply_request::{ApplyPurpose, ApplyRequest, RollbackTarget};
use super::failure::ApplyFailure;
use super::{Daemon, RUNNING};
use crate::api::{self, ApiError, Author, HistoryState, Via};
use crate::events::LoggedEvent;
use crate::history::StoredConfiguration;
use io::clock;
use io::wait::Sleeper;
use std::io as std_io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::{Generation, Instant, Nanos};

/// The pause before a failed rollback is tried again.
const RETRY: Nanos = Nanos::secs(5);
/// The interval at which the thread checks whether the router still runs.
const CHECK_INTERVAL: Nanos = Nanos::secs(5);

impl Daemon {
    /// Confirms the configuration on trial.
    pub fn confirm(&self, who: &Author) -> Result<api::Confirmed, ApplyFailure> {
        let mut control = self.control.lock();
        let Some(pending) = control.pending.take() else {
            let left = control.history.to_reply().entries.into_iter().rev();
            let latest = left.take_while(|e| e.state != HistoryState::Replaced);
            let left =
                latest.filter(|entry| entry.state == HistoryState::Unconfirmed).map(|entry| entry.generation).next();
            return Err(ApplyFailure::NothingPending(left));
        };
        let warning = control.history.set_state(pending.generation, HistoryState::Running).err();
        drop(control);
        let generation = Generation(pending.generation);
        self.log.push(clock::now(), LoggedEvent::Confirmed { generation, author: who.clone() });
        warning.into_iter().for_each(|warning| self.log.push(clock::now(), LoggedEvent::Warning(warning)));
        Ok(api::Confirmed { generation: pending.generation })
    }

    /// Applies an earlier configuration again, as a new generation. This ends a trial. `order` has the author and the conditions; its text is
    /// ignored.
    pub fn roll_back(&self, back: RollbackTarget, order: ApplyRequest) -> Result<api::Applied, ApplyFailure> {
        let (entry, purpose) = {
            let control = self.control.lock();
            let running = control.router.snapshot().generation.0;
            let found = match back {
                RollbackTarget::Steps(steps) => control.history.step_back(running, steps),
                RollbackTarget::To(generation) => control.history.get(generation),
            };
            let kept = || control.history.to_reply().entries.iter().map(|entry| entry.generation).collect();
            let Some(entry) = found.cloned() else { return Err(ApplyFailure::NotInHistory(back, kept())) };
            let left_as = match &control.pending {
                Some(_) => HistoryState::Unconfirmed,
                None => HistoryState::RolledBack,
            };
            (entry, ApplyPurpose::Return { running, left_as })
        };
        self.restore(&entry, order, purpose)
    }

    fn restore(
        &self,
        entry: &Arc<StoredConfiguration>,
        order: ApplyRequest,
        purpose: ApplyPurpose,
    ) -> Result<api::Applied, ApplyFailure> {
        let restores = Some(entry.restores.unwrap_or(entry.generation));
        let order = ApplyRequest { text: entry.text.clone(), name: entry.name.clone(), restores, ..order };
        self.apply_and_log(order, purpose)
    }

    /// Starts the thread that rolls back expired trials.
    pub(super) fn watch_confirmation(self: &Arc<Self>) -> std_io::Result<()> {
        let mut sleeper = Sleeper::new(self.alarm.clone());
        let look = |daemon: &Daemon| daemon.roll_back_expired(clock::now());
        // A poll of one valid descriptor does not fail.
        self.spawn_background("confirmation", look, move |next| drop(sleeper.sleep([], next)))
    }

    /// Rolls back an expired trial; returns the time until the next check.
    fn roll_back_expired(&self, now: Instant) -> Nanos {
        let (pending, entry) = {
            let control = self.control.lock();
            let Some(pending) = control.pending.clone() else { return CHECK_INTERVAL };
            if pending.deadline > now {
                return pending.deadline.since(now).min(CHECK_INTERVAL);
            }
            (pending.clone(), control.history.get(pending.back_to).cloned())
        };
        if self.state.load(Ordering::Acquire) != RUNNING {
            return CHECK_INTERVAL;
        }
        let left_as = HistoryState::Unconfirmed;
        let purpose = ApplyPurpose::Return { running: pending.generation, left_as };
        // Forced: the previous configuration has to return even if it takes the interface of a login.
        let order = ApplyRequest { author: Author::by(Via::Timer), force: true, ..ApplyRequest::new("", "") };
        let result = match &entry {
            Some(entry) => self.restore(entry, order, purpose),
            None => Err(ApplyFailure::NotInHistory(RollbackTarget::To(pending.back_to), Vec::new())),
        };
        let Err(failure) = result else {
            let text = format!(
                "{} still has the configuration that was not confirmed: correct it before you apply it again",
                self.name_of(pending.generation)
            );
            self.log.push(clock::now(), LoggedEvent::Warning(text));
            return CHECK_INTERVAL;
        };
        let mut control = self.control.lock();
        let Some(stuck) = control.pending.as_mut().filter(|p| p.generation == pending.generation) else {
            return CHECK_INTERVAL;
        };
        stuck.deadline = now + RETRY;
        let reason = ApiError::from(&failure).to_string();
        if stuck.failure.as_ref() != Some(&reason) {
            stuck.failure = Some(reason.clone());
            let text = format!(
                "cannot roll back the unconfirmed generation {}; the router tries again every 5 s: {reason}",
                pending.generation
            );
            drop(control);
            self.log.push(clock::now(), LoggedEvent::Warning(text));
        }
        RETRY
    }

    fn name_of(&self, generation: u64) -> String {
        self.control.lock().history.get(generation).map_or_else(String::new, |entry| entry.name.clone())
    }

    /// Returns the history of configurations.
    pub fn history(&self) -> api::History {
        self.control.lock().history.to_reply()
    }

    /// Returns the configuration of a generation.
    pub fn config_of(&self, generation: u64) -> Result<api::Config, ApplyFailure> {
        let control = self.control.lock();
        let kept = || control.history.to_reply().entries.iter().map(|entry| entry.generation).collect();
        let entry = control.history.get(generation);
        let entry = entry.ok_or_else(|| ApplyFailure::NotInHistory(RollbackTarget::To(generation), kept()))?;
        Ok(api::Config { generation, name: entry.name.clone(), text: entry.text.clone() })
    }
}
