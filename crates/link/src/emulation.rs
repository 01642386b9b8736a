//! A link that is emulated: the port behind it is real, and what it carries it carries as a description says
//! (adr/0037).
//!
//! The scheme is asked when the described link would take a packet. What it lets go is then under way, held here for as long as it
//! would have been, and leaves by the real port when it would have arrived. It has left the scheme, so the link's counters
//! have it as sent; to the worker's ledger it is held until it leaves or is lost.
//!
//! A worker comes late now and then, by as much as the machine takes to wake it. The described link does not: a packet begins
//! when the link was ready for it and it had come, also where that has passed when the worker looks. So the rate is kept
//! though every single wake-up is late. What cannot be made up for is counted, and told.

use super::Link;
use super::refused::why;
use crate::medium::{Crossing, Medium, Trace};
use packet::accounting::Accounting;
use packet::{BATCH, Batch, DropReason, Packet};
use plan::LinkPlan;
use schemes::Next;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use units::{Instant, Nanos, Rate};

/// The most that is made up for: what a worker was late beyond it the link was idle.
const MADE_UP: Nanos = Nanos::millis(10);
/// Widths of the bins of lateness: so many microseconds each.
const BIN: u64 = 20_000;
const BINS: usize = 512;

/// Hears of every packet at an emulated link: a log of it.
pub trait LinkWitness: Send {
    /// The link begins, and its trace with it.
    fn began(&mut self, at: Instant);
    /// A packet has come to the queueing scheme.
    fn came(&mut self, at: Instant, bytes: u32);
    /// The last bit of a packet that came at `since` leaves at `at`, which may be to come: it is under way. One that comes twice has
    /// left once. One that is lost has not: it was dropped.
    fn left(&mut self, at: Instant, bytes: u32, since: Instant);
    /// A packet was dropped, by the scheme or on the link.
    fn dropped(&mut self, at: Instant, bytes: u32, reason: DropReason);
    /// A packet that came at `since` has arrived at the far end, where it was to arrive at `due`.
    fn arrived(&mut self, at: Instant, due: Instant, bytes: u32, since: Instant);
    /// The link was idle for so long though packets waited: the machine was too slow.
    fn missed(&mut self, time: Nanos);
}

/// What an emulated link is made of: everything that can fail was done.
pub struct NewLink {
    /// What it is like.
    pub plan: LinkPlan,
    /// Its trace, where it has one.
    pub trace: Option<Arc<Trace>>,
    /// Who hears of its packets.
    pub witness: Option<Box<dyn LinkWitness>>,
}

/// How well a link was emulated, in packets since it was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Emulated {
    /// What it is like, as configurations say it.
    pub link: String,
    /// Packets that are under way.
    pub under_way: u64,
    /// Packets that arrived at the far end.
    pub arrived: u64,
    /// Packets that were lost on the way.
    pub lost: u64,
    /// Packets that came twice.
    pub doubled: u64,
    /// Packets that arrived more than 300 us late: the machine was busy.
    pub late: u64,
    /// How late 99 of 100 packets arrived at most.
    pub late_p99: Nanos,
    /// The latest.
    pub late_most: Nanos,
    /// Packets that the link was not given in time, so that it was idle though they waited.
    pub missed: u64,
    /// How long that was.
    pub missed_time: Nanos,
    /// Opportunities of its trace that were used, and that found nothing to send.
    pub opportunities: (u64, u64),
    /// Its trace has ended, and had to go on.
    pub failed: bool,
}

/// What counts as late.
const LATE: Nanos = Nanos::micros(300);

/// A packet under way.
struct UnderWay {
    due: Instant,
    number: u64,
    packet: Packet,
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &UnderWay) -> bool {
        self.number == other.number
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &UnderWay) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
    fn cmp(&self, other: &UnderWay) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

/// An emulated link at work.
pub struct Emulation {
    medium: Medium,
    plan: LinkPlan,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    number: u64,
    /// No packet begins before: until then the scheme had something and did not let it go.
    idle: Instant,
    /// That is how it was when it was last asked.
    withheld: bool,
    /// From when on it takes the next; none where it never does.
    ready: Option<Instant>,
    batch: Batch,
    witness: Option<Box<dyn LinkWitness>>,
    counts: Emulated,
    lateness: Box<[u64; BINS]>,
}

