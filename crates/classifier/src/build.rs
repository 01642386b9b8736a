//! Building partitions from rules.

use crate::partition::{Bucket, Partition, Slot};
use crate::rule::TernaryRule;
use crate::selector::{MOST_OPEN, Selector};
use crate::short_list::MOST_IN_SHORT_LIST;

/// A bucket with more rules gets partitions of its own, if they separate the rules.
pub(crate) const MOST_IN_BUCKET: usize = 24;
/// So few rules need no partitions: of the whole set, which is a short list then, and of a bucket.
const FEW: [usize; 2] = [MOST_IN_SHORT_LIST, MOST_IN_BUCKET];
/// The most partitions that a key has to look into: of the whole set, and of a bucket.
const MOST_PARTITIONS: [usize; 2] = [16, 4];
/// Rules that agree in all bits that any of them fixes are never separated. So deep, they are tried one by one.
pub(crate) const MOST_DEPTH: u32 = 8;

/// Partitions of these rules, which are in the order of ranks.
pub(crate) fn build<const W: usize>(mut rules: Vec<TernaryRule<W>>, depth: u32) -> Vec<Partition<W>> {
    let of = usize::from(depth > 0);
    let mut partitions = Vec::new();
    while rules.len() > FEW[of] && partitions.len() < MOST_PARTITIONS[of] {
        let Some(selector) = Selector::choose(&rules) else { break };
        let (placed, others): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| selector.open_bits(rule) <= MOST_OPEN);
        // A partition costs every key some time, whether it has many rules or few.
        if placed.len() * 50 < rules.len() || placed.len() < 4 {
            break;
        }
        let Some(partition) = partition(selector, &placed, depth) else { break };
        partitions.push(partition);
        rules = others;
    }
    if !rules.is_empty() {
        partitions.push(Partition::of_the_rest(rules));
    }
    partitions
}

/// A partition by these bits. `None` if it does not separate the rules.
fn partition<const W: usize>(selector: Selector<W>, rules: &[TernaryRule<W>], depth: u32) -> Option<Partition<W>> {
    // Twice as many slots as rules, so that most keys without a matching rule find their bucket empty.
    let wanted = (rules.len() * 2).next_power_of_two().ilog2();
    let bits = wanted.clamp(1, selector.width());
    let empty = Partition::new(selector, vec![Slot::new(Bucket::Empty); 1 << bits]);
    let mut lists: Vec<Vec<TernaryRule<W>>> = vec![Vec::new(); 1 << bits];
    for rule in rules {
        empty.numbers(rule).into_iter().for_each(|number| lists[number].push(*rule));
    }
    if rules.len() > MOST_IN_BUCKET && lists.iter().any(|list| list.len() == rules.len()) {
        return None;
    }
    Some(Partition::new(selector, lists.into_iter().map(|list| Slot::new(bucket(list, depth))).collect()))
}

/// A bucket of these rules, which are in the order of ranks, in a partition at `depth`.
pub(crate) fn bucket<const W: usize>(rules: Vec<TernaryRule<W>>, depth: u32) -> Bucket<W> {
    if rules.is_empty() {
        return Bucket::Empty;
    }
    if rules.len() > MOST_IN_BUCKET && depth < MOST_DEPTH {
        let partitions = build(rules.clone(), depth + 1);
        if !matches!(&partitions[..], [only] if only.selector == Selector::NONE) {
            return Bucket::Partitions(partitions.into());
        }
    }
    Bucket::Rules(rules.into())
}
