//! The rules of the run queue: how each kind of task is batched, and how many packets justify a switch.

use super::{RunQueue, TaskState};
use crate::task::TaskKind;
use crate::{Schedulers, Tuning};
use plan::{Batching, CpuPlan, Layout, throttle};
use units::{Instant, Nanos, Parts, TaskId};

/// The batching of one kind of task.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchingRule {
    pub packets: u32,
    pub slice: Nanos,
    pub overhead: Option<Parts>,
}

impl BatchingRule {
    pub fn of(batching: Batching) -> BatchingRule {
        let rule = |packets: u16, slice, overhead| BatchingRule { packets: u32::from(packets).max(1), slice, overhead };
        match batching {
            Batching::None => rule(1, Nanos::MAX, None),
            Batching::Simple { packets } => rule(packets, Nanos::MAX, None),
            Batching::Timeslice { packets, slice } => rule(packets, slice, None),
            // The threshold B starts a run and does not limit it (spec Q-47): the slice does.
            Batching::Throttle { overhead, slice } => rule(u16::MAX, slice, Some(overhead)),
        }
    }
}

impl RunQueue {
    /// Sets the schedulers that later configurations may name.
    pub fn register(&mut self, schedulers: Schedulers) {
        self.schedulers = schedulers;
    }

    /// The schedulers that configurations may name.
    pub fn schedulers(&self) -> &Schedulers {
        &self.schedulers
    }

    /// Applies a configuration. Tasks keep their state. A change of the CPU scheduler discards their lead or lag.
    ///
    /// # Panics
    /// If the plan names a CPU scheduler that is not registered, or changes it during a run.
    pub fn configure(&mut self, plan: &CpuPlan, now: Instant) {
        self.limits.rules = [plan.input, plan.forwarding, plan.output].map(BatchingRule::of);
        self.timers.draining = false;
        (self.limits.strict, self.limits.work_conserving, self.limits.max_wait) =
            (plan.strict, plan.work_conserving, plan.max_wait);
        (self.limits.budget, self.limits.separate_forwarding) = (plan.classify_budget, plan.layout == Layout::Three);
        (self.limits.vector, self.limits.charge, self.charging.switch_cost) =
            (plan.vector.map(u32::from), plan.charge, plan.switch_cost);
        if self.scheduler_name != plan.scheduler.name {
            self.scheduler_name = plan.scheduler.name;
            let built = self.schedulers.build(self.scheduler_name);
            self.scheduler = built.expect("a configuration is checked against the schedulers that are registered");
            for (index, entry) in self.states.entries.iter().enumerate().filter(|(_, entry)| entry.live) {
                assert!(entry.state != TaskState::Running, "rules change between runs");
                self.scheduler.add(TaskId::at(index), entry.terms.share);
                // A task that has stepped back is polled without the scheduler, and must not be woken there.
                if entry.state == TaskState::Active
                    && !self.timers.stepped_back.iter().any(|task| task.index() == index)
                {
                    self.scheduler.wake(TaskId::at(index), entry.expected(self.limits.rules[entry.kind as usize]), now);
                }
            }
        }
        // Read after the assignments above: a configured cost takes precedence over the measured one.
        let switch = self.switch_cost();
        match (&mut self.tuning, plan.tune) {
            (Some(tuning), Some(plan)) => drop(tuning.set(plan, switch)),
            (place, plan) => *place = plan.map(|plan| Tuning::new(plan, switch, now)),
        }
        match self.tuning.map(|tuning| tuning.setting()) {
            // The rules above hold the configured values. A tuned throttle keeps those that it has learned.
            Some(setting) => self.tune(setting.overhead, setting.slice, now),
            None => self.retune(now),
        }
    }

    /// Changes overhead and slice of every throttled kind of task (spec Q-51).
    pub fn tune(&mut self, overhead: Parts, slice: Nanos, now: Instant) {
        for rule in self.limits.rules.iter_mut().filter(|rule| rule.overhead.is_some()) {
            (rule.overhead, rule.slice) = (Some(overhead), slice);
        }
        self.retune(now);
    }

    /// Computes all thresholds anew and activates the tasks that now meet theirs.
    fn retune(&mut self, now: Instant) {
        for index in 0..self.states.entries.len() {
            let task = TaskId::at(index);
            self.set_threshold(task);
            let entry = &self.states.entries[index];
            if entry.live && entry.state == TaskState::Eligible {
                let (waiting, worth) = (entry.waiting, self.limits.rules[entry.kind as usize].overhead.is_none());
                if worth || waiting >= entry.threshold {
                    self.activate(task, now);
                }
            }
        }
    }

    /// Sets the threshold B: the least number of packets for which a switch to the task costs at most the overhead (spec ).
    pub(super) fn set_threshold(&mut self, task: TaskId) {
        let entry = &self.states.entries[task.index()];
        let overhead = self.limits.rules[entry.kind as usize].overhead;
        let threshold = match overhead {
            Some(overhead) if !entry.terms.prompt && entry.kind != TaskKind::Input => {
                // With an unknown cost do not wait: the first packet measures it.
                let each = entry.cost.mean();
                let wanted = each.map_or(1, |each| throttle::threshold(self.switch_cost(), overhead, each));
                throttle::effective_threshold(wanted, entry.terms.capacity, entry.terms.capacity, self.limits.strict)
            }
            _ => 1,
        };
        self.states.entries[task.index()].threshold = threshold;
    }

    /// Ends a tuning period: the throttle follows the load of the period.
    #[cold]
    pub(super) fn observe(&mut self, now: Instant) {
        let (mut needed, mut elapsed) = (Nanos::ZERO, Nanos::ZERO);
        for entry in self.states.entries.iter_mut().filter(|entry| entry.live) {
            let sample = entry.cost.sample(now);
            // A task that was added during the period has a shorter sample: the longest is the period.
            (entry.sample, elapsed) = (sample, elapsed.max(sample.elapsed));
            // `account` counts since the task was added. `sampled` makes it the time of this period.
            let used = entry.account.used.saturating_sub(std::mem::replace(&mut entry.sampled, entry.account.used));
            // The load of forwarding tasks includes packets that were dropped. Other tasks count with the time they used.
            needed += if entry.kind == TaskKind::Forwarding { sample.needed } else { used };
        }
        let setting = self.tuning.as_mut().and_then(|tuning| tuning.observe(needed, elapsed, now));
        if let Some(setting) = setting {
            self.tune(setting.overhead, setting.slice, now);
        }
    }
}
