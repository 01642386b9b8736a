//! A flow with a reservation beside a flood and an expensive function, in real time on one core.
//!
//! One card delivers three flows to a worker that uses the real clock and the cycle counter, as in the daemon. They are a flow with a reservation, a
//! best-effort flood of minimal packets, and best-effort packets whose function takes 30 us each. Together they ask for several times the core's
//! capacity.
//!
//! The card is in memory. When the worker polls it, it generates the packets that are due since the last poll, each with its arrival time inside. Its
//! receive ring is as long as a real one, and packets that overflow it are counted. The far card counts the packets that leave, and their latency.
//!
//! Then the same packets are offered to a router without the mechanisms: no reservation, one queue and one task for all paths, scheduled round robin.
//! [`veth`] does the same on real packets. [`acceptance`] runs a whole daemon.

pub(super) mod acceptance;
mod veth;

use super::{BenchFigure, Progress, Rounds, median};
use ::io::clock::{self, CycleCounter, CycleMeter};
use ::io::cores;
use ::io::thread_priority::RealtimePriority;
use ::io::wait::{Sleeper, Waker};
use anyhow::Result;
use cpu::calibrate;
use cpu::meter::{Work, WorkMeter};
use packet::event::Silent;
use packet::port::{Port, PortStatistics, WakeSource};
use packet::{Batch, Pool, Region};
use plan::PortPlan;
use plane::rig::UdpFrame;
use plane::{ApplyError, Build, Decorate, Opener, Router, StepResult, Worker};
use stack::LocalProtocolLimits;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::thread;
use units::{Instant, Mac, Nanos, Rate};

/// How long each router runs in a round, after two parts of a warm-up in which it measures its costs.
const SPAN: Nanos = Nanos::millis(400);
const SETTLING: Nanos = Nanos::millis(100);
/// Pause between two rounds. The kernel throttles a real-time thread that has used 95 % of a second (sched(7), "Limiting the CPU usage of real-time
/// and deadline processes"). A round and a pause stay below that.
const REST: Nanos = Nanos::millis(500);
/// Packets in a receive ring.
const RING: usize = 1024;
/// The reserved flow keeps at least this fraction of its reservation. Without the mechanisms it keeps less.
const MIN_KEPT: f64 = 0.99;
/// The most rounds: each takes two seconds.
const ROUNDS: usize = 9;
/// Another program or the host of a virtual machine has had the processor if two looks at the clock are further apart. A run of the router has at most
/// 32 packets of 30 us between them.
const PREEMPTION_GAP: Nanos = Nanos::micros(1200);

const IN: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OUT: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// The flows, by their index in this list: destination port, packets a second, and the cost of the path's function.
const FLOWS: [(u16, u64, &str); 3] = [(5000, 50_000, "2us"), (6000, 1_000_000, ""), (7000, 50_000, "30us")];
/// The flow with the reservation.
const RESERVED: usize = 0;

fn config(promised: bool) -> String {
    let [(voice, rate, voice_cost), _, (dear, _, dear_cost)] = FLOWS;
    let (cpu, reserve) = if promised {
        (String::new(), format!("reserve = \"{rate}pps\"\npacket_size = \"60b\"\n"))
    } else {
        ("[cpu]\nscheduler = \"rr\"\nbest_effort = \"single\"\n".to_owned(), String::new())
    };
    let flood: u64 = FLOWS.iter().map(|flow| flow.1).sum();
    format!(
        r#"
version = 1
{cpu}
[port.in]
device = "memory:in"
mac = "{IN}"
address = ["192.0.2.1/24"]
line_rate = "{flood}pps"
[port.out]
device = "memory:out"
mac = "{OUT}"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:09"
port = "out"
[[route]]
to = "10.0.0.0/8"
via = "198.51.100.9"
[[path]]
name = "promised"
match = "iif in udp dport {voice}"
functions = ["spin(cost={voice_cost})", "ip"]
{reserve}
[[path]]
name = "dear"
match = "iif in udp dport {dear}"
functions = ["spin(cost={dear_cost})", "ip"]
"#
    )
}

