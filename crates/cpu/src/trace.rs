//! What an agenda did, moment by moment: kept where somebody wants to look at it, bounded, oldest first out.

pub mod export;

use std::collections::VecDeque;
use units::{Instant, Nanos, TaskId};

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub at: Instant,
    /// To which task.
    pub task: TaskId,
    /// What.
    pub what: What,
}

/// What can happen to a task (spec Q-57).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Packets came for it.
    Came {
        /// How many.
        packets: u32,
        /// Packets that wait for it now.
        waiting: u32,
    },
    /// Packets came for it and were dropped: its queue was full.
    Dropped {
        /// How many.
        packets: u32,
    },
    /// It has something to do, and waits for more.
    Eligible,
    /// It may be picked.
    Active,
    /// It had waited long enough.
    Timeout,
    /// It may run because nothing else would.
    Harvested,
    /// It has nothing to do, no room, or sleeps.
    Idle,
    /// It was picked.
    Dispatched {
        /// Time it took to choose it and to change to it.
        switch: Nanos,
    },
    /// An input task looked at its port again and again, which had nothing.
    Polled {
        /// How often.
        times: u32,
        /// Time that took, with the switches.
        used: Nanos,
        /// The end of the last of them.
        until: Instant,
    },
    /// Its run is over.
    Yielded {
        /// Packets moved.
        packets: u32,
        /// Their bytes.
        bytes: u32,
        /// Packets that wait for it now; of an input task, none is known.
        waiting: u32,
        /// Time taken.
        used: Nanos,
    },
}

/// Ports whose looks are put together, each its own.
const MOST_PORTS: usize = 64;

/// The last so many records.
#[derive(Debug)]
pub struct Trace {
    records: VecDeque<Record>,
    most: usize,
    lost: u64,
}

impl Trace {
    /// Keeps at most `most`, at least one.
    pub fn new(most: usize) -> Trace {
        let most = most.max(1);
        Trace { records: VecDeque::with_capacity(most), most, lost: 0 }
    }

    /// One more; the oldest goes where there is no room.
    pub fn push(&mut self, record: Record) {
        if self.records.len() == self.most {
            self.records.pop_front();
            self.lost += 1;
        }
        self.records.push_back(record);
    }

    /// The task that was dispatched last looked at its port, which had nothing. A worker without work does little else:
    /// such looks are put together where nothing happens between them.
    pub(super) fn polled(&mut self, task: TaskId, used: Nanos, until: Instant) {
        let mut at = until;
        let mut used = used;
        if let Some(&Record { task: last, what: What::Dispatched { switch }, at: picked }) = self.records.back()
            && last == task
        {
            self.records.pop_back();
            (at, used) = (picked, used + switch);
        }
        let ports = self.records.iter_mut().rev().take(MOST_PORTS);
        let mut polls = ports.take_while(|record| matches!(record.what, What::Polled { .. }));
        match polls.find(|record| record.task == task).map(|record| &mut record.what) {
            Some(What::Polled { times, used: sum, until: end }) => {
                (*times, *sum, *end) = (times.saturating_add(1), *sum + used, until);
            }
            _ => self.push(Record { at, task, what: What::Polled { times: 1, used, until } }),
        }
    }

    /// Nothing was kept: for the next time.
    pub fn clear(&mut self) {
        self.records.clear();
        self.lost = 0;
    }

    /// Records that had to go.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// All that was kept, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &Record> {
        self.records.iter()
    }
}
