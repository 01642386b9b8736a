//! Few tasks: two arrays, scanned once a run, without a branch that depends on the tags.

use super::Virtual;
use std::hint::select_unpredictable;

/// The most tasks; their ids are below it.
pub const MOST: usize = 64;
const NONE: usize = usize::MAX;

/// The waiting tasks by id, and the next to run.
#[derive(Debug)]
pub struct TaskArray {
    /// S; [`Virtual::MAX`] where the task does not wait.
    start: [Virtual; MOST],
    /// F as predicted; [`Virtual::MAX`] likewise.
    finish: [Virtual; MOST],
    /// Higher ids have never waited.
    ids: usize,
    best: usize,
}

impl Default for TaskArray {
    fn default() -> TaskArray {
        TaskArray { start: [Virtual::MAX; MOST], finish: [Virtual::MAX; MOST], ids: 0, best: NONE }
    }
}

impl TaskArray {
    #[inline]
    pub fn insert(&mut self, task: usize, start: Virtual, finish: Virtual) {
        self.start[task] = start;
        self.finish[task] = finish;
        self.ids = self.ids.max(task + 1);
    }

    /// A task was inserted while nothing runs, so it may be the next.
    #[inline]
    pub fn offer(&mut self, task: usize, now: Virtual) {
        // `NONE` is no index, so `get` returns nothing for it and any eligible task is better.
        let best = self.finish.get(self.best).map_or((Virtual::MAX, NONE), |&finish| (finish, self.best));
        if self.start[task] <= now && (self.finish[task], task) < best {
            self.best = task;
        }
    }

    /// Changes the predicted finish of a task.
    #[inline]
    pub fn expect(&mut self, task: usize, finish: Virtual, now: Virtual) {
        self.finish[task] = finish;
        if self.best == task {
            // A longer run may make another task the next. For any other task one comparison is enough.
            self.best = self.least_finish(now);
        } else if self.best != NONE {
            // Without a best task one is running, and its charge scans all tasks.
            self.offer(task, now);
        }
    }

    pub fn remove(&mut self, task: usize, now: Virtual) {
        (self.start[task], self.finish[task]) = (Virtual::MAX, Virtual::MAX);
        self.best = self.least_finish(now);
    }

    #[inline]
    pub fn advance(&mut self, now: Virtual) -> Option<Virtual> {
        self.best = self.least_finish(now);
        if self.best != NONE {
            return Some(now);
        }
        // No task may run at `now`: V jumps to the least start.
        let first = self.start[..self.ids].iter().copied().min().unwrap_or(Virtual::MAX);
        self.best = self.least_finish(first);
        (first != Virtual::MAX).then_some(first)
    }

    /// The task with the least finish of those with a start up to `now`; the lowest id of several.
    #[inline]
    fn least_finish(&self, now: Virtual) -> usize {
        const STRIDE: usize = 4;
        // The winner is unpredictable: conditional moves instead of branches, four tasks at a time.
        let (mut least, mut best) = (Virtual::MAX, NONE);
        let (starts, finishes) = (self.start.as_chunks::<STRIDE>().0, self.finish.as_chunks::<STRIDE>().0);
        for (chunk, (starts, finishes)) in starts.iter().zip(finishes).enumerate().take(self.ids.div_ceil(STRIDE)) {
            for i in 0..STRIDE {
                let finish = select_unpredictable(starts[i] <= now, finishes[i], Virtual::MAX);
                // Strictly less: of equal finishes the lowest id wins.
                let better = finish < least;
                least = select_unpredictable(better, finish, least);
                best = select_unpredictable(better, chunk * STRIDE + i, best);
            }
        }
        best
    }

    #[inline]
    pub fn pick(&mut self) -> Option<usize> {
        let task = std::mem::replace(&mut self.best, NONE);
        *self.start.get_mut(task)? = Virtual::MAX;
        self.finish[task] = Virtual::MAX;
        Some(task)
    }

    pub fn drain(&mut self) -> Vec<usize> {
        let waiting = (0..self.ids).filter(|&task| self.start[task] != Virtual::MAX).collect();
        *self = TaskArray::default();
        waiting
    }
}
