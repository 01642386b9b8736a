//! The history of configurations, and the configuration on trial.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a configuration change reached the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// At its start.
    Start,
    /// Over the control socket.
    Socket,
    /// Over the remote API.
    Remote,
    /// By SIGHUP.
    Signal,
    /// By the router itself, when a trial expired.
    Timer,
}

/// The author of a configuration change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Author {
    /// How it reached the router.
    pub via: Via,
    /// The user's number, as the kernel reports it for the other end of the socket.
    pub uid: Option<u32>,
    /// The user's name, if it has one.
    pub user: Option<String>,
    /// The address of a remote caller.
    pub peer: Option<String>,
}

impl Author {
    /// Builds an author without a known user.
    pub const fn by(via: Via) -> Author {
        Author { via, uid: None, user: None, peer: None }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.via, self.uid, &self.peer) {
            (Via::Remote, _, Some(peer)) => write!(f, "remote {peer}"),
            (Via::Remote, ..) => f.write_str("remote"),
            (Via::Timer, ..) => f.write_str("nobody confirmed"),
            (via, Some(uid), _) => {
                match &self.user {
                    Some(user) => write!(f, "{user} ({uid})")?,
                    None => write!(f, "user {uid}")?,
                }
                match via {
                    Via::Start => f.write_str(", at the start"),
                    Via::Signal => f.write_str(", SIGHUP"),
                    _ => Ok(()),
                }
            }
            (Via::Start, None, _) => f.write_str("at the start"),
            (Via::Signal, None, _) => f.write_str("SIGHUP"),
            (Via::Socket, None, _) => f.write_str("somebody"),
        }
    }
}

/// The state of a configuration in the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryState {
    /// It runs.
    Running,
    /// It runs on trial: the router rolls back unless it is confirmed in time.
    Pending,
    /// It ran until another one was applied or the router ended.
    Replaced,
    /// It was left by a rollback.
    RolledBack,
    /// Its trial expired without a confirmation.
    Unconfirmed,
}

impl HistoryState {
    /// Returns its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            HistoryState::Running => "running",
            HistoryState::Pending => "pending",
            HistoryState::Replaced => "replaced",
            HistoryState::RolledBack => "rolled back",
            HistoryState::Unconfirmed => "unconfirmed",
        }
    }
}

/// A configuration of the history, without its text: `/v1/config?generation=N` returns it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Its generation.
    pub generation: u64,
    /// The time of its start, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Its author.
    pub who: Author,
    /// Its origin: a file name.
    pub name: String,
    /// Its state.
    pub state: HistoryState,
    /// The generation whose text was restored; null for a new configuration.
    pub restores: Option<u64>,
    /// Its changes, one line each, at most a hundred.
    pub changes: Vec<String>,
    /// The number of all its changes.
    pub changes_total: u64,
}

/// The history of configurations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The configurations, the latest last.
    pub entries: Vec<HistoryEntry>,
    /// The directory that keeps them across restarts; null without one.
    pub directory: Option<String>,
}

/// A configuration on trial, which is rolled back unless it is confirmed in time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// Its generation.
    pub generation: u64,
    /// The generation that a rollback restores.
    pub back_to: u64,
    /// The remaining time to confirm it.
    pub left_ns: u64,
    /// Its author.
    pub who: Author,
}

/// The result of confirming a configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Its generation.
    pub generation: u64,
}
