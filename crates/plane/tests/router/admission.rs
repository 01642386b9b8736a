//! Admission by the costs that a running router has measured (spec ).

use cpu::meter::{Work, WorkKind, WorkMeter};
use packet::DropReason;
use packet::port::Port;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Nanos;

fn config(voice: &str) -> String {
    format!(
        "version = 1\n[port.lan]\ndevice = 'memory:lan'\nmac = '02:00:00:00:00:01'\naddress = ['192.0.2.1/24']\n\
         [port.wan]\ndevice = 'memory:wan'\nmac = '02:00:00:00:00:02'\naddress = ['198.51.100.1/24']\n\
         [[neighbour]]\naddress = '198.51.100.9'\nmac = '02:00:00:00:00:99'\nport = 'wan'\n\
         [[route]]\nto = '203.0.113.0/24'\nvia = '198.51.100.9'\n\
         [[path]]\nname = 'voice'\nmatch = 'udp dport 2'\n{voice}\n"
    )
}

/// A meter by which functions cost 20 us a packet and all other work is cheap.
struct Dear;

impl WorkMeter for Dear {
    fn lap(&mut self, work: Work) -> Nanos {
        match work.kind {
            WorkKind::Forwarding => Nanos::micros(20) * u64::from(work.packets),
            WorkKind::Switch => Nanos::new(100),
            _ => Nanos::new(50) * u64::from(work.packets.max(1)),
        }
    }
}

/// A frame to a host behind `wan`.
fn frame(port: u16) -> Vec<u8> {
    let packet = UdpFrame::between_ports(9, port);
    UdpFrame { network: (packet.network.0, Ipv4Addr::new(203, 0, 113, 5)), length: 64, ..packet }.frame(b"")
}

fn forward(rig: &mut Rig, packets: u32) {
    let frame = frame(2);
    for _ in 0..packets {
        rig.send("lan", &frame);
        // The port of a reservation is polled when its estimator says so.
        rig.now = rig.worker.now() + Nanos::millis(10);
        while let plane::StepResult::Ran = rig.step(&mut Dear) {}
    }
    // The router's own frames (ARP) are shorter.
    let came = rig.received("wan").iter().filter(|received| received.len() == frame.len()).count();
    assert_eq!(came, packets as usize);
}

#[test]
fn reservation_is_refused_by_measured_packet_costs() {
    let mut rig = Rig::running(4096, Layout::Three, &config(""));
    let promise = config("reserve = '100kpps'");
    let plan = |text: &str| plan::check(text, "t", &plane::catalogue()).unwrap();
    assert!(rig.router.prepare(&plan(&promise), &mut rig.wires).is_ok(), "nobody knows yet what a packet costs");
    forward(&mut rig, 63);
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    assert!(rig.router.prepare(&plan(&promise), &mut rig.wires).is_ok(), "63 packets say nothing");
    forward(&mut rig, 37);
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    let refused = |text: &str, rig: &mut Rig| match rig.router.prepare(&plan(text), &mut rig.wires) {
        Ok(_) => None,
        Err(errors) => Some(errors[0].to_string()),
    };
    let said = refused(&promise, &mut rig).expect("twice the core is asked for");
    assert!(said.contains("path voice") && said.contains("the measured cost of its packets is 20us each"), "{said}");
    assert_eq!(refused(&config("reserve = '10kpps'"), &mut rig), None, "a fifth fits");
    // A rollback accepts a plan that was admitted before, even if measured costs would refuse it now.
    assert!(rig.router.prepare_rollback(&plan(&promise), &mut rig.wires).is_ok());
    // A declared cost counts until measurements exceed it.
    let declared = config("reserve = '100kpps'\ncost = '1us'");
    assert_eq!(refused(&declared, &mut rig), None);
    rig.apply(&declared).unwrap();
    forward(&mut rig, 200);
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    assert!(refused(&declared, &mut rig).is_some(), "a packet costs twenty times what was declared");
}

/// A machine on which sending costs twenty times as much as receiving, contrary to the assumed costs.
struct DearSending;

