//! Many queues on one link: the queue of each packet, and the order of the queues.
//!
//! A *bin* is a queue with its [node](crate::aqm). A [`BinOrder`] determines which bin sends next. It knows bins by number, and packet lengths, but
//! neither packets nor wires.

mod drr;
mod drr_ring;
mod host_fairness;
mod las;
mod list;
mod longest_queue;
pub(crate) mod options;
mod priority;
mod virtual_time;
mod weights;
mod wf2q;
#[cfg(test)]
pub(crate) mod wf2q_counted;
mod wf2q_groups;
mod wfq;

pub(crate) use drr::DrrOrder;
pub(crate) use host_fairness::{HostIsolation, HostOrder};
pub(crate) use las::LasOrder;
pub(crate) use priority::PriorityOrder;
pub(crate) use weights::Weights;
pub(crate) use wf2q::ExactWf2q;
pub(crate) use wf2q_groups::GroupedWf2q;
pub(crate) use wfq::WfqOrder;

use crate::aqm::{Aqm, Evaluation, QueueContext};
use crate::stage::Stage;
use crate::wires::{is_short, is_slow, packet_bounds};
use crate::{Group, Next, Progress, Record, Scheme, Size, Tell, Wires};
use alloc::vec::Vec;
use core::any::Any;
use longest_queue::LongestQueue;
use units::{Bytes, Instant, QueueId, Rate};

/// The order of the bins. A bin is *waiting* from [`BinOrder::wake`] to [`BinOrder::empty`]. An order may also pick bins that have just become empty:
/// it is then notified that they are [empty](BinOrder::empty) once or twice more, and forgets them.
pub(crate) trait BinOrder: core::fmt::Debug + Send {
    /// True if it needs the length of the first packet of a bin; otherwise zero is passed.
    const NEEDS_LENGTH: bool = false;

    /// This packet has arrived at an empty bin of weight `weight`.
    fn wake(&mut self, bin: usize, weight: u32, packet: &Record);
    /// The bin whose first packet leaves next. It stays the same until that packet was [sent](BinOrder::sent), or the bin is
    /// [empty](BinOrder::empty).
    fn pick(&mut self) -> Option<usize>;
    /// A packet of `length` bytes left the bin, which is not empty. Its first packet now has `next` bytes.
    fn sent(&mut self, bin: usize, length: u32, next: u32);
    /// The first packet was dropped. The one behind it has `next` bytes.
    fn dropped(&mut self, bin: usize, next: u32) {
        let _ = (bin, next);
    }
    /// The bin is empty: a packet of `length` bytes left it, or its last one was dropped if that is zero.
    fn empty(&mut self, bin: usize, length: u32);
    /// All bins are empty.
    fn clear(&mut self);

    /// Takes over the parameters of another. Returns true if the order must be [cleared](BinOrder::clear) and all waiting bins woken again. None if
    /// the other is of another kind.
    fn tune(&mut self, other: &Self) -> Option<bool> {
        let _ = other;
        Some(false)
    }

    /// Called after a [pick](BinOrder::pick): names the bins that will be picked soon, as far as known, and prefetches its own state of them.
    fn look_ahead<W: Wires>(&mut self, soon: &BinPrefetch<'_, W>) {
        let _ = soon;
    }

    /// Prefetches its state of a bin that is used soon.
    fn fetch<W: Wires>(&self, bin: usize, wires: &W) {
        let _ = (bin, wires);
    }

    /// Like [`Scheme::ranks_classes`], if bins are classes.
    fn ranks(&self) -> bool {
        false
    }
}

/// Receives the bins that an order will pick soon.
pub(crate) struct BinPrefetch<'a, W> {
    wires: &'a W,
    aqm: &'a Aqm,
    first: u32,
}

impl<W: Wires> BinPrefetch<'_, W> {
    #[inline(always)]
    fn queue(&self, bin: usize) -> QueueId {
        QueueId(self.first + bin as u32)
    }

    /// Prefetches this bin.
    #[inline(always)]
    pub fn prefetch_bin(&self, bin: usize) {
        self.wires.prefetch_queue(self.queue(bin));
        self.aqm.fetch(bin, self.wires);
    }

    /// True if packets are read before they leave; otherwise [`BinPrefetch::prefetch_head`] is useless.
    #[inline(always)]
    pub fn looks(&self) -> bool {
        self.aqm.looks()
    }

    /// Prefetches the first packets, up to so many bytes, of a bin that was named before.
    #[inline(always)]
    pub fn prefetch_head(&self, bin: usize, bytes: u32) {
        self.wires.prefetch_head(self.queue(bin), bytes);
    }

    /// Prefetches state of the order.
    #[inline(always)]
    pub fn prefetch<T>(&self, kept: &T) {
        self.wires.prefetch(kept);
    }
}

