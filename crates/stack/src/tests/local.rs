//! Packets for the router itself. `linux` compares its answers byte for byte.

use super::frames::{Frame, V4, V6};
use super::*;
use expect_test::expect;
use packet::wire::protocol;

/// The fate of a frame, and whether it is answered.
fn fate(frame: &Frame) -> (bool, String) {
    let mut lab = Lab::new();
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        assert!(lab.host.set_static_neighbour(LAN, ip(address), A, &mut lab.net));
    }
    lab.log();
    lab.receive(LAN, frame, Exception::Local);
    let log = lab.log();
    (!lab.net.sent.is_empty(), log.lines().last().unwrap().trim().to_string())
}

#[test]
fn local_packets_have_the_listed_fates() {
    let us = V4 { destination: "10.0.1.1", ..V4::default() };
    let group = V4 { destination: "224.0.0.1", ..V4::default() };
    let us6 = V6 { destination: "2001:db8:1::1", ..V6::default() };
    let group6 = V6 { destination: "ff02::1", ..V6::default() };
    let spoilt = |mut frame: Frame| {
        *frame.l3.last_mut().unwrap() ^= 0x55;
        frame
    };
    let tcp = |flags: u8, frame: fn(V4<'_>, &[u8]) -> Frame| {
        let segment = [3, 232, 17, 92, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 2, 0, 0, 0, 0, 0];
        let mut frame = frame(V4 { protocol: protocol::TCP, destination: "10.0.1.1", ..V4::default() }, &segment);
        packet::wire::complete_checksum(&mut frame.l3).unwrap();
        frame
    };
    for (name, frame, answered, end) in [
        ("echo", us.echo(8), true, "consumed"),
        ("echo to the other side's address", V4 { destination: "10.0.2.1", ..us }.echo(8), true, "consumed"),
        ("echo to a group", group.echo(8).broadcast(), false, "consumed"),
        ("echo with a wrong checksum", spoilt(us.echo(8)), false, "dropped bad_icmp"),
        ("echo from nowhere", V4 { source: "99.0.0.1", ..us }.echo(8), false, "consumed"),
        ("UDP", us.udp(8), true, "dropped local_port"),
        ("UDP with a wrong checksum", spoilt(us.udp(8)), false, "dropped local_port"),
        ("UDP to a group", group.udp(8).broadcast(), false, "dropped local_port"),
        ("TCP", tcp(2, |v4, segment| v4.with(segment)), true, "dropped local_port"),
        ("TCP reset", tcp(4, |v4, segment| v4.with(segment)), false, "dropped local_port"),
        ("OSPF", V4 { protocol: 89, ..us }.with(&[0; 24]), true, "dropped local_protocol"),
        ("IGMP", V4 { protocol: protocol::IGMP, ..group }.with(&[0; 8]).broadcast(), false, "consumed"),
        ("source route", V4 { options: &[131, 7, 4, 1, 2, 3, 4, 0], ..us }.udp(8), false, "dropped source_route"),
        ("bad option", V4 { options: &[7, 2, 0, 0], ..us }.udp(8), true, "dropped bad_option"),
        ("IPv6 echo", us6.echo(8), true, "consumed"),
        ("IPv6 echo to all nodes", group6.echo(8), true, "consumed"),
        ("IPv6 echo with a wrong checksum", spoilt(us6.echo(8)), false, "dropped bad_icmp"),
        ("IPv6 UDP", us6.udp(8), true, "dropped local_port"),
        ("IPv6 UDP to a group", group6.udp(8), false, "dropped local_port"),
        ("IPv6 with nothing in it", V6 { next: 59, ..us6 }.with(&[]), false, "consumed"),
        ("IPv6 OSPF", V6 { next: 89, ..us6 }.with(&[0; 16]), true, "dropped local_protocol"),
        (
            "IPv6 fragment of nothing",
            V6 { next: 44, ..us6 }.with(&[17, 0, 0, 1, 0, 0, 0, 1]),
            true,
            "dropped bad_fragment",
        ),
        ("IPv6 source route", V6 { next: 43, ..us6 }.with(&[59, 0, 0, 1, 0, 0, 0, 0]), true, "dropped source_route"),
        ("IPv6 source route used up", V6 { next: 43, ..us6 }.with(&[59, 0, 0, 0, 0, 0, 0, 0]), false, "consumed"),
        ("IPv6 known destination option", V6 { next: 60, ..us6 }.with(&[59, 0, 1, 4, 0, 0, 0, 0]), false, "consumed"),
        (
            "IPv6 option to report",
            V6 { next: 60, ..us6 }.with(&[59, 0, 0x9e, 4, 0, 0, 0, 0]),
            true,
            "dropped bad_option",
        ),
        (
            "IPv6 option to drop",
            V6 { next: 60, ..us6 }.with(&[59, 0, 0x5e, 4, 0, 0, 0, 0]),
            false,
            "dropped bad_option",
        ),
        (
            "IPv6 option too long",
            V6 { next: 60, ..us6 }.with(&[59, 0, 0x1e, 9, 0, 0, 0, 0]),
            false,
            "dropped bad_option",
        ),
        ("IPv6 header cut", V6 { next: 60, ..us6 }.with(&[59, 9, 1, 4, 0, 0, 0, 0]), false, "dropped bad_option"),
        (
            "hop-by-hop late",
            V6 { next: 60, ..us6 }.with(&[[0, 0, 1, 4, 0, 0, 0, 0], [59, 0, 1, 4, 0, 0, 0, 0]].concat()),
            true,
            "dropped bad_option",
        ),
    ] {
        assert_eq!(fate(&frame), (answered, end.to_string()), "{name}");
    }
}

#[test]
fn reply_longer_than_the_mtu_is_fragmented() {
    let mut lab = Lab::new();
    assert!(lab.host.set_static_neighbour(WAN, ip("10.0.2.2"), B, &mut lab.net));
    lab.log();
    lab.receive(WAN, &V4 { source: "10.0.2.2", destination: "10.0.1.1", ..V4::default() }.echo(1450), Exception::Local);
    expect![[r#"
        0ns < wan vlan 20 10.0.2.2 > 10.0.1.1 ICMP echo request id 3 seq 4 1450 bytes ttl 64
          consumed
          > wan 02:00:00:00:00:bb vlan 20 10.0.1.1 > 10.0.2.2 ICMP echo reply id 3 seq 4 1368 bytes ttl 64 frag 1:0+
          > wan 02:00:00:00:00:bb vlan 20 10.0.1.1 > 10.0.2.2 ICMP 82 bytes ttl 64 frag 1:1376
          consumed
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn reply_to_unresolved_host_is_held_for_resolution() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4 { destination: "10.0.1.1", ..V4::default() }.echo(8), Exception::Local);
    assert_eq!(lab.host.held_packets(), 1);
    lab.receive(LAN, &super::frames::is_at("10.0.1.2", A, (LAN_MAC, "10.0.1.1")), Exception::Arp);
    expect![[r#"
        0ns < lan 10.0.1.2 > 10.0.1.1 ICMP echo request id 3 seq 4 8 bytes ttl 64
          10.0.1.2 - incomplete
          > lan ff:ff:ff:ff:ff:ff ARP who-has 10.0.1.2 tell 10.0.1.1
          consumed
        0ns < lan ARP 10.0.1.2 is-at 02:00:00:00:00:aa
          10.0.1.2 02:00:00:00:00:aa reachable
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP echo reply id 3 seq 4 8 bytes ttl 64
          consumed
    "#]]
    .assert_eq(&lab.log());
}
