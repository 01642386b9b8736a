//! Reassembly of packets for the router, and fragmentation of its own.

use super::frames::{Frame, V4, V6, advertises};
use super::*;
use expect_test::expect;
use packet::wire::{checksum, icmp6, protocol};
use proptest::prelude::*;

/// A packet for the router that is answered at once.
const US: V4<'static> =
    V4 { source: "10.0.1.2", destination: "10.0.1.1", protocol: protocol::ICMP, ttl: 64, options: &[], fragment: 0 };
const US6: V6<'static> = V6 { source: "2001:db8:1::2", destination: "2001:db8:1::1", next: protocol::ICMPV6, hops: 64 };

fn lab() -> Lab {
    lab_with(LocalProtocolLimits::default())
}

fn lab_with(limits: LocalProtocolLimits) -> Lab {
    let mut lab = Lab::with(limits);
    for address in ["10.0.1.2", "2001:db8:1::2"] {
        assert!(lab.host.set_static_neighbour(LAN, ip(address), A, &mut lab.net));
    }
    lab.log();
    lab
}

/// A fragment of the IPv4 packet in `whole`: `length` bytes of its payload from `start` on.
fn part4(whole: &Frame, start: usize, length: usize, identification: u16) -> Frame {
    let header = usize::from(whole.l3[0] & 15) * 4;
    let payload = &whole.l3[header..];
    let end = (start + length).min(payload.len());
    let mut l3 = whole.l3[..header].to_vec();
    l3.extend_from_slice(&payload[start..end]);
    let total = l3.len() as u16;
    l3[2..4].copy_from_slice(&total.to_be_bytes());
    l3[4..6].copy_from_slice(&identification.to_be_bytes());
    let field = (start / 8) as u16 | if end < payload.len() { 0x2000 } else { 0 };
    l3[6..8].copy_from_slice(&field.to_be_bytes());
    l3[10..12].fill(0);
    let sum = checksum::checksum(&l3[..header]);
    l3[10..12].copy_from_slice(&sum.to_be_bytes());
    Frame { l3, ..whole.clone() }
}

/// The same for an IPv6 packet without extension headers.
fn part6(whole: &Frame, start: usize, length: usize, identification: u32) -> Frame {
    let payload = &whole.l3[40..];
    let end = (start + length).min(payload.len());
    let mut l3 = whole.l3[..40].to_vec();
    let field = start as u16 | u16::from(end < payload.len());
    l3.extend([l3[6], 0]);
    l3.extend(field.to_be_bytes());
    l3.extend(identification.to_be_bytes());
    l3.extend_from_slice(&payload[start..end]);
    l3[6] = protocol::FRAGMENT;
    let length = (l3.len() - 40) as u16;
    l3[4..6].copy_from_slice(&length.to_be_bytes());
    Frame { l3, ..whole.clone() }
}

