//! The index plan: which bits of an address select the set of a route cache (P-11 to P-16).
//!
//! Addresses with equal index bits are a partition. Without the index bits, ranges of a partition that were apart in the address space may be
//! neighbours, and neighbours with one outcome are one cacheable range. The choice of bits decides how few ranges there are, and how evenly the
//! partitions share them.

use super::address::{Address, bit, restrict};
use super::ranges::{Starts, push};
use std::fmt;
use std::ops::Range;

/// The largest number of index bits.
pub const MOST_BITS: u8 = 20;

/// How the choice of a bit weighs the number of ranges against their variance over the partitions. The paper minimises "both" (P-14).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PlanObjective {
    /// The least total; among equals the least variance.
    Lexicographic,
    /// The least variance among the bits whose total exceeds the least by at most this part of it.
    Tolerance(f64),
}

/// How to choose the bits.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanOptions {
    /// Index bits to choose, at most [`MOST_BITS`].
    pub bits: u8,
    /// What to minimise.
    pub objective: PlanObjective,
    /// Judges a bit by the best total of it and one more bit (P-16). Costs as many times more as there are bits.
    pub look_ahead: bool,
    /// After the choice, exchanges single bits as long as this reduces the total (P-16).
    pub swaps: bool,
}

impl PlanOptions {
    /// The usual choice of so many bits.
    pub fn new(bits: u8) -> PlanOptions {
        PlanOptions { bits, objective: PlanObjective::Tolerance(0.02), look_ahead: false, swaps: false }
    }
}

/// A bit and its result, as the plan reports it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlanStep {
    /// The bit; 0 is the least significant.
    pub bit: u8,
    /// Ranges over all partitions.
    pub ranges: usize,
    /// The variance of the number of ranges over the partitions.
    pub variance: f64,
}

/// Index bits and the permutation that gathers them.
pub struct IndexPlan<A: Address> {
    width: u8,
    /// From the most significant to the least.
    bits: Vec<u8>,
    steps: Vec<PlanStep>,
    gather: A::Gather,
}

impl<A: Address> fmt::Debug for IndexPlan<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexPlan").field("width", &self.width).field("steps", &self.steps).finish_non_exhaustive()
    }
}

impl<A: Address> IndexPlan<A> {
    /// Chooses bits for a table of `width`-bit addresses, greedily.
    pub fn choose(width: u8, table: &[(A, u32)], options: &PlanOptions) -> IndexPlan<A> {
        let candidates = width - width.min(A::INDEXED);
        let wanted = options.bits.min(MOST_BITS).min(width - candidates);
        let mut split = Split::whole(width, table);
        let mut steps = Vec::new();
        for left in (0..wanted).rev() {
            let step = split.best(candidates, options, left > 0);
            split = split.by(step.bit);
            steps.push(step);
        }
        if options.swaps {
            exchange_bits(width, table, candidates, &mut steps);
        }
        IndexPlan::new(width, steps)
    }

    /// A plan with these bits for any table. Its steps report nothing about ranges.
    pub fn with_bits(width: u8, bits: impl IntoIterator<Item = u8>) -> IndexPlan<A> {
        let lowest = width - width.min(A::INDEXED);
        let steps = bits.into_iter().map(|bit| {
            assert!((lowest..width).contains(&bit), "bit {bit} is no index bit of {width}-bit addresses");
            PlanStep { bit, ranges: 0, variance: 0.0 }
        });
        IndexPlan::new(width, steps.collect())
    }

    fn new(width: u8, steps: Vec<PlanStep>) -> IndexPlan<A> {
        let mut bits: Vec<u8> = steps.iter().map(|step| step.bit).collect();
        bits.sort_unstable_by(|a, b| b.cmp(a));
        assert!(bits.windows(2).all(|pair| pair[0] != pair[1]), "each bit once");
        let gather = A::tables(|address| gather_loop(width, &bits, address));
        IndexPlan { width, bits, steps, gather }
    }

    /// Bits of an address.
    pub fn width(&self) -> u8 {
        self.width
    }

    /// The number of index bits.
    pub fn index_bits(&self) -> u8 {
        self.bits.len() as u8
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        1 << self.bits.len()
    }

