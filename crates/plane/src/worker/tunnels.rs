//! Tunnels on a worker (ADR-0076). The input task of a tunnel's port encapsulates the packets that the port has sent, and receives the packets that were
//! decapsulated. An outer packet for the router ends where it would be put on its path.

use super::Worker;
use super::ports::{PortState, Ports};
use crate::classify::{Classifier, Unwitnessed};
use crate::snapshot::Snapshot;
use crate::tunnel::{OtherEnds, Tunnel, TunnelEnd, Tunnels, Unencapsulated};
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::{Batch, DropReason, Exception, Packet};
use std::net::IpAddr;
use units::PortId;

impl Worker {
    /// Encapsulates the packets that the port of a tunnel has sent, and puts the outer packets on their paths. Returns their number.
    pub(super) fn encapsulate(&mut self, port: PortId) -> usize {
        let Worker { ports, vector, accounting, .. } = self;
        let end = ports.states.get_mut(port).and_then(|state| state.tunnel.as_mut());
        let Some(end) = end.filter(|end| end.waiting() > 0) else { return 0 };
        end.receive(accounting.now, &mut vector.batch, &mut accounting.pool);
        let count = vector.batch.len();
        // Each packet has been sent by the tunnel's port. The outer packet is another one.
        accounting.ledger.generate(count as u64);
        // A generation without the port has no tunnel either. Cloned, because the worker is borrowed below.
        let (snapshot, flow_key) = (self.snapshot.clone(), self.tables.flow_key());
        let tunnel = snapshot.tunnels.of_port(port);
        while let Some(mut packet) = self.vector.batch.pop_front() {
            let removed = Err(Unencapsulated::Dropped(DropReason::PortRemoved));
            let now = self.accounting.now;
            let ends = tunnel.map(|tunnel| (tunnel, tunnel.other_ends(packet.bytes(), now)));
            let remote = match ends {
                Some((_, OtherEnds::One(remote))) => Some(remote),
                // The packet itself is for the last one, and copies are for the others (head-end replication).
                Some((tunnel, OtherEnds::All(remotes))) => {
                    let (last, others) = remotes.split_last().unzip();
                    for &remote in others.unwrap_or_default() {
                        self.replicate_into(tunnel, &packet, (remote, flow_key), &snapshot);
                    }
                    last.copied()
                }
                None => None,
            };
            let encapsulated = tunnel.zip(remote);
            match encapsulated.map_or(removed, |(tunnel, remote)| tunnel.encapsulate(&mut packet, remote, flow_key)) {
                Ok(()) => {
                    self.enter_outer(packet, &snapshot);
                }
                Err(Unencapsulated::Ignored) => self.accounting.consume(packet),
                Err(Unencapsulated::Dropped(reason)) => self.accounting.drop_at(port, packet, reason),
            }
        }
        // `pop_front` frees no slots: draining the empty batch does.
        drop(self.vector.batch.drain());
        count
    }

    /// Classifies an outer packet, and puts it on its path.
    fn enter_outer(&mut self, mut packet: Packet, snapshot: &Snapshot) {
        let (tables, dispatch) = (&*self.tables, &self.paths.dispatch);
        let target = Classifier { snapshot, tables, dispatch, witness: Unwitnessed }.classify_again(&mut packet);
        self.accounting.record_stage(&packet, Stage::Classified);
        self.enter_path(packet, target);
    }

    /// Sends a copy of a frame of a segment to another end.
    fn replicate_into(
        &mut self,
        tunnel: &Tunnel,
        packet: &Packet,
        (remote, flow_key): (IpAddr, u64),
        snapshot: &Snapshot,
    ) {
        let copy = self.accounting.pool.take_for(packet.len()).map(|mut copy| {
            let fits = copy.copy(packet);
            debug_assert!(fits, "the frame was chosen by its length");
            copy
        });
        let Some(mut copy) = copy else { return self.accounting.record_missed_copy(packet, DropReason::PoolEmpty) };
        self.accounting.ledger.copy();
        match tunnel.encapsulate(&mut copy, remote, flow_key) {
            Ok(()) => self.enter_outer(copy, snapshot),
            Err(Unencapsulated::Ignored) => self.accounting.consume(copy),
            Err(Unencapsulated::Dropped(reason)) => self.accounting.drop_at(tunnel.port, copy, reason),
        }
    }

