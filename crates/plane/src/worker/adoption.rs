//! Adopting a configuration: everything that can fail was done before, on the control side; this only moves things in
//! and out, between two steps, when no packet is on any path.

mod change;
mod install;
mod reschedule;
mod scheduling;

pub(crate) use change::OpenedPort;
pub use change::{Adopted, Decorate, NewFunctions, NewHook, NewPort, WorkerChange};
pub use reschedule::Reschedule;

use super::output_tasks::Part;
use super::peers::{PeerRings, Peers};
use super::ports::{FINAL_BATCHES, Ports, Role};
use super::vector::Vector;
use super::{Command, Mailbox, Worker};
use crate::snapshot::PathSpec;
use link::Queueing;
use packet::DropReason;
use packet::event::Event;
use packet::segment::PacketSplitter;
use packet::spsc::Consumer;
use stack::World;
use std::fmt;
use std::sync::Arc;
use units::{Instant, PortId, WorkerId};

/// The state of an adoption that the control side has requested.
pub(super) struct Adoption {
    pub mailbox: Arc<Mailbox>,
    /// The number of commands posted when the mailbox was last read.
    pub commands_read: u64,
    /// The generation to adopt as soon as the paths are empty.
    pub pending: Option<WorkerChange>,
    /// True in the middle of an adoption.
    pub adopting: bool,
    /// The time since which a new configuration waits for the paths to be empty.
    pub waits_since: Option<Instant>,
}

impl Adoption {
    pub fn new(mailbox: Arc<Mailbox>) -> Adoption {
        Adoption { mailbox, commands_read: 0, pending: None, adopting: false, waits_since: None }
    }
}

impl fmt::Debug for WorkerChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Change to generation {}", self.snapshot.generation)
    }
}

impl Worker {
    pub(super) fn read_mail(&mut self, now: Instant) {
        // Counted before the commands are taken: one posted in between is seen again, and harmless.
        self.adoption.commands_read = self.adoption.mailbox.posted();
        self.tasks.idle_dispatches = 0;
        for command in self.adoption.mailbox.take_commands() {
            match command {
                Command::Adopt(mut change, reply) => {
                    if self.adoption.pending.is_some() {
                        // The control side waits for each change. If another one comes nevertheless, the pending one is adopted first.
                        while !self.paths_are_empty() {
                            self.flush();
                        }
                        self.adopt(now);
                    }
                    change.reply = Some(reply);
                    self.adoption.pending = Some(*change);
                }
                Command::SetShares(snapshot) => self.apply_shares(snapshot, now),
                Command::Reschedule(new) => self.reschedule(*new),
                Command::Report(reply) => drop(reply.send(self.report())),
                Command::StoreReaders(reply) => drop(reply.send(self.store_readers())),
                Command::Links(port, reply) => drop(reply.send(self.links(port))),
                Command::TraceScheduler(trace, reply) => drop(reply.send(self.trace_scheduler(trace))),
                Command::Inject(port, frames, reply) => self.vector.injected.push_back((port, frames, reply)),
                Command::Originate(packets, reply) => self.vector.originated.push_back((packets, reply)),
                Command::Neighbour(interface, address, mac) => {
                    // Kept although the host may not run yet: `configure_host` sets it at each adoption.
                    match mac {
                        Some(mac) => drop(self.protocols.statics.insert((interface, address), mac)),
                        None => drop(self.protocols.statics.remove(&(interface, address))),
                    }
                    if !self.is_first() {
                        continue;
                    }
                    let control = self.paths.dispatch.control;
                    self.with_host(control, |host, world| match mac {
                        Some(mac) => drop(host.set_static_neighbour(interface, address, mac, world)),
                        None => host.clear_static_neighbour(interface, address, world),
                    });
                    self.protocols.host_due = self.protocols.host.next_deadline();
                }
            }
        }
    }

    /// True for the first worker, which alone runs the host and changes neighbours, once it has a port.
    pub(super) fn is_first(&self) -> bool {
        self.id == WorkerId(0) && self.ports.states.iter().next().is_some()
    }

    pub(super) fn paths_are_empty(&self) -> bool {
        self.paths.instances.iter().all(|instance| instance.queued() == 0)
            // The targets of stalled packets name the present instances.
            && self.ports.states.iter().all(|state| state.stalled.is_none())
    }

