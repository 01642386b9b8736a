//! The queues of a path with reserved flows, one for each flow, in the order of a CPU scheduler (Panama, section 4.3: computation request queues).
//!
//! A flow gets the path's part of the processor in proportion to its rate, so packets beyond its rate delay no other flow. Its queue is bounded, so they fill
//! no other's either. Packets without a reserved flow share one queue, which is served when no flow has packets.
//!
//! Packets leave for all functions at once, in a batch ([`FlowQueues::pop`]). Or each function of a packet is a run of its own ([`FlowQueues::start_function`]),
//! after which the scheduler selects again. Then the first packet of a queue is the only packet of its flow within the functions. It stays there until the
//! last one has returned. In Panama each function has an argument queue for each path. Here that queue is the flow with the number of its next function.

use crate::flow_rates::{FlowGrant, FlowRates};
use cpu::{CpuScheduler, Schedulers};
use packet::{Batch, Packet};
use std::sync::Arc;
use units::{Instant, Nanos, Share, ShareId, TaskId};

/// The queue of packets without a reserved flow, and no queue.
const OTHERS: u32 = 0;
const NONE: u32 = u32::MAX;
/// A weight in packets a second that counts as the whole: only the ratio of shares matters. The least share, 2^-20, is then that of 8 packets a second.
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
    /// The functions that have run on its first packet, and their time.
    functions: u16,
    spent: Nanos,
}

/// A function that is to run on the first packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FunctionRun {
    /// The flow, as a task of the scheduler.
    flow: TaskId,
    /// The index of the function.
    pub function: usize,
}

/// The scheduler of the flows of a path.
#[derive(Clone)]
pub(crate) struct FlowOrder {
    pub rates: Arc<FlowRates>,
    /// The scheduler's name in the configuration.
    pub scheduler: &'static str,
    pub schedulers: Schedulers,
}

