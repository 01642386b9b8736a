//! Identifiers of the Internet Indirection Infrastructure (Stoica et al. 2002), and keys of the Chord ring that shares them out among routers
//! (Stoica et al. 2001).

use std::fmt;

/// Bits of an identifier.
pub const ID_BITS: u16 = 256;
/// Bits in which a packet and a trigger agree at least. More than a Chord key has, so that both always meet at one router.
pub const LEAST_PREFIX: u16 = 192;
/// Leading bits of an identifier that fit into a lookup key beside its kind.
pub const BLOCK_BITS: u16 = 104;

const BLOCK_BYTES: usize = BLOCK_BITS as usize / 8;

/// An identifier: the destination of a packet, or the condition of a trigger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct I3Id(pub [u8; ID_BITS as usize / 8]);

impl I3Id {
    /// The place of the identifier on the ring: its leading 160 bits.
    pub fn chord_key(&self) -> ChordKey {
        ChordKey(*self.0.first_chunk().expect("an identifier is longer than a key"))
    }

    /// The number of leading bits in which two identifiers agree, 0 to 256.
    pub fn common_prefix(&self, other: &I3Id) -> u16 {
        let differs = self.0.iter().zip(other.0).position(|(a, b)| *a != b);
        differs.map_or(ID_BITS, |at| at as u16 * 8 + (self.0[at] ^ other.0[at]).leading_zeros() as u16)
    }

    /// Its bits from the 105th on.
    pub fn rest(&self) -> [u8; 19] {
        *self.0.last_chunk().expect("an identifier has 32 bytes")
    }

    /// The identifier with its bits from the 105th on replaced.
    pub fn with_rest(mut self, rest: [u8; 19]) -> I3Id {
        self.0[BLOCK_BYTES..].copy_from_slice(&rest);
        self
    }

    /// The block of the identifier: its leading 104 bits.
    pub fn block(&self) -> u128 {
        self.chord_key().block()
    }
}

impl fmt::Display for I3Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A place on the ring: of a router, or of an identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChordKey(pub [u8; 20]);

impl ChordKey {
    /// True if this place is behind `after`, clockwise, and at `up_to` or before it. From a place to itself it is the whole ring.
    pub fn is_within(&self, after: &ChordKey, up_to: &ChordKey) -> bool {
        if after < up_to { after < self && self <= up_to } else { after < self || self <= up_to }
    }

    /// The block of the place: its leading 104 bits. A block has 2^56 places.
    pub fn block(&self) -> u128 {
        let mut bytes = [0; 16];
        bytes[16 - BLOCK_BYTES..].copy_from_slice(&self.0[..BLOCK_BYTES]);
        u128::from_be_bytes(bytes)
    }

    /// True for the last place of its block.
    pub fn ends_block(&self) -> bool {
        self.0[BLOCK_BYTES..].iter().all(|byte| *byte == 0xff)
    }
}

impl fmt::Display for ChordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(first: u8, last: u8) -> ChordKey {
        let mut key = ChordKey([0; 20]);
        (key.0[0], key.0[19]) = (first, last);
        key
    }

    #[test]
    fn i3_pred_self_inclusive() {
        let (before, own) = (key(10, 7), key(20, 3));
        assert!(!key(10, 7).is_within(&before, &own), "the predecessor owns its own key");
        assert!(key(10, 8).is_within(&before, &own));
        assert!(key(20, 3).is_within(&before, &own), "a router owns its own key");
        assert!(!key(20, 4).is_within(&before, &own));
        // Across zero.
        assert!(key(0, 0).is_within(&own, &before) && key(255, 0).is_within(&own, &before));
        assert!(key(10, 7).is_within(&own, &before) && !key(20, 3).is_within(&own, &before));
        assert!(key(20, 3).is_within(&own, &own) && key(0, 0).is_within(&own, &own), "alone it owns every key");
    }

    #[test]
    fn common_prefix_counts_bits() {
        let zeros = I3Id([0; 32]);
        assert_eq!(zeros.common_prefix(&zeros), 256);
        for bit in 0..256u16 {
            let mut other = zeros;
            other.0[usize::from(bit / 8)] = 0xd5 >> (bit % 8);
            assert_eq!(zeros.common_prefix(&other), bit);
        }
    }

    #[test]
    fn block_is_the_leading_104_bits() {
        let mut id = I3Id(std::array::from_fn(|i| i as u8 + 1));
        assert_eq!(id.block(), 0x0001_0203_0405_0607_0809_0a0b_0c0d);
        assert_eq!(id.chord_key().0, std::array::from_fn(|i| i as u8 + 1));
        assert!(!id.chord_key().ends_block());
        id.0[13..20].fill(0xff);
        assert!(id.chord_key().ends_block());
    }
}
