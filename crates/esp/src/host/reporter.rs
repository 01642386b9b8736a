//! A member of a group: registers, then reports its value.

use super::attempts::Present;
use super::{Action, Attempts, Round, Schedule};
use units::Instant;

/// A member in one round, or in repeated rounds.
#[derive(Clone, Debug)]
pub struct Reporter {
    present: Present,
    child: u64,
    value: u64,
    /// False in the setup phase, true once it reports.
    reports: bool,
    /// The time of its next transmission.
    next: Instant,
}

impl Reporter {
    /// A member that reports `value`. Its router knows it as `child`, a random number.
    pub fn new(round: Round, schedule: Schedule, child: u64, value: u64) -> Reporter {
        Reporter { present: Present::once(round, schedule), child, value, reports: false, next: schedule.start }
    }

    /// Repeats the round so often. It takes part in all attempts; a program that learns of a complete round may stop earlier.
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> Reporter {
        Reporter { present: Present { attempts, ..self.present }, ..self }
    }

    /// The next action at `now`.
    ///
    /// Retransmits as often as time permits: there is no acknowledgement, and routers count each member once.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        while now >= self.present.schedule.end {
            if !self.present.again() {
                return Action::Over(());
            }
            (self.reports, self.next) = (false, self.present.schedule.start);
        }
        let Schedule { collect, end, retry, .. } = self.present.schedule;
        if now >= collect && !self.reports {
            (self.reports, self.next) = (true, collect);
        }
        if now < self.next {
            return Action::Wait(self.next.min(if self.reports { end } else { collect }));
        }
        self.next = now + retry;
        Action::Send(if self.reports {
            self.present.round.report(self.child, self.value)
        } else {
            self.present.round.known(self.child)
        })
    }
}
