//! The three stages: input, forwarding, output. What they cost is what the router costs.

use super::Worker;
use super::holding::Turn;
use crate::classify::{Classifier, Exception, REFUSED, Target, Unwitnessed};
use crate::event::Stage;
use crate::fates::Fates;
use crate::function::{Context, Function};
use crate::host::World;
use crate::path::Instance;
use crate::snapshot::Layout;
use packet::{BATCH, DropReason, Meta, Packet};
use schemes::Next;
use units::{AdjacencyId, Nanos, PortId, WorkerId};

/// Packets the router's own protocols handle in one dispatch: they are not in a hurry, and their work is not small.
const HOST_VECTOR: usize = 32;

impl Worker {
    /// Receives by `port` and classifies. Answers the packets received.
    pub(super) fn run_input(&mut self, port: PortId) -> usize {
        let Some(Some(state)) = self.ports.get_mut(port.index()) else { return 0 };
        let mut drained = 0;
        if let Some(lanes) = &mut state.lanes {
            drained = lanes.drain(&mut *state.link.port, &mut self.fates);
            if state.closing.is_some() || !lanes.is_attached() {
                return drained;
            }
        }
        if self.pending.is_some() {
            // What is on the paths goes first; what waits in the port is for the next generation.
            return drained;
        }
        state.link.port.receive(self.fates.now, &mut self.batch, &mut self.fates.pool);
        let received = self.batch.len();
        if received == 0 {
            return drained;
        }
        self.arrive(port);
        received + drained
    }

    /// The batch has come in by `port`.
    #[inline(always)]
    pub(super) fn arrive(&mut self, port: PortId) {
        let Some(Some(state)) = self.ports.get_mut(port.index()) else { return };
        state.arrived(self.batch.len() as u64, &mut self.fates);
        if let (Some(lanes), false) = (&mut state.lanes, self.injecting) {
            let spread = lanes.spread(&mut self.batch, state.link.port.stamps(), &mut self.fates);
            state.spread += spread.packets;
            state.received_bytes += spread.bytes;
        }
        let snapshot = &*self.snapshot;
        if let Some(view) = snapshot.port(port) {
            let classifier =
                Classifier { snapshot, tables: &self.tables, dispatch: &self.dispatch, witness: Unwitnessed };
            let came = (!state.link.port.stamps()).then_some(self.fates.now);
            let packets = self.batch.as_mut_slice();
            state.received_bytes += classifier.batch((port, view), came, packets, &mut self.scratch);
            if self.fates.follows() {
                if self.injecting {
                    self.batch.as_mut_slice().iter_mut().for_each(|packet| packet.meta_mut().flags |= Meta::FOLLOWED);
                }
                self.fates.choose(port, self.batch.as_mut_slice());
            }
        } else {
            self.scratch.targets[..self.batch.len()].fill(REFUSED);
        }
        self.spread(port);
        if self.snapshot.layout == Layout::One {
            self.run_through();
        }
    }

