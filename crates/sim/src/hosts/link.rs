//! One direction of a link between hosts: a queue with its scheme, the medium behind it, and the packets in flight.
//!
//! It has only two events: the next service of the queue, and the arrival of the first packet in flight. A packet that finds an idle link is sent at
//! once, without an event.

use super::packet::{Fields, Packet};
use super::queue::Queue;
use super::wires::Fate;
use crate::check::RateBound;
use crate::histogram::DurationHistogram;
use link::medium::{Medium, TransitResult};
use plan::{LinkService, MediumPlan};
use schemes::Next;
use std::collections::VecDeque;
use units::{Instant, Rate};

/// The packet counters of a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// Packets offered to it.
    pub offered: u64,
    /// Packets given to the medium, and their bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Packets dropped, in the order of [`Fate::DROPS`].
    pub dropped: [u64; Fate::DROPS.len()],
    /// Packets marked.
    pub marked: u64,
    /// Packets that the medium lost, and those that it duplicated.
    pub lost: u64,
    pub duplicated: u64,
    /// Packets that arrived at the far end.
    pub delivered: u64,
}

impl Counts {
    /// Packets dropped for any reason.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// The difference to an earlier count.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let mut dropped = self.dropped;
        dropped.iter_mut().zip(earlier.dropped).for_each(|(now, then)| *now -= then);
        Counts {
            offered: self.offered - earlier.offered,
            sent: self.sent - earlier.sent,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            dropped,
            marked: self.marked - earlier.marked,
            lost: self.lost - earlier.lost,
            duplicated: self.duplicated - earlier.duplicated,
            delivered: self.delivered - earlier.delivered,
        }
    }
}

/// A call of a link's scheme: a packet arrives, or the link is ready.
#[cfg(test)]
pub(super) struct SchemeCall {
    pub at: u64,
    pub packet: Option<(Packet, Fields)>,
}

/// A direction of a link.
pub(super) struct Link {
    pub name: String,
    pub queue: Queue,
    pub medium: Medium,
    /// Packets in flight, in the order of their arrival times.
    flight: VecDeque<(u64, Packet)>,
    pub counts: Counts,
    /// The sojourn times of packets that were queued.
    pub sojourn: DurationHistogram,
    /// The most packets that waited.
    pub max_queued: u32,
    /// The constant rate, or the current rate of a variable one.
    pub rate: Rate,
    constant_rate: Option<Rate>,
    overhead: i32,
    bound: Option<RateBound>,
    /// By how many nanoseconds the first packet that left too early was early.
    pub early: Option<u64>,
    /// The calls of the scheme, recorded for tests.
    #[cfg(test)]
    pub log: Option<Vec<SchemeCall>>,
}

/// The rate of a link with a constant rate.
fn constant_rate_of(plan: &MediumPlan) -> Option<Rate> {
    match plan.service {
        LinkService::Constant(rate) => Some(rate),
        _ => None,
    }
}

impl Link {
    pub fn new(name: String, queue: Queue, (plan, medium): (&MediumPlan, Medium)) -> Link {
        let steady = constant_rate_of(plan);
        Link {
            name,
            queue,
            bound: steady.map(RateBound::new),
            rate: steady.unwrap_or(Rate::ZERO),
            overhead: plan.overhead,
            constant_rate: steady,
            medium,
            flight: VecDeque::new(),
            counts: Counts::default(),
            sojourn: DurationHistogram::new(),
            max_queued: 0,
            early: None,
            #[cfg(test)]
            log: None,
        }
    }

