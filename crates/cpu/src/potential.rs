//! The potential scheduler of Panama (Pradhan and Chiueh 2002, section 4.3), as published and as a rate-proportional server.
//!
//! The potential of a task is the processor time that it has used, over its share: v += l/r. The runnable task with the least potential runs (ties: the
//! lowest id).
//!
//! **As published** (`potential`). The system potential V is the processor time of all tasks. A task without work has the potential of the system: it wakes
//! with v = V. This is here for comparison, because it starves tasks. If the shares add up to less than one, the potentials of busy tasks outrun V. A task
//! that wakes then owns the processor until it has caught up. A task may also gain by being idle for an instant.
//!
//! **Starting-potential fair queueing** (`spfq`; Stiliadis and Varma, "Efficient Fair Queueing Algorithms for Packet-Switched Networks", IEEE/ACM Transactions
//! on Networking 6(2), 1998, section IV). V advances by l/R, where R is the sum of the shares of all tasks, and at least to the least potential of a runnable
//! task. A task that wakes has v = max(v, V). The task with the least potential at the end of its next run, v + L/r, runs. So a task with work lags behind its
//! share by at most a run of its own and one of another, as with any rate-proportional server that serves by finishing potentials.

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual, weight};
use crate::SchedulerRegistration;
use plan::Lag;
use units::{Heap, Nanos, Share};

/// See [`SchedulerRegistration`].
pub const SPFQ: SchedulerRegistration = SchedulerRegistration {
    name: "spfq",
    summary: "starting-potential fair queueing: each task has its share at any time, to within a run of its own and one of another",
    source: "Stiliadis, Varma 1998",
    lag: Lag::RunOfEach,
    make: || Box::new(super::ShareScheduler::ordered(PotentialTasks::default())),
};

/// See [`SchedulerRegistration`].
pub const LITERAL: SchedulerRegistration = SchedulerRegistration {
    name: "potential",
    summary: "the potential scheduler of Panama as published, which can starve tasks; for comparison only",
    source: "Pradhan, Chiueh 2002",
    lag: Lag::Unbounded,
    make: || Box::new(super::ShareScheduler::ordered(PotentialTasks { is_literal: true, ..PotentialTasks::default() })),
};

/// Tasks by their potentials. O(log n).
#[derive(Debug, Default)]
pub struct PotentialTasks {
    is_literal: bool,
    tasks: Vec<Task>,
    /// Waiting tasks by the potential that decides: the present one, or that at the end of the next run. The running task keeps its place until it is
    /// charged: to move it once costs half of removing and adding it.
    waiting: Heap,
    /// Waiting and running tasks by their potentials. Without any as published.
    busy: Heap,
    /// V.
    clock: Clock,
    /// The highest potential so far.
    latest: Virtual,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    potential: Virtual,
    slope: Slope,
    weight: u64,
}

impl PotentialTasks {
    /// Makes a task wait for a run that is expected to take so long.
    #[inline]
    fn insert(&mut self, task: usize, expected: Nanos) {
        let Task { potential, slope, .. } = self.tasks[task];
        let key = if self.is_literal { potential } else { potential.saturating_add(slope.span(expected)) };
        self.waiting.set(key, task);
        self.enter(task);
    }

    /// The task counts for the least potential of those with work.
    #[inline]
    fn enter(&mut self, task: usize) {
        if !self.is_literal {
            self.busy.set(self.tasks[task].potential, task);
        }
    }

    #[cold]
    fn set_back(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.potential = task.potential.saturating_sub(EPOCH));
        self.waiting.subtract(EPOCH);
        self.busy.subtract(EPOCH);
        self.latest = self.latest.saturating_sub(EPOCH);
        self.clock.set_back();
    }
}

impl TaskOrder for PotentialTasks {
    fn add(&mut self, task: usize, share: Share, doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.waiting.grow(self.tasks.len());
        self.busy.grow(self.tasks.len());
        let (slope, weight) = (Slope::of(share), weight(share));
        self.tasks[task] = Task { potential: self.clock.now(), slope, weight };
        self.clock.add(weight);
        if doing == SchedulingState::Running {
            self.enter(task);
        }
    }

    fn remove(&mut self, task: usize, _doing: SchedulingState) {
        self.waiting.remove(task);
        self.busy.remove(task);
        self.clock.remove(std::mem::take(&mut self.tasks[task].weight));
    }

