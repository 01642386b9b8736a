//! The counters of a router, summed over its workers, and the values computed from two snapshots of them.

use super::slices::SliceCount;
use super::{RunningWorld, state};
use crate::cost::CoreTime;
use crate::net::Drops;
use cpu::task::TaskState;
use esp::report::StateReport;
use packet::DropReason;
use packet::latency::Latency;
use plane::{PathCounters, QueueReport, TaskReport, WorkerReport};
use std::collections::BTreeMap;
use units::Nanos;

/// The counters of a router.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Paths by name.
    pub paths: BTreeMap<String, PathCount>,
    /// Tasks by kind and name.
    tasks: BTreeMap<String, TaskCount>,
    drops: Drops,
    /// Packets received, sent, generated, dropped, consumed, and currently inside.
    pub ledger: [u64; 6],
    /// Ephemeral-state counters, if the router executes instructions.
    state: Option<StateReport>,
    /// Slices by name.
    pub slices: BTreeMap<String, SliceCount>,
    /// For each core, how its time was spent, and the idle part.
    cores: Vec<(CoreTime, u64)>,
}

/// The counters of a path.
#[derive(Clone, Debug, Default)]
pub(super) struct PathCount {
    pub counters: PathCounters,
    /// Packets in its queues.
    pub queued: usize,
    /// The most packets that have waited for its functions, at one port.
    max_queued: usize,
    /// The sum of packets that waited each time its task started on them, and the number of these samples.
    waited: (u64, u64),
    latency: Latency,
}

/// The counters and settings of a task.
#[derive(Clone, Debug, Default)]
struct TaskCount {
    runs: u64,
    packets: u64,
    used: Nanos,
    timeouts: u64,
    harvested: u64,
    residency: [Nanos; 4],
    /// Polls of its port without packets; none if it receives nothing.
    polls: Option<u64>,
    share: f64,
    threshold: u32,
    max_wait: Option<Nanos>,
    cost: (Nanos, u64),
    estimator: Option<(u64, Nanos)>,
    lag: Nanos,
    /// Packets subject to a classification budget, and those that exceeded it.
    budgeted: (u64, u64),
}

impl PathCount {
    fn add_queue(&mut self, queue: &QueueReport) {
        // Each fill is recorded before packets are dequeued; until the next record the queue only grows.
        self.max_queued = self.max_queued.max(queue.fill.most).max(queue.input);
        self.waited = (self.waited.0 + queue.fill.sum, self.waited.1 + queue.fill.observations);
    }

    fn report(&self, was: &PathCount, span: f64, mut put: impl FnMut(&str, f64)) {
        let forwarded = (self.counters.left - was.counters.left) as f64;
        put("entered", (self.counters.entered - was.counters.entered) as f64);
        put("forwarded", forwarded);
        put("forwarded_pps", forwarded / span);
        put("dropped", (self.counters.dropped - was.counters.dropped) as f64);
        put("queue", self.queued as f64);
        put("queue_max", self.max_queued as f64);
        let (sum, looks) = (self.waited.0.saturating_sub(was.waited.0), self.waited.1.saturating_sub(was.waited.1));
        if looks > 0 {
            put("queue_mean", sum as f64 / looks as f64);
        }
        let stages = [
            ("wait_before", &self.latency.before_functions, &was.latency.before_functions),
            ("wait_behind", &self.latency.after_functions, &was.latency.after_functions),
            ("latency", &self.latency.total, &was.latency.total),
        ];
        for (stage, spread, was) in stages {
            let measured = spread.since(was);
            let micros = |time: Nanos| time.get() as f64 / 1e3;
            let Some(mean) = measured.mean() else { continue };
            put(&format!("{stage}_mean_us"), micros(mean));
            for (name, thousandths) in [("p50", 500), ("p99", 990), ("p999", 999)] {
                measured
                    .quantile(thousandths)
                    .into_iter()
                    .for_each(|time| put(&format!("{stage}_{name}_us"), micros(time)));
            }
            put(&format!("{stage}_max_us"), micros(measured.most()));
        }
        put("late", (self.latency.late - was.latency.late) as f64);
    }
}

