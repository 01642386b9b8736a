//! A worker: the tasks, the queues and the rings of one core. One [`Worker::step`] is one dispatch: pick a task, run it on a
//! vector of packets, charge it.
//!
//! The worker owns no thread and no clock; its driver passes the time and a meter. New configurations arrive through its mailbox.
//! The worker adopts them between steps, once the packets of the old one have left its paths.

mod adoption;
mod dispatch;
mod divert;
mod function_reports;
mod handoff;
mod hooks;
mod inject;
mod inline;
mod instances;
mod mailbox;
mod neighbour_queue;
mod next_hops;
mod originate;
mod output_tasks;
mod owner_rings;
mod paths;
mod peers;
mod ports;
mod preempt;
mod protocols;
mod punt;
mod reclassify;
mod replicate;
mod report;
mod restart;
mod segment;
mod stages;
mod stalled;
mod subscriber_side;
mod task_table;
mod tunnels;
mod vector;

pub(crate) use adoption::OpenedPort;
pub use adoption::{Adopted, Decorate, NewFunctions, NewHook, NewPort, Reschedule, WorkerChange};
pub(crate) use handoff::{SPREAD_SEED, SharedQueue};
pub use mailbox::{Command, Mailbox};
pub use originate::OriginatedPacket;
pub(crate) use owner_rings::OwnerRings;
pub(crate) use peers::PeerRings;
pub(crate) use protocols::MAX_ROUNDS;
pub use report::{
    LinksReport, PathReport, PortReport, QueueReport, StoreReaders, TaskReport, TraceReport, WorkerReport, add_counters,
};
pub use restart::AdoptionUnfinished;
pub(crate) use subscriber_side::ROUND_TRIPS;

use crate::classify::Target;
use crate::parker::Parker;
use crate::preempt::FunctionThreads;
use crate::snapshot::Snapshot;
use adoption::Adoption;
use fib::Tables;
use hooks::Hooks;
use link::Link;
use neighbour_queue::NeighbourQueue;
use packet::accounting::Accounting;
use packet::event::Observer;
use packet::{Pool, StallCounters};
use paths::Paths;
use peers::Peers;
use ports::{PortState, Ports, Role};
use protocols::Protocols;
use schemes::Next;
use stack::LocalProtocolLimits;
use std::sync::Arc;
use task_table::TaskTable;
use units::{Instant, Nanos, TaskId, WorkerId};
use vector::Vector;

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepResult {
    /// A task ran. There may be more to do at once.
    Ran,
    /// There was nothing to do. Step again when a port can receive, and at this time at the latest.
    Idle(Instant),
}

/// Interval between two checks of the ledgers of paths and links. Each adoption checks them as well.
const AUDIT: Nanos = Nanos::secs(1);
/// Interval between two checks of the link state of the ports.
const WATCH: Nanos = Nanos::millis(100);
/// Shortest and longest interval between two attempts to transmit on a blocked link. The interval is a quarter of the time that
/// the link has been blocked, so that a stuck device does not keep the worker busy.
const RETRY: (Nanos, Nanos) = (Nanos::micros(20), Nanos::millis(1));

/// One core's share of the router.
// Large: the dispatch, the four stages and the state that several parts share; each part owns its fields and has its own methods.
pub struct Worker {
    id: WorkerId,
    snapshot: Arc<Snapshot>,
    tables: Arc<Tables>,
    accounting: Accounting,
    tasks: TaskTable,
    ports: Ports,
    paths: Paths,
    vector: Vector,
    neighbours: NeighbourQueue,
    protocols: Protocols,
    peers: Peers,
    adoption: Adoption,
    /// The packet hooks: the observers besides the paths.
    hooks: Hooks,
    /// When the ledgers are checked next.
    audit_due: Instant,
    /// When the link state of the ports is checked next.
    watch_due: Instant,
}

impl Worker {
    /// Makes a worker without ports; the first change opens them. Other workers wake it by `bell`. `crew` has this worker's ends
    /// of the rings to them.
    pub(crate) fn new(
        (id, crew, bell): (WorkerId, PeerRings, Arc<Parker>),
        pool: Pool,
        tables: Arc<Tables>,
        mailbox: Arc<Mailbox>,
        switch_cost: Nanos,
        observer: Box<dyn Observer>,
        limits: LocalProtocolLimits,
    ) -> Worker {
        Worker {
            id,
            snapshot: Arc::new(Snapshot::empty()),
            tables,
            accounting: Accounting::new(id, pool, observer),
            tasks: TaskTable::new(switch_cost),
            ports: Ports::default(),
            paths: Paths::default(),
            vector: Vector::default(),
            neighbours: NeighbourQueue::default(),
            protocols: Protocols::new(limits),
            peers: Peers { alone: crew.is_alone(), rings: crew, parker: bell },
            adoption: Adoption::new(mailbox),
            hooks: Hooks::default(),
            audit_due: Instant::START,
            watch_due: Instant::START,
        }
    }

