//! The fast path allocates nothing: neither in the stages nor in what they call.

use cpu::meter::ConstantMeter;
use packet::port::{MemoryWire, Offloads, Port};
use packet::{Packet, Pool, Queue, Region};
use plane::rig::{LAN_AND_WAN, Rig, StandaloneLink, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Instant, Mac, Nanos};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Memory) {
        // SAFETY: the caller's promises are those of the trait.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Added to the configuration [`LAN_AND_WAN`]: a route and a path.
const MORE: &str = r#"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
[[path]]
name = "voice"
match = "udp dport 5060"
"#;

fn config() -> String {
    // The host on `wan` has the router's MAC address on `lan`, so forwarded frames can be sent again unchanged.
    LAN_AND_WAN.replace("02:00:00:00:00:22", "02:00:00:00:00:01") + MORE
}

fn frame(i: u32) -> Vec<u8> {
    // Every other packet takes the configured path.
    let port = if i.is_multiple_of(2) { 5060 } else { 9 };
    let UdpFrame { network: (from, _), .. } = UdpFrame::between_ports(9, port);
    UdpFrame { network: (from, Ipv4Addr::from(0x0a00_0000 | i)), ttl: 255, ..UdpFrame::between_ports(9, port) }
        .frame(&[])
}

/// Sends `frames` through the router `passes` times.
fn forward(rig: &mut Rig, frames: &mut Vec<Packet>, passes: usize) {
    let count = frames.len();
    let mut batch = packet::Batch::new();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..passes {
        for packet in frames.drain(..) {
            batch.push(packet);
        }
        let Rig { wires, pool, now, .. } = rig;
        wires.far.get_mut("lan").unwrap().transmit(*now, &mut batch, pool);
        while rig.wires.far["wan"].waiting() < count {
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        let Rig { wires, pool, now, .. } = rig;
        wires.far.get_mut("wan").unwrap().receive(*now, &mut batch, pool);
        frames.extend(batch.drain());
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    if passes > 10 {
        assert_eq!(allocated, 0, "allocations while {} packets were forwarded", passes * count);
    }
}

/// The same, by two workers: one has the port they come in by, and hands the flows of the other over, and its own to be sent.
fn forward_by_two(team: &mut WorkerGroup, frames: &mut Vec<Packet>, passes: usize) {
    let count = frames.len();
    let mut batch = packet::Batch::new();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..passes {
        for packet in frames.drain(..) {
            batch.push(packet);
        }
        let WorkerGroup { wires, pool, now, .. } = team;
        wires.far.get_mut("lan").unwrap().transmit(*now, &mut batch, pool);
        while team.wires.far["wan"].waiting() < count {
            (0..2).for_each(|worker| _ = team.step(worker));
        }
        let WorkerGroup { wires, pool, now, .. } = team;
        wires.far.get_mut("wan").unwrap().receive(*now, &mut batch, pool);
        frames.extend(batch.drain());
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    if passes > 10 {
        assert_eq!(allocated, 0, "allocations while {} packets were forwarded by two", passes * count);
    }
}

/// Sends frames with these bytes from one wire to the other, again and again. Answers what they have become.
fn translate(rig: &mut Rig, (from, to): (&str, &str), frames: &mut Vec<Packet>, bytes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    const PASSES: usize = 100;
    let mut batch = packet::Batch::new();
    let mut before = 0;
    for pass in 0..PASSES {
        if pass == 2 {
            // By then the pools and the queues have their memory.
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        for (mut packet, bytes) in frames.drain(..).zip(bytes) {
            assert!(packet.fill(bytes));
            batch.push(packet);
        }
        let Rig { wires, pool, now, .. } = rig;
        wires.far.get_mut(from).unwrap().transmit(*now, &mut batch, pool);
        while rig.wires.far[to].waiting() < bytes.len() {
            rig.step(&mut ConstantMeter(Nanos::new(10)));
        }
        let Rig { wires, pool, now, .. } = rig;
        wires.far.get_mut(to).unwrap().receive(*now, &mut batch, pool);
        frames.extend(batch.drain());
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocated, 0, "allocations while packets were translated from {from} to {to}");
    frames.iter().map(|packet| packet.bytes().to_vec()).collect()
}

/// The frame that answers one.
fn answer(frame: &[u8]) -> Vec<u8> {
    let mut back = frame.to_vec();
    for (here, there, length) in [(0, 6, 6), (26, 30, 4), (34, 36, 2)] {
        back[here..here + length].copy_from_slice(&frame[there..there + length]);
        back[there..there + length].copy_from_slice(&frame[here..here + length]);
    }
    back
}

/// Packets to a group are copied to two ports, one of which takes copies as they are, again and again.
fn copy_to_a_group() {
    const PASSES: usize = 100;
    let more = "[port.dmz]\ndevice = \"memory:dmz\"\naddress = [\"203.0.113.1/24\"]\n\
                [[multicast]]\ngroup = \"239.1.2.3\"\nfrom = \"lan\"\nto = [\"wan\", \"dmz\"]\n";
    let gather = Offloads { gather: true, ..Offloads::default() };
    let mut rig = Rig::offloading(2048, Layout::Three, &format!("{LAN_AND_WAN}{more}"), &[("dmz", gather)]);
    let link = (Mac([2, 0, 0, 0, 0, 9]), Mac([1, 0, 0x5e, 1, 2, 3]));
    let (group, length) = (Ipv4Addr::new(239, 1, 2, 3), 1000);
    let network = (Ipv4Addr::new(192, 0, 2, 7), group);
    let bytes = UdpFrame { link, network, length, ..UdpFrame::between_ports(9, 9) }.frame(&[]);
    let (mut batch, mut before) = (packet::Batch::new(), 0);
    for pass in 0..PASSES {
        if pass == 2 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        for _ in 0..100 {
            let mut packet = rig.pool.take().expect("there are frames");
            assert!(packet.fill(&bytes));
            batch.push(packet);
        }
        let Rig { wires, pool, now, .. } = &mut rig;
        wires.far.get_mut("lan").unwrap().transmit(*now, &mut batch, pool);
        for wire in ["wan", "dmz"] {
            while rig.wires.far[wire].waiting() < 100 {
                rig.step(&mut ConstantMeter(Nanos::new(10)));
            }
            let Rig { wires, pool, now, .. } = &mut rig;
            wires.far.get_mut(wire).unwrap().receive(*now, &mut batch, pool);
            for packet in batch.drain() {
                assert_eq!(packet.tail().is_empty(), wire == "wan");
                pool.give(packet);
            }
        }
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocated, 0, "allocations while packets to a group were copied");
    assert_eq!(rig.report().ledger.copies(), 200 * PASSES as u64);
}

/// Schemes take each other's place on a link on which packets wait.
fn replace_schemes() {
    let region = Region::new(2048);
    let mut pool = Pool::new(region.clone());
    let (near, _far) = MemoryWire::pair(16);
    let mut link = StandaloneLink::new(Box::new(near), "fifo", Pool::new(region));
    let mut queue = Queue::new(512);
    for i in 0..512 {
        let mut packet = pool.take().expect("the pool has frames");
        assert!(packet.fill(&frame(i)));
        assert!(queue.push(packet).is_none());
    }
    while !queue.is_empty() {
        link.offer_and_serve(Instant::new(1), &mut queue);
    }
    assert_eq!(link.waiting(), 512 - 16);
    let texts = [
        "fq",
        "priority",
        "fq(flows=8192,limit=400){fifo(drop=head)}",
        "fifo(limit=300)",
        "codel",
        "codel(target=1ms)",
        "red",
        "red(weight=1%)",
        "las",
        "sfq(flows=1)",
    ];
    let mut prepared = texts.map(|text| Some(StandaloneLink::prepare(text)));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for (i, queueing) in prepared.iter_mut().enumerate() {
        if let Some(new) = queueing.take() {
            *queueing = link.replace(Instant::new(2 + i as u64), new).1;
        }
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocated, 0, "allocations while schemes were replaced");
    assert_eq!(link.waiting(), 300, "some of them let fewer in");
}

/// A link on which packets wait is looked at again and again, longer than it remembers.
fn look_at_a_link() {
    let region = Region::new(2048);
    let mut pool = Pool::new(region.clone());
    let (near, mut far) = MemoryWire::pair(16);
    let scheme =
        "tree{branch(class=1){codel(target=1us, interval=20us, mtu=0b)}, branch{red(min=1, max=20, weight=20%)}}";
    let mut link = StandaloneLink::new(Box::new(near), scheme, Pool::new(region));
    let (mut queue, mut batch, mut now) = (Queue::new(512), packet::Batch::new(), Instant::new(1));
    let (mut before, bytes) = (0, frame(0));
    for round in 0..700u32 {
        if round == 2 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        for i in 0..32u8 {
            let mut packet = pool.take().expect("the pool has frames");
            assert!(packet.fill(&bytes));
            (packet.meta_mut().timestamp, packet.meta_mut().class) = (now, i % 2);
            assert!(queue.push(packet).is_none());
        }
        link.offer_and_serve(now, &mut queue);
        far.receive(now, &mut batch, &mut pool);
        batch.drain().for_each(|packet| pool.give(packet));
        now += Nanos::millis(100);
        link.sample(now);
    }
    let allocated = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(allocated, 0, "allocations while a link was looked at");
    let told = link.report(now);
    assert_eq!((told.samples.len(), told.drops.len()), (300, 2), "{:?}", told.drops);
    assert!(told.sojourn.count() > 5000);
}

// One test: what another one allocates would be counted.
#[test]
fn forwarding_allocates_nothing() {
    let mut team = WorkerGroup::new(2, 1, 2048, Layout::Three);
    team.apply(&config());
    team.settle();
    ["lan", "wan"].into_iter().for_each(|wire| drop(team.received(wire)));
    let mut frames: Vec<Packet> = (0..200).map(|i| team.packet(&frame(i))).collect();
    forward_by_two(&mut team, &mut frames, 2);
    forward_by_two(&mut team, &mut frames, 150);
    frames.drain(..).for_each(|packet| team.pool.give(packet));
    let handed = team.reports().iter().map(|report| report.ledger.taken_over()).max();
    assert!(handed > Some(10_000), "packets change hands: {handed:?}");

    for layout in [Layout::One, Layout::Two, Layout::Three] {
        let mut rig = Rig::running(2048, layout, &config());
        let mut frames: Vec<Packet> = (0..200).map(|i| rig.packet(&frame(i))).collect();
        // The first pass fills the pools and the queues' memory.
        forward(&mut rig, &mut frames, 2);
        forward(&mut rig, &mut frames, 150);
        frames.drain(..).for_each(|packet| rig.pool.give(packet));
    }

    let inside = "[[neighbour]]\naddress = \"192.0.2.7\"\nmac = \"02:00:00:00:00:09\"\nport = \"lan\"\n";
    let path = "[[path]]\nname = \"home\"\nmatch = \"any\"\nfunctions = [\"nat\", \"filter\", \"ip\"]\n";
    let rules = "filter = [\"ct state established accept\", \"tcp dport { 1, 5 } drop\"]\n[nat]\noutside = \"wan\"\n";
    let mut rig =
        Rig::running(2048, Layout::Three, &config().replace("[[path]]", &format!("{inside}{path}{rules}[[path]]")));
    let mut frames: Vec<Packet> = (0..200).map(|i| rig.packet(&frame(i))).collect();
    let plain: Vec<Vec<u8>> = (0..200).map(frame).collect();
    let left = translate(&mut rig, ("lan", "wan"), &mut frames, &plain);
    assert!(left.iter().all(|frame| frame[26..30] == [198, 51, 100, 1]), "they come from us");
    let answers: Vec<Vec<u8>> = left.iter().map(|frame| answer(frame)).collect();
    let back = translate(&mut rig, ("wan", "lan"), &mut frames, &answers);
    assert!(back.iter().all(|frame| frame[30..34] == [192, 0, 2, 7]), "they go inside");
    frames.drain(..).for_each(|packet| rig.pool.give(packet));
    copy_to_a_group();
    replace_schemes();
    look_at_a_link();
}
