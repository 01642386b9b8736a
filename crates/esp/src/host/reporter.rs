//! A member of a group: registers, then reports its value.

use super::attempts::CurrentRound;
use super::{Action, Attempts, ComputationRound, Schedule};
use units::Instant;

/// A member in one round, or in repeated rounds.
#[derive(Clone, Debug)]
pub struct Reporter {
    current: CurrentRound,
    child: u64,
    value: u64,
    /// False in the setup phase, true once it reports.
    reports: bool,
    /// The time of its next transmission.
    next: Instant,
}

impl Reporter {
    /// A member that reports `value`. Its router knows it as `child`, a random number.
    pub fn new(round: ComputationRound, schedule: Schedule, child: u64, value: u64) -> Reporter {
        Reporter { current: CurrentRound::single(round, schedule), child, value, reports: false, next: schedule.start }
    }

    /// Repeats the round so often. It takes part in all attempts; a program that learns of a complete round may stop earlier.
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> Reporter {
        Reporter { current: CurrentRound { attempts, ..self.current }, ..self }
    }

    /// The next action at `now`.
    ///
    /// Retransmits as often as time permits: there is no acknowledgement, and routers count each member once.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        while now >= self.current.schedule.end {
            if !self.current.advance() {
                return Action::Over(());
            }
            (self.reports, self.next) = (false, self.current.schedule.start);
        }
        let Schedule { collect, end, retry, .. } = self.current.schedule;
        if now >= collect && !self.reports {
            (self.reports, self.next) = (true, collect);
        }
        if now < self.next {
            return Action::Wait(self.next.min(if self.reports { end } else { collect }));
        }
        self.next = now + retry;
        Action::Send(if self.reports {
            self.current.round.report(self.child, self.value)
        } else {
            self.current.round.registration(self.child)
        })
    }
}
