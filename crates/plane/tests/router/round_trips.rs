//! Round-trip times of subscribers' connections: the delays of hosts on both sides of the router, as it measures them in passing.

use packet::wire::checksum::checksum;
use packet::wire::transport::transport_checksum;
use plane::Router;
use plane::rig::{MemoryWires, ReadFile, Rig, UdpFrame, WorkerGroup};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use subscribers::{RoundTrips, RttHistograms};
use units::{Instant, Mac, Nanos};

const CONFIG: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
scheme = "share(rate=1gbit)"
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
scheme = "share(rate=1gbit)"
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
[[neighbour]]
address = "192.0.2.9"
mac = "02:00:00:00:00:99"
port = "lan"
[[route]]
to = "10.0.0.0/8"
via = "192.0.2.9"
[[route]]
to = "0.0.0.0/0"
via = "198.51.100.9"
[subscribers]
inside = ["lan"]
outside = ["wan"]
file = "/subscribers.csv"
"#;

const NAT: &str = "[nat]\noutside = 'wan'\n[[path]]\nname = 'home'\nmatch = 'any'\nfunctions = ['nat', 'ip']\n";

/// The ports are a bridge: they have no addresses and no routes.
const BRIDGE: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
scheme = "share(rate=1gbit)"
[port.wan]
device = "memory:wan"
scheme = "share(rate=1gbit)"
[[passthrough]]
ports = ["lan", "wan"]
[subscribers]
inside = ["lan"]
outside = ["wan"]
file = "/subscribers.csv"
"#;

const TABLE: &str = "circuit,address,down,up\nalice,10.0.0.1,100mbit,20mbit\nbob,10.0.1.0/24,100mbit,20mbit\n";

fn table(_: &str) -> std::io::Result<Vec<u8>> {
    Ok(TABLE.as_bytes().to_vec())
}

fn wires(read: ReadFile) -> MemoryWires {
    let mut wires = MemoryWires::default();
    wires.read_file = Some(read);
    wires
}

const ALICE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const BOB: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 77);
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
const NEAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const DATA: usize = 100;

/// The direction of a segment, its addresses and ports, and its timestamps: its own, and the one that it returns.
#[derive(Clone, Copy, Debug)]
struct Segment {
    up: bool,
    from: (Ipv4Addr, u16),
    to: (Ipv4Addr, u16),
    stamps: [u32; 2],
}

impl Segment {
    fn frame(&self) -> Vec<u8> {
        let Segment { up, from, to, stamps: [value, echo] } = *self;
        let link = if up {
            (Mac([2, 0, 0, 0, 0, 0x99]), Mac([2, 0, 0, 0, 0, 1]))
        } else {
            (Mac([2, 0, 0, 0, 0, 0x22]), Mac([2, 0, 0, 0, 0, 2]))
        };
        let (network, ports) = ((from.0, to.0), (from.1, to.1));
        let mut frame = UdpFrame { link, network, ports, ttl: 64, length: 66 + DATA }.frame(&[]);
        frame[23] = 6;
        frame[24..26].fill(0);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        // An acknowledgment with data, and the option of timestamps behind two bytes of padding.
        frame[38..54].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 8 << 4, 24, 255, 255, 0, 0, 0, 0]);
        frame[54..58].copy_from_slice(&[1, 1, 8, 10]);
        frame[58..62].copy_from_slice(&value.to_be_bytes());
        frame[62..66].copy_from_slice(&echo.to_be_bytes());
        let sum = transport_checksum(from.0.into(), to.0.into(), 6, &frame[34..]);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// `None` for a frame that is no segment, such as a request of ARP.
    fn of(up: bool, frame: &[u8]) -> Option<Segment> {
        if frame.len() < 66 || frame[12..14] != [8, 0] || frame[23] != 6 {
            return None;
        }
        let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&frame[at..at + 4]).unwrap());
        let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        let stamp = |at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
        let (from, to) = ((address(26), port(34)), (address(30), port(36)));
        Some(Segment { up, from, to, stamps: [stamp(58), stamp(62)] })
    }
}

