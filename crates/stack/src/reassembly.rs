//! Reassembly of packets for the router itself (RFC 791 3.2, RFC 1122 3.3.2, RFC 8200 4.5): the fragments are consumed, and the packet is a new one.

use super::errors::IcmpErrorCause;
use super::fragment_table::{AddResult, Datagram, FragmentPosition, HeldFragment, Key};
use super::output::packet_with;
use super::{LocalProtocols, Parsed, World, l3, parse};
use packet::wire::ipv6_extensions::LONGEST_CHAIN;
use packet::wire::transport::TCP_HEADER;
use packet::wire::{Ipv4, Ipv6, checksum, ipv4, ipv6, protocol};
use packet::{DropReason, Meta, Packet};
use std::net::IpAddr;
use units::Nanos;

/// The bytes of a fragment header.
const FRAGMENT: usize = 8;
/// The highest value of a 16-bit length field.
const LONGEST: usize = u16::MAX as usize;
/// The most packets that expire in one call of `tick`; the next call handles the others.
const EXPIRED_PER_TICK: usize = 64;

/// The offsets of the fragment header of an IPv6 packet and of the field that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FragmentHeader {
    pub at: usize,
    pub named_at: usize,
}

/// The error of an invalid fragment.
pub(super) enum InvalidFragment {
    Silent,
    Report(IcmpErrorCause),
}

impl LocalProtocols {
    /// Adds a fragment for the router; `header` is the position of its fragment header in IPv6.
    pub(super) fn reassemble(&mut self, packet: Packet, header: Option<FragmentHeader>, world: &mut impl World) {
        let piece = match (parse(&packet), header) {
            (Some(Parsed::V4(ip)), _) => piece4(&ip, &packet),
            (Some(Parsed::V6(ip)), Some(header)) => piece6(&ip, header, &packet),
            _ => Err(InvalidFragment::Silent),
        };
        let piece = match piece {
            Ok(piece) => piece,
            Err(InvalidFragment::Silent) => return world.drop(packet, DropReason::BadFragment),
            Err(InvalidFragment::Report(what)) => {
                return self.drop_with_error(packet, what, DropReason::BadFragment, world);
            }
        };
        while let Some(gone) = self.fragments.make_room(piece.key) {
            gone.into_iter().for_each(|packet| world.drop(packet, DropReason::FragmentLimit));
        }
        let lifetime = self.lifetime(piece.key.source);
        match self.fragments.add(piece, packet, world.now(), lifetime) {
            AddResult::Incomplete => {}
            AddResult::Complete(datagram) => self.complete(datagram, header, world),
            AddResult::Refused(packet, reason) => world.drop(packet, reason),
            AddResult::Discarded(packets, reason) => packets.into_iter().for_each(|packet| world.drop(packet, reason)),
        }
    }

    /// RFC 8200 4.5 has 60 seconds for IPv6. IPv4 has half of that, because its identifications wrap around sooner (RFC 4963).
    fn lifetime(&self, source: IpAddr) -> Nanos {
        if source.is_ipv4() { self.limits.reassembly } else { self.limits.reassembly * 2 }
    }

    fn complete(&mut self, datagram: Datagram, header: Option<FragmentHeader>, world: &mut impl World) {
        let whole = match header {
            None => assemble4(&datagram, world),
            Some(_) => assemble6(&datagram, world),
        };
        let meta = datagram.fragments.first().map(|first| *first.packet.meta());
        for held in datagram.fragments {
            match whole {
                Ok(_) => world.consume(held.packet),
                Err(reason) => world.drop(held.packet, reason),
            }
        }
        if let (Ok(mut packet), Some(meta)) = (whole, meta) {
            // Other flags describe the first fragment, not the whole packet.
            let kept = Meta::GROUP | Meta::IPV6;
            let new = packet.meta_mut();
            (new.in_interface, new.in_port, new.exception) = (meta.in_interface, meta.in_port, meta.exception);
            new.flags |= meta.flags & kept;
            self.deliver(packet, true, world);
        }
    }

    /// Drops the packets whose time is over, and sends an error if the first fragment has arrived (RFC 792, RFC 1122 3.3.2, RFC 4443 3.3).
    pub(super) fn expire_fragments(&mut self, world: &mut impl World) {
        for _ in 0..EXPIRED_PER_TICK {
            let Some(fragments) = self.fragments.expire(world.now()) else { return };
            for HeldFragment { packet, start, .. } in fragments {
                match start {
                    0 => self.drop_with_error(packet, IcmpErrorCause::Reassembly, DropReason::FragmentTimeout, world),
                    _ => world.drop(packet, DropReason::FragmentTimeout),
                }
            }
        }
    }
}