/// The key that distinguishes packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinKey {
    /// The flow hash.
    Flow,
    /// The class. The highest class has the first bin, and classes above it share that bin.
    Class,
}

/// With more bins than this they are prefetched.
const NEAR: u32 = 256;
/// The number of arriving packets to look ahead.
const ARRIVALS: usize = 24;

/// The most packets dropped at once from the longest bin when all bins exceed the limit (RFC 8290, section 4.1).
const MOST_AT_ONCE: u32 = 64;

/// Bins with their management and their order: a scheme.
#[derive(Debug)]
pub(crate) struct BinScheme<O> {
    order: O,
    aqm: Aqm,
    by: BinKey,
    weights: Weights,
    /// The queue of the first bin; the others follow.
    first: u32,
    count: u32,
    /// The most packets of all bins together.
    limit: u32,
    /// The length of all bins together.
    packets: u32,
    bytes: u64,
    longest: LongestQueue,
}

impl<O: BinOrder> BinScheme<O> {
    /// `count` bins, which hold at most `limit` packets together.
    pub fn new(order: O, aqm: Aqm, by: BinKey, count: u32, limit: u32) -> BinScheme<O> {
        let (weights, count) = (Weights::EQUAL, count.max(1));
        let longest = LongestQueue::new(count as usize, limit);
        BinScheme { order, aqm, by, weights, first: 0, count, limit, packets: 0, bytes: 0, longest }
    }

    /// Sets the weights of classes.
    pub fn with_weights(self, weights: Weights) -> BinScheme<O> {
        BinScheme { weights, ..self }
    }

    /// Unmanaged bins for a test. With `searches` all bins are scanned for the longest.
    #[cfg(test)]
    pub fn unmanaged(order: O, bins: usize, limit: u32, searches: bool) -> BinScheme<O> {
        let unbounded = [("limit", 0), ("bytes", 0), ("drop", 0), ("unbounded", 1)];
        let aqm = Aqm::of("fifo", &crate::options::Values(&unbounded), bins).expect("it is declared");
        let mut bins = BinScheme::new(order, aqm, BinKey::Flow, bins as u32, limit);
        if searches {
            bins.longest = LongestQueue::scanning(bins.count as usize);
        }
        bins
    }

    #[inline(always)]
    fn queue(&self, bin: usize) -> QueueId {
        QueueId(self.first + bin as u32)
    }

    /// The length of the first packet of a bin, if the order needs it.
    #[inline(always)]
    fn head_length<W: Wires>(&self, wires: &W, bin: usize) -> u32 {
        if O::NEEDS_LENGTH { wires.head_length(self.queue(bin)).unwrap_or(0) } else { 0 }
    }

    #[inline(always)]
    fn bin(&self, packet: &Record) -> usize {
        let count = self.count;
        let place = match self.by {
            // The upper bits of a product distribute as evenly as a remainder, without a division.
            BinKey::Flow => ((u64::from(packet.flow_hash) * u64::from(count)) >> 32) as u32,
            BinKey::Class => count - 1 - u32::from(packet.class).min(count - 1),
        };
        place as usize
    }

    /// Updates the totals after a change of a bin.
    #[inline(always)]
    fn account(&mut self, before: Size, after: Size) {
        // Add first: the totals are unsigned, and the bin may have shrunk.
        self.packets = self.packets + after.packets - before.packets;
        self.bytes = self.bytes + after.bytes.get() - before.bytes.get();
    }

    /// Counts a packet that left a bin of length `before`. Returns the number of packets left in the bin.
    #[inline(always)]
    fn count_departure<W: Wires>(&mut self, wires: &W, queue: QueueId, before: Size) -> u32 {
        // With one packet before, the bin is empty now: save the read of its size.
        let left = if before.packets > 1 { wires.size(queue).packets } else { 0 };
        self.packets -= before.packets - left;
        left
    }

    /// The bin became empty.
    #[inline(always)]
    fn set_empty(&mut self, bin: usize, length: u32) {
        self.longest.set_empty(bin);
        self.order.empty(bin, length);
    }

    /// Updates the heap of the longest bins; only near the limit.
    #[inline(always)]
    fn update_longest<W: Wires>(&mut self, wires: &W, bin: usize) {
        // The common case is far from the limit and costs one comparison.
        if self.longest.is_near(self.packets) {
            let first = self.first;
            let bytes = |bin: usize| wires.size(QueueId(first + bin as u32)).bytes.get();
            self.longest.update_length(bin, self.packets, bytes);
        }
    }

