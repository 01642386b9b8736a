//! Stride scheduling (Waldspurger and Weihl, "Stride Scheduling: Deterministic Proportional-Share Resource Management",
//! MIT/LCS/TM-528, 1995, figures 3 and 4).
//!
//! Each task has a pass. A run of l advances it by l/r: its stride, scaled by the part of a quantum that it used. The task with the lowest pass runs
//! (ties: the lowest id). The global pass advances by l/R, where R is the sum of the shares of the runnable tasks. A task that becomes idle remembers
//! its lead over the global pass, and starts with that lead when it wakes.
//!
//! In the paper a task also remembers its lag. Here the lag is divided among the remaining tasks, because idle tasks save no credit. When no task is
//! runnable, leads are forgotten: a new busy period begins.

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual, weight};
use crate::SchedulerRegistration;
use plan::Lag;
use units::{Heap, Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "stride",
    summary: "stride scheduling: each task comes on at its own stride",
    source: "Waldspurger, Weihl 1995",
    lag: Lag::RunOfEach,
    make: || Box::new(Stride::new()),
};

/// Stride scheduling. O(log n).
pub type Stride = super::ShareScheduler<StrideTasks>;

/// Tasks by their passes.
#[derive(Debug, Default)]
pub struct StrideTasks {
    tasks: Vec<Task>,
    waiting: Heap,
    /// The global pass.
    clock: Clock,
    runnable: usize,
    /// The number of times that no task was runnable.
    period: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// The pass of a waiting or running task. For an idle task: its lead over the global pass in `period`.
    pass: Virtual,
    period: u64,
    slope: Slope,
    weight: u64,
}

impl StrideTasks {
    fn leave(&mut self, task: usize) {
        let Task { pass, weight, period, .. } = &mut self.tasks[task];
        // The lead is read before `leave` below, which may advance the global pass by the lag of the task.
        let ahead = pass.saturating_sub(self.clock.now());
        self.clock.leave(*weight, *pass);
        (*pass, *period) = (ahead, self.period);
        self.runnable -= 1;
        // A new period voids all leads without a pass over the idle tasks.
        if self.runnable == 0 {
            self.period += 1;
        }
    }

    fn set_back(&mut self) {
        let waiting: Vec<_> = self.waiting.drain().collect();
        // Only waiting tasks: an idle one holds a lead, which is a distance, and none runs during a charge.
        for (pass, task) in waiting {
            self.tasks[task].pass = pass.saturating_sub(EPOCH);
            self.waiting.insert(self.tasks[task].pass, task);
        }
        self.clock.set_back();
    }
}

impl TaskOrder for StrideTasks {
    fn add(&mut self, task: usize, share: Share, doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.waiting.grow(self.tasks.len());
        self.tasks[task] = Task { pass: 0, period: self.period, slope: Slope::of(share), weight: weight(share) };
        if doing == SchedulingState::Running {
            self.tasks[task].pass = self.clock.now();
            self.clock.add(weight(share));
            self.runnable += 1;
        }
    }

    fn remove(&mut self, task: usize, doing: SchedulingState) {
        self.waiting.remove(task);
        if doing != SchedulingState::Idle {
            self.leave(task);
        }
    }

    fn share(&mut self, task: usize, share: Share, doing: SchedulingState) {
        let Task { slope, weight: old, .. } = &mut self.tasks[task];
        if doing != SchedulingState::Idle {
            self.clock.remove(*old);
            self.clock.add(weight(share));
        }
        (*slope, *old) = (Slope::of(share), weight(share));
    }

    #[inline]
    fn wake(&mut self, task: usize, _expected: Nanos) {
        let Task { pass, period, weight, .. } = &mut self.tasks[task];
        // The `pass` of an idle task is its lead, which is void once a busy period has ended.
        let ahead = if *period == self.period { *pass } else { 0 };
        *pass = self.clock.now() + ahead;
        self.waiting.insert(*pass, task);
        self.clock.add(*weight);
        self.runnable += 1;
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.waiting.pop().map(|(_, task)| task)
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        self.clock.advance(used);
        let Task { pass, slope, .. } = &mut self.tasks[task];
        *pass += slope.span(used);
        match next {
            Some(_) => self.waiting.insert(*pass, task),
            None => self.leave(task),
        }
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }
}
