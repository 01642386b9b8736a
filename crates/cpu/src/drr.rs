//! Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, section 3), with time in place of
//! bytes.
//!
//! Runnable tasks take turns. At the start of a turn the deficit of a task grows by its quantum, and the turn lasts while the deficit is positive.
//! The length of a run is not known in advance. A task therefore runs while its deficit is more than zero, and pays in later turns for time beyond
//! it. The quantum of a task is its share of the sum of all shares, times 20 us for each task: a task with the mean share has 20 us in a turn.
//!
//! An idle task saves no deficit. A debt shrinks with each round that passes, as if the task took part. When no task is runnable, all debts are
//! forgotten.
//!
//! O(1) if a run is no longer than a quantum. Otherwise a pick visits each waiting task at most twice, because rounds in which no task can run are
//! skipped at once. A backlogged task lags behind its share by at most one round of the others and their longest runs.

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::weight;
use crate::SchedulerRegistration;
use plan::Lag;
use std::collections::VecDeque;
use units::{Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "drr",
    summary: "deficit round robin: turns as long as the shares",
    source: "Shreedhar, Varghese 1995",
    lag: Lag::Rounds,
    make: || Box::new(Drr::new()),
};

/// The quantum of a task with the mean share, ns.
const QUANTUM: u128 = 20_000;
/// More rounds than any debt lasts.
const FORGET: u64 = 1 << 32;

/// Deficit round robin. O(1) for runs within a quantum.
pub type Drr = super::ShareScheduler<DrrTasks>;

/// Tasks in the order of their turns.
#[derive(Debug, Default)]
pub struct DrrTasks {
    tasks: Vec<Task>,
    turns: VecDeque<u32>,
    /// True if the first of `turns`, or the running task, has received its quantum of this turn.
    begun: bool,
    registered: u64,
    weights: u64,
    /// The number of complete rounds.
    round: u64,
    /// The turns that are left in this round.
    left: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// The time it may still use in this turn, ns.
    deficit: i64,
    weight: u64,
    /// Of an idle task: the round in which it became idle.
    round: u64,
}

impl DrrTasks {
    fn quantum(&self, task: usize) -> i64 {
        let all = u128::from(self.tasks[task].weight) * QUANTUM * u128::from(self.registered);
        // At least 1 ns, or a task with a tiny share would never get out of debt.
        (all / u128::from(self.weights)).clamp(1, 1 << 40) as i64
    }

    /// Ends the turn of the first task.
    fn next_turn(&mut self) {
        self.begun = false;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.round = self.round.wrapping_add(1);
            self.left = self.turns.len();
        }
    }

    /// Skips the rounds in which no task could run.
    fn skip(&mut self) {
        let rounds = |&task: &u32| (-self.tasks[task as usize].deficit).max(0) / self.quantum(task as usize);
        // After so many rounds, the first task that can run is within one quantum of a positive deficit.
        let rounds = self.turns.iter().map(rounds).min().unwrap_or(0);
        for i in 0..self.turns.len() {
            let task = self.turns[i] as usize;
            self.tasks[task].deficit += rounds * self.quantum(task);
        }
        self.round = self.round.wrapping_add(rounds as u64);
    }
}

impl TaskOrder for DrrTasks {
    fn add(&mut self, task: usize, share: Share, _doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        // Room for a turn of each task: no later push allocates.
        self.turns.reserve(self.tasks.len() - self.turns.len());
        self.tasks[task] = Task { deficit: 0, weight: weight(share), round: self.round };
        self.registered += 1;
        self.weights += weight(share);
    }

    fn remove(&mut self, task: usize, doing: SchedulingState) {
        // The flag belongs to the turn of this task. The next one has not received its quantum yet.
        if doing == SchedulingState::Running || self.turns.front() == Some(&(task as u32)) {
            self.begun = false;
        }
        if doing == SchedulingState::Waiting {
            self.turns.retain(|&t| t != task as u32);
        }
        self.registered -= 1;
        self.weights -= self.tasks[task].weight;
    }

    fn share(&mut self, task: usize, share: Share, _doing: SchedulingState) {
        let old = std::mem::replace(&mut self.tasks[task].weight, weight(share));
        self.weights = self.weights - old + weight(share);
    }

    #[inline]
    fn wake(&mut self, task: usize, _expected: Nanos) {
        let Task { deficit, round, .. } = self.tasks[task];
        // Each round that passed while the task was idle pays off one quantum of its debt.
        let passed = self.round.wrapping_sub(round).min(FORGET) as i64;
        if deficit < 0 {
            self.tasks[task].deficit = deficit.saturating_add(passed.saturating_mul(self.quantum(task))).min(0);
        }
        self.turns.push_back(task as u32);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        let mut passed = 0;
        loop {
            let task = *self.turns.front()? as usize;
            if !self.begun {
                self.tasks[task].deficit += self.quantum(task);
                self.begun = true;
            }
            if self.tasks[task].deficit > 0 {
                self.turns.pop_front();
                return Some(task);
            }
            self.turns.rotate_left(1);
            self.next_turn();
            passed += 1;
            // A whole round without a task that can run: skip all such rounds at once.
            if passed == self.turns.len() {
                self.skip();
            }
        }
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        // A longer run counts as 2^32 ns, as in virtual time, so that deficits cannot overflow.
        let used = used.get().min(u64::from(u32::MAX)) as i64;
        self.tasks[task].deficit -= used;
        match next {
            // Its turn lasts while the deficit is positive, so `begun` stays set.
            Some(_) if self.begun && self.tasks[task].deficit > 0 => return self.turns.push_front(task as u32),
            Some(_) => self.turns.push_back(task as u32),
            // An idle task keeps its debt, but no credit (section 3: the counter of an empty queue is zero).
            None => self.tasks[task].deficit = self.tasks[task].deficit.min(0),
        }
        self.next_turn();
        if self.turns.is_empty() {
            // No task is runnable: advance so many rounds that every debt is forgotten, also that of the present task.
            // It wraps after 2^32 busy periods; only differences count.
            self.round = self.round.wrapping_add(FORGET);
        }
        self.tasks[task].round = if self.turns.is_empty() { self.round.wrapping_sub(FORGET) } else { self.round };
    }
}
