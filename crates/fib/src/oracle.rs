//! The simplest longest-prefix table, as the reference for tests of the others.

use proptest::prelude::*;
use std::collections::BTreeMap;

/// Encoded outcomes by length and prefix. Addresses of `width` bits are the low bits of a `u128`.
pub struct Naive {
    pub width: u8,
    pub routes: BTreeMap<(u8, u128), u32>,
}

impl Naive {
    pub fn new(width: u8) -> Self {
        Naive { width, routes: BTreeMap::new() }
    }

    pub fn masked(&self, address: u128, length: u8) -> u128 {
        let behind = u32::from(self.width - length);
        address.checked_shr(behind).map_or(0, |bits| bits << behind)
    }

    /// The longest prefix of up to `length` bits that covers `address`: its length and word.
    pub fn covering(&self, address: u128, length: u8) -> Option<(u8, u32)> {
        let word = |length| self.routes.get(&(length, self.masked(address, length))).map(|word| (length, *word));
        (0..=length).rev().find_map(word)
    }

    pub fn lookup(&self, address: u128) -> u32 {
        self.covering(address, self.width).map_or(0, |(_, word)| word)
    }

    /// Addresses at which the outcome may change: the ends of every prefix and their neighbours.
    pub fn edges(&self) -> Vec<u128> {
        let all = u128::MAX >> (128 - u32::from(self.width));
        let ends = |(&(length, first), _): (&(u8, u128), _)| {
            let last = first | all.checked_shr(length.into()).unwrap_or(0);
            [first, last, first.wrapping_sub(1) & all, last.wrapping_add(1) & all]
        };
        self.routes.iter().flat_map(ends).chain([0, all]).collect()
    }
}

/// One step of a test: sets a prefix to a word, or removes it if the word is zero.
pub type Step = ((u128, u8), u32);

/// Prefixes of `width`-bit addresses that often contain one another and often differ late.
pub fn prefixes(width: u8) -> impl Strategy<Value = (u128, u8)> {
    let all = u128::MAX >> (128 - u32::from(width));
    let base = prop_oneof![3 => Just(0u128), 2 => Just(all), 2 => Just(all / 3), 1 => Just(all / 7)];
    let noise = (0..=width).prop_flat_map(move |bits| 0..=all.checked_shr((width - bits).into()).unwrap_or(0));
    let length = prop_oneof![1 => 0..=width, 1 => (width - width / 4)..=width, 1 => Just(width)];
    (base, noise, length).prop_map(move |(base, noise, length)| {
        let behind = u32::from(width - length);
        ((base ^ noise).checked_shr(behind).map_or(0, |bits| bits << behind), length)
    })
}

/// Steps over few prefixes, so that removals and changes meet existing routes.
pub fn steps(width: u8) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(prefixes(width), 1..40).prop_flat_map(|prefixes| {
        let word = prop_oneof![2 => Just(0u32), 3 => 1u32..1 << 23];
        proptest::collection::vec((proptest::sample::select(prefixes), word), 1..120)
    })
}

/// The change that a forwarding table receives for one step.
pub enum TableChange {
    Nothing,
    Insert,
    /// Remove the prefix; this is the covering route afterwards.
    Remove((u8, u32)),
}

impl Naive {
    pub fn apply(&mut self, ((prefix, length), word): Step) -> TableChange {
        if word != 0 {
            self.routes.insert((length, prefix), word);
            TableChange::Insert
        } else if self.routes.remove(&(length, prefix)).is_some() {
            let covering = length.checked_sub(1).and_then(|shorter| self.covering(prefix, shorter));
            TableChange::Remove(covering.unwrap_or((0, 0)))
        } else {
            TableChange::Nothing
        }
    }
}
