//! Configurations change while packets flow: none is lost, none overtakes another.

use cpu::meter::ConstantMeter;
use packet::event::{Event, Observer, Silent};
use packet::port::Port;
use packet::{DropReason, Region};
use plan::{PortPlan, Receive};
use plane::rig::{MemoryWires, Rig, UdpFrame};
use plane::snapshot::Layout;
use plane::{ApplyError, Build, Decorate, Opener, Router};
use stack::LocalProtocolLimits;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use units::{Instant, Mac, Nanos, PathId};

/// None of these schemes drops packets in this test.
const SCHEMES: &[&str] = &[
    "fifo(limit=1000)",
    "fifo(limit=1001)",
    "codel",
    "priority",
    "red(min=1000, max=3000)",
    "fifo(drop=head)",
    "pie",
    "choke(min=1000, max=3000)",
    "blue",
    "threshold",
    "fifo(unbounded=on)",
];

/// The configuration after the `n`th change: each changes a port, a path, a queue or a route.
fn config(n: usize) -> String {
    let mut text = String::from(
        "version = 1\n[port.lan]\ndevice = \"memory:lan\"\nmac = \"02:00:00:00:00:01\"\naddress = [\"192.0.2.1/24\"]\n",
    );
    if n % 8 == 4 {
        text += "faults = { loss = 0.0, seed = 7 }\n";
    }
    text += &format!(
        "[port.wan]\ndevice = \"memory:wan\"\nmac = \"02:00:00:00:00:02\"\naddress = [\"198.51.100.1/24\"]\n\
         scheme = \"{}\"\n",
        SCHEMES[n % SCHEMES.len()]
    );
    if n.is_multiple_of(3) {
        text += &format!("[port.x{n}]\ndevice = \"memory:x{n}\"\naddress = [\"10.{}.0.1/24\"]\n", n % 200);
    }
    text += "[[neighbour]]\naddress = \"198.51.100.9\"\nmac = \"02:00:00:00:00:99\"\nport = \"wan\"\n";
    text += "[[neighbour]]\naddress = \"198.51.100.8\"\nmac = \"02:00:00:00:00:98\"\nport = \"wan\"\n";
    text += &format!("[[route]]\nto = \"203.0.113.0/24\"\nvia = \"198.51.100.{}\"\n", 8 + n % 2);
    if n.is_multiple_of(2) {
        text += &format!(
            "[[path]]\nname = \"voice{}\"\nmatch = \"udp dport {}\"\nqueue = {}\nclass = 1\n",
            n % 4,
            n % 6,
            64 + n
        );
    }
    text
}

/// Bytes of a numbered frame that hold its number.
const NUMBER: std::ops::Range<usize> = 42..46;

fn numbered(sequence: u32) -> Vec<u8> {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(203, 0, 113, 5));
    // Some configurations have a path for these ports.
    UdpFrame { link, network, ports: (9, 2), ttl: 64, length: 64 }.frame(&sequence.to_be_bytes())
}

#[test]
fn hundred_reloads_lose_and_reorder_nothing() {
    let mut rig = Rig::running(32768, Layout::Three, &config(0));
    let (mut sent, mut expected) = (0u32, 0u32);
    for n in 1..=100 {
        let plan = plan::check(&config(n), "reload.toml", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}"));
        let prepared = rig.router.prepare(&plan, &mut rig.wires).unwrap();
        let mut published = None;
        let mut prepared = Some(prepared);
        // Traffic before, during and after the change, with few steps between sends, so that queues are never empty.
        for round in 0..60 {
            for _ in 0..40 {
                let frame = numbered(sent);
                rig.send("lan", &frame);
                sent += 1;
            }
            for _ in 0..7 {
                rig.step(&mut ConstantMeter(Nanos::new(10)));
            }
            if round == 20 {
                published = prepared.take().map(|prepared| rig.router.publish(prepared));
            }
            if published.as_mut().is_some_and(|p| p.is_adopted()) {
                rig.router.complete(published.take().unwrap());
            }
            for frame in rig.received("wan") {
                assert_eq!(frame.len(), 64);
                let sequence = u32::from_be_bytes(frame[NUMBER].try_into().unwrap());
                assert_eq!(sequence, expected, "after change {n}, round {round}");
                expected += 1;
            }
        }
        assert!(published.is_none(), "change {n} was adopted while traffic flowed");
    }
    rig.settle();
    expected += rig.received("wan").len() as u32;
    assert_eq!(expected, sent);
    assert_eq!(rig.report().ledger.dropped(), 0);
}

