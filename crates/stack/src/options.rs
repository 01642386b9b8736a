//! IP options of forwarded packets: IPv4 options (RFC 1812 5.2.4) and IPv6 hop-by-hop options (RFC 8200 4.2).

use super::errors::IcmpErrorCause;
use super::output::next_hop_key;
use super::{LocalProtocols, Parsed, World, parse};
use fib::Outcome;
use packet::wire::ipv4_options::{self, Ipv4Option, validate};
use packet::wire::ipv6_extensions::{HopByHop, Ipv6Option, Ipv6Options, Padding, UnknownOption, check_hop_by_hop};
use packet::wire::{Ipv4, Ipv6, checksum, ipv4};
use packet::{DropReason, Packet};
use std::net::{IpAddr, Ipv4Addr};
use units::{Instant, InterfaceId};

/// Type of the jumbo payload option (RFC 2675 2).
const JUMBO_PAYLOAD: u8 = 0xc2;

/// The fate of the packet.
enum OptionVerdict {
    Forward,
    /// The router records its address and the time, and then forwards it.
    Record(Ipv4Addr),
    Drop(DropReason),
    Refuse(IcmpErrorCause),
}

impl LocalProtocols {
    pub(super) fn process_options(&mut self, mut packet: Packet, world: &mut impl World) {
        let verdict = match parse(&packet) {
            Some(Parsed::V4(ip)) => judge4(&ip, &packet, world),
            Some(Parsed::V6(ip)) => judge6(&ip),
            None => OptionVerdict::Drop(DropReason::HeaderTruncated),
        };
        if let OptionVerdict::Forward | OptionVerdict::Record(_) = verdict {
            let at = usize::from(packet.meta().l3);
            blank_padding(packet.bytes_mut().get_mut(at..).unwrap_or_default());
        }
        match verdict {
            OptionVerdict::Forward => world.forward(packet),
            OptionVerdict::Record(address) => {
                let (at, time) = (usize::from(packet.meta().l3), timestamp(world.now()));
                let scope = packet.meta().in_interface;
                let l3 = packet.bytes_mut().get_mut(at..).unwrap_or_default();
                match ipv4_options::record(l3, address, time, |address| is_own4(address, scope, world)) {
                    Ok(()) => world.forward(packet),
                    Err(_) => world.drop(packet, DropReason::BadOption),
                }
            }
            OptionVerdict::Drop(reason) => world.drop(packet, reason),
            OptionVerdict::Refuse(what) => self.drop_with_error(packet, what, DropReason::BadOption, world),
        }
    }
}

fn judge4(ip: &Ipv4<'_>, packet: &Packet, world: &impl World) -> OptionVerdict {
    let asks = match validate(ip.options) {
        Ok(asks) => asks,
        Err(error) => return OptionVerdict::Refuse(IcmpErrorCause::Field { pointer: error.pointer.into() }),
    };
    if asks.source_route {
        // RFC 7126 4.3 and 4.4: dropped silently.
        return OptionVerdict::Drop(DropReason::SourceRoute);
    }
    if !asks.record_route && !asks.timestamp {
        return OptionVerdict::Forward;
    }
    // RFC 1812 5.2.4.2: record the address of the egress interface, or the destination if that is local.
    let destination = ip.header.destination();
    if is_own4(destination, packet.meta().in_interface, world) {
        return OptionVerdict::Record(destination);
    }
    let (interface, peer) = match next_hop_key(IpAddr::V4(destination), packet.meta().in_interface, world) {
        Some((interface, IpAddr::V4(next))) => (interface, next),
        _ => (packet.meta().in_interface, ip.header.source()),
    };
    let address = world.interface(interface).and_then(|interface| interface.source4(peer));
    address.map_or(OptionVerdict::Forward, OptionVerdict::Record)
}

fn judge6(ip: &Ipv6<'_>) -> OptionVerdict {
    let options = match ip.hop_by_hop() {
        Ok(Some(options)) => options,
        Ok(None) => return OptionVerdict::Forward,
        Err(_) => return OptionVerdict::Drop(DropReason::BadOption),
    };
    match check_hop_by_hop(options) {
        HopByHop::Forward { .. } => OptionVerdict::Forward,
        HopByHop::Discard => OptionVerdict::Drop(DropReason::BadOption),
        // The error itself decides whether a multicast packet may be answered.
        HopByHop::Report { pointer, .. } if ip.bytes.get(pointer) == Some(&JUMBO_PAYLOAD) => judge_jumbo(ip, pointer),
        HopByHop::Report { pointer, .. } => OptionVerdict::Refuse(IcmpErrorCause::Option { pointer }),
    }
}

