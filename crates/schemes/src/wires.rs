//! The wires between a queueing scheme and the link it serves: two signals and ten primitives.
//!
//! Source: Sivaraman et al., "No Silver Bullet: Extending SDN to the Data Plane", HotNets 2013, section 4. The packets
//! themselves never cross: the link keeps one register for the packet that arrives and one for the packet taken out to
//! be sent, so a scheme can neither copy, forge nor forget one.

use crate::seen::{Group, Tell};
use crate::{SEGMENTS, Size};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use units::{Bytes, Instant, QueueId, Rate};

/// What a scheme sees of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Length on the link, in bytes: of a super-frame, that of all its segments with their headers.
    pub length: u32,
    /// When the packet came to this router; never changed by queueing it again.
    pub timestamp: Instant,
    /// The queue its path chose.
    pub queue: QueueId,
    /// The class its path gave it.
    pub class: u8,
    /// Hash of its flow; of a packet that arrives, and where the scheme wants it.
    pub flow_hash: u32,
    /// Hash of the address it comes from; as well.
    pub source: u32,
    /// Hash of the address it goes to; as well.
    pub destination: u32,
    /// Its code point (RFC 2474); as well.
    pub dscp: u8,
    /// The two ECN bits of its IP header (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub ecn: u8,
    /// The segments of a super-frame besides the first. All together count as [`SEGMENTS`] at most. The field has four bytes: a record with
    /// a field of one byte is copied in overlapping parts, which stalls the read that follows.
    pub more: u32,
}

/// Bytes of the longest super-frame on its link, with the headers of its segments.
const SUPER_FRAME: Bytes = Bytes::new(1 << 17);
/// Links and shapers below this rate need more than a millisecond for a super-frame of 64 KB.
const SPLIT_BELOW: Rate = Rate::bits(64 * 1024 * 8 * 1000);

/// True if super-frames are split before a link or a shaper of this rate: one would delay every other packet by more than a
/// millisecond.
pub(crate) fn is_slow(rate: Rate) -> bool {
    rate < SPLIT_BELOW
}

/// True if one super-frame might not fit an empty queue with these bounds. Then it is split.
pub(crate) fn is_short(bounds: Size) -> bool {
    bounds.packets < SEGMENTS || bounds.bytes < SUPER_FRAME
}

/// The bounds of a queue that holds at most so many packets, of any length.
pub(crate) fn holding(packets: u32) -> Size {
    Size { packets, bytes: Bytes::new(u64::MAX) }
}

impl Record {
    /// The packets that it counts as.
    #[inline(always)]
    pub fn packets(&self) -> u32 {
        1 + self.more
    }

    /// Its share of the length of a queue.
    #[inline(always)]
    pub fn size(&self) -> Size {
        Size { packets: self.packets(), bytes: Bytes::new(self.length.into()) }
    }
}

/// The primitives. Time stands still during one call of the scheme.
pub trait Wires {
    /// The time of this call.
    fn now(&self) -> Instant;
    /// What waits in `queue`.
    fn size(&self, queue: QueueId) -> Size;
    /// The record of the first packet of `queue`.
    fn head(&self, queue: QueueId) -> Option<Record>;
    /// The length of that packet alone, which may be known without looking at it.
    fn head_length(&self, queue: QueueId) -> Option<u32> {
        self.head(queue).map(|head| head.length)
    }
    /// Goes on to the next arriving packet. The one before it, if it was not enqueued, is dropped on arrival.
    fn arriving(&mut self) -> Option<Record>;
    /// Puts the arriving packet at the end of `queue`. False, and the packet is dropped, where the link's memory is full
    /// or there is no such queue.
    fn enqueue(&mut self, queue: QueueId) -> bool;
    /// Drops the first packet of `queue`.
    fn drop_front(&mut self, queue: QueueId) -> Option<Record>;
    /// Drops the last packet of `queue`.
    fn drop_tail(&mut self, queue: QueueId) -> Option<Record>;
    /// Takes the first packet of `queue` out, to be transmitted in the same call. One that is not is put on the link all
    /// the same when the next is taken out.
    fn dequeue(&mut self, queue: QueueId) -> Option<Record>;
    /// Gives the packet taken out to the link.
    fn transmit(&mut self);
    /// Sets congestion experienced on the packet taken out or, if there is none, on the arriving one. False where the
    /// packet's sender does not understand it.
    fn mark(&mut self) -> bool;
    /// The signal `LinkReady`: the link can take another packet now.
    fn link_ready(&self) -> bool;
    /// What the link carries, in bits per second.
    fn link_rate(&self) -> Rate;

    /// Takes arriving packets in order and puts each at the end of `queue`, as [`Wires::arriving`] and [`Wires::enqueue`] would, as
    /// long as what waits there is then within `bounds`. Answers how many: none from wires that know no quicker way.
    fn enqueue_while(&mut self, queue: QueueId, bounds: Size) -> u32 {
        let _ = (queue, bounds);
        0
    }
    /// Sends packets of `queue`, as [`Wires::dequeue`] and [`Wires::transmit`] would, as long as the link is ready and the first one
    /// came no earlier than `since`. Answers how many: none from wires that know no quicker way.
    fn send_while(&mut self, queue: QueueId, since: Instant) -> u32 {
        let _ = (queue, since);
        0
    }

