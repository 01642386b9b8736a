use super::frames::{Upper, packet4, packet6, resum4};
use crate::wire::Ipv6Header;
use crate::wire::icmp_errors::{IcmpErrorForbidden, may_answer_with_error4, may_answer_with_error6};
use crate::wire::{Cast, Error4, Error6, Ipv4, Ipv4Header, Ipv6, protocol};
use std::net::Ipv6Addr;

/// An ICMP packet of any type.
fn icmp4(kind: u8) -> Vec<u8> {
    let mut packet = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Echo(1, 1), b"");
    packet[20] = kind;
    packet
}

#[test]
fn ipv4_errors_answer_only_permitted_packets() {
    let udp = |source, destination| packet4(source, destination, Upper::Udp(1, 2), b"data");
    let plain = udp([192, 0, 2, 1], [198, 51, 100, 9]);
    let fragment = |more, offset| {
        let mut packet = plain.clone();
        Ipv4Header::of_mut(&mut packet).unwrap().set_fragment(false, more, offset);
        packet
    };
    let empty = {
        let mut packet = icmp4(8)[..20].to_vec();
        packet[3] = 20;
        resum4(&mut packet);
        packet
    };
    let cases = [
        ("a plain packet", Cast::Unicast, plain.clone(), Ok(())),
        ("an echo request", Cast::Unicast, icmp4(8), Ok(())),
        ("an echo reply", Cast::Unicast, icmp4(0), Ok(())),
        ("a timestamp request", Cast::Unicast, icmp4(13), Ok(())),
        ("unreachable", Cast::Unicast, icmp4(3), Err(IcmpErrorForbidden::IcmpError)),
        ("source quench", Cast::Unicast, icmp4(4), Err(IcmpErrorForbidden::IcmpError)),
        ("redirect", Cast::Unicast, icmp4(5), Err(IcmpErrorForbidden::Redirect)),
        ("time exceeded", Cast::Unicast, icmp4(11), Err(IcmpErrorForbidden::IcmpError)),
        ("parameter problem", Cast::Unicast, icmp4(12), Err(IcmpErrorForbidden::IcmpError)),
        ("a type nobody knows", Cast::Unicast, icmp4(99), Err(IcmpErrorForbidden::IcmpError)),
        ("ICMP without a type", Cast::Unicast, empty, Err(IcmpErrorForbidden::Unreadable)),
        (
            "to a group",
            Cast::Unicast,
            udp([192, 0, 2, 1], [224, 0, 0, 5]),
            Err(IcmpErrorForbidden::MulticastDestination),
        ),
        ("to everybody", Cast::Unicast, udp([192, 0, 2, 1], [255; 4]), Err(IcmpErrorForbidden::BroadcastDestination)),
        ("in a broadcast frame", Cast::Broadcast, plain.clone(), Err(IcmpErrorForbidden::LinkCast)),
        ("in a multicast frame", Cast::Multicast, plain.clone(), Err(IcmpErrorForbidden::LinkCast)),
        ("from nowhere", Cast::Unicast, udp([0; 4], [198, 51, 100, 9]), Err(IcmpErrorForbidden::SourceNotUnicast)),
        (
            "from a group",
            Cast::Unicast,
            udp([224, 0, 0, 5], [198, 51, 100, 9]),
            Err(IcmpErrorForbidden::SourceNotUnicast),
        ),
        (
            "from loopback",
            Cast::Unicast,
            udp([127, 0, 0, 1], [198, 51, 100, 9]),
            Err(IcmpErrorForbidden::SourceNotUnicast),
        ),
        (
            "from a reserved address",
            Cast::Unicast,
            udp([240, 0, 0, 1], [198, 51, 100, 9]),
            Err(IcmpErrorForbidden::SourceNotUnicast),
        ),
        ("a first fragment", Cast::Unicast, fragment(true, 0), Ok(())),
        ("a later fragment", Cast::Unicast, fragment(true, 8), Err(IcmpErrorForbidden::LaterFragment)),
        ("the last fragment", Cast::Unicast, fragment(false, 1480), Err(IcmpErrorForbidden::LaterFragment)),
    ];
    for (name, link, packet, expected) in cases {
        assert_eq!(may_answer_with_error4(link, &Ipv4::parse(&packet).unwrap()), expected, "{name}");
    }
}

#[test]
fn no_ipv4_error_answers_an_icmp_error() {
    let packet = packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(1, 2), b"data");
    let mut buffer = [0; 576];
    for (error, why) in [
        (Error4::TimeExceeded, IcmpErrorForbidden::IcmpError),
        (Error4::FragmentationNeeded { mtu: 1280 }, IcmpErrorForbidden::IcmpError),
        (Error4::RedirectHost { gateway: [192, 0, 2, 7].into() }, IcmpErrorForbidden::Redirect),
    ] {
        let original = Ipv4::parse(&packet).unwrap();
        let length = error.write(&mut buffer, &original, [192, 0, 2, 254].into(), 64, 0).unwrap();
        let ours = Ipv4::parse(&buffer[..length]).unwrap();
        assert_eq!(may_answer_with_error4(Cast::Unicast, &ours), Err(why), "{error:?}");
    }
}

