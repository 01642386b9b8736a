//! Super-frames and partial checksums on their way through the plane.
//!
//! A super-frame is one packet to the router, whole from port to port, as long as both ports take it so: one lookup, one
//! turn in each queue, for up to 64 KB. What it will be on the wire is what counts for others: an MTU is compared with its
//! longest segment, and schemes are told the bytes of all segments with their headers. Where the port it leaves by does
//! not take it, or its link is so slow that others would wait for the whole of it, its path cuts it ([`Half`]): one segment after
//! the other as there is room for them, before anything that came behind it. Nothing is overtaken, and no queue is left by more than
//! it was entered by. IPv4 packets that are longer than their link takes are cut into fragments at the same place (RFC 791 2.3), and
//! so are the datagrams of a super-frame.

use crate::accounting::Accounting;
use crate::port::Offloads;
use crate::wire::{Fragmenter, Segmenter, offload};
use crate::{DropReason, Exception, Meta, Offload, Packet, Pool, Queue};
use units::{Bytes, SEGMENTS, Size};

/// In `rounds`: the packet is longer than its next link takes, and is cut into fragments on its path.
pub const TO_FRAGMENT: u8 = 0x40;

/// True for a packet that is cut into fragments on its path.
#[inline]
pub fn is_to_fragment(packet: &Packet) -> bool {
    packet.meta().rounds & TO_FRAGMENT != 0
}

/// Bytes a packet puts on its link.
#[inline]
pub fn wire_length(packet: &Packet) -> usize {
    wire_size(packet).bytes.get() as usize
}

/// Packets that a packet is on its link, at most [`SEGMENTS`], and their bytes.
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
    // What is not as its offload says counts as it is.
    cut.map_or(one(packet.len()), |cut| Size {
        packets: (cut.segments() as u32).min(SEGMENTS),
        bytes: Bytes::new(cut.wire_length() as u64),
    })
}

/// Cuts the packet, if it is a super-frame.
fn segmenter(packet: &Packet) -> Option<Segmenter> {
    Segmenter::new(packet.bytes(), usize::from(packet.meta().l3), packet.offload()).ok()
}

/// Bytes of the longest IP packet that a packet will be on its link; nothing where it is not what its offload says.
pub fn network_length(packet: &Packet) -> Option<usize> {
    let todo = packet.offload();
    if todo.is_super_frame() {
        return segmenter(packet).map(|cut| cut.longest());
    }
    let inside =
        |sum: crate::pool::PartialChecksum| usize::from(sum.start) + usize::from(sum.offset) + 2 <= packet.len();
    todo.checksum.is_none_or(inside).then(|| packet.len().saturating_sub(packet.meta().l3.into()))
}

/// Makes the segments of a TCP super-frame as small as a link of `mtu` bytes asks. False, and nothing changed, where
/// each of them is a packet its sender has measured: a datagram.
pub fn cut_smaller(packet: &mut Packet, mtu: usize) -> bool {
    use crate::pool::Segmentation;
    let todo = packet.offload();
    if !matches!(todo.segmentation, Segmentation::Tcp4 | Segmentation::Tcp6) {
        return false;
    }
    let size = segmenter(packet).and_then(|cut| cut.size_for(mtu));
    size.is_some_and(|size| packet.set_offload(Offload { size: size.min(todo.size), ..todo }))
}

/// Completes the checksum of a packet, of a super-frame as if it were one packet; from now on nothing is left to be done
/// to it. False where the checksum is not there.
pub fn complete(packet: &mut Packet) -> bool {
    let todo = packet.offload();
    packet.meta_mut().flags &= !Meta::OFFLOAD;
    packet.set_offload(Offload::NONE);
    todo.checksum.is_none_or(|partial| offload::complete(packet.bytes_mut(), partial))
}

/// Completes the checksum of a packet with an exception before the host receives it, since the host reads bytes only. Forwarded
/// super-frames stay as they are. False if the field of the checksum is missing.
#[cold]
pub fn ready_for_host(packet: &mut Packet) -> bool {
    let exception = Exception::of(packet.meta().exception);
    let ours = matches!(exception, Some(Exception::Local | Exception::Arp));
    let whole = !packet.offload().is_super_frame();
    !(ours || whole && exception.is_some()) || complete(packet)
}

/// Whether a port that takes `can` wants the packet cut before.
#[inline]
pub fn must_cut(packet: &Packet, can: Offloads) -> bool {
    !can.super_frames && packet.is_offloaded() && packet.offload().is_super_frame()
}

