//! The forwarding stage for super-frames, partial checksums and packets above the egress MTU. It does in software, in order, what
//! the port's offloads do not cover.
//!
//! A path instance has at most one partly segmented packet ([`PacketSplitter`]). It continues with that packet first. The packets behind it
//! stay on the input queue until its last part is on the output queue. So the packets of a flow leave in the order of arrival,
//! however long each is.

use super::paths::Paths;
use super::ports::Ports;
use super::vector::Vector;
use crate::classify::Target;
use crate::path::Instance;
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::port::Offloads;
use packet::segment::{NextSegment, PacketSplitter, is_to_fragment, must_segment, prepare_for_port, refit_queue};
use packet::{BATCH, DropReason};
use units::PortId;

/// Continues to cut the half-segmented packet of an instance, as far as its output queue has room and for at most one batch.
/// Returns the number of segments.
fn continue_segmenting(instance: &mut Instance, accounting: &mut Accounting) -> usize {
    let Some(mut half) = instance.half.take() else { return 0 };
    // The segments that do not fit are cut in a later dispatch.
    let room = instance.output.room().min(BATCH);
    for made in 0..room {
        match half.next(accounting) {
            NextSegment::Next(segment) => {
                instance.counters.generated += 1;
                let refused = instance.output.push(segment);
                assert!(refused.is_none(), "there was room");
            }
            NextSegment::All => {
                instance.counters.consumed += 1;
                accounting.consume(half.into_packet());
                return made;
            }
            NextSegment::NoFrame => {
                instance.counters.dropped += 1;
                accounting.drop(half.into_packet(), DropReason::PoolEmpty);
                return made;
            }
        }
    }
    // Frees the super-frame together with its last segment.
    if half.is_done() {
        instance.counters.consumed += 1;
        accounting.consume(half.into_packet());
    } else {
        instance.half = Some(half);
    }
    room
}

impl Ports {
    /// Refits the packets on the output queues after the port has lost offloads.
    #[cold]
    pub(in crate::worker) fn refit_paths(&mut self, port: PortId, paths: &mut Paths, accounting: &mut Accounting) {
        let Paths { instances, .. } = paths;
        let Ports { states: ports, .. } = self;
        // Only the output queues: packets on an input queue meet the new offloads in `segment`, behind the functions.
        let Some(state) = ports.get(port) else { return };
        for &target in &state.outputs {
            let Some(instance) = instances.get_mut(target) else { continue };
            let done = refit_queue(&mut instance.output, state.link.offloads(), accounting);
            instance.counters.generated += done.generated;
            instance.counters.consumed += done.consumed;
            instance.counters.dropped += done.dropped;
        }
    }
}

impl Paths {
    /// The offloads of the port of an instance.
    pub(in crate::worker) fn port_offloads(&self, target: Target, ports: &Ports) -> Offloads {
        let port = self.instances.get(target).and_then(|i| i.port);
        let state = port.and_then(|port| ports.states.get(port));
        state.map(|state| state.link.offloads()).unwrap_or_default()
    }

    /// Fills the batch from the input queue of an instance. A packet that has to be cut is the last of the batch. A partly
    /// segmented packet continues first. Returns the number of packets moved.
    #[cold]
    pub(in crate::worker) fn gather(
        &mut self,
        target: Target,
        most: usize,
        ports: &mut Ports,
        vector: &mut Vector,
        accounting: &mut Accounting,
    ) -> usize {
        let can = self.port_offloads(target, ports);
        let Paths { instances, .. } = self;
        let Vector { batch, .. } = vector;
        let Some(instance) = instances.get_mut(target) else { return 0 };
        let cut = continue_segmenting(instance, accounting);
        if instance.half.is_some() {
            return cut;
        }
        let most = instance.output.room().min(most);
        while batch.len() < most {
            let Some(packet) = instance.input.pop() else { break };
            let last = must_segment(&packet, can) || is_to_fragment(&packet);
            batch.push(packet);
            if last {
                break;
            }
        }
        // The packets behind the batch were not examined, so they may need offloads.
        instance.offloads = !instance.input.is_empty();
        cut + batch.len()
    }

    /// Puts the batch on the output queue of an instance, each packet in the form that the port's offloads accept. Returns the
    /// number of segments.
    #[cold]
    pub(in crate::worker) fn segment(
        &mut self,
        target: Target,
        snapshot: &Snapshot,
        tables: &Tables,
        ports: &mut Ports,
        vector: &mut Vector,
        accounting: &mut Accounting,
    ) -> usize {
        let can = self.port_offloads(target, ports);
        let Paths { instances, .. } = self;
        let Vector { batch, .. } = vector;
        let Some(instance) = instances.get_mut(target) else { return 0 };
        for mut packet in batch.drain() {
            if !must_segment(&packet, can) && !is_to_fragment(&packet) {
                if !prepare_for_port(&mut packet, can, &mut accounting.pool) {
                    instance.counters.dropped += 1;
                    accounting.drop(packet, DropReason::NoSuperFrame);
                } else if let Some(packet) = instance.output.push(packet) {
                    // Room was checked before dequeueing. Only a path that generates packets can overflow the queue.
                    instance.counters.dropped += 1;
                    accounting.drop(packet, DropReason::OutputQueue);
                }
                continue;
            }
            let out = packet.meta().out_interface;
            // The MTU of the medium may be below the configured one.
            let mtu = usize::from(tables.mtu(out, snapshot.egress(out).mtu));
            match PacketSplitter::new(packet, mtu) {
                // Only the last packet of the batch can be one: see [`Paths::gather`].
                Ok(half) => instance.half = Some(half),
                Err((packet, reason)) => {
                    instance.counters.dropped += 1;
                    accounting.drop(packet, reason);
                }
            }
        }
        continue_segmenting(instance, accounting)
    }
}
