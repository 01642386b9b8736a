//! Adopting a configuration: everything that can fail was done before, on the control side; this only moves things in
//! and out, between two steps, when no packet is on any path.

mod change;
mod reschedule;
mod rule;

pub(crate) use change::Opened;
pub use change::{Adopted, Change, Decorate, NewFunctions, NewPort};
pub use reschedule::Reschedule;

use super::output_tasks::Part;
use super::paths::Paths;
use super::peers::{Crew, Peers};
use super::ports::{PortState, Ports, Remains, Role};
use super::task_table::Task;
use super::vector::Vector;
use super::{Command, Mailbox, Worker};
use crate::classify::{Dispatch, REFUSED, Target, UNDECIDED};
use crate::function::Function;
use crate::path::{Allowance, Fill, Instance, PathCounters};
use crate::snapshot::{BEST_EFFORT, CONTROL, GENERAL, PathSpec, PortShares, Snapshot};
use cpu::task::Terms;
use link::{FLOWS, Link, NewLink, Queueing};
use packet::event::Event;
use packet::latency::Since;
use packet::port::Port;
use packet::segment::Half;
use packet::{DropReason, Queue};
use plan::Grouping;
use stack::World;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use units::{Instant, Nanos, PathId, PortId, TaskId, WorkerId};

/// How long what waits for a removed port may take to leave.
const CLOSING: Nanos = Nanos::secs(1);
/// Batches taken from a port that is about to go: a wire in memory holds no more, and a busy network is not waited for.
const LEFT_BEHIND: usize = 16;

/// What paths have in common that share a task (spec ).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Common {
    /// The path itself.
    Path(PathId),
    /// What is done to their packets.
    Functions(Vec<String>),
    /// That nothing is promised to them.
    BestEffort,
    /// Nothing: all share one.
    All,
}

/// The terms of the task of one path.
pub(super) fn terms_of(path: &PathSpec) -> Terms {
    Terms {
        share: path.share,
        // For ever is what a task waits of itself.
        max_wait: path.cpu.max_wait,
        capacity: path.capacity.min(path.output_capacity) as u32,
        cost: path.cost,
        prompt: path.id == CONTROL || path.id == GENERAL,
    }
}

impl Common {
    fn of(path: &PathSpec, grouping: Grouping) -> Common {
        let own = path.id == CONTROL || path.id == GENERAL;
        match grouping {
            _ if own => Common::Path(path.id),
            Grouping::Single => Common::All,
            // What is interrupted does not stand in anybody's way.
            _ if path.cpu.preemptible => Common::Path(path.id),
            _ if path.cpu.reservation.is_some() || path.cpu.share.is_some() => Common::Path(path.id),
            Grouping::ByRule => Common::Path(path.id),
            Grouping::Aggregate => Common::BestEffort,
            Grouping::PerFunction => {
                Common::Functions(path.functions.iter().map(|call| call.text.to_string()).collect())
            }
        }
    }
}

/// What the control side has asked for, and how far it is.
pub(super) struct Adoption {
    pub mailbox: Arc<Mailbox>,
    /// How many commands had been posted when the mailbox was last read.
    pub seen: u64,
    /// The generation to adopt as soon as the paths are empty.
    pub pending: Option<Change>,
    /// In the middle of adopting a generation.
    pub adopting: bool,
    /// Since when a new configuration waits for the paths to be empty.
    pub waits_since: Option<Instant>,
}

impl Adoption {
    pub fn new(mailbox: Arc<Mailbox>) -> Adoption {
        Adoption { mailbox, seen: 0, pending: None, adopting: false, waits_since: None }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Change to generation {}", self.snapshot.generation)
    }
}