impl Emulation {
    fn new(new: NewLink, now: Instant, name: &str) -> Emulation {
        let NewLink { plan, trace, mut witness } = new;
        if let Some(witness) = &mut witness {
            witness.began(now);
        }
        let mut medium = Medium::new(&plan.medium, trace, now, plan.seed, name);
        let ready = medium.ready(now);
        Emulation {
            medium,
            under_way: BinaryHeap::with_capacity((plan.hold as usize).min(4096)),
            plan,
            number: 0,
            idle: now,
            withheld: false,
            ready,
            batch: Batch::new(),
            witness,
            counts: Emulated::default(),
            lateness: Box::new([0; BINS]),
        }
    }

    /// Goes on as another; what is under way arrives as it would have. A trace that stays goes on where it was.
    fn change(&mut self, other: Emulation, now: Instant) {
        let Emulation { medium, plan, witness, .. } = other;
        if plan.medium.service == self.plan.medium.service {
            self.medium.reroute(medium);
        } else {
            self.medium.change(medium, now);
        }
        self.plan = plan;
        self.witness = witness.or(self.witness.take());
        self.ready = self.medium.ready(self.idle.max(now));
    }

    /// When it has to be looked at again: something arrives, or it could take what waits.
    fn due(&self, waits: bool) -> Instant {
        let arrives = self.under_way.peek().map_or(Instant::FAR, |first| first.0.due);
        if waits { arrives.min(self.ready.unwrap_or(Instant::FAR)) } else { arrives }
    }

    fn is_ready(&self, now: Instant) -> bool {
        self.ready.is_some_and(|ready| ready <= now)
    }

    /// Where the scheme has held back what it had, the link was idle until it is asked again.
    fn resume(&mut self, now: Instant) {
        if self.withheld {
            (self.withheld, self.idle) = (false, now);
            self.ready = self.medium.ready(now);
        }
    }

    /// A packet goes onto the link. Answers when its last bit has left, and when it arrives.
    fn take(&mut self, now: Instant, packet: &Packet, bytes: u32) -> (Instant, Crossing) {
        let came = packet.meta().timestamp.max(self.idle);
        let ready = self.ready.unwrap_or(now);
        let begins = ready.max(came).min(now);
        let earliest = Instant::new(now.get().saturating_sub(MADE_UP.get()));
        if begins < earliest {
            let missed = earliest.since(begins);
            self.counts.missed += 1;
            self.counts.missed_time += missed;
            if let Some(witness) = &mut self.witness {
                witness.missed(missed);
            }
        }
        let begins = begins.max(earliest);
        let left = self.medium.send(begins, bytes);
        self.ready = self.medium.ready(begins);
        let crossing = if left == Instant::FAR { Crossing::Lost } else { self.medium.cross(left) };
        (left, crossing)
    }

    /// A packet that has left is under way, and told of.
    fn go(&mut self, (left, due): (Instant, Instant), packet: Packet, bytes: u32) {
        if let Some(witness) = &mut self.witness {
            witness.left(left, bytes, packet.meta().timestamp);
        }
        self.enter(due, packet);
    }

    fn enter(&mut self, due: Instant, packet: Packet) {
        self.number += 1;
        self.under_way.push(Reverse(UnderWay { due, number: self.number, packet }));
    }

    /// What it carries at `now`.
    pub(super) fn rate(&self, now: Instant) -> Rate {
        self.medium.rate(now)
    }

    /// What has arrived until `time`, as much of it as the port takes now.
    fn gather(&mut self, time: Instant, now: Instant, room: usize) {
        for _ in 0..room.min(BATCH) {
            if self.under_way.peek().is_none_or(|first| first.0.due > time) {
                return;
            }
            let Some(Reverse(UnderWay { due, packet, .. })) = self.under_way.pop() else { return };
            let late = now.since(due);
            self.counts.arrived += 1;
            self.counts.late += u64::from(late > LATE);
            self.counts.late_most = self.counts.late_most.max(late);
            self.lateness[((late.get() / BIN) as usize).min(BINS - 1)] += 1;
            if let Some(witness) = &mut self.witness {
                witness.arrived(now, due, packet.len() as u32, packet.meta().timestamp);
            }
            self.batch.push(packet);
        }
    }

