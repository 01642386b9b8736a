//! Two workers against one, over ports in memory.
//!
//! Frames of 64 bytes (60 without the frame check sequence) circulate without end. Frames that leave by one port arrive at the other, as if a cable
//! joined the two. Each worker has a thread on a core of its own, the real clock and the cycle counter, as in the daemon.
//!
//! One worker, two workers, a straight-line loop and two such loops are measured in turn, so that a noisy neighbour affects all. The speedup of two
//! independent loops is the machine's limit at that moment. The ratio by processor time excludes time that other processes take from a thread. It
//! shows the cost that workers cause each other.

use super::{BenchFigure, Progress, Rounds, medians, queues};
use ::io::clock::{self, CycleCounter};
use ::io::cores;
use anyhow::{Result, ensure};
use cpu::meter::{Work, WorkMeter};
use packet::event::Silent;
use packet::port::{MemoryPort, MemoryWire, Port, WakeSource};
use packet::{Batch, DropReason, Packet, Pool, Region};
use plan::PortPlan;
use plane::rig::{StraightLine, UdpFrame};
use plane::{ApplyError, Build, Decorate, Opener, Router, Worker};
use stack::LocalProtocolLimits;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::{fs, thread};
use units::{Instant, Mac, Nanos, Rate};

/// Frames that circulate through each worker, or that each loop forwards.
const FRAMES: usize = 1024;
/// How long each measurement takes.
const SPAN: Nanos = Nanos::millis(100);
/// The time to live of a new frame.
const TTL: u8 = 255;
/// Budget: the speedup of two workers over one.
const BUDGET: f64 = 1.8;

const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUT: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// The host beyond `out` has the address of `in`, so that departing frames arrive again.
fn config(workers: usize) -> String {
    let route = |to: &str| format!("[[route]]\nto = \"{to}\"\nvia = \"198.51.100.9\"\n");
    let quarters = ["10.0.0.0/10", "10.64.0.0/10", "10.128.0.0/10", "10.192.0.0/10"].map(route).concat();
    format!(
        r#"
version = 1
[router]
workers = {workers}
[port.in]
device = "memory:in"
mac = "{IN}"
address = ["192.0.2.1/24"]
[port.out]
device = "memory:out"
mac = "{OUT}"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "{IN}"
port = "out"
{quarters}"#
    )
}

fn frame(destination: u32) -> Vec<u8> {
    let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::from(destination));
    UdpFrame { link: (OUT, IN), network, ports: (9, 9), ttl: TTL, length: 60 }.frame(&[])
}

/// Frames to all four routes (Knuth, TAOCP 3, 6.4: a multiplicative walk).
fn frames(pool: &mut Pool, count: usize) -> impl Iterator<Item = Packet> {
    (0..count as u32).map(move |i| {
        let mut packet = pool.take().expect("the region has frames for all");
        assert!(packet.fill(&frame(0x0a00_0000 | i.wrapping_mul(0x9e37_79b1) >> 8)));
        packet
    })
}

/// Renews a frame whose time to live is below `least`, with the same destination.
#[inline]
fn renew(packet: &mut Packet, least: u8) {
    let bytes = packet.bytes();
    if bytes.len() > 33 && bytes[22] < least && bytes[12] == 8 && bytes[13] == 0 {
        let destination = u32::from_be_bytes([bytes[30], bytes[31], bytes[32], bytes[33]]);
        assert!(packet.fill(&frame(destination)));
    }
}

/// The end of a cable that renews frames.
struct Cable(MemoryPort);

