//! Statistics of a store beyond the counters of its places, taken per batch (spec E-52): execution times, packets passed during overload, reordering.

use crate::order::Order;
use crate::site::{Carrier, Fate, Location, Rules, Site};
use crate::store::Key;
use crate::wire::{Locations, peek};
use packet::Packet;
use packet::latency::Histogram;
use std::fmt;
use std::sync::Arc;
use units::Nanos;

/// One batch in this many is timed.
const TURN: u32 = 32;
/// The name of batches with several instructions.
const MIXED: &str = "mixed";

/// A monotonic clock. The plane has none, so its caller may supply one.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Nanos + Send + Sync>);

impl Clock {
    /// A clock that calls `now`.
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

/// Instructions executed at a location so far, by name.
fn executed(site: &Site, location: Location) -> impl Iterator<Item = (&'static str, u64)> {
    site.executed_at(location).map(|(name, counters)| (name, counters.forwarded + counters.dropped))
}

/// The statistics of a store at one worker.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    batches: u32,
    /// Packets passed unexecuted during overload, by location.
    overloaded: [u64; Location::ALL.len()],
    /// Execution times by location and instruction.
    spent: Vec<(Location, &'static str, Histogram)>,
    /// Instructions executed before the timed batch.
    before: Vec<u64>,
    /// Time spent cleaning outside of batches.
    pub cleaning: Nanos,
    /// Reordering detectors by location; `None` without diagnostics.
    orders: Option<Box<[Order; Location::ALL.len()]>>,
}

impl Seen {
    /// The statistics of a new store. `diagnoses` is the hash key of the reordering detectors; without it there are none.
    pub fn new(diagnoses: Option<Key>) -> Seen {
        let orders = |key: Key| Box::new([0, 1, 2].map(|location| Order::new(key.derive(location))));
        Seen { orders: diagnoses.map(orders), ..Seen::default() }
    }

    /// True if this batch is to be timed.
    #[inline(always)]
    pub fn is_turn(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        self.batches.is_multiple_of(TURN)
    }

    /// Starts timing a batch, before any of its packets is executed.
    pub fn begin(&mut self, site: &Site, location: Location) {
        self.before.clear();
        self.before.extend(executed(site, location).map(|(_, count)| count));
    }

    /// Records that a batch of `packets` packets took `time`.
    pub fn took(&mut self, time: Nanos, packets: usize, (site, location): (&Site, Location)) {
        let all = executed(site, location).zip(&self.before);
        let mut executed = all.map(|((name, now), before)| (name, now - before));
        let Some((name, count)) = executed.by_ref().find(|(_, count)| *count > 0) else { return };
        let rest: u64 = executed.map(|(_, count)| count).sum();
        if count + rest != packets as u64 || packets == 0 {
            // Other packets were in the batch too, and their share of the time is unknown.
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

    /// Execution times at a location, by instruction.
    pub fn spent_at(&self, location: Location) -> impl Iterator<Item = (&'static str, packet::latency::Spread)> + '_ {
        let there = self.spent.iter().filter(move |(at, ..)| *at == location);
        there.map(|(_, name, histogram)| (*name, histogram.told()))
    }

    /// Passes packets unexecuted, and counts those addressed to this location. Returns all locations that any of them asks for.
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

    /// Counts a passing packet if it is addressed to this location. Returns the locations it asks for, as bits.
    #[cold]
    pub fn passed(&mut self, rules: &Rules, location: Location, l3: &[u8]) -> u8 {
        let Some(head) = rules.carriages.find(l3).and_then(|(range, _)| peek(&l3[range])) else { return 0 };
        self.overloaded[location as usize] += u64::from(head.asks(location.locations()) && !head.error());
        head.bits()
    }

    /// Packets passed unexecuted at a location.
    pub fn overloaded_at(&self, location: Location) -> u64 {
        self.overloaded[location as usize]
    }

    /// Feeds a batch to the reordering detector, if there is one.
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

    /// Packets executed after a later packet of their computation.
    pub fn overtaken_at(&self, location: Location) -> u64 {
        self.orders.as_ref().map_or(0, |orders| orders[location as usize].overtaken)
    }
}
