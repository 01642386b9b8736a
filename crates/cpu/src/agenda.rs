//! The agenda of one core: which of its tasks may run, which runs next, and for how much.
//!
//! It stands between the worker, which knows packets, and a [`CpuScheduler`], which knows shares. A task is *idle* where it
//! has nothing to do or no room to put it, *eligible* where it has something to do but changing to it is not worth its
//! cost yet, *active* where the discipline may pick it, and *running* (Qie et al. 2001, section 4.3 and figure 9). Only
//! under the throttle is a task ever eligible without being active; an input task sleeps instead, as long as its port's
//! estimator says.
//!
//! Like the disciplines it picks and charges, and runs nothing: it is tested without a packet.

mod charging;
mod entry;
mod limits;
mod remarks;
mod rules;
mod seen;
mod sleeping;
mod states;

use super::task::{Grant, Kind, Run, State, Terms, Times};
use super::trace::{Trace, What};
use super::{CpuScheduler, Estimator, Ring, Schedulers, Tuning, Wf2q, wf2q};
use charging::Charging;
use entry::Entry;
use limits::Limits;
use plan::{Charge, CpuPlan, EstimatorPlan};
use remarks::Patience;
use sleeping::Sleeping;
use states::States;
use std::cmp::Reverse;
use units::{Instant, Nanos, TaskId};

/// A packet whose functions cost so much or more is a vector of its own. Not so at a port: a call costs one what it does many.
const DEAR: u64 = 1000;
/// A switch is taken to cost four times the mean and this at most.
const JITTER: Nanos = Nanos::new(100);
/// Packets of a vector at most: what a batch holds.
const VECTOR: u32 = 256;
/// Packets of a vector while nothing is known of their cost.
pub const UNKNOWN: u32 = 16;

/// How long a core is lent at most where a run has no slice.
const LENT: Nanos = plan::LENT;

/// How long a core is lent at once to functions that are interrupted, where a run may last `slice`.
pub fn lending(slice: Nanos) -> Nanos {
    if slice == Nanos::MAX { LENT } else { slice }
}

/// Dispatches that others do at most between two looks at ports that had nothing.
const LOOK: u32 = 8;

/// See the [module](self).
// Large: a method for each thing that a worker tells it or asks; its state is in four parts.
pub struct Agenda {
    discipline: Box<dyn CpuScheduler>,
    schedulers: Schedulers,
    /// The name of the one that `discipline` is.
    scheduler: &'static str,
    states: States,
    limits: Limits,
    sleeping: Sleeping,
    charging: Charging,
    tuning: Option<Tuning>,
    trace: Option<Box<Trace>>,
    patience: Patience,
}

impl Agenda {
    /// No tasks; `measured` is what a switch was found to cost at start.
    pub fn new(measured: Nanos) -> Agenda {
        let plan = CpuPlan::default();
        let mut agenda = Agenda {
            discipline: Box::new(Wf2q::new()),
            scheduler: wf2q::REGISTRATION.name,
            schedulers: Schedulers::default(),
            states: States::default(),
            limits: Limits::default(),
            sleeping: Sleeping::default(),
            charging: Charging::new(measured),
            tuning: None,
            trace: None,
            patience: Patience::default(),
        };
        agenda.rule(&plan, Instant::START);
        agenda
    }

    /// A new task, idle. An input task is [`Agenda::rouse`]d, others are [`Agenda::look`]ed at.
    pub fn add(&mut self, kind: Kind, terms: Terms, now: Instant) -> TaskId {
        let entry = Entry::new(kind, terms, now);
        let task = match self.states.spare.pop() {
            Some(task) => {
                self.states.entries[task.index()] = entry;
                task
            }
            None => {
                self.states.entries.push(entry);
                TaskId::at(self.states.entries.len() - 1)
            }
        };
        self.discipline.add(task, terms.share);
        self.set_threshold(task);
        task
    }

    /// The task is gone, whatever it was doing.
    pub fn remove(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        assert!(entry.live, "task {task} is there");
        let (was, dry) = (entry.state, entry.dry);
        entry.enter(State::Idle, now);
        (entry.live, entry.due) = (false, Instant::FAR);
        self.states.left(was, dry);
        self.sleeping.back.retain(|&other| other != task);
        self.discipline.remove(task);
        self.states.spare.push(task);
        if self.charging.last == Some(task) {
            self.charging.last = None;
        }
    }

