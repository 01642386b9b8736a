//! ICMP errors, fragments and options, as transcripts.

use super::frames::{Frame, V4, V6};
use super::*;
use expect_test::expect;
use packet::wire::transport::seal;
use packet::wire::{Ipv4Header, icmp6, ipv4_options, protocol};

/// A lab in which host A is resolved, so that errors to it leave at once.
fn lab_with(limits: LocalProtocolLimits) -> Lab {
    let mut lab = Lab::with(limits);
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        assert!(lab.host.set_static_neighbour(LAN, ip(address), A, &mut lab.net));
    }
    lab.log();
    lab
}

fn lab() -> Lab {
    lab_with(LocalProtocolLimits::default())
}

#[test]
fn every_exception_causes_an_error_in_both_families() {
    let mut lab = lab();
    for exception in [Exception::Expired, Exception::NoRoute, Exception::Unreachable, Exception::BeyondScope] {
        lab.receive(LAN, &V4::default().udp(1), exception);
        lab.receive(LAN, &V6::default().udp(1), exception);
    }
    lab.receive(LAN, &V4 { fragment: 0x4000, ..V4::default() }.udp(1450), Exception::TooBig);
    lab.receive(LAN, &V6::default().udp(1450), Exception::TooBig);
    expect![[r#"
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP time exceeded for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped ttl_expired
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 hop limit exceeded for 2001:db8:1::2 > 2001:db8:2::2 hlim 64
          dropped ttl_expired
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP net unreachable for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped no_route
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 no route for 2001:db8:1::2 > 2001:db8:2::2 hlim 64
          dropped no_route
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP host unreachable for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped unreachable
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 no route for 2001:db8:1::2 > 2001:db8:2::2 hlim 64
          dropped unreachable
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1 bytes ttl 64
          dropped link_local
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 unreachable code 2 for 2001:db8:1::2 > 2001:db8:2::2 hlim 64
          dropped link_local
        0ns < lan 10.0.1.2.1000 > 10.0.2.2.9999 UDP 1450 bytes ttl 64
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP fragmentation needed mtu 1400 for 10.0.1.2 > 10.0.2.2 UDP ttl 64
          dropped too_big
        0ns < lan 2001:db8:1::2.1000 > 2001:db8:2::2.9999 UDP 1450 bytes hlim 64
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 packet too big mtu 1400 for 2001:db8:1::2 > 2001:db8:2::2 hlim 64
          dropped too_big
    "#]].assert_eq(&lab.log());
}

#[test]
fn errors_have_a_burst_and_then_a_rate_for_each_interface() {
    let mut lab = lab_with(LocalProtocolLimits { icmp_rate: 10, icmp_burst: 3, ..LocalProtocolLimits::default() });
    for _ in 0..20 {
        lab.receive(LAN, &V4::default().udp(1), Exception::NoRoute);
    }
    assert_eq!((lab.net.sent.len(), lab.log().matches("dropped no_route").count()), (3, 20));
    // Packets received by another interface have a limit of their own.
    lab.receive(WAN, &V4::default().udp(1), Exception::NoRoute);
    assert_eq!(lab.net.sent.len(), 4);
    lab.net.now += Nanos::millis(100);
    for _ in 0..20 {
        lab.receive(LAN, &V4::default().udp(1), Exception::NoRoute);
    }
    assert_eq!(lab.net.sent.len(), 5);
}

#[test]
fn forbidden_icmp_errors_are_not_sent() {
    let mut lab = lab();
    let quoted = V4::default().udp(1).l3;
    let error = |kind: u8| {
        let mut message = [vec![kind, 0, 0, 0, 0, 0, 0, 0], quoted.clone()].concat();
        let sum = packet::wire::checksum::checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        V4 { protocol: protocol::ICMP, ..V4::default() }.with(&message)
    };
    let error6 = [vec![icmp6::TIME_EXCEEDED, 0, 0, 0, 0, 0, 0, 0], V6::default().udp(1).l3].concat();
    for (what, frame) in [
        ("an ICMP error", error(3)),
        ("a redirect", error(5)),
        ("an unknown ICMP type", error(77)),
        ("a later fragment", V4 { fragment: 5, ..V4::default() }.udp(1)),
        ("a broadcast frame", V4::default().udp(1).broadcast()),
        ("a directed broadcast", V4 { destination: "10.0.2.255", ..V4::default() }.udp(1)),
        ("a group", V4 { destination: "224.1.2.3", ..V4::default() }.udp(1)),
        ("a broadcast source", V4 { source: "10.0.1.255", ..V4::default() }.udp(1)),
        ("an unspecified source", V4 { source: "0.0.0.0", ..V4::default() }.udp(1)),
        ("a source no route leads to", V4 { source: "99.0.0.1", ..V4::default() }.udp(1)),
        ("a source that is us", V4 { source: "10.0.1.1", ..V4::default() }.udp(1)),
        ("an ICMPv6 error", V6::default().icmp(&error6)),
        ("an IPv6 group", V6 { destination: "ff0e::5", ..V6::default() }.udp(1)),
        ("an unspecified IPv6 source", V6 { source: "::", ..V6::default() }.udp(1)),
    ] {
        lab.receive(LAN, &frame, Exception::Expired);
        assert!(lab.log().ends_with("  dropped ttl_expired\n"), "{what}");
        assert!(lab.net.sent.is_empty(), "{what}");
    }
    assert!(lab.host.neighbours().iter().all(|n| n.state == NeighbourState::Static), "nor is anybody looked for");
}

#[test]
fn forwarded_echo_requests_may_cause_errors() {
    let mut lab = lab();
    lab.receive(LAN, &V4::default().echo(8), Exception::Expired);
    lab.receive(LAN, &V6::default().echo(8), Exception::Expired);
    assert_eq!(lab.net.sent.len(), 2);
}

#[test]
fn error_to_a_link_local_sender_leaves_by_its_own_link() {
    let mut lab = lab();
    lab.receive(LAN, &V6 { source: "fe80::aa", ..V6::default() }.udp(1), Exception::BeyondScope);
    expect![[r#"
        0ns < lan fe80::aa.1000 > 2001:db8:2::2.9999 UDP 1 bytes hlim 64
          fe80::aa - incomplete
          > lan 33:33:ff:00:00:aa fe80::ff:fe00:1 > ff02::1:ff00:aa ICMPv6 who-has fe80::aa link 02:00:00:00:00:01 hlim 255
          dropped link_local
    "#]].assert_eq(&lab.log());
}

#[test]
fn packet_that_fits_after_an_mtu_change_is_dropped_not_looped() {
    let mut lab = lab();
    lab.receive(LAN, &V4::default().udp(1), Exception::TooBig);
    assert!(lab.log().ends_with("dropped too_big\n"));
}

#[test]
fn empty_pool_sends_no_error_and_loses_no_packet() {
    let mut lab = lab();
    // All other frames of the pool are in use.
    let mut hoard: Vec<Packet> = std::iter::from_fn(|| lab.net.pool.take()).collect();
    hoard.drain(..1).for_each(|packet| lab.net.pool.give(packet));
    lab.net.elsewhere = hoard.len() as u64;
    lab.receive(LAN, &V4::default().udp(1), Exception::NoRoute);
    assert!(lab.log().ends_with("  dropped no_route\n"));
    lab.receive(LAN, &V4 { destination: "10.0.1.1", ..V4::default() }.echo(8), Exception::Local);
    assert!(lab.log().ends_with("  dropped pool_empty\n"));
    lab.receive(LAN, &V4::default().udp(1), Exception::Resolve);
    assert_eq!(lab.host.held_packets(), 1, "the question is asked again when there are frames");
    hoard.into_iter().for_each(|packet| lab.net.pool.give(packet));
    lab.net.elsewhere = 0;
    lab.log();
    lab.pass(Nanos::secs(1));
    assert!(lab.log().contains("ARP who-has 10.0.2.2"));
}

/// The fate of an IPv4 packet with these options: the last line of the log.
fn fate(options: &[u8]) -> (String, Option<Vec<u8>>) {
    let mut lab = lab();
    lab.receive(LAN, &V4 { options, ..V4::default() }.udp(1), Exception::Options);
    let log = lab.log();
    let forwarded = lab.forwarded().pop().map(|frame| frame[14 + 20..14 + 20 + options.len()].to_vec());
    (log.lines().last().unwrap().trim().split(" 10.").next().unwrap().to_string(), forwarded)
}

#[test]
fn options_are_processed_as_rfc_1812_says() {
    // The test began five seconds after the clock was at 1000 s; its milliseconds, marked as not universal time.
    let time = (1_005_000u32 | 1 << 31).to_be_bytes();
    let stamped = [&[68, 8, 9, 0][..], &time].concat();
    let with_address = [&[68, 12, 13, 1, 10, 0, 2, 1][..], &time].concat();
    for (name, options, after) in [
        ("record route", &[7, 7, 4, 0, 0, 0, 0, 0][..], &[7, 7, 8, 10, 0, 2, 1, 0][..]),
        ("full route", &[7, 7, 8, 9, 9, 9, 9, 0], &[7, 7, 8, 9, 9, 9, 9, 0]),
        ("timestamp", &[68, 8, 5, 0, 0, 0, 0, 0], &stamped),
        ("address and timestamp", &[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0], &with_address),
        ("full timestamp", &[68, 8, 9, 0x20, 1, 2, 3, 4], &[68, 8, 9, 0x30, 1, 2, 3, 4]),
        ("router alert", &[148, 4, 0, 0], &[148, 4, 0, 0]),
        ("unknown", &[30, 4, 1, 2], &[30, 4, 1, 2]),
    ] {
        assert_eq!(fate(options), ("forwarded".to_string(), Some(after.to_vec())), "{name}");
    }
    for (name, options) in [("loose", &[131, 7, 4, 10, 0, 2, 9, 0][..]), ("strict", &[137, 7, 4, 10, 0, 2, 9, 0])] {
        assert_eq!(fate(options), ("dropped source_route".to_string(), None), "{name}");
    }
    for (name, options) in [("too short", &[7, 2, 0, 0][..]), ("too long", &[1, 7, 30, 0])] {
        assert_eq!(fate(options), ("dropped bad_option".to_string(), None), "{name}");
    }
}

#[test]
fn recorded_route_leaves_a_valid_header() {
    let mut lab = lab();
    lab.receive(LAN, &V4 { options: &[7, 7, 4, 0, 0, 0, 0, 0], ..V4::default() }.udp(1), Exception::Options);
    let frame = lab.forwarded().pop().unwrap();
    let packet = Ipv4::parse(&frame[14..]).unwrap();
    assert!(ipv4_options::validate(packet.options).unwrap().record_route);
    assert_eq!(Ipv4Header::of(&frame[14..]).unwrap().ttl(), 64, "the time to live is lowered where it is forwarded");
}

#[test]
fn hop_by_hop_options_act_by_their_two_highest_bits() {
    let with = |option: [u8; 6], destination| {
        let udp = &V6::default().udp(1).l3[40..];
        let payload = [&[protocol::UDP, 0][..], &option, udp].concat();
        V6 { next: protocol::HOP_BY_HOP, destination, ..V6::default() }.with(&payload)
    };
    let one = "2001:db8:2::2";
    for (name, frame, fate, told) in [
        ("router alert", with([5, 2, 0, 0, 1, 0], one), "forwarded", false),
        ("skip", with([0x1e, 4, 0, 0, 0, 0], one), "forwarded", false),
        ("discard", with([0x5e, 4, 0, 0, 0, 0], one), "dropped bad_option", false),
        ("report", with([0x9e, 4, 0, 0, 0, 0], one), "dropped bad_option", true),
        ("report unless group", with([0xde, 4, 0, 0, 0, 0], one), "dropped bad_option", true),
        ("report, to a group", with([0x9e, 4, 0, 0, 0, 0], "ff02::1"), "dropped bad_option", true),
        ("report unless group, to a group", with([0xde, 4, 0, 0, 0, 0], "ff02::1"), "dropped bad_option", false),
        ("beyond its header", with([0x1e, 9, 0, 0, 0, 0], one), "dropped bad_option", false),
    ] {
        let mut lab = lab();
        lab.receive(LAN, &frame, Exception::Options);
        let log = lab.log();
        assert!(log.lines().last().unwrap().trim().starts_with(fate), "{name}: {log}");
        assert_eq!(!lab.net.sent.is_empty(), told, "{name}: {log}");
        lab.forwarded();
    }
}

#[test]
fn packet_with_inconsistent_header_is_dropped() {
    let mut lab = lab();
    // Packets that are only classified again are dropped by the classifier. A delivered one is in the hands of a program.
    let onward = [Exception::Again, Exception::Dispatched, Exception::Delivered];
    for exception in Exception::ALL.into_iter().filter(|exception| !onward.contains(exception)) {
        for length in [0, 1, 19] {
            let l3 = V4::default().udp(1).l3[..length].to_vec();
            lab.receive(LAN, &Frame::new(ethertype::IPV4, l3), exception);
            assert!(lab.log().lines().last().unwrap().contains("dropped"), "{exception:?} with {length} bytes");
        }
    }
    assert!(lab.net.sent.is_empty());
}

#[test]
fn rejected_tcp_segment_is_reset_in_the_name_of_its_destination() {
    let mut lab = lab_with(LocalProtocolLimits::default());
    // SYN, a reset, and SYN with a wrong checksum.
    let mut segment = vec![3, 232, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0];
    for (flags, spoiled) in [(2, false), (4, false), (2, true)] {
        segment[13] = flags;
        segment[16..18].fill(0);
        seal(ip("10.0.1.2"), ip("10.0.2.2"), protocol::TCP, &mut segment);
        segment[17] ^= u8::from(spoiled);
        lab.receive(LAN, &V4 { protocol: protocol::TCP, ..V4::default() }.with(&segment), Exception::Prohibited);
        segment[16..18].fill(0);
        seal(ip("2001:db8:1::2"), ip("2001:db8:2::2"), protocol::TCP, &mut segment);
        segment[17] ^= u8::from(spoiled);
        lab.receive(LAN, &V6 { next: protocol::TCP, ..V6::default() }.with(&segment), Exception::Prohibited);
    }
    lab.receive(LAN, &V4::default().udp(3), Exception::Prohibited);
    let log = lab.log();
    assert_eq!(log.matches("dropped rejected").count(), 7, "{log}");
    assert_eq!(lab.net.sent.len(), 3, "two resets, and an error about the datagram: {log}");
    for (_, frame) in &lab.net.sent[..2] {
        let (source, flags) = if frame[12] == 8 { (&frame[26..30], frame[47]) } else { (&frame[22..26], frame[67]) };
        assert!(source == [10, 0, 2, 2] || source == [0x20, 1, 0x0d, 0xb8], "{log}");
        assert_eq!(flags, 4 | 16, "a reset that acknowledges");
    }
}
