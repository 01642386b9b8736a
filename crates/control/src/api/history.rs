//! The configurations a router has run, who brought them, and the one that waits to be confirmed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How somebody spoke to the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// It was started with it.
    Start,
    /// The control socket.
    Socket,
    /// The remote API.
    Remote,
    /// SIGHUP.
    Signal,
    /// The router itself, because nobody confirmed in time.
    Timer,
}

/// Who changed the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// How.
    pub via: Via,
    /// The user's number, as the kernel tells it of the other end of the socket.
    pub uid: Option<u32>,
    /// The user's name, where the number has one.
    pub user: Option<String>,
    /// The address a remote request came from.
    pub peer: Option<String>,
}

impl Who {
    /// Nobody in particular.
    pub fn by(via: Via) -> Who {
        Who { via, uid: None, user: None, peer: None }
    }
}

impl fmt::Display for Who {
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

/// What became of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryState {
    /// It runs.
    Running,
    /// It runs, and is left again unless somebody confirms it in time.
    Pending,
    /// It ran until another one, or the end of the router.
    Replaced,
    /// It was left by a rollback.
    RolledBack,
    /// It was left because nobody confirmed it.
    Unconfirmed,
}

impl HistoryState {
    /// The name it has in JSON, for people.
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

/// A configuration that ran, without its text: `/v1/config?generation=N` has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Its number.
    pub generation: u64,
    /// When it came, since 1970-01-01 UTC.
    pub time_ns: u64,
    /// Who brought it.
    pub who: Who,
    /// Where it came from: a file name.
    pub name: String,
    /// What became of it.
    pub state: HistoryState,
    /// The generation whose text it has, where it is a return to one.
    pub restores: Option<u64>,
    /// What it changed, one line each, the first hundred of them.
    pub changes: Vec<String>,
    /// How many changes there were.
    pub changes_total: u64,
}

/// The configurations a router has run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The latest last.
    pub entries: Vec<HistoryEntry>,
    /// The directory in which they survive a restart; null where they do not.
    pub directory: Option<String>,
}

/// A configuration that is left again unless somebody confirms it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// Its number.
    pub generation: u64,
    /// The generation whose configuration comes back.
    pub back_to: u64,
    /// How long there is to confirm it.
    pub left_ns: u64,
    /// Who brought it.
    pub who: Who,
}

/// A configuration was confirmed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// Its number.
    pub generation: u64,
}
