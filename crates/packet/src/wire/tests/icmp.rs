use super::frames::{self, Upper, packet4, packet6, resum4};
use crate::wire::icmp4::{self, Echo, EchoRefused, IcmpError};
use crate::wire::icmp6;
use crate::wire::ipv6::MINIMUM_MTU;
use crate::wire::{Error4, Error6, Icmp4, Icmp6, Ipv4, Ipv4Header, Ipv6, Ipv6Header, Mac, ipv6, protocol};
use etherparse::{Icmpv4Header, Icmpv4Type, Icmpv6Slice, Icmpv6Type, SlicedPacket, TransportSlice};
use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const ME4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
const ME6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfe);

const ERRORS4: [Error4; 13] = [
    Error4::NetUnreachable,
    Error4::HostUnreachable,
    Error4::ProtocolUnreachable,
    Error4::PortUnreachable,
    Error4::FragmentationNeeded { mtu: 1400 },
    Error4::SourceRouteFailed,
    Error4::NetProhibited,
    Error4::HostProhibited,
    Error4::CommunicationProhibited,
    Error4::TimeExceeded,
    Error4::ReassemblyTimeExceeded,
    Error4::ParameterProblem { pointer: 22 },
    Error4::RedirectHost { gateway: Ipv4Addr::new(192, 0, 2, 77) },
];

const ERRORS6: [Error6; 13] = [
    Error6::NoRoute,
    Error6::AdminProhibited,
    Error6::BeyondScope,
    Error6::AddressUnreachable,
    Error6::PortUnreachable,
    Error6::PolicyFailed,
    Error6::RejectRoute,
    Error6::PacketTooBig { mtu: 1400 },
    Error6::HopLimitExceeded,
    Error6::ReassemblyTimeExceeded,
    Error6::ErroneousField { pointer: 4 },
    Error6::UnrecognizedNextHeader { pointer: 6 },
    Error6::UnrecognizedOption { pointer: 44 },
];

/// The errors above as etherparse parses them, in the same order.
fn by_etherparse4() -> [Icmpv4Type; 13] {
    use Icmpv4Type::{DestinationUnreachable as Unreachable, ParameterProblem, Redirect, TimeExceeded};
    use etherparse::icmpv4::{
        DestUnreachableHeader as Dest, ParameterProblemHeader as Problem, TimeExceededCode as Time,
    };
    use etherparse::icmpv4::{RedirectCode, RedirectHeader};
    [
        Unreachable(Dest::Network),
        Unreachable(Dest::Host),
        Unreachable(Dest::Protocol),
        Unreachable(Dest::Port),
        Unreachable(Dest::FragmentationNeeded { next_hop_mtu: 1400 }),
        Unreachable(Dest::SourceRouteFailed),
        Unreachable(Dest::NetworkProhibited),
        Unreachable(Dest::HostProhibited),
        Unreachable(Dest::FilterProhibited),
        TimeExceeded(Time::TtlExceededInTransit),
        TimeExceeded(Time::FragmentReassemblyTimeExceeded),
        ParameterProblem(Problem::PointerIndicatesError(22)),
        Redirect(RedirectHeader { code: RedirectCode::RedirectForHost, gateway_internet_address: [192, 0, 2, 77] }),
    ]
}

#[test]
fn ipv4_errors_parse_in_etherparse() {
    let original = packet4([198, 51, 100, 1], [203, 0, 113, 5], Upper::Udp(1, 2), &[7; 100]);
    for (error, theirs) in ERRORS4.into_iter().zip(by_etherparse4()) {
        let mut buffer = [0; 576];
        let length = error.write(&mut buffer, &Ipv4::parse(&original).unwrap(), ME4, 64, 7).unwrap();
        let sliced = SlicedPacket::from_ip(&buffer[..length]).unwrap();
        let Some(TransportSlice::Icmpv4(message)) = sliced.transport else { panic!("{error:?} is ICMP") };
        assert_eq!(message.icmp_type(), theirs, "{error:?}");
        assert_eq!(message.payload(), original, "{error:?}");
        assert_eq!(message.checksum(), Icmpv4Header::with_checksum(theirs, message.payload()).checksum, "{error:?}");
    }
}

