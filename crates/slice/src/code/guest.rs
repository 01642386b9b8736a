//! Code options that are not part of this program: a configuration's guests, as far as slices know them.

use super::CodeOption;
use crate::memory::SliceMemory;
use plan::GuestCode;
use std::sync::Arc;

/// A guest that is a code option (`extension`).
pub trait GuestCodeOption: Send + Sync {
    /// The version of its keys, data and memory.
    fn version(&self) -> u32;

    /// The bytes of slice memory that it needs at least.
    fn memory(&self) -> usize;

    /// Makes one for a slice with this memory, with the values of its options.
    ///
    /// # Errors
    /// Why it does not start.
    fn make(&self, options: &[u64], memory: &SliceMemory) -> Result<Box<dyn CodeOption>, String>;
}

/// Wraps a guest for [`plan::Guests`]. `digest` identifies its module.
pub fn guest_code(digest: u64, guest: Arc<dyn GuestCodeOption>) -> GuestCode {
    GuestCode { digest, maker: Arc::new(guest) }
}

/// The guest in a code. `None` if the code is of another kind.
pub(crate) fn guest_of(code: &GuestCode) -> Option<&Arc<dyn GuestCodeOption>> {
    code.maker.downcast_ref()
}
