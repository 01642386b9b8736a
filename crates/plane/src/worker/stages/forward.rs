//! Forward: runs the functions of a path on a vector of its input queue. The last function, `ip`, decrements the time to live and
//! writes the next hop's link header. The packets then go to the output queue of the path.

use super::Forwarded;
use crate::classify::Target;
use crate::function::{self, Context};
use crate::hook::HookPoint;
use crate::snapshot::Layout;
use crate::worker::Worker;
use crate::worker::output_tasks::Part;
use cpu::meter::{Work, WorkKind, WorkMeter};
use packet::{BATCH, DropReason};
use std::cell::Cell;
use units::Nanos;

impl Worker {
    /// Runs the functions of an instance on at most `most` packets of its input queue.
    #[inline]
    pub(in crate::worker) fn forward<M: WorkMeter>(&mut self, target: Target, most: usize, meter: &mut M) -> Forwarded {
        if target == self.paths.dispatch.control || target == self.paths.dispatch.general {
            return self.forward_to_protocols(target, meter);
        }
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        if instance.function_thread.is_some() {
            return self.run_preemptible(target, most, Nanos::MAX, meter);
        }
        instance.fill.record(instance.input.len());
        if instance.interleaved {
            return self.forward_interleaved(target, most, meter);
        }
        // Rare packets (super-frames, partial checksums, packets above the MTU) take the slower way through `gather` and
        // `segment`.
        let offloads = instance.offloads || instance.half.is_some();
        let mut moved = if offloads {
            self.paths.gather(target, most, &mut self.ports, &mut self.vector, &mut self.accounting)
        } else {
            // With a time limit a vector is one packet, so that the time is that packet's.
            let most = if instance.limit.is_some() { 1 } else { most };
            // Never dequeue more than the output queue can hold: the packets behind it stay in order on the input queue.
            let most = instance.output.room().min(most);
            instance.input.pop_into(&mut self.vector.batch, most);
            self.vector.batch.len()
        };
        let bytes = if self.needs_bytes::<M>() { self.vector.batch.bytes() } else { 0 };
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        let (batch, accounting) = (&mut self.vector.batch, &mut self.accounting);
        accounting.latencies.record_started(instance.path, batch.as_slice(), accounting.now);
        let (hooked, more) = (instance.hooked, instance.hooked && instance.has_work());
        // The flag stays set while the queue holds packets, because some of them may be for a hook.
        instance.hooked = more;
        let leaves_by = instance.port.filter(|_| hooked);
        leaves_by
            .into_iter()
            .for_each(|port| self.hooks.record_dequeued(HookPoint::Output(port), accounting.now, batch, more));
        let (limit, asked) = (instance.limit, Cell::default());
        let (snapshot, tables, nat) = (&*self.snapshot, &self.tables, &*self.snapshot.translations);
        let context = Context { now: accounting.now, snapshot, tables, nat, limit, dry_run: false, extra_time: &asked };
        let mut odd = function::run(0, &mut instance.functions, context, batch.as_mut_slice(), accounting);
        if let Some(port) = leaves_by {
            odd |= !self.hooks.visit_output(port, self.ports.states.get(port), accounting.now, batch.as_mut_slice());
        }
        let work = Work {
            path: Some(instance.path),
            port: instance.port,
            limit,
            extra_time: asked.get(),
            ..Work::new(WorkKind::Forwarding, moved, bytes).executing(self.hooks.take_executed())
        };
        let used = self.lap(meter, work);
        if let Some(limit) = limit {
            odd |= self.vector.refuse_over_limit(used, limit);
        }
        // `odd` is rare: some packet was refused, needs the router's own protocols, or has a new destination.
        if odd && self.reclassify_batch(target) {
            self.divert(target);
        }
        if offloads {
            moved += self.paths.segment(
                target,
                &self.snapshot,
                &self.tables,
                &mut self.ports,
                &mut self.vector,
                &mut self.accounting,
            );
        }
        self.enqueue_output(target, Forwarded { moved, used, unfinished: false }, meter)
    }

    /// Puts the batch on the output queue of an instance after its functions have run.
    #[inline]
    pub(in crate::worker) fn enqueue_output<M: WorkMeter>(
        &mut self,
        target: Target,
        done: Forwarded,
        meter: &mut M,
    ) -> Forwarded {
        let Forwarded { moved, mut used, unfinished: away } = done;
        let Some(instance) = self.paths.instances.get_mut(target) else { return done };
        let ahead = instance.output.len();
        instance.output.append(&mut self.vector.batch, BATCH);
        for packet in self.vector.batch.drain() {
            // Room was checked before dequeueing. Only a path that generates packets can overflow the queue.
            instance.counters.dropped += 1;
            self.accounting.drop(packet, DropReason::OutputQueue);
        }
        let (port, waits, is_reserved) = (instance.port, instance.output.len(), instance.allowance.is_some());
        instance.arrivals.record_arrivals(waits, self.accounting.now);
        let (Some(port), true) = (port, waits > 0) else { return done };
        if self.snapshot.layout != Layout::Three {
            // In this layout one task does forwarding and output.
            let (packets, more) = self.ports.transmit(
                (port, Part::All),
                BATCH,
                &mut self.paths,
                &mut self.vector,
                &mut self.tasks,
                &mut self.accounting,
            );
            let bytes = if self.needs_bytes::<M>() { self.ports.sent_bytes(port) } else { 0 };
            used += self.lap(meter, Work::new(WorkKind::Output, packets, bytes).at(port));
            if !more {
                return Forwarded { moved, used, unfinished: away };
            }
        }
        if let Some(state) = self.ports.states.get(port) {
            let task = state.reserved_output.filter(|_| is_reserved).unwrap_or(state.output);
            self.tasks.record_offered(task, waits.saturating_sub(ahead), self.accounting.now);
        }
        Forwarded { moved, used, unfinished: away }
    }
}