/// A path for [`numbered`] packets with a queue of `packets`; the port delivers all its packets at once.
fn queued(packets: usize) -> String {
    let path = format!("name = \"data\"\nmatch = \"udp dport 2\"\nqueue = {packets}\n");
    config(1) + "[cpu]\nvector = 256\n[[path]]\n" + &path
}

#[test]
fn resized_queue_drops_only_packets_over_its_current_bound() {
    // WAITING exceeds only the shortest queues, ARRIVING exceeds small ones, FLOOD exceeds most.
    const WAITING: u32 = 12;
    const ARRIVING: u32 = 40;
    const FLOOD: u32 = 150;
    for layout in [Layout::Two, Layout::Three] {
        let mut capacity = 128;
        let mut rig = Rig::running(8192, layout, &queued(capacity as usize));
        let (mut sent, mut expected) = (0, Vec::new());
        // The first packets of a burst find room and leave.
        let mut burst = |rig: &mut Rig, packets: u32, room: u32| {
            (sent..sent + packets).for_each(|number| rig.send("lan", &numbered(number)));
            expected.extend(sent..sent + packets.min(room));
            sent += packets;
        };
        let data = |rig: &Rig| {
            let id = rig.router.snapshot().paths.last().unwrap().id;
            let report = rig.report();
            let path = report.paths.iter().find(|path| path.path == id).unwrap();
            let queue = report.queues.iter().find(|queue| queue.path == id).unwrap();
            (path.queued as u32, queue.capacity as u32)
        };
        for next in [16, 200, 1, 64, 2, 128] {
            burst(&mut rig, WAITING, capacity);
            while data(&rig).0 == 0 {
                rig.step(&mut ConstantMeter(Nanos::new(10)));
            }
            // Packets on the path leave in the old generation. Packets that arrive meanwhile belong to the next.
            assert_eq!(data(&rig), (WAITING.min(capacity), capacity));
            let plan = plan::check(&queued(next as usize), "reload.toml", &plane::catalogue()).unwrap();
            let prepared = rig.router.prepare(&plan, &mut rig.wires).unwrap();
            let mut published = rig.router.publish(prepared);
            burst(&mut rig, ARRIVING, next);
            while !published.is_adopted() {
                rig.step(&mut ConstantMeter(Nanos::new(10)));
            }
            rig.router.complete(published);
            rig.settle();
            burst(&mut rig, FLOOD, next);
            rig.settle();
            capacity = next;
            assert_eq!(data(&rig), (0, capacity));
        }
        let came: Vec<u32> =
            rig.received("wan").iter().map(|f| u32::from_be_bytes(f[NUMBER].try_into().unwrap())).collect();
        assert_eq!(came, expected);
        let ledger = rig.report().ledger;
        assert_eq!(ledger.dropped_for(DropReason::PathQueue), u64::from(sent) - came.len() as u64);
        assert_eq!(ledger.dropped(), ledger.dropped_for(DropReason::PathQueue));
        assert_eq!(ledger.received(), u64::from(sent));
    }
}

#[test]
fn receive_mode_follows_the_configuration_and_is_reported() {
    let mut rig = Rig::running(4096, Layout::Three, &config(1));
    assert_eq!(rig.report().receive, Receive::Polling);
    for receive in [Receive::Interrupt, Receive::Polling] {
        rig.apply(&format!("{}[cpu]\nreceive = \"{receive}\"\n", config(1))).unwrap();
        assert_eq!(rig.report().receive, receive);
        rig.send("lan", &numbered(7));
        rig.settle();
        assert_eq!(rig.received("wan").len(), 1, "{receive}");
    }
}

#[test]
fn failed_configuration_changes_nothing() {
    let mut rig = Rig::running(4096, Layout::Three, &config(0));
    let before = (rig.worker.generation(), rig.router.plan().cloned(), rig.router.tables().len4());
    let broken = config(1) + "[port.zz]\ndevice = \"packet:nowhere\"\naddress = [\"10.250.0.1/24\"]\n";
    let errors = rig.apply(&broken).unwrap_err();
    assert!(errors[0].place.contains("zz"), "{errors:?}");
    assert_eq!((rig.worker.generation(), rig.router.plan().cloned(), rig.router.tables().len4()), before);
}

