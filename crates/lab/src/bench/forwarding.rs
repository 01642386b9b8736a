//! The whole switching path against the straight-line loop, over the same frames in the same run.
//!
//! Frames of 64 bytes (60 without the frame check sequence) circulate through an in-memory router. Frames that leave by one port arrive at the other,
//! as if a cable joined the two. Only the router's steps are timed.

use super::{BenchFigure, Rounds, medians};
use crate::bench::components::{destinations, random_prefixes};
use cpu::meter::{Work, WorkMeter};
use fib::{Origin, Outcome, RouteChange, Tables};
use io::clock::CycleCounter;
use packet::port::Port;
use packet::wire::checksum;
use packet::{Batch, Packet};
use plane::rig::{Rig, StraightLine, UdpFrame};
use plane::snapshot::Layout;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use units::{AdjacencyId, Mac, Nanos, VrfId};

/// Packets that each side forwards in a round.
const PACKETS: usize = 600_000;
/// The initial time to live of a frame, and the value below which it is renewed.
const TTL: (u8, u8) = (255, 3);
/// Length of a frame without its check sequence, in bytes.
const LENGTH: usize = 60;
/// Frames offered at once: the size of a receive ring.
const OFFERED: usize = 2048;
/// Frames in the router's own pool.
pub const SPARE: usize = 2048;
/// Steps of the router within which all frames must have left.
const STEPS: usize = 1_000_000;
/// Next hops of a large table.
const GATEWAYS: usize = 16;
/// Routes of a large table.
pub const MILLION: usize = 1_000_000;

const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);

/// Two ports and the route behind the second; `{routes}` is appended.
const PORTS: &str = r#"
version = 1
[port.in]
device = "memory:in"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.out]
device = "memory:out"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
"#;

/// The routing table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BenchTable {
    /// Four routes, all with one next hop.
    Few,
    /// A hundred thousand routes with sixteen next hops.
    HundredThousand,
    /// A million routes with sixteen next hops.
    Million,
}

impl BenchTable {
    /// The ports and next hops, and the routes if the table has few.
    pub fn config(self) -> String {
        let station = |n: usize| {
            // The next hop has the address of `in`, so that departing frames arrive again.
            let hop = BenchTable::gateway(n);
            format!("[[neighbour]]\naddress = \"{hop}\"\nmac = \"02:00:00:00:00:01\"\nport = \"out\"\n")
        };
        let route = |to: &str| format!("[[route]]\nto = \"{to}\"\nvia = \"{}\"\n", BenchTable::gateway(0));
        match self {
            BenchTable::Few => {
                let quarters = ["10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10", "10.192.0.0/10"].map(route);
                PORTS.to_owned() + &station(0) + &quarters.concat()
            }
            BenchTable::HundredThousand | BenchTable::Million => {
                PORTS.to_owned() + &(0..GATEWAYS).map(station).collect::<String>()
            }
        }
    }

    /// The address of next hop `n`, modulo sixteen.
    pub fn gateway(n: usize) -> IpAddr {
        IpAddr::from([198, 51, 100, 9 + (n % GATEWAYS) as u8])
    }

    /// Reserves the adjacencies of all next hops and returns their ids.
    pub fn reserve_adjacencies(self, course: &BenchRouter) -> Vec<AdjacencyId> {
        self.reserve_adjacencies_in(&course.rig)
    }

    fn reserve_adjacencies_in(self, rig: &Rig) -> Vec<AdjacencyId> {
        let out = rig.router.snapshot().interface_named("out").expect("it is configured").id;
        let hold = |n| rig.router.tables().adjacency_for(out, BenchTable::gateway(n)).expect("there is room");
        (0..GATEWAYS).map(hold).collect()
    }

    /// Adds the routes that are not in the configuration.
    fn load(self, rig: &Rig) {
        let Some(routes) = self.routes() else { return };
        let (tables, hops) = (rig.router.tables(), self.reserve_adjacencies_in(rig));
        let change = |(prefix, n): (plan::Prefix, u64)| RouteChange {
            vrf: VrfId::MAIN,
            prefix,
            origin: Origin::Static,
            outcome: Outcome::Via(hops[n as usize % hops.len()]),
        };
        tables.apply_routes(random_prefixes(routes).map(change)).expect("there is room");
        hops.into_iter().for_each(|hop| tables.release(hop));
    }

