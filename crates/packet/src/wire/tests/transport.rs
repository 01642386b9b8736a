use super::frames::{self, Upper, packet4, packet6};
use crate::wire::transport::{
    TransportError, complete_checksum, complete_partial_checksum, find_checksummed, ports, transport_checksum,
    verify_checksum,
};
use crate::wire::{Ipv4Header, Ipv6Header, protocol};
use etherparse::{SlicedPacket, TransportSlice};
use proptest::prelude::*;

#[test]
fn ports_are_read_only_if_present() {
    assert_eq!(ports(protocol::UDP, &[0x13, 0xc4, 0, 53, 0]), Some((5060, 53)));
    assert_eq!(ports(protocol::SCTP, &[0, 1, 0, 2]), Some((1, 2)));
    assert_eq!(ports(protocol::TCP, &[0x13, 0xc4, 0]), None);
    assert_eq!(ports(protocol::ICMP, &[8, 0, 0, 0]), None);
}

#[test]
fn a_udp_sum_of_zero_is_sent_as_all_ones() {
    for mut packet in [
        packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 2), &[0, 0]),
        packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), &[0, 0]),
    ] {
        let udp = packet.len() - 10;
        complete_checksum(&mut packet).unwrap();
        // Move the whole sum into the payload, so that the rest is zero.
        let sum = [packet[udp + 6], packet[udp + 7]];
        packet[udp + 8..].copy_from_slice(&sum);
        complete_checksum(&mut packet).unwrap();
        assert_eq!(packet[udp + 6..udp + 8], [0xff, 0xff]);
        assert_eq!(verify_checksum(&packet), Ok(Some(true)));
    }
}

#[test]
fn udp_without_a_sum_is_accepted_over_ipv4_only() {
    let mut four = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 2), b"data");
    four[26..28].fill(0);
    assert_eq!(verify_checksum(&four), Ok(None));
    let mut six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"data");
    six[46..48].fill(0);
    assert_eq!(verify_checksum(&six), Ok(Some(false)));
}

#[test]
fn fragments_and_other_protocols_stay_as_they_are() {
    let mut first = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 2), b"data");
    first[26..28].copy_from_slice(&[0xde, 0xad]);
    let mut later = first.clone();
    Ipv4Header::of_mut(&mut first).unwrap().set_fragment(false, true, 0);
    Ipv4Header::of_mut(&mut later).unwrap().set_fragment(false, false, 64);
    let mut ping = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Echo(1, 2), b"data");
    ping[22] ^= 0xff;
    let mut six = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"data");
    six.splice(40..40, [protocol::UDP, 0, 0, 1, 0, 0, 0, 1]);
    let header = Ipv6Header::of_mut(&mut six).unwrap();
    header.set_next_header(protocol::FRAGMENT);
    header.set_payload_length(20);
    for mut packet in [first, later, ping, six] {
        let before = packet.clone();
        assert_eq!(complete_checksum(&mut packet), Ok(()));
        assert_eq!(packet, before);
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let good = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 2), b"data");
    for length in [0, 7, 13, 0xffff_u16] {
        let mut packet = good.clone();
        packet[24..26].copy_from_slice(&length.to_be_bytes());
        assert_eq!(complete_checksum(&mut packet), Err(TransportError::Truncated), "UDP length {length}");
    }
    let mut tcp = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Tcp(1, 2, 3), b"");
    Ipv4Header::of_mut(&mut tcp).unwrap().set_total_length(39);
    assert_eq!(complete_checksum(&mut tcp), Err(TransportError::Truncated));
    assert_eq!(complete_checksum(&mut []), Err(TransportError::NotIp));
    assert_eq!(complete_checksum(&mut [0x50; 60]), Err(TransportError::NotIp));
}

#[test]
fn the_sum_covers_the_udp_length_and_not_what_follows() {
    let mut packet = packet4([192, 0, 2, 1], [192, 0, 2, 2], Upper::Udp(1, 2), b"data, then more");
    packet[24..26].copy_from_slice(&12u16.to_be_bytes());
    let found = find_checksummed(&packet).unwrap().unwrap();
    assert_eq!(found.range, 20..32);
    complete_checksum(&mut packet).unwrap();
    packet[33] ^= 0xff;
    assert_eq!(verify_checksum(&packet), Ok(Some(true)));
}