    /// Puts the classified batch on the input queues of its paths, run by run of packets with the same target.
    #[inline]
    fn spread(&mut self, port: PortId) {
        let Worker { ports, batch, scratch, instances, fates, scheduler, touched, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return };
        touched.clear();
        let (some_wait, control) = (!self.holding.is_empty(), self.dispatch.control);
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
                state.refused += run as u64;
                for packet in batch.drain().take(run) {
                    let reason = refusal(&packet).unwrap_or(DropReason::PortRemoved);
                    fates.drop_at(port, packet, reason);
                }
                continue;
            };
            state.passed += run as u64;
            if fates.follows() {
                let (ahead, room) = (instance.input.len(), instance.input.room());
                for (i, packet) in batch.as_slice()[..run].iter().take(room).enumerate() {
                    fates.passed(packet, Stage::Waiting { behind: ahead + i });
                }
            }
            instance.offloads |= scratch.offloads;
            instance.counters.entered += run as u64;
            let fitted = instance.input.append(batch, run);
            instance.counters.dropped += (run - fitted) as u64;
            for packet in batch.drain().take(run - fitted) {
                fates.drop_at(port, packet, DropReason::PathQueue);
            }
            if !touched.contains(&target) {
                touched.push(target);
                scheduler.wake(instance.task, Nanos::ZERO, fates.now);
            }
        }
    }

    /// The same, packet by packet from the one numbered `first` on, where some wait for next hops or may have to.
    #[cold]
    fn spread_slowly(&mut self, port: PortId, first: usize) {
        let mut position = first;
        while let Some(packet) = self.batch.pop_front() {
            let target = self.scratch.targets[position];
            position += 1;
            self.put_on_path(port, packet, target);
        }
        drop(self.batch.drain());
    }

    /// The rest of the pipeline in the same task, for the layout of one.
    fn run_through(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for &target in &touched {
            while self.run_forward(target).1 {}
        }
        touched.clear();
        self.touched = touched;
    }

    /// Runs the functions of a path on what waits. Answers the packets moved and whether there is more to do.
    pub(super) fn run_forward(&mut self, target: Target) -> (usize, bool) {
        if target == self.dispatch.control || target == self.dispatch.general {
            return self.run_host(target);
        }
        let Some(Some(instance)) = self.instances.get_mut(usize::from(target)) else { return (0, false) };
        let offloads = instance.offloads || instance.half.is_some();
        let mut moved = if offloads {
            self.gather(target)
        } else {
            let most = instance.output.room().min(BATCH);
            instance.input.pop_into(&mut self.batch, most);
            self.batch.len()
        };
        let Some(Some(instance)) = self.instances.get_mut(usize::from(target)) else { return (0, false) };
        let context = Context { now: self.fates.now, snapshot: &self.snapshot, tables: &self.tables };
        let mut odd = false;
        if self.fates.follows() {
            odd = followed(&mut instance.functions, context, self.batch.as_mut_slice(), &mut self.fates);
        } else {
            for function in &mut instance.functions {
                odd |= !function.process(context, self.batch.as_mut_slice());
            }
        }
        if odd {
            self.divert(target);
        }
        if offloads {
            moved += self.put(target);
        }
        let Some(Some(instance)) = self.instances.get_mut(usize::from(target)) else { return (0, false) };
        instance.output.append(&mut self.batch, BATCH);
        for packet in self.batch.drain() {
            // Room was counted before: only a path that generates can get here.
            instance.counters.dropped += 1;
            self.fates.drop(packet, DropReason::OutputQueue);
        }
        let more = instance.has_work() && instance.output.room() > 0;
        let (port, waits) = (instance.port, !instance.output.is_empty());
        if let (Some(port), true) = (port, waits) {
            if self.snapshot.layout == Layout::Three {
                if let Some(Some(state)) = self.ports.get(port.index()) {
                    self.scheduler.wake(state.output, Nanos::ZERO, self.fates.now);
                }
            } else {
                if self.run_output(port).1
                    && let Some(Some(state)) = self.ports.get(port.index())
                {
                    self.scheduler.wake(state.output, Nanos::ZERO, self.fates.now);
                }
                let more = self.instances[usize::from(target)].as_ref().is_some_and(Instance::has_work);
                return (moved, more);
            }
        }
        (moved, more)
    }

    /// Takes the packets that a function refused, or that need the router's own protocols, out of the batch. Those whose
    /// next hop is lost wait for it, and with them all that stand behind them on the same path for the same next hop: none
    /// of them shall go before.
    #[cold]
    fn divert(&mut self, from: Target) {
        let mut lost: Vec<AdjacencyId> = Vec::new();
        let (mut kept, mut diverted): (Vec<Packet>, Vec<Packet>) = (Vec::new(), Vec::new());
        let Some(Some(instance)) = self.instances.get_mut(usize::from(from)) else { return };
        for packet in self.batch.drain() {
            if let Some(reason) = refusal(&packet) {
                instance.counters.dropped += 1;
                self.fates.drop(packet, reason);
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
        kept.into_iter().for_each(|packet| self.batch.push(packet));
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
        self.wake_instance(self.dispatch.control);
    }

    fn divert_one(&mut self, packet: Packet) {
        if packet.meta().exception == Exception::Resolve as u8
            && let Some(hop) = self.holding.before(&packet).or_else(|| self.next_hop(&packet))
        {
            return self.hold(hop, packet, Turn::First);
        }
        let Some(Some(control)) = self.instances.get_mut(usize::from(self.dispatch.control)) else {
            return self.fates.drop(packet, DropReason::PathQueue);
        };
        if let Some(packet) = enter(control, packet) {
            self.fates.drop(packet, DropReason::PathQueue);
        }
    }

    /// Gives what waits on a path of the router's own protocols to the host, and lets it do what is due.
    fn run_host(&mut self, target: Target) -> (usize, bool) {
        if self.id != WorkerId(0) {
            return (self.hand_to_speaker(target), false);
        }
        let Some(Some(instance)) = self.instances.get_mut(usize::from(target)) else { return (0, false) };
        instance.input.pop_into(&mut self.batch, HOST_VECTOR);
        let moved = self.batch.len();
        let packets: Vec<Packet> = self.batch.drain().collect();
        let mut due = false;
        self.with_host(target, |host, world| {
            for packet in packets {
                world.taken(&packet);
                host.receive(packet, world);
            }
            due = world.now() >= host.next();
            if due {
                host.tick(world);
            }
        });
        if due {
            // It may have sent something though nothing came.
            self.quiet = 0;
        }
        self.host_due = self.host.next();
        let more = self.instances[usize::from(target)].as_ref().is_some_and(|i| !i.input.is_empty());
        (moved, more)
    }

    /// Offers what the paths have ready to the scheme of `port`, and transmits what it lets go. Answers the packets
    /// moved and whether there is more to do now.
    pub(super) fn run_output(&mut self, port: PortId) -> (usize, bool) {
        let Worker { ports, instances, fates, scheduler, blocked, blocked_since, .. } = self;
        let Some(Some(state)) = ports.get_mut(port.index()) else { return (0, false) };
        let (mut moved, mut more) = (0, false);
        if let Some(lanes) = &state.lanes {
            state.link.reserve = lanes.reserve(state.link.port.room());
        }
        for &target in &state.outputs {
            let Some(Some(instance)) = instances.get_mut(usize::from(target)) else { continue };
            let was_full = instance.output.room() == 0;
            let taken = state.link.offer(&mut instance.output, BATCH, fates);
            instance.counters.left += taken as u64;
            moved += taken;
            more |= !instance.output.is_empty();
            if was_full && taken > 0 && instance.has_work() {
                // Room on the output side makes the path eligible again (spec Q-46).
                scheduler.wake(instance.task, Nanos::ZERO, fates.now);
            }
        }
        moved += state.link.serve(fates);
        if state.link.backlog().packets > 0 {
            if state.closing.is_some_and(|end| fates.now >= end) {
                state.link.clear(DropReason::PortRemoved, fates);
            } else if state.link.room() > 0 && state.link.next() == Next::Ready {
                more = true;
            } else if (state.closing.is_some() || state.link.next() != Next::Idle) && !blocked.contains(&port) {
                blocked.push(port);
                *blocked_since = fates.now;
            }
        }
        if let Some(lanes) = &mut state.lanes {
            moved += lanes.drain(&mut *state.link.port, fates);
        }
        if let Some(end) = state.closing
            && !more
        {
            if state.may_close() || fates.now >= end {
                self.close_port(port);
            } else if !blocked.contains(&port) {
                blocked.push(port);
            }
            return (moved, false);
        }
        (moved, more)
    }
}

/// Runs the functions of a path and tells what each does to packets that somebody follows. Answers whether one is refused
/// or an exception now.
#[cold]
fn followed(
    functions: &mut [Box<dyn Function>],
    context: Context<'_>,
    packets: &mut [Packet],
    fates: &mut Fates,
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

/// The reason a stage refused a packet for.
pub(crate) fn refusal(packet: &Packet) -> Option<DropReason> {
    DropReason::ALL.get(usize::from(packet.meta().refused).wrapping_sub(1)).copied()
}

/// Puts a packet on the input queue of an instance, from inside the router.
pub(super) fn enter(instance: &mut Instance, packet: Packet) -> Option<Packet> {
    instance.counters.entered += 1;
    instance.offloads |= packet.is_offloaded();
    let back = instance.input.push(packet);
    instance.counters.dropped += u64::from(back.is_some());
    back
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
