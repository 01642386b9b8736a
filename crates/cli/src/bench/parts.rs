//! The parts by themselves: longest-prefix match, the scheme, the CPU scheduler.

use super::{Figure, Rounds, median};
use io::clock::CycleCounter;
use packet::{Batch, Pool, Queue, Region};
use plane::classify::{Origin, Outcome, RouteChange, Tables};
use plane::port::{Port, Wire};
use plane::rig::OneLink;
use plane::scheduler::{CpuScheduler, RoundRobin};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Instant, Nanos, Share, TaskId};

/// The median of measurements of `work`, which does `operations` operations, in nanoseconds an operation.
fn each(Rounds(rounds): Rounds, operations: usize, mut work: impl FnMut()) -> f64 {
    let counter = CycleCounter::calibrated();
    let mut round = || {
        let start = counter.read();
        work();
        counter.between(start, counter.read()).get() as f64 / operations as f64
    };
    round();
    median((0..rounds).map(|_| round()).collect())
}

/// A well-spread sequence that repeats with the seed (xorshift: Marsaglia 2003).
fn sequence(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    std::iter::from_fn(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state)
    })
}

/// Longest-prefix match of bulks of 32, with few routes and with many.
pub fn lookup(rounds: Rounds) -> Vec<Figure> {
    const KEYS: usize = 1 << 16;
    let mut figures = Vec::new();
    for (routes, name) in [(4, "IPv4, 4 routes"), (1_000_000, "IPv4, 10^6 routes")] {
        let tables = Tables::new();
        let prefixes = sequence(7).take(routes).map(|r| (r as u32, 16 + (r >> 40) as u8 % 9));
        let changes = prefixes.map(|(address, length)| RouteChange {
            prefix: plan::Prefix::new(IpAddr::V4(Ipv4Addr::from(address)), length).expect("at most 24").network(),
            origin: Origin::Static,
            outcome: if address & 1 == 0 { Outcome::Blackhole } else { Outcome::Unreachable },
        });
        tables.apply_routes(changes).expect("there is room");
        let keys: Vec<u32> = sequence(9).take(KEYS).map(|r| r as u32).collect();
        let mut words = [0; 32];
        let cost = each(rounds, KEYS, || {
            for bulk in keys.chunks(32) {
                tables.fib4().lookup_bulk(bulk, &mut words[..bulk.len()]);
                black_box(&words);
            }
        });
        figures.push(Figure::alone("lookup", name, cost, "ns/lookup", None));
    }
    let tables = Tables::new();
    let changes = sequence(11).take(20_000).map(|r| {
        let address = u128::from(r) << 64 | 0x2000_u128 << 112;
        RouteChange {
            prefix: plan::Prefix::new(IpAddr::V6(Ipv6Addr::from_bits(address)), 20 + (r >> 50) as u8 % 45)
                .expect("at most 64")
                .network(),
            origin: Origin::Static,
            outcome: Outcome::Blackhole,
        }
    });
    tables.apply_routes(changes).expect("there is room");
    let keys: Vec<u128> = sequence(11).take(KEYS).map(|r| u128::from(r) << 64 | 0x2000_u128 << 112).collect();
    let cost = each(rounds, KEYS, || {
        keys.iter().for_each(|&key| {
            black_box(tables.fib6().lookup(key));
        })
    });
    figures.push(Figure::alone("lookup", "IPv6, 2x10^4 routes, one by one", cost, "ns/lookup", None));
    figures
}

/// The scheme through its wires: arrival, queue, departure.
pub fn scheme(rounds: Rounds) -> Vec<Figure> {
    const PACKETS: usize = 256 * 400;
    let region = Region::new(2048);
    let mut pool = Pool::new(region.clone());
    let (near, mut far) = Wire::pair(1024);
    let options = [("limit", 1000), ("bytes", 1 << 30)];
    let mut link = OneLink::new(Box::new(near), "fifo", &options, Pool::new(region));
    let mut queue = Queue::new(256);
    let mut batch = Batch::new();
    for _ in 0..256 {
        let mut packet = pool.take().expect("the pool has frames");
        assert!(packet.fill(&[0; 60]));
        drop(queue.push(packet));
    }
    let mut cost = |link: &mut OneLink| {
        each(rounds, PACKETS, || {
            for _ in 0..PACKETS / 256 {
                link.pass(Instant::START, &mut queue);
                far.receive(Instant::START, &mut batch, &mut pool);
                for packet in batch.drain() {
                    drop(queue.push(packet));
                }
            }
        })
    };
    let passed = cost(&mut link);
    link.ask_always();
    let asked = cost(&mut link);
    vec![
        Figure::alone("scheme", "fifo, asked about every packet, in-memory port included", asked, "ns/packet", None),
        Figure::alone("scheme", "fifo, idle link passed by, in-memory port included", passed, "ns/packet", None),
    ]
}

/// Pick and charge, with few and with many tasks.
pub fn scheduler(rounds: Rounds) -> Vec<Figure> {
    const PICKS: usize = 200_000;
    let cost = |tasks: u32| {
        let mut scheduler = RoundRobin::new();
        for task in (0..tasks).map(TaskId) {
            scheduler.add(task, Share::ONE);
            scheduler.wake(task, Instant::START);
        }
        each(rounds, PICKS, || {
            for _ in 0..PICKS {
                let task = scheduler.pick(Instant::START).expect("all are runnable");
                scheduler.charge(black_box(task), Nanos::new(100), true, Instant::START);
            }
        })
    };
    let (few, many) = (cost(16), cost(100_000));
    vec![
        Figure::alone("scheduler", "round robin, pick and charge, 16 tasks", few, "ns", None),
        Figure::beside("scheduler", "round robin, 10^5 tasks against 16", (many, few, many / few), "ns", Some(3.0)),
    ]
}
