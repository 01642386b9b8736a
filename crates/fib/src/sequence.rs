//! Detects that a reader of a forwarding table overlapped with a change.
//!
//! Most changes of a table are one store of one word: a reader sees the word before or after. Three kinds are not.
//! First, the writer may reuse a released block for another prefix while a reader still follows it. Second, it may reuse a byte of the digest
//! ([`super::digest`]) for another outcome after a reader has loaded it. Third, a short prefix ([`super::short`]) and the table proper are two words,
//! read one after the other.
//!
//! For these the writer increments a count. A reader repeats its lookup if the count changed meanwhile. This is a sequence lock (Lameter, "Effective
//! synchronization on Linux/NUMA systems", 2005) for few changes only: most changes never make a reader repeat.
//!
//! `make loom` tests every interleaving of the two protocols with the memory orderings used here.

use super::sync::{AtomicU64, Ordering};

/// How often a lookup is tried before it locks out the writer. Each repetition means that the writer reused a block or byte, or changed a short
/// prefix, within the nanoseconds of one lookup. This many in a row happen only if the reader is preempted again and again, for example on an
/// emulated machine.
const REPETITIONS: usize = if cfg!(loom) { 4 } else { 64 };

/// Counts the changes that need more than one store.
#[derive(Default)]
pub(super) struct Sequence(AtomicU64);

impl Sequence {
    /// Called before a released block or a reused byte is written, and before and after a change of two words that are read separately. The stores
    /// that follow are releases: a reader that sees any of them also sees the count.
    pub fn step(&self) {
        // Only the writer that holds the lock counts, so load and store need not be one atomic operation.
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Runs `look` until the count stays the same. After [`REPETITIONS`] attempts it runs `look` once more while the guard that `hold` returns locks
    /// out the writer. `look` must load with `Acquire`.
    #[inline(always)]
    pub fn read<R, H>(&self, hold: impl FnOnce() -> H, mut look: impl FnMut() -> R) -> R {
        let mut before = self.0.load(Ordering::Acquire);
        for _ in 1..REPETITIONS {
            let found = look();
            // `Relaxed` is enough here: the `Acquire` loads of `look` come before it.
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
    fn reader_locks_out_the_writer_after_the_last_repetition() {
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
