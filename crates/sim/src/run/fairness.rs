//! What a task is entitled to: its share of the work done while it has something to do, but for the runs of others.

use cpu::task::State;
use cpu::trace::{Record, What};
use units::TaskId;

/// How far a task has been behind, and the runs that may explain it. In nanoseconds of service.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Lag {
    /// The most; zero where it never was.
    pub worst: f64,
    /// Its longest run.
    pub own: u64,
    /// The longest run of any other task of its core.
    pub other: u64,
    /// The longest runs of all others together.
    pub others: u64,
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
pub(crate) struct Fairness {
    /// By id.
    tasks: Vec<Follow>,
    work: u64,
}

impl Fairness {
    /// A task has this part of the core, from now on; zero where it is not to be looked at.
    pub fn entitle(&mut self, task: TaskId, share: f64) {
        self.task(task).share = share;
    }

    fn task(&mut self, task: TaskId) -> &mut Follow {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Follow::default());
        }
        &mut self.tasks[task.index()]
    }

    /// What an agenda has noted, in its order.
    pub fn follow<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
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
    pub fn look(&mut self, task: TaskId, state: State) -> Lag {
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
    pub fn begin_anew(&mut self) {
        self.tasks.iter_mut().for_each(|task| task.least = None);
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
