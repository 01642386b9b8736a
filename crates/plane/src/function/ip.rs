//! IP forwarding proper: lowers the time to live and gives the packet the link header of its next hop.
//!
//! RFC 1812 5.3.1 (time to live), RFC 1624 (incremental checksum), RFC 8200 3 (hop limit). The classifier has already
//! found that the packet may go on.

use super::{Context, Function};
use crate::host::Exception;
use packet::wire::{ipv4, ipv6};
use packet::{Meta, Packet};
use units::declare::Declaration;

/// The function `ip`.
#[derive(Clone, Copy, Debug)]
pub struct Ip;

impl Ip {
    /// As the configuration names it.
    pub const DECLARATION: Declaration = Declaration {
        name: "ip",
        summary: "forward by IP: lower the time to live, write the link header of the next hop",
        source: "RFC 1812 section 5, RFC 8200 section 3",
        options: &[],
    };
}

impl Function for Ip {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) {
        for packet in packets {
            if packet.meta().refused | packet.meta().exception == 0 {
                forward(context, packet);
            }
        }
    }
}

/// Lowers the time to live and rewrites the link header. Leaves an exception where the next hop has changed since the
/// route was looked up.
#[inline(always)]
pub(crate) fn forward(context: Context<'_>, packet: &mut Packet) {
    let meta = *packet.meta();
    let link = context.tables.adjacencies().load(meta.adjacency);
    if link.version() != meta.version {
        packet.meta_mut().exception = Exception::Resolve as u8;
        return;
    }
    let egress = context.snapshot.egress(meta.out_interface);
    let (header, ethertype) = if meta.flags & Meta::IPV6 == 0 {
        lower_ttl(packet, meta.l3 as usize);
        (egress.header_length, 0x0800u16)
    } else {
        lower_hop_limit(packet, meta.l3 as usize);
        (egress.header_length, 0x86dd)
    };
    // The headroom of a received frame always holds the longer header: see `HEADROOM`.
    packet.shift(meta.l3 as isize - header as isize);
    packet.meta_mut().l3 = header;
    let bytes = packet.bytes_mut();
    let ends = (u128::from(link.mac().number()) << 80) | (u128::from(egress.mac) << 32);
    match egress.vlan {
        None => {
            let Some(place) = bytes.first_chunk_mut::<14>() else { return };
            let image = (ends | u128::from(ethertype) << 16).to_be_bytes();
            place.copy_from_slice(&image[..14]);
        }
        Some(vlan) => {
            let Some(place) = bytes.first_chunk_mut::<18>() else { return };
            let image = (ends | 0x8100_0000 | u128::from(vlan)).to_be_bytes();
            place[..16].copy_from_slice(&image);
            place[16..].copy_from_slice(&ethertype.to_be_bytes());
        }
    }
}

#[inline(always)]
fn lower_ttl(packet: &mut Packet, l3: usize) {
    let header = packet.bytes_mut().get_mut(l3..).and_then(|l3| l3.first_chunk_mut::<{ ipv4::HEADER }>());
    if let Some(header) = header {
        ipv4::decrement_ttl(header);
    }
}

#[inline(always)]
fn lower_hop_limit(packet: &mut Packet, l3: usize) {
    let header = packet.bytes_mut().get_mut(l3..).and_then(ipv6::Ipv6Header::of_mut);
    if let Some(header) = header {
        header.decrement_hop_limit();
    }
}
