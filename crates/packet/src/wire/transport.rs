//! The transport layer as far as a router needs it: ports, and checksums to complete.
//!
//! A kernel passes packets to virtual devices with a partial checksum (the pseudo-header's sum only) and expects the device to complete it.
//! [`complete_checksum`] does so.

use super::checksum::Sum;
use super::{ChainError, Ipv4, Ipv4Error, Ipv6, Ipv6Error, protocol};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

/// Bytes of a UDP header.
pub const UDP_HEADER: usize = 8;
/// Bytes of a TCP header without options.
pub const TCP_HEADER: usize = 20;

/// Source and destination port at the start of `l4`. `None` for protocols without ports, and if they are truncated.
#[inline]
pub fn ports(protocol: u8, l4: &[u8]) -> Option<(u16, u16)> {
    if !has_ports(protocol) {
        return None;
    }
    let &[a, b, c, d] = l4.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// True if the protocol's header begins with two ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
#[inline]
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, protocol::TCP | protocol::UDP | protocol::DCCP | protocol::SCTP | protocol::UDP_LITE)
}

/// The reason why a checksum cannot be completed or verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportError {
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// The IPv4 header is malformed. Its checksum is not verified.
    Ipv4(Ipv4Error),
    /// The IPv6 header is malformed.
    Ipv6(Ipv6Error),
    /// The IPv6 extension headers are malformed.
    Chain(ChainError),
    /// A source route is not completed: the checksum covers another destination than the header has (RFC 8200 8.1).
    SourceRouted,
    /// The TCP, UDP or ICMPv6 header is truncated, or its length is wrong.
    Truncated,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIp => f.write_str("neither IPv4 nor IPv6"),
            Self::Ipv4(error) => error.fmt(f),
            Self::Ipv6(error) => error.fmt(f),
            Self::Chain(error) => error.fmt(f),
            Self::SourceRouted => f.write_str("source route not used up"),
            Self::Truncated => f.write_str("transport header truncated"),
        }
    }
}

impl std::error::Error for TransportError {}

/// The checksum of an upper-layer message of `protocol` between two addresses. If the checksum field is zero, the result is the checksum (see
/// [`seal`] for zero in UDP). If the field is set, the result is 0 for a correct checksum.
///
/// Addresses of different families have no pseudo-header, which is then left out.
pub fn transport_checksum(source: IpAddr, destination: IpAddr, protocol: u8, message: &[u8]) -> u16 {
    pseudo(source, destination, protocol, message.len()).bytes(message).checksum()
}

fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> Sum {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            Sum::new().pseudo4(source, destination, protocol, u16::try_from(length).unwrap_or(u16::MAX))
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            Sum::new().pseudo6(source, destination, protocol, u32::try_from(length).unwrap_or(u32::MAX))
        }
        _ => Sum::new(),
    }
}

/// Offset of the checksum in a protocol's header. `None` for protocols whose checksum routers do not complete.
const fn checksum_at(protocol: u8) -> Option<usize> {
    match protocol {
        protocol::TCP => Some(16),
        protocol::UDP => Some(6),
        protocol::ICMPV6 => Some(2),
        _ => None,
    }
}

