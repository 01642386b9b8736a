//! The in-memory port: one end of a wire whose two directions are bounded rings. Frames move by reference and are never copied.
//!
//! Both ends may be ports of one router or of two, or a test or benchmark may hold one end like a host.

use super::{Offloads, Port, WakeSource};
use crate::spsc::{Consumer, Producer, RingConsumer, RingProducer, ring};
use crate::{Batch, Packet, Pool};
use units::{Instant, Rate};

/// A wire between two in-memory ports.
#[derive(Debug)]
pub struct MemoryWire;

impl MemoryWire {
    /// The two ends of a wire that holds `capacity` packets in each direction. Both ends must use pools of one region.
    pub fn pair(capacity: usize) -> (MemoryPort, MemoryPort) {
        let (to_right, at_right) = ring(capacity);
        let (to_left, at_left) = ring(capacity);
        let end = |out, input| MemoryPort { out, input, rate: Rate::MAX, offloads: Offloads::default() };
        (end(to_right, at_left), end(to_left, at_right))
    }
}

/// One end of a wire.
#[derive(Debug)]
pub struct MemoryPort {
    out: RingProducer<Packet>,
    input: RingConsumer<Packet>,
    rate: Rate,
    offloads: Offloads,
}

impl MemoryPort {
    /// The same end with a link rate for its queueing scheme.
    pub fn with_rate(self, rate: Rate) -> MemoryPort {
        MemoryPort { rate, ..self }
    }

    /// The same end, which transmits packets with these `offloads` pending. The other end must support them.
    pub fn with_offloads(self, offloads: Offloads) -> MemoryPort {
        MemoryPort { offloads, ..self }
    }

    /// Sends one packet. Returns it if there is no room.
    ///
    /// # Errors
    /// The wire is full.
    pub fn send(&mut self, packet: Packet, pool: &mut Pool) -> Result<(), Packet> {
        self.out.push(packet).inspect(|()| pool.export(1))
    }

    /// Packets waiting to be received at this end.
    pub fn waiting(&self) -> usize {
        self.input.queued()
    }
}

impl Port for MemoryPort {
    #[inline]
    fn receive(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let received = self.input.pop_many(batch.room(), |packet| batch.push(packet));
        pool.import(received);
    }

    fn sets_timestamps(&self) -> bool {
        false
    }

    #[inline]
    fn room(&self) -> usize {
        self.out.room()
    }

    #[inline]
    fn transmit(&mut self, _now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let sent = batch.len();
        pool.export(sent);
        assert_eq!(self.out.push_many(sent, batch.drain()), sent, "no more is sent than there is room");
    }

    fn link_rate(&self) -> Rate {
        self.rate
    }

    fn is_up(&self) -> bool {
        !self.out.is_abandoned()
    }

    fn offloads(&self) -> Offloads {
        self.offloads
    }

    fn wake_source(&self) -> WakeSource {
        WakeSource::Poll
    }

    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn wire_delivers_packets_in_order_without_copying() {
        let region = Region::new(600);
        let mut pool = Pool::new(region);
        let (mut left, mut right) = MemoryWire::pair(300);
        let mut batch = Batch::new();
        let mut addresses = Vec::new();
        for i in 0..256u16 {
            let mut packet = pool.take().unwrap();
            assert!(packet.fill(&i.to_be_bytes()));
            addresses.push(packet.bytes().as_ptr());
            batch.push(packet);
        }
        left.transmit(Instant::START, &mut batch, &mut pool);
        assert_eq!((pool.frames_in_use(), left.room(), right.waiting()), (0, 44, 256));
        right.receive(Instant::new(7), &mut batch, &mut pool);
        assert_eq!(pool.frames_in_use(), 256);
        for (i, packet) in batch.drain().enumerate() {
            assert_eq!(packet.bytes(), (i as u16).to_be_bytes());
            assert_eq!(packet.bytes().as_ptr(), addresses[i]);
            pool.give(packet);
        }
        drop(right);
        assert!(!left.is_up());
    }
}
