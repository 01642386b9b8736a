//! Applying a configuration while the router runs: all of it, or nothing.

use super::{ADOPTION, Daemon, RUNNING};
use crate::api::{self, ApiError, ErrorKind};
use crate::events::What;
use crate::names::Names;
use io::clock;
use parking_lot::MutexGuard;
use plan::{Diagnostics, Plan};
use plane::ApplyError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Why a configuration was refused. Unless it is [`ApplyFailure::Late`], the one before it runs on unchanged.
#[derive(Debug)]
pub enum ApplyFailure {
    /// Its text has errors.
    Configuration(Diagnostics),
    /// It changes what cannot change while the router runs: these changes.
    RestartNeeded(Vec<String>),
    /// It cannot run here and now.
    CannotRun(Vec<ApplyError>),
    /// A worker has not adopted it within five seconds; it still will when it can, and the workers that have run it.
    Late,
    /// The router is ending or has failed.
    Unavailable,
}

impl From<&ApplyFailure> for ApiError {
    fn from(failure: &ApplyFailure) -> ApiError {
        match failure {
            ApplyFailure::Configuration(found) => ApiError {
                diagnostics: found.list().iter().map(api::Diagnostic::from).collect(),
                ..ApiError::new(ErrorKind::Configuration, "the configuration has errors", "")
            },
            ApplyFailure::RestartNeeded(changes) => ApiError::new(
                ErrorKind::RestartNeeded,
                format!("this cannot change while the router runs: {}", changes.join("; ")),
                "end the router and start it with the new configuration",
            ),
            ApplyFailure::CannotRun(errors) => ApiError {
                problems: errors.iter().map(api::Problem::from).collect(),
                ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run here and now", "")
            },
            ApplyFailure::Late => ApiError::new(
                ErrorKind::Unavailable,
                "a worker has not taken the configuration within 5 s",
                "look at the log of the router; it takes the configuration when it can",
            ),
            ApplyFailure::Unavailable => {
                ApiError::new(ErrorKind::Unavailable, "the router is ending or has failed", "start it anew")
            }
        }
    }
}

impl fmt::Display for ApplyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ApiError::from(self).fmt(f)
    }
}

impl std::error::Error for ApplyFailure {}

fn told(change: &plan::Change) -> api::Change {
    api::Change::from(change)
}

fn warnings(found: &Diagnostics) -> Vec<api::Diagnostic> {
    found.warnings().map(api::Diagnostic::from).collect()
}

/// A plan with its warnings, or what is wrong with its text.
fn read(text: &str, name: &str) -> Result<(Plan, Vec<api::Diagnostic>), ApplyFailure> {
    let checked = plan::examine(text, name, &plane::catalogue());
    let warnings = warnings(&checked.diagnostics);
    match checked.plan {
        Some(plan) => Ok((plan, warnings)),
        None => Err(ApplyFailure::Configuration(checked.diagnostics)),
    }
}

impl Daemon {
    /// Applies the configuration `text`, which came from `name`: checks it, opens what it needs, has every worker adopt
    /// it between two packets, and answers when all run it. Applies are made one after the other.
    pub fn apply(&self, text: &str, name: &str) -> Result<api::Applied, ApplyFailure> {
        let result = self.try_apply(text, name);
        let what = match &result {
            Ok(applied) => What::Applied {
                generation: units::Generation(applied.generation),
                changes: applied.changes.len(),
                name: name.to_owned(),
            },
            Err(failure) => What::Refused { name: name.to_owned(), reason: ApiError::from(failure).reason },
        };
        self.log.push(clock::now(), what);
        result
    }

    fn try_apply(&self, text: &str, name: &str) -> Result<api::Applied, ApplyFailure> {
        // Outside the lock: a text of a million routes takes its time.
        let (plan, warnings) = read(text, name)?;
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let mut guard = self.settled(ADOPTION).ok_or(ApplyFailure::Late)?;
        let control = &mut *guard;
        let changes = control.router.plan().map_or_else(Vec::new, |old| plan::diff(old, &plan));
        let fixed: Vec<String> = changes.iter().filter(|c| c.restart_needed()).map(ToString::to_string).collect();
        if !fixed.is_empty() {
            return Err(ApplyFailure::RestartNeeded(fixed));
        }
        let (text, name): (Arc<str>, Arc<str>) = (text.into(), name.into());
        if changes.is_empty() {
            (control.text, control.name) = (text, name);
            return Ok(api::Applied { generation: control.router.snapshot().generation.0, changes: vec![], warnings });
        }
        let prepared = control.router.prepare(&plan, &mut *control.opener).map_err(ApplyFailure::CannotRun)?;
        let published = control.router.publish(prepared);
        control.late = Some((published, text, name));
        drop(guard);
        let guard = self.settled(ADOPTION).ok_or(ApplyFailure::Late)?;
        let generation = guard.router.snapshot().generation.0;
        Ok(api::Applied { generation, changes: changes.iter().map(told).collect(), warnings })
    }

    /// What applying `text` would change.
    pub fn diff(&self, text: &str, name: &str) -> Result<api::Changes, ApplyFailure> {
        let (plan, warnings) = read(text, name)?;
        let running = self.control.lock().router.plan().cloned();
        let changes = running.map_or_else(Vec::new, |old| plan::diff(&old, &plan));
        let restart_needed = changes.iter().any(plan::Change::restart_needed);
        Ok(api::Changes { changes: changes.iter().map(told).collect(), restart_needed, warnings })
    }

    /// Checks `text`.
    pub fn check(&self, text: &str, name: &str) -> api::Checked {
        let checked = plan::examine(text, name, &plane::catalogue());
        let diagnostics = checked.diagnostics.list().iter().map(api::Diagnostic::from).collect();
        api::Checked { ok: checked.plan.is_some(), diagnostics }
    }

    /// The control side with no generation on its way; nothing where one is not adopted within `patience`.
    fn settled(&self, patience: Duration) -> Option<MutexGuard<'_, super::Control>> {
        let mut guard = self.control.lock();
        let Some((mut published, text, name)) = guard.late.take() else { return Some(guard) };
        if !published.wait(patience) {
            guard.late = Some((published, text, name));
            return None;
        }
        let control = &mut *guard;
        control.router.complete(published);
        (control.text, control.name) = (text, name);
        let mut names = Names::clone(&self.names.load());
        names.learn(control.router.snapshot());
        self.names.store(Arc::new(names));
        Some(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_change_while_running_is_refused() {
        let of = |router: &str| {
            let port = "[port.a]\ndevice = 'memory:a'\naddress = ['192.0.2.1/24']\n";
            read(&format!("version = 1\n[router]\n{router}\n{port}"), "t").unwrap().0
        };
        let old = of("name = 'a'");
        for (text, fixed) in
            [("name = 'b'", false), ("workers = 2", true), ("icmp_rate = 5", false), ("frames = 8192", true)]
        {
            assert_eq!(plan::diff(&old, &of(text)).iter().any(plan::Change::restart_needed), fixed, "{text}");
        }
    }
}
