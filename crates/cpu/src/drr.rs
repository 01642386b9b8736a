//! Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, section 3),
//! with time in the place of bytes.
//!
//! Runnable tasks take turns. At the beginning of its turn a task's deficit grows by its quantum, and the turn goes on while
//! there is any. How long a run will take is not known before, so a task runs while its deficit is more than zero and what it
//! took more is missing in its next turns. The quantum of a task is its share of the sum of all shares, times 20 us for
//! each task: a task with the mean share has 20 us in a turn.
//!
//! An idle task saves no deficit. What it owes it pays by the rounds that pass, as if it took part in them, and where no
//! task is runnable nobody owes anything.
//!
//! O(1) where a run is no longer than a quantum; else a pick looks at most twice at each task that waits, because rounds in
//! which nobody could run are passed over at once. A task with work lags behind its share by what the others may take in a
//! round, and their longest runs.

use super::tasks::{Doing, Order};
use super::virtual_time::weight;
use crate::Registration;
use plan::Lag;
use std::collections::VecDeque;
use units::{Nanos, Share};

/// See [`Registration`].
pub const REGISTRATION: Registration = Registration {
    name: "drr",
    summary: "deficit round robin: turns as long as the shares",
    source: "Shreedhar, Varghese 1995",
    lag: Lag::Rounds,
    make: || Box::new(Drr::new()),
};

/// The quantum of a task with the mean share, ns.
const QUANTUM: u128 = 20_000;
/// More rounds than anybody can owe.
const FORGET: u64 = 1 << 32;

/// Deficit round robin. O(1) for runs within a quantum.
pub type Drr = super::Tasks<Deficits>;

/// Tasks in the order of their turns.
#[derive(Debug, Default)]
pub struct Deficits {
    tasks: Vec<Task>,
    turns: VecDeque<u32>,
    /// Whether the first of `turns` has had its quantum, or the one that runs.
    begun: bool,
    registered: u64,
    weights: u64,
    /// How often all had a turn.
    round: u64,
    /// How many are still to come in this one.
    left: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// What it may take, ns.
    deficit: i64,
    weight: u64,
    /// Of an idle task: when it fell idle.
    round: u64,
}

impl Deficits {
    fn quantum(&self, task: usize) -> i64 {
        let all = u128::from(self.tasks[task].weight) * QUANTUM * u128::from(self.registered);
        (all / u128::from(self.weights)).clamp(1, 1 << 40) as i64
    }

    /// The turn of the first is over.
    fn next_turn(&mut self) {
        self.begun = false;
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.round += 1;
            self.left = self.turns.len();
        }
    }

    /// Passes over the rounds in which nobody could run.
    fn skip(&mut self) {
        let rounds = |&task: &u32| (-self.tasks[task as usize].deficit).max(0) / self.quantum(task as usize);
        let rounds = self.turns.iter().map(rounds).min().unwrap_or(0);
        for i in 0..self.turns.len() {
            let task = self.turns[i] as usize;
            self.tasks[task].deficit += rounds * self.quantum(task);
        }
        self.round += rounds as u64;
    }
}

impl Order for Deficits {
    fn add(&mut self, task: usize, share: Share, _doing: Doing) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.turns.reserve(self.tasks.len() - self.turns.len());
        self.tasks[task] = Task { deficit: 0, weight: weight(share), round: self.round };
        self.registered += 1;
        self.weights += weight(share);
    }

    fn remove(&mut self, task: usize, doing: Doing) {
        if doing == Doing::Running || self.turns.front() == Some(&(task as u32)) {
            self.begun = false;
        }
        if doing == Doing::Waiting {
            self.turns.retain(|&t| t != task as u32);
        }
        self.registered -= 1;
        self.weights -= self.tasks[task].weight;
    }

    fn share(&mut self, task: usize, share: Share, _doing: Doing) {
        let old = std::mem::replace(&mut self.tasks[task].weight, weight(share));
        self.weights = self.weights - old + weight(share);
    }

    #[inline]
    fn wake(&mut self, task: usize, _expected: Nanos) {
        let Task { deficit, round, .. } = self.tasks[task];
        let passed = (self.round - round).min(FORGET) as i64;
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
            if passed == self.turns.len() {
                self.skip();
            }
        }
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        let used = used.get().min(u64::from(u32::MAX)) as i64;
        self.tasks[task].deficit -= used;
        match next {
            Some(_) if self.begun && self.tasks[task].deficit > 0 => return self.turns.push_front(task as u32),
            Some(_) => self.turns.push_back(task as u32),
            None => self.tasks[task].deficit = self.tasks[task].deficit.min(0),
        }
        self.next_turn();
        if self.turns.is_empty() {
            self.round += FORGET;
        }
        self.tasks[task].round = self.round - if self.turns.is_empty() { FORGET } else { 0 };
    }
}
