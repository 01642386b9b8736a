//! What an agenda did, moment by moment: kept where somebody wants to look at it, bounded, oldest first out.

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
    /// It has something to do, and waits for more.
    Eligible,
    /// It may be picked.
    Active,
    /// It had waited long enough.
    Timeout,
    /// It was picked.
    Dispatched,
    /// Its run is over.
    Yielded {
        /// Packets moved.
        packets: u32,
        /// Time taken.
        used: Nanos,
    },
}

/// The last so many records.
#[derive(Debug)]
pub struct Trace {
    records: VecDeque<Record>,
    most: usize,
}

impl Trace {
    /// Keeps at most `most`, at least one.
    pub fn new(most: usize) -> Trace {
        let most = most.max(1);
        Trace { records: VecDeque::with_capacity(most), most }
    }

    /// One more; the oldest goes where there is no room.
    pub fn push(&mut self, record: Record) {
        if self.records.len() == self.most {
            self.records.pop_front();
        }
        self.records.push_back(record);
    }

    /// All that was kept, oldest first.
    pub fn into_records(self) -> Vec<Record> {
        self.records.into()
    }
}
