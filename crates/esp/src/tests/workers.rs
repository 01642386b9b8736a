//! Several workers: packets go to the owner of their computation's shard, and each has the same fate as on a single worker (spec E-29, E-30, E-X11).

use super::{NODE, packet, part, part_of};
use crate::isa::{Operator, StateInstruction};
use crate::site::{ExecutionRules, InstructionFate, Location, Site};
use crate::store::{Grace, Key, Store, StoreSpec, WorkerEpochs, shard_of};
use crate::wire::Part;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::Instant;

const WORKERS: usize = 8;
const COMPUTATIONS: u64 = 50;
const PACKETS: u64 = 20_000;
const KEY: Key = Key::new([3, 4]);

/// SplitMix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn draw(random: &mut Random) -> (u64, Part) {
    let computation = random.below(COMPUTATIONS);
    let tag = |n| computation << 8 | n;
    let value = random.below(1000);
    let instruction = match random.below(5) {
        0 => StateInstruction::Count { counter: tag(0), threshold: 40, inclusive: false },
        1 => StateInstruction::Compare { tag: tag(1), value, relation: Operator::Ne },
        2 => StateInstruction::Put { tag: tag(2), value },
        3 => StateInstruction::Get { tag: tag(2), value: 0 },
        _ => StateInstruction::Collect { counter: tag(0), result: tag(3), value, operator: Operator::Add },
    };
    // The packet's flow is independent of it: many hosts take part in a computation.
    (random.next(), Part { computation, ..part(instruction) })
}

/// The fate of each packet, by computation, in order of execution.
type Results = BTreeMap<u64, Vec<(u64, InstructionFate, StateInstruction)>>;

fn sites(workers: usize) -> Vec<Site> {
    let spec = StoreSpec { shards: workers, ..StoreSpec::of(10_000) };
    let store = Store::new(spec, &Arc::new(WorkerEpochs::new(workers)), Grace::Counters);
    store.shards.into_iter().map(Site::new).collect()
}

/// Executes a worker's batch.
fn work(site: &mut Site, now: Instant, batch: &[(u64, Part)], results: &mut Results) {
    let mut packets: Vec<Vec<u8>> = batch.iter().map(|(_, part)| packet(part)).collect();
    let mut fates = vec![InstructionFate::PassedThrough; batch.len()];
    site.process((&ExecutionRules::of(NODE), Location::Input), now, &mut packets, &mut fates);
    for (((number, part), packet), fate) in batch.iter().zip(&packets).zip(&fates) {
        results.entry(part.computation).or_default().push((*number, *fate, part_of(packet).instruction));
    }
}

/// Queues packets in order of arrival at the worker that `dispatch` selects. The next worker to run and its batch size are random.
fn run(workers: usize, dispatch: impl Fn(u64, u64) -> usize, seed: u64) -> Results {
    let (mut traffic, mut order) = (Random(1), Random(seed));
    let mut queues: Vec<VecDeque<(u64, Part)>> = (0..workers).map(|_| VecDeque::new()).collect();
    let (mut sites, mut results) = (sites(workers), Results::new());
    let (mut queued, mut executed) = (0, 0);
    while executed < PACKETS {
        let worker = order.below(workers as u64 + 1) as usize;
        let Some(queue) = queues.get_mut(worker) else {
            for _ in 0..order.below(200).min(PACKETS - queued) {
                let (flow, part) = draw(&mut traffic);
                queues[dispatch(flow, part.computation)].push_back((queued, part));
                queued += 1;
            }
            continue;
        };
        let count = (order.below(64) as usize).min(queue.len());
        let batch: Vec<(u64, Part)> = queue.drain(..count).collect();
        work(&mut sites[worker], Instant::new(executed), &batch, &mut results);
        executed += count as u64;
    }
    results
}

fn single_worker() -> Results {
    run(1, |_, _| 0, 0)
}

#[test]
fn cid_dispatch_order() {
    let expected = single_worker();
    for seed in 1..6 {
        let results = run(WORKERS, |_, computation| shard_of(KEY, computation, WORKERS), seed);
        assert!(results == expected, "seed {seed}: something else became of a packet, or another came before it");
    }
}

