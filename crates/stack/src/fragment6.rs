//! IPv6 packets of the router's own that are longer than the path MTU: their source fragments them (RFC 8200 4.5).

use super::output::empty_packet;
use super::{LocalProtocols, World};
use packet::wire::{Ipv6Header, ipv6, protocol};
use packet::{DropReason, Packet};

/// The bytes of a fragment header.
const HEADER: usize = 8;

impl LocalProtocols {
    /// Fragments a packet without extension headers to at most `mtu` bytes. If the pool has too few frames, the packet is dropped and there is no
    /// fragment.
    pub(super) fn fragment6(&mut self, packet: Packet, mtu: usize, world: &mut impl World) -> Vec<Packet> {
        let identification = self.next_identification6();
        // The fragmented part: everything behind the fixed header.
        let step = mtu.saturating_sub(ipv6::HEADER + HEADER) / 8 * 8;
        let header = Ipv6Header::of(packet.bytes()).copied().filter(|header| header.version() == 6 && step > 0);
        let Some(header) = header else {
            world.drop(packet, DropReason::TooBig);
            return Vec::new();
        };
        let payload = &packet.bytes()[ipv6::HEADER..];
        let mut fragments = Vec::with_capacity(payload.len().div_ceil(step));
        for (index, part) in payload.chunks(step).enumerate() {
            let Some(mut fragment) = empty_packet(ipv6::HEADER + HEADER + part.len(), world) else {
                fragments.drain(..).for_each(|fragment| world.drop(fragment, DropReason::PoolEmpty));
                world.drop(packet, DropReason::PoolEmpty);
                return fragments;
            };
            let at = index * step;
            // The offset is a multiple of eight, which leaves the lowest bit for "more fragments".
            let field = at as u16 | u16::from(at + part.len() < payload.len());
            let bytes = fragment.bytes_mut();
            bytes[..ipv6::HEADER].copy_from_slice(&packet.bytes()[..ipv6::HEADER]);
            if let Some(own) = Ipv6Header::of_mut(bytes) {
                own.set_next_header(protocol::FRAGMENT);
                own.set_payload_length((HEADER + part.len()) as u16);
            }
            let (fixed, rest) = bytes[ipv6::HEADER..].split_at_mut(HEADER);
            fixed[..2].copy_from_slice(&[header.next_header(), 0]);
            fixed[2..4].copy_from_slice(&field.to_be_bytes());
            fixed[4..].copy_from_slice(&identification.to_be_bytes());
            rest.copy_from_slice(part);
            fragments.push(fragment);
        }
        world.consume(packet);
        fragments
    }
}
