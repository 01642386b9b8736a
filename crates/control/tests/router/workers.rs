//! Workers that get stuck or panic under traffic, in a router with real threads.

use crate::rig::{Rig, until};
use control::api::{self, EventKind, RouterState, WorkerState};
use control::{DaemonOptions, Notice};
use packet::port::{Offloads, Port, PortStatistics, WakeSource};
use packet::{Batch, Pool, Region};
use parking_lot::Mutex;
use plan::PortPlan;
use plane::{ApplyError, Decorate, Opener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;
use units::{Instant, Mac, Nanos, Rate};

const FINE: u8 = 0;
/// Panics once.
const PANIC: u8 = 1;
/// Panics whenever it is to receive a packet.
const HOPELESS: u8 = 2;
/// Does not return.
const BLOCK: u8 = 3;

/// The faults injected into the receive functions of the ports `lan` and `wan`.
#[derive(Clone, Default)]
struct Traps([Arc<AtomicU8>; 2]);

impl Traps {
    fn set(&self, port: usize, trap: u8) {
        self.0[port].store(trap, Ordering::SeqCst);
    }

    /// Returns whether the requested panic has happened.
    fn is_sprung(&self, port: usize) -> bool {
        self.0[port].load(Ordering::SeqCst) == FINE
    }
}

struct Trapped(Box<dyn Port>, Arc<AtomicU8>);

impl Port for Trapped {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        // Receive first, so that the worker holds packets during the panic.
        self.0.receive(now, batch, pool);
        match self.1.load(Ordering::SeqCst) {
            PANIC if !batch.is_empty() => {
                self.1.store(FINE, Ordering::SeqCst);
                panic!("injected");
            }
            HOPELESS => panic!("injected again"),
            BLOCK => {
                while self.1.load(Ordering::SeqCst) == BLOCK {
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
            _ => {}
        }
    }
    fn sets_timestamps(&self) -> bool {
        self.0.sets_timestamps()
    }
    fn room(&self) -> usize {
        self.0.room()
    }
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.0.transmit(now, batch, pool);
    }
    fn link_rate(&self) -> Rate {
        self.0.link_rate()
    }
    fn is_up(&self) -> bool {
        self.0.is_up()
    }
    fn offloads(&self) -> Offloads {
        self.0.offloads()
    }
    fn wake_source(&self) -> WakeSource {
        self.0.wake_source()
    }
    fn mac(&self) -> Option<Mac> {
        self.0.mac()
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
    fn statistics(&self) -> PortStatistics {
        self.0.statistics()
    }
}

/// Opens ports with another opener, and adds the faults.
struct Trapper(Box<dyn Opener + Send>, Traps);

impl Opener for Trapper {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let trap = &self.1.0[usize::from(&*plan.name == "wan")];
        let ports = self.0.open(plan, region, queues)?;
        Ok(ports.into_iter().map(|port| Box::new(Trapped(port, trap.clone())) as Box<dyn Port>).collect())
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        self.0.decorate(plan, queues)
    }
}

/// Two workers: the first has the port `lan`, the second `wan`. Packets to 203.0.113.0/24 leave by their ingress port.
const TWO: &str = r#"
[router]
workers = 2
[[neighbour]]
address = "192.0.2.77"
mac = "02:00:00:00:00:77"
port = "lan"
[[route]]
to = "203.0.113.0/24"
via = "192.0.2.77"
"#;

fn start(more: &str) -> (Rig, Traps, Arc<Mutex<Vec<Notice>>>) {
    let (traps, notices) = (Traps::default(), Arc::new(Mutex::new(Vec::new())));
    let (inner, kept) = (traps.clone(), notices.clone());
    let rig = Rig::with(more, |options| DaemonOptions {
        opener: Box::new(Trapper(options.opener, inner)),
        notice: Box::new(move |notice| kept.lock().push(notice)),
        stuck_after: Nanos::millis(600),
        ..options
    });
    (rig, traps, notices)
}

fn events(rig: &Rig, kind: EventKind) -> Vec<String> {
    let events: api::Events = rig.client.get("/v1/events").unwrap();
    events.events.into_iter().filter(|event| event.kind == kind).map(|event| event.text).collect()
}

fn workers(rig: &Rig) -> Vec<api::WorkerReply> {
    rig.client.get::<api::Workers>("/v1/workers").unwrap().workers
}

/// Ends the router, and checks that every packet has met one fate, also if it was handed off between workers.
fn end(rig: &Rig) -> api::Ledgers {
    let ledgers = rig.daemon.stop().ledgers;
    let total = &ledgers.total;
    assert!(ledgers.balanced, "{ledgers:?}");
    assert_eq!((total.held_packets, total.handed_over_packets), (0, total.taken_over_packets), "{ledgers:?}");
    assert_eq!(
        total.received_packets + total.generated_packets,
        total.sent_packets + total.consumed_packets + total.dropped_packets,
        "{ledgers:?}"
    );
    ledgers
}

#[test]
fn a_stuck_worker_and_its_recovery_are_reported_once() {
    let (mut rig, traps, notices) = start(TWO);
    assert_eq!(rig.daemon.state(), RouterState::Running);
    until(|| {
        let workers = workers(&rig);
        (workers.iter().all(|worker| worker.state == WorkerState::Asleep)).then_some(())
    });
    traps.set(1, BLOCK);
    until(|| (!rig.daemon.is_progressing()).then_some(()));
    assert_eq!(rig.daemon.state(), RouterState::Degraded);
    let stuck = until(|| Some(events(&rig, EventKind::WorkerStuck)).filter(|events| !events.is_empty()));
    assert!(stuck[0].starts_with("worker 1 has made no progress for "), "{stuck:?}");
    let states: Vec<_> = workers(&rig).iter().map(|worker| worker.state).collect();
    assert_eq!(states[1], WorkerState::Stuck);
    assert_ne!(states[0], WorkerState::Stuck);
    assert!(workers(&rig)[1].heartbeat_age_ns >= 600_000_000);
    // All requests are answered at once; for the stuck worker with its latest report.
    let before = io::clock::now();
    let ports: api::Ports = rig.client.get("/v1/ports").unwrap();
    assert_eq!(ports.ports.len(), 2);
    let status: api::Status = rig.client.get("/v1/status").unwrap();
    assert_eq!((status.state, status.workers), (RouterState::Degraded, 2));
    let metrics = String::from_utf8(rig.client.fetch("GET", "/metrics", b"").unwrap()).unwrap();
    assert!(metrics.contains("switchpath_worker_up{worker=\"1\"} 0"), "{metrics}");
    assert!(metrics.contains("switchpath_worker_up{worker=\"0\"} 1"), "{metrics}");
    assert!(io::clock::now().since(before) < Nanos::secs(5), "nobody waits for the stuck one");
    // Half of the flows belong to the other worker; those of the first worker leave by its own port.
    // So many that the key of the router's start hardly matters: fewer than 8 of 64 is once in 10^10 starts.
    for port in 0..64 {
        rig.send([203, 0, 113, 1], &[64], port);
    }
    let mut seen = rig.lan.await_ports(8);
    traps.set(1, FINE);
    let well = until(|| Some(events(&rig, EventKind::WorkerRecovered)).filter(|events| !events.is_empty()));
    assert!(well[0].starts_with("worker 1 makes progress again after "), "{well:?}");
    assert_eq!(rig.daemon.state(), RouterState::Running);
    assert_eq!((events(&rig, EventKind::WorkerStuck).len(), well.len()), (1, 1));
    until(|| {
        rig.lan.receive(&mut seen);
        (seen.len() == 64).then_some(())
    });
    end(&rig);
    assert_eq!(*notices.lock(), []);
}

#[test]
fn router_stops_with_stuck_worker() {
    let (rig, traps, _) = start(TWO);
    traps.set(1, BLOCK);
    until(|| (!rig.daemon.is_progressing()).then_some(()));
    rig.daemon.stop();
    traps.set(1, FINE);
}

/// Both workers panic under traffic, each twice, while they hold packets.
#[test]
fn workers_survive_panics_and_account_for_every_packet() {
    let (mut rig, traps, notices) = start(TWO);
    let (mut first, mut seen) = (0u16, Vec::new());
    for (earlier, port) in [0, 1, 0, 1].into_iter().enumerate() {
        // The second worker's port receives packets only from its own side.
        traps.set(port, PANIC);
        let before = seen.len();
        until(|| {
            rig.send([198, 51, 100, 9], &[64; 20], first);
            rig.send_back(&[64; 4]);
            first = first.wrapping_add(20);
            rig.wan.receive(&mut seen);
            (traps.is_sprung(port) && seen.len() > before + 200).then_some(())
        });
        // A panic is reported later by the worker's own thread. Wait for the report, so that the reports keep this order.
        until(|| (events(&rig, EventKind::WorkerRestarted).len() > earlier).then_some(()));
    }
    let restarted = events(&rig, EventKind::WorkerRestarted);
    assert_eq!(restarted.len(), 4, "{restarted:?}");
    assert!(restarted[0].starts_with("worker 0 restarted and lost "), "{restarted:?}");
    assert!(restarted[1].contains("worker 1") && restarted[1].ends_with("injected"), "{restarted:?}");
    assert_eq!(workers(&rig).iter().map(|worker| worker.restarts).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(rig.daemon.state(), RouterState::Running);
    let drops: api::Drops = rig.client.get("/v1/drops").unwrap();
    let lost = drops.drops.iter().find(|drop| drop.reason == "worker_failed").map_or(0, |drop| drop.packets);
    assert!(lost >= 4, "{drops:?}");
    // A new configuration reaches restarted workers.
    rig.daemon
        .apply(&crate::rig::config(&format!("{TWO}[[route]]\nto = '10.0.0.0/8'\nblackhole = true")), "t")
        .unwrap();
    end(&rig);
    assert_eq!(*notices.lock(), []);
}

#[test]
fn a_worker_with_repeated_panics_is_given_up_and_the_other_forwards() {
    let (mut rig, traps, notices) = start(TWO);
    traps.set(1, HOPELESS);
    let failed = until(|| {
        rig.send_back(&[64]);
        Some(events(&rig, EventKind::WorkerFailed)).filter(|events| !events.is_empty())
    });
    assert!(failed[0].starts_with("worker 1 has failed: injected again; it has failed 6 times within"), "{failed:?}");
    assert_eq!(events(&rig, EventKind::WorkerRestarted).len(), 5);
    assert_eq!((rig.daemon.state(), rig.daemon.is_progressing()), (RouterState::Degraded, false));
    assert_eq!(workers(&rig)[1].state, WorkerState::Failed);
    // Flows of both workers use the remaining port, once the first worker knows of the failure.
    let mut first = 0;
    until(|| {
        let mut seen = Vec::new();
        rig.send([203, 0, 113, 1], &[64; 32], first);
        first += 32;
        let end = io::clock::now() + Nanos::millis(200);
        while io::clock::now() < end && seen.len() < 32 {
            rig.lan.receive(&mut seen);
        }
        (seen.len() == 32).then_some(())
    });
    let ledgers = end(&rig);
    assert_eq!(ledgers.workers.len(), 2, "{ledgers:?}");
    assert_eq!(*notices.lock(), []);
}

#[test]
fn failure_of_first_worker_fails_router() {
    let (rig, traps, notices) = start(TWO);
    traps.set(0, HOPELESS);
    until(|| (rig.daemon.state() == RouterState::Failed).then_some(()));
    until(|| (!notices.lock().is_empty()).then_some(()));
    assert!(
        matches!(&notices.lock()[..], [Notice::Failed(reason)] if reason.contains("worker 0 has failed: injected"))
    );
    end(&rig);
}

#[test]
fn workers_use_configured_cores_and_spin_time() {
    let core = io::cores::allowed().unwrap()[0];
    let (rig, ..) = start(&format!("[router]\ncores = '{core}'\nbusy_poll = '0s'"));
    let told: api::Workers = rig.client.get("/v1/workers").unwrap();
    assert_eq!((told.workers.len(), told.workers[0].core, told.spin_ns), (1, Some(core), 0));
    let text = crate::rig::config(&format!("[router]\ncores = '{core}'\nbusy_poll = '2ms'"));
    rig.daemon.apply(&text, "t").unwrap();
    assert_eq!(rig.client.get::<api::Workers>("/v1/workers").unwrap().spin_ns, 2_000_000);
    // An idle worker sleeps, and its heart still beats.
    until(|| {
        let worker = &workers(&rig)[0];
        (worker.state == WorkerState::Asleep && worker.heartbeat_age_ns < 150_000_000).then_some(())
    });
    let refused = rig.daemon.apply(&crate::rig::config(""), "t").unwrap_err();
    assert!(refused.to_string().contains("these changes require a restart"), "{refused}");
}

/// A function that does not return, on a preemptible path. Everything else forwards, answers and accepts configurations as usual.
#[test]
fn blocked_function_stops_only_its_path() {
    let path = "[[path]]\nname = \"mad\"\nmatch = \"udp sport 60000-60001\"\npreemptible = true\n\
                functions = [\"spin(cost=3600s)\", \"ip\"]\n";
    let mut rig = Rig::start(path);
    rig.send([198, 51, 100, 9], &[64; 2], 60_000);
    until(|| {
        let queues: api::QueuesReply = rig.client.get("/v1/queues").unwrap();
        queues.queues.iter().any(|queue| queue.path.as_deref() == Some("mad") && queue.packets == 2).then_some(())
    });
    let mut seen = Vec::new();
    for first in 0..20 {
        rig.send([198, 51, 100, 9], &[64; 20], first * 20);
        rig.await_delivery(&mut seen, usize::from(first) * 20 + 20);
    }
    assert!(rig.daemon.is_progressing());
    rig.daemon.apply(&crate::rig::config(&path.replace("spin(cost=3600s)", "spin(cost=1us)")), "t").unwrap();
    let failed = events(&rig, EventKind::FunctionFailed);
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(
        failed[0].starts_with("its functions delayed a new configuration: they had not returned after "),
        "{failed:?}"
    );
    let drops: api::Drops = rig.client.get("/v1/drops").unwrap();
    let failed = drops.drops.iter().find(|drop| drop.reason == "function_failed").unwrap();
    assert_eq!(failed.packets, 2, "{drops:?}");
    end(&rig);
}