#[test]
fn unfinished_source_route_is_rejected() {
    let mut packet = packet6("2001:db8::1", "2001:db8::2", Upper::Udp(1, 2), b"data");
    packet.splice(40..40, [protocol::UDP, 0, 4, 1, 0, 0, 0, 0]);
    let header = Ipv6Header::of_mut(&mut packet).unwrap();
    header.set_next_header(protocol::ROUTING);
    header.set_payload_length(20);
    assert_eq!(complete_checksum(&mut packet), Err(TransportError::SourceRouted));
}

/// The checksum that etherparse computes for the parsed packet.
fn by_etherparse(l3: &[u8]) -> Option<u16> {
    let sliced = SlicedPacket::from_ip(l3).unwrap();
    let net = sliced.net.unwrap();
    Some(match (sliced.transport.unwrap(), net) {
        (TransportSlice::Udp(udp), etherparse::NetSlice::Ipv4(ip)) => {
            udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap()
        }
        (TransportSlice::Udp(udp), etherparse::NetSlice::Ipv6(ip)) => {
            udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap()
        }
        (TransportSlice::Tcp(tcp), etherparse::NetSlice::Ipv4(ip)) => {
            tcp.to_header().calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap()
        }
        (TransportSlice::Tcp(tcp), etherparse::NetSlice::Ipv6(ip)) => {
            tcp.to_header().calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap()
        }
        _ => return None,
    })
}

proptest! {
    #[test]
    fn completed_checksum_equals_the_original(made in frames::any_frame(), junk: u16, padding in 0usize..20) {
        let mut packet = made.l3().to_vec();
        let before = packet.clone();
        prop_assert_eq!(verify_checksum(&packet).unwrap().unwrap_or(true), true);
        let Some(found) = find_checksummed(&packet).unwrap() else {
            prop_assert!(matches!(made.upper, Upper::Echo(..)));
            return Ok(());
        };
        let at = found.range.start + match found.protocol {
            protocol::TCP => 16,
            protocol::UDP => 6,
            _ => 2,
        };
        packet[at..at + 2].copy_from_slice(&junk.to_be_bytes());
        packet.resize(before.len() + padding, 0xee);
        complete_checksum(&mut packet).unwrap();
        prop_assert_eq!(&packet[..before.len()], &before[..]);
        if let Some(theirs) = by_etherparse(&before) {
            prop_assert_eq!(u16::from_be_bytes([packet[at], packet[at + 1]]), theirs);
        }
    }

    #[test]
    fn only_a_partial_checksum_is_completed(made in frames::any_frame()) {
        let whole = made.l3().to_vec();
        let mut packet = whole.clone();
        complete_partial_checksum(&mut packet);
        prop_assert_eq!(&packet, &whole);
        let Some(found) = find_checksummed(&whole).unwrap() else { return Ok(()) };
        let at = found.range.start + match found.protocol {
            protocol::TCP => 16,
            protocol::UDP => 6,
            _ => 2,
        };
        // The pseudo-header's sum alone: the complemented checksum of as many zeros.
        let zeros = vec![0; found.range.len()];
        let partial = !transport_checksum(found.source, found.destination, found.protocol, &zeros);
        packet[at..at + 2].copy_from_slice(&partial.to_be_bytes());
        prop_assert!(complete_partial_checksum(&mut packet));
        prop_assert_eq!(&packet, &whole);
        // Finding a wrong checksum is the receiver's task.
        packet[at] ^= 0x55;
        let wrong = packet.clone();
        prop_assume!(wrong[at..at + 2] != partial.to_be_bytes());
        prop_assert!(!complete_partial_checksum(&mut packet));
        prop_assert_eq!(packet, wrong);
    }

    #[test]
    fn flipped_bit_fails_checksum_verification(made in frames::any_frame(), bit in any::<prop::sample::Index>()) {
        let mut packet = made.l3().to_vec();
        if let Some(found) = find_checksummed(&packet).unwrap() {
            // Ports and payload, without the UDP length, which changes the end.
            let first = if found.protocol == protocol::UDP { 8 } else { 0 };
            let bits = (found.range.len() - first) * 8;
            prop_assume!(bits > 0);
            let bit = bit.index(bits);
            packet[found.range.start + first + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(verify_checksum(&packet), Ok(Some(false)));
        }
    }
}
