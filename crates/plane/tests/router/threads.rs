//! Workers in threads of their own, as in the daemon: no flow is reordered and every packet is accounted for. Each worker has
//! its own queue, all share one, or some share one. Meanwhile next hops are lost and found.

use cpu::meter::ConstantMeter;
use fib::Tables;
use packet::port::Port;
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use packet::{Batch, Ledger};
use plane::rig::WorkerGroup;
use plane::snapshot::Layout;
use plane::{StepResult, Worker};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use units::{Instant, InterfaceId, Mac, Nanos};

const FRAMES: usize = 16384;
const FLOWS: u32 = 64;
const PACKETS: u32 = 120_000;
/// The most packets in flight: far below the size of any ring.
const UNDER_WAY: u64 = 256;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:00"
address = ["192.0.0.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:01"
address = ["192.0.1.1/24"]
scheme = "fifo(limit=4000)"
[[neighbour]]
address = "192.0.1.9"
mac = "02:bb:00:00:00:09"
port = "wan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.1.9"
"#;

const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 1, 9);

fn frame(flow: u32, number: u32) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let (to, from) = (Mac([2, 0, 0, 0, 0, 0]), Mac([2, 0, 0, 0, 0, 0xaa]));
    ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 0, 100),
        destination: Ipv4Addr::new(10, 0, 0, flow as u8 % 5),
    };
    spec.write(&mut frame[14..], 30).unwrap();
    frame[34..36].copy_from_slice(&(flow as u16).to_be_bytes());
    frame[46..50].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A clock that advances by a nanosecond at each read.
#[derive(Clone, Default)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn now(&self) -> Instant {
        Instant::new(1 + self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn drive(worker: &mut Worker, time: &Time, stop: &AtomicBool) {
    let mut meter = ConstantMeter(Nanos::new(10));
    while !stop.load(Ordering::Relaxed) {
        if let StepResult::Idle(_) = worker.step(time.now(), &mut meter) {
            thread::yield_now();
        }
    }
}

/// Removes and restores the gateway at any point of the workers' steps.
fn meddle(tables: &Tables, interface: InterfaceId, stop: &AtomicBool) {
    let mut moves = 0;
    while !stop.load(Ordering::Relaxed) {
        moves = (moves + 1) % 200;
        tables.unresolve(interface, GATEWAY.into());
        thread::yield_now();
        assert!(tables.resolve(interface, GATEWAY.into(), Mac([2, 0xbb, 0, 0, moves, 9])), "there are adjacencies");
        (0..20).for_each(|_| thread::yield_now());
    }
    assert!(tables.resolve(interface, GATEWAY.into(), Mac([2, 0xbb, 0, 0, 0, 9])));
}

/// Sends all packets, checks the order of every flow, and returns the number of packets received.
fn talk(team: &mut WorkerGroup, queues: u32, time: &Time, lossy: bool) -> u64 {
    let (mut sent, mut came, mut silent) = (0u32, 0u64, 0);
    let mut last = [0u32; FLOWS as usize];
    let mut batch = Batch::new();
    let wire = |name: &str, queue: u32| if queue == 0 { name.to_owned() } else { format!("{name}#{queue}") };
    while sent < PACKETS || u64::from(sent) > came && silent < 20_000 {
        silent += 1;
        for _ in 0..32 {
            // After this many silent rounds, missing packets are lost.
            if sent == PACKETS || u64::from(sent) - came >= UNDER_WAY && (!lossy || silent < 200) {
                break;
            }
            let flow = sent.wrapping_mul(0x9e37_79b1) >> 26;
            let frame = frame(flow, sent + 1);
            let far = wire("lan", flow % queues);
            if team.wires.far[&far].room() == 0 {
                break;
            }
            team.now = time.now();
            team.send(&far, &frame);
            sent += 1;
        }
        for queue in 0..queues {
            let WorkerGroup { wires, pool, .. } = team;
            let far = wires.far.get_mut(&wire("wan", queue)).unwrap();
            far.receive(time.now(), &mut batch, pool);
            for packet in batch.drain() {
                let bytes = packet.bytes();
                if bytes.len() == 64 && bytes[23] == 17 {
                    let flow = usize::from(u16::from_be_bytes([bytes[34], bytes[35]]));
                    let number = u32::from_be_bytes(bytes[46..50].try_into().unwrap());
                    assert!(last[flow] < number, "flow {flow}: {number} comes after {}", last[flow]);
                    last[flow] = number;
                    (came, silent) = (came + 1, 0);
                }
                pool.give(packet);
            }
        }
        // Discard frames to the hosts of `lan`.
        (0..queues).for_each(|queue| drop(team.received(&wire("lan", queue))));
        thread::yield_now();
    }
    came
}

fn run(workers: u16, queues: usize, meddling: bool) {
    let mut team = WorkerGroup::new(workers, queues, FRAMES, Layout::Three);
    team.apply(CONFIG);
    team.settle();
    let wan = team.router.snapshot().interface_named("wan").unwrap().id;
    let (time, stop, tables) = (Time::default(), AtomicBool::new(false), team.router.tables().clone());
    time.0.store(team.now.get(), Ordering::Relaxed);
    let mut threads = std::mem::take(&mut team.workers);
    let came = thread::scope(|scope| {
        for worker in &mut threads {
            scope.spawn(|| drive(worker, &time, &stop));
        }
        if meddling {
            scope.spawn(|| meddle(&tables, wan, &stop));
        }
        let came =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| talk(&mut team, queues as u32, &time, meddling)));
        stop.store(true, Ordering::Relaxed);
        came
    });
    let came = came.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    for _ in 0..2 {
        threads.iter_mut().for_each(|worker| worker.shut_down(time.now()));
    }
    let reports: Vec<_> = threads.iter().map(Worker::report).collect();
    let sum = |of: fn(&Ledger) -> u64| reports.iter().map(|report| of(&report.ledger)).sum::<u64>();
    assert_eq!(sum(Ledger::handed_over), sum(Ledger::taken_over));
    assert_eq!(
        sum(Ledger::received) + sum(Ledger::generated),
        sum(Ledger::sent) + sum(Ledger::consumed) + sum(Ledger::dropped)
    );
    if meddling {
        assert!(came > u64::from(PACKETS) / 20, "{came} came");
    } else {
        assert_eq!(
            came,
            u64::from(PACKETS),
            "{:?}",
            reports.iter().map(|r| r.ledger.drops().collect::<Vec<_>>()).collect::<Vec<_>>()
        );
    }
    let busy = reports.iter().filter(|report| report.ledger.received() + report.ledger.taken_over() > 1000).count();
    assert_eq!(busy, usize::from(workers), "every worker had something to do");
    let WorkerGroup { router, pool, wires, .. } = team;
    drop((threads, pool, wires));
    assert_eq!(router.region().spare(), FRAMES, "every frame is back");
}

#[test]
fn workers_sharing_one_queue_lose_and_reorder_nothing() {
    run(2, 1, false);
}

#[test]
fn workers_with_own_queues_lose_and_reorder_nothing() {
    run(2, 2, false);
}

#[test]
fn workers_sharing_some_queues_reorder_no_flow_when_next_hops_change() {
    run(3, 2, true);
    run(2, 1, true);
}
