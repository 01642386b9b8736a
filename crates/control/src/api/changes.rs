//! Configurations going in, and what is said of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What was found in a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Whether it could be applied as far as its text goes.
    pub ok: bool,
    /// Errors and warnings in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
}

/// One thing that is wrong with a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// The file, as it was named in the request.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The key: `port.lan.mtu`.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: String,
    /// `error` or `warning`.
    pub severity: String,
}

impl From<&plan::Diagnostic> for Diagnostic {
    fn from(d: &plan::Diagnostic) -> Diagnostic {
        Diagnostic {
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

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}: {}", self.file, self.line, self.column, self.severity, self.reason)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// The steps from the configuration that runs to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The steps, the first ten thousand of them; none where the two mean the same.
    pub changes: Vec<Change>,
    /// How many steps there are.
    #[serde(default)]
    pub changes_total: u64,
    /// Whether a step needs the router to be started anew, so that `apply` would refuse.
    pub restart_needed: bool,
    /// Warnings about the new configuration.
    pub warnings: Vec<Diagnostic>,
}

/// One step from a configuration to another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// One line: `+` what is new, `-` what is gone, `~` what is different.
    pub text: String,
    /// The same as values.
    #[serde(default)]
    pub values: Vec<ValueChange>,
    /// Whether the router must be started anew for it.
    pub restart_needed: bool,
}

/// A key of the configuration whose value differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ValueChange {
    /// The key, like `port.lan.mtu` or `route[10.0.0.0/8]`.
    pub path: String,
    /// The value before; null where there was none.
    pub old: Option<String>,
    /// The value after; null where there is none.
    pub new: Option<String>,
}

/// A configuration was applied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The number of the configuration that runs now; as before where nothing changed.
    pub generation: u64,
    /// What changed, the first ten thousand steps.
    pub changes: Vec<Change>,
    /// How many steps there were.
    #[serde(default)]
    pub changes_total: u64,
    /// Warnings about the configuration.
    pub warnings: Vec<Diagnostic>,
    /// What else there is to know: that the history could not be written, or where the host's own packets go now.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Until when it is to be confirmed; null where it is there to stay.
    #[serde(default)]
    pub pending: Option<super::Pending>,
    /// The generation whose configuration it has, where it is a return to one.
    #[serde(default)]
    pub restores: Option<u64>,
}

/// The configuration that runs, or one of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Its number.
    pub generation: u64,
    /// Where it came from: a file name.
    pub name: String,
    /// Its text as it was given.
    pub text: String,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// There is nothing at this address (404).
    NotFound,
    /// The address exists, but not for this method (405).
    Method,
    /// The answer comes in none of the forms the caller accepts (406).
    NotAcceptable,
    /// A parameter or the body cannot be understood (400).
    BadRequest,
    /// The body, what reading it needs, or the answer is larger than the caller may have (413).
    TooLarge,
    /// The configuration has errors, which are listed (422).
    Configuration,
    /// The configuration cannot run here and now, for the problems listed; the one before it runs on (409).
    CannotRun,
    /// The configuration changes what cannot change while the router runs (409).
    RestartNeeded,
    /// Another configuration waits to be confirmed (409).
    Pending,
    /// Nothing waits to be confirmed, or there is nothing to go back to (409).
    NothingPending,
    /// The configuration takes the interface that the login of whoever asks comes in by (409).
    Login,
    /// The caller is not allowed to ask this (403).
    Forbidden,
    /// The token is missing or wrong (401).
    Unauthorized,
    /// Too many wrong tokens came from the caller's address (429).
    TooMany,
    /// Too many requests or captures at once (503).
    Busy,
    /// A worker does not answer, or the router is ending (503).
    Unavailable,
}

impl ErrorKind {
    /// Its HTTP status.
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

/// Why a request was refused. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// The kind of refusal.
    pub error: ErrorKind,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: String,
    /// What is wrong with the configuration, for `configuration`.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// What keeps it from running, for `cannot_run`.
    #[serde(default)]
    pub problems: Vec<Problem>,
}

/// Something of a configuration that cannot run here and now.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What of it: `port lan`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

impl ApiError {
    /// A refusal with nothing listed.
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

impl From<&plan::Change> for Change {
    fn from(change: &plan::Change) -> Change {
        let value = |plan::ValueChange { path, old, new }| ValueChange { path, old, new };
        let values = change.values().into_iter().map(value).collect();
        Change { text: change.to_string(), values, restart_needed: change.restart_needed() }
    }
}

/// A batch of routes and neighbours was made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Edited {
    /// Routes set: new ones, and ones that led elsewhere.
    pub routes_added: u64,
    /// Routes taken away.
    pub routes_removed: u64,
    /// Of the routes set, those to a destination that the configuration has a route to: that one is used.
    pub routes_shadowed: u64,
    /// Neighbours set.
    pub neighbours_added: u64,
    /// Neighbours taken away.
    pub neighbours_removed: u64,
}

/// How far a batch is that is being made.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Editing {
    /// Routes set or taken away so far.
    pub routes_done: u64,
    /// Routes to set or take away; 0 where no batch is being made.
    pub routes_total: u64,
}
