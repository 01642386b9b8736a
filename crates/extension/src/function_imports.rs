//! The router's services that packet functions may import, besides those of all guests.

use crate::instance::InstanceData;
use wasmtime::{Caller, Extern, Linker};

/// A part of a guest's memory, and its data. `None` if the part is not within the memory.
fn part<'a>(
    caller: &'a mut Caller<'_, InstanceData>,
    at: i32,
    length: i32,
) -> Option<(&'a mut [u8], &'a mut InstanceData)> {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return None };
    let (memory, data) = memory.data_and_store_mut(caller);
    let (at, length) = (at as u32 as usize, length as u32 as usize);
    Some((memory.get_mut(at..at.checked_add(length)?)?, data))
}

/// Adds these imports:
///
/// | function | action |
/// |---|---|
/// | `clock() -> i64` | the time of the call, in nanoseconds |
/// | `rule(number, address, room) -> i32` | writes the text of a rule of the path, at most `room` bytes; returns its whole length, or -1 |
/// | `lookup(address, length) -> i32` | looks up the route to an address of 4 or 16 bytes: the number of the port to the next hop, -1 without one, -2 for an address of the router |
/// | `emit(address, length) -> i32` | makes an IP packet of these bytes: 1, or 0 if it is refused |
pub(crate) fn add_services(linker: &mut Linker<InstanceData>) -> Result<(), wasmtime::Error> {
    linker.func_wrap("switchpath", "clock", |caller: Caller<'_, InstanceData>| caller.data().services.now as i64)?;
    linker.func_wrap(
        "switchpath",
        "rule",
        |mut caller: Caller<'_, InstanceData>, number: i32, at: i32, room: i32| {
            let Some((place, data)) = part(&mut caller, at, room) else { return -1 };
            let Some(text) = data.services.rules.get(number as u32 as usize) else { return -1 };
            place.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
            text.len() as i32
        },
    )?;
    linker.func_wrap("switchpath", "lookup", |mut caller: Caller<'_, InstanceData>, at: i32, length: i32| {
        part(&mut caller, at, length).map_or(-1, |(address, data)| data.services.lookup(address))
    })?;
    linker.func_wrap("switchpath", "emit", |mut caller: Caller<'_, InstanceData>, at: i32, length: i32| {
        part(&mut caller, at, length).map_or(0, |(packet, data)| i32::from(data.services.emit(packet)))
    })?;
    Ok(())
}
