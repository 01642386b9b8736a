//! Restart of a worker after a panic: its packets are lost and counted, the state of the router stays.
//!
//! A panic may have left any state half changed that only this worker uses. So all of it is discarded: queues, schemes, functions, the
//! scheduler, the host. Ports and the rings to other workers stay. The counters stay too, and are corrected to add up: packets without a fate
//! are dropped as `worker_failed`. Frames return by themselves, because a discarded packet returns to its region. The host starts with the old
//! one's neighbours as unconfirmed entries: it resolves each again before its next use.

use super::Worker;
use super::paths::{Paths, flow_order};
use super::peers::PeerRings;
use super::ports::{ClosedPort, PortState, Role, publish_link_state};
use super::task_table::TaskTable;
use crate::classify::{Scratch, Target};
use crate::input_queue::InputQueue;
use crate::path::{Instance, PathCounters};
use crate::preempt::ThreadSlot;
use crate::snapshot::{CONTROL, GENERAL, Snapshot};
use link::Queueing;
use packet::accounting::Accounting;
use packet::latency::QueueEntryTimes;
use packet::{Batch, DropReason, Queue};
use stack::LocalProtocols;
use units::{Instant, PortId};

/// A worker cannot restart while it adopts a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AdoptionUnfinished;

impl std::fmt::Display for AdoptionUnfinished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it failed while it adopted a configuration")
    }
}

impl Worker {
    /// Restarts after a panic in [`Worker::step`] with the running configuration. Returns the number of lost packets, or an error if the panic
    /// occurred during an adoption. After a panic or an error here, call [`Worker::give_up`].
    pub fn restart(&mut self, now: Instant) -> Result<u64, AdoptionUnfinished> {
        if self.adoption.adopting {
            return Err(AdoptionUnfinished);
        }
        self.accounting.now = now;
        let known = self.protocols.host.neighbours();
        self.clear();
        for port in self.ports.states.ids() {
            self.reopen(port);
        }
        for target in self.paths.instances.targets() {
            self.paths.renew(target, &self.snapshot, &mut self.tasks, &mut self.accounting);
        }
        // Their tasks are new and need the parameters of the generation.
        self.apply_rules(&self.snapshot.clone(), now);
        // Before the host starts: every packet without a fate counts as lost here, and those that the host sends are not lost.
        let lost = self.paths.forget_packets(&mut self.accounting);
        self.protocols.host = LocalProtocols::new(self.snapshot.limits);
        if self.is_first() {
            // The tables still have the addresses that the failed host resolved. The new host adds them again, unconfirmed.
            known.iter().for_each(|known| self.tables.unresolve(known.interface, known.address));
            self.configure_host();
            let control = self.paths.dispatch.control;
            self.with_host(control, |host, world| {
                known.iter().for_each(|known| host.learn_neighbour(known, world));
            });
        }
        self.protocols.host_due = self.protocols.host.next_deadline();
        (self.audit_due, self.watch_due, self.neighbours.request_due) = (now, now, now);
        self.audit();
        Ok(lost)
    }

    /// Ends the worker after a panic for good. Corrects the ledger, so that the last report adds up. Returns the number of lost packets. When the
    /// worker is dropped, its ports close and the other workers notice.
    pub fn give_up(&mut self) -> u64 {
        self.clear();
        for (port, state) in self.ports.states.open() {
            if state.role == Role::Device {
                // Multipath routes use their other next hops.
                publish_link_state(&self.tables, &self.snapshot, port, false);
            }
        }
        for target in self.paths.instances.targets() {
            self.paths.renew(target, &self.snapshot, &mut self.tasks, &mut self.accounting);
        }
        self.ports.states.iter_mut().for_each(PortState::reset_after_panic);
        self.paths.forget_packets(&mut self.accounting)
    }

    /// Drops the packets being handled, uncounted.
    fn clear(&mut self) {
        (self.vector.batch, self.vector.kept, self.vector.scratch) = (Batch::new(), Batch::new(), Scratch::new());
        self.tasks.reset(&self.snapshot.cpu, self.accounting.now);
        self.paths.forwarders.clear();
        self.ports.stalls.clear();
        self.paths.touched.clear();
        self.ports.blocked.clear();
        self.tasks.idle_dispatches = 0;
        self.adoption.waits_since = None;
        self.neighbours.waiting = Default::default();
        self.neighbours.ready.clear();
        self.neighbours.requesters.clear();
        self.protocols.verdicts.clear();
        self.ports.states.iter_mut().filter_map(|state| state.relays.as_mut()).for_each(|lanes| lanes.clear());
        self.hooks.clear_handed();
        for remains in &mut self.ports.closed {
            if let ClosedPort::SharedQueue(lanes) = remains {
                lanes.clear();
            }
        }
    }