fn icmp6(kind: u8) -> Vec<u8> {
    let mut packet = packet6("2001:db8::1", "2001:db8::2", Upper::Echo(1, 1), b"");
    packet[40] = kind;
    packet
}

/// Inserts an extension header of eight bytes before the payload.
fn extended(mut packet: Vec<u8>, kind: u8, rest: [u8; 7]) -> Vec<u8> {
    let next = packet[6];
    packet.splice(40..40, [&[next], &rest[..]].concat());
    let header = Ipv6Header::of_mut(&mut packet).unwrap();
    header.set_next_header(kind);
    header.set_payload_length(header.payload_length() as u16 + 8);
    packet
}

#[test]
fn ipv6_errors_answer_only_permitted_packets() {
    let udp = |source, destination| packet6(source, destination, Upper::Udp(1, 2), b"data");
    let plain = || udp("2001:db8::1", "2001:db8::2");
    let group = || udp("2001:db8::1", "ff0e::1");
    let option = |kind| extended(group(), protocol::HOP_BY_HOP, [0, kind, 4, 0, 0, 0, 0]);
    let (gone, big) = (Error6::HopLimitExceeded, Error6::PacketTooBig { mtu: 1280 });
    let unknown = Error6::UnrecognizedOption { pointer: 42 };
    let cut = {
        let mut packet = icmp6(128);
        packet.truncate(40);
        Ipv6Header::of_mut(&mut packet).unwrap().set_payload_length(0);
        packet
    };
    let cases = [
        ("a plain packet", Cast::Unicast, plain(), gone, Ok(())),
        ("an echo request", Cast::Unicast, icmp6(128), gone, Ok(())),
        ("a neighbour solicitation", Cast::Unicast, icmp6(135), gone, Ok(())),
        ("unreachable", Cast::Unicast, icmp6(1), gone, Err(IcmpErrorForbidden::IcmpError)),
        ("packet too big", Cast::Unicast, icmp6(2), big, Err(IcmpErrorForbidden::IcmpError)),
        ("an error nobody knows", Cast::Unicast, icmp6(100), gone, Err(IcmpErrorForbidden::IcmpError)),
        ("a redirect", Cast::Unicast, icmp6(137), gone, Err(IcmpErrorForbidden::Redirect)),
        ("ICMPv6 without a type", Cast::Unicast, cut, gone, Err(IcmpErrorForbidden::Unreadable)),
        (
            "an error behind options",
            Cast::Unicast,
            extended(icmp6(1), protocol::DESTINATION_OPTIONS, [0, 1, 4, 0, 0, 0, 0]),
            gone,
            Err(IcmpErrorForbidden::IcmpError),
        ),
        ("to a group", Cast::Unicast, group(), gone, Err(IcmpErrorForbidden::MulticastDestination)),
        ("to a group in its frame", Cast::Multicast, group(), gone, Err(IcmpErrorForbidden::MulticastDestination)),
        ("too big to a group", Cast::Multicast, group(), big, Ok(())),
        ("unknown option 10 to a group", Cast::Multicast, option(0x9e), unknown, Ok(())),
        (
            "unknown option 11 to a group",
            Cast::Multicast,
            option(0xde),
            unknown,
            Err(IcmpErrorForbidden::MulticastDestination),
        ),
        ("in a broadcast frame", Cast::Broadcast, plain(), gone, Err(IcmpErrorForbidden::LinkCast)),
        ("from nowhere", Cast::Unicast, udp("::", "2001:db8::2"), gone, Err(IcmpErrorForbidden::SourceNotUnicast)),
        ("from loopback", Cast::Unicast, udp("::1", "2001:db8::2"), gone, Err(IcmpErrorForbidden::SourceNotUnicast)),
        (
            "too big from a group",
            Cast::Unicast,
            udp("ff02::1", "2001:db8::2"),
            big,
            Err(IcmpErrorForbidden::SourceNotUnicast),
        ),
        // RFC 4443 2.4(e) has no such exception.
        ("a later fragment", Cast::Unicast, extended(plain(), protocol::FRAGMENT, [0, 0, 8, 0, 0, 0, 1]), big, Ok(())),
        (
            "a chain that cannot be followed",
            Cast::Unicast,
            extended(plain(), protocol::DESTINATION_OPTIONS, [200, 1, 4, 0, 0, 0, 0]),
            Error6::ErroneousField { pointer: 41 },
            Ok(()),
        ),
    ];
    for (name, link, packet, error, expected) in cases {
        let parsed = Ipv6::parse(&packet).unwrap();
        assert_eq!(may_answer_with_error6(link, &parsed, error), expected, "{name}");
    }
}

#[test]
fn no_ipv6_error_answers_an_icmp_error() {
    let packet = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"data");
    let mut buffer = [0; 1280];
    let me = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);
    let error = Error6::PacketTooBig { mtu: 1280 };
    let length = error.write(&mut buffer, &Ipv6::parse(&packet).unwrap(), me, 64).unwrap();
    let ours = Ipv6::parse(&buffer[..length]).unwrap();
    assert_eq!(may_answer_with_error6(Cast::Unicast, &ours, error), Err(IcmpErrorForbidden::IcmpError));
}
