//! The whole switching path against the straight-line loop, over the same frames in the same run.
//!
//! 64-byte frames (60 without the frame check sequence) circulate through an in-memory router: what leaves by one port
//! is what comes in by the other, as if the two were joined by a cable. Only the router's steps are timed.

use super::{Figure, Rounds, medians};
use io::clock::CycleCounter;
use packet::{Batch, Packet};
use plane::meter::{Meter, Work};
use plane::port::Port;
use plane::rig::{Rig, StraightLine, Udp};
use plane::snapshot::Layout;
use std::net::Ipv4Addr;
use units::{Mac, Nanos};

/// Packets forwarded in a round by each side.
const PACKETS: usize = 600_000;
/// The time to live frames start with, and below which they are renewed.
const TTL: (u8, u8) = (255, 3);
/// Length of a frame without its check sequence, in bytes.
const LENGTH: usize = 60;

const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);

const CONFIG: &str = r#"
version = 1
[port.in]
device = "memory:in"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.out]
device = "memory:out"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:01"
port = "out"
[[route]]
to = "10.0.0.0/10"
via = "198.51.100.9"
[[route]]
to = "10.64.0.0/10"
via = "198.51.100.9"
[[route]]
to = "10.128.0.0/10"
via = "198.51.100.9"
[[route]]
to = "10.192.0.0/10"
via = "198.51.100.9"
"#;

/// Reads the processor's counter after each vector, as the daemon's meter does.
struct Counted {
    counter: CycleCounter,
    last: u64,
}

impl Meter for Counted {
    #[inline]
    fn lap(&mut self, _work: Work) -> Nanos {
        let now = self.counter.read();
        let used = self.counter.between(self.last, now);
        self.last = now;
        used
    }
}

/// The neighbour beyond `out` has the address of `in`: what leaves comes back in.
fn frame(i: u32) -> Vec<u8> {
    // A multiplicative walk through 10/8 (Knuth): all four routes, in no order.
    let destination = Ipv4Addr::from(0x0a00_0000 | (i.wrapping_mul(0x9e37_79b1) >> 8));
    let network = (Ipv4Addr::new(192, 0, 2, 7), destination);
    Udp { link: (Mac([2, 0, 0, 0, 0, 9]), IN), network, ports: (9, 9), ttl: TTL.0, length: LENGTH }.frame(&[])
}

/// One router with its frames.
struct Course {
    rig: Rig,
    meter: Counted,
    counter: CycleCounter,
    /// The frames, while they are not in the router.
    frames: Vec<Packet>,
    batch: Batch,
}

impl Course {
    fn new(layout: Layout, frames: usize) -> Course {
        let counter = CycleCounter::calibrated();
        let mut rig = Rig::running(frames + 2048, layout, CONFIG);
        rig.settle();
        rig.received("in");
        rig.received("out");
        let frames = (0..frames as u32).map(|i| rig.packet(&frame(i))).collect();
        let meter = Counted { counter: counter.clone(), last: counter.read() };
        Course { rig, meter, counter, frames, batch: Batch::new() }
    }

    /// Forwards every frame `passes` times through the router. Answers nanoseconds a packet.
    fn plane(&mut self, passes: usize) -> f64 {
        let mut spent = 0;
        for _ in 0..passes {
            self.renew();
            self.feed();
            let mut out = 0;
            let start = self.counter.read();
            while out < self.frames.capacity() {
                self.rig.step(&mut self.meter);
                out = self.rig.wires.far["out"].waiting();
            }
            spent += self.counter.between(start, self.counter.read()).get();
            self.collect();
        }
        spent as f64 / (passes * self.frames.len()) as f64
    }

    /// The same by the straight-line loop.
    fn straight(&mut self, passes: usize) -> f64 {
        let tables = self.rig.router.tables().clone();
        let straight = StraightLine::new(&tables, IN, Mac([2, 0, 0, 0, 0, 2]), 64);
        let mut spent = 0;
        for _ in 0..passes {
            self.renew();
            let start = self.counter.read();
            let forwarded = straight.run(&mut self.frames);
            spent += self.counter.between(start, self.counter.read()).get();
            assert_eq!(forwarded, self.frames.len(), "the loop forwards every frame");
        }
        spent as f64 / (passes * self.frames.len()) as f64
    }

    /// Frames that have made too many hops start anew.
    fn renew(&mut self) {
        for (i, packet) in self.frames.iter_mut().enumerate() {
            if packet.bytes()[22] <= TTL.1 {
                assert!(packet.fill(&frame(i as u32)));
            }
        }
    }

    fn feed(&mut self) {
        let Rig { wires, pool, now, .. } = &mut self.rig;
        let far = wires.far.get_mut("in").expect("the wire is there");
        for packet in self.frames.drain(..) {
            self.batch.push(packet);
            if self.batch.room() == 0 {
                far.transmit(*now, &mut self.batch, pool);
            }
        }
        far.transmit(*now, &mut self.batch, pool);
    }

    fn collect(&mut self) {
        let Rig { wires, pool, now, .. } = &mut self.rig;
        let far = wires.far.get_mut("out").expect("the wire is there");
        while far.waiting() > 0 {
            far.receive(*now, &mut self.batch, pool);
            self.frames.extend(self.batch.drain());
        }
    }
}

/// Three, two and one task against the loop.
pub fn measure(Rounds(count): Rounds) -> Vec<Figure> {
    let frames = 1024;
    let passes = PACKETS / frames;
    let mut courses = [Layout::Three, Layout::Two, Layout::One].map(|layout| Course::new(layout, frames));
    let mut rounds = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..=count {
        for (course, rounds) in courses.iter_mut().zip(&mut rounds) {
            let pair = (course.plane(passes), course.straight(passes));
            if round > 0 {
                // The first round only warms up.
                rounds.push(pair);
            }
        }
    }
    let names = ["three tasks, 4 routes, 64 B", "two tasks, 4 routes, 64 B", "one task, 4 routes, 64 B"];
    let budgets = [Some(2.5), None, None];
    let figure = |i: usize| Figure::beside("forwarding", names[i], medians(&rounds[i]), "ns/packet", budgets[i]);
    let mut figures: Vec<Figure> = (0..3).map(figure).collect();
    let against: Vec<(f64, f64)> = rounds[0].iter().zip(&rounds[2]).map(|(three, one)| (three.0, one.0)).collect();
    figures.push(Figure::beside("forwarding", "three tasks against one", medians(&against), "ns/packet", None));
    figures
}
