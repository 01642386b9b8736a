//! One end of a wire as a network device of smoltcp.

use packet::port::{MemoryPort, Port};
use packet::{Batch, Packet, Pool};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as Timestamp;
use std::collections::VecDeque;
use units::Instant;

/// Frames sent at once.
const BURST: usize = 32;

/// The device. It accepts no frame if the wire is full: the stack keeps the frame and tries again.
pub struct WireDevice {
    end: MemoryPort,
    pool: Pool,
    inbox: VecDeque<Packet>,
    batch: Batch,
    outbox: Batch,
    now: Instant,
}

impl WireDevice {
    /// A device at the end of a wire whose frames come from the pool's region.
    pub fn new(end: MemoryPort, pool: Pool) -> WireDevice {
        let (batch, outbox) = (Batch::new(), Batch::new());
        WireDevice { end, pool, inbox: VecDeque::new(), batch, outbox, now: Instant::START }
    }

    /// Reads frames from the wire for the stack. Returns true if there were any.
    pub fn receive_frames(&mut self, now: Instant) -> bool {
        self.now = now;
        if self.inbox.is_empty() {
            self.end.receive(now, &mut self.batch, &mut self.pool);
            self.inbox.extend(self.batch.drain());
        }
        !self.inbox.is_empty()
    }

    /// Writes the stack's frames to the wire. Returns true if there were any.
    pub fn send_frames(&mut self, now: Instant) -> bool {
        let any = !self.outbox.is_empty();
        self.end.transmit(now, &mut self.outbox, &mut self.pool);
        any
    }

    fn has_room(&mut self) -> bool {
        if self.outbox.len() >= BURST {
            self.send_frames(self.now);
        }
        self.end.room() > self.outbox.len()
    }
}

impl Drop for WireDevice {
    fn drop(&mut self) {
        self.send_frames(self.now);
        while self.receive_frames(self.now) {
            self.inbox.drain(..).for_each(|packet| self.pool.give(packet));
        }
    }
}

/// A frame for the stack.
pub struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, work: F) -> R {
        work(&self.0)
    }
}

/// Space for a frame from the stack.
pub struct Room<'a>(&'a mut WireDevice);

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, work: F) -> R {
        let Some(mut packet) = self.0.pool.take() else {
            // The pool is empty. The frame is lost, as on a card without memory.
            return work(&mut vec![0; length]);
        };
        assert!(packet.resize(length), "the stack sends no more than it was told the link takes");
        let result = work(packet.bytes_mut());
        self.0.outbox.push(packet);
        result
    }
}

impl Device for WireDevice {
    type RxToken<'a> = Received;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: Timestamp) -> Option<(Received, Room<'_>)> {
        if !self.has_room() {
            return None;
        }
        let packet = self.inbox.pop_front()?;
        let received = Received(packet.bytes().to_vec());
        self.pool.give(packet);
        Some((received, Room(self)))
    }

    fn transmit(&mut self, _: Timestamp) -> Option<Room<'_>> {
        self.has_room().then_some(Room(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1514;
        capabilities
    }
}