    fn share(&mut self, task: usize, share: Share, _doing: SchedulingState) {
        // The potential is that of work already done at the old share. Only later runs use the new one.
        let weight = weight(share);
        self.clock.remove(std::mem::replace(&mut self.tasks[task].weight, weight));
        self.clock.add(weight);
        self.tasks[task].slope = Slope::of(share);
    }

    #[inline]
    fn wake(&mut self, task: usize, expected: Nanos) {
        let now = self.clock.now();
        let potential = &mut self.tasks[task].potential;
        *potential = if self.is_literal { now } else { now.max(*potential) };
        self.insert(task, expected);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.waiting.first().map(|(_, task)| task)
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        let charged = &mut self.tasks[task];
        charged.potential = charged.potential.saturating_add(charged.slope.span(used));
        self.latest = self.latest.max(charged.potential);
        match next {
            Some(next) => self.insert(task, next),
            None => {
                self.waiting.remove(task);
                self.busy.remove(task);
            }
        }
        if self.is_literal {
            // The processor time of all tasks: as if one task had all shares.
            self.clock.reach(self.clock.now().saturating_add(Slope::of(Share::ONE).span(used)));
        } else {
            self.clock.advance(used);
            // V is at least the least potential of a task with work. At the end of a busy period no task begins the next one with a debt.
            self.clock.reach(self.busy.first().map_or(self.latest, |(least, _)| least));
        }
        if self.clock.needs_set_back() || self.latest >= 3 * EPOCH {
            self.set_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuScheduler;
    use units::{Instant, TaskId};

    const NOW: Instant = Instant::START;
    const MS: Nanos = Nanos::millis(1);

    /// Runs tasks that always have work for so many milliseconds, each run of one. Returns how many each got.
    fn run(scheduler: &mut dyn CpuScheduler, tasks: &[u32], ms: usize) -> Vec<usize> {
        tasks.iter().for_each(|task| scheduler.wake(TaskId(*task), MS, NOW));
        let mut got = vec![0; tasks.len()];
        for _ in 0..ms {
            let TaskId(task) = scheduler.pick(NOW).expect("a task has work");
            got[tasks.iter().position(|known| *known == task).expect("only these have work")] += 1;
            scheduler.charge(TaskId(task), MS, Some(MS), NOW);
        }
        got
    }

    /// Two tasks with a fifth of the processor each: one alone for a second, then both.
    fn after_one_was_alone(registration: SchedulerRegistration) -> Vec<usize> {
        let mut scheduler = (registration.make)();
        let fifth = Share::of(1, 5);
        (0..2).for_each(|task| scheduler.add(TaskId(task), fifth));
        run(&mut *scheduler, &[0], 1000);
        run(&mut *scheduler, &[0, 1], 800)
    }

    #[test]
    fn literal_starves_a_task_that_was_alone_and_spfq_does_not() {
        // The potential of the first is 5 s, that of the system 1 s: the second owns the processor for 0.8 s.
        assert_eq!(after_one_was_alone(LITERAL), [0, 800]);
        let got = after_one_was_alone(SPFQ);
        assert!(got.iter().all(|got| (399..=401).contains(got)), "{got:?}");
    }

    #[test]
    fn shares_are_kept_among_busy_tasks() {
        for registration in [LITERAL, SPFQ] {
            let mut scheduler = (registration.make)();
            for (task, parts) in [(0, 1), (1, 2), (2, 5)] {
                scheduler.add(TaskId(task), Share::of(parts, 8));
            }
            let got = run(&mut *scheduler, &[0, 1, 2], 8000);
            assert!(got.iter().zip([1000, 2000, 5000]).all(|(got, fair)| got.abs_diff(fair) <= 2), "{got:?}");
        }
    }

    #[test]
    fn task_gains_nothing_by_being_idle_for_an_instant() {
        let mut scheduler = (SPFQ.make)();
        (0..2).for_each(|task| scheduler.add(TaskId(task), Share::of(1, 2)));
        let mut got = [0_i32, 0];
        (0..2).for_each(|task| scheduler.wake(TaskId(task), MS, NOW));
        for _ in 0..1000 {
            let TaskId(task) = scheduler.pick(NOW).expect("both have work");
            got[task as usize] += 1;
            // The second is idle after each run, and has work again at once.
            scheduler.charge(TaskId(task), MS, (task == 0).then_some(MS), NOW);
            scheduler.wake(TaskId(1), MS, NOW);
        }
        assert!(got[0].abs_diff(500) <= 1, "{got:?}");
    }
}
