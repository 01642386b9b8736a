//! Explicit congestion notification (RFC 3168) and code points (RFC 2474) of forwarded packets.

use super::{Ipv4Header, Ipv6Header};

/// Sets congestion experienced in the IP header at `l3` of `frame` and updates the IPv4 checksum. Returns false and changes nothing if the packet is
/// not ECN-capable (RFC 3168 5) or has no IP header.
pub fn set_congestion_experienced(frame: &mut [u8], l3: usize) -> bool {
    let Some(packet) = frame.get_mut(l3..) else { return false };
    match packet.first().map(|first| first >> 4) {
        Some(4) => match Ipv4Header::of_mut(packet) {
            Some(header) if header.ecn() != 0 => header.set_ecn(3),
            _ => return false,
        },
        Some(6) => match Ipv6Header::of_mut(packet) {
            Some(header) if header.ecn() != 0 => header.set_ecn(3),
            _ => return false,
        },
        _ => return false,
    }
    true
}

/// Sets the code point of the IP header at `l3` of `frame` to `dscp`, 0 to 63, and updates the IPv4 checksum. ECN stays. Frames without an IP header do
/// not change.
pub fn set_dscp(frame: &mut [u8], l3: usize, dscp: u8) {
    let Some(packet) = frame.get_mut(l3..) else { return };
    match packet.first().map(|first| first >> 4) {
        Some(4) => Ipv4Header::of_mut(packet).into_iter().for_each(|header| header.set_dscp(dscp)),
        Some(6) => Ipv6Header::of_mut(packet).into_iter().for_each(|header| header.set_dscp(dscp)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Ipv4, Ipv4Spec};

    #[test]
    fn only_ecn_capable_packets_are_marked_and_checksum_stays_valid() {
        for (ecn, marked) in [(0, false), (1, true), (2, true), (3, true)] {
            let mut frame = [0u8; 14 + 20 + 8];
            let spec = Ipv4Spec {
                type_of_service: ecn,
                identification: 0,
                dont_fragment: true,
                ttl: 64,
                protocol: 17,
                source: [192, 0, 2, 1].into(),
                destination: [198, 51, 100, 1].into(),
            };
            spec.write(&mut frame[14..], 8).unwrap();
            assert_eq!(set_congestion_experienced(&mut frame, 14), marked);
            let header = Ipv4::parse(&frame[14..]).unwrap().header;
            assert_eq!(header.ecn(), if marked { 3 } else { 0 });
        }
        assert!(!set_congestion_experienced(&mut [0x45; 10], 0));
        assert!(!set_congestion_experienced(&mut [], 7));
    }
}
