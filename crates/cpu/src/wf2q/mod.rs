//! Worst-case fair weighted fair queueing with the virtual time of WF2Q+ (Bennett and Zhang, "Hierarchical Packet Fair
//! Queueing Algorithms", IEEE/ACM Transactions on Networking 5(5), 1997, equations 27 to 29).
//!
//! A task of share r has a start tag S and a finish tag F. V is the virtual time of all tasks.
//!
//! - On wakeup: S = max(V, F). With more work after a run: S = F.
//!
//! - Prediction, for the choice: F = S + L/r, where L is the expected length of the next run. L grows with arrivals while the task waits (not in
//!   groups).
//!
//! - The runnable task with S <= V and the least F is picked (ties: the lowest id).
//!
//! - Accounting, after a run of actual length l: F = S + l/r and V = max(V + l/R, the least S of the runnable). R is the sum of the shares of all
//!   registered tasks, runnable or not. The length of a run is not known in advance, and a run is not cut short.
//!
//! - When no task is runnable, a busy period ends: V becomes the highest F so far, so that a task does not pay for time that no other task wanted.
//!
//! **Guarantees.** Suppose no run exceeds its expected length. A backlogged task then lags behind its share r/R of the time by at most one run of its
//! own, and r/R times one run of another (theorem 4, with runs for packets). No task is ahead of its share of V by more than one run. V may lag
//! behind the work of the others while a task sleeps. A task that wakes catches up with them, and gets at most r/R times a run of each of them in
//! addition. Each run beyond its expected length may add its excess times r/R; so may the first run of each task, whose length is unknown.
//!
//! **Implementation.** Up to 64 tasks are kept in flat arrays, which a charge scans once. Up to a thousand are in a tournament with two winners: by F
//! among the tasks that may run, and by S among those ahead. Both are exact and give the same answers. Above that they are in groups ([`groups`]),
//! O(1), with slightly later start and finish tags than the exact ones.

mod groups;
mod task_array;
mod tournament;

use super::share_scheduler::{SchedulingState, TaskOrder};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual, weight};
use crate::SchedulerRegistration;
use groups::TaskGroups;
use plan::Lag;
use task_array::TaskArray;
use tournament::Tournament;
use units::{Nanos, Share};

/// See [`SchedulerRegistration`].
pub const REGISTRATION: SchedulerRegistration = SchedulerRegistration {
    name: "wf2q+",
    summary: "worst-case fair weighted fair queueing: each task has its share at any time, to within one run",
    source: "Bennett, Zhang 1997",
    lag: Lag::OneRun,
    make: || Box::new(Wf2q::new()),
};

/// WF2Q+: O(1) up to 64 tasks and above a thousand, O(log n) between.
pub type Wf2q = super::ShareScheduler<Wf2qTasks>;

/// With more tasks than this they are in groups, with less than half as many in a tournament again. Groups are faster from a few dozen tasks on, but
/// the lag bound is six times weaker. The exact form is kept while it costs less than three times as much as with 16 tasks (adr/0018).
const GROUPED: usize = 1024;

/// Tasks by their tags.
#[derive(Debug, Default)]
pub struct Wf2qTasks {
    tasks: Vec<Task>,
    clock: Clock,
    /// The highest finish tag so far.
    latest: Virtual,
    waiting: Waiting,
    /// True while a picked task is not charged yet.
    running: bool,
    /// The shares in R. They are separate from `tasks`, because a run does not need them.
    weights: Vec<u64>,
    registered: usize,
    form: Form,
}

/// One task: half a cache line.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// S of a task that waits or runs, F of an idle one.
    start: Virtual,
    slope: Slope,
    /// L, ns.
    expected: u32,
    /// For [`TaskGroups`]: the successor in its slot, the task to prefetch, and its slot.
    next: u32,
    ahead: u32,
    slot: u16,
}

impl Task {
    /// The finish tag as predicted.
    #[inline]
    fn finish(&self) -> Virtual {
        self.start + self.slope.span(Nanos::new(u64::from(self.expected)))
    }

    #[inline]
    fn expect(&mut self, length: Nanos) {
        // A longer run counts as 2^32 ns, as in `Slope::span`.
        self.expected = length.get().min(u64::from(u32::MAX)) as u32;
    }
}

/// The structure of the waiting tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Form {
    /// The one that suits their number.
    #[default]
    Fitting,
    #[cfg(test)]
    Tournament,
    #[cfg(test)]
    Groups,
}

