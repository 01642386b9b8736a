//! Extension headers of IPv6 packets for the router itself: processed strictly in the order they stand in (RFC 8200 4),
//! so that the first thing that is wrong is the one that is reported.

use super::errors::Complaint;
use super::options::{UnknownAt, first_unknown};
use super::reassembly::FragmentHeader;
use packet::DropReason;
use packet::wire::ipv6_extensions::LONGEST_CHAIN;
use packet::wire::{Ipv6, ipv6, protocol};

/// The upper layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Upper {
    /// Its protocol.
    pub protocol: u8,
    /// Where the next-header field that names it lies.
    pub named_at: usize,
    /// Where it begins; never beyond the packet.
    pub at: usize,
}

/// What stands in the way of the upper layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Obstacle {
    /// To be dropped without a word.
    Silent(DropReason),
    /// To be dropped, and the sender told.
    Report(Complaint, DropReason),
    /// It is a part of a packet.
    Fragment(FragmentHeader),
}

/// Walks to the upper layer. Hop-by-hop options that directly follow the fixed header have been judged before; elsewhere
/// they are no known header (RFC 8200 4.1). Nor is an authentication header: whoever does not verify it must not skip it
/// (RFC 4302 3.4). A packet that was put together has had its fragment header.
pub(super) fn upper(ip: &Ipv6<'_>, reassembled: bool) -> Result<Upper, Obstacle> {
    const NEXT_HEADER_AT: usize = 6;
    let cut = Obstacle::Silent(DropReason::BadOption);
    let mut fragmented = reassembled;
    let mut found = Upper { protocol: ip.header.next_header(), named_at: NEXT_HEADER_AT, at: ipv6::HEADER };
    for _ in 0..=LONGEST_CHAIN {
        let at = found.at;
        let length = match found.protocol {
            protocol::HOP_BY_HOP if at == ipv6::HEADER => length(ip, at),
            protocol::DESTINATION_OPTIONS | protocol::ROUTING => length(ip, at),
            protocol::FRAGMENT => Some(8),
            _ => return Ok(found),
        };
        // RFC 8200 4.5 has errors for fragments that are cut.
        let report = Obstacle::Report(Complaint::Field { pointer: at }, DropReason::BadFragment);
        let cut = if found.protocol == protocol::FRAGMENT { report } else { cut };
        let end = at + length.ok_or(cut)?;
        let header = ip.bytes.get(at..end).ok_or(cut)?;
        match found.protocol {
            protocol::DESTINATION_OPTIONS => options(header, at)?,
            protocol::ROUTING => routing(ip, header, at)?,
            protocol::FRAGMENT => {
                fragment(header, FragmentHeader { at, named_at: found.named_at }, fragmented)?;
                fragmented = true;
            }
            _ => {}
        }
        found = Upper { protocol: header[0], named_at: at, at: end };
    }
    Err(cut)
}

fn length(ip: &Ipv6<'_>, at: usize) -> Option<usize> {
    Some((usize::from(*ip.bytes.get(at + 1)?) + 1) * 8)
}

/// Only padding is known (RFC 8200 4.2, 4.6).
fn options(header: &[u8], at: usize) -> Result<(), Obstacle> {
    match first_unknown(header, at) {
        Some(UnknownAt::Silent) => Err(Obstacle::Silent(DropReason::BadOption)),
        Some(UnknownAt::Report(pointer)) => Err(Obstacle::Report(Complaint::Option { pointer }, DropReason::BadOption)),
        None => Ok(()),
    }
}

/// RFC 5095 3 for type 0, RFC 8200 4.4 for types nobody knows: the pointer is at the type. A group is nobody's next hop.
fn routing(ip: &Ipv6<'_>, header: &[u8], at: usize) -> Result<(), Obstacle> {
    let segments_left = header[3];
    if ip.header.destination().is_multicast() {
        Err(Obstacle::Silent(DropReason::SourceRoute))
    } else if segments_left != 0 {
        Err(Obstacle::Report(Complaint::Field { pointer: at + 2 }, DropReason::SourceRoute))
    } else {
        Ok(())
    }
}

/// A fragment that is the whole packet is taken for it (RFC 6946), but none in a fragment (RFC 8200 4.1).
fn fragment(header: &[u8], place: FragmentHeader, fragmented: bool) -> Result<(), Obstacle> {
    const RESERVED: u8 = 6;
    let whole = header[2] == 0 && header[3] & !RESERVED == 0;
    match (fragmented, whole) {
        (true, _) => Err(Obstacle::Report(Complaint::Field { pointer: place.at }, DropReason::BadFragment)),
        (false, true) => Ok(()),
        (false, false) => Err(Obstacle::Fragment(place)),
    }
}
