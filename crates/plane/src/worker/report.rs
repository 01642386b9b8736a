//! A worker's report: a copy of its counters, made between two steps.

use super::Worker;
use super::paths::Paths;
use super::ports::{PortState, Ports, Role};
use super::task_table::{Task, TaskTable};
use crate::function::NamedCounter;
use crate::hook::{HookReport, StoreReader};
use crate::multicast::GroupCounters;
use crate::path::{PathCounters, QueueFill};
use crate::snapshot::Snapshot;
use cpu::task::{CoreTimes, TaskView};
use cpu::trace::TaskTrace;
use fib::route_cache::RouteCacheCounters;
use link::{Demand, LinkReport};
use packet::accounting::Accounting;
use packet::event::Event;
use packet::latency::{LatePackets, Latency};
use packet::port::{DfqWireStatus, UnsentPackets};
use packet::{Advisory, DropReason, Ledger, LinkCounters, PortCounters, StallCounters};
use plan::Receive;
use stack::NeighbourReport;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Bytes, Generation, Instant, InterfaceId, Nanos, Parts, PathId, PortId, Rate, TaskId, WorkerId};

/// Readers of the stores: those of ports, and the central one.
pub type StoreReaders = Vec<(Option<PortId>, Arc<dyn StoreReader>)>;

/// A port of a worker: a queue of a device, or a relay to one.
#[derive(Clone, Debug)]
pub struct PortReport {
    /// The port.
    pub port: PortId,
    /// True if its medium is connected.
    pub up: bool,
    /// True if it was removed and only drains its queue.
    pub closing: bool,
    /// True if it is a relay: its packets pass a queue of another worker.
    pub relayed: bool,
    /// Its counters. A relay receives nothing from the device.
    pub counters: PortCounters,
    /// Those of its route cache.
    pub route_cache: RouteCacheCounters,
    /// Its link.
    pub link: LinkCounters,
    /// The objectives of the packets offered to it, if it has a policy.
    pub demand: Demand,
    /// Packets waiting in the queues of its link.
    pub backlog: u32,
    /// Bytes of these packets.
    pub backlog_bytes: Bytes,
    /// Packets that the links of all its workers count as sent, but that have not left: the medium has refused them, or they are in the port.
    /// [`PortReport::sum_workers`] subtracts them.
    pub unsent: UnsentPackets,
    /// The longest IP packet of its medium, in bytes. `None` if the medium has no limit.
    pub mtu: Option<u16>,
    /// The rate of its medium.
    pub rate: Rate,
    /// Its wire, if it multiplexes quanta.
    pub dfq_wire: Option<DfqWireStatus>,
    /// Packets dropped, by reason.
    pub drops: Vec<(DropReason, u64)>,
}

impl PortReport {
    /// Each port of a router once, the sum over all its workers.
    pub fn sum_workers(workers: &[WorkerReport]) -> Vec<PortReport> {
        let mut ports: Vec<PortReport> = Vec::new();
        for report in workers.iter().flat_map(|worker| &worker.ports) {
            match ports.iter_mut().find(|port| port.port == report.port) {
                Some(port) => port.add(report),
                None => ports.push(report.clone()),
            }
        }
        // Only the sum can be corrected: the links of all workers count packets as sent that one device has refused.
        for port in &mut ports {
            let UnsentPackets { packets, bytes } = std::mem::take(&mut port.unsent);
            port.link.sent = port.link.sent.saturating_sub(packets);
            port.link.sent_bytes = port.link.sent_bytes.saturating_sub(bytes);
        }
        ports
    }

    fn add(&mut self, other: &PortReport) {
        if self.relayed && !other.relayed {
            // The worker with the device knows its state.
            (self.up, self.rate, self.mtu, self.relayed) = (other.up, other.rate, other.mtu, false);
        }
        self.closing |= other.closing;
        self.counters += other.counters;
        self.route_cache += other.route_cache;
        self.link += other.link;
        self.demand += other.demand;
        self.backlog += other.backlog;
        self.backlog_bytes += other.backlog_bytes;
        self.unsent.join(other.unsent);
        // Such a port has one queue.
        self.dfq_wire = self.dfq_wire.or(other.dfq_wire);
        for &(reason, packets) in &other.drops {
            match self.drops.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, count)) => *count += packets,
                None => self.drops.push((reason, packets)),
            }
        }
        self.drops.sort_unstable();
    }
}

/// A path: the sum over all its instances.
#[derive(Clone, Debug)]
pub struct PathReport {
    /// The path.
    pub path: PathId,
    /// Its counters.
    pub counters: PathCounters,
    /// Packets in its queues.
    pub queued: usize,
    /// The counters of its functions, function by function.
    pub functions: Vec<Vec<NamedCounter>>,
    /// The latency of its packets.
    pub latency: Latency,
}

