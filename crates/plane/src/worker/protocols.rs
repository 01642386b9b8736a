//! The router's own protocols on a worker, and how they send packets.

use super::Worker;
use super::instances::Instances;
use super::peers::NextHop;
use super::ports::PortStates;
use super::replicate::Copier;
use super::stages::Forwarded;
use super::task_table::TaskTable;
use crate::classify::{Classifier, Dispatch, REFUSED, REPLICATED, Target, Unwitnessed};
use crate::multicast::GroupCounters;
use crate::path::Instance;
use crate::punt::{PuntedFrame, is_shared, protocol_of, source_of, untagged_frame};
use crate::snapshot::Snapshot;
use crate::tunnel::Tunnels;
use cpu::meter::WorkMeter;
use fib::{Outcome, Tables};
use nat::{Nat, NatRules};
use packet::accounting::Accounting;
use packet::event::{Event, Stage};
use packet::port::refusal_reason;
use packet::{DropReason, Meta, Packet};
use stack::{Interface, LocalProtocolLimits, LocalProtocols, NextHopState, World};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{Instant, InterfaceId, Mac, PortId, WorkerId};

/// Packets that the router's own protocols handle in one dispatch. They are not urgent, and each costs much time.
const HOST_VECTOR: usize = 32;

/// How often a packet may return from the general path to classification.
pub(crate) const MAX_ROUNDS: u8 = 4;

/// The router's own protocols on a worker.
pub(super) struct Protocols {
    pub host: LocalProtocols,
    /// When the host has its next timer.
    pub host_due: Instant,
    /// The configured static neighbours.
    pub statics: BTreeMap<(InterfaceId, IpAddr), Mac>,
    /// The verdicts that the host has just reached about next hops.
    pub verdicts: Vec<(NextHop, NextHopState)>,
    /// The packets that the host has just found to be at the end of a tunnel.
    pub tunnelled: Vec<Packet>,
}

impl Protocols {
    pub fn new(limits: LocalProtocolLimits) -> Protocols {
        Protocols {
            host: LocalProtocols::new(limits),
            host_due: Instant::NEVER,
            statics: BTreeMap::new(),
            verdicts: Vec::new(),
            tunnelled: Vec::new(),
        }
    }
}

/// The parts of the worker that the host may use while it handles packets of the instance `current`.
pub(super) struct WorkerWorld<'a> {
    snapshot: &'a Snapshot,
    tables: &'a Tables,
    dispatch: &'a Dispatch,
    accounting: &'a mut Accounting,
    instances: &'a mut Instances,
    ports: &'a PortStates,
    tasks: &'a mut TaskTable,
    verdicts: &'a mut Vec<(NextHop, NextHopState)>,
    tunnelled: &'a mut Vec<Packet>,
    groups: &'a mut [GroupCounters],
    current: Target,
}