/// On threads of the machine, which run in any order.
#[test]
fn cid_dispatch_order_on_threads() {
    const THREADS: usize = 4;
    let (to, at): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::sync_channel(256)).unzip();
    let results: Results = std::thread::scope(|scope| {
        let thread = |(mut site, packets): (Site, std::sync::mpsc::Receiver<(u64, Part)>)| {
            scope.spawn(move || {
                let mut results = Results::new();
                while let Ok(first) = packets.recv() {
                    let batch: Vec<(u64, Part)> = std::iter::once(first).chain(packets.try_iter().take(31)).collect();
                    work(&mut site, Instant::new(first.0), &batch, &mut results);
                }
                results
            })
        };
        let threads: Vec<_> = sites(THREADS).into_iter().zip(at).map(thread).collect();
        let mut traffic = Random(1);
        for number in 0..PACKETS {
            let (_, part) = draw(&mut traffic);
            to[shard_of(KEY, part.computation, THREADS)].send((number, part)).unwrap();
        }
        drop(to);
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results == single_worker(), "something else became of a packet, or another came before it");
}

/// Negative control: dispatch by flow, as network cards do, breaks computations.
#[test]
fn tuple_dispatch_negative_control() {
    let results = run(WORKERS, |flow, _| (flow % WORKERS as u64) as usize, 1);
    let expected = single_worker();
    let differ = expected.keys().filter(|computation| results.get(computation) != expected.get(computation)).count();
    assert_eq!(differ as u64, COMPUTATIONS, "every single one");
}

#[test]
fn computations_spread_evenly_and_unpredictably_over_shards() {
    for (name, step) in [("in a row", 1), ("apart", 1 << 48), ("at random", 0x9e37_79b9_7f4a_7c15)] {
        let (mut load, mut other) = ([0u32; WORKERS], 0);
        for n in 0..40_000u64 {
            let computation = n.wrapping_mul(step);
            let shard = shard_of(KEY, computation, WORKERS);
            load[shard] += 1;
            other += u32::from(shard == shard_of(KEY.derive(1), computation, WORKERS));
        }
        // Five standard deviations around a fair share of 5000.
        assert!(load.iter().all(|load| load.abs_diff(5000) < 5 * 66), "{name}: {load:?}");
        assert!(other.abs_diff(5000) < 5 * 66, "{name}: another key, another place: {other}");
    }
}

/// The same on threads, each with its own shard of one store, beside an inspector and a cleaner.
#[test]
fn workers_execute_beside_a_cleaner_and_an_inspector() {
    use crate::store::CleanerMode;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    let spec = StoreSpec { shards: 2, cleaning: CleanerMode::Dedicated, ..StoreSpec::of(4000) };
    let store = Store::new(spec, &Arc::new(WorkerEpochs::new(2)), Grace::Counters);
    let (mut cleaner, inspector, done) = (store.cleaner.unwrap(), store.inspector, AtomicBool::new(false));
    let (lifetime, clocks) = (crate::store::LIFETIME.get(), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        let (done, inspector, clocks) = (&done, &inspector, &clocks);
        let workers: Vec<_> = store
            .shards
            .into_iter()
            .zip(clocks)
            .map(|(shard, clock)| {
                scope.spawn(move || {
                    let (mut site, rules) = (Site::new(shard), ExecutionRules::of(NODE));
                    for n in 0..20_000u64 {
                        let now = Instant::new(n * lifetime / 1000);
                        let counter = n / 2;
                        let mut packets =
                            [packet(&part(StateInstruction::Count { counter, threshold: 3, inclusive: false }))];
                        let mut fates = [InstructionFate::PassedThrough];
                        site.process((&rules, Location::Input), now, &mut packets, &mut fates);
                        clock.store(now.get(), Ordering::Relaxed);
                        // The log has room for four lifetimes, which is enough time for the cleaner.
                        if fates[0] != InstructionFate::Aborted(crate::isa::Abort::Full) {
                            assert_eq!(fates[0], InstructionFate::Forwarded, "the first or the second of its tag: {n}");
                        }
                    }
                })
            })
            .collect();
        let looks = scope.spawn(move || {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                let entries = inspector.entries(Instant::new(20 * lifetime));
                most = most.max(entries.inspect(|entry| assert!((1..=2).contains(&entry.value))).count());
            }
            most
        });
        let cleans = scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // It uses the clock of the slower worker.
                let now = clocks.iter().map(|clock| clock.load(Ordering::Relaxed)).min();
                cleaner.step(Instant::new(now.unwrap_or(0)));
            }
            while cleaner.step(Instant::new(100 * lifetime)) > 0 {}
            cleaner.counters().freed
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        looks.join().unwrap();
        assert_eq!(cleans.join().unwrap(), inspector.occupancy(Instant::START).iter().map(|o| o.created).sum::<u64>());
    });
}
