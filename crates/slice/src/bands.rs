//! Positions for filters that a program computes: routes by prefix length, ranges of a ring.
//!
//! A band is a set of filters whose order among each other does not matter, because no key matches two of them. Filters of a lower band decide first. A
//! filter keeps its position as long as it is wanted, so a change of the wanted filters touches only those that differ.

use std::collections::{BTreeMap, BTreeSet};

/// Positions of a band.
const BAND: u32 = 1 << 24;

/// A condition on a lookup key of 112 bits: the bits of the mask are as in the value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyCondition {
    /// The bits to compare with.
    pub value: [u8; 14],
    /// The bits that are compared.
    pub mask: [u8; 14],
}

impl KeyCondition {
    /// True if a key meets the condition.
    pub fn matches(&self, key: &[u8; 14]) -> bool {
        (0..14).all(|i| (key[i] ^ self.value[i]) & self.mask[i] == 0)
    }
}

/// The filters that a program wants, by band and condition.
pub type BandFilters<R> = BTreeMap<(u32, KeyCondition), R>;

/// A change of one filter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BandChange<R> {
    /// Adds a filter at a free position.
    Insert(u32, KeyCondition, R),
    /// Gives the filter at a position another result.
    Replace(u32, KeyCondition, R),
    /// Deletes the filter at a position.
    Delete(u32),
}

/// The filters in use, and their positions.
#[derive(Clone, Debug)]
pub struct FilterBands<R> {
    placed: BandFilters<(u32, R)>,
    /// The positions of each band that were used and are free, and the first that was never used.
    free: BTreeMap<u32, (BTreeSet<u32>, u32)>,
}

impl<R> Default for FilterBands<R> {
    fn default() -> Self {
        FilterBands { placed: BTreeMap::new(), free: BTreeMap::new() }
    }
}

impl<R: Clone + PartialEq> FilterBands<R> {
    /// The changes that lead from the filters in use to the `wanted` ones, which are then in use. All additions come before the first deletion, so a key
    /// that has a filter before and after the changes has one between any two of them.
    ///
    /// Panics if a band is above 254, or has more than 2^24 filters: more than any table has entries.
    pub fn update(&mut self, wanted: &BandFilters<R>) -> Vec<BandChange<R>> {
        let mut changes = Vec::new();
        for ((band, condition), result) in wanted {
            match self.placed.get_mut(&(*band, *condition)) {
                Some((_, placed)) if placed == result => {}
                Some((position, placed)) => {
                    *placed = result.clone();
                    changes.push(BandChange::Replace(*position, *condition, result.clone()));
                }
                None => {
                    let position = self.place(*band);
                    self.placed.insert((*band, *condition), (position, result.clone()));
                    changes.push(BandChange::Insert(position, *condition, result.clone()));
                }
            }
        }
        self.placed.retain(|key, (position, _)| {
            let stays = wanted.contains_key(key);
            if !stays {
                self.free.entry(key.0).or_default().0.insert(*position);
                changes.push(BandChange::Delete(*position));
            }
            stays
        });
        changes
    }

    fn place(&mut self, band: u32) -> u32 {
        let (free, fresh) = self.free.entry(band).or_default();
        free.pop_first().unwrap_or_else(|| {
            assert!(band < 255 && *fresh < BAND, "a band has fewer filters than a table has entries");
            *fresh += 1;
            band * BAND + *fresh - 1
        })
    }

    /// The result for a key by definition: that of the filter at the lowest position that matches. Takes time in proportion to the filters.
    pub fn find(&self, key: &[u8; 14]) -> Option<&R> {
        self.placed.iter().find(|((_, condition), _)| condition.matches(key)).map(|(_, (_, result))| result)
    }

    /// The number of filters.
    pub fn len(&self) -> usize {
        self.placed.len()
    }

    /// True if there are no filters.
    pub fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn condition(value: u8) -> KeyCondition {
        let (mut all, mut mask) = ([0; 14], [0; 14]);
        (all[0], mask[0]) = (value, 0xff);
        KeyCondition { value: all, mask }
    }

    #[test]
    fn unchanged_filters_keep_their_positions() {
        let mut bands = FilterBands::default();
        let wanted = |filters: &[(u32, u8, char)]| {
            filters
                .iter()
                .map(|(band, value, result)| ((*band, condition(*value)), *result))
                .collect::<BandFilters<_>>()
        };
        let insert = |position, value, result| BandChange::Insert(position, condition(value), result);
        let first = bands.update(&wanted(&[(0, 7, 'a'), (2, 7, 'b'), (2, 8, 'c')]));
        assert_eq!(first, [insert(0, 7, 'a'), insert(2 * BAND, 7, 'b'), insert(2 * BAND + 1, 8, 'c')]);
        let second = bands.update(&wanted(&[(2, 7, 'd'), (2, 8, 'c'), (2, 9, 'e')]));
        let replaced = BandChange::Replace(2 * BAND, condition(7), 'd');
        assert_eq!(second, [replaced, insert(2 * BAND + 2, 9, 'e'), BandChange::Delete(0)]);
        assert_eq!(
            bands.update(&wanted(&[(2, 8, 'c')])),
            [BandChange::Delete(2 * BAND), BandChange::Delete(2 * BAND + 2)]
        );
        assert_eq!(bands.update(&wanted(&[(2, 8, 'c'), (2, 1, 'f')])), [insert(2 * BAND, 1, 'f')]);
        assert_eq!(
            (bands.len(), bands.find(&condition(1).value), bands.find(&condition(7).value)),
            (2, Some(&'f'), None)
        );
    }

    proptest! {
        #[test]
        fn changes_lead_to_the_wanted_filters(
            steps in proptest::collection::vec(proptest::collection::btree_map((0u32..3, 0u8..6), 0u8..3, 0..12), 1..6),
        ) {
            let (mut bands, mut table) = (FilterBands::default(), BTreeMap::new());
            for step in steps {
                let wanted = step.into_iter().map(|((band, value), result)| ((band, condition(value)), result)).collect();
                for change in bands.update(&wanted) {
                    match change {
                        BandChange::Insert(position, at, result) => prop_assert!(table.insert(position, (at, result)).is_none()),
                        BandChange::Replace(position, at, result) => {
                            prop_assert_eq!(table.insert(position, (at, result)).map(|(before, _)| before), Some(at));
                        }
                        BandChange::Delete(position) => prop_assert!(table.remove(&position).is_some()),
                    }
                }
                let placed: BandFilters<u8> = table.iter().map(|(position, (at, result))| ((position / BAND, *at), *result)).collect();
                prop_assert_eq!(placed, wanted);
            }
        }
    }
}
