//! The tasks of a worker: the role of each, its backlog, and the run queue.

use crate::classify::Target;
use crate::path::Instance;
use cpu::RunQueue;
use cpu::task::{TaskKind, TaskTerms};
use plan::CpuPlan;
use std::collections::VecDeque;
use units::{Instant, Nanos, PortId, TaskId};

/// A task of the worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Receives from a port and classifies.
    Input(PortId),
    /// Runs the functions of a path, or of several paths that share a task, for every egress port.
    Forward,
    /// Offers packets to the scheme of a port's link, and transmits.
    Output(PortId),
    /// The same for paths with a reservation only. Their output time serves no other path.
    Reserved(PortId),
}

impl Task {
    pub fn kind(self) -> TaskKind {
        match self {
            Task::Input(_) => TaskKind::Input,
            Task::Forward => TaskKind::Forwarding,
            Task::Output(_) | Task::Reserved(_) => TaskKind::Output,
        }
    }
}

/// The backlog of a task.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub task: Option<Task>,
    /// Instances with packets and room, each once, in the order in which they became ready.
    pub ready: VecDeque<Target>,
    /// Packets that wait for the task. May be too high: some may have been taken away since the last count.
    pub waiting: usize,
}

/// See the [module](self).
pub(super) struct TaskTable {
    pub run_queue: RunQueue,
    slots: Vec<Slot>,
    /// Consecutive dispatches that moved nothing, since a task was last woken from outside.
    pub idle_dispatches: usize,
    /// Consecutive dispatches that moved nothing, without polls that took time.
    pub futile_dispatches: usize,
    /// The cost of a task switch, measured when the router started.
    switch_cost: Nanos,
}

impl TaskTable {
    /// An empty table, with the cost of a task switch.
    pub fn new(switch_cost: Nanos) -> TaskTable {
        TaskTable {
            run_queue: RunQueue::new(switch_cost),
            slots: Vec::new(),
            idle_dispatches: 0,
            futile_dispatches: 0,
            switch_cost,
        }
    }

    /// Removes all tasks and all state of them.
    pub fn reset(&mut self, plan: &CpuPlan, now: Instant) {
        // The CPU scheduler is chosen again from the same registry.
        let schedulers = self.run_queue.schedulers().clone();
        *self = TaskTable::new(self.switch_cost);
        self.run_queue.register(schedulers);
        self.run_queue.configure(plan, now);
    }

    pub fn add(&mut self, task: Task, terms: TaskTerms, now: Instant) -> TaskId {
        let id = self.run_queue.add(task.kind(), terms, now);
        if id.index() >= self.slots.len() {
            self.slots.resize_with(id.index() + 1, Slot::default);
        }
        // The run queue reuses ids: nothing of an earlier task may remain.
        self.slots[id.index()] = Slot { task: Some(task), ..Slot::default() };
        id
    }

    pub fn remove(&mut self, id: TaskId, now: Instant) {
        if let Some(slot) = self.slots.get_mut(id.index())
            && slot.task.take().is_some()
        {
            // Only once for each task: the run queue panics if a task is removed twice.
            slot.ready.clear();
            self.run_queue.remove(id, now);
        }
    }

    #[inline]
    pub fn task(&self, id: TaskId) -> Option<Task> {
        self.slots[id.index()].task
    }

    #[inline]
    pub fn slot(&mut self, id: TaskId) -> &mut Slot {
        &mut self.slots[id.index()]
    }

    /// All tasks.
    pub fn iter(&self) -> impl Iterator<Item = (TaskId, Task)> + '_ {
        self.slots.iter().enumerate().filter_map(|(index, slot)| Some((TaskId::at(index), slot.task?)))
    }

    /// Marks all instances as not ready, before they are replaced.
    pub fn clear_ready(&mut self) {
        self.slots.iter_mut().for_each(|slot| {
            slot.ready.clear();
            slot.waiting = 0;
        });
    }

    /// `packets` have arrived for `instance`, which is `target`. With 0 packets there is room behind it again.
    #[inline]
    pub fn record_arrivals(&mut self, target: Target, instance: &mut Instance, packets: usize, now: Instant) {
        let room = instance.output.room();
        let slot = &mut self.slots[instance.task.index()];
        slot.waiting += packets;
        if packets > 0 {
            self.run_queue.trace_arrival(instance.task, packets, slot.waiting, now);
        }
        // An instance is on the ready list at most once.
        if !instance.ready {
            if room == 0 || !instance.has_work() {
                return;
            }
            instance.ready = true;
            slot.ready.push_back(target);
        }
        // At least one: the work may be a half-segmented packet, which is not on the queue.
        let waiting = slot.waiting.max(1);
        self.run_queue.update_queue(instance.task, waiting, room, now);
    }

    /// The task of `instance` has work that is no packet of its queue.
    pub fn wake_forwarding(&mut self, target: Target, instance: &mut Instance, now: Instant) {
        let slot = &mut self.slots[instance.task.index()];
        // The queue may be empty: a due timer of the router's own protocols is work as well.
        if !instance.ready {
            instance.ready = true;
            slot.ready.push_back(target);
        }
        self.run_queue.wake(instance.task, now);
    }

    /// `packets` have arrived for the output task `id`.
    #[inline]
    pub fn record_offered(&mut self, id: TaskId, packets: usize, now: Instant) {
        let slot = &mut self.slots[id.index()];
        slot.waiting += packets;
        let waiting = slot.waiting.max(1);
        if packets > 0 {
            self.run_queue.trace_arrival(id, packets, waiting, now);
        }
        // The room of the link is unknown here. The task checks it when it runs.
        self.run_queue.update_queue(id, waiting, usize::from(u16::MAX), now);
    }

    /// The output task `id` has work that does not depend on its backlog.
    pub fn wake_output(&mut self, id: TaskId, now: Instant) {
        self.run_queue.wake(id, now);
    }
}
