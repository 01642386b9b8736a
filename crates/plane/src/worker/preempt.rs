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
use crate::aside::{Lent, Out, Returned, Side};
use crate::classify::Target;
use crate::path::Instance;
use crate::snapshot::Snapshot;
use cpu::agenda::{UNKNOWN, lending};
use cpu::meter::{Meter, Stage as Of, Work};
use cpu::task::Grant;
use packet::DropReason;
use packet::accounting::Accounting;
use packet::event::{Event, Misdeed, Stage};
use std::sync::Arc;
use units::{Instant, Nanos};

/// The time that a new configuration waits for a vector.
const PATIENCE: Nanos = Nanos::secs(1);
/// The time that unscheduled work waits for a vector: see [`Worker::flush`].
const FLUSH: Nanos = Nanos::millis(10);
/// The minimum time between two reports about the functions of an instance.
const QUIET: Nanos = Nanos::secs(60);

impl Worker {
    /// Lends the core for the rest of a run that has `used` so much. A new vector has as many packets as fit into that time.
    pub(super) fn lend<M: Meter>(&mut self, target: Target, grant: Grant, used: Nanos, meter: &mut M) -> Forwarded {
        let slice = lending(grant.slice).saturating_sub(used).max(Nanos::new(1));
        let each = self.tasks.agenda.mean_cost(grant.task).get();
        let enough = slice.get().checked_div(each).unwrap_or(UNKNOWN.into()).max(u64::from(grant.vector));
        let most = enough.clamp(1, u64::from(grant.packets)) as usize;
        self.run_preemptible(target, most, slice, meter)
    }

    /// Gives out a vector of at most `most` packets if none is out, and lends the core for `slice`. Without a slice, it lends the core until the
    /// vector is done, within reason.
    pub(super) fn run_preemptible<M: Meter>(
        &mut self,
        target: Target,
        most: usize,
        slice: Nanos,
        meter: &mut M,
    ) -> Forwarded {
        if !self.paths.is_out(target)
            && let Some(done) = self.give_out(target, most, meter)
        {
            return done;
        }
        let unscheduled = slice == Nanos::MAX;
        let mut slice = if unscheduled { FLUSH } else { slice };
        let bytes_wanted = self.wants_bytes::<M>();
        let Some(instance) = self.paths.instances.get_mut(target) else { return Forwarded::default() };
        let Some(side) = &mut instance.side else { return Forwarded::default() };
        let Some(out) = &mut side.out else { return Forwarded::default() };
        let allowed = instance.limit.map(|limit| limit * out.packets as u64);
        if let Some(allowed) = allowed {
            slice = slice.min(allowed.saturating_sub(out.used)).max(Nanos::new(1));
        }
        out.lent = self.accounting.now;
        let mut work = Work { path: Some(instance.path), port: instance.port, ..Work::new(Of::Forwarding, 0, 0) };
        // In virtual time a finished errand stays in `back` until its cost is spent.
        if out.back.is_none() {
            match side.aside.lend(slice) {
                Lent::Away(used) => out.used = used,
                Lent::Done(mut errand) => {
                    work.asked = errand.take_asked();
                    let whole = Work { packets: out.packets as u32, bytes: out.bytes as u32, ..work };
                    out.back = Some((errand, meter.foretell(whole).unwrap_or_default()));
                }
            }
        }
        let mut done = None;
        if let Some((errand, left)) = out.back.take() {
            let spent = left.min(slice);
            out.used += spent;
            work.foretold = Some(spent);
            if left > spent {
                out.back = Some((errand, left.saturating_sub(spent)));
            } else {
                work.packets = out.packets as u32;
                work.bytes = if bytes_wanted { out.bytes as u32 } else { 0 };
                done = Some(errand);
            }
        }
        let over = allowed.is_some_and(|allowed| out.used >= allowed);
        let used = self.lap(meter, work);
        match done {
            Some(errand) => self.take_back(target, errand, used, meter),
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
            None => Forwarded { moved: 0, used, away: true },
        }
    }

    /// Gives a vector out. If there is none, or no thread accepts it, returns the work done instead.
    fn give_out<M: Meter>(&mut self, target: Target, most: usize, meter: &mut M) -> Option<Forwarded> {
        let Some(instance) = self.paths.instances.get_mut(target) else { return Some(Forwarded::default()) };
        instance.fill.look(instance.input.len());
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
            return Some(self.pass_on(target, Forwarded { moved, used, away: false }, meter));
        }
        let bytes = if M::BYTES || self.tasks.agenda.is_traced() { self.vector.batch.bytes() } else { 0 };
        let out = Out::new((self.vector.batch.len(), bytes), offloads, self.accounting.now);
        let Worker {
            paths: Paths { instances, .. }, vector: Vector { batch, .. }, snapshot, tables, accounting, ..
        } = self;
        let Some(instance) = instances.get_mut(target) else { return Some(Forwarded::default()) };
        let Some(side) = &mut instance.side else { return Some(Forwarded::default()) };
        let terms = (accounting.now, accounting.follows(), out);
        if side.give(batch, &mut instance.functions, (snapshot, tables), terms) {
            return None;
        }
        // No thread accepts the vector, so it cannot be processed.
        self.vector.refuse_all(DropReason::FunctionFailed);
        self.divert(target);
        self.paths.accuse(target, Misdeed::NeverReturned, &mut self.accounting);
        let used = self.lap(meter, Work::new(Of::Forwarding, moved, 0));
        Some(Forwarded { moved, used, away: false })
    }

    /// Accepts a finished vector.
    fn take_back<M: Meter>(
        &mut self,
        target: Target,
        errand: Box<crate::aside::Errand>,
        used: Nanos,
        meter: &mut M,
    ) -> Forwarded {
        let Worker { paths: Paths { instances, .. }, vector: Vector { batch, .. }, accounting, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return Forwarded::default() };
        let Some(side) = &mut instance.side else { return Forwarded::default() };
        let Returned { mut odd, passed, panic } = side.take(errand, batch, &mut instance.functions);
        let offloads = side.out.take().is_some_and(|out| out.offloads);
        let mut moved = batch.len();
        for passed in &passed {
            let stage = Stage::Function { index: passed.function, before: &passed.frames.0 };
            accounting.passed_as(&batch.as_slice()[passed.packet], stage, &passed.frames.1);
        }
        // Some packets may be half processed, and it is unknown which: drop them all.
        if let Some(reason) = panic {
            self.vector.refuse_all(DropReason::FunctionFailed);
            odd = true;
            self.paths.renew_functions(target, &self.snapshot);
            self.paths.accuse(target, Misdeed::Panicked(&reason), &mut self.accounting);
        }
        // The packet hook belongs to the worker, so it runs here, after the functions.
        if let Some(port) = self.paths.instances.get(target).and_then(|instance| instance.port) {
            let state = self.ports.states.get(port);
            odd |= !self.hooks.leaving(port, state, self.accounting.now, self.vector.batch.as_mut_slice());
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
        self.pass_on(target, Forwarded { moved, used, away: false }, meter)
    }
}

