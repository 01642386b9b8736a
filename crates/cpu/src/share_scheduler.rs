//! The part that all CPU schedulers share: the tasks, their states, and the background class.

use super::CpuScheduler;
use std::collections::VecDeque;
use units::{Instant, Nanos, Share, TaskId};

/// The order of the tasks that have a share. Tasks are named by the index of their id. The caller keeps their states.
pub trait TaskOrder: Send {
    /// Adds a task with a share above zero. It is idle, or it is running and was in the background class when picked.
    fn add(&mut self, task: usize, share: Share, doing: SchedulingState);
    /// Removes the task, which is in state `doing`.
    fn remove(&mut self, task: usize, doing: SchedulingState);
    /// Changes the share of the task, which is in state `doing`, to another above zero.
    fn share(&mut self, task: usize, share: Share, doing: SchedulingState);
    /// The task was idle and has work that is expected to take `expected`.
    fn wake(&mut self, task: usize, expected: Nanos);
    /// The task waits, and its next run is now expected to take `expected`.
    fn expect(&mut self, _task: usize, _expected: Nanos) {}
    /// Removes the next task from the waiting ones and returns it.
    fn pick(&mut self) -> Option<usize>;
    /// The picked task has run for `used`. It waits again for a run that is expected to take `next`, or is idle.
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>);
}

/// The state of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulingState {
    /// It has nothing to do.
    Idle,
    /// It waits for its turn.
    Waiting,
    /// It was picked and is not charged yet.
    Running,
}

/// A scheduler that divides the processor in the order of `O`. Tasks without a share take turns in the time that is left.
#[derive(Debug, Default)]
pub struct ShareScheduler<O> {
    order: O,
    states: Vec<TaskSlot>,
    background: VecDeque<u32>,
    running: Option<u32>,
    /// The expected length of the work for which the running task was woken since it was picked.
    woken_for: Option<Nanos>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TaskSlot {
    /// None: there is no such task.
    state: Option<SchedulingState>,
    background: bool,
}

impl TaskSlot {
    const ABSENT: TaskSlot = TaskSlot { state: None, background: false };
}

impl<O: TaskOrder + Default> ShareScheduler<O> {
    /// No tasks.
    pub fn new() -> ShareScheduler<O> {
        ShareScheduler::ordered(O::default())
    }
}

impl<O: TaskOrder> ShareScheduler<O> {
    /// A set without tasks, in the order of `order`.
    pub(super) fn ordered(order: O) -> ShareScheduler<O> {
        ShareScheduler { order, states: Vec::new(), background: VecDeque::new(), running: None, woken_for: None }
    }

    fn state(&self, task: TaskId) -> TaskSlot {
        self.states.get(task.index()).copied().unwrap_or(TaskSlot::ABSENT)
    }

    /// Removes the task from the structure that holds its class.
    fn dequeue(&mut self, task: TaskId, doing: SchedulingState, background: bool) {
        match (background, doing) {
            (false, _) => self.order.remove(task.index(), doing),
            (true, SchedulingState::Waiting) => self.background.retain(|&t| t != task.0),
            (true, SchedulingState::Idle | SchedulingState::Running) => {}
        }
    }
}

impl<O: TaskOrder> CpuScheduler for ShareScheduler<O> {
    fn add(&mut self, task: TaskId, share: Share) {
        if task.index() >= self.states.len() {
            self.states.resize(task.index() + 1, TaskSlot::ABSENT);
            // Room for every task: no later push allocates.
            self.background.reserve(self.states.len() - self.background.len());
        }
        assert_eq!(self.state(task), TaskSlot::ABSENT, "task {task} is there already");
        let background = share == Share::ZERO;
        self.states[task.index()] = TaskSlot { state: Some(SchedulingState::Idle), background };
        if !background {
            self.order.add(task.index(), share, SchedulingState::Idle);
        }
    }

    fn remove(&mut self, task: TaskId) {
        let TaskSlot { state: Some(doing), background } = self.state(task) else { return };
        self.dequeue(task, doing, background);
        self.states[task.index()] = TaskSlot::ABSENT;
        if doing == SchedulingState::Running {
            self.running = None;
        }
    }

    fn share(&mut self, task: TaskId, share: Share) {
        let TaskSlot { state: Some(doing), background } = self.state(task) else { return };
        match (background, share == Share::ZERO) {
            (true, true) => {}
            (false, false) => self.order.share(task.index(), share, doing),
            (_, to_background) => {
                self.dequeue(task, doing, background);
                self.states[task.index()].background = to_background;
                // A running task waits in neither class. Its charge enqueues it in its new one.
                match (to_background, doing) {
                    (true, SchedulingState::Waiting) => self.background.push_back(task.0),
                    (true, SchedulingState::Idle | SchedulingState::Running) => {}
                    (false, SchedulingState::Idle | SchedulingState::Running) => {
                        self.order.add(task.index(), share, doing)
                    }
                    (false, SchedulingState::Waiting) => {
                        self.order.add(task.index(), share, SchedulingState::Idle);
                        // The length of its next run is not known here. Zero affects only the place of this one run.
                        self.order.wake(task.index(), Nanos::ZERO);
                    }
                }
            }
        }
    }

    #[inline]
    fn wake(&mut self, task: TaskId, expected: Nanos, _now: Instant) {
        let Some(state) = self.states.get_mut(task.index()) else { return };
        match state.state {
            Some(SchedulingState::Waiting) | None => {}
            Some(SchedulingState::Running) => self.woken_for = Some(expected),
            Some(SchedulingState::Idle) => {
                state.state = Some(SchedulingState::Waiting);
                if state.background {
                    self.background.push_back(task.0);
                } else {
                    self.order.wake(task.index(), expected);
                }
            }
        }
    }

    #[inline]
    fn expect(&mut self, task: TaskId, expected: Nanos) {
        let TaskSlot { state: doing, background } = self.state(task);
        if doing == Some(SchedulingState::Waiting) && !background {
            self.order.expect(task.index(), expected);
        }
    }

    #[inline]
    fn pick(&mut self, _now: Instant) -> Option<TaskId> {
        assert_eq!(self.running, None, "the task that was picked before is not charged yet");
        let task = match self.order.pick() {
            Some(task) => task as u32,
            // The background class runs only while no task with a share is runnable.
            None => self.background.pop_front()?,
        };
        self.states[task as usize].state = Some(SchedulingState::Running);
        self.running = Some(task);
        self.woken_for = None;
        Some(TaskId(task))
    }

    #[inline]
    fn charge(&mut self, task: TaskId, used: Nanos, next: Option<Nanos>, _now: Instant) {
        let Some(state) = self.states.get_mut(task.index()) else { return };
        match state.state {
            Some(SchedulingState::Running) => {}
            None => return,
            Some(SchedulingState::Idle | SchedulingState::Waiting) => {
                panic!("task {task} is charged but was not picked")
            }
        }
        self.running = None;
        // A task woken during its run has work even if the caller knows of none.
        let next = next.or(self.woken_for);
        state.state = Some(if next.is_some() { SchedulingState::Waiting } else { SchedulingState::Idle });
        if !state.background {
            self.order.charge(task.index(), used, next);
        } else if next.is_some() {
            self.background.push_back(task.0);
        }
    }
}
