use super::frames::{self, Upper};
use crate::wire::{Ethernet, Family, Ipv4Header, PacketFields, ethernet, ethertype, flow_hash, protocol};
use etherparse::IpHeaders;
use proptest::prelude::*;
use std::collections::HashSet;

/// A plain UDP frame over IPv4.
fn frame4(source: [u8; 4], destination: [u8; 4], sport: u16, dport: u16) -> Vec<u8> {
    let header = etherparse::Ipv4Header { source, destination, time_to_live: 64, ..Default::default() };
    frames::make(None, IpHeaders::Ipv4(header, Default::default()), Upper::Udp(sport, dport), b"data").bytes
}

fn frame6(source: [u8; 16], destination: [u8; 16], sport: u16, dport: u16) -> Vec<u8> {
    let header = etherparse::Ipv6Header { source, destination, hop_limit: 64, ..Default::default() };
    frames::make(None, IpHeaders::Ipv6(header, Default::default()), Upper::Udp(sport, dport), b"data").bytes
}

#[test]
fn other_frames_have_no_fields() {
    let good = frame4([192, 0, 2, 1], [192, 0, 2, 2], 1, 2);
    assert!(PacketFields::of(&good).is_some());
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut frame = good.clone();
        change(&mut frame);
        PacketFields::of(&frame)
    };
    assert_eq!(changed(|f| f.truncate(13)), None, "no header");
    assert_eq!(changed(|f| f.truncate(40)), None, "cut packet");
    assert_eq!(changed(|f| f[12..14].copy_from_slice(&ethertype::ARP.to_be_bytes())), None, "ARP");
    assert_eq!(changed(|f| f[12..14].copy_from_slice(&ethertype::IPV6.to_be_bytes())), None, "no IPv6");
    assert_eq!(changed(|f| f[12..14].copy_from_slice(&[0, 46])), None, "802.3");
    assert!(changed(|f| f[24] ^= 0xff).is_some(), "the checksum is not looked at");
    let two_tags = changed(|f| drop(f.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2])));
    assert_eq!(two_tags, None, "two tags");
}

#[test]
fn only_first_fragment_has_ports() {
    let mut frame = frame4([192, 0, 2, 1], [192, 0, 2, 2], 1, 2);
    let l3 = ethernet::HEADER;
    Ipv4Header::of_mut(&mut frame[l3..]).unwrap().set_fragment(false, true, 0);
    let first = PacketFields::of(&frame).unwrap();
    assert_eq!((first.fragment, first.sport, first.dport, first.l4_offset), (true, Some(1), Some(2), Some(34)));
    let hash = flow_hash(&frame, l3, 7);
    Ipv4Header::of_mut(&mut frame[l3..]).unwrap().set_fragment(false, false, 1480);
    let later = PacketFields::of(&frame).unwrap();
    assert_eq!((later.fragment, later.sport, later.dport, later.l4_offset), (true, None, None, None));
    assert_eq!(flow_hash(&frame, l3, 7), hash, "fragments of a packet hash alike");
}

#[test]
fn ipv6_fragments_of_a_packet_hash_alike() {
    let mut frame = frame6([1; 16], [2; 16], 1, 2);
    frame.splice(54..54, [protocol::UDP, 0, 0, 1, 0, 0, 0, 1]);
    frame[20] = protocol::FRAGMENT;
    frame[19] += 8;
    let first = PacketFields::of(&frame).unwrap();
    assert_eq!((first.protocol, first.fragment, first.sport), (protocol::UDP, true, Some(1)));
    let hash = flow_hash(&frame, 14, 7);
    frame[56..58].copy_from_slice(&[0x05, 0xc8]);
    let later = PacketFields::of(&frame).unwrap();
    assert_eq!((later.protocol, later.fragment, later.sport, later.l4_offset), (protocol::UDP, true, None, None));
    assert_eq!(flow_hash(&frame, 14, 7), hash);
}

/// Over many flows, each flipped input bit flips every output bit about half the time.
fn avalanche(frames: impl Iterator<Item = Vec<u8>>, bytes: &[std::ops::Range<usize>]) {
    let (mut flips, mut trials) = ([0u32; 32], 0u32);
    let mut worst = (1.0f64, 0.0f64);
    let mut per_input = std::collections::HashMap::new();
    for (key, mut frame) in (0u64..).zip(frames) {
        let key = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let before = flow_hash(&frame, 14, key);
        for at in bytes.iter().cloned().flatten() {
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                let changed = before ^ flow_hash(&frame, 14, key);
                frame[at] ^= 1 << bit;
                trials += 1;
                let entry: &mut (u32, u32) = per_input.entry((at, bit)).or_default();
                *entry = (entry.0 + changed.count_ones(), entry.1 + 32);
                for (out, count) in flips.iter_mut().enumerate() {
                    *count += changed >> out & 1;
                }
            }
        }
    }
    for (out, count) in flips.iter().enumerate() {
        let share = f64::from(*count) / f64::from(trials);
        assert!((0.49..0.51).contains(&share), "output bit {out} flips with {share}");
    }
    for (input, (flipped, of)) in per_input {
        let share = f64::from(flipped) / f64::from(of);
        worst = (worst.0.min(share), worst.1.max(share));
        assert!((0.47..0.53).contains(&share), "input bit {input:?} flips a share of {share}");
    }
}

