//! An emulated link: the port behind it is real, and the link delays and loses packets as described in the configuration (adr/0037).
//!
//! The scheme is asked whenever the described link could accept a packet. A packet that the scheme releases is under way. It is held here for its
//! delay, and leaves by the real port when it would have arrived. The link counts it as sent, because it has left the scheme. The ledger of the
//! worker counts it as held until it leaves or is lost.
//!
//! A worker sometimes wakes up late. The described link does not: the transmission of a packet begins when both the link was ready and the packet had
//! arrived, even if that moment is in the past. The rate is therefore exact although single wakeups are late. A delay beyond [`MADE_UP`] cannot be
//! compensated. It is counted and reported.

use super::Link;
use super::refusals::drop_reason;
use crate::medium::{Medium, Trace, TransitResult};
use packet::accounting::Accounting;
use packet::{BATCH, Batch, DropReason, Packet};
use plan::LinkPlan;
use schemes::Next;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// The longest lateness that is compensated. Beyond it the link counts as idle.
const MADE_UP: Nanos = Nanos::millis(10);
/// The width of the bins of the lateness histogram, in nanoseconds.
const BIN: u64 = 20_000;
// 512 bins of 20 us reach 10.24 ms, just beyond `MADE_UP`.
const BINS: usize = 512;

/// Receives the events of every packet at an emulated link, to write a log.
pub trait LinkObserver: Send {
    /// The link and its trace begin.
    fn link_started(&mut self, at: Instant);
    /// A packet has arrived at the queueing scheme.
    fn packet_received(&mut self, at: Instant, bytes: u32);
    /// The last bit of a packet that arrived at `since` leaves at `at`, which may be in the future: the packet is under way. A duplicated packet is
    /// reported once. A lost packet is reported as dropped instead.
    fn packet_sent(&mut self, at: Instant, bytes: u32, since: Instant);
    /// A packet was dropped, by the scheme or on the link.
    fn packet_dropped(&mut self, at: Instant, bytes: u32, reason: DropReason);
    /// A packet that arrived at `since` has reached the far end, where it was due at `due`.
    fn packet_delivered(&mut self, at: Instant, due: Instant, bytes: u32, since: Instant);
    /// The link was idle for `time` although packets waited: the machine was too slow.
    fn capacity_missed(&mut self, time: Nanos);
}

/// The parts of an emulated link. All steps that can fail are done.
pub struct LinkSetup {
    /// The description of the link.
    pub plan: LinkPlan,
    /// Its trace, if it has one.
    pub trace: Option<Arc<Trace>>,
    /// The receiver of packet events.
    pub observer: Option<Box<dyn LinkObserver>>,
}

/// The accuracy of the emulation and its counters since it was created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EmulationStats {
    /// The description, as in a configuration.
    pub link: String,
    /// Packets that are under way.
    pub in_flight: u64,
    /// Packets that arrived at the far end.
    pub arrived: u64,
    /// Packets that were lost on the way.
    pub lost: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that arrived more than 300 us late: the machine was busy.
    pub late: u64,
    /// The 99th percentile of the lateness of arrivals.
    pub late_p99: Nanos,
    /// The greatest lateness of an arrival.
    pub late_most: Nanos,
    /// Packets that were passed to the link so late that it was idle although they waited.
    pub missed: u64,
    /// The total time of this.
    pub missed_time: Nanos,
    /// Opportunities of its trace that were used, and those for which no packet waited.
    pub opportunities: (u64, u64),
    /// True if its trace has ended although it must not.
    pub failed: bool,
}

/// An arrival that is later than this counts as late.
const LATE: Nanos = Nanos::micros(300);