/// A jumbo payload option (RFC 2675 3). No link here carries a packet that needs one, so it is always an error. The kind of error determines the
/// report.
fn judge_jumbo(ip: &Ipv6<'_>, pointer: usize) -> OptionVerdict {
    let aligned = pointer % 4 == 2;
    match ip.bytes.get(pointer + 1..).and_then(|rest| rest.first_chunk()) {
        Some(&[4, 0, 0, _, _]) if aligned => OptionVerdict::Refuse(IcmpErrorCause::Field { pointer: pointer + 2 }),
        Some(&[4, ..]) if aligned && ip.header.payload_length() != 0 => {
            OptionVerdict::Refuse(IcmpErrorCause::Field { pointer })
        }
        _ => OptionVerdict::Drop(DropReason::BadOption),
    }
}

/// Clears the bytes behind the end of the option list: padding must be zero (RFC 791 3.1).
fn blank_padding(l3: &mut [u8]) {
    let Ok(ip) = Ipv4::parse_without_checksum(l3) else { return };
    let end = ipv4_options::options(ip.options).flatten().find(|placed| placed.option == Ipv4Option::End);
    let (Some(end), length) = (end.map(|end| usize::from(end.offset)), ip.header_length()) else { return };
    let padding = &mut l3[end..length];
    if padding.iter().any(|&byte| byte != 0) {
        padding.fill(0);
        renew_checksum(&mut l3[..length]);
    }
}

/// Keeps only the recording options of a reply and returns its new length. Other options of the request must not apply to the way back (RFC 1122
/// 3.2.2.6).
pub(super) fn only_records(l3: &mut [u8]) -> Option<usize> {
    let ip = Ipv4::parse_without_checksum(l3).ok()?;
    let (old, total) = (ip.header_length(), ip.bytes.len());
    let mut kept = Vec::with_capacity(ip.options.len());
    for placed in ipv4_options::options(ip.options).flatten() {
        if let Ipv4Option::RecordRoute { .. } | Ipv4Option::Timestamp { .. } = placed.option {
            let at = usize::from(placed.offset);
            let bytes = &l3[at..at + usize::from(placed.length)];
            // Record route comes first.
            let place = if let Ipv4Option::RecordRoute { .. } = placed.option { 0 } else { kept.len() };
            kept.splice(place..place, bytes.iter().copied());
        }
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    let new = ipv4::HEADER + kept.len();
    l3[ipv4::HEADER..new].copy_from_slice(&kept);
    // Options only become shorter, so the payload moves forward in place.
    l3.copy_within(old..total, new);
    l3[0] = 0x40 | (new / 4) as u8;
    let length = total - (old - new);
    l3[2..4].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
    renew_checksum(&mut l3[..new]);
    Some(length)
}

fn renew_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// True if an address is local on any interface of the VRF of `scope`.
pub(super) fn is_own4(address: Ipv4Addr, scope: InterfaceId, world: &impl World) -> bool {
    matches!(world.lookup(scope, IpAddr::V4(address)), Outcome::Local(_))
}

/// Milliseconds of the router's clock, which has no time of day. The high bit marks this (RFC 791 3.1, "internet timestamp").
pub(super) fn timestamp(now: Instant) -> u32 {
    const NOT_UNIVERSAL_TIME: u32 = 1 << 31;
    (now.get() / 1_000_000) as u32 | NOT_UNIVERSAL_TIME
}

/// An unknown option that must not be skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UnknownAt {
    /// Malformed, or to be dropped silently.
    Silent,
    /// An error must be sent with the offset of its type.
    Report(usize),
}

/// The first option that must not be skipped in a destination options header at offset `at`. Only padding is known.
pub(super) fn first_unknown(header: &[u8], at: usize) -> Option<UnknownAt> {
    let mut padding = Padding::default();
    for option in Ipv6Options::of(header, at) {
        let Ok(option) = option else { return Some(UnknownAt::Silent) };
        if !padding.accepts(&option) {
            return Some(UnknownAt::Silent);
        }
        if let Ipv6Option::PAD1 | Ipv6Option::PADN = option.kind {
            continue;
        }
        match option.if_unknown() {
            UnknownOption::Discard => return Some(UnknownAt::Silent),
            UnknownOption::Report | UnknownOption::ReportUnicast => return Some(UnknownAt::Report(option.offset)),
            UnknownOption::Skip => {}
        }
    }
    None
}
