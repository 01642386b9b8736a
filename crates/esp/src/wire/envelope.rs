//! Builds packets that carry a part: dedicated packets, and data packets with a piggybacked part (spec E-16, E-17).
//!
//! A piggybacked part is inserted between the IP header and its payload. After the part there is one byte with the payload's protocol, and one byte
//! of padding. The payload's checksum stays valid: its pseudo-header uses the original protocol and length, which the receiver restores.
//! Alternatively the part is an option of the IPv4 header, if there is room, and the payload stays in place.

use super::carriage::OPTION_HEADER;
use super::{Carriages, Part, PartError};
use packet::wire::ipv4_options::{self, Ipv4Option};
use packet::wire::{Ipv4, Ipv4Header, Ipv4Spec, Ipv6, Ipv6Header, Ipv6Spec, ipv4, ipv6, protocol, transport};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// The bytes behind a piggybacked part: protocol and padding.
const TRAILER: usize = 2;
/// Padding options.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// The protocol number for "no protocol".
const NO_PROTOCOL: u8 = 59;
/// The initial TTL.
const HOPS: u8 = 64;

/// Source and destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Addresses {
    /// IPv4 addresses.
    V4(Ipv4Addr, Ipv4Addr),
    /// IPv6 addresses.
    V6(Ipv6Addr, Ipv6Addr),
}

/// An IP packet of this protocol. It may not be fragmented, because later fragments carry no part.
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

/// A part to be put into a packet: a [`Part`] or a [sealed](crate::seal::Sealed) one.
pub trait EncodePart {
    /// Its bytes. `piggybacked` says that data follows.
    fn encode(&self, piggybacked: bool) -> Vec<u8>;
}

impl EncodePart for Part {
    fn encode(&self, piggybacked: bool) -> Vec<u8> {
        Part { piggybacked: self.piggybacked || piggybacked, ..*self }.to_bytes()
    }
}

/// A dedicated IP packet: it carries only the part.
pub fn dedicated(carriages: &Carriages, addresses: Addresses, part: &impl EncodePart) -> Vec<u8> {
    packet_of(addresses, carriages.protocol, &part.encode(false)).unwrap_or_default()
}

/// A UDP datagram with a part, from a source port of the caller's choice. `None` if there is no UDP carriage.
pub fn datagram(carriages: &Carriages, addresses: Addresses, from: u16, part: &impl EncodePart) -> Option<Vec<u8>> {
    let part = part.encode(false);
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

/// The payload of a datagram with a part in front of `data`, for hosts that send datagrams instead of IP packets. The protocol behind the part is 59
/// (RFC 8200 4.7): the sender's own data.
pub fn before_data(part: &impl EncodePart, data: &[u8]) -> Vec<u8> {
    let mut bytes = part.encode(true);
    bytes.extend([NO_PROTOCOL, 0]);
    bytes.extend_from_slice(data);
    bytes
}

/// The part at the start of a datagram, and the data behind it; `None` without data.
pub fn with_data(bytes: &[u8]) -> Result<(Part, Option<&[u8]>), PartError> {
    with_data_by(bytes, Part::read)
}

/// The same with another reader for the part, as in [`strip_by`].
pub fn with_data_by(
    bytes: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Part, PartError>,
) -> Result<(Part, Option<&[u8]>), PartError> {
    let part = read(bytes)?;
    // Its length field was checked by the reader.
    let length = bytes.get(2).map_or(0, |length| usize::from(*length));
    Ok((part, bytes.get(length + TRAILER..).filter(|_| part.piggybacked)))
}

/// The reason why a packet cannot carry a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WrapError {
    /// It is no valid IP packet.
    Malformed,
    /// It is a fragment: the other fragments would have no part.
    Fragment,
    /// It would exceed the maximum length of an IP packet.
    TooLong,
    /// It has no options, or no room for one more.
    NoRoom,
    /// It already has a part in an option.
    Carries,
}

impl fmt::Display for WrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WrapError::Malformed => "no IP packet with valid headers",
            WrapError::Fragment => "a fragment carries no instruction",
            WrapError::TooLong => "too long for an IP packet with an instruction",
            WrapError::Carries => "its options contain an instruction already",
            WrapError::NoRoom => "no space for an instruction in the options of the IPv4 header",
        })
    }
}

impl std::error::Error for WrapError {}

/// The payload of an IP packet: its range and protocol, and the offset of the field that names the protocol.
struct Upper {
    at: usize,
    named_at: usize,
    protocol: u8,
    end: usize,
}

