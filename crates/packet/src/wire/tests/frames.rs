//! Valid frames made by etherparse: random ones for property tests, plain ones for other tests.

use crate::wire::{Mac, ethernet};
use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv4Options, Ipv6Extensions, Ipv6FlowLabel,
    Ipv6FragmentHeader, Ipv6Header, Ipv6RawExtHeader, Ipv6RoutingExtensions, PacketBuilder, PacketBuilderStep, VlanId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(super) const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(super) const PEER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// The upper layer of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) enum Upper {
    Udp(u16, u16),
    Tcp(u16, u16, u32),
    Echo(u16, u16),
}

/// A frame and its components.
#[derive(Clone, Debug)]
pub(super) struct GeneratedFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) vlan: Option<u16>,
    pub(super) ip: IpHeaders,
    pub(super) upper: Upper,
}

pub(super) fn upper() -> impl Strategy<Value = Upper> {
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(source, destination)| Upper::Udp(source, destination)),
        any::<(u16, u16, u32)>().prop_map(|(source, destination, seq)| Upper::Tcp(source, destination, seq)),
        any::<(u16, u16)>().prop_map(|(id, seq)| Upper::Echo(id, seq)),
    ]
}

prop_compose! {
    /// IPv4 headers of whole packets, with options that are all no-operations.
    pub(super) fn ip4()(
        dscp_ecn: u8,
        identification: u16,
        dont_fragment: bool,
        time_to_live: u8,
        source: [u8; 4],
        destination: [u8; 4],
        words in 0usize..11,
    ) -> IpHeaders {
        let options = Ipv4Options::try_from(vec![1u8; words * 4].as_slice()).unwrap();
        let header = Ipv4Header {
            dscp: (dscp_ecn >> 2).try_into().unwrap(),
            ecn: (dscp_ecn & 3).try_into().unwrap(),
            identification,
            dont_fragment,
            more_fragments: false,
            fragment_offset: IpFragOffset::ZERO,
            time_to_live,
            source,
            destination,
            options,
            ..Default::default()
        };
        IpHeaders::Ipv4(header, Ipv4Extensions::default())
    }
}

fn raw_extension() -> impl Strategy<Value = Ipv6RawExtHeader> {
    // The payload of an extension header of n * 8 bytes is 6 bytes and n - 1 units: here one PadN.
    (0u8..4).prop_map(|units| {
        let mut payload = vec![0u8; 6 + usize::from(units) * 8];
        payload[0] = 1;
        payload[1] = 4 + units * 8;
        Ipv6RawExtHeader::new_raw(IpNumber::UDP, &payload).unwrap()
    })
}

prop_compose! {
    /// IPv6 headers of whole packets with any of the extension headers.
    pub(super) fn ip6()(
        traffic_class: u8,
        flow in 0u32..1 << 20,
        hop_limit: u8,
        source: [u8; 16],
        destination: [u8; 16],
        hop_by_hop_options in option::of(raw_extension()),
        destination_options in option::of(raw_extension()),
        routing in option::of(raw_extension()),
        atomic in option::of(any::<u32>()),
    ) -> IpHeaders {
        let header = Ipv6Header {
            traffic_class,
            flow_label: Ipv6FlowLabel::try_new(flow).unwrap(),
            hop_limit,
            source,
            destination,
            ..Default::default()
        };
        let extensions = Ipv6Extensions {
            hop_by_hop_options,
            destination_options,
            // Type 1, no segments left: payload byte 1 of PadN is 4 or more; clear it.
            routing: routing.map(|routing| {
                let mut payload = routing.payload().to_vec();
                payload[1] = 0;
                let routing = Ipv6RawExtHeader::new_raw(IpNumber::UDP, &payload).unwrap();
                Ipv6RoutingExtensions { routing, final_destination_options: None }
            }),
            fragment: atomic.map(|id| Ipv6FragmentHeader::new(IpNumber::UDP, IpFragOffset::ZERO, false, id)),
            auth: None,
        };
        IpHeaders::Ipv6(header, extensions)
    }
}

fn finish(builder: PacketBuilderStep<IpHeaders>, four: bool, upper: Upper, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match upper {
        Upper::Udp(source, destination) => builder.udp(source, destination).write(&mut bytes, payload),
        Upper::Tcp(source, destination, seq) => builder.tcp(source, destination, seq, 100).write(&mut bytes, payload),
        Upper::Echo(id, seq) if four => builder.icmpv4_echo_request(id, seq).write(&mut bytes, payload),
        Upper::Echo(id, seq) => builder.icmpv6_echo_request(id, seq).write(&mut bytes, payload),
    }
    .unwrap();
    bytes
}

/// The frame of `ip` and `upper`, including checksums.
pub(super) fn make(vlan: Option<u16>, ip: IpHeaders, upper: Upper, payload: &[u8]) -> GeneratedFrame {
    let four = matches!(ip, IpHeaders::Ipv4(..));
    let link = PacketBuilder::ethernet2(PEER.0, MAC.0);
    let bytes = match vlan {
        None => finish(link.ip(ip.clone()), four, upper, payload),
        Some(id) => finish(link.single_vlan(VlanId::try_new(id).unwrap()).ip(ip.clone()), four, upper, payload),
    };
    GeneratedFrame { bytes, vlan, ip, upper }
}

/// A frame with any whole packet.
pub(super) fn any_frame() -> impl Strategy<Value = GeneratedFrame> {
    (option::of(0u16..4096), prop_oneof![ip4(), ip6()], upper(), vec(any::<u8>(), 0..120))
        .prop_map(|(vlan, ip, upper, payload)| make(vlan, ip, upper, &payload))
}

impl GeneratedFrame {
    /// The packet without its Ethernet header.
    pub(super) fn l3(&self) -> &[u8] {
        &self.bytes[ethernet::header_length(self.vlan)..]
    }
}

/// A plain IPv4 packet.
pub(super) fn packet4(source: [u8; 4], destination: [u8; 4], upper: Upper, payload: &[u8]) -> Vec<u8> {
    let header = Ipv4Header { source, destination, time_to_live: 64, ..Default::default() };
    make(None, IpHeaders::Ipv4(header, Default::default()), upper, payload).l3().to_vec()
}

/// A plain IPv6 packet.
pub(super) fn packet6(source: &str, destination: &str, upper: Upper, payload: &[u8]) -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let (source, destination) = (octets(source), octets(destination));
    let header = Ipv6Header { source, destination, hop_limit: 64, ..Default::default() };
    make(None, IpHeaders::Ipv6(header, Default::default()), upper, payload).l3().to_vec()
}

/// Recomputes the header checksum of an IPv4 packet.
pub(super) fn resum4(l3: &mut [u8]) {
    let length = usize::from(l3[0] & 15) * 4;
    l3[10..12].fill(0);
    let total: u32 = l3[..length].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = (total & 0xffff) + (total >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    l3[10..12].copy_from_slice(&(!folded as u16).to_be_bytes());
}