    /// Destinations for `count` frames, spread over the whole table in random order.
    pub fn destinations(self, count: usize) -> Vec<u32> {
        match self {
            // A multiplicative walk through 10/8 (Knuth, TAOCP 3, 6.4): all four routes.
            BenchTable::Few => (0..count as u32).map(|i| 0x0a00_0000 | i.wrapping_mul(0x9e37_79b1) >> 8).collect(),
            BenchTable::HundredThousand => destinations(MILLION / 10, count),
            BenchTable::Million => destinations(MILLION, count),
        }
    }

    /// The number of routes that are not in the configuration.
    fn routes(self) -> Option<usize> {
        match self {
            BenchTable::Few => None,
            BenchTable::HundredThousand => Some(MILLION / 10),
            BenchTable::Million => Some(MILLION),
        }
    }
}

/// Reads the processor's counter after each vector, as the daemon's meter does.
struct VectorMeter {
    counter: CycleCounter,
    last: u64,
}

impl WorkMeter for VectorMeter {
    const MEASURES_PROCESSOR: bool = true;
    #[inline]
    fn lap(&mut self, work: Work) -> Nanos {
        self.counter.spin(work.extra_time);
        let now = self.counter.read();
        let used = self.counter.between(self.last, now);
        self.last = now;
        used
    }
}

pub fn frame(destination: u32) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::from(destination));
    UdpFrame { link: (Mac([2, 0, 0, 0, 0, 9]), IN), network, ports: (9, 9), ttl: TTL.0, length: LENGTH }.frame(&[])
}