    /// The number of packets in flight.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    fn rate(&mut self, now: u64) -> Rate {
        if self.constant_rate.is_none() {
            self.rate = self.medium.rate(Instant::new(now));
        }
        self.rate
    }

    /// Offers a packet: it leaves at once if the link is idle, else the scheme decides.
    #[inline]
    pub fn offer(&mut self, now: u64, mut packet: Packet, fields: Fields, lost: &mut Vec<(Packet, Fate)>) {
        self.counts.offered += 1;
        packet.arrived_at = now;
        if self.queue.can_bypass() && self.medium.ready(Instant::new(now)).is_some_and(|ready| ready.get() <= now) {
            return self.depart(now, packet);
        }
        #[cfg(test)]
        self.log.iter_mut().for_each(|log| log.push(SchemeCall { at: now, packet: Some((packet, fields)) }));
        let rate = self.rate(now);
        self.queue.arrive(now, rate, packet, fields);
        self.max_queued = self.max_queued.max(self.queue.packets());
        self.apply_decisions(now, lost);
    }

    /// Serves the queue while the medium accepts packets.
    #[inline]
    pub fn serve(&mut self, now: u64, lost: &mut Vec<(Packet, Fate)>) {
        let rate = self.rate(now);
        // A medium without a rate is ready again at once, hence the loop.
        while self.medium.ready(Instant::new(now)).is_some_and(|ready| ready.get() <= now) {
            #[cfg(test)]
            self.log.iter_mut().for_each(|log| log.push(SchemeCall { at: now, packet: None }));
            self.queue.ready(now, rate);
            if !self.apply_decisions(now, lost) {
                return;
            }
        }
    }

    /// Carries out the scheme's decisions. Returns true if it sent a packet.
    #[inline]
    pub fn apply_decisions(&mut self, now: u64, lost: &mut Vec<(Packet, Fate)>) -> bool {
        self.counts.marked += self.queue.marks();
        let mut fates = std::mem::take(self.queue.fates());
        let mut sent = false;
        for (packet, fate) in fates.drain(..) {
            if fate == Fate::Sent {
                sent = true;
                self.sojourn.record(now - packet.arrived_at);
                self.depart(now, packet);
            } else {
                let kind = Fate::DROPS.iter().position(|(known, _)| *known == fate);
                kind.into_iter().for_each(|kind| self.counts.dropped[kind] += 1);
                lost.push((packet, fate));
            }
        }
        *self.queue.fates() = fates;
        sent
    }

    #[inline]
    fn depart(&mut self, now: u64, packet: Packet) {
        self.counts.sent += 1;
        self.counts.sent_bytes += u64::from(packet.bytes);
        let left = self.medium.send(Instant::new(now), packet.bytes);
        if let Some(bound) = &mut self.bound {
            let bits = (i64::from(packet.bytes) + i64::from(self.overhead)).max(1) as u64 * 8;
            self.early = self.early.or(bound.record_frame(now, left.get(), bits));
        }
        match self.medium.cross(left) {
            TransitResult::Lost => self.counts.lost += 1,
            TransitResult::Once(at) => self.add_in_flight(at.get(), packet),
            TransitResult::Twice(at, again) => {
                self.counts.duplicated += 1;
                self.add_in_flight(at.get(), packet);
                self.add_in_flight(again.get(), packet);
            }
        }
    }

    #[inline]
    fn add_in_flight(&mut self, at: u64, packet: Packet) {
        if self.flight.back().is_none_or(|(last, _)| *last <= at) {
            return self.flight.push_back((at, packet));
        }
        // The medium reorders: insert the packet after all that arrive no later.
        let place = self.flight.partition_point(|(other, _)| *other <= at);
        self.flight.insert(place, (at, packet));
    }

    /// The next packet that has arrived by `now`.
    #[inline(always)]
    pub fn arrived(&mut self, now: u64) -> Option<Packet> {
        let (at, _) = self.flight.front()?;
        if *at > now {
            return None;
        }
        self.counts.delivered += 1;
        self.flight.pop_front().map(|(_, packet)| packet)
    }

    /// The arrival time of the first packet in flight.
    #[inline(always)]
    pub fn next_arrival(&self) -> Option<u64> {
        self.flight.front().map(|(at, _)| *at)
    }

    /// The time of the next service of the queue, and true if the scheme has set it.
    #[inline]
    pub fn next_service(&mut self, now: u64) -> Option<(u64, bool)> {
        let (wanted, held) = match self.queue.next() {
            Next::Idle => return None,
            Next::Ready => (now, false),
            Next::At(time) => (time.get().max(now), true),
        };
        Some((self.medium.ready(Instant::new(now))?.get().max(wanted), held))
    }

    /// Replaces the medium. Packets in flight are not affected.
    pub fn change_medium(&mut self, now: u64, (plan, medium): (&MediumPlan, Medium)) {
        self.medium.change(medium, Instant::new(now));
        self.constant_rate = constant_rate_of(plan);
        self.rate = self.constant_rate.unwrap_or(Rate::ZERO);
        // The packet being sent still has the old rate, so the bound no longer applies.
        self.bound = None;
    }

    /// Checks that every packet is accounted for.
    pub fn check_conservation(&self) -> Result<(), String> {
        let counts = &self.counts;
        let waiting = u64::from(self.queue.packets());
        if counts.offered != counts.sent + counts.all_dropped() + waiting {
            return Err(format!("of link {} {counts:?}, and {waiting} wait", self.name));
        }
        let flying = self.flight.len() as u64;
        if counts.sent + counts.duplicated != counts.lost + counts.delivered + flying {
            return Err(format!("of link {} {counts:?}, and {flying} are on their way", self.name));
        }
        Ok(())
    }
}