impl Worker {
    pub(super) fn read_mail(&mut self, now: Instant) {
        // Counted before the commands are taken: one posted in between is seen again, and harmless.
        self.adoption.seen = self.adoption.mailbox.posted();
        self.idle.quiet = 0;
        for command in self.adoption.mailbox.take() {
            match command {
                Command::Adopt(mut change, reply) => {
                    if self.adoption.pending.is_some() {
                        // The control side waits for each change; one that comes all the same takes its turn.
                        while !self.paths_are_empty() {
                            self.flush();
                        }
                        self.adopt(now);
                    }
                    change.reply = Some(reply);
                    self.adoption.pending = Some(*change);
                }
                Command::Divide(snapshot) => self.divide(snapshot, now),
                Command::Reschedule(new) => self.reschedule(*new),
                Command::Report(reply) => drop(reply.send(self.report())),
                Command::Onlookers(reply) => drop(reply.send(self.onlookers())),
                Command::Links(port, reply) => drop(reply.send(self.links(port))),
                Command::Watch(trace, reply) => drop(reply.send(self.watch(trace))),
                Command::Inject(port, frames, reply) => self.vector.injected.push_back((port, frames, reply)),
                Command::Neighbour(interface, address, mac) => {
                    match mac {
                        Some(mac) => drop(self.protocols.statics.insert((interface, address), mac)),
                        None => drop(self.protocols.statics.remove(&(interface, address))),
                    }
                    if !self.speaks() {
                        continue;
                    }
                    let control = self.paths.dispatch.control;
                    self.with_host(control, |host, world| match mac {
                        Some(mac) => drop(host.set_static(interface, address, mac, world)),
                        None => host.clear_static(interface, address, world),
                    });
                    self.protocols.host_due = self.protocols.host.next();
                }
            }
        }
    }

    /// Only the first worker speaks for the router, and changes what is known of neighbours.
    pub(super) fn speaks(&self) -> bool {
        self.id == WorkerId(0) && self.ports.states.iter().next().is_some()
    }

    pub(super) fn paths_are_empty(&self) -> bool {
        self.paths.instances.iter().all(|instance| instance.queued() == 0)
            && self.ports.states.iter().all(|state| state.stalled.is_none())
    }

    pub(super) fn adopt(&mut self, now: Instant) {
        let Some(change) = self.adoption.pending.take() else { return };
        self.adoption.adopting = true;
        (self.idle.quiet, self.adoption.waits_since) = (0, None);
        let Change { snapshot, ports, schemes, links, functions, station, mesh, reply } = change;
        self.hooks.adopt(station, mesh, now);
        let mut retired: Vec<(PortId, Queueing)> = Vec::new();
        self.accounting.count_ports(snapshot.ports.len());
        for new in ports {
            self.install_port(new, &snapshot, &mut retired);
        }
        for (id, scheme) in schemes {
            retired.extend(self.replace_scheme(id, scheme));
        }
        for (id, link) in links {
            self.emulate(id, link, &snapshot);
        }
        for port in self.ports.states.ids() {
            if snapshot.port(port).is_none() {
                self.start_closing(port, now);
            }
        }
        self.rebuild_paths(&snapshot, functions);
        self.set_aside(&snapshot);
        self.rule(&snapshot, now);
        self.note_promises(&snapshot);
        let promised = |path: &PathSpec| (path.id, path.cpu.reservation.and_then(|reservation| reservation.delay));
        self.accounting.latencies.keep(snapshot.paths.iter().map(promised));
        self.paths.groups = snapshot.multicast.carry(&self.snapshot.multicast, &self.paths.groups);
        self.snapshot = snapshot;
        self.forsake_gone();
        self.tell_ports();
        if self.speaks() {
            self.introduce_host();
        }
        self.protocols.host_due = self.protocols.host.next();
        self.adoption.adopting = false;
        self.audit();
        let generation = self.snapshot.generation;
        self.accounting.event(&Event::Adopted { worker: self.id, generation });
        if let Some(reply) = reply {
            // A control side that no longer listens has given up on the answer, not on the change.
            let _ = reply.send(Adopted { generation, retired });
        }
    }

    /// Tells the host of the generation that runs, and of the neighbours that are configured.
    pub(super) fn introduce_host(&mut self) {
        let statics = std::mem::take(&mut self.protocols.statics);
        let (control, limits) = (self.paths.dispatch.control, self.snapshot.limits);
        self.with_host(control, |host, world| {
            host.limit(limits);
            host.adopt(world);
            for (&(interface, address), &mac) in &statics {
                if world.interface(interface).is_some() {
                    host.set_static(interface, address, mac, world);
                }
            }
        });
        self.protocols.statics = statics;
    }