impl Instance {
    /// Abandons the vector that is out: its packets count as dropped.
    fn forsake(&mut self, reason: DropReason, accounting: &mut Accounting) -> Option<Out> {
        let side = self.side.as_mut()?;
        let mut out = side.out.take()?;
        self.counters.dropped += out.packets as u64;
        // A finished errand is back on the worker, so its packets can be dropped. Otherwise the thread still owns them: they are only counted.
        match out.back.take() {
            Some((errand, _)) => {
                let mut batch = packet::Batch::new();
                side.take(errand, &mut batch, &mut self.functions);
                batch.drain().for_each(|packet| accounting.drop(packet, reason));
            }
            None => {
                side.aside.forsake();
                accounting.forsake(&side.came, reason);
            }
        }
        Some(out)
    }
}

impl Paths {
    /// True if a function thread runs the functions of an instance.
    #[inline]
    pub(in crate::worker) fn is_aside(&self, target: Target) -> bool {
        let instance = self.instances.get(target);
        instance.is_some_and(|instance| instance.side.is_some())
    }

    pub(in crate::worker) fn is_out(&self, target: Target) -> bool {
        self.instances.get(target).is_some_and(|i| i.away() > 0)
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
        let Some(out) = instance.forsake(reason, accounting) else { return Forwarded::default() };
        self.renew_functions(target, snapshot);
        let misdeed = match reason {
            DropReason::CpuLimit => Misdeed::OverLimit(out.used),
            _ => Misdeed::DidNotReturn(accounting.now.since(out.since)),
        };
        self.accuse(target, misdeed, accounting);
        Forwarded { moved: out.packets, used, away: false }
    }

    /// A new configuration has waited since `since` for the paths to be empty. Gives up the vectors that delay it.
    #[cold]
    pub(in crate::worker) fn call_in(&mut self, since: Instant, snapshot: &Snapshot, accounting: &mut Accounting) {
        for target in self.instances.targets() {
            let out = self.instances.get(target).and_then(|instance| instance.side.as_ref()?.out.as_ref());
            // A vector given out after the configuration arrived has the full patience as well.
            let late = |out: &Out| accounting.now.since(out.since.max(since)) >= PATIENCE;
            if out.is_some_and(late) {
                self.give_up_vector(target, DropReason::FunctionFailed, Nanos::ZERO, snapshot, accounting);
            }
        }
    }

    /// The worker ends: abandons all vectors that are out.
    pub(in crate::worker) fn forsake_all(&mut self, reason: DropReason, accounting: &mut Accounting) {
        let Paths { instances, .. } = self;
        instances.iter_mut().for_each(|instance| drop(instance.forsake(reason, accounting)));
    }

    /// Builds the functions of an instance again, because they were lost or have panicked.
    pub(in crate::worker) fn renew_functions(&mut self, target: Target, snapshot: &Snapshot) {
        let Paths { instances, registered, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return };
        let spec = snapshot.paths.iter().find(|path| path.id == instance.path);
        instance.functions = spec.and_then(|path| registered.build(path).ok()).unwrap_or_default();
    }

    /// Reports a misdeed of an instance's functions, unless one was reported lately.
    pub(in crate::worker) fn accuse(&mut self, target: Target, misdeed: Misdeed<'_>, accounting: &mut Accounting) {
        let Paths { instances, .. } = self;
        let Some(instance) = instances.get_mut(target) else { return };
        let Some(side) = &mut instance.side else { return };
        if side.told.is_none_or(|then| accounting.now.since(then) >= QUIET) {
            side.told = Some(accounting.now);
            accounting.event(&Event::FunctionFailed {
                worker: accounting.worker,
                path: instance.path,
                port: instance.port,
                misdeed,
            });
        }
    }

    /// Creates or removes the function threads of paths, as `snapshot` says. No vector is out.
    pub(in crate::worker) fn set_aside(&mut self, snapshot: &Arc<Snapshot>) {
        let Paths { instances, asides, .. } = self;
        for path in &snapshot.paths {
            let of = |instance: &&mut Instance| instance.path == path.id && instance.port.is_some();
            for instance in instances.iter_mut().filter(of) {
                match (path.cpu.preemptible, &instance.side) {
                    (true, None) => instance.side = Some(Box::new(Side::new(asides.open()))),
                    (false, Some(_)) => instance.side = None,
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