/// Does to a packet that need not be cut what a port that takes `can` asks for. False where there is no frame for it in one
/// piece.
#[inline]
pub fn fit(packet: &mut Packet, can: Offloads, pool: &mut Pool) -> bool {
    if !packet.is_offloaded() {
        return true;
    }
    if packet.has_tail() {
        // Copies have no checksum left to complete: that was done before they were made.
        return can.gather || pool.join(packet);
    }
    if !packet.offload().is_super_frame() && !can.checksums {
        // The classifier has seen that the field is there.
        complete(packet);
    }
    true
}

/// A packet that is being cut: a super-frame into segments, a packet longer than its link takes into fragments, or a super-frame
/// into segments that are cut into fragments.
#[derive(Debug)]
pub struct Half {
    packet: Packet,
    segments: Option<Segmenter>,
    /// The fragments of `segment`; of the packet itself where that is empty.
    fragments: Option<Fragmenter>,
    /// A datagram of a super-frame that is longer than the link takes.
    segment: Vec<u8>,
    /// Bytes of the longest IP packet that the link takes.
    mtu: usize,
}

/// The answer to a request for the next part.
pub enum Segment {
    /// This one. It is counted as generated.
    Next(Packet),
    /// All are cut: the packet is consumed.
    All,
    /// There is no frame for it: the rest of the packet is dropped.
    NoFrame,
}

impl Half {
    /// Begins to cut for a link that takes IP packets of `mtu` bytes. Returns the packet if it contradicts its offload, or
    /// cannot be cut.
    pub fn new(packet: Packet, mtu: usize) -> Result<Half, (Packet, DropReason)> {
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
        Ok(Half { packet, segments, fragments, segment: Vec::new(), mtu })
    }

    /// Begins with the next segment where that has to be cut itself.
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

    /// The next part, which knows what the whole did, link header included.
    pub fn next(&mut self, fates: &mut Accounting) -> Segment {
        self.begin();
        let length = self.next_length();
        if length == 0 {
            return Segment::All;
        }
        let Some(mut part) = fates.pool.take_for(length) else { return Segment::NoFrame };
        fates.ledger.generate(1);
        let meta = part.meta_mut();
        *meta = *self.packet.meta();
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
        Segment::Next(part)
    }

    /// True once the last part is cut.
    pub fn is_done(&self) -> bool {
        self.next_length() == 0
    }

    /// The packet, to end it.
    pub fn into_packet(self) -> Packet {
        self.packet
    }
}

/// What became of the packets of a queue whose port takes less than before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refitted {
    /// Parts that were made.
    pub generated: u64,
    /// Packets that were cut into parts.
    pub consumed: u64,
    /// Packets and parts that were dropped.
    pub dropped: u64,
}

/// Does to all packets of `queue` what a port that takes `can` asks for. It may hold more than its capacity afterwards.
#[cold]
pub fn refit(queue: &mut Queue, can: Offloads, fates: &mut Accounting) -> Refitted {
    let (fitted, done) = refitted(|| queue.pop(), can, fates);
    let capacity = queue.capacity();
    queue.resize(capacity.max(fitted.len()));
    for packet in fitted {
        let refused = queue.push(packet);
        debug_assert!(refused.is_none(), "room was made for all");
    }
    queue.resize(capacity);
    done
}

/// Does to all packets that `take` gives what a port that takes `can` asks for, and answers them, or their segments.
#[cold]
pub fn refitted(
    mut take: impl FnMut() -> Option<Packet>,
    can: Offloads,
    fates: &mut Accounting,
) -> (Vec<Packet>, Refitted) {
    let (mut fitted, mut done) = (Vec::new(), Refitted::default());
    while let Some(mut packet) = take() {
        if !must_cut(&packet, can) {
            if fit(&mut packet, can, &mut fates.pool) {
                fitted.push(packet);
            } else {
                done.dropped += 1;
                fates.drop(packet, DropReason::NoSuperFrame);
            }
            continue;
        }
        // Packets in these queues fit the MTU already.
        let mut half = match Half::new(packet, usize::MAX) {
            Ok(half) => half,
            Err((packet, reason)) => {
                done.dropped += 1;
                fates.drop(packet, reason);
                continue;
            }
        };
        loop {
            match half.next(fates) {
                Segment::Next(segment) => {
                    done.generated += 1;
                    fitted.push(segment);
                }
                Segment::All => {
                    done.consumed += 1;
                    break fates.consume(half.into_packet());
                }
                Segment::NoFrame => {
                    done.dropped += 1;
                    break fates.drop(half.into_packet(), DropReason::PoolEmpty);
                }
            }
        }
    }
    (fitted, done)
}
