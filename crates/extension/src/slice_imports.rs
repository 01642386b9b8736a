//! The memory of a slice, as its code option may import it.

use crate::instance::InstanceData;
use slice::SliceMemory;
use wasmtime::{Caller, Linker};

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
