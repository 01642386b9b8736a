//! Positions for filters that a program computes: routes by prefix length, ranges of a ring.
//!
//! A band is a set of filters whose order among each other does not matter, because no key matches two of them. Filters of a lower band decide first. A
//! filter keeps its position as long as it is wanted, so a change of the wanted filters touches only those that differ.

use crate::code::KEY_BYTES;
use crate::spec::{FilterAction, FilterEdit, FilterSpec};
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

    /// The condition of a filter that [`KeyCondition::filter`] has made.
    fn of(filter: &FilterSpec) -> Option<KeyCondition> {
        let is_plain = filter.ranges.is_empty() && filter.index.is_none() && filter.value.len() == filter.mask.len();
        let fits = is_plain && filter.value.len() <= KEY_BYTES;
        let padded = |bytes: &[u8]| std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0));
        fits.then(|| KeyCondition { value: padded(&filter.value), mask: padded(&filter.mask) })
    }

    fn filter(&self, action: FilterAction) -> FilterSpec {
        FilterSpec { value: self.value.to_vec(), mask: self.mask.to_vec(), ranges: Vec::new(), action, index: None }
    }
}

/// The filters that a program wants, by band and condition.
pub type BandFilters = BTreeMap<(u32, KeyCondition), FilterAction>;

/// The filters in use, and their positions.
#[derive(Clone, Debug, Default)]
pub struct FilterBands {
    placed: BTreeMap<(u32, KeyCondition), (u32, FilterAction)>,
    /// The positions of each band that were used and are free, and the number of those that were ever used.
    free: BTreeMap<u32, (BTreeSet<u32>, u32)>,
}

impl FilterBands {
    /// The bands of a slice that has these filters at these positions, as a program left them. Filters that no program with bands has made are left out.
    pub fn restore(filters: impl IntoIterator<Item = (u32, FilterSpec)>) -> FilterBands {
        let mut bands = FilterBands::default();
        for (position, filter) in filters {
            let Some(condition) = KeyCondition::of(&filter) else { continue };
            let (free, used) = bands.free.entry(position / BAND).or_default();
            let place = position % BAND;
            free.extend((*used..place).map(|free| position - place + free));
            *used = place + 1;
            bands.placed.insert((position / BAND, condition), (position, filter.action));
        }
        bands
    }

    /// The edits that lead from the filters in use to the `wanted` ones, which are then in use. All additions come before the first deletion, so a key
    /// that has a filter before and after the edits has one between any two of them.
    ///
    /// Panics like [`FilterBands::set`].
    pub fn update(&mut self, wanted: &BandFilters) -> Vec<FilterEdit> {
        let set = wanted.iter().map(|((band, condition), action)| (*band, *condition, Some(action.clone())));
        let gone = self.placed.keys().filter(|filter| !wanted.contains_key(filter));
        let deleted: Vec<_> = gone.map(|(band, condition)| (*band, *condition, None)).collect();
        set.chain(deleted).filter_map(|(band, condition, action)| self.set(band, condition, action)).collect()
    }

    /// The edit that gives the packets of a condition this action, or ends the filter for it. `None` if nothing changes.
    ///
    /// Panics if a band is above 254, or has more than 2^24 filters: more than any table has entries.
    pub fn set(&mut self, band: u32, condition: KeyCondition, action: Option<FilterAction>) -> Option<FilterEdit> {
        let placed = self.placed.get_mut(&(band, condition));
        match (placed, action) {
            (Some((_, before)), Some(action)) if *before == action => None,
            (Some((position, before)), Some(action)) => {
                *before = action;
                Some(FilterEdit::Replace(*position, condition.filter(before.clone())))
            }
            (None, Some(action)) => {
                let position = self.place(band);
                self.placed.insert((band, condition), (position, action.clone()));
                Some(FilterEdit::Insert(position, condition.filter(action)))
            }
            (Some(_), None) => {
                let (position, _) = self.placed.remove(&(band, condition))?;
                self.free.entry(band).or_default().0.insert(position);
                Some(FilterEdit::Delete(position))
            }
            (None, None) => None,
        }
    }

    fn place(&mut self, band: u32) -> u32 {
        let (free, used) = self.free.entry(band).or_default();
        free.pop_first().unwrap_or_else(|| {
            assert!(band < 255 && *used < BAND, "a band has fewer filters than a table has entries");
            *used += 1;
            band * BAND + *used - 1
        })
    }

