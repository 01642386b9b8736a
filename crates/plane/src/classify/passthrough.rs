//! Pass-through ports: two ports that are the ends of a cable. Frames that arrive at one leave by the other, unchanged (spec E-40).
//!
//! Nothing is checked, because a cable carries any frame: frames to other hosts, unknown protocols, malformed frames. Only the offset of the IP
//! header is recorded, for schemes that classify flows, and for packet hooks and traces. It may follow VLAN tags and the header of a PPPoE session.

use super::{Classifier, Finding, REFUSED, Target, Witness, refuse, reset_meta};
use crate::multicast::PASSTHROUGH;
use crate::snapshot::{BEST_EFFORT, PortView};
use packet::segment::wire_length;
use packet::wire::ethernet::HEADER as ETHERNET;
use packet::wire::{Family, TagStack, ethertype};
use packet::{DropReason, Meta, Packet};
use units::{Instant, PortId};

impl<W: Witness> Classifier<'_, W> {
    /// Classifies packets received at one end: see [`Classifier::classify_batch`]. Returns the number of bytes received.
    #[inline(never)]
    pub(super) fn pass_batch(
        &self,
        (id, view): (PortId, &PortView),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        (targets, offloads): (&mut [Target], &mut bool),
    ) -> u64 {
        let mut bytes = 0;
        for (packet, target) in packets.iter_mut().zip(targets) {
            reset_meta(packet, arrival, id, view.untagged);
            *target = self.pass(view, packet);
            // The far port may lack the offloads of this one, so they may have to be completed before it.
            *offloads |= packet.is_offloaded();
            // A super-frame counts as the segments on the wire.
            bytes += wire_length(packet) as u64;
        }
        bytes
    }

    /// Sends one packet to the other end.
    pub(super) fn pass(&self, view: &PortView, packet: &mut Packet) -> Target {
        let Some(other) = view.passthrough else { return REFUSED };
        if packet.meta().refused != 0 {
            return REFUSED;
        }
        self.witness.observe(|| Finding::PassThrough(other));
        let (l3, flags) = find_ip_header(packet);
        let offload = if packet.is_offloaded() { Meta::OFFLOAD } else { 0 };
        let meta = packet.meta_mut();
        (meta.l3, meta.adjacency, meta.path) = (l3, PASSTHROUGH, BEST_EFFORT);
        meta.flags |= flags | offload;
        meta.out_interface = self.snapshot.port(other).map_or(meta.out_interface, |view| view.untagged);
        let target = self.dispatch.instance(self.dispatch.best_effort, other);
        if target == REFUSED { refuse(packet, DropReason::PortRemoved) } else { target }
    }
}

/// The offset of the IP header in a frame, and the flag of its version: directly after the addresses, after one or two VLAN tags, or in a PPPoE session.
/// Without an IP header, the offset is the end of the frame, so that nothing is read as a header.
#[inline(always)]
fn find_ip_header(packet: &Packet) -> (u16, u8) {
    const IPV4: [u8; 2] = ethertype::IPV4.to_be_bytes();
    const IPV6: [u8; 2] = ethertype::IPV6.to_be_bytes();
    let frame = packet.bytes();
    match frame.get(ETHERNET - 2..ETHERNET) {
        Some(kind) if *kind == IPV4 => (ETHERNET as u16, 0),
        Some(kind) if *kind == IPV6 => (ETHERNET as u16, Meta::IPV6),
        _ => find_inner_ip_header(frame),
    }
}

/// The same for frames without an IP header directly after the addresses.
#[inline(never)]
fn find_inner_ip_header(frame: &[u8]) -> (u16, u8) {
    match TagStack::of(frame).and_then(|stack| stack.ip_header(frame)) {
        Some((at, Family::V4)) => (at as u16, 0),
        Some((at, Family::V6)) => (at as u16, Meta::IPV6),
        None => (frame.len().min(usize::from(u16::MAX)) as u16, 0),
    }
}
