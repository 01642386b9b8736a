//! The bins that wait for their turns, in the order of these, in a ring.
//!
//! A bin that goes before its turn leaves a gap. Which gap is known by counting: of the turns that a bin has here, so many of the first
//! are not its own any more. So a turn that is over is moved to the end without saying where to anybody, and only bins that come or
//! go early write anything else. Where the ring is full of gaps they are closed up, once for as many as make up a part of it.

use super::Soon;
use crate::Wires;
use alloc::vec::Vec;

/// So many turns ahead a bin is fetched, and then its first packets.
const BINS: u32 = 16;
const HEADS: u32 = 8;
/// The same for the turns themselves.
const TURNS: u32 = 48;
/// So many turns are looked at together: a cache line of them.
const TOGETHER: u32 = 4;

/// A bin in the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// Bytes it may send before the next has its turn.
    pub credit: i64,
    /// Which.
    pub bin: u32,
    /// Bytes of its turn; none where a turn is a packet.
    pub quantum: u32,
}

impl Turn {
    /// Whether it is not over.
    #[inline(always)]
    pub fn goes_on(self) -> bool {
        self.credit > 0 || self.quantum == 0 && self.credit == 0
    }

    /// The bin's next one: as many quanta as it takes to have credit again are given in the turns to come.
    #[inline(always)]
    pub fn next(self) -> Turn {
        let credit = if self.quantum == 0 { 0 } else { self.credit + i64::from(self.quantum) };
        Turn { credit, ..self }
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// As many as a power of two.
    turns: Vec<Turn>,
    /// The first, which is no gap, and how many there are from it on. Counted up; only the lower bits say where.
    start: u32,
    length: u32,
    /// How many of those are gaps; by bin.
    gaps: u32,
    left: Vec<u8>,
    /// Up to where turns were looked at.
    looked: u32,
}

impl Round {
    /// With room for so many bins, and gaps.
    pub fn new(bins: usize) -> Round {
        let places = if bins == 0 { 0 } else { (bins + bins.div_ceil(4)).next_power_of_two() };
        let turns = alloc::vec![Turn { credit: 0, bin: 0, quantum: 0 }; places];
        Round { turns, start: 0, length: 0, gaps: 0, left: alloc::vec![0; bins], looked: 0 }
    }

    #[inline(always)]
    fn at(&self, place: u32) -> usize {
        place as usize & self.turns.len().wrapping_sub(1)
    }

    /// How many there are, gaps included; none where all would be gaps.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whose turn it is.
    #[inline(always)]
    pub fn first(&mut self) -> Option<&mut Turn> {
        let at = self.at(self.start);
        if self.length == 0 { None } else { self.turns.get_mut(at) }
    }

    /// Has the bins fetched whose turns are next, and what these are read from and written to.
    #[inline(always)]
    pub fn look_ahead<W: Wires>(&mut self, soon: &Soon<'_, W>) {
        if self.start.wrapping_sub(self.looked) >= TOGETHER {
            self.look(soon);
        }
    }

    // By itself: what it takes in registers is much, and seldom needed.
    #[inline(never)]
    fn look<W: Wires>(&mut self, soon: &Soon<'_, W>) {
        self.looked = self.start & !(TOGETHER - 1);
        // Fewer are so soon back that they are still near.
        if self.length < BINS + TOGETHER {
            return;
        }
        for place in [TURNS, self.length + TURNS] {
            self.turns.get(self.at(self.looked.wrapping_add(place))).into_iter().for_each(|turn| soon.fetch(turn));
        }
        // A gap's bin is fetched for nothing.
        for turn in self.together(BINS) {
            soon.bin(turn.bin as usize);
        }
        if soon.looks() {
            for turn in self.together(HEADS) {
                soon.head(turn.bin as usize, turn.credit.max(0) as u32);
            }
        }
    }

    /// Those that are looked at together, so many turns ahead.
    #[inline(always)]
    fn together(&self, turns: u32) -> &[Turn] {
        let at = self.at(self.looked.wrapping_add(turns));
        self.turns.get(at..at + TOGETHER as usize).unwrap_or_default()
    }

    /// Puts one at the end.
    #[inline]
    pub fn push(&mut self, turn: Turn) {
        if self.len() == self.turns.len() {
            self.close_up();
        }
        let place = self.at(self.start.wrapping_add(self.length));
        self.turns[place] = turn;
        self.length += 1;
    }

    /// The first turn is over, and its bin has this one at the end.
    #[inline(always)]
    pub fn again(&mut self, turn: Turn) {
        let place = self.at(self.start.wrapping_add(self.length));
        self.turns[place] = turn;
        self.start = self.start.wrapping_add(1);
        if self.gaps > 0 {
            self.skip();
        }
    }

    /// The first goes.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.start = self.start.wrapping_add(1);
        self.length -= 1;
        if self.gaps > 0 {
            self.skip();
        }
    }

    /// Whether a turn is a gap, where all before it have been looked at: it is none any more then.
    fn fill(&mut self, turn: Turn) -> bool {
        let left = &mut self.left[turn.bin as usize];
        let gap = *left > 0;
        *left -= u8::from(gap);
        self.gaps -= u32::from(gap);
        gap
    }

    /// The gaps before the first turn that is none go.
    #[cold]
    fn skip(&mut self) {
        while self.length > 0 && self.fill(self.turns[self.at(self.start)]) {
            self.start = self.start.wrapping_add(1);
            self.length -= 1;
        }
    }

    /// A bin goes that has its turn here; answers that where it was the first.
    #[inline]
    pub fn remove(&mut self, bin: usize) -> Option<Turn> {
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
        if self.left[bin] == u8::MAX {
            self.close_up();
        }
    }

    /// Closes the gaps.
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

    /// All go.
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
        /// Bins come at the end, the first goes, or any.
        #[test]
        fn a_round_is_a_queue_that_one_may_leave(steps in prop::collection::vec((0u32..12, 0u8..4), 1..600)) {
            let (mut round, mut oracle) = (Round::new(12), VecDeque::new());
            for (bin, what) in steps {
                let waits = oracle.contains(&bin);
                match what {
                    0 | 1 if !waits => {
                        round.push(Turn { bin, quantum: bin, credit: 0 });
                        oracle.push_back(bin);
                    }
                    2 if waits => {
                        let first = oracle.front() == Some(&bin);
                        prop_assert_eq!(round.remove(bin as usize).map(|turn| turn.bin), first.then_some(bin));
                        oracle.retain(|other| *other != bin);
                    }
                    3 if bin % 2 == 0 => if let Some(first) = oracle.pop_front() {
                        round.again(Turn { bin: first, quantum: first, credit: 0 });
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