    fn install_port(&mut self, new: NewPort, snapshot: &Snapshot, retired: &mut Vec<(PortId, Queueing)>) {
        let NewPort { id, port, scheme } = new;
        let (port, role, lanes) = match port {
            Opened::Redecorated(decorate) => {
                let Some(state) = self.ports.states.get_mut(id) else { return };
                state.link.replace_port(|old| decorate(old.undecorated()));
                state.link.refresh_offloads(&mut self.accounting);
                return retired.extend(scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme)));
            }
            Opened::Queue { port, decorate, first, lanes } => {
                (decorate(port), if first { Role::Device } else { Role::Queue }, lanes)
            }
            Opened::Relay(relay) => {
                relay.attach();
                (Box::new(relay) as Box<dyn Port>, Role::Relay, None)
            }
        };
        self.leave_behind(id);
        let Worker { ports: Ports { states: ports, remains, .. }, accounting, .. } = self;
        if let Some(state) = ports.get_mut(id) {
            state.link.abandon_port(accounting);
            state.link.replace_port(|old| {
                remains.push(Remains::Port(id, old));
                port
            });
            remains.extend(std::mem::replace(&mut state.lanes, lanes).map(Remains::Lanes));
            // Nothing is on the paths: only what waits at the link has to fit.
            state.link.refresh_offloads(accounting);
            state.link.relay(role == Role::Relay);
            state.role = role;
            retired.extend(scheme.into_iter().flat_map(|scheme| self.replace_scheme(id, scheme)));
            return self.bury_remains();
        }
        let Some(scheme) = scheme else { return };
        let mut link = Link::new(id, port, scheme).keyed(snapshot.limits.key(FLOWS));
        link.relay(role == Role::Relay);
        let (input, output) = self.add_port_tasks(id, snapshot);
        let state = PortState {
            link,
            input,
            output,
            outputs: Vec::new(),
            reserved: Vec::new(),
            shared: Vec::new(),
            promised: None,
            owed: 0,
            received: 0,
            received_bytes: 0,
            refused: 0,
            passed: 0,
            closing: None,
            role,
            spread: 0,
            brought: 0,
            lanes,
            throttles: false,
            stalled: None,
            mtu: (None, 0),
            metered: 0,
        };
        self.ports.states.insert(id, state);
    }

    /// A port pretends to have another link.
    fn emulate(&mut self, id: PortId, link: Option<NewLink>, snapshot: &Snapshot) {
        let Worker { ports: Ports { states: ports, emulated, .. }, accounting, .. } = self;
        let Some(state) = ports.get_mut(id) else { return };
        let name = snapshot.port(id).map_or("port", |view| &*view.name);
        state.link.emulate(link, name, accounting);
        emulated.retain(|port| *port != id);
        if state.link.is_emulated() {
            emulated.push(id);
        }
    }

    fn start_closing(&mut self, id: PortId, now: Instant) {
        let Some(state) = self.ports.states.get_mut(id) else { return };
        if state.closing.is_none() {
            state.closing = Some(now + CLOSING);
            let (input, output) = (state.input, state.output);
            match &mut state.lanes {
                // It goes on transmitting for others.
                Some(lanes) => lanes.stop(),
                None => self.tasks.remove(input, now),
            }
            self.tasks.urge(output, now);
        }
    }

    /// What waits in a port that is about to go will never be received. It is counted, and its frames come back: those
    /// of a wire in memory would be lost with it.
    fn leave_behind(&mut self, id: PortId) {
        let Worker { ports: Ports { states: ports, .. }, vector: Vector { batch, .. }, accounting, .. } = self;
        let Some(state) = ports.get_mut(id) else { return };
        for _ in 0..LEFT_BEHIND {
            state.link.port.receive(accounting.now, batch, &mut accounting.pool);
            batch.unlimit();
            let left = batch.len() as u64;
            if left == 0 {
                return;
            }
            state.arrived(left, accounting);
            state.refused += left;
            state.received_bytes += batch.bytes();
            batch.drain().for_each(|packet| accounting.drop_at(id, packet, DropReason::PortRemoved));
        }
    }

    /// A removed port whose link is empty: gone.
    pub(super) fn close_port(&mut self, id: PortId) {
        self.leave_behind(id);
        let Some(mut state) = self.ports.states.take(id) else { return };
        state.link.abandon_port(&mut self.accounting);
        if state.lanes.is_some() {
            self.tasks.remove(state.input, self.accounting.now);
        }
        self.tasks.remove(state.output, self.accounting.now);
        state.promised.into_iter().for_each(|task| self.tasks.remove(task, self.accounting.now));
        self.ports.blocked.retain(|&port| port != id);
        self.ports.emulated.retain(|&port| port != id);
        self.ports.remains.extend(state.lanes.map(Remains::Lanes));
        self.ports.remains.push(Remains::Port(id, state.link.into_port()));
        self.bury_remains();
        if state.role == Role::Device {
            self.accounting.event(&Event::PortDrained { port: id });
        }
    }

    /// What other workers have put into what is left of ports is dropped; what they can put nothing into any more goes.
    pub(super) fn bury_remains(&mut self) {
        let Worker { ports: Ports { remains, .. }, vector: Vector { batch, .. }, accounting, .. } = self;
        remains.retain_mut(|remains| match remains {
            Remains::Lanes(lanes) => {
                lanes.stop();
                !lanes.discard(DropReason::PortRemoved, accounting)
            }
            Remains::Port(_, port) if port.may_go() => false,
            Remains::Port(id, port) => {
                for _ in 0..LEFT_BEHIND {
                    port.receive(accounting.now, batch, &mut accounting.pool);
                    batch.unlimit();
                    accounting.ledger.take_over(batch.len() as u64);
                    batch.drain().for_each(|packet| accounting.drop_at(*id, packet, DropReason::PortRemoved));
                }
                !port.may_go()
            }
        });
    }

    /// Tasks for a port: the input task begins to look at it.
    pub(super) fn add_port_tasks(&mut self, id: PortId, snapshot: &Snapshot) -> (TaskId, TaskId) {
        let (now, shares) = (self.accounting.now, snapshot.port(id).map(|view| view.shares));
        let PortShares { input, output, .. } = shares.unwrap_or_default();
        let terms = |share| Terms { share, max_wait: None, capacity: u32::MAX, cost: None, prompt: false };
        let input = self.tasks.add(Task::Input(id), terms(input), now);
        let output = self.tasks.add(Task::Output(id), terms(output), now);
        self.tasks.agenda.rouse(input, now);
        (input, output)
    }

    /// The task that runs the functions of a path.
    pub(super) fn forwarder(&mut self, path: &PathSpec, snapshot: &Snapshot) -> TaskId {
        let common = Common::of(path, snapshot.cpu.best_effort);
        let terms = terms_of(path);
        let Worker { paths: Paths { forwarders, .. }, tasks, accounting, .. } = self;
        *forwarders.entry(common).or_insert_with(|| tasks.add(Task::Forward, terms, accounting.now))
    }

    /// Makes the instances those of `snapshot`: kept where path and port stay, so their counters go on.
    fn rebuild_paths(&mut self, snapshot: &Snapshot, functions: Vec<NewFunctions>) {
        self.tasks.nothing_is_ready();
        // In order, so that every run gives the same tasks the same ids.
        let mut old: BTreeMap<(PathId, Option<PortId>), Instance> =
            self.paths.instances.drain().map(|instance| ((instance.path, instance.port), instance)).collect();
        let mut functions: BTreeMap<(PathId, PortId), Vec<Box<dyn Function>>> =
            functions.into_iter().map(|new| ((new.path, new.port), new.functions)).collect();
        // Ports of the generation that belong to this worker.
        let mine = self.ports.states.open().map(|(port, _)| port);
        let open: Vec<PortId> = mine.filter(|&port| snapshot.port(port).is_some()).collect();
        self.ports.states.iter_mut().for_each(|state| state.outputs.clear());
        let mut own = [REFUSED; 2];
        let mut served = Vec::with_capacity(snapshot.paths.len() * open.len());
        let mut heirs = BTreeMap::new();
        for (position, path) in snapshot.paths.iter().enumerate() {
            heirs.insert(path.id, self.paths.instances.next_target());
            if path.id == CONTROL || path.id == GENERAL {
                let kept = old.remove(&(path.id, None));
                own[usize::from(path.id == GENERAL)] = self.add_instance((snapshot, path), None, kept, None);
            }
            for &port in &open {
                let (kept, new) = (old.remove(&(path.id, Some(port))), functions.remove(&(path.id, port)));
                served.push((position, port, self.add_instance((snapshot, path), Some(port), kept, new)));
            }
        }
        self.retire(old, &heirs);
        self.rank_outputs();
        let best_effort = snapshot.paths.iter().position(|path| path.id == BEST_EFFORT).unwrap_or(0);
        let size = (snapshot.paths.len(), snapshot.ports.len());
        self.paths.dispatch = Dispatch::new(size, best_effort, own.into(), served.into_iter());
    }

    /// Instances that no generation has any more. `heirs` says where the instances of each path begin.
    fn retire(&mut self, old: BTreeMap<(PathId, Option<PortId>), Instance>, heirs: &BTreeMap<PathId, Target>) {
        let mut last = None;
        for (_, gone) in old {
            debug_assert_eq!(gone.queued(), 0);
            let heir = heirs.get(&gone.path).and_then(|&at| self.paths.instances.get_mut(at));
            match heir.filter(|heir| heir.path == gone.path) {
                // What a path has counted stays counted when one of its ports goes.
                Some(heir) => heir.counters += gone.counters,
                // They come path by path.
                None if last.replace(gone.path) != Some(gone.path) => {
                    self.accounting.event(&Event::PathDrained { path: gone.path });
                }
                None => {}
            }
        }
    }

    fn add_instance(
        &mut self,
        (snapshot, path): (&Snapshot, &PathSpec),
        port: Option<PortId>,
        kept: Option<Instance>,
        functions: Option<Vec<Box<dyn Function>>>,
    ) -> Target {
        let target = self.paths.instances.next_target();
        let task = self.forwarder(path, snapshot);
        assert!(target < UNDECIDED, "ports and paths are bounded");
        let before = kept.as_ref().and_then(|instance| instance.allowance);
        let reserved = path.cpu.reservation.map(|reserved| reserved.packets);
        let allowance = reserved.map(|rate| Allowance::of(rate, path.output_capacity, before));
        let instance = match kept {
            Some(mut instance) => {
                if instance.input.capacity() != path.capacity {
                    instance.input.resize(path.capacity);
                }
                if instance.output.capacity() != path.output_capacity {
                    instance.output.resize(path.output_capacity);
                }
                if let Some(functions) = functions {
                    instance.functions = functions;
                }
                (instance.task, instance.class, instance.allowance) = (task, path.class, allowance);
                instance.ready = false;
                instance
            }
            None => Instance {
                path: path.id,
                port,
                class: path.class,
                task,
                input: Queue::new(path.capacity),
                output: Queue::new(path.output_capacity),
                half: None,
                offloads: false,
                hooked: false,
                functions: functions.unwrap_or_default(),
                counters: PathCounters::default(),
                minimal: false,
                inlined: false,
                ready: false,
                limit: None,
                fill: Fill::default(),
                side: None,
                since: Since::default(),
                allowance,
            },
        };
        if let Some(state) = port.and_then(|port| self.ports.states.get_mut(port)) {
            state.outputs.push(target);
        }
        self.paths.instances.push(instance);
        target
    }

    /// Drops what other workers have handed over, or sends it where that is all it waits for.
    fn empty_rings(&mut self) {
        let Worker {
            ports: Ports { states: ports, .. },
            vector: Vector { batch, .. },
            peers: Peers { crew, .. },
            accounting,
            ..
        } = self;
        for (port, state) in ports.open_mut() {
            if let Some(lanes) = &mut state.lanes {
                lanes.drain(port, &mut *state.link.port, accounting);
                lanes.discard(DropReason::Shutdown, accounting);
            }
            for _ in 0..if state.role == Role::Relay { LEFT_BEHIND } else { 0 } {
                state.link.port.receive(accounting.now, batch, &mut accounting.pool);
                batch.unlimit();
                let left = batch.len() as u64;
                state.arrived(left, accounting);
                state.refused += left;
                batch.drain().for_each(|packet| accounting.drop_at(port, packet, DropReason::Shutdown));
            }
        }
        if let Crew::First(colleagues) = crew {
            for colleague in colleagues {
                while let Ok(packet) = colleague.handed.pop() {
                    accounting.pool.import(1);
                    accounting.ledger.take_over(1);
                    accounting.drop(packet, DropReason::Shutdown);
                }
            }
        }
        self.discard_brought(DropReason::Shutdown);
    }

    /// Says farewell to hosts, and drops everything else the worker holds: it is about to end. A second call, when no worker runs any more, drops also what
    /// others have handed over since.
    pub fn shut_down(&mut self, now: Instant) {
        self.accounting.now = now;
        let control = self.paths.dispatch.control;
        self.with_host(control, |host, world| {
            host.farewell(world);
            host.drain(world);
        });
        for port in self.ports.states.ids() {
            self.transmit((port, Part::All), packet::BATCH);
        }
        self.forsake_all(DropReason::Shutdown);
        for instance in self.paths.instances.iter_mut() {
            let half = &mut instance.half;
            let mut next = || half.take().map(Half::into_packet).or_else(|| instance.input.pop());
            while let Some(packet) = next().or_else(|| instance.output.pop()) {
                instance.counters.dropped += 1;
                self.accounting.drop(packet, DropReason::Shutdown);
            }
        }
        self.drop_held(DropReason::Shutdown);
        for state in self.ports.states.iter_mut() {
            state.link.clear(DropReason::Shutdown, &mut self.accounting);
        }
        self.count_refused();
        self.empty_rings();
        self.count_forsaken();
        self.audit();
    }
}
