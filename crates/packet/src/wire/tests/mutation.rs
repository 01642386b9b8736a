//! Random and mutated bytes through every parser: no panic, and no offset outside its slice.

use super::frames;
use crate::wire::ndp::{self, NeighbourFlags};
use crate::wire::{Mac, RouterAdvertisement, ethertype, exercise, ipv6};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::net::Ipv6Addr;

/// One mutation of a frame.
#[derive(Clone, Debug)]
enum Mutation {
    Set(Index, u8),
    Flip(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => (any::<Index>(), prop_oneof![Just(0u8), Just(0xff), Just(1), any::<u8>()])
            .prop_map(|(at, value)| Mutation::Set(at, value)),
        4 => (any::<Index>(), 0u8..8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => (any::<Index>(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        1 => (any::<Index>(), 1u8..12).prop_map(|(at, count)| Mutation::Remove(at, count)),
    ]
}

fn apply(frame: &mut Vec<u8>, mutation: &Mutation) {
    if frame.is_empty() {
        return;
    }
    match mutation {
        Mutation::Set(at, value) => *at.get_mut(frame) = *value,
        Mutation::Flip(at, bit) => *at.get_mut(frame) ^= 1 << bit,
        Mutation::Cut(at) => frame.truncate(at.index(frame.len())),
        Mutation::Insert(at, bytes) => drop(frame.splice(at.index(frame.len())..at.index(frame.len()), bytes.clone())),
        Mutation::Remove(at, count) => {
            let at = at.index(frame.len());
            drop(frame.drain(at..frame.len().min(at + usize::from(*count))));
        }
    }
}

/// Corrects lengths and checksums, so that a mutation reaches the code after those checks.
fn fix_lengths_and_checksums(frame: &mut [u8]) {
    let Some(l3) = frame.get_mut(14..) else { return };
    match l3.first().map(|byte| byte >> 4) {
        Some(4) if l3.len() >= 20 => {
            let words = (l3[0] & 15).clamp(5, (l3.len() / 4).min(15) as u8);
            l3[0] = 0x40 | words;
            let length = l3.len() as u16;
            l3[2..4].copy_from_slice(&length.to_be_bytes());
            frames::resum4(l3);
            let at = usize::from(words) * 4;
            if l3[9] == 1 && l3.len() >= at + 8 {
                l3[at + 2..at + 4].fill(0);
                let sum = crate::wire::checksum::checksum(&l3[at..]);
                l3[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
            }
        }
        Some(6) if l3.len() >= 40 => {
            let length = (l3.len() - 40) as u16;
            l3[4..6].copy_from_slice(&length.to_be_bytes());
            let _ = crate::wire::complete_checksum(l3);
        }
        _ => {}
    }
}

fn discovery() -> impl Strategy<Value = Vec<u8>> {
    (0u8..5, any::<[u8; 16]>(), any::<bool>()).prop_map(|(kind, target, known)| {
        let mut buffer = [0u8; 1400];
        ndp_header(&mut buffer);
        let me = ipv6::link_local(frames::MAC);
        let (target, mac) = (Ipv6Addr::from(target), known.then_some(frames::PEER));
        let asker = if known { me } else { Ipv6Addr::UNSPECIFIED };
        let flags = NeighbourFlags { router: known, solicited: false, overrides: !known };
        let says = ndp::RouterParameters { hop_limit: 64, lifetime_s: 1800, ..Default::default() };
        let original = frames::packet6("2001:db8::1", "2001:db8::2", frames::Upper::Udp(1, 2), b"data");
        let original = crate::wire::Ipv6::parse(&original).unwrap();
        let l3 = &mut buffer[14..];
        let group = ipv6::solicited_node(target);
        let length = match kind {
            0 => ndp::write_neighbour_solicitation(l3, asker, group, target, Mac([2; 6])),
            1 => ndp::write_neighbour_advertisement(l3, me, ipv6::ALL_NODES, target, flags, Mac([2; 6])),
            2 => ndp::write_router_solicitation(l3, asker, Mac([2; 6])),
            3 => RouterAdvertisement {
                parameters: says,
                mac,
                mtu: Some(1500),
                servers: &[me],
                search: &["a.b".to_string()],
                ..Default::default()
            }
            .write(l3, me, ipv6::ALL_NODES),
            _ => ndp::write_redirect(l3, &original, me, target, mac),
        };
        buffer[..14 + length.unwrap()].to_vec()
    })
}

fn ndp_header(buffer: &mut [u8]) {
    crate::wire::ethernet::write_header(&mut buffer[..14], frames::MAC, frames::PEER, None, ethertype::IPV6).unwrap();
}

fn mutated(frames: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (frames, vec(mutation(), 0..6), any::<bool>()).prop_map(|(mut frame, mutations, mended)| {
        for mutation in &mutations {
            apply(&mut frame, mutation);
        }
        if mended {
            fix_lengths_and_checksums(&mut frame);
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_bytes_are_only_ever_values_or_errors(frame in vec(any::<u8>(), 0..200)) {
        exercise(&frame);
    }

    #[test]
    fn random_headers_of_a_known_kind_are_only_ever_values_or_errors(
        kind in prop::sample::select(vec![
            ethertype::IPV4, ethertype::ARP, ethertype::VLAN, ethertype::SERVICE_VLAN, ethertype::IPV6, 46,
        ]),
        first in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x44, 0x60, 0x6f, 0x00]),
        mut rest in vec(prop_oneof![3 => any::<u8>(), 1 => 0u8..64], 0..160),
        mended: bool,
    ) {
        let mut frame = vec![2u8; 12];
        frame.extend(kind.to_be_bytes());
        frame.push(first);
        frame.append(&mut rest);
        if mended {
            fix_lengths_and_checksums(&mut frame);
        }
        exercise(&frame);
    }

    #[test]
    fn mutated_packets_are_only_ever_values_or_errors(frame in mutated(frames::any_frame().prop_map(|made| made.bytes))) {
        exercise(&frame);
    }

    #[test]
    fn mutated_discovery_is_only_ever_values_or_errors(frame in mutated(discovery())) {
        exercise(&frame);
    }
}

#[test]
fn frames_of_every_size_are_exercised() {
    for length in [0, 1, 13, 14, 15, 33, 34, 53, 54, 2047, 2048, 2049, 65_535] {
        for byte in [0x00, 0x45, 0x60, 0xff] {
            exercise(&vec![byte; length]);
        }
    }
}
