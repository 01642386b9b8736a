//! The near end of a cable: a port of the machine by which frames come to a card and leave it. The card's rings are before it.

use packet::Batch;
use packet::port::Port;

/// The near end of a cable.
pub(crate) struct Cable {
    pub(super) port: Box<dyn Port>,
    /// What is on its way in or out; empty otherwise.
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
