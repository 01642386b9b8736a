//! Filters of tenants, and the ternary rules that they become.

use super::KEY_BITS;
use super::error::TenantError;
use crate::rule::{Key, RuleResult, TernaryRule};

/// Words of an opaque key.
const KEY_WORDS: usize = KEY_BITS as usize / 64;
/// Words of a key as the tables compare it: the last word of the opaque key is there twice, once for bits and once for ranges.
pub(super) const WORDS: usize = KEY_WORDS + 1;
/// The last four fields of 16 bits are compared with a range as they are.
const LANE_BITS: u16 = 16;
const FIRST_LANE_BIT: u16 = KEY_BITS - 4 * LANE_BITS;

/// 320 bits that only their tenant understands. Bit 0 is the most significant bit of the first word, so a key reads like the bytes of a header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpaqueKey(pub [u64; KEY_WORDS]);

impl OpaqueKey {
    /// The longest key in bytes.
    pub const MOST_BYTES: usize = KEY_BITS as usize / 8;

    /// The key that begins with these bytes and continues with zeros. Bytes behind the first 40 are ignored.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> OpaqueKey {
        let mut key = [0; OpaqueKey::MOST_BYTES];
        let used = bytes.len().min(OpaqueKey::MOST_BYTES);
        key[..used].copy_from_slice(&bytes[..used]);
        let (words, _) = key.as_chunks();
        OpaqueKey(std::array::from_fn(|word| u64::from_be_bytes(words[word])))
    }

    /// The low `width` bits of `value` (1 to 64) as the bits from `first` on. The caller has checked that they end within the key.
    fn field(first: u16, width: u16, value: u64) -> OpaqueKey {
        let last = first + width - 1;
        let (word, shift) = (usize::from(last / 64), 63 - last % 64);
        let wide = u128::from(value) << shift;
        let mut key = OpaqueKey::default();
        key.0[word] = wide as u64;
        if word > 0 {
            key.0[word - 1] = (wide >> 64) as u64;
        }
        key
    }

    /// The key as tables compare it.
    #[inline(always)]
    pub(super) fn words(&self) -> Key<WORDS> {
        let [a, b, c, d, e] = self.0;
        Key([a, b, c, d, e, e])
    }
}

/// A range of values that a field of a key must have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KeyRange {
    /// The first bit of the field.
    pub first_bit: u16,
    /// The number of its bits, 1 to 64.
    pub width: u16,
    /// The lowest value.
    pub low: u64,
    /// The highest value.
    pub high: u64,
}

impl KeyRange {
    fn check(&self) -> Result<(), TenantError> {
        let fits =
            (1..=64).contains(&self.width) && self.first_bit.checked_add(self.width).is_some_and(|e| e <= KEY_BITS);
        if !fits {
            return Err(TenantError::NoField { first_bit: self.first_bit, width: self.width });
        }
        if self.low > self.high || self.high > u64::MAX >> (64 - self.width) {
            return Err(TenantError::NoRange { low: self.low, high: self.high, width: self.width });
        }
        Ok(())
    }

    /// The lane of this field, if it is one of the last four of 16 bits.
    fn lane(&self) -> Option<u32> {
        let at = self.first_bit.checked_sub(FIRST_LANE_BIT)?;
        // Lanes count from the low bits on.
        (self.width == LANE_BITS && at.is_multiple_of(LANE_BITS)).then(|| 3 - u32::from(at / LANE_BITS))
    }
}

/// A condition on keys, and its result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantFilter {
    /// The bits to compare with. Bits outside of the mask do not matter.
    pub value: OpaqueKey,
    /// The bits that are compared.
    pub mask: OpaqueKey,
    /// The ranges of further fields. They may overlap each other and the mask: all conditions must hold.
    pub ranges: Vec<KeyRange>,
    /// The result. The table replaces its counter by that of the filter.
    pub result: RuleResult,
}

impl TenantFilter {
    /// A filter for keys that agree with `value` in the bits of `mask`.
    pub fn new(value: OpaqueKey, mask: OpaqueKey, result: RuleResult) -> TenantFilter {
        TenantFilter { value, mask, ranges: Vec::new(), result }
    }

