//! The routes of the shortest prefixes, kept in a table beside the forwarding table.
//!
//! In a table with a word for each /24 a default route or 2000::/3 would fill millions of words. Here they fill 256, which all fit into the L1 cache.
//! The large table is written, and uses memory, only for more specific routes. An empty word of the large table refers the lookup to this one. The
//! two are read one after the other, so a reader could miss a route in both while one replaces the other. The writer marks changes here in the
//! table's [`Sequence`], and the reader repeats.

use super::Outcome;
use super::sequence::Sequence;
use super::sync::{AtomicU32, Ordering};

/// The longest of the short prefixes.
pub(super) const LONGEST: u8 = 8;

/// A route's outcome, with its prefix length in the upper bits, by the first octet of the address; 0 for none.
pub(super) struct Short([AtomicU32; 256]);

impl Short {
    pub fn new() -> Self {
        Short(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// The outcome for addresses that begin with `octet`, in the lowest 24 bits.
    #[inline(always)]
    pub fn get(&self, octet: u8) -> u32 {
        self.0[usize::from(octet)].load(Ordering::Acquire)
    }

    /// Sets the route of a prefix of at most 8 bits.
    pub fn insert(&self, octet: u8, length: u8, word: u32, sequence: &Sequence) {
        assert!(word != 0, "no route's word");
        self.change(octet, length, sequence, |entry| (length_of(entry) <= length).then(|| encode(length, word)));
    }

    /// Removes the route of a prefix of at most 8 bits in favour of `covering`.
    pub fn remove(&self, octet: u8, length: u8, covering: (u8, u32), sequence: &Sequence) {
        let covering = encode(covering.0, covering.1);
        self.change(octet, length, sequence, |entry| (length_of(entry) == length).then_some(covering));
    }

    fn change(&self, octet: u8, length: u8, sequence: &Sequence, new: impl Fn(u32) -> Option<u32>) {
        let count = 1 << (LONGEST - length);
        let start = usize::from(octet) & !(count - 1);
        sequence.step();
        for slot in &self.0[start..start + count] {
            if let Some(new) = new(slot.load(Ordering::Relaxed)) {
                slot.store(new, Ordering::Release);
            }
        }
        sequence.step();
    }
}

fn encode(length: u8, word: u32) -> u32 {
    u32::from(length) << Outcome::BITS | word
}

fn length_of(entry: u32) -> u8 {
    (entry >> Outcome::BITS) as u8
}
