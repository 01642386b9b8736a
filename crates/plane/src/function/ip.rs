//! IP forwarding proper: decrements the time to live and gives the packet the link header of its next hop.
//!
//! RFC 1812 5.3.1 (time to live), RFC 1624 (incremental checksum), RFC 8200 3 (hop limit). The classifier has already decided that the packet
//! may be forwarded.

use super::{Context, Function, FunctionRegistration};
use crate::multicast::{PASSTHROUGH, REPLICA};
use packet::wire::{ipv4, ipv6};
use packet::{Exception, Meta, Packet};
use units::declare::{Declaration, DeclaredCost};
use units::{Mac, Nanos};

pub(super) const REGISTRATION: FunctionRegistration =
    FunctionRegistration { declaration: Ip::DECLARATION, make: |_, _| Box::new(Ip) };

/// The function `ip`.
#[derive(Clone, Copy, Debug)]
pub struct Ip;

impl Ip {
    /// Its declaration.
    pub const DECLARATION: Declaration = Declaration {
        name: "ip",
        summary: "forward by IP: lower the time to live, write the link header of the next hop",
        cost: DeclaredCost::Measured { packet: Nanos::new(50), kilobyte: Nanos::ZERO },
        source: "RFC 1812 section 5, RFC 8200 section 3",
        options: &[],
    };
}

impl Function for Ip {
    fn process(&mut self, context: Context<'_>, packets: &mut [Packet]) -> bool {
        let mut rewrites = [Rewrite::NONE; REWRITES];
        let (mut all, mut lost) = (true, false);
        for packet in packets {
            let meta = packet.meta();
            let key = meta.link_key();
            let known = &mut rewrites[key as usize % REWRITES];
            if key == known.key && meta.is_plain_ipv4() && known.apply(packet) {
                continue;
            }
            if packet.meta().refused | packet.meta().exception == 0 {
                forward(context, packet, lost);
                *known = Rewrite::of(packet);
                // Later packets of the batch must not overtake this one.
                if packet.meta().exception != 0 && !lost {
                    lost = true;
                    // Their adjacencies may have changed since their link headers were stored: read them again.
                    rewrites = [Rewrite::NONE; REWRITES];
                }
            }
            all &= packet.meta().refused | packet.meta().exception == 0;
        }
        all
    }
}

/// Offset of the network header behind an Ethernet header without a tag.
const PLAIN: u16 = 14;

/// The number of link headers that are kept, a power of two.
const REWRITES: usize = 16;

/// The link header of an earlier packet. The next packet to the same neighbour gets the same one. It is reset for each batch.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Rewrite {
    /// [`Meta::link_key`] of the packet. The same adjacency in the same version, without a tag, means the same link header.
    key: u64,
    addresses: [u8; 12],
}

impl Rewrite {
    /// No packet has this key: adjacencies have fewer bits.
    const NONE: Rewrite = Rewrite { key: u64::MAX, addresses: [0; 12] };

    /// The link header of `packet`, which was just forwarded, if it has no tag.
    fn of(packet: &Packet) -> Rewrite {
        let meta = packet.meta();
        match packet.bytes().first_chunk::<12>() {
            // Replicas to different groups have the same adjacency, but different addresses.
            Some(&addresses) if meta.exception == 0 && meta.l3 == PLAIN && meta.adjacency < PASSTHROUGH => {
                Rewrite { key: meta.link_key(), addresses }
            }
            _ => Rewrite::NONE,
        }
    }

    /// Forwards a plain IPv4 packet. Returns false, and changes nothing, if it is too short to be one.
    #[inline(always)]
    fn apply(&self, packet: &mut Packet) -> bool {
        let Some(frame) = packet.bytes_mut().first_chunk_mut::<{ PLAIN as usize + ipv4::HEADER }>() else {
            return false;
        };
        let (link, header) = frame.split_at_mut(PLAIN as usize);
        link[..12].copy_from_slice(&self.addresses);
        if let Some(header) = header.first_chunk_mut::<{ ipv4::HEADER }>() {
            ipv4::decrement_ttl(header);
        }
        true
    }
}

/// Decrements the time to live and rewrites the link header. If the next hop was lost since the route lookup, the packet becomes an exception. A
/// changed address of the same next hop is fine, unless an earlier packet has lost its next hop and must not be overtaken (`lost`).
#[inline(always)]
pub(crate) fn forward(context: Context<'_>, packet: &mut Packet, lost: bool) {
    let meta = *packet.meta();
    // A pass-through frame leaves unchanged.
    if meta.adjacency == PASSTHROUGH {
        return;
    }
    if meta.adjacency == REPLICA {
        let mac = group_mac(packet);
        return rewrite(context, packet, mac);
    }
    let mut link = context.tables.adjacencies().load(meta.adjacency);
    // The adjacency has changed since the packet was classified.
    if link.version() != meta.version {
        let (now, interface) = context.tables.adjacencies().hop(meta.adjacency);
        if lost || !now.is_resolved() || interface != meta.out_interface {
            packet.meta_mut().exception = Exception::Resolve as u8;
            return;
        }
        link = now;
    }
    rewrite(context, packet, link.mac());
}