/// Resets the time to live of a frame.
fn reset_ttl(packet: &mut Packet) {
    let header = &mut packet.bytes_mut()[14..34];
    header[8] = TTL.0;
    header[10..12].fill(0);
    let sum = checksum::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// One router with its frames.
pub struct BenchRouter {
    rig: Rig,
    meter: VectorMeter,
    counter: CycleCounter,
    /// The frames, while they are not in the router.
    frames: Vec<Packet>,
    /// The frames that the router has forwarded.
    forwarded: Vec<Packet>,
    /// How often every frame was forwarded since it was renewed.
    hops: u8,
    batch: Batch,
    /// The router's time that each step takes, besides a nanosecond.
    pub step_time: Nanos,
}

impl BenchRouter {
    pub fn new(layout: Layout, table: BenchTable, frames: usize) -> BenchRouter {
        BenchRouter::with(layout, table, frames, "")
    }

    /// The same with more configuration appended.
    fn with(layout: Layout, table: BenchTable, frames: usize, more: &str) -> BenchRouter {
        BenchRouter::start_router(layout, table, frames, &(table.config() + more))
    }

    /// A course with a queueing scheme at the output port. The link calls this scheme for every packet, also if the queue is empty.
    fn with_scheme(layout: Layout, frames: usize, scheme: &str) -> BenchRouter {
        let out = format!("[port.out]\nscheme = '{scheme}'\n");
        let mut course = BenchRouter::start_router(
            layout,
            BenchTable::Few,
            frames,
            &BenchTable::Few.config().replace("[port.out]\n", &out),
        );
        course.rig.worker.disable_bypass();
        course
    }

    fn start_router(layout: Layout, table: BenchTable, frames: usize, config: &str) -> BenchRouter {
        let rig = Rig::running(frames + SPARE, layout, config);
        table.load(&rig);
        BenchRouter::of(rig, table.destinations(frames).into_iter().map(frame))
    }

    /// A running router with these frames, which it forwards from `in` to `out` and which return unchanged except for the time to live. The router
    /// has [`SPARE`] frames more in its pool.
    pub fn of(mut rig: Rig, frames: impl Iterator<Item = Vec<u8>>) -> BenchRouter {
        let counter = CycleCounter::calibrated();
        rig.settle();
        rig.received("in");
        rig.received("out");
        let mut frames: Vec<Packet> = frames.map(|frame| rig.packet(&frame)).collect();
        frames.iter_mut().for_each(reset_ttl);
        let back = Vec::with_capacity(frames.len());
        let meter = VectorMeter { counter: counter.clone(), last: counter.read() };
        BenchRouter {
            rig,
            meter,
            counter,
            frames,
            forwarded: back,
            hops: 0,
            batch: Batch::new(),
            step_time: Nanos::ZERO,
        }
    }

    /// Calls the queueing scheme for every packet, also if no packet waits.
    pub fn call_scheme_always(&mut self) {
        self.rig.worker.disable_bypass();
    }

    /// Runs the router until it has nothing to do.
    pub fn settle(&mut self) {
        self.rig.settle();
    }

    /// The number of passes in a round.
    pub fn passes(&self) -> usize {
        (PACKETS / self.frames.len()).max(1)
    }

    /// The frames, to be changed between two passes.
    pub fn frames_mut(&mut self) -> &mut [Packet] {
        &mut self.frames
    }

    /// Forwards every frame `passes` times through the router. Returns nanoseconds per packet.
    pub fn run_router(&mut self, passes: usize) -> f64 {
        let mut spent = 0;
        for _ in 0..passes {
            self.renew();
            while !self.frames.is_empty() {
                let offered = self.feed();
                // Taken out of the map, so that only the router's steps are timed and not the search for the port.
                let far = self.rig.wires.far.remove("out").expect("the wire is there");
                let start = self.counter.read();
                let mut steps = 0;
                while far.waiting() < offered {
                    self.rig.now += self.step_time;
                    self.rig.step(&mut self.meter);
                    steps += 1;
                    assert!(steps < STEPS, "a frame was lost: the machine stood still, or the router is at fault");
                }
                spent += self.counter.between(start, self.counter.read()).get();
                self.rig.wires.far.insert("out".to_owned(), far);
                self.collect();
            }
            std::mem::swap(&mut self.frames, &mut self.forwarded);
        }
        spent as f64 / (passes * self.frames.len()) as f64
    }

    /// The forwarding tables of the router.
    pub fn tables(&self) -> Arc<Tables> {
        self.rig.router.tables().clone()
    }

    /// The packets that a path has forwarded.
    #[cfg(test)]
    pub fn forwarded_by(&self, path: &str) -> u64 {
        let named = self.rig.router.snapshot().paths.iter().find(|of| *of.name == *path).expect("it is configured").id;
        self.rig.report().paths.iter().filter(|of| of.path == named).map(|of| of.counters.left).sum()
    }

    /// The same by the straight-line loop: the faster of the variants with and without prefetches.
    fn run_straight_line(&mut self, passes: usize) -> f64 {
        let tables = self.rig.router.tables().clone();
        let straight = StraightLine::new(&tables, IN, Mac([2, 0, 0, 0, 0, 2]), 64);
        let [one, ahead] = [StraightLine::run, StraightLine::run_ahead].map(|run| {
            let mut spent = 0;
            for _ in 0..passes {
                self.renew();
                let start = self.counter.read();
                let forwarded = run(&straight, &mut self.frames);
                spent += self.counter.between(start, self.counter.read()).get();
                assert_eq!(forwarded, self.frames.len(), "the loop forwards every frame");
            }
            spent as f64 / (passes * self.frames.len()) as f64
        });
        one.min(ahead)
    }

    /// Renews all frames after their last possible hop. Only then are they touched, so that the measured code finds them as cold as the router left
    /// them.
    fn renew(&mut self) {
        self.hops += 1;
        if self.hops > TTL.0 - TTL.1 {
            self.hops = 1;
            self.frames.iter_mut().for_each(reset_ttl);
        }
    }

    /// Offers the next frames to the router. Returns how many.
    fn feed(&mut self) -> usize {
        let Rig { wires, pool, now, .. } = &mut self.rig;
        let far = wires.far.get_mut("in").expect("the wire is there");
        let offered = self.frames.len().min(OFFERED);
        let from = self.frames.len() - offered;
        for packet in self.frames.drain(from..) {
            self.batch.push(packet);
            if self.batch.room() == 0 {
                far.transmit(*now, &mut self.batch, pool);
            }
        }
        far.transmit(*now, &mut self.batch, pool);
        offered
    }

    fn collect(&mut self) {
        let Rig { wires, pool, now, .. } = &mut self.rig;
        let far = wires.far.get_mut("out").expect("the wire is there");
        while far.waiting() > 0 {
            far.receive(*now, &mut self.batch, pool);
            self.forwarded.extend(self.batch.drain());
        }
    }
}

/// The costs of each course and of the loop beside it, for each round.
fn rounds(count: usize, courses: &mut [BenchRouter]) -> Vec<Vec<(f64, f64)>> {
    let mut rounds = vec![Vec::new(); courses.len()];
    for round in 0..=count {
        for (course, rounds) in courses.iter_mut().zip(&mut rounds) {
            let passes = course.passes();
            let pair = (course.run_router(passes), course.run_straight_line(passes));
            if round > 0 {
                // The first round only warms up.
                rounds.push(pair);
            }
        }
    }
    rounds
}

/// The cost of a 64-byte packet on the whole path through CoDel, with one task for all of it: nanoseconds, by name.
pub fn path_costs(count: usize) -> BTreeMap<String, f64> {
    let few = rounds(count, &mut [BenchRouter::with_scheme(Layout::One, 1024, "codel")]);
    [("whole path by way of codel, 64 B".to_owned(), medians(&few[0]).0)].into()
}

/// Three, two and one task against the loop, then the costs of large tables.
pub fn measure(Rounds(count): Rounds) -> Vec<BenchFigure> {
    let layouts = [
        (Layout::Three, ""),
        (Layout::Two, ""),
        (Layout::One, ""),
        (Layout::Three, "[cpu]\ninline = true\n"),
        (Layout::Three, "[linux]\n"),
    ];
    let plain = layouts.map(|(layout, more)| BenchRouter::with(layout, BenchTable::Few, 1024, more));
    let managed = BenchRouter::with_scheme(Layout::Three, 1024, "codel");
    let mut courses: Vec<BenchRouter> = plain.into_iter().chain([managed]).collect();
    let few = rounds(count, &mut courses);
    drop(courses);
    let names = [
        "three tasks, 4 routes, 64 B",
        "two tasks, 4 routes, 64 B",
        "one task, 4 routes, 64 B",
        "three tasks, forwarding inline, 4 routes, 64 B",
        "three tasks, interfaces in the kernel, 4 routes, 64 B",
        "three tasks, CoDel before a link that is never idle, 4 routes, 64 B",
    ];
    let budgets = [Some(2.5), None, None, None, None, Some(3.2)];
    let figure = |i: usize| BenchFigure::against("forwarding", names[i], medians(&few[i]), "ns/packet", budgets[i]);
    let mut figures: Vec<BenchFigure> = (0..names.len()).map(figure).collect();
    for (name, (one, other), budget) in
        [("three tasks against one", (0, 2), 1.07), ("interfaces in the kernel against none", (4, 0), 1.02)]
    {
        let pairs: Vec<(f64, f64)> = few[one].iter().zip(&few[other]).map(|(one, other)| (one.0, other.0)).collect();
        figures.push(BenchFigure::against("forwarding", name, medians(&pairs), "ns/packet", Some(budget)));
    }
    let large = [
        (BenchTable::HundredThousand, "three tasks, 10^5 routes, 65536 frames, random destinations", None),
        (BenchTable::Million, "three tasks, 10^6 routes, 8192 frames, random destinations", None),
        (BenchTable::Million, "three tasks, 10^6 routes, 65536 frames, random destinations", Some(2.2)),
    ];
    let frames = [65536, 8192, 65536];
    for ((table, name, budget), frames) in large.into_iter().zip(frames) {
        let many = rounds(count, &mut [BenchRouter::new(Layout::Three, table, frames)]);
        figures.push(BenchFigure::against("forwarding", name, medians(&many[0]), "ns/packet", budget));
    }
    figures
}
