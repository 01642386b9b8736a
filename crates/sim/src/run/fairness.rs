//! Checks that tasks get their share of the core's work while they are backlogged, within a bound of some runs. The records of the run queues are
//! evaluated continuously; verdicts are given at each sample of the time series.

use super::{RunningRouter, RunningWorld};
use crate::check::WorldInvariant;
use cpu::task::TaskState;
use cpu::trace::{TaskEvent, TaskTrace, TraceRecord};
use plan::{Charge, CpuPlan, CpuSchedulerChoice};
use plane::{TaskReport, Worker};
use std::collections::BTreeMap;
use units::TaskId;

/// How far a task has been behind its share, and the runs that bound it. All in nanoseconds of service.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Lag {
    /// The largest lag; zero if it never was behind.
    worst: f64,
    /// Its longest run.
    own: u64,
    /// The longest run of another task of its core.
    other: u64,
    /// The sum of the longest runs of all other tasks.
    others: u64,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, Default)]
struct TaskService {
    /// Its share of the core; zero if its entitlement is unknown.
    share: f64,
    /// Time charged to it since the start.
    used: u64,
    /// Work of others in which it has no share: their first runs.
    excluded: u64,
    longest: u64,
    /// Its smallest lag in the current backlogged period; none while it is not backlogged.
    least: Option<f64>,
    worst: f64,
}

impl TaskService {
    /// Its lag, as if it had always been backlogged.
    fn lag(&self, work: u64) -> f64 {
        self.share * (work - self.excluded) as f64 - self.used as f64
    }

    /// Updates the largest lag of a task that is still backlogged.
    fn update_lag(&mut self, work: u64) {
        if let Some(least) = self.least {
            self.worst = self.worst.max(self.lag(work) - least);
        }
    }
}

/// Evaluates the records of the tasks of one core.
///
/// Take any interval in which a task is backlogged, and in which all tasks together are charged `work`. The task is entitled to `share * work`. Runs
/// are not preempted, so it may be behind by some: under WF2Q+ by one run of its own and one of another task. That is the worst-case fair index
/// (Bennett and Zhang 1997), with runs in place of packets. The bound assumes that the duration of a run can be predicted. The first run of a task
/// cannot be predicted, so other tasks have no share in it. Before each run of a task its lag is compared with the smallest lag of the same
/// backlogged period. That covers all such intervals.
#[derive(Debug, Default)]
struct Fairness {
    /// By task id.
    tasks: Vec<TaskService>,
    work: u64,
}

impl Fairness {
    /// Sets a task's share of the core from now on; zero if it is not to be checked.
    fn entitle(&mut self, task: TaskId, share: f64) {
        self.task(task).share = share;
    }

    fn task(&mut self, task: TaskId) -> &mut TaskService {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, TaskService::default());
        }
        &mut self.tasks[task.index()]
    }

    /// Evaluates the records of a run queue, in order.
    fn evaluate<'a>(&mut self, records: impl Iterator<Item = &'a TraceRecord>) {
        for record in records {
            let mut work = self.work;
            let task = self.task(record.task);
            match record.event {
                TaskEvent::Active => task.least = task.least.or(Some(task.lag(work))),
                TaskEvent::Eligible | TaskEvent::Idle => task.least = None,
                TaskEvent::Dispatched { .. } => task.update_lag(work),
                TaskEvent::Yielded { packets, used, .. } => {
                    // A task that ran without packets was not backlogged, so it was entitled to nothing.
                    let mut first = 0;
                    if packets > 0 {
                        work += used.get();
                        first = if task.used == 0 { used.get() } else { 0 };
                        task.used += used.get();
                        task.longest = task.longest.max(used.get());
                    }
                    let now = task.lag(work);
                    task.least = task.least.filter(|_| packets > 0).map(|least| least.min(now));
                    if first > 0 {
                        let others =
                            self.tasks.iter_mut().enumerate().filter(|(index, _)| *index != record.task.index());
                        others.for_each(|(_, other)| other.excluded += first);
                    }
                }
                // A poll without packets serves no task.
                TaskEvent::Polled { .. }
                | TaskEvent::Arrived { .. }
                | TaskEvent::Dropped { .. }
                | TaskEvent::Harvested
                | TaskEvent::Timeout => {}
            }
            self.work = work;
        }
    }

    /// The result for a task in this state.
    fn lag_of(&mut self, task: TaskId, state: TaskState) -> Lag {
        let work = self.work;
        let follow = self.task(task);
        if state == TaskState::Active {
            follow.update_lag(work);
        }
        let own = *follow;
        let others = self.tasks.iter().enumerate().filter(|(index, _)| *index != task.index());
        let (mut other, mut sum) = (0, 0);
        others.for_each(|(_, task)| (other, sum) = (task.longest.max(other), sum + task.longest));
        Lag { worst: own.worst, own: own.longest, other, others: sum }
    }

    /// Ends all backlogged periods: records were lost or shares have changed, so it is unknown which tasks were backlogged.
    fn end_backlogs(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.least = None);
    }
}