    /// The task has other terms from now on.
    pub fn set(&mut self, task: TaskId, terms: Terms) {
        let entry = &mut self.states.entries[task.index()];
        if entry.terms.share != terms.share {
            self.discipline.share(task, terms.share);
        }
        if entry.terms.cost != terms.cost {
            entry.cost.declare(terms.cost);
        }
        entry.terms = terms;
        self.set_threshold(task);
    }

    /// The port of an input task has this estimator from now on, or none. Without one the task steps back where it finds
    /// nothing: it looks again when nothing else is to be done, and after a few dispatches of others; unless it is `greedy`
    /// and keeps its turns.
    pub fn estimate(&mut self, task: TaskId, plan: Option<EstimatorPlan>, greedy: bool, ring: Ring, now: Instant) {
        let ring = Ring { batch: self.limits.rules[Kind::Input as usize].packets, ..ring };
        let entry = &mut self.states.entries[task.index()];
        entry.greedy = greedy;
        entry.lately.lasts = ring.line_rate.map(|_| ring.longest_sleep());
        match (&mut entry.estimator, plan) {
            (Some(estimator), Some(plan)) => estimator.set(&plan, ring),
            (place, plan) => *place = plan.map(|plan| Box::new(Estimator::new(&plan, ring))),
        }
        if plan.is_none() && entry.due != Instant::FAR {
            self.rouse(task, now);
        }
    }

    /// A task that slept or waited for its port looks again now.
    pub fn rouse(&mut self, task: TaskId, now: Instant) {
        let entry = &self.states.entries[task.index()];
        if entry.live && matches!(entry.state, State::Idle | State::Eligible) {
            self.activate(task, now);
        }
    }

    /// An input task stops polling until it is roused.
    pub fn still(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        if entry.live && entry.state == State::Active {
            let dry = entry.dry;
            entry.enter(State::Idle, now);
            self.states.left(State::Active, dry);
            self.sleeping.back.retain(|&other| other != task);
            let share = self.states.entries[task.index()].terms.share;
            self.discipline.remove(task);
            self.discipline.add(task, share);
        }
        self.states.entries[task.index()].due = Instant::FAR;
    }

    /// A packet came for the task, or left from behind it: `waiting` wait now, and there is room for `room` (spec Q-46).
    #[inline]
    pub fn look(&mut self, task: TaskId, waiting: usize, room: usize, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        entry.waiting = waiting as u32;
        match entry.state {
            State::Idle | State::Eligible if entry.live && waiting > 0 && room > 0 => self.consider(task, room, now),
            // It was woken for fewer packets than it will find: what it promised the discipline would be too short.
            State::Active if entry.kind != Kind::Input => {
                let expected = entry.expected(self.limits.rules[entry.kind as usize]);
                if expected > entry.foretold {
                    entry.foretold = expected;
                    self.discipline.expect(task, expected);
                }
            }
            _ => {}
        }
    }

    fn consider(&mut self, task: TaskId, room: usize, now: Instant) {
        let entry = &self.states.entries[task.index()];
        let (waiting, threshold) = (entry.waiting, entry.threshold);
        if waiting >= threshold && room as u32 >= threshold {
            self.activate(task, now);
        } else if entry.state == State::Idle {
            self.wait(task, now);
        }
    }

    /// The task becomes active.
    fn activate(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        if entry.state == State::Eligible {
            self.states.eligible -= 1;
        }
        entry.due = Instant::FAR;
        entry.enter(State::Active, now);
        let expected = entry.expected(self.limits.rules[entry.kind as usize]);
        entry.foretold = expected;
        // An input task whose time has come is to look, whatever it found before.
        entry.dry = false;
        self.states.busy += 1;
        self.discipline.wake(task, expected, now);
        self.note(task, What::Active, now);
    }

    /// The task becomes eligible, and its time begins.
    fn wait(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        self.states.eligible += usize::from(entry.state != State::Eligible);
        entry.enter(State::Eligible, now);
        if let Some(most) = entry.terms.max_wait.or(self.limits.max_wait).filter(|&most| most != Nanos::MAX) {
            entry.due = now + most;
            self.sleeping.timers.push(Reverse((entry.due, task)));
        }
        self.note(task, What::Eligible, now);
    }

