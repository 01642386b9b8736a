//! Classify: finds the path and the egress port of each packet in the batch, then enqueues it on the input queue of that path at
//! that port.

use crate::classify::{Classifier, REFUSED, REPLICATED, TUNNELLED, Target, Unwitnessed};
use crate::worker::Worker;
use crate::worker::paths::Paths;
use crate::worker::ports::Ports;
use crate::worker::vector::Vector;
use packet::DropReason;
use packet::port::refusal_reason;
use units::{Instant, PortId};

impl Worker {
    /// Classifies the batch received from `port`. The packets arrived at `arrival`, or each has a timestamp of its own. Packet hooks
    /// see the batch if they ask for it, except the last `passing` packets: they pass without execution.
    #[inline(always)]
    pub(in crate::worker) fn classify(&mut self, port: PortId, arrival: Option<Instant>, passing: usize) {
        let Some(state) = self.ports.states.get_mut(port) else { return };
        let Vector { batch, scratch, injecting, .. } = &mut self.vector;
        let (snapshot, dispatch) = (&*self.snapshot, &self.paths.dispatch);
        let Some(view) = snapshot.port(port) else { return scratch.targets[..batch.len()].fill(REFUSED) };
        let classifier = Classifier { snapshot, tables: &self.tables, dispatch, witness: Unwitnessed };
        let packets = batch.as_mut_slice();
        let bytes = classifier.classify_batch((port, view), arrival, packets, scratch, &mut state.route_cache);
        state.received_bytes += bytes;
        self.accounting.record_classified(port, batch.as_mut_slice(), *injecting);
        if passing > 0 {
            self.hooks.mark_unexecuted(port, (batch, scratch), passing, &self.paths.instances);
        }
        if scratch.hooked {
            self.hooks.visit_input(port, state, self.accounting.now, (batch, scratch));
        }
    }

    /// Enqueues the classified batch on the input queues of its paths. Consecutive packets with the same target are enqueued
    /// together.
    #[inline]
    pub(in crate::worker) fn enqueue(&mut self, port: PortId) {
        let Worker {
            ports: Ports { states, .. },
            vector: Vector { batch, scratch, injecting, .. },
            paths: Paths { instances, touched, dispatch, .. },
            accounting,
            tasks,
            ..
        } = self;
        let Some(state) = states.get_mut(port) else { return };
        touched.clear();
        let (some_wait, control, injecting) = (!self.neighbours.waiting.is_empty(), dispatch.control, *injecting);
        let batch_length = batch.len();
        let mut rest = &scratch.targets[..batch_length];
        while let Some(&target) = rest.first() {
            let done = batch_length - rest.len();
            if some_wait || target == control {
                // Earlier packets of the same flow may be in the neighbour queue: each packet has to be checked, or it would
                // overtake them.
                return self.enqueue_one_by_one(port, done);
            }
            let run = run_of(target, rest);
            rest = &rest[run..];
            let Some(instance) = instances.get_mut(target) else {
                if target == REPLICATED || target == TUNNELLED {
                    return self.enqueue_one_by_one(port, done);
                }
                state.refused += run as u64;
                for packet in batch.drain().take(run) {
                    let reason = refusal_reason(&packet).unwrap_or(DropReason::PortRemoved);
                    accounting.drop_at(port, packet, reason);
                }
                continue;
            };
            if state.throttles && instance.input.room() < run {
                return self.enqueue_throttled(port, done);
            }
            state.entered += run as u64;
            accounting.record_waiting(&batch.as_slice()[..run], instance.input.len(), instance.input.room());
            // Inline forwarding is allowed only with an empty input queue. Otherwise the packets would overtake earlier ones.
            let alone = instance.may_inline && !injecting && !instance.has_work() && !scratch.offloads;
            instance.inlined |= alone && tasks.run_queue.fits_budget(state.input, instance.task);
            instance.offloads |= scratch.offloads;
            instance.hooked |= scratch.hooked;
            instance.counters.entered += run as u64;
            let refuse = |packet| accounting.drop_at(port, packet, DropReason::PathQueue);
            let fitted = instance.input.append(batch, run, refuse);
            instance.counters.dropped += (run - fitted) as u64;
            tasks.run_queue.trace_drop(instance.task, run - fitted, accounting.now);
            if !touched.contains(&target) {
                touched.push(target);
            }
            tasks.run_queue.count_offered(instance.task, run as u32);
            if !instance.inlined {
                tasks.record_arrivals(target, instance, fitted, accounting.now);
            }
        }
    }
}

/// Counts the packets at the start of `targets` that have the target `target`.
#[inline]
fn run_of(target: Target, targets: &[Target]) -> usize {
    // Most batches have a single target. This check of the whole batch has no branch for each packet.
    if targets.iter().fold(0, |other, next| other | (next ^ target)) == 0 {
        return targets.len();
    }
    targets.iter().position(|&next| next != target).unwrap_or(targets.len())
}
