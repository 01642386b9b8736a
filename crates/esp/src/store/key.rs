//! Keyed hashing: where a tag lies and which shard a computation meets, so that nobody without the key can aim at one line
//! or one shard (spec E-11).

/// A secret, and the hash it makes: 64-bit keys to 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 2]);

/// Odd, with half their bits set (from the fractional parts of the golden ratio and of pi).
const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xa409_3822_299f_31d1];

/// Multiplies to 128 bits and folds the halves, so that every bit of the product counts.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key {
    /// A key of 128 bits, drawn anew at every start; fixed in simulations.
    pub const fn new(secret: [u64; 2]) -> Key {
        Key(secret)
    }

    /// The hash of `word`. All of its bits count, the high ones as much as the low ones.
    #[inline(always)]
    pub const fn hash(self, word: u64) -> u64 {
        // Neither factor that is multiplied is known to who chooses the word.
        self.join(word, 0)
    }

    /// The hash of two words, of which neither can take the place of the other.
    #[inline(always)]
    pub const fn join(self, first: u64, second: u64) -> u64 {
        fold(fold(first ^ self.0[0], ODD[0]) ^ self.0[1] ^ second, ODD[1])
    }

    /// The hash by which words that are drawn at random already are given their places.
    pub const fn scatter(self) -> Scatter {
        // A secret of all ones, or of none, must not make a factor that moves nothing.
        Scatter { mask: self.0[0], factor: (self.0[1] ^ ODD[0]) | 1 }
    }

    /// Another key, for another purpose, made of this one.
    #[must_use]
    pub const fn derive(self, purpose: u64) -> Key {
        Key([self.hash(purpose), self.hash(!purpose)])
    }
}

/// A hash of one multiplication: nobody without the key knows a factor of it, but of many hashes one could find out.
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

/// A number below `bound` for a hash: the high bits of a product, instead of a division (Lemire 2019).
#[inline(always)]
pub const fn below(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}

/// A secret is not printed.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}
