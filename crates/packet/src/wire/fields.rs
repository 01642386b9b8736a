//! The packet fields for classification, read once from a frame, and the flow hash.

use super::transport::{self, has_ports};
use super::{Ethernet, Ipv4, Ipv4Header, Ipv6, Ipv6Header, LengthOrType, ethertype, ipv4, ipv6};
use std::net::IpAddr;

/// The two IP families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The fields of an IP packet in an Ethernet frame that matches can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketFields {
    /// Identifier of the 802.1Q tag, 0..=4095.
    pub vlan: Option<u16>,
    /// IPv4 or IPv6.
    pub family: Family,
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Upper-layer protocol, after any IPv6 extension headers ([`super::protocol`]).
    pub protocol: u8,
    /// Differentiated services codepoint, 0..=63.
    pub dscp: u8,
    /// Explicit congestion notification, 0..=3.
    pub ecn: u8,
    /// Source port. `None` for protocols without ports, and if the header is missing or truncated.
    pub sport: Option<u16>,
    /// Destination port. `None` like `sport`.
    pub dport: Option<u16>,
    /// True for a fragment, false for a whole packet.
    pub fragment: bool,
    /// The offset of the IP header in the frame.
    pub l3_offset: usize,
    /// The offset of the upper layer in the frame, `None` in later fragments. Never beyond the packet's end.
    pub l4_offset: Option<usize>,
}

impl PacketFields {
    /// The fields of an IPv4 or IPv6 packet in an Ethernet frame with at most one tag.
    ///
    /// `None` for other frames and for headers with invalid lengths. The IPv4 header checksum is not verified.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let link = Ethernet::parse(frame).ok()?;
        let l3 = frame.get(link.payload..)?;
        let vlan = link.vlan.map(|tag| tag.id);
        match link.length_or_type {
            LengthOrType::Ethertype(ethertype::IPV4) => Self::of_ipv4(l3, vlan, &link),
            LengthOrType::Ethertype(ethertype::IPV6) => Self::of_ipv6(l3, vlan, &link),
            _ => None,
        }
    }

    fn of_ipv4(l3: &[u8], vlan: Option<u16>, link: &Ethernet) -> Option<Self> {
        let packet = Ipv4::parse_without_checksum(l3).ok()?;
        let header = packet.header;
        let ports = if header.is_first() { transport::ports(header.protocol(), packet.payload) } else { None };
        Some(Self {
            vlan,
            family: Family::V4,
            source: header.source().into(),
            destination: header.destination().into(),
            protocol: header.protocol(),
            dscp: header.dscp(),
            ecn: header.ecn(),
            sport: ports.map(|(source, _)| source),
            dport: ports.map(|(_, destination)| destination),
            fragment: header.is_fragment(),
            l3_offset: link.payload,
            l4_offset: header.is_first().then_some(link.payload + packet.header_length()),
        })
    }

    fn of_ipv6(l3: &[u8], vlan: Option<u16>, link: &Ethernet) -> Option<Self> {
        let packet = Ipv6::parse(l3).ok()?;
        let header = packet.header;
        let chain = packet.chain().ok()?;
        let upper = chain.offset.and_then(|at| packet.bytes.get(at..));
        let ports = upper.and_then(|l4| transport::ports(chain.protocol, l4));
        Some(Self {
            vlan,
            family: Family::V6,
            source: header.source().into(),
            destination: header.destination().into(),
            protocol: chain.protocol,
            dscp: header.dscp(),
            ecn: header.ecn(),
            sport: ports.map(|(source, _)| source),
            dport: ports.map(|(_, destination)| destination),
            fragment: chain.is_fragment(),
            l3_offset: link.payload,
            l4_offset: chain.offset.map(|at| link.payload + at),
        })
    }
}

/// The flow hash of a packet: addresses, protocol and, in whole packets, ports. All fragments of a packet have the same hash: the ports of the first
/// fragment are left out, because the others have none. Not symmetric.
///
/// `l3_offset` is the offset of the IP header. Packets other than IP are hashed by the frame's first 16 bytes: Ethernet addresses and type. With a
/// secret `key` a sender cannot choose which flows collide.
#[inline]
pub fn flow_hash(frame: &[u8], l3_offset: usize, key: u64) -> u32 {
    let l3 = frame.get(l3_offset..).unwrap_or(&[]);
    match l3.first().map(|byte| byte >> 4) {
        Some(4) => hash4(l3, key),
        Some(6) => hash6(l3, key),
        _ => None,
    }
    .unwrap_or_else(|| hash_other(frame, key))
}

