//! What is noted of a store besides what its places count (spec E-52), by the batch: how long instructions take, what passed because the worker did not keep
//! up, what overtook what.

use crate::order::Order;
use crate::site::{Carrier, Fate, Location, Rules, Site};
use crate::store::Key;
use crate::wire::{Locations, peek};
use packet::Packet;
use packet::latency::Histogram;
use std::fmt;
use std::sync::Arc;
use units::Nanos;

/// One batch of so many is timed.
const TURN: u32 = 32;
/// What batches of several instructions are called.
const MIXED: &str = "mixed";

/// Tells the time since some time ago. The plane has none: who has a clock may lend it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Nanos + Send + Sync>);

impl Clock {
    /// One that answers what this does.
    pub fn new(now: impl Fn() -> Nanos + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(now))
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Nanos {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// How much of each instruction was executed at a location so far, by its name.
fn executed(site: &Site, location: Location) -> impl Iterator<Item = (&'static str, u64)> {
    site.executed_at(location).map(|(name, counters)| (name, counters.forwarded + counters.dropped))
}

/// What is noted of a store at one worker.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    batches: u32,
    /// Packets that passed unexecuted, by location.
    overloaded: [u64; Location::ALL.len()],
    /// How long an instruction took at a location, by its name.
    spent: Vec<(Location, &'static str, Histogram)>,
    /// How much of each instruction had been executed before the batch that is timed.
    before: Vec<u64>,
    /// What cleaning took besides batches.
    pub cleaning: Nanos,
    /// By location; none where nobody looks for a fault.
    orders: Option<Box<[Order; Location::ALL.len()]>>,
}

impl Seen {
    /// Of a store; with a key for computations where somebody looks for a fault.
    pub fn new(diagnoses: Option<Key>) -> Seen {
        let orders = |key: Key| Box::new([0, 1, 2].map(|location| Order::new(key.derive(location))));
        Seen { orders: diagnoses.map(orders), ..Seen::default() }
    }

    /// Whether it is the turn of this batch to be timed.
    #[inline(always)]
    pub fn is_turn(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        self.batches.is_multiple_of(TURN)
    }

    /// A batch is timed, of which nothing has been executed yet.
    pub fn begin(&mut self, site: &Site, location: Location) {
        self.before.clear();
        self.before.extend(executed(site, location).map(|(_, count)| count));
    }

    /// The batch, of so many packets, took so long.
    pub fn took(&mut self, time: Nanos, packets: usize, (site, location): (&Site, Location)) {
        let all = executed(site, location).zip(&self.before);
        let mut executed = all.map(|((name, now), before)| (name, now - before));
        let Some((name, count)) = executed.by_ref().find(|(_, count)| *count > 0) else { return };
        let rest: u64 = executed.map(|(_, count)| count).sum();
        if count + rest != packets as u64 || packets == 0 {
            // Others were among them, and what they took is not known.
            return;
        }
        let name = if rest == 0 { name } else { MIXED };
        let each = Nanos::new(time.get() / packets as u64);
        match self.spent.iter_mut().find(|(at, known, _)| (*at, *known) == (location, name)) {
            Some((.., histogram)) => histogram.record(each, packets as u64),
            None => {
                let mut histogram = Histogram::default();
                histogram.record(each, packets as u64);
                self.spent.push((location, name, histogram));
            }
        }
    }

    /// What instructions took at a location, by their names.
    pub fn spent_at(&self, location: Location) -> impl Iterator<Item = (&'static str, packet::latency::Spread)> + '_ {
        let there = self.spent.iter().filter(move |(at, ..)| *at == location);
        there.map(|(_, name, histogram)| (*name, histogram.told()))
    }

    /// Lets packets pass, and counts those that ask to be executed at a location. Answers where one of them does.
    #[cold]
    pub fn pass<C: Carrier>(
        &mut self,
        rules: &Rules,
        location: Location,
        packets: &[C],
        fates: &mut [Fate],
    ) -> Locations {
        let asked = packets.iter().fold(0, |asked, packet| asked | self.passed(rules, location, packet.network()));
        fates.fill(Fate::Passed);
        Locations::of(asked)
    }

    /// Counts a packet that passes if it asks to be executed at a location. Answers where it does, in bits.
    #[cold]
    pub fn passed(&mut self, rules: &Rules, location: Location, l3: &[u8]) -> u8 {
        let Some(head) = rules.carriages.find(l3).and_then(|(range, _)| peek(&l3[range])) else { return 0 };
        self.overloaded[location as usize] += u64::from(head.asks(location.locations()) && !head.error());
        head.bits()
    }

    /// Packets that passed unexecuted at a location.
    pub fn overloaded_at(&self, location: Location) -> u64 {
        self.overloaded[location as usize]
    }

    /// Notes in which order packets with instructions come to a location, where that is wanted.
    #[inline(always)]
    pub fn in_order(&mut self, rules: &Rules, location: Location, packets: &[Packet]) {
        if let Some(orders) = &mut self.orders {
            Seen::note(&mut orders[location as usize], rules, location, packets);
        }
    }

    #[cold]
    fn note(order: &mut Order, rules: &Rules, location: Location, packets: &[Packet]) {
        for packet in packets {
            let l3 = packet.network();
            let head = rules.carriages.find(l3).and_then(|(range, _)| peek(&l3[range]));
            if let Some(head) = head.filter(|head| head.asks(location.locations())) {
                order.executed(head.computation, packet.meta().timestamp);
            }
        }
    }

    /// Packets that were behind others of their computation that had come later.
    pub fn overtaken_at(&self, location: Location) -> u64 {
        self.orders.as_ref().map_or(0, |orders| orders[location as usize].overtaken)
    }
}
