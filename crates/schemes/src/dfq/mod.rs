//! Discretized fair queueing: reserved rates and delays at a cost that does not grow with the number of flows.
//!
//! Source: Pradhan and Chiueh, "Panama, a QoS-capable cluster-based IP router" (2002), section 5, and spec P-30 to P-46.
//!
//! The link works in cycles of length *T*. A cycle gives each flow with packets and credit one quantum, in ascending order of the flows, then best
//! effort its minimum. [`grants`] decides who gets how many bytes. This module sends whole packets: a packet leaves in the cycle that grants its last
//! byte. So a flow's packets leave at most `2 T` and the time of a packet on the link later than a fluid server of the flow's own would send them,
//! however many flows there are.
//!
//! The room that is left in a cycle goes to best effort and to flows with packets beyond their quanta, without a charge. Such a packet leaves only if all
//! bytes before it have left the link by the end of the cycle. So it delays the next cycle by its own time at most.
//!
//! Flows are the shares of the port, without levels. [`RunBitmap`], [`ThreadedBacklog`] and [`QuantumScheduler`] are for links between routers that send
//! the quanta themselves.

mod backlog;
mod edit;
mod flow_sets;
mod fluid;
mod grants;
mod runs;
mod scheduler;
mod scheme;
#[cfg(test)]
mod tests;
mod timers;

pub use backlog::{Quantum, ThreadedBacklog, Transfers};
pub use fluid::FluidServer;
pub use runs::{FlowRun, RunBitmap, RunBitmapError};
pub use scheduler::QuantumScheduler;

use crate::aqm::{Aqm, Evaluation, QueueContext};
use crate::options::{BuildError, Layer, Values, switch};
use crate::{Record, Scheme, ShareParameters, Wires, shape};
use alloc::boxed::Box;
use alloc::vec::Vec;
use grants::{BEST_EFFORT, Grant, QuantumAllocation, bytes_in};
use units::declare::{OptionDeclaration, Unit};
use units::{Bytes, Instant, Meter, Nanos, Parts, QueueId, Rate, ShareId};

/// The options.
pub(crate) const OPTIONS: &[OptionDeclaration] = &[
    OptionDeclaration {
        default: "0bit",
        least: 0,
        doc: "the bits per second that a cycle sends at most; `0bit` for the rate of the link",
        ..shape::RATE
    },
    OptionDeclaration {
        name: "cycle",
        unit: Unit::Time,
        default: "1ms",
        least: 50_000,
        most: 100_000_000,
        doc: "the length of a cycle: each share gets one quantum in it, and its packets may be late by two of them",
    },
    OptionDeclaration {
        name: "best_effort",
        unit: Unit::Part,
        default: "5%",
        least: 0,
        most: 1_000_000,
        doc: "the part of each cycle that shares cannot reserve: packets without a share get it, at least 64 bytes",
    },
    OptionDeclaration {
        name: "excess",
        unit: Unit::Choice(&["best_effort", "shares"]),
        default: "best_effort",
        least: 0,
        most: 1,
        doc: "the first to get the room left in a cycle: packets without a share, or shares with packets beyond their quanta, in turn",
    },
    switch("strict", "off", "if on, room that is left in a cycle stays empty: no share gets more than its quanta"),
    OptionDeclaration {
        name: "flows",
        unit: Unit::Count,
        default: "4096",
        least: 2,
        most: 1 << 17,
        doc: "the number of queues: one for each share, and one for packets without a share",
    },
];

/// The least bytes of best effort in a cycle, so that its packets leave even if nothing is set aside for it.
const LEAST_BEST_EFFORT: u32 = 64;

/// A packet of the usual length.
const PACKET: u64 = 1514;

/// With more flows than this they are prefetched, for so many packets at once.
const NEAR: usize = 256;
const ARRIVALS: usize = 8;

/// The parameters of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinkParameters {
    /// Zero for the rate of the link.
    rate: Rate,
    cycle: Nanos,
    best_effort: Parts,
    excess: ExcessOrder,
    is_strict: bool,
}

