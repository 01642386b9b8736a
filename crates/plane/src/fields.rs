//! The fields of a frame that matches test: for the rules of paths, filters and captures.

use classifier::{KeyFields, PacketKeys};
use packet::wire::transport::has_ports;
use packet::wire::{Family, Ipv4Header, Ipv6Header, PacketFields, ethertype, ipv4, ipv6, protocol};
use plan::{MatchFields, MatchFragment};
use units::{InterfaceId, VrfId};

/// Bytes of a link header without a tag.
const ETHERNET: usize = 14;

/// Adds the key of an IP packet in an Ethernet frame to a batch, at `position`. Other frames get none. `state` is that of its connection.
#[inline]
pub(crate) fn push_key(keys: &mut PacketKeys, position: usize, frame: &[u8], state: u8, came: (InterfaceId, VrfId)) {
    if let Some((addresses, fields)) = plain_udp4(frame, state, came) {
        return keys.push4(position, addresses, &fields);
    }
    match plain4(frame, state, came) {
        Some((addresses, fields)) => keys.push4(position, addresses, &fields),
        None => {
            if let Some(fields) = match_fields(frame, state) {
                keys.push(position, &fields, came.0, came.1);
            }
        }
    }
}

/// The length of an IPv4 packet without options in a frame without a tag.
#[inline(always)]
fn plain_length(bytes: &[u8], header: &[u8; ipv4::HEADER]) -> Option<u16> {
    let length = u16::from_be_bytes([header[2], header[3]]);
    let is_plain = bytes[12..ETHERNET] == ethertype::IPV4.to_be_bytes()
        && header[0] == 0x45
        && usize::from(length) >= ipv4::HEADER
        && bytes.len() >= ETHERNET + usize::from(length);
    is_plain.then_some(length)
}

/// The addresses of an IPv4 header.
#[inline(always)]
fn addresses4(header: &[u8; ipv4::HEADER]) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    (word(12), word(16))
}

/// [`plain4`] for whole UDP packets: most fields are known without a look.
#[inline(always)]
fn plain_udp4(bytes: &[u8], state: u8, came: (InterfaceId, VrfId)) -> Option<((u32, u32), KeyFields)> {
    let header: &[u8; ipv4::HEADER] = bytes.get(ETHERNET..)?.first_chunk()?;
    let is_whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
    if header[9] != protocol::UDP || !is_whole {
        return None;
    }
    let ports: &[u8; 4] = bytes.get(ETHERNET + ipv4::HEADER..)?.first_chunk()?;
    let length = plain_length(bytes, header).filter(|length| usize::from(*length) >= ipv4::HEADER + ports.len())?;
    let fields = KeyFields {
        protocol: protocol::UDP,
        dscp: header[1] >> 2,
        ports: Some((u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]]))),
        tcp_flags: None,
        icmp_type: None,
        icmp_code: None,
        fragment: MatchFragment::Whole,
        vlan: None,
        flow_label: 0,
        length,
        state,
        interface: came.0,
        vrf: came.1,
    };
    Some((addresses4(header), fields))
}