    /// The task to run now, and for how much; nothing where none is active. Its switch is told with
    /// [`Agenda::switched`], its end with [`Agenda::ran`] or [`Agenda::polled`].
    #[inline]
    pub fn pick(&mut self, now: Instant) -> Option<Grant> {
        if let Some(&Reverse((due, _))) = self.sleeping.timers.peek()
            && due <= now
        {
            self.fire(now);
        }
        if self.tuning.as_ref().is_some_and(|tuning| tuning.next() <= now) {
            self.observe(now);
        }
        if self.states.busy == 0 && self.states.eligible > 0 && self.limits.harvest {
            self.harvest(now);
        }
        // Where nobody has anything to do, who polls by the discipline and who has stepped back take turns.
        let most = if self.states.busy == 0 { 1 } else { LOOK };
        let task = if !self.sleeping.back.is_empty() && self.sleeping.since_look >= most {
            self.look_back()
        } else {
            self.sleeping.since_look += 1;
            match self.discipline.pick(now) {
                Some(task) => task,
                None if self.sleeping.back.is_empty() => return None,
                None => self.look_back(),
            }
        };
        let entry = &mut self.states.entries[task.index()];
        self.states.busy -= usize::from(!entry.dry);
        let lag = now.since(entry.since);
        entry.account.lag = entry.account.lag.max(lag);
        entry.lately.lag = entry.lately.lag.max(lag);
        entry.enter(State::Running, now);
        let rule = self.limits.rules[entry.kind as usize];
        let alone = self.limits.apart && entry.kind == Kind::Forwarding;
        let vector = self.limits.vector.unwrap_or_else(|| {
            let cost = entry.each().get();
            match cost {
                DEAR.. if alone => 1,
                0 => UNKNOWN,
                _ if cost * u64::from(VECTOR) > rule.slice.get() => (rule.slice.get() / cost).max(1) as u32,
                _ => VECTOR,
            }
        });
        self.charging.picked = now;
        Some(Grant { task, packets: rule.packets, slice: rule.slice, vector })
    }

    /// The next task that has stepped back, for a look.
    fn look_back(&mut self) -> TaskId {
        self.sleeping.since_look = 0;
        let task = self.sleeping.back.pop_front().expect("there is one");
        self.states.entries[task.index()].looking = true;
        task
    }

    /// Timers that have gone off.
    #[cold]
    fn fire(&mut self, now: Instant) {
        while let Some(&Reverse((due, task))) = self.sleeping.timers.peek()
            && due <= now
        {
            self.sleeping.timers.pop();
            let entry = &mut self.states.entries[task.index()];
            // One that was not waited for any more, or that another has followed.
            if !entry.live || entry.due != due {
                continue;
            }
            if entry.state == State::Eligible {
                entry.account.timeouts += 1;
                self.note(task, What::Timeout, now);
            }
            self.activate(task, now);
        }
    }

    /// Every eligible task becomes active, and ports that have nothing step back, until there are other rules: what waits
    /// is to go.
    pub fn hurry(&mut self, now: Instant) {
        self.sleeping.hurried = true;
        for index in 0..if self.states.eligible > 0 { self.states.entries.len() } else { 0 } {
            if self.states.entries[index].live && self.states.entries[index].state == State::Eligible {
                self.activate(TaskId::at(index), now);
            }
        }
    }

    /// The fullest of the eligible tasks becomes active: there is nothing better to do (spec Q-4A).
    #[cold]
    fn harvest(&mut self, now: Instant) {
        let eligible = |entry: &&(usize, &Entry)| entry.1.live && entry.1.state == State::Eligible;
        let fullest = self
            .states
            .entries
            .iter()
            .enumerate()
            .filter(|e| eligible(&e))
            .max_by_key(|(i, e)| (e.waiting, Reverse(*i)));
        if let Some(task) = fullest.map(|(index, _)| TaskId::at(index)) {
            self.states.entries[task.index()].account.harvested += 1;
            self.note(task, What::Harvested, now);
            self.activate(task, now);
        }
    }