/// The order in which queues get the room left in a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExcessOrder {
    BestEffort,
    Shares,
}

/// The place of a share, or of best effort.
#[derive(Clone, Copy, Debug)]
struct Place {
    share: ShareId,
    /// It was removed, and is freed when it is empty.
    is_closing: bool,
    /// Packets of the share that arrived before it may wait as best effort: its own wait for those. Otherwise never.
    follows: Instant,
    /// Its packets and reservation; the parent, weight and priority are not used.
    parameters: ShareParameters,
}

/// See the [module](self).
// Large: the state of one link. Grants, flows and queue management are types of their own.
#[derive(Debug)]
pub(crate) struct DiscretizedFairQueueing {
    link: LinkParameters,
    allocation: QuantumAllocation,
    aqm: Aqm,
    places: Vec<Place>,
    unused: Vec<u32>,
    /// By share: its flow.
    flow_of: Vec<u32>,
    /// Flows whose packets wait for earlier ones in the queue of best effort.
    followers: Vec<u32>,
    /// The flows of removed shares that are not empty.
    closing: u32,
    /// The number of queues.
    count: u32,
    /// The bytes that wait.
    bytes: u64,
    /// The flow that has a grant, and may have packets that it covers.
    sending: Option<u32>,
    /// The end of the present cycle.
    ends: Instant,
    /// The time until which the link sends the packets that it has.
    busy: Meter,
    /// The present cycle began late, because the link had not finished the former one.
    is_stalled: bool,
    stalls: u64,
    /// Shares that were refused, and whether the operator was told.
    refused: u64,
    told: bool,
}

/// Builds the scheme from its options.
pub(crate) fn build<W: Wires + 'static>(
    options: &Values<'_>,
    manager: &Layer<'_>,
) -> Result<Box<dyn Scheme<W>>, BuildError> {
    Ok(Box::new(of(options, manager)?))
}

fn of(options: &Values<'_>, manager: &Layer<'_>) -> Result<DiscretizedFairQueueing, BuildError> {
    // A configuration is checked against the declarations before; other callers may pass any layers.
    if !manager.inside.is_empty() {
        return Err(BuildError::Unknown(alloc::string::ToString::to_string(manager.name)));
    }
    let flows = options.count("flows")?.max(1);
    let link = LinkParameters {
        rate: Rate::bits(options.value("rate")?),
        cycle: options.time("cycle")?,
        best_effort: options.part("best_effort")?,
        excess: options.choice("excess", &[ExcessOrder::BestEffort, ExcessOrder::Shares])?,
        is_strict: options.is_on("strict")?,
    };
    let aqm = Aqm::of(manager.name, &Values(manager.options), flows as usize)?;
    Ok(DiscretizedFairQueueing::new(link, aqm, flows))
}

#[inline(always)]
fn queue(flow: u32) -> QueueId {
    QueueId(flow)
}

impl DiscretizedFairQueueing {
    fn new(link: LinkParameters, aqm: Aqm, count: u32) -> DiscretizedFairQueueing {
        let best_effort = Place {
            share: ShareId(0),
            is_closing: false,
            follows: Instant::NEVER,
            parameters: ShareParameters::default(),
        };
        DiscretizedFairQueueing {
            allocation: QuantumAllocation::new(link.cycle),
            busy: Meter::new(link.rate, Bytes::ZERO),
            link,
            aqm,
            places: [best_effort].into(),
            unused: Vec::new(),
            flow_of: Vec::new(),
            followers: Vec::new(),
            closing: 0,
            count,
            bytes: 0,
            sending: None,
            ends: Instant::START,
            is_stalled: false,
            stalls: 0,
            refused: 0,
            told: false,
        }
    }

    /// The flow of a share's packets.
    #[inline(always)]
    fn flow_of(&self, share: ShareId) -> u32 {
        self.flow_of.get(share.index()).copied().unwrap_or(BEST_EFFORT)
    }

