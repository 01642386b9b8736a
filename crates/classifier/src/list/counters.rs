//! The counters of rules. Each worker writes its own, so counting costs no shared cache line; a reader sums them up.

use packet::pool::prefetch;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Instant;

/// The slot of packets that match no rule.
pub(super) const NO_RULE: u32 = 0;
/// Counters that are allocated together, when a packet hits the first of them.
const CHUNK: usize = 256;
/// Slots that stay unused after their rules are gone, before the next rule gets the first of them. A worker may still count packets of its batch for
/// the old rule.
const RESTING: usize = 4096;

/// The packets that a rule has decided about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleCount {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The time of the last one.
    pub last: Option<Instant>,
}

impl RuleCount {
    /// The packets since `base`.
    pub(super) fn since(self, base: RuleCount) -> RuleCount {
        let (packets, bytes) = (self.packets - base.packets, self.bytes - base.bytes);
        RuleCount { packets, bytes, last: self.last.filter(|_| packets > 0) }
    }

    fn add(&mut self, other: RuleCount) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.last = self.last.max(other.last);
    }
}

/// The slots of a list's rules.
#[derive(Default)]
pub(super) struct Slots {
    used: u32,
    free: VecDeque<u32>,
}

impl Slots {
    pub fn take(&mut self) -> u32 {
        if self.free.len() > RESTING
            && let Some(slot) = self.free.pop_front()
        {
            return slot;
        }
        // The first is for packets without a rule.
        self.used += 1;
        self.used
    }

    pub fn give(&mut self, slot: u32) {
        self.free.push_back(slot);
    }

    /// Gives the slot back that was taken last.
    pub fn undo(&mut self, slot: u32) {
        self.free.push_front(slot);
    }
}

/// A counter that one worker writes and others read. Aligned, so that it lies in one cache line.
#[derive(Default)]
#[repr(align(32))]
struct Cell {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds, or zero.
    last: AtomicU64,
}

impl Cell {
    fn read(&self) -> RuleCount {
        let last = self.last.load(Ordering::Relaxed);
        RuleCount {
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            last: (last > 0).then_some(Instant::new(last)),
        }
    }
}

type Chunk = [Cell; CHUNK];
type Chunks = Vec<Option<Arc<Chunk>>>;

/// The counters of all workers for one list.
#[derive(Default)]
pub(super) struct Counters {
    all: Mutex<AllCounters>,
}

#[derive(Default)]
struct AllCounters {
    blocks: Vec<Arc<Mutex<Chunks>>>,
    /// The sums of counters whose workers have left.
    past: Vec<RuleCount>,
}

impl AllCounters {
    fn fold(sums: &mut Vec<RuleCount>, chunks: &Chunks) {
        for (number, chunk) in chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let from = number * CHUNK;
            sums.resize(sums.len().max(from + CHUNK), RuleCount::default());
            sums[from..].iter_mut().zip(chunk.iter()).for_each(|(sum, cell)| sum.add(cell.read()));
        }
    }
}

impl Counters {
    /// The count of one slot.
    pub fn total(&self, slot: u32) -> RuleCount {
        let all = lock(&self.all);
        let mut sum = all.past.get(slot as usize).copied().unwrap_or_default();
        for block in &all.blocks {
            if let Some(Some(chunk)) = lock(block).get(slot as usize / CHUNK) {
                sum.add(chunk[slot as usize % CHUNK].read());
            }
        }
        sum
    }

    /// The count of each slot.
    pub fn totals(&self) -> Vec<RuleCount> {
        let all = lock(&self.all);
        let mut sums = all.past.clone();
        for block in &all.blocks {
            AllCounters::fold(&mut sums, &lock(block));
        }
        sums
    }
}

/// The counters of one worker, or of one instance of a function.
pub(super) struct WorkerCounters {
    counters: Arc<Counters>,
    block: Option<Arc<Mutex<Chunks>>>,
    /// The same as in the block, to be read without its lock.
    chunks: Chunks,
}

impl WorkerCounters {
    pub fn new(counters: &Arc<Counters>) -> Self {
        WorkerCounters { counters: counters.clone(), block: None, chunks: Vec::new() }
    }

    /// Fetches a counter into the cache.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        if let Some(Some(chunk)) = self.chunks.get(slot as usize / CHUNK) {
            prefetch(&chunk[slot as usize % CHUNK]);
        }
    }

    /// Counts packets and their bytes.
    #[inline]
    pub fn count(&mut self, slot: u32, (packets, bytes): (u64, usize), now: Instant) {
        let (chunk, place) = (slot as usize / CHUNK, slot as usize % CHUNK);
        let chunk = match self.chunks.get(chunk) {
            Some(Some(chunk)) => chunk,
            _ => self.add_chunk(chunk),
        };
        let cell = &chunk[place];
        // This worker is the only writer, so no read-modify-write is needed.
        cell.packets.store(cell.packets.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
        cell.bytes.store(cell.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
        cell.last.store(now.get().max(1), Ordering::Relaxed);
    }

    #[cold]
    fn add_chunk(&mut self, number: usize) -> &Arc<Chunk> {
        let block = self.block.get_or_insert_with(|| {
            let block: Arc<Mutex<Chunks>> = Arc::default();
            lock(&self.counters.all).blocks.push(block.clone());
            block
        });
        let chunk = Arc::new(std::array::from_fn(|_| Cell::default()));
        let mut shared = lock(block);
        let length = shared.len().max(number + 1);
        shared.resize(length, None);
        shared[number] = Some(chunk);
        self.chunks.clone_from(&shared);
        drop(shared);
        self.chunks[number].as_ref().expect("it was just added")
    }
}

impl Drop for WorkerCounters {
    /// The counts stay in the list.
    fn drop(&mut self) {
        let Some(block) = self.block.take() else { return };
        let mut all = lock(&self.counters.all);
        all.blocks.retain(|other| !Arc::ptr_eq(other, &block));
        AllCounters::fold(&mut all.past, &self.chunks);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_summed_over_workers_and_stay_when_they_leave() {
        let counters = Arc::new(Counters::default());
        let (mut one, mut two) = (WorkerCounters::new(&counters), WorkerCounters::new(&counters));
        one.count(3, (1, 100), Instant::new(10));
        two.count(3, (1, 50), Instant::new(7));
        two.count(700, (1, 60), Instant::new(8));
        let both = RuleCount { packets: 2, bytes: 150, last: Some(Instant::new(10)) };
        assert_eq!(counters.totals()[3], both);
        drop(two);
        drop(one);
        assert_eq!(counters.totals()[3], both);
        assert_eq!(counters.totals()[700].packets, 1);
        assert_eq!(counters.totals()[700].since(counters.totals()[700]), RuleCount::default());
    }

    #[test]
    fn a_slot_rests_before_the_next_rule_gets_it() {
        let mut slots = Slots::default();
        let first = slots.take();
        assert_ne!(first, NO_RULE);
        slots.give(first);
        for _ in 0..RESTING {
            let other = slots.take();
            assert_ne!(other, first);
            slots.give(other);
        }
        assert_eq!(slots.take(), first);
    }
}
