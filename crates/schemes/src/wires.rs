//! The wires between a queueing scheme and its link: two signals and ten primitives.
//!
//! Source: Sivaraman et al., "No Silver Bullet: Extending SDN to the Data Plane", HotNets 2013, section 4. A scheme never holds a packet. The link
//! keeps one register for the arriving packet and one for the packet taken out of a queue. A scheme can therefore neither copy, forge nor lose a
//! packet.

use crate::inspect::{Group, Tell};
use crate::{SEGMENTS, Size};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use units::{Bytes, Instant, QueueId, Rate};

/// The view of a packet for a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Length on the link in bytes. For a super-frame: the sum over its segments, with their headers.
    pub length: u32,
    /// When this router received the packet. Moving it to another queue does not change this.
    pub timestamp: Instant,
    /// The queue that its path selected.
    pub queue: QueueId,
    /// The class that its path assigned.
    pub class: u8,
    /// The hash of its flow. Only in the record of an arriving packet, and only if the scheme wants it.
    pub flow_hash: u32,
    /// The hash of its source address; likewise.
    pub source: u32,
    /// The hash of its destination address; likewise.
    pub destination: u32,
    /// Its code point (RFC 2474); likewise.
    pub dscp: u8,
    /// The ECN bits of its IP header (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// The segments of a super-frame besides the first. A super-frame counts as at most [`SEGMENTS`] packets. The field has four bytes: a record with
    /// a field of one byte is copied in overlapping parts, which stalls the read that follows.
    pub more: u32,
}

/// The bytes of the longest super-frame on the link, with the headers of its segments.
const SUPER_FRAME: Bytes = Bytes::new(1 << 17);
/// Links and shapers below this rate need more than a millisecond for a super-frame of 64 KB.
const SPLIT_BELOW: Rate = Rate::bits(64 * 1024 * 8 * 1000);

/// True if super-frames are split before a link or shaper of this rate. One would delay every other packet by more than a millisecond.
pub(crate) fn is_slow(rate: Rate) -> bool {
    rate < SPLIT_BELOW
}

/// True if a super-frame may exceed these bounds of an empty queue. Then super-frames are split.
pub(crate) fn is_short(bounds: Size) -> bool {
    bounds.packets < SEGMENTS || bounds.bytes < SUPER_FRAME
}

/// Bounds in packets, without a bound in bytes.
pub(crate) fn packet_bounds(packets: u32) -> Size {
    Size { packets, bytes: Bytes::new(u64::MAX) }
}

impl Record {
    /// The number of packets that it counts as.
    #[inline(always)]
    pub fn packets(&self) -> u32 {
        1 + self.more
    }

    /// Its contribution to a queue length.
    #[inline(always)]
    pub fn size(&self) -> Size {
        Size { packets: self.packets(), bytes: Bytes::new(self.length.into()) }
    }
}

/// The primitives. The time is constant during one call of the scheme.
pub trait Wires {
    /// The time of this call.
    fn now(&self) -> Instant;
    /// The length of `queue`.
    fn size(&self, queue: QueueId) -> Size;
    /// The record of the first packet of `queue`.
    fn head(&self, queue: QueueId) -> Option<Record>;
    /// The length of the first packet of `queue`. The link may know it without reading the packet.
    fn head_length(&self, queue: QueueId) -> Option<u32> {
        self.head(queue).map(|head| head.length)
    }
    /// Advances to the next arriving packet. The previous one is dropped if it was not enqueued.
    fn arriving(&mut self) -> Option<Record>;
    /// Appends the arriving packet to `queue`. If the link's memory is full or there is no such queue, the packet is dropped and the result is false.
    fn enqueue(&mut self, queue: QueueId) -> bool;
    /// Drops the first packet of `queue`.
    fn drop_front(&mut self, queue: QueueId) -> Option<Record>;
    /// Drops the last packet of `queue`.
    fn drop_tail(&mut self, queue: QueueId) -> Option<Record>;
    /// Takes the first packet out of `queue`, to be transmitted in the same call. If the scheme does not transmit it, the link does when the next
    /// packet is taken out.
    fn dequeue(&mut self, queue: QueueId) -> Option<Record>;
    /// Transmits the packet that was taken out.
    fn transmit(&mut self);
    /// Sets congestion experienced on the packet taken out or, if there is none, on the arriving one. False if the packet is not ECN-capable.
    fn mark(&mut self) -> bool;
    /// The signal `LinkReady`: the link accepts another packet now.
    fn link_ready(&self) -> bool;
    /// The link rate in bits per second.
    fn link_rate(&self) -> Rate;

    /// Enqueues arriving packets in order, like [`Wires::arriving`] and [`Wires::enqueue`], while `queue` stays within `bounds`. Returns their
    /// number: zero if the wires have no faster way.
    fn enqueue_while(&mut self, queue: QueueId, bounds: Size) -> u32 {
        let _ = (queue, bounds);
        0
    }
    /// Sends packets of `queue`, like [`Wires::dequeue`] and [`Wires::transmit`], while the link is ready and the first packet arrived no earlier
    /// than `since`. Returns their number: zero if the wires have no faster way.
    fn send_while(&mut self, queue: QueueId, since: Instant) -> u32 {
        let _ = (queue, since);
        0
    }

