//! Two sets of flows, and the first flow of their intersection.
//!
//! Both sets are bitmaps of 64-bit words. Above them a tree of words with 64 children each marks the words in which *both* sets have a common flow. A summary
//! of each set alone would not do: with the even flows in one set and the odd ones in the other, a search would read all words. So a search reads at
//! most two words a level, at most four levels for 2^24 flows, wherever the next flow is.

use alloc::vec::Vec;

/// The bits of a word.
const WIDTH: usize = 64;

/// The words that are not zero, as a tree with 64 children a node.
#[derive(Clone, Debug, Default)]
struct Summary {
    /// The lowest level has a bit for each word, each level above a bit for each word of the one below.
    levels: Vec<Vec<u64>>,
}

impl Summary {
    fn grow(&mut self, words: usize) {
        let mut words = words;
        for level in 0.. {
            words = words.div_ceil(WIDTH);
            if self.levels.len() == level {
                // A new level begins with what the one below has so far.
                let below = level.checked_sub(1).and_then(|below| self.levels[below].first());
                let first = below.map_or(0, |word| u64::from(*word != 0));
                self.levels.push(alloc::vec![first]);
            }
            let longer = words.max(self.levels[level].len());
            self.levels[level].resize(longer, 0);
            if words <= 1 {
                break;
            }
        }
    }

    /// Notes whether a word is zero. Only the first and the last bit of a word change the level above.
    #[inline(always)]
    fn set(&mut self, mut at: usize, mut occupied: bool) {
        for words in &mut self.levels {
            let word = &mut words[at / WIDTH];
            let before = *word != 0;
            let bit = 1 << (at % WIDTH);
            *word = if occupied { *word | bit } else { *word & !bit };
            occupied = *word != 0;
            if before == occupied {
                return;
            }
            at /= WIDTH;
        }
    }

    /// The first word from `at` on that is not zero, and the words read.
    #[inline(always)]
    fn next(&self, mut at: usize) -> (Option<usize>, u64) {
        let mut reads = 0;
        for (level, words) in self.levels.iter().enumerate() {
            let Some(word) = words.get(at / WIDTH) else { break };
            reads += 1;
            let rest = word >> (at % WIDTH);
            if rest != 0 {
                at += rest.trailing_zeros() as usize;
                for below in self.levels[..level].iter().rev() {
                    reads += 1;
                    at = at * WIDTH + below[at].trailing_zeros() as usize;
                }
                return (Some(at), reads);
            }
            at = at / WIDTH + 1;
        }
        (None, reads)
    }
}

/// The membership of 64 flows: the words of both sets, which are used together.
#[derive(Clone, Copy, Debug, Default)]
struct Words {
    backlogged: u64,
    eligible: u64,
}

impl Words {
    #[inline(always)]
    fn ready(self) -> u64 {
        self.backlogged & self.eligible
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct FlowSets {
    words: Vec<Words>,
    /// The words with flows that are in both.
    ready: Summary,
    /// The words with backlogged flows.
    waiting: Summary,
    /// The words read so far by searches.
    pub reads: u64,
}

#[inline(always)]
fn place(flow: u32) -> (usize, u64) {
    (flow as usize / WIDTH, 1 << (flow as usize % WIDTH))
}

#[inline(always)]
fn set(word: &mut u64, bit: u64, is: bool) {
    *word = if is { *word | bit } else { *word & !bit };
}

/// The first set bit of a word from the bit of `flow` on.
#[inline(always)]
fn in_word(word: u64, flow: u32) -> Option<u32> {
    let rest = word >> (flow as usize % WIDTH);
    (rest != 0).then(|| flow + rest.trailing_zeros())
}

impl FlowSets {
    /// Makes room for flows below `flows`.
    pub fn grow(&mut self, flows: usize) {
        let words = flows.div_ceil(WIDTH).max(self.words.len());
        self.words.resize(words, Words::default());
        self.ready.grow(words);
        self.waiting.grow(words);
    }

    /// Changes the words of 64 flows. The summaries change only with the first and the last flow of a word.
    #[inline(always)]
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Words)) {
        let words = &mut self.words[at];
        let before = *words;
        change(words);
        let after = *words;
        if (before.backlogged == 0) != (after.backlogged == 0) {
            self.waiting.set(at, after.backlogged != 0);
        }
        if (before.ready() == 0) != (after.ready() == 0) {
            self.ready.set(at, after.ready() != 0);
        }
    }

