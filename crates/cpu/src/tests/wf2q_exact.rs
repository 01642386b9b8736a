//! WF2Q+ against its equations, computed naively, and over years of virtual time.

use super::*;
use proptest::prelude::*;

/// A task of the model. Virtual times have 9 binary places.
#[derive(Clone, Copy, Default)]
struct Entry {
    share: u64,
    start: u128,
    length: u64,
    runnable: bool,
}

/// The equations as in the paper, one loop each.
#[derive(Default)]
struct Naive {
    tasks: Vec<Entry>,
    /// With 64 more places.
    v: u128,
    latest: u128,
}

fn span(work: u64, share: u64) -> u128 {
    // l/r: the inverse of a share has 32 binary places.
    (u128::from(work) * ((1 << 64) / u128::from(share)) + (1 << 22)) >> 23
}

impl Naive {
    fn v(&self) -> u128 {
        self.v >> 64
    }

    fn wake(&mut self, task: usize, length: u64) {
        let v = self.v();
        let entry = &mut self.tasks[task];
        if !entry.runnable {
            *entry = Entry { start: entry.start.max(v), length, runnable: true, ..*entry };
        }
    }

    fn pick(&mut self) -> Option<usize> {
        let v = self.v();
        let finish = |(_, entry): &(usize, &Entry)| entry.start + span(entry.length, entry.share);
        let may = self.tasks.iter().enumerate().filter(|(_, entry)| entry.runnable && entry.start <= v);
        let task = may.min_by_key(finish)?.0;
        self.tasks[task].runnable = false;
        Some(task)
    }

    fn charge(&mut self, task: usize, used: u64, next: Option<u64>) {
        let all: u128 = self.tasks.iter().map(|entry| u128::from(entry.share)).sum();
        let entry = &mut self.tasks[task];
        entry.start += span(used, entry.share);
        self.latest = self.latest.max(entry.start);
        if let Some(length) = next {
            (entry.length, entry.runnable) = (length, true);
        }
        let first = self.tasks.iter().filter(|entry| entry.runnable).map(|entry| entry.start).min();
        self.v = (self.v + u128::from(used) * ((1 << 105) / all)).max(first.unwrap_or(self.latest) << 64);
    }
}

/// A run: the tasks that wake before it, those that wake in it, its length, and the expected length of the next.
type Round = (Vec<(usize, u64)>, Vec<(usize, u64)>, u64, Option<u64>);

