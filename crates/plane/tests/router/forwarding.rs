//! Packets through a whole router in memory, from receive to transmit or drop.

use packet::DropReason;
use packet::wire::Ipv4;
use plane::rig::{Rig, UdpFrame};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::Mac;

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24", "2001:db8:1::1/64"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24", "2001:db8:2::1/64"]
[port.wan.vlan.20]
address = ["203.0.113.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:99"
port = "wan"
[[neighbour]]
address = "203.0.113.9"
mac = "02:00:00:00:00:20"
port = "wan.20"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
[[route]]
to = "10.20.0.0/16"
via = "203.0.113.9"
[[route]]
to = "10.66.0.0/16"
blackhole = true
"#;

const LAN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const HOST: Mac = Mac([2, 0, 0, 0, 0, 0xaa]);

fn udp(destination: Ipv4Addr, ttl: u8) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), destination);
    UdpFrame { link: (HOST, LAN), network, ports: (5000, 5001), ttl, length: 60 }.frame(&[])
}

fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.report().ledger.dropped_for(reason)
}

#[test]
fn forwarding_writes_next_hop_mac_and_decrements_ttl() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let mut rig = Rig::running(4096, layout, CONFIG);
        rig.send("lan", &udp(Ipv4Addr::new(10, 1, 2, 3), 64));
        rig.settle();
        let out = rig.received("wan");
        assert_eq!(out.len(), 1, "{layout:?}");
        assert_eq!(out[0][..14], [2, 0, 0, 0, 0, 0x99, 2, 0, 0, 0, 0, 2, 8, 0]);
        let parsed = Ipv4::parse(&out[0][14..]).expect("the checksum is right");
        assert_eq!(parsed.header.ttl(), 63);
        assert_eq!(parsed.header.destination(), Ipv4Addr::new(10, 1, 2, 3));
    }
}

#[test]
fn a_packet_to_a_vlan_leaves_with_its_tag() {
    let mut rig = Rig::running(4096, Layout::Three, CONFIG);
    rig.send("lan", &udp(Ipv4Addr::new(10, 20, 2, 3), 64));
    rig.settle();
    let out = rig.received("wan");
    assert_eq!(out.len(), 1);
    assert_eq!(out[0][..18], [2, 0, 0, 0, 0, 0x20, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 20, 8, 0]);
    assert_eq!(out[0].len(), 64);
}

#[test]
fn padding_is_not_forwarded() {
    let mut rig = Rig::running(4096, Layout::Three, CONFIG);
    let mut frame = udp(Ipv4Addr::new(10, 1, 2, 3), 64);
    frame.extend([0; 7]);
    rig.send("lan", &frame);
    rig.settle();
    assert_eq!(rig.received("wan")[0].len(), 60);
}

#[test]
fn packets_that_must_not_be_forwarded_are_dropped_with_their_reason() {
    let mut rig = Rig::running(4096, Layout::Three, CONFIG);
    let mut cases: Vec<(Vec<u8>, DropReason)> = vec![
        (udp(Ipv4Addr::new(10, 66, 0, 1), 64), DropReason::Blackhole),
        (udp(Ipv4Addr::new(10, 1, 0, 1), 1), DropReason::TtlExpired),
        (udp(Ipv4Addr::new(8, 8, 8, 8), 64), DropReason::NoRoute),
        (udp(Ipv4Addr::new(127, 0, 0, 1), 64), DropReason::MartianDestination),
        (udp(Ipv4Addr::new(240, 0, 0, 1), 64), DropReason::MartianDestination),
        (udp(Ipv4Addr::new(224, 0, 1, 1), 64), DropReason::Multicast),
        (udp(Ipv4Addr::new(255, 255, 255, 255), 64), DropReason::Broadcast),
        (udp(Ipv4Addr::new(198, 51, 100, 255), 64), DropReason::Broadcast),
        (vec![0; 9], DropReason::FrameTooShort),
    ];
    let good = udp(Ipv4Addr::new(10, 1, 2, 3), 64);
    let mut changed = |at: usize, byte: u8, reason| {
        let mut frame = good.clone();
        frame[at] = byte;
        cases.push((frame, reason));
    };
    changed(5, 9, DropReason::OtherStation);
    changed(12, 0x12, DropReason::UnknownEthertype);
    changed(14, 0x55, DropReason::WrongVersion);
    changed(14, 0x44, DropReason::HeaderLength);
    changed(17, 200, DropReason::TotalLength);
    changed(17, 10, DropReason::TotalLength);
    changed(22, 9, DropReason::HeaderChecksum);
    for (frame, reason) in cases {
        let before = dropped(&rig, reason);
        rig.send("lan", &frame);
        rig.settle();
        assert_eq!(
            dropped(&rig, reason),
            before + 1,
            "{reason}: {:?}",
            rig.report().ledger.drops().collect::<Vec<_>>()
        );
    }
}

