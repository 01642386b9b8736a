//! The order of packets over several workers, while filters change and slices fail.

use crate::node::{CONFIG, LAN, WAN, filter, place, scheduler, spec};
use crate::trial::{PANIC_IN_FORMAT, PANIC_IN_PARSE, TRIAL};
use link::RandomStream;
use packet::wire::Ipv4;
use packet::{DropReason, frames::UdpFrame};
use plane::rig::WorkerGroup;
use plane::snapshot::Layout;
use slice::{FilterAction, FilterEdit, FilterSpec, QueueSpec, SliceRates, Slices};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use units::{Mac, Nanos};

/// As many as the contexts of a stage in the paper.
const SLICES: u8 = 8;
/// Classes of packets, each with a filter.
const CLASSES: u8 = 2;
const QUEUES: u8 = 3;
const SENDERS: u8 = 6;
const ROUNDS: u64 = 400;

/// Slice, sender and queue.
type Stream = (u8, u8, u8);

/// A router of several workers, and the order in which packets have left it.
struct Order {
    group: WorkerGroup,
    slices: Slices,
    random: RandomStream,
    /// The wires of the queues of `lan`.
    wires: Vec<String>,
    sent: u32,
    delivered: u64,
    /// The number of the last packet of each sender that has left by a queue, and of all senders.
    last: BTreeMap<Stream, u32>,
    last_of_all: BTreeMap<(u8, u8), u32>,
}

fn name(slice: u8) -> String {
    format!("s{slice}")
}

/// A filter that sends a class by a queue, whose number it writes into the last byte.
fn by_queue(class: u8, queue: u8) -> FilterSpec {
    let next = (Ipv4Addr::new(198, 51, 100, 9), 9000).into();
    filter(&[class], FilterAction::Send { queue: queue.into(), interface: 1, next, data: [queue; 32] })
}

impl Order {
    fn start(workers: u16, queues: usize, layout: Layout, seed: u64) -> Order {
        let mut group = WorkerGroup::new(workers, queues, 16_384, layout);
        let mut slices = Slices::default();
        slices.register_code(&TRIAL);
        slices.provide(&mut group.router);
        // A tree of shares has one owner. The port that receives has none, so that each worker has a queue of it.
        let tree = "scheme = \"share(rate=100mbit, leaves=64, overhead=24b)\"\nshares = [\"engine rate 80mbit ceiling 80mbit\"]\n";
        let config = CONFIG.replacen(tree, "", 1);
        group.apply(&config.replace("version = 1\n", &format!("version = 1\n[router]\nworkers = {workers}\n")));
        for slice in 0..SLICES {
            let (name, port) = (name(slice), 20_000 + u16::from(slice));
            slices.create(spec(&name)).unwrap();
            slices.create_interface(&group.router, &name, (0, place(LAN, port))).unwrap();
            slices.create_interface(&group.router, &name, (1, place(WAN, port))).unwrap();
            slices.reserve(&mut group.router, &name, &scheduler("wan"), SliceRates::default()).unwrap();
            for queue in 0..QUEUES {
                let spec = QueueSpec { scheduler: scheduler("wan"), weight: 1 + u32::from(queue), limit: None };
                slices.set_queue(&mut group.router, &name, (queue.into(), spec)).unwrap();
            }
            for class in 0..CLASSES {
                slices.edit_filters(&name, &[FilterEdit::Insert(class.into(), by_queue(class, class))]).unwrap();
            }
        }
        group.settle();
        let random = RandomStream::new(seed, "order");
        let (last, last_of_all) = Default::default();
        let wires: Vec<String> = group.wires.far.keys().filter(|wire| wire.starts_with("lan")).cloned().collect();
        assert!(wires.len() == queues, "{wires:?}");
        let mut order = Order { group, slices, random, wires, sent: 0, delivered: 0, last, last_of_all };
        order.receive();
        assert_eq!((order.delivered, order.sent), (0, 0));
        order
    }

    fn below(&mut self, bound: u8) -> u8 {
        self.random.below(bound.into()) as u8
    }

