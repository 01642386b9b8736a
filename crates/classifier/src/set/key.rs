//! The values that a set can hold: IPv4 addresses, IPv6 addresses and ports, each with the form in which an element stores its end.

use std::fmt::Debug;

/// A searched value: an address or a port.
pub(super) trait Key: Copy + Ord + Debug + Send + Sync + 'static {
    /// The smallest value.
    const MIN: Self;
    /// The largest value.
    const MAX: Self;
    /// The part of an element beside its first value.
    type Tail: Copy + Ord + Debug + Send + Sync + 'static;

    /// The last value of the element. Panics if a prefix length exceeds the address.
    fn end(start: Self, tail: Self::Tail) -> Self;
}

/// A value of few bits, which vector instructions compare.
pub(super) trait ShortKey: Key {
    /// The number of `keys` that are at most `value`. The keys ascend.
    fn rank<const N: usize>(keys: &[Self; N], value: Self) -> usize;
}

/// Compares with all keys: the compiler turns the loop into a few vector instructions, which is faster than a search for up to 16 short keys.
macro_rules! count {
    ($keys:expr, $value:expr, $wide:ty) => {
        // The sum has the width of a key, so that a vector register holds as many sums as keys.
        $keys.iter().map(|key| <$wide>::from(*key <= $value)).sum::<$wide>() as usize
    };
}

impl Key for u32 {
    const MIN: Self = 0;
    const MAX: Self = u32::MAX;
    /// The prefix length.
    type Tail = u8;

    fn end(start: u32, length: u8) -> u32 {
        start | u32::MAX.checked_shr(length.into()).unwrap_or(0)
    }
}

impl ShortKey for u32 {
    #[inline(always)]
    fn rank<const N: usize>(keys: &[u32; N], value: u32) -> usize {
        count!(keys, value, u32)
    }
}

impl Key for u16 {
    const MIN: Self = 0;
    const MAX: Self = u16::MAX;
    /// The last port.
    type Tail = u16;

    fn end(_: u16, last: u16) -> u16 {
        last
    }
}

impl ShortKey for u16 {
    #[inline(always)]
    fn rank<const N: usize>(keys: &[u16; N], value: u16) -> usize {
        count!(keys, value, u16)
    }
}

impl Key for u128 {
    const MIN: Self = 0;
    const MAX: Self = u128::MAX;
    /// The prefix length.
    type Tail = u8;

    fn end(start: u128, length: u8) -> u128 {
        start | u128::MAX.checked_shr(length.into()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefix_ends_at_its_last_address() {
        assert_eq!(u32::end(0x0a00_0000, 8), 0x0aff_ffff);
        assert_eq!(u32::end(7, 32), 7);
        assert_eq!(u32::end(0, 0), u32::MAX);
        assert_eq!(u128::end(0, 0), u128::MAX);
        assert_eq!(u128::end(9, 128), 9);
    }

    proptest! {
        #[test]
        fn rank_counts_the_keys_up_to_a_value(mut keys: [u8; 16], value: u8) {
            keys.sort();
            let expected = keys.iter().filter(|key| **key <= value).count();
            prop_assert_eq!(u32::rank(&keys.map(u32::from), value.into()), expected);
            prop_assert_eq!(u16::rank(&keys.map(u16::from), value.into()), expected);
        }
    }
}
