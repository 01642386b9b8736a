//! More than a thousand tasks: groups of tasks whose runs have similar virtual lengths ([`Slots`]), first come, first served within a slot. If no
//! group may run at V, V jumps to their least start.
//!
//! With many tasks most of the time is spent on cache misses. A linked list cannot be followed faster than memory answers. Each pick therefore
//! prefetches a task that comes a few places later in the same slot.
//!
//! **The bound.** A task may be picked up to s before its exact start, and up to 2s after its exact finish, where s is less than twice L/r. The work
//! of a waiting task therefore lags behind its share by at most 3 r s, and two runs of others times its share (QFQ, theorem 3). That is less than
//! 6 L + 2 l r; the exact form has L + l r. For the same reason a task may be ahead of V by L + r s, less than 3 L; the exact form has L. A task that
//! wakes beside such tasks catches up with them. `tests` measures both.

use super::{Task, Virtual};
use packet::pool::prefetch;

const NONE: u32 = u32::MAX;
/// A task is prefetched while this many tasks before it in its slot run.
const AHEAD: usize = 4;

/// 2^61 is the longest step of virtual time.
type Slots = units::QfqSlots<62>;

/// The waiting tasks.
#[derive(Debug)]
pub struct TaskGroups {
    slots: Slots,
    /// The first and the last task of each occupied slot.
    ends: Box<[(u32, u32)]>,
    /// The group that runs next.
    best: Option<usize>,
    /// The predecessor of each task in its slot, at least when it was inserted.
    before: Vec<u32>,
}

impl Default for TaskGroups {
    fn default() -> TaskGroups {
        let ends = vec![(NONE, NONE); Slots::COUNT].into_boxed_slice();
        TaskGroups { slots: Slots::default(), ends, best: None, before: Vec::new() }
    }
}

impl TaskGroups {
    /// Makes room for tasks below `tasks`.
    pub fn grow(&mut self, tasks: usize) {
        self.before.resize(tasks.max(self.before.len()), 0);
    }

    #[inline]
    pub fn insert(&mut self, tasks: &mut [Task], task: usize) {
        let entry = &mut tasks[task];
        let (slot, was_open) = self.slots.open(entry.start, entry.finish());
        (entry.slot, entry.next) = (slot as u16, NONE);
        let (first, last) = &mut self.ends[slot];
        if was_open {
            self.before[task] = *last;
            tasks[*last as usize].next = task as u32;
            // The task so many places earlier prefetches this one when it is picked. This is only a hint: the predecessors may have moved since.
            let early = (1..AHEAD).fold(*last, |task, _| self.before[task as usize]);
            tasks[early as usize].ahead = task as u32;
        } else {
            *first = task as u32;
        }
        *last = task as u32;
    }

    /// A task was inserted while nothing runs, so its group may be the next.
    #[inline]
    pub fn offer(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        self.best = self.slots.better(Slots::group(usize::from(tasks[task].slot)), self.best, now);
    }

    pub fn remove(&mut self, tasks: &mut [Task], task: usize, now: Virtual) {
        let (Task { next, slot, .. }, before) = (tasks[task], self.before[task]);
        let (first, last) = &mut self.ends[usize::from(slot)];
        let (is_first, is_last) = (*first == task as u32, *last == task as u32);
        match (is_first, is_last) {
            (true, true) => self.slots.close(usize::from(slot)),
            // The slot stays open and the tags of the group are those of the slot, so nothing else changes.
            (true, false) => *first = next,
            (false, true) => {
                *last = before;
                tasks[before as usize].next = NONE;
            }
            (false, false) => {
                tasks[before as usize].next = next;
                self.before[next as usize] = before;
            }
        }
        self.best = self.slots.next_group(now);
    }

    #[inline]
    pub fn advance(&mut self, now: Virtual) -> Option<Virtual> {
        self.best = self.slots.next_group(now);
        if self.best.is_some() {
            return Some(now);
        }
        // The rounded starts decide here too. V may therefore jump less far than to the exact start.
        let first = self.slots.least_start()?;
        self.best = self.slots.next_group(first);
        Some(first)
    }

    #[inline]
    pub fn pick(&mut self, tasks: &[Task]) -> Option<usize> {
        let slot = self.slots.first(self.best.take()?);
        let (first, last) = &mut self.ends[slot];
        let task = *first;
        if task == *last {
            self.slots.close(slot);
        } else {
            *first = tasks[task as usize].next;
        }
        // An outdated hint only prefetches a line in vain.
        if let Some(soon) = tasks.get(tasks[task as usize].ahead as usize) {
            prefetch(soon);
        }
        Some(task as usize)
    }

    pub fn drain(&mut self, tasks: &[Task]) -> Vec<usize> {
        std::iter::from_fn(|| {
            // In any order of groups: the caller inserts the tasks again by their tags.
            self.best = self.slots.groups().next();
            self.pick(tasks)
        })
        .collect()
    }
}