impl TaskCount {
    fn add(&mut self, task: &TaskReport, polls: Option<u64>) {
        let (view, account) = (&task.view, &task.view.account);
        self.runs += account.runs;
        self.packets += account.packets;
        self.used += account.used;
        self.timeouts += account.timeouts;
        self.harvested += account.harvested;
        self.residency.iter_mut().zip(account.residency).for_each(|(sum, more)| *sum += more);
        self.polls = self.polls.into_iter().chain(polls).reduce(|sum, more| sum + more);
        self.lag = self.lag.max(account.lag);
        self.budgeted = (self.budgeted.0 + account.weighed.0, self.budgeted.1 + account.weighed.1);
        (self.share, self.threshold, self.max_wait) = (view.share.as_f64(), view.threshold, view.max_wait);
        (self.cost, self.estimator) = (view.cost, view.estimator);
    }

    /// `all` is the total time of the cores, and `charged` the time charged to all their tasks.
    fn report(&self, was: &TaskCount, all: f64, charged: f64, mut put: impl FnMut(&str, f64)) {
        // A task that was removed and added again starts its counters anew; the saturating difference allows for that.
        let since = |now: u64, was: u64| now.saturating_sub(was) as f64;
        let (runs, packets) = (since(self.runs, was.runs), since(self.packets, was.packets));
        let used = since(self.used.get(), was.used.get());
        let micros = |time: Nanos| time.get() as f64 / 1e3;
        put("runs", runs);
        put("packets", packets);
        put("used", used / all);
        put("mean_batch", if runs > 0.0 { packets / runs } else { 1.0 });
        put("share", self.share);
        put("share_received", used / charged);
        put("threshold", self.threshold.into());
        if let Some(most) = self.max_wait.filter(|&most| most != Nanos::MAX) {
            put("max_wait_us", micros(most));
        }
        put("timeouts", since(self.timeouts, was.timeouts));
        put("harvested", since(self.harvested, was.harvested));
        put("cost_mean_us", micros(self.cost.0));
        put("cost_deviation_us", (self.cost.1 as f64).sqrt() / 1e3);
        put("active_max_us", micros(self.lag));
        let times: Vec<f64> =
            self.residency.iter().zip(&was.residency).map(|(now, was)| since(now.get(), was.get())).collect();
        let sum: f64 = times.iter().sum();
        for (state, time) in
            [TaskState::Idle, TaskState::Eligible, TaskState::Active, TaskState::Running].into_iter().zip(&times)
        {
            put(state.name(), if sum > 0.0 { time / sum } else { 0.0 });
        }
        if let Some(polls) = self.polls {
            put("polls", since(polls, was.polls.unwrap_or(0)));
        }
        if self.budgeted.0 > 0 {
            put("over_budget", since(self.budgeted.1, was.budgeted.1));
        }
        if let Some((average, sleep)) = self.estimator {
            put("estimator.average", average as f64 / 1e3);
            put("estimator.sleep_us", micros(sleep));
        }
    }
}

