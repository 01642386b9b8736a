//! The fields of a frame that matches test: for the rules of paths, filters and captures.

use packet::wire::{Family, Ipv4Header, Ipv6Header, PacketFields, ipv6, protocol};
use plan::{Fragment, MatchFields};

/// The fields of an IP packet in an Ethernet frame; `None` for other frames. `state` is that of its connection, as in [`packet::Meta`].
#[inline]
pub fn match_fields(frame: &[u8], state: u8) -> Option<MatchFields> {
    let found = PacketFields::of(frame)?;
    let l3 = frame.get(found.l3_offset..)?;
    let upper = |protocols: &[u8], offset: usize| {
        let at = found.l4_offset.filter(|_| protocols.contains(&found.protocol))?;
        frame.get(at + offset).copied()
    };
    let (flow_label, length) = match found.family {
        Family::V4 => (0, Ipv4Header::of(l3)?.total_length()),
        Family::V6 => {
            let header = Ipv6Header::of(l3)?;
            (header.flow_label(), ipv6::HEADER + header.payload_length())
        }
    };
    Some(MatchFields {
        source: found.source,
        destination: found.destination,
        protocol: found.protocol,
        dscp: found.dscp,
        sport: found.sport,
        dport: found.dport,
        // Byte 13 of a TCP header has the flags (RFC 9293 3.1), bytes 0 and 1 of an ICMP header the type and the code.
        tcp_flags: upper(&[protocol::TCP], 13),
        icmp_type: upper(&[protocol::ICMP, protocol::ICMPV6], 0),
        icmp_code: upper(&[protocol::ICMP, protocol::ICMPV6], 1),
        fragment: match (found.fragment, found.l4_offset) {
            (false, _) => Fragment::Whole,
            (true, Some(_)) => Fragment::First,
            (true, None) => Fragment::Later,
        },
        vlan: found.vlan,
        flow_label,
        length: u16::try_from(length).unwrap_or(u16::MAX),
        state,
    })
}