/// Steps between two evaluations of the records.
const STEPS_PER_CHECK: u32 = 256;
/// The capacity for records: some sixty per step.
const TRACE_CAPACITY: usize = 64 * STEPS_PER_CHECK as usize;

/// Collects and evaluates the records of a core's run queue.
pub(super) struct FairnessCheck {
    /// The check of its tasks' shares.
    fairness: Fairness,
    /// The buffer for the next records.
    spare: Option<Box<TaskTrace>>,
    /// True if the records go to another consumer.
    is_disabled: bool,
    /// Steps since the last evaluation.
    unchecked_steps: u32,
}

impl FairnessCheck {
    pub fn new() -> FairnessCheck {
        let spare = Some(Box::new(TaskTrace::new(TRACE_CAPACITY)));
        FairnessCheck { fairness: Fairness::default(), spare, is_disabled: false, unchecked_steps: 0 }
    }

    /// Adopts the new shares of a worker's tasks. Earlier records say nothing about later lags.
    pub fn entitle(&mut self, worker: &mut Worker, cpu: &CpuPlan) {
        let tasks = self.evaluate(worker);
        self.fairness.end_backlogs();
        // If the shares add up to less than one, all tasks get proportionally more.
        let promised: f64 = tasks.iter().map(|task| task.view.share.as_f64()).sum();
        let goes_by_shares = matches!(cpu.scheduler.lag, plan::Lag::OneRun | plan::Lag::RunOfEach);
        for task in &tasks {
            // Two cases have no known entitlement: port tasks, and tasks that pay for switches and so get less work for their share.
            let known = task.kind == "forwarding" && goes_by_shares && cpu.charge == Charge::None;
            self.fairness.entitle(task.task, if known { task.view.share.as_f64() / promised } else { 0.0 });
        }
    }

    /// Called after each step of a worker.
    #[inline]
    pub fn record_step(&mut self, worker: &mut Worker) {
        self.unchecked_steps += 1;
        if self.unchecked_steps == STEPS_PER_CHECK {
            self.evaluate(worker);
        }
    }

    /// Evaluates the records of a worker. Returns its tasks.
    #[cold]
    fn evaluate(&mut self, worker: &mut Worker) -> Vec<TaskReport> {
        self.unchecked_steps = 0;
        if self.is_disabled {
            return Vec::new();
        }
        let watched = worker.trace_scheduler(self.spare.take());
        if let Some(mut trace) = watched.trace {
            if trace.lost() > 0 {
                self.fairness.end_backlogs();
            }
            self.fairness.evaluate(trace.records());
            trace.clear();
            self.spare = Some(trace);
        }
        // At the first call there is no previous buffer to reuse.
        self.spare.get_or_insert_with(|| Box::new(TaskTrace::new(TRACE_CAPACITY)));
        watched.tasks
    }

    /// Stops the evaluation, because another consumer reads the records.
    pub fn disable(&mut self) {
        self.is_disabled = true;
    }

    /// The largest lag of each path of a worker since the start.
    fn lags(&mut self, worker: &mut Worker) -> Vec<(TaskReport, Lag)> {
        let tasks = self.evaluate(worker).into_iter().filter(|task| task.kind == "forwarding");
        tasks
            .map(|task| (self.fairness.lag_of(task.task, task.view.state), task))
            .map(|(lag, task)| (task, lag))
            .collect()
    }
}

/// The bound on the lag of a task.
fn bound(lag: &Lag, scheduler: CpuSchedulerChoice) -> u64 {
    match scheduler.lag {
        plan::Lag::RunOfEach => lag.own + lag.others,
        _ => lag.own + lag.other,
    }
}

