//! Start-time fair queueing (Goyal, Vin and Cheng, "Start-time Fair Queueing: A Scheduling Algorithm for Integrated
//! Services Packet Switching Networks", SIGCOMM 1996, section 2).
//!
//! A task that wakes gets the start tag S = max(V, F), where F is the finish tag of its last run. The task with the lowest start tag runs (ties: the
//! lowest id), and V is its start tag meanwhile. After a run of l: F = S + l/r, which is the next start tag of a task with more work. If no task is
//! left, V becomes the highest finish tag so far: a new busy period begins without debts.
//!
//! The length of a run need not be known in advance. The work of a task lags behind its share by at most two terms (theorem 4): the sum of the
//! longest runs of all other tasks, times its share, and one run of its own. With many tasks this is a much weaker bound than that of WF2Q+, and
//! tasks with small shares run earlier than necessary.

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual};
use crate::SchedulerRegistration;
use plan::Lag;
use units::{Heap, Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "sfq",
    summary: "start-time fair queueing: the task that is furthest behind its share runs",
    source: "Goyal, Vin, Cheng 1996",
    lag: Lag::RunOfEach,
    make: || Box::new(Sfq::new()),
};

/// Start-time fair queueing. O(log n).
pub type Sfq = super::ShareScheduler<SfqTasks>;

/// Tasks by their start tags.
#[derive(Debug, Default)]
pub struct SfqTasks {
    tasks: Vec<Task>,
    waiting: Heap,
    /// V; only [`Clock::reach`] moves it.
    clock: Clock,
    /// The highest finish tag.
    latest: Virtual,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// S of a waiting or running task, F of an idle one.
    start: Virtual,
    slope: Slope,
}

impl SfqTasks {
    fn set_back(&mut self) {
        // The heap is ordered by the tags: empty it before they change.
        let waiting: Vec<_> = self.waiting.drain().map(|(_, task)| task).collect();
        self.tasks.iter_mut().for_each(|task| task.start = task.start.saturating_sub(EPOCH));
        waiting.into_iter().for_each(|task| self.waiting.insert(self.tasks[task].start, task));
        self.latest = self.latest.saturating_sub(EPOCH);
        self.clock.set_back();
    }
}

impl TaskOrder for SfqTasks {
    fn add(&mut self, task: usize, share: Share, _doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.waiting.grow(self.tasks.len());
        self.tasks[task] = Task { start: self.clock.now(), slope: Slope::of(share) };
    }

    fn remove(&mut self, task: usize, _doing: SchedulingState) {
        self.waiting.remove(task);
    }

    fn share(&mut self, task: usize, share: Share, _doing: SchedulingState) {
        // The start tag is that of work already done at the old share. Only later runs use the new one.
        self.tasks[task].slope = Slope::of(share);
    }

    #[inline]
    fn wake(&mut self, task: usize, _expected: Nanos) {
        let start = &mut self.tasks[task].start;
        *start = self.clock.now().max(*start);
        self.waiting.insert(*start, task);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        let (start, task) = self.waiting.pop()?;
        // V is the start tag of the running task (section 2).
        self.clock.reach(start);
        Some(task)
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        let Task { start, slope } = &mut self.tasks[task];
        *start += slope.span(used);
        self.latest = self.latest.max(*start);
        if next.is_some() {
            self.waiting.insert(*start, task);
        } else if self.waiting.is_empty() {
            // No task is left: V reaches the highest finish tag, so that no task begins the next busy period with a debt.
            self.clock.reach(self.latest);
        }
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }
}
