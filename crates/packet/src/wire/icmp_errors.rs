//! When a router must not answer a packet with an ICMP error (RFC 1122 3.2.2, RFC 1812 4.3.2.7, RFC 4443 2.4(e)).
//!
//! What only the caller knows stays with the caller: directed broadcasts and anycast addresses of its own interfaces,
//! and the rate limit.

use super::{Cast, Error6, Ipv4, Ipv6, icmp4, icmp6, ipv4, ipv6, ipv6_extensions, protocol};
use std::fmt;

/// Why no ICMP error may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The packet is itself an ICMP error (or of a type nobody knows, which might be one).
    IcmpError,
    /// The packet is a redirect.
    Redirect,
    /// Its destination is a group.
    MulticastDestination,
    /// Its destination is every host.
    BroadcastDestination,
    /// The frame it came in was sent to a group or to everybody.
    LinkCast,
    /// Its source does not name one host.
    SourceNotUnicast,
    /// It is an IPv4 fragment other than the first.
    LaterFragment,
    /// It ends before one can tell whether it is an ICMP error.
    Unreadable,
}

impl fmt::Display for Why {
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

impl std::error::Error for Why {}

/// Whether an ICMP error may answer `packet`, which arrived in a frame sent to `link`.
pub fn may_answer_with_error4(link: Cast, packet: &Ipv4<'_>) -> Result<(), Why> {
    let header = packet.header;
    if link != Cast::Unicast {
        return Err(Why::LinkCast);
    }
    if header.destination().is_multicast() {
        return Err(Why::MulticastDestination);
    }
    if header.destination().is_broadcast() {
        return Err(Why::BroadcastDestination);
    }
    if !ipv4::is_unicast_source(header.source()) {
        return Err(Why::SourceNotUnicast);
    }
    if !header.is_first() {
        return Err(Why::LaterFragment);
    }
    if header.protocol() != protocol::ICMP {
        return Ok(());
    }
    match packet.payload.first() {
        None => Err(Why::Unreadable),
        Some(&icmp4::REDIRECT) => Err(Why::Redirect),
        Some(&kind) if icmp4::is_query(kind) => Ok(()),
        Some(_) => Err(Why::IcmpError),
    }
}

/// Whether `error` may answer `packet`, which arrived in a frame sent to `link`.
///
/// Unlike IPv4's, later fragments may be answered: RFC 4443 2.4(e) does not except them, and path MTU discovery through
/// a narrower link depends on it.
///
/// Packet too big, and the parameter problem of an option that asks for it, may answer packets to a group, or path MTU
/// discovery would not work for them (RFC 4443 2.4(e.3)).
pub fn may_answer_with_error6(link: Cast, packet: &Ipv6<'_>, error: Error6) -> Result<(), Why> {
    let header = packet.header;
    let to_groups = matches!(error, Error6::PacketTooBig { .. }) || reports_to_groups(packet, error);
    if !to_groups && header.destination().is_multicast() {
        return Err(Why::MulticastDestination);
    }
    if !to_groups && link != Cast::Unicast {
        return Err(Why::LinkCast);
    }
    if !ipv6::is_unicast_source(header.source()) {
        return Err(Why::SourceNotUnicast);
    }
    // What cannot be followed to its upper layer is not known to be an ICMP error, and is often what the error is about.
    let Some((offset, fragmented)) = icmp6_message(packet) else { return Ok(()) };
    match packet.bytes.get(offset) {
        // A first fragment that holds not even the upper header may be answered (RFC 8200 4.5).
        None if fragmented => Ok(()),
        None => Err(Why::Unreadable),
        Some(&icmp6::REDIRECT) => Err(Why::Redirect),
        Some(&kind) if kind < icmp6::FIRST_INFORMATIONAL => Err(Why::IcmpError),
        Some(_) => Ok(()),
    }
}

/// Where an ICMPv6 message would begin, were all headers before it in order, and whether only a part of it is here: what
/// is wrong with the headers may be the reason for the error.
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
                // Linux, too, asks the last fragment header only, and any bit of it.
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

/// Whether the error is about an option of type 10xxxxxx.
fn reports_to_groups(packet: &Ipv6<'_>, error: Error6) -> bool {
    let Error6::UnrecognizedOption { pointer } = error else { return false };
    let kind = usize::try_from(pointer).ok().and_then(|at| packet.bytes.get(at));
    kind.is_some_and(|kind| kind >> 6 == 2)
}
