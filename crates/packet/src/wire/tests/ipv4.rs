use super::frames::{self, Upper, resum4};
use crate::wire::ipv4::{HEADER, decrement_ttl, header_checksum_ok_20, is_unicast_source, multicast_mac};
use crate::wire::{Ipv4, Ipv4Error, Ipv4Header, Ipv4Spec, Mac, protocol};
use etherparse::{IpHeaders, Ipv4HeaderSlice};
use proptest::prelude::*;
use std::net::Ipv4Addr;

fn good() -> Vec<u8> {
    frames::packet4([192, 0, 2, 1], [198, 51, 100, 9], Upper::Udp(5060, 53), b"payload")
}

/// A name, a change of a valid packet, and the expected result.
type Case = (&'static str, fn(&mut Vec<u8>), Result<(), Ipv4Error>);

#[test]
fn each_header_check_of_rfc_1812_has_an_error() {
    let cases: [Case; 13] = [
        ("good", |_| {}, Ok(())),
        ("padded", |p| p.extend([0xee; 20]), Ok(())),
        ("empty", |p| p.clear(), Err(Ipv4Error::Truncated)),
        ("19 bytes", |p| p.truncate(19), Err(Ipv4Error::Truncated)),
        ("version 6", |p| p[0] = 0x65, Err(Ipv4Error::Version)),
        ("four words", |p| p[0] = 0x44, Err(Ipv4Error::HeaderLength)),
        ("fifteen words of nine", |p| p[0] = 0x4f, Err(Ipv4Error::HeaderTruncated)),
        ("total of 19", |p| p[2..4].copy_from_slice(&[0, 19]), Err(Ipv4Error::TotalLengthBelowHeader)),
        (
            "total below six words",
            |p| {
                p[0] = 0x46;
                p[2..4].copy_from_slice(&[0, 23]);
            },
            Err(Ipv4Error::TotalLengthBelowHeader),
        ),
        ("cut payload", |p| p.truncate(p.len() - 1), Err(Ipv4Error::TotalLengthBeyondFrame)),
        ("a flipped bit", |p| p[13] ^= 0x10, Err(Ipv4Error::Checksum)),
        (
            "a flipped bit behind options",
            |p| {
                p.splice(20..20, [1, 1, 1, 0]);
                p[0] = 0x46;
                p[3] += 4;
                resum4(p);
                p[22] ^= 0x80;
            },
            Err(Ipv4Error::Checksum),
        ),
        ("all zero", |p| p.fill(0), Err(Ipv4Error::Version)),
    ];
    for (name, change, expected) in cases {
        let mut packet = good();
        change(&mut packet);
        assert_eq!(Ipv4::parse(&packet).map(|_| ()), expected, "{name}");
    }
}

#[test]
fn padding_is_no_payload() {
    let mut frame = good();
    frame.extend([0xee; 11]);
    let packet = Ipv4::parse(&frame).unwrap();
    assert_eq!(packet.payload.len(), 8 + 7);
    assert_eq!(packet.bytes.len(), 20 + 8 + 7);
}

#[test]
fn quoted_packet_may_be_truncated() {
    let packet = good();
    let quoted = Ipv4::parse_quoted(&packet[..28]).unwrap();
    assert_eq!((quoted.bytes.len(), quoted.payload.len()), (28, 8));
    assert_eq!(Ipv4::parse_quoted(&packet[..19]).map(|_| ()), Err(Ipv4Error::Truncated));
}

#[test]
fn ttl_decrement_of_checksum_0xffff_equals_recomputation() {
    // A header with checksum 0x0000 may also arrive with 0xffff: the same number in ones' complement.
    let mut header = [0u8; HEADER];
    header[0] = 0x45;
    header[8] = 64;
    resum4(&mut header);
    let missing = u16::from_be_bytes([header[10], header[11]]);
    header[4..6].copy_from_slice(&missing.to_be_bytes());
    header[10..12].fill(0xff);
    assert!(header_checksum_ok_20(&header));
    assert!(decrement_ttl(&mut header));
    assert_eq!(header[10..12], [0x01, 0x00]);
    assert!(header_checksum_ok_20(&header));
    let by_us = header;
    resum4(&mut header);
    assert_eq!(by_us, header);
}

#[test]
fn ttl_decrement_from_every_checksum_equals_recomputation() {
    let mut header = [0u8; HEADER];
    header[0] = 0x45;
    header[8] = 64;
    for wanted in 0..0xffffu32 {
        // The identification that gives this checksum: the difference to its complement, modulo 65535.
        let rest = 0x4500 + 0x4000;
        let identification = (0xffff - wanted + 0xffff - rest) % 0xffff;
        header[4..6].copy_from_slice(&(identification as u16).to_be_bytes());
        header[8] = 64;
        resum4(&mut header);
        assert_eq!(u32::from(u16::from_be_bytes([header[10], header[11]])), wanted);
        assert!(header_checksum_ok_20(&header));
        assert!(decrement_ttl(&mut header));
        let by_us = header;
        resum4(&mut header);
        assert_eq!(by_us, header, "from {wanted:04x}");
    }
}

#[test]
fn all_zero_header_has_an_invalid_checksum() {
    assert!(!header_checksum_ok_20(&[0; HEADER]));
}

#[test]
fn ttl_of_one_is_not_decremented() {
    for ttl in [0, 1] {
        let mut header: [u8; HEADER] = *good().first_chunk().unwrap();
        header[8] = ttl;
        let before = header;
        assert!(!decrement_ttl(&mut header));
        assert_eq!(header, before);
    }
}

#[test]
fn multicast_groups_have_their_ethernet_address() {
    // RFC 1112 6.4: 23 bits, so 224.1.2.3 and 225.129.2.3 have the same address.
    for group in [Ipv4Addr::new(224, 1, 2, 3), Ipv4Addr::new(225, 129, 2, 3)] {
        assert_eq!(multicast_mac(group), Mac([0x01, 0x00, 0x5e, 1, 2, 3]));
    }
}

#[test]
fn only_unicast_addresses_are_valid_sources() {
    for (text, expected) in [
        ("192.0.2.1", true),
        ("10.0.0.255", true),
        ("0.0.0.0", false),
        ("0.1.2.3", false),
        ("127.0.0.1", false),
        ("224.0.0.1", false),
        ("239.255.255.255", false),
        ("240.0.0.1", false),
        ("255.255.255.255", false),
    ] {
        assert_eq!(is_unicast_source(text.parse().unwrap()), expected, "{text}");
    }
}

/// Recomputes the checksum of a copy and compares the whole header.
fn is_as_recomputed(header: &Ipv4Header) -> bool {
    let bytes: [u8; HEADER] = zerocopy::transmute!(*header);
    let mut again = bytes;
    again[0] = 0x45;
    resum4(&mut again);
    bytes == again
}

proptest! {
    #[test]
    fn ipv4_headers_parse_as_in_etherparse(made in (frames::ip4(), frames::upper(), prop::collection::vec(any::<u8>(), 0..64))
        .prop_map(|(ip, upper, payload)| frames::make(None, ip, upper, &payload)))
    {
        let IpHeaders::Ipv4(said, _) = &made.ip else { unreachable!("made of IPv4") };
        let ours = Ipv4::parse(made.l3()).unwrap();
        let theirs = Ipv4HeaderSlice::from_slice(made.l3()).unwrap();
        let header = ours.header;
        prop_assert_eq!(header.dscp(), theirs.dcp().value());
        prop_assert_eq!(header.ecn(), theirs.ecn().value());
        prop_assert_eq!(header.total_length(), usize::from(theirs.total_len()));
        prop_assert_eq!(header.identification(), said.identification);
        prop_assert_eq!(header.dont_fragment(), said.dont_fragment);
        prop_assert_eq!((header.is_fragment(), header.is_first()), (false, true));
        prop_assert_eq!(header.ttl(), said.time_to_live);
        prop_assert_eq!(header.protocol(), theirs.protocol().0);
        prop_assert_eq!(header.checksum(), theirs.header_checksum());
        prop_assert_eq!(header.source(), theirs.source_addr());
        prop_assert_eq!(header.destination(), theirs.destination_addr());
        prop_assert_eq!(ours.options, theirs.options());
    }

    #[test]
    fn fragment_fields_are_as_etherparse_writes_them(offset in 0u16..8192, more: bool, dont: bool) {
        let mut header = etherparse::Ipv4Header {
            more_fragments: more,
            dont_fragment: dont,
            fragment_offset: offset.try_into().unwrap(),
            ..etherparse::Ipv4Header::new(0, 64, 17.into(), [192, 0, 2, 1], [192, 0, 2, 2]).unwrap()
        };
        header.header_checksum = header.calc_header_checksum();
        let bytes = header.to_bytes();
        let ours = Ipv4Header::of(&bytes).unwrap();
        prop_assert_eq!(ours.fragment_offset(), usize::from(offset) * 8);
        prop_assert_eq!((ours.more_fragments(), ours.dont_fragment()), (more, dont));
        prop_assert_eq!(ours.is_fragment(), more || offset != 0);
        prop_assert_eq!(ours.is_first(), offset == 0);
        let mut again = Ipv4Spec {
            type_of_service: 0, identification: 0, dont_fragment: false, ttl: 64, protocol: 17,
            source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into(),
        }.header(0).unwrap();
        again.set_fragment(dont, more, offset * 8);
        prop_assert_eq!(&again, ours);
    }

    #[test]
    fn built_ipv4_header_parses_here_and_in_etherparse(
        type_of_service: u8, identification: u16, dont_fragment: bool, ttl: u8, protocol: u8,
        source: [u8; 4], destination: [u8; 4], payload in 0usize..70_000, room in 0usize..40,
    ) {
        let spec = Ipv4Spec {
            type_of_service, identification, dont_fragment, ttl, protocol,
            source: source.into(), destination: destination.into(),
        };
        let mut buffer = vec![0; room];
        let written = spec.write(&mut buffer, payload);
        prop_assert_eq!(written.is_some(), room >= HEADER && payload <= 65_515);
        if written.is_none() {
            return Ok(());
        }
        let theirs = Ipv4HeaderSlice::from_slice(&buffer).unwrap().to_header();
        prop_assert_eq!(theirs.calc_header_checksum(), theirs.header_checksum);
        prop_assert_eq!((theirs.source, theirs.destination), (source, destination));
        prop_assert_eq!((theirs.time_to_live, theirs.protocol.0, theirs.identification), (ttl, protocol, identification));
        prop_assert_eq!((theirs.dont_fragment, theirs.dscp.value()), (dont_fragment, type_of_service >> 2));
        buffer.resize(HEADER + payload, 0);
        let ours = Ipv4::parse(&buffer).unwrap();
        prop_assert_eq!((ours.payload.len(), ours.header.type_of_service()), (payload, type_of_service));
    }

    #[test]
    fn fast_header_checksum_equals_the_general_one(mut header: [u8; HEADER], right: bool) {
        header[0] = 0x45;
        if right {
            resum4(&mut header);
        }
        let mut again = header;
        resum4(&mut again);
        prop_assert_eq!(header_checksum_ok_20(&header), again == header);
    }

    #[test]
    fn ttl_decrement_equals_recomputation(mut header: [u8; HEADER], ttl in prop_oneof![0u8..4, 250u8..=255, any::<u8>()]) {
        header[0] = 0x45;
        header[8] = ttl;
        resum4(&mut header);
        let mut again = header;
        let forwarded = decrement_ttl(&mut header);
        prop_assert_eq!(forwarded, ttl > 1);
        if forwarded {
            again[8] -= 1;
            resum4(&mut again);
        }
        prop_assert_eq!(header, again);
    }

    #[test]
    fn setters_keep_the_checksum_as_recomputed(
        mut bytes: [u8; HEADER], tos: u8, length: u16, id: u16, ttl: u8, source: [u8; 4], destination: [u8; 4],
        dont: bool, more: bool, offset in 0u16..8192,
    ) {
        bytes[0] = 0x45;
        resum4(&mut bytes);
        let header = Ipv4Header::of_mut(&mut bytes).unwrap();
        header.set_type_of_service(tos);
        prop_assert!(is_as_recomputed(header));
        header.set_dscp(tos >> 3);
        header.set_ecn(tos);
        prop_assert_eq!((header.dscp(), header.ecn()), (tos >> 3, tos & 3));
        prop_assert!(is_as_recomputed(header));
        header.set_total_length(length);
        header.set_identification(id);
        header.set_ttl(ttl);
        prop_assert!(is_as_recomputed(header));
        prop_assert_eq!((header.total_length(), header.identification(), header.ttl()), (usize::from(length), id, ttl));
        header.set_source(source.into());
        header.set_destination(destination.into());
        header.set_fragment(dont, more, offset * 8);
        prop_assert!(is_as_recomputed(header));
        prop_assert_eq!((header.source(), header.destination()), (source.into(), destination.into()));
        prop_assert_eq!(header.fragment_offset(), usize::from(offset) * 8);
    }
}

#[test]
fn protocol_numbers_are_those_of_iana() {
    assert_eq!((protocol::TCP, protocol::UDP), (etherparse::IpNumber::TCP.0, etherparse::IpNumber::UDP.0));
    assert_eq!((protocol::ICMP, protocol::ICMPV6), (etherparse::IpNumber::ICMP.0, etherparse::IpNumber::IPV6_ICMP.0));
}
