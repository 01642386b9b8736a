//! The trace of a run queue: a bounded ring of records, the oldest overwritten first.

pub mod export;

use std::collections::VecDeque;
use units::{Instant, Nanos, TaskId};

/// A trace record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRecord {
    /// The time of the event.
    pub at: Instant,
    /// Its task.
    pub task: TaskId,
    /// The event.
    pub event: TaskEvent,
}

/// The events of a task (spec Q-57).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskEvent {
    /// Packets arrived for it.
    Arrived {
        /// How many.
        packets: u32,
        /// Packets that now wait for it.
        waiting: u32,
    },
    /// Packets for it were dropped because its queue was full.
    Dropped {
        /// How many.
        packets: u32,
    },
    /// It has work, and waits for more.
    Eligible,
    /// It may be picked.
    Active,
    /// Its timer has expired.
    Timeout,
    /// It became active because no other task had work.
    Harvested,
    /// It has no work or no room, or it sleeps.
    Idle,
    /// It was picked.
    Dispatched {
        /// The time to choose it and switch to it.
        switch: Nanos,
    },
    /// An input task polled its empty port, once or several times.
    Polled {
        /// The number of polls.
        times: u32,
        /// Their time, with the switches.
        used: Nanos,
        /// The end of the last one.
        until: Instant,
    },
    /// Its run is over.
    Yielded {
        /// Packets moved.
        packets: u32,
        /// Their bytes.
        bytes: u32,
        /// Packets that now wait for it; zero for an input task, where the number is unknown.
        waiting: u32,
        /// The time it took.
        used: Nanos,
    },
}

/// The number of ports whose consecutive empty polls are merged, each into its own record.
const MOST_PORTS: usize = 64;

/// A trace of bounded length.
#[derive(Debug)]
pub struct TaskTrace {
    records: VecDeque<TraceRecord>,
    capacity: usize,
    lost: u64,
}

impl TaskTrace {
    /// A trace of at most `most` records, and at least one.
    pub fn new(most: usize) -> TaskTrace {
        let most = most.max(1);
        // All memory at once: a push while packets are forwarded must not allocate.
        TaskTrace { records: VecDeque::with_capacity(most), capacity: most, lost: 0 }
    }

    /// Adds a record. If the trace is full the oldest is dropped.
    pub fn push(&mut self, record: TraceRecord) {
        if self.records.len() == self.capacity {
            self.records.pop_front();
            self.lost += 1;
        }
        self.records.push_back(record);
    }

    /// The task that was dispatched last polled an empty port. An idle worker does little else, so consecutive empty polls of a port are merged into
    /// one record.
    pub(super) fn push_poll(&mut self, task: TaskId, used: Nanos, until: Instant) {
        let mut at = until;
        let mut used = used;
        if let Some(&TraceRecord { task: last, event: TaskEvent::Dispatched { switch }, at: picked }) =
            self.records.back()
            && last == task
        {
            // The dispatch of this poll becomes a part of the merged record.
            self.records.pop_back();
            (at, used) = (picked, used + switch);
        }
        // Several empty ports take turns, so the record of this one may be some places back. Any other record ends the series.
        let ports = self.records.iter_mut().rev().take(MOST_PORTS);
        let mut polls = ports.take_while(|record| matches!(record.event, TaskEvent::Polled { .. }));
        match polls.find(|record| record.task == task).map(|record| &mut record.event) {
            Some(TaskEvent::Polled { times, used: sum, until: end }) => {
                (*times, *sum, *end) = (times.saturating_add(1), *sum + used, until);
            }
            _ => self.push(TraceRecord { at, task, event: TaskEvent::Polled { times: 1, used, until } }),
        }
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.records.clear();
        self.lost = 0;
    }

    /// The number of records dropped.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All records, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &TraceRecord> {
        self.records.iter()
    }
}
