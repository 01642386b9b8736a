//! More than a thousand tasks: groups of tasks whose runs are of like virtual length ([`Slots`]), in each slot first come, first
//! served. Where no group may go at V, V becomes the least start of them.
//!
//! With many tasks the time goes into fetching them. Each has the one that was put into the slot a little later fetched when
//! it is picked itself, since a list can be followed no faster than memory answers.
//!
//! **The bound.** A task may be picked up to s before its start, and up to 2s after its finish as the exact tags have them,
//! s being less than twice L/r. So the work of one that waits is never further behind its share than 3 r s and
//! two runs of others times its share (QFQ, theorem 3): less than 6 L + 2 l r, where the exact form has L + l r. For the same
//! reason it may be ahead of V by L + r s, less than 3 L, where the exact form has L; who wakes beside others that are ahead by so much catches up with
//! them. `tests` measures both.

use super::{Task, Virtual};
use packet::pool::prefetch;

const NONE: u32 = u32::MAX;
/// A task is fetched from memory while this many others before it in its slot have their turns.
const AHEAD: usize = 4;

/// 2^61 is the longest step of virtual time.
type Slots = units::Slots<62>;

/// The tasks that wait.
#[derive(Debug)]
pub struct Groups {
    slots: Slots,
    /// The first and the last task of each slot that is open.
    ends: Box<[(u32, u32)]>,
    /// The group whose turn it is.
    best: Option<usize>,
    /// Who comes before each task in its slot, or did when it was put there.
    before: Vec<u32>,
}

impl Default for Groups {
    fn default() -> Groups {
        let ends = vec![(NONE, NONE); Slots::COUNT].into_boxed_slice();
        Groups { slots: Slots::default(), ends, best: None, before: Vec::new() }
    }
}

impl Groups {
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
            // Whoever is picked so much earlier has this one fetched. It is a hint: who was before may be elsewhere by now.
            let early = (1..AHEAD).fold(*last, |task, _| self.before[task as usize]);
            tasks[early as usize].ahead = task as u32;
        } else {
            *first = task as u32;
        }
        *last = task as u32;
    }

    /// One that has been inserted while nothing runs: the turn of its group may be next.
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
        self.best = self.slots.turn(now);
    }

    #[inline]
    pub fn advance(&mut self, now: Virtual) -> Option<Virtual> {
        self.best = self.slots.turn(now);
        if self.best.is_some() {
            return Some(now);
        }
        let first = self.slots.least_start()?;
        self.best = self.slots.turn(first);
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
        if let Some(soon) = tasks.get(tasks[task as usize].ahead as usize) {
            prefetch(soon);
        }
        Some(task as usize)
    }

    pub fn drain(&mut self, tasks: &[Task]) -> Vec<usize> {
        std::iter::from_fn(|| {
            self.best = self.slots.groups().next();
            self.pick(tasks)
        })
        .collect()
    }
}