fn agree(name: &str, shares: &[u64], rounds: &[Round]) {
    let mut scheduler = (scheduler_case(name).make)();
    let mut naive = Naive::default();
    for (task, &millionths) in shares.iter().enumerate() {
        let share = Share::of(millionths, 1_000_000);
        scheduler.add(TaskId::at(task), share);
        naive.tasks.push(Entry { share: share.get(), ..Entry::default() });
    }
    for (n, (before, within, used, next)) in rounds.iter().enumerate() {
        let wake = |scheduler: &mut dyn CpuScheduler, naive: &mut Naive, who: &[(usize, u64)], but: Option<usize>| {
            for &(task, length) in who.iter().filter(|(task, _)| Some(*task % shares.len()) != but) {
                let task = task % shares.len();
                // A task that waits has more work than when it woke.
                if naive.tasks[task].runnable {
                    scheduler.expect(TaskId::at(task), Nanos::new(length));
                    naive.tasks[task].length = length;
                } else {
                    scheduler.wake(TaskId::at(task), Nanos::new(length), NOW);
                    naive.wake(task, length);
                }
            }
        };
        wake(&mut *scheduler, &mut naive, before, None);
        let (picked, expected) = (scheduler.pick(NOW), naive.pick());
        assert_eq!(picked.map(TaskId::index), expected, "{name}, pick {n}");
        let Some(task) = expected else { continue };
        wake(&mut *scheduler, &mut naive, within, Some(task));
        scheduler.charge(TaskId::at(task), Nanos::new(*used), next.map(Nanos::new), NOW);
        naive.charge(task, *used, *next);
    }
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let length = || prop_oneof![0..200u64, 0..100_000u64];
    let who = || proptest::collection::vec((any::<usize>(), length()), 0..3);
    proptest::collection::vec((who(), who(), length(), proptest::option::weighted(0.8, length())), 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn wf2q_picks_equal_its_equations_in_array_and_tournament(
        few in proptest::collection::vec(1..=1_000_000u64, 1..65),
        many in prop_oneof![65..130usize, 1000..1025usize].prop_flat_map(|n| proptest::collection::vec(1..=1_000_000u64, n)),
        rounds in rounds(),
    ) {
        agree("wf2q+", &few, &rounds);
        agree("wf2q+ in a tournament", &few, &rounds);
        agree("wf2q+", &many, &rounds);
    }
}

/// Two tasks of the same share forever, and a third that wakes now and then for one run.
fn years(name: &str, share: Share, run: Nanos) {
    const SLEEPER: TaskId = TaskId(2);
    let mut scheduler = (scheduler_case(name).make)();
    let mut got = [0; 2];
    for task in [0, 1, 2].map(TaskId) {
        scheduler.add(task, share);
        if task != SLEEPER {
            scheduler.wake(task, run, NOW);
        }
    }
    let mut waits = None;
    for n in 0..50_000 {
        if n % 1000 == 999 {
            scheduler.wake(SLEEPER, run, NOW);
            waits = Some(0);
        }
        let task = scheduler.pick(NOW).unwrap();
        match (&mut waits, got.get_mut(task.index())) {
            (_, Some(got)) => *got += run.get(),
            (waits, None) => *waits = None,
        }
        assert!(got[0].abs_diff(got[1]) <= 2 * run.get(), "{name}: {got:?}");
        waits = waits.map(|runs| runs + 1);
        assert!(waits <= Some(4), "{name}: who slept is forgotten");
        scheduler.charge(task, run, (task != SLEEPER).then_some(run), NOW);
    }
}

#[test]
fn virtual_time_does_not_overflow_in_years_at_minimum_share() {
    // 50 000 runs of a second and more: at the least share, three thousand years of virtual time.
    for name in ["wf2q+", "wf2q+ in a tournament", "wf2q+ in groups", "sfq", "stride", "eevdf"] {
        for run in [Nanos::secs(1), Nanos::new(u64::from(u32::MAX))] {
            for share in [Share::of(1, 1_000_000), Share::of(1, u64::MAX), Share::ONE] {
                years(name, share, run);
            }
        }
    }
}

#[test]
fn wf2q_change_of_form_loses_no_task() {
    const RUN: Nanos = Nanos::micros(1);
    let mut scheduler = Wf2q::new();
    let mut runs = vec![0u32; 1500];
    for task in (0..1500).map(TaskId) {
        scheduler.add(task, Share::of(1, 1500));
        scheduler.wake(task, RUN, NOW);
        // Each task runs once as it is added.
        let picked = scheduler.pick(NOW).unwrap();
        runs[picked.index()] += 1;
        scheduler.charge(picked, RUN, Some(RUN), NOW);
    }
    let mut go = |scheduler: &mut dyn CpuScheduler, range: std::ops::Range<usize>, picks: usize| {
        let before = runs.clone();
        for _ in 0..picks * range.len() {
            let picked = scheduler.pick(NOW).unwrap();
            runs[picked.index()] += 1;
            scheduler.charge(picked, RUN, Some(RUN), NOW);
        }
        for task in range {
            let got = (runs[task] - before[task]) as usize;
            assert!(got.abs_diff(picks) <= 2, "task {task} ran {got} times of {picks}");
        }
    };
    go(&mut scheduler, 0..1500, 4);
    (400..1500).map(TaskId).for_each(|task| scheduler.remove(task));
    go(&mut scheduler, 0..400, 4);
    (3..400).map(TaskId).for_each(|task| scheduler.remove(task));
    go(&mut scheduler, 0..3, 100);
}
