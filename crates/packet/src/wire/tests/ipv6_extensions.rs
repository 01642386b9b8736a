use super::frames::{self, Upper};
use crate::wire::ipv6::HEADER;
use crate::wire::ipv6_extensions::{HopByHop, LONGEST_CHAIN, check_hop_by_hop};
use crate::wire::{Chain, ChainError, Ipv6, Ipv6Spec, protocol};
use etherparse::SlicedPacket;
use proptest::prelude::*;
use std::net::Ipv6Addr;

/// A packet whose payload begins with the header `first`.
fn packet(first: u8, payload: &[u8]) -> Vec<u8> {
    let spec = Ipv6Spec {
        traffic_class: 0,
        flow_label: 0,
        next_header: first,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
    };
    let mut bytes = vec![0; HEADER];
    spec.write(&mut bytes, payload.len()).unwrap();
    bytes.extend(payload);
    bytes
}

fn chain(bytes: &[u8]) -> Result<Chain, ChainError> {
    Ipv6::parse(bytes).unwrap().chain()
}

#[test]
fn upper_layer_is_found_after_every_extension_header() {
    let bytes = packet(
        protocol::HOP_BY_HOP,
        &[
            &[60, 0, 1, 4, 0, 0, 0, 0][..], // hop-by-hop, then destination options
            &[43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // destination options, then routing
            &[44, 0, 4, 1, 0, 0, 0, 0],     // routing type 4 with a segment left, then fragment
            &[51, 0, 0, 1, 0xde, 0xad, 0xbe, 0xef], // first fragment, then authentication
            &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // authentication of 12 bytes, then UDP
            &[0, 1, 0, 2, 0, 8, 0, 0],
        ]
        .concat(),
    );
    let chain = chain(&bytes).unwrap();
    assert_eq!((chain.protocol, chain.offset, chain.named_at), (17, Some(92), 80));
    assert!(chain.hop_by_hop);
    assert_eq!(chain.routing.map(|r| (r.at, r.kind, r.segments_left)), Some((64, 4, 1)));
    assert_eq!(chain.deprecated_routing(), None);
    let fragment = chain.fragment.unwrap();
    assert_eq!((fragment.at, fragment.offset, fragment.more, fragment.identification), (72, 0, true, 0xdead_beef));
    assert!(chain.is_fragment());
}

#[test]
fn a_later_fragment_has_no_upper_layer() {
    // Offset 185 units of eight: the following bytes look like headers but are payload.
    let bytes = packet(protocol::FRAGMENT, &[60, 0, 0x05, 0xc8, 0, 0, 0, 1, 60, 255]);
    let chain = chain(&bytes).unwrap();
    assert_eq!((chain.protocol, chain.offset), (60, None));
    assert_eq!(chain.fragment.map(|f| (f.offset, f.more)), Some((1480, false)));
    assert_eq!(Ipv6::parse(&bytes).unwrap().upper(), Ok(None));
}

#[test]
fn an_atomic_fragment_is_whole() {
    let bytes = packet(protocol::FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2, 0, 8, 0, 0]);
    let chain = chain(&bytes).unwrap();
    assert_eq!((chain.is_fragment(), chain.offset), (false, Some(48)));
}

#[test]
fn type_0_routing_with_segments_left_is_deprecated() {
    let routing = |kind, left| packet(protocol::ROUTING, &[17, 0, kind, left, 0, 0, 0, 0]);
    assert_eq!(chain(&routing(0, 1)).unwrap().deprecated_routing().map(|r| r.at), Some(40));
    assert_eq!(chain(&routing(0, 0)).unwrap().deprecated_routing(), None);
    assert_eq!(chain(&routing(2, 1)).unwrap().deprecated_routing(), None);
}

#[test]
fn a_deprecated_routing_header_cannot_hide_behind_another() {
    for order in [[2, 0], [0, 2]] {
        let [first, second] = order;
        let bytes = packet(protocol::ROUTING, &[43, 0, first, 1, 0, 0, 0, 0, 17, 0, second, 1, 0, 0, 0, 0]);
        assert!(chain(&bytes).unwrap().deprecated_routing().is_some(), "{order:?}");
    }
}

