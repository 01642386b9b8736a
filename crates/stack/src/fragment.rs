//! Packets longer than the MTU of the next link. IPv4 packets without DF are fragmented on their path: see `worker::cutting`. The host receives the
//! others, and reports the MTU to the sender (RFC 1191, RFC 8201). The router's own packets are fragmented here (RFC 791 2.3).

use super::errors::IcmpErrorCause;
use super::output::{empty_packet, next_hop_key};
use super::{LocalProtocols, Parsed, World, l3, parse};
use packet::segment::network_length;
use packet::wire::Fragmenter;
use packet::{DropReason, Packet};
use std::net::IpAddr;

impl LocalProtocols {
    /// A forwarded packet that is longer than the MTU of its egress link and must not be fragmented.
    pub(super) fn receive_too_big(&mut self, packet: Packet, world: &mut impl World) {
        let (destination, length) = match parse(&packet) {
            Some(Parsed::V4(ip)) => (IpAddr::V4(ip.header.destination()), ip.bytes.len()),
            Some(Parsed::V6(ip)) => (IpAddr::V6(ip.header.destination()), ip.bytes.len()),
            None => return world.drop(packet, DropReason::HeaderTruncated),
        };
        // For a super-frame the length of its segments counts.
        let length = network_length(&packet).unwrap_or(length);
        let out = next_hop_key(destination, packet.meta().in_interface, world).map(|(interface, _)| interface);
        let mtu = out.and_then(|id| world.mtu(id));
        match mtu {
            Some(mtu) if length > usize::from(mtu) => {
                // An outer packet has no other sender than the router: its tunnel learns the MTU instead (RFC 2003 5.1).
                world.reduce_tunnel_mtu(l3(&packet), mtu.into());
                self.drop_with_error(packet, IcmpErrorCause::TooBig { mtu }, DropReason::TooBig, world);
            }
            // The route or the link has changed meanwhile. The next packet of the sender is treated anew.
            _ => world.drop(packet, DropReason::TooBig),
        }
    }

    /// Fragments a packet of our own to at most `mtu` bytes. If the pool has too few frames, the packet is dropped and there is no fragment.
    pub(super) fn fragment(&mut self, packet: Packet, mtu: usize, world: &mut impl World) -> Vec<Packet> {
        let Some(mut cut) = Fragmenter::new(packet.bytes(), usize::from(packet.meta().l3), mtu) else {
            world.drop(packet, DropReason::TooBig);
            return Vec::new();
        };
        let mut fragments = Vec::new();
        while cut.next_length() > 0 {
            let fragment = empty_packet(cut.next_length(), world).map(|mut fragment| {
                let flags = fragment.meta().flags;
                *fragment.meta_mut() = *packet.meta();
                fragment.meta_mut().flags |= flags;
                let fits = cut.write(packet.bytes(), fragment.bytes_mut());
                debug_assert!(fits.is_some(), "the buffer is as long as the fragment");
                fragment
            });
            match fragment {
                Some(fragment) => fragments.push(fragment),
                None => {
                    fragments.drain(..).for_each(|fragment| world.drop(fragment, DropReason::PoolEmpty));
                    world.drop(packet, DropReason::PoolEmpty);
                    return fragments;
                }
            }
        }
        world.consume(packet);
        fragments
    }
}
