//! Which of many bins holds the most bytes, for packets to be dropped there when all bins hold too many together.
//!
//! Only an overload asks for it, so only one pays for it. While what waits is well below the limit, nothing is kept but which bins
//! have something, in a bit each. Near the limit a heap is filled, a few bins with each packet, so that it is complete when the limit
//! is reached; it is emptied as slowly when the overload is over. So no packet costs more than a few steps of O(log n), however
//! many bins there are.

use alloc::vec::Vec;
use units::Heap;

/// With no more bins than that they are looked at one by one.
const FEW: usize = 64;
/// The heap is filled within an eighth of the limit, and emptied within another: by so many bins a packet it is done by then.
const AT_ONCE: usize = 10;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Longest {
    bins: usize,
    /// Whether all bins are looked at.
    searches: bool,
    /// The bins that have something.
    waiting: Bits,
    /// Those of them that have been entered, the longest first; of two alike the one with the higher number.
    heap: Heap,
    /// From this bin on they are still to be entered.
    next: usize,
    phase: Phase,
    limit: u32,
    /// With so many packets there is something to do.
    from: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The heap is empty.
    Calm,
    /// It is being filled, or full.
    Near,
    /// It is being emptied.
    Over,
}

impl Longest {
    /// Among so many bins, which hold at most `limit` packets.
    pub fn new(bins: usize, limit: u32) -> Longest {
        if bins <= FEW {
            return Longest::searching(bins);
        }
        let mut heap = Heap::default();
        heap.grow(bins);
        let (waiting, from) = (Bits::new(bins), near(limit));
        Longest { bins, searches: false, waiting, heap, next: 0, phase: Phase::Calm, limit, from }
    }

    /// Remembers nothing, and looks at all bins: the same decisions in more steps.
    pub fn searching(bins: usize) -> Longest {
        let (waiting, heap) = (Bits::new(0), Heap::default());
        Longest { bins, searches: true, waiting, heap, next: 0, phase: Phase::Calm, limit: u32::MAX, from: u32::MAX }
    }

    /// Another limit holds.
    pub fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
        if self.phase == Phase::Calm && !self.searches {
            self.from = near(limit);
        }
    }

    /// A bin has something now, or nothing any more.
    #[inline(always)]
    pub fn wakes(&mut self, bin: usize) {
        self.waiting.set(bin);
    }

    /// See [`Longest::wakes`].
    #[inline(always)]
    pub fn empties(&mut self, bin: usize) {
        self.waiting.clear(bin);
    }

    /// Nothing waits any more, as far as is known.
    pub fn clear(&mut self) {
        self.waiting.clear_all();
        self.heap.clear();
        (self.phase, self.next) = (Phase::Calm, 0);
        self.set_limit(self.limit);
    }

    /// Whether [`Longest::changed`] is to be called where all bins hold so many packets.
    #[inline(always)]
    pub fn is_near(&self, packets: u32) -> bool {
        packets >= self.from
    }

    /// What waits in a bin has changed; all of them hold so many packets. `bytes` says what waits in any of them.
    #[inline(never)]
    pub fn changed(&mut self, bin: usize, packets: u32, bytes: impl Fn(usize) -> u64) {
        match self.phase {
            Phase::Calm => (self.phase, self.next, self.from) = (Phase::Near, 0, 0),
            Phase::Near if packets < self.limit / 4 * 3 => self.phase = Phase::Over,
            // Some that are still there were entered long ago: they all go before others come.
            Phase::Over if packets >= near(self.limit) => {
                self.shed(usize::MAX);
                (self.phase, self.next, self.from) = (Phase::Near, 0, 0);
            }
            _ => {}
        }
        if self.phase == Phase::Over {
            self.shed(AT_ONCE);
            return;
        }
        match bytes(bin) {
            0 => self.heap.remove(self.place(bin)),
            bytes => self.heap.set(!bytes, self.place(bin)),
        }
        self.fill(AT_ONCE, bytes);
    }

    /// The bin that holds the most bytes.
    #[cold]
    pub fn first(&mut self, bytes: impl Fn(usize) -> u64) -> Option<usize> {
        if self.searches {
            return (0..self.bins).max_by_key(|bin| bytes(*bin));
        }
        if self.phase == Phase::Over {
            self.shed(usize::MAX);
        }
        if self.phase != Phase::Near {
            (self.phase, self.next, self.from) = (Phase::Near, 0, 0);
        }
        self.fill(usize::MAX, bytes);
        self.heap.first().map(|(_, place)| self.bins - 1 - place)
    }

    /// Of two that are alike the heap has the lower number first.
    fn place(&self, bin: usize) -> usize {
        self.bins - 1 - bin
    }

    /// Enters so many of the bins that are still to be entered.
    fn fill(&mut self, most: usize, bytes: impl Fn(usize) -> u64) {
        for _ in 0..most {
            let Some(bin) = self.waiting.next(self.next) else {
                self.next = self.bins;
                return;
            };
            self.next = bin + 1;
            let place = self.place(bin);
            if !self.heap.contains(place) {
                self.heap.insert(!bytes(bin), place);
            }
        }
    }

    /// Takes so many out of the heap.
    fn shed(&mut self, most: usize) {
        for _ in 0..most {
            if self.heap.shed().is_none() {
                (self.phase, self.from) = (Phase::Calm, near(self.limit));
                return;
            }
        }
    }
}

/// With so many packets the limit is near.
fn near(limit: u32) -> u32 {
    (limit - limit / 8).saturating_add(1)
}

/// Numbers, a bit each, and above them which words have any.
#[derive(Debug)]
struct Bits {
    /// The lowest level first: each bit of another says whether a word of the one below has any.
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
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    fn clear_all(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    /// The first number that is set from this one on.
    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (level, words) in self.levels.iter().enumerate() {
            let left = words.get(at / 64).map_or(0, |word| word & u64::MAX << (at % 64));
            if left == 0 {
                // Nothing more in this word: the level above knows the next one that has any.
                at = at / 64 + 1;
                continue;
            }
            let found = at / 64 * 64 + left.trailing_zeros() as usize;
            return self.levels[..level].iter().rev().try_fold(found, |found, words| {
                words.get(found).map(|word| found * 64 + word.trailing_zeros() as usize)
            });
        }
        // More words than a word of the highest level has bits.
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
        fn bits_are_found_in_their_order(numbers in prop::collection::btree_set(0usize..300_000, 0..60), from in 0usize..300_000) {
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
