//! A pair of pass-through ports: every frame received on one leaves on the other, and no other frame does.

use crate::random::{Chance, frame, seeds};
use packet::Offload;
use packet::pool::Segmentation;
use packet::port::Offloads;
use packet::wire::{Ipv4, PacketFields};
use plane::explain::{ExpectedFate, ExplainContext, explain};
use plane::rig::{LAN_AND_WAN, Rig, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{Mac, Nanos, PortId};

const LAYOUTS: [Layout; 3] = [Layout::One, Layout::Two, Layout::Three];

/// Four ports without pass-through.
fn apart() -> String {
    LAN_AND_WAN.to_owned() + "[port.line]\ndevice = 'memory:line'\n[port.router]\ndevice = 'memory:router'\n"
}

/// The same with two of them as a pass-through pair.
fn config() -> String {
    apart() + "[[passthrough]]\nports = ['line', 'router']\n"
}

/// Any frame: a plausible one, or a few random bytes.
fn any(chance: &mut Chance, seeds: &[Vec<u8>], room: usize) -> Vec<u8> {
    const STATIONS: [[u8; 6]; 5] = [
        [2, 0, 0, 0, 0, 1],
        [0xff; 6],
        // Spanning tree, link layer discovery, pause (IEEE 802.1Q 8.6.3, 802.1AB 7.1).
        [1, 0x80, 0xc2, 0, 0, 0],
        [1, 0x80, 0xc2, 0, 0, 0xe],
        [0x46, 0x60, 0x45, 0, 0, 9],
    ];
    let station = STATIONS[chance.below(STATIONS.len())];
    match chance.below(4) {
        0 => (0..1 + chance.below(room)).map(|_| chance.next() as u8).collect(),
        1 => {
            // An unknown EtherType behind two tags.
            let mut bytes = [&station[..], &[2, 0, 0, 0, 0, 7, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 9, 0x88, 0xcc]].concat();
            bytes.extend((0..chance.below(1400)).map(|i| i as u8));
            bytes
        }
        _ => frame(station, seeds, chance),
    }
}

#[test]
fn bump_in_wire_transparent() {
    for (seed, layout) in LAYOUTS.into_iter().enumerate() {
        let mut rig = Rig::running(4096, layout, &config());
        let (seeds, mut chance) = (seeds(), Chance(seed as u64));
        let mut sent = 0;
        for _ in 0..300 {
            let [mut there, mut back] = [Vec::new(), Vec::new()];
            for _ in 0..1 + chance.below(40) {
                let (wire, frames) = if chance.one_in(3) { ("router", &mut back) } else { ("line", &mut there) };
                // Jumbo frames as well, which lie in super-frames.
                let room = if chance.one_in(20) { 9000 } else { 1500 };
                let bytes = any(&mut chance, &seeds, room);
                rig.send(wire, &bytes);
                frames.push(bytes);
                // A routed packet is forwarded by its route, though it may share a batch with passing frames.
                rig.send("lan", &UdpFrame::between_ports(9, 9).frame(&[]));
                sent += 1;
            }
            rig.settle();
            assert!(rig.received("router") == there, "{layout:?}: not what came by the line");
            assert!(rig.received("line") == back, "{layout:?}: not what came by the router");
            let routed = rig.received("wan");
            assert!(
                routed.len() == there.len() + back.len()
                    && routed.iter().all(|frame| frame[..6] == [2, 0, 0, 0, 0, 0x22])
            );
        }
        rig.advance(Nanos::secs(100));
        assert!(
            rig.received("line").is_empty() && rig.received("router").is_empty(),
            "it says nothing of itself there"
        );
        let report = rig.report();
        assert_eq!((report.ledger.received(), report.ledger.dropped(), report.held_packets), (2 * sent, 0, 0));
    }
}

#[test]
fn passthrough_with_several_workers_keeps_flow_order() {
    for workers in [2, 3] {
        let mut team = WorkerGroup::new(workers, 2, 8192, Layout::Three);
        team.apply(&config().replace("version = 1\n", &format!("version = 1\n[router]\nworkers = {workers}\n")));
        team.settle();
        ["line", "line#1", "router", "router#1"].into_iter().for_each(|wire| drop(team.received(wire)));
        let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 8]));
        let mut sent = Vec::new();
        for number in 0..600u32 {
            let network = (Ipv4Addr::new(10, 0, 0, number as u8 % 20), Ipv4Addr::new(10, 9, 9, 9));
            let bytes = UdpFrame { link, network, ports: (7, 7), ttl: 1, length: 60 }.frame(&number.to_be_bytes());
            team.send("line", &bytes);
            sent.push(bytes);
            (0..usize::from(workers)).for_each(|worker| _ = team.step(worker));
        }
        team.settle();
        let came: Vec<Vec<u8>> = [team.received("router"), team.received("router#1")].concat();
        for flow in 0..20 {
            let of =
                |frames: &[Vec<u8>]| -> Vec<Vec<u8>> { frames.iter().filter(|f| f[29] == flow).cloned().collect() };
            assert_eq!(of(&came), of(&sent), "{workers} workers, flow {flow}");
        }
        assert_eq!(came.len(), sent.len());
    }
}

