//! The counters of a slice. Each function instance has cells of its own, which only it writes. The control side adds them up.

use packet::pool::prefetch;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::CounterSet;

units::counters! {
    /// The fates of a slice's packets in its fast path: received = forwarded + exceptions + all drops.
    pub struct SliceCounters {
        /// Packets to a meta-interface of the slice.
        received "received_packets";
        /// Their bytes, without the link header.
        received_bytes "received_bytes";
        /// The received packets among them that its slow path has returned.
        reinjected "reinjected_packets";
        /// Packets of its slow path above its limit, which were not received.
        limited_reinjections "reinjection_limited_packets";
        /// Packets that were given to a queue of the slice.
        forwarded "forwarded_packets";
        /// Their bytes, without the link header.
        forwarded_bytes "forwarded_bytes";
        /// Packets that the slow path got.
        exceptions "exception_packets";
        /// Packets with a wrong outer header.
        header_drops "header_dropped_packets";
        /// Packets that the code option found malformed.
        malformed "malformed_dropped_packets";
        /// Packets that a filter, the code option or the default of the slice drops.
        policy_drops "policy_dropped_packets";
        /// Packets on which the code option failed.
        faults "fault_dropped_packets";
        /// Packets that arrived while the slice was suspended or throttled.
        suspended "suspended_dropped_packets";
        /// Packets for the slow path above its limit, or that found its queue full.
        lost_exceptions "exception_dropped_packets";
        /// Packets whose route does not leave by the port of their queue.
        route_drops "route_dropped_packets";
    }
}

const COUNTERS: usize = SliceCounters::COUNTERS.len();
/// Hits of filters are allocated for so many at once.
const CHUNK: usize = 256;

type HitChunk = [AtomicU64; CHUNK];

/// The counts of one function instance for one slice.
#[derive(Debug)]
pub(crate) struct SliceCells {
    counters: [AtomicU64; COUNTERS],
    /// Packets and bytes of each index of the slice's own.
    indices: Box<[[AtomicU64; 2]]>,
    /// Packets of each filter, by the number of its counter.
    hits: Box<[OnceLock<Box<HitChunk>>]>,
}

/// Adds to a cell that only this thread writes.
fn add(cell: &AtomicU64, count: u64) {
    cell.store(cell.load(Relaxed) + count, Relaxed);
}

impl SliceCells {
    /// Cells for so many indices, and filters with counters below `filters`.
    pub fn new(indices: usize, filters: u32) -> SliceCells {
        SliceCells {
            counters: Default::default(),
            indices: (0..indices).map(|_| Default::default()).collect(),
            hits: (0..(filters as usize).div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Publishes the counters of the writer.
    pub fn publish(&self, counters: &SliceCounters) {
        self.counters.iter().zip(counters.values()).for_each(|(cell, value)| cell.store(value, Relaxed));
    }

    /// Prefetches the counter of a filter.
    #[inline(always)]
    pub fn prefetch_hit(&self, counter: u32) {
        if let Some(chunk) = self.hits.get(counter as usize / CHUNK).and_then(OnceLock::get) {
            prefetch(&raw const chunk[counter as usize % CHUNK]);
        }
    }

    /// Counts a packet of a filter.
    pub fn count_hit(&self, counter: u32) {
        let Some(chunk) = self.hits.get(counter as usize / CHUNK) else { return };
        let chunk = chunk.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
        add(&chunk[counter as usize % CHUNK], 1);
    }

    /// Counts a packet of an index.
    pub fn count_index(&self, index: u16, bytes: usize) {
        if let Some([packets, sum]) = self.indices.get(usize::from(index)) {
            add(packets, 1);
            add(sum, bytes as u64);
        }
    }

    /// The counters.
    pub fn counters(&self) -> SliceCounters {
        let mut sum = SliceCounters::default();
        sum.values_mut().zip(&self.counters).for_each(|(value, cell)| *value = cell.load(Relaxed));
        sum
    }

    /// The packets of a filter.
    pub fn hits(&self, counter: u32) -> u64 {
        let chunk = self.hits.get(counter as usize / CHUNK).and_then(OnceLock::get);
        chunk.map_or(0, |chunk| chunk[counter as usize % CHUNK].load(Relaxed))
    }

    /// The packets and bytes of an index.
    pub fn index(&self, index: usize) -> [u64; 2] {
        self.indices.get(index).map_or([0; 2], |cells| cells.each_ref().map(|cell| cell.load(Relaxed)))
    }

    /// Adds the cells of an instance that counts no more.
    pub fn absorb(&self, other: &SliceCells) {
        self.counters.iter().zip(&other.counters).for_each(|(cell, other)| add(cell, other.load(Relaxed)));
        for (cells, other) in self.indices.iter().zip(&other.indices) {
            cells.iter().zip(other).for_each(|(cell, other)| add(cell, other.load(Relaxed)));
        }
        for (chunk, other) in self.hits.iter().zip(&other.hits) {
            let Some(other) = other.get() else { continue };
            let chunk = chunk.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))));
            chunk.iter().zip(other.iter()).for_each(|(cell, other)| add(cell, other.load(Relaxed)));
        }
    }
}
