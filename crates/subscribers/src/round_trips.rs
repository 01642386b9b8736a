//! The round-trip times of all circuits.
//!
//! Workers share one [`RoundTrips`]. Each circuit has a slot with a histogram for each side. The control side assigns slots, in [`RttSlots`], when it
//! publishes the circuits; a slot whose circuit is gone is used again. Slots are allocated in chunks, a chunk when the first sample of one of its circuits
//! is recorded. So the memory follows the number of circuits and not that of packets, connections or past circuits. Workers take no lock, except in the
//! moment when two of them allocate the same chunk.

use crate::histogram::{RttCells, RttHistogram};
use crate::rtt::{RttSide, RttTable};
use packet::Packet;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use units::{Bytes, Instant, Nanos, ShareId};

/// Timestamps of the table: 4 MB, which keeps them for a second if hosts create half a million of them a second.
const TIMESTAMPS: usize = 1 << 19;
/// The numbers of shares, as forwarding tables hold them.
const MOST_SHARES: usize = ShareId::MOST as usize;
/// Shares whose slots, and slots whose histograms, are allocated at once.
const NUMBERS: usize = 4096;
const SLOTS: usize = 256;
/// The time after which the weight of all samples halves.
const HALF_LIFE: Nanos = Nanos::secs(60);

/// A list in chunks that are allocated when they are first written.
struct Chunks<T, const SIZE: usize>(Box<[OnceLock<Box<[T; SIZE]>>]>);

impl<T: Default, const SIZE: usize> Chunks<T, SIZE> {
    fn new(most: usize) -> Chunks<T, SIZE> {
        Chunks((0..most.div_ceil(SIZE)).map(|_| OnceLock::new()).collect())
    }

    #[inline(always)]
    fn get(&self, at: usize) -> Option<&T> {
        Some(&self.0.get(at / SIZE)?.get()?[at % SIZE])
    }

    fn get_or_allocate(&self, at: usize) -> Option<&T> {
        let chunk = || match (0..SIZE).map(|_| T::default()).collect::<Box<[T]>>().try_into() {
            Ok(chunk) => chunk,
            Err(_) => unreachable!("it has SIZE entries"),
        };
        Some(&self.0.get(at / SIZE)?.get_or_init(chunk)[at % SIZE])
    }

    fn allocated(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter())
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.0) + self.allocated().count() * size_of::<T>()
    }
}

/// The histograms of a circuit: toward the subscriber, and toward the Internet.
#[derive(Default)]
struct CircuitCells([RttCells; 2]);

/// The round-trip times of a circuit, or of several together, by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RttHistograms {
    /// Between the router and the subscriber.
    pub subscriber: RttHistogram,
    /// Between the router and hosts in the Internet.
    pub internet: RttHistogram,
}

impl RttHistograms {
    /// Adds the times of another circuit.
    pub fn merge(&mut self, other: &RttHistograms) {
        self.subscriber.merge(&other.subscriber);
        self.internet.merge(&other.internet);
    }
}

/// See the [module](self).
pub struct RoundTrips {
    table: RttTable,
    /// The slot of each share plus one, by the share's number; zero without a slot.
    slots: Chunks<AtomicU32, NUMBERS>,
    histograms: Chunks<CircuitCells, SLOTS>,
    /// When the samples have faded last, in nanoseconds.
    faded: AtomicU64,
}

impl RoundTrips {
    /// No round-trip times. `key` is secret.
    pub fn new(key: u64) -> RoundTrips {
        RoundTrips {
            table: RttTable::new(TIMESTAMPS, key),
            slots: Chunks::new(MOST_SHARES),
            histograms: Chunks::new(MOST_SHARES),
            faded: AtomicU64::new(0),
        }
    }

    /// Observes packets that arrived from one side. The share of each that belongs to a circuit is set, and so are `l3`, the flag `IPV6` and the time of
    /// arrival. Packets without a share are skipped.
    #[inline]
    pub fn observe(&self, from: RttSide, packets: &[Packet]) {
        self.table.observe(from, packets, |at, time| self.record(packets[at].meta().share(), from, time));
    }

