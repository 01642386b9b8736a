//! IPv4 packets.

use super::payload;
use crate::link_ends::Link;
use crate::random::Random;
use packet::wire::{checksum, protocol};
use std::net::Ipv4Addr;

/// The host on a link.
fn host(link: Link) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, link as u8 + 1, 2)
}

fn own(r: &mut Random) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, r.one(&[1, 2, 3, 20]), 1)
}

/// An address behind the gateway on the right.
fn far(r: &mut Random) -> Ipv4Addr {
    Ipv4Addr::new(r.one(&[8, 20, 93, 130, 172, 192, 203, 223]), r.byte(), r.byte(), r.byte())
}

fn source(r: &mut Random, link: Link) -> Ipv4Addr {
    match r.below(30) {
        0..18 => host(link),
        18..23 => far(r),
        23 => Ipv4Addr::new(127, 0, 0, 1 + r.byte() % 3),
        24 => r.one(&[Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(0, 1, 2, 3)]),
        25 => Ipv4Addr::new(224, 0, 0, r.byte()),
        26 => r.one(&[Ipv4Addr::BROADCAST, Ipv4Addr::new(198, 18, 1, 255), Ipv4Addr::new(198, 18, 2, 255)]),
        27 => own(r),
        28 => Ipv4Addr::new(240, r.byte(), r.byte(), 1),
        _ => Ipv4Addr::new(169, 254, r.byte(), 7),
    }
}

fn destination(r: &mut Random) -> Ipv4Addr {
    match r.below(40) {
        0..10 => far(r),
        10..13 => host(r.one(&Link::ALL)),
        13..18 => Ipv4Addr::new(198, 19, 3, r.byte()),
        18 | 19 => Ipv4Addr::new(198, 19, 20, r.byte()),
        20 | 21 => Ipv4Addr::new(198, 19, 1, r.byte()),
        22..29 => own(r),
        29 => Ipv4Addr::new(198, 18, 20, 2),
        30 => Ipv4Addr::new(100, 64 + r.byte() % 64, r.byte(), r.byte()),
        31 => Ipv4Addr::new(198, 19, 8, r.byte()),
        32 => Ipv4Addr::new(198, 19, 9, r.byte()),
        33 => r.one(&[Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::new(224, 0, 0, 2), Ipv4Addr::new(224, 0, 0, 5)]),
        34 => Ipv4Addr::new(239, 1, r.byte(), r.byte()),
        35 => r.one(&[Ipv4Addr::BROADCAST, Ipv4Addr::new(198, 18, 1, 255), Ipv4Addr::new(198, 18, 2, 255)]),
        36 => Ipv4Addr::new(127, 0, 0, 1),
        37 => r.one(&[Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(0, 9, 9, 9)]),
        38 => Ipv4Addr::new(169, 254, 3, 3),
        _ => Ipv4Addr::new(241, r.byte(), r.byte(), 2),
    }
}

/// True if the kernel limits ICMP errors by source for this destination, regardless of its settings.
pub(super) fn is_limited(to: Ipv4Addr) -> bool {
    matches!(to.octets(), [100, 64..128, ..] | [198, 19, 9, _])
}

