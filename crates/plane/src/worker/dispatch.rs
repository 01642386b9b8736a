//! One dispatch: pick a task, change to it, run it vector by vector until it has done what it was granted, charge it.

use super::output_tasks::Part;
use super::paths::Paths;
use super::ports::Ports;
use super::task_table::{Task, TaskTable};
use super::{Step, Worker};
use cpu::meter::{Meter, Stage, Work};
use cpu::task::{Grant, Run};
use packet::BATCH;
use units::{Instant, Nanos, PortId, TaskId};

/// Packets taken in the way of interrupts before anything else is done all the same: a worker that only receives would
/// never hear that it is to stop.
const MOST_INTERRUPTS: usize = 4096;

impl Worker {
    /// One dispatch.
    ///
    /// # Panics
    /// When the packet ledger does not balance: a packet was lost or counted twice, and nothing the router says of
    /// itself could be believed any more.
    pub fn step<M: Meter>(&mut self, now: Instant, meter: &mut M) -> Step {
        self.begin(now);
        let interrupts = if self.ports.interrupted.is_some() { self.interrupt(meter) } else { 0 };
        let Some(grant) = self.tasks.agenda.pick(self.accounting.now) else {
            return if interrupts > 0 { Step::Ran } else { Step::Idle(self.deadline(self.accounting.now)) };
        };
        let switch = meter.lap(Work::SWITCH);
        self.accounting.now += switch;
        self.tasks.agenda.switched(grant.task, switch);
        let duty = self.tasks.task(grant.task);
        let moved = match duty {
            Some(Task::Input(port)) => self.run_input_task(port, grant, meter),
            Some(Task::Forward) => self.run_forwarding_task(grant, meter),
            Some(Task::Output(port)) => self.run_output_task((port, self.ports.shared_part(port)), grant, meter),
            Some(Task::Reserved(port)) => self.run_output_task((port, Part::Reserved), grant, meter),
            None => unreachable!("a task that is gone is not picked"),
        };
        if let Err(unbalanced) = self.accounting.ledger.check(self.accounting.pool.outside()) {
            panic!("worker {}: {unbalanced}", self.id);
        }
        let nothing = moved + interrupts == 0;
        self.tasks.quiet = if nothing { self.tasks.quiet + 1 } else { 0 };
        // A port that keeps its turns says nothing of what waits for others, as long as its looks take time.
        let looked = matches!(duty, Some(Task::Input(_))) && self.accounting.now > now;
        self.tasks.stuck = if nothing { self.tasks.stuck + usize::from(!looked) } else { 0 };
        // Nothing is known to be there, and every port was looked at in turn; or what is there does not move.
        let tasks = self.tasks.agenda.count();
        if self.tasks.quiet > tasks && (self.tasks.agenda.is_quiet() || self.tasks.stuck > 4 * tasks) {
            (self.tasks.quiet, self.tasks.stuck) = (0, 0);
            return Step::Idle(self.deadline(self.accounting.now));
        }
        Step::Ran
    }

    /// Whether anybody wants to know how many bytes a vector has.
    #[inline]
    pub(super) fn wants_bytes<M: Meter>(&self) -> bool {
        M::BYTES || self.tasks.agenda.is_traced()
    }

    /// The meter is read: so much time has passed.
    #[inline]
    pub(super) fn lap<M: Meter>(&mut self, meter: &mut M, work: Work) -> Nanos {
        let used = meter.lap(work);
        self.accounting.now += used;
        self.tasks.agenda.moved(work.bytes);
        used
    }