    /// Requires the `width` bits from `first_bit` on to be a number from `low` to `high`.
    ///
    /// A range of one of the last four fields of 16 bits needs one entry of the table. Any other range needs one for each prefix that it consists of: up
    /// to twice its width, less two.
    pub fn range(mut self, first_bit: u16, width: u16, (low, high): (u64, u64)) -> TenantFilter {
        self.ranges.push(KeyRange { first_bit, width, low, high });
        self
    }

    /// True if the filter matches `key`: by its definition, not by a table.
    pub fn matches(&self, key: &OpaqueKey) -> bool {
        let agrees = (0..KEY_WORDS).all(|w| (key.0[w] ^ self.value.0[w]) & self.mask.0[w] == 0);
        let within = |range: &KeyRange| {
            let number = (0..range.width).fold(0, |number, i| {
                let bit = usize::from(range.first_bit + i);
                number << 1 | key.0[bit / 64] >> (63 - bit % 64) & 1
            });
            range.low <= number && number <= range.high
        };
        agrees && self.ranges.iter().all(within)
    }

    /// The entries of the table that together are this filter, each with this rank and counter. No key matches two of them. More than `most` are
    /// refused, before they use memory.
    pub(super) fn entries(
        &self,
        (rank, counter): (u32, u32),
        most: usize,
    ) -> Result<Vec<TernaryRule<WORDS>>, TenantError> {
        let mut conditions = vec![Conditions { value: self.value, mask: self.mask, lanes: [(0, u16::MAX); 4] }];
        for range in &self.ranges {
            range.check()?;
            let prefixes = prefixes(range.low.into(), range.high.into(), range.width);
            let lane = range.lane().filter(|_| prefixes.len() > 1);
            conditions = match lane {
                Some(lane) => conditions.iter().filter_map(|condition| condition.with_lane(lane, range)).collect(),
                None => {
                    let entries = conditions.len().saturating_mul(prefixes.len());
                    if entries > most {
                        return Err(TenantError::TooManyEntries { entries, most });
                    }
                    let with = |prefix: &NumberPrefix| {
                        // A field has at most 64 bits.
                        let field = |bits: u128| OpaqueKey::field(range.first_bit, range.width, bits as u64);
                        (field(prefix.value), field(prefix.mask))
                    };
                    let prefixes: Vec<_> = prefixes.iter().map(with).collect();
                    let both = |condition: &Conditions| {
                        let condition = *condition;
                        prefixes
                            .iter()
                            .filter_map(move |(value, mask)| condition.with_bits(value, mask))
                            .collect::<Vec<_>>()
                    };
                    conditions.iter().flat_map(both).collect()
                }
            };
        }
        if conditions.is_empty() {
            return Err(TenantError::NoKeyMatches);
        }
        let result = RuleResult { counter, ..self.result };
        Ok(conditions.iter().map(|conditions| conditions.rule(TernaryRule::any(rank, result))).collect())
    }
}

/// The conditions of one entry of the table.
#[derive(Clone, Copy)]
struct Conditions {
    value: OpaqueKey,
    mask: OpaqueKey,
    lanes: [(u16, u16); 4],
}

impl Conditions {
    /// Also requires the bits of `mask`. `None` if no key can have both.
    fn with_bits(mut self, value: &OpaqueKey, mask: &OpaqueKey) -> Option<Conditions> {
        for w in 0..KEY_WORDS {
            if (self.value.0[w] ^ value.0[w]) & self.mask.0[w] & mask.0[w] != 0 {
                return None;
            }
            self.value.0[w] = self.value.0[w] & !mask.0[w] | value.0[w] & mask.0[w];
            self.mask.0[w] |= mask.0[w];
        }
        Some(self)
    }

    /// Also requires a lane to be within a range. `None` if no value is in both ranges.
    fn with_lane(mut self, lane: u32, range: &KeyRange) -> Option<Conditions> {
        let (low, high) = &mut self.lanes[lane as usize];
        (*low, *high) = ((*low).max(range.low as u16), (*high).min(range.high as u16));
        (*low <= *high).then_some(self)
    }

