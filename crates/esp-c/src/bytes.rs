//! Bytes of the caller's: a pointer and how many there are.

use std::slice::{from_raw_parts, from_raw_parts_mut};

/// Bytes to be read; none where there is no pointer.
///
/// # Safety
/// The pointer is null, or to so many bytes that nobody writes while the answer is used.
pub(crate) unsafe fn read<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if bytes.is_null() || length > isize::MAX as usize {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { from_raw_parts(bytes, length) }
}

/// Puts what was made where the caller wants it. Answers how many bytes that took, or 0 where there is no room.
///
/// # Safety
/// The pointer is null, or to so many bytes that nobody else looks at.
pub(crate) unsafe fn put(made: &[u8], into: *mut u8, room: usize) -> usize {
    if into.is_null() || room < made.len() || room > isize::MAX as usize {
        return 0;
    }
    // SAFETY: as the caller promises. They need not hold anything yet: it is written only.
    let into = unsafe { from_raw_parts_mut(into, made.len()) };
    into.copy_from_slice(made);
    made.len()
}
