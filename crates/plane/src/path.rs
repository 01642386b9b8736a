//! Path instances: queues and functions between the classifier and one link.
//!
//! A path of the configuration has one instance for each port by which its packets may leave, so that a slow port delays no other. The two
//! built-in paths of the local protocols also have one instance each that receives and belongs to no port.

use crate::function::Function;
use crate::input_queue::InputQueue;
use crate::preempt::ThreadSlot;
use link::Outgoing;
use packet::latency::QueueEntryTimes;
use packet::segment::{PacketSplitter, is_to_fragment};
use packet::{Batch, Packet, Queue};
use units::{Bytes, Instant, Meter, Nanos, PacketRate, PathId, PortId, Rate, TaskId};

units::counters! {
    /// The counters of an instance, in packets since it was made.
    ///
    /// Invariant: `entered + generated = left + dropped + consumed + diverted + waiting`.
    pub struct PathCounters {
        /// Packets that took the path.
        entered "entered_packets";
        /// Packets that the path's functions generated.
        generated "generated_packets";
        /// Packets given to a link.
        left "left_packets";
        /// Packets dropped on the path: a full queue, or a function's verdict.
        dropped "dropped_packets";
        /// Packets that were consumed on the path.
        consumed "consumed_packets";
        /// Packets handed to another path.
        diverted "diverted_packets";
    }
}

impl PathCounters {
    /// Packets that are still on the path, by these counters alone.
    pub fn waiting(&self) -> u64 {
        // Wraps below zero if the counters are wrong: `drop_waiting` reads the difference as a signed number.
        (self.entered + self.generated).wrapping_sub(self.left + self.dropped + self.consumed + self.diverted)
    }

    /// Counts the packets on the path as dropped, because a worker has failed. If more packets have left than entered, the counters were wrong,
    /// and the difference is counted as generated.
    pub(crate) fn drop_waiting(&mut self) {
        let waiting = self.waiting() as i64;
        self.dropped += waiting.max(0) as u64;
        self.generated += waiting.min(0).unsigned_abs();
    }
}

/// A path at one port.
// Large: all that the forwarding task reads of a path at a port lies together.
pub(crate) struct Instance {
    pub path: PathId,
    pub port: Option<PortId>,
    /// The class of its packets for the queueing scheme.
    pub class: u8,
    /// The task that runs its functions.
    pub task: TaskId,
    pub input: InputQueue,
    /// True if each function of a packet is a run of its own: see [`crate::flow_queues`].
    pub interleaved: bool,
    pub output: Queue,
    /// A super-frame from the front of the input queue, some of whose segments are on the output queue.
    pub half: Option<PacketSplitter>,
    /// True if packets of the input queue may need segmentation, fragmentation or checksums behind the functions.
    pub offloads: bool,
    /// True if packets of the input queue may have to visit a packet hook at the output.
    pub hooked: bool,
    pub functions: Vec<Box<dyn Function>>,
    pub counters: PathCounters,
    /// True if an input task may run its functions: they only forward, and the configuration permits it.
    pub may_inline: bool,
    /// True if the running input task will process all its packets.
    pub inlined: bool,
    /// True if its task knows that it has work, and room for the results.
    pub ready: bool,
    /// The maximum time for a packet. Packets that exceed it are dropped.
    pub limit: Option<Nanos>,
    /// The fill level of its input queue.
    pub fill: QueueFill,
    /// The function thread, if its path is preemptible.
    pub function_thread: Option<Box<ThreadSlot>>,
    /// The arrival times of the packets on its output queue.
    pub arrivals: QueueEntryTimes,
    /// The part of the output task that is reserved for its packets. `None` for best effort.
    pub allowance: Option<Allowance>,
}

/// The number of packets of a reservation that an output task sends before other reservations. It is a token bucket of packets at the reserved
/// rate, as deep as the output queue. Packets beyond the reservation are sent in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    rate: PacketRate,
    queue: usize,
    /// One byte of the meter stands for one packet.
    meter: Meter,
}

