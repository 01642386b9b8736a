//! Differences within packets that both routers send: identifications, times, options of errors.

use super::{ipv4, is_own, is_own4, l3};
use crate::bench::Outcome;
use crate::generator::SentFrame;
use crate::link_ends::OutputFrame;
use packet::wire::icmp4::{self, Icmp4};
use packet::wire::{Ipv4, checksum, protocol};
use std::ops::Range;

/// The position of the identification in a header.
const IDENTIFICATION: Range<usize> = 4..6;
/// Type of an ICMP timestamp reply.
const TIMESTAMP_REPLY: u8 = 14;
/// Types of IPv4 options.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;

/// The packets that both routers sent in the same position, one pair after the other.
fn pairs(out: &mut Outcome) -> impl Iterator<Item = (&mut OutputFrame, &mut OutputFrame)> {
    let same = out.kernel.len() == out.ours.len();
    out.kernel.iter_mut().zip(&mut out.ours).filter(move |(kernel, ours)| same && kernel.link == ours.link)
}

/// RFC 6864 4.1: the identification of a packet that may be fragmented must not repeat soon, and has no other meaning.
pub fn identification(out: &mut Outcome) -> bool {
    let mut explained = false;
    for (kernel, ours) in pairs(out) {
        if !is_own4(kernel) || !is_own4(ours) {
            continue;
        }
        let (Some(a), Some(b)) = (ipv4(&kernel.frame), ipv4(&ours.frame)) else { continue };
        let free = !a.header.dont_fragment() && !b.header.dont_fragment();
        if free && a.header.identification() != b.header.identification() {
            let field = std::slice::from_ref(&IDENTIFICATION);
            without(kernel, field);
            without(ours, field);
            explained = true;
        }
    }
    explained
}

/// Zeroes bytes of the IPv4 packet in a frame with correct checksums, and corrects the checksums.
fn without(seen: &mut OutputFrame, ranges: &[Range<usize>]) {
    let Some((_, at)) = l3(&seen.frame) else { return };
    let packet = &mut seen.frame[at..];
    ranges.iter().for_each(|range| packet[range.clone()].fill(0));
    let (header, payload) = packet.split_at_mut(usize::from(packet[0] & 0xf) * 4);
    let is_icmp = header[9] == protocol::ICMP && header[6] & 0x1f == 0 && header[7] == 0;
    if is_icmp && payload.len() >= icmp4::HEADER && Icmp4::parse(payload).is_err() {
        renew(payload, 2);
    }
    renew(header, 10);
}

