//! Link headers, and frames of other protocols.

use super::SentFrame;
use crate::bench::{NARROW, VLAN, host_mac, router_mac};
use crate::link_ends::Link;
use crate::random::Random;
use packet::wire::arp::Arp;
use packet::wire::ethertype;
use std::net::Ipv4Addr;
use units::Mac;

/// The minimum Ethernet frame without its checksum: a network card pads shorter frames.
const SHORTEST: usize = 60;

fn destination(r: &mut Random, link: Link) -> Mac {
    match r.below(25) {
        0 => Mac::BROADCAST,
        1 => Mac([1, 0, 0x5e, 0, 0, 1]),
        2 => Mac([0x33, 0x33, 0, 0, 0, 1]),
        // Another host on the segment.
        3 => Mac([2, 0, 0, 0, 9, 9]),
        _ => router_mac(link),
    }
}

/// No tag, or tags of some kind.
fn tags(r: &mut Random) -> Vec<u8> {
    let vlan = VLAN.to_be_bytes();
    match r.below(16) {
        0 | 1 => vec![0x81, 0, vlan[0], vlan[1]],
        // With a priority.
        2 => vec![0x81, 0, 0xa0 | vlan[0], vlan[1]],
        // A priority and no VLAN (IEEE 802.1Q 6.9).
        3 => vec![0x81, 0, 0x60, 0],
        4 => match r.below(4) {
            0 => vec![0x81, 0, 0, 30],
            1 => vec![0x88, 0xa8, 0, 20],
            2 => vec![0x81, 0, 0, 20, 0x81, 0, 0, 20],
            _ => vec![0x88, 0xa8, 0, 20, 0x81, 0, 0, 20],
        },
        _ => Vec::new(),
    }
}

fn frame(destination: Mac, link: Link, tags: &[u8], kind: u16, l3: &[u8]) -> SentFrame {
    let frame = [&destination.0[..], &host_mac(link).0, tags, &kind.to_be_bytes(), l3].concat();
    SentFrame { link, frame }
}

/// A frame with this network-layer packet.
pub fn framed(r: &mut Random, packet: fn(&mut Random, Link) -> Vec<u8>) -> SentFrame {
    let link = r.one(&[Link::Left, Link::Left, Link::Left, Link::Right, Link::Narrow]);
    let mut l3 = packet(r, link);
    let version = l3.first().map_or(4, |byte| byte >> 4);
    let kind = if version == 6 { ethertype::IPV6 } else { ethertype::IPV4 };
    let kind = if r.percent(1) { ethertype::IPV4 ^ ethertype::IPV6 ^ kind } else { kind };
    let tags = tags(r);
    let to = destination(r, link);
    // A cable carries one tag beyond its MTU.
    let most = if link == Link::Narrow { usize::from(NARROW) } else { 1500 };
    l3.truncate(most - tags.len().saturating_sub(4));
    if r.percent(70) && 14 + tags.len() + l3.len() < SHORTEST {
        let padding = if r.percent(50) { vec![0; SHORTEST] } else { r.bytes(SHORTEST) };
        l3.extend_from_slice(&padding[..SHORTEST - 14 - tags.len() - l3.len()]);
    }
    frame(to, link, &tags, kind, &l3)
}

/// A frame of another protocol than IP.
pub fn other(r: &mut Random) -> SentFrame {
    let link = r.one(&Link::ALL);
    if r.percent(60) {
        return arp(r, link);
    }
    let (kind, length) = match r.below(5) {
        // Local experiments, LLDP, MPLS.
        0 => (0x88b5, r.below(200)),
        1 => (0x88cc, r.below(200)),
        2 => (0x8847, r.below(200)),
        // A length: IEEE 802.2 follows.
        3 => (60, 60),
        _ => (ethertype::ARP, r.below(40)),
    };
    let payload = r.bytes(length.max(1));
    let to = destination(r, link);
    frame(to, link, &tags(r), kind, &payload)
}

/// ARP of all kinds, except for claims to the router's addresses, which the router defends only at intervals.
fn arp(r: &mut Random, link: Link) -> SentFrame {
    let third = if r.percent(90) { link as u8 + 1 } else { 20 };
    let address = |last| Ipv4Addr::new(198, 18, third, last);
    let (mac, ip) = (host_mac(link), address(2));
    let target = r.one(&[address(1), address(1), address(1), address(3), address(77), Ipv4Addr::new(198, 18, 2, 1)]);
    let mut message = match r.below(6) {
        0..3 => Arp::request(mac, ip, target),
        3 => Arp::probe(mac, target),
        4 => Arp::announcement(mac, ip),
        _ => Arp::request(router_mac(link), target, ip).reply(mac),
    };
    match r.below(12) {
        // From another network, or from an address that no host can have.
        0 => message.sender_ip = r.one(&[Ipv4Addr::new(8, 8, 8, 8), Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::BROADCAST]),
        1 => message.sender_mac = r.one(&[Mac::BROADCAST, Mac::ZERO, Mac([3, 0, 0, 0, 0, 1])]),
        _ => {}
    }
    let mut bytes = message.to_bytes().to_vec();
    if r.percent(15) {
        bytes[r.one(&[0, 1, 2, 3, 4, 5, 6, 7])] ^= 1 << r.below(4);
    }
    bytes.resize(if r.percent(10) { r.below(28) + 1 } else { 46 }, 0);
    let to = if r.percent(60) { Mac::BROADCAST } else { destination(r, link) };
    let tag = if third == 20 { vec![0x81, 0, 0, 20] } else { Vec::new() };
    frame(to, if third == 20 { Link::Left } else { link }, &tag, ethertype::ARP, &bytes)
}
