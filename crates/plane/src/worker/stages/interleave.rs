//! Forward on an interleaved path: each function of a packet is a run of its own, and the scheduler of flows selects the flow of the next one (Panama,
//! section 4.3). A flow is charged for exactly the time of its functions, with the selection before them. At most one packet of a flow is within the
//! functions. A function is never entered twice at once: it runs to its end, and only this worker has it.

use super::Forwarded;
use crate::classify::Target;
use crate::function::{self, Context};
use crate::hook::HookPoint;
use crate::input_queue::InputQueue;
use crate::worker::Worker;
use cpu::meter::{Work, WorkKind, WorkMeter};
use packet::port::Offloads;
use packet::segment::{is_to_fragment, must_segment};
use packet::{DropReason, Exception, Packet};
use std::cell::Cell;
use units::Nanos;

/// A vector of function runs.
#[derive(Default)]
struct Runs {
    moved: usize,
    used: Nanos,
    odd: bool,
    /// The last packet has to be cut. It must be the last of the batch.
    is_cut: bool,
}

impl Worker {
    /// Runs at most `most` functions of an interleaved instance, and moves the packets that have passed all of them.
    pub(super) fn forward_interleaved<M: WorkMeter>(
        &mut self,
        target: Target,
        most: usize,
        meter: &mut M,
    ) -> Forwarded {
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        let offloads = instance.offloads || instance.half.is_some();
        // Continues with a packet that is half cut. It takes no other packet from the queue.
        let (mut cut, mut can) = (0, Offloads::default());
        if offloads {
            cut = self.paths.gather(target, 0, &mut self.ports, &mut self.vector, &mut self.accounting);
            can = self.paths.port_offloads(target, &self.ports);
        }
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        // Never more packets than the output queue can hold.
        let room = if instance.half.is_some() { 0 } else { instance.output.room() };
        let mut runs = Runs { moved: cut, ..Runs::default() };
        let mut ran = 0;
        while ran < most && self.vector.batch.len() < room && !runs.is_cut {
            if !self.run_function(target, &mut runs, (offloads, can), meter) {
                break;
            }
            ran += 1;
        }
        let unfinished = ran > 0 && runs.moved == 0;
        runs.used += self.leave_functions(target, runs.odd, meter);
        if offloads {
            runs.moved += self.paths.segment(
                target,
                &self.snapshot,
                &self.tables,
                &mut self.ports,
                &mut self.vector,
                &mut self.accounting,
            );
        }
        self.enqueue_output(target, Forwarded { moved: runs.moved, used: runs.used, unfinished }, meter)
    }

    /// Runs one function of the flow that is furthest behind its rate. False if no flow has a packet.
    fn run_function<M: WorkMeter>(
        &mut self,
        target: Target,
        runs: &mut Runs,
        (offloads, can): (bool, Offloads),
        meter: &mut M,
    ) -> bool {
        let Some(instance) = self.paths.instances.get_mut(target) else { return false };
        let InputQueue::Flows(flows) = &mut instance.input else { return false };
        let Some((run, packet)) = flows.start_function() else { return false };
        let (accounting, limit, asked) = (&mut self.accounting, instance.limit, Cell::default());
        let packets = std::slice::from_mut(packet);
        let is_first = run.function == 0;
        if is_first {
            accounting.latencies.record_started(instance.path, packets, accounting.now);
        }
        let (snapshot, tables, nat) = (&*self.snapshot, &self.tables, &*self.snapshot.translations);
        let context = Context { now: accounting.now, snapshot, tables, nat, limit, dry_run: false, extra_time: &asked };
        let last = instance.functions.len().saturating_sub(1);
        let one = instance.functions.get_mut(run.function..=run.function).unwrap_or_default();
        let odd = function::run(run.function, one, context, packets, accounting);
        let bytes = if is_first { packets[0].len() as u64 } else { 0 };
        // A function that has made packets is `odd` too, although its packet continues.
        let meta = packets[0].meta();
        // One that a service has made continues to the function that it was made for.
        let leaves = odd && meta.refused | meta.exception != 0 && meta.exception != Exception::Originated as u8;
        // A cost model knows the cost of a packet, not of each function: the first one is charged for it.
        let work = Work {
            path: Some(instance.path),
            port: instance.port,
            limit,
            extra_time: asked.get(),
            ..Work::new(WorkKind::Forwarding, usize::from(is_first), if self.needs_bytes::<M>() { bytes } else { 0 })
        };
        let used = self.lap(meter, work);
        runs.used += used;
        runs.odd |= odd;
        let Some(instance) = self.paths.instances.get_mut(target) else { return false };
        let InputQueue::Flows(flows) = &mut instance.input else { return false };
        // A packet that a function has refused or diverted skips the others.
        if let Some((mut packet, spent)) = flows.end_function(run, used, leaves || run.function >= last) {
            if limit.is_some_and(|limit| spent > limit) && packet.meta().refused == 0 {
                packet.meta_mut().refused = DropReason::CpuLimit.index() as u8 + 1;
                runs.odd = true;
            }
            runs.moved += 1;
            runs.is_cut = offloads && must_be_cut(&packet, can);
            self.vector.batch.push(packet);
        }
        true
    }

    /// The packets of the batch have passed all functions: packet hooks see them, and those that are refused or diverted leave the batch. Returns the time
    /// of the hooks.
    fn leave_functions<M: WorkMeter>(&mut self, target: Target, mut odd: bool, meter: &mut M) -> Nanos {
        let Some(instance) = self.paths.instances.get_mut(target) else { return Nanos::ZERO };
        let (batch, now) = (&mut self.vector.batch, self.accounting.now);
        let mut used = Nanos::ZERO;
        let (hooked, more) = (instance.hooked, instance.hooked && instance.has_work());
        instance.hooked = more;
        if let Some(port) = instance.port.filter(|_| hooked) {
            self.hooks.record_dequeued(HookPoint::Output(port), now, batch, more);
            odd |= !self.hooks.visit_output(port, self.ports.states.get(port), now, batch.as_mut_slice());
            let work = Work::new(WorkKind::Forwarding, 0, 0).executing(self.hooks.take_executed());
            used = self.lap(meter, work);
        }
        if odd && self.reclassify_batch(target) {
            self.divert(target);
        }
        used
    }
}

fn must_be_cut(packet: &Packet, can: Offloads) -> bool {
    must_segment(packet, can) || is_to_fragment(packet)
}
