//! One word of a forwarding table: a route's outcome with the length of its prefix, or a pointer to a finer table.
//!
//! The length is what lets a table be changed in place: a route may replace words that came from shorter prefixes, and
//! its removal gives back exactly the words that carry its own length. The shortest prefixes are kept elsewhere
//! ([`super::short`]): where none but these leads the word is zero, as memory that was never written is.

use super::short;
use super::sync::{AtomicU32, Ordering};

/// Set in words that point to a finer table; the other bits are the table's.
pub(super) const POINTER: u32 = 1 << 31;
/// Nothing longer than the short prefixes.
pub(super) const EMPTY: u32 = 0;
const WORD: u32 = (1 << LENGTH) - 1;
const LENGTH: u32 = super::Outcome::BITS;

/// The word of a route: `length` from 1 to 128, `word` an encoded outcome other than `NoRoute`.
pub(super) fn leaf(length: u8, word: u32) -> u32 {
    assert!((1..=128).contains(&length) && word != 0 && word <= WORD, "no route's word: /{length} {word:#x}");
    u32::from(length - 1) << LENGTH | word
}

/// The word left behind by a removed route: what covers it, `EMPTY` where that is a short prefix or nothing.
pub(super) fn cover((length, word): (u8, u32)) -> u32 {
    if length <= short::LONGEST { EMPTY } else { leaf(length, word) }
}

#[inline(always)]
pub(super) fn is_pointer(entry: u32) -> bool {
    entry & POINTER != 0
}

/// The encoded outcome of a leaf.
#[inline(always)]
pub(super) fn word(entry: u32) -> u32 {
    entry & WORD
}

/// The prefix length of a leaf, 0 for `EMPTY`.
pub(super) fn length(entry: u32) -> u8 {
    if entry == EMPTY { 0 } else { (entry >> LENGTH & 127) as u8 + 1 }
}

/// Which leaves a change replaces, and with what.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    shortest: u8,
    longest: u8,
    pub leaf: u32,
}

impl Paint {
    /// A route of this length goes over all that is not more specific.
    pub fn insert(length: u8, word: u32) -> Self {
        Paint { shortest: 0, longest: length, leaf: leaf(length, word) }
    }

    /// A route of this length gives its words back to what covers it.
    pub fn remove(length: u8, covering: (u8, u32)) -> Self {
        assert!(covering.0 < length, "only a shorter prefix covers /{length}");
        Paint { shortest: length, longest: length, leaf: cover(covering) }
    }

    /// Changes the leaf in `slot` if it is concerned; pointers stay. Answers whether it did.
    #[inline]
    pub fn apply(self, slot: &AtomicU32) -> bool {
        let entry = slot.load(Ordering::Relaxed);
        let concerned = !is_pointer(entry) && (self.shortest..=self.longest).contains(&length(entry));
        let changes = concerned && entry != self.leaf;
        if changes {
            slot.store(self.leaf, Ordering::Release);
        }
        changes
    }
}