impl RunningWorld<'_> {
    /// The reports of a router's workers, each with its core.
    pub(super) fn reports(&self, node: usize) -> impl Iterator<Item = (WorkerReport, &super::Core)> {
        self.cores.iter().filter(move |core| core.node == node).map(|core| (core.worker.report(), core))
    }

    /// The name of a task in values: its kind, and its paths or port. None if those no longer exist.
    pub(super) fn task_name(&self, node: usize, task: &TaskReport) -> Option<String> {
        let snapshot = self.nodes[node].router.snapshot();
        let path_name = |id| snapshot.paths.iter().find(|path| path.id == id).map(|path| path.name.to_string());
        let paths: Vec<String> = task.paths.iter().filter_map(|&path| path_name(path)).collect();
        let port = task.port.and_then(|port| snapshot.port(port)).map(|port| port.name.to_string());
        let name = if paths.is_empty() { port? } else { paths.join("+") };
        Some(format!("{}.{name}", task.kind))
    }

    pub(super) fn counts(&self, node: usize, time: u64) -> Counts {
        let mut counts = Counts { slices: self.slice_counts(node), ..Counts::default() };
        let snapshot = self.nodes[node].router.snapshot();
        let path_name = |id| snapshot.paths.iter().find(|path| path.id == id).map(|path| path.name.to_string());
        for (report, core) in self.reports(node) {
            for path in &report.paths {
                let Some(name) = path_name(path.path) else { continue };
                let count = counts.paths.entry(name).or_default();
                count.counters += path.counters;
                count.queued += path.queued;
                count.latency.add(&path.latency);
            }
            for queue in &report.queues {
                let Some(name) = path_name(queue.path) else { continue };
                counts.paths.entry(name).or_default().add_queue(queue);
            }
            for task in &report.tasks {
                let Some(name) = self.task_name(node, task) else { continue };
                let polls = task.port.filter(|_| task.kind == "input").map(|port| core.meter.polls(port));
                counts.tasks.entry(name).or_default().add(task, polls);
            }
            if let Some(hook) = &report.hook {
                counts.state.get_or_insert_default().add(hook);
            }
            let ledger = &report.ledger;
            ledger.drops().for_each(|(reason, packets)| counts.drops.add(reason, packets));
            // Packets handed to another worker stay inside the router. One worker's difference may be negative, so sums wrap.
            let ended = ledger.sent() + ledger.dropped() + ledger.consumed();
            let inside = (ledger.received() + ledger.generated()).wrapping_sub(ended);
            let sums =
                [ledger.received(), ledger.sent(), ledger.generated(), ledger.dropped(), ledger.consumed(), inside];
            counts.ledger.iter_mut().zip(sums).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            counts.cores.push(core.spent(time));
        }
        counts
    }

    pub(super) fn router_values(&self, node: usize, now: &Counts, span: f64, values: &mut BTreeMap<String, f64>) {
        let prefix = self.prefix(node);
        let mut put = |name: String, value: f64| _ = values.insert(prefix.clone() + &name, value);
        let before = &self.snapshots.warm.1[node];
        for (path, count) in &now.paths {
            let was = before.paths.get(path).cloned().unwrap_or_default();
            count.report(&was, span, |key, value| put(format!("path.{path}.{key}"), value));
        }
        let used = |counts: &Counts| counts.tasks.values().map(|task| task.used.get()).sum::<u64>();
        let charged = used(now).saturating_sub(used(before)).max(1) as f64;
        let (spent, idle) = now.since(before);
        let all = (spent.busy() + idle).max(1) as f64;
        for (task, count) in &now.tasks {
            let was = before.tasks.get(task).cloned().unwrap_or_default();
            count.report(&was, all, charged, |key, value| put(format!("task.{task}.{key}"), value));
        }
        for &reason in DropReason::ALL.iter() {
            let dropped = now.drops.of(reason) - before.drops.of(reason);
            if dropped > 0 {
                put(format!("drop.{}", reason.name()), dropped as f64);
            }
        }
        if let Some(state) = &now.state {
            let snapshot = self.nodes[node].router.snapshot();
            let name = |port| snapshot.port(port).map(|port| port.name.to_string());
            let was = before.state.clone().unwrap_or_default();
            state::report(state, &was, name, |key, value| put(format!("state.{key}"), value));
        }
        for (slice, count) in &now.slices {
            let was = before.slices.get(slice).cloned().unwrap_or_default();
            count.report(&was, span, |key, value| put(format!("slice.{slice}.{key}"), value));
        }
        report_times(&spent, idle, span, |key, value| put(format!("cpu.{key}"), value));
        if now.cores.len() > 1 {
            for (number, core) in now.cores.iter().enumerate() {
                let was = before.cores.get(number).copied().unwrap_or_default();
                let (spent, idle) = (core.0.since(&was.0), core.1.saturating_sub(was.1));
                report_times(&spent, idle, span, |key, value| put(format!("core.{number}.{key}"), value));
            }
        }
    }
}

impl Counts {
    /// How the time of the cores since `before` was spent, and the idle part.
    pub fn since(&self, before: &Counts) -> (CoreTime, u64) {
        let sum = |counts: &Counts| {
            let (mut all, mut sum) = (CoreTime::default(), 0);
            for (spent, idle) in &counts.cores {
                all += *spent;
                sum += idle;
            }
            (all, sum)
        };
        let (now, was) = (sum(self), sum(before));
        (now.0.since(&was.0), now.1 - was.1)
    }
}

/// Adds values about the time of a core, or of all cores of a router.
fn report_times(spent: &CoreTime, idle: u64, span: f64, mut put: impl FnMut(&str, f64)) {
    let all = (spent.busy() + idle).max(1) as f64;
    put("idle", idle as f64 / all);
    put("useful", spent.useful() as f64 / all);
    put("polling", spent.poll as f64 / all);
    put("switching", spent.switch as f64 / all);
    put("efficiency", ratio(spent.useful(), spent.busy()));
    put("efficiency_literal", ratio(spent.useful() + spent.poll, spent.busy()));
    put("dispatches", spent.dispatches as f64 / span);
    put("polls", spent.polls as f64 / span);
    put("mean_batch", ratio(spent.forwarded, spent.vectors));
}

/// A ratio; one if the whole is zero.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