#[test]
fn passthrough_segments_super_frames_only_without_offload() {
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 8]));
    let network = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let bytes = UdpFrame { link, network, ports: (7, 7), ttl: 1, length: 42 + 3500 }.frame(&[5; 3500]);
    let offload = Offload { segmentation: Segmentation::Udp, size: 1000, checksum: None };
    for takes in [true, false] {
        let wires =
            ["line", "router"].map(|wire| (wire, Offloads { super_frames: takes, checksums: takes, gather: takes }));
        let mut rig = Rig::offloading(512, Layout::Three, &config(), &wires);
        rig.send_as("line", &bytes, offload);
        rig.settle();
        let came = rig.received_as("router");
        if takes {
            assert_eq!(came, [(bytes.clone(), offload)]);
            continue;
        }
        let payload: Vec<u8> =
            came.iter().flat_map(|(frame, _)| Ipv4::parse(&frame[14..]).unwrap().payload[8..].to_vec()).collect();
        assert_eq!((came.len(), payload), (4, vec![5; 3500]));
        assert!(
            came.iter()
                .all(|(frame, _)| frame[..14] == bytes[..14] && PacketFields::of(frame).is_some() && frame[22] == 1)
        );
    }
}

#[test]
fn passthrough_is_added_and_removed_under_traffic() {
    let (with, without) = (config(), apart());
    let mut rig = Rig::running(2048, Layout::Three, &with);
    let bytes = UdpFrame { ttl: 1, ..UdpFrame::between_ports(9, 9) }.frame(&[]);
    let (mut sent, mut came) = (0, 0);
    for round in 0..10 {
        for _ in 0..20 {
            rig.send("line", &bytes);
            sent += 1;
        }
        rig.apply(if round % 2 == 0 { &without } else { &with }).unwrap();
        rig.settle();
        let frames = rig.received("router");
        assert!(frames.iter().all(|frame| *frame == bytes));
        came += frames.len() as u64;
    }
    let report = rig.report();
    // Without pass-through the router drops these frames, because their destination is another host.
    assert!(came > 0 && report.ledger.dropped() > 0);
    assert_eq!((came + report.ledger.dropped(), report.held_packets), (sent, 0));
}