/// The hosts of a packet as hashes of their addresses, and its code point (RFC 2474).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HostHashes {
    /// Hash of the source address.
    pub source: u32,
    /// Hash of the destination address.
    pub destination: u32,
    /// Code point, 0 to 63.
    pub dscp: u8,
}

/// The hosts of the packet whose IP header begins at `l3_offset`, hashed with `key`. Zeros for packets other than IP.
pub fn hosts(frame: &[u8], l3_offset: usize, key: u64) -> HostHashes {
    let l3 = frame.get(l3_offset..).unwrap_or(&[]);
    let hash = |address: u128| {
        let both = (address >> 64) as u64 ^ key.rotate_left(17);
        finish(fold_multiply(both, key ^ K0 | 1), address as u64, key)
    };
    match *l3 {
        [first, second, ..] if first >> 4 == 4 => Ipv4Header::of(l3).map(|header| HostHashes {
            source: hash(header.source().to_bits().into()),
            destination: hash(header.destination().to_bits().into()),
            dscp: second >> 2,
        }),
        [first, second, ..] if first >> 4 == 6 => Ipv6Header::of(l3).map(|header| HostHashes {
            source: hash(header.source().to_bits()),
            destination: hash(header.destination().to_bits()),
            dscp: (first << 4 | second >> 4) >> 2,
        }),
        _ => None,
    }
    .unwrap_or_default()
}

// Odd constants with half their bits set, from the fractional part of pi.
const K0: u64 = 0x2437_54a6_8b5a_308d;
const K1: u64 = 0x1319_8a2e_0370_7345;
const K2: u64 = 0xa409_3822_299f_31d1;

/// Multiplies to 128 bits and folds the halves, so that every bit of the product has an effect.
#[inline]
const fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn finish(state: u64, last: u64, key: u64) -> u32 {
    let mixed = fold_multiply(state ^ K2, last ^ key.rotate_left(32) ^ K1);
    let mixed = fold_multiply(mixed ^ K0, K1 ^ key | 1);
    (mixed ^ mixed >> 32) as u32
}

#[inline]
fn hash4(l3: &[u8], key: u64) -> Option<u32> {
    let header = Ipv4Header::of(l3)?;
    // The length field of an unchecked header may be too small.
    let length = header.header_length().max(ipv4::HEADER);
    let addresses = u64::from(header.source().to_bits()) << 32 | u64::from(header.destination().to_bits());
    let ports = match l3.get(length..) {
        // Later fragments have no ports, so the first fragment's are left out as well.
        Some(l4) if !header.is_fragment() => port_word(header.protocol(), l4),
        _ => 0,
    };
    let rest = u64::from(header.protocol()) << 32 | u64::from(ports);
    Some(finish(fold_multiply(addresses ^ key, key ^ K0 | 1), rest, key))
}

#[inline]
fn hash6(l3: &[u8], key: u64) -> Option<u32> {
    let header = Ipv6Header::of(l3)?;
    let next = header.next_header();
    let (protocol, ports) = if has_ports(next) {
        (next, port_word(next, l3.get(ipv6::HEADER..).unwrap_or(&[])))
    } else {
        skip_extensions(l3, next)
    };
    let (source, destination) = (header.source().to_bits(), header.destination().to_bits());
    let mut state = key;
    for (address, constant) in [(source, K1), (destination, K2)] {
        state = fold_multiply((address >> 64) as u64 ^ state, address as u64 ^ key.rotate_left(17) ^ constant);
    }
    Some(finish(state, u64::from(protocol) << 32 | u64::from(ports), key))
}

/// Protocol and ports of a packet that may have extension headers. The ports are zero in fragments.
fn skip_extensions(l3: &[u8], next: u8) -> (u8, u32) {
    let Some(chain) = Ipv6::parse_quoted(l3).ok().and_then(|packet| packet.chain().ok()) else { return (next, 0) };
    let l4 = chain.offset.and_then(|at| l3.get(at..)).filter(|_| !chain.is_fragment());
    (chain.protocol, l4.map_or(0, |l4| port_word(chain.protocol, l4)))
}

#[inline]
fn port_word(protocol: u8, l4: &[u8]) -> u32 {
    match l4.first_chunk::<4>() {
        Some(ports) if has_ports(protocol) => u32::from_be_bytes(*ports),
        _ => 0,
    }
}

fn hash_other(frame: &[u8], key: u64) -> u32 {
    let mut start = [0u8; 16];
    let length = frame.len().min(start.len());
    start[..length].copy_from_slice(&frame[..length]);
    let both = u128::from_be_bytes(start);
    finish(fold_multiply((both >> 64) as u64 ^ key, key ^ K0 | 1), both as u64, key)
}