/// One queue of a path at a port.
#[derive(Clone, Debug)]
pub struct QueueReport {
    /// The path.
    pub path: PathId,
    /// The port. `None` for the queue of the local protocols.
    pub port: Option<PortId>,
    /// Packets in the input queue.
    pub input: usize,
    /// Packets in the output queue.
    pub output: usize,
    /// The capacity of the input queue, in packets.
    pub capacity: usize,
    /// The fill level of the input queue.
    pub fill: QueueFill,
}

/// A task.
#[derive(Clone, Debug)]
pub struct TaskReport {
    /// The task.
    pub task: TaskId,
    /// `input`, `forwarding` or `output`.
    pub kind: &'static str,
    /// Its port, for input and output.
    pub port: Option<PortId>,
    /// Its paths, for forwarding.
    pub paths: Vec<PathId>,
    /// Its state on the run queue.
    pub view: TaskView,
}

/// The links of a worker.
#[derive(Clone, Debug)]
pub struct LinksReport {
    /// The worker.
    pub worker: WorkerId,
    /// In the order of their ports.
    pub links: Vec<LinkReport>,
}

/// A trace of a worker's CPU scheduler.
#[derive(Debug)]
pub struct TraceReport {
    /// The worker.
    pub worker: WorkerId,
    /// The trace. `None` if none was requested.
    pub trace: Option<Box<TaskTrace>>,
    /// The end of the trace, by the worker's clock.
    pub until: Instant,
    /// The tasks at present.
    pub tasks: Vec<TaskReport>,
}

/// A worker.
// Large: a field for each part of the report.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// The worker.
    pub worker: WorkerId,
    /// The generation it runs.
    pub generation: Generation,
    /// Its ledger.
    pub ledger: Ledger,
    /// Its stalls.
    pub stalls: StallCounters,
    /// Packets it holds, counted by frames.
    pub held_packets: u64,
    /// Free frames that its pool keeps back from other workers.
    pub frames_kept: usize,
    /// Frames of the pool that are neither used nor kept by a worker.
    pub frames_spare: usize,
    /// Its ports.
    pub ports: Vec<PortReport>,
    /// Its paths.
    pub paths: Vec<PathReport>,
    /// Its path queues.
    pub queues: Vec<QueueReport>,
    /// Its tasks.
    pub tasks: Vec<TaskReport>,
    /// The use of its time.
    pub times: CoreTimes,
    /// The part of its work that task switches may cost, and the slice. `None` if forwarding is not throttled.
    pub throttle: Option<(Parts, Nanos)>,
    /// Its receive settings.
    pub receive: Receive,
    /// The cost of a task switch.
    pub switch_cost: Nanos,
    /// The neighbours it knows.
    pub neighbours: Vec<NeighbourReport>,
    /// Next hops for which packets of this worker are queued, with their number. The first worker counts its own in `neighbours`.
    pub waiting: Vec<((InterfaceId, IpAddr), usize)>,
    /// The counters of each multicast group of the generation, in the order of its routes.
    pub groups: Vec<GroupCounters>,
    /// The report of its packet hook. `None` if there is none.
    pub hook: Option<HookReport>,
}

/// Adds the counters of the same functions from another instance.
pub fn add_counters(sum: &mut Vec<Vec<NamedCounter>>, other: Vec<Vec<NamedCounter>>) {
    for (index, counters) in other.into_iter().enumerate() {
        let Some(known) = sum.get_mut(index).filter(|known| known.len() == counters.len()) else {
            sum.resize_with(sum.len().max(index + 1), Vec::new);
            sum[index] = counters;
            continue;
        };
        for (known, counter) in known.iter_mut().zip(counters) {
            known.packets += counter.packets;
            known.bytes += counter.bytes;
        }
    }
}

