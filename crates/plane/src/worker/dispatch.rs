//! One dispatch: pick a task, switch to it, run it vector by vector until its grant is used up, charge it.

use super::output_tasks::Part;
use super::paths::Paths;
use super::ports::Ports;
use super::task_table::{Task, TaskTable};
use super::{StepResult, Worker};
use cpu::meter::{Work, WorkKind, WorkMeter};
use cpu::task::{Grant, RunOutcome};
use packet::BATCH;
use units::{Instant, Nanos, PortId, TaskId};

/// Most packets received in interrupt mode before the worker does anything else. Without this bound a worker under overload would
/// never read its mailbox.
const MOST_INTERRUPTS: usize = 4096;

impl Worker {
    /// One dispatch.
    ///
    /// # Panics
    /// If the packet ledger does not balance. A packet was lost or counted twice, so none of the router's counters could be
    /// believed.
    pub fn step<M: WorkMeter>(&mut self, now: Instant, meter: &mut M) -> StepResult {
        self.begin(now);
        let interrupts = if self.ports.interrupted.is_some() { self.interrupt(meter) } else { 0 };
        let Some(grant) = self.tasks.run_queue.pick(self.accounting.now) else {
            return if interrupts > 0 { StepResult::Ran } else { StepResult::Idle(self.deadline(self.accounting.now)) };
        };
        let grant = if M::MEASURES_PROCESSOR { grant.on_processor() } else { grant };
        // Each reading of the meter moves the worker's time, so later stages of the same step see it.
        let switch = meter.lap(Work::SWITCH);
        self.accounting.now += switch;
        self.tasks.run_queue.record_switch(grant.task, switch);
        let duty = self.tasks.task(grant.task);
        let moved = match duty {
            Some(Task::Input(port)) => self.run_input_task(port, grant, meter),
            Some(Task::Forward) => self.run_forwarding_task(grant, meter),
            Some(Task::Output(port)) => self.run_output_task((port, self.ports.shared_part(port)), grant, meter),
            Some(Task::Reserved(port)) => self.run_output_task((port, Part::Reserved), grant, meter),
            None => unreachable!("a task that is gone is not picked"),
        };
        if let Err(unbalanced) = self.accounting.ledger.check(self.accounting.pool.frames_in_use()) {
            panic!("worker {}: {unbalanced}", self.id);
        }
        let nothing = moved + interrupts == 0;
        self.tasks.idle_dispatches = if nothing { self.tasks.idle_dispatches + 1 } else { 0 };
        // Polls that take time do not count as stuck: an input task that keeps its turns says nothing about the backlog of other
        // tasks.
        let looked = matches!(duty, Some(Task::Input(_))) && self.accounting.now > now;
        self.tasks.futile_dispatches = if nothing { self.tasks.futile_dispatches + usize::from(!looked) } else { 0 };
        // Idle if a whole round moved nothing and no task is ready, or if four rounds moved nothing although tasks are ready:
        // their packets are blocked.
        let tasks = self.tasks.run_queue.count();
        if self.tasks.idle_dispatches > tasks
            && (self.tasks.run_queue.is_quiet() || self.tasks.futile_dispatches > 4 * tasks)
        {
            (self.tasks.idle_dispatches, self.tasks.futile_dispatches) = (0, 0);
            return StepResult::Idle(self.deadline(self.accounting.now));
        }
        StepResult::Ran
    }

    /// True if the meter or a trace needs the number of bytes of a vector.
    #[inline]
    pub(super) fn needs_bytes<M: WorkMeter>(&self) -> bool {
        M::BYTES || self.tasks.run_queue.is_traced()
    }

    /// Reads the meter, advances the worker's time and returns the time used.
    #[inline]
    pub(super) fn lap<M: WorkMeter>(&mut self, meter: &mut M, work: Work) -> Nanos {
        let used = meter.lap(work);
        self.accounting.now += used;
        self.tasks.run_queue.count_bytes(work.bytes);
        used
    }

