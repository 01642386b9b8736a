//! A worker panics at any point: it restarts or is given up, the packets that it held are counted, its frames return to the
//! pool, and the other workers continue. The observer injects the panics. Workers call it with packets at every stage.
//! The tests are seeded, so failures are reproducible.

use packet::event::{Event, EventInterests, Observer};
use packet::port::{MemoryPort, Port};
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use packet::{DropReason, Ledger, Packet};
use plane::rig::WorkerGroup;
use plane::snapshot::Layout;
use plane::{Worker, WorkerReport};
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use units::{Instant, Mac, Nanos, PortId};

const FRAMES: usize = 8192;
/// Packets in each direction of a wire.
const WIRE: usize = 4096;

/// An observer that panics after a number of events.
struct Fuse(Arc<AtomicI64>);

impl Observer for Fuse {
    fn event(&mut self, _now: Instant, _event: &Event<'_>) {
        if self.0.fetch_sub(1, Ordering::Relaxed) == 0 {
            // Panics without the message of the panic hook.
            resume_unwind(Box::new("injected"));
        }
    }

    fn interests(&self) -> EventInterests {
        EventInterests { packets: true, stages: true, arrivals: false }
    }

    fn choose(&mut self, _now: Instant, _port: PortId, packets: &mut [Packet]) {
        packets.iter_mut().for_each(|packet| packet.meta_mut().flags |= packet::Meta::FOLLOWED);
    }
}

/// The router resolves the gateways of both routes. No host answers for that of 10.9.0.0/16.
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
scheme = "fifo(limit=50)"
[[neighbour]]
address = "192.0.1.9"
mac = "02:bb:00:00:00:09"
port = "wan"
[[route]]
to = "10.0.0.0/16"
via = "192.0.1.9"
[[route]]
to = "10.9.0.0/16"
via = "192.0.1.10"
"#;

fn frame(flow: u16, number: u32, net: u8, ttl: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    let (to, from) = (Mac([2, 0, 0, 0, 0, 0]), Mac([2, 0, 0, 0, 0, 0xaa]));
    ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service: 0,
        identification: 0,
        dont_fragment: true,
        ttl,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 0, 200),
        destination: Ipv4Addr::new(10, net, 0, 1),
    };
    spec.write(&mut frame[14..], 30).unwrap();
    frame[36..38].copy_from_slice(&flow.to_be_bytes());
    frame[46..50].copy_from_slice(&number.to_be_bytes());
    frame
}

fn sum(reports: &[WorkerReport], of: fn(&Ledger) -> u64) -> u64 {
    reports.iter().map(|report| of(&report.ledger)).sum()
}

struct Trial {
    team: WorkerGroup,
    fuses: Vec<Arc<AtomicI64>>,
    /// The next number to send and the last number received, by flow.
    flows: Vec<(u32, u32)>,
    delivered: u64,
    /// The last reports of workers that were given up.
    gone: Vec<WorkerReport>,
}

impl Trial {
    fn begin(workers: u16, queues: usize, layout: Layout) -> Trial {
        let fuses: Vec<Arc<AtomicI64>> = (0..workers).map(|_| Arc::new(AtomicI64::new(-1))).collect();
        let mut team = WorkerGroup::with_observers(workers, queues, FRAMES, layout, |worker| {
            Box::new(Fuse(fuses[worker.index()].clone()))
        });
        team.wires.length = WIRE;
        team.apply(CONFIG);
        team.settle();
        Trial { team, fuses, flows: vec![(0, 0); 24], delivered: 0, gone: Vec::new() }
    }

    fn send(&mut self, packets: usize, queue: usize) {
        for i in 0..packets {
            let flow = i % self.flows.len();
            self.flows[flow].0 += 1;
            let (net, ttl) = (if flow % 8 == 7 { 9 } else { 0 }, if flow % 8 == 6 { 1 } else { 64 });
            let frame = frame(flow as u16, self.flows[flow].0, net, ttl);
            let wire = if queue == 0 { "lan".to_owned() } else { format!("lan#{queue}") };
            if self.team.wires.far.get(&wire).is_some_and(|far| far.is_up() && far.room() > 0) {
                self.team.send(&wire, &frame);
            }
        }
    }

    fn receive(&mut self) {
        let wires: Vec<String> = self.team.wires.far.keys().cloned().collect();
        for frame in wires.iter().flat_map(|wire| self.team.received(wire)) {
            if frame.len() == 64 && frame[23] == 17 {
                let flow = usize::from(u16::from_be_bytes([frame[36], frame[37]]));
                let number = u32::from_be_bytes(frame[46..50].try_into().unwrap());
                assert!(self.flows[flow].1 < number, "flow {flow}: {number} comes after {}", self.flows[flow].1);
                self.flows[flow].1 = number;
                self.delivered += 1;
            }
        }
    }

