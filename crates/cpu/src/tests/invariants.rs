//! The guarantees of every CPU scheduler, against a model that only knows which tasks are runnable.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Add(u32, Share),
    Remove(u32),
    Share(u32, Share),
    Wake(u32, u64),
    /// Picks a task, applies the operations, charges the task.
    Run(Vec<Op>, u64, Option<u64>),
}

fn shares() -> impl Strategy<Value = Share> {
    prop_oneof![
        1 => Just(Share::ZERO),
        4 => (1..=1000u64).prop_map(|part| Share::of(part, 1000)),
        1 => Just(Share::of(1, 1_000_000)),
        1 => Just(Share::of(1, u64::MAX)),
        1 => Just(Share::ONE),
    ]
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..1000u64, 4 => 0..1_000_000u64, 1 => Just(u64::MAX), 1 => Just(u64::from(u32::MAX))]
}

fn ops(ids: u32, deep: bool) -> BoxedStrategy<Op> {
    let simple = prop_oneof![
        2 => (0..ids, shares()).prop_map(|(id, share)| Op::Add(id, share)),
        1 => (0..ids).prop_map(Op::Remove),
        1 => (0..ids, shares()).prop_map(|(id, share)| Op::Share(id, share)),
        6 => (0..ids, lengths()).prop_map(|(id, length)| Op::Wake(id, length)),
    ];
    if !deep {
        return simple.boxed();
    }
    let meanwhile = proptest::collection::vec(ops(ids, false), 0..3);
    let run = (meanwhile, lengths(), proptest::option::of(lengths()));
    prop_oneof![1 => simple, 2 => run.prop_map(|(meanwhile, used, next)| Op::Run(meanwhile, used, next))].boxed()
}

/// The model of a task: its share, and whether it is runnable.
type Model = BTreeMap<u32, (Share, bool)>;

struct SchedulerModel {
    scheduler: Box<dyn CpuScheduler>,
    model: Model,
    running: Option<u32>,
    /// The tasks that were picked, in order.
    picked: Vec<u32>,
}

impl SchedulerModel {
    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Add(id, share) => {
                // An id is reused only after the last run of its former task.
                if !self.model.contains_key(&id) && self.running != Some(id) {
                    self.scheduler.add(TaskId(id), share);
                    self.model.insert(id, (share, false));
                }
            }
            Op::Remove(id) => {
                self.scheduler.remove(TaskId(id));
                self.model.remove(&id);
            }
            Op::Share(id, share) => {
                self.scheduler.share(TaskId(id), share);
                self.model.entry(id).and_modify(|task| task.0 = share);
            }
            Op::Wake(id, length) => {
                self.scheduler.wake(TaskId(id), Nanos::new(length), NOW);
                self.model.entry(id).and_modify(|task| task.1 = true);
            }
            Op::Run(ref meanwhile, used, next) => self.run(meanwhile, used, next),
        }
    }

    fn run(&mut self, meanwhile: &[Op], used: u64, next: Option<u64>) {
        let Some(TaskId(task)) = self.scheduler.pick(NOW) else {
            assert!(self.model.values().all(|&(_, runnable)| !runnable), "a runnable task was not picked");
            return;
        };
        let (share, runnable) = self.model.get_mut(&task).expect("only tasks that are there are picked");
        assert!(std::mem::take(runnable), "task {task} was picked and had nothing to do");
        let background = *share == Share::ZERO;
        assert!(!background || self.model.values().all(|&(share, runnable)| share == Share::ZERO || !runnable));
        self.running = Some(task);
        self.picked.push(task);
        meanwhile.iter().for_each(|op| self.apply(op));
        self.scheduler.charge(TaskId(task), Nanos::new(used), next.map(Nanos::new), NOW);
        self.running = None;
        self.model.entry(task).and_modify(|state| state.1 |= next.is_some());
    }
}

/// Traces the picks meanwhile.
fn check_invariants(way: SchedulerCase, sequence: &[Op]) -> Vec<u32> {
    let mut laws = SchedulerModel { scheduler: (way.make)(), model: Model::new(), running: None, picked: Vec::new() };
    sequence.iter().for_each(|op| laws.apply(op));
    // No task is lost: each runnable task is picked once, and then none is left.
    let runnable = laws.model.values().filter(|(_, runnable)| *runnable).count();
    for _ in 0..runnable {
        laws.run(&[], 1000, None);
    }
    assert_eq!(laws.scheduler.pick(NOW), None);
    assert!(laws.model.values().all(|&(_, runnable)| !runnable));
    laws.picked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_scheduler_picks_only_runnable_tasks_and_loses_none(
        few in proptest::collection::vec(ops(12, true), 0..200),
        more in proptest::collection::vec(ops(80, true), 0..300),
    ) {
        for &way in SCHEDULER_CASES {
            check_invariants(way, &few);
            check_invariants(way, &more);
        }
    }

    #[test]
    fn arrays_and_tournament_agree_when_tasks_are_added_removed_or_change_share(
        sequence in proptest::collection::vec(ops(64, true), 0..300),
    ) {
        prop_assert_eq!(check_invariants(scheduler_case("wf2q+"), &sequence), check_invariants(scheduler_case("wf2q+ in a tournament"), &sequence));
    }
}

