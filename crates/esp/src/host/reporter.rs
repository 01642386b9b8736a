//! A member of a group that is asked for a value: makes itself known, then reports.

use super::{Action, Round, Schedule};
use units::Instant;

/// A member in one round.
#[derive(Clone, Debug)]
pub struct Reporter {
    round: Round,
    schedule: Schedule,
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
        Reporter { round, schedule, child, value, reports: false, next: schedule.start }
    }

    /// What to do at `now`.
    ///
    /// Everything is sent as often as there is time: nobody answers, and routers count each member once.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        let Schedule { collect, end, retry, .. } = self.schedule;
        if now >= end {
            return Action::Over(());
        }
        if now >= collect && !self.reports {
            (self.reports, self.next) = (true, collect);
        }
        if now < self.next {
            return Action::Wait(self.next.min(if self.reports { end } else { collect }));
        }
        self.next = now + retry;
        Action::Send(if self.reports {
            self.round.report(self.child, self.value)
        } else {
            self.round.known(self.child)
        })
    }
}