    /// Runs `steps` steps of every worker. Returns the worker that panicked.
    fn steps(&mut self, steps: usize) -> Option<usize> {
        for step in 0..steps {
            let worker = step % self.team.workers.len();
            if catch_unwind(AssertUnwindSafe(|| self.team.step(worker))).is_err() {
                return Some(worker);
            }
        }
        None
    }

    fn restart(&mut self, worker: usize) {
        let now = self.team.now;
        self.team.workers[worker].restart(now).unwrap();
        self.team.workers[worker].audit();
    }

    /// Checks that every frame is in one place: the pools, the workers, the queues between them, the wires, or the hosts (spec P-65). No worker has
    /// been given up.
    fn conserve(&self) {
        let WorkerGroup { workers, wires, pool, router, .. } = &self.team;
        let reports: Vec<WorkerReport> = workers.iter().map(Worker::report).collect();
        let on_wire = |far: &MemoryPort| WIRE - far.room() + far.waiting();
        let places = [
            ("region", router.region().spare()),
            ("pools", pool.kept() + reports.iter().map(|report| report.frames_kept).sum::<usize>()),
            ("workers", reports.iter().map(|report| report.held_packets as usize).sum()),
            (
                "queues between workers",
                (sum(&reports, Ledger::handed_over) - sum(&reports, Ledger::taken_over)) as usize,
            ),
            ("wires", wires.far.values().map(on_wire).sum()),
            ("hosts", pool.frames_in_use() as usize),
        ];
        assert_eq!(places.iter().map(|(_, frames)| frames).sum::<usize>(), FRAMES, "{places:?}");
    }

    /// Lets time pass until no packet is in the router, and checks that each packet has one fate.
    fn check(&mut self) -> Vec<WorkerReport> {
        self.team.advance(Nanos::secs(5));
        self.receive();
        let mut reports = self.team.reports();
        reports.extend(self.gone.iter().cloned());
        for report in &reports {
            assert_eq!((report.held_packets, report.ledger.outstanding()), (0, 0), "{report:?}");
        }
        assert_eq!(sum(&reports, Ledger::handed_over), sum(&reports, Ledger::taken_over));
        assert_eq!(self.team.pool.frames_in_use(), 0);
        reports
    }

    fn end(mut self) {
        let now = self.team.now;
        self.team.workers.iter_mut().for_each(|worker| worker.shut_down(now));
        let WorkerGroup { router, workers, pool, wires, .. } = self.team;
        drop((workers, pool, wires));
        assert_eq!(
            (router.region().spare(), router.region().spare_super_frames()),
            (FRAMES, 64),
            "every frame is back"
        );
    }
}

const SETTINGS: [(u16, usize, Layout); 4] =
    [(1, 1, Layout::Three), (2, 1, Layout::One), (2, 2, Layout::Two), (3, 1, Layout::Three)];

#[test]
fn worker_restarts_after_a_panic_anywhere_and_accounts_for_every_packet() {
    for (workers, queues, layout) in SETTINGS {
        let mut trial = Trial::begin(workers, queues, layout);
        let (mut restarts, mut expected) = (0, 0);
        for fuse in (0..900).step_by(7) {
            let victim = fuse % usize::from(workers);
            trial.fuses[victim].store(fuse as i64, Ordering::Relaxed);
            (0..queues).for_each(|queue| trial.send(150, queue));
            trial.conserve();
            expected += 1;
            while let Some(worker) = trial.steps(400) {
                assert_eq!(worker, victim);
                trial.restart(worker);
                trial.conserve();
                restarts += 1;
            }
            trial.conserve();
            trial.fuses[victim].store(-1, Ordering::Relaxed);
            trial.receive();
        }
        assert!(restarts > expected / 4, "{restarts} of {expected}");
        let before = trial.delivered;
        let reports = trial.check();
        let lost: u64 = reports.iter().map(|r| r.ledger.dropped_for(DropReason::WorkerFailed)).sum();
        assert!(lost > 0, "a worker that panics holds something");
        // All workers forward as before.
        trial.send(200, 0);
        trial.check();
        // Of 24 flows three have no gateway, and three an expired TTL.
        assert!(trial.delivered - before >= 150, "{} delivered", trial.delivered - before);
        trial.end();
    }
}

/// Ends the worker as its driver does when no restart is allowed.
fn bury(trial: &mut Trial, worker: usize) {
    let mut dead = trial.team.workers.remove(worker);
    dead.give_up();
    let report = dead.report();
    assert_eq!((report.held_packets, report.ledger.outstanding()), (0, 0), "{report:?}");
    trial.gone.push(report);
}

#[test]
fn other_workers_forward_the_flows_of_an_abandoned_worker() {
    for fuse in (1..600).step_by(23) {
        let mut trial = Trial::begin(3, 1, Layout::Three);
        trial.send(100, 0);
        trial.fuses[2].store(fuse, Ordering::Relaxed);
        let mut dead = None;
        for _ in 0..20 {
            trial.send(150, 0);
            dead = trial.steps(100);
            if dead.is_some() {
                break;
            }
        }
        assert_eq!(dead, Some(2), "fuse {fuse}");
        bury(&mut trial, 2);
        trial.send(150, 0);
        trial.check();
        let before = trial.delivered;
        trial.send(240, 0);
        let reports = trial.check();
        // The device queues of the dead worker are served too: only the six flows that cannot be delivered are missing.
        assert!(trial.delivered - before >= 170, "fuse {fuse}: {} delivered, {reports:?}", trial.delivered - before);
        trial.end();
    }
}