impl Worker {
    pub(super) fn with_host<T>(
        &mut self,
        current: Target,
        work: impl FnOnce(&mut LocalProtocols, &mut WorkerWorld<'_>) -> T,
    ) -> T {
        let mut outlet = WorkerWorld {
            snapshot: &self.snapshot,
            tables: &self.tables,
            dispatch: &self.paths.dispatch,
            accounting: &mut self.accounting,
            instances: &mut self.paths.instances,
            ports: &self.ports.states,
            tasks: &mut self.tasks,
            verdicts: &mut self.protocols.verdicts,
            tunnelled: &mut self.protocols.tunnelled,
            groups: &mut self.paths.group_counters,
            current,
        };
        let answer = work(&mut self.protocols.host, &mut outlet);
        // The host may have reached verdicts during `work`, when the rings to the workers were not at hand.
        if !self.protocols.verdicts.is_empty() {
            self.send_verdicts();
        }
        if !self.protocols.tunnelled.is_empty() {
            self.decapsulate_waiting();
        }
        answer
    }

    /// Gives the packets on a path of the router's own protocols to the host.
    pub(super) fn forward_to_protocols<M: WorkMeter>(&mut self, target: Target, meter: &mut M) -> Forwarded {
        let moved = self.run_host(target);
        let used = self.lap(meter, self.paths.work_of(target, moved, 0));
        Forwarded { moved, used, unfinished: false }
    }

    /// Gives the packets on a path of the router's own protocols to the host, and runs its due timers.
    fn run_host(&mut self, target: Target) -> usize {
        // Only the first worker runs the host. The others hand their packets over to it.
        if self.id != WorkerId(0) {
            let ended = if self.snapshot.tunnels.is_empty() { 0 } else { self.decapsulate_queued() };
            return ended + self.peers.hand_to_first(target, &mut self.paths, &mut self.accounting);
        }
        let Some(instance) = self.paths.instances.get_mut(target) else { return 0 };
        instance.input.pop_into(&mut self.vector.batch, HOST_VECTOR);
        let moved = self.vector.batch.len();
        // Moved out of the vector, because `with_host` borrows the whole worker.
        let packets: Vec<Packet> = self.vector.batch.drain().collect();
        let mut due = false;
        self.with_host(target, |host, world| {
            for packet in packets {
                world.trace_received(&packet);
                host.receive(packet, world);
            }
            // A first fragment may pass on any worker, so each run looks for it in the translation table.
            host.release_fragments(world);
            due = world.now() >= host.next_deadline();
            if due {
                host.tick(world);
            }
        });
        if due {
            // The host may have sent packets although none arrived.
            self.tasks.idle_dispatches = 0;
        }
        self.protocols.host_due = self.protocols.host.next_deadline();
        moved
    }
}

impl WorkerWorld<'_> {
    fn instance(&mut self, target: Target) -> Option<&mut Instance> {
        self.instances.get_mut(target)
    }

    /// Traces that the host is about to receive this packet.
    pub(super) fn trace_received(&mut self, packet: &Packet) {
        self.accounting.record_stage(packet, Stage::LocalProtocols(packet.meta().exception));
    }

    fn count(&mut self, change: impl FnOnce(&mut crate::path::PathCounters)) {
        if let Some(instance) = self.instance(self.current) {
            change(&mut instance.counters);
        }
    }
}

