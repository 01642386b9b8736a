//! Every queueing scheme on a link with real packets: none is lost or sent twice, none overtakes another of its flow, and
//! every drop and mark is counted.

use link::{LinkWires, Queueing};
use packet::event::SchemeTransition;
use packet::port::{MemoryPort, MemoryWire, Port};
use packet::wire::{Ipv4, Ipv4Spec, ethernet, ethertype};
use packet::{DropReason, Packet, Pool, Queue, Region};
use plan::{Call, SchemeChange};
use plane::rig::{LAN_AND_WAN, StandaloneLink, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use proptest::prelude::*;
use schemes::{Next, Progress, Record, Scheme, Wires};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use units::declare::Declaration;
use units::{Instant, Mac, Nanos, QueueId};

/// In the syntax of the configuration, with limits so small that each scheme drops or marks.
const SCHEMES: &[&str] = &[
    "fifo(limit=40)",
    "fifo(limit=40, drop=head)",
    "fifo(unbounded=on)",
    "priority{fifo(limit=40)}",
    "priority(levels=3){codel(target=1us, interval=20us, mtu=0b)}",
    "fq(flows=16, limit=60){codel(target=1us, interval=20us, mtu=0b, ecn=on)}",
    "fq(flows=4, quantum=300b, limit=50){choke(min=1, max=40, weight=50%)}",
    "fq(flows=3000, limit=50){fifo(limit=20)}",
    "drr(by=class, flows=3, limit=60){red(min=2, max=20, weight=20%)}",
    "sfq(flows=8, limit=60){fifo(limit=20, drop=head)}",
    "las(limit=60){threshold(mark=5)}",
    "drr(by=class, flows=3, weights=1:2:4, limit=60){fifo(limit=30)}",
    "wfq(flows=16, limit=60){fifo(limit=20)}",
    "wf2q(by=class, flows=3, weights=4:2:1, limit=60){codel(target=1us, interval=20us, mtu=0b)}",
    "wf2q(flows=2000, limit=60){fifo(limit=20, drop=head)}",
    "shape(rate=1gbit, burst=16kb, overhead=38b){fq(flows=8, limit=60){fifo(limit=20)}}",
    "tree{branch(class=1, weight=3, ceiling=900mbit){fifo(limit=30)}, branch{tree{branch{sfq(limit=40)}}}}",
    "share(leaves=4){fq(flows=16, limit=60){codel(target=1us, interval=20us, mtu=0b)}}",
    "dfq(rate=10gbit, cycle=200us, flows=4){fifo(limit=40)}",
    "cake(rate=1gbit, flows=16, limit=60, cells=ptm){fifo(limit=30)}",
    "red(min=2, max=20, weight=20%)",
    "red(min=2, max=8, weight=50%, ecn=on, mode=bytes, gentle=off)",
    "codel(target=1us, interval=20us, mtu=0b)",
    "codel(target=1us, interval=20us, mtu=0b, ecn=on, again=sfqcodel, root=table)",
    "pie(target=5us, update=100us, burst=0ns, mean=1b, alpha=10000%)",
    "pie(target=5us, update=100us, burst=0ns, alpha=10000%, ecn=on, ecn_max=100%)",
    "blue(limit=40, rise=2%, fall=2%, hold=0ns)",
    "choke(min=1, max=40, weight=50%)",
    "threshold(mark=5, limit=60)",
];
/// Packets that the wire behind the link holds.
const WIRE: usize = 16;
/// Bytes of a frame that hold its number.
const NUMBER: std::ops::Range<usize> = 42..46;

fn declarations() -> impl Iterator<Item = &'static Declaration> + Clone {
    schemes::DECLARATIONS.iter().chain(schemes::ORDERS.iter().map(|order| &order.declaration))
}

fn call(text: &str) -> Call {
    Call::scheme(text, &plane::catalogue()).unwrap_or_else(|e| panic!("{text}: {}", e.reason))
}

/// A packet of a flow. Each flow has its own class.
#[derive(Clone, Copy, Debug)]
struct Kind {
    flow: u8,
    ecn: u8,
    payload: usize,
}

impl Kind {
    fn class(self) -> u8 {
        self.flow % 3
    }

