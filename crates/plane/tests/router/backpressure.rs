//! Backlogged packets leave as soon as they can: at the time their scheme names, or when the wire has room again. They are
//! dropped if their port has been removed for too long.

use link::Queueing;
use packet::DropReason;
use packet::wire::{Ipv4Spec, ethernet, ethertype};
use plane::rig::Rig;
use plane::snapshot::Layout;
use plane::{Command, WorkerChange};
use schemes::{Next, Progress, Scheme, Wires};
use std::net::Ipv4Addr;
use std::sync::mpsc::channel;
use units::{Mac, Nanos, PortId, QueueId};

const LAN: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
"#;
const WAN: &str = r#"
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "fifo(limit=60000)"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
"#;
const LAYOUTS: [Layout; 3] = [Layout::One, Layout::Two, Layout::Three];
/// Packets a wire of the rig holds.
const WIRE: usize = 4096;

fn udp() -> [u8; 60] {
    marked(0)
}

/// The same packet with this type of service.
fn marked(type_of_service: u8) -> [u8; 60] {
    let mut frame = [0; 60];
    let to = Mac([2, 0, 0, 0, 0, 1]);
    ethernet::write_header(&mut frame[..14], to, Mac([2, 0, 0, 0, 0, 9]), None, ethertype::IPV4).unwrap();
    let spec = Ipv4Spec {
        type_of_service,
        identification: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 7),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    spec.write(&mut frame[14..], 26).unwrap();
    frame
}

fn send(rig: &mut Rig, packets: usize) {
    for sent in 0..packets {
        rig.send("lan", &udp());
        if sent % 100 == 99 {
            rig.settle();
        }
    }
    rig.settle();
}

/// A scheme that releases each packet a millisecond after its arrival.
struct Late;

const LATE: Nanos = Nanos::millis(1);

impl<W: Wires> Scheme<W> for Late {
    fn arrival(&mut self, wires: &mut W) {
        while wires.arriving().is_some() {
            wires.enqueue(QueueId(0));
        }
    }

    fn link_ready(&mut self, wires: &mut W) -> Progress {
        match wires.head(QueueId(0)) {
            Some(head) if wires.now() >= head.timestamp + LATE => {
                wires.dequeue(QueueId(0));
                wires.transmit();
                Progress::Made
            }
            _ => Progress::None,
        }
    }

    fn next(&self, wires: &W) -> Next {
        wires.head(QueueId(0)).map_or(Next::Idle, |head| Next::At(head.timestamp + LATE))
    }
}

#[test]
fn scheme_is_polled_at_the_time_it_requested() {
    for layout in LAYOUTS {
        let mut rig = Rig::running(4096, layout, &format!("{LAN}{WAN}"));
        rig.router.post(|| {
            let mut change = WorkerChange::to(rig.router.snapshot().clone());
            change.schemes.push((PortId(1), Queueing::new(Box::new(Late), 4096)));
            Command::Adopt(Box::new(change), channel().0)
        });
        rig.settle();
        send(&mut rig, 3);
        rig.advance(Nanos::micros(990));
        assert_eq!(rig.received("wan").len(), 0, "{layout:?}");
        rig.advance(Nanos::micros(10));
        assert_eq!(rig.received("wan").len(), 3, "{layout:?}");
        assert_eq!(rig.report().held_packets, 0);
    }
}

#[test]
fn unblocked_port_receives_all_queued_packets() {
    for layout in LAYOUTS {
        let mut rig = Rig::running(16384, layout, &format!("{LAN}{WAN}"));
        send(&mut rig, 6000);
        assert_eq!(rig.report().held_packets as usize, 6000 - WIRE, "{layout:?}");
        rig.advance(Nanos::millis(1));
        assert_eq!(rig.received("wan").len(), WIRE);
        rig.advance(Nanos::micros(20));
        assert_eq!(rig.received("wan").len(), 6000 - WIRE, "{layout:?}");
        assert_eq!((rig.report().held_packets, rig.report().ledger.dropped()), (0, 0));
    }
}

#[test]
fn removed_port_waits_one_second_for_its_device() {
    for (layout, patience, sent) in
        LAYOUTS.into_iter().flat_map(|layout| [(layout, Nanos::millis(900), 6000), (layout, Nanos::millis(1100), WIRE)])
    {
        let mut rig = Rig::running(16384, layout, &format!("{LAN}{WAN}"));
        send(&mut rig, 6000);
        rig.apply(LAN).unwrap();
        // Jump almost to the deadline: stepping there would poll the full wire millions of times.
        rig.now += patience;
        rig.settle();
        let mut received = rig.received("wan").len();
        rig.advance(Nanos::millis(1));
        received += rig.received("wan").len();
        let report = rig.report();
        assert_eq!((received, report.ports.len(), report.held_packets), (sent, 1, 0), "{layout:?}, {patience:?}");
        assert_eq!(report.ledger.dropped_for(DropReason::PortRemoved) as usize, 6000 - sent);
    }
}

