//! One queue under one kind of management: packets leave in the order they came.

use crate::aqm::{At, Manage, Turn};
use crate::{Next, Progress, Scheme, Wires};
use units::QueueId;

const QUEUE: QueueId = QueueId(0);

/// First come, first served. Compiled anew for each kind of management: nothing is decided per packet but by it.
#[derive(Clone, Debug)]
pub(crate) struct Single<M: Manage> {
    node: M,
    memory: M::Memory,
}

impl<M: Manage> Single<M> {
    pub fn new(node: M) -> Single<M> {
        Single { memory: node.memory(), node }
    }

    /// What is remembered of the queue.
    #[cfg(test)]
    pub fn memory(&self) -> &M::Memory {
        &self.memory
    }
}

#[inline(always)]
fn at<W: Wires>(wires: &mut W) -> At<'_, W> {
    let backlog = wires.size(QUEUE).bytes;
    At { wires, queue: QUEUE, backlog }
}

impl<W: Wires, M: Manage> Scheme<W> for Single<M> {
    #[inline]
    fn arrival(&mut self, wires: &mut W) {
        while let Some(packet) = wires.arriving() {
            self.node.arrive(&mut self.memory, &mut at(wires), &packet);
        }
    }

    #[inline(always)]
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        match self.node.evaluate(&mut self.memory, &mut at(wires)) {
            Turn::Sent(_) | Turn::Dropped => Progress::Made,
            Turn::Nothing => Progress::None,
        }
    }

    fn next(&self, wires: &W) -> Next {
        if wires.size(QUEUE).packets == 0 { Next::Idle } else { Next::Ready }
    }

    fn wants_flow_hash(&self) -> bool {
        self.node.wants_flow_hash()
    }

    fn passes_when_idle(&self) -> bool {
        self.node.passes_when_idle()
    }
}
