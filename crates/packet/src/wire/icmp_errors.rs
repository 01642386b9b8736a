//! The cases in which a router must not answer a packet with an ICMP error (RFC 1122 3.2.2, RFC 1812 4.3.2.7, RFC 4443 2.4(e)).
//!
//! The caller itself checks directed broadcasts and anycast addresses of its interfaces, and the rate limit.

use super::{Cast, Error6, Ipv4, Ipv6, icmp4, icmp6, ipv4, ipv6, ipv6_extensions, protocol};
use std::fmt;

/// The reason why no ICMP error may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpErrorForbidden {
    /// The packet is itself an ICMP error, or of an unknown type that could be one.
    IcmpError,
    /// The packet is a redirect.
    Redirect,
    /// Its destination is a multicast group.
    MulticastDestination,
    /// Its destination is a broadcast address.
    BroadcastDestination,
    /// Its frame was sent to a multicast or broadcast address.
    LinkCast,
    /// Its source is not a unicast address.
    SourceNotUnicast,
    /// It is an IPv4 fragment other than the first.
    LaterFragment,
    /// It ends before its ICMP type, so it could be an ICMP error.
    Unreadable,
}

impl fmt::Display for IcmpErrorForbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IcmpError => "the packet is an ICMP error itself",
            Self::Redirect => "the packet is a redirect",
            Self::MulticastDestination => "the packet was sent to a group",
            Self::BroadcastDestination => "the packet was sent to every host",
            Self::LinkCast => "the frame was sent to a group or to everybody",
            Self::SourceNotUnicast => "the source is not one host",
            Self::LaterFragment => "the packet is not a first fragment",
            Self::Unreadable => "the packet is too short to tell",
        })
    }
}

impl std::error::Error for IcmpErrorForbidden {}

/// Checks if an ICMP error may answer `packet`, whose frame was sent to `link`.
pub fn may_answer_with_error4(link: Cast, packet: &Ipv4<'_>) -> Result<(), IcmpErrorForbidden> {
    let header = packet.header;
    if link != Cast::Unicast {
        return Err(IcmpErrorForbidden::LinkCast);
    }
    if header.destination().is_multicast() {
        return Err(IcmpErrorForbidden::MulticastDestination);
    }
    if header.destination().is_broadcast() {
        return Err(IcmpErrorForbidden::BroadcastDestination);
    }
    if !ipv4::is_unicast_source(header.source()) {
        return Err(IcmpErrorForbidden::SourceNotUnicast);
    }
    if !header.is_first() {
        return Err(IcmpErrorForbidden::LaterFragment);
    }
    if header.protocol() != protocol::ICMP {
        return Ok(());
    }
    match packet.payload.first() {
        None => Err(IcmpErrorForbidden::Unreadable),
        Some(&icmp4::REDIRECT) => Err(IcmpErrorForbidden::Redirect),
        Some(&kind) if icmp4::is_query(kind) => Ok(()),
        Some(_) => Err(IcmpErrorForbidden::IcmpError),
    }
}

/// Checks if `error` may answer `packet`, whose frame was sent to `link`.
///
/// Unlike in IPv4, later fragments may be answered: RFC 4443 2.4(e) does not exclude them, and path MTU discovery over a narrower link depends on it.
///
/// Packet too big, and the parameter problem of an option that asks for it, may answer packets to a group. Path MTU discovery for groups needs this
/// (RFC 4443 2.4(e.3)).
pub fn may_answer_with_error6(link: Cast, packet: &Ipv6<'_>, error: Error6) -> Result<(), IcmpErrorForbidden> {
    let header = packet.header;
    let to_groups = matches!(error, Error6::PacketTooBig { .. }) || reports_to_groups(packet, error);
    if !to_groups && header.destination().is_multicast() {
        return Err(IcmpErrorForbidden::MulticastDestination);
    }
    if !to_groups && link != Cast::Unicast {
        return Err(IcmpErrorForbidden::LinkCast);
    }
    if !ipv6::is_unicast_source(header.source()) {
        return Err(IcmpErrorForbidden::SourceNotUnicast);
    }
    // If the header chain is broken, the packet is not known to be an ICMP error, and the chain is often the subject of the error.
    let Some((offset, fragmented)) = icmp6_message(packet) else { return Ok(()) };
    match packet.bytes.get(offset) {
        // A first fragment without the upper-layer header may be answered (RFC 8200 4.5).
        None if fragmented => Ok(()),
        None => Err(IcmpErrorForbidden::Unreadable),
        Some(&icmp6::REDIRECT) => Err(IcmpErrorForbidden::Redirect),
        Some(&kind) if kind < icmp6::FIRST_INFORMATIONAL => Err(IcmpErrorForbidden::IcmpError),
        Some(_) => Ok(()),
    }
}

/// The offset of an ICMPv6 message, as if all headers before it were valid, and true if the packet is a fragment. An invalid header may be the very
/// reason for the error.
fn icmp6_message(packet: &Ipv6<'_>) -> Option<(usize, bool)> {
    let (mut kind, mut at, mut fragmented) = (packet.header.next_header(), ipv6::HEADER, false);
    for _ in 0..=ipv6_extensions::LONGEST_CHAIN {
        let length = match kind {
            protocol::ICMPV6 => return Some((at, fragmented)),
            protocol::FRAGMENT => {
                let &[_, _, high, low] = packet.bytes.get(at..)?.first_chunk()?;
                if u16::from_be_bytes([high, low]) >> 3 != 0 {
                    return None;
                }
                // Like Linux, this tests only the last fragment header, and any bit of its offset field.
                fragmented = low != 0;
                8
            }
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS | protocol::ROUTING | protocol::AUTHENTICATION => {
                ipv6_extensions::header_length(kind, *packet.bytes.get(at + 1)?)
            }
            _ => return None,
        };
        (kind, at) = (*packet.bytes.get(at)?, at + length);
    }
    None
}

/// True if the error is about an option of type 10xxxxxx.
fn reports_to_groups(packet: &Ipv6<'_>, error: Error6) -> bool {
    let Error6::UnrecognizedOption { pointer } = error else { return false };
    let kind = usize::try_from(pointer).ok().and_then(|at| packet.bytes.get(at));
    kind.is_some_and(|kind| kind >> 6 == 2)
}
