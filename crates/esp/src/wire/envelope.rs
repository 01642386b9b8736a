//! Packets that carry a part: of their own, or around somebody else's data (spec E-16, E-17).
//!
//! Piggybacked, the part stands between the IP header and what it carried, and behind the part one byte that says what that
//! was, and one of padding. Checksums of what is carried stay right: they are over addresses, protocol and length as they
//! were, and will be again.

use super::{Carriages, Part, Unread};
use packet::wire::{Ipv4, Ipv4Header, Ipv4Spec, Ipv6, Ipv6Header, Ipv6Spec, ipv4, ipv6, protocol, transport};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes behind a piggybacked part: what follows, and padding.
const TRAILER: usize = 2;
/// Says that what follows is of no protocol.
const NO_PROTOCOL: u8 = 59;
/// What packets begin their way with.
const HOPS: u8 = 64;

/// From whom, to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// By IPv4.
    V4(Ipv4Addr, Ipv4Addr),
    /// By IPv6.
    V6(Ipv6Addr, Ipv6Addr),
}

/// An IP packet of this protocol. It is never fragmented on its way: a fragment carries no part.
fn packet_of(addresses: Addresses, protocol: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = vec![0; ipv6::HEADER];
    let header = match addresses {
        Addresses::V4(source, destination) => {
            let (ttl, dont_fragment) = (HOPS, true);
            let spec =
                Ipv4Spec { type_of_service: 0, identification: 0, dont_fragment, ttl, protocol, source, destination };
            spec.write(&mut bytes, payload.len())?
        }
        Addresses::V6(source, destination) => {
            let (next_header, hop_limit) = (protocol, HOPS);
            Ipv6Spec { traffic_class: 0, flow_label: 0, next_header, hop_limit, source, destination }
                .write(&mut bytes, payload.len())?
        }
    };
    bytes.truncate(header);
    bytes.extend_from_slice(payload);
    Some(bytes)
}

/// What packets carry: a [`Part`], or a [sealed](crate::seal::Sealed) one.
pub trait Carried {
    /// Its bytes, where data follows it or not.
    fn carried(&self, piggybacked: bool) -> Vec<u8>;
}

impl Carried for Part {
    fn carried(&self, piggybacked: bool) -> Vec<u8> {
        Part { piggybacked: self.piggybacked || piggybacked, ..*self }.to_bytes()
    }
}

/// An IP packet that carries nothing but a part.
pub fn dedicated(carriages: &Carriages, addresses: Addresses, part: &impl Carried) -> Vec<u8> {
    packet_of(addresses, carriages.protocol, &part.carried(false)).unwrap_or_default()
}

/// The same as a datagram, from a port of the sender's choice. `None` where parts have no port.
pub fn datagram(carriages: &Carriages, addresses: Addresses, from: u16, part: &impl Carried) -> Option<Vec<u8>> {
    let part = part.carried(false);
    let length = (transport::UDP_HEADER + part.len()) as u16;
    let fields = [from, carriages.port?, length, 0].map(u16::to_be_bytes);
    let mut message = [fields.as_flattened(), &part[..]].concat();
    let (source, destination): (IpAddr, IpAddr) = match addresses {
        Addresses::V4(source, destination) => (source.into(), destination.into()),
        Addresses::V6(source, destination) => (source.into(), destination.into()),
    };
    transport::seal(source, destination, protocol::UDP, &mut message);
    packet_of(addresses, protocol::UDP, &message)
}

/// What a datagram says that has a part in front of `data`: for hosts that send datagrams and no IP packets. What follows the part is no
/// protocol's (59, RFC 8200 4.7) but the sender's own.
pub fn before_data(part: &impl Carried, data: &[u8]) -> Vec<u8> {
    let mut bytes = part.carried(true);
    bytes.extend([NO_PROTOCOL, 0]);
    bytes.extend_from_slice(data);
    bytes
}

/// The part in front of a datagram's data, and the data: none where there is nothing but a part.
pub fn with_data(bytes: &[u8]) -> Result<(Part, Option<&[u8]>), Unread> {
    with_data_by(bytes, Part::read)
}

/// The same of a part that is read otherwise, as by [`strip_by`].
pub fn with_data_by(
    bytes: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Part, Unread>,
) -> Result<(Part, Option<&[u8]>), Unread> {
    let part = read(bytes)?;
    // What was read says how long it is.
    let length = bytes.get(2).map_or(0, |length| usize::from(*length));
    Ok((part, bytes.get(length + TRAILER..).filter(|_| part.piggybacked)))
}