#[test]
fn fragmented_echo_request_is_reassembled_and_answered() {
    let mut lab = lab();
    let (whole, whole6) = (US.echo(100), US6.echo(100));
    for start in [64, 0] {
        lab.receive(LAN, &part4(&whole, start, 64, 9), Exception::Local);
    }
    for start in [0, 64] {
        lab.receive(LAN, &part6(&whole6, start, 64, 9), Exception::Local);
    }
    expect![[r#"
        0ns < lan 10.0.1.2 > 10.0.1.1 ICMP 44 bytes ttl 64 frag 9:64
        0ns < lan 10.0.1.2 > 10.0.1.1 ICMP echo request id 3 seq 4 56 bytes ttl 64 frag 9:0+
          consumed
          consumed
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP echo reply id 3 seq 4 100 bytes ttl 64
          consumed
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 echo request id 3 seq 4 56 bytes hlim 64 frag 9:0+
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 52 bytes hlim 64 frag 9:64
          consumed
          consumed
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 echo reply id 3 seq 4 100 bytes hlim 64
          consumed
    "#]]
    .assert_eq(&lab.log());
    assert_eq!(lab.host.held_packets(), 0);
}

#[test]
fn reassembly_timeout_is_reported_to_the_sender_of_the_first_fragment() {
    let mut lab = lab();
    let (whole, whole6) = (US.echo(100), US6.echo(100));
    lab.receive(LAN, &part4(&whole, 0, 64, 1), Exception::Local);
    lab.receive(LAN, &part4(&whole, 64, 64, 2), Exception::Local);
    lab.receive(LAN, &part6(&whole6, 0, 64, 1), Exception::Local);
    lab.receive(LAN, &part6(&whole6, 64, 64, 2), Exception::Local);
    assert_eq!((lab.host.held_packets(), lab.host.next_deadline()), (4, lab.net.now + Nanos::secs(30)));
    lab.log();
    lab.pass(Nanos::secs(61));
    expect![[r#"
        30s
          > lan 02:00:00:00:00:aa 10.0.1.1 > 10.0.1.2 ICMP reassembly time exceeded for 10.0.1.2 > 10.0.1.1 ICMP ttl 64
          dropped fragment_timeout
          dropped fragment_timeout
        60s
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 reassembly time exceeded for 2001:db8:1::2 > 2001:db8:1::1 hlim 64
          dropped fragment_timeout
          dropped fragment_timeout
    "#]].assert_eq(&lab.log());
    assert_eq!((lab.host.held_packets(), lab.host.next_deadline()), (0, Instant::NEVER));
}

#[test]
fn overlapping_fragments_drop_the_packet_and_duplicates_do_not() {
    for v6 in [false, true] {
        let whole = if v6 { US6.echo(100) } else { US.echo(100) };
        let part = |start, length| if v6 { part6(&whole, start, length, 5) } else { part4(&whole, start, length, 5) };
        // The fragments; then the number that wait, and the number of replies.
        for (parts, expected) in [
            (&[(0, 64), (0, 64), (64, 64)][..], (0, 1)),
            (&[(64, 64), (64, 64), (0, 64)], (0, 1)),
            // Within a range that has been received.
            (&[(0, 32), (32, 32), (16, 32), (64, 64)], (0, 1)),
            (&[(0, 64), (32, 64)], (0, 0)),
            (&[(64, 64), (32, 64)], (0, 0)),
            (&[(0, 64), (32, 64), (64, 64)], (1, 0)),
        ] {
            let mut lab = lab();
            for &(start, length) in parts {
                lab.receive(LAN, &part(start, length), Exception::Local);
            }
            assert_eq!((lab.host.held_packets(), lab.net.sent.len()), expected, "{parts:?}: {}", lab.log());
        }
    }
}

#[test]
fn contradicting_fragments_drop_the_packet() {
    let (long, short) = (US.echo(100), US.echo(60));
    for (one, other) in [(&long, &short), (&short, &long)] {
        let mut lab = lab();
        lab.receive(LAN, &part4(one, 64, 64, 5), Exception::Local);
        lab.receive(LAN, &part4(other, 64, 64, 5), Exception::Local);
        assert_eq!(lab.log().matches("dropped fragment_overlap").count(), 2);
        assert_eq!(lab.host.held_packets(), 0);
    }
}

#[test]
fn invalid_fragments_are_dropped_and_some_cause_errors() {
    let whole6 = US6.echo(100);
    let with_field = |field: u16, length: usize| {
        let mut frame = part6(&whole6, 0, length, 1);
        frame.l3[42..44].copy_from_slice(&field.to_be_bytes());
        frame
    };
    let mut beyond = part6(&whole6, 64, 64, 1);
    beyond.l3[42..44].copy_from_slice(&0xfff8u16.to_be_bytes());
    let of_nothing = V4 { fragment: 0x2001, ..US }.with(&[]);
    let beyond4 = V4 { fragment: 0x1fff, ..US }.with(&[0; 32]);
    for (frame, said) in [
        (of_nothing, ""),
        (beyond4, ""),
        (with_field(0x0009, 16), ""),
        // Not in units of eight bytes: the payload length is wrong.
        (with_field(0x0009, 13), "parameter problem code 0 at byte 4"),
        (beyond, "parameter problem code 0 at byte 42"),
        // The header of the upper layer is incomplete.
        (with_field(0x0001, 0), "parameter problem code 3 at byte 0"),
        (V6 { next: 44, ..US6 }.with(&[17, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4]), "parameter problem code 3 at byte 0"),
    ] {
        let mut lab = lab();
        let waits = said.is_empty() && frame.is_ipv6();
        lab.receive(LAN, &frame, Exception::Local);
        let log = lab.log();
        if !waits {
            assert!(log.contains("dropped bad_fragment"), "{log}");
        }
        assert_eq!(lab.net.sent.len(), usize::from(!said.is_empty()), "{log}");
        assert!(log.contains(said), "{log}");
    }
}

#[test]
fn reassembled_packet_has_no_fragment_header_and_is_no_neighbour_discovery() {
    let mut lab = lab();
    let inner = [[protocol::ICMPV6, 0, 0, 0, 0, 0, 0, 3].to_vec(), US6.echo(8).l3[40..].to_vec()].concat();
    let nested = V6 { next: protocol::FRAGMENT, ..US6 }.with(&inner);
    let claim = advertises("2001:db8:1::2", Some(B), 0x20, ("2001:db8:1::2", "2001:db8:1::1"));
    for whole in [nested, claim] {
        for start in [0, 16] {
            lab.receive(LAN, &part6(&whole, start, 16, start as u32 / 32), Exception::Local);
        }
    }
    expect![[r#"
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 echo request id 3 seq 4 0 bytes hlim 64 frag 3:0
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 protocol 44 16 bytes hlim 64 frag 0:16
          consumed
          consumed
          > lan 02:00:00:00:00:aa 2001:db8:1::1 > 2001:db8:1::2 ICMPv6 parameter problem code 0 at byte 40 for 2001:db8:1::2 > 2001:db8:1::1 hlim 64
          dropped bad_fragment
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 type 136 in a fragment hlim 255 frag 0:0+
        0ns < lan 2001:db8:1::2 > 2001:db8:1::1 ICMPv6 24 bytes hlim 255 frag 0:16
          consumed
          consumed
          dropped bad_neighbour_discovery
    "#]].assert_eq(&lab.log());
}

#[test]
fn waiting_fragments_are_bounded_in_total_and_per_sender() {
    let limits = LocalProtocolLimits { fragments: 40, ..LocalProtocolLimits::default() };
    let mut lab = lab_with(limits).quiet();
    let first = |source: &str, identification| part4(&V4 { source, ..US }.echo(100), 0, 8, identification);
    for identification in 0..30 {
        lab.receive(LAN, &first("10.0.1.2", identification), Exception::Local);
    }
    assert_eq!(lab.host.held_packets(), 10, "one sender has a quarter");
    for host in 3..100u8 {
        lab.receive(LAN, &first(&format!("10.0.1.{host}"), 1), Exception::Local);
    }
    assert_eq!(lab.host.held_packets(), 40);
    // The latest packet can still be completed.
    let whole = V4 { source: "10.0.1.99", ..US }.echo(100);
    lab.receive(LAN, &part4(&whole, 8, 200, 1), Exception::Local);
    assert_eq!(lab.host.held_packets(), 38 + 1, "one made room, two are whole, and the reply waits for its neighbour");
}

#[test]
fn congestion_mark_of_one_fragment_marks_the_packet() {
    // The marks of the two fragments, and the mark of the reply, which copies that of the packet.
    for (marks, reply) in
        [([0, 0], Some(0)), ([2, 2], Some(2)), ([2, 3], Some(3)), ([3, 1], Some(3)), ([0, 2], None), ([3, 0], None)]
    {
        let mut lab = lab();
        for (start, mark) in [0, 64].into_iter().zip(marks) {
            let mut frame = part4(&US.echo(100), start, 64, 1);
            frame.l3[1] = mark;
            frame.l3[10..12].fill(0);
            let sum = checksum::checksum(&frame.l3[..20]);
            frame.l3[10..12].copy_from_slice(&sum.to_be_bytes());
            lab.receive(LAN, &frame, Exception::Local);
        }
        assert_eq!(lab.net.sent.first().map(|(_, frame)| frame[15]), reply, "{marks:?}");
    }
}

#[test]
fn own_packets_respect_the_path_mtu() {
    let mut lab = lab();
    let ask = |lab: &mut Lab| {
        lab.net.sent.clear();
        lab.receive(LAN, &US6.echo(1400), Exception::Local);
        lab.net.sent.iter().map(|(_, frame)| frame.len() - 14).collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut lab), [1448]);
    let too_big = |original: &[u8]| {
        let mut message = vec![icmp6::PACKET_TOO_BIG, 0, 0, 0, 0, 0, 5, 20];
        message.extend_from_slice(&original[..1200]);
        V6 { source: "2001:db8:1::9", ..US6 }.icmp(&message)
    };
    let reply = lab.net.sent[0].1[14..].to_vec();
    let mut another = reply.clone();
    another[42] ^= 1;
    lab.receive(LAN, &too_big(&another), Exception::Local);
    assert_eq!(ask(&mut lab), [1448], "nobody has sent that");
    lab.receive(LAN, &too_big(&reply), Exception::Local);
    // 1300 bytes: fragments with 48 bytes of headers and a multiple of eight.
    assert_eq!(ask(&mut lab), [48 + 1248, 48 + 160]);
    let fragment = lab.net.sent[0].1[14..].to_vec();
    assert_eq!(fragment[40..44], [protocol::ICMPV6, 0, 0, 1]);
    lab.log();
    lab.net.now += Nanos::secs(601);
    assert_eq!(ask(&mut lab), [1448], "the path may be wider by now");
}

proptest! {
    #[test]
    fn reassembly_in_any_order_restores_the_packet(
        length in prop_oneof![9usize..1800, 1800usize..60_000], v6: bool, order in prop::collection::vec(any::<prop::sample::Index>(), 0..60), size in 1usize..40,
    ) {
        let mut lab = lab().quiet();
        let whole = if v6 { US6.echo(length) } else { US.echo(length) };
        let size = (size * 8 + 40).max(length / 800 * 8);
        let payload = whole.l3.len() - if v6 { 40 } else { 20 };
        let mut starts: Vec<usize> = (0..payload).step_by(size).collect();
        for (i, other) in order.into_iter().enumerate() {
            let (i, other) = (i % starts.len(), other.index(starts.len()));
            starts.swap(i, other);
        }
        for start in starts {
            prop_assert!(lab.net.sent.is_empty());
            let part = if v6 { part6(&whole, start, size, 3) } else { part4(&whole, start, size, 3) };
            lab.receive(LAN, &part, Exception::Local);
        }
        prop_assert_eq!(lab.host.held_packets(), 0);
        // The reply has the same length, in as many fragments as necessary.
        let header = if v6 { 40 } else { 20 };
        let bytes = |frame: &[u8]| frame.len() - 14 - header - if v6 && frame[20] == protocol::FRAGMENT { 8 } else { 0 };
        let replied: usize = lab.net.sent.iter().map(|(_, frame)| bytes(frame)).sum();
        prop_assert_eq!(replied, whole.l3.len() - header);
    }
}