impl Worker {
    /// A copy of all counters. Allocates: made on request, never on the fast path.
    pub fn report(&self) -> WorkerReport {
        let waiting = |state: &PortState| state.link.port.unsent_packets().packets;
        let waiting: u64 = self.ports.states.iter().map(waiting).sum();
        let mut ledger = self.accounting.ledger.clone();
        // Packets inside a port count as sent, but have not left.
        ledger.withhold(waiting);
        WorkerReport {
            worker: self.id,
            generation: self.snapshot.generation,
            ledger,
            stalls: self.accounting.stalls,
            frames_kept: self.accounting.pool.kept(),
            // The pool does not count frames inside a port, because they were given to it.
            held_packets: self.accounting.pool.frames_in_use() + waiting,
            frames_spare: self.accounting.pool.region().spare(),
            ports: self.ports.report_ports(&self.tasks, &self.accounting),
            paths: self.paths.report_paths(&self.snapshot, &self.accounting),
            queues: self.paths.report_queues(),
            tasks: self.paths.report_tasks(&self.tasks, &self.accounting),
            times: self.tasks.run_queue.times(),
            throttle: self.tasks.run_queue.throttle(),
            receive: if self.ports.interrupted.is_some() { Receive::Interrupt } else { Receive::Polling },
            switch_cost: self.tasks.run_queue.switch_cost(),
            neighbours: self.report_neighbours(),
            waiting: if self.id == WorkerId(0) { Vec::new() } else { self.neighbours.waiting.iter().collect() },
            groups: self.paths.group_counters.clone(),
            hook: self.report_hook(),
        }
    }

    fn report_hook(&self) -> Option<HookReport> {
        let inner = self.hooks.hook.as_ref()?.report(self.accounting.now);
        Some(HookReport { inner, handed_over: self.hooks.handed(), waiting: self.hooks.waiting() })
    }

    /// Readers of the stores of ephemeral state.
    pub(super) fn store_readers(&self) -> StoreReaders {
        self.hooks.hook.as_ref().map_or_else(Vec::new, |station| station.store_readers())
    }

    /// Reports warnings about tasks.
    pub(super) fn report_advisories(&mut self) {
        let Worker { paths: Paths { instances, .. }, tasks, accounting, id, .. } = self;
        let mut remarks = Vec::new();
        tasks.run_queue.report_advisories(|task, remark| remarks.push((task, remark)));
        for (task, remark) in remarks {
            let port = match tasks.task(task) {
                Some(Task::Input(port) | Task::Output(port) | Task::Reserved(port)) => Some(port),
                _ => None,
            };
            let path = instances.iter().find(|instance| port.is_none() && instance.task == task);
            let path = path.map(|instance| instance.path);
            accounting.event(&Event::Advisory { worker: *id, port, path, advisory: remark });
        }
        let mut late = Vec::new();
        accounting.latencies.report_late(|found| late.push(found));
        for LatePackets { path, packets, reserved_delay: promised, most } in late {
            let remark = Advisory::Late { packets, promised, most };
            accounting.event(&Event::Advisory { worker: *id, port: None, path: Some(path), advisory: remark });
        }
    }

    fn report_neighbours(&self) -> Vec<NeighbourReport> {
        let mut neighbours = self.protocols.host.neighbours();
        for (hop, packets) in self.neighbours.waiting.iter() {
            // Transit packets wait here, and the host counts only its own.
            let known = neighbours.iter_mut().find(|n| (n.interface, n.address) == hop);
            known.into_iter().for_each(|neighbour| neighbour.pending += packets);
        }
        neighbours
    }

    /// The report of its links, or of one port's link. Allocates, like [`Worker::report`].
    pub fn links(&mut self, only: Option<PortId>) -> LinksReport {
        let Worker { ports: Ports { states: ports, .. }, tasks, accounting, id, .. } = self;
        let asked = ports.open_mut().filter(|(port, _)| only.is_none_or(|wanted| wanted == *port));
        let told = asked.map(|(_, state)| {
            let account = tasks.run_queue.account(state.output);
            let promised = state.reserved_output.map(|task| tasks.run_queue.account(task)).unwrap_or_default();
            let (used, moved) = (account.used + promised.used, account.packets + promised.packets);
            LinkReport { used, moved, ..state.link.report(accounting.now) }
        });
        LinksReport { worker: *id, links: told.collect() }
    }

    /// Records the CPU scheduler in `trace` from now on, or stops recording. Returns the previous trace.
    pub fn trace_scheduler(&mut self, trace: Option<Box<TaskTrace>>) -> TraceReport {
        for port in self.ports.states.ids() {
            // Bytes sent until now do not belong to the trace: read and discard them.
            self.ports.sent_bytes(port);
        }
        let until = self.accounting.now;
        let trace = self.tasks.run_queue.set_trace(trace, until);
        TraceReport { worker: self.id, trace, until, tasks: self.paths.report_tasks(&self.tasks, &self.accounting) }
    }
}

impl Paths {
    /// Sets the reserved rates of `snapshot`. A path lags if it is delayed for longer than its queue lasts at this rate.
    pub(in crate::worker) fn set_reserved_rates(&mut self, snapshot: &Snapshot, tasks: &mut TaskTable) {
        let promised = snapshot
            .paths
            .iter()
            .filter_map(|path| Some((path.id, path.cpu.reservation?.packets.time_for(path.capacity as u64))));
        let promised: BTreeMap<PathId, Nanos> = promised.collect();
        for instance in self.instances.iter() {
            // A path with a reservation has its own task, unless all paths share one.
            tasks.run_queue.set_fill_time(instance.task, promised.get(&instance.path).copied());
        }
    }

