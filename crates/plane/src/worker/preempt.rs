//! Preemptible forwarding: the functions of a path are interrupted at the end of their slice (spec Q-41). A vector goes to a function thread,
//! which works on it while the core is lent, run after run, until it is done. The processor time is charged to the task, as if the worker had
//! done the work.
//!
//! A vector that does not return is given up when it has used the path's limit, or when a new configuration has waited for it long enough. Its
//! packets are counted as dropped. Their frames are freed if it ever ends.

use super::Worker;
use super::paths::Paths;
use super::stages::Forwarded;
use super::vector::Vector;
use crate::classify::Target;
use crate::path::Instance;
use crate::preempt::{FinishedVector, SliceResult, ThreadSlot, VectorInFlight};
use crate::snapshot::Snapshot;
use cpu::meter::{Work, WorkKind as Of, WorkMeter};
use cpu::run_queue::{DEFAULT_VECTOR, lent_time};
use cpu::task::Grant;
use packet::DropReason;
use packet::accounting::Accounting;
use packet::event::{Event, FunctionFailure, Stage};
use std::sync::Arc;
use units::{Instant, Nanos};

/// The time that a new configuration waits for a vector.
const PATIENCE: Nanos = Nanos::secs(1);
/// The time that unscheduled work waits for a vector: see [`Worker::flush`].
const FLUSH: Nanos = Nanos::millis(10);
/// The minimum time between two reports about the functions of an instance.
const REPORT_INTERVAL: Nanos = Nanos::secs(60);

impl Worker {
    /// Lends the core for the rest of a run that has `used` so much. A new vector has as many packets as fit into that time.
    pub(super) fn lend<M: WorkMeter>(&mut self, target: Target, grant: Grant, used: Nanos, meter: &mut M) -> Forwarded {
        let slice = lent_time(grant.slice).saturating_sub(used).max(Nanos::new(1));
        // The mean is zero before the first measurement: the vector then has the default size.
        let each = self.tasks.run_queue.mean_cost(grant.task).get();
        let enough = slice.get().checked_div(each).unwrap_or(DEFAULT_VECTOR.into()).max(u64::from(grant.vector));
        let most = enough.clamp(1, u64::from(grant.packets)) as usize;
        self.run_preemptible(target, most, slice, meter)
    }

    /// Gives out a vector of at most `most` packets if none is out, and lends the core for `slice`. Without a slice, it lends the core until the
    /// vector is done, within reason.
    pub(super) fn run_preemptible<M: WorkMeter>(
        &mut self,
        target: Target,
        most: usize,
        slice: Nanos,
        meter: &mut M,
    ) -> Forwarded {
        if !self.paths.has_vector_in_flight(target)
            && let Some(done) = self.submit_vector(target, most, meter)
        {
            return done;
        }
        let unscheduled = slice == Nanos::MAX;
        let mut slice = if unscheduled { FLUSH } else { slice };
        let bytes_wanted = self.needs_bytes::<M>();
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        let Some(side) = &mut instance.function_thread else { return Forwarded::default() };
        let Some(out) = &mut side.in_flight else { return Forwarded::default() };
        let allowed = instance.limit.map(|limit| limit * out.packets as u64);
        if let Some(allowed) = allowed {
            // The slice ends at the limit, so that a function that never returns uses little more than its limit.
            slice = slice.min(allowed.saturating_sub(out.used)).max(Nanos::new(1));
        }
        out.last_lent = self.accounting.now;
        let mut work = Work { path: Some(instance.path), port: instance.port, ..Work::new(Of::Forwarding, 0, 0) };
        // In virtual time a finished job stays in `finished` until its cost is spent.
        if out.finished.is_none() {
            match side.thread.lend(slice) {
                SliceResult::Unfinished(used) => out.used = used,
                SliceResult::Done(mut errand) => {
                    work.extra_time = errand.take_extra_time();
                    let whole = Work { packets: out.packets as u32, bytes: out.bytes as u32, ..work };
                    // A real meter predicts nothing: the thread has spent the time, and the vector returns at once.
                    out.finished = Some((errand, meter.predict(whole).unwrap_or_default()));
                }
            }
        }
        let mut done = None;
        if let Some((errand, left)) = out.finished.take() {
            let spent = left.min(slice);
            out.used += spent;
            // A meter of virtual time charges this part of the cost. A real meter reads its counter.
            work.predicted = Some(spent);
            if left > spent {
                out.finished = Some((errand, left.saturating_sub(spent)));
            } else {
                work.packets = out.packets as u32;
                work.bytes = if bytes_wanted { out.bytes as u32 } else { 0 };
                done = Some(errand);
            }
        }
        let over = allowed.is_some_and(|allowed| out.used >= allowed);
        let used = self.lap(meter, work);
        match done {
            Some(errand) => self.accept_finished(target, errand, used, meter),
            None if over => {
                self.paths.give_up_vector(target, DropReason::CpuLimit, used, &self.snapshot, &mut self.accounting)
            }
            None if unscheduled => self.paths.give_up_vector(
                target,
                DropReason::FunctionFailed,
                used,
                &self.snapshot,
                &mut self.accounting,
            ),
            None => Forwarded { moved: 0, used, unfinished: true },
        }
    }

