//! More than a thousand tasks: groups of tasks whose runs are of like virtual length, after QFQ (Checconi, Rizzo and
//! Valente, "QFQ: Efficient Packet Scheduling With Tight Guarantees", IEEE/ACM Transactions on Networking 21(3), 2013).
//!
//! Group g has the tasks with 2^(g-1) < L/r <= 2^g; with s = 2^g it sees their start tags rounded down to multiples of s.
//! All that have the same lie in one slot, first come, first served. The tags of a group are those of its first slot: S' =
//! floor(S/s) s, F' = S' + 2s >= F. Among the groups with S' <= V the one with the least F' gives the first task of
//! its first slot. Where there is none V becomes the least S'.
//!
//! QFQ keeps four sets of groups in bit maps to find that group in a few instructions. Here the groups that are not empty
//! are looked through: at most 62 whatever the number of tasks, and hardly ever more than a dozen, in three cache
//! lines.
//!
//! A group spans 64 slots. A task whose start lies beyond them, because its last run took very much longer than
//! expected, goes to a coarser group where it has a place.
//!
//! With many tasks the time goes into fetching them. Each has the one that was put into the slot a little later fetched when
//! it is picked itself, since a list can be followed no faster than memory answers.
//!
//! **The bound.** A task may be picked up to s before its start, and up to 2s after its finish as the exact tags have them,
//! s being less than twice L/r. So the work of one that waits is never further behind its share than 3 r s and
//! two runs of others times its share (theorem 3 there): less than 6 L + 2 l r, where the exact form has L + l r. `tests`
//! measures both.

use super::{Task, Virtual};
use packet::pool::prefetch;
use std::hint::select_unpredictable;

const NONE: u32 = u32::MAX;
const SLOTS: u64 = 64;
/// A task is fetched from memory while this many others before it in its slot have their turns.
const AHEAD: usize = 4;
/// The coarsest: 2^61 is the longest step of virtual time.
const COARSEST: usize = 61;

/// The tasks that wait.
#[derive(Debug)]
pub struct Groups {
    groups: Box<[Group; COARSEST + 1]>,
    /// S' and F' of each.
    start: [Virtual; COARSEST + 1],
    finish: [Virtual; COARSEST + 1],
    /// A bit for each group that is not empty.
    used: u64,
    best: usize,
    /// Who comes before each task in its slot, or did when it was put there.
    before: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// A bit for each slot that is not empty.
    used: u64,
    /// The number of the first slot that is not empty, counted from virtual time zero.
    first: u64,
    /// The first and the last task of each slot; slots are used in turn.
    slots: [(u32, u32); SLOTS as usize],
}

impl Default for Groups {
    fn default() -> Groups {
        let group = Group { used: 0, first: 0, slots: [(NONE, NONE); SLOTS as usize] };
        let groups = vec![group; COARSEST + 1].into_boxed_slice().try_into().expect("they are as many");
        let (start, finish) = ([0; COARSEST + 1], [0; COARSEST + 1]);
        Groups { groups, start, finish, used: 0, best: NONE as usize, before: Vec::new() }
    }
}

impl Group {
    /// Whether a slot of that number has a place, and then makes it the first where it is.
    #[inline]
    fn reach(&mut self, number: u64) -> bool {
        if self.used == 0 {
            self.first = number;
            return true;
        }
        if number >= self.first {
            return number - self.first < SLOTS;
        }
        let last = self.first + (63 - u64::from(self.in_turn().leading_zeros()));
        let fits = last - number < SLOTS;
        if fits {
            self.first = number;
        }
        fits
    }

    /// Which slots are used, beginning with the first.
    #[inline]
    fn in_turn(&self) -> u64 {
        self.used.rotate_right((self.first % SLOTS) as u32)
    }
}

impl Groups {
    /// Makes room for tasks below `tasks`.
    pub fn grow(&mut self, tasks: usize) {
        self.before.resize(tasks.max(self.before.len()), 0);
    }

