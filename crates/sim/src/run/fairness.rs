//! Whether tasks get what they are entitled to: their share of the work done while they have something to do, but for the
//! runs of others. What agendas note is followed all the time, and judged whenever a point of the series is looked at.

use super::{Live, Node};
use crate::check::Law;
use cpu::task::State;
use cpu::trace::{Record, Trace, What};
use plan::{Charge, CpuPlan, CpuScheduler};
use plane::{TaskReport, Worker};
use std::collections::BTreeMap;
use units::TaskId;

/// How far a task has been behind, and the runs that may explain it. In nanoseconds of service.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Lag {
    /// The most; zero where it never was.
    worst: f64,
    /// Its longest run.
    own: u64,
    /// The longest run of any other task of its core.
    other: u64,
    /// The longest runs of all others together.
    others: u64,
}

/// A task that is followed.
#[derive(Clone, Copy, Debug, Default)]
struct Follow {
    /// Its part of the core; zero where nobody knows what it is entitled to.
    share: f64,
    /// Time it was charged with since the beginning.
    used: u64,
    /// Work of others that it is entitled to nothing of: their first runs.
    forgiven: u64,
    longest: u64,
    /// The least that it was behind since it has had something to do throughout; none where it has not.
    least: Option<f64>,
    worst: f64,
}

impl Follow {
    /// How far it is behind what it would be entitled to had it always had something to do.
    fn behind(&self, work: u64) -> f64 {
        self.share * (work - self.forgiven) as f64 - self.used as f64
    }

    /// It has had something to do until now.
    fn waits(&mut self, work: u64) {
        if let Some(least) = self.least {
            self.worst = self.worst.max(self.behind(work) - least);
        }
    }
}

/// Follows the tasks of one core by what their agenda has noted.
///
/// In any interval throughout which a task could have run, and tasks together were charged `work`, it is entitled to
/// `share * work`. As runs are not interrupted, it may be behind by some: under WF2Q+ by one of its own and one of another,
/// its worst-case fair index (Bennett and Zhang 1997) with runs for packets. That presumes that it is known what a run takes: the
/// first of a task nobody could foretell, and however many come at once, nobody is entitled to a part of them. What it is behind before each of its runs is
/// compared with the least that it was behind since it last had nothing to do; so all such intervals are looked at.
#[derive(Debug, Default)]
struct Fairness {
    /// By id.
    tasks: Vec<Follow>,
    work: u64,
}

impl Fairness {
    /// A task has this part of the core, from now on; zero where it is not to be looked at.
    fn entitle(&mut self, task: TaskId, share: f64) {
        self.task(task).share = share;
    }

    fn task(&mut self, task: TaskId) -> &mut Follow {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Follow::default());
        }
        &mut self.tasks[task.index()]
    }

    /// What an agenda has noted, in its order.
    fn follow<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        for record in records {
            let mut work = self.work;
            let task = self.task(record.task);
            match record.what {
                What::Active => task.least = task.least.or(Some(task.behind(work))),
                What::Eligible | What::Idle => task.least = None,
                What::Dispatched { .. } => task.waits(work),
                What::Yielded { packets, used, .. } => {
                    // Who was let and had nothing to do was entitled to nothing.
                    let mut first = 0;
                    if packets > 0 {
                        work += used.get();
                        first = if task.used == 0 { used.get() } else { 0 };
                        task.used += used.get();
                        task.longest = task.longest.max(used.get());
                    }
                    let now = task.behind(work);
                    task.least = task.least.filter(|_| packets > 0).map(|least| least.min(now));
                    if first > 0 {
                        let others =
                            self.tasks.iter_mut().enumerate().filter(|(index, _)| *index != record.task.index());
                        others.for_each(|(_, other)| other.forgiven += first);
                    }
                }
                // Looking in vain is nobody's service.
                What::Polled { .. } | What::Came { .. } | What::Dropped { .. } | What::Harvested | What::Timeout => {}
            }
            self.work = work;
        }
    }

    /// Looks at a task, which is in this state.
    fn look(&mut self, task: TaskId, state: State) -> Lag {
        let work = self.work;
        let follow = self.task(task);
        if state == State::Active {
            follow.waits(work);
        }
        let own = *follow;
        let others = self.tasks.iter().enumerate().filter(|(index, _)| *index != task.index());
        let (mut other, mut sum) = (0, 0);
        others.for_each(|(_, task)| (other, sum) = (task.longest.max(other), sum + task.longest));
        Lag { worst: own.worst, own: own.longest, other, others: sum }
    }

    /// What has been noted is not all, or shares are others: who had something to do until now nobody knows.
    fn begin_anew(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.least = None);
    }
}

