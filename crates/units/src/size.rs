//! Packets and their bytes, as queueing schemes count them.

use crate::Bytes;

/// The most packets that a super-frame counts as.
pub const SEGMENTS: u32 = 256;

/// The packets of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// Packets, without the arriving one and the one being dequeued. A super-frame counts as its segments.
    pub packets: u32,
    /// Their bytes.
    pub bytes: Bytes,
}
