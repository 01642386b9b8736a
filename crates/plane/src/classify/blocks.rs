//! Where the finer tables of a forwarding table live: blocks that readers follow without a lock.
//!
//! Blocks are made in chunks that never move, so a reader may hold an index as long as it likes. A block given back is
//! left as it was and taken again in the order of return. A reader that is still looking at it would then find another
//! prefix's outcomes; [`Sequence`] tells it: the count goes up before a returned block is written again, and a reader
//! whose count changed while it looked looks again. It is a sequence lock (Lameter, "Effective synchronization on
//! Linux/NUMA systems", 2005) over few changes only: most changes of routes never make a reader repeat itself.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK_BITS: u32 = 9;
const CHUNK: usize = 1 << CHUNK_BITS;
/// Bits of a block's index.
pub(super) const INDEX_BITS: u32 = 23;
/// How often a lookup is repeated. Each repetition means that the writer took a returned block, or changed one of the
/// shortest prefixes, within the nanoseconds of one lookup; this many in a row do not happen, and if they did one answer
/// may be out of date.
const REPETITIONS: usize = 64;

/// Blocks, by index.
pub(super) struct Blocks<T> {
    chunks: Box<[OnceLock<Box<[T; CHUNK]>>]>,
}

/// The writer's account of [`Blocks`].
#[derive(Default)]
pub(super) struct Spare {
    made: u32,
    returned: VecDeque<u32>,
}

impl Spare {
    /// Blocks in use.
    pub fn used(&self) -> usize {
        self.made as usize - self.returned.len()
    }

    /// Gives a block back, once no table points to it.
    pub fn give_back(&mut self, index: u32) {
        self.returned.push_back(index);
    }
}

impl<T: Default> Blocks<T> {
    pub fn new() -> Self {
        Blocks { chunks: (0..1 << (INDEX_BITS - CHUNK_BITS)).map(|_| OnceLock::new()).collect() }
    }

    /// The block of an index that was taken; nothing for any other.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get((index >> CHUNK_BITS) as usize)?.get()?;
        Some(&chunk[index as usize % CHUNK])
    }

    /// Takes a block: its content is whatever it was last. Panics above 2^23 blocks; the limit on routes is below.
    pub fn take(&self, spare: &mut Spare, sequence: &Sequence) -> (u32, &T) {
        let index = match spare.returned.pop_front() {
            Some(index) => {
                sequence.step();
                index
            }
            None => {
                let index = spare.made;
                let chunk = self.chunks.get((index >> CHUNK_BITS) as usize).expect("routes are limited below this");
                chunk.get_or_init(|| {
                    let blocks: Vec<T> = std::iter::repeat_with(T::default).take(CHUNK).collect();
                    blocks.try_into().unwrap_or_else(|_| unreachable!("a chunk has this many"))
                });
                spare.made += 1;
                index
            }
        };
        (index, self.get(index).expect("just made"))
    }

    /// Bytes held, the index included.
    pub fn bytes(&self, spare: &Spare) -> usize {
        std::mem::size_of_val(&*self.chunks) + (spare.made as usize).next_multiple_of(CHUNK) * size_of::<T>()
    }
}

/// Counts the changes that a reader must not meet half way.
#[derive(Default)]
pub(super) struct Sequence(AtomicU64);

impl Sequence {
    /// Before a returned block is written, and before and after a change that concerns two words read one after the
    /// other. The stores that follow are releases: who sees any of them sees the count.
    pub fn step(&self) {
        self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Runs `look` until no such change was made meanwhile. It must load with `Acquire`.
    #[inline(always)]
    pub fn read<R>(&self, mut look: impl FnMut() -> R) -> R {
        let mut before = self.0.load(Ordering::Acquire);
        for _ in 1..REPETITIONS {
            let found = look();
            let after = self.0.load(Ordering::Relaxed);
            if after == before {
                return found;
            }
            before = self.0.load(Ordering::Acquire);
        }
        look()
    }
}