pub(super) fn piece4(ip: &Ipv4<'_>, packet: &Packet) -> Result<FragmentPosition, InvalidFragment> {
    let header = ip.header;
    let (start, more) = (header.fragment_offset(), header.more_fragments());
    // All fragments but the last have whole units of eight bytes (RFC 791 3.1); surplus bytes are ignored.
    let length = if more { ip.payload.len() / 8 * 8 } else { ip.payload.len() };
    let end = start + length;
    if length == 0 || ip.header_length() + end > LONGEST {
        return Err(InvalidFragment::Silent);
    }
    let key = Key {
        source: header.source().into(),
        destination: header.destination().into(),
        protocol: header.protocol(),
        identification: header.identification().into(),
        scope: None,
    };
    let at = packet.meta().l3 + ip.header_length() as u16;
    Ok(FragmentPosition { key, start: start as u32, end: end as u32, more, at, ecn: header.ecn() })
}

fn piece6(ip: &Ipv6<'_>, header: FragmentHeader, packet: &Packet) -> Result<FragmentPosition, InvalidFragment> {
    const PAYLOAD_LENGTH: usize = 4;
    let behind = header.at + FRAGMENT;
    let bytes: Option<&[u8; FRAGMENT]> = ip.bytes.get(header.at..).and_then(<[u8]>::first_chunk);
    let Some(&[_, _, high, low, i, j, k, l]) = bytes else { return Err(InvalidFragment::Silent) };
    let field = u16::from_be_bytes([high, low]);
    let (start, more) = (usize::from(field & 0xfff8), field & 1 != 0);
    if start == 0 && has_truncated_headers(ip) {
        return Err(InvalidFragment::Report(IcmpErrorCause::TruncatedHeaders));
    }
    let length = ip.bytes.len() - behind;
    let end = start + length;
    if behind - FRAGMENT - ipv6::HEADER + end > LONGEST {
        return Err(InvalidFragment::Report(IcmpErrorCause::Field { pointer: header.at + 2 }));
    }
    if more && !length.is_multiple_of(8) {
        return Err(InvalidFragment::Report(IcmpErrorCause::Field { pointer: PAYLOAD_LENGTH }));
    }
    if length == 0 {
        return Err(InvalidFragment::Silent);
    }
    let (source, destination) = (ip.header.source(), ip.header.destination());
    // Such addresses are unique only on their link, so the interface is a part of the key.
    let local = source.is_unicast_link_local() || destination.is_unicast_link_local() || destination.is_multicast();
    let key = Key {
        source: source.into(),
        destination: destination.into(),
        protocol: 0,
        identification: u32::from_be_bytes([i, j, k, l]),
        scope: local.then_some(packet.meta().in_interface),
    };
    let at = packet.meta().l3 + behind as u16;
    Ok(FragmentPosition { key, start: start as u32, end: end as u32, more, at, ecn: ip.header.ecn() })
}

