//! The run queue of one core: which of its tasks may run, which runs next, and how much it may do.
//!
//! It sits between the worker, which handles packets, and a [`CpuScheduler`], which handles shares. A task is in one of four states (Qie et al. 2001,
//! section 4.3 and figure 9). It is *idle* without work, or without room for its results. It is *eligible* with work that is not yet worth the cost
//! of a switch. It is *active* when the CPU scheduler may pick it, and *running* after that. Only under the batching throttle is a task ever eligible
//! without being active. An input task sleeps instead, for as long as the estimator of its port says.
//!
//! Like the CPU schedulers, the run queue picks and charges tasks and executes nothing. Its tests need no packets.

mod advisories;
mod charging;
mod configuration;
mod inspect;
mod limits;
mod states;
mod task_entry;
mod timers;

use super::task::{CoreTimes, Grant, RunOutcome, TaskKind, TaskState, TaskTerms};
use super::trace::{TaskEvent, TaskTrace};
use super::{CpuScheduler, Estimator, Ring, Schedulers, Tuning, Wf2q, wf2q};
use advisories::AdvisoryLimiter;
use charging::Charging;
use limits::RunLimits;
use plan::{Charge, CpuPlan, EstimatorPlan};
use states::TaskStates;
use std::cmp::Reverse;
use task_entry::TaskEntry;
use timers::TaskTimers;
use units::{Instant, Nanos, TaskId};

/// A packet that costs at least so many ns to process is a vector by itself. Ports are exempt: one call to a port costs the same for one packet as
/// for many.
const DEAR: u64 = 1000;
/// A measured switch counts for at most four times the mean and this.
const JITTER: Nanos = Nanos::new(100);
/// The most packets of a vector: the size of a batch.
const VECTOR: u32 = 256;
/// Packets of a vector before any cost was measured.
pub const DEFAULT_VECTOR: u32 = 16;

/// The longest time a core is lent where a run has no slice.
const LENT: Nanos = plan::DEFAULT_PREEMPTIBLE_SLICE;

/// The time for which a core is lent at once to preemptible functions, where a run may last `slice`.
pub fn lent_time(slice: Nanos) -> Nanos {
    if slice == Nanos::MAX { LENT } else { slice }
}

/// Dispatches of other tasks between two polls of ports that were empty.
const LOOK: u32 = 8;

/// See the [module](self).
// Large: one method for each notification and query of a worker; its state is in four parts.
pub struct RunQueue {
    scheduler: Box<dyn CpuScheduler>,
    schedulers: Schedulers,
    /// The name of `scheduler`.
    scheduler_name: &'static str,
    states: TaskStates,
    limits: RunLimits,
    timers: TaskTimers,
    charging: Charging,
    tuning: Option<Tuning>,
    trace: Option<Box<TaskTrace>>,
    patience: AdvisoryLimiter,
}

impl RunQueue {
    /// A run queue without tasks. `measured` is the cost of a switch as measured at start.
    pub fn new(measured: Nanos) -> RunQueue {
        let plan = CpuPlan::default();
        let mut agenda = RunQueue {
            scheduler: Box::new(Wf2q::new()),
            scheduler_name: wf2q::REGISTRATION.name,
            schedulers: Schedulers::default(),
            states: TaskStates::default(),
            limits: RunLimits::default(),
            timers: TaskTimers::default(),
            charging: Charging::new(measured),
            tuning: None,
            trace: None,
            patience: AdvisoryLimiter::default(),
        };
        agenda.configure(&plan, Instant::START);
        agenda
    }

    /// Adds an idle task. An input task is started with [`RunQueue::wake`], others with [`RunQueue::update_queue`].
    pub fn add(&mut self, kind: TaskKind, terms: TaskTerms, now: Instant) -> TaskId {
        let entry = TaskEntry::new(kind, terms, now);
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
        self.scheduler.add(task, terms.share);
        self.set_threshold(task);
        task
    }