#[test]
fn every_bit_of_the_five_tuple_changes_half_the_hash() {
    let four = (0..400u16).map(|i| frame4([10, 0, (i >> 8) as u8, i as u8], [192, 0, 2, 2], 1024 + i, 80));
    avalanche(four, &[26..34, 34..38]);
    let six = (0..200u16).map(|i| {
        let mut source = [0; 16];
        source[14..].copy_from_slice(&i.to_be_bytes());
        frame6(source, [2; 16], 1024 + i, 80)
    });
    avalanche(six, &[22..54, 54..58]);
}

#[test]
fn similar_flows_spread_evenly_over_buckets() {
    for key in [0, 1, 0xdead_beef] {
        let mut buckets = [0u32; 256];
        let mut seen = HashSet::new();
        for host in 0..64u8 {
            for port in 0..256u16 {
                let hash = flow_hash(&frame4([10, 0, 0, host], [10, 0, 1, 1], port, 80), 14, key);
                seen.insert(hash);
                buckets[(hash & 255) as usize] += 1;
            }
        }
        assert!(seen.len() >= 16_380, "{} of 16384 differ", seen.len());
        // 64 expected in each; a chi-square of 255 degrees of freedom exceeds 350 only once in 10^4.
        let chi: f64 = buckets.iter().map(|&n| (f64::from(n) - 64.0).powi(2) / 64.0).sum();
        assert!(chi < 350.0, "key {key}: chi-square {chi}");
    }
}

proptest! {
    #[test]
    fn parsed_fields_equal_those_of_the_built_frame(made in frames::any_frame()) {
        let fields = PacketFields::of(&made.bytes).unwrap();
        let link = Ethernet::parse(&made.bytes).unwrap();
        prop_assert_eq!(fields.vlan, made.vlan);
        prop_assert_eq!(fields.l3_offset, link.payload);
        prop_assert!(!fields.fragment);
        match &made.ip {
            IpHeaders::Ipv4(said, _) => {
                prop_assert_eq!(fields.family, Family::V4);
                prop_assert_eq!((fields.source, fields.destination), (said.source.into(), said.destination.into()));
                prop_assert_eq!((fields.dscp, fields.ecn), (said.dscp.value(), said.ecn.value()));
                prop_assert_eq!(fields.l4_offset, Some(link.payload + said.header_len()));
            }
            IpHeaders::Ipv6(said, extensions) => {
                prop_assert_eq!(fields.family, Family::V6);
                prop_assert_eq!((fields.source, fields.destination), (said.source.into(), said.destination.into()));
                prop_assert_eq!(fields.dscp << 2 | fields.ecn, said.traffic_class);
                prop_assert_eq!(fields.l4_offset, Some(link.payload + 40 + extensions.header_len()));
            }
        }
        let (number, ports) = match made.upper {
            Upper::Udp(source, destination) => (protocol::UDP, Some((source, destination))),
            Upper::Tcp(source, destination, _) => (protocol::TCP, Some((source, destination))),
            Upper::Echo(..) if fields.family == Family::V4 => (protocol::ICMP, None),
            Upper::Echo(..) => (protocol::ICMPV6, None),
        };
        prop_assert_eq!(fields.protocol, number);
        prop_assert_eq!(fields.sport.zip(fields.dport), ports);
    }

    #[test]
    fn flow_hash_depends_only_on_flow_fields(made in frames::any_frame(), key: u64, payload: u8, hops: u8) {
        let l3 = ethernet::header_length(made.vlan);
        let hash = flow_hash(&made.bytes, l3, key);
        let mut other = made.bytes.clone();
        if let Some(last) = other.last_mut() && !matches!(made.upper, Upper::Echo(..)) {
            *last = payload;
        }
        let at = l3 + if matches!(made.ip, IpHeaders::Ipv4(..)) { 8 } else { 7 };
        other[at] = hops;
        other[0] ^= 4;
        // The payload may be empty: then the last byte is the TCP urgent pointer or UDP checksum, not part of the flow.
        prop_assert_eq!(flow_hash(&other, l3, key), hash);
        prop_assert_eq!(flow_hash(&made.bytes, l3, key), hash);
    }
}
