//! Single components: longest-prefix match, the queueing scheme, the CPU scheduler.

use super::{BenchFigure, Rounds, median};
use cpu::CpuScheduler;
use fib::{Fib4, Origin, Outcome, RouteChange, Tables};
use io::clock::CycleCounter;
use packet::pool::HugeTable;
use packet::port::{MemoryWire, Port};
use packet::{Batch, Pool, Queue, Region};
use plane::rig::StandaloneLink;
use std::collections::HashSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use units::{Instant, Nanos, Share, TaskId, VrfId};

/// The median of measurements of `work`, which does `operations` operations, in nanoseconds per operation.
pub(super) fn nanos_per_operation(Rounds(rounds): Rounds, operations: usize, mut work: impl FnMut()) -> f64 {
    let counter = CycleCounter::calibrated();
    let mut round = || {
        let start = counter.read();
        work();
        counter.between(start, counter.read()).get() as f64 / operations as f64
    };
    round();
    median((0..rounds).map(|_| round()).collect())
}

/// A pseudo-random sequence that the seed determines (xorshift: Marsaglia 2003).
pub(super) fn sequence(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state)
    })
}

/// `count` different IPv4 prefixes between 16.0.0.0 and 111.255.255.255, each with a number. Their lengths are distributed as in the Internet: more
/// than half are /24, one in a hundred is longer.
pub fn random_prefixes(count: usize) -> impl Iterator<Item = (plan::Prefix, u64)> {
    let mut seen = HashSet::with_capacity(count);
    let prefix = |r: u64| {
        let length = match r >> 32 & 127 {
            0..=69 => 24,
            70..=85 => 22 + (r >> 40) as u8 % 2,
            86..=112 => 19 + (r >> 40) as u8 % 3,
            113..=125 => 16 + (r >> 40) as u8 % 3,
            _ => 25 + (r >> 40) as u8 % 8,
        };
        let address = 0x1000_0000 + (((r & 0xffff_ffff) * 0x6000_0000) >> 32) as u32;
        let prefix = plan::Prefix::new(IpAddr::V4(Ipv4Addr::from(address)), length).expect("at most 32");
        (prefix.network(), r >> 48)
    };
    sequence(7).map(prefix).filter(move |(prefix, _)| seen.insert(*prefix)).take(count)
}

/// `count` addresses within the prefixes of [`random_prefixes`], in random order.
pub fn destinations(routes: usize, count: usize) -> Vec<u32> {
    let prefixes: Vec<(u32, u8)> = random_prefixes(routes)
        .map(|(prefix, _)| match prefix.address {
            IpAddr::V4(address) => (address.to_bits(), prefix.length),
            IpAddr::V6(_) => unreachable!("they are of IPv4"),
        })
        .collect();
    let within = |(n, host): (u64, u64)| {
        let (address, length) = prefixes[n as usize % prefixes.len()];
        address | (host >> 32) as u32 & u32::MAX.checked_shr(length.into()).unwrap_or(0)
    };
    pairs(9).map(within).take(count).collect()
}

/// `count` different IPv6 prefixes within 2000::/4, most of them /48 and shorter.
pub fn random_prefixes_v6(count: usize) -> impl Iterator<Item = plan::Prefix> {
    let mut seen = HashSet::with_capacity(count);
    let prefix = |(top, low): (u64, u64)| {
        let length = match low & 127 {
            0..=63 => 48,
            64..=95 => 32 + (low >> 8) as u8 % 16,
            96..=119 => 29 + (low >> 8) as u8 % 4,
            120..=125 => 49 + (low >> 8) as u8 % 16,
            _ => 128,
        };
        plan::Prefix::new(IpAddr::V6(address6(top, low)), length).expect("at most 128").network()
    };
    pairs(11).map(prefix).filter(move |prefix| seen.insert(*prefix)).take(count)
}

fn pairs(seed: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut numbers = sequence(seed);
    std::iter::from_fn(move || Some((numbers.next()?, numbers.next()?)))
}

/// An address within one of the blocks that the registries have allocated: a few blocks of 2000::/4 (RFC 7249, 2.1).
fn address6(top: u64, low: u64) -> Ipv6Addr {
    const BLOCKS: [u16; 8] = [0x2001, 0x2400, 0x2600, 0x2604, 0x2607, 0x2800, 0x2a00, 0x2c0f];
    let block = BLOCKS[(top >> 60) as usize % BLOCKS.len()];
    Ipv6Addr::from_bits(u128::from(block) << 112 | u128::from(top & 0xffff_ffff_ffff) << 64 | u128::from(low))
}

/// Numbers of destinations looked up in turn: few enough that everything they touch stays in the cache, and too many for that.
const FEW_DESTINATIONS: usize = 1 << 10;
const FAR: usize = 1 << 20;