/// Addresses and fields of an IPv4 packet without options in a frame without a tag: those of most packets, without the general parser.
#[inline(always)]
fn plain4(bytes: &[u8], state: u8, came: (InterfaceId, VrfId)) -> Option<((u32, u32), KeyFields)> {
    let header: &[u8; ipv4::HEADER] = bytes.get(ETHERNET..)?.first_chunk()?;
    let length = plain_length(bytes, header)?;
    // Flags and offset: bit 13 says that more fragments follow (RFC 791 3.1).
    let (offset, more) = (u16::from_be_bytes([header[6], header[7]]) & 0x1fff, header[6] & 0x20 != 0);
    let fragment = match (offset, more) {
        (0, false) => MatchFragment::Whole,
        (0, true) => MatchFragment::First,
        _ => MatchFragment::Later,
    };
    let upper = if offset == 0 { bytes.get(ETHERNET + ipv4::HEADER..ETHERNET + usize::from(length))? } else { &[] };
    let protocol = header[9];
    let ports = match upper.first_chunk::<4>() {
        Some(&[a, b, c, d]) if has_ports(protocol) => Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))),
        _ => None,
    };
    let icmp = if protocol == protocol::ICMP || protocol == protocol::ICMPV6 { upper } else { &[] };
    let fields = KeyFields {
        protocol,
        dscp: header[1] >> 2,
        ports,
        tcp_flags: if protocol == protocol::TCP { upper.get(TCP_FLAGS).copied() } else { None },
        icmp_type: icmp.first().copied(),
        icmp_code: icmp.get(1).copied(),
        fragment,
        vlan: None,
        flow_label: 0,
        length,
        state,
        interface: came.0,
        vrf: came.1,
    };
    Some((addresses4(header), fields))
}

/// Offset of the flags in a TCP header (RFC 9293 3.1).
const TCP_FLAGS: usize = 13;

/// The fields of an IP packet in an Ethernet frame; `None` for other frames. `state` is that of its connection, as in [`packet::Meta`].
#[inline]
pub fn match_fields(frame: &[u8], state: u8) -> Option<MatchFields> {
    let found = PacketFields::of(frame)?;
    let l3 = frame.get(found.l3_offset..)?;
    let (flow_label, length) = match found.family {
        Family::V4 => (0, Ipv4Header::of(l3)?.total_length()),
        Family::V6 => {
            let header = Ipv6Header::of(l3)?;
            (header.flow_label(), ipv6::HEADER + header.payload_length())
        }
    };
    let upper = |protocols: &[u8], offset: usize| {
        let at = found.l4_offset.filter(|_| protocols.contains(&found.protocol))? - found.l3_offset;
        // Bytes behind the IP packet are padding of the frame.
        l3.get(..length)?.get(at + offset).copied()
    };
    Some(MatchFields {
        source: found.source,
        destination: found.destination,
        protocol: found.protocol,
        dscp: found.dscp,
        sport: found.sport,
        dport: found.dport,
        tcp_flags: upper(&[protocol::TCP], TCP_FLAGS),
        // Bytes 0 and 1 of an ICMP header are the type and the code.
        icmp_type: upper(&[protocol::ICMP, protocol::ICMPV6], 0),
        icmp_code: upper(&[protocol::ICMP, protocol::ICMPV6], 1),
        fragment: match (found.fragment, found.l4_offset) {
            (false, _) => MatchFragment::Whole,
            (true, Some(_)) => MatchFragment::First,
            (true, None) => MatchFragment::Later,
        },
        vlan: found.vlan,
        flow_label,
        length: u16::try_from(length).unwrap_or(u16::MAX),
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The short way gives the same fields as the general parser, or none.
        #[test]
        fn plain_packets_have_the_same_fields_either_way(
            protocol in prop_oneof![Just(6u8), Just(17), Just(1), Just(132), any::<u8>()],
            (tos, total, fragment) in (any::<u8>(), 0u16..80, prop_oneof![3 => Just(0u16), 1 => any::<u16>()]),
            rest in proptest::collection::vec(any::<u8>(), 0..70),
            addresses: [u8; 8],
            state in 0u8..4,
        ) {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, tos];
            frame.extend(total.to_be_bytes());
            frame.extend([0, 0]);
            frame.extend(fragment.to_be_bytes());
            frame.extend([64, protocol, 0, 0]);
            frame.extend(addresses);
            frame.extend(&rest);
            let came = (InterfaceId(3), VrfId(1));
            let general = match_fields(&frame, state).map(|fields| {
                let (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) = (fields.source, fields.destination)
                else { unreachable!("it is IPv4") };
                ((source.to_bits(), destination.to_bits()), KeyFields::of(&fields, came.0, came.1))
            });
            prop_assert_eq!(plain4(&frame, state, came), general);
        }
    }
}