#[test]
fn ipv6_errors_parse_in_etherparse() {
    use etherparse::icmpv6::TimeExceededCode as Time;
    use etherparse::icmpv6::{DestUnreachableCode as Dest, ParameterProblemCode as Problem, ParameterProblemHeader};
    let problem = |code, pointer| Icmpv6Type::ParameterProblem(ParameterProblemHeader { code, pointer });
    let expected = [
        Icmpv6Type::DestinationUnreachable(Dest::NoRoute),
        Icmpv6Type::DestinationUnreachable(Dest::Prohibited),
        Icmpv6Type::DestinationUnreachable(Dest::BeyondScope),
        Icmpv6Type::DestinationUnreachable(Dest::Address),
        Icmpv6Type::DestinationUnreachable(Dest::Port),
        Icmpv6Type::DestinationUnreachable(Dest::SourceAddressFailedPolicy),
        Icmpv6Type::DestinationUnreachable(Dest::RejectRoute),
        Icmpv6Type::PacketTooBig { mtu: 1400 },
        Icmpv6Type::TimeExceeded(Time::HopLimitExceeded),
        Icmpv6Type::TimeExceeded(Time::FragmentReassemblyTimeExceeded),
        problem(Problem::ErroneousHeaderField, 4),
        problem(Problem::UnrecognizedNextHeader, 6),
        problem(Problem::UnrecognizedIpv6Option, 44),
    ];
    let original = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), &[7; 100]);
    for (error, theirs) in ERRORS6.into_iter().zip(expected) {
        let mut buffer = [0; MINIMUM_MTU];
        let length = error.write(&mut buffer, &Ipv6::parse(&original).unwrap(), ME6, 64).unwrap();
        let message = Icmpv6Slice::from_slice(&buffer[40..length]).unwrap();
        assert_eq!(message.icmp_type(), theirs, "{error:?}");
        assert_eq!(message.payload(), original, "{error:?}");
        let source = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        assert!(message.is_checksum_valid(ME6.octets(), source), "{error:?}");
    }
}

#[test]
fn an_ipv4_error_quotes_up_to_576_bytes_and_no_padding() {
    for (payload, padding, expected) in [(0, 18, 28), (100, 0, 128), (520, 0, 548), (521, 0, 548), (1472, 0, 548)] {
        let mut original = packet4([198, 51, 100, 1], [203, 0, 113, 5], Upper::Udp(1, 2), &vec![7; payload]);
        original.resize(original.len() + padding, 0xee);
        let mut buffer = [0; 1500];
        let length = Error4::TimeExceeded.write(&mut buffer, &Ipv4::parse(&original).unwrap(), ME4, 64, 7).unwrap();
        assert_eq!(length, 20 + 8 + expected);
        let error = Ipv4::parse(&buffer[..length]).unwrap();
        assert_eq!((error.header.source(), error.header.destination()), (ME4, [198, 51, 100, 1].into()));
        assert_eq!((error.header.ttl(), error.header.identification(), error.header.protocol()), (64, 7, 1));
        let Ok(Icmp4::TimeExceeded { code: 0, original: quote }) = Icmp4::parse(error.payload) else {
            panic!("time exceeded")
        };
        assert_eq!(quote, &original[..expected]);
    }
}

#[test]
fn an_ipv6_error_quotes_up_to_1280_bytes_and_no_padding() {
    for (payload, padding, expected) in [(0, 18, 48), (1184, 0, 1232), (1185, 0, 1232), (1452, 0, 1232)] {
        let mut original = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), &vec![7; payload]);
        original.resize(original.len() + padding, 0xee);
        let mut buffer = [0; 1500];
        let parsed = Ipv6::parse(&original).unwrap();
        let length = Error6::PacketTooBig { mtu: 1300 }.write(&mut buffer, &parsed, ME6, 64).unwrap();
        assert_eq!(length, 40 + 8 + expected);
        let error = Ipv6::parse(&buffer[..length]).unwrap();
        let Ok(Icmp6::PacketTooBig { mtu: 1300, original: quote }) = Icmp6::parse(error.header, error.payload) else {
            panic!("packet too big")
        };
        assert_eq!(quote, &original[..expected]);
    }
}