    /// Runs an input task. Returns the number of packets moved.
    fn run_input_task<M: WorkMeter>(&mut self, port: PortId, grant: Grant, meter: &mut M) -> usize {
        let (mut used, mut read, mut moved) = (Nanos::ZERO, 0, 0);
        let (full, stalled) = loop {
            // A vector never exceeds the rest of the grant.
            let most = grant.vector.min(grant.packets - read) as usize;
            let input = self.receive(port, most, meter);
            used += input.used;
            read += input.received as u32;
            moved += input.received + input.drained;
            if input.stalled || input.received < most {
                // A port that kept packets although there was room counts as one that has reached its limit.
                break (input.more && !input.stalled, input.stalled);
            }
            if read >= grant.packets || used >= grant.slice {
                break (true, false);
            }
        };
        self.tasks.run_queue.record_poll(grant.task, used, read, full, stalled, self.accounting.now);
        if stalled {
            self.ports.retry_stalls(&mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        moved
    }

    /// Runs a forwarding task. Returns the number of packets moved.
    fn run_forwarding_task<M: WorkMeter>(&mut self, grant: Grant, meter: &mut M) -> usize {
        let (mut used, mut moved, mut lent) = (Nanos::ZERO, 0, false);
        while let Some(target) = self.paths.next_ready(grant.task, &mut self.tasks) {
            let most = grant.vector.min(grant.packets - moved as u32) as usize;
            let vector = if self.paths.is_preemptible(target) {
                self.lend(target, grant, used, meter)
            } else {
                self.forward(target, most, meter)
            };
            // Time and packets of all vectors together are charged to the task.
            used += vector.used;
            moved += vector.moved;
            lent |= vector.unfinished;
            if !vector.unfinished {
                self.paths.settle_ready(grant.task, target, vector.moved, &mut self.tasks);
            }
            if self.ports.interrupted.is_some() {
                self.interrupt(meter);
            }
            // At least one vector runs in every dispatch: the grant is checked behind it.
            if moved as u32 >= grant.packets || used >= grant.slice || vector.moved == 0 {
                break;
            }
        }
        if !self.ports.stalls.is_empty() {
            self.ports.retry_stalls(&mut self.paths, &mut self.tasks, &mut self.accounting);
        }
        let (waiting, room, away) = self.paths.forwarding_backlog(grant.task, &mut self.tasks);
        let run = RunOutcome { used, packets: moved as u32, waiting, room, in_function_thread: away };
        self.tasks.run_queue.record_run(grant.task, run, self.accounting.now);
        // Lent time is progress, although no packet has moved yet: the worker must not become idle.
        moved + usize::from(lent)
    }

    /// Runs an output task. Returns the number of packets moved.
    fn run_output_task<M: WorkMeter>(&mut self, (port, part): (PortId, Part), grant: Grant, meter: &mut M) -> usize {
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
            let bytes = if self.needs_bytes::<M>() { self.ports.sent_bytes(port) } else { 0 };
            used += self.lap(meter, Work::new(WorkKind::Output, packets, bytes).at(port));
            moved += packets;
            if self.ports.interrupted.is_some() {
                self.interrupt(meter);
            }
            if !more || packets == 0 || moved as u32 >= grant.packets || used >= grant.slice {
                break more;
            }
        };
        if self.tasks.task(grant.task).is_none() {
            // Transmitting the last packet has closed the port and removed the task.
            return moved;
        }
        // At least one: `more` may come from the queues of the link alone, while no packet waits on a path.
        let waiting = if more { self.ports.offerable((port, part), &self.paths).max(1) } else { 0 };
        self.tasks.slot(grant.task).waiting = waiting;
        let run = RunOutcome {
            used,
            packets: moved as u32,
            waiting: waiting as u32,
            // An output task fills no queue of the worker. `after_transmission` has checked the room of the link.
            room: u32::from(u16::MAX),
            in_function_thread: false,
        };
        self.tasks.run_queue.record_run(grant.task, run, self.accounting.now);
        moved
    }

    /// Receives and classifies all arrived packets one by one before any other task continues. Returns the number of packets.
    #[cold]
    pub(super) fn interrupt<M: WorkMeter>(&mut self, meter: &mut M) -> usize {
        let (mut port, ports) = (self.ports.interrupted.unwrap_or(0), self.ports.states.ids().len());
        let (mut taken, mut silent) = (0, 0);
        // Round robin from the port after the last one. It ends when a full round was silent.
        while silent < ports && taken < MOST_INTERRUPTS {
            port = if port + 1 >= ports { 0 } else { port + 1 };
            let state = self.ports.states.get(PortId::at(port));
            let open = state.is_some_and(|state| state.closing.is_none());
            let received = if open { self.receive_interrupt(PortId::at(port), meter) } else { 0 };
            silent = if received == 0 { silent + 1 } else { 0 };
            taken += received;
        }
        self.ports.interrupted = Some(port);
        taken
    }

    fn receive_interrupt<M: WorkMeter>(&mut self, port: PortId, meter: &mut M) -> usize {
        let input = self.receive(port, 1, meter);
        self.tasks.run_queue.record_interrupt(input.used);
        input.received
    }

    /// Runs every path and every output once, at no cost.
    pub(super) fn flush(&mut self) {
        for target in self.paths.instances.targets() {
            self.forward(target, BATCH, &mut cpu::meter::FreeMeter);
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
    /// A [`Work`] for packets of an instance.
    pub(in crate::worker) fn work_of(&self, target: crate::classify::Target, packets: usize, bytes: u64) -> Work {
        let instance = self.instances.get(target);
        Work { path: instance.map(|instance| instance.path), ..Work::new(WorkKind::Forwarding, packets, bytes) }
    }

    /// The instance that a task serves next: the one whose first packet arrived first.
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
                if let Some(out) = instance.and_then(|instance| instance.function_thread.as_ref()?.in_flight.as_ref()) {
                    // Preempted instances are ordered by the time of their last slice. So they take turns and do not block the
                    // others.
                    return out.last_lent;
                }
                instance.map_or(Instant::START, |instance| instance.input.turn())
            };
            let first = ready.iter().enumerate().min_by_key(|&(position, &target)| (came(target), position));
            if let Some((position, _)) = first {
                ready.swap(0, position);
            }
        }
        ready.front().copied()
    }