/// The waiting tasks.
#[derive(Debug)]
enum Waiting {
    Flat(Box<TaskArray>),
    Tournament(Tournament),
    Groups(Box<TaskGroups>),
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting::Flat(Box::default())
    }
}

impl Waiting {
    #[inline]
    fn insert(&mut self, tasks: &mut [Task], task: usize, now: Virtual) {
        match self {
            Waiting::Flat(flat) => flat.insert(task, tasks[task].start, tasks[task].finish()),
            Waiting::Tournament(tournament) => tournament.insert(tasks, task, now),
            Waiting::Groups(groups) => groups.insert(tasks, task),
        }
    }

    /// A task was inserted while nothing runs, so it may be the next.
    #[inline]
    fn offer(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        match self {
            Waiting::Flat(flat) => flat.offer(task, now),
            // The root of the tree names the next task after every insertion.
            Waiting::Tournament(_) => {}
            Waiting::Groups(groups) => groups.offer(tasks, task, now),
        }
    }

    fn remove(&mut self, tasks: &mut [Task], task: usize, now: Virtual) {
        match self {
            Waiting::Flat(flat) => flat.remove(task, now),
            Waiting::Tournament(tournament) => tournament.remove(task),
            Waiting::Groups(groups) => groups.remove(tasks, task, now),
        }
    }

    /// Makes the tasks with a start up to `now` eligible; if there are none, the first of those ahead. Returns the new virtual time, or none if no
    /// task waits.
    #[inline]
    fn advance(&mut self, tasks: &[Task], now: Virtual) -> Option<Virtual> {
        match self {
            Waiting::Flat(flat) => flat.advance(now),
            Waiting::Tournament(tournament) => tournament.advance(tasks, now),
            Waiting::Groups(groups) => groups.advance(now),
        }
    }

    /// Changes the predicted finish of a waiting task.
    #[inline]
    fn expect(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        match self {
            Waiting::Flat(flat) => flat.expect(task, tasks[task].finish(), now),
            Waiting::Tournament(tournament) => tournament.insert(tasks, task, now),
            Waiting::Groups(_) => unreachable!("groups keep what a task was woken for"),
        }
    }

    #[inline]
    fn pick(&mut self, tasks: &[Task]) -> Option<usize> {
        match self {
            Waiting::Flat(flat) => flat.pick(),
            Waiting::Tournament(tournament) => tournament.pick(),
            Waiting::Groups(groups) => groups.pick(tasks),
        }
    }

    /// Removes all tasks and returns them.
    fn drain(&mut self, tasks: &[Task]) -> Vec<usize> {
        match self {
            Waiting::Flat(flat) => flat.drain(),
            Waiting::Tournament(tournament) => tournament.drain(),
            Waiting::Groups(groups) => groups.drain(tasks),
        }
    }

    fn grow(&mut self, tasks: usize) {
        match self {
            Waiting::Flat(_) => {}
            Waiting::Tournament(tournament) => tournament.grow(tasks),
            Waiting::Groups(groups) => groups.grow(tasks),
        }
    }
}

impl Wf2qTasks {
    /// A tournament with any number of tasks.
    #[cfg(test)]
    pub(super) fn in_tournament() -> Wf2qTasks {
        Wf2qTasks {
            form: Form::Tournament,
            waiting: Waiting::Tournament(Tournament::default()),
            ..Wf2qTasks::default()
        }
    }

    /// Groups with any number of tasks.
    #[cfg(test)]
    pub(super) fn in_groups() -> Wf2qTasks {
        Wf2qTasks { form: Form::Groups, waiting: Waiting::Groups(Box::default()), ..Wf2qTasks::default() }
    }

    /// Nothing runs: determines the next task.
    #[inline]
    fn settle(&mut self) {
        // If no task waits the busy period ends, and V becomes the highest finish tag.
        let now = self.waiting.advance(&self.tasks, self.clock.now()).unwrap_or(self.latest);
        self.clock.reach(now);
        if self.clock.needs_set_back() {
            self.set_back();
        }
    }

    #[cold]
    fn set_back(&mut self) {
        // The structures hold copies of tags or slots made from them: they are emptied before the tags change.
        let waiting = self.waiting.drain(&self.tasks);
        self.tasks.iter_mut().for_each(|task| task.start = task.start.saturating_sub(EPOCH));
        self.latest = self.latest.saturating_sub(EPOCH);
        self.clock.set_back();
        self.refill(&waiting);
    }

