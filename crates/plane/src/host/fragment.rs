//! IPv4 packets longer than the next link takes are cut (RFC 791 2.3, RFC 1812 4.2.2.7): the packet is consumed, its
//! fragments are new. IPv6 packets are not (RFC 8200 5).

use super::errors::Complaint;
use super::output::{blank, way};
use super::{Host, Parsed, World, l3, parse};
use crate::offload::network_length;
use packet::wire::ipv4::LONGEST_HEADER;
use packet::wire::{Ipv4, Segmenter, checksum, ipv4_options};
use packet::{DropReason, Meta, Packet};
use std::net::IpAddr;

/// Cuts a packet; [`Cut::write`] gives one fragment after the other.
struct Cut<'a> {
    packet: Ipv4<'a>,
    /// The header of all fragments but the first: options that are not copied (RFC 791 3.1) are blanked.
    later: [u8; LONGEST_HEADER],
    /// Payload bytes of a fragment, a multiple of eight.
    step: usize,
    /// Payload bytes written.
    done: usize,
}

impl<'a> Cut<'a> {
    /// Nothing where `mtu` leaves no room behind the header, or the packet ends beyond the longest there can be.
    fn new(packet: Ipv4<'a>, mtu: usize) -> Option<Cut<'a>> {
        let step = mtu.checked_sub(packet.header_length())? / 8 * 8;
        // Beyond the longest packet the offset has no more bits (RFC 791 3.1).
        let end = packet.header_length() + packet.header.fragment_offset() + packet.payload.len();
        let fits = step > 0 && end <= usize::from(u16::MAX);
        fits.then(|| Cut { packet, later: later_header(&packet), step, done: 0 })
    }

    /// Bytes of the next fragment, header included; zero after the last.
    fn next_length(&self) -> usize {
        match self.packet.payload.len() - self.done {
            0 => 0,
            left => self.packet.header_length() + left.min(self.step),
        }
    }

    /// Writes the next fragment into `buffer`, which has [`Cut::next_length`] bytes.
    fn write(&mut self, buffer: &mut [u8]) -> Option<()> {
        const FLAGS_AND_OFFSET: usize = 6;
        let length = self.packet.header_length();
        let (header, payload) = buffer.split_at_mut_checked(length)?;
        let first = self.done == 0;
        header.copy_from_slice(if first { &self.packet.bytes[..length] } else { &self.later[..length] });
        let end = self.done + payload.len();
        payload.copy_from_slice(self.packet.payload.get(self.done..end)?);
        let original = self.packet.header;
        let more = end < self.packet.payload.len() || original.more_fragments();
        let offset = u16::try_from((original.fragment_offset() + self.done) / 8).ok()?;
        let field = u16::from(more) << 13 | offset & 0x1fff;
        header[FLAGS_AND_OFFSET..8].copy_from_slice(&field.to_be_bytes());
        header[2..4].copy_from_slice(&u16::try_from(length + payload.len()).ok()?.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        self.done = end;
        Some(())
    }
}

/// The header with every option blanked that belongs into the first fragment only; that of a fragment which was not the
/// first has none and stays.
fn later_header(packet: &Ipv4<'_>) -> [u8; LONGEST_HEADER] {
    const COPIED: u8 = 0x80;
    const NO_OPERATION: u8 = 1;
    let mut header = [0; LONGEST_HEADER];
    header[..packet.header_length()].copy_from_slice(&packet.bytes[..packet.header_length()]);
    if !packet.header.is_first() {
        return header;
    }
    // A list that is malformed from some point on is copied from there on: it is not ours to mend.
    for option in ipv4_options::options(packet.options).map_while(Result::ok) {
        let (at, length) = (usize::from(option.offset), usize::from(option.length));
        if header[at] & COPIED == 0 && header[at] != 0 {
            header[at..at + length].fill(NO_OPERATION);
        }
    }
    header
}

impl Host {
    /// A packet on its way that is longer than the link it leaves by takes.
    pub(super) fn receive_too_big(&mut self, packet: Packet, world: &mut impl World) {
        let (destination, length, may_cut) = match parse(&packet) {
            Some(Parsed::V4(ip)) => (IpAddr::V4(ip.header.destination()), ip.bytes.len(), !ip.header.dont_fragment()),
            Some(Parsed::V6(ip)) => (IpAddr::V6(ip.header.destination()), ip.bytes.len(), false),
            None => return world.drop(packet, DropReason::HeaderTruncated),
        };
        // Of a super-frame its segments have to fit.
        let length = network_length(&packet).unwrap_or(length);
        let out = way(destination, packet.meta().in_interface, world).map(|(interface, _)| interface);
        let mtu = out.and_then(|id| world.interface(id)).map(|interface| interface.mtu);
        match mtu {
            Some(mtu) if length > usize::from(mtu) && may_cut => {
                for packet in self.segments(packet, world) {
                    if packet.len() - usize::from(packet.meta().l3) <= usize::from(mtu) {
                        world.forward(packet);
                        continue;
                    }
                    for fragment in self.fragment(packet, usize::from(mtu), world) {
                        world.forward(fragment);
                    }
                }
            }
            Some(mtu) if length > usize::from(mtu) => {
                self.refuse(packet, Complaint::TooBig { mtu }, DropReason::TooBig, world);
            }
            // The route or the link has changed meanwhile: the sender will find out with its next packet.
            _ => world.drop(packet, DropReason::TooBig),
        }
    }

    /// Cuts a super-frame into its segments, each of which knows of it what the packet did; any other packet stays. Those
    /// for which there is no frame are lost.
    fn segments(&mut self, packet: Packet, world: &mut impl World) -> Vec<Packet> {
        if !packet.offload().is_super_frame() {
            return vec![packet];
        }
        let cut = Segmenter::new(packet.bytes(), usize::from(packet.meta().l3), packet.offload());
        let Ok(mut cut) = cut else {
            world.drop(packet, DropReason::BadOffload);
            return Vec::new();
        };
        let mut segments = Vec::with_capacity(cut.segments());
        while cut.next_length() > 0 {
            let Some(mut segment) = blank(cut.next_length(), world) else {
                world.drop(packet, DropReason::PoolEmpty);
                return segments;
            };
            let flags = segment.meta().flags;
            *segment.meta_mut() = *packet.meta();
            segment.meta_mut().flags = flags | packet.meta().flags & !Meta::OFFLOAD;
            let fits = cut.write(packet.bytes(), segment.bytes_mut());
            debug_assert!(fits.is_some(), "the buffer is as long as the segment");
            segments.push(segment);
        }
        world.consume(packet);
        segments
    }

    /// Cuts a packet into fragments of at most `mtu` bytes that know of it what the packet did, its link header
    /// included. Where not all of them can be had, the packet is dropped and there is none.
    pub(super) fn fragment(&mut self, packet: Packet, mtu: usize, world: &mut impl World) -> Vec<Packet> {
        let at = usize::from(packet.meta().l3);
        let cut = Ipv4::parse_unsummed(l3(&packet)).ok().and_then(|ip| Cut::new(ip, mtu));
        let Some(mut cut) = cut else {
            world.drop(packet, DropReason::TooBig);
            return Vec::new();
        };
        let mut fragments = Vec::with_capacity(cut.packet.payload.len().div_ceil(cut.step));
        while cut.next_length() > 0 {
            let fragment = blank(at + cut.next_length(), world).map(|mut fragment| {
                let flags = fragment.meta().flags;
                *fragment.meta_mut() = *packet.meta();
                fragment.meta_mut().flags |= flags;
                let (link, ip) = fragment.bytes_mut().split_at_mut(at);
                link.copy_from_slice(&packet.bytes()[..at]);
                let fits = cut.write(ip);
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

#[cfg(test)]
mod tests {
    use super::*;
    use packet::wire::Ipv4Spec;
    use packet::wire::ipv4::HEADER;
    use proptest::prelude::*;

    fn packet(options: &[u8], payload: &[u8]) -> Vec<u8> {
        let spec = Ipv4Spec {
            type_of_service: 0xb8,
            identification: 7,
            dont_fragment: false,
            ttl: 9,
            protocol: 17,
            source: [10, 0, 1, 2].into(),
            destination: [10, 0, 2, 2].into(),
        };
        let mut bytes = vec![0; HEADER];
        spec.write(&mut bytes, payload.len() + options.len()).unwrap();
        bytes.extend_from_slice(options);
        bytes.extend_from_slice(payload);
        bytes[0] = 0x45 + (options.len() / 4) as u8;
        let end = HEADER + options.len();
        bytes[10..12].fill(0);
        let sum = checksum::checksum(&bytes[..end]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn cut(bytes: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut cut = Cut::new(Ipv4::parse(bytes).unwrap(), mtu).unwrap();
        let mut fragments = Vec::new();
        while cut.next_length() > 0 {
            let mut buffer = vec![0; cut.next_length()];
            cut.write(&mut buffer).unwrap();
            fragments.push(buffer);
        }
        fragments
    }

    #[test]
    fn options_not_marked_for_copying_stay_in_the_first_fragment() {
        // Record route (not copied), no-operation, security (copied): the later header as a Linux router writes it.
        let bytes = packet(&[7, 7, 4, 0, 0, 0, 0, 1, 130, 4, 0, 0], &[5; 40]);
        let fragments = cut(&bytes, 32 + 24);
        assert_eq!(fragments.len(), 2);
        assert_eq!(fragments[0][20..32], [7, 7, 4, 0, 0, 0, 0, 1, 130, 4, 0, 0]);
        assert_eq!(fragments[1][20..32], [1, 1, 1, 1, 1, 1, 1, 1, 130, 4, 0, 0]);
    }

    #[test]
    fn a_link_too_small_for_eight_bytes_of_payload_cuts_nothing() {
        let bytes = packet(&[], &[5; 40]);
        assert!(Cut::new(Ipv4::parse(&bytes).unwrap(), 27).is_none());
        assert!(Cut::new(Ipv4::parse(&bytes).unwrap(), 28).is_some());
    }

    proptest! {
        #[test]
        fn fragments_put_together_are_the_packet_even_when_cut_twice(
            payload in proptest::collection::vec(any::<u8>(), 1..1600),
            first in 68usize..1500,
            second in 68usize..1500,
        ) {
            let bytes = packet(&[], &payload);
            let pieces: Vec<_> = cut(&bytes, first).iter().flat_map(|fragment| cut(fragment, second)).collect();
            let mut whole = vec![0; payload.len()];
            let mut last = 0;
            for (i, piece) in pieces.iter().enumerate() {
                let ip = Ipv4::parse(piece).unwrap();
                prop_assert!(piece.len() <= first.min(second));
                let at = ip.header.fragment_offset();
                whole[at..at + ip.payload.len()].copy_from_slice(ip.payload);
                last += usize::from(!ip.header.more_fragments());
                prop_assert_eq!(ip.header.more_fragments(), i + 1 < pieces.len());
                prop_assert_eq!((ip.header.ttl(), ip.header.type_of_service()), (9, 0xb8));
                prop_assert_eq!((ip.header.identification(), ip.header.protocol()), (7, 17));
            }
            prop_assert_eq!(last, 1);
            prop_assert_eq!(whole, payload);
        }
    }
}
