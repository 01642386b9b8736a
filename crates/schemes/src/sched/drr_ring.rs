//! The bins that wait for their turns, as a ring in the order of the turns.
//!
//! A bin that leaves before its turn leaves a gap. Gaps are recognised by counting: `left` holds, for each bin, how many of its first slots in the
//! ring are gaps. A turn that is over therefore moves to the end without an index to update, and only bins that leave early cost more writes. When
//! the ring is full of gaps it is compacted, which is amortised over a quarter of its slots.

use super::BinPrefetch;
use crate::Wires;
use alloc::vec::Vec;

/// The number of turns ahead at which a bin is prefetched, and then its first packets.
const BINS: u32 = 16;
const HEADS: u32 = 8;
/// The number of turns ahead at which the slots themselves are prefetched.
const TURNS: u32 = 48;
/// The slots of a cache line, which are handled together.
const TOGETHER: u32 = 4;

/// A bin in the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DrrTurn {
    /// The bytes that it may still send in this turn.
    pub credit: i64,
    /// The bin.
    pub bin: u32,
    /// The bytes of its turn; zero if a turn is a packet.
    pub quantum: u32,
}

impl DrrTurn {
    /// True if the turn is not over.
    #[inline(always)]
    pub fn has_credit(self) -> bool {
        self.credit > 0 || self.quantum == 0 && self.credit == 0
    }