#[test]
fn explain_predicts_passing_frames() {
    let rig = Rig::running(512, Layout::Three, &config());
    let snapshot = rig.router.snapshot().clone();
    let reports = [rig.report()];
    let question = ExplainContext {
        snapshot: &snapshot,
        tables: rig.router.tables(),
        reports: &reports,
        functions: rig.router.functions(),
        now: rig.now,
    };
    let named = |name: &str| {
        PortId::at(snapshot.ports.iter().position(|port| port.as_ref().is_some_and(|p| &*p.name == name)).unwrap())
    };
    let bytes = [&[1u8, 0x80, 0xc2, 0, 0, 0xe, 2, 0, 0, 0, 0, 7, 0x88, 0xcc][..], &[1; 46]].concat();
    let explained = explain(&question, named("router"), &bytes);
    let ExpectedFate::Sent { port, frame, .. } = explained.expected else { panic!("{explained:?}") };
    assert_eq!((port, frame), (named("line"), bytes));
}

/// A frame of a UDP flow by its source port, behind these link headers.
fn wrapped(link: &[u8], ipv6: bool, port: u16, length: usize) -> Vec<u8> {
    let udp = [&port.to_be_bytes()[..], &[0, 9, 0, 0, 0, 0]].concat();
    let size = (length - 14 - link.len()) as u16;
    let ip = if ipv6 {
        [&[0x60, 0, 0, 0][..], &(size - 40).to_be_bytes(), &[17, 64], &[0xfd; 32]].concat()
    } else {
        [&[0x45, 0][..], &size.to_be_bytes(), &[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat()
    };
    let mut frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8], link, &ip, &udp].concat();
    frame.resize(length, 0);
    frame
}

/// The link headers of an access network, from the ethertype or tag after the addresses to the ethertype or PPP protocol of IP.
fn link_headers(ipv6: bool) -> [Vec<u8>; 5] {
    let ethertype: &[u8] = if ipv6 { &[0x86, 0xdd] } else { &[8, 0] };
    let session = [&[0x88, 0x64, 0x11, 0, 0, 1, 5, 0][..], if ipv6 { &[0, 0x57] } else { &[0, 0x21] }].concat();
    [
        ethertype.to_vec(),
        [&[0x81, 0, 0, 100], ethertype].concat(),
        [&[0x88, 0xa8, 0, 100, 0x81, 0, 0, 20], ethertype].concat(),
        session.clone(),
        [&[0x91, 0, 0, 100, 0x81, 0, 0, 20], &session[..]].concat(),
    ]
}

#[test]
fn flows_behind_tags_and_pppoe_have_queues_of_their_own() {
    let config = config().replace(
        "device = 'memory:router'",
        "device = 'memory:router'\nscheme = 'shape(rate=100mbit){fq(flows=1024){fifo}}'",
    );
    for ipv6 in [false, true] {
        for link in link_headers(ipv6) {
            let mut rig = Rig::running(512, Layout::Three, &config);
            let heavy: Vec<_> = (0..40).map(|_| wrapped(&link, ipv6, 1000, 1200)).collect();
            heavy.iter().for_each(|frame| rig.send("line", frame));
            let light = wrapped(&link, ipv6, 2000, 100);
            rig.send("line", &light);
            let mut came = Vec::new();
            while came.len() < heavy.len() + 1 {
                rig.advance(Nanos::micros(100));
                came.extend(rig.received("router"));
            }
            let at = came.iter().position(|frame| *frame == light).unwrap();
            assert!(at < 25, "the light flow left after {at} packets of the heavy one behind {link:x?}");
        }
    }
}

#[test]
fn frames_of_an_access_network_pass_unchanged() {
    let mut rig = Rig::running(512, Layout::Three, &config());
    for ipv6 in [false, true] {
        for link in link_headers(ipv6) {
            let whole = wrapped(&link, ipv6, 1000, 300);
            // Every length, down to one byte: a header may end anywhere.
            for length in (1..=whole.len()).rev() {
                for (from, to) in [("line", "router"), ("router", "line")] {
                    rig.send(from, &whole[..length]);
                    rig.settle();
                    assert_eq!(rig.received(to), [&whole[..length]], "{length} bytes of {link:x?}");
                }
            }
        }
    }
}