/// Hosts on both sides that answer each segment with data of their own.
struct Hosts {
    /// The time from the router to a host and back, for the number of its answer.
    delay: fn(Ipv4Addr, u32) -> Nanos,
    /// Answers by the time at which they reach the router.
    due: BTreeMap<Instant, Vec<Segment>>,
    answers: BTreeMap<Ipv4Addr, u32>,
}

impl Hosts {
    fn new(delay: fn(Ipv4Addr, u32) -> Nanos) -> Hosts {
        Hosts { delay, due: BTreeMap::new(), answers: BTreeMap::new() }
    }

    fn open(&mut self, now: Instant, subscriber: Ipv4Addr, port: u16, server: Ipv4Addr) {
        let first = Segment { up: true, from: (subscriber, port), to: (server, 443), stamps: [1, 0] };
        self.due.entry(now).or_default().push(first);
    }

    /// A host has received a segment.
    fn receive(&mut self, now: Instant, segment: Segment) {
        let Segment { up, from, to, stamps: [value, _] } = segment;
        let count = self.answers.entry(to.0).or_default();
        *count += 1;
        // Each answer has a timestamp of its own: the hosts' clocks tick often enough.
        let answer = Segment { up: !up, from: to, to: from, stamps: [1000 + *count, value] };
        self.due.entry(now + (self.delay)(to.0, *count)).or_default().push(answer);
    }

    /// The segments that reach the router now.
    fn sent(&mut self, now: Instant) -> Vec<Segment> {
        let later = self.due.split_off(&(now + Nanos::new(1)));
        std::mem::replace(&mut self.due, later).into_values().flatten().collect()
    }
}

const STEP: Nanos = Nanos::micros(100);

fn wire(up: bool) -> &'static str {
    if up { "lan" } else { "wan" }
}

fn run(rig: &mut Rig, hosts: &mut Hosts, time: Nanos) {
    for _ in 0..time.get() / STEP.get() {
        for segment in hosts.sent(rig.now) {
            rig.send(wire(segment.up), &segment.frame());
        }
        rig.advance(STEP);
        for up in [true, false] {
            for frame in rig.received(wire(!up)) {
                Segment::of(up, &frame).into_iter().for_each(|segment| hosts.receive(rig.now, segment));
            }
        }
    }
}

fn shared(router: &Router) -> Arc<RoundTrips> {
    router.snapshot().round_trips.clone().expect("round-trip times are measured")
}

/// The round-trip times of a subscriber.
fn round_trips(router: &Router, subscriber: &str) -> RttHistograms {
    let shares = router.shares("lan").expect("the port has shares");
    let share = shares.iter().find(|share| share.name.as_str() == subscriber).expect("it is a subscriber");
    shared(router).of(share.id)
}

/// The median and the 95th percentile toward the subscriber, then toward the Internet, in milliseconds; negative without samples.
fn percentiles(router: &Router, subscriber: &str) -> [f64; 4] {
    let RttHistograms { subscriber, internet } = round_trips(router, subscriber);
    let at = |histogram: subscribers::RttHistogram, thousandths| {
        histogram.quantile(thousandths).map_or(-1.0, |time| time.get() as f64 / 1e6)
    };
    [at(subscriber, 500), at(subscriber, 950), at(internet, 500), at(internet, 950)]
}

fn assert_near(found: [f64; 4], expected: [f64; 4]) {
    let near = found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < 1.0);
    assert!(near, "{found:?} ms instead of {expected:?} ms");
}

fn delay(host: Ipv4Addr, answer: u32) -> Nanos {
    Nanos::millis(match host {
        ALICE => 12,
        NEAR => 40,
        FAR => 110,
        // One in ten answers of bob is late.
        _ if answer.is_multiple_of(10) => 90,
        _ => 3,
    })
}

