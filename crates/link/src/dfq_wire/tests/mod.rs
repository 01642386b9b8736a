//! Tests of the wire: the codec alone, both ends over a lossy cable in virtual time, and the corpus.

mod codec;
mod corpus;
mod dissect;
mod loss;
mod sessions;

use super::header::ETHERTYPE;
use super::message::{Message, parse};
use super::{DfqWire, DfqWireOptions};
use packet::port::{DfqWireState, DfqWireStatus, MemoryPort, MemoryWire, Port};
use packet::wire::ethernet::{HEADER, write_header};
use packet::{Batch, DropReason, Packet, Pool, Region};
use units::{Instant, Mac, Nanos, ShareId};

const MACS: [Mac; 2] = [Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])];

fn options(end: usize) -> DfqWireOptions {
    DfqWireOptions { mac: MACS[end], opened: 1, quantum: 128, bitmap: 64, flows: 256, cycle: Nanos::millis(1) }
}

/// The packets received at an end.
#[derive(Debug, Default)]
struct Received {
    packets: Vec<Vec<u8>>,
    /// The reasons of refused packets.
    refused: Vec<DropReason>,
}

/// Two wires, and a cable between them that may lose frames.
struct Pair {
    now: Instant,
    pool: Pool,
    ends: [DfqWire; 2],
    cable: [MemoryPort; 2],
    batch: Batch,
}

impl Pair {
    fn new(options: [DfqWireOptions; 2]) -> Pair {
        let (near, far) = MemoryWire::pair(2048);
        let (other_near, other_far) = MemoryWire::pair(2048);
        Pair {
            now: Instant::START,
            pool: Pool::new(Region::new(8192)),
            ends: [DfqWire::new(Box::new(near), &options[0]), DfqWire::new(Box::new(other_near), &options[1])],
            cable: [far, other_far],
            batch: Batch::new(),
        }
    }

    /// Two ends that have agreed.
    fn agreed() -> Pair {
        let mut pair = Pair::new([options(0), options(1)]);
        assert_eq!(pair.elapse(Nanos::millis(300)), [Some(DfqWireState::Multiplexed); 2]);
        pair
    }

    fn status(&self, end: usize) -> DfqWireStatus {
        self.ends[end].dfq_wire().unwrap()
    }

    /// Sends packets from an end, all in one round.
    fn send(&mut self, end: usize, packets: &[(ShareId, Vec<u8>)]) {
        for (share, bytes) in packets {
            let mut packet = self.pool.take_for(bytes.len()).unwrap();
            assert!(packet.fill(bytes));
            packet.meta_mut().set_share(*share);
            self.batch.push(packet);
        }
        assert!(self.batch.len() <= self.ends[end].room());
        self.ends[end].transmit(self.now, &mut self.batch, &mut self.pool);
        assert!(self.batch.is_empty());
    }

    /// Carries the frames of `end` to the other one, those that `see` wants.
    fn carry_from(&mut self, end: usize, see: &mut dyn FnMut(&[u8]) -> bool) {
        let [ours, theirs] = &mut self.cable;
        let (from, to) = if end == 0 { (ours, theirs) } else { (theirs, ours) };
        loop {
            from.receive(self.now, &mut self.batch, &mut self.pool);
            if self.batch.is_empty() {
                return;
            }
            let mut kept = Batch::new();
            for packet in self.batch.drain() {
                if see(packet.bytes()) { kept.push(packet) } else { self.pool.give(packet) }
            }
            to.transmit(self.now, &mut kept, &mut self.pool);
        }
    }

    fn receive(&mut self, end: usize) -> Received {
        let mut received = Received::default();
        loop {
            self.ends[end].receive(self.now, &mut self.batch, &mut self.pool);
            let count = self.batch.len();
            for packet in self.batch.drain() {
                match packet::port::refusal_reason(&packet) {
                    Some(reason) => received.refused.push(reason),
                    None => received.packets.push(packet.bytes().to_vec()),
                }
                self.pool.give(packet);
            }
            if count < packet::BATCH {
                return received;
            }
        }
    }

    /// Lets time pass, in steps of 100 ms, on a cable that delivers the frames that `see` wants; it gets the end that sent each. Returns the last
    /// change at each end.
    fn elapse_with(&mut self, time: Nanos, see: &mut dyn FnMut(usize, &[u8]) -> bool) -> [Option<DfqWireState>; 2] {
        let end = self.now + time;
        let mut changes = [None; 2];
        while self.now < end {
            for (wire, change) in self.ends.iter_mut().zip(&mut changes) {
                let new = wire.maintain(self.now, &mut self.pool);
                *change = new.or(*change);
            }
            // There and back, until both are silent: answers and their answers.
            for _ in 0..4 {
                for side in 0..2 {
                    self.carry_from(side, &mut |frame| see(side, frame));
                    let received = self.receive(1 - side);
                    assert!(received.packets.is_empty(), "{received:?}");
                }
            }
            self.now += Nanos::millis(100);
        }
        changes
    }

    fn elapse(&mut self, time: Nanos) -> [Option<DfqWireState>; 2] {
        self.elapse_with(time, &mut |_, _| true)
    }

    /// Sends packets and returns what arrives over a perfect cable.
    fn exchange(&mut self, end: usize, packets: &[(ShareId, Vec<u8>)]) -> Received {
        self.send(end, packets);
        self.carry_from(end, &mut |_| true);
        self.receive(1 - end)
    }
}

/// A frame of `length` bytes to the end `to`, at least 18, with bytes that differ from those of other numbers.
fn frame(to: usize, number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length.max(HEADER + 4)];
    write_header(&mut frame[..HEADER], MACS[to], MACS[1 - to], None, 0x0800);
    for (at, byte) in frame.iter_mut().enumerate().skip(HEADER) {
        *byte = (number.wrapping_mul(0x9e37_79b1).rotate_left(at as u32 % 32) as usize + at) as u8;
    }
    frame[HEADER..HEADER + 4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// True if the frame has a batch.
fn is_batch(frame: &[u8]) -> bool {
    is_message(frame) && frame[HEADER] & 0xf == 4
}

fn is_message(frame: &[u8]) -> bool {
    frame[12..HEADER] == ETHERTYPE.to_be_bytes()
}

/// A packet of the pool with these bytes.
fn packet(pool: &mut Pool, bytes: &[u8]) -> Packet {
    let mut packet = pool.take().unwrap();
    assert!(packet.fill(bytes));
    packet
}
