//! Keys and rules as the tables compare them: words of bits, and lanes of 16 bits that rules bound by ranges.

/// The lanes of the last word of a key, from its low bits on.
const LANES: u32 = 4;
/// The highest bit of each lane.
const TOPS: u64 = 0x8000_8000_8000_8000;

/// The fields of one packet. The last word has four lanes of 16 bits (ports, length) that rules bound by ranges; in all others rules compare bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key<const W: usize>(pub [u64; W]);

impl<const W: usize> Default for Key<W> {
    fn default() -> Self {
        Key([0; W])
    }
}

/// The result of a rule for the packets that match it. It lies in the rule, so that reading it costs no further access of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RuleResult {
    /// The path, by its position in the generation.
    pub path: u16,
    /// The class for the queueing scheme.
    pub class: u16,
    /// The queue of the egress port.
    pub queue: u32,
    /// An action, numbered by the user of the table.
    pub action: u32,
    /// The counter of the rule.
    pub counter: u32,
}

/// A rule in the form that tables compare. It matches a key if all bits of its mask are equal and all lanes are within their ranges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TernaryRule<const W: usize> {
    /// The bits of the value; in the last word the lowest value of each lane.
    value: [u64; W],
    /// The bits that are compared; in the last word the highest value of each lane.
    mask: [u64; W],
    /// The rule with the lowest rank wins. Below `u32::MAX`.
    pub rank: u32,
    /// The result.
    pub result: RuleResult,
}

impl<const W: usize> TernaryRule<W> {
    /// A rule that matches every key.
    pub fn any(rank: u32, result: RuleResult) -> Self {
        let mut mask = [0; W];
        mask[W - 1] = u64::MAX;
        TernaryRule { value: [0; W], mask, rank, result }
    }

    /// Requires the bits of `mask` in word `word` to be as in `value`. The last word has lanes: see [`lane`](TernaryRule::lane).
    pub fn bits(mut self, word: usize, value: u64, mask: u64) -> Self {
        debug_assert!(word < W - 1);
        self.mask[word] |= mask;
        self.value[word] = self.value[word] & !mask | value & mask;
        self
    }

    /// Requires lane `lane` (0 to 3) to be within `range`.
    pub fn lane(mut self, lane: u32, range: std::ops::RangeInclusive<u16>) -> Self {
        debug_assert!(lane < LANES);
        let place = |word: u64, value: u16| word & !(0xffff << (lane * 16)) | u64::from(value) << (lane * 16);
        self.value[W - 1] = place(self.value[W - 1], *range.start());
        self.mask[W - 1] = place(self.mask[W - 1], *range.end());
        self
    }

    /// The bits of keys that the rule tests.
    pub(crate) fn tested(&self) -> Key<W> {
        let mut tested = Key(self.mask);
        let (low, high) = (self.value[W - 1], self.mask[W - 1]);
        tested.0[W - 1] = (0..LANES)
            .map(|lane| 0xffff << (lane * 16))
            .filter(|lane| low & lane != 0 || high & lane != *lane)
            .fold(0, |tested, lane| tested | lane);
        tested
    }

    /// True if the rule matches `key`.
    #[inline(always)]
    pub fn matches(&self, key: &Key<W>) -> bool {
        // Most rules that do not match differ in the first word, which has addresses.
        if (key.0[0] ^ self.value[0]) & self.mask[0] != 0 {
            return false;
        }
        let mut differing = 0;
        for w in 1..W - 1 {
            differing |= (key.0[w] ^ self.value[w]) & self.mask[w];
        }
        let (at, low, high) = (key.0[W - 1], self.value[W - 1], self.mask[W - 1]);
        differing | !(not_below(at, low) & not_below(high, at)) & TOPS == 0
    }

    /// A key that the rule matches, whose other bits and places in the ranges follow `free`. For tests and measurements: the headers to look up.
    pub fn key_with(&self, free: [u64; W]) -> Key<W> {
        let mut key = Key(free);
        for ((word, value), mask) in key.0.iter_mut().zip(self.value).zip(self.mask).take(W - 1) {
            *word = *word & !mask | value;
        }
        key.0[W - 1] = (0..LANES).fold(0, |word, lane| {
            let of = |word: u64| word >> (lane * 16) & 0xffff;
            let (low, high) = (of(self.value[W - 1]), of(self.mask[W - 1]));
            word | (low + of(free[W - 1]) % (high.saturating_sub(low) + 1)) << (lane * 16)
        });
        key
    }

