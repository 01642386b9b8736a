//! The ranges of every partition, which fill the caches.

use super::address::Address;
use super::index::{IndexPlan, PlanStep};
use super::ranges::{Starts, position, push};
use std::sync::Arc;

/// A range of a partition in permuted addresses, and its outcome. All addresses of the range are in the partition of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedRange<A> {
    /// The first permuted address.
    pub first: A,
    /// The last permuted address.
    pub last: A,
    /// The encoded outcome.
    pub word: u32,
}

/// A table by partition, after neighbours with one outcome have been merged.
pub struct Partitions<A: Address> {
    plan: Arc<IndexPlan<A>>,
    /// The ranges of each partition, in tags.
    partitions: Vec<Starts<A>>,
    ranges: usize,
}

impl<A: Address> Partitions<A> {
    /// The partitions of a table.
    pub fn new(plan: Arc<IndexPlan<A>>, table: &[(A, u32)]) -> Partitions<A> {
        let partitions = plan.split(table);
        let ranges = partitions.iter().map(Vec::len).sum();
        Partitions { plan, partitions, ranges }
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<IndexPlan<A>> {
        &self.plan
    }

    /// The number of ranges and its variance over the partitions. `bit` is that of the plan's last step.
    pub fn totals(&self) -> PlanStep {
        let count = self.partitions.len() as f64;
        let mean = self.ranges as f64 / count;
        let squares: f64 = self.partitions.iter().map(|starts| (starts.len() as f64).powi(2)).sum();
        let bit = self.plan.steps().last().map_or(0, |step| step.bit);
        PlanStep { bit, ranges: self.ranges, variance: squares / count - mean * mean }
    }

    /// The range of a permuted address.
    pub fn find(&self, permuted: A) -> CachedRange<A> {
        let partition = self.plan.partition(permuted);
        let tags = A::mask(self.plan.tag_bits());
        let base = self.plan.base(partition);
        let starts = &self.partitions[partition];
        let at = position(starts, permuted & tags);
        let last = starts.get(at + 1).map_or(tags, |next| next.0 - A::from(1));
        CachedRange { first: base | starts[at].0, last: base | last, word: starts[at].1 }
    }

    /// Replaces the ranges within a prefix. `inside` are the new ones, from its first address on. Takes time in proportion to the affected
    /// partitions, their ranges and `inside`.
    pub fn patch(&mut self, prefix: A, length: u8, inside: &[(A, u32)]) {
        let plan = self.plan.clone();
        let last = prefix | A::mask(plan.width() - length);
        let next = (last != A::mask(plan.width())).then(|| last + A::from(1));
        for partition in plan.partitions_of(prefix, length) {
            let starts = &mut self.partitions[partition];
            let before = starts.len();
            let from = plan.first_tag(prefix, partition).expect("the partition has addresses in the prefix");
            // The first tag behind the prefix. Behind the last address of all there is none.
            let to = next.and_then(|next| plan.first_tag(next, partition));
            // The range before the prefix is among the replaced ones, because the first of the new ones may merge with it.
            let first = starts.partition_point(|range| range.0 < from).saturating_sub(1);
            let end = starts.partition_point(|range| to.is_none_or(|to| range.0 <= to));
            let mut middle = Starts::new();
            middle.extend(starts.get(first).filter(|range| range.0 < from));
            for &(start, word) in inside {
                plan.first_tag(start, partition).into_iter().for_each(|tag| push(&mut middle, (tag, word)));
            }
            to.into_iter().for_each(|to| push(&mut middle, (to, starts[end - 1].1)));
            starts.splice(first..end, middle);
            self.ranges = self.ranges + starts.len() - before;
        }
    }
}
