//! A few rules, of which a key finds the first without trying them one by one.
//!
//! For some bytes of a key, a table has for each value of the byte the set of rules that accept it, as bits. The rules that all these bytes leave over
//! are tried. (The idea is that of bit vectors: Lakshman and Stiliadis, "High-speed policy-based packet forwarding using efficient multi-dimensional
//! range matching", 1998.) A list that is tried in its order costs a mispredicted branch for most keys, which is longer than the tables take.

use crate::rule::{Key, TernaryRule};
use std::cmp::Reverse;
use std::sync::Arc;

/// The most rules: one bit each.
pub(crate) const MOST_IN_SHORT_LIST: usize = 32;
/// Bytes of a key that have a table.
const BYTES: usize = 6;

#[derive(Clone, Debug)]
pub(crate) struct ShortList<const W: usize> {
    /// The word of each byte, and its lowest bit in the word.
    places: [(u8, u8); BYTES],
    /// For each value of a byte, a bit for each rule that accepts it.
    tables: [[u32; 256]; BYTES],
    rules: Arc<[TernaryRule<W>]>,
}

impl<const W: usize> ShortList<W> {
    /// The list of these rules, which are in the order of ranks. `None` without rules, and if there are too many.
    pub fn of(rules: &Arc<[TernaryRule<W>]>) -> Option<Arc<Self>> {
        if rules.is_empty() || rules.len() > MOST_IN_SHORT_LIST {
            return None;
        }
        let mut places: Vec<(u8, u8)> =
            (0..W as u8).flat_map(|w| (0..64).step_by(8).map(move |shift| (w, shift))).collect();
        // The bytes in which rules fix the most bits exclude the most rules.
        let fixed = |&(w, shift): &(u8, u8)| {
            let bits = |rule: &TernaryRule<W>| (rule.fixed_bits(usize::from(w)).1 >> shift & 0xff).count_ones();
            rules.iter().map(bits).sum::<u32>()
        };
        places.sort_by_cached_key(|place| Reverse(fixed(place)));
        let places = std::array::from_fn(|i| places[i]);
        Some(Arc::new(ShortList { places, tables: places.map(|place| table(rules, place)), rules: rules.clone() }))
    }

    /// The first rule of each key. Both slices have one length.
    pub fn look_up<'t>(&'t self, keys: &[Key<W>], found: &mut [Option<&'t TernaryRule<W>>]) {
        keys.iter().zip(found).for_each(|(key, found)| *found = self.first(key));
    }

    /// The first rule of a key.
    #[inline(always)]
    pub fn first(&self, key: &Key<W>) -> Option<&TernaryRule<W>> {
        // The tables of many lists with one rule each would not fit into the first-level cache.
        if let [only] = &*self.rules {
            return only.matches(key).then_some(only);
        }
        let mut candidates = u32::MAX;
        // The number of steps is constant here. An iterator over both arrays was not unrolled, and took half as long again.
        for i in 0..BYTES {
            let (word, shift) = self.places[i];
            candidates &= self.tables[i][usize::from((key.0[usize::from(word) % W] >> shift) as u8)];
        }
        // No table has a bit without a rule, so the position is always within the list.
        while let Some(rule) = self.rules.get(candidates.trailing_zeros() as usize) {
            if rule.matches(key) {
                return Some(rule);
            }
            candidates &= candidates - 1;
        }
        None
    }

    /// Bytes of memory, without the rules.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// For each value of the byte at `place`, the rules that accept it.
fn table<const W: usize>(rules: &[TernaryRule<W>], (word, shift): (u8, u8)) -> [u32; 256] {
    let mut table = [0; 256];
    for (i, rule) in rules.iter().enumerate() {
        let (value, mask) = rule.fixed_bits(usize::from(word));
        let (value, mask) = ((value >> shift) as u8, (mask >> shift) as u8);
        for (byte, rules) in (0..=u8::MAX).zip(&mut table) {
            *rules |= u32::from((byte ^ value) & mask == 0) << i;
        }
    }
    table
}
