//! Segmentation, fragmentation and checksum completion in the plane.
//!
//! A super-frame is one packet from port to port if both ports support it: one lookup and one turn in each queue for up to 64 KB. Limits apply to its
//! segments: the MTU is compared with the longest segment, and schemes see the bytes of all segments with their headers. If the egress port does not
//! support super-frames, or its link is so slow that other packets would wait too long, the path segments it ([`PacketSplitter`]). It emits one segment after
//! the other as there is room, before all packets behind it. Packets therefore stay in order, and a queue never emits more packets than entered it.
//! IPv4 packets that exceed the MTU of their link are fragmented at the same place (RFC 791 2.3), and so are the datagrams of a super-frame.

use crate::accounting::Accounting;
use crate::port::Offloads;
use crate::wire::{Fragmenter, Segmenter, offload};
use crate::{DropReason, Exception, Meta, Offload, Packet, Pool, Queue};
use units::{Bytes, SEGMENTS, Size};

/// A flag in `rounds`: the packet exceeds the MTU of its next link and is fragmented on its path.
pub const TO_FRAGMENT: u8 = 0x40;

/// True for a packet that is fragmented on its path.
#[inline]
pub fn is_to_fragment(packet: &Packet) -> bool {
    packet.meta().rounds & TO_FRAGMENT != 0
}

/// Bytes that a packet occupies on its link.
#[inline]
pub fn wire_length(packet: &Packet) -> usize {
    wire_size(packet).bytes.get() as usize
}

/// The number of packets that a packet becomes on its link, at most [`SEGMENTS`], and their bytes.
#[inline]
pub fn wire_size(packet: &Packet) -> Size {
    if packet.is_offloaded() { of_segments(packet) } else { one(packet.len()) }
}

#[inline(always)]
fn one(bytes: usize) -> Size {
    Size { packets: 1, bytes: Bytes::new(bytes as u64) }
}

#[cold]
fn of_segments(packet: &Packet) -> Size {
    if packet.has_tail() {
        return one(packet.len() + packet.tail().len());
    }
    let cut = packet.offload().is_super_frame().then(|| segmenter(packet)).flatten();
    // A packet that contradicts its offload counts as one packet of its own length.
    cut.map_or(one(packet.len()), |cut| Size {
        packets: (cut.segments() as u32).min(SEGMENTS),
        bytes: Bytes::new(cut.wire_length() as u64),
    })
}

/// The segmenter of a super-frame.
fn segmenter(packet: &Packet) -> Option<Segmenter> {
    Segmenter::new(packet.bytes(), usize::from(packet.meta().l3), packet.offload()).ok()
}

/// Length of the longest IP packet that a packet becomes on its link. `None` if it contradicts its offload.
pub fn network_length(packet: &Packet) -> Option<usize> {
    let todo = packet.offload();
    if todo.is_super_frame() {
        return segmenter(packet).map(|cut| cut.longest());
    }
    let inside =
        |sum: crate::pool::PartialChecksum| usize::from(sum.start) + usize::from(sum.offset) + 2 <= packet.len();
    todo.checksum.is_none_or(inside).then(|| packet.len().saturating_sub(packet.meta().l3.into()))
}

/// Reduces the segment size of a TCP super-frame to an MTU of `mtu` bytes. Returns false and changes nothing for UDP, whose sender has determined the
/// size of each datagram.
pub fn reduce_segment_size(packet: &mut Packet, mtu: usize) -> bool {
    use crate::pool::Segmentation;
    let todo = packet.offload();
    if !matches!(todo.segmentation, Segmentation::Tcp4 | Segmentation::Tcp6) {
        return false;
    }
    let size = segmenter(packet).and_then(|cut| cut.size_for(mtu));
    size.is_some_and(|size| packet.set_offload(Offload { size: size.min(todo.size), ..todo }))
}

