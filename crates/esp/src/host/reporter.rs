//! A member of a group that is asked for a value: makes itself known, then reports.

use super::attempts::Present;
use super::{Action, Attempts, Round, Schedule};
use units::Instant;

/// A member in one round, or in several one after the other.
#[derive(Clone, Debug)]
pub struct Reporter {
    present: Present,
    child: u64,
    value: u64,
    /// Whether it is known by now, and reports.
    reports: bool,
    /// When it sends next.
    next: Instant,
}

impl Reporter {
    /// A member that its router knows as `child`, a number drawn at random, and that has `value` to report.
    pub fn new(round: Round, schedule: Schedule, child: u64, value: u64) -> Reporter {
        Reporter { present: Present::once(round, schedule), child, value, reports: false, next: schedule.start }
    }

    /// The same in so many rounds, of which this is the first. It plays all of them: whoever hears that one was
    /// complete may end it before.
    #[must_use]
    pub fn repeated(self, attempts: Attempts) -> Reporter {
        Reporter { present: Present { attempts, ..self.present }, ..self }
    }

    /// What to do at `now`.
    ///
    /// Everything is sent as often as there is time: nobody answers, and routers count each member once.
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
