//! Switching paths at work: queues and functions between the classifier and one link.
//!
//! A path of the configuration has one instance for each port its packets may leave by, so that a slow port holds up
//! nobody else. The two built-in paths of the router's own protocols have, besides, one instance that receives and
//! belongs to no port.

use crate::aside::Side;
use crate::function::Function;
use link::Outgoing;
use packet::latency::Since;
use packet::segment::{Half, is_to_fragment};
use packet::{Packet, Queue};
use units::{Bytes, Instant, Meter, Nanos, PacketRate, PathId, PortId, Rate, TaskId};

units::counters! {
    /// What an instance has counted, in packets since it was made.
    ///
    /// The law: `entered + generated = left + dropped + consumed + diverted + waiting`.
    pub struct PathCounters {
        /// Packets that took the path.
        entered "entered_packets";
        /// Packets the path's functions made.
        generated "generated_packets";
        /// Packets given to a link.
        left "left_packets";
        /// Packets dropped on the path: a full queue, or a function's verdict.
        dropped "dropped_packets";
        /// Packets that ended here having done their work.
        consumed "consumed_packets";
        /// Packets handed to another path.
        diverted "diverted_packets";
    }
}

impl PathCounters {
    /// Packets that came and have not gone, by these counters alone.
    pub fn waiting(&self) -> u64 {
        (self.entered + self.generated).wrapping_sub(self.left + self.dropped + self.consumed + self.diverted)
    }

    /// What came and has not gone is dropped: a worker has failed. Where more has gone than came, the sums were wrong, and
    /// so much is counted as generated.
    pub(crate) fn settle(&mut self) {
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
    /// The class of its packets, as a scheme sees it.
    pub class: u8,
    /// The task that runs its functions.
    pub task: TaskId,
    pub input: Queue,
    pub output: Queue,
    /// A super-frame from the front of the input queue, of which some segments are on the output queue.
    pub half: Option<Half>,
    /// Whether something may be left to be done to packets of the input queue, besides the functions.
    pub offloads: bool,
    /// Whether hooks may want packets of the input queue where they leave.
    pub hooked: bool,
    pub functions: Vec<Box<dyn Function>>,
    pub counters: PathCounters,
    /// Whether what its functions do is little enough for an input task: forwarding and nothing else, and the configuration
    /// wants it done there.
    pub minimal: bool,
    /// Whether the input task that is running is about to work on all it has.
    pub inlined: bool,
    /// Whether its task knows that it has work, and room for it.
    pub ready: bool,
    /// A packet that takes longer than this is dropped.
    pub limit: Option<Nanos>,
    /// How full its input queue was.
    pub fill: Fill,
    /// Who runs its functions, where they are to give the processor back.
    pub side: Option<Box<Side>>,
    /// Since when the packets of its output queue are there.
    pub since: Since,
    /// The part of the output task that is reserved for its packets; none for best effort.
    pub allowance: Option<Allowance>,
}

/// How many packets of a reservation an output task sends ahead of other reservations: a token bucket of packets at the reserved
/// rate, as deep as the output queue. Packets beyond the reservation are sent in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    rate: PacketRate,
    queue: usize,
    /// A byte of it is a packet.
    meter: Meter,
}

impl Allowance {
    /// Of a path with this reservation and output queue; it keeps what `before` has saved where that is the same.
    pub fn of(rate: PacketRate, queue: usize, before: Option<Allowance>) -> Allowance {
        let same = before.filter(|before| (before.rate, before.queue) == (rate, queue));
        same.unwrap_or_else(|| {
            let bytes = Rate::bits(rate.get().saturating_mul(8));
            Allowance { rate, queue, meter: Meter::new(bytes, Bytes::new(queue as u64)) }
        })
    }

    /// How many packets may go ahead now.
    #[inline]
    pub fn packets(&mut self, now: Instant) -> usize {
        usize::try_from(self.meter.available(now).get()).unwrap_or(usize::MAX)
    }

    /// So many have gone.
    #[inline]
    pub fn charge(&mut self, packets: usize) {
        self.meter.charge(Bytes::new(packets as u64));
    }
}

/// How full a queue was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fill {
    /// The most packets.
    pub most: usize,
    /// Packets it had, summed over the times it was looked at.
    pub sum: u64,
    /// How often that was: each time its task began to work on it.
    pub looks: u64,
}

impl Instance {
    /// Packets in its queues, and between them.
    pub fn queued(&self) -> usize {
        self.input.len() + self.output.len() + usize::from(self.half.is_some()) + self.away()
    }

    /// Puts a packet on its input queue, from inside the router. Answers the packet where it is full.
    pub fn enter(&mut self, packet: Packet) -> Option<Packet> {
        self.counters.entered += 1;
        self.offloads |= packet.is_offloaded() | is_to_fragment(&packet);
        // Nobody has looked.
        self.hooked = true;
        let back = self.input.push(packet);
        self.counters.dropped += u64::from(back.is_some());
        back
    }

    /// Packets that somebody else works on.
    pub fn away(&self) -> usize {
        self.side.as_ref().map_or(0, |side| side.away())
    }

    /// What it has ready for its link.
    #[inline]
    pub fn outgoing(&mut self) -> Outgoing<'_> {
        Outgoing { path: self.path, queue: &mut self.output, since: &mut self.since }
    }

    /// So many packets of its output queue were given to the link.
    #[inline]
    pub fn left(&mut self, packets: usize) {
        self.counters.left += packets as u64;
        if let Some(allowance) = &mut self.allowance {
            allowance.charge(packets);
        }
    }

    /// Whether there is anything for the functions to do, or to cut.
    pub fn has_work(&self) -> bool {
        !self.input.is_empty() || self.half.is_some()
    }
}

impl Fill {
    /// The task begins to work on `packets` packets.
    #[inline]
    pub fn look(&mut self, packets: usize) {
        self.most = self.most.max(packets);
        self.sum += packets as u64;
        self.looks += 1;
    }
}
