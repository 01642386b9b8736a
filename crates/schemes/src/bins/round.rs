//! The bins that wait for their turns, in the order of these, in a ring.
//!
//! A bin that goes before its turn leaves a gap, which is skipped when its turn comes; where the ring is full of them they are closed
//! up, once for as many as make up a part of it.

use crate::Wires;
use alloc::vec::Vec;

/// No bin: a gap.
const GONE: u32 = u32::MAX;
/// So many turns ahead memory is fetched: more than anybody asks for.
const AHEAD: u32 = 48;

/// A bin in the round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Turn {
    /// Which.
    pub bin: u32,
    /// Bytes of its turn.
    pub quantum: u32,
    /// Bytes it may send before the next has its turn.
    pub credit: i64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Round {
    /// As many as a power of two.
    turns: Vec<Turn>,
    /// The first, which is no gap, and how many there are from it on. Counted up; only the lower bits say where.
    start: u32,
    length: u32,
}

impl Round {
    /// With room for so many bins, and gaps.
    pub fn new(bins: usize) -> Round {
        let places = if bins == 0 { 0 } else { (bins + bins.div_ceil(4)).next_power_of_two() };
        Round { turns: alloc::vec![Turn { bin: GONE, quantum: 0, credit: 0 }; places], start: 0, length: 0 }
    }

    #[inline(always)]
    fn at(&self, place: u32) -> usize {
        place as usize & self.turns.len().wrapping_sub(1)
    }

    /// How many there are, gaps included.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there is no room at the end.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len() == self.turns.len()
    }

    /// Whose turn it is.
    #[inline(always)]
    pub fn first(&mut self) -> Option<&mut Turn> {
        let at = self.at(self.start);
        if self.length == 0 { None } else { self.turns.get_mut(at) }
    }

    /// Who has its turn so many behind the first, as long as nobody comes or goes.
    #[inline(always)]
    pub fn behind(&self, turns: usize) -> Option<&Turn> {
        if turns >= self.len() {
            return None;
        }
        self.turns.get(self.at(self.start.wrapping_add(turns as u32))).filter(|turn| turn.bin != GONE)
    }

    /// Fetches what the next turns are read from, and written to.
    #[inline(always)]
    pub fn fetch<W: Wires>(&self, wires: &W) {
        for place in [AHEAD, self.length + AHEAD] {
            if let Some(turn) = self.turns.get(self.at(self.start.wrapping_add(place))) {
                wires.fetch(turn);
            }
        }
    }

    /// Puts one at the end, where there must be room. Answers its place.
    #[inline(always)]
    pub fn push(&mut self, turn: Turn) -> u32 {
        let place = self.at(self.start.wrapping_add(self.length));
        self.turns[place] = turn;
        self.length += 1;
        place as u32
    }

    /// The first goes.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.start = self.start.wrapping_add(1);
        self.length -= 1;
        while self.length > 0 && self.turns[self.at(self.start)].bin == GONE {
            self.start = self.start.wrapping_add(1);
            self.length -= 1;
        }
    }

    /// The one at a place goes.
    #[inline]
    pub fn remove(&mut self, place: u32) -> Turn {
        let turn = self.turns[place as usize];
        if self.at(self.start) == place as usize {
            self.pop();
        } else {
            self.turns[place as usize].bin = GONE;
        }
        turn
    }

    /// Closes the gaps; `moved` is told of every bin and its new place.
    #[cold]
    pub fn close_up(&mut self, mut moved: impl FnMut(u32, u32)) {
        let mut kept = 0;
        for i in 0..self.length {
            let turn = self.turns[self.at(self.start.wrapping_add(i))];
            if turn.bin != GONE {
                let place = self.at(self.start.wrapping_add(kept));
                self.turns[place] = turn;
                moved(turn.bin, place as u32);
                kept += 1;
            }
        }
        self.length = kept;
    }

    /// All go.
    pub fn clear(&mut self) {
        self.length = 0;
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
            let mut places = [0u32; 12];
            for (bin, what) in steps {
                let waits = oracle.contains(&bin);
                match what {
                    0 | 1 if !waits => {
                        if round.is_full() {
                            round.close_up(|bin, place| places[bin as usize] = place);
                        }
                        places[bin as usize] = round.push(Turn { bin, quantum: bin, credit: 0 });
                        oracle.push_back(bin);
                    }
                    2 if waits => {
                        prop_assert_eq!(round.remove(places[bin as usize]).bin, bin);
                        oracle.retain(|other| *other != bin);
                    }
                    3 if !oracle.is_empty() => {
                        round.pop();
                        oracle.pop_front();
                    }
                    _ => {}
                }
                prop_assert_eq!(round.first().map(|turn| turn.bin), oracle.front().copied());
                let seen: Vec<u32> = (0..round.len()).filter_map(|turns| round.behind(turns)).map(|turn| turn.bin).collect();
                prop_assert!(seen.iter().eq(oracle.iter()), "{:?}", seen);
            }
        }
    }
}