/// Completes the checksum of a packet (of a super-frame as if it were one packet) and clears its offload. False if the checksum field is missing.
pub fn complete(packet: &mut Packet) -> bool {
    let todo = packet.offload();
    packet.meta_mut().flags &= !Meta::OFFLOAD;
    packet.set_offload(Offload::NONE);
    todo.checksum.is_none_or(|partial| offload::complete(packet.bytes_mut(), partial))
}

/// Completes the checksum of a packet with an exception before the host receives it, since the host reads bytes only. Forwarded
/// super-frames stay as they are. False if the field of the checksum is missing.
#[cold]
pub fn complete_for_local(packet: &mut Packet) -> bool {
    let exception = Exception::of(packet.meta().exception);
    let ours = matches!(exception, Some(Exception::Local | Exception::Arp));
    let whole = !packet.offload().is_super_frame();
    !(ours || whole && exception.is_some()) || complete(packet)
}

/// True if a packet must be segmented before a port with these offloads transmits it.
#[inline]
pub fn must_segment(packet: &Packet, can: Offloads) -> bool {
    !can.super_frames && packet.is_offloaded() && packet.offload().is_super_frame()
}

/// Prepares a packet that need not be segmented for a port with these offloads. False if it must be joined and no frame is left for that.
#[inline]
pub fn prepare_for_port(packet: &mut Packet, can: Offloads, pool: &mut Pool) -> bool {
    if !packet.is_offloaded() {
        return true;
    }
    if packet.has_tail() {
        // The checksum of a copy was completed before the copy was made.
        return can.gather || pool.join(packet);
    }
    if !packet.offload().is_super_frame() && !can.checksums {
        // The classifier has checked that the field exists.
        complete(packet);
    }
    true
}

/// A packet during segmentation: a super-frame into segments, a packet that exceeds the MTU into fragments, or a super-frame into segments and these
/// into fragments.
#[derive(Debug)]
pub struct PacketSplitter {
    packet: Packet,
    segments: Option<Segmenter>,
    /// The fragments of `segment`; of the packet itself if `segment` is empty.
    fragments: Option<Fragmenter>,
    /// A datagram of a super-frame that exceeds the MTU.
    segment: Vec<u8>,
    /// The MTU of the link for IP packets, in bytes.
    mtu: usize,
}

/// The answer to a request for the next part.
pub enum NextSegment {
    /// The next part, counted as generated.
    Next(Packet),
    /// All parts are made: the packet is consumed.
    All,
    /// No frame is left: the rest of the packet is dropped.
    NoFrame,
}

impl PacketSplitter {
    /// Prepares segmentation for an MTU of `mtu` bytes. Returns the packet if it contradicts its offload, or cannot be fragmented.
    pub fn new(packet: Packet, mtu: usize) -> Result<PacketSplitter, (Packet, DropReason)> {
        let super_frame = packet.is_offloaded() && packet.offload().is_super_frame();
        let (mut segments, mut fragments) = (None, None);
        if super_frame {
            segments = segmenter(&packet);
        } else {
            fragments = Fragmenter::new(packet.bytes(), usize::from(packet.meta().l3), mtu);
        }
        if segments.is_none() && fragments.is_none() {
            return Err((packet, if super_frame { DropReason::BadOffload } else { DropReason::TooBig }));
        }
        Ok(PacketSplitter { packet, segments, fragments, segment: Vec::new(), mtu })
    }

    /// Prepares the next segment if it must be fragmented itself.
    fn begin(&mut self) {
        let l3 = usize::from(self.packet.meta().l3);
        let Some(segments) = &mut self.segments else { return };
        if self.fragments.as_ref().is_some_and(|cut| cut.next_length() > 0) {
            return;
        }
        self.fragments = None;
        let length = segments.next_length();
        if length.saturating_sub(l3) <= self.mtu {
            return;
        }
        self.segment.resize(length, 0);
        if segments.write(self.packet.bytes(), &mut self.segment).is_some() {
            self.fragments = Fragmenter::new(&self.segment, l3, self.mtu);
            debug_assert!(self.fragments.is_some(), "the classifier has seen that it may be cut");
        }
    }

