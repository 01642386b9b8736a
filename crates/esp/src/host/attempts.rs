//! Rounds that are played again where one has not come to its end, each with tags of its own (spec E-43).

use super::{Round, Schedule};
use units::Nanos;

/// How often a round is played, and when. Nobody tells members how one ended: root and members have the same, and so
/// begin the next at the same time, under the tags of its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempts {
    /// So many at the most, and one at least.
    pub most: u16,
    /// The time from the beginning of one to that of the next; where one takes longer, that.
    pub every: Nanos,
}

impl Attempts {
    /// It is played once.
    pub const ONE: Attempts = Attempts { most: 1, every: Nanos::ZERO };
}

/// The round that is played at present, and how many there are with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    pub round: Round,
    pub schedule: Schedule,
    pub attempts: Attempts,
}

impl Present {
    pub const fn once(round: Round, schedule: Schedule) -> Present {
        Present { round, schedule, attempts: Attempts::ONE }
    }

    /// Goes on to the next one. Answers whether there is one.
    pub fn again(&mut self) -> bool {
        if self.attempts.most <= 1 {
            return false;
        }
        self.attempts.most -= 1;
        (self.round, self.schedule) = (self.round.next(), self.schedule.after(self.attempts.every));
        true
    }
}
