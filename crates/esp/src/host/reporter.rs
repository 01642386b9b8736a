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
    /// When it sends next.
    next: Instant,
}

impl Reporter {
    /// A member that its router knows as `child`, a number drawn at random, and that has `value` to report.
    pub fn new(round: Round, schedule: Schedule, child: u64, value: u64) -> Reporter {
        Reporter { round, schedule, child, value, next: schedule.start }
    }

    /// What to do at `now`.
    ///
    /// Everything is sent as often as there is time: nobody answers, and routers count each member once.
    pub fn poll(&mut self, now: Instant) -> Action<()> {
        let Schedule { start, collect, end, retry } = self.schedule;
        if now >= end {
            return Action::Over(());
        }
        let reports = now >= collect;
        if reports && self.next < collect || now < start {
            self.next = if reports { collect } else { start };
        }
        if now < self.next {
            return Action::Wait(self.next.min(if reports { end } else { collect }));
        }
        self.next = now + retry;
        Action::Send(if reports { self.round.report(self.child, self.value) } else { self.round.known(self.child) })
    }
}
