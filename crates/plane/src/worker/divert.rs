//! Packets that leave the normal way behind the functions of their path. Refused packets are dropped, exceptions go to the
//! router's own protocols, and packets with an unresolved neighbour go to the neighbour queue.

use super::Worker;
use super::neighbour_queue::QueuePosition;
use super::vector::Vector;
use crate::classify::{Classifier, Target, Unwitnessed};
use packet::port::refusal_reason;
use packet::segment::complete_for_local;
use packet::{DropReason, Exception, Packet};
use units::{AdjacencyId, Nanos};

impl Worker {
    /// Takes refused packets and packets for the router's own protocols out of the batch. Packets whose next hop is lost go to
    /// the neighbour queue. All packets behind them on the same path with the same next hop follow, so that none overtakes them.
    #[cold]
    pub(super) fn divert(&mut self, from: Target) {
        let mut lost: Vec<AdjacencyId> = Vec::new();
        let (mut kept, mut diverted): (Vec<Packet>, Vec<Packet>) = (Vec::new(), Vec::new());
        let Some(instance) = self.paths.instances.get_mut(from) else { return };
        for mut packet in self.vector.batch.drain() {
            if let Some(reason) = refusal_reason(&packet) {
                instance.counters.dropped += 1;
                self.accounting.drop(packet, reason);
            } else if packet.is_offloaded() && !complete_for_local(&mut packet) {
                instance.counters.dropped += 1;
                self.accounting.drop(packet, DropReason::BadOffload);
            } else if packet.meta().exception == Exception::Delivered as u8 {
                instance.counters.diverted += 1;
                self.accounting.consume(packet);
            } else if packet.meta().exception != 0 {
                let adjacency = packet.meta().adjacency;
                if packet.meta().exception == Exception::Resolve as u8 && !lost.contains(&adjacency) {
                    lost.push(adjacency);
                }
                diverted.push(packet);
            } else {
                kept.push(packet);
            }
        }
        kept.into_iter().for_each(|packet| self.vector.batch.push(packet));
        if !lost.is_empty() {
            for mut packet in instance.input.extract(|packet| lost.contains(&packet.meta().adjacency)) {
                packet.meta_mut().exception = Exception::Resolve as u8;
                diverted.push(packet);
            }
        }
        instance.counters.diverted += diverted.len() as u64;
        // Packets of these flows in the neighbour queue arrived later: these must go in front of them. So they are added last to
        // first, and the first ends up in front.
        let lost = |packet: &Packet| packet.meta().exception == Exception::Resolve as u8;
        let (wait, others): (Vec<Packet>, Vec<Packet>) = diverted.into_iter().partition(lost);
        others.into_iter().chain(wait.into_iter().rev()).for_each(|packet| self.divert_one(packet));
        self.paths.wake_instance(self.paths.dispatch.control, &mut self.tasks, &mut self.accounting);
    }

    fn divert_one(&mut self, packet: Packet) {
        if packet.meta().exception == Exception::Resolve as u8
            && let Some(hop) = self.neighbours.waiting.next_hop_ahead(&packet).or_else(|| {
                let (snapshot, tables, dispatch) = (&*self.snapshot, &*self.tables, &self.paths.dispatch);
                let witness = Unwitnessed;
                self.neighbours.next_hop(&packet, Classifier { snapshot, tables, dispatch, witness })
            })
        {
            return self.neighbours.hold(
                hop,
                packet,
                QueuePosition::First,
                &self.snapshot,
                &mut self.paths,
                &mut self.accounting,
            );
        }
        let Some(control) = self.paths.instances.get_mut(self.paths.dispatch.control) else {
            return self.accounting.drop(packet, DropReason::PathQueue);
        };
        if let Some(packet) = control.enter(packet) {
            self.accounting.drop(packet, DropReason::PathQueue);
        }
    }
}

impl Vector {
    /// Refuses the packets of the batch if they took longer than `limit` on average. Returns true in that case.
    #[cold]
    pub(in crate::worker) fn refuse_over_limit(&mut self, used: Nanos, limit: Nanos) -> bool {
        let packets = self.batch.as_mut_slice();
        let over = used > limit * packets.len() as u64;
        if over {
            packets.iter_mut().for_each(|packet| packet.meta_mut().refused = DropReason::CpuLimit.index() as u8 + 1);
        }
        over
    }
}
