//! Why a configuration was not applied or rolled back, as the API reports it.

use super::apply_request::RollbackTarget;
use crate::api::{self, ApiError, ErrorKind};
use plan::Diagnostics;
use plane::ApplyError;
use std::fmt;

/// Why a configuration was refused. Except for [`ApplyFailure::Late`], the running configuration is unchanged.
#[derive(Debug)]
pub enum ApplyFailure {
    /// Its text has errors.
    Configuration(Diagnostics),
    /// Lines of a batch cannot be applied.
    Batch(Diagnostics),
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
            ApplyFailure::RestartNeeded(changes) => ApiError::new(
                ErrorKind::RestartNeeded,
                format!("this cannot change while the router runs: {}", changes.join("; ")),
                "end the router and start it with the new configuration",
            ),
            ApplyFailure::CannotRun(errors) => ApiError {
                problems: errors.iter().map(api::Problem::from).collect(),
                ..ApiError::new(ErrorKind::CannotRun, "the configuration cannot run here and now", "")
            },
            ApplyFailure::AdoptionTimeout => ApiError::new(
                ErrorKind::Unavailable,
                "a worker has not taken the configuration within 5 s",
                "look at the log of the router; it takes the configuration when it can",
            ),
            ApplyFailure::Unavailable => {
                ApiError::new(ErrorKind::Unavailable, "the router is ending or has failed", "start it anew")
            }
            ApplyFailure::Pending(pending) => ApiError::new(
                ErrorKind::Pending,
                format!(
                    "generation {} waits to be confirmed for another {} s",
                    pending.generation,
                    pending.left_ns.div_ceil(1_000_000_000)
                ),
                "`switchpath confirm` keeps it, `switchpath rollback` leaves it; then apply this one",
            ),
            ApplyFailure::Login(errors) => ApiError {
                problems: errors.iter().map(api::Problem::from).collect(),
                ..ApiError::new(ErrorKind::Login, "the configuration takes the interface of your own login", "")
            },
            ApplyFailure::NothingPending(None) => ApiError::new(
                ErrorKind::NothingPending,
                "nothing waits to be confirmed",
                "`switchpath history` tells why",
            ),
            ApplyFailure::NothingPending(Some(left)) => ApiError::new(
                ErrorKind::NothingPending,
                format!(
                    "nothing waits to be confirmed: generation {left} was left, because nobody confirmed it in time"
                ),
                format!("`switchpath rollback --to {left}` has it run again"),
            ),
            ApplyFailure::NotInHistory(back, kept) => {
                let reason = match back {
                    RollbackTarget::To(generation) => format!("there is no generation {generation} in the history"),
                    RollbackTarget::Steps(1) => "there is nothing to go back to".into(),
                    RollbackTarget::Steps(steps) => format!("there is nothing {steps} steps back"),
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
                format!("somebody else was faster: generation {generation} runs by now"),
                "look at `switchpath history`, and ask again where it is still wanted",
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
