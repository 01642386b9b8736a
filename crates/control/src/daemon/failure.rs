//! Why a configuration was not applied or rolled back, as the API reports it.

use super::apply_request::RollbackTarget;
use crate::api::{self, ApiError, ErrorKind};
use plan::Diagnostics;
use plane::ApplyError;
use std::fmt;

/// Why a configuration was refused. Except for [`ApplyFailure::AdoptionTimeout`], the running configuration is unchanged.
#[derive(Debug)]
pub enum ApplyFailure {
    /// Its text has errors.
    Configuration(Diagnostics),
    /// Lines of a batch cannot be applied.
    Batch(Diagnostics),
    /// Elements of a set cannot be changed.
    Set(classifier::SetWriteError),
    /// There is no list of rules with this name; these are.
    UnknownRules(String, Vec<String>),
    /// There is no port with this name that has shares; these have.
    NoShares(String, Vec<String>),
    /// A slice does not exist, or does not permit the request.
    Slice(slice::SliceError),
    /// Only the owner of a slice and the operator may do this.
    NotOwner(api::Author),
    /// The configuration has no subscribers.
    NoSubscribers,
    /// It changes these keys, which need a restart of the router.
    RestartNeeded(Vec<String>),
    /// It cannot run here now.
    CannotRun(Vec<ApplyError>),
    /// A worker has not adopted it within five seconds. It stays published: the late worker adopts it as soon as it can, and the others already run
    /// it.
    AdoptionTimeout,
    /// The router is ending or has failed.
    Unavailable,
    /// Another configuration is on trial.
    Pending(api::Pending),
    /// It takes interfaces that carry the login of its author.
    Login(Vec<ApplyError>),
    /// No configuration is on trial; this trial has expired before.
    NothingPending(Option<u64>),
    /// There is no such configuration to roll back to; these are kept.
    NotInHistory(RollbackTarget, Vec<u64>),
    /// Another apply was faster: this generation runs now.
    Superseded(u64),
}

impl From<slice::SliceError> for ApplyFailure {
    fn from(error: slice::SliceError) -> ApplyFailure {
        ApplyFailure::Slice(error)
    }
}

impl From<&ApplyFailure> for ApiError {
    fn from(failure: &ApplyFailure) -> ApiError {
        match failure {
            ApplyFailure::Configuration(found) => ApiError {
                diagnostics: found.list().iter().map(api::DiagnosticReply::from).collect(),
                ..ApiError::new(ErrorKind::Configuration, "the configuration has errors", "")
            },
            ApplyFailure::Batch(found) => ApiError {
                diagnostics: found.list().iter().map(api::DiagnosticReply::from).collect(),
                ..ApiError::new(ErrorKind::Configuration, "the batch has errors", "")
            },
            ApplyFailure::Set(classifier::SetWriteError::UnknownSet { name, hint }) => {
                ApiError::new(ErrorKind::NotFound, format!("there is no set {}", plan::quote(name)), hint.clone())
            }
            ApplyFailure::Set(error @ classifier::SetWriteError::Refused { .. }) => {
                ApiError::new(ErrorKind::BadRequest, error.to_string(), "`switchpath set list` shows the sets")
            }
            ApplyFailure::UnknownRules(name, known) => {
                let hint = match known.len() {
                    0 | 1 => "no path has the function 'filter'; the only list is 'paths'".to_string(),
                    _ => plan::did_you_mean(name, known.iter().map(String::as_str)),
                };
                ApiError::new(ErrorKind::NotFound, format!("there is no list of rules {}", plan::quote(name)), hint)
            }
            ApplyFailure::NoShares(port, known) => {
                let hint = match known.is_empty() {
                    true => "give a port scheme = \"share(...)\"".to_string(),
                    false => plan::did_you_mean(port, known.iter().map(String::as_str)),
                };
                ApiError::new(ErrorKind::NotFound, format!("no port {} has shares", plan::quote(port)), hint)
            }
            ApplyFailure::Slice(slice::SliceError { reason, hint }) => {
                ApiError::new(ErrorKind::NotFound, reason.clone(), hint.clone())
            }
            ApplyFailure::NotOwner(author) => ApiError::new(
                ErrorKind::Forbidden,
                format!("{author} does not own this slice"),
                "only its owner, and callers with full access, may do this",
            ),
            ApplyFailure::NoSubscribers => ApiError::new(
                ErrorKind::NotFound,
                "the configuration has no subscribers",
                "name their file in the section [subscribers]",
            ),
            ApplyFailure::RestartNeeded(changes) => ApiError::new(
                ErrorKind::RestartNeeded,
                format!("these changes require a restart: {}", changes.join("; ")),
                "stop the router and start it with the new configuration",
            ),
            ApplyFailure::CannotRun(errors) => ApiError {
                problems: errors.iter().map(api::Problem::from).collect(),
                ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run on this machine now", "")
            },
            ApplyFailure::AdoptionTimeout => ApiError::new(
                ErrorKind::Unavailable,
                "a worker has not adopted the configuration within 5 s",
                "look at the log of the router; the worker adopts the configuration later",
            ),
            ApplyFailure::Unavailable => {
                ApiError::new(ErrorKind::Unavailable, "the router is stopping or has failed", "start it again")
            }
            ApplyFailure::Pending(pending) => ApiError::new(
                ErrorKind::Pending,
                format!(
                    "generation {} has to be confirmed first, within {} s",
                    pending.generation,
                    pending.left_ns.div_ceil(1_000_000_000)
                ),
                "run `switchpath confirm` to keep it or `switchpath rollback` to undo it; then apply this one",
            ),
            ApplyFailure::Login(errors) => ApiError {
                problems: errors.iter().map(api::Problem::from).collect(),
                ..ApiError::new(ErrorKind::Login, "the configuration uses the interface of your own login", "")
            },
            ApplyFailure::NothingPending(None) => ApiError::new(
                ErrorKind::NothingPending,
                "there is nothing to confirm",
                "`switchpath history` shows why",
            ),
            ApplyFailure::NothingPending(Some(left)) => ApiError::new(
                ErrorKind::NothingPending,
                format!(
                    "there is nothing to confirm: generation {left} was rolled back, because it was not confirmed in time"
                ),
                format!("run `switchpath rollback --to {left}` to apply it again"),
            ),
            ApplyFailure::NotInHistory(back, kept) => {
                let reason = match back {
                    RollbackTarget::To(generation) => format!("there is no generation {generation} in the history"),
                    RollbackTarget::Steps(1) => "there is no earlier generation".into(),
                    RollbackTarget::Steps(steps) => format!("there is no generation {steps} steps back"),
                };
                let hint = match (kept.first(), kept.last()) {
                    (Some(first), Some(last)) => {
                        format!("the history has generations {first} to {last}; see `switchpath history`")
                    }
                    _ => "see `switchpath history`".into(),
                };
                ApiError::new(ErrorKind::NothingPending, reason, hint)
            }
            ApplyFailure::Superseded(generation) => ApiError::new(
                ErrorKind::Pending,
                format!("another change was faster: generation {generation} runs now"),
                "check `switchpath history`, and try again if the change is still needed",
            ),
        }
    }
}

impl fmt::Display for ApplyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ApiError::from(self).fmt(f)
    }
}

impl std::error::Error for ApplyFailure {}