    fn rule(&self, any: TernaryRule<WORDS>) -> TernaryRule<WORDS> {
        let rule = (0..KEY_WORDS).fold(any, |rule, w| rule.bits(w, self.value.0[w], self.mask.0[w]));
        (0..4).fold(rule, |rule, lane| {
            let (low, high) = self.lanes[lane as usize];
            rule.lane(lane, low..=high)
        })
    }
}

/// Numbers that agree in their leading bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumberPrefix {
    /// The leading bits. All others are zero.
    pub value: u128,
    /// One for each leading bit.
    pub mask: u128,
}

/// The fewest prefixes of numbers of `width` bits that together are `low..=high`. Panics for numbers of no bits or more than 127.
pub fn prefixes(low: u128, high: u128, width: u16) -> Vec<NumberPrefix> {
    assert!((1..128).contains(&width), "numbers have 1 to 127 bits");
    let (mut at, end) = (low, high + 1);
    let mut prefixes = Vec::new();
    while at < end {
        // The largest block that begins here: as large as the alignment allows, and not beyond the end.
        let free = at.trailing_zeros().min((end - at).ilog2()).min(u32::from(width));
        let mask = u128::MAX << free & u128::MAX >> (128 - width);
        prefixes.push(NumberPrefix { value: at, mask });
        at += 1 << free;
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number_of(prefixes: &[NumberPrefix], number: u128) -> usize {
        prefixes.iter().filter(|prefix| number & prefix.mask == prefix.value).count()
    }

    #[test]
    fn prefixes_of_every_small_range_hold_its_numbers_once_and_no_others() {
        for width in 1..=7u16 {
            let numbers = 1u128 << width;
            for (low, high) in (0..numbers).flat_map(|low| (low..numbers).map(move |high| (low, high))) {
                let prefixes = prefixes(low, high, width);
                for number in 0..numbers {
                    let expected = usize::from((low..=high).contains(&number));
                    assert_eq!(number_of(&prefixes, number), expected, "{number} of {low} to {high}, {width} bits");
                }
                assert!(prefixes.len() <= (2 * usize::from(width) - 2).max(1), "{low} to {high}, {width} bits");
                // Each is as large as it can be: the block of twice its size is not within the range.
                for NumberPrefix { value, mask } in prefixes {
                    let size = numbers - mask;
                    let double = value & !size;
                    assert!(size == numbers || double < low || double + 2 * size - 1 > high, "{low} to {high}");
                }
            }
        }
    }

    #[test]
    fn entries_of_every_small_range_match_as_the_range_does() {
        // The field crosses the border of two words, lies at either end of the key, or within a lane.
        for width in 1..=6u16 {
            let numbers = 1u64 << width;
            for first_bit in [0, 61, 190, 258, KEY_BITS - width] {
                for (low, high) in (0..numbers).flat_map(|low| (low..numbers).map(move |high| (low, high))) {
                    let filter = TenantFilter::new(OpaqueKey::default(), OpaqueKey::default(), RuleResult::default())
                        .range(first_bit, width, (low, high));
                    let entries = filter.entries((0, 0), 100).unwrap();
                    for number in 0..numbers {
                        let mut key = OpaqueKey::field(first_bit, width, number);
                        // Other bits do not matter.
                        key.0
                            .iter_mut()
                            .zip(OpaqueKey::field(first_bit, width, u64::MAX >> (64 - width)).0)
                            .for_each(|(word, field)| *word |= 0x5a5a_5a5a_5a5a_5a5a & !field);
                        let found = entries.iter().filter(|entry| entry.matches(&key.words())).count();
                        assert_eq!(found, usize::from((low..=high).contains(&number)));
                        assert_eq!(found == 1, filter.matches(&key));
                    }
                }
            }
        }
    }

    #[test]
    fn range_of_a_lane_is_one_entry_and_of_another_field_up_to_thirty() {
        let any = TenantFilter::new(OpaqueKey::default(), OpaqueKey::default(), RuleResult::default());
        let count = |first_bit| {
            any.clone().range(first_bit, 16, (1, 65_534)).entries((0, 0), 1000).map(|entries| entries.len())
        };
        for lane in 0..4 {
            assert_eq!(count(256 + lane * 16), Ok(1));
        }
        assert_eq!(count(240), Ok(30));
        assert_eq!(count(257), Ok(30));
        assert_eq!(any.clone().range(0, 16, (0, 65_535)).entries((0, 0), 1).map(|entries| entries.len()), Ok(1));
        let many = any.clone().range(0, 16, (1, 65_534)).range(16, 16, (1, 65_534));
        assert_eq!(many.entries((0, 0), 899), Err(TenantError::TooManyEntries { entries: 900, most: 899 }));
        assert_eq!(many.entries((0, 0), 900).map(|entries| entries.len()), Ok(900));
    }

    #[test]
    fn impossible_fields_ranges_and_conditions_are_refused() {
        let any = TenantFilter::new(OpaqueKey::default(), OpaqueKey::default(), RuleResult::default());
        let error = |filter: &TenantFilter| filter.entries((0, 0), 1000).unwrap_err();
        for (first_bit, width) in [(0, 0), (0, 65), (305, 16), (u16::MAX, 8)] {
            assert_eq!(error(&any.clone().range(first_bit, width, (0, 1))), TenantError::NoField { first_bit, width });
        }
        assert_eq!(error(&any.clone().range(0, 8, (9, 8))), TenantError::NoRange { low: 9, high: 8, width: 8 });
        assert_eq!(error(&any.clone().range(0, 8, (0, 256))), TenantError::NoRange { low: 0, high: 256, width: 8 });
        for first_bit in [256, 0] {
            let two = any.clone().range(first_bit, 16, (1, 5)).range(first_bit, 16, (6, 9));
            assert_eq!(error(&two), TenantError::NoKeyMatches);
        }
    }

    #[test]
    fn key_of_bytes_begins_with_them() {
        let key = OpaqueKey::from_bytes(&[0x45, 0, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(key.0, [0x4500_0001_0203_0405, 0x0600_0000_0000_0000, 0, 0, 0]);
        assert_eq!(OpaqueKey::from_bytes(&[0xff; 50]).0, [u64::MAX; 5]);
    }

    proptest! {
        #[test]
        fn entries_match_as_the_filter_does(
            value: [u64; 5], mask: [u64; 5], ranges in proptest::collection::vec((0u16..300, 1u16..=20, any::<u64>(), any::<u64>()), 0..3),
            keys in proptest::collection::vec((any::<[u64; 5]>(), any::<u64>(), any::<bool>()), 40),
        ) {
            let mut filter = TenantFilter::new(OpaqueKey(value), OpaqueKey(mask.map(|bits| bits & bits >> 7 & bits << 9)), RuleResult::default());
            for (first, width, a, b) in ranges {
                let (first, width) = if first > 240 { (256 + first % 4 * 16, 16) } else { (first, width) };
                let (a, b) = (a >> (64 - width), b >> (64 - width));
                filter = filter.range(first, width, (a.min(b), a.max(b)));
            }
            let entries = match filter.entries((3, 4), 1 << 20) {
                Ok(entries) => entries,
                Err(error) => {
                    prop_assert_eq!(error, TenantError::NoKeyMatches);
                    Vec::new()
                }
            };
            for (free, number, inside) in keys {
                let mut key = OpaqueKey(std::array::from_fn(|w| value[w] & filter.mask.0[w] | free[w] & !filter.mask.0[w]));
                for range in filter.ranges.iter().filter(|_| inside) {
                    let number = range.low + number % (range.high - range.low + 1);
                    let field = OpaqueKey::field(range.first_bit, range.width, u64::MAX >> (64 - range.width));
                    let number = OpaqueKey::field(range.first_bit, range.width, number);
                    key = OpaqueKey(std::array::from_fn(|w| key.0[w] & !field.0[w] | number.0[w]));
                }
                let found = entries.iter().filter(|entry| entry.matches(&key.words())).count();
                prop_assert_eq!(found, usize::from(filter.matches(&key)));
            }
        }
    }
}
