//! The three stages: input, forwarding, output. What they cost is what the router costs.

use super::ports::Ports;
use super::paths::Paths;
use super::vector::Vector;
use super::Worker;
use super::holding::Turn;
use super::onward::enter;
use super::output::Part;
use crate::classify::{COPIED, Target};
use crate::function::{Context, Function};
use crate::path::Instance;
use crate::snapshot::Layout;
use crate::station::Place;
use cpu::meter::{Meter, Stage as Of, Work};
use packet::accounting::Accounting;
use packet::event::Stage;
use packet::port::refusal;
use packet::segment::ready_for_host;
use packet::{BATCH, DropReason, Exception, Meta, Packet};
use stack::World;
use std::cell::Cell;
use units::{AdjacencyId, Nanos, PortId, WorkerId};

/// Packets the router's own protocols handle in one dispatch: they are not in a hurry, and their work is not small.
const HOST_VECTOR: usize = 32;

/// What an input task did in one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Input {
    /// Packets received.
    pub received: usize,
    /// Whether more may wait in the port.
    pub more: bool,
    /// Packets of other workers transmitted.
    pub drained: usize,
    /// Whether the port waits for room on the paths.
    pub stalled: bool,
    /// What it took.
    pub used: Nanos,
}

/// What a forwarding task did in one vector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forwarded {
    /// Packets moved.
    pub moved: usize,
    /// What it took.
    pub used: Nanos,
    /// Whether others are away still: somebody works on them when the core is lent again.
    pub away: bool,
}

