//! One direction of a link between hosts: a queue with its scheme, the medium behind it, and what is on its way.
//!
//! Nothing but the first packet on its way is an event, and the time at which the medium takes the next packet of those that wait: a
//! packet that finds an idle link leaves as it comes.

use super::packet::{Fields, Packet};
use super::queue::Queue;
use super::wires::Fate;
use crate::check::RateBound;
use crate::times::Times;
use link::medium::{Crossing, Medium};
use plan::{MediumPlan, Service};
use schemes::Next;
use std::collections::VecDeque;
use units::{Instant, Rate};

/// What happened to the packets of a direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// Packets that came to it.
    pub offered: u64,
    /// Packets that were given to the medium, and their bytes.
    pub sent: u64,
    pub sent_bytes: u64,
    /// Packets that were dropped, in the order of [`Fate::DROPS`].
    pub dropped: [u64; Fate::DROPS.len()],
    /// Packets that were marked.
    pub marked: u64,
    /// Packets that the medium lost, and those that it made of others.
    pub lost: u64,
    pub duplicated: u64,
    /// Packets that have come out.
    pub delivered: u64,
}

impl Counts {
    /// Packets dropped for any reason.
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// What was counted since.
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

/// What was asked of the scheme of a link: to take a packet, or to give one.
#[cfg(test)]
pub(super) struct Logged {
    pub at: u64,
    pub packet: Option<(Packet, Fields)>,
}

/// A direction of a link.
pub(super) struct Link {
    pub name: String,
    pub queue: Queue,
    pub medium: Medium,
    /// What has left and not arrived, by when it does.
    flight: VecDeque<(u64, Packet)>,
    pub counts: Counts,
    /// How long packets waited that did not pass.
    pub sojourn: Times,
    /// The most packets that waited.
    pub most: u32,
    /// Its rate where that never changes, else what it is at the moment.
    pub rate: Rate,
    steady: Option<Rate>,
    overhead: i32,
    bound: Option<RateBound>,
    /// How many nanoseconds too early a packet has left, if one has.
    pub early: Option<u64>,
    /// What was asked of the scheme, where a test wants to know.
    #[cfg(test)]
    pub log: Option<Vec<Logged>>,
}

/// The rate of a link that has always the same.
fn steady(plan: &MediumPlan) -> Option<Rate> {
    match plan.service {
        Service::Constant(rate) => Some(rate),
        _ => None,
    }
}

impl Link {
    pub fn new(name: String, queue: Queue, (plan, medium): (&MediumPlan, Medium)) -> Link {
        let steady = steady(plan);
        Link {
            name,
            queue,
            bound: steady.map(RateBound::new),
            rate: steady.unwrap_or(Rate::ZERO),
            overhead: plan.overhead,
            steady,
            medium,
            flight: VecDeque::new(),
            counts: Counts::default(),
            sojourn: Times::new(),
            most: 0,
            early: None,
            #[cfg(test)]
            log: None,
        }
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    fn rate(&mut self, now: u64) -> Rate {
        if self.steady.is_none() {
            self.rate = self.medium.rate(Instant::new(now));
        }
        self.rate
    }

    /// A packet comes: it leaves at once where it may, else it is the scheme's.
    #[inline]
    pub fn offer(&mut self, now: u64, mut packet: Packet, fields: Fields, lost: &mut Vec<(Packet, Fate)>) {
        self.counts.offered += 1;
        packet.came = now;
        if self.queue.lets_pass() && self.medium.ready(Instant::new(now)).is_some_and(|ready| ready.get() <= now) {
            return self.depart(now, packet);
        }
        #[cfg(test)]
        self.log.iter_mut().for_each(|log| log.push(Logged { at: now, packet: Some((packet, fields)) }));
        let rate = self.rate(now);
        self.queue.arrive(now, rate, packet, fields);
        self.most = self.most.max(self.queue.packets());
        self.settle(now, lost);
    }

    /// The medium takes packets.
    #[inline]
    pub fn serve(&mut self, now: u64, lost: &mut Vec<(Packet, Fate)>) {
        let rate = self.rate(now);
        // A medium without a rate is ready again at once.
        while self.medium.ready(Instant::new(now)).is_some_and(|ready| ready.get() <= now) {
            #[cfg(test)]
            self.log.iter_mut().for_each(|log| log.push(Logged { at: now, packet: None }));
            self.queue.ready(now, rate);
            if !self.settle(now, lost) {
                return;
            }
        }
    }

    /// Sees to what the scheme has decided. Answers whether it sent something.
    #[inline]
    pub fn settle(&mut self, now: u64, lost: &mut Vec<(Packet, Fate)>) -> bool {
        self.counts.marked += self.queue.marks();
        let mut fates = std::mem::take(self.queue.fates());
        let mut sent = false;
        for (packet, fate) in fates.drain(..) {
            if fate == Fate::Sent {
                sent = true;
                self.sojourn.record(now - packet.came);
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
            self.early = self.early.or(bound.carried(now, left.get(), bits));
        }
        match self.medium.cross(left) {
            Crossing::Lost => self.counts.lost += 1,
            Crossing::Once(at) => self.fly(at.get(), packet),
            Crossing::Twice(at, again) => {
                self.counts.duplicated += 1;
                self.fly(at.get(), packet);
                self.fly(again.get(), packet);
            }
        }
    }

    #[inline]
    fn fly(&mut self, at: u64, packet: Packet) {
        if self.flight.back().is_none_or(|(last, _)| *last <= at) {
            return self.flight.push_back((at, packet));
        }
        // A medium that reorders: behind all that arrive no later.
        let place = self.flight.partition_point(|(other, _)| *other <= at);
        self.flight.insert(place, (at, packet));
    }

    /// The next packet that has arrived by now.
    #[inline(always)]
    pub fn arrived(&mut self, now: u64) -> Option<Packet> {
        let (at, _) = self.flight.front()?;
        if *at > now {
            return None;
        }
        self.counts.delivered += 1;
        self.flight.pop_front().map(|(_, packet)| packet)
    }

    /// When the first packet on its way arrives.
    #[inline(always)]
    pub fn next_arrival(&self) -> Option<u64> {
        self.flight.front().map(|(at, _)| *at)
    }

    /// When what waits is to be served, and whether it is the scheme that names the time.
    #[inline]
    pub fn next_service(&mut self, now: u64) -> Option<(u64, bool)> {
        let (wanted, held) = match self.queue.next() {
            Next::Idle => return None,
            Next::Ready => (now, false),
            Next::At(time) => (time.get().max(now), true),
        };
        Some((self.medium.ready(Instant::new(now))?.get().max(wanted), held))
    }

    /// The medium is another one from now on; what is on its way stays there.
    pub fn change_medium(&mut self, now: u64, (plan, medium): (&MediumPlan, Medium)) {
        self.medium.change(medium, Instant::new(now));
        self.steady = steady(plan);
        self.rate = self.steady.unwrap_or(Rate::ZERO);
        // What is being sent has the old rate.
        self.bound = None;
    }

    /// Whether every packet is somewhere.
    pub fn is_conserved(&self) -> Result<(), String> {
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