    /// The picked task was changed to, which took `cost`.
    #[inline]
    pub fn switched(&mut self, task: TaskId, cost: Nanos) {
        self.charging.times.switching += cost;
        self.charging.switched = Nanos::ZERO;
        match self.limits.charge {
            Charge::None => {}
            Charge::Incoming => self.charging.switched = cost,
            Charge::Outgoing => {
                if let Some(last) = self.charging.last {
                    self.states.entries[last.index()].owes += cost;
                }
            }
        }
        self.charging.last = Some(task);
        self.note(task, What::Dispatched { switch: cost }, self.charging.picked);
        if self.charging.switch_cost.is_none() {
            // What took the processor away in the middle of a switch is no part of it.
            let most = self.charging.measured.mean().map_or(Nanos::MAX, |mean| mean * 4 + JITTER);
            self.charging.measured.ran(1, cost.min(most));
        }
    }

    /// What changing to a task costs: as configured, else as measured.
    pub fn switch_cost(&self) -> Nanos {
        self.charging.switch_cost.or(self.charging.measured.mean()).unwrap_or_default()
    }

    /// The picked task has run.
    #[inline]
    pub fn ran(&mut self, task: TaskId, run: Run, now: Instant) {
        let used = self.book(task, run.used, run.packets, run.away);
        let entry = &mut self.states.entries[task.index()];
        entry.waiting = run.waiting;
        let rule = self.limits.rules[entry.kind as usize];
        if rule.overhead.is_some() && run.packets > 0 {
            self.set_threshold(task);
        }
        self.note_run(task, run.packets, run.used, run.waiting, now);
        let entry = &mut self.states.entries[task.index()];
        let may = run.waiting > 0 && run.room > 0;
        let worth = run.waiting >= entry.threshold && run.room >= entry.threshold;
        if run.away || may && worth {
            entry.enter(State::Active, now);
            // How much is left to do of what is away only doing it tells.
            let expected = if run.away { lending(rule.slice) } else { entry.expected(rule) };
            entry.foretold = expected;
            self.states.busy += 1;
            self.discipline.charge(task, used, Some(expected), now);
            self.note(task, What::Active, now);
        } else {
            entry.enter(State::Idle, now);
            self.discipline.charge(task, used, None, now);
            if may {
                self.wait(task, now);
            } else {
                self.note(task, What::Idle, now);
            }
        }
    }

    /// The picked input task has looked at its port and read `packets`; `full` where its limit ended the run, and there
    /// may be more. A port that is `stalled` waits until it is roused.
    #[inline]
    pub fn polled(&mut self, task: TaskId, used: Nanos, packets: u32, full: bool, stalled: bool, now: Instant) {
        let charged = self.book(task, used, packets, false);
        match packets {
            0 => self.note_poll(task, used, now),
            _ => self.note_run(task, packets, used, 0, now),
        }
        let entry = &mut self.states.entries[task.index()];
        (entry.waiting, entry.dry) = (packets, packets == 0);
        let looked = std::mem::take(&mut entry.looking);
        let steps_back = entry.dry && (!entry.greedy || self.sleeping.hurried) && entry.estimator.is_none();
        let wake = match &mut entry.estimator {
            Some(estimator) => estimator.ran(packets, full, now),
            None => now,
        };
        let sleeps = stalled || wake > now;
        entry.enter(if sleeps { State::Idle } else { State::Active }, now);
        if sleeps && !stalled {
            entry.due = wake;
            self.sleeping.timers.push(Reverse((wake, task)));
        }
        let next = (!sleeps && !steps_back).then(|| entry.expected(self.limits.rules[Kind::Input as usize]));
        self.states.busy += usize::from(next.is_some() && packets > 0);
        if looked {
            // The discipline has not picked it: what it used it owes, unless it was nothing.
            if packets > 0 {
                self.states.entries[task.index()].owes += charged;
            }
            if let Some(next) = next {
                self.discipline.wake(task, next, now);
            }
        } else {
            self.discipline.charge(task, charged, next, now);
        }
        if steps_back && !sleeps {
            self.sleeping.back.push_back(task);
        }
        if packets > 0 {
            // One that has found nothing and looks again is not shown as one that waits for its turn.
            self.note(task, if next.is_some() { What::Active } else { What::Idle }, now);
        }
    }