    #[inline]
    pub fn insert(&mut self, tasks: &mut [Task], task: usize) {
        let Task { start, .. } = tasks[task];
        let span = tasks[task].finish() - start;
        let mut g = (64 - span.saturating_sub(1).leading_zeros()) as usize;
        while !self.groups[g].reach(start >> g) {
            g += 1;
        }
        let group = &mut self.groups[g];
        let slot = (start >> g) % SLOTS;
        let (first, last) = &mut group.slots[slot as usize];
        let entry = &mut tasks[task];
        (entry.slot, entry.next) = ((g as u16) << 6 | slot as u16, NONE);
        if group.used & 1 << slot == 0 {
            group.used |= 1 << slot;
            *first = task as u32;
        } else {
            self.before[task] = *last;
            tasks[*last as usize].next = task as u32;
            // Whoever is picked so much earlier has this one fetched. It is a hint: who was before may be elsewhere by now.
            let early = (1..AHEAD).fold(*last, |task, _| self.before[task as usize]);
            tasks[early as usize].ahead = task as u32;
        }
        *last = task as u32;
        self.used |= 1 << g;
        self.retag(g);
    }

    /// One that has been inserted while nothing runs: the turn of its group may be next.
    #[inline]
    pub fn offer(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        let g = usize::from(tasks[task].slot >> 6);
        let best = self.finish.get(self.best).map_or((Virtual::MAX, NONE as usize), |&finish| (finish, self.best));
        if self.start[g] <= now && (self.finish[g], g) < best {
            self.best = g;
        }
    }

    /// The tags of a group that is not empty are those of its first slot.
    #[inline]
    fn retag(&mut self, g: usize) {
        let first = self.groups[g].first;
        self.start[g] = first << g;
        self.finish[g] = (first + 2) << g;
    }

    /// A slot has become empty.
    #[inline]
    fn close(&mut self, g: usize, slot: usize) {
        let group = &mut self.groups[g];
        group.used &= !(1 << slot);
        if group.used == 0 {
            self.used &= !(1 << g);
            return;
        }
        group.first += u64::from(group.in_turn().trailing_zeros());
        self.retag(g);
    }

    pub fn remove(&mut self, tasks: &mut [Task], task: usize, now: Virtual) {
        let (Task { next, slot, .. }, before) = (tasks[task], self.before[task]);
        let (g, slot) = (usize::from(slot >> 6), usize::from(slot & 63));
        let (first, last) = &mut self.groups[g].slots[slot];
        let (is_first, is_last) = (*first == task as u32, *last == task as u32);
        match (is_first, is_last) {
            (true, true) => self.close(g, slot),
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
        self.best = self.least_finish(now);
    }

    #[inline]
    pub fn advance(&mut self, now: Virtual) -> Option<Virtual> {
        self.best = self.least_finish(now);
        if self.best != NONE as usize {
            return Some(now);
        }
        let first = self.each().map(|g| self.start[g]).min()?;
        self.best = self.least_finish(first);
        Some(first)
    }

    #[inline]
    fn least_finish(&self, now: Virtual) -> usize {
        let (mut least, mut best) = (Virtual::MAX, NONE as usize);
        for g in self.each() {
            let finish = select_unpredictable(self.start[g] <= now, self.finish[g], Virtual::MAX);
            let better = finish < least;
            least = select_unpredictable(better, finish, least);
            best = select_unpredictable(better, g, best);
        }
        best
    }

    /// The groups that are not empty.
    #[inline]
    fn each(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.used;
        std::iter::from_fn(move || {
            let g = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (g < 64).then_some(g)
        })
    }

    #[inline]
    pub fn pick(&mut self, tasks: &[Task]) -> Option<usize> {
        let g = std::mem::replace(&mut self.best, NONE as usize);
        let group = self.groups.get_mut(g)?;
        let slot = (group.first % SLOTS) as usize;
        let (first, last) = &mut group.slots[slot];
        let task = *first;
        if task == *last {
            self.close(g, slot);
        } else {
            *first = tasks[task as usize].next;
        }
        if let Some(soon) = tasks.get(tasks[task as usize].ahead as usize) {
            prefetch(soon);
        }
        Some(task as usize)
    }

    pub fn drain(&mut self, tasks: &[Task]) -> Vec<usize> {
        let mut waiting = Vec::new();
        self.best = self.each().next().unwrap_or(NONE as usize);
        while let Some(task) = self.pick(tasks) {
            waiting.push(task);
            self.best = self.each().next().unwrap_or(NONE as usize);
        }
        waiting
    }
}