    pub(in crate::worker) fn report_paths(&self, snapshot: &Snapshot, accounting: &Accounting) -> Vec<PathReport> {
        let of = |path: PathId| self.instances.iter().filter(move |i| i.path == path);
        let report = |path: PathId| {
            let mut counters = PathCounters::default();
            of(path).for_each(|instance| counters += instance.counters);
            let mut functions: Vec<Vec<NamedCounter>> = Vec::new();
            for instance in of(path) {
                let away = instance.function_thread.as_ref().and_then(|side| side.cached_counters());
                let counted = || instance.functions.iter().map(|function| function.counters()).collect();
                // While a thread runs the functions, the worker has only the counters that it read before.
                add_counters(&mut functions, away.unwrap_or_else(counted));
            }
            let queued = of(path).map(|i| i.queued()).sum();
            PathReport { path, counters, queued, functions, latency: accounting.latencies.path_latency(path) }
        };
        snapshot.paths.iter().map(|path| report(path.id)).collect()
    }

    pub(in crate::worker) fn report_queues(&self) -> Vec<QueueReport> {
        let instances = self.instances.iter();
        let report = |i: &crate::path::Instance| QueueReport {
            path: i.path,
            port: i.port,
            // A half-segmented packet and packets at a function thread are dequeued, but not forwarded yet.
            input: i.input.len() + usize::from(i.half.is_some()) + i.packets_in_flight(),
            output: i.output.len(),
            capacity: i.input.capacity(),
            fill: i.fill,
        };
        instances.map(report).collect()
    }

    pub(in crate::worker) fn report_tasks(&self, tasks: &TaskTable, accounting: &Accounting) -> Vec<TaskReport> {
        let mut paths_of: BTreeMap<TaskId, Vec<PathId>> = BTreeMap::new();
        for instance in self.instances.iter() {
            let paths = paths_of.entry(instance.task).or_default();
            // The instances of a path are adjacent, so a path is listed once.
            if paths.last() != Some(&instance.path) {
                paths.push(instance.path);
            }
        }
        let mut report = |(id, task)| {
            let view = tasks.run_queue.view(id, accounting.now)?;
            let (kind, port, paths) = match task {
                Task::Input(port) => ("input", Some(port), Vec::new()),
                Task::Output(port) => ("output", Some(port), Vec::new()),
                Task::Reserved(port) => ("reserved", Some(port), Vec::new()),
                Task::Forward => ("forwarding", None, paths_of.remove(&id).unwrap_or_default()),
            };
            Some(TaskReport { task: id, kind, port, paths, view })
        };
        tasks.iter().filter_map(&mut report).collect()
    }
}

impl Ports {
    pub(in crate::worker) fn report_ports(&self, tasks: &TaskTable, accounting: &Accounting) -> Vec<PortReport> {
        self.states
            .open()
            .map(|(port, state)| {
                let (backlog, waiting) = (state.link.backlog(), state.link.port.unsent_packets());
                // Packets that the links of other workers count as sent, but were refused, are dropped.
                let mut unsent = state.link.unsent();
                state.relays.iter().for_each(|lanes| unsent.join(lanes.unsent()));
                let mut link = state.link.counters();
                link.dropped += unsent.packets;
                // Joined after `dropped`: packets in the port are not sent yet, but not dropped either.
                unsent.join(waiting);
                let lost = state.link.port.statistics();
                let mut counters = PortCounters {
                    received: state.received,
                    received_bytes: state.received_bytes,
                    lost_before_receive: lost.lost_before_receive,
                    lost_after_transmit: lost.lost_after_transmit,
                    over_budget: tasks.run_queue.account(state.input).weighed.1,
                };
                if state.role == Role::Relay {
                    // The worker with the device has counted them.
                    (counters.received, counters.received_bytes) = (0, 0);
                }
                PortReport {
                    port,
                    up: state.link.is_up(),
                    closing: state.closing.is_some(),
                    relayed: state.role == Role::Relay,
                    counters,
                    route_cache: state.route_cache.counters(),
                    link,
                    demand: state.link.demand(),
                    backlog: backlog.packets + waiting.packets as u32,
                    backlog_bytes: backlog.bytes + Bytes::new(waiting.bytes),
                    unsent,
                    mtu: state.link.port.mtu(),
                    rate: state.link.port.link_rate(),
                    dfq_wire: state.link.port.dfq_wire(),
                    drops: accounting.drops_at(port),
                }
            })
            .collect()
    }
}
