//! A digest of bytes, for file names and for seeds of worlds.

/// FNV-1a. It distinguishes files, but does not withstand an attacker.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