/// Longest-prefix match in bulks of 32, with few routes and with many.
pub fn lookup(rounds: Rounds) -> Vec<BenchFigure> {
    const BULK: usize = 32;
    /// Packets that the forwarding path looks up at once under load.
    const BATCH: usize = 256;
    let tables = Tables::new();
    let change = |(prefix, n): (plan::Prefix, u64)| RouteChange {
        vrf: VrfId::MAIN,
        prefix,
        origin: Origin::Static,
        outcome: if n & 1 == 0 { Outcome::Blackhole } else { Outcome::Unreachable },
    };
    tables.apply_routes(random_prefixes(1_000_000).map(change)).expect("there is room");
    tables.apply_routes(random_prefixes_v6(200_000).map(|prefix| change((prefix, 0)))).expect("there is room");
    let mut figures = Vec::new();
    let far: Vec<u32> =
        sequence(9).take(FAR).map(|r| 0x1000_0000 + (((r & 0xffff_ffff) * 0x6000_0000) >> 32) as u32).collect();
    for (keys, many, name, budget) in [
        (&far[..FEW_DESTINATIONS], BULK, "IPv4, 10^6 routes, 1024 destinations, 32 at once", Some(2.0)),
        (&far[..], BULK, "IPv4, 10^6 routes, 2^20 destinations, 32 at once", Some(8.0)),
        (&far[..], BATCH, "IPv4, 10^6 routes, 2^20 destinations, 256 at once", None),
    ] {
        let mut words = [0; BATCH];
        let cost = nanos_per_operation(rounds, FAR, || {
            for bulk in (0..FAR / keys.len()).flat_map(|_| keys.chunks(many)) {
                tables.fib4().lookup_bulk(bulk, &mut words[..bulk.len()]);
                black_box(&words);
            }
        });
        figures.push(BenchFigure::alone("lookup", name, cost, "ns/lookup", budget));
    }
    figures.push(BenchFigure::alone("lookup", MANY_HOPS, many_hops(rounds, &far), "ns/lookup", None));
    figures.push(reads(rounds, &far));
    let routed: Vec<u128> = random_prefixes_v6(200_000)
        .map(|prefix| match prefix.address {
            IpAddr::V6(address) => address.to_bits(),
            IpAddr::V4(_) => unreachable!("they are of IPv6"),
        })
        .collect();
    let far: Vec<u128> =
        pairs(13).take(FAR).map(|(n, low)| routed[n as usize % routed.len()] | u128::from(low >> 16)).collect();
    for (keys, name, budget) in [
        (&far[..FEW_DESTINATIONS], "IPv6, 2x10^5 routes, 1024 destinations, 32 at once", None),
        (&far[..], "IPv6, 2x10^5 routes, 2^20 destinations, 32 at once", None),
    ] {
        let mut words = [0; BULK];
        let cost = nanos_per_operation(rounds, FAR, || {
            for bulk in (0..FAR / keys.len()).flat_map(|_| keys.chunks(BULK)) {
                tables.fib6().lookup_bulk(bulk, &mut words[..bulk.len()]);
                black_box(&words);
            }
        });
        figures.push(BenchFigure::alone("lookup", name, cost, "ns/lookup", budget));
    }
    figures
}

const MANY_HOPS: &str = "IPv4, 10^6 routes by 1000 next hops, 2^20 destinations, 32 at once";

/// Nanoseconds per lookup if there are more distinct next hops than the table's digest can distinguish.
fn many_hops(rounds: Rounds, keys: &[u32]) -> f64 {
    let fib = Fib4::new();
    for (prefix, n) in random_prefixes(1_000_000) {
        let IpAddr::V4(address) = prefix.address else { unreachable!("they are of IPv4") };
        fib.insert(address.to_bits(), prefix.length, 1 + n as u32 % 1000);
    }
    fib.use_huge_pages();
    let mut words = [0; 32];
    nanos_per_operation(rounds, keys.len(), || {
        for bulk in keys.chunks(words.len()) {
            fib.lookup_bulk(bulk, &mut words[..bulk.len()]);
            black_box(&words);
        }
    })
}

/// Only the memory reads that lookups of these destinations make, from memory of the same size: the machine's limit today for any algorithm.
fn reads(rounds: Rounds, keys: &[u32]) -> BenchFigure {
    let table = HugeTable::<AtomicU32>::zeroed(1 << 24);
    table.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    table.collapse_pages();
    let cost = nanos_per_operation(rounds, keys.len(), || {
        let sum = keys.iter().map(|&key| table[(key >> 8) as usize].load(Ordering::Relaxed)).fold(0, u32::wrapping_add);
        black_box(sum);
    });
    BenchFigure::alone("lookup", "memory alone, 64 MB, 2^20 places", cost, "ns/read", None)
}

