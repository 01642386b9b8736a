//! A batch: what a stage takes and gives at once.

use crate::Packet;

/// The most packets in one batch.
pub const BATCH: usize = 256;

/// Up to [`BATCH`] packets in order. Its memory is kept from use to use.
#[derive(Debug)]
#[must_use]
pub struct Batch {
    packets: Vec<Packet>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch { packets: Vec::with_capacity(BATCH) }
    }

    /// Packets in it.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Packets that still fit.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH - self.packets.len()
    }

    /// Adds one at the end. There must be room: a caller that fills batches asks first.
    #[inline(always)]
    pub fn push(&mut self, packet: Packet) {
        assert!(self.packets.len() < BATCH, "a batch holds {BATCH} packets");
        self.packets.push(packet);
    }

    /// Takes all packets out, first to last.
    #[inline(always)]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Packet> {
        self.packets.drain(..)
    }

    /// The packets, to look at.
    #[inline(always)]
    pub fn as_slice(&self) -> &[Packet] {
        &self.packets
    }

    /// The packets, to change in place.
    #[inline(always)]
    pub fn as_mut_slice(&mut self) -> &mut [Packet] {
        &mut self.packets
    }

    /// Sum of the frame lengths in bytes.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|p| p.len() as u64).sum()
    }
}