impl Port for Cable {
    #[inline]
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.0.receive(now, batch, pool);
    }
    fn sets_timestamps(&self) -> bool {
        false
    }
    #[inline]
    fn room(&self) -> usize {
        self.0.room()
    }
    #[inline]
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        batch.as_mut_slice().iter_mut().for_each(|packet| renew(packet, 3));
        self.0.transmit(now, batch, pool);
    }
    fn link_rate(&self) -> Rate {
        self.0.link_rate()
    }
    fn wake_source(&self) -> WakeSource {
        self.0.wake_source()
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

/// Joins the queues of `in` and `out`, with frames in flight on each.
struct Cables {
    queues: usize,
    /// All frames on the cables.
    frames: usize,
    ends: Vec<MemoryPort>,
}

impl Opener for Cables {
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, _: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        if &*plan.name != "in" {
            return Ok(self.ends.drain(..).map(|end| Box::new(Cable(end)) as Box<dyn Port>).collect());
        }
        let (mut pool, mut batch) = (Pool::new(region.clone()), Batch::new());
        let each = self.frames / self.queues;
        let mut near: Vec<Box<dyn Port>> = Vec::new();
        for _ in 0..self.queues {
            let (end, mut other) = MemoryWire::pair(4 * self.frames);
            let mut new: Vec<Packet> = frames(&mut pool, each).collect();
            while !new.is_empty() {
                new.drain(..new.len().min(batch.room())).for_each(|packet| batch.push(packet));
                other.transmit(Instant::START, &mut batch, &mut pool);
            }
            near.push(Box::new(end));
            self.ends.push(other);
        }
        Ok(near)
    }

    fn decorate(&mut self, _: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        Ok((0..queues).map(|_| Box::new(|port| port) as Decorate).collect())
    }
}

/// Reads the processor's counter after each vector, as the daemon's meter does.
struct Counted {
    counter: CycleCounter,
    last: u64,
}

impl WorkMeter for Counted {
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

/// A router with full cables.
struct Circle {
    router: Router,
    workers: Vec<Worker>,
}

impl Circle {
    /// A router with this many workers, and this many queues for each port.
    fn new(workers: usize, queues: usize) -> Circle {
        let limits = LocalProtocolLimits::default();
        // With handoff between workers use no more frames than a ring holds: a lost frame would not circulate any more.
        let frames = if queues < workers { FRAMES } else { workers * FRAMES };
        let build = Build {
            frames: 4 * frames,
            super_frames: 0,
            workers: workers as u16,
            layout: None,
            switch_cost: Nanos::ZERO,
            limits,
        };
        let (mut router, mut workers) = Router::new(build, |_| Box::new(Silent));
        let plan = plan::check(&config(workers.len()), "bench.toml", &plane::catalogue());
        let plan = plan.unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut cables = Cables { queues, frames, ends: Vec::new() };
        let prepared = router.prepare(&plan, &mut cables).unwrap_or_else(|errors| panic!("{errors:?}"));
        let mut published = router.publish(prepared);
        let mut meter = Counted { counter: CycleCounter::calibrated(), last: 0 };
        while !published.is_adopted() {
            workers.iter_mut().for_each(|worker| _ = worker.step(clock::now(), &mut meter));
        }
        router.complete(published);
        Circle { router, workers }
    }

    /// Packets received so far.
    fn received(&self) -> u64 {
        self.workers.iter().map(|worker| worker.report().ledger.received()).sum()
    }

    /// Packets lost since the start.
    fn lost(&self) -> u64 {
        self.workers.iter().map(|worker| worker.report().ledger.dropped_for(DropReason::HandOverFull)).sum()
    }

    /// Runs each worker on a core. Returns their total packets a microsecond.
    fn run(&mut self, cores: &[u16]) -> Pace {
        let before = self.received();
        let times = side_by_side(cores, self.workers.iter_mut(), |worker, counter| {
            let mut meter = Counted { counter: counter.clone(), last: counter.read() };
            let (begin, mut now) = (clock::now(), clock::now());
            while now.since(begin) < SPAN {
                worker.step(now, &mut meter);
                now = clock::now();
            }
            now.since(begin)
        });
        Pace::of(self.received() - before, &times)
    }
}

/// Straight-line loops, each over frames of its own.
struct Loops(Vec<Vec<Packet>>);

impl Loops {
    fn new(count: usize, circle: &Circle) -> Loops {
        let mut pool = Pool::new(circle.router.region().clone());
        Loops((0..count).map(|_| frames(&mut pool, FRAMES).collect()).collect())
    }

