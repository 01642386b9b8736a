//! Randomness of the operating system, for unguessable numbers and tags (spec E-49).

use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{Error, ErrorKind, Result};

/// 128 random bits.
///
/// # Errors
/// If the system cannot supply them.
pub fn randomness() -> Result<[u64; 2]> {
    let mut bytes = [0; 16];
    // getrandom(2) delivers up to 256 bytes at once. Only the wait for the initial entropy can be interrupted.
    if rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))? != bytes.len() {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the system gave less randomness than it was asked for"));
    }
    let drawn = u128::from_ne_bytes(bytes);
    Ok([drawn as u64, (drawn >> 64) as u64])
}