    /// Books what a run took; `away` where it has begun more than it ended. Answers what is charged for it.
    #[inline]
    fn book(&mut self, task: TaskId, used: Nanos, packets: u32, away: bool) -> Nanos {
        let entry = &mut self.states.entries[task.index()];
        let charged = used + self.charging.switched + entry.owes;
        entry.owes = Nanos::ZERO;
        entry.account.runs += 1;
        entry.account.packets += u64::from(packets);
        entry.account.used += used;
        if packets > 0 || away {
            self.charging.times.useful += used;
            entry.begun += used.saturating_sub(std::mem::take(&mut entry.inlined));
            if packets > 0 {
                entry.cost.ran(packets, std::mem::take(&mut entry.begun));
            }
        } else {
            self.charging.times.polling += used;
        }
        charged
    }

    /// An input task has received and classified a vector of so many packets. Where each took longer than the budget, all
    /// of them are counted as beyond it: the clock is read no more often than that (spec Q-05).
    #[inline]
    pub fn weigh(&mut self, task: TaskId, packets: usize, used: Nanos) {
        if let Some(budget) = self.limits.budget {
            let (came, over) = &mut self.states.entries[task.index()].account.weighed;
            *came += packets as u64;
            *over += if used > budget * packets as u64 { packets as u64 } else { 0 };
        }
    }

    /// Whether what the input task and a path's functions take for a packet together is within the budget of classification,
    /// as far as both are known.
    #[inline]
    pub fn affords(&self, input: TaskId, forwarding: TaskId) -> bool {
        let each = |task: TaskId| self.states.entries[task.index()].each();
        self.limits.budget.is_none_or(|budget| each(input) + each(forwarding) <= budget)
    }

    /// The running input task has forwarded packets in place of their own task: what that took is charged to it, and is the
    /// cost of theirs.
    #[inline]
    pub fn inlined(&mut self, input: TaskId, forwarding: TaskId, used: Nanos, packets: usize) {
        if packets > 0 {
            self.states.entries[forwarding.index()].cost.ran(packets as u32, used);
            self.states.entries[input.index()].inlined += used;
        }
    }

    /// Work was done outside of any task: packets received the way of interrupts.
    pub fn interrupted(&mut self, used: Nanos) {
        self.charging.times.useful += used;
    }

    /// What a packet of the task costs; zero where that is not known.
    pub fn mean_cost(&self, task: TaskId) -> Nanos {
        self.states.entries[task.index()].each()
    }

    /// When a timer goes off next, or overhead and slice are set anew.
    pub fn next(&self) -> Instant {
        let timer = self.sleeping.timers.peek().map_or(Instant::FAR, |&Reverse((due, _))| due);
        self.tuning.as_ref().map_or(timer, |tuning| timer.min(tuning.next()))
    }

    /// The same without the timers of those tasks that `wait` for something else as well.
    pub fn next_but(&self, waits: impl Fn(TaskId) -> bool) -> Instant {
        let mine = |&&Reverse((due, task)): &&Reverse<(Instant, TaskId)>| {
            let entry = &self.states.entries[task.index()];
            entry.live && entry.due == due && !waits(task)
        };
        let timer =
            self.sleeping.timers.iter().filter(mine).map(|&Reverse((due, _))| due).min().unwrap_or(Instant::FAR);
        self.tuning.as_ref().map_or(timer, |tuning| timer.min(tuning.next()))
    }

    /// So many packets came for the task, whether there was room for them or not.
    #[inline]
    pub fn offered(&mut self, task: TaskId, packets: u32) {
        self.states.entries[task.index()].cost.offered(packets);
    }

    /// Whether an input task looks at its port only when its time has come, and when that is.
    pub fn sleeps_until(&self, task: TaskId) -> Option<Instant> {
        let entry = &self.states.entries[task.index()];
        (entry.due != Instant::FAR && entry.kind == Kind::Input).then_some(entry.due)
    }

    /// Whether the estimator of an input task has found its port silent for so long that it may as well wait for a sign.
    pub fn is_silent(&self, task: TaskId) -> bool {
        let estimator = self.states.entries[task.index()].estimator.as_ref();
        estimator.is_some_and(|e| e.sleep() == e.sleep_max() && e.average_milli() == 0)
    }

    /// Whether no task is known to have something to do: those that are active only look for it.
    pub fn is_quiet(&self) -> bool {
        self.states.busy == 0
    }

    /// Tasks there are.
    pub fn count(&self) -> usize {
        self.states.entries.len() - self.states.spare.len()
    }

    /// Where the time went.
    pub fn times(&self) -> Times {
        self.charging.times
    }
}

#[cfg(test)]
mod tests;