    fn report(&self) -> Emulated {
        let (mut behind, beyond) = (0, self.counts.arrived / 100);
        let mut bins = self.lateness.iter().enumerate().rev();
        let p99 = bins.find(|(_, packets)| {
            behind += **packets;
            behind > beyond
        });
        let late_p99 = p99.map_or(Nanos::ZERO, |(bin, _)| Nanos::new((bin as u64 + 1) * BIN));
        let passed = self.medium.opportunities();
        Emulated {
            link: self.plan.to_string(),
            under_way: self.under_way.len() as u64,
            late_p99: late_p99.min(self.counts.late_most),
            opportunities: (passed.used, passed.wasted),
            failed: self.medium.has_failed(),
            ..self.counts.clone()
        }
    }
}

impl Link {
    /// The link is from `now` on as described; without a description it is the port's own again, and what was under way
    /// leaves at once.
    pub fn emulate(&mut self, new: Option<NewLink>, name: &str, fates: &mut Accounting) {
        let now = fates.now;
        match new {
            None => {
                self.release(Instant::FAR, fates);
                self.forget_under_way(DropReason::BufferFull, fates);
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
        self.lines.now = now;
        self.refresh_rate();
        self.refresh_offloads(fates);
    }

    /// Whether it is emulated.
    pub fn is_emulated(&self) -> bool {
        self.emulation.is_some()
    }

    /// Packets under way on an emulated link: the port has not had them yet.
    pub fn under_way(&self) -> usize {
        self.emulation.as_ref().map_or(0, |emulation| emulation.under_way.len())
    }

    /// When an emulated link has to be looked at again; [`Instant::FAR`] where nothing is to come.
    pub fn due(&self) -> Instant {
        let Some(emulation) = &self.emulation else { return Instant::FAR };
        // A scheme that holds its packets back is asked when it wants to be.
        let waits = self.backlog().packets > 0 && self.next() == Next::Ready;
        emulation.due(waits || !self.lines.out.is_empty())
    }

    /// How well it was emulated.
    pub fn emulated(&self) -> Option<Emulated> {
        Some(self.emulation.as_ref()?.report())
    }

    /// Packets that an emulated link takes now.
    pub(super) fn emulated_room(&self) -> usize {
        let Some(emulation) = &self.emulation else { return 0 };
        usize::from(emulation.is_ready(self.lines.now))
    }

    /// [`Link::serve`] of an emulated link: what has arrived leaves, and as long as the link is ready the scheme is asked for one
    /// packet after the other.
    #[cold]
    pub(super) fn serve_emulated(&mut self, fates: &mut Accounting) -> usize {
        self.lines.now = fates.now;
        self.refresh_rate();
        self.mend();
        let mut sent = 0;
        loop {
            sent += self.depart(fates);
            if let Some(emulation) = &mut self.emulation {
                emulation.resume(fates.now);
            }
            self.lines.room = if sent < BATCH { self.emulated_room() } else { 0 };
            if self.lines.room == 0 {
                break;
            }
            self.insist(|scheme, lines| scheme.serve(lines));
            if self.incoming.is_some() && self.lines.backlog.packets == 0 {
                self.succeed();
                self.insist(|scheme, lines| scheme.serve(lines));
            }
            self.lines.enter();
            self.settle(fates);
            if self.lines.out.is_empty() {
                self.lines.counters.wasted += 1;
                let waits = self.lines.backlog.packets > 0;
                self.lines.counters.withheld += u64::from(waits);
                if let Some(emulation) = &mut self.emulation {
                    emulation.withheld = waits;
                }
                break;
            }
            fates.latencies.sent(self.lines.out.as_slice(), fates.now);
        }
        self.release(fates.now, fates);
        sent
    }

    /// What was let go goes onto the link. Answers how many packets.
    fn depart(&mut self, fates: &mut Accounting) -> usize {
        let Some(emulation) = &mut self.emulation else { return 0 };
        let sent = self.lines.out.len();
        for packet in self.lines.out.drain() {
            let bytes = packet.len() as u32;
            let (left, crossing) = emulation.take(fates.now, &packet, bytes);
            let reason = match crossing {
                Crossing::Lost => DropReason::LinkLoss,
                _ if emulation.under_way.len() >= emulation.plan.hold as usize => DropReason::BufferFull,
                Crossing::Once(due) => {
                    emulation.go((left, due), packet, bytes);
                    self.lines.counters.sent += 1;
                    continue;
                }
                Crossing::Twice(due, again) => {
                    if let Some(mut twin) = fates.pool.take_for(packet.len()) {
                        twin.copy(&packet);
                        fates.ledger.generate(1);
                        emulation.counts.doubled += 1;
                        self.lines.counters.offered += 1;
                        self.lines.counters.sent += 1;
                        self.lines.counters.sent_bytes += u64::from(bytes);
                        emulation.enter(again, twin);
                    }
                    emulation.go((left, due), packet, bytes);
                    self.lines.counters.sent += 1;
                    continue;
                }
            };
            emulation.counts.lost += 1;
            // It had left the scheme, and has not left the port.
            self.lines.counters.sent_bytes -= u64::from(bytes);
            self.others.dropped(reason, 1);
            self.lines.ended.push((packet, reason));
        }
        self.settle(fates);
        sent
    }

    /// What has arrived until `time` leaves by the port.
    fn release(&mut self, time: Instant, fates: &mut Accounting) {
        let (id, relayed) = (self.id, self.relayed);
        let Link { emulation: Some(emulation), port, lines, others, .. } = self else { return };
        loop {
            emulation.gather(time, fates.now, port.room());
            let packets = emulation.batch.len();
            if packets == 0 {
                return;
            }
            fates.transmit(id, &mut **port, &mut emulation.batch, relayed);
            for packet in emulation.batch.drain() {
                let reason = why(&packet);
                // It was counted as sent when it left the scheme.
                lines.counters.sent -= 1;
                lines.counters.sent_bytes -= lines.length(&packet);
                lines.counters.dropped += 1;
                others.dropped(reason, 1);
                fates.drop_at(id, packet, reason);
            }
            if packets < BATCH {
                return;
            }
        }
    }

    /// What is under way is dropped: the link goes.
    pub(super) fn forget_under_way(&mut self, reason: DropReason, fates: &mut Accounting) {
        let Some(emulation) = &mut self.emulation else { return };
        for Reverse(UnderWay { packet, .. }) in emulation.under_way.drain() {
            // The link's counters have had it since it left the scheme.
            fates.drop_at(self.id, packet, reason);
        }
    }

    /// The worker has failed: what is under way is gone, uncounted.
    pub(super) fn lose_under_way(&mut self) {
        if let Some(emulation) = &mut self.emulation {
            emulation.under_way.clear();
            emulation.batch = Batch::new();
        }
    }

    /// Packets come: the link has something to do from when the first did, and what it could have carried before is lost.
    #[cold]
    pub(super) fn meet(&mut self) {
        let waits = self.backlog().packets > 0;
        let Some(emulation) = &mut self.emulation else { return };
        let packets = self.lines.offered.as_slice();
        if let Some(first) = packets.first().filter(|_| !waits) {
            emulation.ready = emulation.medium.ready(first.meta().timestamp.max(emulation.idle));
        }
        if let Some(witness) = &mut emulation.witness {
            packets.iter().for_each(|packet| witness.came(packet.meta().timestamp, packet.len() as u32));
        }
    }

    /// Tells who listens what is dropped.
    #[cold]
    pub(super) fn witness_drops(&mut self, now: Instant) {
        let Some(witness) = self.emulation.as_mut().and_then(|emulation| emulation.witness.as_mut()) else { return };
        for (packet, reason) in &self.lines.ended {
            witness.dropped(now, packet.len() as u32, *reason);
        }
    }
}