    /// From the next configuration on, the threads that `asides` makes run preemptible functions. Without them, as in virtual
    /// time, the worker runs the functions at once and preempts the time that they cost instead.
    pub fn set_function_threads(&mut self, asides: Box<dyn FunctionThreads>) {
        self.paths.function_threads = asides;
    }

    #[inline]
    fn begin(&mut self, now: Instant) {
        self.accounting.begin_step(now);
        if self.adoption.mailbox.posted() != self.adoption.commands_read {
            self.read_mail(now);
            // The sender of the command may also have registered an observer before it.
            self.accounting.begin_step(now);
        }
        if self.adoption.pending.is_some() {
            // A generation is adopted only on empty paths, so that every packet is forwarded by one generation. Until then
            // eligible tasks may run at once (`hurry`), and vectors held by preempted functions are given up after a second.
            if self.paths_are_empty() {
                self.adopt(now);
            } else {
                self.tasks.run_queue.drain(now);
                let since = *self.adoption.waits_since.get_or_insert(now);
                self.paths.give_up_overdue(since, &self.snapshot, &mut self.accounting);
            }
        }
        // Injected frames wait for an adoption, like packets in a receive ring: they would refill the paths that must drain.
        if !self.vector.injected.is_empty() && self.adoption.pending.is_none() {
            self.inject();
        }
        if !self.vector.originated.is_empty() && self.adoption.pending.is_none() {
            self.originate();
        }
        if self.id == WorkerId(0) && self.snapshot.punt.has_injected() && self.adoption.pending.is_none() {
            self.send_injected();
        }
        if !self.peers.alone {
            self.receive_from_peers(now);
            if self.adoption.pending.is_none() && self.hooks.owner_rings.is_some() {
                self.receive_handed();
            }
        }
        if now >= self.hooks.due {
            self.hooks.maintain(now);
        }
        if !self.neighbours.waiting.is_empty() {
            self.serve_waiting(now);
        }
        // The host has work when a timer is due, or when a first fragment has arrived that later fragments wait for.
        if now >= self.protocols.host_due
            || self.protocols.host.have_first_fragments_arrived(&self.snapshot.translations)
        {
            self.paths.wake_instance(self.paths.dispatch.control, &mut self.tasks, &mut self.accounting);
        }
        if now >= self.watch_due {
            self.watch_ports();
            self.watch_functions();
            self.ports.drain_closed(&mut self.vector, &mut self.accounting);
            if !self.peers.alone {
                // A shared queue moves the flows of an ended worker at its second check, one interval later.
                self.count_all_stranded();
            }
            self.watch_due = now + WATCH;
        }
        if now >= self.audit_due {
            self.audit();
            self.report_advisories();
            self.audit_due = now + AUDIT;
        }
        if !self.ports.blocked.is_empty() {
            self.ports.retry_blocked(now, &mut self.tasks, &mut self.accounting.stalls);
        }
        if !self.ports.emulated.is_empty() {
            self.ports.serve_emulated(now, &mut self.tasks);
        }
    }

    /// The time of the next step if nothing is received.
    fn deadline(&self, now: Instant) -> Instant {
        self.deadline_by(now, self.tasks.run_queue.next_timer())
    }

    /// The same deadline for a driver that sleeps on all ports. It leaves out the timers of ports that have been silent for long:
    /// their descriptor wakes the driver first.
    pub fn sleep_deadline(&self) -> Instant {
        let signs = |task: TaskId| match self.tasks.task(task) {
            Some(task_table::Task::Input(port)) if self.tasks.run_queue.is_silent(task) => {
                let state = self.ports.states.get(port);
                state.is_some_and(|state| {
                    matches!(state.link.port.wake_source(), packet::port::WakeSource::Descriptor(_))
                })
            }
            _ => false,
        };
        self.deadline_by(self.accounting.now, self.tasks.run_queue.next_timer_except(signs))
    }