/// The first worker still has its resolved and configured neighbours after the restart.
#[test]
fn restarted_first_worker_keeps_neighbours() {
    let mut trial = Trial::begin(2, 1, Layout::Three);
    trial.send(24, 0);
    trial.fuses[0].store(5, Ordering::Relaxed);
    let mut failed = None;
    while failed.is_none() {
        trial.send(50, 0);
        failed = trial.steps(50);
    }
    let known = |trial: &Trial| -> Vec<_> {
        let neighbours = trial.team.workers[0].report().neighbours;
        neighbours.into_iter().filter_map(|n| Some((n.address, n.mac?))).collect()
    };
    let before = known(&trial);
    assert!(!before.is_empty());
    trial.restart(0);
    assert_eq!(known(&trial), before);
    trial.send(24, 0);
    trial.check();
    trial.end();
}

/// Schemes that keep state about their queued packets.
const REMEMBERING: [&str; 9] = [
    "fq",
    "sfq",
    "las",
    "wf2q(flows=2000)",
    "drr(by=class, flows=3)",
    "priority(levels=3){codel}",
    "fq(flows=16){pie}",
    "tree{branch(class=1, weight=3){fq}, branch}",
    "wfq(flows=16){fifo(limit=500, drop=head)}",
];

/// The configuration with this scheme at `wan`, at two packets a millisecond.
fn slowly(scheme: &str, change: &str) -> String {
    let scheme = format!("scheme = 'shape(rate=1mbit, burst=0b){{{scheme}}}'\nscheme_change = '{change}'");
    CONFIG.replace("scheme = \"fifo(limit=50)\"", &scheme)
}

impl Trial {
    /// Makes the worker panic while it holds packets, and restarts it.
    fn fail(&mut self, fuse: i64) {
        self.fuses[0].store(fuse, Ordering::Relaxed);
        while self.steps(200).is_none() {
            self.send(50, 0);
        }
        self.restart(0);
        self.fuses[0].store(-1, Ordering::Relaxed);
    }

    /// Checks that all workers forward as before: of 24 flows three have no gateway, and three an expired TTL.
    fn forwards(&mut self, what: &str) {
        self.check();
        let before = self.delivered;
        self.send(240, 0);
        self.check();
        assert!(self.delivered - before >= 178, "{what}: {} delivered", self.delivered - before);
    }
}

#[test]
fn no_scheme_state_survives_a_panic_of_its_worker() {
    for scheme in REMEMBERING {
        for fuse in [3, 200, 901] {
            let mut trial = Trial::begin(1, 1, Layout::Three);
            trial.team.apply(&slowly(scheme, "migrate"));
            trial.send(400, 0);
            trial.fail(fuse);
            trial.forwards(scheme);
            trial.end();
        }
    }
}

#[test]
fn panic_during_scheme_drain_restarts_with_the_new_scheme() {
    for (one, other) in REMEMBERING.iter().zip(REMEMBERING.iter().cycle().skip(1)) {
        for change in ["drain", "migrate"] {
            let mut trial = Trial::begin(1, 1, Layout::Three);
            trial.team.apply(&slowly(one, change));
            trial.send(400, 0);
            trial.steps(50);
            trial.team.apply(&slowly(other, change));
            trial.send(100, 0);
            trial.fail(100);
            trial.forwards(other);
            let wan = trial.team.router.snapshot().ports[1].as_ref().unwrap().scheme.to_string();
            assert!(wan.contains(other.split(['(', '{']).next().unwrap()), "{wan}");
            trial.end();
        }
    }
}

#[test]
fn peer_end_during_scheme_drain_loses_only_queued_packets() {
    for (one, other) in REMEMBERING.iter().zip(REMEMBERING.iter().cycle().skip(1)) {
        let mut trial = Trial::begin(1, 1, Layout::Three);
        trial.team.apply(&slowly(one, "drain"));
        trial.send(400, 0);
        trial.steps(50);
        trial.team.apply(&slowly(other, "drain"));
        trial.send(100, 0);
        trial.steps(50);
        trial.receive();
        drop(trial.team.wires.far.remove("wan"));
        let reports = trial.check();
        let lost: u64 = reports.iter().map(|report| report.ledger.dropped_for(DropReason::PortDown)).sum();
        // The router notices within 100 ms. Some 200 packets are lost before that.
        assert!(lost > 100, "{one}, {other}: {lost}");
        // Connect another wire.
        trial.team.apply(&slowly(other, "drain").replace("memory:wan", "memory:other"));
        trial.forwards(other);
        trial.end();
    }
}
