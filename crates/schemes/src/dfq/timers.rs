//! The ends of the service cycles of flows without credit: a hierarchical timing wheel (Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", SOSP
//! 1987, scheme 7) whose slots are bitmaps of flows.
//!
//! Service cycles end in the order in which packets arrived. A list of flows in that order leads from one cache miss to the next: with 100,000 flows it
//! took 50 to 100 ns a flow. A bitmap is read in the order of the flows, 64 at once. The wheel stores no times, because the caller knows when a flow's
//! service cycle ends.

use alloc::vec::Vec;
use units::Instant;

/// The resolution: 2^10 nanoseconds. A timer ends up to a tick early, so that a service cycle of a whole number of cycles is over in time.
const TICK_BITS: u32 = 10;
/// The slots of a level are the values of this many bits of a tick.
const DIGIT_BITS: u32 = 4;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 12;
/// Ticks beyond this many bits, about nine years from the start, never come.
const HORIZON_BITS: u32 = DIGIT_BITS * LEVELS as u32;
/// The bits of a word.
const WIDTH: usize = 64;

/// A flow waits on the level of the highest digit in which its tick differs from the wheel's. So the slot of a flow follows from both ticks.
#[derive(Debug, Default)]
pub(super) struct ServiceTimers {
    /// By slot, in rows of `words`: the flows whose timers end in it.
    flows: Vec<u64>,
    /// By slot, in rows of a bit for each word: the words with flows. Words whose timers were all stopped may be among them.
    occupied_words: Vec<u64>,
    words: usize,
    /// By level: the slots with flows. As above, slots without may be among them.
    occupied: [u16; LEVELS],
    /// The present tick: no timer has an earlier one.
    tick: u64,
    /// No timer ends before this tick.
    next: u64,
}

impl ServiceTimers {
    /// Makes room for flows below `flows`.
    pub fn grow(&mut self, flows: usize) {
        let words = flows.div_ceil(WIDTH);
        if words > self.words {
            let words = words.next_power_of_two();
            widen(&mut self.flows, self.words, words);
            widen(&mut self.occupied_words, self.words.div_ceil(WIDTH), words.div_ceil(WIDTH));
            self.words = words;
        }
    }

    /// The slot of a tick.
    #[inline(always)]
    fn slot(&self, tick: u64) -> usize {
        let tick = tick.max(self.tick);
        let differing = tick ^ self.tick;
        // The highest digit that differs; of equal ticks the lowest digit.
        let level = (u64::BITS - 1 - (differing | 1).leading_zeros()) / DIGIT_BITS;
        level as usize * SLOTS + (tick >> (level * DIGIT_BITS)) as usize % SLOTS
    }

    /// Starts the timer of a flow, which does not run.
    #[inline]
    pub fn start(&mut self, flow: u32, ends: Instant) {
        let tick = ends.get() >> TICK_BITS;
        if tick >> HORIZON_BITS != 0 {
            return;
        }
        self.next = self.next.min(tick);
        self.insert(flow as usize / WIDTH, 1 << (flow as usize % WIDTH), tick);
    }

    #[inline(always)]
    fn insert(&mut self, word: usize, bit: u64, tick: u64) {
        let slot = self.slot(tick);
        self.flows[slot * self.words + word] |= bit;
        self.occupied_words[slot * self.words.div_ceil(WIDTH) + word / WIDTH] |= 1 << (word % WIDTH);
        self.occupied[slot / SLOTS] |= 1 << (slot % SLOTS);
    }

    /// Stops the timer of a flow, if it runs. `ends` is the time with which it was started.
    #[inline]
    pub fn stop(&mut self, flow: u32, ends: Instant) {
        let tick = ends.get() >> TICK_BITS;
        if tick >> HORIZON_BITS == 0 {
            let slot = self.slot(tick);
            self.flows[slot * self.words + flow as usize / WIDTH] &= !(1 << (flow as usize % WIDTH));
        }
    }

    /// True if [`ServiceTimers::expire`] may find flows at this time.
    #[inline(always)]
    pub fn is_due(&self, now: Instant) -> bool {
        now.get() >> TICK_BITS >= self.next
    }

    /// Stops all timers that have ended, and calls `ended` for each word of 64 flows among which some have: with its number, and their bits. `ends` returns
    /// the time with which the timer of a flow was started.
    pub fn expire(&mut self, now: Instant, ends: impl Fn(u32) -> Instant, mut ended: impl FnMut(usize, u64)) {
        let present = now.get() >> TICK_BITS;
        if present < self.tick {
            return;
        }
        let before = core::mem::replace(&mut self.tick, present);
        for level in 0..LEVELS {
            while let Some(begin) = self.first_slot(level, before).filter(|begin| *begin <= present) {
                let shift = level as u32 * DIGIT_BITS;
                let slot = level * SLOTS + (begin >> shift) as usize % SLOTS;
                self.occupied[level] &= !(1 << (slot % SLOTS));
                // Timers of the present slot may end later. They move to lower levels, which are done.
                self.take(slot, (present - begin) >> shift > 0 || level == 0, &ends, &mut ended);
            }
        }
        let level = (0..LEVELS).find(|level| self.occupied[*level] != 0);
        self.next = level.and_then(|level| self.first_slot(level, present)).unwrap_or(u64::MAX);
    }

