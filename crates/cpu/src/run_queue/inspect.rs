//! The status of the run queue: its tasks and its trace.

use super::{RunQueue, TaskState};
use crate::task::{TaskAccount, TaskKind, TaskView};
use crate::trace::{TaskEvent, TaskTrace, TraceRecord};
use units::{Instant, Nanos, Parts, TaskId};

impl RunQueue {
    /// The status of a task; none if it was removed.
    pub fn view(&self, task: TaskId, now: Instant) -> Option<TaskView> {
        let entry = self.states.entries.get(task.index()).filter(|entry| entry.live)?;
        let mut account = entry.account;
        // The time in the present state is added to the account only when the task leaves it.
        account.residency[entry.state as usize] += now.since(entry.since);
        Some(TaskView {
            kind: entry.kind,
            state: entry.state,
            share: entry.terms.share,
            threshold: entry.threshold,
            max_wait: entry.terms.max_wait.or(self.limits.max_wait),
            cost: (entry.mean_cost(), entry.cost.variance()),
            long_cost: entry.cost.long_mean(),
            verdict: entry.cost.verdict(),
            capacity: entry.terms.capacity,
            estimator: entry.estimator.as_ref().map(|e| (e.average_milli(), e.sleep())),
            account,
        })
    }

    /// The accounting of a task.
    pub fn account(&self, task: TaskId) -> TaskAccount {
        self.states.entries.get(task.index()).filter(|entry| entry.live).map(|entry| entry.account).unwrap_or_default()
    }

    /// Overhead and slice of forwarding tasks; none if they are not throttled.
    pub fn throttle(&self) -> Option<(Parts, Nanos)> {
        let rule = self.limits.rules[TaskKind::Forwarding as usize];
        rule.overhead.map(|overhead| (overhead, rule.slice))
    }

    /// Starts a trace in `trace`, or stops tracing. Returns the previous trace.
    pub fn set_trace(&mut self, trace: Option<Box<TaskTrace>>, now: Instant) -> Option<Box<TaskTrace>> {
        let old = std::mem::replace(&mut self.trace, trace);
        // Bytes before this moment belong to runs that the new trace does not have.
        self.charging.bytes = 0;
        for index in 0..if self.trace.is_some() { self.states.entries.len() } else { 0 } {
            let (task, entry) = (TaskId::at(index), &self.states.entries[index]);
            // Records show changes only. Without the present states the export would begin each task at its first change.
            let state = match entry.state {
                TaskState::Eligible => TaskEvent::Eligible,
                TaskState::Active if !entry.last_poll_empty => TaskEvent::Active,
                _ => TaskEvent::Idle,
            };
            // For an input task `waiting` is the result of its last poll, not the length of a queue.
            let waiting = if entry.kind == TaskKind::Input { 0 } else { entry.waiting };
            if entry.live {
                self.trace_event(task, state, now);
                // An arrival of zero packets records the initial queue length.
                self.trace_event(task, TaskEvent::Arrived { packets: 0, waiting }, now);
            }
        }
        old
    }

    /// True while a trace is kept.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// Adds bytes that the running task has moved. The caller passes zero if it did not count them.
    #[inline]
    pub fn count_bytes(&mut self, bytes: u32) {
        self.charging.bytes += u64::from(bytes);
    }

    /// Traces the arrival of packets for the task, of which `waiting` now wait.
    #[inline]
    pub fn trace_arrival(&mut self, task: TaskId, packets: usize, waiting: usize, now: Instant) {
        self.trace_event(task, TaskEvent::Arrived { packets: packets as u32, waiting: waiting as u32 }, now);
    }

    /// Traces packets for the task that were dropped.
    #[inline]
    pub fn trace_drop(&mut self, task: TaskId, packets: usize, now: Instant) {
        if packets > 0 {
            self.trace_event(task, TaskEvent::Dropped { packets: packets as u32 }, now);
        }
    }

    /// Traces an empty poll.
    #[inline]
    pub(super) fn trace_poll(&mut self, task: TaskId, used: Nanos, now: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.push_poll(task, used, now);
        }
    }

    #[cold]
    fn write(&mut self, task: TaskId, what: TaskEvent, at: Instant) {
        if let Some(trace) = &mut self.trace {
            trace.push(TraceRecord { at, task, event: what });
        }
    }

    #[inline]
    pub(super) fn trace_event(&mut self, task: TaskId, what: TaskEvent, at: Instant) {
        if self.trace.is_some() {
            self.write(task, what, at);
        }
    }

    #[inline]
    pub(super) fn trace_run(&mut self, task: TaskId, packets: u32, used: Nanos, waiting: u32, now: Instant) {
        if self.trace.is_some() {
            let bytes = u32::try_from(std::mem::take(&mut self.charging.bytes)).unwrap_or(u32::MAX);
            self.write(task, TaskEvent::Yielded { packets, bytes, waiting, used }, now);
        }
    }
}