    /// Reads the queue of a flow anew, after a change other than an arrival or a departure.
    fn refresh<W: Wires>(&mut self, flow: u32, wires: &W) {
        let bytes = wires.size(queue(flow)).bytes.get();
        let mut granted = u64::from(self.allocation.granted(flow)).min(bytes);
        // All waiting bytes are granted, for packets that are gone. Without a backlog the flow would get no further grant.
        if granted == bytes && self.sending != Some(flow) {
            granted = 0;
        }
        self.allocation.set_granted(flow, granted as u32);
        let follows = self.places[flow as usize].follows != Instant::NEVER;
        self.allocation.set_backlog(flow, if follows { 0 } else { bytes - granted }, wires.now());
    }

    /// Finds the flows of the next arriving packets, and prefetches them. Returns their number.
    #[inline]
    fn prefetch_arrivals<W: Wires>(&self, wires: &mut W, flows: &mut [u32; ARRIVALS]) -> usize {
        let mut count = 0;
        while count < ARRIVALS
            && let Some(packet) = wires.peek_arriving()
        {
            flows[count] = packet.queue.0;
            count += 1;
        }
        // A short loop of its own: the look-ups miss the cache too, and the processor overlaps as many as it has instructions for in flight.
        for flow in &mut flows[..count] {
            *flow = self.flow_of(ShareId(*flow));
            wires.prefetch_queue(queue(*flow));
            self.allocation.prefetch(*flow, wires);
        }
        count
    }

    /// Enqueues, marks or refuses the arriving packet of a flow.
    #[inline(always)]
    fn arrive<W: Wires>(&mut self, wires: &mut W, flow: u32, packet: &Record) {
        let queue = queue(flow);
        let before = wires.size(queue);
        let backlog = Bytes::new(self.bytes);
        let context = QueueContext { wires: &mut *wires, queue, waiting: before, backlog };
        let after = self.aqm.arrive(flow as usize, context, packet);
        self.bytes = self.bytes + after.bytes.get() - before.bytes.get();
        if after == before {
            return;
        }
        if after.bytes > before.bytes && self.followers.is_empty() {
            let more = after.bytes.get() - before.bytes.get();
            self.allocation.set_backlog(flow, self.allocation.backlog(flow) + more, wires.now());
        } else {
            self.refresh(flow, wires);
        }
    }

    /// One evaluation of a flow with the management of its queue. `granted` bytes cover its first packet, or none do.
    #[inline(always)]
    fn send<W: Wires>(&mut self, flow: u32, wires: &mut W) -> Evaluation {
        let queue = queue(flow);
        let before = wires.size(queue);
        let context = QueueContext { wires: &mut *wires, queue, waiting: before, backlog: Bytes::new(self.bytes) };
        let evaluation = self.aqm.evaluate(flow as usize, context);
        match evaluation {
            Evaluation::Sent(length) => {
                self.busy.charge_at(Bytes::new(length.into()), wires.now());
                let granted = self.allocation.granted(flow);
                // Its bytes that were not granted are excess.
                if length > granted {
                    let excess = u64::from(length - granted);
                    let backlog = self.allocation.backlog(flow).saturating_sub(excess);
                    self.allocation.set_backlog(flow, backlog, wires.now());
                }
                self.allocation.set_granted(flow, granted.saturating_sub(length));
                self.bytes -= u64::from(length);
            }
            Evaluation::Dropped | Evaluation::Nothing => {
                let after = wires.size(queue);
                self.bytes -= before.bytes.get() - after.bytes.get();
                self.refresh(flow, wires);
            }
        }
        if self.closing > 0 && self.places[flow as usize].is_closing && wires.size(queue).packets == 0 {
            self.finish_closing(flow);
        }
        evaluation
    }

    /// The rate of the cycles.
    fn rate<W: Wires>(&self, wires: &W) -> Rate {
        if self.link.rate > Rate::ZERO { self.link.rate } else { wires.link_rate() }
    }