    /// The first tick of the first slot with flows on a level. All its flows have the higher digits of `tick`.
    fn first_slot(&self, level: usize, tick: u64) -> Option<u64> {
        let shift = level as u32 * DIGIT_BITS;
        let above = tick >> shift >> DIGIT_BITS << DIGIT_BITS << shift;
        (self.occupied[level] != 0).then(|| above | u64::from(self.occupied[level].trailing_zeros()) << shift)
    }

    /// Empties a slot that has begun. If it is `over`, all its timers have ended.
    fn take(&mut self, slot: usize, over: bool, ends: &impl Fn(u32) -> Instant, ended: &mut impl FnMut(usize, u64)) {
        let groups = self.words.div_ceil(WIDTH);
        for group in 0..groups {
            let mut words = core::mem::take(&mut self.occupied_words[slot * groups + group]);
            while words != 0 {
                let word = group * WIDTH + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut flows = core::mem::take(&mut self.flows[slot * self.words + word]);
                if !over {
                    flows &= !self.postpone(word, flows, ends);
                }
                if flows != 0 {
                    ended(word, flows);
                }
            }
        }
    }

    /// Starts the timers of those flows of a word anew that end after the present tick, and returns their bits.
    fn postpone(&mut self, word: usize, mut flows: u64, ends: &impl Fn(u32) -> Instant) -> u64 {
        let mut later = 0;
        while flows != 0 {
            let bit = flows & flows.wrapping_neg();
            flows ^= bit;
            let tick = ends((word * WIDTH) as u32 + bit.trailing_zeros()).get() >> TICK_BITS;
            if tick > self.tick {
                self.insert(word, bit, tick);
                later |= bit;
            }
        }
        later
    }
}

/// Copies rows of `before` words, one for each slot, to rows of `after` words.
fn widen(rows: &mut Vec<u64>, before: usize, after: usize) {
    // Memory that the allocator has from the kernel is in use only where a row is.
    let mut wider = alloc::vec![0; LEVELS * SLOTS * after];
    for (slot, row) in rows.chunks_exact(before.max(1)).enumerate() {
        if row.iter().any(|word| *word != 0) {
            wider[slot * after..][..before].copy_from_slice(row);
        }
    }
    *rows = wider;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;
    use units::Nanos;

    const FLOWS: u32 = 300;

    proptest! {
        #[test]
        fn timers_end_as_those_of_a_list_do(
            steps in prop::collection::vec(
                (0..FLOWS, 1u32..100, prop_oneof![0u64..5000, 0u64..10_000_000, 0u64..1 << 50, Just(u64::MAX)], 0u8..4),
                1..200,
            ),
        ) {
            let mut timers = ServiceTimers::default();
            timers.grow(1);
            let (mut oracle, mut now) = ([None::<Instant>; FLOWS as usize], Instant::START);
            for (number, (first, stretch, span, kind)) in steps.into_iter().enumerate() {
                // The wheel grows while timers run.
                timers.grow((number * 20).max(first as usize + 1).min(FLOWS as usize));
                match kind {
                    0 | 1 => {
                        let ends = now + Nanos::new(span);
                        if let Some(before) = oracle[first as usize].replace(ends) {
                            timers.stop(first, before);
                        }
                        timers.start(first, ends);
                    }
                    2 => {
                        for flow in (0..FLOWS).skip(first as usize).step_by(stretch as usize) {
                            if let Some(before) = oracle[flow as usize].take() {
                                timers.stop(flow, before);
                            }
                        }
                    }
                    _ => {
                        now += Nanos::new(span / 16 % (1 << 46));
                        let ends = |flow: u32| oracle[flow as usize].unwrap();
                        let is_over = |flow: &u32| {
                            oracle[*flow as usize].is_some_and(|ends| ends.get() >> TICK_BITS <= now.get() >> TICK_BITS)
                        };
                        let expected: BTreeSet<u32> = (0..FLOWS).filter(is_over).collect();
                        prop_assert!(expected.is_empty() || timers.is_due(now));
                        let mut found = BTreeSet::new();
                        timers.expire(now, ends, |word, bits| {
                            let flows = (0..64).filter(|bit| bits >> bit & 1 != 0).map(|bit| word as u32 * 64 + bit);
                            flows.for_each(|flow| assert!(found.insert(flow), "flow {flow} ends twice"));
                        });
                        prop_assert_eq!(&found, &expected);
                        found.iter().for_each(|flow| oracle[*flow as usize] = None);
                    }
                }
            }
        }
    }
}
