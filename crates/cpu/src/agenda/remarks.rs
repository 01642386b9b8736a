//! Warnings of the run queue for the operator. A warning is reported once when its condition begins, and again only after the condition was absent
//! for a while. The number of warnings in a period is bounded.

use super::Agenda;
use super::entry::{Entry, Lately};
use crate::Verdict;
use crate::task::Kind;
use packet::Remark;
use units::{Nanos, TaskId};

/// The number of checks without the condition before a warning is reported again.
const CALM: u8 = 60;
/// The most warnings in `CALM` checks. Further ones are reported later if they still hold.
const MOST: u32 = 8;
/// The least number of runs in a period for a warning about timeouts.
const RUNS: u64 = 16;
/// One packet in so many may exceed the budget without a warning: the clock was read at a bad moment, or the cache was cold.
const MANY: u64 = 20;

/// Checks and warnings of the current period.
#[derive(Clone, Copy, Default)]
pub(super) struct Patience {
    looks: u8,
    made: u32,
}

impl Agenda {
    /// Sets the time in which the queues of a task fill at its guaranteed rate; none without a guarantee.
    pub fn lasts(&mut self, task: TaskId, time: Option<Nanos>) {
        self.states.entries[task.index()].lately.lasts = time;
    }

    /// Checks every task, once a second, and reports warnings to `tell`.
    pub fn remark(&mut self, mut tell: impl FnMut(TaskId, Remark)) {
        self.patience.looks += 1;
        if self.patience.looks == CALM {
            self.patience = Patience::default();
        }
        for index in 0..self.states.entries.len() {
            let throttled = self.limits.rules[self.states.entries[index].kind as usize].overhead.is_some();
            let entry = &mut self.states.entries[index];
            if !entry.live {
                continue;
            }
            let found = entry.findings(throttled, self.limits.budget);
            for (kind, remark) in found.into_iter().enumerate() {
                let told = &mut entry.lately.told[kind];
                match remark {
                    None => *told = told.saturating_sub(1),
                    Some(_) if *told > 0 => *told = CALM,
                    Some(_) if self.patience.made == MOST => {}
                    Some(remark) => {
                        debug_assert_eq!(remark.kind(), kind);
                        (*told, self.patience.made) = (CALM, self.patience.made + 1);
                        tell(TaskId::at(index), remark);
                    }
                }
            }
            let lag = Nanos::ZERO;
            let (runs, timeouts, weighed) = (entry.account.runs, entry.account.timeouts, entry.account.weighed);
            entry.lately = Lately { runs, timeouts, lag, weighed, ..entry.lately };
        }
    }
}

impl Entry {
    /// The warnings that hold for the task, by kind.
    fn findings(&self, throttled: bool, budget: Option<Nanos>) -> [Option<Remark>; Remark::KINDS] {
        let (runs, timeouts) = (self.account.runs - self.lately.runs, self.account.timeouts - self.lately.timeouts);
        let waits = throttled && self.kind == Kind::Forwarding && !self.terms.prompt;
        let (batch, capacity) = (self.threshold, self.terms.capacity);
        let lag = self.lately.lag;
        let sleep = self.estimator.as_ref().map(|estimator| estimator.sleep_max());
        let lasts = self.lately.lasts;
        let declared = self.cost.declared().filter(|_| self.cost.verdict() == Verdict::Exceeds);
        let (came, over) =
            (self.account.weighed.0 - self.lately.weighed.0, self.account.weighed.1 - self.lately.weighed.1);
        [
            // Nearly all runs are started by the timer: the batch never fills.
            (waits && runs >= RUNS && timeouts * 16 >= runs * 15).then_some(Remark::TimeoutsOnly { runs, batch }),
            // A batch of more than half the queue leaves little room for bursts.
            (waits && batch > 1 && u64::from(batch) * 2 > u64::from(capacity))
                .then_some(Remark::NearCapacity { batch, capacity }),
            declared.map(|declared| Remark::OverCost { cost: self.each(), declared }),
            sleep
                .zip(lasts)
                .filter(|(sleep, lasts)| sleep > lasts)
                .map(|(sleep, lasts)| Remark::SleepsTooLong { sleep, lasts }),
            lasts
                .filter(|&lasts| self.kind == Kind::Forwarding && lag > lasts)
                .map(|lasts| Remark::Lags { lag, lasts }),
            budget.filter(|_| over * MANY > came).map(|budget| Remark::OverBudget { packets: over, of: came, budget }),
            None,
        ]
    }
}
