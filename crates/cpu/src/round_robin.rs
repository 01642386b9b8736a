//! Round robin: runnable tasks take turns of any length.
//!
//! The paper considers it sufficient if all tasks have equal guarantees (Qie et al. 2001, section 5.1). Shares are stored and ignored, except for a
//! share of zero.

use super::share_scheduler::{SchedulingState, TaskOrder};
use crate::SchedulerRegistration;
use plan::Lag;
use std::collections::VecDeque;
use units::{Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "rr",
    summary: "round robin: tasks run in turn, regardless of their shares; it keeps no reservation",
    source: "Qie, Bavier, Peterson, Karlin 2001",
    lag: Lag::Unbounded,
    make: || Box::new(RoundRobin::new()),
};

/// Turns in the order of waking. Every operation is O(1), except the removal of a waiting task.
pub type RoundRobin = super::ShareScheduler<RoundRobinTasks>;

/// Tasks in the order of their turns.
#[derive(Debug, Default)]
pub struct RoundRobinTasks {
    turns: VecDeque<u32>,
    most: usize,
}

impl TaskOrder for RoundRobinTasks {
    fn add(&mut self, task: usize, _share: Share, _doing: SchedulingState) {
        self.most = self.most.max(task + 1);
        self.turns.reserve(self.most - self.turns.len());
    }

    fn remove(&mut self, task: usize, doing: SchedulingState) {
        if doing == SchedulingState::Waiting {
            self.turns.retain(|&t| t != task as u32);
        }
    }

    fn share(&mut self, _task: usize, _share: Share, _doing: SchedulingState) {}

    #[inline]
    fn wake(&mut self, task: usize, _expected: Nanos) {
        self.turns.push_back(task as u32);
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        self.turns.pop_front().map(|task| task as usize)
    }

    #[inline]
    fn charge(&mut self, task: usize, _used: Nanos, next: Option<Nanos>) {
        if next.is_some() {
            self.turns.push_back(task as u32);
        }
    }
}
