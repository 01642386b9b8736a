//! Packets to which a function has given a new destination are classified again. They go to the path and the port of that
//! destination (spec Q-06: a function may finish the classification).

use super::paths::Paths;
use super::task_table::TaskTable;
use super::{MAX_ROUNDS, Worker};
use crate::classify::{Classifier, REFUSED, Target, Unwitnessed};
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::port::refusal_reason;
use packet::{DropReason, Exception, Packet};

impl Worker {
    /// Takes the packets to be classified again out of the batch, in order. Returns true if some of the remaining packets are
    /// refused or exceptions.
    pub(super) fn reclassify_batch(&mut self, from: Target) -> bool {
        self.classify_emitted(from);
        let again = |packet: &Packet| {
            let meta = packet.meta();
            let onward = [Exception::Again as u8, Exception::Dispatched as u8].contains(&meta.exception);
            onward && meta.refused == 0
        };
        if !self.vector.batch.as_slice().iter().any(again) {
            // Called because some packet does not simply continue, so the reason is a refusal or another exception.
            return true;
        }
        let mut odd = false;
        while let Some(packet) = self.vector.batch.pop_front() {
            if again(&packet) {
                self.paths.reclassify(
                    from,
                    packet,
                    &self.snapshot,
                    &self.tables,
                    &mut self.tasks,
                    &mut self.accounting,
                );
            } else {
                odd |= packet.meta().refused | packet.meta().exception != 0;
                // A second batch, because the slots of popped packets are not free before the batch is empty.
                self.vector.kept.push(packet);
            }
        }
        drop(self.vector.batch.drain());
        std::mem::swap(&mut self.vector.batch, &mut self.vector.kept);
        odd
    }
}

impl Paths {
    /// Moves a packet of the path `from` to its new path.
    pub(in crate::worker) fn reclassify(
        &mut self,
        from: Target,
        mut packet: Packet,
        snapshot: &Snapshot,
        tables: &Tables,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        let Paths { dispatch, instances, .. } = self;
        let mut target = REFUSED;
        // A loop between functions and classifier is bounded by `MAX_ROUNDS`.
        if packet.meta_mut().count_classification() > MAX_ROUNDS {
            packet.meta_mut().refused = DropReason::Rounds.index() as u8 + 1;
        } else {
            target = Classifier { snapshot, tables, dispatch, witness: Unwitnessed }.classify_again(&mut packet);
            accounting.record_stage(&packet, Stage::Classified);
        }
        let counters = instances.get_mut(from).map(|left| &mut left.counters);
        let Some(counters) = counters else { return accounting.drop(packet, DropReason::PortRemoved) };
        if target == REFUSED {
            counters.dropped += 1;
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            return accounting.drop(packet, reason);
        }
        // The packet has left this path even if the next queue is full: `enter` counts the drop there.
        counters.diverted += 1;
        let Some(instance) = instances.get_mut(target) else {
            return accounting.drop(packet, DropReason::PortRemoved);
        };
        accounting.record_stage(&packet, Stage::Waiting { packets_ahead: instance.input.len() });
        if let Some(packet) = instance.enter(packet) {
            accounting.drop(packet, DropReason::PathQueue);
        }
        tasks.record_arrivals(target, instance, 1, accounting.now);
    }
}