    /// The bits of word `word` that a matching key must have, and which of them: of a lane, the leading bits that its whole range shares.
    #[inline(always)]
    pub fn fixed_bits(&self, word: usize) -> (u64, u64) {
        let (value, mask) = (self.value[word], self.mask[word]);
        if word < W - 1 {
            return (value, mask);
        }
        let mut shared = !(value ^ mask);
        // Within each lane a bit counts only if all bits above it count: the zeros spread downwards.
        for step in [1, 2, 4, 8] {
            shared &= shared >> step | TOP_BITS[step as usize];
        }
        (value & shared, shared)
    }

    /// The order of rules in lists: by rank, then by the words, so that equal rules stand together.
    pub(crate) fn order(&self) -> (u32, [u64; W], [u64; W]) {
        (self.rank, self.value, self.mask)
    }

    /// True if no key can match: a range ends before it begins.
    pub fn is_empty(&self) -> bool {
        not_below(self.mask[W - 1], self.value[W - 1]) & TOPS != TOPS
    }
}

/// For a shift of `step`, the highest `step` bits of each lane: nothing within the lane lies above them.
const TOP_BITS: [u64; 9] = {
    let mut bits = [0; 9];
    let mut step = 1;
    while step < 9 {
        let lane = 0xffff << (16 - step) & 0xffff;
        bits[step] = lane | lane << 16 | lane << 32 | lane << 48;
        step += 1;
    }
    bits
};

/// Compares the lanes of two words at once: the highest bit of a lane of the result is set if that lane of `a` is at least that of `b` (Warren,
/// Hacker's Delight, 2-18).
#[inline(always)]
fn not_below(a: u64, b: u64) -> u64 {
    let low_parts = (a | TOPS).wrapping_sub(b & !TOPS);
    a & !b | !(a ^ b) & low_parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lanes(word: u64) -> [u16; 4] {
        [word as u16, (word >> 16) as u16, (word >> 32) as u16, (word >> 48) as u16]
    }

    proptest! {
        #[test]
        fn lanes_compare_as_numbers(a: u64, b: u64, same in 0u64..4) {
            // Equal lanes are seldom among random ones.
            let b = b & !(0xffff << (same * 16)) | a & 0xffff << (same * 16);
            let bits = not_below(a, b);
            for (lane, (a, b)) in lanes(a).into_iter().zip(lanes(b)).enumerate() {
                prop_assert_eq!(bits >> (lane * 16 + 15) & 1 == 1, a >= b);
            }
        }

        #[test]
        fn rule_matches_what_its_words_and_lanes_say(
            value: u64, mask: u64, low: [u16; 4], more: [u8; 4], key: u64, ports: [u16; 4], near in 0u8..2,
        ) {
            let key = if near == 1 { value & mask | key & !mask } else { key };
            let mut rule = TernaryRule::<2>::any(0, RuleResult::default()).bits(0, value, mask);
            let high: Vec<u16> = low.iter().zip(more).map(|(low, more)| low.saturating_add(more.into())).collect();
            let mut word = 0;
            let mut within = (key ^ value) & mask == 0;
            for lane in 0..4 {
                rule = rule.lane(lane as u32, low[lane]..=high[lane]);
                let port = if near == 1 { low[lane].saturating_add(ports[lane] % 300) } else { ports[lane] };
                word |= u64::from(port) << (lane * 16);
                within &= low[lane] <= port && port <= high[lane];
            }
            prop_assert_eq!(rule.matches(&Key([key, word])), within);
        }

        #[test]
        fn fixed_bits_of_a_lane_are_what_its_range_shares(low: u16, more: u16) {
            let high = low.saturating_add(more >> (more % 16));
            let rule = TernaryRule::<2>::any(0, RuleResult::default()).lane(2, low..=high);
            let (value, fixed) = rule.fixed_bits(1);
            let shared = (low ^ high).leading_zeros();
            prop_assert_eq!((fixed >> 32) as u16, !(0xffffu32 >> shared) as u16);
            prop_assert_eq!((value >> 32) as u16, low & (fixed >> 32) as u16);
            prop_assert_eq!(fixed & !(0xffff << 32), 0);
        }
    }

    #[test]
    fn rule_with_a_range_that_ends_before_it_begins_is_empty() {
        let wide = TernaryRule::<2>::any(0, RuleResult::default()).bits(0, 0xa0, 0xf0).lane(0, 10..=20);
        let (first, last) = (5, 4);
        assert!(wide.lane(1, first..=last).is_empty() && !wide.is_empty());
    }
}