    /// The deadline, if the next task is due at `timer`.
    fn deadline_by(&self, now: Instant, timer: Instant) -> Instant {
        let mut until = self.protocols.host_due.min(self.audit_due).min(self.watch_due).min(timer).min(self.hooks.due);
        if !self.neighbours.waiting.is_empty() {
            // A newly held packet sets `request_due` to the start of time, which means at once.
            until = until.min(self.neighbours.request_due.max(now));
        }
        // See [`RETRY`]: the interval grows with the time that the links have been blocked.
        let retry = Nanos::new((now.since(self.ports.blocked_since).get() / 4).clamp(RETRY.0.get(), RETRY.1.get()));
        let shared =
            |state: &&PortState| state.relays.as_ref().is_some_and(|l| l.is_waiting() || state.closing.is_some());
        // No event signals that the device has room for packets of relays, or that other workers have released a closing port: look
        // again soon.
        if self.ports.states.iter().any(|state| shared(&state)) {
            until = until.min(now + retry);
        }
        for state in self.ports.blocked.iter().filter_map(|&port| self.ports.states.get(port)) {
            let again = match state.link.next() {
                Next::At(time) if time > now => time,
                // A scheme that is ready although its link is blocked waits for room in the device, which nothing signals.
                Next::Ready | Next::At(_) => now + retry,
                Next::Idle => Instant::NEVER,
            };
            until = until.min(again).min(state.closing.unwrap_or(Instant::NEVER).max(now + retry));
        }
        for state in self.ports.states.iter().filter(|state| state.closing.is_none()) {
            // The input task decides when to poll. If it sleeps, the port's own time does not matter.
            let sleeps = self.tasks.run_queue.sleeps_until(state.input).is_some() || state.stalled.is_some();
            if let (packet::port::WakeSource::At(time), false) = (state.link.port.wake_source(), sleeps) {
                until = until.min(time);
            }
        }
        until.min(self.ports.due_exactly().max(now))
    }

    /// The exact time at which the first emulated link has to be served. A driver that sleeps should wake up a moment earlier.
    /// [`Instant::NEVER`] without emulated links.
    pub fn due_exactly(&self) -> Instant {
        self.ports.due_exactly()
    }

    /// The ports that the driver of this worker may sleep on. A port whose input task sleeps only has the time of its next poll,
    /// unless the port has been silent for long: then its descriptor wakes the driver.
    pub fn waiters(&self) -> impl Iterator<Item = packet::port::WakeSource> + '_ {
        let open = self.ports.states.iter().filter(|state| state.closing.is_none());
        open.map(|state| match self.tasks.run_queue.sleeps_until(state.input) {
            Some(time) if !self.tasks.run_queue.is_silent(state.input) => packet::port::WakeSource::At(time),
            _ => state.link.port.wake_source(),
        })
    }

    /// True if all ports are polled only at the times of their estimators, so that no descriptor has to be watched.
    pub fn is_timer_driven(&self) -> bool {
        let mut open = self.ports.states.iter().filter(|state| state.closing.is_none()).peekable();
        let sleeps = |state: &PortState| self.tasks.run_queue.sleeps_until(state.input).is_some();
        open.peek().is_some() && open.all(sleeps)
    }

    /// The worker's time: the time of the last step plus the time used in it.
    pub fn now(&self) -> Instant {
        self.accounting.now
    }

    /// Announces that the worker is about to sleep. Returns false if there is work after all. After sleeping the driver calls
    /// [`Worker::end_sleep`].
    pub fn prepare_sleep(&self) -> bool {
        if self.peers.alone {
            // No peer puts anything on a ring. A command of the control side wakes the worker whether it sleeps or not.
            return true;
        }
        // The order matters: announce the sleep first, then look for work. A peer that adds work after the check sees the
        // announcement and rings.
        self.peers.parker.prepare_park();
        let waits = |state: &PortState| match (&state.relays, state.role) {
            // Without room in the device these packets are no work. Otherwise a blocked device would keep the worker awake;
            // `deadline_by` sets the time of the retry.
            (Some(lanes), _) => lanes.is_waiting() && state.link.port.room() > 0,
            (None, Role::Relay) => state.link.port.has_arrivals(),
            _ => false,
        };
        let found = self.adoption.mailbox.posted() != self.adoption.commands_read
            || self.peers.rings.has_mail()
            || self.hooks.has_mail()
            || self.ports.states.iter().any(waits);
        if found {
            self.peers.parker.end_park();
        }
        !found
    }

    /// Ends the sleep. Ports that were silent are polled now.
    pub fn end_sleep(&mut self) {
        self.peers.parker.end_park();
        for state in self.ports.states.iter() {
            if self.tasks.run_queue.is_silent(state.input) {
                self.tasks.run_queue.wake(state.input, self.accounting.now);
            }
        }
    }

    /// The id of the worker.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The generation in use.
    pub fn generation(&self) -> units::Generation {
        self.snapshot.generation
    }

    /// Checks the ledgers of every path and link, and the worker's ledger against the packets in its queues.
    ///
    /// # Panics
    /// If a ledger does not balance.
    pub fn audit(&self) {
        let mut queued = (self.protocols.host.held_packets() + self.neighbours.waiting.len()) as u64;
        let (mut own, mut own_queued) = (crate::path::PathCounters::default(), queued);
        for instance in self.paths.instances.iter() {
            let inside = instance.queued() as u64;
            queued += inside;
            if instance.path == crate::snapshot::CONTROL || instance.path == crate::snapshot::GENERAL {
                // The two paths share the host and its neighbour queue, so only their sum balances.
                own += instance.counters;
                own_queued += inside;
            } else {
                assert_eq!(instance.counters.waiting(), inside, "path {}: {:?}", instance.path, instance.counters);
            }
        }
        assert_eq!(own.waiting(), own_queued, "paths of the router's own protocols: {own:?}");
        for (port, state) in self.ports.states.open() {
            let (counters, backlog) = (state.link.counters(), u64::from(state.link.backlog().packets));
            // Packets in flight on an emulated link count as sent by the link, but the worker still holds them.
            queued += backlog + state.link.in_flight() as u64;
            assert_eq!(counters.offered, counters.sent + counters.dropped + backlog, "link {port}: {counters:?}");
            let stalled = state.stalled.as_ref().map_or(0, |stalled| stalled.len() as u64);
            queued += stalled;
            assert_eq!(
                state.received + state.handed_in,
                state.refused + state.entered + state.handed_out + stalled,
                "port {port}"
            );
        }
        assert_eq!(self.accounting.ledger.outstanding(), queued, "packets in the queues of worker {}", self.id);
    }

    /// From now on asks the schemes about every packet, even where a packet may pass an idle link. Measurements use it.
    pub fn disable_bypass(&mut self) {
        self.ports.states.iter_mut().for_each(|state| state.link.disable_bypass());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // This also runs after a panic: no sender may wait for an answer for ever.
        self.adoption.mailbox.close();
    }
}