/// The counters of both cards, by flow.
#[derive(Default)]
struct Counts {
    /// Counting starts here.
    begin: Option<Instant>,
    offered: [u64; FLOWS.len()],
    /// Packets that found the receive ring full.
    overflowed: [u64; FLOWS.len()],
    sent: [u64; FLOWS.len()],
    /// The latency of each packet with a reservation.
    latencies: Vec<u64>,
}

/// Generates the packets of all flows, evenly spaced.
struct Source {
    counts: Arc<Mutex<Counts>>,
    frames: Vec<Vec<u8>>,
    /// The next arrival time of each flow.
    next: Option<[Instant; FLOWS.len()]>,
    /// The receive ring: the flow and arrival time of each packet.
    ring: VecDeque<(usize, Instant)>,
}

impl Source {
    fn new(counts: Arc<Mutex<Counts>>) -> Source {
        let network = (Ipv4Addr::new(192, 0, 2, 7), Ipv4Addr::new(10, 1, 2, 3));
        let frame = |port| UdpFrame { link: (OUT, IN), network, ports: (9, port), ttl: 64, length: 60 }.frame(&[]);
        let frames = FLOWS.iter().map(|flow| frame(flow.0)).collect();
        Source { counts, frames, next: None, ring: VecDeque::with_capacity(RING) }
    }

    /// Puts all packets due until `now` into the ring, or counts them as lost.
    fn arrive(&mut self, now: Instant) {
        let next = self.next.get_or_insert([now; FLOWS.len()]);
        let mut counts = self.counts.lock().expect("nobody panics with it");
        let counting = counts.begin.is_some();
        loop {
            let (flow, at) = next.iter().copied().enumerate().min_by_key(|&(_, at)| at).expect("there are flows");
            if at > now {
                return;
            }
            next[flow] = at + Nanos::new(1_000_000_000 / FLOWS[flow].1);
            counts.offered[flow] += u64::from(counting);
            if self.ring.len() < RING {
                self.ring.push_back((flow, at));
            } else {
                counts.overflowed[flow] += u64::from(counting);
            }
        }
    }
}

impl Port for Source {
    fn receive(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        self.arrive(now);
        while batch.room() > 0 {
            let Some((flow, at)) = self.ring.pop_front() else { return };
            let Some(mut packet) = pool.take() else { return self.ring.push_front((flow, at)) };
            packet.fill(&self.frames[flow]);
            let bytes = packet.bytes_mut();
            bytes[42..50].copy_from_slice(&at.get().to_be_bytes());
            bytes[50] = flow as u8;
            packet.meta_mut().timestamp = at;
            batch.push(packet);
        }
    }
    fn room(&self) -> usize {
        RING
    }
    fn transmit(&mut self, _: Instant, batch: &mut Batch, pool: &mut Pool) {
        batch.drain().for_each(|packet| pool.give(packet));
    }
    fn link_rate(&self) -> Rate {
        Rate::MAX
    }
    fn ring_size(&self) -> u32 {
        RING as u32
    }
    fn wake_source(&self) -> WakeSource {
        WakeSource::Poll
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
    fn statistics(&self) -> PortStatistics {
        let lost = self.counts.lock().expect("nobody panics with it").overflowed.iter().sum();
        PortStatistics { lost_before_receive: lost, lost_after_transmit: 0 }
    }
}

/// Receives the packets that leave.
struct Sink(Arc<Mutex<Counts>>);

impl Port for Sink {
    fn receive(&mut self, _: Instant, _: &mut Batch, _: &mut Pool) {}
    fn room(&self) -> usize {
        RING
    }
    fn transmit(&mut self, now: Instant, batch: &mut Batch, pool: &mut Pool) {
        let mut counts = self.0.lock().expect("nobody panics with it");
        for packet in batch.drain() {
            let bytes = packet.bytes();
            if let (Some(begin), Some(&flow)) = (counts.begin, bytes.get(50).filter(|_| bytes[12..14] == [8, 0])) {
                let came = Instant::new(u64::from_be_bytes(bytes[42..50].try_into().expect("8 bytes")));
                // Packets from before the start do not count as offered.
                if came >= begin {
                    counts.sent[usize::from(flow)] += 1;
                    if usize::from(flow) == RESERVED {
                        counts.latencies.push(now.since(came).get());
                    }
                }
            }
            pool.give(packet);
        }
    }
    fn link_rate(&self) -> Rate {
        Rate::MAX
    }
    fn wake_source(&self) -> WakeSource {
        WakeSource::Poll
    }
    fn undecorated(self: Box<Self>) -> Box<dyn Port> {
        self
    }
}

struct Cards(Arc<Mutex<Counts>>);

impl Opener for Cards {
    fn open(&mut self, plan: &PortPlan, _: &Arc<Region>, _: usize) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        let counts = self.0.clone();
        Ok(vec![if &*plan.name == "in" { Box::new(Source::new(counts)) } else { Box::new(Sink(counts)) }])
    }

