//! Round robin: runnable tasks take turns, however long each turn is.
//!
//! The paper finds it enough where every task has the same promise (Qie et al. 2001, section 5.1); shares are noted and
//! do not matter.

use super::CpuScheduler;
use std::collections::VecDeque;
use units::{Instant, Nanos, Share, TaskId};

/// Turns in the order of waking. Every operation is O(1).
#[derive(Debug, Default)]
pub struct RoundRobin {
    turns: VecDeque<TaskId>,
    state: Vec<State>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Absent,
    Idle,
    Waiting,
    Running,
    /// Woken while it ran.
    RunningWoken,
}

impl RoundRobin {
    /// No tasks.
    pub fn new() -> RoundRobin {
        RoundRobin::default()
    }

    fn state(&mut self, task: TaskId) -> &mut State {
        if task.index() >= self.state.len() {
            self.state.resize(task.index() + 1, State::Absent);
        }
        &mut self.state[task.index()]
    }
}

impl CpuScheduler for RoundRobin {
    fn add(&mut self, task: TaskId, _share: Share) {
        let state = self.state(task);
        assert_eq!(*state, State::Absent, "task {task} is there already");
        *state = State::Idle;
    }

    fn remove(&mut self, task: TaskId) {
        *self.state(task) = State::Absent;
        self.turns.retain(|&t| t != task);
    }

    fn share(&mut self, _task: TaskId, _share: Share) {}

    #[inline]
    fn wake(&mut self, task: TaskId, _expected: Nanos, _now: Instant) {
        let state = self.state(task);
        match *state {
            State::Idle => {
                *state = State::Waiting;
                self.turns.push_back(task);
            }
            State::Running => *state = State::RunningWoken,
            State::Waiting | State::RunningWoken | State::Absent => {}
        }
    }

    #[inline]
    fn pick(&mut self, _now: Instant) -> Option<TaskId> {
        let task = self.turns.pop_front()?;
        *self.state(task) = State::Running;
        Some(task)
    }

    #[inline]
    fn charge(&mut self, task: TaskId, _used: Nanos, next: Option<Nanos>, _now: Instant) {
        let state = self.state(task);
        match *state {
            State::RunningWoken => {}
            State::Running if next.is_some() => {}
            State::Running => return *state = State::Idle,
            State::Absent => return,
            State::Idle | State::Waiting => panic!("task {task} is charged but was not picked"),
        }
        *state = State::Waiting;
        self.turns.push_back(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::START;

    fn with_tasks(n: u32) -> RoundRobin {
        let mut rr = RoundRobin::new();
        (0..n).for_each(|t| rr.add(TaskId(t), Share::ONE));
        rr
    }

    fn run(rr: &mut RoundRobin, picks: usize, runnable: impl Fn(u32) -> bool) -> Vec<u32> {
        let mut order = Vec::new();
        for _ in 0..picks {
            let Some(task) = rr.pick(NOW) else { break };
            order.push(task.0);
            rr.charge(task, Nanos::micros(1), runnable(task.0).then_some(Nanos::ZERO), NOW);
        }
        order
    }

    #[test]
    fn runnable_tasks_take_turns_in_the_order_they_woke() {
        let mut rr = with_tasks(3);
        for t in [2, 0, 1] {
            rr.wake(TaskId(t), Nanos::ZERO, NOW);
        }
        assert_eq!(run(&mut rr, 7, |_| true), [2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_task_with_nothing_to_do_is_not_picked_until_it_wakes() {
        let mut rr = with_tasks(2);
        rr.wake(TaskId(0), Nanos::ZERO, NOW);
        rr.wake(TaskId(1), Nanos::ZERO, NOW);
        assert_eq!(run(&mut rr, 5, |t| t == 1), [0, 1, 1, 1, 1]);
        rr.wake(TaskId(0), Nanos::ZERO, NOW);
        assert_eq!(run(&mut rr, 2, |_| false), [1, 0]);
        assert_eq!(rr.pick(NOW), None);
    }

    #[test]
    fn a_wake_up_during_the_run_is_not_lost() {
        let mut rr = with_tasks(1);
        rr.wake(TaskId(0), Nanos::ZERO, NOW);
        let task = rr.pick(NOW).unwrap();
        rr.wake(task, Nanos::ZERO, NOW);
        rr.charge(task, Nanos::ZERO, None, NOW);
        assert_eq!(rr.pick(NOW), Some(task));
    }

    #[test]
    fn a_removed_task_is_never_picked_even_if_it_was_running() {
        let mut rr = with_tasks(2);
        rr.wake(TaskId(0), Nanos::ZERO, NOW);
        rr.wake(TaskId(1), Nanos::ZERO, NOW);
        let task = rr.pick(NOW).unwrap();
        rr.remove(task);
        rr.charge(task, Nanos::ZERO, Some(Nanos::ZERO), NOW);
        assert_eq!(run(&mut rr, 3, |_| true), [1, 1, 1]);
    }
}
