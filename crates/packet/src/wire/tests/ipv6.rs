use super::frames;
use crate::wire::ipv6::{
    HEADER, MulticastScope, is_link_local, is_unicast_source, link_local, multicast_mac, multicast_scope,
    solicited_node,
};
use crate::wire::{Ipv6, Ipv6Error, Ipv6Header, Ipv6Spec, Mac};
use etherparse::{IpHeaders, Ipv6HeaderSlice};
use proptest::prelude::*;
use std::net::Ipv6Addr;

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn malformed_ipv6_packets_have_their_errors() {
    let mut packet = frames::packet6("2001:db8::1", "2001:db8::2", frames::Upper::Udp(1, 2), b"payload");
    assert!(Ipv6::parse(&packet).is_ok());
    assert_eq!(Ipv6::parse(&packet[..39]).map(|_| ()), Err(Ipv6Error::Truncated));
    assert_eq!(Ipv6::parse(&packet[..packet.len() - 1]).map(|_| ()), Err(Ipv6Error::PayloadLengthBeyondFrame));
    assert_eq!(Ipv6::parse_quoted(&packet[..44]).map(|quoted| quoted.payload.len()), Ok(4));
    packet.extend([0xee; 7]);
    assert_eq!(Ipv6::parse(&packet).map(|packet| packet.payload.len()), Ok(8 + 7));
    packet[0] = 0x45;
    assert_eq!(Ipv6::parse(&packet).map(|_| ()), Err(Ipv6Error::Version));
}

#[test]
fn computed_addresses_are_those_of_the_rfcs() {
    // RFC 4291 2.7.1's example, RFC 2464 7's mapping, appendix A's EUI-64.
    assert_eq!(solicited_node(address("4037::01:800:200e:8c6c")), address("ff02::1:ff0e:8c6c"));
    assert_eq!(multicast_mac(address("ff02::1:ff0e:8c6c")), Mac([0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]));
    assert_eq!(link_local(Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde])), address("fe80::3656:78ff:fe9a:bcde"));
}

#[test]
fn ipv6_addresses_have_their_scope() {
    for (text, scope) in [
        ("2001:db8::1", None),
        ("ff00::1", Some(MulticastScope::Reserved(0))),
        ("ff01::1", Some(MulticastScope::Interface)),
        ("ff02::1", Some(MulticastScope::Link)),
        ("ff13::1", Some(MulticastScope::Realm)),
        ("ff04::1", Some(MulticastScope::Admin)),
        ("ff05::1:3", Some(MulticastScope::Site)),
        ("ff08::1", Some(MulticastScope::Organization)),
        ("ff3e::1", Some(MulticastScope::Global)),
        ("ff0a::1", Some(MulticastScope::Other(10))),
        ("ff0f::1", Some(MulticastScope::Reserved(15))),
    ] {
        assert_eq!(multicast_scope(address(text)), scope, "{text}");
    }
    for (text, local) in [("fe80::1", true), ("febf::1", true), ("fec0::1", false), ("fe7f::1", false)] {
        assert_eq!(is_link_local(address(text)), local, "{text}");
    }
    for (text, unicast) in [("2001:db8::1", true), ("fe80::1", true), ("::", false), ("::1", false), ("ff02::1", false)]
    {
        assert_eq!(is_unicast_source(address(text)), unicast, "{text}");
    }
}

#[test]
fn hop_limit_of_one_is_not_decremented() {
    for (hops, forwarded, after) in [(0, false, 0), (1, false, 1), (2, true, 1), (255, true, 254)] {
        let mut packet = frames::packet6("2001:db8::1", "2001:db8::2", frames::Upper::Udp(1, 2), b"");
        let header = Ipv6Header::of_mut(&mut packet).unwrap();
        header.set_hop_limit(hops);
        assert_eq!((header.decrement_hop_limit(), header.hop_limit()), (forwarded, after));
    }
}

proptest! {
    #[test]
    fn ipv6_headers_parse_as_in_etherparse(made in (frames::ip6(), frames::upper())
        .prop_map(|(ip, upper)| frames::make(None, ip, upper, b"data")))
    {
        let IpHeaders::Ipv6(said, _) = &made.ip else { unreachable!("made of IPv6") };
        let ours = Ipv6::parse(made.l3()).unwrap();
        let theirs = Ipv6HeaderSlice::from_slice(made.l3()).unwrap();
        let header = ours.header;
        prop_assert_eq!(header.traffic_class(), said.traffic_class);
        prop_assert_eq!(header.dscp() << 2 | header.ecn(), said.traffic_class);
        prop_assert_eq!(header.flow_label(), said.flow_label.value());
        prop_assert_eq!(header.payload_length(), usize::from(theirs.payload_length()));
        prop_assert_eq!(header.next_header(), theirs.next_header().0);
        prop_assert_eq!(header.hop_limit(), said.hop_limit);
        prop_assert_eq!((header.source(), header.destination()), (theirs.source_addr(), theirs.destination_addr()));
        prop_assert_eq!(ours.bytes.len(), made.l3().len());
    }

    #[test]
    fn built_ipv6_header_parses_here_and_in_etherparse(
        traffic_class: u8, flow_label in 0u32..1 << 20, next_header: u8, hop_limit: u8,
        source: [u8; 16], destination: [u8; 16], payload in 0usize..70_000, room in 0usize..60,
    ) {
        let spec = Ipv6Spec {
            traffic_class, flow_label, next_header, hop_limit, source: source.into(), destination: destination.into(),
        };
        let mut buffer = vec![0; room];
        let written = spec.write(&mut buffer, payload);
        prop_assert_eq!(written.is_some(), room >= HEADER && payload <= 65_535);
        if written.is_none() {
            return Ok(());
        }
        let theirs = Ipv6HeaderSlice::from_slice(&buffer).unwrap().to_header();
        prop_assert_eq!((theirs.traffic_class, theirs.flow_label.value()), (traffic_class, flow_label));
        prop_assert_eq!((theirs.next_header.0, theirs.hop_limit), (next_header, hop_limit));
        prop_assert_eq!((theirs.source, theirs.destination), (source, destination));
        prop_assert_eq!(usize::from(theirs.payload_length), payload);
        buffer.resize(HEADER + payload, 0);
        prop_assert_eq!(Ipv6::parse(&buffer).unwrap().payload.len(), payload);
    }

    #[test]
    fn ipv6_setters_change_only_their_field(bytes: [u8; HEADER], class: u8, label: u32, hops: u8, length: u16, next: u8) {
        let mut changed = bytes;
        let before = *Ipv6Header::of(&bytes).unwrap();
        let header = Ipv6Header::of_mut(&mut changed).unwrap();
        header.set_traffic_class(class);
        prop_assert_eq!((header.version(), header.flow_label()), (before.version(), before.flow_label()));
        prop_assert_eq!(header.traffic_class(), class);
        header.set_flow_label(label);
        prop_assert_eq!((header.traffic_class(), header.flow_label()), (class, label & 0xf_ffff));
        header.set_ecn(3);
        header.set_dscp(class >> 2);
        prop_assert_eq!((header.dscp(), header.ecn()), (class >> 2, 3));
        header.set_hop_limit(hops);
        header.set_payload_length(length);
        header.set_next_header(next);
        header.set_source(before.destination());
        header.set_destination(before.source());
        prop_assert_eq!((header.hop_limit(), header.payload_length()), (hops, usize::from(length)));
        prop_assert_eq!((header.next_header(), header.version()), (next, before.version()));
        prop_assert_eq!((header.source(), header.destination()), (before.destination(), before.source()));
    }
}
