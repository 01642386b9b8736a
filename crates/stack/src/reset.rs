//! The reset for a TCP segment without a connection (RFC 9293 3.10.7.1).

use packet::wire::ipv4::HEADER as HEADER4;
use packet::wire::ipv6::HEADER as HEADER6;
use packet::wire::transport::{TCP_HEADER, seal};
use packet::wire::{Ipv4, Ipv4Spec, Ipv6, Ipv6Spec, protocol};
use std::net::IpAddr;

/// Bytes of the longest reset, IP header included.
pub(super) const LONGEST: usize = HEADER6 + TCP_HEADER;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// The ECN bits of the type of service and traffic class, which are cleared in a reset (RFC 3168 6.1.1).
const ECN: u8 = 3;

/// Writes the packet that resets the segment in `l3` and returns its length. None if that is a reset itself or not a segment.
pub(super) fn write(buffer: &mut [u8], l3: &[u8], hops: u8) -> Option<usize> {
    if l3.first()? >> 4 == 4 {
        let ip = Ipv4::parse_without_checksum(l3).ok()?;
        let (source, destination) = (ip.header.destination(), ip.header.source());
        let spec = Ipv4Spec {
            type_of_service: ip.header.type_of_service() & !ECN,
            identification: 0,
            dont_fragment: true,
            ttl: hops,
            protocol: protocol::TCP,
            source,
            destination,
        };
        spec.write(buffer, TCP_HEADER)?;
        segment(buffer.get_mut(HEADER4..)?, ip.payload, source.into(), destination.into())?;
        Some(HEADER4 + TCP_HEADER)
    } else {
        let ip = Ipv6::parse(l3).ok()?;
        let (source, destination) = (ip.header.destination(), ip.header.source());
        let spec = Ipv6Spec {
            traffic_class: ip.header.traffic_class() & !ECN,
            flow_label: 0,
            next_header: protocol::TCP,
            hop_limit: hops,
            source,
            destination,
        };
        let (_, received) = ip.upper().ok()??;
        spec.write(buffer, TCP_HEADER)?;
        segment(buffer.get_mut(HEADER6..)?, received, source.into(), destination.into())?;
        Some(HEADER6 + TCP_HEADER)
    }
}

/// Writes the segment. Its sequence number is the acknowledgement number of the received one. Without an acknowledgement it is zero, and the reset
/// acknowledges the whole segment.
fn segment(buffer: &mut [u8], received: &[u8], source: IpAddr, destination: IpAddr) -> Option<()> {
    let &[s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, ..] = received.first_chunk::<TCP_HEADER>()?;
    if flags & RST != 0 || usize::from(offset >> 4) * 4 < TCP_HEADER {
        return None;
    }
    let data = received.len().checked_sub(usize::from(offset >> 4) * 4)?;
    // SYN and FIN count as one in sequence space each.
    let length = u32::try_from(data).ok()? + u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
    let (sequence, acknowledged, flags) = if flags & ACK != 0 {
        ([a0, a1, a2, a3], [0; 4], RST)
    } else {
        let next = u32::from_be_bytes([q0, q1, q2, q3]).wrapping_add(length);
        ([0; 4], next.to_be_bytes(), RST | ACK)
    };
    let segment = buffer.get_mut(..TCP_HEADER)?;
    segment.fill(0);
    segment[..4].copy_from_slice(&[d0, d1, s0, s1]);
    segment[4..8].copy_from_slice(&sequence);
    segment[8..12].copy_from_slice(&acknowledged);
    segment[12..14].copy_from_slice(&[(TCP_HEADER / 4) as u8 * 16, flags]);
    seal(source, destination, protocol::TCP, segment).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::transport::verify_checksum;

    /// An IPv4 packet with a segment of these flags and three bytes of data.
    fn segment_with(flags: u8) -> Vec<u8> {
        let spec = Ipv4Spec {
            type_of_service: 0xbb,
            identification: 1,
            dont_fragment: false,
            ttl: 9,
            protocol: protocol::TCP,
            source: [10, 0, 1, 2].into(),
            destination: [10, 0, 1, 1].into(),
        };
        let mut bytes = vec![0; HEADER4];
        spec.write(&mut bytes, TCP_HEADER + 3).unwrap();
        bytes.extend_from_slice(&[3, 232, 17, 92, 0, 0, 3, 232, 0, 0, 3, 9, 0x50, flags, 2, 0, 0, 0, 0, 0, 1, 2, 3]);
        bytes
    }

    #[test]
    fn resets_are_those_of_the_table_in_rfc_9293() {
        // flags -> sequence number, acknowledgment number, flags
        for (flags, expected) in [
            (SYN, Some((0, 1004, RST | ACK))),
            (SYN | FIN, Some((0, 1005, RST | ACK))),
            (0, Some((0, 1003, RST | ACK))),
            (ACK, Some((777, 0, RST))),
            (SYN | ACK, Some((777, 0, RST))),
            (RST, None),
            (RST | ACK, None),
        ] {
            let mut buffer = [0; LONGEST];
            let length = write(&mut buffer, &segment_with(flags), 64);
            let reset = length.map(|length| {
                assert_eq!(verify_checksum(&buffer[..length]), Ok(Some(true)));
                let ip = Ipv4::parse(&buffer[..length]).unwrap();
                assert_eq!((ip.header.type_of_service(), ip.header.dont_fragment()), (0xb8, true));
                let word = |at: usize| u32::from_be_bytes(ip.payload[at..at + 4].try_into().unwrap());
                assert_eq!(ip.payload[..4], [17, 92, 3, 232]);
                (word(4), word(8), ip.payload[13])
            });
            assert_eq!(reset, expected, "flags {flags:#x}");
        }
    }

    #[test]
    fn truncated_or_inconsistent_segment_is_not_answered() {
        let whole = segment_with(SYN);
        for length in 0..HEADER4 + TCP_HEADER {
            let mut bytes = whole[..length].to_vec();
            if length >= 4 {
                bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            }
            assert_eq!(write(&mut [0; LONGEST], &bytes, 64), None, "{length} bytes");
        }
        let mut lying = whole;
        lying[HEADER4 + 12] = 0xf0;
        assert_eq!(write(&mut [0; LONGEST], &lying, 64), None);
    }
}