/// The link-layer address of a replica's group (RFC 1112 6.4, RFC 2464 7).
#[cold]
fn group_mac(packet: &Packet) -> Mac {
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..).unwrap_or_default();
    if packet.meta().flags & Meta::IPV6 == 0 {
        ipv4::Ipv4Header::of(l3).map(|header| ipv4::multicast_mac(header.destination()))
    } else {
        ipv6::Ipv6Header::of(l3).map(|header| ipv6::multicast_mac(header.destination()))
    }
    .unwrap_or_default()
}

/// Decrements the time to live and writes the link header, to `mac`.
#[inline(always)]
fn rewrite(context: Context<'_>, packet: &mut Packet, mac: Mac) {
    let meta = *packet.meta();
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
    // The two addresses are the upper 12 of 16 bytes; ethertype or tag follow in the lower four.
    let ends = (u128::from(mac.number()) << 80) | (u128::from(egress.mac) << 32);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::UdpFrame;
    use crate::snapshot::Snapshot;
    use fib::Tables;
    use packet::{Pool, Region};
    use std::cell::Cell;
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use units::{AdjacencyId, Instant, InterfaceId, Mac};

    const OUT: InterfaceId = InterfaceId(0);

    /// A packet whose route was looked up with the present state of the adjacency.
    fn classified(pool: &mut Pool, tables: &Tables, adjacency: AdjacencyId) -> Packet {
        let (here, there) = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(10, 0, 0, 1));
        let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([2, 0, 0, 0, 0, 1]));
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&UdpFrame { link, network: (here, there), ports: (9, 9), ttl: 64, length: 60 }.frame(&[])));
        let meta = packet.meta_mut();
        (meta.l3, meta.out_interface, meta.adjacency) = (14, OUT, adjacency);
        meta.version = tables.adjacencies().load(adjacency).version();
        packet
    }

    /// Two packets of a flow are in one batch. The next hop of the first is lost since the lookup; that of the second has changed its address.
    /// Alone, the second would be forwarded. Behind the first it must wait, to keep the order.
    #[test]
    fn batch_behind_a_lost_next_hop_ignores_a_changed_adjacency() {
        let (tables, snapshot, mut pool) = (Arc::new(Tables::new()), Snapshot::empty(), Pool::new(Region::new(8)));
        let hops = [1, 2].map(|host| IpAddr::from([192, 0, 2, host]));
        let [first, second] = hops.map(|hop| {
            assert!(tables.resolve(OUT, hop, Mac([2, 0, 0, 0, 0, 0xa])));
            tables.adjacency_for(OUT, hop).unwrap()
        });
        let mut packets = [first, second, second].map(|adjacency| classified(&mut pool, &tables, adjacency));
        let moved = Mac([2, 0, 0, 0, 0, 0xb]);
        tables.unresolve(OUT, hops[0]);
        tables.unresolve(OUT, hops[1]);
        assert!(tables.resolve(OUT, hops[1], moved));
        let asked = Cell::default();
        let context = Context {
            now: Instant::START,
            snapshot: &snapshot,
            tables: &tables,
            nat: &snapshot.translations,
            limit: None,
            dry_run: false,
            extra_time: &asked,
        };
        assert!(Ip.process(context, &mut packets[2..]), "alone it goes to the new address");
        assert_eq!((packets[2].meta().exception, &packets[2].bytes()[..6]), (0, &moved.0[..]));
        assert!(!Ip.process(context, &mut packets[..2]));
        let resolve = Exception::Resolve as u8;
        assert_eq!([packets[0].meta().exception, packets[1].meta().exception], [resolve; 2]);
        packets.into_iter().for_each(|packet| pool.give(packet));
    }

    /// More next hops than link headers are kept, in turn, so that several share a place.
    #[test]
    fn interleaved_next_hops_get_their_own_link_headers() {
        const HOPS: u8 = 2 * REWRITES as u8 + 3;
        let (tables, snapshot) = (Arc::new(Tables::new()), Snapshot::empty());
        let mut pool = Pool::new(Region::new(4 * HOPS as usize));
        let mac = |hop: u8| Mac([2, 0, 0, 0, 1, hop]);
        let hops: Vec<AdjacencyId> = (0..HOPS)
            .map(|hop| {
                let address = IpAddr::from([192, 0, 2, hop]);
                assert!(tables.resolve(OUT, address, mac(hop)));
                tables.adjacency_for(OUT, address).unwrap()
            })
            .collect();
        let order: Vec<u8> = (0..3).flat_map(|_| (0..HOPS).flat_map(|hop| [hop, hop / 2])).take(100).collect();
        let mut packets: Vec<Packet> =
            order.iter().map(|&hop| classified(&mut pool, &tables, hops[usize::from(hop)])).collect();
        let asked = Cell::default();
        let context = Context {
            now: Instant::START,
            snapshot: &snapshot,
            tables: &tables,
            nat: &snapshot.translations,
            limit: None,
            dry_run: false,
            extra_time: &asked,
        };
        assert!(Ip.process(context, &mut packets));
        for (packet, &hop) in packets.iter().zip(&order) {
            assert_eq!((&packet.bytes()[..6], packet.bytes()[22]), (&mac(hop).0[..], 63), "next hop {hop}");
        }
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}
