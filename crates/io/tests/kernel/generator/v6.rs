//! IPv6 packets.

use super::payload;
use crate::bench::host_mac;
use crate::link_ends::Link;
use crate::random::Random;
use packet::wire::ndp::{self, NeighbourFlags};
use packet::wire::{ipv6, protocol};
use std::net::Ipv6Addr;

fn on_link(link: Link, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, link as u16 + 1, 0, 0, 0, 0, 0, last)
}

fn own(r: &mut Random) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, r.one(&[1, 2, 3, 0x20]), 0, 0, 0, 0, 0, 1)
}

fn site(r: &mut Random, site: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, site, r.word(), r.word(), r.word(), r.word(), r.word())
}

fn link_local(link: Link) -> Ipv6Addr {
    ipv6::link_local(crate::bench::router_mac(link))
}

fn source(r: &mut Random, link: Link) -> Ipv6Addr {
    match r.below(30) {
        0..19 => on_link(link, 2),
        19..24 => site(r, 0x55),
        24 => Ipv6Addr::UNSPECIFIED,
        25 => Ipv6Addr::LOCALHOST,
        26 => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, r.word()),
        27 | 28 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
        _ => own(r),
    }
}

fn destination(r: &mut Random, link: Link) -> Ipv6Addr {
    match r.below(40) {
        0..10 => site(r, 0x77),
        10..13 => on_link(r.one(&Link::ALL), 2),
        13..18 => site(r, 3),
        18 | 19 => site(r, 0x20),
        20 | 21 => site(r, 1),
        22..28 => own(r),
        // The subnet-router anycast address (RFC 4291 2.6.1).
        28 => on_link(r.one(&Link::ALL), 0),
        29 => link_local(link),
        30 => Ipv6Addr::new(0x4000, r.word(), 0, 0, 0, 0, 0, 1),
        31 => site(r, 8),
        32 => site(r, 9),
        33 => r.one(&[ipv6::ALL_NODES, ipv6::ALL_ROUTERS]),
        34 => Ipv6Addr::new(0xff00 | u16::from(r.byte()), 0, 0, 0, 0, 0, 0, r.one(&[1, 2, 0x99])),
        35 => r.one(&[Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST]),
        36 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2),
        37 => ipv6::solicited_node(own(r)),
        38 => Ipv6Addr::new(0xfec0, 0, 0, 1, 0, 0, 0, 1),
        // An IPv4-mapped address.
        _ => std::net::Ipv4Addr::new(10, 1, 2, r.byte()).to_ipv6_mapped(),
    }
}

pub fn packet(r: &mut Random, link: Link) -> Vec<u8> {
    if r.percent(8) {
        return discovery(r, link);
    }
    let to = destination(r, link);
    let from = source(r, link);
    let chain = if r.percent(35) { chain(r) } else { Vec::new() };
    let headers: usize = chain.iter().map(|(_, header)| header.len()).sum();
    let (kind, message) = payload(r, from, to, 1460 - headers);
    let class = if r.percent(40) { r.byte() } else { 0 };
    let label = if r.percent(40) { r.byte() } else { 0 };
    let mut packet = vec![0x60 | class >> 4, class << 4, label, label];
    packet.extend(((headers + message.len()) as u16).to_be_bytes());
    packet.push(chain.first().map_or(kind, |(first, _)| *first));
    packet.push(r.one(&[0, 1, 2, 3, 64, 64, 64, 128, 255]));
    packet.extend(from.octets());
    packet.extend(to.octets());
    for (i, (_, header)) in chain.iter().enumerate() {
        let next = chain.get(i + 1).map_or(kind, |(next, _)| *next);
        packet.push(next);
        packet.extend(&header[1..]);
    }
    packet.extend(message);
    spoil(r, &mut packet);
    packet
}

/// Extension headers with their numbers; the first byte of each is set later.
fn chain(r: &mut Random) -> Vec<(u8, Vec<u8>)> {
    let mut chain = Vec::new();
    if r.percent(50) {
        chain.push((protocol::HOP_BY_HOP, options(r)));
    }
    for _ in 0..r.below(3) {
        chain.push(match r.below(8) {
            0 | 1 => (protocol::DESTINATION_OPTIONS, options(r)),
            2 | 3 => (protocol::ROUTING, routing(r)),
            4 | 5 => (protocol::FRAGMENT, fragment(r)),
            // In an invalid position (RFC 8200 4.1).
            6 => (protocol::HOP_BY_HOP, options(r)),
            _ => (protocol::AUTHENTICATION, [&[0, 2][..], &r.bytes(14)].concat()),
        });
    }
    chain
}

fn fragment(r: &mut Random) -> Vec<u8> {
    let offset = r.one(&[0u16, 0, 1, 1, 0x5a8, 0x5a9]);
    [&[0, 0][..], &offset.to_be_bytes(), &r.bytes(4)].concat()
}

fn routing(r: &mut Random) -> Vec<u8> {
    // Type 4, segment routing, has a special meaning in some kernels.
    let kind = r.one(&[0, 0, 2, 5, 200, 253]);
    [&[0, 2, kind, r.one(&[0, 1])][..], &r.bytes(20)].concat()
}