#[test]
fn round_trip_times_are_the_delays_of_hosts_on_both_sides() {
    for layout in [Layout::One, Layout::Two, Layout::Three] {
        for config in [CONFIG.to_owned(), format!("{CONFIG}{NAT}"), BRIDGE.to_owned()] {
            let mut rig = Rig::running_with(wires(table), 4096, layout, &config);
            let mut hosts = Hosts::new(delay);
            (0..3).for_each(|port| hosts.open(rig.now, ALICE, 4000 + port, NEAR));
            hosts.open(rig.now, BOB, 4000, FAR);
            hosts.open(rig.now, STRANGER, 4000, NEAR);
            run(&mut rig, &mut hosts, Nanos::secs(12));
            assert_near(percentiles(&rig.router, "alice"), [12.0, 12.0, 40.0, 40.0]);
            assert_near(percentiles(&rig.router, "bob"), [3.0, 90.0, 110.0, 110.0]);
            let alice = round_trips(&rig.router, "alice");
            assert!(alice.subscriber.weight() > 500 && alice.internet.weight() > 500, "{alice:?}");
            rig.report();
        }
    }
}

#[test]
fn queue_of_the_router_is_part_of_the_time_toward_the_subscriber() {
    // One queue for all connections of a subscriber.
    let config = CONFIG.replace("1gbit)", "1gbit){fifo(limit=500)}");
    let mut rig = Rig::running_with(wires(table), 4096, Layout::Three, &config);
    let mut hosts = Hosts::new(|_, _| Nanos::millis(5));
    // Packets without timestamps: 160 at once, then about the 100 Mbit/s of bob's plan, so that his queue stays.
    let link = (Mac([2, 0, 0, 0, 0, 0x22]), Mac([2, 0, 0, 0, 0, 2]));
    let load = UdpFrame { link, network: (FAR, BOB), ports: (9, 9), ttl: 64, length: 1400 }.frame(&[]);
    (0..160).for_each(|_| rig.send("wan", &load));
    run(&mut rig, &mut hosts, STEP);
    hosts.open(rig.now, BOB, 4000, NEAR);
    hosts.open(rig.now, ALICE, 4000, NEAR);
    for step in 0..5000 {
        if step % 9 > 0 {
            rig.send("wan", &load);
        }
        run(&mut rig, &mut hosts, STEP);
    }
    let [median, ..] = percentiles(&rig.router, "bob");
    let shares = rig.router.shares("lan").expect("shares");
    let bob = shares.iter().find(|share| share.name.as_str() == "bob").expect("bob");
    // The end of a class of sojourn times, at most 1.42 times too large.
    let waited = bob.counts.sojourn(0.5).expect("packets").get() as f64 / 1e6;
    assert!(waited > 8.0, "{waited} ms");
    assert!((5.0 + waited * 0.65..5.2 + waited).contains(&median), "{median} ms after {waited} ms");
    let [alice, ..] = percentiles(&rig.router, "alice");
    assert!((4.9..6.0).contains(&alice), "another subscriber's queue does not delay alice: {alice}");
}

#[test]
fn removed_or_changed_subscriber_is_forgotten_and_others_stay() {
    let mut rig = Rig::running_with(wires(table), 4096, Layout::Three, CONFIG);
    let mut hosts = Hosts::new(delay);
    hosts.open(rig.now, ALICE, 4000, NEAR);
    hosts.open(rig.now, BOB, 4000, FAR);
    run(&mut rig, &mut hosts, Nanos::secs(1));
    let before = round_trips(&rig.router, "alice");
    assert!(before.subscriber.weight() > 0 && round_trips(&rig.router, "bob").subscriber.weight() > 0);
    let mut reload = |read: ReadFile| rig.router.reload_subscribers(&mut wires(read)).expect("the table is right");
    // The title of alice and another rate of bob.
    reload(|_| {
        Ok(b"circuit,address,down,up,title\nalice,10.0.0.1,100mbit,20mbit,Alice\nbob,10.0.1.0/24,90mbit,20mbit,"
            .to_vec())
    });
    assert_eq!(round_trips(&rig.router, "alice"), before);
    assert_eq!(round_trips(&rig.router, "bob"), RttHistograms::default());
    run(&mut rig, &mut hosts, Nanos::secs(1));
    assert!(round_trips(&rig.router, "bob").subscriber.weight() > 0, "new samples are recorded");
    rig.router
        .reload_subscribers(&mut wires(|_| Ok(b"circuit,address,down,up\nbob,10.0.1.0/24,90mbit,20mbit".to_vec())))
        .unwrap();
    run(&mut rig, &mut hosts, Nanos::secs(1));
    rig.router.reload_subscribers(&mut wires(table)).unwrap();
    assert_eq!(round_trips(&rig.router, "alice"), RttHistograms::default(), "the samples of the removed one are gone");
    let memory = Arc::downgrade(&shared(&rig.router));
    rig.apply(&CONFIG.replace("inside =", "rtt = false\ninside =")).expect("it can run");
    run(&mut rig, &mut hosts, Nanos::secs(1));
    assert!(rig.router.snapshot().round_trips.is_none() && memory.upgrade().is_none(), "without rtt it uses no memory");
    rig.apply(CONFIG).expect("it can run");
    run(&mut rig, &mut hosts, Nanos::secs(1));
    assert_near(percentiles(&rig.router, "alice"), [12.0, 12.0, 40.0, 40.0]);
    let kept = shared(&rig.router);
    rig.apply(&CONFIG.replace("1gbit", "2gbit")).expect("it can run");
    assert!(Arc::ptr_eq(&kept, &shared(&rig.router)), "other configurations keep the samples");
}

