//! Parts sealed with an operator's key.

use crate::bytes;
use crate::part::{CPart, wrap_into};
use esp::seal::OperatorKey;
use esp::wire::{Carriages, before_data, strip_by, with_data_by, wrap, wrap_option};

/// The length of the longest sealed part.
const MOST: usize = 54;

/// See the header.
///
/// # Safety
/// `text` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_key_new(text: *const u8, length: usize) -> Option<Box<OperatorKey>> {
    // SAFETY: as the caller promises.
    let text = std::str::from_utf8(unsafe { bytes::read(text, length) }).ok()?;
    text.parse().ok().map(Box::new)
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_key_free(key: Option<Box<OperatorKey>>) {
    drop(key);
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn switchpath_write_sealed(
    part: Option<&CPart>,
    key: Option<&OperatorKey>,
    into: Option<&mut [u8; MOST]>,
) -> usize {
    let (Some(part), Some(key), Some(into)) = (part.and_then(CPart::part), key, into) else { return 0 };
    let sealed = key.seal(&part);
    into[..sealed.len()].copy_from_slice(&sealed);
    sealed.len()
}

/// See the header.
///
/// # Safety
/// `from` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_read_sealed(
    part: Option<&mut CPart>,
    key: Option<&OperatorKey>,
    from: *const u8,
    length: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes::read(from, length) };
    let (Some(part), Some(Ok(read))) = (part, key.map(|key| key.read(bytes))) else { return 0 };
    *part = CPart::from(&read);
    // The length field was checked by the reader.
    bytes.get(2).map_or(0, |length| usize::from(*length))
}

/// See the header.
///
/// # Safety
/// `data` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_before_data_sealed(
    part: Option<&CPart>,
    key: Option<&OperatorKey>,
    data: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let (Some(part), Some(key)) = (part.and_then(CPart::part), key) else { return 0 };
    // SAFETY: as the caller promises.
    let made = before_data(&key.sealed(part), unsafe { bytes::read(data, length) });
    // SAFETY: as the caller promises.
    unsafe { bytes::put(&made, into, room) }
}

/// See the header.
///
/// # Safety
/// `from` is null or valid for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_with_data_sealed(
    part: Option<&mut CPart>,
    key: Option<&OperatorKey>,
    from: *const u8,
    length: usize,
) -> usize {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes::read(from, length) };
    let (Some(part), Some(key)) = (part, key) else { return 0 };
    let Ok((read, Some(data))) = with_data_by(bytes, |bytes| key.read(bytes)) else { return 0 };
    *part = CPart::from(&read);
    bytes.len() - data.len()
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_wrap_sealed(
    part: Option<&CPart>,
    key: Option<&OperatorKey>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let (Some(part), Some(key)) = (part.and_then(CPart::part), key) else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { wrap_into(wrap, &key.sealed(part), (packet, length), (into, room)) }
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_wrap_option_sealed(
    part: Option<&CPart>,
    key: Option<&OperatorKey>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let (Some(part), Some(key)) = (part.and_then(CPart::part), key) else { return 0 };
    // SAFETY: as the caller promises.
    unsafe { wrap_into(wrap_option, &key.sealed(part), (packet, length), (into, room)) }
}

/// See the header.
///
/// # Safety
/// `packet` is null or valid for `length` bytes, `into` is null or valid for `room`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn switchpath_strip_sealed(
    part: Option<&mut CPart>,
    key: Option<&OperatorKey>,
    packet: *const u8,
    length: usize,
    into: *mut u8,
    room: usize,
) -> usize {
    let Some(key) = key else { return 0 };
    // SAFETY: as the caller promises.
    let packet = unsafe { bytes::read(packet, length) };
    let Ok((made, read)) = strip_by(&Carriages::default(), packet, |bytes| key.read(bytes)) else { return 0 };
    if let Some(part) = part {
        *part = CPart::from(&read);
    }
    // SAFETY: as the caller promises.
    unsafe { bytes::put(&made, into, room) }
}
