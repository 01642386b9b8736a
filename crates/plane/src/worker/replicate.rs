//! Replication of multicast packets (adr 0042). Each interface of the packet's route gets a copy, and the copies share the payload.
//!
//! A packet is replicated when it would be enqueued on its path. So each copy has the path's instance at its egress port, with the
//! queues, functions and scheme there. The drop of one copy does not affect the others.

use super::instances::Instances;
use super::paths::Paths;
use super::task_table::TaskTable;
use crate::classify::{Dispatch, Target};
use crate::multicast::{GroupCounters, MulticastRoute, REPLICA};
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::segment::{self, NextSegment, PacketSplitter};
use packet::{DropReason, Packet, SharedPacket};
use units::InterfaceId;

/// The parts of a worker that replication needs.
pub(super) struct Copier<'a> {
    pub snapshot: &'a Snapshot,
    pub tables: &'a Tables,
    pub dispatch: &'a Dispatch,
    pub accounting: &'a mut Accounting,
    pub instances: &'a mut Instances,
    pub tasks: &'a mut TaskTable,
    pub counters: &'a mut [GroupCounters],
    /// The instances that have received packets, if the caller wants them.
    pub touched: Option<&'a mut Vec<Target>>,
}

impl Copier<'_> {
    /// Ends `packet`, whose route and path the classifier has found, and puts copies on the path's instances. Pending offloads are
    /// completed before: once, not for each copy.
    pub fn replicate(&mut self, mut packet: Packet) {
        let (snapshot, dispatch) = (self.snapshot, self.dispatch);
        let position = packet.meta().adjacency.index();
        let groups = dispatch.groups.borrow();
        let Some(route) = snapshot.multicast.get(position).or_else(|| groups.get().get(position)) else {
            return self.accounting.drop(packet, DropReason::PortRemoved);
        };
        let mut counted = GroupCounters::default();
        if packet.is_offloaded() && packet.offload().is_super_frame() {
            self.replicate_segments(packet, route, &mut counted);
        } else if packet.is_offloaded() && !segment::complete(&mut packet) {
            self.accounting.drop(packet, DropReason::BadOffload);
        } else {
            self.copy_to_all(packet, route, &mut counted);
        }
        match self.counters.get_mut(position) {
            Some(counters) => *counters += counted,
            None => groups.get().count(position, counted),
        }
    }

    /// Replicates each segment of a super-frame.
    fn replicate_segments(&mut self, packet: Packet, route: &MulticastRoute, counted: &mut GroupCounters) {
        // No MTU yet: each copy is compared with that of its own egress interface.
        let mut half = match PacketSplitter::new(packet, usize::MAX) {
            Ok(half) => half,
            Err((packet, reason)) => return self.accounting.drop(packet, reason),
        };
        loop {
            match half.next(self.accounting) {
                NextSegment::Next(segment) => self.copy_to_all(segment, route, counted),
                NextSegment::All => return self.accounting.consume(half.into_packet()),
                NextSegment::NoFrame => return self.accounting.drop(half.into_packet(), DropReason::PoolEmpty),
            }
        }
    }

    fn copy_to_all(&mut self, packet: Packet, route: &MulticastRoute, counted: &mut GroupCounters) {
        let (length, original) = (packet.len(), packet.number());
        // From here on the payload is read only: every copy has a head of its own.
        let shared = SharedPacket::new(packet);
        let mut copies = 0;
        for &out in &route.to {
            copies += u64::from(self.copy_to(&shared, out, original));
        }
        let dropped = route.to.len() as u64 - copies;
        *counted += GroupCounters { packets: 1, bytes: length as u64, copies, dropped };
        self.accounting.replicate(shared);
    }

    /// Makes one copy. Returns true if the copy is on its path.
    fn copy_to(&mut self, shared: &SharedPacket, out: InterfaceId, original: usize) -> bool {
        let Copier { snapshot, tables, dispatch, accounting, instances, tasks, touched, .. } = self;
        let Some(mut copy) = shared.copy(&mut accounting.pool) else {
            accounting.record_missed_copy(shared.packet(), DropReason::PoolEmpty);
            return false;
        };
        accounting.ledger.copy();
        let meta = copy.meta_mut();
        // The classifier stores the position of the path in the field of the adjacency's version.
        let path = usize::from(std::mem::take(&mut meta.version));
        (meta.adjacency, meta.out_interface) = (REPLICA, out);
        let egress = snapshot.egress(out);
        // The MTU limits the IP packet, without its link header.
        let length = shared.packet().len() - usize::from(meta.l3);
        accounting.record_stage(&copy, Stage::Copied { original });
        let target = dispatch.instance(path, egress.port);
        let Some(instance) = instances.get_mut(target) else {
            accounting.drop(copy, DropReason::PortRemoved);
            return false;
        };
        if length > usize::from(tables.mtu(out, egress.mtu)) {
            // No ICMP error is sent about a multicast packet (RFC 1812 4.3.2.7).
            accounting.drop(copy, DropReason::TooBig);
            return false;
        }
        // A function that reads the payload needs head and payload in one buffer.
        let takes_heads = snapshot.paths.get(path).is_some_and(|path| path.reads_only_headers());
        if !takes_heads && !accounting.pool.join(&mut copy) {
            accounting.drop(copy, DropReason::NoSuperFrame);
            return false;
        }
        accounting.record_stage(&copy, Stage::Waiting { packets_ahead: instance.input.len() });
        let refused = instance.enter(copy);
        let entered = refused.is_none();
        if let Some(copy) = refused {
            accounting.drop(copy, DropReason::PathQueue);
        }
        tasks.record_arrivals(target, instance, 1, accounting.now);
        if let Some(touched) = touched
            && !touched.contains(&target)
        {
            touched.push(target);
        }
        entered
    }
}

impl Paths {
    /// Replicates a packet that its port has already counted.
    #[cold]
    pub(in crate::worker) fn replicate(
        &mut self,
        packet: Packet,
        snapshot: &Snapshot,
        tables: &Tables,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Paths { dispatch, instances, group_counters: groups, touched, .. } = self;
        let counters = &mut groups[..];
        Copier { snapshot, tables, dispatch, accounting, instances, tasks, counters, touched: Some(touched) }
            .replicate(packet);
    }
}