    /// Gives a port's link a new scheme and empty queues. A port that was about to close after draining closes now.
    fn reopen(&mut self, id: PortId) {
        let Some(mut state) = self.ports.states.take(id) else { return };
        let view = self.snapshot.port(id).filter(|_| state.closing.is_none());
        let (frames, sharing) = (self.accounting.pool.region().frames(), state.link.sharing());
        // The new scheme uses the same shared rates as the schemes of the other workers.
        let scheme = view.and_then(|view| Queueing::of(&view.scheme, frames, &mut sharing.again()).ok());
        state.reset_after_panic();
        let Some(scheme) = scheme else {
            self.ports.closed.extend(state.relays.take().map(ClosedPort::SharedQueue));
            self.ports.closed.push(ClosedPort::Port(id, state.link.into_port()));
            return;
        };
        // Freeing here is acceptable, because the restart had to allocate anyway.
        drop(state.link.restart_empty(scheme));
        (state.input, state.output) =
            self.ports.add_port_tasks(id, &self.snapshot.clone(), &mut self.tasks, &mut self.accounting);
        (state.reserved_output, state.offered) = (None, 0);
        self.ports.states.insert(id, state);
    }

    /// Counts packets as lost that were handed to workers that have ended: the packets in a ring without a reader.
    pub(super) fn count_all_stranded(&mut self) {
        let mut lost = 0;
        for state in self.ports.states.iter_mut() {
            lost += state.relays.as_mut().map_or(0, |lanes| lanes.take_stranded());
            lost += state.link.port.take_abandoned();
        }
        for remains in &mut self.ports.closed {
            lost += match remains {
                ClosedPort::SharedQueue(lanes) => lanes.take_stranded(),
                ClosedPort::Port(_, port) => port.take_abandoned(),
            };
        }
        if let PeerRings::Other(speaker) = &mut self.peers.rings {
            lost += speaker.take_stranded();
        }
        lost += self.hooks.take_stranded();
        if lost > 0 {
            // The ledger counted them as handed over. They return as taken over and are dropped, so that their drop has a packet.
            self.accounting.ledger.drop_undelivered(lost as u64, DropReason::WorkerFailed);
        }
    }
}

impl Paths {
    /// Empties the queues of an instance and gives it new functions.
    pub(in crate::worker) fn renew(
        &mut self,
        target: Target,
        snapshot: &Snapshot,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Some(old) = self.instances.get(target) else { return };
        let spec = snapshot.paths.iter().find(|path| path.id == old.path);
        let functions = self.available_functions.rebuild(spec);
        let task = spec.map(|spec| self.forwarder(spec, snapshot, tasks, accounting)).unwrap_or_default();
        let Paths { instances, function_threads: asides, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return };
        // The counters of the router's own protocols are corrected together: see `forget_packets`.
        if instance.path != CONTROL && instance.path != GENERAL {
            instance.counters.drop_waiting();
        }
        (instance.task, instance.functions) = (task, functions);
        // The old function thread is abandoned, with all that it holds.
        instance.function_thread = instance.function_thread.take().map(|_| Box::new(ThreadSlot::new(asides.open())));
        let order = spec.and_then(|spec| flow_order(snapshot, spec, tasks));
        instance.input = InputQueue::new(instance.input.capacity(), order.as_ref());
        instance.output = Queue::new(instance.output.capacity());
        (instance.half, instance.arrivals) = (None, QueueEntryTimes::default());
        (instance.offloads, instance.hooked, instance.inlined, instance.ready) = (false, false, false, false);
    }

    /// Counts the lost packets.
    pub(in crate::worker) fn forget_packets(&mut self, accounting: &mut Accounting) -> u64 {
        // The paths of the local protocols share the host: a packet missing in one is surplus in the other.
        let own = |instance: &&mut Instance| instance.path == CONTROL || instance.path == GENERAL;
        let mut sum = PathCounters::default();
        self.instances.iter_mut().filter(own).for_each(|instance| sum += instance.counters);
        let before = sum;
        sum.drop_waiting();
        if let Some(control) = self.instances.iter_mut().find(|instance| own(instance)) {
            control.counters.dropped += sum.dropped - before.dropped;
            control.counters.generated += sum.generated - before.generated;
        }
        accounting.pool.abandon();
        accounting.ledger.drop_unaccounted(DropReason::WorkerFailed)
    }
}
