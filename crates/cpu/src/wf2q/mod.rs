//! Worst-case fair weighted fair queueing with the virtual time of WF2Q+ (Bennett and Zhang, "Hierarchical Packet Fair
//! Queueing Algorithms", IEEE/ACM Transactions on Networking 5(5), 1997, equations 27 to 29).
//!
//! A task with the share r has a start tag S and a finish tag F; V is the virtual time of all.
//!
//! - It wakes: S = max(V, F). It has more to do after a run: S = F.
//! - Prediction, for the choice: F = S + L/r, where L is the time the next run is expected to take; it grows with what comes while
//!   the task waits (not in groups).
//! - Of the runnable tasks with S <= V the one with the least F is picked (ties: the lowest id).
//! - Truth, for the account: it ran for l, so F = S + l/r and V = max(V + l/R, the least S of the runnable), where R is the sum
//!   of the shares of all registered tasks, runnable or not. A run has no end known in advance, and is not cut short.
//! - Where nothing is runnable a busy period ends: V becomes the highest F there was, so that nobody owes for
//!   time that nobody else wanted.
//!
//! **What it promises.** With expectations no shorter than the runs, a task with work has at no time got less than its share
//! r/R of the time since it has work by more than one run of its own and r/R times one of another (theorem 4, with
//! runs for packets); no task is ahead of its share of V by more than one run. V may be behind what the others have
//! had while a task slept: who wakes catches up with them, and gets besides at most r/R times a run of each of them. Each run that exceeds its
//! expectation may add what it exceeds it by, times r/R; so may the first run of each task, of which nothing is known.
//!
//! **How.** Up to 64 tasks lie in flat arrays that one charge looks through once; up to a thousand in a tournament, in which
//! one of those that may run wins by F and one of those that are ahead by S: both of them exact, and of the same answers. Above that
//! they are in groups ([`groups`]), O(1), each with a slightly later start and finish than the exact ones.

mod flat;
mod groups;
mod tournament;

use super::tasks::{Doing, Order};
use super::virtual_time::{Clock, EPOCH, Slope, Virtual, weight};
use crate::Registration;
use flat::Flat;
use groups::Groups;
use plan::Lag;
use tournament::Tournament;
use units::{Nanos, Share};

/// See [`Registration`].
pub const REGISTRATION: Registration = Registration {
    name: "wf2q+",
    summary: "worst-case fair weighted fair queueing: each task has its share at any time, to within one run",
    source: "Bennett, Zhang 1997",
    lag: Lag::OneRun,
    make: || Box::new(Wf2q::new()),
};

/// WF2Q+: O(1) up to 64 tasks and above a thousand, O(log n) between.
pub type Wf2q = super::Tasks<Tags>;

/// Above so many tasks they are in groups; below half as many in a tournament again. Groups are quicker from some dozens on, but a
/// task may lag six times as far behind: as long as being exact costs less than three times what it costs with 16 tasks, it is worth it
/// (adr/0018).
const GROUPED: usize = 1024;

/// Tasks by their tags.
#[derive(Debug, Default)]
pub struct Tags {
    tasks: Vec<Task>,
    clock: Clock,
    /// The highest finish tag there was.
    latest: Virtual,
    waiting: Waiting,
    /// Whether one that was picked is not charged yet.
    running: bool,
    /// Shares as they count in R: apart, because a run does not need them.
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
    /// For [`Groups`]: who comes next in its slot, who a little later, and where that is.
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
        self.expected = length.get().min(u64::from(u32::MAX)) as u32;
    }
}

/// In what the tasks that wait are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Form {
    /// In what suits their number.
    #[default]
    Fitting,
    #[cfg(test)]
    Tournament,
    #[cfg(test)]
    Groups,
}

/// The tasks that wait.
#[derive(Debug)]
enum Waiting {
    Flat(Box<Flat>),
    Tournament(Tournament),
    Groups(Box<Groups>),
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

    /// One that has been inserted while nothing runs may be next.
    #[inline]
    fn offer(&mut self, tasks: &[Task], task: usize, now: Virtual) {
        match self {
            Waiting::Flat(flat) => flat.offer(task, now),
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

    /// Lets those be picked whose start has come by `now`; where there are none, the first of those that are ahead. What
    /// the virtual time is then; none where no task waits.
    #[inline]
    fn advance(&mut self, tasks: &[Task], now: Virtual) -> Option<Virtual> {
        match self {
            Waiting::Flat(flat) => flat.advance(now),
            Waiting::Tournament(tournament) => tournament.advance(tasks, now),
            Waiting::Groups(groups) => groups.advance(now),
        }
    }

    /// A task that waits is expected to finish at another time.
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

    /// Takes all out.
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

impl Tags {
    /// In a tournament, however many there are.
    #[cfg(test)]
    pub(super) fn in_tournament() -> Tags {
        Tags { form: Form::Tournament, waiting: Waiting::Tournament(Tournament::default()), ..Tags::default() }
    }

    /// In groups, however few there are.
    #[cfg(test)]
    pub(super) fn in_groups() -> Tags {
        Tags { form: Form::Groups, waiting: Waiting::Groups(Box::default()), ..Tags::default() }
    }

    /// Nothing runs: who may run next?
    #[inline]
    fn settle(&mut self) {
        let now = self.waiting.advance(&self.tasks, self.clock.now()).unwrap_or(self.latest);
        self.clock.reach(now);
        if self.clock.over() {
            self.set_back();
        }
    }

    #[cold]
    fn set_back(&mut self) {
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

    /// Puts tasks into what suits their number.
    fn fit(&mut self) {
        let flat = self.tasks.len() <= flat::MOST;
        let form = match (&self.waiting, self.form) {
            (Waiting::Flat(_), Form::Fitting) if !flat => Waiting::Tournament(Tournament::default()),
            (Waiting::Tournament(_), Form::Fitting) if self.registered > GROUPED => Waiting::Groups(Box::default()),
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

impl Order for Tags {
    fn add(&mut self, task: usize, share: Share, doing: Doing) {
        self.tasks.resize(self.tasks.len().max(task + 1), Task::default());
        self.weights.resize(self.tasks.len(), 0);
        self.tasks[task] = Task { start: self.clock.now(), slope: Slope::of(share), ..Task::default() };
        self.weights[task] = weight(share);
        self.clock.add(weight(share));
        self.registered += 1;
        self.running |= doing == Doing::Running;
        self.fit();
    }

    fn remove(&mut self, task: usize, doing: Doing) {
        self.clock.remove(self.weights[task]);
        self.registered -= 1;
        match doing {
            Doing::Idle => {}
            Doing::Waiting => self.waiting.remove(&mut self.tasks, task, self.clock.now()),
            Doing::Running => self.running = false,
        }
        self.fit();
        if !self.running {
            self.settle();
        }
    }

    fn share(&mut self, task: usize, share: Share, doing: Doing) {
        self.clock.remove(std::mem::replace(&mut self.weights[task], weight(share)));
        self.clock.add(weight(share));
        if doing == Doing::Waiting {
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
        if !self.running {
            self.waiting.offer(&self.tasks, task, now);
        }
    }

    #[inline]
    fn expect(&mut self, task: usize, expected: Nanos) {
        // Groups are coarser than that.
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
        self.clock.advance(used);
        let charged = &mut self.tasks[task];
        charged.start += charged.slope.span(used);
        self.latest = self.latest.max(charged.start);
        if let Some(next) = next {
            charged.expect(next);
            self.waiting.insert(&mut self.tasks, task, self.clock.now());
        }
        self.settle();
    }
}