    /// Prefetches for the packet that arrives [`ARRIVALS`] packets later.
    #[inline]
    fn prefetch_arrivals<W: Wires>(&self, wires: &mut W) {
        if let Some(packet) = wires.peek_arriving() {
            let bin = self.bin(&packet);
            wires.prefetch_queue(self.queue(bin));
            self.order.fetch(bin, wires);
        }
    }

    #[inline(always)]
    fn enqueue<W: Wires>(&mut self, wires: &mut W, packet: &Record) {
        let bin = self.bin(packet);
        let queue = self.queue(bin);
        let (before, backlog) = (wires.size(queue), Bytes::new(self.bytes));
        let after = self.aqm.arrive(bin, QueueContext { wires: &mut *wires, queue, waiting: before, backlog }, packet);
        self.account(before, after);
        match (before.packets, after.packets) {
            (0, 0) => {}
            (0, _) => {
                self.longest.set_waiting(bin);
                self.order.wake(bin, self.weights.of(packet.class), packet);
            }
            // The management has dropped all packets of the bin, and this one was not enqueued.
            (_, 0) => self.set_empty(bin, 0),
            _ => {}
        }
        self.update_longest(wires, bin);
        // A super-frame may count as more packets than one call drops.
        while self.packets > self.limit && self.drop_from_longest(wires) {}
    }

    /// Drops packets at the front of the longest bin: half of them, but at most [`MOST_AT_ONCE`]. Returns true if any was dropped.
    #[cold]
    fn drop_from_longest<W: Wires>(&mut self, wires: &mut W) -> bool {
        let first = self.first;
        let bytes = |bin: usize| wires.size(QueueId(first + bin as u32)).bytes.get();
        let Some(longest) = self.longest.first(bytes) else { return false };
        let queue = self.queue(longest);
        let before = wires.size(queue);
        let (half, mut after) = (before.packets.div_ceil(2).min(MOST_AT_ONCE), before);
        // By the number of packets: one drop of a super-frame removes several.
        while before.packets - after.packets < half && wires.drop_front(queue).is_some() {
            after = wires.size(queue);
        }
        self.account(before, after);
        match after.packets {
            0 => {
                // The state of the node, such as CoDel's `first_above`, belongs to the dropped packets.
                self.aqm.emptied(longest);
                self.set_empty(longest, 0);
            }
            _ => self.order.dropped(longest, self.head_length(wires, longest)),
        }
        self.update_longest(wires, longest);
        after != before
    }

    #[inline(always)]
    fn evaluate_next<W: Wires>(&mut self, wires: &mut W) -> Evaluation {
        // An empty bin is picked at most twice: then the order forgets it.
        while let Some(bin) = self.order.pick() {
            let (queue, backlog) = (self.queue(bin), Bytes::new(self.bytes));
            let before = wires.size(queue);
            if before.packets == 0 {
                self.order.empty(bin, 0);
                continue;
            }
            // Before the evaluation, so that the memory accesses overlap with it.
            if self.count > NEAR {
                self.order.look_ahead(&BinPrefetch { wires: &*wires, aqm: &self.aqm, first: self.first });
            }
            let turn = self.aqm.evaluate(bin, QueueContext { wires: &mut *wires, queue, waiting: before, backlog });
            match turn {
                Evaluation::Sent(length) => {
                    let left = self.count_departure(wires, queue, before);
                    self.bytes -= u64::from(length);
                    if left > 0 {
                        self.order.sent(bin, length, self.head_length(wires, bin));
                    } else {
                        self.set_empty(bin, length);
                    }
                    self.update_longest(wires, bin);
                }
                Evaluation::Dropped => {
                    let left = self.count_departure(wires, queue, before);
                    // Unlike a departure, a drop reports no length.
                    self.bytes = self.bytes + wires.size(queue).bytes.get() - before.bytes.get();
                    if left > 0 {
                        self.order.dropped(bin, self.head_length(wires, bin));
                    } else {
                        self.set_empty(bin, 0);
                    }
                    self.update_longest(wires, bin);
                }
                Evaluation::Nothing => {}
            }
            return turn;
        }
        Evaluation::Nothing
    }
}