    /// The chosen bits in the order of their choice, with the ranges after each.
    pub fn steps(&self) -> &[PlanStep] {
        &self.steps
    }

    /// Bits of a tag.
    #[inline(always)]
    pub fn tag_bits(&self) -> u8 {
        self.width - self.bits.len() as u8
    }

    /// The permuted address: the index bits, then the tag.
    #[inline(always)]
    pub fn permute(&self, address: A) -> A {
        address.permute(&self.gather)
    }

    /// The same with a loop over the bits, as the paper's network processor gathered them.
    pub fn permute_loop(&self, address: A) -> A {
        gather_loop(self.width, &self.bits, address)
    }

    /// The partition of a permuted address.
    #[inline(always)]
    pub fn partition(&self, permuted: A) -> usize {
        // For a plan without bits the shift is the width of the type.
        if self.bits.is_empty() { 0 } else { (permuted >> u32::from(self.tag_bits())).low() as usize }
    }

    /// The first permuted address of a partition.
    pub(super) fn base(&self, partition: usize) -> A {
        let bits = u32::from(self.tag_bits());
        (0..self.index_bits()).fold(A::from(0), |base, i| match partition >> i & 1 {
            0 => base,
            _ => base | A::from(1) << (bits + u32::from(i)),
        })
    }

    /// The partitions with addresses in a prefix, in order. Their number is two to the power of the index bits behind the prefix.
    pub fn partitions_of(&self, prefix: A, length: u8) -> Range<usize> {
        let free = self.bits.iter().filter(|&&bit| bit < self.width - length).count();
        // The index bits behind the prefix are less significant than all others, and the index keeps the order of its bits.
        let first = self.bits[..self.bits.len() - free].iter().fold(0, |n, &at| n << 1 | usize::from(bit(prefix, at)));
        let first = first << free;
        first..first + (1 << free)
    }

    /// The first tag of a partition whose address is `start` or behind it; `None` if all are before.
    pub(super) fn first_tag(&self, start: A, partition: usize) -> Option<A> {
        let mut address = start;
        // From the most significant bit, whose removal leaves the positions of the others as they are.
        for (i, &bit) in self.bits.iter().enumerate() {
            let value = partition >> (self.bits.len() - 1 - i) & 1 == 1;
            address = restrict(address, bit, value);
            if address > A::mask(self.width - 1 - i as u8) {
                return None;
            }
        }
        Some(address)
    }

    /// The ranges of all partitions of a table, in tags.
    pub fn split(&self, table: &[(A, u32)]) -> Vec<Starts<A>> {
        let mut split = Split::whole(self.width, table);
        // In this order the number of a partition is the value of its index bits.
        self.bits.iter().for_each(|&bit| split = split.by(bit));
        split.partitions
    }
}

/// Moves the index bits of `address` to the top of its `width` bits, one bit at a time.
fn gather_loop<A: Address>(width: u8, bits: &[u8], address: A) -> A {
    let (mut index, mut tag) = (A::from(0), A::from(0));
    let mut next = bits.iter().peekable();
    for position in (0..width).rev() {
        let value = (address >> u32::from(position)) & A::from(1);
        if next.next_if(|&&bit| bit == position).is_some() {
            index = index << 1 | value;
        } else {
            tag = tag << 1 | value;
        }
    }
    // A shift by all bits of the type is not defined; then there is no index.
    if bits.is_empty() { tag } else { index << (u32::from(width) - bits.len() as u32) | tag }
}

/// A table, split into the partitions of some bits.
struct Split<A> {
    /// The bits that are left, from the least significant.
    left: Vec<u8>,
    partitions: Vec<Starts<A>>,
}

impl<A: Address> Split<A> {
    fn whole(width: u8, table: &[(A, u32)]) -> Split<A> {
        let mut starts = Vec::with_capacity(table.len());
        table.iter().for_each(|&range| push(&mut starts, range));
        Split { left: (0..width).collect(), partitions: vec![starts] }
    }

    /// The position of a bit among those that are left.
    fn position(&self, bit: u8) -> u8 {
        self.left.binary_search(&bit).expect("the bit is left") as u8
    }