/// A packet under way.
struct InFlight {
    due: Instant,
    number: u64,
    packet: Packet,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        self.number == other.number
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &InFlight) -> Ordering {
        // The number breaks ties, so that packets due at the same time stay in order.
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

/// An emulated link at work.
pub struct Emulation {
    medium: Medium,
    plan: LinkPlan,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    number: u64,
    /// No transmission begins before this time: until then the scheme held back its packets.
    idle: Instant,
    /// True if the scheme had packets and held them back when it was last asked.
    withheld: bool,
    /// When the link accepts the next packet; none if never.
    ready: Option<Instant>,
    batch: Batch,
    observer: Option<Box<dyn LinkObserver>>,
    counts: EmulationStats,
    lateness: Box<[u64; BINS]>,
}

impl Emulation {
    fn new(new: LinkSetup, now: Instant, name: &str) -> Emulation {
        let LinkSetup { plan, trace, observer: mut witness } = new;
        if let Some(witness) = &mut witness {
            witness.link_started(now);
        }
        let mut medium = Medium::new(&plan.medium, trace, now, plan.seed, name);
        let ready = medium.ready(now);
        Emulation {
            medium,
            in_flight: BinaryHeap::with_capacity((plan.hold as usize).min(4096)),
            plan,
            number: 0,
            idle: now,
            withheld: false,
            ready,
            batch: Batch::new(),
            observer: witness,
            counts: EmulationStats::default(),
            lateness: Box::new([0; BINS]),
        }
    }

    /// Changes to another description. Packets under way arrive as before. An unchanged trace continues.
    fn change(&mut self, other: Emulation, now: Instant) {
        let Emulation { medium, plan, observer: witness, .. } = other;
        if plan.medium.service == self.plan.medium.service {
            self.medium.change_impairment(medium);
        } else {
            self.medium.change(medium, now);
        }
        self.plan = plan;
        // Without a new observer the old one continues its log.
        self.observer = witness.or(self.observer.take());
        self.ready = self.medium.ready(self.idle.max(now));
    }

    /// When the link needs service: a packet arrives at the far end, or a waiting packet can start.
    fn due(&self, waits: bool) -> Instant {
        let arrives = self.in_flight.peek().map_or(Instant::NEVER, |first| first.0.due);
        if waits { arrives.min(self.ready.unwrap_or(Instant::NEVER)) } else { arrives }
    }

    fn is_ready(&self, now: Instant) -> bool {
        self.ready.is_some_and(|ready| ready <= now)
    }

    /// If the scheme held its packets back, the link counts as idle until now.
    fn resume(&mut self, now: Instant) {
        if self.withheld {
            (self.withheld, self.idle) = (false, now);
            self.ready = self.medium.ready(now);
        }
    }

    /// Starts a packet on the link. Returns when its last bit leaves, and when the packet arrives.
    fn transmit(&mut self, now: Instant, packet: &Packet, bytes: u32) -> (Instant, TransitResult) {
        // The link may have been ready in the past. Start the packet at that time, so that the worker's late wakeup does not lower the rate.
        let came = packet.meta().timestamp.max(self.idle);
        let ready = self.ready.unwrap_or(now);
        let begins = ready.max(came).min(now);
        // Later than `MADE_UP` the capacity is lost: start no earlier than that, and count the difference.
        let earliest = Instant::new(now.get().saturating_sub(MADE_UP.get()));
        if begins < earliest {
            let missed = earliest.since(begins);
            self.counts.missed += 1;
            self.counts.missed_time += missed;
            if let Some(witness) = &mut self.observer {
                witness.capacity_missed(missed);
            }
        }
        let begins = begins.max(earliest);
        let left = self.medium.send(begins, bytes);
        self.ready = self.medium.ready(begins);
        // The last bit never leaves, for instance because the trace has ended.
        let crossing = if left == Instant::NEVER { TransitResult::Lost } else { self.medium.cross(left) };
        (left, crossing)
    }

    /// Reports a packet and puts it under way.
    fn send_packet(&mut self, (left, due): (Instant, Instant), packet: Packet, bytes: u32) {
        if let Some(witness) = &mut self.observer {
            witness.packet_sent(left, bytes, packet.meta().timestamp);
        }
        self.enter(due, packet);
    }

    fn enter(&mut self, due: Instant, packet: Packet) {
        self.number += 1;
        self.in_flight.push(Reverse(InFlight { due, number: self.number, packet }));
    }

    /// The rate at `now`.
    pub(super) fn rate(&self, now: Instant) -> Rate {
        self.medium.rate(now)
    }

    /// Collects packets that have arrived by `time`, as many as the port has room for.
    fn gather(&mut self, time: Instant, now: Instant, room: usize) {
        for _ in 0..room.min(BATCH) {
            if self.in_flight.peek().is_none_or(|first| first.0.due > time) {
                return;
            }
            let Some(Reverse(InFlight { due, packet, .. })) = self.in_flight.pop() else { return };
            let late = now.since(due);
            self.counts.arrived += 1;
            self.counts.late += u64::from(late > LATE);
            self.counts.late_most = self.counts.late_most.max(late);
            self.lateness[((late.get() / BIN) as usize).min(BINS - 1)] += 1;
            if let Some(witness) = &mut self.observer {
                witness.packet_delivered(now, due, packet.len() as u32, packet.meta().timestamp);
            }
            self.batch.push(packet);
        }
    }

    fn report(&self) -> EmulationStats {
        // From the latest bin down until one percent of the packets is passed.
        let (mut behind, beyond) = (0, self.counts.arrived / 100);
        let mut bins = self.lateness.iter().enumerate().rev();
        let p99 = bins.find(|(_, packets)| {
            behind += **packets;
            behind > beyond
        });
        // The upper edge of the bin, so that the value is not too low.
        let late_p99 = p99.map_or(Nanos::ZERO, |(bin, _)| Nanos::new((bin as u64 + 1) * BIN));
        let passed = self.medium.opportunities();
        EmulationStats {
            link: self.plan.to_string(),
            in_flight: self.in_flight.len() as u64,
            late_p99: late_p99.min(self.counts.late_most),
            opportunities: (passed.used, passed.wasted),
            failed: self.medium.has_failed(),
            ..self.counts.clone()
        }
    }
}

impl Link {
    /// Emulates the described link from `now` on. Without a description the port's own link is used again, and packets under way leave at once.
    pub fn emulate(&mut self, new: Option<LinkSetup>, name: &str, fates: &mut Accounting) {
        let now = fates.now;
        match new {
            None => {
                // The port may lack room for all of them. Without the emulation nothing holds the others.
                self.release(Instant::NEVER, fates);
                self.drop_in_flight(DropReason::BufferFull, fates);
                self.emulation = None;
            }
            Some(new) => {
                let new = Emulation::new(new, now, name);
                match &mut self.emulation {
                    Some(old) => old.change(new, now),
                    none => *none = Some(Box::new(new)),
                }
            }
        }
        self.wires.now = now;
        // The rate first: a scheme has super-frames split on a slow link.
        self.refresh_rate();
        self.refresh_offloads(fates);
    }

    /// True if the link is emulated.
    pub fn is_emulated(&self) -> bool {
        self.emulation.is_some()
    }

    /// The number of packets under way on an emulated link, which the port has not received yet.
    pub fn in_flight(&self) -> usize {
        self.emulation.as_ref().map_or(0, |emulation| emulation.in_flight.len())
    }

    /// When an emulated link needs service next; [`Instant::NEVER`] if never.
    pub fn due(&self) -> Instant {
        let Some(emulation) = &self.emulation else { return Instant::NEVER };
        // A scheme that holds its packets back sets its own timer.
        let waits = self.backlog().packets > 0 && self.next() == Next::Ready;
        emulation.due(waits || !self.wires.out.is_empty())
    }

    /// The accuracy of the emulation and its counters.
    pub fn emulated(&self) -> Option<EmulationStats> {
        Some(self.emulation.as_ref()?.report())
    }

    /// The number of packets that an emulated link accepts now: the scheme is asked for one at a time.
    pub(super) fn emulated_room(&self) -> usize {
        let Some(emulation) = &self.emulation else { return 0 };
        usize::from(emulation.is_ready(self.wires.now))
    }

    /// [`Link::serve`] for an emulated link. Packets that have arrived leave by the port. While the link is ready, the scheme is asked for one packet
    /// after the other.
    #[cold]
    pub(super) fn serve_emulated(&mut self, fates: &mut Accounting) -> usize {
        self.wires.now = fates.now;
        self.refresh_rate();
        self.replace_failed();
        let mut sent = 0;
        loop {
            // First the packets that the scheme released in the last turn: they decide when the link is ready again.
            sent += self.depart(fates);
            if let Some(emulation) = &mut self.emulation {
                emulation.resume(fates.now);
            }
            // One batch a call, so that the worker gets back to its other tasks.
            self.wires.room = if sent < BATCH { self.emulated_room() } else { 0 };
            if self.wires.room == 0 {
                break;
            }
            self.call_with_fallback(|scheme, lines| scheme.serve(lines));
            if self.incoming.is_some() && self.wires.backlog.packets == 0 {
                self.finish_drain();
                self.call_with_fallback(|scheme, lines| scheme.serve(lines));
            }
            self.wires.record_departures();
            self.settle(fates);
            if self.wires.out.is_empty() {
                self.wires.counters.wasted += 1;
                let waits = self.wires.backlog.packets > 0;
                self.wires.counters.withheld += u64::from(waits);
                if let Some(emulation) = &mut self.emulation {
                    emulation.withheld = waits;
                }
                break;
            }
            fates.latencies.record_sent(self.wires.out.as_slice(), fates.now);
        }
        self.release(fates.now, fates);
        sent
    }

    /// Starts the packets that the scheme released. Returns their number.
    fn depart(&mut self, fates: &mut Accounting) -> usize {
        let Some(emulation) = &mut self.emulation else { return 0 };
        let sent = self.wires.out.len();
        for packet in self.wires.out.drain() {
            let bytes = packet.len() as u32;
            let (left, crossing) = emulation.transmit(fates.now, &packet, bytes);
            let reason = match crossing {
                TransitResult::Lost => DropReason::LinkLoss,
                // `hold` bounds the packets under way, and with them the memory.
                _ if emulation.in_flight.len() >= emulation.plan.hold as usize => DropReason::BufferFull,
                TransitResult::Once(due) => {
                    emulation.send_packet((left, due), packet, bytes);
                    self.wires.counters.sent += 1;
                    continue;
                }
                TransitResult::Twice(due, again) => {
                    // An empty pool costs only the duplicate, which the ledger counts as a generated packet.
                    if let Some(mut twin) = fates.pool.take_for(packet.len()) {
                        twin.copy(&packet);
                        fates.ledger.generate(1);
                        emulation.counts.duplicated += 1;
                        self.wires.counters.offered += 1;
                        self.wires.counters.sent += 1;
                        self.wires.counters.sent_bytes += u64::from(bytes);
                        emulation.enter(again, twin);
                    }
                    emulation.send_packet((left, due), packet, bytes);
                    self.wires.counters.sent += 1;
                    continue;
                }
            };
            emulation.counts.lost += 1;
            // Its bytes were counted as sent when it left the scheme: correct that, because it never leaves the port.
            self.wires.counters.sent_bytes -= u64::from(bytes);
            self.other_packets.record_drop(reason, 1);
            self.wires.dropped.push((packet, reason));
        }
        self.settle(fates);
        sent
    }

    /// Transmits packets that have arrived by `time` through the port.
    fn release(&mut self, time: Instant, fates: &mut Accounting) {
        let (id, relayed) = (self.id, self.relayed);
        let Link { emulation: Some(emulation), port, wires: lines, other_packets: others, .. } = self else { return };
        loop {
            emulation.gather(time, fates.now, port.room());
            let packets = emulation.batch.len();
            if packets == 0 {
                return;
            }
            fates.transmit(id, &mut **port, &mut emulation.batch, relayed);
            for packet in emulation.batch.drain() {
                let reason = drop_reason(&packet);
                // It was counted as sent when it left the scheme.
                lines.counters.sent -= 1;
                lines.counters.sent_bytes -= lines.length(&packet);
                lines.counters.dropped += 1;
                others.record_drop(reason, 1);
                fates.drop_at(id, packet, reason);
            }
            // Less than a batch: no other packet has arrived, or the port is full.
            if packets < BATCH {
                return;
            }
        }
    }

    /// Drops the packets under way, because the link is removed.
    pub(super) fn drop_in_flight(&mut self, reason: DropReason, fates: &mut Accounting) {
        let Some(emulation) = &mut self.emulation else { return };
        for Reverse(InFlight { packet, .. }) in emulation.in_flight.drain() {
            // The counters of the link have it as sent since it left the scheme, so only the ledger counts the drop.
            fates.drop_at(self.id, packet, reason);
        }
    }

    /// Discards packets under way without counting them, because the worker has failed.
    pub(super) fn discard_in_flight(&mut self) {
        if let Some(emulation) = &mut self.emulation {
            emulation.in_flight.clear();
            emulation.batch = Batch::new();
        }
    }

    /// Packets arrive. An idle link is ready from the arrival of the first one: capacity before that is lost.
    #[cold]
    pub(super) fn begin_service(&mut self) {
        let waits = self.backlog().packets > 0;
        let Some(emulation) = &mut self.emulation else { return };
        let packets = self.wires.offered.as_slice();
        if let Some(first) = packets.first().filter(|_| !waits) {
            emulation.ready = emulation.medium.ready(first.meta().timestamp.max(emulation.idle));
        }
        if let Some(witness) = &mut emulation.observer {
            packets.iter().for_each(|packet| witness.packet_received(packet.meta().timestamp, packet.len() as u32));
        }
    }

    /// Reports drops to the observer.
    #[cold]
    pub(super) fn observe_drops(&mut self, now: Instant) {
        let Some(witness) = self.emulation.as_mut().and_then(|emulation| emulation.observer.as_mut()) else { return };
        for (packet, reason) in &self.wires.dropped {
            witness.packet_dropped(now, packet.len() as u32, *reason);
        }
    }
}