    /// Gives a vector out. If there is none, or no thread accepts it, returns the work done instead.
    fn submit_vector<M: WorkMeter>(&mut self, target: Target, most: usize, meter: &mut M) -> Option<Forwarded> {
        let Some(instance) = self.paths.instances.get_mut(target) else { return Some(Forwarded::default()) };
        instance.fill.record(instance.input.len());
        let offloads = instance.offloads || instance.half.is_some();
        // Packets with a time limit or offloads are processed one at a time, so they go out one at a time.
        let most = if instance.limit.is_some() || offloads { 1 } else { most };
        let moved = if offloads {
            self.paths.gather(target, most, &mut self.ports, &mut self.vector, &mut self.accounting)
        } else {
            let most = instance.output.room().min(most);
            instance.input.pop_into(&mut self.vector.batch, most);
            self.vector.batch.len()
        };
        if self.vector.batch.is_empty() {
            // The segments of a super-frame were completed, or nothing was queued.
            let used = self.lap(meter, Work { packets: moved as u32, ..Work::new(Of::Forwarding, 0, 0) });
            return Some(self.enqueue_output(target, Forwarded { moved, used, unfinished: false }, meter));
        }
        let bytes = if M::BYTES || self.tasks.run_queue.is_traced() { self.vector.batch.bytes() } else { 0 };
        let out = VectorInFlight::new((self.vector.batch.len(), bytes), offloads, self.accounting.now);
        let Worker {
            paths: Paths { instances, .. }, vector: Vector { batch, .. }, snapshot, tables, accounting, ..
        } = self;
        let Some(instance) = instances.get_mut(target) else { return Some(Forwarded::default()) };
        let Some(side) = &mut instance.function_thread else { return Some(Forwarded::default()) };
        let terms = (accounting.now, accounting.follows_packets(), out);
        if side.give(batch, &mut instance.functions, (snapshot, tables), terms) {
            return None;
        }
        // No thread accepts the vector, so it cannot be processed.
        self.vector.refuse_all(DropReason::FunctionFailed);
        self.divert(target);
        self.paths.report_misdeed(target, FunctionFailure::TooManyStuck, &mut self.accounting);
        let used = self.lap(meter, Work::new(Of::Forwarding, moved, 0));
        Some(Forwarded { moved, used, unfinished: false })
    }

    /// Accepts a finished vector.
    fn accept_finished<M: WorkMeter>(
        &mut self,
        target: Target,
        errand: Box<crate::preempt::FunctionJob>,
        used: Nanos,
        meter: &mut M,
    ) -> Forwarded {
        let Worker { paths: Paths { instances, .. }, vector: Vector { batch, .. }, accounting, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return Forwarded::default() };
        let Some(side) = &mut instance.function_thread else { return Forwarded::default() };
        let FinishedVector { has_diverted: mut odd, traces: passed, panic } =
            side.reclaim(errand, batch, &mut instance.functions);
        // As when the vector was submitted: `gather` has changed the flag of the instance since.
        let offloads = side.in_flight.take().is_some_and(|out| out.offloads);
        let mut moved = batch.len();
        for passed in &passed {
            let stage = Stage::Function { index: passed.function, before: &passed.frames.0 };
            accounting.record_stage_with_frame(&batch.as_slice()[passed.packet], stage, &passed.frames.1);
        }
        // Some packets may be half processed, and it is unknown which: drop them all.
        if let Some(reason) = panic {
            self.vector.refuse_all(DropReason::FunctionFailed);
            odd = true;
            self.paths.renew_functions(target, &self.snapshot);
            self.paths.report_misdeed(target, FunctionFailure::Panicked(&reason), &mut self.accounting);
        }
        // The packet hook belongs to the worker, so it runs here, after the functions.
        if let Some(port) = self.paths.instances.get(target).and_then(|instance| instance.port) {
            let state = self.ports.states.get(port);
            odd |= !self.hooks.visit_output(port, state, self.accounting.now, self.vector.batch.as_mut_slice());
        }
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
}

impl Instance {
    /// Abandons the vector that is out: its packets count as dropped.
    fn abandon_vector(&mut self, reason: DropReason, accounting: &mut Accounting) -> Option<VectorInFlight> {
        let side = self.function_thread.as_mut()?;
        let mut out = side.in_flight.take()?;
        self.counters.dropped += out.packets as u64;
        // A finished job is back on the worker, so its packets can be dropped. Otherwise the thread still owns them: they are only counted.
        match out.finished.take() {
            Some((errand, _)) => {
                let mut batch = packet::Batch::new();
                side.reclaim(errand, &mut batch, &mut self.functions);
                batch.drain().for_each(|packet| accounting.drop(packet, reason));
            }
            None => {
                side.thread.abandon();
                accounting.drop_abandoned(&side.in_ports, reason);
            }
        }
        Some(out)
    }
}

impl Paths {
    /// True if a function thread runs the functions of an instance.
    #[inline]
    pub(in crate::worker) fn is_preemptible(&self, target: Target) -> bool {
        let instance = self.instances.get(target);
        instance.is_some_and(|instance| instance.function_thread.is_some())
    }