    /// After `moved` packets of `target`: keeps the instance ready if it has more packets and room for them.
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
        // If nothing moved, the instance is blocked until an event makes it ready again.
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

    /// The backlog of a forwarding task, the largest room behind it, and whether preempted functions hold some of its packets.
    #[inline]
    pub(in crate::worker) fn forwarding_backlog(&mut self, task: TaskId, tasks: &mut TaskTable) -> (u32, u32, bool) {
        let Paths { instances, .. } = self;
        let slot = tasks.slot(task);
        let (mut waiting, mut room, mut away) = (0, 0, 0);
        for &target in &slot.ready {
            let Some(instance) = instances.get(target) else { continue };
            waiting += instance.input.len() + usize::from(instance.half.is_some());
            room = room.max(instance.output.room());
            away += instance.packets_in_flight();
        }
        slot.waiting = waiting + away;
        (slot.waiting as u32, room as u32, away > 0)
    }
}

impl Ports {
    /// Packets on the output queues of one part of a port.
    pub(in crate::worker) fn offerable(&self, (port, part): (PortId, Part), paths: &Paths) -> usize {
        let Some(state) = self.states.get(port) else { return 0 };
        let of = |&target: &crate::classify::Target| paths.instances.get(target);
        state.part(part).iter().filter_map(of).map(|instance| instance.output.len()).sum()
    }

    /// Bytes that the port has transmitted since the last call.
    pub(in crate::worker) fn sent_bytes(&mut self, port: PortId) -> u64 {
        let Some(state) = self.states.get_mut(port) else { return 0 };
        let sent = state.link.counters().sent_bytes;
        // Late refusals reduce the counter, hence the saturating subtraction.
        sent.saturating_sub(std::mem::replace(&mut state.metered, sent))
    }
}
