//! The port of a router on a card of the world, and the observer that counts packets that end in a router.

use crate::frame::Tag;
use crate::net::SharedNet;
use packet::event::{Event, EventInterests, Fate, Observer};
use packet::port::{Port, PortStatistics, WakeSource};
use packet::{Batch, Pool, Region};
use plan::PortPlan;
use plane::{ApplyError, Decorate, Opener};
use std::sync::Arc;
use units::{Instant, Mac, Rate};

/// A card, as its router sees it.
struct CardPort {
    outside: SharedNet,
    card: usize,
}

impl Port for CardPort {
    #[inline]
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.outside.lock().receive(self.card, now.get(), batch, pool);
    }

    fn room(&self) -> usize {
        let now = self.outside.now();
        let card = &mut self.outside.lock().cards[self.card];
        let room = card.link.room(now);
        card.cable.as_ref().map_or(room, |cable| room.min(cable.room()))
    }

    #[inline]
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.outside.lock().transmit(self.card, now.get(), batch, pool);
    }

    fn link_rate(&self) -> Rate {
        let now = self.outside.now();
        self.outside.lock().cards[self.card].link.rate(now)
    }

    fn ring_size(&self) -> u32 {
        self.outside.lock().cards[self.card].slots as u32
    }

    fn is_up(&self) -> bool {
        self.outside.lock().cards[self.card].up
    }

    fn wake_source(&self) -> WakeSource {
        match self.outside.lock().next_arrival(self.card) {
            u64::MAX => WakeSource::WakesWorker,
            at => WakeSource::At(Instant::new(at)),
        }
    }

    fn has_arrivals(&self) -> bool {
        self.outside.lock().next_arrival(self.card) <= self.outside.now()
    }

    fn mac(&self) -> Option<Mac> {
        None
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }

    fn statistics(&self) -> PortStatistics {
        let counters = self.outside.lock().cards[self.card].counters;
        PortStatistics { lost_before_receive: counters.ring_full, lost_after_transmit: counters.lost }
    }
}

/// Opens cards by name.
pub(crate) struct CardOpener(pub SharedNet);

impl Opener for CardOpener {
    fn open(&mut self, plan: &PortPlan, _: &Arc<Region>, _: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let card = self.0.lock().cards.iter().position(|card| card.name == plan.device.target);
        let Some(card) = card else {
            let reason = format!("there is no card '{}'", plan.device.target);
            return Err(ApplyError { place: format!("port {}", plan.name), reason, hint: "name one".into() });
        };
        Ok(vec![Box::new(CardPort { outside: self.0.clone(), card })])
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        if plan.capture.is_some() || plan.faults.is_some() || plan.link.is_some() {
            return Err(ApplyError {
                place: format!("port {}", plan.name),
                reason: "a card has no captures, no faults and no link of its own".into(),
                hint: "describe the link with [[link]], and give it some loss".into(),
            });
        }
        Ok((0..queues).map(|_| Box::new(|port| port) as Decorate).collect())
    }
}

/// Counts the fates of packets in the router with this index, by source.
pub(crate) struct FateObserver(pub SharedNet, pub usize);

impl Observer for FateObserver {
    fn event(&mut self, _: Instant, event: &Event<'_>) {
        let Event::Packet { frame, fate, .. } = event else { return };
        if let Fate::Sent(_) = fate {
            return;
        }
        let mut net = self.0.lock();
        net.inside[self.1] -= 1;
        net.count_fate(Tag::read(frame), |fates| match *fate {
            Fate::Dropped(reason) => fates.dropped.add(reason, 1),
            _ => fates.consumed += 1,
        });
    }

    fn interests(&self) -> EventInterests {
        EventInterests { packets: true, stages: false, arrivals: false }
    }
}
