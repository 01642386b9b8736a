//! Neighbour discovery, as transcripts.

use super::frames::{V6, advertises, solicits};
use super::*;
use expect_test::expect;
use packet::wire::{Ipv6Header, icmp6, protocol};

const GROUP: &str = "ff02::1:ff00:1";

#[test]
fn a_solicitation_is_answered_with_our_address_and_the_router_flag() {
    let mut lab = Lab::new();
    lab.receive(LAN, &solicits("2001:db8:1::1", Some(A), ("2001:db8:1::2", GROUP)), Exception::Local);
    // A unicast solicitation comes from a host that has our link-layer address (RFC 4861 7.2.4).
    lab.receive(LAN, &solicits("2001:db8:1::1", Some(A), ("2001:db8:1::2", "2001:db8:1::1")), Exception::Local);
    // A probe for the address is answered by multicast: the address is in use (RFC 4862 5.4.3).
    lab.receive(LAN, &solicits("2001:db8:1::1", None, ("::", GROUP)), Exception::Local);
    expect![[r#"
        0ns < lan 2001:db8:1::2 > ff02::1:ff00:1 ICMPv6 who-has 2001:db8:1::1 link 02:00:00:00:00:aa hlim 255
          2001:db8:1::2 02:00:00:00:00:aa stale
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R S O hlim 255
          consumed
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 who-has 2001:db8:1::1 link 02:00:00:00:00:aa hlim 255
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 2001:db8:1::1 is-at known link address R S hlim 255
          consumed
        0ns < lan :: > ff02::1:ff00:1 ICMPv6 who-has 2001:db8:1::1 hlim 255
          > lan 33:33:00:00:00:01 2001:db8:1::1 > ff02::1 ICMPv6 2001:db8:1::1 is-at 02:00:00:00:00:01 R O hlim 255
          consumed
    "#]].assert_eq(&lab.log());
    let lengths: Vec<usize> = lab.net.sent.iter().map(|(_, frame)| frame.len() - 14).collect();
    assert_eq!(lengths, [72, 64, 72]);
    let flags: Vec<u8> = lab.net.sent.iter().map(|(_, frame)| frame[14 + 40 + 4]).collect();
    assert_eq!(flags, [0xe0, 0xc0, 0xa0]);
}

#[test]
fn solicitation_without_link_layer_address_is_answered_after_resolution() {
    let mut lab = Lab::new();
    lab.receive(LAN, &solicits("2001:db8:1::1", None, ("2001:db8:1::2", "2001:db8:1::1")), Exception::Local);
    lab.receive(
        LAN,
        &advertises("2001:db8:1::2", Some(A), 0x60, ("2001:db8:1::2", "fe80::ff:fe00:1")),
        Exception::Local,
    );
    expect![[r#"
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 who-has 2001:db8:1::1 hlim 255
          2001:db8:1::2 - incomplete
          > lan 33:33:ff:00:00:02 2001:db8:1::1 > ff02::1:ff00:2 ICMPv6 who-has 2001:db8:1::2 link 02:00:00:00:00:01 hlim 255
          consumed
        0ns < lan 2001:db8:1::2 > fe80::ff:fe00:1 ICMPv6 2001:db8:1::2 is-at 02:00:00:00:00:aa S O hlim 255
          2001:db8:1::2 02:00:00:00:00:aa reachable
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 2001:db8:1::1 is-at known link address R S hlim 255
          consumed
    "#]].assert_eq(&lab.log());
}

#[test]
fn packets_wait_for_the_advertisement() {
    let mut lab = Lab::new();
    lab.receive(LAN, &V6::default().udp(1), Exception::Resolve);
    // An unsolicited advertisement: the address is used, and soon probed.
    lab.receive(WAN, &advertises("2001:db8:2::2", Some(B), 0, ("2001:db8:2::2", "ff02::1")), Exception::Local);
    lab.forwarded();
    lab.pass(Nanos::secs(5));
    lab.receive(WAN, &advertises("2001:db8:2::2", None, 0x40, ("2001:db8:2::2", "fe80::ff:fe00:2")), Exception::Local);
    expect![[r#"
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          2001:db8:2::2 - incomplete
          > wan 33:33:ff:00:00:02 vlan 20 fe80::ff:fe00:2 > ff02::1:ff00:2 ICMPv6 who-has 2001:db8:2::2 link 02:00:00:00:00:02 hlim 255
        0ns < wan vlan 20 2001:db8:2::2 > ff02::1 ICMPv6 2001:db8:2::2 is-at 02:00:00:00:00:bb hlim 255
          2001:db8:2::2 02:00:00:00:00:bb delay
          forwarded 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          consumed
        5s
          2001:db8:2::2 02:00:00:00:00:bb probe
          > wan 02:00:00:00:00:bb vlan 20 fe80::ff:fe00:2 > 2001:db8:2::2 ICMPv6 who-has 2001:db8:2::2 link 02:00:00:00:00:02 hlim 255
        5s < wan vlan 20 2001:db8:2::2 > fe80::ff:fe00:2 ICMPv6 2001:db8:2::2 is-at known link address S hlim 255
          2001:db8:2::2 02:00:00:00:00:bb reachable
          consumed
    "#]].assert_eq(&lab.log());
}

#[test]
fn invalid_messages_are_dropped_and_learn_nothing() {
    let mut lab = Lab::new();
    let good = || solicits("2001:db8:1::1", Some(A), ("2001:db8:1::2", GROUP));
    let mut forwarded = good();
    Ipv6Header::of_mut(&mut forwarded.l3).unwrap().set_hop_limit(254);
    let mut wrong_sum = good();
    wrong_sum.l3[42] ^= 1;
    let mut atomic = good();
    // RFC 6980: not even an atomic fragment header.
    atomic.l3.splice(40..40, [protocol::ICMPV6, 0, 0, 0, 0, 0, 0, 1]);
    Ipv6Header::of_mut(&mut atomic.l3).unwrap().set_next_header(protocol::FRAGMENT);
    Ipv6Header::of_mut(&mut atomic.l3).unwrap().set_payload_length(40);
    let frames = [
        forwarded,
        wrong_sum,
        atomic,
        solicits("2001:db8:1::1", Some(Mac::BROADCAST), ("2001:db8:1::2", GROUP)),
        solicits("2001:db8:1::1", Some(A), ("::", GROUP)),
        solicits("2001:db8:1::1", Some(A), ("2001:db8:1::1", GROUP)),
        advertises("2001:db8:1::2", Some(A), 0x40, ("2001:db8:1::2", "ff02::1")),
        advertises("ff02::5", Some(A), 0, ("2001:db8:1::2", "ff02::1")),
    ];
    for (i, frame) in frames.iter().enumerate() {
        lab.receive(LAN, frame, Exception::Local);
        let log = lab.log();
        assert!(log.ends_with("  dropped bad_neighbour_discovery\n"), "{i}: {log}");
    }
    assert!(lab.net.sent.is_empty() && lab.host.neighbours().is_empty());
}

#[test]
fn messages_for_hosts_are_consumed_and_router_solicitation_creates_a_neighbour() {
    let mut lab = Lab::new();
    let from = V6 { source: "fe80::aa", destination: "ff02::2", hops: 255, next: 0 };
    let mut solicitation = vec![icmp6::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0, 1, 1];
    solicitation.extend_from_slice(&A.0);
    lab.receive(LAN, &from.icmp(&solicitation), Exception::Local);
    let advertisement = [[icmp6::ROUTER_ADVERTISEMENT, 0, 0, 0, 64, 0, 7, 8], [0; 8]].concat();
    lab.receive(LAN, &V6 { destination: "ff02::1", ..from }.icmp(&advertisement), Exception::Local);
    let redirect = [vec![icmp6::REDIRECT, 0, 0, 0, 0, 0, 0, 0], vec![0x20; 32]].concat();
    lab.receive(LAN, &V6 { destination: "2001:db8:1::1", ..from }.icmp(&redirect), Exception::Local);
    expect![[r#"
        0ns < lan fe80::aa > ff02::2 ICMPv6 router solicitation link 02:00:00:00:00:aa hlim 255
          fe80::aa 02:00:00:00:00:aa stale
          consumed
        0ns < lan fe80::aa > ff02::1 ICMPv6 router advertisement lifetime 1800 s hlim 255
          consumed
        0ns < lan fe80::aa > 2001:db8:1::1 ICMPv6 redirect 2020:2020:2020:2020:2020:2020:2020:2020 to 2020:2020:2020:2020:2020:2020:2020:2020 hlim 255
          consumed
    "#]].assert_eq(&lab.log());
}
