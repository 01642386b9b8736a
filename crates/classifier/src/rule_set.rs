//! A set of ternary rules: a value that is copied at little cost, changed, and looked up by many.

use crate::build::{MOST_IN_BUCKET, bucket, build};
use crate::lookup::{find_from, look_up};
use crate::partition::{Bucket, Partition, bytes};
use crate::rule::{Key, TernaryRule};
use crate::selector::{MOST_OPEN, Selector};
use crate::short_list::{MOST_IN_SHORT_LIST, ShortList};
use std::sync::Arc;

/// The most rules in one list that every key tries. With more, another list begins, so that a change copies few.
const MOST_IN_LIST: usize = 128;
/// A set that has changed by half is built anew, once it has so many rules.
const FEW_CHANGES: usize = 64;

/// Rules, of which a key has the one with the lowest rank that matches it.
///
/// A clone shares all rules with the original. A change copies only the changed parts, so the readers of the original see nothing of it.
#[derive(Clone, Debug)]
pub struct RuleSet<const W: usize> {
    partitions: Arc<[Partition<W>]>,
    /// All rules, if they are few.
    short: Option<Arc<ShortList<W>>>,
    len: usize,
    /// Changes since the partitions were chosen.
    changes: usize,
}

impl<const W: usize> Default for RuleSet<W> {
    fn default() -> Self {
        RuleSet { partitions: Arc::new([]), short: None, len: 0, changes: 0 }
    }
}

impl<const W: usize> RuleSet<W> {
    /// The set of these rules. Rules of one rank are alternatives: any of them may be found.
    pub fn build(mut rules: Vec<TernaryRule<W>>) -> Self {
        rules.retain(|rule| !rule.is_empty());
        rules.sort_by_key(TernaryRule::order);
        rules.dedup();
        let len = rules.len();
        let partitions: Arc<[_]> = build(rules, 0).into();
        RuleSet { short: short(&partitions), partitions, len, changes: 0 }
    }

    /// The rule of each key, by their order. Both slices have one length, at best a multiple of 64.
    pub fn look_up<'t>(&'t self, keys: &[Key<W>], found: &mut [Option<&'t TernaryRule<W>>]) {
        match &self.short {
            Some(short) => short.look_up(keys, found),
            None => look_up(&self.partitions, keys, found),
        }
    }

    /// The rule of one key, among those of a higher rank than `rank`. For several keys [`look_up`](RuleSet::look_up) is faster.
    pub fn find_behind(&self, key: &Key<W>, rank: Option<u32>) -> Option<&TernaryRule<W>> {
        // Ranks begin at zero.
        find_from(&self.partitions, key, rank.map_or(0, |rank| rank + 1))
    }

    /// For look-ups of many keys in many sets: the rule of `key`, or the partitions to look into.
    #[inline(always)]
    pub(crate) fn begin(&self, key: &Key<W>) -> Result<Option<&TernaryRule<W>>, &[Partition<W>]> {
        self.short.as_ref().map(|short| short.first(key)).ok_or(&self.partitions)
    }

    /// Adds a rule; false if the set has an equal one, or if no key can match the rule.
    pub fn insert(&mut self, rule: TernaryRule<W>) -> bool {
        let added = !rule.is_empty() && insert(&mut self.partitions, rule, 0);
        self.len += usize::from(added);
        self.changes += usize::from(added);
        self.short = short(&self.partitions);
        added
    }

    /// Removes a rule that equals `rule`; false if there is none.
    pub fn remove(&mut self, rule: &TernaryRule<W>) -> bool {
        let found = remove(&mut self.partitions, rule);
        self.len -= usize::from(found);
        self.changes += usize::from(found);
        self.short = short(&self.partitions);
        found
    }

    /// True if so much has changed that [`rebuilt`](RuleSet::rebuilt) would make look-ups faster.
    pub fn is_worn(&self) -> bool {
        self.changes > FEW_CHANGES && self.changes > self.len / 2
    }

    /// The same rules, with partitions chosen for them. This takes about a microsecond a rule.
    pub fn rebuilt(&self) -> Self {
        RuleSet::build(self.rules())
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        bytes(&self.partitions) + self.short.as_ref().map_or(0, |short| short.bytes())
    }

    /// All rules, in the order of ranks.
    pub fn rules(&self) -> Vec<TernaryRule<W>> {
        let mut rules = Vec::with_capacity(self.len);
        collect(&self.partitions, &mut rules);
        // A rule lies in several buckets if it leaves selected bits open.
        rules.sort_by_key(TernaryRule::order);
        rules.dedup();
        rules
    }
}

/// The short list of a set whose only partition is a list of few rules.
fn short<const W: usize>(partitions: &[Partition<W>]) -> Option<Arc<ShortList<W>>> {
    match partitions {
        [only] => ShortList::of(only.list()?),
        _ => None,
    }
}

fn collect<const W: usize>(partitions: &[Partition<W>], rules: &mut Vec<TernaryRule<W>>) {
    for slot in partitions.iter().flat_map(Partition::slots) {
        match &slot.bucket {
            Bucket::Empty => {}
            Bucket::Rules(more) => rules.extend_from_slice(more),
            Bucket::Partitions(partitions) => collect(partitions, rules),
        }
    }
}

