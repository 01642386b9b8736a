//! Randomness of the operating system's, for numbers and tags that nobody may guess (spec E-49).

use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{Error, ErrorKind, Result};

/// 128 bits of it.
///
/// # Errors
/// That this system gives none.
pub fn randomness() -> Result<[u64; 2]> {
    let mut bytes = [0; 16];
    // Up to 256 come whole (getrandom(2)); before there are any, waiting for them may be interrupted.
    if rustix::io::retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))? != bytes.len() {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the system gave less randomness than it was asked for"));
    }
    let drawn = u128::from_ne_bytes(bytes);
    Ok([drawn as u64, (drawn >> 64) as u64])
}
