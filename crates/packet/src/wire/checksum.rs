//! The internet checksum: RFC 1071 sums over slices, RFC 1624 incremental update, pseudo-headers.
//!
//! Sums use native-endian words and are swapped once at the end (RFC 1071 2(B)). They add eight bytes at a time and collect the carries in the upper
//! half of a `u128`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A running ones' complement sum of network-order 16-bit words.
///
/// Every added slice must start at an even offset of the whole. Only the last may have an odd length; it is padded with zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds `bytes`.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.word(sum(bytes))
    }

    /// Adds one 16-bit word.
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self(self.0 + word as u64)
    }

    /// Adds a 32-bit field as two words.
    #[must_use]
    pub const fn double(self, field: u32) -> Self {
        Self(self.0 + (field >> 16) as u64 + (field & 0xffff) as u64)
    }

    /// Adds a 64-bit field as four words.
    #[must_use]
    pub const fn quad(self, field: u64) -> Self {
        // 2^16 is 1 modulo 65535, so a 32-bit half adds the same as its two words.
        Self(self.0 + (field >> 32) + (field & 0xffff_ffff))
    }

    /// Adds the IPv4 pseudo-header of an upper-layer packet of `length` bytes (RFC 768, RFC 9293 3.1).
    #[must_use]
    pub fn pseudo4(self, source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Self {
        self.double(source.to_bits()).double(destination.to_bits()).word(u16::from(protocol)).word(length)
    }

    /// Adds the IPv6 pseudo-header of an upper-layer packet of `length` bytes (RFC 8200 8.1).
    #[must_use]
    pub fn pseudo6(self, source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Self {
        self.bytes(&source.octets()).bytes(&destination.octets()).double(length).word(u16::from(protocol))
    }

    /// The sum folded to 16 bits. Over data that contains its own correct checksum it is 0xffff.
    pub const fn folded(self) -> u16 {
        fold(self.0)
    }

    /// The checksum: the complement of the folded sum.
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// Folds with end-around carry. The rotation adds each half to the other at once, so that the carry of the lower sum reaches the upper half. The
/// result is zero only if every added word was zero.
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// Adds the upper 64 bits to the lower ones: 2^64 is 1 modulo 65535.
const fn around(sum: u128) -> u64 {
    let (sum, carry) = (sum as u64).overflowing_add((sum >> 64) as u64);
    // After an overflow the sum is small enough to add the carry.
    sum + carry as u64
}

/// The folded ones' complement sum of `bytes` as network-order words, an odd last byte padded with zero (RFC 1071).
pub fn sum(bytes: &[u8]) -> u16 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    // Two accumulators shorten the dependency chain: neighbouring words do not wait for each other's carry.
    let (mut even, mut odd) = (0u128, 0u128);
    for block in blocks {
        let both = u128::from_ne_bytes(*block);
        even += both & u64::MAX as u128;
        odd += both >> 64;
    }
    even += sum_tail(rest);
    // 2^64 is 1 modulo 65535, so the accumulated carries are added to the lower bits.
    fold_two(even, odd).to_be()
}

/// The sum of fewer than 16 bytes, in halves, which avoids a call to memcpy.
#[inline]
fn sum_tail(mut rest: &[u8]) -> u128 {
    let mut total = 0;
    if let Some((word, behind)) = rest.split_first_chunk::<8>() {
        total += u128::from(u64::from_ne_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<4>() {
        total += u128::from(u32::from_ne_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<2>() {
        total += u128::from(u16::from_ne_bytes(*word));
        rest = behind;
    }
    match rest {
        [last, ..] => total + u128::from(u16::from_ne_bytes([*last, 0])),
        [] => total,
    }
}

fn fold_two(even: u128, odd: u128) -> u16 {
    let (sum, carry) = around(even).overflowing_add(around(odd));
    fold(sum + carry as u64)
}

/// The checksum of `bytes`, for a checksum field that is zero during the computation.
pub fn checksum(bytes: &[u8]) -> u16 {
    !sum(bytes)
}

/// The checksum after a covered 16-bit field changes from `old` to `new` (RFC 1624 equation 3).
///
/// Equal to recomputation unless the data becomes all zero. A UDP checksum of zero means "none": it must not be updated, and a result of zero must be
/// sent as 0xffff (RFC 768). [`update_udp`] does both.
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// [`update`] for a 32-bit field, such as an IPv4 address.
pub const fn update_double(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// [`update`] for an IPv6 address.
pub fn update_address6(checksum: u16, old: Ipv6Addr, new: Ipv6Addr) -> u16 {
    !Sum::new().word(!checksum).word(!sum(&old.octets())).bytes(&new.octets()).folded()
}

/// [`update`] for a UDP checksum: "none" stays none, and a sum of zero becomes 0xffff (RFC 768).
pub const fn update_udp(checksum: u16, old: u16, new: u16) -> u16 {
    match (checksum, update(checksum, old, new)) {
        (0, _) => 0,
        (_, 0) => 0xffff,
        (_, updated) => updated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1 as printed there, with the bytes in network order.
    fn oracle(bytes: &[u8]) -> u16 {
        let mut total: u32 = 0;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            while total > 0xffff {
                total = (total & 0xffff) + (total >> 16);
            }
        }
        total as u16
    }

    #[test]
    fn the_example_of_rfc_1071_sums_as_printed() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_updates_as_printed() {
        // Section 4: the case in which RFC 1141's equation gives 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn the_largest_sums_do_not_overflow() {
        for length in [0, 1, 2, 15, 16, 17, 1500, 65_535] {
            let bytes = vec![0xff; length];
            assert_eq!(sum(&bytes), oracle(&bytes), "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn folded_words_are_the_naive_sum(words in proptest::array::uniform4(prop_oneof![Just(0u16), Just(u16::MAX), any::<u16>()])) {
            let naive = words.iter().fold(0u32, |sum, word| sum + u32::from(*word));
            let mut rest = naive;
            while rest > 0xffff {
                rest = (rest & 0xffff) + (rest >> 16);
            }
            let sum = words.iter().fold(0u64, |sum, word| sum << 16 | u64::from(*word));
            prop_assert_eq!(u32::from(fold(sum)), rest);
        }

        #[test]
        fn a_sum_is_the_naive_sum(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&bytes), oracle(&bytes));
        }

        #[test]
        fn a_sum_of_parts_is_the_sum_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in any::<proptest::sample::Index>(),
        ) {
            let cut = cut.index(bytes.len() / 2 + 1) * 2;
            prop_assert_eq!(Sum::new().bytes(&bytes[..cut]).bytes(&bytes[cut..]).folded(), sum(&bytes));
        }

        #[test]
        fn an_incremental_update_equals_recomputation(
            mut bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 8..64),
            at in any::<proptest::sample::Index>(),
            new in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
        ) {
            let at = at.index(bytes.len() / 2) * 2;
            bytes[0] |= 1; // never all zero: zero has two forms there
            let at = at.max(2);
            prop_assume!(at + 2 <= bytes.len());
            let before = checksum(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), checksum(&bytes));
        }

        #[test]
        fn an_address_update_equals_recomputation(old: [u8; 16], new: [u8; 16], rest in 1u16..) {
            let total = |a: [u8; 16]| Sum::new().bytes(&a).word(rest).checksum();
            prop_assert_eq!(update_address6(total(old), old.into(), new.into()), total(new));
            let four = |a: [u8; 16]| u32::from_be_bytes([a[0], a[1], a[2], a[3]]);
            let total = |a: [u8; 16]| Sum::new().double(four(a)).word(rest).checksum();
            prop_assert_eq!(update_double(total(old), four(old), four(new)), total(new));
        }

        #[test]
        fn udp_update_keeps_missing_checksums_missing_and_others_present(sum: u16, old: u16, new: u16) {
            prop_assert_eq!(update_udp(sum, old, new) == 0, sum == 0);
        }
    }
}