    /// Records a round-trip time. Shares that are no circuits have none.
    fn record(&self, share: ShareId, side: RttSide, time: Nanos) {
        let Some(slot) = self.slot(share) else { return };
        if let Some(CircuitCells([subscriber, internet])) = self.histograms.get_or_allocate(slot) {
            match side {
                RttSide::Subscriber => subscriber.record(time),
                RttSide::Internet => internet.record(time),
            }
        }
    }

    #[inline(always)]
    fn slot(&self, share: ShareId) -> Option<usize> {
        (self.slots.get(share.index())?.load(Relaxed) as usize).checked_sub(1)
    }

    /// The round-trip times of a circuit by its share.
    pub fn of(&self, share: ShareId) -> RttHistograms {
        let cells = self.slot(share).and_then(|slot| self.histograms.get(slot));
        cells.map_or_else(RttHistograms::default, |CircuitCells([subscriber, internet])| RttHistograms {
            subscriber: subscriber.load(),
            internet: internet.load(),
        })
    }

    /// Halves the weight of all samples if a minute has passed since the last time. Called by one thread, every few seconds at least.
    pub fn fade(&self, now: Instant) {
        let before = self.faded.load(Relaxed);
        if before != 0 && now.since(Instant::new(before)) < HALF_LIFE {
            return;
        }
        self.faded.store(now.get(), Relaxed);
        if before != 0 {
            self.histograms.allocated().flat_map(|CircuitCells(sides)| sides).for_each(RttCells::halve);
        }
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> Bytes {
        Bytes::new((self.slots.memory() + self.histograms.memory()) as u64) + self.table.memory()
    }

    /// The most memory with so many circuits at the same time, among so many names of shares since the start.
    pub fn memory_limit(circuits: usize, names: usize) -> Bytes {
        let chunks = |entries: usize, size: usize| entries.div_ceil(size) * size;
        // Share number 0 has an entry and no name.
        let slots = chunks(names + 1, NUMBERS) * size_of::<AtomicU32>();
        let histograms = chunks(circuits, SLOTS) * size_of::<CircuitCells>();
        let lists = (MOST_SHARES / NUMBERS + MOST_SHARES / SLOTS) * size_of::<OnceLock<Box<()>>>();
        Bytes::new((slots + histograms + lists + TIMESTAMPS * size_of::<u64>()) as u64)
    }
}

impl fmt::Debug for RoundTrips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoundTrips").field("table", &self.table).field("memory", &self.memory()).finish()
    }
}

/// A circuit's slot, and the fingerprint of its settings.
#[derive(Clone, Copy, Debug)]
struct Assigned {
    slot: u32,
    settings: u64,
}

/// The slots of circuits, as the control side assigns them.
#[derive(Debug)]
pub struct RttSlots {
    shared: Arc<RoundTrips>,
    circuits: HashMap<ShareId, Assigned>,
    free: Vec<u32>,
    /// Slots of circuits that the last call has removed. A worker may be about to record a sample in one, so the next call frees them.
    resting: Vec<u32>,
    /// The slots that were ever assigned.
    count: u32,
}

impl RttSlots {
    /// No slots.
    pub fn new(shared: Arc<RoundTrips>) -> RttSlots {
        RttSlots { shared, circuits: HashMap::new(), free: Vec::new(), resting: Vec::new(), count: 0 }
    }

    /// The histograms that the slots belong to.
    pub fn shared(&self) -> &Arc<RoundTrips> {
        &self.shared
    }

    /// Assigns slots to these circuits and to no others. Each has the fingerprint of its settings: a circuit with other settings than before begins anew,
    /// and a circuit with the same ones keeps its samples.
    pub fn assign(&mut self, circuits: impl Iterator<Item = (ShareId, u64)>) {
        let mut before = std::mem::take(&mut self.circuits);
        let mut new = Vec::new();
        for (share, settings) in circuits {
            match before.remove(&share) {
                Some(Assigned { slot, settings: same }) => {
                    if same != settings {
                        self.clear(slot);
                    }
                    self.circuits.insert(share, Assigned { slot, settings });
                }
                None => new.push((share, settings)),
            }
        }
        self.free.append(&mut self.resting);
        for (share, Assigned { slot, .. }) in before {
            self.set_slot(share, 0);
            self.resting.push(slot);
        }
        for (share, settings) in new {
            let slot = self.free.pop().unwrap_or(self.count);
            self.count = self.count.max(slot + 1);
            self.clear(slot);
            self.set_slot(share, slot + 1);
            self.circuits.insert(share, Assigned { slot, settings });
        }
    }

