//! The bits by which a partition spreads its rules over buckets, and how they are chosen.

use crate::rule::{Key, TernaryRule};

/// Rules with more than this number of selected bits that they leave open do not go into a partition: they would lie in too many buckets.
pub(crate) const MOST_OPEN: u32 = 3;

/// Selected bits of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Selector<const W: usize> {
    pub masks: [u64; W],
}

/// An odd number with well mixed bits (2^64 divided by the golden ratio; Knuth, TAOCP 3, 6.4).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Multiplies and adds both halves of the product, which depend on all bits together (as wyhash does).
#[inline(always)]
fn fold(bits: u64) -> u64 {
    let product = u128::from(bits ^ SALT) * u128::from(MIX);
    product as u64 ^ (product >> 64) as u64
}

/// Any number without regularity: zero bits must not give zero.
const SALT: u64 = 0x2545_f491_4f6c_dd1d;

impl<const W: usize> Selector<W> {
    /// No bits.
    pub const NONE: Self = Selector { masks: [0; W] };

    /// A number of the selected bits of a key, well mixed in its high bits.
    #[inline(always)]
    pub fn hash(&self, key: &Key<W>) -> u64 {
        let mut hash = 0;
        for w in 0..W {
            // The same branch for all keys of a batch.
            if self.masks[w] != 0 {
                hash = fold(hash ^ key.0[w] & self.masks[w]);
            }
        }
        hash
    }

    /// The number of selected bits that `rule` leaves open.
    pub fn open_bits(&self, rule: &TernaryRule<W>) -> u32 {
        (0..W).map(|w| (self.masks[w] & !rule.fixed_bits(w).1).count_ones()).sum()
    }

    /// The hashes of all values that the selected bits of a matching key may have: one for each combination of the open bits.
    pub fn hashes<'a>(&'a self, rule: &'a TernaryRule<W>) -> impl Iterator<Item = u64> + 'a {
        let mut key = Key([0; W]);
        let mut open = Vec::new();
        for w in 0..W {
            let (value, fixed) = rule.fixed_bits(w);
            key.0[w] = value & fixed & self.masks[w];
            let mut bits = self.masks[w] & !fixed;
            while bits != 0 {
                open.push((w, bits & bits.wrapping_neg()));
                bits &= bits - 1;
            }
        }
        (0..1u32 << open.len()).map(move |combination| {
            let mut key = key;
            for (i, (w, bit)) in open.iter().enumerate() {
                if combination >> i & 1 == 1 {
                    key.0[*w] |= bit;
                }
            }
            self.hash(&key)
        })
    }

    /// The number of selected bits.
    pub fn width(&self) -> u32 {
        self.masks.iter().map(|mask| mask.count_ones()).sum()
    }

    /// Chooses the bits for a partition of `rules`, or `None` if no choice separates them.
    pub fn choose(rules: &[TernaryRule<W>]) -> Option<Self> {
        let step = rules.len().div_ceil(SAMPLE).max(1);
        let sample: Vec<Sampled<W>> = rules.iter().step_by(step).map(Sampled::of).collect();
        let mut search = Search::new(sample, step as f32);
        while search.add_nibble() {}
        let masks = search.masks;
        (masks != [0; W]).then_some(Selector { masks })
    }
}

/// The number of rules by which bits are chosen.
const SAMPLE: usize = 4096;
/// Counters of buckets during the search. Two buckets seldom share one.
const COUNTERS: usize = 4 * SAMPLE;

#[derive(Clone, Copy)]
struct Sampled<const W: usize> {
    value: [u64; W],
    fixed: [u64; W],
    bucket: u64,
    open: u32,
}

impl<const W: usize> Sampled<W> {
    fn of(rule: &TernaryRule<W>) -> Self {
        let mut sampled = Sampled { value: [0; W], fixed: [0; W], bucket: 0, open: 0 };
        for w in 0..W {
            let (value, fixed) = rule.fixed_bits(w);
            (sampled.value[w], sampled.fixed[w]) = (value & fixed, fixed);
        }
        sampled
    }
}

/// Adds four bits at a time to the selected ones, each time those that help most.
struct Search<const W: usize> {
    rules: Vec<Sampled<W>>,
    masks: [u64; W],
    /// The cost of a rule among so many in its bucket.
    costs: Vec<f32>,
    total: usize,
    cost: f32,
    counts: Vec<u16>,
    used: Vec<u16>,
}

impl<const W: usize> Search<W> {
    fn new(rules: Vec<Sampled<W>>, step: f32) -> Self {
        let total = rules.len();
        // Each rule of the sample stands for `step` rules. The others in its bucket are those that share it, so many times.
        let costs: Vec<f32> =
            (0..=total).map(|count| (1.0 + count.saturating_sub(1) as f32 * step / FEW).ln()).collect();
        let cost = total as f32 * costs[total];
        Search { rules, masks: [0; W], costs, total, cost, counts: vec![0; COUNTERS], used: Vec::new() }
    }

    /// The cost of all rules if the bits `nibble` of word `w` are selected too.
    fn cost_with(&mut self, w: usize, nibble: u64) -> f32 {
        let (mut cost, mut placed) = (0.0, 0);
        for rule in &self.rules {
            let open = rule.open + (nibble & !rule.fixed[w]).count_ones();
            if open > MOST_OPEN {
                continue;
            }
            placed += 1;
            cost += COPY_COST[open as usize];
            let counter = (next_bucket(rule.bucket, rule.value[w] & nibble) >> 50) as usize;
            if self.counts[counter] == 0 {
                self.used.push(counter as u16);
            }
            self.counts[counter] += 1;
        }
        for counter in self.used.drain(..) {
            let count = std::mem::take(&mut self.counts[usize::from(counter)]);
            cost += f32::from(count) * self.costs[usize::from(count)];
        }
        let others = self.total - placed;
        cost + others as f32 * (self.costs[others] + OTHERS_COST)
    }

    /// Selects four more bits; false if none help.
    fn add_nibble(&mut self) -> bool {
        let mut best = (self.cost * 0.998, 0, 0);
        for w in 0..W {
            let usable = self.rules.iter().fold(0, |any, rule| any | rule.fixed[w]);
            for shift in (0..64).step_by(4) {
                let nibble = 15 << shift;
                if usable & nibble == 0 || self.masks[w] & nibble != 0 {
                    continue;
                }
                let cost = self.cost_with(w, nibble);
                if cost < best.0 {
                    best = (cost, w, nibble);
                }
            }
        }
        let (cost, w, nibble) = best;
        if nibble == 0 {
            return false;
        }
        self.cost = cost;
        self.masks[w] |= nibble;
        self.rules.retain_mut(|rule| {
            rule.open += (nibble & !rule.fixed[w]).count_ones();
            rule.bucket = next_bucket(rule.bucket, rule.value[w] & nibble);
            rule.open <= MOST_OPEN
        });
        true
    }
}

/// So many rules in a bucket cost little more than one.
const FEW: f32 = 2.0;
/// The additional cost of a rule that is not placed, in the unit of the logarithm.
const OTHERS_COST: f32 = 0.1;
/// The cost of the copies of a rule, by the number of open bits.
const COPY_COST: [f32; MOST_OPEN as usize + 1] = [0.0, 0.2, 0.5, 1.0];

#[inline(always)]
fn next_bucket(bucket: u64, bits: u64) -> u64 {
    fold(bucket ^ bits)
}