#[test]
fn removed_port_drains_its_queue_before_closing() {
    let mut rig = Rig::running(4096, Layout::Three, &config(1));
    for i in 0..100 {
        rig.send("lan", &numbered(i));
    }
    let lan_only =
        "version = 1\n[port.lan]\ndevice = \"memory:lan\"\nmac = \"02:00:00:00:00:01\"\naddress = [\"192.0.2.1/24\"]\n";
    for _ in 0..3 {
        rig.step(&mut ConstantMeter(Nanos::new(10)));
    }
    rig.apply(lan_only).unwrap();
    rig.settle();
    let report = rig.report();
    assert_eq!(report.ports.len(), 1);
    assert_eq!(rig.received("wan").len() as u64 + report.ledger.dropped(), 100);
}

#[test]
fn a_generation_runs_when_the_last_of_several_workers_has_adopted_it() {
    let build = Build {
        frames: 4096,
        super_frames: 0,
        workers: 3,
        layout: None,
        switch_cost: Nanos::ZERO,
        limits: LocalProtocolLimits::default(),
    };
    let (mut router, mut workers) = Router::new(build, |_| Box::new(Silent));
    let plan = plan::check(&config(1), "reload.toml", &plane::catalogue()).unwrap_or_else(|e| panic!("{e}"));
    let prepared = router.prepare(&plan, &mut MemoryWires::default()).unwrap();
    let mut published = router.publish(prepared);
    for worker in &mut workers {
        assert!(!published.is_adopted());
        worker.step(Instant::new(1), &mut ConstantMeter(Nanos::new(10)));
    }
    assert!(published.is_adopted());
    let generation = router.complete(published);
    assert!(workers.iter().all(|worker| worker.generation() == generation));
}

/// Opens wires, and counts the requests.
#[derive(Default)]
struct Counting {
    wires: MemoryWires,
    opened: usize,
    decorated: usize,
}

impl Opener for Counting {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        self.opened += 1;
        self.wires.open(plan, region, queues)
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        self.decorated += 1;
        self.wires.decorate(plan, queues)
    }
}

#[test]
fn scheme_change_keeps_the_port_and_its_decorators() {
    let mut rig = Rig::new(4096, Layout::Three, Box::new(Silent));
    let mut counting = Counting::default();
    let config = |limit: u32, faults: &str| {
        format!(
            "version = 1\n[port.wan]\ndevice = \"memory:wan\"\naddress = [\"198.51.100.1/24\"]\n\
             scheme = \"fifo(limit={limit})\"\n{faults}"
        )
    };
    let lossy = "faults = { loss = 0.5, seed = 7 }\n";
    for (limit, faults, opened, decorated) in [(10, lossy, 1, 1), (20, lossy, 1, 1), (20, "", 1, 2), (30, "", 1, 2)] {
        let plan = plan::check(&config(limit, faults), "reload.toml", &plane::catalogue()).unwrap();
        let prepared = rig.router.prepare(&plan, &mut counting).unwrap();
        let mut published = rig.router.publish(prepared);
        rig.settle();
        assert!(published.is_adopted());
        rig.router.complete(published);
        assert_eq!((counting.opened, counting.decorated), (opened, decorated), "limit {limit}, {faults:?}");
    }
}

#[test]
fn removed_mac_setting_restores_the_device_mac() {
    let with = "version = 1\n[port.wan]\ndevice = \"memory:wan\"\naddress = [\"198.51.100.1/24\"]\n";
    let mut rig = Rig::running(4096, Layout::Three, with);
    let own = |rig: &Rig| rig.router.snapshot().interfaces[0].mac;
    let before = own(&rig);
    rig.apply(&format!("{with}mac = \"02:00:00:00:00:77\"\n")).unwrap();
    assert_eq!(own(&rig), Mac([2, 0, 0, 0, 0, 0x77]));
    rig.apply(with).unwrap();
    assert_eq!(own(&rig), before);
}

/// The paths that the router reported as drained.
#[derive(Clone, Default)]
struct Drained(Arc<Mutex<Vec<PathId>>>);

impl Observer for Drained {
    fn event(&mut self, _now: Instant, event: &Event<'_>) {
        if let Event::PathDrained { path } = event {
            self.0.lock().unwrap().push(*path);
        }
    }
}

#[test]
fn removed_path_reports_drained_once_for_all_ports() {
    let drained = Drained::default();
    let mut rig = Rig::new(4096, Layout::Three, Box::new(drained.clone()));
    rig.apply(&config(0)).unwrap();
    let paths = &rig.router.snapshot().paths;
    let (path, ports) = (paths.last().unwrap().id, rig.report().ports.len());
    assert!(ports > 1);
    rig.apply(&config(1)).unwrap();
    assert_eq!(*drained.0.lock().unwrap(), [path]);
}
