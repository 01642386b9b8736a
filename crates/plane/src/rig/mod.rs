//! A complete router in memory, with a host at the far end of each wire: for tests and benchmarks.
//!
//! It runs the plane as the daemon does, but in the caller's thread and with the caller's time.

mod bench;
pub mod edits;
mod straight_line;
pub mod train;
mod worker_group;

pub use bench::Bench;
pub use link::StandaloneLink;
pub use packet::frames::UdpFrame;
pub use straight_line::StraightLine;
pub use worker_group::WorkerGroup;

pub use link::queue_arena::QueueArena;

use crate::snapshot::Layout;
use crate::worker::{Decorate, StepResult, Worker, WorkerReport};
use crate::{ApplyError, Build, Opener, Router};
use cpu::meter::{ConstantMeter, WorkMeter};
use fib::TableLimits;
use link::dfq_wire::{DfqWire, DfqWireOptions};
use packet::event::{Observer, Silent};
use packet::port::{FaultRates, FaultyPort, MemoryPort, MemoryWire, Offloads, Port};
use packet::{Batch, Offload, Packet, Pool, Region};
use plan::{Plan, PortPlan};
use stack::LocalProtocolLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Generation, Instant, Nanos};

/// Packets each direction of a wire holds.
const WIRE: usize = 4096;
/// A configuration of two ports, `lan` and `wan`, with a host on each whose addresses are known.
/// [`UdpFrame::between_ports`] sends from one to the other.
pub const LAN_AND_WAN: &str = r#"
version = 1
[port.lan]
device = "memory:lan"
mac = "02:00:00:00:00:01"
address = ["192.0.2.1/24"]
[port.wan]
device = "memory:wan"
mac = "02:00:00:00:00:02"
address = ["198.51.100.1/24"]
[[neighbour]]
address = "198.51.100.9"
mac = "02:00:00:00:00:22"
port = "wan"
"#;

/// The key by which the links of a router with this secret hash flows.
pub fn flow_key(secret: u64) -> u64 {
    LocalProtocolLimits { secret, ..LocalProtocolLimits::default() }.key(link::FLOWS)
}

/// Super-frames of a rig: as a router has by default.
const SUPER_FRAMES: usize = 256;

/// Wraps the near end of a wire in another port.
pub type Wrap = Box<dyn FnMut(MemoryPort) -> Box<dyn Port>>;

/// Reads a file by its name.
pub type ReadFile = fn(&str) -> std::io::Result<Vec<u8>>;

/// Opens `memory:` ports and keeps their far ends. Other devices do not exist.
#[derive(Default)]
pub struct MemoryWires {
    /// The far ends, by the name behind `memory:`. Further queues append `#` and their number.
    pub far: BTreeMap<String, MemoryPort>,
    /// The offloads of near ends, by the same name. None by default.
    pub offloads: BTreeMap<String, Offloads>,
    /// The number of decorations so far.
    decorated: u64,
    /// Wires replace devices of every kind, and their far ends have the names of their ports.
    replaces_devices: bool,
    /// The maximum number of queues of each port; zero means one.
    pub queues: usize,
    /// The capacity of a new wire in each direction, in packets; zero means 4096.
    pub length: usize,
    /// Reads the files of sets. `None`: a configuration with such a file is refused.
    pub read_file: Option<ReadFile>,
    /// Wraps the near end of each new wire. `None`: the wire itself is the port.
    pub wrap: Option<Wrap>,
}

impl MemoryWires {
    /// Wires that replace all devices of a configuration, so that it runs without them. Their far ends have the names of the ports.
    pub fn replacing_devices() -> MemoryWires {
        MemoryWires { replaces_devices: true, ..MemoryWires::default() }
    }
}

impl Opener for MemoryWires {
    fn open(
        &mut self,
        plan: &PortPlan,
        _region: &Arc<Region>,
        queues: usize,
    ) -> Result<Vec<Box<dyn Port>>, ApplyError> {
        if plan.device.kind != "memory" && !self.replaces_devices {
            return Err(ApplyError {
                place: format!("port {}", plan.name),
                reason: format!("there is no '{}' here", plan.device),
                hint: "use memory: ports".into(),
            });
        }
        let name = if self.replaces_devices { plan.name.to_string() } else { plan.device.target.clone() };
        let offloads = self.offloads.get(&name).copied().unwrap_or_default();
        let open = |queue: usize| -> Box<dyn Port> {
            let (near, far) = MemoryWire::pair(if self.length == 0 { WIRE } else { self.length });
            self.far.insert(if queue == 0 { name.clone() } else { format!("{name}#{queue}") }, far);
            let near = near.with_offloads(offloads);
            match &mut self.wrap {
                Some(wrap) => wrap(near),
                None => Box::new(near),
            }
        };
        Ok((0..queues.min(self.queues.max(1))).map(open).collect())
    }

