//! Checks of source addresses. A source must be valid (RFC 1812 5.3.7, RFC 3927 2.7, RFC 4291 2.5). If the interface has a reverse-path check, a
//! route must lead back to the source (RFC 3704).
//!
//! The fast path refuses no packet: it passes packets with suspicious sources to `general`. Without reverse-path checks it pays for one read of
//! the interface for each batch.

use super::{CHUNK, Classifier, Finding, Outcome, Scratch, UNDECIDED, Witness, refuse, reset_meta};
use crate::reverse_path;
use packet::wire::Ipv4Header;
use packet::{DropReason, Meta, Packet};
use plan::ReversePath;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Instant, InterfaceId, PortId};

impl<W: Witness> Classifier<'_, W> {
    /// Checks the reverse paths of the plain packets of a chunk that begins at packet `from` of its batch, all received on `interface`.
    #[cold]
    #[inline(never)]
    pub(super) fn check_sources(
        &self,
        (id, interface, check): (PortId, InterfaceId, ReversePath),
        arrival: Option<Instant>,
        packets: &mut [Packet],
        (from, scratch): (usize, &mut Scratch),
    ) {
        let (mut sources, mut words) = ([0; CHUNK], [0; CHUNK]);
        let count = packets.len().min(CHUNK);
        let targets = &mut scratch.targets[from..][..count];
        for (source, packet) in sources.iter_mut().zip(&*packets) {
            let header = packet.bytes().get(super::ETHERNET..).and_then(Ipv4Header::of);
            *source = header.map_or(0, |header| u32::from(header.source()));
        }
        match self.tables.vrf(self.tables.vrf_of(interface)) {
            None => self.tables.fib4().lookup_bulk(&sources[..count], &mut words[..count]),
            Some(vrf) => vrf.lookup_bulk4(&sources[..count], &mut words[..count]),
        }
        // Consecutive packets mostly have sources with the same route.
        let mut passed = None;
        for (i, packet) in packets[..count].iter_mut().enumerate() {
            if targets[i] != UNDECIDED || passed == Some(words[i]) {
                continue;
            }
            if reverse_path::passes(self.tables, Outcome::decode(words[i]), check, interface) {
                passed = Some(words[i]);
                continue;
            }
            reset_meta(packet, arrival, id, interface);
            packet.meta_mut().l3 = super::ETHERNET as u16;
            targets[i] = refuse(packet, DropReason::ReversePath);
            // Clear the route, so that neither this packet nor `second_pass`'s memo of the previous one uses it.
            scratch.fields.words[i] = Outcome::Special.encode();
        }
    }

    /// Checks the reverse path of a packet that has just been received.
    pub(super) fn check_source(&self, packet: &Packet, source: IpAddr) -> Result<(), DropReason> {
        let meta = packet.meta();
        let check = self.snapshot.interface(meta.in_interface).map_or(ReversePath::Off, |known| known.reverse_path);
        // A function may have changed the source since the packet was received.
        if check == ReversePath::Off || meta.rounds != 0 || meta.flags & Meta::TRANSLATED != 0 {
            return Ok(());
        }
        if reverse_path::is_of_link(source) {
            return Ok(());
        }
        let outcome = self.tables.lookup_from(meta.in_interface, source);
        let passed = reverse_path::passes(self.tables, outcome, check, meta.in_interface);
        self.witness.observe(|| Finding::ReversePath { source, outcome, check, passed });
        if passed { Ok(()) } else { Err(DropReason::ReversePath) }
    }

    /// True if an IPv4 packet has a source address of the router itself without having been translated to it or encapsulated, or a broadcast address.
    pub(super) fn has_own_source4(&self, packet: &Packet, source: Ipv4Addr) -> bool {
        if packet.meta().rounds & Meta::ENCAPSULATED != 0 {
            return false;
        }
        let word = self.tables.lookup4(packet.meta().in_interface, u32::from(source));
        match Outcome::decode(word) {
            Outcome::Local(_) => packet.meta().flags & Meta::TRANSLATED == 0,
            Outcome::Broadcast(_) => true,
            _ => false,
        }
    }

    /// True if an IPv6 packet to be forwarded has a source address of the router itself.
    pub(super) fn has_own_source6(&self, packet: &Packet, source: Ipv6Addr) -> bool {
        // The filter spares nearly all packets a second lookup.
        if !self.snapshot.may_be_own6(source) || packet.meta().rounds & Meta::ENCAPSULATED != 0 {
            return false;
        }
        let came = packet.meta().in_interface;
        let outcome = Outcome::decode(self.tables.lookup6(came, u128::from(source)));
        matches!(outcome, Outcome::Local(_)) || self.snapshot.is_own6_on(came, source)
    }
}