    /// True if the link has nearly finished the former cycle: it is behind by at most a cycle.
    #[inline(always)]
    fn is_due(&self, now: Instant) -> bool {
        now >= self.ends && self.busy.ready().since(now) <= self.link.cycle
    }

    /// True if a packet of excess leaves the link by the end of the cycle, apart from its own time.
    #[inline(always)]
    fn has_room(&self) -> bool {
        !self.link.is_strict && self.busy.ready() < self.ends
    }

    #[cold]
    fn stall(&mut self) {
        self.is_stalled = true;
        self.stalls += 1;
    }

    fn begin_cycle<W: Wires>(&mut self, wires: &W) {
        let (now, cycle, rate) = (wires.now(), self.link.cycle, self.rate(wires));
        if self.busy.rate() != rate {
            self.busy.reconfigure(&Meter::new(rate, Bytes::ZERO), now);
        }
        // Cycles follow each other without a gap. After a pause they begin anew. If many shares had a packet completed in one cycle, it took longer:
        // the cycles that the link missed meanwhile are made up for, or all would lose a part of their rates.
        let late = now.since(self.ends);
        let together = rate.time_for(Bytes::new(PACKET * self.places.len() as u64));
        let follows = late < cycle || self.is_stalled && late < cycle + together;
        let began = if follows { self.ends } else { now };
        self.ends = began + cycle;
        self.is_stalled = false;
        let room = bytes_in(rate, cycle);
        let part = (u128::from(room) * u128::from(self.link.best_effort.get()) / 1_000_000) as u64;
        let best_effort = u32::try_from(part).unwrap_or(u32::MAX).max(LEAST_BEST_EFFORT);
        self.allocation.begin_cycle(room, best_effort, began);
    }

    /// One evaluation: drops or sends at most one packet.
    #[inline(always)]
    fn evaluate<W: Wires>(&mut self, wires: &mut W) -> Evaluation {
        if self.bytes == 0 {
            self.sending = None;
            return Evaluation::Nothing;
        }
        if !self.followers.is_empty() {
            self.release_followers(wires);
        }
        let now = wires.now();
        loop {
            if let Some(flow) = self.sending {
                let granted = self.allocation.granted(flow);
                // No granted byte covers no packet: that saves a look at the queue.
                if granted > 0 && wires.head_length(queue(flow)).is_some_and(|length| length <= granted) {
                    match self.send(flow, wires) {
                        Evaluation::Nothing => {}
                        evaluation => return evaluation,
                    }
                }
                self.sending = None;
            }
            if self.allocation.is_in_cycle() {
                if now >= self.ends && !self.is_stalled {
                    self.stall();
                }
                if let Some(Grant { flow, bytes }) = self.allocation.next_grant() {
                    self.allocation.set_granted(flow, self.allocation.granted(flow) + bytes);
                    self.sending = Some(flow);
                    continue;
                }
            }
            if self.is_due(now) {
                self.begin_cycle(wires);
            } else {
                if now >= self.ends && !self.is_stalled {
                    self.stall();
                }
                return self.evaluate_excess(wires);
            }
        }
    }

    /// The flow that gets the room left in the cycle.
    #[inline]
    fn excess_flow(&mut self) -> Option<u32> {
        let best_effort = (self.allocation.backlog(BEST_EFFORT) > 0).then_some(BEST_EFFORT);
        match self.link.excess {
            ExcessOrder::BestEffort => best_effort.or_else(|| self.allocation.next_excess()),
            ExcessOrder::Shares => self.allocation.next_excess().or(best_effort),
        }
    }

    fn evaluate_excess<W: Wires>(&mut self, wires: &mut W) -> Evaluation {
        while self.has_room()
            && let Some(flow) = self.excess_flow()
        {
            match self.send(flow, wires) {
                // The queue is empty, and its backlog is zero now.
                Evaluation::Nothing => {}
                evaluation => return evaluation,
            }
        }
        Evaluation::Nothing
    }
}
