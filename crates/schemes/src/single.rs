//! One queue with one kind of management: packets leave in the order of arrival.

use crate::aqm::{Evaluation, Manage, QueueContext};
use crate::stage::Stage;
use crate::wires::is_slow;
use crate::{Next, Progress, Record, Scheme, Size, Tell, Wires};
use core::any::Any;
use units::{Instant, QueueId, Rate};

/// First come, first served. The compiler specialises it for each kind of management, so that only the management decides per packet.
#[derive(Clone, Debug)]
pub(crate) struct Single<M: Manage> {
    node: M,
    memory: M::Memory,
    queue: QueueId,
}

impl<M: Manage> Single<M> {
    pub fn new(node: M) -> Single<M> {
        Single { memory: node.memory(), node, queue: QueueId(0) }
    }

    /// Replaces the state of the queue.
    #[cfg(test)]
    pub fn remember(&mut self, memory: M::Memory) {
        self.memory = memory;
    }

    /// The state of the queue.
    #[cfg(test)]
    pub fn memory(&self) -> &M::Memory {
        &self.memory
    }
}

#[inline(always)]
fn at<W: Wires>(wires: &mut W, queue: QueueId) -> QueueContext<'_, W> {
    let waiting = wires.size(queue);
    // The only queue is the whole backlog.
    QueueContext { wires, queue, waiting, backlog: waiting.bytes }
}

impl<W: Wires, M: Manage> Scheme<W> for Single<M> {
    #[inline]
    fn arrival(&mut self, wires: &mut W) {
        let bounds = self.node.unconditional_bounds();
        // Move the state to a local variable, so that it stays in registers. The compiler cannot rule out that the wires write to `self`.
        let mut memory = core::mem::take(&mut self.memory);
        loop {
            if let Some(bounds) = bounds {
                // The wires stop at the first packet that exceeds the bounds. That one is decided below, then the batch continues.
                wires.enqueue_while(self.queue, bounds);
            }
            let Some(packet) = wires.arriving() else { break };
            self.node.arrive(&mut memory, &mut at(wires, self.queue), &packet);
        }
        self.memory = memory;
    }

    #[inline(always)]
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, wires: &W) -> Next {
        if wires.size(self.queue).packets == 0 { Next::Idle } else { Next::Ready }
    }

    fn splits_super_frames(&self, link: Rate) -> bool {
        is_slow(link) || self.node.splits_super_frames()
    }

    fn wants_flow_hash(&self) -> bool {
        self.node.wants_flow_hash()
    }

    fn passes_when_idle(&self) -> bool {
        self.node.passes_when_idle()
    }

    fn queue_of(&self, _: &Record) -> Option<QueueId> {
        Some(self.queue)
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        if queue == self.queue {
            self.node.state(&self.memory, now, waiting, tell);
        }
    }

    fn recount(&mut self, wires: &W) {
        if wires.size(self.queue).packets == 0 {
            self.node.emptied(&mut self.memory);
        }
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let like = self.node.has_compatible_state(&other.node);
        if like {
            self.node.clone_from(&other.node);
            self.node.parameters_changed(&mut self.memory, wires.size(self.queue));
        }
        like
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn serve(&mut self, wires: &mut W) {
        while wires.link_ready() {
            // Packets that need no decision leave in one call. Then a single evaluation decides about the next packet.
            self.node.send_unconditionally(&mut self.memory, &mut at(wires, self.queue));
            if !wires.link_ready() || self.link_ready(wires) == Progress::None {
                return;
            }
        }
    }
}

impl<W: Wires, M: Manage> Stage<W> for Single<M> {
    fn begin_at(&mut self, first: u32) {
        self.queue = QueueId(first);
    }

    fn reset(&mut self) {
        self.memory = self.node.memory();
    }

    #[inline(always)]
    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        self.node.arrive(&mut self.memory, &mut at(wires, self.queue), packet);
    }

    #[inline(always)]
    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        self.node.evaluate(&mut self.memory, &mut at(wires, self.queue))
    }
}