pub fn packet(r: &mut Random, link: Link) -> Vec<u8> {
    let to = destination(r);
    let from = if is_limited(to) { far(r) } else { source(r, link) };
    let options = if r.percent(20) { options(r, to) } else { Vec::new() };
    let most = 1480 - options.len();
    let (kind, payload) = payload(r, from, to, most);
    let length = 20 + options.len();
    let mut packet = vec![0x40 | (length / 4) as u8, if r.percent(40) { r.byte() } else { 0 }];
    packet.extend(((length + payload.len()) as u16).to_be_bytes());
    packet.extend(r.word().to_be_bytes());
    packet.extend(fragment(r).to_be_bytes());
    packet.extend([r.one(&[0, 1, 2, 3, 64, 64, 64, 128, 255]), kind, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(options);
    packet.extend(payload);
    spoil(r, &mut packet);
    packet
}

/// Flags and offset.
fn fragment(r: &mut Random) -> u16 {
    match r.below(20) {
        0..8 => 0,
        8..16 => 0x4000,
        16 => 0x8000, // the reserved flag
        17 => 0x2000,
        // The longest packet ends with this fragment, so that no error about it is due.
        18 => 0x2000 | r.below(0x1f00) as u16,
        _ => r.below(0x1f00) as u16,
    }
}

fn payload(r: &mut Random, from: Ipv4Addr, to: Ipv4Addr, most: usize) -> (u8, Vec<u8>) {
    match r.below(20) {
        0..8 => (protocol::UDP, payload::udp(r, from.into(), to.into(), most)),
        8..12 => (protocol::TCP, payload::tcp(r, from.into(), to.into(), most)),
        12..18 => (protocol::ICMP, icmp(r, from, to, most)),
        _ => {
            // Protocols that only some kernels handle are sent to other hosts only.
            let common = [89, 200, 253];
            let kinds = [&common[..], &[2, 4, 41, 47, 50, 51, 132, 136]].concat();
            let kind = if to.octets()[..2] == [198, 18] { r.one(&common) } else { r.one(&kinds) };
            let length = r.length(most);
            (kind, r.bytes(length))
        }
    }
}

fn icmp(r: &mut Random, from: Ipv4Addr, to: Ipv4Addr, most: usize) -> Vec<u8> {
    let kind = r.one(&[8, 8, 8, 8, 0, 3, 5, 11, 12, 4, 13, 15, 17, 10, 9, 42, 77]);
    let code = if r.percent(80) { 0 } else { r.byte() % 16 };
    let mut message = vec![kind, code, 0, 0];
    message.extend(r.bytes(4));
    if [3, 4, 5, 11, 12].contains(&kind) {
        // The packet that the error is about: one from the receiver.
        let mut about = vec![0x45, 0, 0, 60, 1, 2, 0, 0, 64, 17, 0, 0];
        about.extend(to.octets());
        about.extend(from.octets());
        about.extend(r.bytes(8));
        let sum = checksum::checksum(&about[..20]);
        about[10..12].copy_from_slice(&sum.to_be_bytes());
        message.extend(about);
    } else {
        let length = r.length(most - 8);
        message.extend(r.bytes(length));
    }
    payload::with_checksum(r, from.into(), to.into(), protocol::ICMP, message)
}

/// Options, valid or not, a multiple of four bytes.
fn options(r: &mut Random, to: Ipv4Addr) -> Vec<u8> {
    let mut options = Vec::new();
    for _ in 0..1 + r.below(3) {
        let slots = 1 + r.below(4);
        let mut next = match r.below(12) {
            0 => vec![1],
            1..4 => [&[7, 3 + 4 * slots as u8, 4 + 4 * r.below(slots + 2) as u8][..], &r.bytes(4 * slots)].concat(),
            4 | 5 => timestamp(r, slots, to),
            6 => [&[r.one(&[131, 137]), 3 + 4 * slots as u8, 4][..], &r.bytes(4 * slots)].concat(),
            7 => vec![148, 4, 0, r.one(&[0, 0, 0, 1])],
            8 => vec![130, 4, 1, 2],
            9 => [&[r.one(&[25u8, 158, 222]), 2 + slots as u8][..], &r.bytes(slots)].concat(),
            10 => vec![0],
            // An invalid length: too short or too long.
            _ => vec![r.one(&[7, 68, 131, 148, 99]), r.one(&[0, 1, 2, 3, 60])],
        };
        if next[0] == 7 && next.len() > 2 && r.percent(15) {
            next[2] = r.byte() % 24;
        }
        options.append(&mut next);
    }
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    options
}

fn timestamp(r: &mut Random, slots: usize, to: Ipv4Addr) -> Vec<u8> {
    let flag = r.one(&[0, 0, 1, 1, 3, 2]);
    let entry = if flag == 1 || flag == 3 { 8 } else { 4 };
    let pointer = 5 + entry * r.below(slots + 1);
    let overflow = r.one(&[0, 0, 0, 0x30, 0xf0]);
    let mut data = r.bytes(entry * slots);
    if flag == 3 {
        // Sometimes the router's own address is next.
        let [_, _, third, _] = to.octets();
        let turn = [198, 18, if r.percent(50) { 2 } else { third }, 1];
        data.chunks_mut(8).for_each(|entry| entry[..4].copy_from_slice(&turn));
    }
    [&[68, 4 + data.len() as u8, pointer as u8, overflow | flag][..], &data].concat()
}

/// Rarely invalidates the header in one way. The checksum is then corrected, unless it is the error.
fn spoil(r: &mut Random, packet: &mut Vec<u8>) {
    let way = if r.percent(15) { r.below(9) } else { 9 };
    let length = packet.len();
    match way {
        0 => packet[0] = packet[0] & 0xf | r.one(&[0, 0x50, 0x60, 0xf0]),
        1 => packet[0] = 0x40 + r.byte() % 5,
        2 => packet[0] = 0x40 | (5 + r.byte() % 11),
        3 => packet[2..4].copy_from_slice(&((length + 1 + r.below(40)) as u16).to_be_bytes()),
        4 => packet[2..4].copy_from_slice(&(r.below(length) as u16).to_be_bytes()),
        5 => packet.truncate(1 + r.below(length)),
        6 => packet[2..4].copy_from_slice(&(r.below(24) as u16).to_be_bytes()),
        _ => {}
    }
    let header = packet.first().map_or(0, |byte| usize::from(byte & 0xf) * 4);
    if header >= 20 && header <= packet.len() {
        packet[10..12].fill(0);
        let sum = checksum::checksum(&packet[..header]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        if way == 7 {
            packet[10 + r.below(2)] ^= 1 << r.below(8);
        }
    }
}
