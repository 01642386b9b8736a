//! What the members of a group share, so that nobody else knows the tags of its rounds.

use siphasher::sip::SipHasher24;
use std::fmt;

/// 128 bits, drawn at random.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    pub const fn new(secret: [u64; 2]) -> Secret {
        Secret(secret)
    }

    /// A tag, which says nothing of others (SipHash-2-4: Aumasson and Bernstein, INDOCRYPT 2012).
    pub fn tag(self, computation: u64, number: u64) -> u64 {
        let [first, second] = self.0;
        SipHasher24::new_with_keys(first, second).hash([computation, number].map(u64::to_le_bytes).as_flattened())
    }
}

/// A secret is not printed.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