#[test]
fn an_error_that_does_not_fit_is_not_written() {
    let four = packet4([198, 51, 100, 1], [203, 0, 113, 5], Upper::Udp(1, 2), &[7; 100]);
    let six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), &[7; 100]);
    let (four, six) = (Ipv4::parse(&four).unwrap(), Ipv6::parse(&six).unwrap());
    let (fits4, fits6) = (28 + four.bytes.len(), 48 + six.bytes.len());
    for room in [0, 19, 20, 27, 28, 47, 48, fits4 - 1, fits4, fits6 - 1, fits6] {
        let mut buffer = vec![0; room];
        assert_eq!(Error4::NetUnreachable.write(&mut buffer, &four, ME4, 64, 0).is_some(), room >= fits4, "{room}");
        assert_eq!(Error6::NoRoute.write(&mut buffer, &six, ME6, 64).is_some(), room >= fits6, "{room}");
    }
}

#[test]
fn an_error_has_network_control_precedence_and_the_type_of_service_of_the_original() {
    let mut original = packet4([198, 51, 100, 1], [203, 0, 113, 5], Upper::Udp(1, 2), b"");
    Ipv4Header::of_mut(&mut original).unwrap().set_type_of_service(0x30);
    let mut buffer = [0; 576];
    Error4::HostUnreachable.write(&mut buffer, &Ipv4::parse(&original).unwrap(), ME4, 64, 0).unwrap();
    assert_eq!(Ipv4Header::of(&buffer).unwrap().type_of_service(), 0xd0);
}

#[test]
fn truncated_or_corrupt_icmp_messages_are_errors() {
    let packet = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Echo(7, 9), b"ping");
    let mut message = Ipv4::parse(&packet).unwrap().payload.to_vec();
    assert_eq!(Icmp4::parse(&message), Ok(Icmp4::EchoRequest(Echo { identifier: 7, sequence: 9, data: b"ping" })));
    assert_eq!(Icmp4::parse(&message[..7]), Err(IcmpError::Truncated));
    message[9] ^= 1;
    assert_eq!(Icmp4::parse(&message), Err(IcmpError::Checksum));
    let packet = packet6("2001:db8::1", "2001:db8::2", Upper::Echo(7, 9), b"ping");
    let packet = Ipv6::parse(&packet).unwrap();
    let echo = Echo { identifier: 7, sequence: 9, data: b"ping" };
    assert_eq!(Icmp6::parse(packet.header, packet.payload), Ok(Icmp6::EchoRequest(echo)));
    let mut elsewhere = *packet.header;
    elsewhere.set_source(ME6);
    assert_eq!(Icmp6::parse(&elsewhere, packet.payload), Err(IcmpError::Checksum));
}

#[test]
fn refused_echo_requests_have_a_reason_and_stay_unchanged() {
    let echo = |source, destination| packet4(source, destination, Upper::Echo(1, 1), b"");
    let cases = [
        ("not ICMP", packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 1), b""), EchoRefused::NotARequest),
        ("from a group", echo([224, 0, 0, 1], [192, 0, 2, 2]), EchoRefused::SourceNotUnicast),
        ("from this network", echo([0, 0, 0, 0], [192, 0, 2, 2]), EchoRefused::SourceNotUnicast),
        ("to a group", echo([192, 0, 2, 1], [224, 0, 0, 1]), EchoRefused::NotToOneHost),
        ("to everybody", echo([192, 0, 2, 1], [255; 4]), EchoRefused::NotToOneHost),
        ("cut", echo([192, 0, 2, 1], [192, 0, 2, 2])[..24].to_vec(), EchoRefused::Malformed),
        (
            "corrupt",
            {
                let mut packet = echo([192, 0, 2, 1], [192, 0, 2, 2]);
                packet[25] ^= 1;
                packet
            },
            EchoRefused::Icmp(IcmpError::Checksum),
        ),
        (
            "a fragment",
            {
                let mut packet = echo([192, 0, 2, 1], [192, 0, 2, 2]);
                Ipv4Header::of_mut(&mut packet).unwrap().set_fragment(false, true, 0);
                packet
            },
            EchoRefused::NotARequest,
        ),
        (
            "source routed",
            {
                let mut packet = echo([192, 0, 2, 1], [192, 0, 2, 2]);
                packet.splice(20..20, [131, 3, 4, 0]);
                packet[0] += 1;
                packet[3] += 4;
                resum4(&mut packet);
                packet
            },
            EchoRefused::SourceRouted,
        ),
    ];
    for (name, packet, why) in cases {
        let mut changed = packet.clone();
        assert_eq!(icmp4::reply_to_echo(&mut changed, 64, 0), Err(why), "{name}");
        assert_eq!(changed, packet, "{name}");
    }
}

