//! The packets that a worker is processing.

use super::originate::OriginatedPacket;
use crate::classify::Scratch;
use packet::Batch;
use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use units::PortId;

/// Frames to inject at a port, and the channel for the number of injected frames.
pub(super) type Injected = (PortId, Vec<Vec<u8>>, Sender<u64>);

/// Packets of a service, and the channel for the number of those that were accepted.
pub(super) type Originated = (Vec<OriginatedPacket>, Sender<u64>);

/// The batch that a stage works on.
pub(super) struct Vector {
    pub batch: Batch,
    /// Packets of the batch that stay while others are classified again. Empty at other times.
    pub kept: Batch,
    /// The classifier's results for the batch.
    pub scratch: Box<Scratch>,
    /// The batch does not come from a device: it was injected, or it has waited for room on its paths.
    pub injecting: bool,
    /// Frames to inject before the next dispatch.
    pub injected: VecDeque<Injected>,
    /// Packets of services that enter their paths before the next dispatch.
    pub originated: VecDeque<Originated>,
}

impl Default for Vector {
    fn default() -> Vector {
        Vector {
            batch: Batch::new(),
            kept: Batch::new(),
            scratch: Scratch::new(),
            injecting: false,
            injected: VecDeque::new(),
            originated: VecDeque::new(),
        }
    }
}