/// The first partition by bits that takes `rule`: always the same one for a rule, while there are the same partitions in front of it.
fn place<const W: usize>(partitions: &[Partition<W>], rule: &TernaryRule<W>) -> Option<usize> {
    partitions.iter().position(|p| p.selector != Selector::NONE && p.selector.open_bits(rule) <= MOST_OPEN)
}

/// Adds a rule; false if there is an equal one.
fn insert<const W: usize>(partitions: &mut Arc<[Partition<W>]>, rule: TernaryRule<W>, depth: u32) -> bool {
    if let Some(at) = place(partitions, &rule) {
        let partition = &mut Arc::make_mut(partitions)[at];
        let numbers = partition.numbers(&rule);
        let add = |number| partition.change(number, |bucket| insert_into_bucket(bucket, rule, depth));
        return numbers.into_iter().map(add).fold(true, |all, added| all & added);
    }
    let Some(at) =
        partitions.iter().position(|partition| partition.list().is_some_and(|rules| rules.len() < MOST_IN_LIST))
    else {
        *partitions = partitions.iter().cloned().chain([Partition::of_the_rest([rule])]).collect();
        return true;
    };
    let rest = &mut Arc::make_mut(partitions)[at];
    let added = rest.change(0, |bucket| add(bucket, rule));
    let Some(rules) = rest.list().filter(|rules| added && is_tried(rules.len())) else { return added };
    // Every key tries these rules. Perhaps a partition of their own separates them.
    let built = build(rules.to_vec(), depth);
    let (rests, chosen): (Vec<_>, Vec<_>) =
        partitions.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, p)| p.clone()).chain(built).partition(is_rest);
    // The rules of all others stay in the first partition that takes them: new partitions stand behind these, and in front of the rest.
    *partitions = chosen.into_iter().chain(rests).collect();
    true
}

fn is_rest<const W: usize>(partition: &Partition<W>) -> bool {
    partition.selector == Selector::NONE
}

/// True if partitions are tried for a list that has grown to this length: when it is just too long for a short list, and at each power of two. Between
/// these lengths it stays a list, for perhaps no bits separate its rules.
fn is_tried(length: usize) -> bool {
    length == MOST_IN_SHORT_LIST + 1 || (length > MOST_IN_BUCKET && length.is_power_of_two())
}

/// Adds a rule to a list; false if there is an equal one.
fn add<const W: usize>(bucket: &mut Bucket<W>, rule: TernaryRule<W>) -> bool {
    let Bucket::Rules(rules) = bucket else {
        *bucket = Bucket::Rules([rule].into());
        return true;
    };
    let at = rules.partition_point(|other| other.rank <= rule.rank);
    if rules[..at].iter().rev().take_while(|other| other.rank == rule.rank).any(|other| *other == rule) {
        return false;
    }
    *rules = rules[..at].iter().chain([&rule]).chain(&rules[at..]).copied().collect();
    true
}

fn insert_into_bucket<const W: usize>(place: &mut Bucket<W>, rule: TernaryRule<W>, depth: u32) -> bool {
    if let Bucket::Partitions(partitions) = place {
        return insert(partitions, rule, depth + 1);
    }
    let added = add(place, rule);
    if let Bucket::Rules(rules) = place
        && added
        && is_tried(rules.len())
    {
        *place = bucket(rules.to_vec(), depth);
    }
    added
}

/// Removes a rule; false if there is no such rule.
fn remove<const W: usize>(partitions: &mut Arc<[Partition<W>]>, rule: &TernaryRule<W>) -> bool {
    // Searched before anything is copied.
    let Some(at) = position(partitions, rule) else { return false };
    let partition = &mut Arc::make_mut(partitions)[at];
    for number in partition.numbers(rule) {
        partition.change(number, |bucket| take(bucket, rule));
    }
    true
}

/// The position of the partition that has this rule. A partition has a rule in all its buckets, or in none.
fn position<const W: usize>(partitions: &[Partition<W>], rule: &TernaryRule<W>) -> Option<usize> {
    let has = |at: &usize| {
        let partition = &partitions[*at];
        let number = partition.numbers(rule).first().copied();
        match number.map(|number| &partition.slot_at(number).bucket) {
            None | Some(Bucket::Empty) => false,
            Some(Bucket::Rules(rules)) => rules.contains(rule),
            Some(Bucket::Partitions(partitions)) => position(partitions, rule).is_some(),
        }
    };
    // A rule that a partition by bits would take may still be in a list, if the partition is younger.
    let lists = (0..partitions.len()).filter(|&at| is_rest(&partitions[at]));
    place(partitions, rule).into_iter().chain(lists).find(has)
}

fn take<const W: usize>(bucket: &mut Bucket<W>, rule: &TernaryRule<W>) {
    match bucket {
        Bucket::Empty => {}
        Bucket::Partitions(partitions) => {
            remove(partitions, rule);
        }
        Bucket::Rules(rules) => {
            let left: Arc<[_]> = rules.iter().filter(|other| *other != rule).copied().collect();
            *bucket = if left.is_empty() { Bucket::Empty } else { Bucket::Rules(left) };
        }
    }
}
