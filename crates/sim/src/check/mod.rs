//! Checkers: laws that hold in every world. They are on in every run. A violation is an error of the run; it has its time and the names of the flow,
//! link or core.

mod order;
mod rate;

pub(crate) use order::Order;
pub(crate) use rate::RateBound;

use std::fmt;
use units::Instant;

/// A law of the world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WorldInvariant {
    /// Every packet is delivered, dropped with a reason, lost on a link or in front of a card, or still in the world.
    Conservation,
    /// No packet overtakes another of its flow.
    Order,
    /// No link carries more than its rate allows.
    RateBound,
    /// No core is idle while one of its tasks could run, if the configuration promises so.
    WorkConservation,
    /// No path that is always backlogged falls behind its share by more than a bound.
    Fairness,
    /// Virtual time advances.
    Progress,
}

impl WorldInvariant {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            WorldInvariant::Conservation => "conservation",
            WorldInvariant::Order => "order",
            WorldInvariant::RateBound => "rate bound",
            WorldInvariant::WorkConservation => "work conservation",
            WorldInvariant::Fairness => "fairness",
            WorldInvariant::Progress => "progress",
        }
    }
}

/// A law was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The time.
    pub time: Instant,
    /// The law.
    pub invariant: WorldInvariant,
    /// The object concerned, and how the law was broken.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.get() as f64 / 1e9;
        write!(f, "{} is broken at {seconds:.9} s: {}", self.invariant.name(), self.detail)
    }
}

/// The first violations of a run; the others are only counted.
#[derive(Debug, Default)]
pub(crate) struct Violations {
    pub list: Vec<Violation>,
    pub omitted: u64,
}

/// The number of violations with their details.
const MAX_LISTED: usize = 16;

impl Violations {
    #[cold]
    pub fn add(&mut self, time: u64, law: WorldInvariant, what: impl FnOnce() -> String) {
        if self.list.len() < MAX_LISTED {
            self.list.push(Violation { time: Instant::new(time), invariant: law, detail: what() });
        } else {
            self.omitted += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