    /// The bin's next turn. A bin in debt gets as many quanta, one a turn, as it needs to have credit again.
    #[inline(always)]
    pub fn next(self) -> DrrTurn {
        let credit = if self.quantum == 0 { 0 } else { self.credit + i64::from(self.quantum) };
        DrrTurn { credit, ..self }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct DrrRing {
    /// The slots; their number is a power of two.
    turns: Vec<DrrTurn>,
    /// The first slot, which is never a gap, and the number of slots in use. `start` counts up; its lower bits are the index.
    start: u32,
    length: u32,
    /// The number of gaps, in total and by bin.
    gaps: u32,
    left: Vec<u8>,
    /// The turn up to which bins were prefetched.
    prefetched: u32,
}

impl DrrRing {
    /// A round with room for `bins` bins and some gaps.
    pub fn new(bins: usize) -> DrrRing {
        // A quarter more slots than bins, so that compaction is rare.
        let places = if bins == 0 { 0 } else { (bins + bins.div_ceil(4)).next_power_of_two() };
        let turns = alloc::vec![DrrTurn { credit: 0, bin: 0, quantum: 0 }; places];
        DrrRing { turns, start: 0, length: 0, gaps: 0, left: alloc::vec![0; bins], prefetched: 0 }
    }

    #[inline(always)]
    fn at(&self, place: u32) -> usize {
        // A mask, because the number of slots is a power of two. Without slots the index is out of bounds, and `get` finds none.
        place as usize & self.turns.len().wrapping_sub(1)
    }

    /// The number of slots in use, gaps included; zero if there would be only gaps.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// The present turn.
    #[inline(always)]
    pub fn first(&mut self) -> Option<&mut DrrTurn> {
        let at = self.at(self.start);
        if self.length == 0 { None } else { self.turns.get_mut(at) }
    }

    /// Prefetches the bins of the next turns and the slots that are read and written then.
    #[inline(always)]
    pub fn look_ahead<W: Wires>(&mut self, soon: &BinPrefetch<'_, W>) {
        if self.start.wrapping_sub(self.prefetched) >= TOGETHER {
            self.prefetch_next(soon);
        }
    }

    // A function of its own: it needs many registers, and runs once in four turns.
    #[inline(never)]
    fn prefetch_next<W: Wires>(&mut self, soon: &BinPrefetch<'_, W>) {
        // Aligned to a cache line of slots.
        self.prefetched = self.start & !(TOGETHER - 1);
        // With fewer bins each is used again so soon that it is still in the cache.
        if self.length < BINS + TOGETHER {
            return;
        }
        // The slots that are read soon, and those behind the last one that are written then.
        for place in [TURNS, self.length + TURNS] {
            self.turns
                .get(self.at(self.prefetched.wrapping_add(place)))
                .into_iter()
                .for_each(|turn| soon.prefetch(turn));
        }
        // The prefetch of a gap's bin is wasted.
        for turn in self.line_slots(BINS) {
            soon.prefetch_bin(turn.bin as usize);
        }
        if soon.looks() {
            for turn in self.line_slots(HEADS) {
                soon.prefetch_head(turn.bin as usize, turn.credit.max(0) as u32);
            }
        }
    }

    /// The slots of a cache line, `turns` turns ahead.
    #[inline(always)]
    fn line_slots(&self, turns: u32) -> &[DrrTurn] {
        let at = self.at(self.prefetched.wrapping_add(turns));
        self.turns.get(at..at + TOGETHER as usize).unwrap_or_default()
    }

    /// Appends a turn.
    #[inline]
    pub fn push(&mut self, turn: DrrTurn) {
        if self.len() == self.turns.len() {
            self.close_up();
        }
        let place = self.at(self.start.wrapping_add(self.length));
        self.turns[place] = turn;
        self.length += 1;
    }

    /// The first turn is over; its bin gets this turn at the end.
    #[inline(always)]
    pub fn requeue(&mut self, turn: DrrTurn) {
        // Written before `start` advances: in a full ring this is the slot of the first turn itself.
        let place = self.at(self.start.wrapping_add(self.length));
        self.turns[place] = turn;
        self.start = self.start.wrapping_add(1);
        if self.gaps > 0 {
            self.skip();
        }
    }

    /// Removes the first turn.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.start = self.start.wrapping_add(1);
        self.length -= 1;
        if self.gaps > 0 {
            self.skip();
        }
    }

    /// True if this slot is a gap, given that all slots before it were checked. The gap is then counted as removed.
    fn fill(&mut self, turn: DrrTurn) -> bool {
        let left = &mut self.left[turn.bin as usize];
        let gap = *left > 0;
        *left -= u8::from(gap);
        self.gaps -= u32::from(gap);
        gap
    }

    /// Removes the gaps before the first turn.
    #[cold]
    fn skip(&mut self) {
        while self.length > 0 && self.fill(self.turns[self.at(self.start)]) {
            self.start = self.start.wrapping_add(1);
            self.length -= 1;
        }
    }

    /// Removes a bin. Returns its turn if it was the first.
    #[inline]
    pub fn remove(&mut self, bin: usize) -> Option<DrrTurn> {
        let first = self.first().filter(|turn| turn.bin as usize == bin).copied();
        if first.is_some() {
            self.pop();
        } else {
            self.leave(bin);
        }
        first
    }

    #[cold]
    fn leave(&mut self, bin: usize) {
        self.left[bin] += 1;
        self.gaps += 1;
        // The counter is full: compact the ring before it overflows.
        if self.left[bin] == u8::MAX {
            self.close_up();
        }
    }

    /// Compacts the ring.
    #[cold]
    fn close_up(&mut self) {
        let mut kept = 0;
        for i in 0..self.length {
            let turn = self.turns[self.at(self.start.wrapping_add(i))];
            if !self.fill(turn) {
                let place = self.at(self.start.wrapping_add(kept));
                self.turns[place] = turn;
                kept += 1;
            }
        }
        self.length = kept;
    }

    /// Removes all turns.
    pub fn clear(&mut self) {
        (self.length, self.gaps) = (0, 0);
        self.left.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        /// Bins are appended, the first one is removed, or any.
        #[test]
        fn drr_ring_equals_queue_with_removal(steps in prop::collection::vec((0u32..12, 0u8..4), 1..600)) {
            let (mut round, mut oracle) = (DrrRing::new(12), VecDeque::new());
            for (bin, what) in steps {
                let waits = oracle.contains(&bin);
                match what {
                    0 | 1 if !waits => {
                        round.push(DrrTurn { bin, quantum: bin, credit: 0 });
                        oracle.push_back(bin);
                    }
                    2 if waits => {
                        let first = oracle.front() == Some(&bin);
                        prop_assert_eq!(round.remove(bin as usize).map(|turn| turn.bin), first.then_some(bin));
                        oracle.retain(|other| *other != bin);
                    }
                    3 if bin % 2 == 0 => if let Some(first) = oracle.pop_front() {
                        round.requeue(DrrTurn { bin: first, quantum: first, credit: 0 });
                        oracle.push_back(first);
                    },
                    3 if !oracle.is_empty() => {
                        round.pop();
                        oracle.pop_front();
                    }
                    _ => {}
                }
                prop_assert_eq!(round.first().map(|turn| turn.bin), oracle.front().copied());
                prop_assert_eq!(round.len() == 0, oracle.is_empty());
            }
            let seen = core::iter::from_fn(|| {
                let bin = round.first()?.bin;
                round.pop();
                Some(bin)
            });
            prop_assert!(seen.eq(oracle));
        }
    }
}
