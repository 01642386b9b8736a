//! Classification by several header fields with range caches (P-20, P-21).
//!
//! Each field is an address space of its own. The rules are projected onto it: addresses that match the same rules have one outcome, the set of
//! these rules. A packet is looked up in the cache of each field, and the sets are intersected. The first rule of the intersection applies.
//!
//! A network processor handles a fixed number of fields. A rule with more fields is a *forced miss*: if it may be the first match, the packet
//! never hits, and the classifier compares all fields.

use super::cache::{CacheShape, RouteCache};
use super::feed::{CacheFeed, Invalidation};
use super::index::PlanOptions;
use super::ranges::{Starts, push};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A rule: a range for each field. The first matching rule of a list applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FieldRule {
    /// The values that match, for each field. Fields beyond the end match any value.
    pub fields: Vec<RangeInclusive<u32>>,
}

impl FieldRule {
    fn is_match(&self, values: &[u32]) -> bool {
        self.fields.iter().zip(values).all(|(field, value)| field.contains(value))
    }
}

/// A set of rules, one bit each.
type Bitmap = Box<[u64]>;

/// A field: its cache, and the sets that the words of the cache stand for.
struct Field {
    feed: CacheFeed<u32>,
    cache: RouteCache<u32>,
    sets: Vec<Bitmap>,
}

/// The counters of a [`FieldCache`], in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FieldCounters {
    /// All fields hit, and no forced miss applied.
    pub hits: u64,
    /// At least one field missed.
    pub misses: u64,
    /// All fields hit, but a rule with more fields may apply.
    pub forced: u64,
}

/// Caches for the first fields of a list of rules.
pub struct FieldCache {
    rules: Vec<FieldRule>,
    fields: Vec<Field>,
    counters: FieldCounters,
}

impl FieldCache {
    /// Caches for fields of so many bits (at most 32). The fields of the rules beyond these are left to the classifier.
    pub fn new(rules: Vec<FieldRule>, widths: &[u8], options: &PlanOptions, shape: CacheShape) -> FieldCache {
        let field = |(n, &width): (usize, &u8)| {
            let (starts, sets) = project(&rules, n, width);
            let feed = CacheFeed::new(width, &starts, options, Invalidation::default());
            Field { cache: feed.cache(shape), feed, sets }
        };
        let fields = widths.iter().enumerate().map(field).collect();
        FieldCache { rules, fields, counters: FieldCounters::default() }
    }

    /// The counters.
    pub fn counters(&self) -> FieldCounters {
        self.counters
    }

    /// The position of the first rule that matches these values, of all fields of the rules.
    pub fn classify(&mut self, values: &[u32]) -> Option<usize> {
        if let Some(answer) = self.classify_cached(values) {
            return answer;
        }
        self.rules.iter().position(|rule| rule.is_match(values))
    }

    /// The answer of the caches; `None` for a miss. It reads only the fields that have caches. A miss fills the caches of the fields that missed.
    pub fn classify_cached(&mut self, values: &[u32]) -> Option<Option<usize>> {
        let mut words = Vec::with_capacity(self.fields.len());
        let mut missed = false;
        for (field, &value) in self.fields.iter_mut().zip(values) {
            let word = field.cache.lookup(value).unwrap_or_else(|| {
                missed = true;
                let fill = field.feed.resolve(value);
                field.cache.install(fill);
                fill.range.word
            });
            words.push(word as usize);
        }
        if missed {
            self.counters.misses += 1;
            return None;
        }
        let first = self.first_common(&words);
        if first.is_some_and(|rule| self.rules[rule].fields.len() > self.fields.len()) {
            self.counters.forced += 1;
            return None;
        }
        self.counters.hits += 1;
        Some(first)
    }

    /// The first rule that is in the set of every field.
    fn first_common(&self, words: &[usize]) -> Option<usize> {
        (0..self.rules.len().div_ceil(64))
            .find_map(|block| {
                let sets = self.fields.iter().zip(words).map(|(field, &word)| field.sets[word][block]);
                let common = sets.fold(u64::MAX, |common, set| common & set);
                (common != 0).then(|| block * 64 + common.trailing_zeros() as usize)
            })
            .filter(|&rule| rule < self.rules.len())
    }
}

/// The ranges of a field, each with the position of its set, and the sets.
fn project(rules: &[FieldRule], field: usize, width: u8) -> (Starts<u32>, Vec<Bitmap>) {
    let last = u32::MAX >> (32 - width);
    let of = |rule: &FieldRule| rule.fields.get(field).cloned().unwrap_or(0..=last);
    let ends = |rule| {
        let range = of(rule);
        [Some(*range.start()), range.end().checked_add(1).filter(|&next| next <= last)]
    };
    let mut edges: Vec<u32> = rules.iter().flat_map(ends).flatten().chain([0]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut numbers: BTreeMap<Bitmap, u32> = BTreeMap::new();
    let (mut starts, mut sets) = (Starts::new(), Vec::new());
    for edge in edges {
        let mut set: Bitmap = vec![0; rules.len().div_ceil(64)].into();
        let matching = rules.iter().enumerate().filter(|(_, rule)| of(rule).contains(&edge));
        matching.for_each(|(n, _)| set[n / 64] |= 1 << (n % 64));
        let number = *numbers.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            sets.len() as u32 - 1
        });
        push(&mut starts, (edge, number));
    }
    (starts, sets)
}