#[test]
fn invalid_extension_chain_reports_its_offset() {
    let cut = packet(protocol::DESTINATION_OPTIONS, &[17, 1, 1, 12, 0, 0, 0, 0, 0, 0]);
    assert_eq!(chain(&cut), Err(ChainError::Truncated { at: 40 }));
    assert_eq!(chain(&packet(protocol::FRAGMENT, &[17, 0, 0])), Err(ChainError::Truncated { at: 40 }));
    let late = packet(protocol::DESTINATION_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(chain(&late), Err(ChainError::MisplacedHopByHop { pointer: 40 }));
}

#[test]
fn extension_chain_length_is_limited() {
    let headers = |count: usize| {
        let mut payload = [60, 0, 1, 4, 0, 0, 0, 0].repeat(count);
        let last = payload.len() - 8;
        payload[last] = 59;
        packet(protocol::DESTINATION_OPTIONS, &payload)
    };
    assert_eq!(chain(&headers(LONGEST_CHAIN)).unwrap().offset, Some(40 + 8 * LONGEST_CHAIN));
    assert_eq!(chain(&headers(LONGEST_CHAIN + 1)), Err(ChainError::TooLong));
}

#[test]
fn hop_by_hop_options_act_as_in_rfc_8200() {
    let report = |even_multicast| HopByHop::Report { pointer: 44, even_multicast };
    for (name, options, expected) in [
        ("padding", [1, 4, 0, 0, 0, 0], HopByHop::Forward { router_alert: None }),
        ("single padding", [0, 0, 0, 0, 0, 0], HopByHop::Forward { router_alert: None }),
        ("router alert", [5, 2, 0, 0, 1, 0], HopByHop::Forward { router_alert: Some(0) }),
        ("long router alert", [5, 3, 0, 0, 0, 0], HopByHop::Discard),
        ("unknown, skip", [0, 0, 0x1e, 2, 9, 9], HopByHop::Forward { router_alert: None }),
        ("unknown, discard", [0, 0, 0x5e, 2, 9, 9], HopByHop::Discard),
        ("unknown, report", [0, 0, 0x9e, 2, 9, 9], report(true)),
        ("unknown, report unicast", [0, 0, 0xde, 2, 9, 9], report(false)),
        ("beyond the header", [0, 0, 0x1e, 3, 9, 9], HopByHop::Discard),
    ] {
        let bytes = packet(protocol::HOP_BY_HOP, &[&[59, 0], &options[..]].concat());
        let options = Ipv6::parse(&bytes).unwrap().hop_by_hop().unwrap().unwrap();
        assert_eq!(check_hop_by_hop(options), expected, "{name}");
    }
    let none = packet(protocol::UDP, &[0; 8]);
    assert!(Ipv6::parse(&none).unwrap().hop_by_hop().unwrap().is_none());
    let cut = packet(protocol::HOP_BY_HOP, &[59, 1, 1, 4, 0, 0, 0, 0]);
    assert_eq!(Ipv6::parse(&cut).unwrap().hop_by_hop().map(|_| ()), Err(ChainError::Truncated { at: 40 }));
}

proptest! {
    #[test]
    fn etherparse_finds_the_same_upper_layer(made in (frames::ip6(), frames::upper())
        .prop_map(|(ip, upper)| frames::make(None, ip, upper, b"data")))
    {
        let packet = Ipv6::parse(made.l3()).unwrap();
        let (protocol, upper) = packet.upper().unwrap().unwrap();
        let etherparse::IpHeaders::Ipv6(_, said) = &made.ip else { unreachable!("made of IPv6") };
        let chain = packet.chain().unwrap();
        prop_assert_eq!(chain.hop_by_hop, said.hop_by_hop_options.is_some());
        prop_assert_eq!(chain.routing.is_some(), said.routing.is_some());
        prop_assert_eq!(chain.fragment.map(|f| f.identification), said.fragment.as_ref().map(|f| f.identification));
        let sliced = SlicedPacket::from_ethernet(&made.bytes).unwrap();
        let net = sliced.net.unwrap();
        let theirs = net.ip_payload_ref().unwrap();
        prop_assert_eq!((protocol, upper), (theirs.ip_number.0, theirs.payload));
        let expected = match made.upper {
            Upper::Udp(..) => protocol::UDP,
            Upper::Tcp(..) => protocol::TCP,
            Upper::Echo(..) => protocol::ICMPV6,
        };
        prop_assert_eq!(protocol, expected);
    }
}
