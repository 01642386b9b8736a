//! One word of a forwarding table: a route's outcome with its prefix length, or a pointer to a finer table.
//!
//! The length makes it possible to change a table in place. A route replaces the words of shorter prefixes, and its removal restores exactly the
//! words that carry its own length. The shortest prefixes are kept in a table of their own ([`super::short`]). A word with no other route is zero,
//! like memory that was never written.

use super::short;
use super::sync::{AtomicU32, Ordering};

/// Set in words that point to a finer table. The finer table defines the other bits.
pub(super) const POINTER: u32 = 1 << 31;
/// No route longer than the short prefixes.
pub(super) const EMPTY: u32 = 0;
const WORD: u32 = (1 << LENGTH) - 1;
const LENGTH: u32 = super::Outcome::BITS;

/// The word of a route. `length` is 1 to 128; `word` is an encoded outcome other than `NoRoute`.
pub(super) fn leaf(length: u8, word: u32) -> u32 {
    assert!((1..=128).contains(&length) && word != 0 && word <= WORD, "no route's word: /{length} {word:#x}");
    // Lengths 1 to 128 in the seven bits below the pointer bit.
    u32::from(length - 1) << LENGTH | word
}

/// The word after a removal: that of the covering route, `EMPTY` if it is a short prefix or none.
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

/// The leaves that a change replaces, and the new leaf.
#[derive(Clone, Copy)]
pub(super) struct Paint {
    shortest: u8,
    longest: u8,
    pub leaf: u32,
}

impl Paint {
    /// A route of this length replaces all leaves that are not more specific.
    pub fn insert(length: u8, word: u32) -> Self {
        Paint { shortest: 0, longest: length, leaf: leaf(length, word) }
    }

    /// The covering route replaces the leaves of a removed route of this length.
    pub fn remove(length: u8, covering: (u8, u32)) -> Self {
        assert!(covering.0 < length, "only a shorter prefix covers /{length}");
        Paint { shortest: length, longest: length, leaf: cover(covering) }
    }

    /// Changes the leaf in `slot` if the change applies to it. Pointers are left alone. Returns true if it changed the leaf.
    #[inline]
    pub fn apply(self, slot: &AtomicU32) -> bool {
        let entry = slot.load(Ordering::Relaxed);
        let concerned = !is_pointer(entry) && (self.shortest..=self.longest).contains(&length(entry));
        // An equal leaf is not stored: a store would take the cache line from the readers.
        let changes = concerned && entry != self.leaf;
        if changes {
            slot.store(self.leaf, Ordering::Release);
        }
        changes
    }
}
