//! Guests are replaced while packets flow: no packet is lost or reordered, and the link is not idle for longer than a packet time.

use extension::{Guest, GuestProgram, Runtime};
use link::Queueing;
use packet::port::{MemoryPort, MemoryWire, Port};
use packet::{Batch, Pool, Queue, Region};
use plan::SchemeChange;
use plane::rig::{StandaloneLink, UdpFrame};
use std::ops::Range;
use units::{Instant, Nanos};

const FIFO: &str = include_str!("../../../../examples/guests/fifo.wat");
/// The bytes of a frame that hold its number.
const NUMBER: Range<usize> = 42..46;
/// Packets that wait while guests are replaced: more than one call shows to a guest.
const WAITING: u32 = 600;

fn guest(runtime: &Runtime) -> Guest {
    let module = wat::parse_str(FIFO).expect("it is WebAssembly");
    let program = GuestProgram::load(&module, runtime).expect("it is a guest");
    program.guest(&[4000, 0]).expect("it starts")
}

/// A link whose wire holds one packet, and the packets at its far end.
struct Line {
    link: StandaloneLink,
    far: MemoryPort,
    pool: Pool,
    queue: Queue,
    now: Instant,
    offered: u32,
    came_out: Vec<u32>,
}

impl Line {
    fn offer(&mut self, packets: u32) {
        for _ in 0..packets {
            let mut packet = self.pool.take().expect("there are more frames than packets");
            packet.fill(&UdpFrame::between_ports(7, 9).frame(&self.offered.to_be_bytes()));
            let meta = packet.meta_mut();
            (meta.timestamp, meta.l3) = (self.now, 14);
            assert!(self.queue.push(packet).is_none());
            self.offered += 1;
        }
        while !self.queue.is_empty() {
            self.link.offer_and_serve(self.now, &mut self.queue);
        }
    }

    /// Advances time by one packet time. Returns the number of packets that came out.
    fn slot(&mut self) -> usize {
        self.now += Nanos::micros(12);
        let (mut batch, before) = (Batch::new(), self.came_out.len());
        self.far.receive(self.now, &mut batch, &mut self.pool);
        for packet in batch.drain() {
            self.came_out.push(u32::from_be_bytes(packet.bytes()[NUMBER].try_into().expect("four bytes")));
            self.pool.give(packet);
        }
        self.link.offer_and_serve(self.now, &mut self.queue);
        self.came_out.len() - before
    }
}

#[test]
fn guest_replacement_under_load_loses_and_reorders_no_packet() {
    let runtime = Runtime::counted().expect("it runs here");
    let capacity = 4096;
    for change in [SchemeChange::Migrate, SchemeChange::Drain] {
        let region = Region::new(2048);
        let (near, far) = MemoryWire::pair(1);
        let link = StandaloneLink::new(Box::new(near), "codel", Pool::new(region.clone()));
        let (pool, queue, now) = (Pool::new(region), Queue::new(1024), Instant::new(1));
        let mut line = Line { link, far, pool, queue, now, offered: 0, came_out: Vec::new() };
        line.offer(WAITING);
        for _ in 0..4 {
            let made = |which: usize| match which {
                2 => StandaloneLink::prepare("fq"),
                _ => Queueing::new(Box::new(guest(&runtime)), capacity),
            };
            for which in 0..3 {
                line.link.replace(line.now, made(which).changing(change));
                for _ in 0..25 {
                    line.offer(1);
                    assert_eq!(line.slot(), 1, "{change:?}: the link was idle while packets wait");
                }
            }
        }
        while line.link.waiting() > 0 {
            assert_eq!(line.slot(), 1, "{change:?}: the link was idle while packets wait");
        }
        line.slot();
        assert!(line.came_out.iter().copied().eq(0..line.offered), "{change:?}: lost, or overtaken in their flow");
        assert_eq!(line.link.counters().dropped, 0);
    }
}