    /// Runs one loop for each core. Returns their total packets a microsecond.
    fn run(&mut self, circle: &Circle, cores: &[u16]) -> Pace {
        let tables = circle.router.tables();
        let forwarded = AtomicU64::new(0);
        let times = side_by_side(cores, self.0.iter_mut().take(cores.len()), |frames, _| {
            let straight = StraightLine::new(tables, IN, OUT, 64);
            let (begin, mut own, mut passes) = (clock::now(), 0, 0u32);
            loop {
                own += straight.run(frames);
                passes += 1;
                if passes.is_multiple_of(100) {
                    frames.iter_mut().for_each(|packet| renew(packet, 128));
                }
                let time = clock::now().since(begin);
                if time >= SPAN {
                    forwarded.fetch_add(own as u64, Ordering::Relaxed);
                    return time;
                }
            }
        });
        Pace::of(forwarded.into_inner(), &times)
    }
}

/// The total rate of all threads, in packets a microsecond.
#[derive(Clone, Copy)]
struct Pace {
    /// By wall-clock time.
    wall: f64,
    /// By processor time, as if each thread had a whole core.
    processor: f64,
}

impl Pace {
    /// From a number of packets and the time of each thread, by both clocks.
    fn of(packets: u64, times: &[(Nanos, Nanos)]) -> Pace {
        let longest = times.iter().map(|time| time.0.get()).max().unwrap_or(1);
        let used: u64 = times.iter().map(|time| time.1.get()).sum();
        let (packets, threads) = (packets as f64 * 1000.0, times.len() as f64);
        Pace { wall: packets / longest as f64, processor: packets * threads / used.max(1) as f64 }
    }
}

/// Runs the work on each item in a thread on a core of its own, all at the same time. Returns how long each took, and how much of that it had the
/// processor.
fn side_by_side<T: Send>(
    cores: &[u16],
    things: impl Iterator<Item = T>,
    work: impl Fn(T, &CycleCounter) -> Nanos + Sync,
) -> Vec<(Nanos, Nanos)> {
    let (barrier, counter) = (Barrier::new(cores.len()), CycleCounter::calibrated());
    let (barrier, counter, work) = (&barrier, &counter, &work);
    thread::scope(|scope| {
        let run = |(thing, &core): (T, &u16)| {
            scope.spawn(move || {
                cores::pin(core).expect("the core was among those allowed");
                barrier.wait();
                let before = clock::processor_time();
                let time = work(thing, counter);
                (time, Nanos::new(clock::processor_time().get() - before.get()))
            })
        };
        let threads: Vec<_> = things.zip(cores).map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    })
}

/// Two workers against one, and two loops against one.
pub(super) fn measure(Rounds(count): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let allowed = cores::allowed()?;
    ensure!(allowed.len() > 1, "two workers need two cores, and this process may use one");
    let pair = [allowed[0], allowed[1]];
    let (mut one, mut two, mut relayed) = (Circle::new(1, 1), Circle::new(2, 2), Circle::new(2, 1));
    let mut loops = Loops::new(2, &two);
    let (mut own, mut shared, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let load = || fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or("?").to_owned();
    let before = load();
    for round in 0..=count {
        let single = &pair[round % 2..][..1];
        let alone = one.run(single);
        let figures =
            [(two.run(&pair), alone), (relayed.run(&pair), alone), (loops.run(&two, &pair), loops.run(&two, single))];
        if round > 0 {
            // The first round only warms up.
            [&mut own, &mut shared, &mut plain].into_iter().zip(figures).for_each(|(list, figure)| list.push(figure));
        }
    }
    ensure!(one.lost() + two.lost() + relayed.lost() == 0, "packets were lost that should circulate");
    progress.note(&format!("the load of the machine was {before} before and {} after", load()));
    let figure = |name: &str, rounds: &[(Pace, Pace)], of: fn(Pace) -> f64, budget| {
        let rounds: Vec<(f64, f64)> = rounds.iter().map(|&(two, one)| (of(two), of(one))).collect();
        BenchFigure::at_least("workers", name, medians(&rounds), "packets/us", budget)
    };
    let (wall, processor) = (|pace: Pace| pace.wall, |pace: Pace| pace.processor);
    let mut figures = vec![
        figure("two workers against one, a queue each, 64 B", &own, wall, Some(BUDGET)),
        figure("the same, by processor time", &own, processor, Some(BUDGET)),
        figure("two workers against one, one queue, flows handed over", &shared, wall, None),
        figure("the same, by processor time", &shared, processor, None),
        figure("two straight-line loops against one", &plain, wall, None),
        figure("the same, by processor time", &plain, processor, None),
    ];
    figures.extend(queues::measure(Rounds(count), pair));
    Ok(figures)
}
