//! The packets that a worker has at hand.

use crate::classify::Scratch;
use packet::Batch;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use units::PortId;

/// Frames to take in by a port, and whom to tell how many were.
pub(super) type Injected = (PortId, Vec<Vec<u8>>, Sender<u64>);

/// The batch that a stage works on.
pub(super) struct Vector {
    pub batch: Batch,
    /// Packets of a batch that stay while others are classified again; empty otherwise.
    pub kept: Batch,
    /// The classifier's findings about the batch.
    pub scratch: Box<Scratch>,
    /// The batch does not come from a device: it was injected, or has waited for room on its paths.
    pub injecting: bool,
    /// Frames to take in before the next dispatch.
    pub injected: VecDeque<Injected>,
}

impl Default for Vector {
    fn default() -> Vector {
        Vector {
            batch: Batch::new(),
            kept: Batch::new(),
            scratch: Scratch::new(),
            injecting: false,
            injected: VecDeque::new(),
        }
    }
}
