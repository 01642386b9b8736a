//! Redirects, as transcripts (RFC 1812 5.2.7.2, RFC 4861 8.2).

use super::frames::{V4, V6};
use super::*;
use expect_test::expect;

/// The LAN sends redirects; all neighbours are resolved.
fn lab() -> Lab {
    let mut lab = Lab::new();
    lab.net.interfaces[0].redirects = true;
    lab.host.adopt(&mut lab.net);
    for (address, mac) in [("10.0.1.2", A), ("10.0.1.9", B), ("2001:db8:1::2", A), ("2001:db8:1::9", B), ("fe80::9", B)]
    {
        assert!(lab.host.set_static_neighbour(LAN, ip(address), mac, &mut lab.net));
    }
    let gateway = |lab: &Lab, address| lab.net.tables.adjacency_for(LAN, ip(address)).unwrap();
    for (prefix, address) in
        [("10.20.0.0/16", "10.0.1.9"), ("2001:db8:20::/48", "fe80::9"), ("2001:db8:21::/48", "2001:db8:1::9")]
    {
        let via = Outcome::Via(gateway(&lab, address));
        lab.net.tables.set_route(prefix.parse().unwrap(), Origin::Static, via).unwrap();
    }
    lab.log();
    lab
}

#[test]
fn redirect_is_sent_and_the_packet_forwarded() {
    let mut lab = lab();
    lab.receive(LAN, &V4 { destination: "10.20.0.1", ..V4::default() }.udp(1), Exception::Redirect);
    lab.receive(LAN, &V4 { destination: "10.0.1.9", ..V4::default() }.udp(1), Exception::Redirect);
    lab.receive(LAN, &V6 { destination: "2001:db8:20::1", ..V6::default() }.udp(1), Exception::Redirect);
    lab.receive(LAN, &V6 { destination: "2001:db8:1::9", ..V6::default() }.udp(1), Exception::Redirect);
    expect![[r#"
        0ns < lan 10.0.1.2.1000 > 10.20.0.1.9999 UDP 1 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP redirect to 10.0.1.9 for 10.0.1.2 > 10.20.0.1 UDP ttl 64
          forwarded 10.0.1.2.1000 > 10.20.0.1.9999 UDP 1 bytes ttl 64
        0ns < lan 10.0.1.2.1000 > 10.0.1.9.9999 UDP 1 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP redirect to 10.0.1.9 for 10.0.1.2 > 10.0.1.9 UDP ttl 64
          forwarded 10.0.1.2.1000 > 10.0.1.9.9999 UDP 1 bytes ttl 64
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:20::1.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa fe80::ff:fe00:1 > 2001:db8:1::2 ICMPv6 redirect 2001:db8:20::1 to fe80::9 link 02:00:00:00:00:bb hlim 255
          forwarded 2001:db8:1::2.1000 > 2001:db8:20::1.9999 UDP 1 bytes hlim 64
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:1::9.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa fe80::ff:fe00:1 > 2001:db8:1::2 ICMPv6 redirect 2001:db8:1::9 to 2001:db8:1::9 link 02:00:00:00:00:bb hlim 255
          forwarded 2001:db8:1::2.1000 > 2001:db8:1::9.9999 UDP 1 bytes hlim 64
    "#]]
    .assert_eq(&lab.log());
    // IPv4 quotes the packet as it is forwarded, IPv6 as it arrived.
    let quoted: Vec<u8> =
        [0, 2].map(|i| lab.net.sent[i].1.clone()).map(|frame| frame[14 + if frame[12] == 8 { 36 } else { 103 }]).into();
    assert_eq!(quoted, [63, 64]);
    let forwarded: Vec<u8> =
        lab.forwarded().iter().map(|frame| frame[14 + if frame[12] == 8 { 8 } else { 7 }]).collect();
    assert_eq!(forwarded, [64; 4]);
}

#[test]
fn no_redirect_to_a_hop_that_is_no_better_or_unreachable_for_the_sender() {
    for (name, frame) in [
        (
            "a sender behind another router",
            V4 { source: "10.99.0.1", destination: "10.20.0.1", ..V4::default() }.udp(1),
        ),
        ("the hop itself", V4 { source: "10.0.1.9", destination: "10.20.0.1", ..V4::default() }.udp(1)),
        (
            "a redirect",
            V4 { destination: "10.20.0.1", protocol: 1, ..V4::default() }.with(&[5, 0, 0xfa, 0xff, 0, 0, 0, 0]),
        ),
        ("a hop whose link-local address is not known", V6 { destination: "2001:db8:21::1", ..V6::default() }.udp(1)),
        ("a sender from beyond", V6 { source: "2001:db8:7::2", destination: "2001:db8:20::1", ..V6::default() }.udp(1)),
        ("another link", V4 { destination: "10.0.2.2", ..V4::default() }.udp(1)),
    ] {
        let mut lab = lab();
        lab.receive(LAN, &frame, Exception::Redirect);
        assert_eq!((lab.net.sent.len(), lab.forwarded().len()), (0, 1), "{name}");
    }
    let mut lab = lab();
    lab.net.interfaces[0].redirects = false;
    lab.host.adopt(&mut lab.net);
    lab.receive(LAN, &V4 { destination: "10.20.0.1", ..V4::default() }.udp(1), Exception::Redirect);
    assert_eq!((lab.net.sent.len(), lab.forwarded().len()), (0, 1), "switched off");
}

#[test]
fn redirect_is_repeated_every_five_seconds() {
    let mut lab = lab().quiet();
    for tenth in 0..200u64 {
        lab.receive(LAN, &V4 { destination: "10.20.0.1", ..V4::default() }.udp(1), Exception::Redirect);
        lab.forwarded();
        assert_eq!(lab.net.sent.len() as u64, 1 + tenth / 50, "after {tenth} tenths of a second");
        lab.net.now += Nanos::millis(100);
    }
    // Redirects to many senders and destinations have the rate limit of errors.
    lab.net.sent.clear();
    for i in 0..1000u32 {
        let destination = format!("10.20.{}.{}", i / 250, 1 + i % 250);
        lab.receive(LAN, &V4 { destination: &destination, ..V4::default() }.udp(1), Exception::Redirect);
        lab.forwarded();
    }
    assert!(lab.net.sent.len() <= 50, "{}", lab.net.sent.len());
}
