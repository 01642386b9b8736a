//! What tells a reader of a forwarding table that it may have met a change half way.
//!
//! Most changes of a table are one store of one word: a reader sees it before or after. Three kinds are not: a block of
//! the table that was given back is written for another prefix while somebody may still look at it; a byte of the digest
//! ([`super::digest`]) stands for another outcome while somebody may have read it; and a short prefix
//! ([`super::short`]) and the table proper are two words read one after the other. For these a count goes up, and a reader
//! whose count changed while it looked looks again. It is a sequence lock (Lameter, "Effective synchronization on
//! Linux/NUMA systems", 2005) over few changes only: most never make a reader repeat itself.
//!
//! `make loom` tries every interleaving of the two protocols with the orderings that stand here.

use super::sync::{AtomicU64, Ordering};

/// How often a lookup is tried before it keeps the writer out. Each repetition means that the writer took a returned block or byte, or
/// changed one of the shortest prefixes, within the nanoseconds of one lookup: so many in a row happen where the reader is
/// stopped again and again, on a machine that emulates another say.
const REPETITIONS: usize = if cfg!(loom) { 4 } else { 64 };

/// Counts the changes that a reader must not meet half way.
#[derive(Default)]
pub(super) struct Sequence(AtomicU64);

impl Sequence {
    /// Before a returned block or outcome is written, and before and after a change that concerns two words read one after the
    /// other. The stores that follow are releases: who sees any of them sees the count.
    pub fn step(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Runs `look` until no such change was made meanwhile; where there is always one, while what `hold` answers keeps the
    /// writer out. It must load with `Acquire`.
    #[inline(always)]
    pub fn read<R, H>(&self, hold: impl FnOnce() -> H, mut look: impl FnMut() -> R) -> R {
        let mut before = self.0.load(Ordering::Acquire);
        for _ in 1..REPETITIONS {
            let found = look();
            let after = self.0.load(Ordering::Relaxed);
            if after == before {
                return found;
            }
            before = self.0.load(Ordering::Acquire);
        }
        let _held = hold();
        look()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn who_always_meets_a_change_keeps_the_writer_out_in_the_end() {
        let (sequence, held, looks) = (Sequence::default(), Cell::new(false), Cell::new(0));
        let found = sequence.read(
            || held.set(true),
            || {
                looks.set(looks.get() + 1);
                if !held.get() {
                    sequence.step();
                }
                held.get()
            },
        );
        assert!(found, "the answer is one that no change was near");
        assert_eq!(looks.get(), REPETITIONS);
        assert!(!sequence.read(|| panic!("nothing changes"), || false), "nobody is kept out without need");
    }
}