impl Allowance {
    /// The allowance of a path with this reservation and output queue. It keeps the tokens of `before` if both are unchanged.
    pub fn of(rate: PacketRate, queue: usize, before: Option<Allowance>) -> Allowance {
        // A full bucket after each apply would let a reservation exceed its rate by frequent applies.
        let same = before.filter(|before| (before.rate, before.queue) == (rate, queue));
        same.unwrap_or_else(|| {
            // A rate counts bits and the meter bytes: eight bits for each packet.
            let bytes = Rate::bits(rate.get().saturating_mul(8));
            Allowance { rate, queue, meter: Meter::new(bytes, Bytes::new(queue as u64)) }
        })
    }

    /// Sets another rate from now on. The tokens stay.
    pub fn set_rate(&mut self, rate: PacketRate, now: Instant) {
        if self.rate != rate {
            let new = Allowance::of(rate, self.queue, None);
            self.rate = rate;
            self.meter.reconfigure(&new.meter, now);
        }
    }

    /// The number of packets that may be sent first now.
    #[inline]
    pub fn packets(&mut self, now: Instant) -> usize {
        usize::try_from(self.meter.available(now).get()).unwrap_or(usize::MAX)
    }

    /// Charges packets that were sent.
    #[inline]
    pub fn charge(&mut self, packets: usize) {
        self.meter.charge(Bytes::new(packets as u64));
    }
}

/// The fill level of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueFill {
    /// The maximum number of packets.
    pub most: usize,
    /// The number of packets, summed over all observations.
    pub sum: u64,
    /// The number of observations: one each time its task began to work on it.
    pub observations: u64,
}

impl Instance {
    /// Packets in its queues, and between them.
    pub fn queued(&self) -> usize {
        self.input.len() + self.output.len() + usize::from(self.half.is_some()) + self.packets_in_flight()
    }

    /// Puts a packet generated or rerouted inside the router on its input queue. Returns the packet if the queue is full.
    pub fn enter(&mut self, packet: Packet) -> Option<Packet> {
        self.counters.entered += 1;
        // Never cleared here: packets already queued may have offloads.
        self.offloads |= packet.is_offloaded() | is_to_fragment(&packet);
        // The packet was not examined for instructions.
        self.hooked = true;
        let back = self.input.push(packet);
        self.counters.dropped += u64::from(back.is_some());
        back
    }

    /// Puts the first `count` packets of a batch on its input queue, like [`Instance::enter`]. `refuse` gets those without room. Returns how many found room.
    pub fn enter_batch(&mut self, batch: &mut Batch, count: usize, refuse: impl FnMut(Packet)) -> usize {
        self.counters.entered += count as u64;
        let entering = &batch.as_slice()[..count];
        self.offloads |= entering.iter().any(|packet| packet.is_offloaded() | is_to_fragment(packet));
        self.hooked = true;
        let fitted = self.input.append(batch, count, refuse);
        self.counters.dropped += (count - fitted) as u64;
        fitted
    }

    /// Packets that a function thread works on.
    pub fn packets_in_flight(&self) -> usize {
        self.function_thread.as_ref().map_or(0, |side| side.packets_in_flight())
    }

    /// The packets ready for its link.
    #[inline]
    pub fn outgoing(&mut self) -> Outgoing<'_> {
        Outgoing { path: self.path, queue: &mut self.output, since: &mut self.arrivals }
    }

    /// Counts packets of its output queue that were given to the link.
    #[inline]
    pub fn record_sent(&mut self, packets: usize) {
        self.counters.left += packets as u64;
        if let Some(allowance) = &mut self.allowance {
            allowance.charge(packets);
        }
    }

    /// True if there is work for the functions or the segmentation.
    pub fn has_work(&self) -> bool {
        !self.input.is_empty() || self.half.is_some()
    }
}

impl QueueFill {
    /// The task begins to work on `packets` packets: records the fill level.
    #[inline]
    pub fn record(&mut self, packets: usize) {
        self.most = self.most.max(packets);
        self.sum += packets as u64;
        self.observations += 1;
    }
}
