//! Orders for the configuration of a router: apply one, try one, or return to an earlier one.

use crate::api::{self, Author, HistoryState, Via};
use io::login::Login;
use units::{Instant, Nanos};

/// A configuration to apply, and its conditions.
#[derive(Clone, Debug)]
pub struct ApplyRequest {
    /// Its text.
    pub text: String,
    /// Its origin: a file name.
    pub name: String,
    /// Its author.
    pub author: Author,
    /// Roll back unless it is confirmed within this time.
    pub confirm: Option<Nanos>,
    /// Logins of its author: interfaces that carry them are refused.
    pub logins: Vec<Login>,
    /// Take these interfaces anyway.
    pub force: bool,
    /// The generation whose text is restored, if it is a return.
    pub restores: Option<u64>,
}

impl ApplyRequest {
    /// Builds an order to apply `text`, which came from `name`, without a trial and without a known author.
    pub fn new(text: &str, name: &str) -> ApplyRequest {
        ApplyRequest {
            text: text.into(),
            name: name.into(),
            author: Author::by(Via::Socket),
            confirm: None,
            logins: Vec::new(),
            force: false,
            restores: None,
        }
    }
}

/// The purpose of an apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ApplyPurpose {
    /// A new configuration.
    Apply,
    /// A return to an earlier configuration.
    Return {
        /// The running generation at the time of the decision.
        running: u64,
        /// The state that the history records for it.
        left_as: HistoryState,
    },
}

/// A configuration on trial.
#[derive(Clone, Debug)]
pub(super) struct PendingConfirmation {
    /// Its number.
    pub generation: u64,
    /// The generation before it.
    pub back_to: u64,
    /// When it is rolled back.
    pub deadline: Instant,
    /// Its author.
    pub author: Author,
    /// Why a due rollback has failed.
    pub failure: Option<String>,
}

impl PendingConfirmation {
    pub fn to_reply(&self, now: Instant) -> api::Pending {
        api::Pending {
            generation: self.generation,
            back_to: self.back_to,
            left_ns: self.deadline.since(now).get(),
            who: self.author.clone(),
        }
    }
}

/// How far to roll back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RollbackTarget {
    /// By this many configurations.
    Steps(u64),
    /// To the configuration of this generation.
    To(u64),
}