    fn frame(self, number: u32) -> Vec<u8> {
        let mut frame = vec![0; 46 + self.payload];
        let (to, from) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 9]));
        ethernet::write_header(&mut frame[..14], to, from, None, ethertype::IPV4).unwrap();
        let spec = Ipv4Spec {
            type_of_service: self.ecn,
            identification: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: 17,
            source: Ipv4Addr::new(192, 0, 2, self.flow),
            destination: Ipv4Addr::new(10, 0, 0, 1),
        };
        spec.write(&mut frame[14..], 12 + self.payload).unwrap();
        frame[NUMBER].copy_from_slice(&number.to_be_bytes());
        frame
    }
}

/// An action on the link.
#[derive(Clone, Debug)]
enum Step {
    Offer(Vec<Kind>),
    Wait(u64),
    Take(usize),
    Replace(usize, SchemeChange),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = (0u8..6, 0u8..4, 0usize..1400).prop_map(|(flow, ecn, payload)| Kind { flow, ecn, payload });
    prop_oneof![
        4 => prop::collection::vec(kind, 1..40).prop_map(Step::Offer),
        3 => (0u64..200_000).prop_map(Step::Wait),
        4 => (0usize..WIRE * 2).prop_map(Step::Take),
        1 => (0..SCHEMES.len(), 0..SchemeChange::ALL.len()).prop_map(|(scheme, way)| Step::Replace(scheme, SchemeChange::ALL[way])),
    ]
}

/// A link with its sender and its receiver.
struct World {
    link: StandaloneLink,
    far: MemoryPort,
    pool: Pool,
    queue: Queue,
    now: Instant,
    offered: Vec<Kind>,
    received: u64,
    congested: u64,
    last: BTreeMap<u8, u32>,
    /// The numbers of the packets that were sent, in order.
    came_out: Vec<u32>,
}

impl World {
    fn new(scheme: &str) -> World {
        let region = Region::new(8192);
        let (near, far) = MemoryWire::pair(WIRE);
        let link = StandaloneLink::new(Box::new(near), scheme, Pool::new(region.clone()));
        World {
            link,
            far,
            pool: Pool::new(region),
            queue: Queue::new(8192),
            now: Instant::new(1),
            offered: Vec::new(),
            received: 0,
            congested: 0,
            last: BTreeMap::new(),
            came_out: Vec::new(),
        }
    }

