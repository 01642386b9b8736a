//! The memory of a slice: words of eight bytes that its code option, its tenant and all workers share.
//!
//! Each word is read and written at once. Bounds are those of the slice: no address in another slice exists.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The bytes of a word.
const WORD: usize = 8;

/// The memory of a slice. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SliceMemory {
    words: Arc<[AtomicU64]>,
    attached: Arc<OnceLock<Arc<dyn Any + Send + Sync>>>,
}

/// An access beyond the end of a slice's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryBounds {
    /// The offset of the first byte.
    pub offset: usize,
    /// The number of bytes.
    pub length: usize,
    /// The bytes of the slice.
    pub size: usize,
}

impl fmt::Display for MemoryBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryBounds { offset, length, size } = self;
        write!(f, "{length} bytes at {offset} end beyond the {size} bytes of the slice's memory")
    }
}

impl std::error::Error for MemoryBounds {}

impl SliceMemory {
    /// So many bytes, rounded up to whole words, all zero.
    pub fn new(bytes: usize) -> SliceMemory {
        let words = (0..bytes.div_ceil(WORD)).map(|_| AtomicU64::new(0)).collect();
        SliceMemory { words, attached: Arc::default() }
    }

    /// A copy of its present words, which are not shared. The attached value is.
    pub fn copy(&self) -> SliceMemory {
        let words = self.words.iter().map(|word| AtomicU64::new(word.load(Relaxed))).collect();
        SliceMemory { words, attached: self.attached.clone() }
    }

    /// The same words without the attached value.
    pub(crate) fn detached(self) -> SliceMemory {
        SliceMemory { attached: Arc::default(), ..self }
    }

    /// A value that all instances of its code option share, and that lives as long as the slice. `make` makes it at the first call. `None` if there is
    /// a value of another type.
    pub(crate) fn attached<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<Arc<T>> {
        self.attached.get_or_init(|| Arc::new(make())).clone().downcast().ok()
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.words.len() * WORD
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        self.words.get(offset / WORD).filter(|_| offset.is_multiple_of(WORD))
    }

    /// The word at an offset, which is a multiple of eight.
    pub fn load(&self, offset: usize) -> Option<u64> {
        Some(self.word(offset)?.load(Relaxed))
    }

    /// Writes the word at an offset. False if there is none.
    pub fn store(&self, offset: usize, value: u64) -> bool {
        self.word(offset).map(|word| word.store(value, Relaxed)).is_some()
    }

    /// Adds to the word at an offset, and returns the value before.
    pub fn add(&self, offset: usize, value: u64) -> Option<u64> {
        Some(self.word(offset)?.fetch_add(value, Relaxed))
    }

    /// Checks that bytes are within the memory.
    pub(crate) fn check(&self, offset: usize, length: usize) -> Result<(), MemoryBounds> {
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.size());
        fits.then_some(()).ok_or(MemoryBounds { offset, length, size: self.size() })
    }

    /// The bytes from an offset on. Bytes of one word are of one moment.
    ///
    /// # Errors
    /// They end beyond the memory.
    pub fn read(&self, offset: usize, length: usize) -> Result<Vec<u8>, MemoryBounds> {
        self.check(offset, length)?;
        let words = &self.words[offset / WORD..(offset + length).div_ceil(WORD)];
        let bytes = words.iter().flat_map(|word| word.load(Relaxed).to_be_bytes());
        Ok(bytes.skip(offset % WORD).take(length).collect())
    }

    /// Writes bytes. A word changes at once; the bytes of a word around those written keep the values that others write meanwhile.
    ///
    /// # Errors
    /// They end beyond the memory. Nothing was written.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryBounds> {
        self.check(offset, bytes.len())?;
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let within = at % WORD;
            let (here, later) = rest.split_at(rest.len().min(WORD - within));
            let (mut value, mut mask) = ([0; WORD], [0; WORD]);
            value[within..within + here.len()].copy_from_slice(here);
            mask[within..within + here.len()].fill(u8::MAX);
            let (value, mask) = (u64::from_be_bytes(value), u64::from_be_bytes(mask));
            self.words[at / WORD].update(Relaxed, Relaxed, |word| word & !mask | value);
            (at, rest) = (at + here.len(), later);
        }
        Ok(())
    }

    /// Sets all bytes to zero.
    pub fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mem_rw_bounds() {
        let memory = SliceMemory::new(20);
        assert_eq!(memory.size(), 24, "whole words");
        memory.write(3, &[1, 2, 3, 4, 5, 6, 7]).expect("it is within");
        assert_eq!(memory.load(0), Some(0x0000_0001_0203_0405));
        assert_eq!(memory.load(8), Some(0x0607_0000_0000_0000));
        assert_eq!(memory.read(2, 9), Ok(vec![0, 1, 2, 3, 4, 5, 6, 7, 0]));
        assert_eq!(memory.read(24, 0), Ok(Vec::new()));
        let beyond = MemoryBounds { offset: 20, length: 5, size: 24 };
        assert_eq!((memory.read(20, 5), memory.write(20, &[9; 5])), (Err(beyond), Err(beyond)));
        assert_eq!(memory.read(20, 4), Ok(vec![0; 4]), "a refused write changes nothing");
        assert_eq!(memory.read(usize::MAX, 2).map_err(|wrong| wrong.length), Err(2));
        assert_eq!(
            (memory.load(24), memory.load(4), memory.store(24, 1), memory.add(24, 1)),
            (None, None, false, None)
        );
        assert_eq!((memory.add(16, 5), memory.add(16, 1), memory.load(16)), (Some(0), Some(5), Some(6)));
        memory.clear();
        assert_eq!(memory.read(0, 24), Ok(vec![0; 24]));
    }
}