    pub(in crate::worker) fn has_vector_in_flight(&self, target: Target) -> bool {
        self.instances.get(target).is_some_and(|i| i.packets_in_flight() > 0)
    }

    /// Gives up a vector.
    #[cold]
    pub(in crate::worker) fn give_up_vector(
        &mut self,
        target: Target,
        reason: DropReason,
        used: Nanos,
        snapshot: &Snapshot,
        accounting: &mut Accounting,
    ) -> Forwarded {
        let Paths { instances, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return Forwarded::default() };
        let Some(out) = instance.abandon_vector(reason, accounting) else { return Forwarded::default() };
        self.renew_functions(target, snapshot);
        let misdeed = match reason {
            DropReason::CpuLimit => FunctionFailure::OverLimit(out.used),
            _ => FunctionFailure::DidNotReturn(accounting.now.since(out.submitted)),
        };
        self.report_misdeed(target, misdeed, accounting);
        // The packets count as moved, so that the instance stays ready for those behind them.
        Forwarded { moved: out.packets, used, unfinished: false }
    }

    /// A new configuration has waited since `since` for the paths to be empty. Gives up the vectors that delay it.
    #[cold]
    pub(in crate::worker) fn give_up_overdue(
        &mut self,
        since: Instant,
        snapshot: &Snapshot,
        accounting: &mut Accounting,
    ) {
        for target in self.instances.targets() {
            let out =
                self.instances.get(target).and_then(|instance| instance.function_thread.as_ref()?.in_flight.as_ref());
            // A vector submitted after the configuration arrived has the full `PATIENCE` as well.
            let late = |out: &VectorInFlight| accounting.now.since(out.submitted.max(since)) >= PATIENCE;
            if out.is_some_and(late) {
                self.give_up_vector(target, DropReason::FunctionFailed, Nanos::ZERO, snapshot, accounting);
            }
        }
    }

    /// The worker ends: abandons all vectors that are out.
    pub(in crate::worker) fn abandon_all(&mut self, reason: DropReason, accounting: &mut Accounting) {
        let Paths { instances, .. } = self;
        instances.iter_mut().for_each(|instance| drop(instance.abandon_vector(reason, accounting)));
    }

    /// Builds the functions of an instance again, because they were lost or have panicked.
    pub(in crate::worker) fn renew_functions(&mut self, target: Target, snapshot: &Snapshot) {
        let Paths { instances, available_functions: registered, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return };
        let spec = snapshot.paths.iter().find(|path| path.id == instance.path);
        instance.functions = registered.rebuild(spec);
    }

    /// Reports a failure of an instance's functions, at most once in [`REPORT_INTERVAL`].
    pub(in crate::worker) fn report_misdeed(
        &mut self,
        target: Target,
        misdeed: FunctionFailure<'_>,
        accounting: &mut Accounting,
    ) {
        let Paths { instances, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return };
        let Some(side) = &mut instance.function_thread else { return };
        if side.last_report.is_none_or(|then| accounting.now.since(then) >= REPORT_INTERVAL) {
            side.last_report = Some(accounting.now);
            accounting.event(&Event::FunctionFailed {
                worker: accounting.worker,
                path: instance.path,
                port: instance.port,
                failure: misdeed,
            });
        }
    }

    /// Creates or removes the function threads of paths, as `snapshot` says. No vector is out.
    pub(in crate::worker) fn update_function_threads(&mut self, snapshot: &Arc<Snapshot>) {
        let Paths { instances, function_threads: asides, .. } = self;
        for path in &snapshot.paths {
            // An instance without a port belongs to the router's own protocols, which run on the worker.
            let of = |instance: &&mut Instance| instance.path == path.id && instance.port.is_some();
            for instance in instances.iter_mut().filter(of) {
                match (path.cpu.preemptible, &instance.function_thread) {
                    (true, None) => instance.function_thread = Some(Box::new(ThreadSlot::new(asides.open()))),
                    // No vector is out, so the thread holds no packets when its slot is dropped.
                    (false, Some(_)) => instance.function_thread = None,
                    _ => {}
                }
            }
        }
    }
}

impl Vector {
    /// Refuses every packet of the batch.
    pub(in crate::worker) fn refuse_all(&mut self, reason: DropReason) {
        let packets = self.batch.as_mut_slice();
        packets.iter_mut().for_each(|packet| packet.meta_mut().refused = reason.index() as u8 + 1);
    }
}

#[cfg(test)]
mod tests;