    fn packet(&mut self, kind: Kind) -> Packet {
        let mut packet = self.pool.take().expect("there are more frames than packets");
        packet.fill(&kind.frame(self.offered.len() as u32));
        let meta = packet.meta_mut();
        (meta.timestamp, meta.l3, meta.ecn, meta.class) = (self.now, 14, kind.ecn, kind.class());
        self.offered.push(kind);
        packet
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Offer(kinds) => {
                for kind in kinds {
                    let packet = self.packet(*kind);
                    assert!(self.queue.push(packet).is_none());
                }
                while !self.queue.is_empty() {
                    self.link.offer_and_serve(self.now, &mut self.queue);
                }
            }
            Step::Wait(nanos) => self.now += Nanos::new(*nanos),
            Step::Take(packets) => self.take(*packets),
            Step::Replace(scheme, change) => _ = self.replace(SCHEMES[*scheme], *change),
        }
        self.conserved();
    }

    fn replace(&mut self, scheme: &str, change: SchemeChange) -> SchemeTransition {
        self.link.replace(self.now, StandaloneLink::prepare(scheme).changing(change)).0
    }

    /// The far end receives `packets` packets, and the link may send as many.
    fn take(&mut self, packets: usize) {
        let mut batch = packet::Batch::new();
        for _ in 0..packets.div_ceil(WIRE) {
            self.far.receive(self.now, &mut batch, &mut self.pool);
            for packet in batch.drain() {
                self.look(packet.bytes());
                self.pool.give(packet);
            }
            self.link.offer_and_serve(self.now, &mut self.queue);
        }
    }

    fn look(&mut self, frame: &[u8]) {
        let number = u32::from_be_bytes(frame[NUMBER].try_into().unwrap());
        let kind = self.offered[number as usize];
        let header = Ipv4::parse(&frame[14..]).expect("a mark leaves the header valid").header;
        let mut expected = kind.frame(number);
        if header.ecn() != kind.ecn {
            assert!(header.ecn() == 3 && kind.ecn != 0, "{kind:?} has {}", header.ecn());
            self.congested += 1;
            assert!(packet::wire::set_congestion_experienced(&mut expected, 14));
        }
        assert_eq!(frame, expected);
        let before = self.last.insert(kind.flow, number);
        assert!(before < Some(number), "{number} overtook {before:?} of its flow");
        self.received += 1;
        self.came_out.push(number);
    }

    fn conserved(&self) {
        let (counters, ledger) = (self.link.counters(), self.link.ledger());
        assert_eq!(counters.offered, self.offered.len() as u64);
        assert_eq!(counters.offered, counters.sent + counters.dropped + u64::from(self.link.waiting()));
        assert_eq!((ledger.sent(), ledger.dropped()), (counters.sent, counters.dropped));
        assert!(self.congested <= counters.marked);
        let by_scheme = [DropReason::SchemeArrival, DropReason::SchemeFront, DropReason::SchemeTail];
        let others = [DropReason::SchemeFlush, DropReason::BufferFull];
        let reasons = by_scheme.iter().chain(&others).map(|reason| ledger.dropped_for(*reason));
        assert_eq!(reasons.sum::<u64>(), counters.dropped, "each drop has a reason");
    }

    /// Sends all queued packets.
    fn end(mut self) -> World {
        while self.link.waiting() > 0 {
            self.now += Nanos::millis(1);
            self.take(WIRE);
        }
        self.take(WIRE);
        self.conserved();
        assert_eq!(self.received, self.link.counters().sent);
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn scheme_invariants_hold_on_a_link_and_across_scheme_changes(
        scheme in 0..SCHEMES.len(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new(SCHEMES[scheme]);
        steps.iter().for_each(|step| world.step(step));
        world.end();
    }
}

/// Offers twice as many packets as leave, 32 at a time. All packets are ECN-capable.
fn overload(scheme: &str) -> World {
    let mut world = World::new(scheme);
    for round in 0..300u32 {
        let kinds = (0..32).map(|i| Kind { flow: ((round + i) % 5) as u8, ecn: 2, payload: 500 }).collect();
        for step in [Step::Offer(kinds), Step::Take(WIRE), Step::Wait(100_000)] {
            world.step(&step);
        }
    }
    world.end()
}

#[test]
fn each_scheme_drops_excess_packets_as_declared() {
    for declaration in declarations() {
        let tried = SCHEMES.iter().filter(|text| call(text).name == declaration.name);
        assert!(tried.count() > 0, "{} is not among those tried", declaration.name);
    }
    for scheme in SCHEMES {
        let world = overload(scheme);
        let (counters, ledger) = (world.link.counters(), world.link.ledger());
        let shed = |reason: DropReason| ledger.dropped_for(reason);
        let (refused, full) = (shed(DropReason::SchemeArrival), shed(DropReason::BufferFull));
        let front = scheme.starts_with("codel") || scheme.contains("drop=head");
        let dropped = match *scheme {
            "fifo(unbounded=on)" => full,
            _ if front => shed(DropReason::SchemeFront),
            // Schemes with several queues drop at the front of the longest queue, and their inner scheme refuses arrivals.
            s if s.contains('{') => refused + shed(DropReason::SchemeFront),
            _ => refused,
        };
        let marks = scheme.contains("ecn=on") || scheme.contains("threshold");
        assert_eq!(counters.marked > 0, marks, "{scheme} has marked {}", counters.marked);
        assert!(dropped > 100 || marks, "{scheme}: {dropped}");
        assert_eq!(full > 0, *scheme == "fifo(unbounded=on)", "{scheme}: {full} for want of memory");
        assert!(counters.sent > 4000, "{scheme} has sent {}", counters.sent);
    }
}

#[test]
fn scheme_change_keeps_queued_packets_and_their_order() {
    let mut world = World::new("fifo");
    let kinds = vec![Kind { flow: 3, ecn: 0, payload: 100 }; 30 + WIRE];
    world.step(&Step::Offer(kinds));
    let names = declarations().map(|declaration| declaration.name);
    for name in names.clone().chain(names) {
        world.replace(name, SchemeChange::Migrate);
        world.conserved();
        assert_eq!(world.link.waiting(), 30, "{name}");
    }
    let world = world.end();
    assert_eq!(world.received, 30 + WIRE as u64);
}

/// A link with this scheme and `packets` queued packets of several flows, each with its own arrival time.
fn with_waiting(scheme: &str, packets: u32) -> World {
    let mut world = World::new(scheme);
    // These packets fill the wire.
    world.step(&Step::Offer(vec![Kind { flow: 0, ecn: 0, payload: 100 }; WIRE]));
    for i in 0..packets {
        world.step(&Step::Wait(1000));
        world.step(&Step::Offer(vec![Kind { flow: (i * 7 % 5) as u8, ecn: 0, payload: 100 }]));
    }
    assert_eq!(world.link.waiting(), packets);
    world
}

/// The numbers of the packets sent in the end, without those that fill the wire.
fn order(world: World) -> Vec<u32> {
    world.end().came_out.split_off(WIRE)
}

fn numbers(waiting: u32) -> Vec<u32> {
    (0..waiting).map(|i| WIRE as u32 + i).collect()
}

#[test]
fn migrated_packets_leave_in_order_of_arrival_at_the_router() {
    assert_ne!(order(with_waiting("fq", 40)), numbers(40), "the old scheme has another order");
    let mut world = with_waiting("fq", 40);
    assert_eq!(world.replace("fifo", SchemeChange::Migrate), SchemeTransition::Migrated);
    assert_eq!(order(world), numbers(40));
}

#[test]
fn draining_scheme_is_served_before_later_arrivals() {
    let left = order(with_waiting("priority(levels=3)", 40));
    let mut world = with_waiting("priority(levels=3)", 40);
    assert_eq!(world.replace("fifo", SchemeChange::Drain), SchemeTransition::Draining);
    // Their class would send them first after a migration.
    let last = vec![Kind { flow: 2, ecn: 0, payload: 100 }; 10];
    world.step(&Step::Offer(last.clone()));
    assert_eq!(
        world.replace("priority(levels=3)", SchemeChange::Drain),
        SchemeTransition::Draining,
        "the first is the first still"
    );
    world.step(&Step::Offer(last));
    assert_eq!(world.link.waiting(), 60);
    let all = order(world);
    assert_eq!((&all[..40], &all[40..]), (&left[..], &numbers(60)[40..]));

    // A migration takes the packets of the draining scheme and the later ones.
    let mut world = with_waiting("fq", 40);
    world.replace("priority(levels=3)", SchemeChange::Drain);
    world.step(&Step::Offer(vec![Kind { flow: 2, ecn: 0, payload: 100 }; 10]));
    assert_eq!(world.replace("fifo", SchemeChange::Migrate), SchemeTransition::Migrated);
    assert_eq!(order(world), numbers(50));

    let mut world = World::new("fq");
    assert_eq!(world.replace("fifo", SchemeChange::Drain), SchemeTransition::Migrated, "nothing waits");
}

#[test]
fn flushed_packets_are_dropped_and_counted() {
    for drains in [false, true] {
        let mut world = with_waiting("fq", 40);
        if drains {
            world.replace("priority", SchemeChange::Drain);
            world.step(&Step::Offer(vec![Kind { flow: 1, ecn: 0, payload: 100 }; 10]));
        }
        assert_eq!(world.replace("red", SchemeChange::Flush), SchemeTransition::Flushed);
        let flushed = world.link.ledger().dropped_for(DropReason::SchemeFlush);
        assert_eq!((world.link.waiting(), flushed), (0, if drains { 50 } else { 40 }));
        world.end();
    }
}

#[test]
fn parameter_change_keeps_the_scheme_in_any_change_mode() {
    let changes = [
        ("codel", "codel(target=1ms, interval=20ms, ecn=on)"),
        ("fq", "fq(quantum=500b, limit=5000){codel(target=1ms)}"),
        ("drr(by=class, flows=3, weights=1:2:4){red}", "drr(by=class, flows=3, weights=4:1:2){red(min=3)}"),
        ("shape(rate=50mbit){fq}", "shape(rate=20mbit, burst=3kb){fq{codel(target=1ms)}}"),
        ("tree{branch{fq}, branch(class=1, weight=2)}", "tree{branch(weight=3){fq}, branch(class=1, ceiling=10mbit)}"),
        ("cake(rate=50mbit)", "cake(rate=20mbit, hosts=none)"),
    ];
    for (before, after) in changes {
        let mut world = with_waiting(before, 40);
        assert_eq!(world.replace(after, SchemeChange::Flush), SchemeTransition::Tuned, "{before} to {after}");
        assert_eq!(world.link.waiting(), 40);
        world.end();
    }
    let mut world = with_waiting("fq(limit=1000)", 40);
    let more = world.replace("fq(limit=2000)", SchemeChange::Migrate);
    assert_eq!(more, SchemeTransition::Migrated, "it has no room for so many");
    assert_eq!(world.replace("fq(flows=16)", SchemeChange::Migrate), SchemeTransition::Migrated);
}

#[test]
fn raised_thresholds_admit_packets_to_a_full_queue_at_once() {
    let one = || Step::Offer(vec![Kind { flow: 1, ecn: 0, payload: 100 }]);
    for scheme in [
        "red(min=5, weight=50%, gentle=off)",
        "choke(min=5, weight=50%)",
        "fq(flows=16){red(min=5, weight=50%, gentle=off)}",
        "drr(by=class, flows=3){choke(min=5, weight=50%)}",
        "shape(rate=10gbit, burst=1mb){red(min=5, weight=50%, gentle=off)}",
        "tree{branch{priority{red(min=5, weight=50%, gentle=off)}}, branch(class=2)}",
        "cake(rate=10gbit, burst=1mb, flows=16){red(min=5, weight=50%, gentle=off)}",
    ] {
        let mut world = World::new(scheme);
        world.step(&Step::Offer(vec![Kind { flow: 1, ecn: 0, payload: 100 }; WIRE + 60]));
        while world.link.waiting() > 0 {
            world.step(&Step::Take(WIRE));
        }
        world.step(&Step::Take(WIRE));
        let refused = |world: &World| world.link.ledger().dropped_for(DropReason::SchemeArrival);
        // No time has passed in which the average could fall.
        let before = refused(&world);
        world.step(&one());
        assert_eq!(refused(&world), before + 1, "{scheme} has an average above its thresholds");
        assert_eq!(
            world.replace(&scheme.replace("min=5", "min=4"), SchemeChange::Migrate),
            SchemeTransition::Tuned,
            "{scheme}"
        );
        world.step(&one());
        assert_eq!(refused(&world), before + 1, "{scheme} goes on refusing");
        world.end();
    }
}

/// Packets that each of two workers sends in 10 ms at a common rate of 100 Mbit/s, of those offered to each.
fn sent_by_two(offered: [u32; 2]) -> [usize; 2] {
    // Each worker has a queue of both ports.
    let mut team = WorkerGroup::new(2, 2, 8192, Layout::Three);
    team.apply(&LAN_AND_WAN.replace("[port.wan]", "[port.wan]\nscheme = 'shape(rate=100mbit, burst=3kb){fq}'"));
    team.advance(Nanos::secs(1));
    let (ins, outs) = (["lan", "lan#1"], ["wan", "wan#1"]);
    let before = outs.map(|wire| team.wires.far[wire].waiting());
    let mut batch = packet::Batch::new();
    for (wire, count) in ins.into_iter().zip(offered) {
        for i in 0..count {
            let frame = UdpFrame { length: 1000, ..UdpFrame::between_ports(9, i as u16) }.frame(&[]);
            batch.push(team.packet(&frame));
            let WorkerGroup { wires, pool, now, .. } = &mut team;
            wires.far.get_mut(wire).unwrap().transmit(*now, &mut batch, pool);
        }
    }
    team.advance(Nanos::millis(10));
    [0, 1].map(|worker| team.wires.far[outs[worker]].waiting() - before[worker])
}

#[test]
fn workers_of_one_port_share_its_rate_by_backlog() {
    // 125 packets, the burst, and for each worker one packet that exceeds its tokens in part.
    let [first, second] = sent_by_two([400, 400]);
    assert!((120..=131).contains(&(first + second)) && first.abs_diff(second) <= 8, "{first} and {second}");
    let [first, second] = sent_by_two([400, 0]);
    assert!((120..=131).contains(&first) && second == 0, "{first} and {second}");
    let [first, second] = sent_by_two([20, 400]);
    assert!(first == 20 && (100..=111).contains(&second), "{first} and {second}");
}

/// A scheme made of two handlers.
struct Handlers<A, R>(A, R);

impl<A: FnMut(&mut LinkWires) + Send, R: FnMut(&mut LinkWires) -> Progress + Send> Scheme<LinkWires>
    for Handlers<A, R>
{
    fn arrival(&mut self, wires: &mut LinkWires) {
        (self.0)(wires);
    }
    fn link_ready(&mut self, wires: &mut LinkWires) -> Progress {
        (self.1)(wires)
    }
    fn next(&self, _: &LinkWires) -> Next {
        Next::Ready
    }
}

const QUEUE: QueueId = QueueId(0);

fn keep(wires: &mut LinkWires) {
    while wires.arriving().is_some() {
        wires.enqueue(QUEUE);
    }
}

/// A link with these handlers, after it was offered packets with payloads of these lengths.
fn handled(
    arrival: impl FnMut(&mut LinkWires) + Send + 'static,
    ready: impl FnMut(&mut LinkWires) -> Progress + Send + 'static,
    payloads: &[usize],
) -> World {
    let mut world = World::new("fifo");
    world.link.replace(world.now, Queueing::new(Box::new(Handlers(arrival, ready)), 4096));
    let kinds = payloads.iter().map(|payload| Kind { flow: 1, ecn: 0, payload: *payload }).collect();
    world.step(&Step::Offer(kinds));
    world
}

/// Inspects some packets before they arrive, and others after some arrivals.
struct Foresees;

impl Scheme<LinkWires> for Foresees {
    fn arrival(&mut self, wires: &mut LinkWires) {
        let (mut foreseen, mut arrived): (Vec<Record>, Vec<Record>) = Default::default();
        foreseen.extend(std::iter::from_fn(|| wires.peek_arriving()).take(3));
        while let Some(packet) = wires.arriving() {
            arrived.push(packet);
            wires.enqueue(QUEUE);
            foreseen.extend(std::iter::from_fn(|| wires.peek_arriving()).take(arrived.len() % 3));
        }
        assert_eq!(foreseen, arrived);
        assert!(arrived.windows(2).any(|two| two[0].flow_hash != two[1].flow_hash), "flows differ: {arrived:?}");
    }
    fn link_ready(&mut self, _: &mut LinkWires) -> Progress {
        Progress::None
    }
    fn next(&self, _: &LinkWires) -> Next {
        Next::Ready
    }
    fn wants_flow_hash(&self) -> bool {
        true
    }
}

#[test]
fn announced_packets_equal_arrived_packets() {
    let mut world = World::new("fifo");
    world.link.replace(world.now, Queueing::new(Box::new(Foresees), 4096));
    let kinds = (0..50).map(|flow| Kind { flow: flow % 4, ecn: 0, payload: 100 + usize::from(flow % 4) }).collect();
    world.step(&Step::Offer(kinds));
    assert_eq!(world.link.waiting(), 50);
}

#[test]
fn prim_drop_tail_is_last_stored() {
    let (mut lengths, mut asked) = (Vec::new(), false);
    let once = move |wires: &mut LinkWires| {
        if !std::mem::replace(&mut asked, true) {
            lengths.extend(wires.drop_tail(QUEUE).map(|record| record.length));
            assert_eq!((&lengths[..], wires.size(QUEUE).packets), (&[346][..], 2));
        }
        Progress::None
    };
    let world = handled(keep, once, &[100, 200, 300]);
    assert_eq!((world.link.waiting(), world.link.ledger().dropped_for(DropReason::SchemeTail)), (2, 1));
}

#[test]
fn prim_arrival_without_enqueue_drops() {
    let every_other = |wires: &mut LinkWires| {
        while wires.arriving().is_some() {
            wires.enqueue(QUEUE);
            assert!(!wires.enqueue(QUEUE), "there is one of it");
            let _ = wires.arriving();
        }
    };
    let world = handled(every_other, |_| Progress::None, &[100; 7]);
    assert_eq!((world.link.waiting(), world.link.ledger().dropped_for(DropReason::SchemeArrival)), (4, 3));
}

#[test]
fn prim_transmit_only_when_ready() {
    let all = |wires: &mut LinkWires| {
        for _ in 0..40 {
            let ready = wires.link_ready();
            let taken = wires.dequeue(QUEUE);
            assert!(ready || taken.is_none(), "nothing is taken out for a link that takes nothing");
            wires.transmit();
            wires.transmit();
        }
        Progress::None
    };
    let world = handled(keep, all, &[100; 30]);
    assert_eq!((world.link.counters().sent, world.link.waiting()), (WIRE as u64, 30 - WIRE as u32));
}

#[test]
fn now_constant_in_handler() {
    let still = |wires: &mut LinkWires| {
        let now = wires.now();
        keep(wires);
        assert_eq!(wires.now(), now);
    };
    let world = handled(still, |_| Progress::None, &[100; 3]);
    assert_eq!(world.link.waiting(), 3);
}
