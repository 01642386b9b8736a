//! The queues of a path with reserved flows, one for each flow, in the order of a CPU scheduler (Panama, section 4.3: computation request queues).
//!
//! A flow gets the path's part of the processor in proportion to its rate, so packets beyond its rate delay no other flow. Its queue is bounded, so they fill
//! no other's either. Packets without a reserved flow share one queue, which is served when no flow has packets.

use crate::flow_rates::{FlowGrant, FlowRates};
use cpu::{CpuScheduler, PotentialTasks, ShareScheduler};
use packet::{Batch, Packet};
use std::sync::Arc;
use units::{Instant, Nanos, Share, ShareId, TaskId};

/// The queue of packets without a reserved flow, and no queue.
const OTHERS: u32 = 0;
const NONE: u32 = u32::MAX;
/// A rate in packets a second that counts as the whole: only the ratio of shares matters. The least share, 2^-20, is then that of 8 packets a second.
const WHOLE_RATE: u64 = 1 << 23;
/// The work of a packet for the order. All packets of a path cost about the same, so only their number matters.
const PACKET: Nanos = Nanos::micros(1);

/// A packet in the store, and the next one of its flow; or a free place, and the next one.
#[derive(Debug)]
struct Place {
    packet: Option<Packet>,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct FlowQueue {
    share: ShareId,
    grant: FlowGrant,
    first: u32,
    last: u32,
    length: u32,
}

/// See the [module](self).
pub(crate) struct FlowQueues {
    rates: Arc<FlowRates>,
    scheduler: Box<dyn CpuScheduler>,
    /// By the number of its task.
    queues: Vec<FlowQueue>,
    /// Numbers of queues that no flow has.
    unused: Vec<u32>,
    /// By share: the number of its queue.
    of_share: Vec<u32>,
    places: Vec<Place>,
    free: u32,
    length: usize,
    /// The most packets without a flow.
    capacity: usize,
    /// The arrival time of the packet that left last.
    served: Instant,
}

impl FlowQueues {
    /// No flows yet. `capacity` bounds the packets without a flow.
    pub fn new(rates: Arc<FlowRates>, capacity: usize) -> FlowQueues {
        let scheduler: Box<dyn CpuScheduler> = Box::new(ShareScheduler::<PotentialTasks>::new());
        let mut queues = FlowQueues {
            rates,
            scheduler,
            queues: Vec::new(),
            unused: Vec::new(),
            of_share: Vec::new(),
            places: Vec::new(),
            free: NONE,
            length: 0,
            capacity: capacity.max(1),
            served: Instant::START,
        };
        // Its share is zero: it is served in the time that is left.
        queues.add(ShareId::default(), FlowGrant::default());
        queues
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    /// The room for packets without a flow.
    pub fn room(&self) -> usize {
        self.capacity.saturating_sub(self.queues[OTHERS as usize].length as usize)
    }

    /// The arrival time of the packet that left last: of several queues, the one with the earliest has waited longest.
    pub fn served(&self) -> Instant {
        self.served
    }

    fn add(&mut self, share: ShareId, grant: FlowGrant) -> u32 {
        let queue = FlowQueue { share, grant, first: NONE, last: NONE, length: 0 };
        let number = match self.unused.pop() {
            Some(number) => {
                self.queues[number as usize] = queue;
                number
            }
            None => {
                self.queues.push(queue);
                self.queues.len() as u32 - 1
            }
        };
        self.scheduler.add(TaskId(number), part(grant));
        number
    }

    /// The queue of a share's packets.
    #[inline]
    fn queue_of(&mut self, share: ShareId) -> u32 {
        match self.of_share.get(share.index()) {
            Some(&number) if number != NONE => {
                if self.queues[number as usize].length == 0 {
                    self.refreshed(number)
                } else {
                    number
                }
            }
            _ => self.found(share),
        }
    }

    /// The queue of a share that has none yet.
    #[cold]
    fn found(&mut self, share: ShareId) -> u32 {
        let grant = self.rates.get(share);
        if grant.packets == 0 {
            return OTHERS;
        }
        let number = self.add(share, grant);
        if self.of_share.len() <= share.index() {
            self.of_share.resize(share.index() + 1, NONE);
        }
        self.of_share[share.index()] = number;
        number
    }

    /// An empty queue gets a packet: its reservation may have changed or ended meanwhile.
    #[inline]
    fn refreshed(&mut self, number: u32) -> u32 {
        let FlowQueue { share, grant, .. } = self.queues[number as usize];
        let present = self.rates.get(share);
        if present == grant {
            return number;
        }
        if present.packets == 0 {
            self.remove(number);
            return OTHERS;
        }
        self.queues[number as usize].grant = present;
        self.scheduler.share(TaskId(number), part(present));
        number
    }

    #[cold]
    fn remove(&mut self, number: u32) {
        self.scheduler.remove(TaskId(number));
        self.of_share[self.queues[number as usize].share.index()] = NONE;
        self.unused.push(number);
    }

    /// Adds a packet to the queue of its flow. Returns it if that is full.
    #[must_use = "a packet that did not fit comes back"]
    pub fn push(&mut self, packet: Packet) -> Option<Packet> {
        let number = self.queue_of(packet.meta().share());
        let queue = &self.queues[number as usize];
        let limit = if number == OTHERS { self.capacity } else { queue.grant.limit as usize };
        if queue.length as usize >= limit {
            return Some(packet);
        }
        let place = Place { packet: Some(packet), next: NONE };
        let at = match self.free {
            NONE => {
                self.places.push(place);
                self.places.len() as u32 - 1
            }
            at => {
                self.free = std::mem::replace(&mut self.places[at as usize], place).next;
                at
            }
        };
        let queue = &mut self.queues[number as usize];
        match queue.length {
            0 => queue.first = at,
            _ => self.places[queue.last as usize].next = at,
        }
        queue.last = at;
        queue.length += 1;
        if queue.length == 1 {
            self.scheduler.wake(TaskId(number), PACKET, Instant::START);
        }
        self.length += 1;
        None
    }

    /// Removes the next packet, of the flow that is furthest behind its rate.
    pub fn pop(&mut self) -> Option<Packet> {
        let task = self.scheduler.pick(Instant::START)?;
        let queue = &mut self.queues[task.index()];
        let place = &mut self.places[queue.first as usize];
        let packet = place.packet.take();
        let next = std::mem::replace(&mut place.next, self.free);
        self.free = std::mem::replace(&mut queue.first, next);
        queue.length -= 1;
        let more = queue.length > 0;
        self.length -= 1;
        self.scheduler.charge(task, PACKET, more.then_some(PACKET), Instant::START);
        if let Some(packet) = &packet {
            self.served = packet.meta().timestamp;
        }
        packet
    }

    /// Moves at most `most` packets into a batch.
    pub fn pop_into(&mut self, batch: &mut Batch, most: usize) {
        for _ in 0..most.min(batch.room()) {
            let Some(packet) = self.pop() else { return };
            batch.push(packet);
        }
    }
}

/// The share of a rate: only ratios matter. A flow without a rate is in the background.
fn part(grant: FlowGrant) -> Share {
    Share::of(grant.packets.into(), WHOLE_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::pool::Region;
    use packet::{Batch, Pool};

    struct Bench {
        rates: Arc<FlowRates>,
        queues: FlowQueues,
        pool: Pool,
        number: u64,
    }

    impl Bench {
        fn new(grants: &[(u32, u32, u32)]) -> Bench {
            let rates: Arc<FlowRates> = Arc::default();
            for &(share, packets, limit) in grants {
                rates.set(ShareId(share), FlowGrant { packets, limit });
            }
            let queues = FlowQueues::new(rates.clone(), 8);
            Bench { rates, queues, pool: Pool::new(Region::new(4096)), number: 0 }
        }

        /// Adds a packet of a share, with a number. False if it found no room.
        fn push(&mut self, share: u32) -> bool {
            let mut packet = self.pool.take().expect("there is a frame");
            packet.meta_mut().set_share_by_rule(ShareId(share));
            packet.meta_mut().timestamp = Instant::new(self.number);
            self.number += 1;
            match self.queues.push(packet) {
                None => true,
                Some(packet) => {
                    self.pool.give(packet);
                    false
                }
            }
        }

        /// Takes so many packets: how many of each of these shares. Those of a share are in order.
        fn pop(&mut self, packets: usize, shares: &[u32]) -> Vec<usize> {
            let mut batch = Batch::new();
            self.queues.pop_into(&mut batch, packets);
            let mut got = vec![0; shares.len()];
            let mut last = vec![None; shares.len()];
            for packet in batch.drain() {
                let share = packet.meta().share().0;
                let at = shares.iter().position(|known| *known == share).expect("only these were added");
                let number = packet.meta().timestamp.get();
                assert!(last[at].replace(number).is_none_or(|last| last < number), "share {share} is in order");
                got[at] += 1;
                self.pool.give(packet);
            }
            got
        }
    }

    #[test]
    fn flows_get_their_rates_whatever_the_others_send() {
        let mut bench = Bench::new(&[(5, 1000, 100), (6, 2000, 100), (7, 500, 400)]);
        let mut got = [0; 3];
        for _ in 0..1000 {
            // The third sends ten times as much as the others; all have more than the path can process.
            [5, 6, 6].into_iter().for_each(|share| _ = bench.push(share));
            (0..10).for_each(|_| _ = bench.push(7));
            let more = bench.pop(2, &[5, 6, 7]);
            got.iter_mut().zip(more).for_each(|(got, more)| *got += more);
        }
        let whole = 2000.0 / 3.5;
        for (got, rate) in got.iter().zip([1.0, 2.0, 0.5]) {
            assert!((*got as f64 - whole * rate).abs() <= 4.0, "{got:?}");
        }
        [5, 6, 7].into_iter().for_each(|share| while bench.push(share) {});
        assert_eq!(bench.queues.len(), 100 + 100 + 400, "each queue is full, and no larger than its limit");
        while let Some(packet) = bench.queues.pop() {
            bench.pool.give(packet);
        }
        assert_eq!(bench.pool.frames_in_use(), 0);
    }

    #[test]
    fn packets_without_a_flow_are_last_and_bounded() {
        let mut bench = Bench::new(&[(5, 1000, 100)]);
        (0..8).for_each(|_| assert!(bench.push(9)));
        assert!(!bench.push(0), "they share one queue of the path's capacity");
        assert_eq!(bench.queues.room(), 0);
        (0..3).for_each(|_| assert!(bench.push(5)));
        assert_eq!(bench.pop(4, &[5, 9]), [3, 1]);
        assert_eq!(bench.queues.room(), 1);
        assert_eq!(bench.pop(100, &[5, 9]), [0, 7]);
    }

    #[test]
    fn ended_and_changed_reservations_take_effect_with_the_next_packet_of_an_empty_queue() {
        let mut bench = Bench::new(&[(5, 1000, 2), (6, 1000, 100)]);
        assert!(bench.push(5) && bench.push(5) && !bench.push(5));
        bench.rates.set(ShareId(5), FlowGrant { packets: 3000, limit: 100 });
        assert!(!bench.push(5), "its queue is not empty yet");
        bench.pop(2, &[5]);
        (0..60).for_each(|_| assert!(bench.push(5) && bench.push(6)));
        assert_eq!(bench.pop(40, &[5, 6]), [30, 10]);
        bench.pop(100, &[5, 6]);
        bench.rates.set(ShareId(5), FlowGrant::default());
        assert!(bench.push(5) && bench.push(6));
        assert_eq!((bench.queues.room(), bench.queues.unused.len()), (7, 1), "it has no queue of its own any more");
        // Another flow gets its number.
        bench.rates.set(ShareId(8), FlowGrant { packets: 10, limit: 10 });
        assert!(bench.push(8) && bench.queues.unused.is_empty());
        assert_eq!(bench.pop(9, &[6, 8, 5]), [1, 1, 1]);
    }
}
