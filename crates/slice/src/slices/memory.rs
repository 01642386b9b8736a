//! The memory of slices as their tenants change it: a word at once, or several words at once.

use super::Slices;
use crate::memory::{MemoryBounds, SliceMemory};
use crate::spec::SliceError;

/// Changes of a memory that are not made yet.
#[derive(Default)]
pub(super) struct StagedMemory {
    /// Offsets and bytes, in the order of the changes.
    changes: Vec<(usize, Vec<u8>)>,
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
    pub fn report(&self) -> MemoryVersion {
        MemoryVersion { version: self.version, staged: self.bytes() }
    }

    fn bytes(&self) -> usize {
        self.changes.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl SliceError {
    /// A write ends beyond the memory of the slice.
    pub(crate) fn beyond(bounds: MemoryBounds) -> SliceError {
        SliceError::new(bounds.to_string(), "write within the memory")
    }
}

impl Slices {
    /// The memory of a slice.
    ///
    /// # Errors
    /// There is no such slice.
    pub fn memory(&self, name: &str) -> Result<&SliceMemory, SliceError> {
        Ok(&self.slice(name)?.state.memory)
    }

    /// Prepares a write of the memory of a slice. No packet sees it before [`Slices::commit_memory`].
    ///
    /// # Errors
    /// There is no such slice, the bytes end beyond its memory, or more bytes than it has are staged.
    pub fn stage_memory(&mut self, name: &str, offset: usize, bytes: Vec<u8>) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        let memory = &slice.state.memory;
        memory.check(offset, bytes.len()).map_err(SliceError::beyond)?;
        if slice.staged.bytes() + bytes.len() > memory.size() {
            let reason = "more bytes are staged than the memory has".to_owned();
            return Err(SliceError::new(reason, "make the staged changes with `mem commit`"));
        }
        // Empty changes would need memory without a bound.
        if !bytes.is_empty() {
            slice.staged.changes.push((offset, bytes));
        }
        Ok(())
    }

    /// Makes all staged changes: each packet sees the memory before or after all of them. Words that the code option changes meanwhile, until all workers
    /// have the new memory, keep their former values.
    ///
    /// # Errors
    /// There is no such slice, it has failed, or its code option does not start again.
    pub fn commit_memory(&mut self, name: &str) -> Result<(), SliceError> {
        let slice = self.slice_mut(name)?;
        if slice.staged.changes.is_empty() {
            return Ok(());
        }
        if slice.state.failure().is_some() {
            return Err(SliceError::new(format!("the slice '{name}' has failed"), "resume it first"));
        }
        let memory = slice.state.memory.copy();
        for (offset, bytes) in &slice.staged.changes {
            memory.write(*offset, bytes).map_err(SliceError::beyond)?;
        }
        // Instances of a code option have the memory for their whole life.
        let code = slice.state.code.prepared(&memory, slice.state.running());
        let code = code.map_err(|reason| SliceError::new(reason, "replace the code option"))?;
        slice.staged.changes.clear();
        slice.staged.version += 1;
        self.renew(name, code, memory);
        Ok(())
    }
}