impl WorkMeter for DearSending {
    fn lap(&mut self, work: Work) -> Nanos {
        match work.kind {
            WorkKind::Output => Nanos::micros(1) * u64::from(work.packets),
            WorkKind::Switch => Nanos::new(100),
            _ => Nanos::new(50) * u64::from(work.packets.max(1)),
        }
    }
}

/// Floods the router for a tenth of a second. Returns the packets sent, and the packets received in vain.
fn flood(rig: &mut Rig) -> (usize, u64) {
    let frame = frame(9);
    let dropped = |rig: &Rig| rig.report().ledger.dropped_for(DropReason::PathQueue);
    let (before, end, mut left) = (dropped(rig), rig.now + Nanos::millis(100), 0);
    while rig.now < end {
        while rig.wires.far["lan"].room() > 0 {
            rig.send("lan", &frame);
        }
        for _ in 0..10 {
            rig.step(&mut DearSending);
        }
        rig.now = rig.worker.now();
        left += rig.received("wan").len();
    }
    (left, dropped(rig) - before)
}

#[test]
fn cpu_shares_follow_current_packet_costs() {
    let mut rig = Rig::running(40_000, Layout::Three, &config(""));
    let generation = rig.router.snapshot().generation;
    assert!(!rig.router.divide_cpu(), "nothing was measured");
    let (left, vain) = flood(&mut rig);
    assert!(vain > left as u64 / 2, "by guesses {left} left, and {vain} were received in vain");
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    assert!(rig.router.divide_cpu());
    flood(&mut rig);
    let (left, vain) = flood(&mut rig);
    assert!(vain < left as u64 / 50, "by what was measured {left} left, and {vain} were received in vain");
    assert_eq!(rig.router.snapshot().generation, generation, "it is no other configuration");
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    assert!(!rig.router.divide_cpu(), "it costs what it did");
}

/// A machine on which each transmission costs 1 us, however many packets it sends.
struct DearTransmissions;

impl WorkMeter for DearTransmissions {
    fn lap(&mut self, work: Work) -> Nanos {
        match work.kind {
            WorkKind::Output => Nanos::micros(1),
            WorkKind::Switch => Nanos::new(100),
            _ => Nanos::new(50) * u64::from(work.packets.max(1)),
        }
    }
}

#[test]
fn output_share_of_reservation_is_for_its_own_small_batches() {
    let mut rig = Rig::running(40_000, Layout::Three, &config("reserve = '50kpps'"));
    let (voice, flood, end) = (frame(2), frame(9), rig.now + Nanos::millis(50));
    let mut next = rig.now;
    while rig.now < end {
        // Room for the other flow is left.
        while rig.wires.far["lan"].room() > 64 {
            rig.send("lan", &flood);
        }
        if rig.now >= next {
            rig.send("lan", &voice);
            next = rig.now + Nanos::micros(20);
        }
        rig.step(&mut DearTransmissions);
        rig.now = rig.worker.now();
        rig.received("wan");
    }
    let report = rig.report();
    let snapshot = rig.router.snapshot().clone();
    let wan = snapshot.egress(snapshot.interface_named("wan").unwrap().id).port;
    let output = |report: &plane::WorkerReport, kind| {
        report.tasks.iter().find(|task| (task.kind, task.port) == (kind, Some(wan))).unwrap().view
    };
    let (own, others) = (output(&report, "reserved").cost.0, output(&report, "output").cost.0);
    assert!(own > others * 4, "{own} and {others}");
    rig.router.learn_costs(std::slice::from_ref(&report));
    assert!(rig.router.divide_cpu());
    rig.settle();
    let share = output(&rig.report(), "reserved").share.as_f64();
    let needed = 50_000.0 * own.get() as f64 / 1e9;
    // Shares are whole millionths.
    assert!(share > needed - 1e-6, "{share} of the processor, and {needed} are needed");
}

#[test]
fn shares_stay_when_reservations_no_longer_fit_measured_costs() {
    let mut rig = Rig::running(4096, Layout::Three, &config("reserve = '100kpps'"));
    forward(&mut rig, 200);
    let report = rig.report();
    rig.router.learn_costs(&[report]);
    let before = rig.router.snapshot().clone();
    assert!(!rig.router.divide_cpu(), "two cores are needed now");
    assert!(std::sync::Arc::ptr_eq(rig.router.snapshot(), &before), "nothing is published");
}