/// Steps after which what was noted is followed.
const FOLLOWED: u32 = 256;
/// What is kept of it: some sixty notes a step.
const KEPT: usize = 64 * FOLLOWED as usize;

/// Who follows what the agenda of a core notes.
pub(super) struct Following {
    /// Whether its tasks get their shares.
    fairness: Fairness,
    /// Where it notes next.
    spare: Option<Box<Trace>>,
    /// Somebody else looks at its notes.
    watched: bool,
    /// Steps since what its agenda noted was last followed.
    unfollowed: u32,
}

impl Following {
    pub fn new() -> Following {
        let spare = Some(Box::new(Trace::new(KEPT)));
        Following { fairness: Fairness::default(), spare, watched: false, unfollowed: 0 }
    }

    /// The tasks of a worker have other shares: what was noted until now says nothing of what comes.
    pub fn entitle(&mut self, worker: &mut Worker, cpu: &CpuPlan) {
        let tasks = self.follow(worker);
        self.fairness.begin_anew();
        // Where less is promised than there is, all get as much more.
        let promised: f64 = tasks.iter().map(|task| task.view.share.as_f64()).sum();
        let goes_by_shares = matches!(cpu.scheduler.lag, plan::Lag::OneRun | plan::Lag::RunOfEach);
        for task in &tasks {
            // What a port would have for its tasks nobody knows, and who pays for switches gets less work for a share.
            let known = task.kind == "forwarding" && goes_by_shares && cpu.charge == Charge::None;
            self.fairness.entitle(task.task, if known { task.view.share.as_f64() / promised } else { 0.0 });
        }
    }

    /// A worker has done a step.
    #[inline]
    pub fn stepped(&mut self, worker: &mut Worker) {
        self.unfollowed += 1;
        if self.unfollowed == FOLLOWED {
            self.follow(worker);
        }
    }

    /// Follows what the agenda of a worker has noted. Answers its tasks.
    #[cold]
    fn follow(&mut self, worker: &mut Worker) -> Vec<TaskReport> {
        self.unfollowed = 0;
        if self.watched {
            return Vec::new();
        }
        let watched = worker.watch(self.spare.take());
        if let Some(mut trace) = watched.trace {
            if trace.lost() > 0 {
                self.fairness.begin_anew();
            }
            self.fairness.follow(trace.records());
            trace.clear();
            self.spare = Some(trace);
        }
        // The first time there is none yet to go on with.
        self.spare.get_or_insert_with(|| Box::new(Trace::new(KEPT)));
        watched.tasks
    }

    /// Somebody else looks at what its agenda notes: nobody follows it.
    pub fn leave(&mut self) {
        self.watched = true;
    }

    /// How far each path of a worker was behind at most, since the beginning.
    fn lags(&mut self, worker: &mut Worker) -> Vec<(TaskReport, Lag)> {
        let tasks = self.follow(worker).into_iter().filter(|task| task.kind == "forwarding");
        tasks
            .map(|task| (self.fairness.look(task.task, task.view.state), task))
            .map(|(lag, task)| (task, lag))
            .collect()
    }
}

/// What a task may be behind at most.
fn bound(lag: &Lag, scheduler: CpuScheduler) -> u64 {
    match scheduler.lag {
        plan::Lag::RunOfEach => lag.own + lag.others,
        _ => lag.own + lag.other,
    }
}

