//! ARP and the life cycle of a neighbour, as transcripts.

use super::frames::{V4, V6, advertises, arp, arp_request, is_at};
use super::*;
use expect_test::expect;
use packet::wire::Arp;

const SECOND: Nanos = Nanos::secs(1);

/// Host B answers the request for 10.0.2.2.
fn answer_from_host_b(lab: &mut Lab) {
    lab.receive(WAN, &is_at("10.0.2.2", B, (WAN_MAC, "10.0.2.1")), Exception::Arp);
}

#[test]
fn held_packets_are_sent_in_order_after_resolution() {
    let mut lab = Lab::new();
    for length in [1, 2, 3] {
        lab.receive(LAN, &V4::default().udp(length), Exception::Resolve);
    }
    lab.net.now += Nanos::millis(5);
    answer_from_host_b(&mut lab);
    expect![[r#"
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          10.0.2.2 - incomplete
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.2 tell 10.0.2.1
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 2 bytes ttl 64
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 3 bytes ttl 64
        5ms < wan vlan 20 ARP 10.0.2.2 is-at 02:00:00:00:00:bb
          10.0.2.2 02:00:00:00:00:bb reachable
          forwarded 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          forwarded 10.0.1.2.1000 > 10.0.2.2.9999 UDP 2 bytes ttl 64
          forwarded 10.0.1.2.1000 > 10.0.2.2.9999 UDP 3 bytes ttl 64
          consumed
    "#]]
    .assert_eq(&lab.log());
    assert_eq!(
        lab.net.tables.lookup(ip("10.0.2.2")),
        Outcome::Via(lab.net.tables.adjacency_for(WAN, ip("10.0.2.2")).unwrap())
    );
}

#[test]
fn failed_resolution_is_reported_to_every_sender() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    lab.receive(LAN, &V6::default().udp(1), Exception::Resolve);
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    lab.log();
    lab.pass(SECOND * 3);
    expect![[r#"
        1s
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.2 tell 10.0.2.1
          > wan 33:33:ff:00:00:02 vlan 20 fe80::ff:fe00:2 > ff02::1:ff00:2 ICMPv6 who-has 2001:db8:2::2 link 02:00:00:00:00:02 hlim 255
        2s
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.2 tell 10.0.2.1
          > wan 33:33:ff:00:00:02 vlan 20 fe80::ff:fe00:2 > ff02::1:ff00:2 ICMPv6 who-has 2001:db8:2::2 link 02:00:00:00:00:02 hlim 255
        3s
          10.0.2.2 - failed
          10.0.1.2 02:00:00:00:00:aa delay
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP host unreachable for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped neighbour_failed
          2001:db8:2::2 - failed
          2001:db8:1::2 - incomplete
          > lan 33:33:ff:00:00:02 2001:db8:1::1 > ff02::1:ff00:2 ICMPv6 who-has 2001:db8:1::2 link 02:00:00:00:00:01 hlim 255
          dropped neighbour_failed
    "#]].assert_eq(&lab.log());
    // For a while no request is sent again, and senders receive an error at once.
    lab.receive(LAN, &V4::default().udp(2), Exception::Resolve);
    expect![[r#"
        3s < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 2 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP host unreachable for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped neighbour_failed
    "#]]
    .assert_eq(&lab.log());
    lab.pass(SECOND * 2);
    lab.log();
    lab.receive(LAN, &V4::default().udp(3), Exception::Resolve);
    expect![[r#"
        5s < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 3 bytes ttl 64
          10.0.2.2 - incomplete
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.2 tell 10.0.2.1
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn a_reachable_neighbour_is_probed_directly_while_packets_flow() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    answer_from_host_b(&mut lab);
    lab.log();
    let due = lab.host.next_deadline().since(lab.net.now);
    assert!((SECOND * 15..SECOND * 45).contains(&due), "{due}");
    lab.pass(due);
    let log = lab.log();
    assert!(log.contains("> wan 02:00:00:00:00:bb vlan 20 ARP who-has 10.0.2.2 tell 10.0.2.1"), "{log}");
    answer_from_host_b(&mut lab);
    expect![[r#"
        28979060390ns < wan vlan 20 ARP 10.0.2.2 is-at 02:00:00:00:00:bb
          10.0.2.2 02:00:00:00:00:bb reachable
          consumed
    "#]]
    .assert_eq(&lab.log());
    lab.forwarded();
}

#[test]
fn unreachable_neighbour_is_removed_and_resolved_again() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    answer_from_host_b(&mut lab);
    lab.forwarded();
    let due = lab.host.next_deadline().since(lab.net.now);
    lab.pass(due + SECOND * 3);
    assert!(lab.host.neighbours().is_empty());
    assert_eq!(lab.net.tables.lookup(ip("10.0.2.2")), Outcome::Connected(WAN));
    lab.log();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    assert!(lab.log().contains("ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.2"));
}

#[test]
fn gateway_is_resolved_instead_of_the_destination() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4 { destination: "10.7.1.1", ..V4::default() }.udp(1), Exception::Resolve);
    expect![[r#"
        0ns < lan 10.0.1.2.1000 > 10.7.1.1.9999 UDP 1 bytes ttl 64
          10.0.2.254 - incomplete
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.254 tell 10.0.2.1
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn arp_request_for_us_is_answered_and_creates_a_usable_neighbour() {
    let mut lab = Lab::new();
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    lab.receive(WAN, &V4 { source: "10.0.2.2", destination: "10.0.1.2", ..V4::default() }.udp(1), Exception::Resolve);
    lab.forwarded();
    lab.pass(SECOND * 5);
    expect![[r#"
        0ns < lan ARP who-has 10.0.1.1 tell 10.0.1.2
          10.0.1.2 02:00:00:00:00:aa stale
          > lan 02:00:00:00:00:aa ARP 10.0.1.1 is-at 02:00:00:00:00:01
          consumed
        0ns < wan vlan 20 10.0.2.2.1000 > 10.0.1.2.9999 UDP 1 bytes ttl 64
          10.0.1.2 02:00:00:00:00:aa delay
          forwarded vlan 20 10.0.2.2.1000 > 10.0.1.2.9999 UDP 1 bytes ttl 64
        5s
          10.0.1.2 02:00:00:00:00:aa probe
          > lan 02:00:00:00:00:aa ARP who-has 10.0.1.2 tell 10.0.1.1
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn arp_is_answered_only_for_local_addresses_of_the_link() {
    let mut lab = Lab::new();
    for target in ["10.0.1.9", "10.0.2.1", "10.0.1.255"] {
        lab.receive(LAN, &arp_request(target, A, "10.0.1.2"), Exception::Arp);
    }
    assert!(lab.net.sent.is_empty());
    assert!(lab.host.neighbours().is_empty(), "who asks for others is no concern of ours");
    // A probe is answered, or its sender would use the address (RFC 5227 2.1.1); it creates no neighbour.
    lab.receive(LAN, &arp_request("10.0.1.1", A, "0.0.0.0"), Exception::Arp);
    assert_eq!((lab.net.sent.len(), lab.host.neighbours().len()), (1, 0));
    // A host with an address of another network is answered, but not learned.
    lab.receive(LAN, &arp_request("10.0.1.1", A, "192.168.7.7"), Exception::Arp);
    assert_eq!((lab.net.sent.len(), lab.host.neighbours().len()), (2, 0));
}

#[test]
fn forged_arp_messages_are_dropped() {
    let mut lab = Lab::new();
    let mut cut = arp(Arp::request(A, [10, 0, 1, 2].into(), [10, 0, 1, 1].into()));
    cut.l3.truncate(27);
    for frame in
        [arp_request("10.0.1.1", Mac::BROADCAST, "10.0.1.2"), arp_request("10.0.1.1", Mac([0; 6]), "10.0.1.2"), cut]
    {
        lab.receive(LAN, &frame, Exception::Arp);
    }
    assert_eq!(lab.log().matches("dropped bad_arp").count(), 3);
    assert!(lab.net.sent.is_empty() && lab.host.neighbours().is_empty());
}

#[test]
fn local_address_is_defended_once_in_ten_seconds() {
    let mut lab = Lab::new();
    for _ in 0..3 {
        lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.1"), Exception::Arp);
    }
    expect![[r#"
        0ns < lan ARP who-has 10.0.1.1 tell 10.0.1.1
          conflict 10.0.1.1 02:00:00:00:00:aa
          > lan ff:ff:ff:ff:ff:ff ARP who-has 10.0.1.1 tell 10.0.1.1
          dropped bad_arp
        0ns < lan ARP who-has 10.0.1.1 tell 10.0.1.1
          dropped bad_arp
        0ns < lan ARP who-has 10.0.1.1 tell 10.0.1.1
          dropped bad_arp
    "#]]
    .assert_eq(&lab.log());
    lab.pass(SECOND * 10);
    lab.receive(LAN, &arp_request("10.0.1.9", A, "10.0.1.1"), Exception::Arp);
    assert!(lab.log().contains("conflict 10.0.1.1 02:00:00:00:00:aa"));
    lab.receive(LAN, &advertises("2001:db8:1::1", Some(A), 0x20, ("fe80::aa", "ff02::1")), Exception::Local);
    expect![[r#"
        10s < lan fe80::aa > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:aa O hlim 255
          conflict 2001:db8:1::1 02:00:00:00:00:aa
          > lan 33:33:00:00:00:01 2001:db8:1::1 > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R O hlim 255
          dropped bad_neighbour_discovery
    "#]]
    .assert_eq(&lab.log());
}

#[test]
fn unsolicited_reply_creates_no_neighbour_and_proves_no_reachability() {
    let mut lab = Lab::new();
    lab.receive(WAN, &is_at("10.0.2.2", B, (WAN_MAC, "10.0.2.1")), Exception::Arp);
    assert!(lab.host.neighbours().is_empty());
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    answer_from_host_b(&mut lab);
    lab.receive(WAN, &is_at("10.0.2.2", A, (WAN_MAC, "10.0.2.1")), Exception::Arp);
    let b = &lab.host.neighbours()[0];
    assert_eq!((b.state, b.mac), (NeighbourState::Delay, Some(A)), "believed as RFC 826 says, but soon asked");
    lab.forwarded();
}

#[test]
fn full_neighbour_queue_drops_its_oldest_packets() {
    let mut lab =
        Lab::with(LocalProtocolLimits { pending_per_neighbour: 2, pending: 3, ..LocalProtocolLimits::default() });
    for length in 1..=4 {
        lab.receive(LAN, &V4::default().udp(length), Exception::Resolve);
    }
    for (length, host) in [(5, "10.0.2.3"), (6, "10.0.2.4")] {
        lab.receive(LAN, &V4 { destination: host, ..V4::default() }.udp(length), Exception::Resolve);
    }
    let log = lab.log();
    assert_eq!(log.matches("dropped neighbour_queue").count(), 3, "{log}");
    assert_eq!(lab.host.held_packets(), 3);
    answer_from_host_b(&mut lab);
    let lengths: Vec<usize> = lab.forwarded().iter().map(|frame| frame.len() - 14 - 28).collect();
    assert_eq!(lengths, [4], "where all that may wait do, the one that has waited longest makes room");
}

#[test]
fn full_table_evicts_the_oldest_idle_neighbour_and_none_in_use() {
    let mut lab = Lab::with(LocalProtocolLimits { neighbours_per_interface: 3, ..LocalProtocolLimits::default() });
    for (host, ms) in [("10.0.1.2", 1), ("10.0.1.3", 2)] {
        lab.net.now += Nanos::millis(ms);
        lab.receive(LAN, &arp_request("10.0.1.1", A, host), Exception::Arp);
    }
    let to = |host| V4 { source: "10.0.2.2", destination: host, ..V4::default() }.udp(1);
    for host in ["10.0.1.4", "10.0.1.5", "10.0.1.6"] {
        lab.receive(WAN, &to(host), Exception::Resolve);
    }
    let known: Vec<String> =
        lab.host.neighbours().iter().map(|n| format!("{} {}", n.address, n.state.name())).collect();
    assert_eq!(known, ["10.0.1.4 incomplete", "10.0.1.5 incomplete", "10.0.1.6 incomplete"]);
    lab.receive(WAN, &to("10.0.1.7"), Exception::Resolve);
    assert!(lab.log().contains("dropped neighbour_table"));
    // A message from an unknown host evicts none either.
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.8"), Exception::Arp);
    assert_eq!(lab.host.neighbours().len(), 3);
    // The other interface has a table of its own.
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    assert_eq!(lab.host.neighbours().len(), 4);
}

#[test]
fn static_neighbour_evicts_a_dynamic_one() {
    let mut lab = Lab::with(LocalProtocolLimits { neighbours_per_interface: 2, ..LocalProtocolLimits::default() });
    let to = |host| V4 { source: "10.0.2.2", destination: host, ..V4::default() }.udp(1);
    for host in ["10.0.1.4", "10.0.1.5"] {
        lab.receive(WAN, &to(host), Exception::Resolve);
    }
    for host in ["10.0.1.6", "10.0.1.7"] {
        assert!(lab.host.set_static_neighbour(LAN, ip(host), B, &mut lab.net), "somebody waits for both, and goes");
    }
    assert_eq!(lab.log().matches("dropped neighbour_table").count(), 2);
    assert!(!lab.host.set_static_neighbour(LAN, ip("10.0.1.8"), B, &mut lab.net), "all are given");
    assert_eq!(lab.host.held_packets(), 0);
}

#[test]
fn message_flood_is_limited_on_its_interface_only() {
    let mut lab = Lab::with(LocalProtocolLimits { neighbour_messages: 10, ..LocalProtocolLimits::default() });
    for _ in 0..50 {
        lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    }
    assert_eq!(lab.net.sent.len(), 10);
    assert_eq!(lab.log().matches("dropped neighbour_flood").count(), 40);
    lab.receive(WAN, &arp_request("10.0.2.1", B, "10.0.2.2"), Exception::Arp);
    assert_eq!(lab.net.sent.len(), 11);
    lab.net.now += SECOND;
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    assert_eq!(lab.net.sent.len(), 12);
}

#[test]
fn unused_neighbour_expires_after_ten_minutes() {
    let mut lab = Lab::new();
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    lab.pass(SECOND * 599);
    assert_eq!(lab.host.neighbours().len(), 1);
    lab.pass(SECOND);
    assert!(lab.host.neighbours().is_empty());
    assert_eq!(lab.net.sent.len(), 1, "nobody asks for what nobody uses");
}

#[test]
fn static_neighbour_is_never_probed_or_changed() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    assert!(lab.host.set_static_neighbour(WAN, ip("10.0.2.2"), B, &mut lab.net));
    assert_eq!(lab.forwarded().len(), 1, "what waited for it goes");
    lab.receive(WAN, &is_at("10.0.2.2", A, (WAN_MAC, "10.0.2.1")), Exception::Arp);
    lab.pass(SECOND * 3600);
    let known = lab.host.neighbours();
    assert_eq!((known[0].state, known[0].mac), (NeighbourState::Static, Some(B)));
    lab.host.remove_neighbour(WAN, ip("10.0.2.2"), &mut lab.net);
    assert_eq!(lab.host.neighbours().len(), 1);
    lab.host.clear_static_neighbour(WAN, ip("10.0.2.2"), &mut lab.net);
    assert!(lab.host.neighbours().is_empty());
    assert!(!lab.host.set_static_neighbour(InterfaceId(9), ip("10.0.2.2"), B, &mut lab.net));
    lab.check();
}

#[test]
fn removed_interface_discards_its_neighbours_and_waiting_packets() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    lab.receive(LAN, &arp_request("10.0.1.1", A, "10.0.1.2"), Exception::Arp);
    lab.log();
    lab.net.interfaces.retain(|interface| interface.id == LAN);
    lab.host.adopt(&mut lab.net);
    assert_eq!(lab.log(), "  dropped port_removed\n");
    assert_eq!(lab.host.neighbours().len(), 1);
    // Another interface card: the known neighbours belong to the old one.
    lab.net.interfaces[0].mac = WAN_MAC;
    lab.host.adopt(&mut lab.net);
    assert!(lab.host.neighbours().is_empty());
}

#[test]
fn renumbered_link_keeps_only_neighbours_on_its_prefixes() {
    let mut lab = Lab::new();
    for host in ["10.0.1.2", "10.0.1.200"] {
        lab.receive(LAN, &arp_request("10.0.1.1", A, host), Exception::Arp);
    }
    lab.net.interfaces[0].ipv4[0].length = 25;
    lab.host.adopt(&mut lab.net);
    let known: Vec<IpAddr> = lab.host.neighbours().iter().map(|n| n.address).collect();
    assert_eq!(known, [ip("10.0.1.2")]);
}

#[test]
fn stopped_worker_drops_all_held_packets() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    lab.receive(LAN, &V6::default().udp(1), Exception::Resolve);
    lab.log();
    lab.host.drain(&mut lab.net);
    assert_eq!((lab.log().as_str(), lab.host.held_packets()), ("  dropped shutdown\n  dropped shutdown\n", 0));
    lab.check();
}

#[test]
fn link_down_discards_neighbours_and_link_up_announces_addresses() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    answer_from_host_b(&mut lab);
    lab.forwarded();
    lab.receive(LAN, &V6::default().udp(2), Exception::Resolve);
    lab.host.set_static_neighbour(WAN, ip("10.0.2.9"), A, &mut lab.net);
    lab.host.set_static_neighbour(LAN, ip("10.0.1.9"), A, &mut lab.net);
    lab.log();
    lab.host.link_changed(PortId(1), false, &mut lab.net);
    assert_eq!(lab.log(), "  dropped port_down\n", "what waited for a neighbour");
    let left: Vec<IpAddr> = lab.host.neighbours().iter().map(|neighbour| neighbour.address).collect();
    assert_eq!(left, [ip("10.0.1.9"), ip("10.0.2.9")], "those that were configured");
    assert_eq!(lab.net.tables.lookup(ip("10.0.2.2")), Outcome::Connected(WAN));
    lab.host.link_changed(PortId(1), true, &mut lab.net);
    lab.pass(SECOND * 3);
    expect![[r#"
          > wan 33:33:00:00:00:16 vlan 20 :: > ff02::16 ICMPv6 listener report to-ex ff02::2 to-ex ff02::1:ff00:0 to-ex ff02::1:ff00:1 to-ex ff02::1:ff00:2 to-ex ff05::2 hlim 1
          > wan 33:33:ff:00:00:01 vlan 20 :: > ff02::1:ff00:1 ICMPv6 who-has 2001:db8:2::1 hlim 255
          > wan 33:33:ff:00:00:02 vlan 20 :: > ff02::1:ff00:2 ICMPv6 who-has fe80::ff:fe00:2 hlim 255
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.1 tell 10.0.2.1
        48404726ns
          > wan 33:33:00:00:00:16 vlan 20 :: > ff02::16 ICMPv6 listener report to-ex ff02::2 to-ex ff02::1:ff00:0 to-ex ff02::1:ff00:1 to-ex ff02::1:ff00:2 to-ex ff05::2 hlim 1
        1s
          > wan 33:33:00:00:00:16 vlan 20 fe80::ff:fe00:2 > ff02::16 ICMPv6 listener report to-ex ff02::2 to-ex ff02::1:ff00:0 to-ex ff02::1:ff00:1 to-ex ff02::1:ff00:2 to-ex ff05::2 hlim 1
          > wan 33:33:00:00:00:01 vlan 20 2001:db8:2::1 > ff02::1 ICMPv6 2001:db8:2::1 is-at 02:00:00:00:00:02 R O hlim 255
          > wan 33:33:00:00:00:01 vlan 20 fe80::ff:fe00:2 > ff02::1 ICMPv6 fe80::ff:fe00:2 is-at 02:00:00:00:00:02 R O hlim 255
        1150448431ns
          > wan 33:33:00:00:00:16 vlan 20 fe80::ff:fe00:2 > ff02::16 ICMPv6 listener report to-ex ff02::2 to-ex ff02::1:ff00:0 to-ex ff02::1:ff00:1 to-ex ff02::1:ff00:2 to-ex ff05::2 hlim 1
        2s
          > wan ff:ff:ff:ff:ff:ff vlan 20 ARP who-has 10.0.2.1 tell 10.0.2.1
        3s
          > wan 33:33:00:00:00:01 vlan 20 2001:db8:2::1 > ff02::1 ICMPv6 2001:db8:2::1 is-at 02:00:00:00:00:02 R O hlim 255
          > wan 33:33:00:00:00:01 vlan 20 fe80::ff:fe00:2 > ff02::1 ICMPv6 fe80::ff:fe00:2 is-at 02:00:00:00:00:02 R O hlim 255
    "#]]
    .assert_eq(&lab.log());
    assert_eq!(lab.host.next_deadline(), Instant::NEVER);
}

#[test]
fn neighbours_requested_while_the_link_was_down_are_requested_again() {
    let mut lab = Lab::new();
    lab.host.link_changed(PortId(1), false, &mut lab.net);
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    assert!(lab.log().contains("ARP who-has 10.0.2.2 tell 10.0.2.1"), "a link that is gone drops it");
    lab.pass(Nanos::millis(500));
    lab.log();
    lab.host.link_changed(PortId(1), true, &mut lab.net);
    assert!(lab.log().contains("ARP who-has 10.0.2.2 tell 10.0.2.1"), "at once");
    answer_from_host_b(&mut lab);
    assert_eq!(lab.forwarded().len(), 1, "what has waited");
}
