//! Up to a thousand tasks: a heap of those that may run, by finish, and one of those that are ahead, by start.

use super::super::heap::Heap;
use super::{Task, Virtual};

/// The tasks that wait.
#[derive(Debug, Default)]
pub struct Heaps {
    /// S <= V, by F.
    eligible: Heap,
    /// S > V, by S.
    ahead: Heap,
}

impl Heaps {
    pub fn grow(&mut self, tasks: usize) {
        self.eligible.grow(tasks);
        self.ahead.grow(tasks);
    }

    #[inline]
    pub fn insert(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        let start = tasks[task].start;
        if start <= now {
            self.eligible.insert(tasks[task].finish(), task);
        } else {
            self.ahead.insert(start, task);
        }
    }

    pub fn remove(&mut self, task: usize) {
        self.eligible.remove(task);
        self.ahead.remove(task);
    }

    #[inline]
    pub fn advance(&mut self, tasks: &[Task], mut now: Virtual) -> Option<Virtual> {
        while let Some((start, task)) = self.ahead.first() {
            if start > now {
                if !self.eligible.is_empty() {
                    break;
                }
                now = start;
            }
            self.ahead.pop();
            self.eligible.insert(tasks[task].finish(), task);
        }
        (!self.eligible.is_empty()).then_some(now)
    }

    #[inline]
    pub fn pick(&mut self) -> Option<usize> {
        self.eligible.pop().map(|(_, task)| task)
    }

    pub fn drain(&mut self) -> Vec<usize> {
        self.eligible.drain().chain(self.ahead.drain()).map(|(_, task)| task).collect()
    }
}