    /// The record of an arriving packet behind those that have been seen, also in this way; each of them is seen once more when its
    /// turn comes. Nothing where there is none, or where the wires do not look ahead.
    fn foresee(&mut self) -> Option<Record> {
        None
    }
    /// A hint: `queue` is about to be asked about. Where there are many, fetching what is known of one from memory takes
    /// longer than all that is done to it.
    fn soon(&self, queue: QueueId) {
        let _ = queue;
    }
    /// A hint for a queue that came [`Wires::soon`]: its first packet is about to be looked at, and with it those that make up
    /// so many bytes.
    fn head_soon(&self, queue: QueueId, bytes: u32) {
        let _ = (queue, bytes);
    }
    /// A hint: the scheme is about to use what it keeps there.
    fn fetch<T>(&self, kept: &T) {
        let _ = kept;
    }
}

/// What the host of a guest sees besides. A guest decides over many packets in one call, so they are shown to it before anything
/// becomes of them, and its decisions are carried out afterwards.
pub trait Ahead: Wires {
    /// The record of the packet so many places behind the next one that arrives.
    fn offered(&self, place: usize) -> Option<Record>;
    /// As [`Wires::arriving`], for a packet whose record is known.
    fn advance(&mut self) -> bool {
        self.arriving().is_some()
    }
    /// Packets that the link can take now.
    fn room(&self) -> usize;
    /// Shows each packet of `queue` that waits, the first one first.
    fn visit(&self, queue: QueueId, see: &mut dyn FnMut(Record));
}

/// What went wrong in a scheme that is not of this program: a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// What it did, in words.
    pub what: String,
    /// Whether it is not tried again: its queues are served first come, first served, until there is another configuration.
    pub for_good: bool,
}

/// Whether an evaluation of [`Scheme::link_ready`] did something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It dropped or sent one packet; evaluate again while the link is ready.
    Made,
    /// There is nothing to do at this time.
    None,
}

/// When a scheme that sent nothing wants to be asked again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// As soon as the link can take a packet.
    Ready,
    /// At a time: packets wait, but must not leave yet.
    At(Instant),
    /// Not before something arrives.
    Idle,
}

/// A queueing scheme.
pub trait Scheme<W: Wires>: Send {
    /// The signal `Arrival`: goes through `wires.arriving()` and enqueues what it wants to keep.
    fn arrival(&mut self, wires: &mut W);
    /// The signal `LinkReady`: one evaluation, at most one drop or one departure.
    fn link_ready(&mut self, wires: &mut W) -> Progress;
    /// When to raise `LinkReady` again.
    fn next(&self, wires: &W) -> Next;
    /// Whether it looks at `Record::flow_hash`; asked when it is put on a link, so that others need not pay for it.
    fn wants_flow_hash(&self) -> bool {
        false
    }

    /// Whether it looks at `Record::source`, `destination` and `dscp`; asked as that.
    fn wants_hosts(&self) -> bool {
        false
    }

    /// True if super-frames are split before they arrive, on a link of this rate. Otherwise each is one packet that counts as its
    /// segments.
    fn splits_super_frames(&self, link: Rate) -> bool {
        is_slow(link)
    }

    /// Whether a packet that arrives while nothing waits and the link is ready leaves at once and unchanged, and the
    /// scheme keeps no memory of it. The link then need not ask: uncongested packets pass it by.
    fn passes_when_idle(&self) -> bool {
        false
    }

    /// How many queues it wants on its link; asked when it is put there.
    fn queues(&self) -> u32 {
        1
    }

    /// How many packets all its queues hold at most; asked when it is put there.
    fn holds_at_most(&self) -> u32 {
        u32::MAX
    }

    /// Its queues in the groups that are told of together, in the order of the queues.
    fn groups(&self) -> Vec<Group> {
        Group::unnamed(self.queues())
    }

    /// The queue that a packet like this is for, whether it is let in or not; nothing where that is not known.
    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        let _ = packet;
        (self.queues() <= 1).then_some(QueueId(0))
    }

    /// Tells what it remembers of `queue`, in which so much waits, always by the same names; nothing of a queue that is not its own.
    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        let _ = (queue, now, waiting, tell);
    }

    /// Others have put packets on its queues, or taken some: it counts anew what it has counted.
    fn recount(&mut self, wires: &W) {
        let _ = wires;
    }

    /// Whether a higher class leaves before a lower one: the output task then takes packets from the paths in that order too.
    fn ranks_classes(&self) -> bool {
        false
    }

    /// What went wrong in it, told once each.
    fn trouble(&mut self) -> Option<Trouble> {
        None
    }

    /// A line that it has for the operator, told once.
    fn remark(&mut self) -> Option<String> {
        None
    }

    /// Takes the parameters of a scheme like itself, and keeps what it remembers. False where the other is of another kind, has other
    /// queues, or remembers other things: then the other is to take its place, for it may have taken some of them by then.
    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let _ = (other, wires);
        false
    }

    /// Itself as [`Scheme::tune`] has it; nothing where it cannot be tuned.
    fn tunable(&self) -> Option<&dyn Any> {
        None
    }

    /// `LinkReady` is level-triggered: evaluates as long as the link is ready and the last evaluation did something.
    /// Here, so that the loop is compiled into each scheme and a batch costs one indirect call.
    fn serve(&mut self, wires: &mut W) {
        while wires.link_ready() && self.link_ready(wires) == Progress::Made {}
    }
}