    /// Adds a flow to the backlogged ones, or removes it.
    #[inline(always)]
    pub fn set_backlogged(&mut self, flow: u32, is: bool) {
        let (at, bit) = place(flow);
        self.change(at, |words| set(&mut words.backlogged, bit, is));
    }

    /// Adds a flow to the eligible ones, or removes it.
    #[inline(always)]
    pub fn set_eligible(&mut self, flow: u32, is: bool) {
        let (at, bit) = place(flow);
        self.change(at, |words| set(&mut words.eligible, bit, is));
    }

    /// Adds the flows of these bits of a word to the eligible ones.
    #[inline]
    pub fn add_eligible(&mut self, word: usize, bits: u64) {
        self.change(word, |words| words.eligible |= bits);
    }

    /// True if the flow is eligible.
    #[inline(always)]
    pub fn is_eligible(&self, flow: u32) -> bool {
        let (at, bit) = place(flow);
        self.words[at].eligible & bit != 0
    }

    /// The first flow from `flow` on that is backlogged and eligible.
    #[inline(always)]
    pub fn next_ready(&mut self, flow: u32) -> Option<u32> {
        let at = flow as usize / WIDTH;
        let word = self.words.get(at)?.ready();
        self.reads += 1;
        if let Some(found) = in_word(word, flow) {
            return Some(found);
        }
        let (found, reads) = self.ready.next(at + 1);
        self.reads += reads;
        let at = found?;
        Some((at * WIDTH) as u32 + self.words[at].ready().trailing_zeros())
    }

    /// The first flow from `flow` on that is backlogged.
    #[inline(always)]
    pub fn next_backlogged(&mut self, flow: u32) -> Option<u32> {
        let at = flow as usize / WIDTH;
        let word = self.words.get(at)?.backlogged;
        self.reads += 1;
        if let Some(found) = in_word(word, flow) {
            return Some(found);
        }
        let (found, reads) = self.waiting.next(at + 1);
        self.reads += reads;
        let at = found?;
        Some((at * WIDTH) as u32 + self.words[at].backlogged.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn searches_equal_those_of_ordered_sets(
            sizes in prop::collection::vec(1usize..20_000, 1..4),
            changes in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 1u32..200), 1..200),
        ) {
            let mut sets = FlowSets::default();
            let (mut backlogged, mut eligible) = (BTreeSet::new(), BTreeSet::new());
            let mut flows = 0;
            for (number, (what, index, stretch)) in changes.iter().enumerate() {
                if number % 80 == 0 && let Some(size) = sizes.get(number / 80) {
                    flows = flows.max(*size);
                    sets.grow(flows);
                }
                let first = index.index(flows) as u32;
                for flow in (first..flows as u32).take(*stretch as usize).step_by(1 + *what as usize % 3) {
                    match what {
                        0 => { sets.set_backlogged(flow, true); backlogged.insert(flow); }
                        1 => { sets.set_eligible(flow, true); eligible.insert(flow); }
                        2 => { sets.set_backlogged(flow, false); backlogged.remove(&flow); }
                        _ => { sets.set_eligible(flow, false); eligible.remove(&flow); }
                    }
                    prop_assert_eq!(sets.is_eligible(flow), eligible.contains(&flow));
                }
                for from in [0, first, first.saturating_sub(*stretch), first + stretch, flows as u32] {
                    let ready = backlogged.range(from..).find(|flow| eligible.contains(flow)).copied();
                    prop_assert_eq!(sets.next_ready(from), ready);
                    prop_assert_eq!(sets.next_backlogged(from), backlogged.range(from..).next().copied());
                }
            }
        }
    }

    /// The worst case for summaries of each set alone.
    #[test]
    fn disjoint_sets_cost_a_few_reads() {
        let mut sets = FlowSets::default();
        sets.grow(1 << 17);
        for flow in 0..1 << 17 {
            if flow % 2 == 0 { sets.set_backlogged(flow, true) } else { sets.set_eligible(flow, true) }
        }
        sets.set_eligible((1 << 17) - 2, true);
        sets.reads = 0;
        assert_eq!(sets.next_ready(0), Some((1 << 17) - 2));
        assert!(sets.reads <= 8, "{} words", sets.reads);
    }
}