impl RunningWorld<'_> {
    /// Checks that the paths of every core get their shares.
    pub(super) fn check_fairness(&mut self, time: u64) {
        for index in 0..self.cores.len() {
            let node = self.cores[index].node;
            let RunningRouter { plan, pending, .. } = &self.nodes[node];
            let scheduler = plan.plan.cpu.scheduler;
            if pending.is_some() {
                continue;
            }
            let core = &mut self.cores[index];
            for (task, lag) in core.fairness.lags(&mut core.worker) {
                // Twice the bound: the duration of a run is an estimate until it ends, so a long run may have been taken for a short one.
                let most = 2 * bound(&lag, scheduler);
                if lag.worst <= most as f64 {
                    continue;
                }
                let (name, router) = (self.task_name(node, &task), &self.nodes[node].plan.name);
                let what = || {
                    let name = name.unwrap_or_default();
                    format!("task {name} of router {router} is {:.0} ns behind its share, over {most}", lag.worst)
                };
                self.outside.lock().violations.add(time, WorldInvariant::Fairness, what);
            }
        }
    }

    /// Adds the lags of paths to the values.
    pub(super) fn report_lags(&mut self, node: usize, values: &mut BTreeMap<String, f64>) {
        let (prefix, scheduler) = (self.prefix(node), self.nodes[node].plan.plan.cpu.scheduler);
        let lags: Vec<(TaskReport, Lag)> = self
            .cores
            .iter_mut()
            .filter(|core| core.node == node)
            .flat_map(|core| core.fairness.lags(&mut core.worker))
            .collect();
        for (task, lag) in lags {
            let Some(name) = self.task_name(node, &task) else { continue };
            let mut put = |key: &str, value: f64| {
                let most = values.entry(format!("{prefix}task.{name}.{key}")).or_default();
                *most = most.max(value);
            };
            put("behind_max_us", lag.worst / 1e3);
            put("behind_bound_us", bound(&lag, scheduler) as f64 / 1e3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Instant, Nanos};

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    /// The records of a run of this length.
    fn run(used: u64) -> [TaskEvent; 2] {
        let (packets, used) = (u32::from(used > 0), Nanos::new(used));
        [TaskEvent::Dispatched { switch: Nanos::ZERO }, TaskEvent::Yielded { packets, bytes: 0, waiting: 0, used }]
    }

    /// The lags of A and B, which have half of the core each. An item is a run of some length and the state after it, or only the state.
    fn lags(story: &[(TaskId, Option<u64>, TaskEvent)]) -> [f64; 2] {
        let mut fairness = Fairness::default();
        [A, B].into_iter().for_each(|task| fairness.entitle(task, 0.5));
        let known = [A, B].map(|task| (task, Some(1), TaskEvent::Idle));
        for &(task, used, then) in known.iter().chain(story) {
            let record = |what| TraceRecord { at: Instant::START, task, event: what };
            let all: Vec<TraceRecord> = used.map(run).into_iter().flatten().chain([then]).map(record).collect();
            fairness.evaluate(all.iter());
        }
        [A, B].map(|task| fairness.lag_of(task, TaskState::Idle).worst)
    }

    #[test]
    fn only_backlogged_tasks_lag() {
        use TaskEvent::{Active, Eligible, Idle};
        let told =
            |more: &[(TaskId, Option<u64>, TaskEvent)]| lags(&[&[(A, None, Active), (B, None, Active)], more].concat());
        let even = [(A, Some(10), Active), (B, Some(10), Active), (A, Some(10), Active), (B, Some(10), Active)];
        assert_eq!(told(&even), [5.0, 5.0]);
        assert_eq!(told(&[(A, Some(90), Active), (A, Some(10), Active), (B, Some(10), Active)]), [0.0, 50.0]);
        // After its run the task is idle or eligible for a while.
        for then in [Idle, Eligible] {
            let gone = [(B, Some(10), then), (A, Some(100), Active), (B, None, Active), (B, Some(10), Active)];
            assert_eq!(told(&gone), [5.0, 0.0]);
        }
        assert_eq!(told(&[(B, Some(10), Active), (A, Some(100), Active), (B, Some(10), Active)]), [5.0, 50.0]);
        // It was dispatched and had no packets.
        let let_go = [(A, Some(100), Active), (B, Some(0), Active), (A, Some(100), Active), (B, Some(10), Active)];
        assert_eq!(told(&let_go)[1], 50.0);
    }

    #[test]
    fn first_runs_are_excluded_from_lag() {
        use TaskEvent::Active;
        let mut fairness = Fairness::default();
        fairness.entitle(A, 0.5);
        let mut lag = |task, used| {
            let whats = run(used).into_iter().chain([Active]);
            let records: Vec<TraceRecord> =
                whats.map(|what| TraceRecord { at: Instant::START, task, event: what }).collect();
            fairness.evaluate(records.iter());
            fairness.lag_of(A, TaskState::Active).worst
        };
        assert_eq!([(A, 10), (B, 100), (TaskId(2), 80)].map(|(task, used)| lag(task, used)), [0.0; 3]);
        assert_eq!([(B, 100), (TaskId(2), 80)].map(|(task, used)| lag(task, used)), [50.0, 90.0]);
    }

    #[test]
    fn lag_has_longest_runs() {
        let mut fairness = Fairness::default();
        let runs = |list: &[(TaskId, u64)]| -> Vec<TraceRecord> {
            let all = list.iter().flat_map(|&(task, used)| run(used).map(|what| (task, what)));
            let then = |(task, what)| [(task, what), (task, TaskEvent::Active)];
            all.flat_map(then).map(|(task, what)| TraceRecord { at: Instant::START, task, event: what }).collect()
        };
        fairness.entitle(A, 0.5);
        fairness.evaluate(runs(&[(A, 1), (B, 1), (TaskId(2), 1)]).iter());
        fairness.evaluate(runs(&[(A, 7), (A, 30), (B, 100), (B, 50), (TaskId(2), 20)]).iter());
        let lag = Lag { worst: 85.0, own: 30, other: 100, others: 120 };
        assert_eq!(fairness.lag_of(A, TaskState::Active), lag);
        fairness.end_backlogs();
        fairness.evaluate(runs(&[(B, 1000)]).iter());
        assert_eq!(fairness.lag_of(A, TaskState::Active).worst, 85.0, "nothing is known of before");
        fairness.evaluate(runs(&[(A, 10), (B, 1000)]).iter());
        assert_eq!(fairness.lag_of(A, TaskState::Active).worst, 500.0);
    }
}