    fn next_length(&self) -> usize {
        let left = self.fragments.as_ref().map(|cut| cut.next_length()).filter(|&length| length > 0);
        left.or_else(|| self.segments.as_ref().map(|cut| cut.next_length())).unwrap_or(0)
    }

    /// The next part, with the metadata and link header of the whole.
    pub fn next(&mut self, fates: &mut Accounting) -> NextSegment {
        self.begin();
        let length = self.next_length();
        if length == 0 {
            return NextSegment::All;
        }
        let Some(mut part) = fates.pool.take_for(length) else { return NextSegment::NoFrame };
        fates.ledger.generate(1);
        let meta = part.meta_mut();
        *meta = *self.packet.meta();
        // A part is complete: it must be neither segmented nor fragmented again.
        meta.flags &= !Meta::OFFLOAD;
        meta.rounds &= !TO_FRAGMENT;
        let whole = self.packet.bytes();
        let written = part.resize(length).then(|| match (&mut self.fragments, &mut self.segments) {
            (Some(cut), _) => {
                part.meta_mut().flags |= Meta::GENERATED;
                cut.write(if self.segment.is_empty() { whole } else { &self.segment }, part.bytes_mut())
            }
            (None, Some(cut)) => cut.write(whole, part.bytes_mut()),
            (None, None) => None,
        });
        debug_assert_eq!(written, Some(Some(())), "a part has the length it was asked for");
        NextSegment::Next(part)
    }

    /// True after the last part.
    pub fn is_done(&self) -> bool {
        self.next_length() == 0
    }

    /// The packet, to end it.
    pub fn into_packet(self) -> Packet {
        self.packet
    }
}

/// The packet counts of a queue whose port supports less than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RefitCounts {
    /// Parts generated.
    pub generated: u64,
    /// Packets consumed by segmentation.
    pub consumed: u64,
    /// Packets and parts dropped.
    pub dropped: u64,
}

/// Prepares all packets of `queue` for a port with these offloads. Afterwards the queue may exceed its capacity.
#[cold]
pub fn refit_queue(queue: &mut Queue, can: Offloads, fates: &mut Accounting) -> RefitCounts {
    let (fitted, done) = refit_packets(|| queue.pop(), can, fates);
    let capacity = queue.capacity();
    queue.resize(capacity.max(fitted.len()));
    for packet in fitted {
        let refused = queue.push(packet);
        debug_assert!(refused.is_none(), "room was made for all");
    }
    queue.resize(capacity);
    done
}

/// Prepares all packets from `take` for a port with these offloads. Returns them or their segments.
#[cold]
pub fn refit_packets(
    mut take: impl FnMut() -> Option<Packet>,
    can: Offloads,
    fates: &mut Accounting,
) -> (Vec<Packet>, RefitCounts) {
    let (mut fitted, mut done) = (Vec::new(), RefitCounts::default());
    while let Some(mut packet) = take() {
        if !must_segment(&packet, can) {
            if prepare_for_port(&mut packet, can, &mut fates.pool) {
                fitted.push(packet);
            } else {
                done.dropped += 1;
                fates.drop(packet, DropReason::NoSuperFrame);
            }
            continue;
        }
        // Packets in these queues already fit the MTU.
        let mut half = match PacketSplitter::new(packet, usize::MAX) {
            Ok(half) => half,
            Err((packet, reason)) => {
                done.dropped += 1;
                fates.drop(packet, reason);
                continue;
            }
        };
        loop {
            match half.next(fates) {
                NextSegment::Next(segment) => {
                    done.generated += 1;
                    fitted.push(segment);
                }
                NextSegment::All => {
                    done.consumed += 1;
                    break fates.consume(half.into_packet());
                }
                NextSegment::NoFrame => {
                    done.dropped += 1;
                    break fates.drop(half.into_packet(), DropReason::PoolEmpty);
                }
            }
        }
    }
    (fitted, done)
}
