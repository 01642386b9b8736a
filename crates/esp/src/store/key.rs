//! Keyed hashing. The key determines the home of a tag and the shard of a computation, so a user without it cannot aim at one line or one shard (spec
//! E-11).

/// A secret key for hashes from 64 bits to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 2]);

/// Odd multipliers with half their bits set, from the fractional parts of the golden ratio and of pi.
const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa409_3822_299f_31d1];

/// Multiplies to 128 bits and xors the halves, so that every bit of the product matters.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key {
    /// A key of 128 bits. Routers draw one at every start, simulations use a fixed one.
    pub const fn new(secret: [u64; 2]) -> Key {
        Key(secret)
    }

    /// The hash of `word`. All bits of the result are equally good.
    #[inline(always)]
    pub const fn hash(self, word: u64) -> u64 {
        // The secret enters both multiplications, so a sender who chooses `word` knows the input of neither.
        self.join(word, 0)
    }

    /// The hash of two words. Their order matters.
    #[inline(always)]
    pub const fn join(self, first: u64, second: u64) -> u64 {
        fold(fold(first ^ self.0[0], ODD[0]) ^ self.0[1] ^ second, ODD[1])
    }

    /// A cheaper hash for words that are already random, such as tags.
    pub const fn scatter(self) -> Scatter {
        // Xor with a constant and set the lowest bit: even a secret of all zeros or all ones gives a factor that spreads.
        Scatter { mask: self.0[0], factor: (self.0[1] ^ ODD[0]) | 1 }
    }

    /// A separate key for another purpose.
    #[must_use]
    pub const fn derive(self, purpose: u64) -> Key {
        Key([self.hash(purpose), self.hash(!purpose)])
    }
}

/// A hash by one multiplication. Without the key a single hash reveals nothing; an attacker who sees many hashes could derive the key.
#[derive(Clone, Copy)]
pub struct Scatter {
    mask: u64,
    factor: u64,
}

impl Scatter {
    /// The hash of `word`.
    #[inline(always)]
    pub const fn hash(self, word: u64) -> u64 {
        fold(word ^ self.mask, self.factor)
    }
}

/// Maps a hash to a number below `bound`: the high bits of a product instead of a division (Lemire 2019).
#[inline(always)]
pub const fn below(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}

/// Debug output does not reveal the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}
