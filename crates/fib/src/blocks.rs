//! Where the finer tables of a forwarding table live: blocks that readers follow without a lock.
//!
//! Blocks are made in chunks that never move, so a reader may hold an index as long as it likes. A block given back is
//! left as it was and taken again in the order of return. A reader that is still looking at it would then find another
//! prefix's outcomes; [`Sequence`] tells it: the count goes up before a returned block is written again.

use super::sequence::Sequence;
use packet::pool::Huge;
use std::collections::VecDeque;
use std::sync::OnceLock;
use zerocopy::FromZeros;

/// Bytes of a chunk: a huge page.
const CHUNK_BYTES: usize = 2 << 20;
/// Bits of a block's index.
pub(super) const INDEX_BITS: u32 = 23;
/// Chunks from this one on are backed by huge pages. A table that is so large uses most of them.
const THICK: usize = 4;

/// Blocks, by index.
pub(super) struct Blocks<T> {
    chunks: Box<[OnceLock<Huge<T>>]>,
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

impl<T: FromZeros> Blocks<T> {
    /// Blocks in a chunk, a power of two.
    const CHUNK: u32 = {
        let blocks = CHUNK_BYTES / size_of::<T>();
        assert!(blocks.is_power_of_two());
        blocks as u32
    };

    pub fn new() -> Self {
        Blocks { chunks: (0..(1 << INDEX_BITS) / Self::CHUNK).map(|_| OnceLock::new()).collect() }
    }

    /// The block of an index that was taken; nothing for any other.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get((index / Self::CHUNK) as usize)?.get()?;
        chunk.get((index % Self::CHUNK) as usize)
    }

    /// Takes a block: its content is whatever it was last, zero at first. Panics above 2^23 blocks; the limit on routes
    /// is below.
    pub fn take(&self, spare: &mut Spare, sequence: &Sequence) -> (u32, &T) {
        let index = match spare.returned.pop_front() {
            Some(index) => {
                sequence.step();
                index
            }
            None => {
                let index = spare.made;
                let chunk = (index / Self::CHUNK) as usize;
                self.chunks.get(chunk).expect("routes are limited below this").get_or_init(|| {
                    let blocks = Huge::zeroed(Self::CHUNK as usize);
                    if chunk >= THICK {
                        blocks.thicken();
                    }
                    blocks
                });
                spare.made += 1;
                index
            }
        };
        (index, self.get(index).expect("just made"))
    }

    /// Bytes of memory used: those of the blocks that were ever taken, and the index.
    pub fn bytes(&self, spare: &Spare) -> usize {
        std::mem::size_of_val(&*self.chunks) + spare.made as usize * size_of::<T>()
    }
}
