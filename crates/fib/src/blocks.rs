//! Memory for the finer tables of a forwarding table: blocks that readers follow without a lock.
//!
//! Blocks are allocated in chunks that never move, so an index stays valid for readers. A released block keeps its content. Released blocks are
//! reused in the order of release. A reader of a reused block could find the outcomes of another prefix. [`Sequence`] detects this: the count is
//! incremented before a released block is written again.

use super::sequence::Sequence;
use packet::pool::HugeTable;
use std::collections::VecDeque;
use std::sync::OnceLock;
use zerocopy::FromZeros;

/// Bytes of a chunk: one huge page.
const CHUNK_BYTES: usize = 2 << 20;
/// Bits of a block's index.
pub(super) const INDEX_BITS: u32 = 23;
/// The first chunk with huge pages behind it. A table of that size uses most of a chunk, so huge pages waste little memory.
const THICK: usize = 4;

/// Blocks, by index.
pub(super) struct Blocks<T> {
    chunks: Box<[OnceLock<HugeTable<T>>]>,
}

/// The writer's allocation state of [`Blocks`].
#[derive(Default)]
pub(super) struct BlockAllocator {
    allocated: u32,
    returned: VecDeque<u32>,
}

impl BlockAllocator {
    /// Blocks in use.
    pub fn used(&self) -> usize {
        self.allocated as usize - self.returned.len()
    }

    /// Releases a block. No table may point to it.
    pub fn release(&mut self, index: u32) {
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

    /// The block at an index that was allocated, `None` for any other index.
    #[inline(always)]
    pub fn get(&self, index: u32) -> Option<&T> {
        // `CHUNK` is a constant power of two: the divisions are shifts.
        let chunk = self.chunks.get((index / Self::CHUNK) as usize)?.get()?;
        chunk.get((index % Self::CHUNK) as usize)
    }

    /// Allocates a block. A fresh block is zero; a reused one keeps its old content. Panics above 2^23 blocks; the route limit is below that.
    pub fn allocate(&self, spare: &mut BlockAllocator, sequence: &Sequence) -> (u32, &T) {
        let index = match spare.returned.pop_front() {
            Some(index) => {
                // A reader may still hold this index: the new count makes it repeat its lookup.
                sequence.step();
                index
            }
            None => {
                let index = spare.allocated;
                let chunk = (index / Self::CHUNK) as usize;
                self.chunks.get(chunk).expect("routes are limited below this").get_or_init(|| {
                    let blocks = HugeTable::zeroed(Self::CHUNK as usize);
                    if chunk >= THICK {
                        blocks.collapse_pages();
                    }
                    blocks
                });
                spare.allocated += 1;
                index
            }
        };
        (index, self.get(index).expect("just made"))
    }

    /// Bytes of memory used: all blocks that were ever allocated, and the index.
    pub fn bytes(&self, spare: &BlockAllocator) -> usize {
        std::mem::size_of_val(&*self.chunks) + spare.allocated as usize * size_of::<T>()
    }
}