/// A scheduler with runnable tasks of equal shares.
fn awake(way: SchedulerCase, tasks: u32) -> Box<dyn CpuScheduler> {
    let mut scheduler = (way.make)();
    for task in (0..tasks).map(TaskId) {
        scheduler.add(task, Share::of(1, 4));
        scheduler.wake(task, Nanos::micros(1), NOW);
    }
    scheduler
}

fn run(scheduler: &mut dyn CpuScheduler, picks: usize, more: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut order = Vec::new();
    while let Some(task) = (order.len() < picks).then(|| scheduler.pick(NOW)).flatten() {
        order.push(task.0);
        scheduler.charge(task, Nanos::micros(20), more(task.0).then_some(Nanos::micros(20)), NOW);
    }
    order
}

#[test]
fn tasks_with_equal_shares_run_round_robin() {
    for &way in SCHEDULER_CASES {
        let order = run(&mut *awake(way, 3), 30, |_| true);
        for turns in order.chunks(3) {
            let mut turns = turns.to_vec();
            turns.sort_unstable();
            assert_eq!(turns, [0, 1, 2], "{}: {order:?}", way.name);
        }
    }
}

#[test]
fn ties_go_to_the_lowest_id() {
    for name in ["wf2q+", "wf2q+ in a tournament", "sfq", "stride", "eevdf"] {
        let mut scheduler = (scheduler_case(name).make)();
        for task in [2, 0, 1].map(TaskId) {
            scheduler.add(task, Share::of(1, 4));
            scheduler.wake(task, Nanos::micros(1), NOW);
        }
        assert_eq!(run(&mut *scheduler, 6, |_| true), [0, 1, 2, 0, 1, 2], "{name}");
    }
}

#[test]
fn idle_task_is_not_picked_until_woken() {
    for &way in SCHEDULER_CASES {
        let mut scheduler = awake(way, 2);
        let order = run(&mut *scheduler, 9, |task| task == 1);
        assert_eq!(order.iter().filter(|&&task| task == 0).count(), 1, "{}: {order:?}", way.name);
        scheduler.wake(TaskId(0), Nanos::ZERO, NOW);
        let mut rest = run(&mut *scheduler, 9, |_| false);
        rest.sort_unstable();
        assert_eq!(rest, [0, 1], "{}", way.name);
    }
}

#[test]
fn wakeup_during_run_is_not_lost() {
    for &way in SCHEDULER_CASES {
        for share in [Share::ONE, Share::ZERO] {
            let mut scheduler = (way.make)();
            scheduler.add(TaskId(0), share);
            scheduler.wake(TaskId(0), Nanos::ZERO, NOW);
            let task = scheduler.pick(NOW).unwrap();
            scheduler.wake(task, Nanos::ZERO, NOW);
            scheduler.charge(task, Nanos::ZERO, None, NOW);
            assert_eq!(scheduler.pick(NOW), Some(task), "{}", way.name);
            scheduler.charge(task, Nanos::ZERO, None, NOW);
            assert_eq!(scheduler.pick(NOW), None, "{}", way.name);
        }
    }
}

#[test]
fn a_removed_task_is_never_picked_even_if_it_was_running() {
    for &way in SCHEDULER_CASES {
        let mut scheduler = awake(way, 2);
        let task = scheduler.pick(NOW).unwrap();
        scheduler.remove(task);
        scheduler.charge(task, Nanos::ZERO, Some(Nanos::ZERO), NOW);
        let other = 1 - task.0;
        assert_eq!(run(&mut *scheduler, 3, |_| true), [other; 3], "{}", way.name);
    }
}

#[test]
fn background_class_runs_only_when_no_task_with_a_share_is_runnable() {
    for &way in SCHEDULER_CASES {
        let mut scheduler = awake(way, 1);
        for task in [1, 2].map(TaskId) {
            scheduler.add(task, Share::ZERO);
            scheduler.wake(task, Nanos::ZERO, NOW);
        }
        assert_eq!(run(&mut *scheduler, 4, |_| true), [0; 4], "{}", way.name);
        assert_eq!(run(&mut *scheduler, 5, |task| task > 0), [0, 1, 2, 1, 2], "{}", way.name);
        // Given a share while it waits, and none while it runs.
        scheduler.share(TaskId(2), Share::ONE);
        assert_eq!(run(&mut *scheduler, 3, |_| true), [2; 3], "{}", way.name);
        let task = scheduler.pick(NOW).unwrap();
        scheduler.share(task, Share::ZERO);
        scheduler.charge(task, Nanos::micros(5), Some(Nanos::micros(5)), NOW);
        assert_eq!(run(&mut *scheduler, 4, |_| true), [1, 2, 1, 2], "{}", way.name);
        let task = scheduler.pick(NOW).unwrap();
        scheduler.share(task, Share::ONE);
        scheduler.charge(task, Nanos::micros(5), Some(Nanos::micros(5)), NOW);
        assert_eq!(run(&mut *scheduler, 3, |_| true), [task.0; 3], "{}", way.name);
    }
}