    fn read_file(&mut self, place: &str, file: &str) -> Result<Vec<u8>, ApplyError> {
        let failed = |reason: String| ApplyError {
            place: place.to_string(),
            reason: format!("'{file}' cannot be read: {reason}"),
            hint: "name a file that you may read; a relative name begins at the directory of the configuration".into(),
        };
        let read = self.read_file.ok_or_else(|| failed("files are not opened here".into()))?;
        read(file).map_err(|error| failed(error.to_string()))
    }

    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError> {
        let faults = plan.faults;
        self.decorated += 1;
        let opened = self.decorated;
        let one = |queue: usize| -> Decorate {
            let plan = plan.clone();
            Box::new(move |mut port| {
                if let Some(f) = faults {
                    let rates =
                        FaultRates { loss: f.loss, corrupt: f.corrupt, truncate: f.truncate, duplicate: f.duplicate };
                    // Each queue has its own sequence of faults.
                    port = Box::new(FaultyPort::new(port, rates, f.seed.wrapping_add(queue as u64)));
                }
                match DfqWireOptions::of(&plan, port.mac(), opened) {
                    Some(options) => Box::new(DfqWire::new(port, &options)),
                    None => port,
                }
            })
        };
        Ok((0..queues).map(one).collect())
    }
}

/// A router with one worker, its wires, and the pool of the hosts at their far ends.
pub struct Rig {
    /// The control side.
    pub router: Router,
    /// The worker.
    pub worker: Worker,
    /// The far ends.
    pub wires: MemoryWires,
    /// The hosts' frames, of the same region as the router's.
    pub pool: Pool,
    /// The time of the next step.
    pub now: Instant,
    batch: Batch,
}

impl Rig {
    /// A router of `frames` frames without configuration, whose events go to `observer`.
    pub fn new(frames: usize, layout: Layout, observer: Box<dyn Observer>) -> Rig {
        Rig::with_limits(frames, layout, TableLimits::default(), observer)
    }

    /// The same, with these limits of the tables.
    pub fn with_limits(frames: usize, layout: Layout, tables: TableLimits, observer: Box<dyn Observer>) -> Rig {
        let mut observer = Some(observer);
        let build = Build {
            frames,
            super_frames: SUPER_FRAMES,
            workers: 1,
            layout: Some(layout),
            switch_cost: Nanos::ZERO,
            limits: LocalProtocolLimits::default(),
        };
        let (router, mut workers) = Router::with_limits(build, tables, |_| observer.take().unwrap_or(Box::new(Silent)));
        let pool = Pool::new(router.region().clone());
        let worker = workers.pop().expect("a router has a worker");
        Rig { router, worker, wires: MemoryWires::default(), pool, now: Instant::new(1), batch: Batch::new() }
    }

