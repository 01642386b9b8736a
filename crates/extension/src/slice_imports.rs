//! The memory of a slice, as its code option may import it.

use crate::instance::InstanceData;
use slice::SliceMemory;
use wasmtime::{Caller, Linker};

/// The memory of the slice, and the packets of a call that have accessed other memory.
#[derive(Debug, Default)]
pub(crate) struct SliceAccess {
    pub memory: SliceMemory,
    /// A bit for each packet of the call.
    pub beyond: u64,
}

impl SliceAccess {
    /// An access for a packet. Beyond the memory its value is zero, and the packet is lost.
    fn of<T: Default>(&mut self, packet: i32, access: impl FnOnce(&SliceMemory) -> Option<T>) -> T {
        access(&self.memory).unwrap_or_else(|| {
            // A guest that names a packet that it does not have loses all of the call.
            self.beyond |= 1u64.checked_shl(packet as u32).unwrap_or(u64::MAX);
            T::default()
        })
    }
}

/// Adds these imports. `packet` is the number of the record of the packet that they are for, and `offset` a multiple of 8.
///
/// | function | action |
/// |---|---|
/// | `load(packet, offset) -> i64` | reads the word at an offset |
/// | `store(packet, offset, value: i64)` | writes it |
/// | `add(packet, offset, value: i64) -> i64` | adds to it, and returns the value before |
pub(crate) fn add_memory(linker: &mut Linker<InstanceData>) -> Result<(), wasmtime::Error> {
    linker.func_wrap("switchpath", "load", |mut caller: Caller<'_, InstanceData>, packet: i32, offset: i32| {
        caller.data_mut().slice.of(packet, |memory| memory.load(offset as u32 as usize)) as i64
    })?;
    linker.func_wrap(
        "switchpath",
        "store",
        |mut caller: Caller<'_, InstanceData>, packet: i32, offset: i32, value: i64| {
            let store = |memory: &SliceMemory| memory.store(offset as u32 as usize, value as u64).then_some(());
            caller.data_mut().slice.of(packet, store);
        },
    )?;
    linker.func_wrap(
        "switchpath",
        "add",
        |mut caller: Caller<'_, InstanceData>, packet: i32, offset: i32, value: i64| {
            let add = |memory: &SliceMemory| memory.add(offset as u32 as usize, value as u64);
            caller.data_mut().slice.of(packet, add) as i64
        },
    )?;
    Ok(())
}
