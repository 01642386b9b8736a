//! The bin with the most bytes, which loses packets when all bins together exceed the limit.
//!
//! It is needed only in an overload, so it costs only then. Well below the limit only a bitmap of the non-empty bins is kept. Near the limit a heap
//! is filled, a few bins with each packet, so that it is complete when the limit is reached. After the overload it is emptied at the same rate. No
//! packet therefore costs more than a few steps of O(log n), for any number of bins.

use alloc::vec::Vec;
use units::Heap;

/// Up to this number all bins are scanned.
const FEW: usize = 64;
/// The bins entered into or removed from the heap with each packet. At most `limit` bins are non-empty, so ten with each packet are enough within an
/// eighth of the limit.
const AT_ONCE: usize = 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct LongestQueue {
    bins: usize,
    /// True if all bins are scanned.
    searches: bool,
    /// The non-empty bins.
    waiting: Bits,
    /// Those of them that have been entered, the longest first; of equal ones the higher number.
    heap: Heap,
    /// Bins from this one on are not entered yet.
    next: usize,
    phase: Phase,
    limit: u32,
    /// From this number of packets on [`LongestQueue::update_length`] must be called.
    from: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The heap is empty.
    Empty,
    /// It is being filled, or complete.
    Filling,
    /// It is being emptied.
    Emptying,
}

impl LongestQueue {
    /// For `bins` bins, which hold at most `limit` packets.
    pub fn new(bins: usize, limit: u32) -> LongestQueue {
        if bins <= FEW {
            return LongestQueue::scanning(bins);
        }
        let mut heap = Heap::default();
        heap.grow(bins);
        let (waiting, from) = (Bits::new(bins), near(limit));
        LongestQueue { bins, searches: false, waiting, heap, next: 0, phase: Phase::Empty, limit, from }
    }

    /// Keeps no state and scans all bins: the same decisions in more steps.
    pub fn scanning(bins: usize) -> LongestQueue {
        let (waiting, heap) = (Bits::new(0), Heap::default());
        LongestQueue {
            bins,
            searches: true,
            waiting,
            heap,
            next: 0,
            phase: Phase::Empty,
            limit: u32::MAX,
            from: u32::MAX,
        }
    }

    /// Changes the limit.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        // In the other phases `from` stays zero until the heap is empty again.
        if self.phase == Phase::Empty && !self.searches {
            self.from = near(limit);
        }
    }

    /// A bin became non-empty.
    #[inline(always)]
    pub fn set_waiting(&mut self, bin: usize) {
        self.waiting.set(bin);
    }

    /// A bin became empty.
    #[inline(always)]
    pub fn set_empty(&mut self, bin: usize) {
        self.waiting.clear(bin);
    }

    /// Resets to no waiting packets.
    pub fn clear(&mut self) {
        self.waiting.clear_all();
        self.heap.clear();
        (self.phase, self.next) = (Phase::Empty, 0);
        self.set_limit(self.limit);
    }

    /// True if [`LongestQueue::update_length`] must be called when all bins hold this number of packets.
    #[inline(always)]
    pub fn is_near(&self, packets: u32) -> bool {
        packets >= self.from
    }

    /// The length of a bin has changed. All bins hold `packets`; `bytes` returns the bytes of a bin.
    #[inline(never)]
    pub fn update_length(&mut self, bin: usize, packets: u32, bytes: impl Fn(usize) -> u64) {
        match self.phase {
            Phase::Empty => (self.phase, self.next, self.from) = (Phase::Filling, 0, 0),
            // Less than the seven eighths at which the phase began, so that phases do not alternate with each packet.
            Phase::Filling if packets < self.limit / 4 * 3 => self.phase = Phase::Emptying,
            // Some entries are left from the last time and out of date: remove them all before new ones are entered.
            Phase::Emptying if packets >= near(self.limit) => {
                self.shrink_heap(usize::MAX);
                (self.phase, self.next, self.from) = (Phase::Filling, 0, 0);
            }
            _ => {}
        }
        if self.phase == Phase::Emptying {
            self.shrink_heap(AT_ONCE);
            return;
        }
        match bytes(bin) {
            0 => self.heap.remove(self.place(bin)),
            // The heap has the least key first: the complement puts the most bytes first.
            bytes => self.heap.set(!bytes, self.place(bin)),
        }
        self.fill(AT_ONCE, bytes);
    }

    /// The bin with the most bytes.
    #[cold]
    pub fn first(&mut self, bytes: impl Fn(usize) -> u64) -> Option<usize> {
        if self.searches {
            return (0..self.bins).max_by_key(|bin| bytes(*bin));
        }
        if self.phase == Phase::Emptying {
            self.shrink_heap(usize::MAX);
        }
        if self.phase != Phase::Filling {
            (self.phase, self.next, self.from) = (Phase::Filling, 0, 0);
        }
        // The heap is usually complete here. A super-frame or a lowered limit may reach the limit sooner.
        self.fill(usize::MAX, bytes);
        self.heap.first().map(|(_, place)| self.bins - 1 - place)
    }

    /// The heap breaks ties by the lower number, so bins are numbered from the end.
    fn place(&self, bin: usize) -> usize {
        self.bins - 1 - bin
    }

    /// Enters up to `most` of the remaining bins.
    fn fill(&mut self, most: usize, bytes: impl Fn(usize) -> u64) {
        for _ in 0..most {
            let Some(bin) = self.waiting.next(self.next) else {
                self.next = self.bins;
                return;
            };
            self.next = bin + 1;
            let place = self.place(bin);
            // `update_length` may have entered the bin already.
            if !self.heap.contains(place) {
                self.heap.insert(!bytes(bin), place);
            }
        }
    }

    /// Removes up to `most` bins from the heap.
    fn shrink_heap(&mut self, most: usize) {
        for _ in 0..most {
            if self.heap.pop_any().is_none() {
                (self.phase, self.from) = (Phase::Empty, near(self.limit));
                return;
            }
        }
    }
}

