//! The frames of sources. They are built once for each size; only the tag, ports and instruction differ from packet to packet.
//!
//! A packet carries its tag in its last 18 bytes. They are payload, so routers that rewrite headers do not change it. A frame of 64 bytes (60 without
//! the check sequence) has room for exactly that.

use crate::describe::FlowFields;
use crate::ephemeral::CarriedInstruction;
use crate::inner::InnerPackets;
use packet::Packet;
use packet::wire::{Ipv4Spec, ethernet, ethertype, protocol};
use units::Mac;

/// Bytes of the headers of a UDP packet over IPv4 and Ethernet.
pub(crate) const HEADERS: usize = 14 + 20 + 8;
/// Bytes of a tag.
pub(crate) const TAG: usize = 18;
/// Bytes of the check sequence of a frame. Frames in memory have none.
pub(crate) const CHECK_SEQUENCE: u64 = 4;
/// The last two bytes of a tag.
const MAGIC: u16 = 0x53e1;

/// The identity of a packet: its source, its number, and its send time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag {
    pub sent_at: u64,
    pub sequence: u64,
    pub source: usize,
}

impl Tag {
    /// Writes the tag to the end of a frame that has room for it.
    #[inline]
    pub fn write(self, frame: &mut [u8]) {
        let Some(end) = frame.last_chunk_mut::<TAG>() else { return };
        end[..8].copy_from_slice(&self.sent_at.to_be_bytes());
        end[8..16].copy_from_slice(&(self.sequence << 16 | self.source as u64 & 0xffff).to_be_bytes());
        end[16..].copy_from_slice(&MAGIC.to_be_bytes());
    }

    /// Reads the tag of a frame. None if it has no tag, or if it is an ICMP error: that quotes the tag of another packet.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Tag> {
        let &[b0, b1, b2, b3, b4, b5, b6, b7, s0, s1, s2, s3, s4, s5, n0, n1, m0, m1] = frame.last_chunk::<TAG>()?;
        if u16::from_be_bytes([m0, m1]) != MAGIC || is_icmp_error(frame) {
            return None;
        }
        Some(Tag {
            sent_at: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            sequence: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]),
            source: u16::from_be_bytes([n0, n1]).into(),
        })
    }
}

fn is_icmp_error(frame: &[u8]) -> bool {
    let at = |index: usize| frame.get(index).copied().unwrap_or(0);
    let tag = if (at(12), at(13)) == (0x81, 0) { 4 } else { 0 };
    match (at(12 + tag), at(13 + tag)) {
        (8, 0) => {
            let kind = at(14 + tag + usize::from(at(14 + tag) & 15) * 4);
            at(23 + tag) == protocol::ICMP && matches!(kind, 3 | 4 | 5 | 11 | 12)
        }
        (0x86, 0xdd) => at(20 + tag) == 58 && at(54 + tag) < 128,
        _ => false,
    }
}

/// The payload of a source's packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrameLoad<'s> {
    pub carries: Option<CarriedInstruction>,
    pub inner: Option<&'s InnerPackets>,
}

impl FrameLoad<'_> {
    /// True if a frame of this size has room for a tag. Only inner packets may be so short that it has none.
    pub fn has_room_for_tag(self, size: u64) -> bool {
        self.inner.is_none_or(|inner| size >= (HEADERS + inner.header_length() + TAG) as u64 + CHECK_SEQUENCE)
    }
}

/// The frames of a source, without the differences between packets.
#[derive(Debug)]
pub(crate) struct Template {
    /// One frame for each size, and for each inner packet; packets use them in turn.
    frames: Vec<Vec<u8>>,
    /// True if all frames have room for a tag behind their headers.
    pub is_tagged: bool,
    flows: u64,
    port: u16,
    carries: Option<CarriedInstruction>,
}

