//! The access of a code option to the memory of its slice, during a call.

use slice::SliceMemory;

/// The memory of the slice, and the packets of a call that have accessed other memory.
#[derive(Debug, Default)]
pub(crate) struct SliceAccess {
    pub memory: SliceMemory,
    /// A bit for each packet of the call.
    pub beyond: u64,
}

impl SliceAccess {
    /// An access for a packet. Beyond the memory its value is zero, and the packet is lost.
    pub fn of<T: Default>(&mut self, packet: i32, access: impl FnOnce(&SliceMemory) -> Option<T>) -> T {
        access(&self.memory).unwrap_or_else(|| {
            // A guest that names a packet that it does not have loses all of the call.
            self.beyond |= 1u64.checked_shl(packet as u32).unwrap_or(u64::MAX);
            T::default()
        })
    }
}
