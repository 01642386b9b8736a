//! Repeated rounds: after an incomplete round another one starts, with tags of its own (spec E-43).

use super::{ComputationRound, Schedule};
use units::Nanos;

/// The number and the timing of attempts. Members do not learn how a round ended. Root and members have the same `Attempts`, so they start the next
/// round at the same time and derive the same tags from its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempts {
    /// The most attempts, at least one.
    pub most: u16,
    /// The time from the start of one attempt to the start of the next. A round that takes longer delays the next until its end.
    pub every: Nanos,
}

impl Attempts {
    /// A single attempt.
    pub const ONE: Attempts = Attempts { most: 1, every: Nanos::ZERO };
}

/// The present round, and the attempts left including it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentRound {
    pub round: ComputationRound,
    pub schedule: Schedule,
    pub attempts: Attempts,
}

impl CurrentRound {
    pub const fn single(round: ComputationRound, schedule: Schedule) -> CurrentRound {
        CurrentRound { round, schedule, attempts: Attempts::ONE }
    }

    /// Moves on to the next attempt. Returns false if there is none.
    pub fn advance(&mut self) -> bool {
        if self.attempts.most <= 1 {
            return false;
        }
        self.attempts.most -= 1;
        (self.round, self.schedule) = (self.round.next(), self.schedule.after(self.attempts.every));
        true
    }
}
