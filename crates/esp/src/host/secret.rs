//! The shared secret of a group's members, from which they derive the tags of its rounds.

use siphasher::sip::SipHasher24;
use std::fmt;

/// 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret([u64; 2]);

impl Secret {
    pub const fn new(secret: [u64; 2]) -> Secret {
        Secret(secret)
    }

    /// A tag, which reveals nothing about other tags (SipHash-2-4: Aumasson and Bernstein, INDOCRYPT 2012).
    pub fn tag(self, computation: u64, number: u64) -> u64 {
        let [first, second] = self.0;
        SipHasher24::new_with_keys(first, second).hash([computation, number].map(u64::to_le_bytes).as_flattened())
    }
}

/// Debug output does not reveal the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
