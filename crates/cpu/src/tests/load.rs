//! Tasks that sleep and wake at random, and the deviation of each from its share while it has work.
//!
//! Only runs let time pass. When no task has work, the clock jumps to the next wakeup. Lags are in nanoseconds of work, in floating point: they are
//! measured and decide nothing.

use super::*;

/// Random numbers (xorshift: Marsaglia 2003).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below.max(1)
    }
}

/// The demand of a task.
#[derive(Clone, Copy, Debug)]
pub struct TaskDemand {
    /// Its share in millionths of the core.
    pub share: u64,
    /// Its longest run, ns; the shortest is a quarter of it.
    pub longest: u64,
    /// The mean times with and without work, ns. With `off` zero it always has work.
    pub on: u64,
    pub off: u64,
}

/// The accuracy of the expected length of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foresight {
    /// The true length.
    Exact,
    /// The longest possible length.
    Longest,
    /// Nothing.
    None,
}

/// The result of one task, ns.
#[derive(Clone, Copy, Default, Debug)]
pub struct Outcome {
    pub got: f64,
    /// Its greatest lag behind its share r/R of any interval in which it had work.
    pub worst: f64,
    /// Its greatest lag behind a fluid system since it woke, which gives it r over the shares of the backlogged tasks.
    pub worst_fluid: f64,
    /// Its greatest lead over that fluid in the first 10 ms after it woke.
    pub ahead: f64,
}

#[derive(Clone, Copy, Default)]
struct Task {
    awake: bool,
    /// When it next wakes or sleeps.
    until: u64,
    /// The length of its next run.
    run: u64,
    woke: u64,
    lag: f64,
    fluid: f64,
}

pub struct LoadRun<'a> {
    scheduler: &'a mut dyn CpuScheduler,
    demands: &'a [TaskDemand],
    foresight: Foresight,
    dice: Dice,
    now: u64,
    tasks: Vec<Task>,
    outcomes: Vec<Outcome>,
}

/// Lets tasks run for `span` nanoseconds.
pub fn run_load(way: SchedulerCase, wants: &[TaskDemand], foresight: Foresight, seed: u64, span: u64) -> Vec<Outcome> {
    let mut scheduler = (way.make)();
    let (tasks, outcomes) = (vec![Task::default(); wants.len()], vec![Outcome::default(); wants.len()]);
    for (task, want) in wants.iter().enumerate() {
        scheduler.add(TaskId::at(task), Share::of(want.share, 1_000_000));
    }
    let dice = Dice::new(seed);
    let mut play = LoadRun { scheduler: &mut *scheduler, demands: wants, foresight, dice, now: 0, tasks, outcomes };
    for (task, want) in wants.iter().enumerate() {
        play.tasks[task].until = play.dice.roll(want.off);
    }
    while play.now < span {
        play.step();
    }
    play.outcomes
}

impl LoadRun<'_> {
    fn expected_length(&self, task: usize) -> Nanos {
        Nanos::new(match self.foresight {
            Foresight::Exact => self.tasks[task].run,
            Foresight::Longest => self.demands[task].longest,
            Foresight::None => 0,
        })
    }

    fn roll_run(&mut self, task: usize) {
        let longest = self.demands[task].longest;
        self.tasks[task].run = longest / 4 + self.dice.roll(longest - longest / 4 + 1);
    }

    /// Wakes the tasks whose time has come.
    fn wake(&mut self, running: Option<usize>) {
        for task in (0..self.tasks.len()).filter(|&task| Some(task) != running) {
            let want = self.demands[task];
            if self.tasks[task].awake || self.tasks[task].until > self.now {
                continue;
            }
            let until = if want.off == 0 { u64::MAX } else { self.now + 1 + self.dice.roll(2 * want.on) };
            self.tasks[task] = Task { awake: true, until, woke: self.now, ..Task::default() };
            self.roll_run(task);
            self.scheduler.wake(TaskId::at(task), self.expected_length(task), Instant::new(self.now));
        }
    }

    fn step(&mut self) {
        self.wake(None);
        let Some(task) = self.scheduler.pick(Instant::new(self.now)).map(TaskId::index) else {
            self.now = self.tasks.iter().map(|task| task.until).min().expect("there are tasks");
            return;
        };
        assert!(self.tasks[task].awake, "a task without work runs");
        let used = self.tasks[task].run;
        let end = self.now + used;
        // Tasks that wake during the run compete from their own time on.
        loop {
            let woken = self.tasks.iter().filter(|task| !task.awake).map(|task| task.until).min();
            let to = end.min(woken.unwrap_or(end).max(self.now));
            self.pass(to, task);
            if to == end {
                break;
            }
            self.wake(Some(task));
        }
        let more = self.tasks[task].until > self.now;
        if more {
            self.roll_run(task);
        } else {
            self.tasks[task].awake = false;
            self.tasks[task].until = self.now + 1 + self.dice.roll(2 * self.demands[task].off);
        }
        let next = more.then(|| self.expected_length(task));
        self.scheduler.charge(TaskId::at(task), Nanos::new(used), next, Instant::new(self.now));
    }

    /// Time passes while `running` runs.
    fn pass(&mut self, to: u64, running: usize) {
        let passed = (to - self.now) as f64;
        self.now = to;
        let all: u64 = self.demands.iter().map(|want| want.share).sum();
        let competing: u64 =
            self.demands.iter().zip(&self.tasks).filter(|(_, task)| task.awake).map(|(want, _)| want.share).sum();
        for (i, task) in self.tasks.iter_mut().enumerate().filter(|(_, task)| task.awake) {
            let got = if i == running { passed } else { 0.0 };
            let share = self.demands[i].share as f64;
            let outcome = &mut self.outcomes[i];
            outcome.got += got;
            task.lag = (task.lag + passed * share / all as f64 - got).max(0.0);
            task.fluid += passed * share / competing as f64 - got;
            outcome.worst = outcome.worst.max(task.lag);
            outcome.worst_fluid = outcome.worst_fluid.max(task.fluid);
            if to - task.woke <= 10_000_000 {
                outcome.ahead = outcome.ahead.max(-task.fluid);
            }
        }
    }
}
