//! Active queue management: what becomes of a packet on its way into a queue and out of it.
//!
//! A node has parameters; what it remembers of a queue lies beside them. It sees only the queue it is asked about, and how much
//! waits altogether.

mod blue;
mod choke;
pub(crate) mod codel;
mod law;
mod node;
mod pie;
mod red;
mod tail;
mod threshold;

pub(crate) use blue::Blue;
pub(crate) use choke::Choke;
pub(crate) use codel::CoDel;
pub(crate) use node::Aqm;
pub(crate) use pie::Pie;
pub(crate) use red::Red;
pub(crate) use tail::{Head, Tail};
pub(crate) use threshold::Threshold;

use crate::options::switch;
use crate::wires::is_short;
use crate::{Progress, Record, Size, Tell, Wires};
use units::declare::{OptionDeclaration, Unit};
use units::{Bytes, Instant, Nanos, QueueId};

/// The most packets of a queue.
pub(crate) const LIMIT: OptionDeclaration = OptionDeclaration {
    name: "limit",
    unit: Unit::Count,
    default: "1000",
    least: 1,
    most: 100_000_000,
    doc: "the most packets that wait",
};

/// The most bytes of a queue.
pub(crate) const BYTES: OptionDeclaration = OptionDeclaration {
    name: "bytes",
    unit: Unit::Size,
    default: "1gb",
    least: 1514,
    most: 1 << 40,
    doc: "the most bytes that wait",
};

/// A queue that was empty for so long is not congested: an average of its length is zero, however slow the link is and however little a
/// packet counts in it.
const FORGOTTEN: Nanos = Nanos::secs(1);

/// Marking instead of dropping (RFC 3168).
const ECN: OptionDeclaration =
    switch("ecn", "off", "whether packets are marked instead of dropped where their sender understands it");

/// The queue in question, and the wires.
pub(crate) struct At<'a, W> {
    pub wires: &'a mut W,
    pub queue: QueueId,
    /// What waited in the queue when the node was asked.
    pub waiting: Size,
    /// Bytes that wait in all queues of the node.
    pub backlog: Bytes,
}

impl<W: Wires> At<'_, W> {
    /// What waits in the queue by now.
    #[inline(always)]
    pub fn size(&self) -> Size {
        self.wires.size(self.queue)
    }

    /// True if the queue would hold more than `limit` packets with the one that arrives.
    #[inline(always)]
    pub fn is_full(&self, limit: u32, packet: &Record) -> bool {
        // `more` is zero for a single packet.
        self.waiting.packets.saturating_add(packet.more) >= limit
    }

    /// Takes the first packet out and sends it.
    #[inline(always)]
    pub fn send(&mut self) -> Turn {
        match self.wires.dequeue(self.queue) {
            Some(record) => {
                self.wires.transmit();
                Turn::Sent(record.length)
            }
            None => Turn::Nothing,
        }
    }

    /// Takes the first packet out, marks it and sends it; to be asked where its sender understands marks.
    pub fn send_marked(&mut self) -> Turn {
        match self.wires.dequeue(self.queue) {
            Some(record) => {
                self.wires.mark();
                self.wires.transmit();
                Turn::Sent(record.length)
            }
            None => Turn::Nothing,
        }
    }

    /// Drops the first packet.
    pub fn drop_front(&mut self) -> Turn {
        self.wires.drop_front(self.queue).map_or(Turn::Nothing, |_| Turn::Dropped)
    }
}

/// What one evaluation of `LinkReady` came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// A packet of so many bytes was given to the link.
    Sent(u32),
    /// A packet was dropped, and the queue has not said its last.
    Dropped,
    /// The queue is empty.
    Nothing,
}

impl Turn {
    /// The same as a scheme answers it.
    #[inline(always)]
    pub fn progress(self) -> Progress {
        match self {
            Turn::Sent(_) | Turn::Dropped => Progress::Made,
            Turn::Nothing => Progress::None,
        }
    }
}

/// A way to manage a queue.
pub(crate) trait Manage: Clone + Send + 'static {
    /// What is remembered of a queue.
    type Memory: Clone + Default + core::fmt::Debug + Send;
    /// Whether others that wait may have to go for a packet that arrives.
    const PUSHES_OUT: bool = false;
    /// Whether more is asked of a packet that is about to leave than how long it is.
    const LOOKS: bool = false;

    /// What is remembered of a queue that nothing has come to, with room for all that will be.
    fn memory(&self) -> Self::Memory {
        Self::Memory::default()
    }

    /// The packet that arrives is to be enqueued, marked or refused. Answers whether it is on the queue.
    fn arrive<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut At<'_, W>, packet: &Record) -> bool;

    /// One evaluation: at most one packet is dropped or sent.
    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut At<'_, W>) -> Turn {
        let _ = memory;
        at.send()
    }

    /// Within which bounds packets are let in as they come, nothing being remembered of it; where there are such.
    #[inline(always)]
    fn takes_any_within(&self) -> Option<Size> {
        None
    }

    /// Sends those packets at once, from the first on, that as many evaluations would send one by one, with all that these would
    /// remember. Wires that know a quicker way for many need not ask about each.
    #[inline(always)]
    fn send_unquestioned<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut At<'_, W>) {
        let _ = (memory, at);
    }

    /// Tells what it remembers of a queue in which so much waits.
    fn state(&self, memory: &Self::Memory, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        let _ = (memory, now, waiting, tell);
    }

    /// The queue is empty, and others took its last packet, not [`Manage::evaluate`].
    fn emptied(&self, memory: &mut Self::Memory) {
        let _ = memory;
    }

    /// It has other parameters than those by which it remembered this of a queue, in which so much waits. What would keep packets out by
    /// the new ones though the queue is empty is to be forgotten.
    fn retuned(&self, memory: &mut Self::Memory, waiting: Size) {
        let _ = (memory, waiting);
    }

    /// Whether what it remembers of a queue serves one with the parameters of `other`, too.
    fn remembers_like(&self, other: &Self) -> bool {
        let _ = other;
        true
    }

    /// True if super-frames are split before they arrive, on any link: one might not fit an empty queue, or the node compares
    /// single packets.
    fn splits_super_frames(&self) -> bool {
        self.takes_any_within().is_none_or(is_short)
    }

    /// As [`Scheme::wants_flow_hash`](crate::Scheme::wants_flow_hash).
    fn wants_flow_hash(&self) -> bool {
        false
    }

    /// As [`Scheme::passes_when_idle`](crate::Scheme::passes_when_idle), of one queue.
    fn passes_when_idle(&self) -> bool {
        false
    }
}
