//! Active queue management: the fate of a packet on its way into a queue and out of it.
//!
//! A node has parameters; its state of each queue is stored beside it. It sees only the queue that it is called for, and the total backlog.

mod blue;
mod choke;
pub(crate) mod codel;
mod control_law;
mod dctcp;
mod node;
mod pie;
mod red;
mod tail_drop;

pub(crate) use blue::Blue;
pub(crate) use choke::Choke;
pub(crate) use codel::CoDel;
pub(crate) use dctcp::Threshold;
pub(crate) use node::Aqm;
pub(crate) use pie::Pie;
pub(crate) use red::Red;
pub(crate) use tail_drop::{Head, Tail};

/// The nodes that a configuration names, in the order of the reference. `$then!` gets all of them.
macro_rules! managers {
    ($then:ident) => {
        $then! { Red CoDel Pie Blue Choke Threshold }
    };
}
pub(crate) use managers;

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

/// A queue that was empty for this time is not congested. Its average length is then reset to zero, even on a slow link and with a small weight.
const FORGOTTEN: Nanos = Nanos::secs(1);

/// Marking instead of dropping (RFC 3168).
const ECN: OptionDeclaration =
    switch("ecn", "off", "if on, packets of ECN-capable senders are marked instead of dropped");

/// A queue and the wires.
pub(crate) struct QueueContext<'a, W> {
    pub wires: &'a mut W,
    pub queue: QueueId,
    /// The length of the queue when the node was called.
    pub waiting: Size,
    /// The bytes in all queues of the node.
    pub backlog: Bytes,
}

impl<W: Wires> QueueContext<'_, W> {
    /// The present length of the queue.
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

    /// Sends the first packet.
    #[inline(always)]
    pub fn send(&mut self) -> Evaluation {
        match self.wires.dequeue(self.queue) {
            Some(record) => {
                self.wires.transmit();
                Evaluation::Sent(record.length)
            }
            None => Evaluation::Nothing,
        }
    }

    /// Marks the first packet and sends it. The caller has checked that it is ECN-capable.
    pub fn send_marked(&mut self) -> Evaluation {
        match self.wires.dequeue(self.queue) {
            Some(record) => {
                // Between the two calls: `mark` needs the packet taken out, or it would mark the arriving one.
                self.wires.mark();
                self.wires.transmit();
                Evaluation::Sent(record.length)
            }
            None => Evaluation::Nothing,
        }
    }

    /// Drops the first packet.
    pub fn drop_front(&mut self) -> Evaluation {
        self.wires.drop_front(self.queue).map_or(Evaluation::Nothing, |_| Evaluation::Dropped)
    }
}

/// The result of one evaluation of `LinkReady`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Evaluation {
    /// A packet of this length was sent.
    Sent(u32),
    /// A packet was dropped; the queue must be evaluated again.
    Dropped,
    /// The queue is empty.
    Nothing,
}

impl Evaluation {
    /// The result as a scheme returns it.
    #[inline(always)]
    pub fn progress(self) -> Progress {
        match self {
            // After a drop the link is still ready, so it evaluates again at the same time.
            Evaluation::Sent(_) | Evaluation::Dropped => Progress::Made,
            Evaluation::Nothing => Progress::None,
        }
    }
}

/// A kind of queue management.
pub(crate) trait Manage: Clone + Send + 'static {
    /// The state of a queue.
    type Memory: Clone + Default + core::fmt::Debug + Send;
    /// True if an arriving packet can cause drops of waiting ones.
    const PUSHES_OUT: bool = false;
    /// True if an evaluation reads more of the first packet than its length.
    const LOOKS: bool = false;

    /// The initial state of a queue, with all memory allocated.
    fn memory(&self) -> Self::Memory {
        Self::Memory::default()
    }

    /// Enqueues, marks or refuses the arriving packet. Returns true if it is in the queue.
    fn arrive<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut QueueContext<'_, W>, packet: &Record) -> bool;

    /// One evaluation: drops or sends at most one packet.
    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut QueueContext<'_, W>) -> Evaluation {
        let _ = memory;
        at.send()
    }

    /// The bounds within which every packet is enqueued without a change of state; none if there are none.
    #[inline(always)]
    fn unconditional_bounds(&self) -> Option<Size> {
        None
    }

    /// Sends at once those first packets that single evaluations would all send, and updates the state likewise. Wires with a batch operation then
    /// need no call for each packet.
    #[inline(always)]
    fn send_unconditionally<W: Wires>(&mut self, memory: &mut Self::Memory, at: &mut QueueContext<'_, W>) {
        let _ = (memory, at);
    }

    /// Reports the state of a queue of length `waiting`.
    fn state(&self, memory: &Self::Memory, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        let _ = (memory, now, waiting, tell);
    }

    /// The queue is empty, and its last packet was not removed by [`Manage::evaluate`].
    fn emptied(&self, memory: &mut Self::Memory) {
        let _ = memory;
    }

    /// The parameters have changed while the state was kept. Resets the state that would refuse packets of an empty queue under the new parameters.
    fn parameters_changed(&self, memory: &mut Self::Memory, waiting: Size) {
        let _ = (memory, waiting);
    }

    /// True if its state is usable with the parameters of `other`.
    fn has_compatible_state(&self, other: &Self) -> bool {
        let _ = other;
        true
    }

    /// True if super-frames are split before they arrive, on any link: one may not fit an empty queue, or the node compares single packets.
    fn splits_super_frames(&self) -> bool {
        // A node without such bounds may refuse a super-frame at an empty queue: split.
        self.unconditional_bounds().is_none_or(is_short)
    }

    /// Like [`Scheme::wants_flow_hash`](crate::Scheme::wants_flow_hash).
    fn wants_flow_hash(&self) -> bool {
        false
    }

    /// Like [`Scheme::passes_when_idle`](crate::Scheme::passes_when_idle), for one queue.
    fn passes_when_idle(&self) -> bool {
        false
    }
}