    fn set_slot(&self, share: ShareId, slot: u32) {
        if let Some(cell) = self.shared.slots.get_or_allocate(share.index()) {
            cell.store(slot, Relaxed);
        }
    }

    fn clear(&self, slot: u32) {
        if let Some(CircuitCells(sides)) = self.shared.histograms.get(slot as usize) {
            sides.iter().for_each(RttCells::clear);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuits(numbers: impl IntoIterator<Item = u32>, settings: u64) -> impl Iterator<Item = (ShareId, u64)> {
        numbers.into_iter().map(move |number| (ShareId(number), settings))
    }

    fn weight(shared: &RoundTrips, share: u32) -> u64 {
        shared.of(ShareId(share)).subscriber.weight()
    }

    fn slots() -> (RttSlots, Arc<RoundTrips>) {
        let slots = RttSlots::new(Arc::new(RoundTrips::new(1)));
        let shared = slots.shared().clone();
        (slots, shared)
    }

    #[test]
    fn removed_and_changed_circuits_are_forgotten_and_others_stay() {
        let (mut slots, shared) = slots();
        let record = |share| shared.record(ShareId(share), RttSide::Subscriber, Nanos::millis(20));
        slots.assign(circuits([7, 8, 9], 1));
        [7, 8, 9, 10].into_iter().for_each(record);
        assert_eq!([7, 8, 9, 10].map(|share| weight(&shared, share)), [1, 1, 1, 0], "10 is no circuit");
        assert_eq!(shared.of(ShareId(7)).internet.weight(), 0);
        slots.assign(circuits([7], 1).chain(circuits([8], 2)));
        assert_eq!([7, 8, 9].map(|share| weight(&shared, share)), [1, 0, 0]);
        record(9);
        slots.assign(circuits([7, 9], 1).chain(circuits([8, 10], 2)));
        assert_eq!([7, 8, 9, 10].map(|share| weight(&shared, share)), [1, 0, 0, 0]);
        record(10);
        assert_eq!([7, 8, 9, 10].map(|share| weight(&shared, share)), [1, 0, 0, 1]);
    }

    #[test]
    fn memory_follows_circuits_at_the_same_time() {
        let (mut slots, shared) = slots();
        let empty = shared.memory();
        // A thousand subscribers at a time, all of them others each time.
        for round in 0..40 {
            let numbers = round * 1000 + 1..round * 1000 + 1001;
            slots.assign(circuits(numbers.clone(), 1));
            numbers.for_each(|share| shared.record(ShareId(share), RttSide::Internet, Nanos::millis(1)));
        }
        // Those of one round rest, so two thousand slots are in use.
        assert!(slots.count <= 2000, "{}", slots.count);
        assert!(shared.memory() > empty && shared.memory() <= RoundTrips::memory_limit(2000, 40_000));
        // Circuits without samples need no histograms.
        let (mut slots, shared) = self::slots();
        slots.assign(circuits(1..100_001, 1));
        assert!(shared.memory() < empty + Bytes::new(100_000 * 5));
        (1..100_001).for_each(|share| shared.record(ShareId(share), RttSide::Internet, Nanos::millis(1)));
        assert!(shared.memory() <= RoundTrips::memory_limit(100_000, 100_000));
        assert!(RoundTrips::memory_limit(100_000, 100_000) < Bytes::new(31_000_000));
    }

    #[test]
    fn samples_fade_by_the_minute() {
        let (mut slots, shared) = slots();
        slots.assign(circuits([1], 1));
        let at = |seconds: u64| Instant::new(seconds * 1_000_000_000);
        shared.fade(at(1));
        (0..8).for_each(|_| shared.record(ShareId(1), RttSide::Subscriber, Nanos::millis(5)));
        (1..61).for_each(|seconds| shared.fade(at(seconds)));
        assert_eq!(weight(&shared, 1), 8);
        (61..182).for_each(|seconds| shared.fade(at(seconds)));
        assert_eq!(weight(&shared, 1), 1, "after three minutes");
    }
}
