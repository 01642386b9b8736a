//! Addresses of a route cache, and the permutation of their bits.
//!
//! A plan moves its K index bits to the top of an address and keeps the order of the other bits, its tag. In this *permuted* address space each
//! partition is one aligned block, and a range of a partition is one range of numbers. A look-up therefore compares a single number with the
//! two ends of an entry.
//!
//! The paper's network processor gathered the bits in a loop over the address (P-18). Here one table for each octet has the permuted place of
//! every value of this octet. A look-up combines four words for IPv4, and eight for IPv6.

use std::fmt::Debug;
use std::hash::Hash;
use std::ops::{Add, BitAnd, BitOr, Shl, Shr, Sub};

/// An address: `u32` for IPv4 and for header fields, `u128` for IPv6.
pub trait Address:
    Copy
    + Ord
    + Hash
    + Debug
    + From<u8>
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// Bits of the type.
    const BITS: u8;
    /// The leading bits of an address that may be index bits. For IPv6 these are the bits of the network (RFC 4291 2.5.4).
    const INDEXED: u8;
    /// The permuted place of each value of each octet.
    type Gather: Send + Sync;

    /// The tables of the permutation `slow`, which has to move each bit on its own.
    fn tables(slow: impl Fn(Self) -> Self) -> Self::Gather;

    /// The permuted address.
    fn permute(self, tables: &Self::Gather) -> Self;

    /// The low 64 bits.
    fn low(self) -> u64;

    /// The bits of numbers with `count` bits.
    fn mask(count: u8) -> Self;
}

impl Address for u32 {
    const BITS: u8 = 32;
    const INDEXED: u8 = 32;
    type Gather = Box<[[u32; 256]; 4]>;

    fn tables(slow: impl Fn(u32) -> u32) -> Self::Gather {
        Box::new(std::array::from_fn(|octet| std::array::from_fn(|value| slow((value as u32) << (octet * 8)))))
    }

    #[inline(always)]
    fn permute(self, tables: &Self::Gather) -> u32 {
        let [a, b, c, d] = self.to_le_bytes().map(usize::from);
        tables[0][a] | tables[1][b] | tables[2][c] | tables[3][d]
    }

    #[inline(always)]
    fn low(self) -> u64 {
        self.into()
    }

    #[inline(always)]
    fn mask(count: u8) -> u32 {
        u32::MAX.checked_shr(u32::from(32 - count)).unwrap_or(0)
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    const INDEXED: u8 = 64;
    type Gather = Box<[[u64; 256]; 8]>;

    fn tables(slow: impl Fn(u128) -> u128) -> Self::Gather {
        let of = |octet: usize, value: usize| (slow((value as u128) << (64 + octet * 8)) >> 64) as u64;
        Box::new(std::array::from_fn(|octet| std::array::from_fn(|value| of(octet, value))))
    }

    /// Index bits are among the first 64, so that the last 64 keep their places.
    #[inline(always)]
    fn permute(self, tables: &Self::Gather) -> u128 {
        let octets = ((self >> 64) as u64).to_le_bytes();
        let network = (0..8).fold(0, |network, i| network | tables[i][usize::from(octets[i])]);
        u128::from(network) << 64 | u128::from(self as u64)
    }

    #[inline(always)]
    fn low(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn mask(count: u8) -> u128 {
        u128::MAX.checked_shr(u32::from(128 - count)).unwrap_or(0)
    }
}

/// The bit of `address` at `position`; bit 0 is the least significant.
pub(super) fn bit<A: Address>(address: A, position: u8) -> bool {
    (address >> u32::from(position)) & A::from(1) == A::from(1)
}

/// The first address that remains of those from `start` on: addresses with another value of the bit at `position` are removed, and the bit is
/// deleted from the others (P-15). The result may be one more than the largest address.
#[inline(always)]
pub(super) fn restrict<A: Address>(start: A, position: u8, value: bool) -> A {
    let (above, below) = ((start >> u32::from(position)) >> 1, start & A::mask(position));
    let place = u32::from(position);
    match (bit(start, position), value) {
        (true, true) | (false, false) => above << place | below,
        // The next address with this bit set has zeros below it.
        (false, true) => above << place,
        // The next address with this bit clear follows a carry into the bits above.
        (true, false) => (above + A::from(1)) << place,
    }
}
