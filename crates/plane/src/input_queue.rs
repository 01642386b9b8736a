//! The queue before the functions of a path: first in, first out, or one queue for each reserved flow.

use crate::flow_queues::{FlowOrder, FlowQueues};
use packet::{Batch, Packet, Queue};
use units::Instant;

/// See the [module](self).
pub(crate) enum InputQueue {
    /// First in, first out.
    Fifo(Queue),
    /// One queue for each reserved flow.
    Flows(Box<FlowQueues>),
}

impl InputQueue {
    /// An empty queue of a path. With `order` it has reserved flows.
    pub fn new(capacity: usize, order: Option<&FlowOrder>) -> InputQueue {
        match order {
            None => InputQueue::Fifo(Queue::new(capacity)),
            Some(order) => InputQueue::Flows(Box::new(FlowQueues::new(order, capacity))),
        }
    }

    /// The name of the scheduler of its flows. `None`: it is first in, first out.
    pub fn scheduler(&self) -> Option<&'static str> {
        match self {
            InputQueue::Fifo(_) => None,
            InputQueue::Flows(flows) => Some(flows.scheduler()),
        }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            InputQueue::Fifo(queue) => queue.len(),
            InputQueue::Flows(flows) => flows.len(),
        }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn capacity(&self) -> usize {
        match self {
            InputQueue::Fifo(queue) => queue.capacity(),
            InputQueue::Flows(flows) => flows.capacity(),
        }
    }

    #[inline(always)]
    pub fn room(&self) -> usize {
        match self {
            InputQueue::Fifo(queue) => queue.room(),
            InputQueue::Flows(flows) => flows.room(),
        }
    }

    pub fn resize(&mut self, capacity: usize) {
        match self {
            InputQueue::Fifo(queue) => queue.resize(capacity),
            InputQueue::Flows(flows) => flows.set_capacity(capacity),
        }
    }

    /// The time by which queues of several ports take turns: the earliest is first.
    pub fn turn(&self) -> Instant {
        match self {
            InputQueue::Fifo(queue) => queue.front().map_or(Instant::START, |packet| packet.meta().timestamp),
            InputQueue::Flows(flows) => flows.served(),
        }
    }

    /// Adds a packet. Returns it if there is no room.
    #[inline]
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, packet: Packet) -> Option<Packet> {
        match self {
            InputQueue::Fifo(queue) => queue.push(packet),
            InputQueue::Flows(flows) => flows.push(packet),
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        match self {
            InputQueue::Fifo(queue) => queue.pop(),
            InputQueue::Flows(flows) => flows.pop(),
        }
    }

    /// Adds the first `count` packets of `batch`. `refuse` gets those without room. Returns how many found room.
    #[inline]
    pub fn append(&mut self, batch: &mut Batch, count: usize, refuse: impl FnMut(Packet)) -> usize {
        match self {
            InputQueue::Fifo(queue) => {
                let fitted = queue.append(batch, count);
                batch.drain().take(count - fitted).for_each(refuse);
                fitted
            }
            InputQueue::Flows(flows) => {
                let before = flows.len();
                batch.drain().take(count).filter_map(|packet| flows.push(packet)).for_each(refuse);
                flows.len() - before
            }
        }
    }

    /// Removes the packets for which `take` holds, without those that are within their functions. The others keep their order.
    pub fn extract(&mut self, mut take: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        match self {
            InputQueue::Flows(flows) => flows.extract(take),
            InputQueue::Fifo(queue) => {
                let mut taken = Vec::new();
                // Every packet is popped once and pushed back, which keeps the order.
                for _ in 0..queue.len() {
                    let Some(packet) = queue.pop() else { break };
                    // There is a place, that of the packet itself.
                    taken.extend(if take(&packet) { Some(packet) } else { queue.push(packet) });
                }
                taken
            }
        }
    }

    #[inline]
    pub fn pop_into(&mut self, batch: &mut Batch, most: usize) {
        match self {
            InputQueue::Fifo(queue) => queue.pop_into(batch, most),
            InputQueue::Flows(flows) => flows.pop_into(batch, most),
        }
    }
}