#[test]
fn echo_request_to_a_group_is_answered_from_a_local_address() {
    let mut packet = packet6("fe80::1", "ff02::1", Upper::Echo(7, 9), b"who is there");
    let me = ipv6::link_local(Mac([2, 0, 0, 0, 0, 1]));
    let length = icmp6::reply_to_echo(&mut packet, me, 64).unwrap();
    let reply = Ipv6::parse(&packet[..length]).unwrap();
    assert_eq!((reply.header.source(), reply.header.destination()), (me, "fe80::1".parse().unwrap()));
    assert_eq!(
        Icmp6::parse(reply.header, reply.payload),
        Ok(Icmp6::EchoReply(Echo { identifier: 7, sequence: 9, data: b"who is there" }))
    );
}

proptest! {
    #[test]
    fn ipv4_echo_reply_has_recomputed_checksums(
        ip in frames::ip4(), id: u16, seq: u16, data in vec(any::<u8>(), 0..200), ttl: u8, identification: u16,
        padding in 0usize..20,
    ) {
        let request = frames::make(None, ip, Upper::Echo(id, seq), &data).l3().to_vec();
        let mut packet = request.clone();
        packet.resize(request.len() + padding, 0xee);
        let was = Ipv4::parse(&request).unwrap();
        prop_assume!(crate::wire::ipv4::is_unicast_source(was.header.source()));
        prop_assume!(was.header.destination().octets()[0] < 224);
        let length = icmp4::reply_to_echo(&mut packet, ttl, identification).unwrap();
        prop_assert_eq!(length, request.len());
        let reply = Ipv4::parse(&packet[..length]).unwrap();
        prop_assert_eq!(reply.header.source(), was.header.destination());
        prop_assert_eq!(reply.header.destination(), was.header.source());
        prop_assert_eq!((reply.header.ttl(), reply.header.identification()), (ttl, identification));
        prop_assert_eq!(reply.header.type_of_service(), was.header.type_of_service());
        prop_assert_eq!(reply.options, was.options);
        prop_assert!(!reply.header.dont_fragment());
        // The same message, written again.
        let echo = Echo { identifier: id, sequence: seq, data: &data };
        let mut again = vec![0; reply.payload.len()];
        prop_assert_eq!(icmp4::write_echo(&mut again, icmp4::ECHO_REPLY, &echo), Some(reply.payload.len()));
        prop_assert_eq!(reply.payload, again);
        prop_assert_eq!(Icmp4::parse(reply.payload), Ok(Icmp4::EchoReply(echo)));
    }

    #[test]
    fn ipv6_echo_reply_has_recomputed_checksums(
        ip in frames::ip6(), id: u16, seq: u16, data in vec(any::<u8>(), 0..200), hops: u8,
        padding in 0usize..20, elsewhere: bool,
    ) {
        let request = frames::make(None, ip, Upper::Echo(id, seq), &data).l3().to_vec();
        let mut packet = request.clone();
        packet.resize(request.len() + padding, 0xee);
        let was = *Ipv6Header::of(&request).unwrap();
        prop_assume!(ipv6::is_unicast_source(was.source()));
        let me = if elsewhere { ME6 } else { was.destination() };
        let length = icmp6::reply_to_echo(&mut packet, me, hops).unwrap();
        let echo = Echo { identifier: id, sequence: seq, data: &data };
        let mut again = [0; 300];
        let written = icmp6::write_echo(&mut again, icmp6::ECHO_REPLY, me, was.source(), hops, &echo).unwrap();
        Ipv6Header::of_mut(&mut again).unwrap().set_traffic_class(was.traffic_class());
        prop_assert_eq!(&packet[..length], &again[..written]);
        let reply = Ipv6::parse(&packet[..length]).unwrap();
        prop_assert_eq!(reply.header.next_header(), protocol::ICMPV6);
        prop_assert_eq!(Icmp6::parse(reply.header, reply.payload), Ok(Icmp6::EchoReply(echo)));
    }
}