#[test]
fn every_packet_of_a_flood_is_accounted_for() {
    let mut rig = Rig::running(8192, Layout::Three, CONFIG);
    for i in 0..3000u32 {
        rig.send("lan", &udp(Ipv4Addr::from(0x0a00_0000 + i * 7919 % 0x0100_0000), (i % 70) as u8));
    }
    let before = rig.report().ledger.sent();
    rig.settle();
    // ICMP errors are queued for a host that never answers ARP.
    assert!(rig.report().held_packets > 0);
    rig.advance(units::Nanos::secs(10));
    let report = rig.report();
    assert_eq!(report.ledger.received(), 3000);
    assert_eq!(report.held_packets, 0);
    assert!(report.ledger.dropped_for(DropReason::NeighbourFailed) > 0);
    assert_eq!((rig.received("wan").len() + rig.received("lan").len()) as u64, report.ledger.sent() - before);
}

#[test]
fn icmp_errors_are_limited_as_configured_and_the_limit_changes_while_running() {
    let config = |burst: u32| {
        let host = "[[neighbour]]\naddress = \"192.0.2.7\"\nmac = \"02:00:00:00:00:aa\"\nport = \"lan\"\n";
        format!("{CONFIG}{host}[router]\nicmp_rate = 1\nicmp_burst = {burst}\n")
    };
    let mut rig = Rig::running(4096, Layout::Three, &config(3));
    for burst in [3, 7] {
        rig.apply(&config(burst)).unwrap();
        rig.advance(units::Nanos::secs(30));
        rig.received("lan");
        for _ in 0..20 {
            rig.send("lan", &udp(Ipv4Addr::new(10, 1, 2, 3), 1));
        }
        rig.settle();
        assert_eq!(rig.received("lan").len(), burst as usize);
    }
}

#[test]
fn packets_to_a_port_without_medium_are_dropped_with_a_reason() {
    let mut rig = Rig::running(4096, Layout::Three, CONFIG);
    // The link goes down.
    rig.advance(units::Nanos::secs(5));
    rig.wires.far.remove("wan");
    rig.advance(units::Nanos::secs(1));
    assert_eq!(dropped(&rig, DropReason::PortDown), 0);
    let sent = rig.report().ledger.sent();
    for _ in 0..5 {
        rig.send("lan", &udp(Ipv4Addr::new(10, 1, 2, 3), 64));
    }
    rig.settle();
    assert_eq!(dropped(&rig, DropReason::PortDown), 5);
    assert_eq!(rig.report().ledger.sent(), sent);
}

/// Batches are classified in chunks, with the results of earlier packets. Earlier packets of its batch must not change how a packet leaves.
#[test]
fn batch_leaves_like_its_packets_alone() {
    const HOPS: usize = 90;
    let hops: String = (0..HOPS)
        .map(|n| {
            let mac = format!("02:00:00:00:01:{n:02x}");
            format!("[[neighbour]]\naddress = \"198.51.100.{}\"\nmac = \"{mac}\"\nport = \"wan\"\n", 100 + n)
                + &format!("[[route]]\nto = \"10.{}.0.0/16\"\nvia = \"198.51.100.{}\"\n", 100 + n, 100 + n)
        })
        .collect();
    let frames: Vec<Vec<u8>> = (0..250usize)
        .map(|i| {
            let next = 100 + (i * 37 % HOPS) as u8;
            let destination = match i % 13 {
                // Link-local, to a tagged interface, to no route.
                5 => Ipv4Addr::new(169, 254, 1, 1),
                7 => Ipv4Addr::new(10, 20, 1, i as u8),
                9 => Ipv4Addr::new(172, 16, 0, 1),
                _ => Ipv4Addr::new(10, next, (i / 256) as u8, i as u8),
            };
            let mut frame = udp(destination, if i % 11 == 3 { 1 } else { 40 + (i % 7) as u8 });
            if i % 5 == 0 {
                frame.extend([0xee; 9]);
            }
            if i % 17 == 16 {
                // A wrong checksum.
                frame[24] ^= 0xff;
            }
            frame
        })
        .collect();
    let run = |together: bool| {
        let mut rig = Rig::running(4096, Layout::Three, &(CONFIG.to_owned() + &hops));
        let mut out = Vec::new();
        for frame in &frames {
            rig.send("lan", frame);
            if !together {
                rig.settle();
                out.append(&mut rig.received("wan"));
            }
        }
        rig.settle();
        out.append(&mut rig.received("wan"));
        // Packets of the general path may be overtaken by others.
        out.sort();
        (out, dropped(&rig, DropReason::HeaderChecksum))
    };
    let (alone, bad) = run(false);
    assert!(alone.len() > 150 && bad > 5, "{} left, {bad} had a wrong checksum", alone.len());
    assert_eq!(run(true), (alone, bad));
}