    /// The record of the next arriving packet that [`Wires::arriving`] or an earlier call has not returned. [`Wires::arriving`] returns it again
    /// later. None if there is none, or if the wires do not look ahead.
    fn peek_arriving(&mut self) -> Option<Record> {
        None
    }
    /// A hint that `queue` is used soon, so that the link can prefetch it. With many queues a cache miss costs more than all other work on a queue.
    fn prefetch_queue(&self, queue: QueueId) {
        let _ = queue;
    }
    /// A hint after [`Wires::prefetch_queue`]: the first packets of `queue`, up to so many bytes, are read soon.
    fn prefetch_head(&self, queue: QueueId, bytes: u32) {
        let _ = (queue, bytes);
    }
    /// A hint that the scheme uses `kept` soon.
    fn prefetch<T>(&self, kept: &T) {
        let _ = kept;
    }
}

/// The wires for the host of a guest. A guest decides about many packets in one call. The host therefore reads them before the decisions and carries
/// the decisions out afterwards.
pub trait Ahead: Wires {
    /// The record of the packet `place` places behind the next arriving one.
    fn offered(&self, place: usize) -> Option<Record>;
    /// Like [`Wires::arriving`], for a packet whose record is known.
    fn advance(&mut self) -> bool {
        self.arriving().is_some()
    }
    /// The packets that the link accepts now.
    fn room(&self) -> usize;
    /// Calls `see` for each packet of `queue` in order.
    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record));
}

/// A fault in a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// A description of the fault.
    pub description: String,
    /// True if the guest is not restarted: its queues are served first come, first served until the configuration changes.
    pub permanent: bool,
}

/// The result of an evaluation of [`Scheme::link_ready`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It dropped or sent one packet; evaluate again while the link is ready.
    Made,
    /// There is nothing to do now.
    None,
}

/// When a scheme that sent nothing must be evaluated again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// As soon as the link accepts a packet.
    Ready,
    /// At this time: packets wait, but must not leave yet.
    At(Instant),
    /// Not before a packet arrives.
    Idle,
}

/// A queueing scheme.
pub trait Scheme<W: Wires>: Send {
    /// The signal `Arrival`: iterates over `wires.arriving()` and enqueues the packets it accepts.
    fn arrival(&mut self, wires: &mut W);
    /// The signal `LinkReady`: one evaluation, with at most one drop or departure.
    fn link_ready(&mut self, wires: &mut W) -> Progress;
    /// When to raise `LinkReady` again.
    fn next(&self, wires: &W) -> Next;
    /// True if it uses `Record::flow_hash`. Read when it is installed on a link, so that other schemes save the cost of the hash.
    fn wants_flow_hash(&self) -> bool {
        false
    }

    /// True if it uses `Record::source`, `destination` and `dscp`. Read when it is installed on a link.
    fn wants_hosts(&self) -> bool {
        false
    }

    /// True if super-frames are split before they arrive, on a link of this rate. Otherwise each is one packet that counts as its segments.
    fn splits_super_frames(&self, link: Rate) -> bool {
        is_slow(link)
    }

    /// True if a packet that arrives while no packet waits and the link is ready leaves at once and unchanged, and the scheme keeps no state of it.
    /// The link then does not call the scheme for uncongested packets.
    fn passes_when_idle(&self) -> bool {
        false
    }

    /// The number of its queues. Read when it is installed.
    fn queues(&self) -> u32 {
        1
    }

    /// The most packets that all its queues hold. Read when it is installed.
    fn holds_at_most(&self) -> u32 {
        u32::MAX
    }

    /// Its queues in groups for reports, in the order of the queues.
    fn groups(&self) -> Vec<Group> {
        Group::unnamed(self.queues())
    }

    /// The queue of a packet like this, accepted or not; none if unknown.
    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        let _ = packet;
        // A single queue has every packet. Of many only the scheme knows the one.
        (self.queues() <= 1).then_some(QueueId(0))
    }

    /// Reports its state for `queue`, whose length is `waiting`, always with the same names. Reports nothing for a queue that is not its own.
    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        let _ = (queue, now, waiting, tell);
    }

    /// The link has added or removed packets: counts its queues anew.
    fn recount(&mut self, wires: &W) {
        let _ = wires;
    }

    /// True if higher classes leave first. Then the output task serves the paths in that order too.
    fn ranks_classes(&self) -> bool {
        false
    }

    /// The next fault, each reported once.
    fn next_fault(&mut self) -> Option<Trouble> {
        None
    }

    /// The next line for the operator, each reported once.
    fn next_message(&mut self) -> Option<String> {
        None
    }

    /// Takes over the parameters of a scheme of the same kind, and keeps its state. False if the other differs in kind, queues or state. The other
    /// must then replace this one, which may already have taken over some parameters.
    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let _ = (other, wires);
        false
    }

    /// Its type for [`Scheme::tune`]; none if it cannot be tuned.
    fn tunable(&self) -> Option<&dyn Any> {
        None
    }

    /// True for a link-sharing tree.
    fn has_shares(&self) -> bool {
        false
    }

    /// Changes the shares of a link-sharing tree, all at once. `edits` is a `ShareEdits`. Other schemes have no shares.
    fn edit_shares(&mut self, edits: &dyn Any, wires: &W) {
        let _ = (edits, wires);
    }

    /// `LinkReady` is level-triggered: evaluates while the link is ready and the last evaluation made progress. It is a method of the trait so that
    /// the loop is compiled into each scheme, and a batch costs one indirect call.
    fn serve(&mut self, wires: &mut W) {
        while wires.link_ready() && self.link_ready(wires) == Progress::Made {}
    }
}