#[test]
fn unreceived_packets_of_a_removed_port_are_counted_and_their_frames_freed() {
    let mut rig = Rig::running(8192, Layout::Three, &format!("{LAN}{WAN}"));
    for _ in 0..300 {
        let frame = rig.packet(&udp());
        let mut batch = packet::Batch::new();
        batch.push(frame);
        let Rig { wires, pool, now, .. } = &mut rig;
        packet::port::Port::transmit(wires.far.get_mut("wan").unwrap(), *now, &mut batch, pool);
    }
    rig.apply(LAN).unwrap();
    rig.settle();
    let report = rig.report();
    assert_eq!((report.ledger.received(), report.ledger.dropped(), report.held_packets), (300, 300, 0));
    assert_eq!(report.ports.len(), 1);
}

/// A path with a reservation, and one of a higher class.
const CLASSES: &str = "[cpu]\nadmission = \"warn\"\n\
     [[path]]\nname = \"voice\"\nmatch = \"ip dscp ef\"\nreserve = \"1kpps\"\n\
     [[path]]\nname = \"urgent\"\nmatch = \"ip dscp cs6\"\nclass = 7\n";
/// With an estimator the port of a reservation would sleep, and no time passes in this test.
const AWAKE: &str = "estimator = false\n";
const VOICE: u8 = 0xb8;
const URGENT: u8 = 0xc0;

/// Types of service of the packets that a wire delivered, as runs of equal values.
fn runs(rig: &mut Rig) -> Vec<(u8, usize)> {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for frame in rig.received("wan") {
        match runs.last_mut() {
            Some((mark, count)) if *mark == frame[15] => *count += 1,
            _ => runs.push((frame[15], 1)),
        }
    }
    runs
}

#[test]
fn reservation_is_sent_before_earlier_best_effort() {
    for layout in LAYOUTS {
        let ranked = |levels: u8| {
            let wan = WAN.replace("fifo(limit=60000)", &format!("priority(levels={levels}){{fifo(limit=60000)}}"));
            format!("{LAN}{AWAKE}{wan}{CLASSES}")
        };
        let mut rig = Rig::running(16384, layout, &ranked(2));
        let fill = |rig: &mut Rig| {
            send(rig, WIRE);
            for mark in [0, VOICE, 0, URGENT] {
                (0..50).for_each(|_| rig.send("lan", &marked(mark)));
                rig.settle();
            }
        };
        fill(&mut rig);
        assert_eq!(runs(&mut rig), [(0, WIRE)], "{layout:?}");
        rig.advance(Nanos::millis(1));
        // With two levels both have the higher one, and leave in order of arrival.
        assert_eq!(runs(&mut rig), [(VOICE, 50), (URGENT, 50), (0, 100)], "{layout:?}");
        fill(&mut rig);
        rig.apply(&ranked(8)).unwrap();
        rig.received("wan");
        rig.advance(Nanos::millis(1));
        assert_eq!(
            runs(&mut rig),
            [(URGENT, 50), (VOICE, 50), (0, 100)],
            "{layout:?}: those that waited are ranked anew"
        );
        fill(&mut rig);
        rig.apply(&format!("{LAN}{AWAKE}{WAN}{CLASSES}")).unwrap();
        fill(&mut rig);
        rig.received("wan");
        rig.advance(Nanos::millis(1));
        let first = [(0, 50), (VOICE, 50), (0, 50), (URGENT, 50), (0, WIRE - 200)];
        assert_eq!(runs(&mut rig), first, "{layout:?}: those that waited, as they came, before all that came since");
        rig.advance(Nanos::millis(1));
        assert_eq!(runs(&mut rig), [(0, 250), (VOICE, 50), (0, 50), (URGENT, 50)], "{layout:?}: first in, first out");
        assert_eq!((rig.report().held_packets, rig.report().ledger.dropped()), (0, 0));
    }
}

#[test]
fn rule_gives_its_packets_a_class_of_their_own() {
    let wan = WAN.replace("fifo(limit=60000)", "priority(levels=8){fifo(limit=60000)}");
    let gold = "[[path]]\nname = \"gold\"\nmatch = \"any\"\nclass = 3\n";
    let mut rig = Rig::running(16384, Layout::Three, &format!("{LAN}{wan}{gold}"));
    let (_, _, list) = rig.router.rule_lists().remove(0);
    for (dscp, class) in [(0x2e, 5), (0x30, 1)] {
        let matching = plan::Match::parse(&format!("ip dscp {dscp}")).unwrap();
        let rule = plan::PathRule { matching, path: "gold".into(), class: Some(class), share: None };
        let rule = rig.router.listed_rule(&plan::RuleText::Path(rule)).unwrap();
        list.edit([classifier::RuleEdit::Add(classifier::Place::Before(1), rule)]).unwrap();
    }
    send(&mut rig, WIRE);
    for mark in [0, URGENT, VOICE, 0] {
        (0..50).for_each(|_| rig.send("lan", &marked(mark)));
        rig.settle();
    }
    assert_eq!(runs(&mut rig), [(0, WIRE)]);
    rig.advance(Nanos::millis(1));
    // Class 5, then that of the path, then class 1.
    assert_eq!(runs(&mut rig), [(VOICE, 50), (0, 100), (URGENT, 50)]);
}