#[test]
fn flood_of_spoofed_connections_uses_no_more_memory_and_leaves_samples() {
    let mut rig = Rig::running_with(wires(table), 8192, Layout::Three, CONFIG);
    let mut hosts = Hosts::new(delay);
    hosts.open(rig.now, ALICE, 4000, NEAR);
    run(&mut rig, &mut hosts, Nanos::millis(500));
    let memory = shared(&rig.router).memory();
    for number in 0..100_000u32 {
        // Any subscriber and stranger, with any port and timestamp.
        let random = number.wrapping_mul(2_654_435_761);
        let host = Ipv4Addr::from(0x0a00_0000 | random >> 12 & 0x1_ffff);
        let server = (Ipv4Addr::from(0xcb00_7200 | random & 0xff), 443);
        let (from, stamps) = ((host, (random >> 7) as u16), [random, random.rotate_left(9)]);
        let up = number.is_multiple_of(2);
        let (from, to) = if up { (from, server) } else { (server, from) };
        rig.send(wire(up), &Segment { up, from, to, stamps }.frame());
        if number.is_multiple_of(20) {
            rig.advance(STEP);
            for up in [true, false] {
                let frames = rig.received(wire(!up));
                // Only the hosts of the real connection answer.
                let real = |segment: &Segment| [segment.from, segment.to].contains(&(ALICE, 4000));
                let real = frames.iter().filter_map(|frame| Segment::of(up, frame)).filter(real);
                real.for_each(|segment| hosts.receive(rig.now, segment));
            }
            for segment in hosts.sent(rig.now) {
                rig.send(wire(segment.up), &segment.frame());
            }
        }
    }
    assert_eq!(shared(&rig.router).memory(), memory);
    assert!(memory <= RoundTrips::memory_limit(2, 2), "{memory}");
    let alice = round_trips(&rig.router, "alice");
    assert!(alice.subscriber.weight() > 12 && alice.internet.weight() > 12, "{alice:?}");
    assert_near(percentiles(&rig.router, "alice"), [12.0, 12.0, 40.0, 40.0]);
}

#[test]
fn workers_share_one_table() {
    for layout in [Layout::One, Layout::Three] {
        let mut group = WorkerGroup::new(3, 3, 16384, layout);
        group.wires.read_file = Some(table);
        group.apply(CONFIG);
        let mut hosts = Hosts::new(delay);
        // Flows of all workers.
        (0..20).for_each(|port| hosts.open(group.now, ALICE, 4000 + port, NEAR));
        for _ in 0..20_000 {
            for segment in hosts.sent(group.now) {
                group.send(wire(segment.up), &segment.frame());
            }
            group.advance(STEP);
            for up in [true, false] {
                for frame in group.received(wire(!up)) {
                    Segment::of(up, &frame).into_iter().for_each(|segment| hosts.receive(group.now, segment));
                }
            }
        }
        assert_near(percentiles(&group.router, "alice"), [12.0, 12.0, 40.0, 40.0]);
        let alice = round_trips(&group.router, "alice");
        // A connection has a sample on each side in 52 ms.
        assert!(alice.subscriber.weight() > 600 && alice.internet.weight() > 600, "{alice:?}");
        group.workers.iter().for_each(plane::Worker::audit);
    }
}
