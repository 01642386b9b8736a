//! A packet without its outer headers, as a code option may change it.

use super::Diversion;
use packet::Packet;

/// The most bytes that a code option may put in front of a packet. With them the outer headers still fit into the headroom of a frame.
const MOST_ADDED: usize = 128;

/// Access to a packet from the first byte behind its outer headers on.
pub struct InnerEdit<'a> {
    packet: &'a mut Packet,
    added: usize,
}

impl InnerEdit<'_> {
    /// Access to a packet whose outer headers were removed.
    pub fn new(packet: &mut Packet) -> InnerEdit<'_> {
        InnerEdit { packet, added: 0 }
    }

    /// The packet.
    pub fn bytes(&self) -> &[u8] {
        self.packet.bytes()
    }

    /// The packet, mutable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.packet.bytes_mut()
    }

    /// Removes bytes from its front.
    ///
    /// # Errors
    /// It is shorter.
    pub fn remove_front(&mut self, bytes: usize) -> Result<(), Diversion> {
        let removed = bytes <= self.packet.len() && self.packet.shift(bytes as isize);
        removed.then_some(()).ok_or(Diversion::Malformed)
    }

    /// Adds bytes to its front, whose content is not defined before they are written.
    ///
    /// # Errors
    /// There is no room for them.
    pub fn add_front(&mut self, bytes: usize) -> Result<(), Diversion> {
        let added = self.added.saturating_add(bytes);
        let fits = added <= MOST_ADDED && self.packet.shift(-(bytes as isize));
        self.added = added;
        fits.then_some(()).ok_or(Diversion::Malformed)
    }

    /// Removes all bytes from `length` on.
    ///
    /// # Errors
    /// It is shorter.
    pub fn truncate(&mut self, length: usize) -> Result<(), Diversion> {
        let cut = length <= self.packet.len() && self.packet.resize(length);
        cut.then_some(()).ok_or(Diversion::Malformed)
    }
}