    fn decorate(&mut self, _: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        Ok((0..queues).map(|_| Box::new(|port| port) as Decorate).collect())
    }
}

/// The time of a round. It stops while another program has the processor: packets arrive only while the router can receive them.
struct RoundClock {
    /// Machine time at the last look.
    last: Instant,
    /// The time for which it was stopped.
    skipped: Nanos,
}

impl RoundClock {
    fn new() -> RoundClock {
        RoundClock { last: clock::now(), skipped: Nanos::ZERO }
    }

    fn now(&mut self) -> Instant {
        let time = clock::now();
        let gap = time.since(self.last);
        if gap > PREEMPTION_GAP {
            self.skipped += gap;
        }
        self.last = time;
        Instant::new(time.get() - self.skipped.get())
    }
}

/// Measures work as [`RoundClock`] does: the time that another program had is not charged to the task that it interrupted.
struct RoundMeter(CycleMeter);

impl WorkMeter for RoundMeter {
    const MEASURES_PROCESSOR: bool = true;
    fn lap(&mut self, work: Work) -> Nanos {
        let took = self.0.lap(work);
        if took > PREEMPTION_GAP { Nanos::ZERO } else { took }
    }
}

/// One router and its cards.
struct ReservationRouter {
    router: Router,
    worker: Worker,
    meter: RoundMeter,
    clock: RoundClock,
    counts: Arc<Mutex<Counts>>,
}

/// The result of a round.
struct ReservationResult {
    /// The fraction of the reserved flow's packets that left.
    reserved_share: f64,
    /// The fraction of the reserved flow's packets that the card lost before the router saw them.
    card_loss: f64,
    /// The 99th percentile of the reserved flow's latency in nanoseconds.
    p99: f64,
    /// Packets a second of the other flows.
    other_rate: f64,
    /// The fraction of the time in which another program had the processor. It does not count.
    preempted: f64,
}

impl ReservationRouter {
    fn new(promised: bool) -> Result<ReservationRouter> {
        let counter = CycleCounter::calibrated();
        let plan = plan::check(&config(promised), "promises.toml", &plane::catalogue());
        let plan = plan.unwrap_or_else(|wrong| panic!("{wrong}"));
        let mut meter = RoundMeter(CycleMeter::new(counter));
        let build = Build {
            frames: 16384,
            super_frames: 0,
            workers: 1,
            layout: None,
            switch_cost: calibrate(&plan.cpu, &mut meter),
            limits: LocalProtocolLimits::default(),
        };
        let (mut router, mut workers) = Router::new(build, |_| Box::new(Silent));
        let counts = Arc::new(Mutex::new(Counts::default()));
        let prepared = router.prepare(&plan, &mut Cards(counts.clone()));
        let prepared = prepared.map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
        let mut published = router.publish(prepared);
        let mut worker = workers.pop().expect("there is one");
        let mut clock = RoundClock::new();
        while !published.is_adopted() {
            worker.step(clock.now(), &mut meter);
        }
        router.complete(published);
        Ok(ReservationRouter { router, worker, meter, clock, counts })
    }

    fn drive(&mut self, span: Nanos) {
        let begin = self.clock.now();
        let mut now = begin;
        while now.since(begin) < span {
            if let StepResult::Idle(until) = self.worker.step(now, &mut self.meter) {
                while self.clock.now() < until.min(begin + span) {}
            }
            now = self.clock.now();
        }
    }

