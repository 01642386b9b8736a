//! Applying a configuration while the router runs: all of it, or nothing.

use super::apply_request::{ApplyPurpose, ApplyRequest, PendingConfirmation};
use super::failure::ApplyFailure;
use super::{ADOPTION_TIMEOUT, Daemon, RUNNING};
use crate::api::{self, ApiError, HistoryState, Via};
use crate::events::LoggedEvent;
use crate::history::StoredConfiguration;
use crate::memory;
use crate::names::Names;
use io::clock;
use io::login::Login;
use parking_lot::MutexGuard;
use plan::{Catalogue, Diagnostics, Plan};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use units::{Generation, Nanos};

/// The most changes in an answer: a million routes would be hundreds of megabytes of text.
const MOST_LISTED: usize = 10_000;

fn listed(changes: &[plan::Change]) -> Vec<api::ChangeReply> {
    changes.iter().take(MOST_LISTED).map(api::ChangeReply::from).collect()
}

fn warnings(found: &Diagnostics) -> Vec<api::DiagnosticReply> {
    found.warnings().map(api::DiagnosticReply::from).collect()
}

/// Reads a configuration; returns its plan and its warnings, or its errors.
fn read(text: &str, name: &str, catalogue: &Catalogue) -> Result<(Plan, Vec<api::DiagnosticReply>), ApplyFailure> {
    let checked = plan::examine(text, name, catalogue);
    let warnings = warnings(&checked.diagnostics);
    match checked.plan {
        Some(plan) => Ok((plan, warnings)),
        None => Err(ApplyFailure::Configuration(checked.diagnostics)),
    }
}

impl Daemon {
    /// Applies the configuration `text`, which came from `name`: see [`Daemon::apply_request`].
    pub fn apply(&self, text: &str, name: &str) -> Result<api::Applied, ApplyFailure> {
        self.apply_request(ApplyRequest::new(text, name))
    }

    /// Applies a configuration: checks it, opens its ports and files, and lets every worker adopt it between two packets. Returns when all run it.
    /// Applies are serialized, and refused while a configuration is on trial.
    pub fn apply_request(&self, order: ApplyRequest) -> Result<api::Applied, ApplyFailure> {
        self.apply_and_log(order, ApplyPurpose::Apply)
    }

    pub(super) fn apply_and_log(
        &self,
        order: ApplyRequest,
        purpose: ApplyPurpose,
    ) -> Result<api::Applied, ApplyFailure> {
        let (name, who) = (order.name.clone(), order.author.clone());
        let result = self.try_apply(order, purpose);
        let now = clock::now();
        match &result {
            Ok(applied) => {
                let (generation, changes) = (Generation(applied.generation), applied.changes_total as usize);
                self.log.push(
                    now,
                    match applied.restores {
                        Some(restores) => LoggedEvent::RolledBack { generation, restores, name, author: who },
                        None => LoggedEvent::Applied { generation, changes, name, author: who },
                    },
                );
                if let Some(pending) = &applied.pending {
                    let (back_to, time) = (pending.back_to, Nanos::new(pending.left_ns));
                    self.log.push(now, LoggedEvent::Pending { generation, back_to, time });
                }
                applied.advisories.iter().for_each(|warning| self.log.push(now, LoggedEvent::Warning(warning.clone())));
            }
            // The trial timer reports its own failures.
            Err(_) if who.via == Via::Timer => {}
            Err(failure) => self.log.push(now, LoggedEvent::Refused { name, reason: ApiError::from(failure).reason }),
        }
        result
    }

