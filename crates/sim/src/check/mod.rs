//! Checkers: laws that hold in every world. They are on in every run, and what breaks one is an error of the run, with
//! its time and the names of what is concerned.

mod order;
mod rate;

pub(crate) use order::Order;
pub(crate) use rate::RateBound;

use std::fmt;
use units::Instant;

/// A law of the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Law {
    /// Every packet is delivered, dropped with a reason, lost on a link or before a card, or somewhere.
    Conservation,
    /// No packet overtakes another of its flow.
    Order,
    /// No link carries more than its rate.
    RateBound,
    /// No core is idle while one of its tasks could run, where the configuration promises so.
    WorkConservation,
    /// No path that always has something to do falls behind its share by more than a bound.
    Fairness,
    /// Time goes on.
    Progress,
}

impl Law {
    /// As messages call it.
    pub const fn name(self) -> &'static str {
        match self {
            Law::Conservation => "conservation",
            Law::Order => "order",
            Law::RateBound => "rate bound",
            Law::WorkConservation => "work conservation",
            Law::Fairness => "fairness",
            Law::Progress => "progress",
        }
    }
}

/// A law was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub time: Instant,
    /// Which.
    pub law: Law,
    /// By what and how.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.get() as f64 / 1e9;
        write!(f, "{} is broken at {seconds:.9} s: {}", self.law.name(), self.what)
    }
}

/// The first violations of a run; others are counted.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub list: Vec<Violation>,
    pub more: u64,
}

/// Violations that are kept.
const KEPT: usize = 16;

impl Violations {
    #[cold]
    pub fn add(&mut self, time: u64, law: Law, what: impl FnOnce() -> String) {
        if self.list.len() < KEPT {
            self.list.push(Violation { time: Instant::new(time), law, what: what() });
        } else {
            self.more += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
