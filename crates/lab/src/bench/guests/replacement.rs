//! The time to put another guest on a link while packets flow and a thousand are queued. It runs from the last call of the old guest until
//! the link has the first packets that the new one dequeues.
use super::super::{BenchFigure, median};
use extension::GuestProgram;
use io::clock;
use link::Queueing;
use packet::port::{MemoryPort, MemoryWire, Port};
use packet::{BATCH, Batch, Pool, Queue, Region};
use plane::rig::StandaloneLink;
use units::Instant;

/// Budget for the median, in microseconds.
const REPLACED: f64 = 50.0;
/// Queued packets.
const WAITING: usize = 1000;
/// Packets that the wire holds, and that arrive between two replacements.
const WIRE: usize = 32;
/// Capacity of the queues in packets.
const CAPACITY: usize = 4096;

/// The link and a record of its output.
struct Line {
    link: StandaloneLink,
    far: MemoryPort,
    pool: Pool,
    queue: Queue,
    batch: Batch,
    offered: u64,
    /// The number of the last packet that came out, then counts of all packets and of those out of order.
    last: u64,
    sent: u64,
    late: u64,
}

impl Line {
    fn offer(&mut self, packets: usize) {
        for _ in 0..packets {
            let mut packet = self.pool.take().expect("the pool has frames");
            let mut bytes = [0; 60];
            self.offered += 1;
            bytes[..8].copy_from_slice(&self.offered.to_be_bytes());
            assert!(packet.fill(&bytes));
            drop(self.queue.push(packet));
        }
        while !self.queue.is_empty() {
            self.link.offer_and_serve(Instant::START, &mut self.queue);
        }
    }

    /// Removes the packets from the wire.
    fn drain_wire(&mut self) {
        self.far.receive(Instant::START, &mut self.batch, &mut self.pool);
        for packet in self.batch.drain() {
            let number = packet.bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
            self.late += u64::from(number < self.last);
            (self.last, self.sent) = (number, self.sent + 1);
            self.pool.give(packet);
        }
    }
}

/// Replaces a guest with these options by itself, this many times.
///
/// # Errors
///
/// The guest does not start.
pub fn measure(program: &GuestProgram, options: &[u64], times: usize) -> anyhow::Result<Vec<BenchFigure>> {
    let region = Region::new(2 * CAPACITY);
    let (near, far) = MemoryWire::pair(WIRE);
    let link = StandaloneLink::new(Box::new(near), "fifo(limit=2000)", Pool::new(region.clone()));
    let (pool, queue, batch) = (Pool::new(region), Queue::new(BATCH), Batch::new());
    let mut line = Line { link, far, pool, queue, batch, offered: 0, last: 0, sent: 0, late: 0 };
    for _ in 0..(WAITING + WIRE).div_ceil(WIRE) {
        line.offer(WIRE);
    }
    let (mut took, mut dropped) = (Vec::with_capacity(times), 0);
    for _ in 0..times {
        let queueing = Queueing::new(Box::new(program.guest(options)?), CAPACITY);
        line.drain_wire();
        let before = line.link.counters().dropped;
        let start = clock::now();
        let (_, old) = line.link.replace(Instant::START, queueing);
        let taken_over = line.link.counters().dropped;
        line.link.offer_and_serve(Instant::START, &mut line.queue);
        took.push(clock::now().since(start).get() as f64 / 1000.0);
        dropped += taken_over - before;
        drop(old);
        line.offer(WIRE);
    }
    let name = |what: &str| format!("replaced while {WAITING} packets wait{what}");
    Ok(vec![
        BenchFigure::alone("guests", name(""), median(took), "us", Some(REPLACED)),
        BenchFigure::alone("guests", name(", dropped by it"), dropped as f64, "packets", Some(0.0)),
        BenchFigure::alone("guests", name(", of those sent overtaken"), line.late as f64, "packets", Some(0.0)),
    ])
}
