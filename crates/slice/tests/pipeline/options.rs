//! The code options on a router: the packets that leave it, and those that its slow path gets.

use crate::node::{Node, place, spec};
use etherparse::PacketBuilder;
use packet::wire::Ipv4;
use packet::wire::icmp4::Icmp4;
use slice::bands::{BandFilters, FilterBands};
use slice::code::ipv4::{Ipv4SlowPath, route4};
use slice::code::{ExceptionCode, i3, mtu_data};
use slice::{FilterAction, SliceQuota, SliceSpec};
use std::net::{Ipv4Addr, SocketAddrV4};
use units::{Nanos, PacketRate};

/// The host that all packets go to. Its ports stand for the nodes of an overlay.
const HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);

/// A slice with a code option, which sends by meta-interface 1 and queue 1.
fn slice(node: &mut Node, name: &str, code: &str, port: u16) {
    let quota = SliceQuota { filters: 16 << 10, exceptions: PacketRate::pps(1_000_000), ..spec(name).quota };
    node.slices.create(SliceSpec { code: code.into(), quota, ..spec(name) }).unwrap();
    node.furnish(name, port);
}

fn install(node: &mut Node, name: &str, filters: &BandFilters) {
    node.slices.edit_filters(name, &FilterBands::default().update(filters)).unwrap();
}

/// The UDP payloads that the host has received, and its ports.
fn arrived(node: &mut Node) -> Vec<(u16, Vec<u8>)> {
    let udp = |frame: Vec<u8>| {
        let ip = Ipv4::parse(&frame[14..]).unwrap();
        assert_eq!(ip.header.destination(), HOST);
        (u16::from_be_bytes([ip.payload[2], ip.payload[3]]), ip.payload[8..].to_vec())
    };
    node.rig.advance(Nanos::micros(100));
    node.rig.received("wan").into_iter().map(udp).collect()
}

/// A router of I3 whose neighbours and end systems are ports of the host.
fn i3_node(workload: &i3::I3Workload) -> i3::I3Node {
    let own = *workload.nodes().next().unwrap();
    let at_host = |address: SocketAddrV4| SocketAddrV4::new(HOST, 1024 + address.ip().to_bits() as u16);
    let router = workload.router(&own);
    let others = workload.nodes().map(|other| i3::RingNode { address: at_host(other.address), ..*other });
    let triggers = router.triggers().map(|trigger| {
        let target = match &trigger.target {
            i3::I3Target::Address(address) => i3::I3Target::Address(at_host(*address)),
            stack => stack.clone(),
        };
        i3::I3Trigger { target, ..trigger.clone() }
    });
    i3::I3Node::new(i3::RingView::new(own, others), triggers.collect::<Vec<_>>())
}

#[test]
fn i3_slice_does_what_a_router_without_tables_does() {
    let mut node = Node::new();
    slice(&mut node, "i3", "i3", 20_000);
    let mut workload = i3::I3Workload::new(9, 12, 30, true);
    let reference = i3_node(&workload);
    install(&mut node, "i3", &i3::filters(&reference, |_| (1, 1)));
    let (mut sent, mut slow) = (0, 0);
    for number in 0..3000 {
        let packet = workload.hostile_packet();
        node.send(20_000, &packet);
        let exceptions = node.slices.take_exceptions("i3", 10).unwrap();
        let packets = arrived(&mut node);
        match (reference.process(&packet), &exceptions[..]) {
            (_, [exception]) => {
                slow += 1;
                assert_eq!((&exception.packet[..], packets.len()), (&packet[..], 0), "packet {number}");
            }
            (i3::I3Fate::Sent(expected), []) => {
                sent += 1;
                let expected: Vec<_> = expected.into_iter().map(|(to, bytes)| (to.port(), bytes)).collect();
                assert_eq!(packets, expected, "packet {number}");
            }
            (i3::I3Fate::Dropped(i3::I3Drop::Invalid(_)), []) => assert_eq!(packets, [], "packet {number}"),
            other => panic!("packet {number}: {other:?}"),
        }
    }
    let counters = node.report("i3").counters;
    assert_eq!((counters.received, counters.forwarded, counters.exceptions), (3000, sent, slow));
    assert_eq!(counters.malformed, 3000 - sent - slow);
    assert!(sent > 500 && slow > 500, "{sent} by tables, {slow} by the slow path");
}

/// A packet of 203.0.113.5 in the overlay.
fn ipv4(to: [u8; 4], ttl: u8, payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    PacketBuilder::ipv4([203, 0, 113, 5], to, ttl).udp(4000, 33_434).write(&mut bytes, &vec![7; payload]).unwrap();
    bytes
}

#[test]
fn ipv4_slice_routes_by_longest_prefix_and_reports_errors() {
    let mut node = Node::new();
    slice(&mut node, "r", "ipv4", 20_000);
    let send =
        |port: u16, mtu| FilterAction::Send { queue: 1, interface: 1, next: place(HOST, port), data: mtu_data(mtu) };
    let route = |to: [u8; 4], length, action| (route4(to.into(), length).unwrap(), action);
    let filters = [
        route([10, 0, 0, 0], 8, send(1, 1500)),
        route([10, 1, 0, 0], 16, send(2, 100)),
        route([203, 0, 113, 0], 24, send(3, 0)),
        route([192, 168, 0, 1], 32, FilterAction::Exception(ExceptionCode::Local)),
    ];
    install(&mut node, "r", &filters.into_iter().collect());
    let mut slow_path = Ipv4SlowPath::new([(0, Ipv4Addr::new(192, 168, 0, 1))]);
    let mut answers = Vec::new();
    for packet in [
        ipv4([10, 2, 0, 1], 9, 10),
        ipv4([10, 1, 0, 1], 9, 72),
        ipv4([10, 1, 0, 1], 9, 73),
        ipv4([10, 1, 0, 1], 1, 10),
        ipv4([11, 0, 0, 1], 9, 10),
        ipv4([192, 168, 0, 1], 1, 10),
    ] {
        node.send(20_000, &packet);
        for exception in node.slices.take_exceptions("r", 10).unwrap() {
            let code = exception.code;
            for answer in slow_path.answer(code, exception.interface, &exception.packet, (100, 0)) {
                let ip = Ipv4::parse(&answer.bytes).unwrap();
                assert_eq!(ip.header.destination(), Ipv4Addr::new(203, 0, 113, 5));
                answers.push((code, ip.payload[..2].to_vec(), Icmp4::parse(ip.payload).is_ok()));
            }
        }
    }
    let forwarded: Vec<_> = arrived(&mut node).into_iter().map(|(port, bytes)| (port, bytes[8], bytes.len())).collect();
    assert_eq!(forwarded, [(1, 8, 38), (2, 8, 100)]);
    // Fragmentation needed, time exceeded, network unreachable, port unreachable: a trace of the path shows the router.
    assert_eq!(
        answers,
        [
            (ExceptionCode::Mtu, vec![3, 4], true),
            (ExceptionCode::Ttl, vec![11, 0], true),
            (ExceptionCode::NoMatch, vec![3, 0], true),
            (ExceptionCode::Ttl, vec![3, 3], true),
        ]
    );
}