    /// A sender sends a packet of a class, or one on which the code option panics.
    fn send(&mut self, first: u8) {
        let (slice, sender) = (self.below(SLICES), self.below(SENDERS));
        let mut payload = vec![first, slice, sender];
        payload.extend(self.sent.to_be_bytes());
        payload.push(0);
        self.sent += 1;
        let link = (Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1]));
        let ports = (7000 + u16::from(sender), 20_000 + u16::from(slice));
        let network = (Ipv4Addr::new(192, 0, 2, 9), LAN);
        let frame = UdpFrame { link, network, ports, ttl: 64, length: 42 + payload.len() }.frame(&payload);
        // A device spreads packets over its queues by their flow.
        let queue = (usize::from(sender) * 7 + usize::from(slice)) % self.wires.len();
        self.group.send(&self.wires[queue], &frame);
    }

    /// Reads the packets that have left, and checks that none has overtaken another of its sender, slice and queue.
    fn receive(&mut self) {
        let wires: Vec<String> = self.group.wires.far.keys().filter(|wire| wire.starts_with("wan")).cloned().collect();
        for frame in wires.iter().flat_map(|wire| self.group.received(wire)).collect::<Vec<_>>() {
            let Ok(ip) = Ipv4::parse(&frame[14..]) else { continue };
            let &[_, slice, sender, a, b, c, d, queue] = &ip.payload[8..] else { panic!("{frame:x?}") };
            let number = u32::from_be_bytes([a, b, c, d]);
            self.delivered += 1;
            let last = self.last.insert((slice, sender, queue), number);
            assert!(last < Some(number), "{number} behind {last:?} of {:?}", (slice, sender, queue));
            if self.group.workers.len() == 1 {
                let last = self.last_of_all.insert((slice, queue), number);
                assert!(last < Some(number), "{number} behind {last:?} of {:?}", (slice, queue));
            }
        }
    }

    /// One of the changes that a tenant or a failure makes while packets are under way.
    fn disturb(&mut self) {
        let name = name(self.below(SLICES));
        match self.below(6) {
            0 => self.slices.suspend(&name, true).unwrap(),
            1 | 2 => self.slices.suspend(&name, false).unwrap(),
            3 => {
                let first = [PANIC_IN_PARSE, PANIC_IN_FORMAT][usize::from(self.below(2))];
                self.send(first);
            }
            _ => {
                let (class, queue) = (self.below(CLASSES), self.below(QUEUES));
                let edit = FilterEdit::Replace(class.into(), by_queue(class, queue));
                self.slices.edit_filters(&name, &[edit]).unwrap();
            }
        }
    }

    /// Sends, steps workers in any order, and changes slices. Then all packets have their fates.
    fn run(mut self) {
        for _ in 0..ROUNDS {
            for _ in 0..self.below(40) {
                let class = self.below(CLASSES);
                self.send(class);
            }
            if self.below(4) == 0 {
                self.disturb();
            }
            for _ in 0..self.below(60) {
                let worker = self.below(self.group.workers.len() as u8);
                self.group.step(worker.into());
            }
            self.group.now += Nanos::micros(100);
            self.receive();
        }
        self.group.advance(Nanos::millis(500));
        self.receive();
        let (mut received, mut forwarded, mut lost) = (0, 0, 0);
        for slice in 0..SLICES {
            let c = self.slices.report(&self.group.router, &name(slice)).unwrap().counters;
            assert_eq!(c.received, c.forwarded + c.exceptions + c.faults + c.suspended + c.lost_exceptions, "{c:?}");
            received += c.received;
            forwarded += c.forwarded;
            lost += c.faults + c.suspended;
        }
        let drops = self.group.reports().iter().flat_map(|report| report.ledger.drops()).collect::<Vec<_>>();
        let behind = |reasons: &[DropReason]| -> u64 {
            drops.iter().filter(|(reason, _)| reasons.contains(reason)).map(|(_, count)| count).sum()
        };
        let queues = behind(&[DropReason::SchemeArrival, DropReason::PathQueue]);
        assert!(received > 0 && lost > 0, "slices were disturbed: {drops:?}");
        assert_eq!(forwarded, self.delivered + queues, "{drops:?}");
        assert!(self.delivered > u64::from(self.sent) / 4, "{} of {} left: {drops:?}", self.delivered, self.sent);
    }
}

/// Run to completion, and the pipeline with its queues between tasks. With one worker packets of one slice and queue keep the order in which they arrived.
/// With several workers those of one sender do, since each worker has the packets of other senders.
#[test]
fn order_preserved_8_contexts() {
    for (seed, layout) in (0..).zip([Layout::One, Layout::Two, Layout::Three]) {
        for (workers, queues) in [(1, 1), (3, 1), (3, 3), (2, 2)] {
            Order::start(workers, queues, layout, seed * 8 + u64::from(workers)).run();
        }
    }
}