/// The number of packets from which the limit is near.
fn near(limit: u32) -> u32 {
    (limit - limit / 8).saturating_add(1)
}

/// A hierarchical bitmap: the upper levels have a bit for each word below that is not zero.
#[derive(Debug)]
struct Bits {
    /// The lowest level first. A bit of a level is set if a word of the level below is not zero.
    levels: [Vec<u64>; LEVELS],
}

/// Enough for 2^18 numbers.
const LEVELS: usize = 3;

impl Bits {
    fn new(numbers: usize) -> Bits {
        let mut words = numbers;
        let levels = core::array::from_fn(|_| {
            words = words.div_ceil(64);
            alloc::vec![0; words]
        });
        Bits { levels }
    }

    #[inline(always)]
    fn set(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { return };
            let had = core::mem::replace(word, *word | 1 << (at % 64));
            // The levels above have a bit for this word already.
            if had != 0 {
                return;
            }
            at /= 64;
        }
    }

    #[inline(always)]
    fn clear(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(at / 64) else { return };
            *word &= !(1 << (at % 64));
            // The word is still not zero: the levels above stay as they are.
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    fn clear_all(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    /// The first number in the set from this one on.
    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (level, words) in self.levels.iter().enumerate() {
            let left = words.get(at / 64).map_or(0, |word| word & u64::MAX << (at % 64));
            if left == 0 {
                // No more bits in this word: the level above knows the next word that is not zero.
                at = at / 64 + 1;
                continue;
            }
            let found = at / 64 * 64 + left.trailing_zeros() as usize;
            return self.levels[..level].iter().rev().try_fold(found, |found, words| {
                words.get(found).map(|word| found * 64 + word.trailing_zeros() as usize)
            });
        }
        // There may be more words than a word of the highest level has bits.
        let top = self.levels.last()?;
        let word = (at..top.len()).find(|word| top[*word] != 0)?;
        let found = word * 64 + top[word].trailing_zeros() as usize;
        self.levels[..LEVELS - 1]
            .iter()
            .rev()
            .try_fold(found, |found, words| words.get(found).map(|word| found * 64 + word.trailing_zeros() as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bitmap_iterates_in_ascending_order(numbers in prop::collection::btree_set(0usize..300_000, 0..60), from in 0usize..300_000) {
            let mut bits = Bits::new(300_000);
            numbers.iter().for_each(|number| bits.set(*number));
            prop_assert_eq!(bits.next(from), numbers.range(from..).next().copied());
            let half: Vec<usize> = numbers.iter().copied().step_by(2).collect();
            half.iter().for_each(|number| bits.clear(*number));
            let left = numbers.iter().copied().find(|number| !half.contains(number) && *number >= from);
            prop_assert_eq!(bits.next(from), left);
        }
    }
}
