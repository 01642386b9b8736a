//! A digest of bytes, for names of files and for worlds that are to differ.

/// FNV-1a of some bytes: tells one file from another where nobody means to deceive.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