impl Ports {
    /// Serves emulated links that have arrivals or can accept queued packets.
    #[cold]
    pub(in crate::worker) fn serve_emulated(&mut self, now: Instant, tasks: &mut TaskTable) {
        let Ports { emulated, states: ports, .. } = self;
        for &mut port in emulated {
            let Some(state) = ports.get(port) else { continue };
            if state.link.due() <= now {
                // The link is due although no packet has arrived for the task.
                state.wake_output(tasks, now);
                tasks.idle_dispatches = 0;
            }
        }
    }

    pub(in crate::worker) fn retry_blocked(&mut self, now: Instant, tasks: &mut TaskTable, stalls: &mut StallCounters) {
        let Ports { blocked, blocked_since, states: ports, .. } = self;
        blocked.retain(|&port| {
            let Some(state) = ports.get_mut(port) else { return false };
            if state.stall.is_stalled() {
                state.stall.observe(state.link.room() == 0, now, stalls.link());
            }
            let may_leave = match state.link.next() {
                Next::Ready => true,
                Next::At(time) => now >= time,
                Next::Idle => false,
            };
            // A closing port is served even without room: its deadline may have passed.
            if !(may_leave && state.link.port.room() > 0
                || state.closing.is_some_and(|end| now >= end || state.may_close()))
            {
                return true;
            }
            state.wake_output(tasks, now);
            (tasks.idle_dispatches, *blocked_since) = (0, now);
            false
        });
    }

    /// See [`Worker::due_exactly`].
    pub(in crate::worker) fn due_exactly(&self) -> Instant {
        let links = self.emulated.iter().filter_map(|&port| Some(&self.states.get(port)?.link));
        links.map(Link::due).min().unwrap_or(Instant::NEVER)
    }
}

impl Paths {
    pub(in crate::worker) fn wake_instance(
        &mut self,
        target: Target,
        tasks: &mut TaskTable,
        accounting: &mut Accounting,
    ) {
        if let Some(instance) = self.instances.get_mut(target) {
            tasks.wake_forwarding(target, instance, accounting.now);
        }
    }
}