/// True if a first fragment ends before the header of the upper layer does, which would bypass packet filters (RFC 7112 5, RFC 8200 4.5). If an
/// earlier header is cut already, the error shows after reassembly.
fn has_truncated_headers(ip: &Ipv6<'_>) -> bool {
    let (mut kind, mut at) = (ip.header.next_header(), ipv6::HEADER);
    for _ in 0..=LONGEST_CHAIN {
        match kind {
            protocol::NO_NEXT_HEADER => return false,
            protocol::TCP => return at + TCP_HEADER > ip.bytes.len(),
            protocol::UDP | protocol::ICMPV6 => return at + 8 > ip.bytes.len(),
            kind if !is_extension(kind) => return at >= ip.bytes.len(),
            _ => {}
        }
        let Some(&[next, length]) = ip.bytes.get(at..).and_then(|rest| rest.first_chunk()) else { return false };
        let length = match kind {
            // A non-first fragment header within a first fragment: the error shows after reassembly.
            protocol::FRAGMENT
                if ip.bytes.get(at + 2..).is_none_or(|field| field.len() < 2 || field[0] != 0 || field[1] > 7) =>
            {
                return false;
            }
            protocol::FRAGMENT => FRAGMENT,
            protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        (kind, at) = (next, at + length);
    }
    false
}

fn is_extension(kind: u8) -> bool {
    use protocol::{AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
    matches!(kind, HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS)
}

/// The ECN bits of the whole (RFC 3168 5.3): congestion experienced by one fragment holds for the packet. None if ECN-capable fragments are mixed
/// with others that are not.
fn ecn(seen: u8) -> Option<u8> {
    const NOT_CAPABLE: u8 = 1;
    const MARKED: u8 = 1 << 3;
    match seen {
        NOT_CAPABLE | MARKED => Some(0),
        _ if seen & NOT_CAPABLE != 0 => None,
        _ if seen & MARKED != 0 => Some(3),
        _ => Some(0),
    }
}

/// Copies the payload of every fragment to its offset.
fn fill(payload: &mut [u8], datagram: &Datagram) -> Option<()> {
    for held in &datagram.fragments {
        let (from, to, length) = (usize::from(held.at), held.start as usize, held.length as usize);
        payload.get_mut(to..to + length)?.copy_from_slice(held.packet.bytes().get(from..from + length)?);
    }
    Some(())
}

/// The packet, with the header and options of its first fragment.
fn assemble4(datagram: &Datagram, world: &mut impl World) -> Result<Packet, DropReason> {
    let first = datagram.fragments.first().ok_or(DropReason::BadFragment)?;
    let ip = Ipv4::parse_without_checksum(l3(&first.packet)).map_err(|_| DropReason::BadFragment)?;
    let header = &ip.bytes[..ip.header_length()];
    let length = header.len() + datagram.length as usize;
    let ecn = ecn(datagram.ecn).ok_or(DropReason::BadFragment)?;
    let total = u16::try_from(length).map_err(|_| DropReason::BadFragment)?;
    let write = |buffer: &mut [u8]| {
        let (start, payload) = buffer.split_at_mut_checked(header.len())?;
        start.copy_from_slice(header);
        start[1] |= ecn;
        start[2..4].copy_from_slice(&total.to_be_bytes());
        // The packet is whole again, so DF and the offset are cleared.
        start[6..8].fill(0);
        start[10..12].fill(0);
        let sum = checksum::checksum(start);
        start[10..12].copy_from_slice(&sum.to_be_bytes());
        fill(payload, datagram)?;
        Some(length)
    };
    debug_assert!(header.len() >= ipv4::HEADER);
    packet_with(length, world, write).ok_or(DropReason::PoolEmpty)
}

/// The packet, with the headers before the fragment header of its first fragment, which is removed.
fn assemble6(datagram: &Datagram, world: &mut impl World) -> Result<Packet, DropReason> {
    let first = datagram.fragments.first().ok_or(DropReason::BadFragment)?;
    let l3_at = usize::from(first.packet.meta().l3);
    let end = usize::from(first.at).checked_sub(l3_at).ok_or(DropReason::BadFragment)?;
    let headers = l3(&first.packet).get(..end).ok_or(DropReason::BadFragment)?;
    let (before, fragment) = headers.split_last_chunk::<FRAGMENT>().ok_or(DropReason::BadFragment)?;
    let named_at = named_at(before).ok_or(DropReason::BadFragment)?;
    let length = before.len() + datagram.length as usize;
    let ecn = ecn(datagram.ecn).ok_or(DropReason::BadFragment)?;
    let payload_length = u16::try_from(length - ipv6::HEADER).map_err(|_| DropReason::BadFragment)?;
    let write = |buffer: &mut [u8]| {
        let (start, payload) = buffer.split_at_mut_checked(before.len())?;
        start.copy_from_slice(before);
        start[1] |= ecn << 4;
        start[4..6].copy_from_slice(&payload_length.to_be_bytes());
        *start.get_mut(named_at)? = fragment[0];
        fill(payload, datagram)?;
        Some(length)
    };
    packet_with(length, world, write).ok_or(DropReason::PoolEmpty)
}

/// The offset of the next-header field that names the fragment header behind these headers.
fn named_at(before: &[u8]) -> Option<usize> {
    const NEXT_HEADER_AT: usize = 6;
    let (mut named, mut at) = (NEXT_HEADER_AT, ipv6::HEADER);
    for _ in 0..=LONGEST_CHAIN {
        if at >= before.len() {
            return (at == before.len()).then_some(named);
        }
        let length = (usize::from(*before.get(at + 1)?) + 1) * 8;
        (named, at) = (at, at + length);
    }
    None
}
