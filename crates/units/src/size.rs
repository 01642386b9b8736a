//! Packets and their bytes, as queueing schemes count them.

use crate::Bytes;

/// A super-frame counts as so many packets at most.
pub const SEGMENTS: u32 = 256;

/// The packets of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Packets, without the one arriving and the one taken out. A super-frame counts as its segments.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
}