impl World for WorkerWorld<'_> {
    fn now(&self) -> Instant {
        self.accounting.now
    }

    fn interface(&self, id: InterfaceId) -> Option<&Interface> {
        self.snapshot.interface(id)
    }

    fn interfaces(&self) -> &[Interface] {
        &self.snapshot.interfaces
    }

    fn tables(&self) -> &Tables {
        self.tables
    }

    fn nat(&self) -> Option<(&NatRules, &Nat)> {
        self.snapshot.nat.as_ref().map(|rules| (rules, &*self.snapshot.translations))
    }

    fn generate(&mut self, length: usize) -> Option<Packet> {
        let mut packet = self.accounting.pool.take_for(length)?;
        packet.meta_mut().flags = Meta::GENERATED;
        packet.meta_mut().timestamp = self.accounting.now;
        // The packet has no ingress port.
        packet.meta_mut().in_port = PortId(u16::MAX);
        self.accounting.ledger.generate(1);
        self.count(|counters| counters.generated += 1);
        Some(packet)
    }

    fn send(&mut self, interface: InterfaceId, mut packet: Packet) {
        let egress = *self.snapshot.egress(interface);
        packet.meta_mut().out_interface = interface;
        // Replies take the built-in path of the packet that caused them: 0 is `control`, 1 is `general`.
        let path = usize::from(self.current != self.dispatch.control);
        let (target, now) = (self.dispatch.instance(path, egress.port), self.accounting.now);
        let refused = match self.instance(target) {
            Some(instance) => {
                (packet.meta_mut().path, packet.meta_mut().class) = (instance.path, instance.class);
                // The frame is complete, link header included, so it skips the functions of the path.
                let refused = instance.output.push(packet).map(|packet| (packet, DropReason::OutputQueue));
                instance.arrivals.record_arrivals(instance.output.len(), now);
                refused
            }
            None => Some((packet, DropReason::PortRemoved)),
        };
        match refused {
            Some((packet, reason)) => self.drop(packet, reason),
            None => {
                if let Some(state) = self.ports.get(egress.port) {
                    self.tasks.record_offered(state.output, 1, self.accounting.now);
                }
            }
        }
    }

    fn forward(&mut self, mut packet: Packet) {
        // Host and classifier could pass a packet to each other for ever.
        if packet.meta_mut().count_classification() > MAX_ROUNDS {
            return self.drop(packet, DropReason::NeighbourFailed);
        }
        let classifier =
            Classifier { snapshot: self.snapshot, tables: self.tables, dispatch: self.dispatch, witness: Unwitnessed };
        let target = classifier.classify_again(&mut packet);
        self.accounting.record_stage(&packet, Stage::Classified);
        if target == REFUSED {
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            return self.drop(packet, reason);
        }
        // The packet leaves the path of the protocols, even if its new path drops it.
        self.count(|counters| counters.diverted += 1);
        if target == REPLICATED {
            let WorkerWorld { snapshot, tables, dispatch, accounting, instances, tasks, groups: counters, .. } = self;
            let mut copier =
                Copier { snapshot, tables, dispatch, accounting, instances, tasks, counters, touched: None };
            return copier.replicate(packet);
        }
        let Some(instance) = self.instances.get_mut(target) else {
            return self.accounting.drop(packet, DropReason::PortRemoved);
        };
        self.accounting.record_stage(&packet, Stage::Waiting { packets_ahead: instance.input.len() });
        if let Some(packet) = instance.enter(packet) {
            self.accounting.drop(packet, DropReason::PathQueue);
        }
        self.tasks.record_arrivals(target, instance, 1, self.accounting.now);
    }

    fn consume(&mut self, packet: Packet) {
        self.count(|counters| counters.consumed += 1);
        self.accounting.consume(packet);
    }

    fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.count(|counters| counters.dropped += 1);
        self.accounting.drop(packet, reason);
    }

    fn punt(&mut self, packet: Packet) {
        let (punt, protocol) = (&self.snapshot.punt, protocol_of(packet.bytes()));
        let source = source_of(packet.bytes());
        // All others have been counted when they were classified.
        if is_shared(protocol) && !punt.admits(protocol, source, &self.snapshot.punt_limits, self.accounting.now) {
            return self.drop(packet, DropReason::PuntLimit);
        }
        let frame = PuntedFrame { interface: packet.meta().in_interface, bytes: untagged_frame(&packet) };
        if punt.send(protocol, frame) { self.consume(packet) } else { self.drop(packet, DropReason::PuntQueue) }
    }

    fn decapsulate(&mut self, packet: Packet) {
        self.count(|counters| counters.diverted += 1);
        self.tunnelled.push(packet);
    }

    fn ends_tunnel(&self, packet: &Packet) -> bool {
        let tunnels = &self.snapshot.tunnels;
        let Some(to) = Tunnels::destination(packet).filter(|_| !tunnels.is_empty()) else { return false };
        let owner = self.tables.lookup_from(packet.meta().in_interface, to);
        matches!(owner, Outcome::Local(owner) if tunnels.may_end(owner, packet))
    }

    fn reduce_tunnel_mtu(&mut self, outer: &[u8], mtu: u32) {
        let Some(tunnel) = self.snapshot.tunnels.find_sender(outer) else { return };
        let (overhead, is_ipv4) = (tunnel.plan.overhead(), tunnel.plan.local.is_ipv4());
        if tunnel.state.reduce_mtu(mtu, overhead, is_ipv4, self.accounting.now) {
            // At once: the port is asked for its MTU only now and then.
            self.tables.set_link_mtu(tunnel.interface, tunnel.state.mtu());
        }
    }

    fn record_tunnel_error(&mut self, outer: &[u8]) {
        self.snapshot.tunnels.find_sender(outer).into_iter().for_each(|tunnel| tunnel.state.count_error());
    }

    fn next_hop_settled(&mut self, interface: InterfaceId, address: IpAddr, verdict: NextHopState) {
        self.verdicts.push(((interface, address), verdict));
    }

    fn event(&mut self, event: Event<'_>) {
        self.accounting.event(&event);
    }
}
