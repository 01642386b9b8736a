//! Extension headers of IPv6 packets for the router. They are processed strictly in order (RFC 8200 4), so that the first error is the one reported.

use super::errors::IcmpErrorCause;
use super::options::{UnknownAt, first_unknown};
use super::reassembly::FragmentHeader;
use packet::DropReason;
use packet::wire::ipv6_extensions::LONGEST_CHAIN;
use packet::wire::{Ipv6, ipv6, protocol};

/// The upper layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct UpperLayer {
    /// Its protocol.
    pub protocol: u8,
    /// The offset of the next-header field that names it.
    pub named_at: usize,
    /// The offset of its header; never beyond the packet.
    pub at: usize,
}

/// The reason why the upper layer cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UpperLayerError {
    /// Drop the packet silently.
    Silent(DropReason),
    /// Drop the packet and send an error.
    Report(IcmpErrorCause, DropReason),
    /// It is a fragment.
    Fragment(FragmentHeader),
}

/// Finds the upper layer. Hop-by-hop options directly after the fixed header were checked before; elsewhere they are an unknown header (RFC 8200
/// 4.1). An authentication header is unknown too, because it must not be skipped without verification (RFC 4302 3.4). `reassembled`: the packet has
/// already had its fragment header.
pub(super) fn upper(ip: &Ipv6<'_>, reassembled: bool) -> Result<UpperLayer, UpperLayerError> {
    const NEXT_HEADER_AT: usize = 6;
    let cut = UpperLayerError::Silent(DropReason::BadOption);
    let mut fragmented = reassembled;
    let mut found = UpperLayer { protocol: ip.header.next_header(), named_at: NEXT_HEADER_AT, at: ipv6::HEADER };
    // Bounded, so that a crafted chain of headers cannot keep the router busy.
    for _ in 0..=LONGEST_CHAIN {
        let at = found.at;
        let length = match found.protocol {
            protocol::HOP_BY_HOP if at == ipv6::HEADER => length(ip, at),
            protocol::DESTINATION_OPTIONS | protocol::ROUTING => length(ip, at),
            protocol::FRAGMENT => Some(8),
            _ => return Ok(found),
        };
        // RFC 8200 4.5 requires errors for truncated fragments.
        let report = UpperLayerError::Report(IcmpErrorCause::Field { pointer: at }, DropReason::BadFragment);
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
        found = UpperLayer { protocol: header[0], named_at: at, at: end };
    }
    Err(cut)
}

fn length(ip: &Ipv6<'_>, at: usize) -> Option<usize> {
    Some((usize::from(*ip.bytes.get(at + 1)?) + 1) * 8)
}

/// Only padding is known (RFC 8200 4.2, 4.6).
fn options(header: &[u8], at: usize) -> Result<(), UpperLayerError> {
    match first_unknown(header, at) {
        Some(UnknownAt::Silent) => Err(UpperLayerError::Silent(DropReason::BadOption)),
        Some(UnknownAt::Report(pointer)) => {
            Err(UpperLayerError::Report(IcmpErrorCause::Option { pointer }, DropReason::BadOption))
        }
        None => Ok(()),
    }
}

/// RFC 5095 3 for type 0, RFC 8200 4.4 for unknown types: the pointer is at the type. A multicast group is never a next hop.
fn routing(ip: &Ipv6<'_>, header: &[u8], at: usize) -> Result<(), UpperLayerError> {
    let segments_left = header[3];
    if ip.header.destination().is_multicast() {
        Err(UpperLayerError::Silent(DropReason::SourceRoute))
    } else if segments_left != 0 {
        Err(UpperLayerError::Report(IcmpErrorCause::Field { pointer: at + 2 }, DropReason::SourceRoute))
    } else {
        Ok(())
    }
}

/// An atomic fragment is processed as a whole packet (RFC 6946), but not within a reassembled one (RFC 8200 4.1).
fn fragment(header: &[u8], place: FragmentHeader, fragmented: bool) -> Result<(), UpperLayerError> {
    const RESERVED: u8 = 6;
    let whole = header[2] == 0 && header[3] & !RESERVED == 0;
    match (fragmented, whole) {
        (true, _) => Err(UpperLayerError::Report(IcmpErrorCause::Field { pointer: place.at }, DropReason::BadFragment)),
        (false, true) => Ok(()),
        (false, false) => Err(UpperLayerError::Fragment(place)),
    }
}
