//! Statistics of a store beyond the counters of its places, taken per batch (spec E-52): execution times, packets passed during overload, reordering.

use crate::reorder::ReorderDetector;
use crate::site::{ExecutionRules, InstructionFate, Location, PacketBuffer, Site};
use crate::store::Key;
use crate::wire::{Locations, peek};
use packet::Packet;
use packet::latency::Histogram;
use std::fmt;
use std::sync::Arc;
use units::Nanos;

/// One batch in this many is timed.
const SAMPLE_INTERVAL: u32 = 32;
/// The name of batches with several instructions.
const MIXED: &str = "mixed";

/// A monotonic clock. The plane has none, so its caller may supply one.
#[derive(Clone)]
pub struct InstructionClock(Arc<dyn Fn() -> Nanos + Send + Sync>);

impl InstructionClock {
    /// A clock that calls `now`.
    pub fn new(now: impl Fn() -> Nanos + Send + Sync + 'static) -> InstructionClock {
        InstructionClock(Arc::new(now))
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Nanos {
        (self.0)()
    }
}

impl fmt::Debug for InstructionClock {
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
pub(crate) struct StoreStats {
    batches: u32,
    /// Packets passed unexecuted during overload, by location.
    overloaded: [u64; Location::ALL.len()],
    /// Execution times by location and instruction.
    execution_times: Vec<(Location, &'static str, Histogram)>,
    /// Instructions executed before the timed batch.
    executed_before: Vec<u64>,
    /// Time spent cleaning outside of batches.
    pub cleaning: Nanos,
    /// Reordering detectors by location; `None` without diagnostics.
    detectors: Option<Box<[ReorderDetector; Location::ALL.len()]>>,
}

impl StoreStats {
    /// The statistics of a new store. `diagnoses` is the hash key of the reordering detectors; without it there are none.
    pub fn new(detector_key: Option<Key>) -> StoreStats {
        let detectors = |key: Key| Box::new([0, 1, 2].map(|location| ReorderDetector::new(key.derive(location))));
        StoreStats { detectors: detector_key.map(detectors), ..StoreStats::default() }
    }

    /// True if this batch is to be timed.
    #[inline(always)]
    pub fn is_sampled(&mut self) -> bool {
        self.batches = self.batches.wrapping_add(1);
        self.batches.is_multiple_of(SAMPLE_INTERVAL)
    }

    /// Starts timing a batch, before any of its packets is executed.
    pub fn begin_timing(&mut self, site: &Site, location: Location) {
        self.executed_before.clear();
        self.executed_before.extend(executed(site, location).map(|(_, count)| count));
    }

    /// Records that a batch of `packets` packets took `time`.
    pub fn record_time(&mut self, time: Nanos, packets: usize, (site, location): (&Site, Location)) {
        let all = executed(site, location).zip(&self.executed_before);
        let mut executed = all.map(|((name, now), before)| (name, now - before));
        let Some((name, count)) = executed.by_ref().find(|(_, count)| *count > 0) else { return };
        let rest: u64 = executed.map(|(_, count)| count).sum();
        if count + rest != packets as u64 || packets == 0 {
            // Other packets were in the batch too, and their share of the time is unknown.
            return;
        }
        let name = if rest == 0 { name } else { MIXED };
        let each = Nanos::new(time.get() / packets as u64);
        match self.execution_times.iter_mut().find(|(at, known, _)| (*at, *known) == (location, name)) {
            Some((.., histogram)) => histogram.record(each, packets as u64),
            None => {
                let mut histogram = Histogram::default();
                histogram.record(each, packets as u64);
                self.execution_times.push((location, name, histogram));
            }
        }
    }

    /// Execution times at a location, by instruction.
    pub fn execution_times_at(
        &self,
        location: Location,
    ) -> impl Iterator<Item = (&'static str, packet::latency::HistogramSnapshot)> + '_ {
        let there = self.execution_times.iter().filter(move |(at, ..)| *at == location);
        there.map(|(_, name, histogram)| (*name, histogram.snapshot()))
    }

    /// Passes packets unexecuted, and counts those addressed to this location. Returns all locations that any of them asks for.
    #[cold]
    pub fn pass_batch<C: PacketBuffer>(
        &mut self,
        rules: &ExecutionRules,
        location: Location,
        packets: &[C],
        fates: &mut [InstructionFate],
    ) -> Locations {
        let requested =
            packets.iter().fold(0, |asked, packet| asked | self.count_passed(rules, location, packet.network()));
        fates.fill(InstructionFate::PassedThrough);
        Locations::of(requested)
    }

    /// Counts a passing packet if it is addressed to this location. Returns the locations it asks for, as bits.
    #[cold]
    pub fn count_passed(&mut self, rules: &ExecutionRules, location: Location, l3: &[u8]) -> u8 {
        let Some(head) = rules.carriages.find(l3).and_then(|(range, _)| peek(&l3[range])) else { return 0 };
        self.overloaded[location as usize] += u64::from(head.is_addressed_to(location.locations()) && !head.error());
        head.bits()
    }

    /// Packets passed unexecuted at a location.
    pub fn overloaded_at(&self, location: Location) -> u64 {
        self.overloaded[location as usize]
    }

    /// Feeds a batch to the reordering detector, if there is one.
    #[inline(always)]
    pub fn detect_reordering(&mut self, rules: &ExecutionRules, location: Location, packets: &[Packet]) {
        if let Some(detectors) = &mut self.detectors {
            StoreStats::record_arrivals(&mut detectors[location as usize], rules, location, packets);
        }
    }

    #[cold]
    fn record_arrivals(detector: &mut ReorderDetector, rules: &ExecutionRules, location: Location, packets: &[Packet]) {
        for packet in packets {
            let l3 = packet.network();
            let head = rules.carriages.find(l3).and_then(|(range, _)| peek(&l3[range]));
            if let Some(head) = head.filter(|head| head.is_addressed_to(location.locations())) {
                detector.record(head.computation, packet.meta().timestamp);
            }
        }
    }

    /// Packets executed after a later packet of their computation.
    pub fn reordered_at(&self, location: Location) -> u64 {
        self.detectors.as_ref().map_or(0, |detectors| detectors[location as usize].reordered)
    }
}