    /// Ends a packet that has arrived at the end of its tunnel: the packet within arrives at the tunnel's port. Returns true if it does. Otherwise the
    /// packet was dropped.
    pub(super) fn decapsulate(&mut self, mut packet: Packet) -> bool {
        let Worker { snapshot, ports, accounting, tasks, .. } = self;
        // The classifier has stored the interface with the packet's destination there.
        let inner = match snapshot.tunnels.inner(packet.meta().out_interface, &packet) {
            Ok(inner) => inner,
            Err(reason) => {
                accounting.drop(packet, reason);
                return false;
            }
        };
        let state = ports.states.get_mut(inner.tunnel.port).filter(|state| state.closing.is_none());
        let Some((end, input)) = state.and_then(|state| Some((state.tunnel.as_mut()?, state.input))) else {
            accounting.drop(packet, DropReason::PortRemoved);
            return false;
        };
        if end.is_full() {
            accounting.drop(packet, DropReason::TunnelQueue);
            return false;
        }
        accounting.decapsulate(&packet);
        // Neither can fail: the outer headers are longer than a link header, and there is room.
        let delivered = inner.cut(&mut packet, Some(accounting.now));
        let refused = end.deliver(packet, &mut accounting.pool).is_err();
        debug_assert!(delivered && !refused);
        tasks.run_queue.wake(input, accounting.now);
        tasks.idle_dispatches = 0;
        true
    }

    /// Ends the packets that the local protocols have found to be at the end of a tunnel.
    #[cold]
    pub(super) fn decapsulate_waiting(&mut self) {
        for mut packet in std::mem::take(&mut self.protocols.tunnelled) {
            let came = packet.meta().in_interface;
            let destination = Tunnels::destination(&packet);
            // A packet that the router has reassembled was not classified since.
            if let Some(fib::Outcome::Local(owner)) = destination.map(|to| self.tables.lookup_from(came, to)) {
                packet.meta_mut().out_interface = owner;
            }
            self.decapsulate(packet);
        }
    }

    /// Ends the packets at the ends of tunnels among those on the path `control`, on a worker without local protocols. Returns their number.
    #[cold]
    pub(super) fn decapsulate_queued(&mut self) -> usize {
        let control = self.paths.dispatch.control;
        let Some(instance) = self.paths.instances.get_mut(control) else { return 0 };
        let packets = instance.input.extract(|packet| packet.meta().exception == Exception::Tunnel as u8);
        let count = packets.len();
        instance.counters.diverted += count as u64;
        for packet in packets {
            self.decapsulate(packet);
        }
        count
    }
}

impl PortState {
    /// Drops the packets that the port of a tunnel has sent and that are not encapsulated yet: the port is about to close.
    pub(super) fn discard_tunnelled(&mut self, id: PortId, reason: DropReason, accounting: &mut Accounting) {
        self.tunnel.iter_mut().for_each(|end| discard(end, id, reason, accounting));
    }
}

fn discard(end: &mut TunnelEnd, id: PortId, reason: DropReason, accounting: &mut Accounting) {
    let mut batch = Batch::new();
    while end.waiting() > 0 {
        end.receive(accounting.now, &mut batch, &mut accounting.pool);
        accounting.ledger.generate(batch.len() as u64);
        batch.drain().for_each(|packet| accounting.drop_at(id, packet, reason));
    }
}

impl Ports {
    /// Drops the packets within all tunnels, because the worker ends.
    pub(super) fn discard_tunnelled(&mut self, reason: DropReason, accounting: &mut Accounting) {
        self.states.open_mut().for_each(|(id, state)| state.discard_tunnelled(id, reason, accounting));
    }
}
