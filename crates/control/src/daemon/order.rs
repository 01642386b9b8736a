//! What a router is asked to do with its configuration: apply one, keep it on trial, or go back to an earlier one.

use crate::api::{self, HistoryState, Via, Who};
use io::login::Login;
use units::{Instant, Nanos};

/// A configuration to apply, and under which conditions.
#[derive(Clone, Debug)]
pub struct Order {
    /// Its text.
    pub text: String,
    /// Where it came from: a file name.
    pub name: String,
    /// Who brings it.
    pub who: Who,
    /// It is left again unless confirmed within this time.
    pub confirm: Option<Nanos>,
    /// Logins of whoever brings it: interfaces that carry them are not taken.
    pub logins: Vec<Login>,
    /// Take them all the same.
    pub force: bool,
    /// The generation whose text it is, where it is a return to one.
    pub restores: Option<u64>,
}

impl Order {
    /// To apply `text`, which came from `name`, for good and by nobody in particular.
    pub fn new(text: &str, name: &str) -> Order {
        Order {
            text: text.into(),
            name: name.into(),
            who: Who::by(Via::Socket),
            confirm: None,
            logins: Vec::new(),
            force: false,
            restores: None,
        }
    }
}

/// What a configuration is applied for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// It is new.
    Apply,
    /// It ran before; what runs now is left.
    Return {
        /// What runs, as whoever decided knew it.
        running: u64,
        /// What is said of that later.
        left_as: HistoryState,
    },
}

/// A configuration that is to be confirmed.
#[derive(Clone, Debug)]
pub(super) struct Unconfirmed {
    /// Its number.
    pub generation: u64,
    /// What ran before it.
    pub back_to: u64,
    /// When it is left.
    pub deadline: Instant,
    /// Who brought it.
    pub who: Who,
    /// Why it could not be left when it should have been.
    pub stuck: Option<String>,
}

impl Unconfirmed {
    pub fn told(&self, now: Instant) -> api::Pending {
        api::Pending {
            generation: self.generation,
            back_to: self.back_to,
            left_ns: self.deadline.since(now).get(),
            who: self.who.clone(),
        }
    }
}

/// How far to go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Back {
    /// So many configurations.
    Steps(u64),
    /// To the configuration of this generation.
    To(u64),
}