    /// Removes the task in any state.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn remove(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        assert!(entry.live, "task {task} is there");
        let (was, dry) = (entry.state, entry.last_poll_empty);
        entry.enter(TaskState::Idle, now);
        // Timers of the task stay in the heap. They no longer match `due`, so they are skipped when they expire.
        (entry.live, entry.due) = (false, Instant::NEVER);
        self.states.left(was, dry);
        self.timers.stepped_back.retain(|&other| other != task);
        self.scheduler.remove(task);
        self.states.spare.push(task);
        // The id may be reused: a later switch must not charge the new task for the old one.
        if self.charging.last == Some(task) {
            self.charging.last = None;
        }
    }

    /// Changes the terms of the task.
    pub fn set(&mut self, task: TaskId, terms: TaskTerms) {
        let entry = &mut self.states.entries[task.index()];
        if entry.terms.share != terms.share {
            self.scheduler.share(task, terms.share);
        }
        if entry.terms.cost != terms.cost {
            entry.cost.declare(terms.cost);
        }
        entry.terms = terms;
        self.set_threshold(task);
    }

    /// Sets or removes the estimator of an input task's port. Without an estimator the task steps back when a poll is empty. It polls again when
    /// there is no other work, and after a few dispatches of other tasks. A `greedy` task does not step back: it keeps its turns.
    pub fn estimate(&mut self, task: TaskId, plan: Option<EstimatorPlan>, greedy: bool, ring: Ring, now: Instant) {
        // The batch of the caller does not count: a run has the packet limit of the present rules.
        let ring = Ring { batch: self.limits.rules[TaskKind::Input as usize].packets, ..ring };
        let entry = &mut self.states.entries[task.index()];
        entry.greedy = greedy;
        entry.since_check.fill_time = ring.line_rate.map(|_| ring.longest_sleep());
        match (&mut entry.estimator, plan) {
            (Some(estimator), Some(plan)) => estimator.set(&plan, ring),
            (place, plan) => *place = plan.map(|plan| Box::new(Estimator::new(&plan, ring))),
        }
        // The timer of the removed estimator is void, and nothing else would wake the task.
        if plan.is_none() && entry.due != Instant::NEVER {
            self.wake(task, now);
        }
    }

    /// Activates a task that slept or waited for its port.
    pub fn wake(&mut self, task: TaskId, now: Instant) {
        let entry = &self.states.entries[task.index()];
        // A second activation would count the task twice in `busy`. A task that has stepped back is active too, and polls in its turn.
        if entry.live && matches!(entry.state, TaskState::Idle | TaskState::Eligible) {
            self.activate(task, now);
        }
    }

    /// Stops an input task from polling until [`RunQueue::wake`] is called.
    pub fn stop_polling(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        if entry.live && entry.state == TaskState::Active {
            let dry = entry.last_poll_empty;
            entry.enter(TaskState::Idle, now);
            self.states.left(TaskState::Active, dry);
            self.timers.stepped_back.retain(|&other| other != task);
            // A scheduler has no operation that makes a waiting task idle: remove it and add it again.
            let share = self.states.entries[task.index()].terms.share;
            self.scheduler.remove(task);
            self.scheduler.add(task, share);
        }
        self.states.entries[task.index()].due = Instant::NEVER;
    }

    /// The input or output queue of the task has changed: `waiting` packets wait, and there is room for `room` results (spec Q-46).
    #[inline]
    pub fn update_queue(&mut self, task: TaskId, waiting: usize, room: usize, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        entry.waiting = waiting as u32;
        match entry.state {
            TaskState::Idle | TaskState::Eligible if entry.live && waiting > 0 && room > 0 => {
                self.consider(task, room, now)
            }
            // More packets arrived than when the task woke. The scheduler predicts with the length of the next run, so it must hear of a longer one.
            TaskState::Active if entry.kind != TaskKind::Input => {
                let expected = entry.expected(self.limits.rules[entry.kind as usize]);
                if expected > entry.expected_run {
                    entry.expected_run = expected;
                    self.scheduler.expect(task, expected);
                }
            }
            _ => {}
        }
    }

    fn consider(&mut self, task: TaskId, room: usize, now: Instant) {
        let entry = &self.states.entries[task.index()];
        let (waiting, threshold) = (entry.waiting, entry.threshold);
        // Room for fewer results would end the run early, and the switch would not pay.
        if waiting >= threshold && room as u32 >= threshold {
            self.activate(task, now);
        } else if entry.state == TaskState::Idle {
            // Only an idle task starts to wait: another packet must not postpone the timer of an eligible one.
            self.wait(task, now);
        }
    }

    /// Makes the task active.
    fn activate(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        if entry.state == TaskState::Eligible {
            self.states.eligible -= 1;
        }
        entry.due = Instant::NEVER;
        entry.enter(TaskState::Active, now);
        let expected = entry.expected(self.limits.rules[entry.kind as usize]);
        entry.expected_run = expected;
        // The timer of an input task has expired: it must poll again, also after an empty poll.
        entry.last_poll_empty = false;
        self.states.busy += 1;
        self.scheduler.wake(task, expected, now);
        self.trace_event(task, TaskEvent::Active, now);
    }

    /// Makes the task eligible and starts its timer.
    fn wait(&mut self, task: TaskId, now: Instant) {
        let entry = &mut self.states.entries[task.index()];
        self.states.eligible += usize::from(entry.state != TaskState::Eligible);
        entry.enter(TaskState::Eligible, now);
        // Without a limit the task needs no timer: a full batch or an idle core starts it.
        if let Some(most) = entry.terms.max_wait.or(self.limits.max_wait).filter(|&most| most != Nanos::MAX) {
            entry.due = now + most;
            self.timers.timers.push(Reverse((entry.due, task)));
        }
        self.trace_event(task, TaskEvent::Eligible, now);
    }

    /// The task to run now and its limits, or none if no task is active. The worker then calls [`RunQueue::record_switch`], and after
    /// the run [`RunQueue::record_run`] or [`RunQueue::record_poll`].
    #[inline]
    pub fn pick(&mut self, now: Instant) -> Option<Grant> {
        // Timers come first: one that expires may activate a task for this pick.
        if let Some(&Reverse((due, _))) = self.timers.timers.peek()
            && due <= now
        {
            self.fire_timers(now);
        }
        if self.tuning.as_ref().is_some_and(|tuning| tuning.next() <= now) {
            self.observe(now);
        }
        // No active task has work: run the fullest eligible one rather than leave the core idle.
        if self.states.busy == 0 && self.states.eligible > 0 && self.limits.work_conserving {
            self.run_fullest(now);
        }
        // With no work at all, active pollers and tasks that have stepped back take turns. Otherwise the latter poll once in `LOOK` dispatches.
        let most = if self.states.busy == 0 { 1 } else { LOOK };
        let task = if !self.timers.stepped_back.is_empty() && self.timers.since_poll >= most {
            self.pick_stepped_back()
        } else {
            self.timers.since_poll += 1;
            match self.scheduler.pick(now) {
                Some(task) => task,
                None if self.timers.stepped_back.is_empty() => return None,
                None => self.pick_stepped_back(),
            }
        };
        let entry = &mut self.states.entries[task.index()];
        self.states.busy -= usize::from(!entry.last_poll_empty);
        let lag = now.since(entry.since);
        entry.account.lag = entry.account.lag.max(lag);
        entry.since_check.lag = entry.since_check.lag.max(lag);
        entry.enter(TaskState::Running, now);
        let rule = self.limits.rules[entry.kind as usize];
        // In the other layouts a forwarding task also calls a port, and one call costs the same for one packet as for many.
        let alone = self.limits.separate_forwarding && entry.kind == TaskKind::Forwarding;
        let cost = entry.mean_cost();
        let expensive = Some(cost).filter(|cost| self.limits.vector.is_none() && alone && cost.get() >= DEAR);
        let vector = self.limits.vector.unwrap_or_else(|| {
            let cost = cost.get();
            match cost {
                // An expensive packet is metered alone, so that the run stops close to the end of its slice.
                _ if expensive.is_some() => 1,
                0 => DEFAULT_VECTOR,
                // A full vector would exceed the slice: use as many packets as fit.
                _ if cost * u64::from(VECTOR) > rule.slice.get() => (rule.slice.get() / cost).max(1) as u32,
                _ => VECTOR,
            }
        });
        self.charging.picked = now;
        Some(Grant { task, packets: rule.packets, slice: rule.slice, vector, expensive })
    }

    /// The next task that has stepped back, so that it polls once.
    fn pick_stepped_back(&mut self) -> TaskId {
        self.timers.since_poll = 0;
        let task = self.timers.stepped_back.pop_front().expect("there is one");
        self.states.entries[task.index()].single_poll = true;
        task
    }

    /// Handles the timers that have expired.
    #[cold]
    fn fire_timers(&mut self, now: Instant) {
        while let Some(&Reverse((due, task))) = self.timers.timers.peek()
            && due <= now
        {
            self.timers.timers.pop();
            let entry = &mut self.states.entries[task.index()];
            // Timers are not removed from the heap. Skip one that was cancelled or replaced by a later one.
            if !entry.live || entry.due != due {
                continue;
            }
            if entry.state == TaskState::Eligible {
                entry.account.timeouts += 1;
                self.trace_event(task, TaskEvent::Timeout, now);
            }
            self.activate(task, now);
        }
    }

    /// Drains the queues: every eligible task becomes active and empty ports step back, until [`RunQueue::configure`] is called.
    pub fn drain(&mut self, now: Instant) {
        self.timers.draining = true;
        // The worker calls this in every step until the paths are empty, so the usual case of no eligible task looks at none.
        for index in 0..if self.states.eligible > 0 { self.states.entries.len() } else { 0 } {
            if self.states.entries[index].live && self.states.entries[index].state == TaskState::Eligible {
                self.activate(TaskId::at(index), now);
            }
        }
    }

    /// Activates the eligible task with the most packets, because no other task has work (spec Q-4A).
    #[cold]
    fn run_fullest(&mut self, now: Instant) {
        let eligible = |entry: &&(usize, &TaskEntry)| entry.1.live && entry.1.state == TaskState::Eligible;
        let fullest = self
            .states
            .entries
            .iter()
            .enumerate()
            .filter(|e| eligible(&e))
            // Of equally full tasks the lowest id runs, so that equal runs give equal results.
            .max_by_key(|(i, e)| (e.waiting, Reverse(*i)));
        if let Some(task) = fullest.map(|(index, _)| TaskId::at(index)) {
            self.states.entries[task.index()].account.harvested += 1;
            self.trace_event(task, TaskEvent::Harvested, now);
            self.activate(task, now);
        }
    }

    /// The worker has switched to the picked task, which took `cost`.
    #[inline]
    pub fn record_switch(&mut self, task: TaskId, cost: Nanos) {
        self.charging.times.switching += cost;
        // An earlier switch must not be charged again if the configuration has changed since.
        self.charging.switched = Nanos::ZERO;
        match self.limits.charge {
            Charge::None => {}
            Charge::Incoming => self.charging.switched = cost,
            Charge::Outgoing => {
                if let Some(last) = self.charging.last {
                    // The last task has already been charged for its run: the switch is added to its next charge.
                    self.states.entries[last.index()].switch_debt += cost;
                }
            }
        }
        self.charging.last = Some(task);
        self.trace_event(task, TaskEvent::Dispatched { switch: cost }, self.charging.picked);
        if self.charging.switch_cost.is_none() {
            // Cap the sample: a switch during which the kernel ran something else is not a longer switch.
            let most = self.charging.measured.mean().map_or(Nanos::MAX, |mean| mean * 4 + JITTER);
            self.charging.measured.record_vector(1, cost.min(most));
        }
    }

    /// The cost of a switch to a task: the configured one, else the measured mean.
    pub fn switch_cost(&self) -> Nanos {
        self.charging.switch_cost.or(self.charging.measured.mean()).unwrap_or_default()
    }

    /// The picked task has run.
    #[inline]
    pub fn record_run(&mut self, task: TaskId, run: RunOutcome, now: Instant) {
        let used = self.charge_run(task, run.used, run.packets, run.in_function_thread);
        let entry = &mut self.states.entries[task.index()];
        entry.waiting = run.waiting;
        let rule = self.limits.rules[entry.kind as usize];
        // The run has changed the mean cost, and with it the threshold.
        if rule.overhead.is_some() && run.packets > 0 {
            self.set_threshold(task);
        }
        self.trace_run(task, run.packets, run.used, run.waiting, now);
        let entry = &mut self.states.entries[task.index()];
        let may = run.waiting > 0 && run.room > 0;
        let worth = run.waiting >= entry.threshold && run.room >= entry.threshold;
        // A preempted task stays active even without waiting packets: its thread must be resumed.
        if run.in_function_thread || may && worth {
            entry.enter(TaskState::Active, now);
            // The rest of the work of a preempted function is unknown. Expect one lending period.
            let expected = if run.in_function_thread { lent_time(rule.slice) } else { entry.expected(rule) };
            entry.expected_run = expected;
            self.states.busy += 1;
            self.scheduler.charge(task, used, Some(expected), now);
            self.trace_event(task, TaskEvent::Active, now);
        } else {
            entry.enter(TaskState::Idle, now);
            self.scheduler.charge(task, used, None, now);
            if may {
                // The task is charged as idle first: an eligible task is not runnable for the CPU scheduler.
                self.wait(task, now);
            } else {
                self.trace_event(task, TaskEvent::Idle, now);
            }
        }
    }

    /// The picked input task has polled its port and received `packets`. `full`: it stopped at its limit, so there may be more. A `stalled` port
    /// waits for [`RunQueue::wake`].
    #[inline]
    pub fn record_poll(&mut self, task: TaskId, used: Nanos, packets: u32, full: bool, stalled: bool, now: Instant) {
        let charged = self.charge_run(task, used, packets, false);
        match packets {
            0 => self.trace_poll(task, used, now),
            _ => self.trace_run(task, packets, used, 0, now),
        }
        let entry = &mut self.states.entries[task.index()];
        (entry.waiting, entry.last_poll_empty) = (packets, packets == 0);
        let looked = std::mem::take(&mut entry.single_poll);
        // With an estimator the task sleeps instead of stepping back. While the queues drain, greedy tasks step back too.
        let steps_back = entry.last_poll_empty && (!entry.greedy || self.timers.draining) && entry.estimator.is_none();
        // The estimator learns from a poll of a stalled port too, although room and not time ends that sleep.
        let wake = match &mut entry.estimator {
            Some(estimator) => estimator.record_run(packets, full, now),
            None => now,
        };
        let sleeps = stalled || wake > now;
        entry.enter(if sleeps { TaskState::Idle } else { TaskState::Active }, now);
        // A stalled port has no timer: the worker wakes it when there is room again.
        if sleeps && !stalled {
            entry.due = wake;
            self.timers.timers.push(Reverse((wake, task)));
        }
        let next = (!sleeps && !steps_back).then(|| entry.expected(self.limits.rules[TaskKind::Input as usize]));
        self.states.busy += usize::from(next.is_some() && packets > 0);
        if looked {
            // A poll after stepping back bypasses the scheduler, so it cannot be charged there now. The next run pays for it, unless the poll was
            // empty.
            if packets > 0 {
                self.states.entries[task.index()].switch_debt += charged;
            }
            if let Some(next) = next {
                self.scheduler.wake(task, next, now);
            }
        } else {
            self.scheduler.charge(task, charged, next, now);
        }
        if steps_back && !sleeps {
            self.timers.stepped_back.push_back(task);
        }
        if packets > 0 {
            // A task that polls again after an empty poll is not traced as waiting for the core.
            self.trace_event(task, if next.is_some() { TaskEvent::Active } else { TaskEvent::Idle }, now);
        }
    }

    /// Accounts for a run and returns the time to charge. `away`: functions have begun packets that they have not finished.
    #[inline]
    fn charge_run(&mut self, task: TaskId, used: Nanos, packets: u32, away: bool) -> Nanos {
        let entry = &mut self.states.entries[task.index()];
        let charged = used + self.charging.switched + entry.switch_debt;
        entry.switch_debt = Nanos::ZERO;
        entry.account.runs += 1;
        entry.account.packets += u64::from(packets);
        entry.account.used += used;
        if packets > 0 || away {
            self.charging.times.useful += used;
            // Inline forwarding was recorded as a cost of the forwarding task: do not count it twice.
            entry.begun += used.saturating_sub(std::mem::take(&mut entry.inlined));
            if packets > 0 {
                // `begun` also holds the time of earlier runs, in which preempted functions worked on these packets without finishing them.
                entry.cost.record_vector(packets, std::mem::take(&mut entry.begun));
            }
        } else {
            self.charging.times.polling += used;
        }
        charged
    }

    /// An input task has received and classified a vector of `packets`. If the mean per packet exceeds the budget, all of them count as over budget:
    /// the clock is read only once a vector (spec Q-05).
    #[inline]
    pub fn record_vector(&mut self, task: TaskId, packets: usize, used: Nanos) {
        if let Some(budget) = self.limits.budget {
            let (came, over) = &mut self.states.entries[task.index()].account.weighed;
            *came += packets as u64;
            *over += if used > budget * packets as u64 { packets as u64 } else { 0 };
        }
    }

    /// True if the input task and the functions of a path together stay within the classification budget for each packet. Unknown costs count as
    /// zero.
    #[inline]
    pub fn fits_budget(&self, input: TaskId, forwarding: TaskId) -> bool {
        let each = |task: TaskId| self.states.entries[task.index()].mean_cost();
        self.limits.budget.is_none_or(|budget| each(input) + each(forwarding) <= budget)
    }

    /// The running input task has forwarded packets inline. The time is charged to the input task, and counts as the packet cost of the forwarding
    /// task.
    #[inline]
    pub fn record_inline(&mut self, input: TaskId, forwarding: TaskId, used: Nanos, packets: usize) {
        if packets > 0 {
            self.states.entries[forwarding.index()].cost.record_vector(packets as u32, used);
            self.states.entries[input.index()].inlined += used;
        }
    }

    /// Counts work outside of any task: packets received in interrupt style.
    pub fn record_interrupt(&mut self, used: Nanos) {
        self.charging.times.useful += used;
    }

    /// The mean cost of a packet of the task; zero if unknown.
    pub fn mean_cost(&self, task: TaskId) -> Nanos {
        self.states.entries[task.index()].mean_cost()
    }

    /// The time of the next timer or the next tuning period.
    pub fn next_timer(&self) -> Instant {
        // A cancelled timer may be on top. It only wakes the worker too early, and `fire_timers` then removes it.
        let timer = self.timers.timers.peek().map_or(Instant::NEVER, |&Reverse((due, _))| due);
        self.tuning.as_ref().map_or(timer, |tuning| timer.min(tuning.next()))
    }

    /// Like [`RunQueue::next_timer`], without the timers of tasks for which `waits` is true: another event wakes them.
    pub fn next_timer_except(&self, waits: impl Fn(TaskId) -> bool) -> Instant {
        let mine = |&&Reverse((due, task)): &&Reverse<(Instant, TaskId)>| {
            let entry = &self.states.entries[task.index()];
            entry.live && entry.due == due && !waits(task)
        };
        let timer =
            self.timers.timers.iter().filter(mine).map(|&Reverse((due, _))| due).min().unwrap_or(Instant::NEVER);
        self.tuning.as_ref().map_or(timer, |tuning| timer.min(tuning.next()))
    }

    /// Counts packets that arrived for the task, dropped ones included.
    #[inline]
    pub fn count_offered(&mut self, task: TaskId, packets: u32) {
        self.states.entries[task.index()].cost.count_offered(packets);
    }

    /// The time until which an input task sleeps; none if it does not.
    pub fn sleeps_until(&self, task: TaskId) -> Option<Instant> {
        let entry = &self.states.entries[task.index()];
        (entry.due != Instant::NEVER && entry.kind == TaskKind::Input).then_some(entry.due)
    }

    /// True if the estimator of an input task sleeps as long as it may and has an average of zero: the worker may block on the port.
    pub fn is_silent(&self, task: TaskId) -> bool {
        let estimator = self.states.entries[task.index()].estimator.as_ref();
        estimator.is_some_and(|e| e.sleep() == e.sleep_max() && e.average_milli() == 0)
    }

    /// True if no task is known to have work: the active ones only poll.
    pub fn is_quiet(&self) -> bool {
        self.states.busy == 0
    }

    /// The number of tasks.
    pub fn count(&self) -> usize {
        self.states.entries.len() - self.states.spare.len()
    }

    /// The time of the core by use.
    pub fn times(&self) -> CoreTimes {
        self.charging.times
    }
}

#[cfg(test)]
mod tests;