    fn try_apply(&self, order: ApplyRequest, purpose: ApplyPurpose) -> Result<api::Applied, ApplyFailure> {
        // Before the lock: parsing a million routes takes time.
        let (plan, warnings) = read(&order.text, &order.name, &self.catalogue)?;
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        // If a worker does not answer, its measurements are unknown, and the apply goes on without them.
        let measured = self.reports().map(|reports| reports.to_vec()).unwrap_or_default();
        let mut guard = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
        let control = &mut *guard;
        // Not a part of the text: what programs of the machine have set stays.
        let mut plan = plan;
        control.with_kernel_settings(&mut plan);
        let running = control.router.snapshot().generation.0;
        // Checked only now, under the lock: another apply may have run since the caller decided.
        match (purpose, &control.pending) {
            (ApplyPurpose::Apply, Some(pending)) => return Err(ApplyFailure::Pending(pending.to_reply(clock::now()))),
            (ApplyPurpose::Return { running: known, .. }, _) if known != running => {
                return Err(ApplyFailure::Superseded(running));
            }
            // The trial was confirmed while the timer read the configuration to return to.
            (ApplyPurpose::Return { .. }, None) if order.author.via == Via::Timer => {
                return Err(ApplyFailure::Superseded(running));
            }
            _ => {}
        }
        let changes = control.router.plan().map_or_else(Vec::new, |old| plan::diff(old, &plan));
        let fixed: Vec<String> = changes.iter().filter(|c| c.restart_needed()).map(ToString::to_string).collect();
        if !fixed.is_empty() {
            return Err(ApplyFailure::RestartNeeded(fixed));
        }
        let mut advisories = Vec::new();
        control.router.set_time(clock::now());
        let set_files_changed = control.router.set_files_changed(&plan, &mut *control.opener);
        let key_changed = control.router.files_changed(&plan);
        let renews = key_changed || set_files_changed;
        if key_changed && let Some(file) = plan.state.as_ref().and_then(|state| state.key.as_ref()) {
            advisories.push(format!("the key in '{file}' has changed, and the router has read it again"));
        }
        let mut answer = api::Applied {
            generation: running,
            changes: listed(&changes),
            changes_total: changes.len() as u64,
            warnings,
            advisories: Vec::new(),
            pending: None,
            restores: order.restores,
        };
        if changes.is_empty() && !renews {
            advisories.extend(control.history.replace_text(&order.name, &order.text).err());
            (control.text, control.name) = (order.text.into(), order.name.into());
            return Ok(api::Applied { advisories, ..answer });
        }
        if self.guarded {
            let logins: &[Login] = if order.force { &[] } else { &order.logins };
            let seized = super::guard::check_interfaces(&plan, control.router.plan().map(|plan| &**plan), logins);
            advisories.extend(seized.map_err(ApplyFailure::Login)?);
        }
        if let Some((_, fence)) = self.confinement.get() {
            let problems = fence.problems(&plan, control.router.plan().map(|plan| &**plan));
            if !problems.is_empty() {
                return Err(ApplyFailure::CannotRun(problems));
            }
        }
        control.router.learn_costs(&measured);
        let prepared = match purpose {
            ApplyPurpose::Apply => control.router.prepare(&plan, &mut *control.opener),
            ApplyPurpose::Return { .. } => control.router.prepare_rollback(&plan, &mut *control.opener),
        };
        let prepared = prepared.map_err(ApplyFailure::CannotRun)?;
        advisories.extend(prepared.advisories().chain(memory::warning(&plan)));
        // From here on nothing can fail. The history is written before the configuration runs, so that after a crash during a trial the next start
        // knows of it.
        answer.generation = running + 1;
        advisories.extend(control.record(&order, &answer, purpose).err());
        let now = clock::now();
        control.pending = order.confirm.map(|time| PendingConfirmation {
            generation: answer.generation,
            back_to: running,
            deadline: now + time,
            author: order.author,
            failure: None,
        });
        answer.pending = control.pending.as_ref().map(|pending| pending.to_reply(now));
        let published = control.router.publish(prepared);
        // Recorded as late before the wait: if a worker does not adopt it in time, a later call of `settled` completes it.
        control.adopting = Some((published, order.text.into(), order.name.into()));
        drop(guard);
        self.alarm.wake();
        drop(self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?);
        Ok(api::Applied { advisories, ..answer })
    }

    /// Returns the changes that applying `text` would make.
    pub fn diff(&self, text: &str, name: &str) -> Result<api::Changes, ApplyFailure> {
        let (plan, warnings) = read(text, name, &self.catalogue)?;
        let running = self.control.lock().router.plan().cloned();
        let changes = running.map_or_else(Vec::new, |old| plan::diff(&old, &plan));
        let restart_needed = changes.iter().any(plan::Change::restart_needed);
        let changes_total = changes.len() as u64;
        Ok(api::Changes { changes: listed(&changes), changes_total, restart_needed, warnings })
    }

    /// Checks `text`.
    pub fn check(&self, text: &str, name: &str) -> api::CheckReply {
        let checked = plan::examine(text, name, &self.catalogue);
        let diagnostics = checked.diagnostics.list().iter().map(api::DiagnosticReply::from).collect();
        api::CheckReply { ok: checked.plan.is_some(), diagnostics }
    }

    /// Locks the control side once no adoption is in progress; none if one does not complete within `patience`.
    pub(super) fn lock_adopted(&self, patience: Duration) -> Option<MutexGuard<'_, super::Control>> {
        let mut guard = self.control.lock();
        let Some((mut published, text, name)) = guard.adopting.take() else { return Some(guard) };
        if !published.wait(patience) {
            guard.adopting = Some((published, text, name));
            return None;
        }
        let control = &mut *guard;
        control.router.complete(published);
        if let Some(plan) = control.router.plan() {
            self.workers.set_spin(plan.busy_poll);
        }
        (control.text, control.name) = (text, name);
        let mut names = Names::clone(&self.names.load());
        names.add_generation(control.router.snapshot());
        self.names.store(Arc::new(names));
        self.linux.get().into_iter().for_each(super::linux::Linux::wake);
        Some(guard)
    }
}

impl super::Control {
    /// Writes the configuration that is about to run into the history.
    fn record(&mut self, order: &ApplyRequest, answer: &api::Applied, purpose: ApplyPurpose) -> Result<(), String> {
        let entry = StoredConfiguration {
            generation: answer.generation,
            time_ns: (clock::now() + clock::epoch()).get(),
            who: order.author.clone(),
            name: order.name.clone(),
            state: if order.confirm.is_some() { HistoryState::Pending } else { HistoryState::Running },
            restores: order.restores,
            changes: answer.changes.iter().map(|change| change.text.clone()).collect(),
            changes_total: answer.changes_total,
            text: order.text.clone(),
        };
        let before = match purpose {
            ApplyPurpose::Apply => HistoryState::Replaced,
            ApplyPurpose::Return { left_as, .. } => left_as,
        };
        self.history.push(entry, before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_need_a_restart_are_refused() {
        let of = |router: &str| {
            let port = "[port.a]\ndevice = 'memory:a'\naddress = ['192.0.2.1/24']\n";
            read(&format!("version = 1\n[router]\n{router}\n{port}"), "t", &plane::catalogue()).unwrap().0
        };
        let old = of("name = 'a'");
        for (text, fixed) in
            [("name = 'b'", false), ("workers = 2", true), ("icmp_rate = 5", false), ("frames = 8192", true)]
        {
            assert_eq!(plan::diff(&old, &of(text)).iter().any(plan::Change::restart_needed), fixed, "{text}");
        }
    }
}
