//! A router of several workers in memory, stepped by the caller in any order: for tests and benchmarks.

use super::MemoryWires;
use crate::snapshot::Layout;
use crate::worker::{StepResult, Worker, WorkerReport};
use crate::{ApplyError, Build, PublishedGeneration, Router};
use cpu::meter::{ConstantMeter, Work, WorkMeter};
use packet::event::{Observer, Silent};
use packet::port::Port;
use packet::{Batch, Packet, Pool};
use stack::LocalProtocolLimits;
use units::{Instant, Nanos, WorkerId};

/// The router, its wires, and the pool of the hosts at their far ends.
pub struct WorkerGroup {
    /// Schedules tasks round-robin, with greedy ports, so that idle ports keep their turns: for callers that count steps.
    pub round_robin: bool,
    /// The control side.
    pub router: Router,
    /// The workers, in the order of their ids.
    pub workers: Vec<Worker>,
    /// The far ends.
    pub wires: MemoryWires,
    /// The hosts' frames, of the same region as the router's.
    pub pool: Pool,
    /// The time of the next step.
    pub now: Instant,
    batch: Batch,
}

/// Counts the packets that move.
struct PacketMeter(u64);

impl WorkMeter for PacketMeter {
    fn lap(&mut self, work: Work) -> Nanos {
        self.0 += u64::from(work.packets);
        Nanos::new(10) + work.extra_time
    }
}

impl WorkerGroup {
    /// A router of `workers` workers and `frames` frames without configuration, whose ports have at most `queues` queues.
    pub fn new(workers: u16, queues: usize, frames: usize, layout: Layout) -> WorkerGroup {
        WorkerGroup::with_observers(workers, queues, frames, layout, |_| Box::new(Silent))
    }

    /// The same, with an observer for each worker.
    pub fn with_observers(
        workers: u16,
        queues: usize,
        frames: usize,
        layout: Layout,
        observer: impl FnMut(WorkerId) -> Box<dyn Observer>,
    ) -> WorkerGroup {
        let build = Build {
            frames,
            super_frames: 64,
            workers,
            layout: Some(layout),
            switch_cost: Nanos::ZERO,
            limits: LocalProtocolLimits::default(),
        };
        let (router, workers) = Router::new(build, observer);
        let pool = Pool::new(router.region().clone());
        let wires = MemoryWires { queues, ..MemoryWires::default() };
        WorkerGroup { round_robin: false, router, workers, wires, pool, now: Instant::new(1), batch: Batch::new() }
    }

    /// Checks and publishes `config`; the workers adopt it when they are stepped.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn publish(&mut self, config: &str) -> Result<PublishedGeneration, Vec<ApplyError>> {
        let mut plan = plan::check(config, "team.toml", &crate::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        if self.round_robin {
            let turns = cpu::SCHEDULERS.iter().find(|one| one.name == "rr").expect("it is registered");
            plan.cpu.scheduler = turns.named();
            plan.ports.iter_mut().for_each(|port| port.cpu.greedy = true);
        }
        let prepared = self.router.prepare(&plan, &mut self.wires)?;
        Ok(self.router.publish(prepared))
    }

    /// Publishes `config` and steps all workers until they run it.
    ///
    /// # Panics
    /// When the configuration is wrong, or cannot run.
    pub fn apply(&mut self, config: &str) {
        let mut published = self.publish(config).unwrap_or_else(|errors| panic!("{errors:?}"));
        while !published.is_adopted() {
            (0..self.workers.len()).for_each(|worker| _ = self.step(worker));
        }
        self.router.complete(published);
    }

    /// One step of a worker; a nanosecond passes.
    pub fn step(&mut self, worker: usize) -> StepResult {
        self.now += Nanos::new(1);
        self.workers[worker].step(self.now, &mut ConstantMeter(Nanos::new(10)))
    }

    /// Runs each worker until it is idle, and repeats this as long as one has moved a packet. Returns the time at which a worker is due next.
    pub fn settle(&mut self) -> Instant {
        let (mut until, mut quiet) = (Instant::NEVER, 0);
        // Three rounds: a request goes to the first worker, the reply to another, and then its packets continue.
        while quiet < 3 {
            let mut moved = PacketMeter(0);
            until = Instant::NEVER;
            for worker in &mut self.workers {
                until = until.min(loop {
                    self.now += Nanos::new(1);
                    if let StepResult::Idle(until) = worker.step(self.now, &mut moved) {
                        break until;
                    }
                });
            }
            quiet = if moved.0 == 0 { quiet + 1 } else { 0 };
        }
        until
    }

    /// Lets `span` pass, and runs the workers whenever one is due.
    pub fn advance(&mut self, span: Nanos) {
        let end = self.now + span;
        loop {
            let until = self.settle();
            if until >= end {
                break;
            }
            self.now = until.max(self.now);
        }
        self.now = end.max(self.now);
        self.settle();
    }

    /// A packet of the hosts' pool with these bytes.
    ///
    /// # Panics
    /// When the pool is used up or the frame too long.
    pub fn packet(&mut self, frame: &[u8]) -> Packet {
        let mut packet = self.pool.take().expect("the hosts have frames");
        assert!(packet.fill(frame), "a frame has at most {} bytes", packet::pool::FRAME);
        packet
    }

    /// The host at `wire` sends a frame.
    pub fn send(&mut self, wire: &str, frame: &[u8]) {
        let packet = self.packet(frame);
        self.batch.push(packet);
        let far = self.wires.far.get_mut(wire).expect("the wire is there");
        far.transmit(self.now, &mut self.batch, &mut self.pool);
    }

    /// The frames that the host at `wire` has received since the last call.
    pub fn received(&mut self, wire: &str) -> Vec<Vec<u8>> {
        let far = self.wires.far.get_mut(wire).expect("the wire is there");
        let mut frames = Vec::new();
        while far.waiting() > 0 {
            far.receive(self.now, &mut self.batch, &mut self.pool);
            for packet in self.batch.drain() {
                frames.push(packet.bytes().to_vec());
                self.pool.give(packet);
            }
        }
        frames
    }

    /// The workers' reports, after a check of their ledgers.
    pub fn reports(&self) -> Vec<WorkerReport> {
        self.workers.iter().for_each(Worker::audit);
        self.workers.iter().map(Worker::report).collect()
    }
}