impl Worker {
    /// Receives by `port` at most `most` packets, and classifies.
    #[inline]
    pub(super) fn run_input<M: Meter>(&mut self, port: PortId, most: usize, meter: &mut M) -> Input {
        let mut done = Input::default();
        let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return done };
        if let Some(lanes) = &mut state.lanes {
            done.drained = lanes.drain(port, &mut *state.link.port, &mut self.fates);
            if state.closing.is_some() || !lanes.is_attached() {
                done.used = self.lap(meter, Work::new(Of::Input, done.drained, 0).at(port));
                return done;
            }
        }
        if state.stalled.is_some() && self.unstall(port) {
            done.stalled = true;
            done.used = self.lap(meter, Work::new(Of::Input, 0, 0).at(port));
            return done;
        }
        if self.adoption.pending.is_none() {
            // What is on the paths goes first; what waits in the port is for the next generation.
            let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return done };
            self.vector.batch.limit(most);
            state.link.port.receive(self.fates.now, &mut self.vector.batch, &mut self.fates.pool);
            let more = self.vector.batch.room() == 0;
            self.executing.looked(Place::Input(port), self.fates.now, &self.vector.batch, more);
            self.vector.batch.unlimit();
            done.more = more;
        }
        done.received = self.vector.batch.len();
        let received_bytes = self.ports.states[port.index()].as_ref().map_or(0, |state| state.received_bytes);
        if done.received > 0 {
            self.arrive(port);
        }
        let through = self.snapshot.layout == Layout::One && done.received > 0;
        let mut bytes = 0;
        if let Some(Some(state)) = self.ports.states.get(port.index()) {
            bytes = state.received_bytes - received_bytes;
            done.stalled = state.stalled.is_some();
        }
        let stage = if self.ports.interrupted.is_some() { Of::Interrupt } else { Of::Input };
        if done.received + done.drained > 0 || stage == Of::Input {
            let work = Work::new(stage, done.received + done.drained, bytes).at(port);
            let executed = self.executing.take_executed();
            done.used = self.lap(meter, work.executing(executed));
        }
        if done.received > 0
            && let Some(Some(state)) = self.ports.states.get(port.index())
        {
            self.duties.agenda.weigh(state.input, done.received + done.drained, done.used);
        }
        if through {
            done.used += self.run_through(meter);
        } else if self.snapshot.cpu.inline && done.received > 0 {
            done.used += self.run_inlined(port, meter);
        }
        done
    }

    /// The batch has come in by `port`.
    #[inline(always)]
    pub(super) fn arrive(&mut self, port: PortId) {
        let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return };
        state.arrived(self.vector.batch.len() as u64, &mut self.fates);
        let marked = self.executing.mesh.is_some() && !self.vector.injecting && self.bring(port);
        let Some(Some(state)) = self.ports.states.get_mut(port.index()) else { return };
        if let (Some(lanes), false) = (&mut state.lanes, self.vector.injecting) {
            let how = (state.link.port.stamps(), marked);
            let spread = lanes.spread(&mut self.vector.batch, how, &mut self.fates);
            state.spread += spread.packets;
            state.received_bytes += spread.bytes;
        }
        let came = (!state.link.port.stamps()).then_some(self.fates.now);
        if marked {
            self.executing.passing = self.let_pass();
        }
        self.sort_out(port, came);
        self.spread(port);
    }

    /// Puts the classified batch on the input queues of its paths, run by run of packets with the same target.
    #[inline]
    pub(super) fn spread(&mut self, port: PortId) {
        let Worker { ports: Ports { states: ports, .. }, vector: Vector { batch, scratch, .. }, paths: Paths { instances, touched, .. }, fates, duties, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return };
        touched.clear();
        let (some_wait, control, injecting) = (!self.neighbours.held.is_empty(), self.paths.dispatch.control, self.vector.injecting);
        let batch_length = batch.len();
        let mut rest = &scratch.targets[..batch_length];
        while let Some(&target) = rest.first() {
            if some_wait || target == control {
                let done = batch_length - rest.len();
                return self.spread_slowly(port, done);
            }
            let run = run_of(target, rest);
            rest = &rest[run..];
            let Some(Some(instance)) = instances.get_mut(usize::from(target)) else {
                if target == COPIED {
                    let done = batch_length - rest.len() - run;
                    return self.spread_slowly(port, done);
                }
                state.refused += run as u64;
                for packet in batch.drain().take(run) {
                    let reason = refusal(&packet).unwrap_or(DropReason::PortRemoved);
                    fates.drop_at(port, packet, reason);
                }
                continue;
            };
            if state.throttles && instance.input.room() < run {
                let done = batch_length - rest.len() - run;
                return self.spread_throttled(port, done);
            }
            state.passed += run as u64;
            if fates.follows() {
                let (ahead, room) = (instance.input.len(), instance.input.room());
                for (i, packet) in batch.as_slice()[..run].iter().take(room).enumerate() {
                    fates.passed(packet, Stage::Waiting { behind: ahead + i });
                }
            }
            let alone = instance.minimal && !injecting && !instance.has_work() && !scratch.offloads;
            instance.inlined |= alone && duties.agenda.affords(state.input, instance.task);
            instance.offloads |= scratch.offloads;
            instance.stations |= scratch.stations;
            instance.counters.entered += run as u64;
            let fitted = instance.input.append(batch, run);
            instance.counters.dropped += (run - fitted) as u64;
            for packet in batch.drain().take(run - fitted) {
                fates.drop_at(port, packet, DropReason::PathQueue);
            }
            duties.agenda.dropped(instance.task, run - fitted, fates.now);
            if !touched.contains(&target) {
                touched.push(target);
            }
            duties.agenda.offered(instance.task, run as u32);
            if !instance.inlined {
                duties.came(target, instance, fitted, fates.now);
            }
        }
    }

    /// The same, from the packet numbered `first` on, of which not all find room on their path: the port waits with the
    /// first that does not.
    #[cold]
    fn spread_throttled(&mut self, port: PortId, first: usize) {
        for position in first..first + self.vector.batch.len() {
            let target = self.vector.scratch.targets[position];
            let full = self.paths.instances.get(usize::from(target)).and_then(Option::as_ref);
            if full.is_some_and(|instance| instance.input.room() == 0) {
                return self.stall(port, position);
            }
            let Some(packet) = self.vector.batch.pop_front() else { break };
            self.put_on_path(port, packet, target);
        }
        drop(self.vector.batch.drain());
    }

    /// The same, packet by packet from the one numbered `first` on, where some wait for next hops or may have to.
    #[cold]
    fn spread_slowly(&mut self, port: PortId, first: usize) {
        let mut position = first;
        while let Some(packet) = self.vector.batch.pop_front() {
            let target = self.vector.scratch.targets[position];
            position += 1;
            self.put_on_path(port, packet, target);
        }
        drop(self.vector.batch.drain());
    }

    /// The rest of the pipeline in the same task, for the layout of one. Answers what it took.
    fn run_through<M: Meter>(&mut self, meter: &mut M) -> Nanos {
        let mut touched = std::mem::take(&mut self.paths.touched);
        let mut used = Nanos::ZERO;
        for &target in &touched {
            let aside = |instance: &Instance| instance.side.is_some();
            if self.paths.instances.get(usize::from(target)).and_then(Option::as_ref).is_some_and(aside) {
                // Its own task runs it, slice by slice.
                continue;
            }
            loop {
                let vector = self.run_forward(target, BATCH, meter);
                used += vector.used;
                let instance = self.paths.instances.get(usize::from(target)).and_then(Option::as_ref);
                let more = instance.is_some_and(|i| i.has_work() && i.output.room() > 0);
                if vector.moved == 0 || !more {
                    break;
                }
            }
        }
        touched.clear();
        self.paths.touched = touched;
        used
    }

    /// Runs the functions of an instance on at most `most` packets of what waits.
    #[inline]
    pub(super) fn run_forward<M: Meter>(&mut self, target: Target, most: usize, meter: &mut M) -> Forwarded {
        if target == self.paths.dispatch.control || target == self.paths.dispatch.general {
            let moved = self.run_host(target);
            let used = self.lap(meter, self.work_of(target, moved, 0));
            return Forwarded { moved, used, away: false };
        }
        let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(target)) else { return Forwarded::default() };
        if instance.side.is_some() {
            return self.run_aside(target, most, Nanos::MAX, meter);
        }
        instance.fill.look(instance.input.len());
        let offloads = instance.offloads || instance.half.is_some();
        let mut moved = if offloads {
            self.gather(target, most)
        } else {
            let most = if instance.limit.is_some() { 1 } else { most };
            let most = instance.output.room().min(most);
            instance.input.pop_into(&mut self.vector.batch, most);
            self.vector.batch.len()
        };
        let bytes = if self.wants_bytes::<M>() { self.vector.batch.bytes() } else { 0 };
        let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(target)) else { return Forwarded::default() };
        self.fates.latencies.begun(instance.path, self.vector.batch.as_slice(), self.fates.now);
        let stations = instance.stations;
        instance.stations = stations && instance.has_work();
        if let (true, Some(port)) = (stations, instance.port) {
            let more = instance.stations;
            self.executing.looked(Place::Output(port), self.fates.now, &self.vector.batch, more);
        }
        let limit = instance.limit;
        let asked = Cell::default();
        let context = Context {
            now: self.fates.now,
            snapshot: &self.snapshot,
            tables: &self.tables,
            nat: &self.snapshot.translations,
            limit,
            asked: &asked,
        };
        let mut odd = false;
        if self.fates.follows() {
            odd = followed(&mut instance.functions, context, self.vector.batch.as_mut_slice(), &mut self.fates);
        } else {
            for function in &mut instance.functions {
                odd |= !function.process(context, self.vector.batch.as_mut_slice());
            }
        }
        if let (true, Some(port)) = (stations, instance.port) {
            let state = self.ports.states.get(port.index()).and_then(Option::as_ref);
            odd |= !self.executing.leaving(port, state, self.fates.now, self.vector.batch.as_mut_slice());
        }
        let work = Work {
            path: Some(instance.path),
            port: instance.port,
            limit,
            asked: asked.get(),
            ..Work::new(Of::Forwarding, moved, bytes).executing(self.executing.take_executed())
        };
        let used = self.lap(meter, work);
        if let Some(limit) = limit {
            odd |= self.over_limit(used, limit);
        }
        if odd && self.send_on(target) {
            self.divert(target);
        }
        if offloads {
            moved += self.put(target);
        }
        self.pass_on(target, Forwarded { moved, used, away: false }, meter)
    }

    /// Puts the batch, on which the functions of an instance have worked, behind them.
    #[inline]
    pub(super) fn pass_on<M: Meter>(&mut self, target: Target, done: Forwarded, meter: &mut M) -> Forwarded {
        let Forwarded { moved, mut used, away } = done;
        let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(target)) else { return done };
        let ahead = instance.output.len();
        instance.output.append(&mut self.vector.batch, BATCH);
        for packet in self.vector.batch.drain() {
            // Room was counted before: only a path that generates can get here.
            instance.counters.dropped += 1;
            self.fates.drop(packet, DropReason::OutputQueue);
        }
        let (port, waits, is_reserved) = (instance.port, instance.output.len(), instance.allowance.is_some());
        instance.since.holds(waits, self.fates.now);
        let (Some(port), true) = (port, waits > 0) else { return done };
        if self.snapshot.layout != Layout::Three {
            let (packets, more) = self.run_output((port, Part::All), BATCH);
            let bytes = if self.wants_bytes::<M>() { self.sent_bytes(port) } else { 0 };
            used += self.lap(meter, Work::new(Of::Output, packets, bytes).at(port));
            if !more {
                return Forwarded { moved, used, away };
            }
        }
        if let Some(Some(state)) = self.ports.states.get(port.index()) {
            let task = state.promised.filter(|_| is_reserved).unwrap_or(state.output);
            self.duties.leave(task, waits.saturating_sub(ahead), self.fates.now);
        }
        Forwarded { moved, used, away }
    }

    /// Work on packets of an instance.
    fn work_of(&self, target: Target, packets: usize, bytes: u64) -> Work {
        let instance = self.paths.instances.get(usize::from(target)).and_then(Option::as_ref);
        Work { path: instance.map(|instance| instance.path), ..Work::new(Of::Forwarding, packets, bytes) }
    }

    /// Refuses the packets of the batch where each took longer than `limit` on average. Answers whether so.
    #[cold]
    fn over_limit(&mut self, used: Nanos, limit: Nanos) -> bool {
        let packets = self.vector.batch.as_mut_slice();
        let over = used > limit * packets.len() as u64;
        if over {
            packets.iter_mut().for_each(|packet| packet.meta_mut().refused = DropReason::CpuLimit.index() as u8 + 1);
        }
        over
    }

    /// Takes the packets that a function refused, or that need the router's own protocols, out of the batch. Those whose
    /// next hop is lost wait for it, and with them all that stand behind them on the same path for the same next hop: none
    /// of them shall go before.
    #[cold]
    pub(super) fn divert(&mut self, from: Target) {
        let mut lost: Vec<AdjacencyId> = Vec::new();
        let (mut kept, mut diverted): (Vec<Packet>, Vec<Packet>) = (Vec::new(), Vec::new());
        let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(from)) else { return };
        for mut packet in self.vector.batch.drain() {
            if let Some(reason) = refusal(&packet) {
                instance.counters.dropped += 1;
                self.fates.drop(packet, reason);
            } else if packet.is_offloaded() && !ready_for_host(&mut packet) {
                instance.counters.dropped += 1;
                self.fates.drop(packet, DropReason::BadOffload);
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
        for _ in 0..instance.input.len() {
            let Some(mut packet) = instance.input.pop() else { break };
            if lost.contains(&packet.meta().adjacency) {
                packet.meta_mut().exception = Exception::Resolve as u8;
                diverted.push(packet);
            } else if let Some(packet) = instance.input.push(packet) {
                // One was taken out just now, unless the queue has become shorter than what is in it.
                instance.counters.dropped += 1;
                self.fates.drop(packet, DropReason::PathQueue);
            }
        }
        instance.counters.diverted += diverted.len() as u64;
        // Whatever of these flows waits already came later: these go before it. From the last on, so that the first is
        // before them all.
        let lost = |packet: &Packet| packet.meta().exception == Exception::Resolve as u8;
        let (wait, others): (Vec<Packet>, Vec<Packet>) = diverted.into_iter().partition(lost);
        others.into_iter().chain(wait.into_iter().rev()).for_each(|packet| self.divert_one(packet));
        self.wake_instance(self.paths.dispatch.control);
    }

    fn divert_one(&mut self, packet: Packet) {
        if packet.meta().exception == Exception::Resolve as u8
            && let Some(hop) = self.neighbours.held.before(&packet).or_else(|| self.next_hop(&packet))
        {
            return self.hold(hop, packet, Turn::First);
        }
        let Some(Some(control)) = self.paths.instances.get_mut(usize::from(self.paths.dispatch.control)) else {
            return self.fates.drop(packet, DropReason::PathQueue);
        };
        if let Some(packet) = enter(control, packet) {
            self.fates.drop(packet, DropReason::PathQueue);
        }
    }

    /// Gives what waits on a path of the router's own protocols to the host, and lets it do what is due.
    fn run_host(&mut self, target: Target) -> usize {
        if self.id != WorkerId(0) {
            return self.hand_to_speaker(target);
        }
        let Some(Some(instance)) = self.paths.instances.get_mut(usize::from(target)) else { return 0 };
        instance.input.pop_into(&mut self.vector.batch, HOST_VECTOR);
        let moved = self.vector.batch.len();
        let packets: Vec<Packet> = self.vector.batch.drain().collect();
        let mut due = false;
        self.with_host(target, |host, world| {
            for packet in packets {
                world.taken(&packet);
                host.receive(packet, world);
            }
            host.release_fragments(world);
            due = world.now() >= host.next();
            if due {
                host.tick(world);
            }
        });
        if due {
            // It may have sent something though nothing came.
            self.idle.quiet = 0;
        }
        self.protocols.host_due = self.protocols.host.next();
        moved
    }
}

/// Runs the functions of a path and tells what each does to packets that somebody follows. Answers whether one is refused
/// or an exception now.
#[cold]
fn followed(
    functions: &mut [Box<dyn Function>],
    context: Context<'_>,
    packets: &mut [Packet],
    fates: &mut Accounting,
) -> bool {
    let mut odd = false;
    for (index, function) in functions.iter_mut().enumerate() {
        let marked = |packet: &&Packet| packet.meta().flags & Meta::FOLLOWED != 0;
        let before: Vec<Vec<u8>> = packets.iter().filter(marked).map(|packet| packet.bytes().to_vec()).collect();
        odd |= !function.process(context, packets);
        for (packet, before) in packets.iter().filter(marked).zip(&before) {
            fates.passed(packet, Stage::Function { index, before });
        }
    }
    odd
}

/// How many of `targets` are `target`, from the first on.
#[inline]
fn run_of(target: Target, targets: &[Target]) -> usize {
    // Most batches have one target: asked without a branch for each packet.
    if targets.iter().fold(0, |other, next| other | (next ^ target)) == 0 {
        return targets.len();
    }
    targets.iter().position(|&next| next != target).unwrap_or(targets.len())
}