    pub(super) fn adopt(&mut self, now: Instant) {
        let Some(change) = self.adoption.pending.take() else { return };
        // A panic before this is reset leaves a half-adopted generation, from which `restart` refuses to continue.
        self.adoption.adopting = true;
        (self.tasks.idle_dispatches, self.adoption.waits_since) = (0, None);
        let WorkerChange {
            snapshot,
            ports,
            schemes,
            links,
            functions,
            available_functions: registered,
            schedulers,
            hook: station,
            owner_rings: mesh,
            reply,
        } = change;
        self.paths.available_functions = registered;
        self.tasks.run_queue.register(schedulers);
        self.hooks.adopt(station, mesh, now);
        let mut retired: Vec<(PortId, Queueing)> = Vec::new();
        // Before the ports: a drop at a port without counters would be missing in its report.
        self.accounting.count_ports(snapshot.ports.len());
        for new in ports {
            retired.extend(self.ports.install_port(
                new,
                &snapshot,
                &mut self.paths,
                &mut self.vector,
                &mut self.tasks,
                &mut self.accounting,
            ));
        }
        for (id, scheme) in schemes {
            retired.extend(self.ports.replace_scheme(
                id,
                scheme,
                &mut self.paths,
                &mut self.tasks,
                &mut self.accounting,
            ));
        }
        for (id, link) in links {
            self.ports.emulate(id, link, &snapshot, &mut self.accounting);
        }
        for port in self.ports.states.ids() {
            if snapshot.port(port).is_none() {
                self.ports.start_closing(port, now, &mut self.tasks);
            }
        }
        // After the ports: the paths get an instance for each of them.
        self.paths.rebuild_paths(&snapshot, functions, &mut self.ports, &mut self.tasks, &mut self.accounting);
        self.paths.update_function_threads(&snapshot);
        // After the paths: it sets the terms of their tasks, and removes tasks that no path uses any more.
        self.apply_rules(&snapshot, now);
        self.paths.set_reserved_rates(&snapshot, &mut self.tasks);
        let promised = |path: &PathSpec| (path.id, path.cpu.reservation.and_then(|reservation| reservation.delay));
        self.accounting.latencies.set_paths(snapshot.paths.iter().map(promised));
        // Before the snapshot is replaced: the routes of both generations decide which counters continue.
        self.paths.group_counters =
            snapshot.multicast.carry_counters(&self.snapshot.multicast, &self.paths.group_counters);
        self.snapshot = snapshot;
        self.neighbours.drop_removed(&self.snapshot, &mut self.paths, &mut self.accounting);
        self.ports.publish_port_states(&self.snapshot, &self.tables, &mut self.accounting);
        self.ports.adopt_route_caches(&self.snapshot, &self.tables);
        self.ports.adopt_circuits(&self.snapshot);
        if self.is_first() {
            self.configure_host();
        }
        self.protocols.host_due = self.protocols.host.next_deadline();
        self.adoption.adopting = false;
        self.audit();
        let generation = self.snapshot.generation;
        self.accounting.event(&Event::Adopted { worker: self.id, generation });
        if let Some(reply) = reply {
            // A control side that no longer listens has given up on the answer, not on the change.
            let _ = reply.send(Adopted { generation, retired });
        }
    }

    /// Configures the host with the running generation and the static neighbours.
    pub(super) fn configure_host(&mut self) {
        // Taken out, because `with_host` borrows the whole worker.
        let statics = std::mem::take(&mut self.protocols.statics);
        let (control, limits) = (self.paths.dispatch.control, self.snapshot.limits);
        self.with_host(control, |host, world| {
            host.set_limits(limits);
            host.adopt(world);
            for (&(interface, address), &mac) in &statics {
                if world.interface(interface).is_some() {
                    host.set_static_neighbour(interface, address, mac, world);
                }
            }
        });
        self.protocols.statics = statics;
    }

    /// Drops the packets that other workers have handed over. Packets that only await transmission are sent as far as the port has room.
    fn empty_rings(&mut self) {
        let Worker {
            ports: Ports { states: ports, .. },
            vector: Vector { batch, .. },
            peers: Peers { rings: crew, .. },
            accounting,
            ..
        } = self;
        for (port, state) in ports.open_mut() {
            if let Some(lanes) = &mut state.relays {
                lanes.drain(port, &mut *state.link.port, accounting);
                lanes.discard(DropReason::Shutdown, accounting);
            }
            for _ in 0..if state.role == Role::Relay { FINAL_BATCHES } else { 0 } {
                state.link.port.receive(accounting.now, batch, &mut accounting.pool);
                batch.unlimit();
                let left = batch.len() as u64;
                state.count_received(left, accounting);
                state.refused += left;
                batch.drain().for_each(|packet| accounting.drop_at(port, packet, DropReason::Shutdown));
            }
        }
        if let PeerRings::First(colleagues) = crew {
            for colleague in colleagues {
                while let Some(packet) = colleague.handed.pop() {
                    // On a ring a packet belongs to no pool and no ledger: import it first, so that both add up.
                    accounting.pool.import(1);
                    accounting.ledger.take_over(1);
                    accounting.drop(packet, DropReason::Shutdown);
                }
            }
        }
        self.hooks.discard_handed(DropReason::Shutdown, &mut self.accounting);
    }

    /// Sends the final advertisements of the host, and drops all packets that the worker holds: it is about to end. A second call, when no worker
    /// runs any more, also drops packets that others have handed over since.
    pub fn shut_down(&mut self, now: Instant) {
        self.accounting.now = now;
        let control = self.paths.dispatch.control;
        self.with_host(control, |host, world| {
            host.send_final_advertisements(world);
            host.drain(world);
        });
        // Transmits the final advertisements, which the host has just queued.
        for port in self.ports.states.ids() {
            self.ports.transmit(
                (port, Part::All),
                packet::BATCH,
                &mut self.paths,
                &mut self.vector,
                &mut self.tasks,
                &mut self.accounting,
            );
        }
        self.paths.abandon_all(DropReason::Shutdown, &mut self.accounting);
        for instance in self.paths.instances.iter_mut() {
            let half = &mut instance.half;
            let mut next = || half.take().map(PacketSplitter::into_packet).or_else(|| instance.input.pop());
            while let Some(packet) = next().or_else(|| instance.output.pop()) {
                instance.counters.dropped += 1;
                self.accounting.drop(packet, DropReason::Shutdown);
            }
        }
        self.neighbours.drop_waiting(DropReason::Shutdown, &mut self.paths, &mut self.accounting);
        self.ports.discard_tunnelled(DropReason::Shutdown, &mut self.accounting);
        for state in self.ports.states.iter_mut() {
            state.link.clear(DropReason::Shutdown, &mut self.accounting);
            state.link.port.take_leave(now, &mut self.accounting.pool);
        }
        // Late refusals change sent packets to dropped ones: the last report must include them.
        self.ports.count_refused(&mut self.accounting);
        self.empty_rings();
        self.count_all_stranded();
        self.audit();
    }
}