impl<W: Wires, O: BinOrder + 'static> Scheme<W> for BinScheme<O> {
    #[inline]
    fn arrival(&mut self, wires: &mut W) {
        let far = self.count > NEAR;
        if far {
            // Fills the window. Each packet below then extends it by one.
            (0..ARRIVALS).for_each(|_| self.prefetch_arrivals(wires));
        }
        while let Some(packet) = wires.arriving() {
            if far {
                self.prefetch_arrivals(wires);
            }
            self.enqueue(wires, &packet);
        }
    }

    #[inline]
    fn link_ready(&mut self, wires: &mut W) -> Progress {
        self.evaluate(wires).progress()
    }

    fn next(&self, _: &W) -> Next {
        if self.packets == 0 { Next::Idle } else { Next::Ready }
    }

    fn splits_super_frames(&self, link: Rate) -> bool {
        is_slow(link) || is_short(packet_bounds(self.limit)) || self.aqm.splits_super_frames()
    }

    fn wants_flow_hash(&self) -> bool {
        self.by == BinKey::Flow || self.aqm.wants_flow_hash()
    }

    fn passes_when_idle(&self) -> bool {
        self.aqm.passes_when_idle()
    }

    fn queues(&self) -> u32 {
        self.count
    }

    fn holds_at_most(&self) -> u32 {
        // The arriving packet is enqueued before others are dropped for it.
        self.limit.saturating_add(1)
    }

    fn groups(&self) -> Vec<Group> {
        match self.by {
            BinKey::Flow => [Group::new("flows", self.count).of_flows()].into(),
            BinKey::Class => (0..self.count).rev().map(|class| Group::new(format_args!("class {class}"), 1)).collect(),
        }
    }

    fn queue_of(&self, packet: &Record) -> Option<QueueId> {
        Some(self.queue(self.bin(packet)))
    }

    fn state(&self, queue: QueueId, now: Instant, waiting: Size, tell: &mut Tell<'_>) {
        if let Some(bin) = queue.0.checked_sub(self.first).filter(|bin| *bin < self.count) {
            self.aqm.state(bin as usize, now, waiting, tell);
        }
    }

    fn ranks_classes(&self) -> bool {
        self.order.ranks()
    }

    fn tune(&mut self, other: &dyn Any, wires: &W) -> bool {
        let Some(other) = other.downcast_ref::<Self>() else { return false };
        let like = (self.count, self.by) == (other.count, other.by);
        let first = self.first;
        if !like || !self.aqm.tune(&other.aqm, |bin| wires.size(QueueId(first + bin as u32))) {
            return false;
        }
        // If the order refuses, the node has the new parameters already. `Scheme::tune` permits that.
        let Some(changed) = self.order.tune(&other.order) else { return false };
        let weighs = core::mem::replace(&mut self.weights, other.weights) != other.weights;
        // The next arrival drops packets until a lower limit holds.
        self.limit = other.limit;
        self.longest.set_limit(other.limit);
        // The order restarts from the present queues; leads and credits are lost.
        if changed || weighs {
            self.recount(wires);
        }
        true
    }

    fn tunable(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn serve(&mut self, wires: &mut W) {
        // The evaluation is inlined into this loop: it is most of the cost of a packet.
        while wires.link_ready() && self.evaluate_next(wires) != Evaluation::Nothing {}
    }

    fn recount(&mut self, wires: &W) {
        self.order.clear();
        self.longest.clear();
        (self.packets, self.bytes) = (0, 0);
        for bin in 0..self.count as usize {
            let size = wires.size(self.queue(bin));
            self.packets += size.packets;
            self.bytes += size.bytes.get();
            match wires.head(self.queue(bin)) {
                Some(head) => {
                    self.longest.set_waiting(bin);
                    // A waiting packet's record has no host hashes. Until the bin is empty, host isolation counts it for bucket zero.
                    self.order.wake(bin, self.weights.of(head.class), &head);
                }
                // The state of an empty queue must not refuse its next packet.
                None => self.aqm.emptied(bin),
            }
        }
    }
}

impl<W: Wires, O: BinOrder + 'static> Stage<W> for BinScheme<O> {
    fn begin_at(&mut self, first: u32) {
        self.first = first;
    }

    fn reset(&mut self) {
        self.order.clear();
        self.longest.clear();
        self.aqm.reset();
        (self.packets, self.bytes) = (0, 0);
    }

    #[inline]
    fn fetch(&self, wires: &W) {
        // The parts lie on different cache lines. Only their addresses are computed here.
        wires.prefetch(&self.order);
        wires.prefetch(&self.aqm);
        wires.prefetch(&self.longest);
        wires.prefetch(&self.limit);
        wires.prefetch(&self.bytes);
    }

    #[inline]
    fn fetch_arrival(&self, wires: &W, packet: &Record) {
        let bin = self.bin(packet);
        wires.prefetch_queue(self.queue(bin));
        self.order.fetch(bin, wires);
        self.aqm.fetch(bin, wires);
    }

    #[inline(always)]
    fn arrive(&mut self, wires: &mut W, packet: &Record) {
        self.enqueue(wires, packet);
    }

    #[inline(never)]
    fn evaluate(&mut self, wires: &mut W) -> Evaluation {
        self.evaluate_next(wires)
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod fairness;
