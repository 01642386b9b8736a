//! Results of checking, comparing and applying configurations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The result of checking a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckReply {
    /// True if the text has no errors.
    pub ok: bool,
    /// Errors and warnings in the order of the text.
    pub diagnostics: Vec<DiagnosticReply>,
}

/// An error or a warning in a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticReply {
    /// The file, as it was named in the request.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The key: `port.lan.mtu`.
    pub path: String,
    /// The error.
    pub reason: String,
    /// The remedy.
    pub hint: String,
    /// `error` or `warning`.
    pub severity: String,
}

impl From<&plan::Diagnostic> for DiagnosticReply {
    fn from(d: &plan::Diagnostic) -> DiagnosticReply {
        DiagnosticReply {
            file: d.file.to_string(),
            line: d.line,
            column: d.column,
            path: d.path.clone(),
            reason: d.reason.clone(),
            hint: d.hint.clone(),
            severity: d.severity.to_string(),
        }
    }
}

impl fmt::Display for DiagnosticReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}: {}", self.file, self.line, self.column, self.severity, self.reason)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// The differences between the running configuration and another one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The differences, at most ten thousand; none if both configurations mean the same.
    pub changes: Vec<ChangeReply>,
    /// The number of all differences.
    #[serde(default)]
    pub changes_total: u64,
    /// True if a difference needs a restart of the router, so that `apply` would refuse it.
    pub restart_needed: bool,
    /// Warnings about the new configuration.
    pub warnings: Vec<DiagnosticReply>,
}

/// One difference between two configurations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReply {
    /// One line: `+` for an addition, `-` for a removal, `~` for a change.
    pub text: String,
    /// The changed values.
    #[serde(default)]
    pub values: Vec<ValueChangeReply>,
    /// True if it needs a restart of the router.
    pub restart_needed: bool,
}

/// A configuration key with different values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValueChangeReply {
    /// The key, such as `port.lan.mtu` or `route[10.0.0.0/8]`.
    pub path: String,
    /// The value before; null if there was none.
    pub old: Option<String>,
    /// The value after; null if there is none.
    pub new: Option<String>,
}

/// The result of applying a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The generation that runs now; the same as before if nothing changed.
    pub generation: u64,
    /// The changes, at most ten thousand.
    pub changes: Vec<ChangeReply>,
    /// The number of all changes.
    #[serde(default)]
    pub changes_total: u64,
    /// Warnings about the configuration.
    pub warnings: Vec<DiagnosticReply>,
    /// Further warnings: the history could not be written, or the host's own packets take another way now.
    #[serde(default)]
    pub advisories: Vec<String>,
    /// The trial and its deadline; null if the configuration is not on trial.
    #[serde(default)]
    pub pending: Option<super::Pending>,
    /// The generation whose configuration was restored; null for a new configuration.
    #[serde(default)]
    pub restores: Option<u64>,
}

/// The running configuration, or one of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Its generation.
    pub generation: u64,
    /// Its origin: a file name.
    pub name: String,
    /// Its text as it was given.
    pub text: String,
}

/// The kind of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The address does not exist (404).
    NotFound,
    /// The address does not support this method (405).
    Method,
    /// The caller accepts none of the available formats (406).
    NotAcceptable,
    /// A parameter or the body is invalid (400).
    BadRequest,
    /// The body, the memory to parse it, or the answer exceeds the caller's limit (413).
    TooLarge,
    /// The configuration has errors, which are listed (422).
    Configuration,
    /// The configuration cannot run now because of the listed problems; the previous one keeps running (409).
    CannotRun,
    /// The configuration changes a key that needs a restart of the router (409).
    RestartNeeded,
    /// Another configuration is on trial (409).
    Pending,
    /// No configuration is on trial, or there is none to roll back to (409).
    NothingPending,
    /// The configuration takes the interface that carries the caller's login (409).
    Login,
    /// The caller lacks the necessary rights (403).
    Forbidden,
    /// The token is missing or wrong (401).
    Unauthorized,
    /// The caller's address has sent too many wrong tokens (429).
    TooMany,
    /// Too many requests or captures at the same time (503).
    Busy,
    /// A worker does not answer, or the router is stopping (503).
    Unavailable,
}

impl ErrorKind {
    /// Returns the HTTP status.
    pub const fn status(self) -> u16 {
        match self {
            ErrorKind::BadRequest => 400,
            ErrorKind::NotFound => 404,
            ErrorKind::Method => 405,
            ErrorKind::NotAcceptable => 406,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Forbidden => 403,
            ErrorKind::CannotRun
            | ErrorKind::RestartNeeded
            | ErrorKind::Pending
            | ErrorKind::NothingPending
            | ErrorKind::Login => 409,
            ErrorKind::TooLarge => 413,
            ErrorKind::Configuration => 422,
            ErrorKind::TooMany => 429,
            ErrorKind::Busy | ErrorKind::Unavailable => 503,
        }
    }
}

/// Why a request was refused. The router is unchanged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// The kind of error.
    pub error: ErrorKind,
    /// The error in words.
    pub reason: String,
    /// The remedy.
    pub hint: String,
    /// The errors of the configuration, for `configuration`.
    #[serde(default)]
    pub diagnostics: Vec<DiagnosticReply>,
    /// The problems that keep it from running, for `cannot_run`.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// A part of a configuration that cannot run now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The part: `port lan`.
    pub place: String,
    /// The problem.
    pub reason: String,
    /// The remedy.
    pub hint: String,
}

impl ApiError {
    /// Builds an error without lists.
    pub fn new(error: ErrorKind, reason: impl Into<String>, hint: impl Into<String>) -> ApiError {
        let (reason, hint) = (reason.into(), hint.into());
        ApiError { error, reason, hint, diagnostics: Vec::new(), problems: Vec::new() }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        self.diagnostics.iter().try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))?;
        self.problems.iter().try_for_each(|p| write!(f, "\n{}: {}; {}", p.place, p.reason, p.hint))
    }
}

impl std::error::Error for ApiError {}

impl From<&plane::ApplyError> for Problem {
    fn from(e: &plane::ApplyError) -> Problem {
        Problem { place: e.place.clone(), reason: e.reason.clone(), hint: e.hint.clone() }
    }
}

impl From<&plan::Change> for ChangeReply {
    fn from(change: &plan::Change) -> ChangeReply {
        let value = |plan::ValueChange { path, old, new }| ValueChangeReply { path, old, new };
        let values = change.values().into_iter().map(value).collect();
        ChangeReply { text: change.to_string(), values, restart_needed: change.restart_needed() }
    }
}

/// The result of a batch of routes and neighbours.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Edited {
    /// Routes added, or given other next hops.
    pub routes_added: u64,
    /// Routes removed.
    pub routes_removed: u64,
    /// Added routes that are inactive because the configuration has a route to the same destination.
    pub routes_shadowed: u64,
    /// Neighbours added or changed.
    pub neighbours_added: u64,
    /// Neighbours removed.
    pub neighbours_removed: u64,
}

/// The progress of the present batch of routes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Editing {
    /// Routes added or removed so far.
    pub routes_done: u64,
    /// Routes to add or remove; 0 if no batch is in progress.
    pub routes_total: u64,
}
