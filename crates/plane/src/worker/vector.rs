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
    /// What stays of a batch from which some are sent on; empty otherwise.
    pub kept: Batch,
    /// What the classifier finds out about the batch.
    pub scratch: Box<Scratch>,
    /// What is spread over paths was given, or has waited for room there, and did not just come from a device.
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
