//! Transmission of the router's own packets: next hop and frame.

use super::path_mtu::Mark;
use super::{HeldPacket, Key, LocalProtocols, World};
use packet::wire::{Ipv4, Ipv4Header, Ipv6Header, ethernet, ethertype, ipv6, protocol};
use packet::{DropReason, Meta, Packet};
use std::net::IpAddr;
use units::{InterfaceId, Mac};

/// The initial time to live and hop limit (IANA, "IP time to live parameter").
pub(super) const HOPS: u8 = 64;

/// An empty packet of our own with room for `length` bytes; none if the pool is empty.
pub(super) fn empty_packet(length: usize, world: &mut impl World) -> Option<Packet> {
    let mut packet = world.generate(length)?;
    packet.meta_mut().flags |= Meta::GENERATED;
    if packet.resize(length) {
        return Some(packet);
    }
    world.drop(packet, DropReason::FrameTooLong);
    None
}

/// A packet of our own with contents from `write`, which receives `length` bytes and returns the number it used.
pub(super) fn packet_with(
    length: usize,
    world: &mut impl World,
    write: impl FnOnce(&mut [u8]) -> Option<usize>,
) -> Option<Packet> {
    let mut packet = empty_packet(length, world)?;
    match write(packet.bytes_mut()) {
        Some(used) if packet.resize(used) => Some(packet),
        _ => {
            world.drop(packet, DropReason::FrameTooLong);
            None
        }
    }
}

/// The flow hash of the router's own packets to a destination: all use the same member of a next-hop group.
fn flow_to(destination: IpAddr, world: &impl World) -> u32 {
    let bits = match destination {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    // Folded and multiplied (Knuth, TAOCP 3, 6.4): every bit affects the high half.
    let folded = (bits ^ bits >> 64) as u64 ^ world.tables().flow_key();
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// The way to `destination`: the interface and the next hop on its link. A link-local address is on the link of `scope`; any other is looked up in
/// its VRF. None if there is no route or the destination is local.
pub(super) fn next_hop_key(destination: IpAddr, scope: InterfaceId, world: &impl World) -> Option<Key> {
    match destination {
        IpAddr::V6(address) if address.is_unicast_link_local() => Some((scope, destination)),
        _ => world.next_hop(world.lookup(scope, destination), destination, flow_to(destination, world)),
    }
}

/// The destination of one of our packets, and the mark by which it is recognised when a router quotes it.
pub(super) fn packet_mark(l3: &[u8]) -> Option<(IpAddr, Mark)> {
    match l3.first()? >> 4 {
        4 => {
            let header = Ipv4Header::of(l3)?;
            Some((header.destination().into(), header.identification().into()))
        }
        _ => {
            let header = Ipv6Header::of(l3)?;
            let behind = l3.get(ipv6::HEADER..)?.first_chunk::<8>()?;
            let [_, _, _, _, i, j, k, l] = *behind;
            let fragment = header.next_header() == protocol::FRAGMENT;
            // A later fragment begins in the middle of a message, so a fragment is recognised by its identification.
            let mark = if fragment { u32::from_be_bytes([i, j, k, l]).into() } else { u64::from_be_bytes(*behind) };
            Some((header.destination().into(), mark))
        }
    }
}

impl LocalProtocols {
    /// Sends an IP packet of our own, still without a link header.
    pub(super) fn originate(&mut self, way: Key, packet: Packet, world: &mut impl World) {
        let Some(link) = world.mtu(way.0) else {
            return world.drop(packet, DropReason::PortRemoved);
        };
        let now = world.now();
        let path = packet_mark(packet.bytes()).and_then(|(destination, _)| self.path_mtus.get(destination, now));
        // A path MTU learned earlier may exceed the present MTU of the link.
        let mtu = usize::from(path.map_or(link, |path| path.min(link)));
        if packet.len() <= mtu {
            return self.originate_whole(way, packet, world);
        }
        let fragments = match Ipv4::parse_without_checksum(packet.bytes()) {
            Ok(ip) if ip.header.dont_fragment() => return world.drop(packet, DropReason::TooBig),
            Ok(_) => self.fragment(packet, mtu, world),
            Err(_) => self.fragment6(packet, mtu, world),
        };
        for fragment in fragments {
            self.originate_whole(way, fragment, world);
        }
    }

    fn originate_whole(&mut self, way: Key, packet: Packet, world: &mut impl World) {
        if let Some((destination, mark)) = packet_mark(packet.bytes()) {
            self.path_mtus.record_sent(destination, packet.len(), mark, world.now());
        }
        self.submit(way, HeldPacket::Own(packet), world);
    }

    /// Sends an IP packet of our own to a host on the link.
    pub(super) fn transmit_ip(&mut self, interface: InterfaceId, packet: Packet, mac: Mac, world: &mut impl World) {
        let is_ipv6 = packet.bytes().first().is_some_and(|byte| byte >> 4 == 6);
        let kind = if is_ipv6 { ethertype::IPV6 } else { ethertype::IPV4 };
        self.transmit(interface, packet, mac, kind, world);
    }

    /// Writes the link header and sends the frame.
    pub(super) fn transmit(
        &mut self,
        interface: InterfaceId,
        mut packet: Packet,
        destination: Mac,
        kind: u16,
        world: &mut impl World,
    ) {
        let Some((mac, vlan)) = world.interface(interface).map(|interface| (interface.mac, interface.vlan)) else {
            return world.drop(packet, DropReason::PortRemoved);
        };
        let length = ethernet::header_length(vlan);
        // A packet of our own always has enough headroom.
        if !packet.shift(-(length as isize)) {
            return world.drop(packet, DropReason::FrameTooLong);
        }
        ethernet::write_header(&mut packet.bytes_mut()[..length], destination, mac, vlan, kind);
        let meta = packet.meta_mut();
        meta.l3 = length as u16;
        meta.out_interface = interface;
        meta.flags |= if kind == ethertype::IPV6 { Meta::IPV6 } else { 0 };
        world.send(interface, packet);
    }
}