    /// A router that runs `config`. Its own announcements are discarded.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn running(frames: usize, layout: Layout, config: &str) -> Rig {
        Rig::offloading(frames, layout, config, &[])
    }

    /// The same, with wires by name that have offloads.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn offloading(frames: usize, layout: Layout, config: &str, wires: &[(&str, Offloads)]) -> Rig {
        let offloads = wires.iter().map(|&(wire, takes)| (wire.to_string(), takes)).collect();
        Rig::running_with(MemoryWires { offloads, ..MemoryWires::default() }, frames, layout, config)
    }

    /// The same with these settings of wires.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn running_with(wires: MemoryWires, frames: usize, layout: Layout, config: &str) -> Rig {
        let mut rig = Rig::new(frames, layout, Box::new(Silent));
        rig.wires = wires;
        rig.apply(config).unwrap_or_else(|errors| panic!("{errors:?}"));
        rig.settle();
        let wires: Vec<String> = rig.wires.far.keys().cloned().collect();
        wires.iter().for_each(|wire| drop(rig.received(wire)));
        rig
    }

    /// Checks and applies `config`; the worker runs until it has adopted it.
    pub fn apply(&mut self, config: &str) -> Result<Generation, Vec<ApplyError>> {
        let plan = plan::check(config, "rig.toml", &crate::catalogue()).map_err(|diagnostics| {
            let reason = diagnostics.to_string();
            vec![ApplyError { place: "rig.toml".into(), reason, hint: String::new() }]
        })?;
        self.run(&plan)
    }

    /// Applies a plan; the worker runs until it has adopted it.
    pub fn run(&mut self, plan: &Plan) -> Result<Generation, Vec<ApplyError>> {
        let prepared = self.router.prepare(plan, &mut self.wires)?;
        Ok(self.adopt(prepared))
    }

    /// Returns to a configuration that has run before; the worker runs until it has adopted it.
    pub fn roll_back(&mut self, config: &str) -> Result<Generation, Vec<ApplyError>> {
        let plan = plan::check(config, "rig.toml", &crate::catalogue()).unwrap_or_else(|wrong| panic!("{wrong}"));
        let prepared = self.router.prepare_rollback(&plan, &mut self.wires)?;
        Ok(self.adopt(prepared))
    }

    fn adopt(&mut self, prepared: crate::Prepared) -> Generation {
        let mut published = self.router.publish(prepared);
        while !published.is_adopted() {
            self.step(&mut ConstantMeter(Nanos::new(10)));
        }
        self.router.complete(published)
    }

    /// One step of the worker; a nanosecond passes.
    pub fn step<M: WorkMeter>(&mut self, meter: &mut M) -> StepResult {
        self.now += Nanos::new(1);
        self.worker.step(self.now, meter)
    }

    /// Runs the worker until it finds nothing more to do at this time.
    pub fn settle(&mut self) {
        while let StepResult::Ran = self.step(&mut ConstantMeter(Nanos::new(10))) {}
    }

    /// Lets `span` pass, and runs the worker whenever it is due.
    pub fn advance(&mut self, span: Nanos) {
        let end = self.now + span;
        loop {
            match self.step(&mut ConstantMeter(Nanos::new(10))) {
                StepResult::Ran => {}
                StepResult::Idle(until) if until < end => self.now = until.max(self.now),
                StepResult::Idle(_) => break,
            }
        }
        self.now = end.max(self.now);
        self.settle();
    }

    /// A packet of the hosts' pool with these bytes.
    ///
    /// # Panics
    /// When the pool is used up or the frame too long.
    pub fn packet(&mut self, frame: &[u8]) -> Packet {
        let mut packet = self.pool.take_for(frame.len()).expect("the hosts have frames");
        assert!(packet.fill(frame), "a frame has at most {} bytes", packet.most());
        packet
    }

    /// The host at `wire` sends a frame. It stays in the router's port until the worker runs.
    pub fn send(&mut self, wire: &str, frame: &[u8]) {
        self.send_as(wire, frame, Offload::NONE);
    }

    /// The host at `wire` sends a frame with pending offloads.
    ///
    /// # Panics
    /// When that makes no sense: see [`Packet::set_offload`].
    pub fn send_as(&mut self, wire: &str, frame: &[u8], offload: Offload) {
        let mut packet = self.packet(frame);
        assert!(packet.set_offload(offload), "{offload:?} of {} bytes", frame.len());
        self.batch.push(packet);
        let far = self.wires.far.get_mut(wire).expect("the wire is there");
        far.transmit(self.now, &mut self.batch, &mut self.pool);
    }

    /// The frames that the host at `wire` has received since the last call.
    pub fn received(&mut self, wire: &str) -> Vec<Vec<u8>> {
        self.received_as(wire).into_iter().map(|(frame, _)| frame).collect()
    }

    /// The same, with the pending offloads of each frame.
    pub fn received_as(&mut self, wire: &str) -> Vec<(Vec<u8>, Offload)> {
        let far = self.wires.far.get_mut(wire).expect("the wire is there");
        let mut frames = Vec::new();
        while far.waiting() > 0 {
            far.receive(self.now, &mut self.batch, &mut self.pool);
            for packet in self.batch.drain() {
                frames.push((packet.whole().to_vec(), packet.offload()));
                self.pool.give(packet);
            }
        }
        frames
    }

    /// The worker's report, after a check of its ledgers.
    pub fn report(&self) -> WorkerReport {
        self.worker.audit();
        self.worker.report()
    }
}
