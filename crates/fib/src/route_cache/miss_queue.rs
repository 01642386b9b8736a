//! The way of a miss to the classifier, and the table of flows that need no cache (P-22, P-25).

use std::collections::VecDeque;

/// The reaction of a network processor to a miss when the queue to the classifier is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissOverflow {
    /// It drops the packet.
    #[default]
    Drop,
    /// It waits, and receives no packets meanwhile.
    Stall,
}

/// The fate of a miss at the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// It waits for the classifier.
    Queued,
    /// It was dropped.
    Dropped,
    /// There is no room; offer it again.
    Stalled,
}

/// A bounded queue of misses between one network processor and the classifier.
#[derive(Debug)]
pub struct MissQueue<T> {
    waiting: VecDeque<T>,
    limit: usize,
    when_full: MissOverflow,
    /// Misses that were dropped.
    pub dropped: u64,
    /// Offers that were refused.
    pub stalls: u64,
}

impl<T> MissQueue<T> {
    /// An empty queue of at most `limit` misses.
    pub fn new(limit: usize, when_full: MissOverflow) -> MissQueue<T> {
        MissQueue { waiting: VecDeque::with_capacity(limit), limit, when_full, dropped: 0, stalls: 0 }
    }

    /// Offers a miss.
    pub fn offer(&mut self, miss: T) -> Offered {
        if self.waiting.len() < self.limit {
            self.waiting.push_back(miss);
            return Offered::Queued;
        }
        match self.when_full {
            MissOverflow::Drop => {
                self.dropped += 1;
                Offered::Dropped
            }
            MissOverflow::Stall => {
                self.stalls += 1;
                Offered::Stalled
            }
        }
    }

    /// The oldest miss.
    pub fn take(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }

    /// The number of waiting misses.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if no miss waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// The output queues of flows with reservations, by the flow id in the packet (P-22).
///
/// Flow ids are dense, so that one access finds the queue. Packets of an unknown flow are best effort, and are counted.
#[derive(Clone, Debug)]
pub struct FlowTable {
    /// The queue of each flow, plus one; zero for none.
    queues: Box<[u32]>,
    /// Look-ups of unknown flows.
    pub unknown: u64,
}

impl FlowTable {
    /// A table for flow ids below `flows`.
    pub fn new(flows: usize) -> FlowTable {
        FlowTable { queues: vec![0; flows].into(), unknown: 0 }
    }

    /// Sets or clears the queue of a flow. Returns false for a flow id that the table has no place for. Panics for queue `u32::MAX`.
    pub fn set(&mut self, flow: u32, queue: Option<u32>) -> bool {
        assert_ne!(queue, Some(u32::MAX), "queues are numbered below it");
        let Some(place) = self.queues.get_mut(flow as usize) else { return false };
        *place = queue.map_or(0, |queue| queue + 1);
        true
    }

    /// The queue of a flow, or `None` for best effort.
    #[inline]
    pub fn lookup(&mut self, flow: u32) -> Option<u32> {
        let queue = self.queues.get(flow as usize).and_then(|queue| queue.checked_sub(1));
        self.unknown += u64::from(queue.is_none());
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_queue_drops_or_stalls_and_counts() {
        for (when_full, offered, counts) in
            [(MissOverflow::Drop, Offered::Dropped, (1, 0)), (MissOverflow::Stall, Offered::Stalled, (0, 1))]
        {
            let mut queue = MissQueue::new(2, when_full);
            assert_eq!([queue.offer(1), queue.offer(2), queue.offer(3)], [Offered::Queued, Offered::Queued, offered]);
            assert_eq!((queue.dropped, queue.stalls), counts);
            assert_eq!([queue.take(), queue.take(), queue.take()], [Some(1), Some(2), None]);
        }
    }

    #[test]
    fn unknown_flow_is_best_effort_and_counted() {
        let mut flows = FlowTable::new(4);
        assert!(flows.set(3, Some(0)) && flows.set(1, Some(7)) && !flows.set(4, Some(1)));
        assert_eq!([3, 1, 0, 4].map(|flow| flows.lookup(flow)), [Some(0), Some(7), None, None]);
        assert!(flows.set(1, None));
        assert_eq!((flows.lookup(1), flows.unknown), (None, 3));
    }
}