fn upper(l3: &[u8]) -> Result<Upper, WrapError> {
    match l3.first().map(|byte| byte >> 4) {
        Some(4) => {
            let packet = Ipv4::parse_without_checksum(l3).map_err(|_| WrapError::Malformed)?;
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

/// Inserts a part in front of a packet's payload, and sets don't-fragment.
pub fn wrap(carriages: &Carriages, l3: &[u8], part: &impl EncodePart) -> Result<Vec<u8>, WrapError> {
    let upper = upper(l3)?;
    if Ipv4::parse_without_checksum(l3).is_ok_and(|packet| carriages.option(&packet).is_some()) {
        return Err(WrapError::Carries);
    }
    let mut bytes = l3[..upper.at].to_vec();
    bytes.extend(part.encode(true));
    bytes.extend([upper.protocol, 0]);
    bytes.extend_from_slice(&l3[upper.at..upper.end]);
    bytes[upper.named_at] = carriages.protocol;
    set_length(&mut bytes, true)?;
    Ok(bytes)
}

/// Adds a part as the last option of an IPv4 packet, and sets don't-fragment. Without other options there is room for 38 bytes, enough for every
/// instruction except RCOLLECT. Hosts and routers without ephemeral state see the original packet. Many routers forward packets with options slowly
/// or drop them.
pub fn wrap_option(carriages: &Carriages, l3: &[u8], part: &impl EncodePart) -> Result<Vec<u8>, WrapError> {
    let upper = upper(l3)?;
    let (Some(kind), Ok(packet)) = (carriages.option, Ipv4::parse_without_checksum(l3)) else {
        return Err(WrapError::NoRoom);
    };
    if carriages.option(&packet).is_some() {
        return Err(WrapError::Carries);
    }
    let part = part.encode(true);
    let mut options = kept_options(&packet, None);
    // The part must start at an even offset.
    options.resize(options.len().next_multiple_of(2), NO_OPERATION);
    options.extend([kind, (OPTION_HEADER + part.len()) as u8]);
    options.extend(part);
    let mut bytes = with_options(l3, options).ok_or(WrapError::NoRoom)?;
    bytes.extend_from_slice(&l3[upper.at..upper.end]);
    set_length(&mut bytes, true)?;
    Ok(bytes)
}

/// The options of a header, without padding, and without the one that contains this range.
fn kept_options(packet: &Ipv4<'_>, without: Option<&Range<usize>>) -> Vec<u8> {
    let placed = ipv4_options::options(packet.options).map_while(Result::ok);
    let kept = placed.filter(|placed| {
        let part = usize::from(placed.offset) + OPTION_HEADER;
        let pads = matches!(placed.option, Ipv4Option::End | Ipv4Option::NoOperation);
        !pads && without.is_none_or(|without| part != without.start)
    });
    let bytes = |offset: u8, length: u8| &packet.bytes[usize::from(offset)..][..usize::from(length)];
    kept.flat_map(|placed| bytes(placed.offset, placed.length)).copied().collect()
}

/// The fixed IPv4 header with these options. `None` if they do not fit.
fn with_options(l3: &[u8], mut options: Vec<u8>) -> Option<Vec<u8>> {
    options.resize(options.len().next_multiple_of(4), END);
    let length = ipv4::HEADER + options.len();
    let mut header = l3.get(..ipv4::HEADER).filter(|_| length <= ipv4::LONGEST_HEADER)?.to_vec();
    header[0] = 0x40 | (length / 4) as u8;
    header.append(&mut options);
    Some(header)
}

/// Reverts [`wrap`] or [`wrap_option`]: returns the original packet and the part. Changes that routers made to the header remain, and padding of
/// options may differ. `Err` if the packet has no piggybacked part.
pub fn strip(carriages: &Carriages, l3: &[u8]) -> Result<(Vec<u8>, Part), PartError> {
    strip_by(carriages, l3, Part::read)
}

/// The same with another reader for the part: [`OperatorKey::read`](crate::seal::OperatorKey::read), or [`seal::read`](crate::seal::read).
pub fn strip_by(
    carriages: &Carriages,
    l3: &[u8],
    read: impl FnOnce(&[u8]) -> Result<Part, PartError>,
) -> Result<(Vec<u8>, Part), PartError> {
    let upper = upper(l3).map_err(|_| PartError::NotAPart)?;
    if let Some(packet) = Ipv4::parse_without_checksum(l3).ok()
        && let Some(option) = carriages.option(&packet)
    {
        let part =
            read(&l3[option.clone()]).and_then(|part| part.piggybacked.then_some(part).ok_or(PartError::NotAPart))?;
        let mut bytes = with_options(l3, kept_options(&packet, Some(&option))).ok_or(PartError::NotAPart)?;
        bytes.extend_from_slice(&l3[upper.at..upper.end]);
        set_length(&mut bytes, false).map_err(|_| PartError::NotAPart)?;
        return Ok((bytes, part));
    }
    if upper.protocol != carriages.protocol {
        return Err(PartError::NotAPart);
    }
    let inside = &l3[upper.at..upper.end];
    let part = read(inside)?;
    // Its length field was checked by the reader.
    let length = inside.get(2).map_or(0, |length| usize::from(*length));
    let trailer = inside.get(length..).and_then(|rest| rest.split_first_chunk::<TRAILER>());
    let (Some((&[protocol, _], data)), true) = (trailer, part.piggybacked) else { return Err(PartError::NotAPart) };
    let mut bytes = l3[..upper.at].to_vec();
    bytes.extend_from_slice(data);
    bytes[upper.named_at] = protocol;
    set_length(&mut bytes, false).map_err(|_| PartError::NotAPart)?;
    Ok((bytes, part))
}

/// Sets the length in an IP header, and updates the checksum. `whole` sets don't-fragment.
fn set_length(bytes: &mut [u8], whole: bool) -> Result<(), WrapError> {
    let length = bytes.len();
    if let Some(header) = Ipv4Header::of_mut(bytes).filter(|header| header.version() == 4) {
        header.set_total_length(u16::try_from(length).map_err(|_| WrapError::TooLong)?);
        if whole {
            header.set_fragment(true, false, 0);
        }
        return write_ipv4_checksum(bytes);
    }
    let header = Ipv6Header::of_mut(bytes).ok_or(WrapError::Malformed)?;
    header.set_payload_length(u16::try_from(length - ipv6::HEADER).map_err(|_| WrapError::TooLong)?);
    Ok(())
}

/// Computes the checksum of an IPv4 header.
fn write_ipv4_checksum(bytes: &mut [u8]) -> Result<(), WrapError> {
    let length = Ipv4Header::of(bytes).map_or(0, Ipv4Header::header_length).max(ipv4::HEADER);
    let header = bytes.get_mut(..length).ok_or(WrapError::Malformed)?;
    header[10..12].fill(0);
    let sum = packet::wire::checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}
