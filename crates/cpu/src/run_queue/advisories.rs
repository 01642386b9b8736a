//! Warnings of the run queue for the operator. A warning is reported once when its condition begins, and again only after the condition was absent
//! for a while. The number of warnings in a period is bounded.

use super::RunQueue;
use super::task_entry::{SinceCheck, TaskEntry};
use crate::CostVerdict;
use crate::task::TaskKind;
use packet::Advisory;
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
pub(super) struct AdvisoryLimiter {
    checks: u8,
    reported: u32,
}

impl RunQueue {
    /// Sets the time in which the queues of a task fill at its guaranteed rate; none without a guarantee.
    pub fn set_fill_time(&mut self, task: TaskId, time: Option<Nanos>) {
        self.states.entries[task.index()].since_check.fill_time = time;
    }

    /// Checks every task, once a second, and reports warnings to `tell`.
    pub fn report_advisories(&mut self, mut tell: impl FnMut(TaskId, Advisory)) {
        self.patience.checks += 1;
        if self.patience.checks == CALM {
            self.patience = AdvisoryLimiter::default();
        }
        for index in 0..self.states.entries.len() {
            let throttled = self.limits.rules[self.states.entries[index].kind as usize].overhead.is_some();
            let entry = &mut self.states.entries[index];
            if !entry.live {
                continue;
            }
            let found = entry.current_advisories(throttled, self.limits.budget);
            for (kind, remark) in found.into_iter().enumerate() {
                let told = &mut entry.since_check.silent_checks[kind];
                match remark {
                    None => *told = told.saturating_sub(1),
                    // The condition still holds: it must again be absent for `CALM` checks.
                    Some(_) if *told > 0 => *told = CALM,
                    Some(_) if self.patience.reported == MOST => {}
                    Some(remark) => {
                        debug_assert_eq!(remark.kind(), kind);
                        (*told, self.patience.reported) = (CALM, self.patience.reported + 1);
                        tell(TaskId::at(index), remark);
                    }
                }
            }
            // Runs and timeouts are counted from here on. The lag is a maximum, so it begins at zero.
            let lag = Nanos::ZERO;
            let (runs, timeouts, weighed) = (entry.account.runs, entry.account.timeouts, entry.account.weighed);
            entry.since_check = SinceCheck { runs, timeouts, lag, weighed, ..entry.since_check };
        }
    }
}

impl TaskEntry {
    /// The warnings that hold for the task, by kind.
    fn current_advisories(&self, throttled: bool, budget: Option<Nanos>) -> [Option<Advisory>; Advisory::KINDS] {
        let (runs, timeouts) =
            (self.account.runs - self.since_check.runs, self.account.timeouts - self.since_check.timeouts);
        let waits = throttled && self.kind == TaskKind::Forwarding && !self.terms.prompt;
        let (batch, capacity) = (self.threshold, self.terms.capacity);
        let lag = self.since_check.lag;
        let sleep = self.estimator.as_ref().map(|estimator| estimator.sleep_max());
        let lasts = self.since_check.fill_time;
        let declared = self.cost.declared().filter(|_| self.cost.verdict() == CostVerdict::Exceeds);
        let (came, over) =
            (self.account.weighed.0 - self.since_check.weighed.0, self.account.weighed.1 - self.since_check.weighed.1);
        [
            // Nearly all runs are started by the timer: the batch never fills.
            (waits && runs >= RUNS && timeouts * 16 >= runs * 15).then_some(Advisory::TimeoutsOnly { runs, batch }),
            // A batch of more than half the queue leaves little room for bursts.
            (waits && batch > 1 && u64::from(batch) * 2 > u64::from(capacity))
                .then_some(Advisory::NearCapacity { batch, capacity }),
            declared.map(|declared| Advisory::OverCost { cost: self.mean_cost(), declared }),
            sleep
                .zip(lasts)
                .filter(|(sleep, lasts)| sleep > lasts)
                .map(|(sleep, lasts)| Advisory::SleepsTooLong { sleep, lasts }),
            lasts
                // A task that waits longer than its queue takes to fill drops packets, although they arrive at no more than the guaranteed rate.
                .filter(|&lasts| self.kind == TaskKind::Forwarding && lag > lasts)
                .map(|lasts| Advisory::Lags { lag, lasts }),
            budget.filter(|_| over * MANY > came).map(|budget| Advisory::OverBudget {
                packets: over,
                of: came,
                budget,
            }),
            // `Advisory::Late` is about a path, not a task.
            None,
        ]
    }
}