    /// Runs an input task. Answers the packets moved.
    fn run_input_task<M: Meter>(&mut self, port: PortId, grant: Grant, meter: &mut M) -> usize {
        let (mut used, mut read, mut moved) = (Nanos::ZERO, 0, 0);
        let (full, stalled) = loop {
            let most = grant.vector.min(grant.packets - read) as usize;
            let input = self.receive(port, most, meter);
            used += input.used;
            read += input.received as u32;
            moved += input.received + input.drained;
            if input.stalled || input.received < most {
                // What a port has left in it though there was room is as a limit that was reached.
                break (input.more && !input.stalled, input.stalled);
            }
            if read >= grant.packets || used >= grant.slice {
                break (true, false);
            }
        };
        self.tasks.agenda.polled(grant.task, used, read, full, stalled, self.accounting.now);
        if stalled {
            self.ports.retry_stalls(&mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        moved
    }

    /// Runs a forwarding task. Answers the packets moved.
    fn run_forwarding_task<M: Meter>(&mut self, grant: Grant, meter: &mut M) -> usize {
        let (mut used, mut moved, mut lent) = (Nanos::ZERO, 0, false);
        while let Some(target) = self.paths.next_ready(grant.task, &mut self.tasks) {
            let most = grant.vector.min(grant.packets - moved as u32) as usize;
            let vector = if self.paths.is_aside(target) {
                self.lend(target, grant, used, meter)
            } else {
                self.forward(target, most, meter)
            };
            used += vector.used;
            moved += vector.moved;
            lent |= vector.away;
            if !vector.away {
                self.paths.settle_ready(grant.task, target, vector.moved, &mut self.tasks);
            }
            if self.ports.interrupted.is_some() {
                self.interrupt(meter);
            }
            if moved as u32 >= grant.packets || used >= grant.slice || vector.moved == 0 {
                break;
            }
        }
        if !self.ports.stalls.is_empty() {
            self.ports.retry_stalls(&mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        let (waiting, room, away) = self.paths.before(grant.task, &mut self.tasks);
        let run = Run { used, packets: moved as u32, waiting, room, away };
        self.tasks.agenda.ran(grant.task, run, self.accounting.now);
        // Work goes on where the core was lent, though no packet has moved yet.
        moved + usize::from(lent)
    }

    /// Runs an output task. Answers the packets moved.
    fn run_output_task<M: Meter>(&mut self, (port, part): (PortId, Part), grant: Grant, meter: &mut M) -> usize {
        let (mut used, mut moved) = (Nanos::ZERO, 0);
        let more = loop {
            let most = grant.vector.min(grant.packets - moved as u32) as usize;
            let (packets, more) = self.ports.transmit(
                (port, part),
                most,
                &mut self.paths,
                &mut self.vector,
                &mut self.tasks,
                &mut self.accounting,
            );
            let bytes = if self.wants_bytes::<M>() { self.ports.sent_bytes(port) } else { 0 };
            used += self.lap(meter, Work::new(Stage::Output, packets, bytes).at(port));
            moved += packets;
            if self.ports.interrupted.is_some() {
                self.interrupt(meter);
            }
            if !more || packets == 0 || moved as u32 >= grant.packets || used >= grant.slice {
                break more;
            }
        };
        if self.tasks.task(grant.task).is_none() {
            // It was the last thing to do for a port that is gone now.
            return moved;
        }
        let waiting = if more { self.ports.to_offer((port, part), &self.paths).max(1) } else { 0 };
        self.tasks.slot(grant.task).waiting = waiting;
        let run = Run { used, packets: moved as u32, waiting: waiting as u32, room: u32::from(u16::MAX), away: false };
        self.tasks.agenda.ran(grant.task, run, self.accounting.now);
        moved
    }

    /// Receives and classifies whatever has come, packet by packet, before anything else goes on. Answers the packets.
    #[cold]
    pub(super) fn interrupt<M: Meter>(&mut self, meter: &mut M) -> usize {
        let (mut port, ports) = (self.ports.interrupted.unwrap_or(0), self.ports.states.ids().len());
        let (mut taken, mut silent) = (0, 0);
        while silent < ports && taken < MOST_INTERRUPTS {
            port = if port + 1 >= ports { 0 } else { port + 1 };
            let state = self.ports.states.get(PortId::at(port));
            let open = state.is_some_and(|state| state.closing.is_none());
            let received = if open { self.take_in(PortId::at(port), meter) } else { 0 };
            silent = if received == 0 { silent + 1 } else { 0 };
            taken += received;
        }
        self.ports.interrupted = Some(port);
        taken
    }

    fn take_in<M: Meter>(&mut self, port: PortId, meter: &mut M) -> usize {
        let input = self.receive(port, 1, meter);
        self.tasks.agenda.interrupted(input.used);
        input.received
    }

    /// Runs every path and output once, at no cost.
    pub(super) fn flush(&mut self) {
        for target in self.paths.instances.targets() {
            self.forward(target, BATCH, &mut cpu::meter::Free);
        }
        for port in self.ports.states.ids() {
            self.ports.transmit(
                (port, Part::All),
                BATCH,
                &mut self.paths,
                &mut self.vector,
                &mut self.tasks,
                &mut self.accounting,
            );
        }
    }
}

impl Paths {
    /// Work on packets of an instance.
    pub(in crate::worker) fn work_of(&self, target: crate::classify::Target, packets: usize, bytes: u64) -> Work {
        let instance = self.instances.get(target);
        Work { path: instance.map(|instance| instance.path), ..Work::new(Stage::Forwarding, packets, bytes) }
    }

    /// The instance a task works on next: where it has several, the one whose first packet came first.
    #[inline]
    pub(in crate::worker) fn next_ready(
        &mut self,
        task: TaskId,
        tasks: &mut TaskTable,
    ) -> Option<crate::classify::Target> {
        let ready = &mut tasks.slot(task).ready;
        if ready.len() > 1 {
            let instances = &self.instances;
            let came = |target: crate::classify::Target| {
                let instance = instances.get(target);
                if let Some(out) = instance.and_then(|instance| instance.side.as_ref()?.out.as_ref()) {
                    // Those that are away take turns, and do not keep others waiting.
                    return out.lent;
                }
                instance.and_then(|i| i.input.front()).map_or(Instant::START, |packet| packet.meta().timestamp)
            };
            let first = ready.iter().enumerate().min_by_key(|&(position, &target)| (came(target), position));
            if let Some((position, _)) = first {
                ready.swap(0, position);
            }
        }
        ready.front().copied()
    }

    /// `moved` packets of `target` have been worked on: is there more, and room for it?
    #[inline]
    pub(in crate::worker) fn settle_ready(
        &mut self,
        task: TaskId,
        target: crate::classify::Target,
        moved: usize,
        tasks: &mut TaskTable,
    ) {
        let Paths { instances, .. } = self;
        let slot = tasks.slot(task);
        slot.waiting = slot.waiting.saturating_sub(moved);
        let Some(instance) = instances.get_mut(target) else {
            slot.ready.retain(|&ready| ready != target);
            return;
        };
        // Nothing moved: it cannot go on, whatever the reason, until something changes.
        if moved > 0 && instance.has_work() && instance.output.room() > 0 {
            return;
        }
        instance.ready = false;
        if slot.ready.front() == Some(&target) {
            slot.ready.pop_front();
        } else {
            slot.ready.retain(|&ready| ready != target);
        }
    }

    /// What waits for a forwarding task, the most room behind it, and whether somebody else works on some of it.
    #[inline]
    pub(in crate::worker) fn before(&mut self, task: TaskId, tasks: &mut TaskTable) -> (u32, u32, bool) {
        let Paths { instances, .. } = self;
        let slot = tasks.slot(task);
        let (mut waiting, mut room, mut away) = (0, 0, 0);
        for &target in &slot.ready {
            let Some(instance) = instances.get(target) else { continue };
            waiting += instance.input.len() + usize::from(instance.half.is_some());
            room = room.max(instance.output.room());
            away += instance.away();
        }
        slot.waiting = waiting + away;
        (slot.waiting as u32, room as u32, away > 0)
    }
}

impl Ports {
    /// Packets on the output queues of a part of a port.
    pub(in crate::worker) fn to_offer(&self, (port, part): (PortId, Part), paths: &Paths) -> usize {
        let Some(state) = self.states.get(port) else { return 0 };
        let of = |&target: &crate::classify::Target| paths.instances.get(target);
        state.part(part).iter().filter_map(of).map(|instance| instance.output.len()).sum()
    }

    /// Bytes that have left by a port since this was last asked.
    pub(in crate::worker) fn sent_bytes(&mut self, port: PortId) -> u64 {
        let Some(state) = self.states.get_mut(port) else { return 0 };
        let sent = state.link.counters().sent_bytes;
        // Packets that were refused late have not left.
        sent.saturating_sub(std::mem::replace(&mut state.metered, sent))
    }
}
