//! The memory of slices as their tenants change it: a word at once, or several words at once.

use super::Slices;
use crate::memory::{MemoryBounds, SliceMemory};
use crate::spec::SliceError;
use units::Bytes;

/// The memory of a slice, and changes that are not made yet.
pub(super) struct StagedMemory {
    pub current: SliceMemory,
    /// Offsets and bytes, in the order of their changes.
    staged: Vec<(usize, Vec<u8>)>,
    version: u64,
}

/// The staged changes of a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryVersion {
    /// How often changes were made at once.
    pub version: u64,
    /// The bytes of changes that are staged.
    pub staged: usize,
}

impl StagedMemory {
    pub fn new(size: Bytes) -> StagedMemory {
        StagedMemory { current: SliceMemory::new(size.get() as usize), staged: Vec::new(), version: 0 }
    }

    fn staged_bytes(&self) -> usize {
        self.staged.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

fn beyond(bounds: MemoryBounds) -> SliceError {
    SliceError::new(bounds.to_string(), "write within the memory")
}

impl Slices {
    /// The memory of a slice.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn memory(&self, name: &str) -> Result<&SliceMemory, SliceError> {
        Ok(&self.slice(name)?.memory.current)
    }

    /// The version of a slice's memory, and its staged changes.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn memory_version(&self, name: &str) -> Result<MemoryVersion, SliceError> {
        let memory = &self.slice(name)?.memory;
        Ok(MemoryVersion { version: memory.version, staged: memory.staged_bytes() })
    }

    /// Writes the memory of a slice. A packet may see some of the words changed and others not yet.
    ///
    /// # Errors
    /// There is no such slice, or the bytes end beyond its memory.
    pub fn write_memory(&mut self, name: &str, offset: usize, bytes: &[u8]) -> Result<(), SliceError> {
        self.memory(name)?.write(offset, bytes).map_err(beyond)
    }

    /// Prepares a write of the memory of a slice. No packet sees it before [`Slices::commit_memory`].
    ///
    /// # Errors
    /// There is no such slice, the bytes end beyond its memory, or more bytes than it has are staged.
    pub fn stage_memory(&mut self, name: &str, offset: usize, bytes: Vec<u8>) -> Result<(), SliceError> {
        let memory = &mut self.slice_mut(name)?.memory;
        memory.current.check(offset, bytes.len()).map_err(beyond)?;
        if memory.staged_bytes() + bytes.len() > memory.current.size() {
            let reason = "more bytes are staged than the memory has".to_owned();
            return Err(SliceError::new(reason, "make the staged changes with `mem commit`"));
        }
        // Empty changes would need memory without a bound.
        if !bytes.is_empty() {
            memory.staged.push((offset, bytes));
        }
        Ok(())
    }

    /// Makes all staged changes: each packet sees the memory before or after all of them. Words that the code option changes meanwhile, until all workers
    /// have the new memory, keep their former values.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn commit_memory(&mut self, name: &str) -> Result<(), SliceError> {
        let memory = &mut self.slice_mut(name)?.memory;
        if memory.staged.is_empty() {
            return Ok(());
        }
        let next = memory.current.duplicate();
        for (offset, bytes) in memory.staged.drain(..) {
            next.write(offset, &bytes).map_err(beyond)?;
        }
        memory.current = next;
        memory.version += 1;
        self.publish_slice(name);
        Ok(())
    }
}
