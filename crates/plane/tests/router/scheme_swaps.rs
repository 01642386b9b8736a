//! Scheme changes while packets flow: no packet is lost, none overtakes another of its flow, and the link is never idle for
//! longer than the transmission of a packet (spec N-22).

use packet::port::{MemoryPort, MemoryWire, Port};
use packet::{Batch, DropReason, Pool, Queue, Region};
use plan::SchemeChange;
use plane::rig::{StandaloneLink, UdpFrame};
use std::collections::BTreeMap;
use units::{Instant, Nanos};

/// Work-conserving schemes that drop no packet of this test.
const SCHEMES: &[&str] = &[
    "fifo",
    "fifo(unbounded=on)",
    "codel",
    "pie",
    "fq",
    "fq(flows=16, quantum=300b){pie}",
    "drr(by=class, flows=3, weights=1:2:4)",
    "sfq(flows=16)",
    "las",
    "wfq",
    "wf2q(by=class, flows=3)",
    "priority(levels=3)",
    "tree{branch(class=1, weight=3){fq}, branch}",
];
const FLOWS: u32 = 5;
/// Bytes of a frame that hold its number.
const NUMBER: std::ops::Range<usize> = 42..46;

/// A link whose wire holds one packet, and the packets received at its far end.
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
    fn new(scheme: &str) -> Line {
        let region = Region::new(2048);
        let (near, far) = MemoryWire::pair(1);
        let link = StandaloneLink::new(Box::new(near), scheme, Pool::new(region.clone()));
        let (pool, queue, now) = (Pool::new(region), Queue::new(256), Instant::new(1));
        Line { link, far, pool, queue, now, offered: 0, came_out: Vec::new() }
    }

    fn offer(&mut self, packets: u32) {
        for _ in 0..packets {
            let flow = self.offered * 7 % FLOWS;
            let mut packet = self.pool.take().expect("there are more frames than packets");
            packet.fill(&UdpFrame::between_ports(flow as u16, 9).frame(&self.offered.to_be_bytes()));
            let meta = packet.meta_mut();
            (meta.timestamp, meta.l3, meta.class) = (self.now, 14, flow as u8 % 3);
            assert!(self.queue.push(packet).is_none());
            self.offered += 1;
        }
        while !self.queue.is_empty() {
            self.link.offer_and_serve(self.now, &mut self.queue);
        }
    }

    /// Lets one packet time pass: the packet on the wire arrives, and the link sends the next. Returns the number of arrivals.
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

/// Changes from each scheme to each other and back while packets flow, and calls `look` after each pair.
fn swapped(change: SchemeChange, look: impl Fn(&str, &Line)) {
    for one in SCHEMES {
        for other in SCHEMES {
            let mut line = Line::new(one);
            line.offer(40);
            for scheme in [other, one, other] {
                line.offer(12);
                line.link.replace(line.now, StandaloneLink::prepare(scheme).changing(change));
                for _ in 0..9 {
                    assert_eq!(line.slot(), 1, "{one} and {other}: the link was idle while packets wait");
                }
            }
            while line.link.waiting() > 0 {
                assert_eq!(line.slot(), 1, "{one} and {other}: the link was idle while packets wait");
            }
            line.slot();
            look(&format!("{one} and {other}"), &line);
        }
    }
}

fn check_that_no_packet_is_lost(schemes: &str, line: &Line) {
    let mut numbers = line.came_out.clone();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..line.offered), "{schemes}: {:?}", line.came_out);
    assert_eq!(line.link.counters().dropped, 0, "{schemes}");
}

#[test]
fn swap_zero_loss_drain() {
    swapped(SchemeChange::Drain, check_that_no_packet_is_lost);
}

#[test]
fn swap_zero_loss_migrate() {
    swapped(SchemeChange::Migrate, check_that_no_packet_is_lost);
}

#[test]
fn swap_no_flow_reorder() {
    // A flush is not tested: flushed packets cannot overtake others.
    for change in [SchemeChange::Drain, SchemeChange::Migrate] {
        swapped(change, |schemes, line| {
            let mut last = BTreeMap::new();
            for number in &line.came_out {
                let before = last.insert(number * 7 % FLOWS, *number);
                assert!(before < Some(*number), "{schemes}: {number} overtook {before:?}");
            }
        });
    }
}

#[test]
fn swap_with_flush_drops_only_queued_packets() {
    let mut line = Line::new("fq");
    line.offer(40);
    line.link.replace(line.now, StandaloneLink::prepare("fifo").changing(SchemeChange::Flush));
    assert_eq!(line.link.ledger().dropped_for(DropReason::SchemeFlush), 39, "one is on the wire");
    line.offer(3);
    let slots: Vec<usize> = (0..5).map(|_| line.slot()).collect();
    assert_eq!((&slots[..], &line.came_out[1..]), (&[1, 1, 1, 1, 0][..], &[40, 41, 42][..]));
}
