//! Measures the time of each part of the path: `cargo bench -p plane`. Budgets are ratios, and measured by
//! `switchpath bench`.

use cpu::{CpuScheduler, RoundRobin};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fib::{Origin, Outcome, RouteChange, Tables};
use packet::port::{MemoryWire, Port};
use packet::{Batch, Pool, Queue, Region, wire};
use plane::rig::StandaloneLink;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use units::{Instant, Nanos, Share, TaskId};

const BULK: usize = 256;

fn lookup(c: &mut Criterion) {
    let tables = Tables::new();
    let routes = (0..10_000u32).map(|i| RouteChange {
        vrf: units::VrfId::MAIN,
        prefix: plan::Prefix::new(IpAddr::V4(Ipv4Addr::from(i.wrapping_mul(0x9e37_79b1))), 24)
            .expect("at most 32")
            .network(),
        origin: Origin::Static,
        outcome: Outcome::Blackhole,
    });
    tables.apply_routes(routes).expect("there is room");
    let keys: Vec<u32> = (0..BULK as u32).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
    let mut words = [0; BULK];
    let mut group = c.benchmark_group("lookup");
    group.throughput(Throughput::Elements(BULK as u64));
    group.bench_function("IPv4, 10^4 routes, bulk", |b| {
        b.iter(|| {
            tables.fib4().lookup_bulk(black_box(&keys), &mut words);
            words[0]
        })
    });
    group.finish();
}

fn link(c: &mut Criterion) {
    let region = Region::new(1024);
    let mut pool = Pool::new(region.clone());
    let (near, mut far) = MemoryWire::pair(BULK);
    let mut link = StandaloneLink::new(Box::new(near), "fifo", Pool::new(region));
    let (mut queue, mut batch) = (Queue::new(BULK), Batch::new());
    for _ in 0..BULK {
        let mut packet = pool.take().expect("the pool has frames");
        packet.fill(&[0; 60]);
        batch.push(packet);
    }
    queue.append(&mut batch, BULK);
    let mut group = c.benchmark_group("link");
    group.throughput(Throughput::Elements(BULK as u64));
    group.bench_function("fifo, idle", |b| {
        b.iter(|| {
            link.offer_and_serve(Instant::START, &mut queue);
            far.receive(Instant::START, &mut batch, &mut pool);
            queue.append(&mut batch, BULK)
        })
    });
    group.finish();
}

fn scheduler(c: &mut Criterion) {
    let mut scheduler = RoundRobin::new();
    for task in (0..16).map(TaskId) {
        scheduler.add(task, Share::ONE);
        scheduler.wake(task, Nanos::ZERO, Instant::START);
    }
    c.bench_function("round robin, pick and charge", |b| {
        b.iter(|| {
            let task = scheduler.pick(Instant::START).expect("all are runnable");
            scheduler.charge(black_box(task), Nanos::new(100), Some(Nanos::new(100)), Instant::START);
        })
    });
}

fn headers(c: &mut Criterion) {
    let mut frame = [0u8; 60];
    let spec = wire::Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination: Ipv4Addr::new(198, 51, 100, 9),
    };
    spec.write(&mut frame[14..], 26).expect("it fits");
    c.bench_function("parse and check an IPv4 header", |b| {
        b.iter(|| wire::Ipv4::parse(black_box(&frame[14..])).is_ok())
    });
}

criterion_group!(benches, lookup, link, scheduler, headers);
criterion_main!(benches);