/// See the [module](self).
pub(crate) struct FlowQueues {
    rates: Arc<FlowRates>,
    scheduler_name: &'static str,
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
    ///
    /// # Panics
    /// If the scheduler is not registered.
    pub fn new(order: &FlowOrder, capacity: usize) -> FlowQueues {
        let scheduler = order.schedulers.build(order.scheduler);
        let mut queues = FlowQueues {
            rates: order.rates.clone(),
            scheduler_name: order.scheduler,
            scheduler: scheduler.expect("a configuration is checked against the schedulers that are registered"),
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

    /// The name of the scheduler.
    pub fn scheduler(&self) -> &'static str {
        self.scheduler_name
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
        let queue = FlowQueue { share, grant, first: NONE, last: NONE, length: 0, functions: 0, spent: Nanos::ZERO };
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
        if grant.weight == 0 {
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
        if present.weight == 0 {
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

    /// Removes the first packet of a flow, which runs. Returns also whether the flow has more.
    #[inline]
    fn take_first(&mut self, flow: TaskId) -> (Option<Packet>, bool) {
        let queue = &mut self.queues[flow.index()];
        let place = &mut self.places[queue.first as usize];
        let packet = place.packet.take();
        let next = std::mem::replace(&mut place.next, self.free);
        self.free = std::mem::replace(&mut queue.first, next);
        (queue.functions, queue.spent) = (0, Nanos::ZERO);
        queue.length -= 1;
        let more = queue.length > 0;
        self.length -= 1;
        if let Some(packet) = &packet {
            self.served = packet.meta().timestamp;
        }
        (packet, more)
    }

    /// Removes the next packet, of the flow that is furthest behind its rate.
    pub fn pop(&mut self) -> Option<Packet> {
        let flow = self.scheduler.pick(Instant::START)?;
        let (packet, more) = self.take_first(flow);
        self.scheduler.charge(flow, PACKET, more.then_some(PACKET), Instant::START);
        packet
    }

    /// Selects the flow that is furthest behind its share. Its next function is to run on the packet. [`FlowQueues::end_function`] follows.
    pub fn start_function(&mut self) -> Option<(FunctionRun, &mut Packet)> {
        let flow = self.scheduler.pick(Instant::START)?;
        let queue = &self.queues[flow.index()];
        let packet = self.places[queue.first as usize].packet.as_mut()?;
        Some((FunctionRun { flow, function: queue.functions.into() }, packet))
    }

    /// A function has run for `used`. If it was the last, the packet leaves, with the time of all its functions.
    pub fn end_function(&mut self, run: FunctionRun, used: Nanos, is_last: bool) -> Option<(Packet, Nanos)> {
        let queue = &mut self.queues[run.flow.index()];
        self.rates.count(queue.share, used, is_last);
        queue.spent += used;
        queue.functions += 1;
        let spent = queue.spent;
        let (packet, more) = if is_last { self.take_first(run.flow) } else { (None, true) };
        // The next function is expected to need as much.
        self.scheduler.charge(run.flow, used, more.then_some(used), Instant::START);
        packet.map(|packet| (packet, spent))
    }

    /// Removes the packets for which `take` holds, without those that are within their functions. The others keep their order.
    pub fn extract(&mut self, mut take: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        let mut taken = Vec::new();
        for number in 0..self.queues.len() {
            let FlowQueue { first, functions, length, .. } = self.queues[number];
            if length == 0 {
                continue;
            }
            // A packet within its functions stays first.
            let (mut before, mut at) =
                if functions > 0 { (first, self.places[first as usize].next) } else { (NONE, first) };
            for _ in usize::from(functions > 0)..length as usize {
                let place = &mut self.places[at as usize];
                let next = place.next;
                if !place.packet.as_ref().is_some_and(&mut take) {
                    (before, at) = (at, next);
                    continue;
                }
                taken.extend(place.packet.take());
                place.next = std::mem::replace(&mut self.free, at);
                let queue = &mut self.queues[number];
                if before == NONE {
                    queue.first = next
                } else {
                    self.places[before as usize].next = next
                }
                if queue.last == at {
                    queue.last = before;
                }
                queue.length -= 1;
                self.length -= 1;
                at = next;
            }
            if self.queues[number].length == 0 {
                // A scheduler has no other way to make a waiting task idle.
                let flow = TaskId(number as u32);
                self.scheduler.remove(flow);
                self.scheduler.add(flow, part(self.queues[number].grant));
            }
        }
        taken
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
    Share::of(grant.weight.into(), WHOLE_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_rates::FlowUse;
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
            for &(share, weight, limit) in grants {
                rates.set(ShareId(share), FlowGrant { weight, limit });
            }
            let order = FlowOrder { rates: rates.clone(), scheduler: "spfq", schedulers: Schedulers::default() };
            let queues = FlowQueues::new(&order, 8);
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
        bench.rates.set(ShareId(5), FlowGrant { weight: 3000, limit: 100 });
        assert!(!bench.push(5), "its queue is not empty yet");
        bench.pop(2, &[5]);
        (0..60).for_each(|_| assert!(bench.push(5) && bench.push(6)));
        assert_eq!(bench.pop(40, &[5, 6]), [30, 10]);
        bench.pop(100, &[5, 6]);
        bench.rates.set(ShareId(5), FlowGrant::default());
        assert!(bench.push(5) && bench.push(6));
        assert_eq!((bench.queues.room(), bench.queues.unused.len()), (7, 1), "it has no queue of its own any more");
        // Another flow gets its number.
        bench.rates.set(ShareId(8), FlowGrant { weight: 10, limit: 10 });
        assert!(bench.push(8) && bench.queues.unused.is_empty());
        assert_eq!(bench.pop(9, &[6, 8, 5]), [1, 1, 1]);
    }

    /// Runs functions of so many packets, each function for the time of its packet's flow. Returns the times that the flows got.
    fn run_functions(bench: &mut Bench, runs: usize, functions: usize, time: impl Fn(u32) -> Nanos) -> [Nanos; 2] {
        let mut got = [Nanos::ZERO; 2];
        for _ in 0..runs {
            let (run, packet) = bench.queues.start_function().expect("both flows have packets");
            let share = packet.meta().share();
            let used = time(share.0);
            got[usize::from(share.0 == 6)] += used;
            if let Some((packet, spent)) = bench.queues.end_function(run, used, run.function + 1 == functions) {
                assert_eq!((packet.meta().share(), spent), (share, used * functions as u64));
                bench.pool.give(packet);
                assert!(bench.push(share.0), "its place is free");
            }
        }
        got
    }

    #[test]
    fn flows_get_processor_time_by_weight_although_their_packets_differ_in_cost() {
        let mut bench = Bench::new(&[(5, 1000, 4), (6, 2000, 4)]);
        (0..4).for_each(|_| assert!(bench.push(5) && bench.push(6)));
        // A function takes 9 us for a packet of the first flow and 1 us for one of the second.
        let got = run_functions(&mut bench, 10_000, 3, |share| Nanos::micros(if share == 5 { 9 } else { 1 }));
        assert!(got[1].get().abs_diff(2 * got[0].get()) <= 30_000, "{got:?}");
        let (first, second) = (bench.rates.used(ShareId(5)), bench.rates.used(ShareId(6)));
        assert_eq!([first.time, second.time], got);
        // At most one packet of each is within its functions.
        assert!(first.packets.abs_diff(first.time.get() / 27_000) <= 1, "{first:?}");
        assert!(second.packets.abs_diff(second.time.get() / 3000) <= 1, "{second:?}");
        bench.rates.set(ShareId(5), FlowGrant::default());
        assert_eq!(bench.rates.used(ShareId(5)), FlowUse::default(), "the next flow with this share begins anew");
    }

    #[test]
    fn at_most_one_packet_of_a_flow_is_within_its_functions_and_order_is_kept() {
        let mut bench = Bench::new(&[(5, 1000, 9), (6, 1000, 9)]);
        (0..9).for_each(|_| assert!(bench.push(5) && bench.push(6)));
        let (mut at, mut last) = ([0; 2], [None; 2]);
        for _ in 0..2 * 9 * 4 {
            let (run, packet) = bench.queues.start_function().expect("there are packets");
            let (flow, number) = (usize::from(packet.meta().share().0 == 6), packet.meta().timestamp);
            assert_eq!(run.function, at[flow], "its functions run in order, and on one packet to the end");
            assert_eq!(at[flow] > 0, last[flow] == Some(number), "the next packet waits until the last has left");
            assert!(last[flow] <= Some(number), "packets are in order");
            (at[flow], last[flow]) = ((run.function + 1) % 4, Some(number));
            if let Some((packet, _)) = bench.queues.end_function(run, PACKET, run.function == 3) {
                bench.pool.give(packet);
            }
        }
        assert!(bench.queues.start_function().is_none() && bench.queues.len() == 0);
    }

    #[test]
    fn extracted_packets_leave_the_others_in_order() {
        let mut bench = Bench::new(&[(5, 1000, 9), (6, 1000, 9)]);
        (0..6).for_each(|_| assert!(bench.push(5) && bench.push(6)));
        // The numbers of flow 5 are even. Its first packet is within its functions: it is not taken, although its number is a multiple of four.
        let (run, packet) = bench.queues.start_function().expect("there are packets");
        assert_eq!(packet.meta().share(), ShareId(5));
        assert!(bench.queues.end_function(run, PACKET, false).is_none());
        let taken =
            bench.queues.extract(|packet| packet.meta().timestamp.get() % 4 == 0 || packet.meta().share().0 == 6);
        let numbers: Vec<u64> = taken.iter().map(|packet| packet.meta().timestamp.get()).collect();
        assert_eq!(numbers, [4, 8, 1, 3, 5, 7, 9, 11]);
        taken.into_iter().for_each(|packet| bench.pool.give(packet));
        assert_eq!(bench.queues.len(), 4);
        let (run, _) = bench.queues.start_function().expect("flow 5 has packets");
        assert_eq!(run.function, 1, "the packet continues");
        let (packet, _) = bench.queues.end_function(run, PACKET, true).expect("it leaves");
        assert_eq!(packet.meta().timestamp.get(), 0);
        bench.pool.give(packet);
        // New packets go to the ends of the queues.
        assert!(bench.push(6) && bench.push(5));
        assert_eq!(bench.pop(9, &[5, 6]), [4, 1]);
        assert!(bench.queues.extract(|_| true).is_empty() && bench.pool.frames_in_use() == 0);
    }
}