/// Options in a header of a multiple of eight bytes.
fn options(r: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    for _ in 0..1 + r.below(2) {
        let unknown = r.one(&[0x1e, 0x5e, 0x9e, 0xde, 0x3e, 0x91]);
        let length = r.below(6);
        bytes.extend(match r.below(8) {
            0 | 1 => vec![5, 2, 0, r.one(&[0, 0, 1])],
            2..4 => [&[unknown, length as u8][..], &r.bytes(length)].concat(),
            4 => vec![0],
            5 => vec![0xc2, 4, 0, 1, 0, 0],
            6 => vec![0x1e, r.byte()],
            _ => Vec::new(),
        });
    }
    match bytes.len().next_multiple_of(8) - bytes.len() {
        0 => {}
        1 => bytes.push(0),
        room => bytes.extend([&[1, room as u8 - 2][..], &vec![0; room - 2]].concat()),
    }
    bytes[1] = (bytes.len() / 8 - 1) as u8;
    bytes
}

fn payload(r: &mut Random, from: Ipv6Addr, to: Ipv6Addr, most: usize) -> (u8, Vec<u8>) {
    match r.below(20) {
        0..7 => (protocol::UDP, payload::udp(r, from.into(), to.into(), most)),
        7..11 => (protocol::TCP, payload::tcp(r, from.into(), to.into(), most)),
        11..17 => (protocol::ICMPV6, icmp(r, from, to, most)),
        17 => (protocol::NO_NEXT_HEADER, r.bytes(8)),
        _ => {
            let kind = r.one(&[89, 200, 253]);
            let length = r.length(most);
            (kind, r.bytes(length))
        }
    }
}

fn icmp(r: &mut Random, from: Ipv6Addr, to: Ipv6Addr, most: usize) -> Vec<u8> {
    let kind = r.one(&[128, 128, 128, 128, 129, 1, 2, 3, 4, 100, 127, 139, 140, 144, 200, 255]);
    let code = if r.percent(80) { 0 } else { r.byte() % 8 };
    let mut message = vec![kind, code, 0, 0];
    message.extend(r.bytes(4));
    if kind < 128 {
        message.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
        message.extend(to.octets());
        message.extend(from.octets());
        message.extend(r.bytes(8));
    } else {
        let length = r.length(most - 8);
        message.extend(r.bytes(length));
    }
    payload::with_checksum(r, from.into(), to.into(), protocol::ICMPV6, message)
}

/// Rarely invalidates the header in one way.
fn spoil(r: &mut Random, packet: &mut Vec<u8>) {
    let length = packet.len();
    match if r.percent(12) { r.below(6) } else { 6 } {
        0 => packet[0] = packet[0] & 0xf | r.one(&[0x40, 0x50, 0x70]),
        1 => packet[4..6].copy_from_slice(&((length - 40 + 1 + r.below(30)) as u16).to_be_bytes()),
        2 => packet[4..6].copy_from_slice(&(1 + r.below((length - 40).max(1)) as u16).to_be_bytes()),
        3 => {
            packet.truncate(1 + r.below(length));
            if (6..40).contains(&packet.len()) {
                // Otherwise padding would form addresses that no host has.
                packet[4] = 0x7f;
            }
        }
        4 => packet[6] = r.one(&[0, 6, 17, 43, 44, 58, 59, 60, 89, 200]),
        _ => {}
    }
}

/// Neighbour discovery, mostly valid, from known hosts with known contents.
fn discovery(r: &mut Random, link: Link) -> Vec<u8> {
    let (mac, station) = (host_mac(link), r.one(&[on_link(link, 2), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2)]));
    let target = r.one(&[on_link(link, 1), on_link(link, 1), link_local(link), on_link(link, 3), on_link(link, 0x77)]);
    let source = if r.percent(15) { Ipv6Addr::UNSPECIFIED } else { station };
    let group = ipv6::solicited_node(target);
    let to = r.one(&[group, group, target, ipv6::ALL_NODES]);
    let flags = NeighbourFlags { router: r.percent(50), solicited: r.percent(50), overrides: r.percent(50) };
    let mut packet = vec![0; 200];
    let length = match r.below(6) {
        0..4 => ndp::write_neighbour_solicitation(&mut packet, source, to, target, mac),
        4 => ndp::write_neighbour_advertisement(
            &mut packet,
            station,
            r.one(&[to, link_local(link)]),
            station,
            flags,
            mac,
        ),
        _ => ndp::write_router_solicitation(&mut packet, source, mac),
    };
    packet.truncate(length.unwrap_or(0));
    match r.below(12) {
        0 => packet[7] = r.one(&[1, 64, 254]),
        1 => packet[41] = 1,
        2 => packet[42] ^= 0x10,
        // An option with length zero, or one that is too long.
        3 if packet.len() > 64 => packet[65] = r.one(&[0, 9]),
        4 => packet.truncate(40 + r.below(24)),
        _ => return packet,
    }
    let (from, to) = (ipv6_address(&packet, 8), ipv6_address(&packet, 24));
    if r.percent(70) && packet.len() > 44 {
        let payload = packet.len() as u16 - 40;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
        packet::wire::transport::seal(from.into(), to.into(), protocol::ICMPV6, &mut packet[40..]);
    }
    packet
}

fn ipv6_address(packet: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap_or_default())
}
