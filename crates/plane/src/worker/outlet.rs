//! The worker as the host sees it: where the router's own protocols put packets.

use super::copying::Copier;
use super::crew::NextHop;
use super::duties::Duties;
use super::onward::enter;
use super::Worker;
use super::ports::PortState;
use crate::classify::{COPIED, Classifier, Dispatch, REFUSED, Target, Unwitnessed};
use crate::multicast::GroupCounters;
use crate::path::Instance;
use crate::snapshot::Snapshot;
use fib::Tables;
use nat::{Nat, Rules};
use packet::accounting::Accounting;
use packet::event::{Event, Stage};
use packet::port::refusal;
use packet::{DropReason, Meta, Packet};
use stack::{Host, HostLimits, Interface, Verdict, World};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{Instant, InterfaceId, Mac, PortId};

/// How often a packet may go from the general path back to classification.
pub(crate) const ROUNDS: u8 = 4;

/// The router's own protocols on a worker.
pub(super) struct Protocols {
    pub host: Host,
    /// When the host has something to do.
    pub host_due: Instant,
    /// The neighbours that are configured.
    pub statics: BTreeMap<(InterfaceId, IpAddr), Mac>,
    /// What the host has found out about next hops just now.
    pub verdicts: Vec<(NextHop, Verdict)>,
}

impl Protocols {
    pub fn new(limits: HostLimits) -> Protocols {
        Protocols { host: Host::new(limits), host_due: Instant::FAR, statics: BTreeMap::new(), verdicts: Vec::new() }
    }
}

/// What the host may reach of its worker while it handles packets of the instance `current`.
pub(super) struct Outlet<'a> {
    snapshot: &'a Snapshot,
    tables: &'a Tables,
    dispatch: &'a Dispatch,
    fates: &'a mut Accounting,
    instances: &'a mut [Option<Instance>],
    ports: &'a [Option<PortState>],
    duties: &'a mut Duties,
    verdicts: &'a mut Vec<(NextHop, Verdict)>,
    groups: &'a mut [GroupCounters],
    current: Target,
}

impl Worker {
    pub(super) fn with_host<T>(&mut self, current: Target, work: impl FnOnce(&mut Host, &mut Outlet<'_>) -> T) -> T {
        let mut outlet = Outlet {
            snapshot: &self.snapshot,
            tables: &self.tables,
            dispatch: &self.paths.dispatch,
            fates: &mut self.fates,
            instances: &mut self.paths.instances,
            ports: &self.ports.states,
            duties: &mut self.duties,
            verdicts: &mut self.protocols.verdicts,
            groups: &mut self.paths.groups,
            current,
        };
        let answer = work(&mut self.protocols.host, &mut outlet);
        if !self.protocols.verdicts.is_empty() {
            self.tell_verdicts();
        }
        answer
    }
}

impl Outlet<'_> {
    fn instance(&mut self, target: Target) -> Option<&mut Instance> {
        self.instances.get_mut(usize::from(target))?.as_mut()
    }

    /// The host is about to have this packet.
    pub(super) fn taken(&mut self, packet: &Packet) {
        self.fates.passed(packet, Stage::Host(packet.meta().exception));
    }

    fn count(&mut self, change: impl FnOnce(&mut crate::path::PathCounters)) {
        if let Some(instance) = self.instance(self.current) {
            change(&mut instance.counters);
        }
    }
}

impl World for Outlet<'_> {
    fn now(&self) -> Instant {
        self.fates.now
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

    fn nat(&self) -> Option<(&Rules, &Nat)> {
        self.snapshot.nat.as_ref().map(|rules| (rules, &*self.snapshot.translations))
    }

    fn generate(&mut self, length: usize) -> Option<Packet> {
        let mut packet = self.fates.pool.take_for(length)?;
        packet.meta_mut().flags = Meta::GENERATED;
        packet.meta_mut().timestamp = self.fates.now;
        // It came in by no port.
        packet.meta_mut().in_port = PortId(u16::MAX);
        self.fates.ledger.generate(1);
        self.count(|counters| counters.generated += 1);
        Some(packet)
    }

    fn send(&mut self, interface: InterfaceId, mut packet: Packet) {
        let egress = *self.snapshot.egress(interface);
        packet.meta_mut().out_interface = interface;
        let path = usize::from(self.current != self.dispatch.control);
        let (target, now) = (self.dispatch.instance(path, egress.port), self.fates.now);
        let refused = match self.instance(target) {
            Some(instance) => {
                (packet.meta_mut().path, packet.meta_mut().class) = (instance.path, instance.class);
                let refused = instance.output.push(packet).map(|packet| (packet, DropReason::OutputQueue));
                instance.since.holds(instance.output.len(), now);
                refused
            }
            None => Some((packet, DropReason::PortRemoved)),
        };
        match refused {
            Some((packet, reason)) => self.drop(packet, reason),
            None => {
                if let Some(Some(state)) = self.ports.get(egress.port.index()) {
                    self.duties.leave(state.output, 1, self.fates.now);
                }
            }
        }
    }

    fn forward(&mut self, mut packet: Packet) {
        if packet.meta_mut().go_round() > ROUNDS {
            return self.drop(packet, DropReason::NeighbourFailed);
        }
        let classifier =
            Classifier { snapshot: self.snapshot, tables: self.tables, dispatch: self.dispatch, witness: Unwitnessed };
        let target = classifier.again(&mut packet);
        self.fates.passed(&packet, Stage::Classified);
        if target == REFUSED {
            let reason = refusal(&packet).unwrap_or(DropReason::PortRemoved);
            return self.drop(packet, reason);
        }
        self.count(|counters| counters.diverted += 1);
        if target == COPIED {
            let Outlet { snapshot, tables, dispatch, fates, instances, duties, groups: counters, .. } = self;
            let mut copier = Copier { snapshot, tables, dispatch, fates, instances, duties, counters, touched: None };
            return copier.replicate(packet);
        }
        let Some(instance) = self.instances.get_mut(usize::from(target)).and_then(Option::as_mut) else {
            return self.fates.drop(packet, DropReason::PortRemoved);
        };
        self.fates.passed(&packet, Stage::Waiting { behind: instance.input.len() });
        if let Some(packet) = enter(instance, packet) {
            self.fates.drop(packet, DropReason::PathQueue);
        }
        self.duties.came(target, instance, 1, self.fates.now);
    }

    fn consume(&mut self, packet: Packet) {
        self.count(|counters| counters.consumed += 1);
        self.fates.consume(packet);
    }

    fn drop(&mut self, packet: Packet, reason: DropReason) {
        self.count(|counters| counters.dropped += 1);
        self.fates.drop(packet, reason);
    }

    fn settled(&mut self, interface: InterfaceId, address: IpAddr, verdict: Verdict) {
        self.verdicts.push(((interface, address), verdict));
    }

    fn event(&mut self, event: Event<'_>) {
        self.fates.event(&event);
    }
}