    /// The action for a key by definition: that of the filter at the lowest position that matches. Takes time in proportion to the filters.
    pub fn find(&self, key: &[u8; 14]) -> Option<&FilterAction> {
        self.placed.iter().find(|((_, condition), _)| condition.matches(key)).map(|(_, (_, action))| action)
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
    use crate::code::ExceptionCode;
    use proptest::prelude::*;

    fn condition(value: u8) -> KeyCondition {
        let (mut all, mut mask) = ([0; 14], [0; 14]);
        (all[0], mask[0]) = (value, 0xff);
        KeyCondition { value: all, mask }
    }

    fn action(number: u8) -> FilterAction {
        FilterAction::Exception(ExceptionCode::Own(number))
    }

    #[test]
    fn unchanged_filters_keep_their_positions() {
        let mut bands = FilterBands::default();
        let wanted = |filters: &[(u32, u8, u8)]| {
            filters.iter().map(|(band, value, own)| ((*band, condition(*value)), action(*own))).collect::<BandFilters>()
        };
        let insert = |position, value, own| FilterEdit::Insert(position, condition(value).filter(action(own)));
        let first = bands.update(&wanted(&[(0, 7, 1), (2, 7, 2), (2, 8, 3)]));
        assert_eq!(first, [insert(0, 7, 1), insert(2 * BAND, 7, 2), insert(2 * BAND + 1, 8, 3)]);
        let second = bands.update(&wanted(&[(2, 7, 4), (2, 8, 3), (2, 9, 5)]));
        let replaced = FilterEdit::Replace(2 * BAND, condition(7).filter(action(4)));
        assert_eq!(second, [replaced, insert(2 * BAND + 2, 9, 5), FilterEdit::Delete(0)]);
        let third = bands.update(&wanted(&[(2, 8, 3)]));
        assert_eq!(third, [FilterEdit::Delete(2 * BAND), FilterEdit::Delete(2 * BAND + 2)]);
        assert_eq!(bands.update(&wanted(&[(2, 8, 3), (2, 1, 6)])), [insert(2 * BAND, 1, 6)]);
        assert_eq!((bands.len(), bands.find(&condition(1).value)), (2, Some(&action(6))));
        assert_eq!((bands.find(&condition(7).value), bands.is_empty()), (None, false));
    }

    proptest! {
        #[test]
        fn edits_lead_to_the_wanted_filters(
            steps in proptest::collection::vec(proptest::collection::btree_map((0u32..3, 0u8..6), 0u8..3, 0..12), 1..6),
        ) {
            let (mut bands, mut table) = (FilterBands::default(), BTreeMap::new());
            for step in steps {
                let wanted: BandFilters =
                    step.into_iter().map(|((band, value), own)| ((band, condition(value)), action(own))).collect();
                for edit in bands.update(&wanted) {
                    match edit {
                        FilterEdit::Insert(position, filter) => {
                            prop_assert!(table.insert(position, filter).is_none());
                        }
                        FilterEdit::Replace(position, filter) => {
                            let value = filter.value.clone();
                            let before = table.insert(position, filter);
                            prop_assert_eq!(before.map(|before| before.value), Some(value));
                        }
                        FilterEdit::Delete(position) => prop_assert!(table.remove(&position).is_some()),
                    }
                }
                let placed = |(position, filter): (&u32, &FilterSpec)| {
                    ((position / BAND, condition(filter.value[0])), filter.action.clone())
                };
                prop_assert_eq!(table.iter().map(placed).collect::<BandFilters>(), wanted.clone());
                // A program that starts again continues with the filters in use, and with the free positions.
                let restored = FilterBands::restore(table.iter().map(|(position, filter)| (*position, filter.clone())));
                prop_assert_eq!(&restored.placed, &bands.placed);
                prop_assert_eq!(restored.clone().update(&wanted), vec![]);
                let next = |mut bands: FilterBands, band| {
                    let mut places = (0..12).map(|value| bands.set(band, condition(100 + value), Some(action(0))));
                    places.all(|edit| matches!(edit, Some(FilterEdit::Insert(at, _)) if !table.contains_key(&at)))
                };
                prop_assert!((0..3).all(|band| next(restored.clone(), band)));
            }
        }
    }
}