impl Live<'_> {
    /// Looks whether the paths of every core have got their shares.
    pub(super) fn is_fair(&mut self, time: u64) {
        for index in 0..self.cores.len() {
            let node = self.cores[index].node;
            let Node { plan, pending, .. } = &self.nodes[node];
            let scheduler = plan.plan.cpu.scheduler;
            if pending.is_some() {
                continue;
            }
            let core = &mut self.cores[index];
            for (task, lag) in core.following.lags(&mut core.worker) {
                // Twice, as what a run takes is not known before it is over: whoever was thought short may have been long.
                let most = 2 * bound(&lag, scheduler);
                if lag.worst <= most as f64 {
                    continue;
                }
                let (name, router) = (self.task_name(node, &task), &self.nodes[node].plan.name);
                let what = || {
                    let name = name.unwrap_or_default();
                    format!("task {name} of router {router} is {:.0} ns behind its share, over {most}", lag.worst)
                };
                self.outside.lock().violations.add(time, Law::Fairness, what);
            }
        }
    }

    /// How far paths were behind.
    pub(super) fn fair_values(&mut self, node: usize, values: &mut BTreeMap<String, f64>) {
        let (prefix, scheduler) = (self.prefix(node), self.nodes[node].plan.plan.cpu.scheduler);
        let lags: Vec<(TaskReport, Lag)> = self
            .cores
            .iter_mut()
            .filter(|core| core.node == node)
            .flat_map(|core| core.following.lags(&mut core.worker))
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

    /// A run of so long.
    fn run(used: u64) -> [What; 2] {
        let (packets, used) = (u32::from(used > 0), Nanos::new(used));
        [What::Dispatched { switch: Nanos::ZERO }, What::Yielded { packets, bytes: 0, waiting: 0, used }]
    }

    /// How far `a` and `b`, with half of the core each, were behind: a run of so long, and what it is then; or only that.
    fn lags(story: &[(TaskId, Option<u64>, What)]) -> [f64; 2] {
        let mut fairness = Fairness::default();
        [A, B].into_iter().for_each(|task| fairness.entitle(task, 0.5));
        let known = [A, B].map(|task| (task, Some(1), What::Idle));
        for &(task, used, then) in known.iter().chain(story) {
            let record = |what| Record { at: Instant::START, task, what };
            let all: Vec<Record> = used.map(run).into_iter().flatten().chain([then]).map(record).collect();
            fairness.follow(all.iter());
        }
        [A, B].map(|task| fairness.look(task, State::Idle).worst)
    }

    #[test]
    fn only_who_had_something_to_do_throughout_can_be_behind() {
        use What::{Active, Eligible, Idle};
        let told =
            |more: &[(TaskId, Option<u64>, What)]| lags(&[&[(A, None, Active), (B, None, Active)], more].concat());
        let even = [(A, Some(10), Active), (B, Some(10), Active), (A, Some(10), Active), (B, Some(10), Active)];
        assert_eq!(told(&even), [5.0, 5.0]);
        assert_eq!(told(&[(A, Some(90), Active), (A, Some(10), Active), (B, Some(10), Active)]), [0.0, 50.0]);
        // After its run it has nothing to do for a while, or waits for more.
        for then in [Idle, Eligible] {
            let gone = [(B, Some(10), then), (A, Some(100), Active), (B, None, Active), (B, Some(10), Active)];
            assert_eq!(told(&gone), [5.0, 0.0]);
        }
        assert_eq!(told(&[(B, Some(10), Active), (A, Some(100), Active), (B, Some(10), Active)]), [5.0, 50.0]);
        // It was let, and had nothing.
        let let_go = [(A, Some(100), Active), (B, Some(0), Active), (A, Some(100), Active), (B, Some(10), Active)];
        assert_eq!(told(&let_go)[1], 50.0);
    }

    #[test]
    fn nobody_is_entitled_to_a_part_of_the_first_run_of_another_and_to_one_of_the_second() {
        use What::Active;
        let mut fairness = Fairness::default();
        fairness.entitle(A, 0.5);
        let mut lag = |task, used| {
            let whats = run(used).into_iter().chain([Active]);
            let records: Vec<Record> = whats.map(|what| Record { at: Instant::START, task, what }).collect();
            fairness.follow(records.iter());
            fairness.look(A, State::Active).worst
        };
        assert_eq!([(A, 10), (B, 100), (TaskId(2), 80)].map(|(task, used)| lag(task, used)), [0.0; 3]);
        assert_eq!([(B, 100), (TaskId(2), 80)].map(|(task, used)| lag(task, used)), [50.0, 90.0]);
    }

    #[test]
    fn the_longest_runs_are_known() {
        let mut fairness = Fairness::default();
        let runs = |list: &[(TaskId, u64)]| -> Vec<Record> {
            let all = list.iter().flat_map(|&(task, used)| run(used).map(|what| (task, what)));
            let then = |(task, what)| [(task, what), (task, What::Active)];
            all.flat_map(then).map(|(task, what)| Record { at: Instant::START, task, what }).collect()
        };
        fairness.entitle(A, 0.5);
        fairness.follow(runs(&[(A, 1), (B, 1), (TaskId(2), 1)]).iter());
        fairness.follow(runs(&[(A, 7), (A, 30), (B, 100), (B, 50), (TaskId(2), 20)]).iter());
        let lag = Lag { worst: 85.0, own: 30, other: 100, others: 120 };
        assert_eq!(fairness.look(A, State::Active), lag);
        fairness.begin_anew();
        fairness.follow(runs(&[(B, 1000)]).iter());
        assert_eq!(fairness.look(A, State::Active).worst, 85.0, "nothing is known of before");
        fairness.follow(runs(&[(A, 10), (B, 1000)]).iter());
        assert_eq!(fairness.look(A, State::Active).worst, 500.0);
    }
}