/// Why a packet cannot carry a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrapError {
    /// It is no IP packet, or its headers are wrong.
    Malformed,
    /// It is a fragment: routers would not find the part in the others.
    Fragment,
    /// It would be longer than an IP packet may be.
    TooLong,
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WrapError::Malformed => "no IP packet with sound headers",
            WrapError::Fragment => "a fragment carries no instruction",
            WrapError::TooLong => "too long for an IP packet with an instruction",
        })
    }
}

impl std::error::Error for WrapError {}

/// Where what an IP header carries begins, where the field lies that names its protocol, and which that is.
struct Upper {
    at: usize,
    named_at: usize,
    protocol: u8,
    end: usize,
}

fn upper(l3: &[u8]) -> Result<Upper, WrapError> {
    match l3.first().map(|byte| byte >> 4) {
        Some(4) => {
            let packet = Ipv4::parse_unsummed(l3).map_err(|_| WrapError::Malformed)?;
            if packet.header.is_fragment() {
                return Err(WrapError::Fragment);
            }
            let protocol = packet.header.protocol();
            Ok(Upper { at: packet.header_length(), named_at: 9, protocol, end: packet.bytes.len() })
        }
        Some(6) => {
            let packet = Ipv6::parse(l3).map_err(|_| WrapError::Malformed)?;
            let chain = packet.chain().map_err(|_| WrapError::Malformed)?;
            if chain.is_fragment() {
                return Err(WrapError::Fragment);
            }
            let at = chain.offset.ok_or(WrapError::Malformed)?;
            Ok(Upper { at, named_at: chain.named_at, protocol: chain.protocol, end: packet.bytes.len() })
        }
        _ => Err(WrapError::Malformed),
    }
}

/// The IP packet with a part in front of what it carries. It may not be fragmented from now on.
pub fn wrap(carriages: &Carriages, l3: &[u8], part: &impl Carried) -> Result<Vec<u8>, WrapError> {
    let upper = upper(l3)?;
    let mut bytes = l3[..upper.at].to_vec();
    bytes.extend(part.carried(true));
    bytes.extend([upper.protocol, 0]);
    bytes.extend_from_slice(&l3[upper.at..upper.end]);
    bytes[upper.named_at] = carriages.protocol;
    set_length(&mut bytes, true)?;
    Ok(bytes)
}

/// The packet as it was before [`wrap`], but for what routers have done to its header, and its part. `Err` where it carries
/// none beside its data.
pub fn strip(carriages: &Carriages, l3: &[u8]) -> Result<(Vec<u8>, Part), Unread> {
    strip_by(carriages, l3, Part::read)
}

/// The same of a part that is read otherwise: [`OperatorKey::read`](crate::seal::OperatorKey::read), or
/// [`seal::read`](crate::seal::read).
pub fn strip_by(
    carriages: &Carriages,
    l3: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Part, Unread>,
) -> Result<(Vec<u8>, Part), Unread> {
    let upper = upper(l3).map_err(|_| Unread::Foreign)?;
    if upper.protocol != carriages.protocol {
        return Err(Unread::Foreign);
    }
    let inside = &l3[upper.at..upper.end];
    let part = read(inside)?;
    // What was read says how long it is.
    let length = inside.get(2).map_or(0, |length| usize::from(*length));
    let trailer = inside.get(length..).and_then(|rest| rest.split_first_chunk::<TRAILER>());
    let (Some((&[protocol, _], data)), true) = (trailer, part.piggybacked) else { return Err(Unread::Foreign) };
    let mut bytes = l3[..upper.at].to_vec();
    bytes.extend_from_slice(data);
    bytes[upper.named_at] = protocol;
    set_length(&mut bytes, false).map_err(|_| Unread::Foreign)?;
    Ok((bytes, part))
}

/// Makes the length in an IP header that of the packet, and its checksum right.
fn set_length(bytes: &mut [u8], whole: bool) -> Result<(), WrapError> {
    let length = bytes.len();
    if let Some(header) = Ipv4Header::of_mut(bytes).filter(|header| header.version() == 4) {
        header.set_total_length(u16::try_from(length).map_err(|_| WrapError::TooLong)?);
        if whole {
            header.set_fragment(true, false, 0);
        }
        return seal4(bytes);
    }
    let header = Ipv6Header::of_mut(bytes).ok_or(WrapError::Malformed)?;
    header.set_payload_length(u16::try_from(length - ipv6::HEADER).map_err(|_| WrapError::TooLong)?);
    Ok(())
}

/// Sums an IPv4 header up, whatever was there.
fn seal4(bytes: &mut [u8]) -> Result<(), WrapError> {
    let length = Ipv4Header::of(bytes).map_or(0, Ipv4Header::header_length).max(ipv4::HEADER);
    let header = bytes.get_mut(..length).ok_or(WrapError::Malformed)?;
    header[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}
