//! Few tasks: two arrays that are looked through once a run, without a branch that depends on the tags.

use super::Virtual;

/// So many tasks at most: their ids are below it.
pub const MOST: usize = 32;
const NONE: usize = usize::MAX;

/// The tasks that wait, by id; and the one whose turn it is.
#[derive(Debug)]
pub struct Flat {
    /// S; [`Virtual::MAX`] where the task does not wait.
    start: [Virtual; MOST],
    /// F as predicted; as well.
    finish: [Virtual; MOST],
    /// Ids above this have never waited.
    ids: usize,
    best: usize,
}

impl Default for Flat {
    fn default() -> Flat {
        Flat { start: [Virtual::MAX; MOST], finish: [Virtual::MAX; MOST], ids: 0, best: NONE }
    }
}

impl Flat {
    #[inline]
    pub fn insert(&mut self, task: usize, start: Virtual, finish: Virtual, now: Virtual) {
        self.start[task] = start;
        self.finish[task] = finish;
        self.ids = self.ids.max(task + 1);
        let best = self.finish.get(self.best).map_or((Virtual::MAX, NONE), |&finish| (finish, self.best));
        if start <= now && (finish, task) < best {
            self.best = task;
        }
    }

    pub fn remove(&mut self, task: usize, now: Virtual) {
        (self.start[task], self.finish[task]) = (Virtual::MAX, Virtual::MAX);
        self.best = self.least_finish(now);
    }

    #[inline]
    pub fn advance(&mut self, now: Virtual) -> Option<Virtual> {
        let first = self.start[..self.ids].iter().fold(Virtual::MAX, |first, &start| first.min(start));
        let now = now.max(first);
        self.best = self.least_finish(now);
        (first != Virtual::MAX).then_some(now)
    }

    /// Of those that may run at `now`, the one with the least finish; the first of several.
    #[inline]
    fn least_finish(&self, now: Virtual) -> usize {
        let (mut least, mut best) = (Virtual::MAX, NONE);
        for (task, (&start, &finish)) in self.start.iter().zip(&self.finish).enumerate().take(self.ids) {
            let finish = if start <= now { finish } else { Virtual::MAX };
            let better = finish < least;
            least = if better { finish } else { least };
            best = if better { task } else { best };
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
        *self = Flat::default();
        waiting
    }
}