    fn refill(&mut self, waiting: &[usize]) {
        for &task in waiting {
            self.waiting.insert(&mut self.tasks, task, self.clock.now());
        }
        self.waiting.advance(&self.tasks, self.clock.now());
    }

    /// Moves the tasks to the structure that suits their number.
    fn fit(&mut self) {
        // The arrays are indexed by id, so the highest id counts, not the number of tasks. `tasks` never shrinks, so there is no way back.
        let flat = self.tasks.len() <= task_array::MOST;
        let form = match (&self.waiting, self.form) {
            (Waiting::Flat(_), Form::Fitting) if !flat => Waiting::Tournament(Tournament::default()),
            (Waiting::Tournament(_), Form::Fitting) if self.registered > GROUPED => Waiting::Groups(Box::default()),
            // Half the threshold, so that a number of tasks near it does not rebuild the structure again and again.
            (Waiting::Groups(_), Form::Fitting) if self.registered < GROUPED / 2 => {
                Waiting::Tournament(Tournament::default())
            }
            _ => return self.waiting.grow(self.tasks.len()),
        };
        let waiting = self.waiting.drain(&self.tasks);
        self.waiting = form;
        self.waiting.grow(self.tasks.len());
        self.refill(&waiting);
    }
}

impl TaskOrder for Wf2qTasks {
    fn add(&mut self, task: usize, share: Share, doing: SchedulingState) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.weights.resize(self.tasks.len(), 0);
        self.tasks[task] = Task { start: self.clock.now(), slope: Slope::of(share), ..Task::default() };
        self.weights[task] = weight(share);
        self.clock.add(weight(share));
        self.registered += 1;
        // A task that leaves the background class during its run will be charged here.
        self.running |= doing == SchedulingState::Running;
        self.fit();
    }

    fn remove(&mut self, task: usize, doing: SchedulingState) {
        self.clock.remove(self.weights[task]);
        self.registered -= 1;
        match doing {
            SchedulingState::Idle => {}
            SchedulingState::Waiting => self.waiting.remove(&mut self.tasks, task, self.clock.now()),
            // A picked task is no longer in arrays and groups. From the tournament `settle` removes it.
            SchedulingState::Running => self.running = false,
        }
        self.fit();
        if !self.running {
            self.settle();
        }
    }

    fn share(&mut self, task: usize, share: Share, doing: SchedulingState) {
        self.clock.remove(std::mem::replace(&mut self.weights[task], weight(share)));
        self.clock.add(weight(share));
        if doing == SchedulingState::Waiting {
            // The predicted F depends on the share, and in groups the slot too: the task is inserted again.
            self.waiting.remove(&mut self.tasks, task, self.clock.now());
            self.tasks[task].slope = Slope::of(share);
            self.waiting.insert(&mut self.tasks, task, self.clock.now());
        }
        self.tasks[task].slope = Slope::of(share);
        if !self.running {
            self.settle();
        }
    }

    #[inline]
    fn wake(&mut self, task: usize, expected: Nanos) {
        let now = self.clock.now();
        let woken = &mut self.tasks[task];
        woken.start = now.max(woken.start);
        woken.expect(expected);
        self.waiting.insert(&mut self.tasks, task, now);
        // While a task runs, `charge` looks for the next one anyway.
        if !self.running {
            self.waiting.offer(&self.tasks, task, now);
        }
    }

    #[inline]
    fn expect(&mut self, task: usize, expected: Nanos) {
        // Groups keep the length from the wakeup: their slots are coarse anyway.
        if !matches!(self.waiting, Waiting::Groups(_)) {
            self.tasks[task].expect(expected);
            self.waiting.expect(&self.tasks, task, self.clock.now());
        }
    }

    #[inline]
    fn pick(&mut self) -> Option<usize> {
        let task = self.waiting.pick(&self.tasks);
        self.running = task.is_some();
        task
    }

    #[inline]
    fn charge(&mut self, task: usize, used: Nanos, next: Option<Nanos>) {
        self.running = false;
        // V advances with the run before the task is inserted again, so that `insert` and `settle` compare its new start with the new V.
        self.clock.advance(used);
        let charged = &mut self.tasks[task];
        charged.start += charged.slope.span(used);
        // `start` is F of the run now: S of the next one, if the task has more work.
        self.latest = self.latest.max(charged.start);
        if let Some(next) = next {
            charged.expect(next);
            self.waiting.insert(&mut self.tasks, task, self.clock.now());
        }
        self.settle();
    }
}
