//! The router's end of a cable: a port of the machine that carries the frames of a card. The rings of the card are in front of it.

use packet::Batch;
use packet::port::Port;

/// The router's end of a cable.
pub(crate) struct Cable {
    pub(super) port: Box<dyn Port>,
    /// A buffer for frames being received or transmitted; empty otherwise.
    pub(super) batch: Batch,
    /// Frames that the kernel refused.
    pub(super) refused: u64,
}

impl Cable {
    pub fn new(port: Box<dyn Port>) -> Box<Cable> {
        Box::new(Cable { port, batch: Batch::new(), refused: 0 })
    }

    pub fn has_arrivals(&self) -> bool {
        self.port.has_arrivals()
    }

    pub fn room(&self) -> usize {
        self.port.room()
    }

    /// Frames that the kernel lost at this end.
    pub fn lost(&self) -> u64 {
        let counted = self.port.statistics();
        counted.lost_before_receive + counted.lost_after_transmit + self.refused
    }
}