    fn round(mut self) -> ReservationResult {
        // As in the daemon: what a packet costs on this processor decides the shares.
        for _ in 0..2 {
            self.drive(SETTLING);
            self.router.learn_costs(&[self.worker.report()]);
        }
        self.router.divide_cpu();
        self.counts.lock().expect("nobody panics with it").begin = Some(self.clock.now());
        let before = self.clock.skipped;
        self.drive(SPAN);
        let skipped = self.clock.skipped.saturating_sub(before).get() as f64;
        let mut counts = self.counts.lock().expect("nobody panics with it");
        counts.latencies.sort_unstable();
        let p99 = counts.latencies.get(counts.latencies.len() * 99 / 100).copied().unwrap_or(u64::MAX);
        let offered = counts.offered[RESERVED].max(1) as f64;
        let rest: u64 = counts.sent.iter().sum::<u64>() - counts.sent[RESERVED];
        ReservationResult {
            reserved_share: counts.sent[RESERVED] as f64 / offered,
            card_loss: counts.overflowed[RESERVED] as f64 / offered,
            p99: p99 as f64 / 1000.0,
            other_rate: rest as f64 / (SPAN.get() as f64 / 1e9) / 1000.0,
            preempted: skipped / (skipped + SPAN.get() as f64),
        }
    }
}

/// A round in a thread on this core.
fn on_core(core: u16, promised: bool) -> Result<ReservationResult> {
    let round = || {
        Sleeper::new(Waker::new()?).sleep([], REST)?;
        cores::pin(core)?;
        Ok(ReservationRouter::new(promised)?.round())
    };
    thread::scope(|scope| scope.spawn(round).join().expect("it does not panic"))
}

/// The effect of a reservation with the mechanisms and without.
pub(super) fn measure(Rounds(rounds): Rounds, progress: &Progress) -> Result<Vec<BenchFigure>> {
    let allowed = cores::allowed()?;
    let precedence = RealtimePriority::acquire().inspect_err(|error| {
        progress.note(&format!(
            "promises: no real-time priority ({error}): the figures include the load of other programs"
        ));
    });
    let core = *allowed.last().expect("a process has a processor");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..rounds.min(ROUNDS) {
        with.push(on_core(core, true)?);
        without.push(on_core(core, false)?);
    }
    drop(precedence);
    let mut all = figures("", (&with, &without), FLOWS[RESERVED].1 / 1000, MIN_KEPT);
    match veth::measure(Rounds(rounds), progress) {
        Ok(more) => all.extend(more),
        Err(error) => progress.note(&format!("promises: veth is left out: {error:#}")),
    }
    Ok(all)
}

/// The figures of rounds with the mechanisms and without; `rate` is the reservation in thousands of packets a second.
fn figures(
    place: &str,
    (with, without): (&[ReservationResult], &[ReservationResult]),
    rate: u64,
    least: f64,
) -> Vec<BenchFigure> {
    let of =
        |list: &[ReservationResult], figure: fn(&ReservationResult) -> f64| median(list.iter().map(figure).collect());
    let percent = |figure: f64| figure * 100.0;
    let alone = |name: String, value: f64, unit| BenchFigure::alone("promises", name, value, unit, None);
    let rates = |name: &str, list: &[ReservationResult]| {
        [
            alone(format!("{place}{name}: lost on the card"), percent(of(list, |f| f.card_loss)), "%"),
            alone(format!("{place}{name}: p99 of the time through"), of(list, |f| f.p99), "us"),
            alone(format!("{place}{name}: best effort beside it"), of(list, |f| f.other_rate), "kpps"),
        ]
    };
    let kept = |name: &str| format!("{place}{name}: kept of {rate} kpps");
    let promised = percent(of(with, |f| f.reserved_share));
    let mut all = vec![BenchFigure::no_less("promises", kept("promised"), promised, "%", percent(least))];
    all.extend(rates("promised", with));
    // If the other router lost nothing either, the experiment would prove nothing.
    let other = percent(of(without, |f| f.reserved_share));
    all.push(BenchFigure::alone("promises", kept("not promised"), other, "%", Some(percent(least))));
    all.extend(rates("not promised", without));
    let preempted = with.iter().chain(without).map(|result| result.preempted).collect();
    all.push(alone(format!("{place}time not counted, for other programs had it"), percent(median(preempted)), "%"));
    all
}