fn renew(bytes: &mut [u8], at: usize) {
    bytes[at..at + 2].fill(0);
    let sum = checksum::checksum(bytes);
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The router's clock does not know the time of day, which RFC 791 3.1 and RFC 792 permit. The address beside the time is that of the egress link;
/// Linux writes that of the ingress link.
pub fn timestamps(out: &mut Outcome) -> bool {
    let mut explained = false;
    for (kernel, ours) in pairs(out) {
        let (Some(a), Some(b)) = (ipv4(&kernel.frame), ipv4(&ours.frame)) else { continue };
        let (theirs, own) = (times(&a), times(&b));
        if theirs.is_empty() || theirs != own || kernel.frame == ours.frame {
            continue;
        }
        without(kernel, &theirs);
        without(ours, &theirs);
        explained = true;
    }
    explained
}

/// The positions of times that the router wrote when it forwarded or answered a packet.
fn times(ip: &Ipv4<'_>) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut at = 20;
    while let Some(&[kind, length, pointer, flag]) =
        ip.bytes[..ip.header_length()].get(at..).and_then(|o| o.first_chunk())
        && kind != END
    {
        let (length, pointer, flag) = (usize::from(length), usize::from(pointer), flag & 0xf);
        if kind == TIMESTAMP {
            let entry = if flag == 1 || flag == 3 { 8 } else { 4 };
            let noted = if flag == 3 { 4 } else { entry };
            // A reply has two entries.
            let end = at + pointer - 1;
            let ends = [end, end.saturating_sub(entry)];
            let twice = if is_own(ip.header.source()) { 2 } else { 1 };
            ranges.extend(ends[..twice].iter().filter(|&&end| end >= at + 4 + entry).map(|&end| end - noted..end));
        }
        at += if kind == NO_OPERATION { 1 } else { length.max(2) };
    }
    let is_reply = ip.header.protocol() == protocol::ICMP && ip.payload.first() == Some(&TIMESTAMP_REPLY);
    if is_reply && ip.header.is_first() && Icmp4::parse(ip.payload).is_ok() && ip.payload.len() >= 20 {
        ranges.push(ip.header_length() + 12..ip.header_length() + 20);
    }
    ranges
}

/// Linux copies recording options and some others into the ICMP error about a packet. It quotes the options with its own entries. RFC 1812 4.3.2.6
/// requires this of source routes only, and 4.3.2.3 does not define which changes of the header the quotation shows.
pub fn options_of_errors(out: &mut Outcome) -> bool {
    let mut explained = false;
    for (kernel, ours) in pairs(out) {
        let (Some((mut a, theirs)), Some((mut b, own))) = (quoted(kernel), quoted(ours)) else { continue };
        let header = usize::from(a[0] & 0xf) * 4;
        if a.get(..header) == b.get(..header) && theirs == own {
            continue;
        }
        // The length of the options is missing at the end of a quotation of maximum length.
        let full = |length: usize, options: usize| length + options + 28 == icmp4::LONGEST_ERROR;
        if full(a.len(), theirs) {
            b.truncate(a.len());
        }
        for quoted in [&mut a, &mut b] {
            let header = usize::from(quoted[0] & 0xf) * 4;
            quoted[20..header].fill(0);
            quoted[10..12].fill(0);
        }
        (kernel.frame, ours.frame) = (reframed(kernel, &a), reframed(ours, &b));
        explained = true;
    }
    explained
}

/// If a recorded route then has room for less than an address, Linux considers the copied options invalid and does not answer.
pub fn unrecordable(sent: &SentFrame, out: &mut Outcome) -> bool {
    let Some(ip) = ipv4(&sent.frame) else { return false };
    let odd = ip.options.windows(3).any(|option| {
        let left = i16::from(option[1]) - i16::from(option[2]) + 1;
        option[0] == RECORD_ROUTE && left > 4 && left < 8
    });
    let explained = odd && out.kernel.is_empty() && !out.ours.is_empty() && out.ours.iter().all(is_own4);
    if explained {
        out.ours.clear();
    }
    explained
}

/// The same for resets, for which RFC 1122 4.2.3.8 leaves the choice to TCP.
pub fn options_of_resets(out: &mut Outcome) -> bool {
    let mut explained = false;
    for (kernel, ours) in pairs(out) {
        let (Some(a), Some(b)) = (ipv4(&kernel.frame), ipv4(&ours.frame)) else { continue };
        let reset = a.header.protocol() == protocol::TCP && is_own4(kernel);
        if reset && !a.options.is_empty() && b.options.is_empty() {
            let Some((_, at)) = l3(&kernel.frame) else { continue };
            let mut packet = [&a.bytes[..20], a.payload].concat();
            packet[0] = 0x45;
            let length = packet.len() as u16;
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            renew(&mut packet[..20], 10);
            kernel.frame.splice(at.., packet);
            explained = true;
        }
    }
    explained
}

/// If a packet has a source route and an invalid option, Linux sends the error back along the route.
pub fn error_along_a_route(sent: &SentFrame, out: &mut Outcome) -> bool {
    let Some(ip) = ipv4(&sent.frame) else { return false };
    let routed = ip.options.windows(2).any(|option| matches!(option[0], 131 | 137) && option[1] > 6);
    let ([kernel], [ours]) = (&out.kernel[..], &out.ours[..]) else { return false };
    let (Some(a), Some(b)) = (ipv4(&kernel.frame), ipv4(&ours.frame)) else { return false };
    let problem =
        |seen: &OutputFrame, ip: &Ipv4<'_>| is_own4(seen) && ip.payload.first() == Some(&icmp4::PARAMETER_PROBLEM);
    let explained = routed
        && problem(kernel, &a)
        && problem(ours, &b)
        && a.payload[4..8] == b.payload[4..8]
        && a.header.destination() != b.header.destination()
        && b.header.destination() == ip.header.source();
    if explained {
        (out.kernel, out.ours) = (Vec::new(), Vec::new());
    }
    explained
}

/// The packet with options that an ICMP error of the router quotes, and the length of the error's own options.
fn quoted(seen: &OutputFrame) -> Option<(Vec<u8>, usize)> {
    let ip = ipv4(&seen.frame).filter(|_| is_own4(seen))?;
    if ip.header.protocol() != protocol::ICMP {
        return None;
    }
    let quoted = match Icmp4::parse(ip.payload).ok()? {
        Icmp4::Unreachable { original, .. }
        | Icmp4::TimeExceeded { original, .. }
        | Icmp4::ParameterProblem { original, .. } => original,
        _ => return None,
    };
    let header = usize::from(quoted.first()? & 0xf) * 4;
    (header > 20 && quoted.len() >= header).then(|| (quoted.to_vec(), ip.options.len()))
}

/// An error with another quotation and without own options.
fn reframed(seen: &OutputFrame, quoted: &[u8]) -> Vec<u8> {
    let (Some((_, at)), Some(ip)) = (l3(&seen.frame), ipv4(&seen.frame)) else { return seen.frame.clone() };
    let mut message = [&ip.payload[..icmp4::HEADER], quoted].concat();
    renew(&mut message, 2);
    let mut header = ip.bytes[..20].to_vec();
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + message.len() as u16).to_be_bytes());
    renew(&mut header, 10);
    [&seen.frame[..at], &header, &message].concat()
}