/// Sets the checksum of a TCP, UDP or ICMPv6 message. A UDP sum of zero is written as 0xffff, because zero means "none" (RFC 768). False if the
/// message is too short or of another protocol.
pub fn seal(source: IpAddr, destination: IpAddr, protocol: u8, message: &mut [u8]) -> bool {
    let Some(at) = checksum_at(protocol) else { return false };
    let Some(field) = message.get_mut(at..at + 2) else { return false };
    field.fill(0);
    let sum = match transport_checksum(source, destination, protocol, message) {
        0 if protocol == protocol::UDP => 0xffff,
        sum => sum,
    };
    message[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

/// A message whose checksum a router can compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksummedMessage {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TCP, UDP or ICMPv6.
    pub protocol: u8,
    /// The position of its bytes in the packet.
    pub range: Range<usize>,
}

/// Finds the TCP, UDP or ICMPv6 message of a packet. `None` for fragments, which have only a part of it, and for other protocols.
pub fn find_checksummed(l3: &[u8]) -> Result<Option<ChecksummedMessage>, TransportError> {
    let (source, destination, protocol, range) = match l3.first().map(|byte| byte >> 4) {
        Some(4) => {
            let packet = Ipv4::parse_without_checksum(l3).map_err(TransportError::Ipv4)?;
            let header = packet.header;
            if header.is_fragment() || header.protocol() == protocol::ICMPV6 {
                return Ok(None);
            }
            let range = packet.header_length()..packet.bytes.len();
            (header.source().into(), header.destination().into(), header.protocol(), range)
        }
        Some(6) => {
            let packet = Ipv6::parse(l3).map_err(TransportError::Ipv6)?;
            let chain = packet.chain().map_err(TransportError::Chain)?;
            let (Some(at), false) = (chain.offset, chain.is_fragment()) else { return Ok(None) };
            if checksum_at(chain.protocol).is_some() && chain.routing.is_some_and(|routing| routing.segments_left != 0)
            {
                return Err(TransportError::SourceRouted);
            }
            let range = at..packet.bytes.len();
            (packet.header.source().into(), packet.header.destination().into(), chain.protocol, range)
        }
        _ => return Err(TransportError::NotIp),
    };
    let message = l3.get(range.clone()).ok_or(TransportError::Truncated)?;
    let length = match protocol {
        protocol::TCP if message.len() >= TCP_HEADER => message.len(),
        protocol::ICMPV6 if message.len() >= 4 => message.len(),
        protocol::UDP => udp_length(message).ok_or(TransportError::Truncated)?,
        protocol::TCP | protocol::ICMPV6 => return Err(TransportError::Truncated),
        _ => return Ok(None),
    };
    Ok(Some(ChecksummedMessage { source, destination, protocol, range: range.start..range.start + length }))
}

/// The length field of a UDP header, if valid: the bytes that the checksum covers may end before the IP packet does.
fn udp_length(message: &[u8]) -> Option<usize> {
    let &[_, _, _, _, a, b, _, _] = message.first_chunk::<UDP_HEADER>()?;
    let length = usize::from(u16::from_be_bytes([a, b]));
    (UDP_HEADER..=message.len()).contains(&length).then_some(length)
}

/// Computes the TCP, UDP or ICMPv6 checksum of the packet at the start of `l3` and sets it. Fragments and other protocols are left unchanged.
pub fn complete_checksum(l3: &mut [u8]) -> Result<(), TransportError> {
    if let Some(ChecksummedMessage { source, destination, protocol, range }) = find_checksummed(l3)? {
        let message = l3.get_mut(range).ok_or(TransportError::Truncated)?;
        seal(source, destination, protocol, message);
    }
    Ok(())
}

/// Completes the TCP, UDP or ICMPv6 checksum of the packet at the start of `l3` if its sender left it to a network card. Returns true if it did. Such
/// a field holds the pseudo-header's sum alone (Linux: CHECKSUM_PARTIAL). One in 65535 whole packets has this number as its correct checksum; setting
/// it again does no harm.
pub fn complete_partial_checksum(l3: &mut [u8]) -> bool {
    let Ok(Some(ChecksummedMessage { source, destination, protocol, range })) = find_checksummed(l3) else {
        return false;
    };
    let (Some(at), Some(message)) = (checksum_at(protocol), l3.get_mut(range)) else { return false };
    let partial = pseudo(source, destination, protocol, message.len()).folded();
    let field = message.get(at..at + 2).map(|field| u16::from_be_bytes([field[0], field[1]]));
    field == Some(partial) && seal(source, destination, protocol, message)
}

/// Verifies the TCP, UDP or ICMPv6 checksum of the packet at the start of `l3`. `None` if there is none to verify: fragments, other protocols, and
/// UDP over IPv4 without one.
pub fn verify_checksum(l3: &[u8]) -> Result<Option<bool>, TransportError> {
    let Some(found) = find_checksummed(l3)? else { return Ok(None) };
    let message = l3.get(found.range).ok_or(TransportError::Truncated)?;
    if found.protocol == protocol::UDP && message.get(6..8) == Some(&[0, 0]) {
        // A checksum is mandatory over IPv6 (RFC 8200 8.1).
        return Ok(if found.source.is_ipv4() { None } else { Some(false) });
    }
    Ok(Some(transport_checksum(found.source, found.destination, found.protocol, message) == 0))
}
