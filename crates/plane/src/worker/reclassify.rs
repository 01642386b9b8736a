//! Packets to which a function has given a new destination are classified again. They go to the path and the port of that
//! destination (spec Q-06: a function may finish the classification).

use super::instances::Instances;
use super::paths::Paths;
use super::task_table::TaskTable;
use super::vector::Vector;
use super::{MAX_ROUNDS, Worker};
use crate::classify::{Classifier, REFUSED, Target, UNCHANGED, Unwitnessed, is_redirected};
use crate::snapshot::Snapshot;
use fib::Tables;
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::port::refusal_reason;
use packet::{Batch, DropReason, Packet};

impl Worker {
    /// Takes the packets to be classified again out of the batch, in order. Returns true if some of the remaining packets are
    /// refused or exceptions.
    pub(super) fn reclassify_batch(&mut self, from: Target) -> bool {
        self.classify_emitted(from);
        let Vector { batch, kept, scratch, .. } = &mut self.vector;
        if !batch.as_slice().iter().any(is_redirected) {
            // Called because some packet does not simply continue, so the reason is a refusal or another exception.
            return true;
        }
        for packet in batch.as_mut_slice().iter_mut().filter(|packet| is_redirected(packet)) {
            // A loop between functions and classifier is bounded by `MAX_ROUNDS`.
            if packet.meta_mut().count_classification() > MAX_ROUNDS {
                packet.meta_mut().refused = DropReason::Rounds.index() as u8 + 1;
            }
        }
        let Paths { dispatch, instances, .. } = &mut self.paths;
        let (snapshot, tables) = (&*self.snapshot, &*self.tables);
        Classifier { snapshot, tables, dispatch, witness: Unwitnessed }.reclassify_batch(batch.as_mut_slice(), scratch);
        let mut odd = false;
        let mut rest = &scratch.targets[..batch.len()];
        while let Some(&target) = rest.first() {
            let run = rest.iter().position(|next| *next != target).unwrap_or(rest.len());
            rest = &rest[run..];
            if target == UNCHANGED {
                for packet in batch.drain().take(run) {
                    odd |= packet.meta().refused | packet.meta().exception != 0;
                    // A second batch, because the slots of drained packets are not free before the batch is empty.
                    kept.push(packet);
                }
                continue;
            }
            enter_run((from, target), (batch, run), instances, &mut self.tasks, &mut self.accounting);
        }
        drop(batch.drain());
        std::mem::swap(batch, kept);
        odd
    }
}

/// Moves the first `run` packets of a batch from the path `from` to their new path.
fn enter_run(
    (from, target): (Target, Target),
    (batch, run): (&mut Batch, usize),
    instances: &mut Instances,
    tasks: &mut TaskTable,
    accounting: &mut Accounting,
) {
    if accounting.follows_packets() {
        batch.as_slice()[..run].iter().for_each(|packet| accounting.record_stage(packet, Stage::Classified));
    }
    let left = instances.get_mut(from).map(|left| &mut left.counters);
    if let Some(left) = left {
        // The packets have left this path even if the next queue is full.
        *(if target == REFUSED { &mut left.dropped } else { &mut left.diverted }) += run as u64;
    }
    let Some(instance) = instances.get_mut(target) else {
        for packet in batch.drain().take(run) {
            let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
            accounting.drop(packet, reason);
        }
        return;
    };
    accounting.record_waiting(&batch.as_slice()[..run], instance.input.len(), instance.input.room());
    let fitted = instance.enter_batch(batch, run, |packet| accounting.drop(packet, DropReason::PathQueue));
    tasks.record_arrivals(target, instance, fitted, accounting.now);
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