impl Template {
    /// Frames of these sizes. A size includes the check sequence and has room for the carried instruction, or for the headers of an inner packet.
    pub fn new((fields, load): (&FlowFields, FrameLoad<'_>), sizes: &[u64], mac: Mac) -> Template {
        let FrameLoad { carries, inner } = load;
        let frame = |(number, &size): (usize, &u64)| {
            let mut frame = vec![0; (size - CHECK_SEQUENCE) as usize];
            let length = frame.len();
            let (link, rest) = frame.split_at_mut(14);
            let from = Mac([0x02, 0x51, 0, 0, 0, 1]);
            ethernet::write_header(link, mac, from, None, ethertype::IPV4).expect("14 bytes are enough");
            let spec = Ipv4Spec {
                type_of_service: fields.dscp << 2,
                identification: 0,
                dont_fragment: true,
                ttl: fields.ttl,
                protocol: protocol::UDP,
                source: fields.source,
                destination: fields.destination,
            };
            spec.write(rest, length - 34).expect("the size was checked");
            frame[34..36].copy_from_slice(&fields.ports.0.to_be_bytes());
            frame[36..38].copy_from_slice(&fields.ports.1.to_be_bytes());
            // No checksum, as RFC 768 allows: the tag differs in each packet.
            frame[38..40].copy_from_slice(&((length - 34) as u16).to_be_bytes());
            if let Some(carries) = carries {
                carries.part(0).write(&mut frame[HEADERS..]).expect("the size was checked");
            }
            if let Some(inner) = inner {
                inner.write(number, &mut frame[HEADERS..]);
            }
            frame
        };
        let inners = inner.map_or(1, InnerPackets::count);
        let frames = (0..inners).flat_map(|number| sizes.iter().map(move |size| (number, size)));
        let is_tagged = sizes.iter().all(|size| load.has_room_for_tag(*size));
        Template { frames: frames.map(frame).collect(), is_tagged, flows: fields.flows, port: fields.ports.0, carries }
    }

    /// The frame length of a packet.
    #[inline]
    pub fn length(&self, sequence: u64) -> usize {
        if self.frames.len() == 1 { self.frames[0].len() } else { self.frame(sequence).len() }
    }

    fn frame(&self, sequence: u64) -> &[u8] {
        &self.frames[(sequence % self.frames.len() as u64) as usize]
    }

    /// Fills `packet` with the frame for this tag.
    #[inline]
    pub fn fill(&self, packet: &mut Packet, tag: Tag) {
        let frame = if self.frames.len() == 1 { &self.frames[0] } else { self.frame(tag.sequence) };
        packet.fill(frame);
        let bytes = packet.bytes_mut();
        if self.flows > 1 {
            let port = self.port.wrapping_add((tag.sequence % self.flows) as u16);
            bytes[34..36].copy_from_slice(&port.to_be_bytes());
        }
        if let Some(carries) = self.carries.filter(|carries| carries.computations != 1) {
            carries.part(tag.sequence).write(&mut bytes[HEADERS..]);
        }
        if self.is_tagged {
            tag.write(bytes);
        }
    }
}

/// True if a recorded frame has room for a tag in its payload: UDP or TCP over IPv4 or IPv6, unfragmented.
pub(crate) fn has_room(frame: &[u8]) -> bool {
    let at = |index: usize| usize::from(frame.get(index).copied().unwrap_or(0));
    let word = |index: usize| at(index) << 8 | at(index + 1);
    let tag = if word(12) == 0x8100 { 4 } else { 0 };
    let l3 = 14 + tag;
    let (l4, kind, end) = match word(12 + tag) {
        0x0800 if word(l3 + 6) & 0x3fff == 0 => (l3 + (at(l3) & 15) * 4, at(l3 + 9), l3 + word(l3 + 2)),
        0x86dd => (l3 + 40, at(l3 + 6), l3 + 40 + word(l3 + 4)),
        _ => return false,
    };
    let payload = match kind {
        17 => l4 + 8,
        6 => l4 + (at(l4 + 12) >> 4) * 4,
        _ => return false,
    };
    // The last bytes of the frame belong to the packet and are not padding.
    end == frame.len() && payload + TAG <= end
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use std::net::Ipv4Addr;

    fn fields() -> FlowFields {
        FlowFields {
            source: Ipv4Addr::new(198, 18, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 1),
            ports: (1000, 2000),
            dscp: 46,
            ttl: 64,
            flows: 4,
        }
    }

    #[test]
    fn frame_of_64_bytes_has_only_headers_and_tag() {
        let template = Template::new((&fields(), FrameLoad::default()), &[64, 1518], Mac([2, 0, 0, 0, 0, 9]));
        let mut pool = Pool::new(Region::new(4));
        let mut packet = pool.take().unwrap();
        let tag = Tag { sent_at: u64::MAX - 5, sequence: (1 << 48) - 2, source: 65_000 };
        template.fill(&mut packet, tag);
        assert_eq!((packet.len(), template.length(1), HEADERS + TAG), (60, 1514, 60));
        assert_eq!(Tag::read(packet.bytes()), Some(tag));
        assert_eq!(packet.bytes()[34..36], 1002u16.to_be_bytes());
        assert_eq!(packet.bytes()[15], 46 << 2);
        assert!(packet::wire::ipv4::header_checksum_ok_20(packet.bytes()[14..].first_chunk().unwrap()));
        assert!(has_room(packet.bytes()));
        packet.bytes_mut()[23] = protocol::ICMP;
        packet.bytes_mut()[34] = 3;
        assert_eq!(Tag::read(packet.bytes()), None, "what an error quotes is no packet of the source");
        pool.give(packet);
    }

    #[test]
    fn frames_of_any_content_have_a_tag_or_none_and_never_panic() {
        for length in 0..80 {
            for byte in [0, 0xff, 0x45, 0x86] {
                let frame = vec![byte; length];
                assert_eq!(Tag::read(&frame), None);
                has_room(&frame);
            }
        }
    }
}
