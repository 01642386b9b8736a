//! Byte buffers of the caller: a pointer and a length.

use std::slice::{from_raw_parts, from_raw_parts_mut};

/// The bytes of a buffer; empty for a null pointer.
///
/// # Safety
/// The pointer is null, or valid for reads of `length` bytes that are not written while the slice is in use.
pub(crate) unsafe fn read<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if bytes.is_null() || length > isize::MAX as usize {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { from_raw_parts(bytes, length) }
}

/// Copies `made` into the caller's buffer. Returns the number of bytes, or 0 if there is no room.
///
/// # Safety
/// The pointer is null, or valid for writes of `room` bytes that have no other reference.
pub(crate) unsafe fn put(made: &[u8], into: *mut u8, room: usize) -> usize {
    if into.is_null() || room < made.len() || room > isize::MAX as usize {
        return 0;
    }
    // SAFETY: as the caller promises. The bytes may be uninitialised; they are only written.
    let into = unsafe { from_raw_parts_mut(into, made.len()) };
    into.copy_from_slice(made);
    made.len()
}