/// The queueing scheme through its wires: arrival, queue, departure.
pub fn scheme(rounds: Rounds) -> Vec<BenchFigure> {
    const PACKETS: usize = 256 * 400;
    let region = Region::new(2048);
    let mut pool = Pool::new(region.clone());
    let (near, mut far) = MemoryWire::pair(1024);
    let mut link = StandaloneLink::new(Box::new(near), "fifo", Pool::new(region));
    let mut queue = Queue::new(256);
    let mut batch = Batch::new();
    for _ in 0..256 {
        let mut packet = pool.take().expect("the pool has frames");
        assert!(packet.fill(&[0; 60]));
        drop(queue.push(packet));
    }
    let mut cost = |link: &mut StandaloneLink| {
        nanos_per_operation(rounds, PACKETS, || {
            for _ in 0..PACKETS / 256 {
                link.offer_and_serve(Instant::START, &mut queue);
                far.receive(Instant::START, &mut batch, &mut pool);
                for packet in batch.drain() {
                    drop(queue.push(packet));
                }
            }
        })
    };
    let passed = cost(&mut link);
    link.disable_bypass();
    let asked = cost(&mut link);
    vec![
        BenchFigure::alone(
            "schemes",
            "fifo, asked about every packet, in-memory port included",
            asked,
            "ns/packet",
            None,
        ),
        BenchFigure::alone("schemes", "fifo, idle link passed by, in-memory port included", passed, "ns/packet", None),
    ]
}

/// Pick and charge of every discipline, with few and with many tasks, in turns.
pub fn scheduler(Rounds(rounds): Rounds) -> Vec<BenchFigure> {
    const TASKS: [(u32, &str); 3] = [(16, "16"), (1000, "1000"), (100_000, "10^5")];
    let mut figures = Vec::new();
    for scheduler in cpu::SCHEDULERS {
        let mut busy = TASKS.map(|(tasks, _)| Busy::new((scheduler.make)(), tasks));
        let costs: Vec<[f64; 3]> = (0..=rounds * 16).map(|_| busy.each_mut().map(Busy::cost)).skip(1).collect();
        let middle = |of: &dyn Fn(&[f64; 3]) -> f64| median(costs.iter().map(of).collect());
        let few = middle(&|cost| cost[0]);
        let name = |tasks: &str| format!("{}, pick and charge, {tasks} tasks", scheduler.name);
        figures.push(BenchFigure::alone("scheduler", name(TASKS[0].1), few, "ns", None));
        for i in [1, 2] {
            let (many, ratio) = (middle(&|cost| cost[i]), middle(&|cost| cost[i] / cost[0]));
            let held = ["wf2q+", "rr"].contains(&scheduler.name);
            let (name, compared) = (format!("{} against 16", name(TASKS[i].1)), (many, few, ratio));
            figures.push(BenchFigure::against("scheduler", name, compared, "ns", held.then_some(3.0)));
        }
    }
    figures
}

/// A decision of each CPU scheduler among 10^4 flows of a path, in turns: it selects a flow and charges it. The budget is for those that an interleaved path
/// uses.
pub fn flow_schedulers(Rounds(rounds): Rounds) -> Vec<BenchFigure> {
    const FLOWS: u32 = 10_000;
    const BUDGET: f64 = 60.0;
    let mut busy: Vec<Busy> = cpu::SCHEDULERS.iter().map(|one| Busy::new((one.make)(), FLOWS)).collect();
    let costs: Vec<Vec<f64>> = (0..=rounds * 16).map(|_| busy.iter_mut().map(Busy::cost).collect()).skip(1).collect();
    let figure = |(number, one): (usize, &cpu::SchedulerRegistration)| {
        let cost = median(costs.iter().map(|row| row[number]).collect());
        let budget = ["spfq", "potential"].contains(&one.name).then_some(BUDGET);
        BenchFigure::alone("promises", format!("{}: a decision among {FLOWS} flows", one.name), cost, "ns", budget)
    };
    cpu::SCHEDULERS.iter().enumerate().map(figure).collect()
}

/// Tasks that are always runnable, with a variety of shares and run times.
struct Busy {
    scheduler: Box<dyn CpuScheduler>,
    lengths: Vec<Nanos>,
    counter: CycleCounter,
}

impl Busy {
    fn new(mut scheduler: Box<dyn CpuScheduler>, tasks: u32) -> Busy {
        for (task, r) in (0..tasks).map(TaskId).zip(sequence(3)) {
            scheduler.add(task, Share::of(1 + (r >> 32) % 1000, 1000 * u64::from(tasks)));
            scheduler.wake(task, Nanos::new(500), Instant::START);
        }
        let lengths = sequence(5).map(|r| Nanos::new(200 + (r >> 32) % 800)).take(1 << 12).collect();
        Busy { scheduler, lengths, counter: CycleCounter::calibrated() }
    }

    /// Nanoseconds per run. The runs are so few that usually no other process gets the core in between.
    fn cost(&mut self) -> f64 {
        const PICKS: usize = 1 << 13;
        let start = self.counter.read();
        for &length in self.lengths.iter().cycle().take(PICKS) {
            let task = self.scheduler.pick(Instant::START).expect("all are runnable");
            self.scheduler.charge(black_box(task), length, Some(length), Instant::START);
        }
        self.counter.between(start, self.counter.read()).get() as f64 / PICKS as f64
    }
}