    /// Splits each partition by one more bit.
    fn by(&self, bit: u8) -> Split<A> {
        let position = self.position(bit);
        let end = A::mask(self.left.len() as u8 - 1);
        let mut partitions = Vec::with_capacity(self.partitions.len() * 2);
        for partition in &self.partitions {
            for value in [false, true] {
                let mut starts = Starts::new();
                for &(start, word) in partition {
                    let start = restrict(start, position, value);
                    if start > end {
                        break;
                    }
                    push(&mut starts, (start, word));
                }
                partitions.push(starts);
            }
        }
        let left = self.left.iter().copied().filter(|&other| other != bit).collect();
        Split { left, partitions }
    }

    /// The ranges after a split by one more bit, without the split. Takes one pass over the ranges.
    fn count(&self, bit: u8) -> PlanStep {
        let position = self.position(bit);
        let end = A::mask(self.left.len() as u8 - 1) + A::from(1);
        let (mut ranges, mut squares) = (0, 0);
        for partition in &self.partitions {
            for value in [false, true] {
                let ends = partition[1..].iter().map(|range| restrict(range.0, position, value)).chain([end]);
                let (mut start, mut last, mut count) = (A::from(0), None, 0);
                for (&(_, word), end) in partition.iter().zip(ends) {
                    if start < end && last != Some(word) {
                        (last, count) = (Some(word), count + 1);
                    }
                    start = end;
                }
                ranges += count;
                squares += count * count;
            }
        }
        let partitions = (self.partitions.len() * 2) as f64;
        let mean = ranges as f64 / partitions;
        PlanStep { bit, ranges, variance: squares as f64 / partitions - mean * mean }
    }

    /// The next bit, at least `lowest`. `more` says if another bit follows.
    fn best(&self, lowest: u8, options: &PlanOptions, more: bool) -> PlanStep {
        let candidates = || self.left.iter().copied().filter(move |&bit| bit >= lowest);
        let mut steps: Vec<PlanStep> = candidates().map(|bit| self.count(bit)).collect();
        if options.look_ahead && more {
            let totals: Vec<usize> = candidates()
                .map(|bit| {
                    let split = self.by(bit);
                    let rest = split.left.iter().filter(|&&bit| bit >= lowest);
                    rest.map(|&bit| split.count(bit).ranges).min().expect("two bits are left")
                })
                .collect();
            let least = totals.iter().min().copied().expect("there are candidates");
            let mut totals = totals.into_iter();
            steps.retain(|_| totals.next() == Some(least));
        }
        let least = steps.iter().map(|step| step.ranges).min().expect("there are candidates");
        let within = match options.objective {
            PlanObjective::Lexicographic => least,
            PlanObjective::Tolerance(part) => least + (least as f64 * part) as usize,
        };
        let allowed = steps.into_iter().filter(|step| step.ranges <= within);
        // `min_by` keeps the first of equals: the lowest bit.
        allowed.min_by(|a, b| a.variance.total_cmp(&b.variance)).expect("the least is within the tolerance")
    }
}

/// Exchanges one bit at a time for a better one, until none is better or every bit has been tried as often as there are bits.
fn exchange_bits<A: Address>(width: u8, table: &[(A, u32)], lowest: u8, steps: &mut Vec<PlanStep>) {
    let mut unchanged = 0;
    for round in 0..steps.len() * steps.len() {
        if unchanged == steps.len() {
            break;
        }
        // The last step reports the ranges of all bits together.
        let total = steps[steps.len() - 1].ranges;
        let mut others = steps.clone();
        let removed = others.remove(round % steps.len());
        let split = others.iter().fold(Split::whole(width, table), |split, step| split.by(step.bit));
        let candidates = split.left.iter().copied().filter(|&bit| bit >= lowest && bit != removed.bit);
        let best = candidates.map(|bit| split.count(bit)).min_by_key(|step| step.ranges);
        match best {
            Some(best) if best.ranges < total => {
                let bits: Vec<u8> = others.iter().map(|step| step.bit).chain([best.bit]).collect();
                let mut split = Split::whole(width, table);
                *steps = bits
                    .into_iter()
                    .map(|bit| {
                        let step = split.count(bit);
                        split = split.by(bit);
                        step
                    })
                    .collect();
                unchanged = 0;
            }
            _ => unchanged += 1,
        }
    }
}
