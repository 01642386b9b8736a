//! Earliest eligible virtual deadline first (Stoica, Abdel-Wahab, Jeffay, Baruah, Gehrke and Plaxton, "A Proportional Share
//! Resource Allocation Algorithm for Real-Time, Time-Shared Systems", RTSS 1996, sections 3 to 5).
//!
//! The virtual time V advances by l/R, where R is the sum of the shares of the competing tasks. Each request of a task has an eligible time and a
//! deadline: VD = VE + L/r, where L is the expected length of the run (equation 8). Of the tasks with VE <= V the one with the earliest deadline
//! runs; ties go to the lowest id. After a run of actual length l: VE += l/r (equation 10).
//!
//! A task that wakes competes from VE = V on. A task that becomes idle behind its share leaves at once, and its lag is divided among the others
//! (equation 18). A task that becomes idle ahead of its share is not picked, but competes on until V reaches its VE, or no other task is left. If it
//! left at once, it could shed its debt by sleeping for a moment.
//!
//! While the set of competing tasks is constant, a task lags behind its share by at most the longest run of any task. It leads by at most its own
//! longest run (theorem 1).

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual, weight};
use crate::SchedulerRegistration;
use plan::Lag;
use units::{Heap, Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "eevdf",
    summary: "earliest eligible virtual deadline first, among the tasks that have work",
    source: "Stoica, Abdel-Wahab et al. 1996",
    lag: Lag::OneRun,
    make: || Box::new(Eevdf::new()),
};

/// Earliest eligible virtual deadline first. O(log n).
pub type Eevdf = super::ShareScheduler<EevdfTasks>;

/// Tasks by their requests.
#[derive(Debug, Default)]
pub struct EevdfTasks {
    tasks: Vec<Task>,
    /// Tasks that may run now, by deadline.
    eligible: Heap,
    /// Tasks that may not run yet, and idle tasks that have not left, by eligible time.
    ahead: Heap,
    clock: Clock,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// VE.
    from: Virtual,
    slope: Slope,
    weight: u64,
    expected: Nanos,
    /// It is idle, but ahead of its share.
    leaving: bool,
}

impl EevdfTasks {
    fn request(&mut self, task: usize) {
        let Task { from, slope, expected, .. } = self.tasks[task];
        if from <= self.clock.now() {
            self.eligible.insert(from + slope.span(expected), task);
        } else {
            self.ahead.insert(from, task);
        }
    }

    /// Moves the tasks whose eligible time has come, or lets them leave. If none may run, V jumps to the next eligible time.
    fn settle(&mut self) {
        while let Some((from, task)) = self.ahead.first() {
            if from > self.clock.now() {
                // An eligible task can run, so V does not jump.
                if !self.eligible.is_empty() {
                    break;
                }
                self.clock.reach(from);
            }
            self.ahead.remove(task);
            let Task { leaving, weight, .. } = &mut self.tasks[task];
            if std::mem::take(leaving) {
                self.clock.leave(*weight, from);
            } else {
                self.request(task);
            }
        }
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }

    fn set_back(&mut self) {
        let waiting: Vec<_> = self.eligible.drain().chain(self.ahead.drain()).map(|(_, task)| task).collect();
        // `settle` has emptied `ahead` up to V, so an idle task that is still leaving is beyond V and `request` puts it back there.
        self.clock.set_back();
        self.tasks.iter_mut().for_each(|task| task.from = task.from.saturating_sub(EPOCH));
        waiting.into_iter().for_each(|task| self.request(task));
    }
}

impl TaskOrder for EevdfTasks {
    fn add(&mut self, task: usize, share: Share, doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.eligible.grow(self.tasks.len());
        self.ahead.grow(self.tasks.len());
        let (slope, weight) = (Slope::of(share), weight(share));
        self.tasks[task] = Task { from: self.clock.now(), slope, weight, ..Task::default() };
        // It was picked from the background class. It competes from now on: its charge expects its share in R.
        if doing == SchedulingState::Running {
            self.clock.add(weight);
        }
    }

    fn remove(&mut self, task: usize, doing: SchedulingState) {
        let Task { from, weight, leaving, .. } = self.tasks[task];
        self.eligible.remove(task);
        self.ahead.remove(task);
        self.tasks[task].leaving = false;
        // Its share leaves R, and V may have advanced past the eligible times of others.
        if doing != SchedulingState::Idle || leaving {
            self.clock.leave(weight, from);
            self.settle();
        }
    }

    fn share(&mut self, task: usize, share: Share, doing: SchedulingState) {
        let Task { slope, weight: old, leaving, .. } = &mut self.tasks[task];
        if doing != SchedulingState::Idle || *leaving {
            self.clock.remove(*old);
            self.clock.add(weight(share));
        }
        (*slope, *old) = (Slope::of(share), weight(share));
        // A new share changes the deadline, but not VE: only the order of `eligible` depends on it.
        if doing == SchedulingState::Waiting && self.eligible.contains(task) {
            self.eligible.remove(task);
            self.request(task);
        }
    }

    #[inline]
    fn wake(&mut self, task: usize, expected: Nanos) {
        let Task { from, weight, leaving, expected: length, .. } = &mut self.tasks[task];
        *length = expected;
        // A task that was about to leave still competes with its old VE: it only stays in `ahead`.
        if !std::mem::take(leaving) {
            *from = self.clock.now();
            self.clock.add(*weight);
            self.request(task);
        }
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.eligible.pop().map(|(_, task)| task)
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        self.clock.advance(used);
        let Task { from, slope, weight, expected, leaving } = &mut self.tasks[task];
        *from += slope.span(used);
        match next {
            Some(next) => {
                *expected = next;
                self.request(task);
            }
            // Idle ahead of its share: it competes until V reaches its VE, so that a short sleep does not cancel its lead.
            None if *from > self.clock.now() => {
                *leaving = true;
                self.ahead.insert(*from, task);
            }
            None => self.clock.leave(*weight, *from),
        }
        self.settle();
    }
}
