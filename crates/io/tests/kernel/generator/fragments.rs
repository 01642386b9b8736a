//! Fragments of a packet in any order, sometimes with one too many or one too few.

use super::SentFrame;
use super::v4::is_limited;
use crate::random::Random;
use packet::wire::{Ethernet, Ipv4, Ipv6, checksum, ethertype, protocol};

/// A fragment's part of a packet: start, end, and true for the last.
type Part = (usize, usize, bool);

/// Fragments the packet of a frame. A packet that cannot be fragmented is left whole.
pub fn cut(r: &mut Random, sent: SentFrame) -> Vec<SentFrame> {
    let Ok(link) = Ethernet::parse(&sent.frame) else { return vec![sent] };
    let (header, l3) = sent.frame.split_at(link.payload);
    let fragments = match link.ethertype() {
        Some(ethertype::IPV4) => {
            let ip = Ipv4::parse(l3).ok().filter(|ip| !is_limited(ip.header.destination()));
            ip.map(|ip| cut4(r, &ip))
        }
        Some(ethertype::IPV6) => Ipv6::parse(l3).ok().and_then(|ip| cut6(r, &ip)),
        _ => None,
    };
    match fragments {
        Some(fragments) => {
            let framed = |l3: Vec<u8>| SentFrame { link: sent.link, frame: [header, &l3].concat() };
            fragments.into_iter().map(framed).collect()
        }
        None => vec![sent],
    }
}

/// The fragment boundaries of `length` bytes.
fn parts(r: &mut Random, length: usize) -> Vec<Part> {
    let size = (8 * (1 + r.below(64))).max((length / 20).next_multiple_of(8));
    let mut parts: Vec<Part> =
        (0..length).step_by(size).map(|at| (at, (at + size).min(length), at + size >= length)).collect();
    let last = parts.len().saturating_sub(1);
    match r.below(12) {
        // A duplicate, or another part in its place: longer, shorter, beyond the end, or with another end.
        0 if last > 0 => parts.push(parts[r.below(last)]),
        1 if last > 0 => parts.insert(0, (parts[last].0 - 8, length, true)),
        2 if last > 0 => parts.push((parts[last].0, parts[last].0 + 8, r.percent(50))),
        3 if last > 1 => parts.push((8, parts[1].1, false)),
        4 if last > 0 => drop(parts.pop()),
        _ => {}
    }
    let count = parts.len();
    if r.percent(60) {
        for i in 0..count {
            parts.swap(i, r.below(count));
        }
    }
    parts.retain(|&(start, end, _)| start < end && end <= length);
    parts
}

fn cut4(r: &mut Random, ip: &Ipv4<'_>) -> Vec<Vec<u8>> {
    let header = ip.header_length();
    let identification = r.word();
    let mixed = r.percent(5);
    let fragment = |(start, end, last): Part, r: &mut Random| {
        let mut l3 = ip.bytes[..header].to_vec();
        l3.extend_from_slice(&ip.payload[start..end]);
        let total = l3.len() as u16;
        l3[2..4].copy_from_slice(&total.to_be_bytes());
        l3[4..6].copy_from_slice(&identification.to_be_bytes());
        let field = (start / 8) as u16 | if last { 0 } else { 0x2000 };
        l3[6..8].copy_from_slice(&field.to_be_bytes());
        l3[1] ^= if mixed { r.byte() & 3 } else { 0 };
        l3[10..12].fill(0);
        let sum = checksum::checksum(&l3[..header]);
        l3[10..12].copy_from_slice(&sum.to_be_bytes());
        l3
    };
    let parts = parts(r, ip.payload.len());
    parts.into_iter().map(|part| fragment(part, r)).collect()
}

/// The fragment header follows hop-by-hop options, or is the first.
fn cut6(r: &mut Random, ip: &Ipv6<'_>) -> Option<Vec<Vec<u8>>> {
    let options = ip.header.next_header() == protocol::HOP_BY_HOP;
    let at = if options { 40 + (usize::from(*ip.bytes.get(41)?) + 1) * 8 } else { 40 };
    let named_at = if options { 40 } else { 6 };
    let (before, behind) = ip.bytes.split_at_checked(at)?;
    let (next, identification) = (*ip.bytes.get(named_at)?, r.bytes(4));
    let mixed = r.percent(5);
    let fragment = |(start, end, last): Part, r: &mut Random| {
        let field = start as u16 | u16::from(!last);
        let mut l3 = before.to_vec();
        l3[named_at] = protocol::FRAGMENT;
        l3[1] ^= if mixed { (r.byte() & 3) << 4 } else { 0 };
        l3.extend([next, 0]);
        l3.extend(field.to_be_bytes());
        l3.extend(&identification);
        l3.extend_from_slice(&behind[start..end]);
        let length = (l3.len() - 40) as u16;
        l3[4..6].copy_from_slice(&length.to_be_bytes());
        l3
    };
    let parts = parts(r, behind.len());
    Some(parts.into_iter().map(|part| fragment(part, r)).collect())
}
