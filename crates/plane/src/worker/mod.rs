//! A worker: one core's tasks, queues and ring ends. One [`Worker::step`] is one dispatch: pick a task, run it on a
//! vector of packets, charge it.
//!
//! The worker owns no thread and no clock; whoever drives it passes the time and a meter. New configurations come in
//! through its mailbox and are adopted between steps, once the packets of the old one have left its paths.

mod adoption;
mod dispatch;
mod divert;
mod hooks;
mod inject;
mod inline;
mod instances;
mod lanes;
mod mailbox;
mod neighbour_queue;
mod next_hops;
mod output_tasks;
mod owner_rings;
mod paths;
mod peers;
mod ports;
mod preempt;
mod protocols;
mod reclassify;
mod replicate;
mod report;
mod restart;
mod segment;
mod stages;
mod stalled;
mod task_table;
mod vector;

pub(crate) use adoption::Opened;
pub use adoption::{Adopted, Change, Decorate, NewFunctions, NewHook, NewPort, Reschedule};
pub(crate) use lanes::{Lanes, SPREAD};
pub use mailbox::{Command, Mailbox};
pub(crate) use owner_rings::OwnerRings;
pub(crate) use peers::Crew;
pub(crate) use protocols::ROUNDS;
pub use report::{
    LinksReport, Onlookers, PathReport, PortReport, QueueReport, TaskReport, Watched, WorkerReport, add_counters,
};
pub use restart::HalfAdopted;

use crate::aside::Asides;
use crate::bell::Bell;
use crate::classify::Target;
use crate::snapshot::Snapshot;
use adoption::Adoption;
use fib::Tables;
use hooks::Hooks;
use link::Link;
use neighbour_queue::NeighbourQueue;
use packet::Pool;
use packet::accounting::Accounting;
use packet::event::Observer;
use paths::Paths;
use peers::Peers;
use ports::{PortState, Ports, Role};
use protocols::Protocols;
use schemes::Next;
use stack::HostLimits;
use std::sync::Arc;
use task_table::TaskTable;
use units::{Instant, Nanos, TaskId, WorkerId};
use vector::Vector;

/// What a step did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A task ran; there may be more to do at once.
    Ran,
    /// Nothing was found to do. Step again when a port has something to receive, and not later than this.
    Idle(Instant),
}

/// How often the ledgers of paths and links are checked, besides at each adoption.
const AUDIT: Nanos = Nanos::secs(1);
/// How often ports are asked whether their medium is there.
const WATCH: Nanos = Nanos::millis(100);
/// How soon a link without room is looked at again: at first, and at last. In between after a quarter of the time that it
/// has waited: a worker before a medium that is stuck shall not be busy with looking at it.
const RETRY: (Nanos, Nanos) = (Nanos::micros(20), Nanos::millis(1));

/// One core's share of the router.
// Large: the dispatch, the four stages and what crosses several parts; each part owns its fields and has its own methods.
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
    /// Whoever is shown packets besides their path.
    hooks: Hooks,
    /// When the ledgers are checked next.
    audit_due: Instant,
    /// When ports are asked next whether their medium is there.
    watch_due: Instant,
}

impl Worker {
    /// A worker without ports; they come with the first change. Others ring its bell, and it has the ends `crew` of the
    /// rings to them.
    pub(crate) fn new(
        (id, crew, bell): (WorkerId, Crew, Arc<Bell>),
        pool: Pool,
        tables: Arc<Tables>,
        mailbox: Arc<Mailbox>,
        switch_cost: Nanos,
        observer: Box<dyn Observer>,
        limits: HostLimits,
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
            peers: Peers { alone: crew.is_alone(), crew, bell },
            adoption: Adoption::new(mailbox),
            hooks: Hooks::default(),
            audit_due: Instant::START,
            watch_due: Instant::START,
        }
    }

    /// From the next configuration on functions that are interrupted when their slice is over are run by those whom `asides`
    /// makes. Without it they run at once, and what they cost is interrupted: where time is not real.
    pub fn lend_to(&mut self, asides: Box<dyn Asides>) {
        self.paths.asides = asides;
    }

    #[inline]
    fn begin(&mut self, now: Instant) {
        self.accounting.begin(now);
        if self.adoption.mailbox.posted() != self.adoption.seen {
            self.read_mail(now);
            // Whoever posted may have begun to watch before.
            self.accounting.begin(now);
        }
        if self.adoption.pending.is_some() {
            if self.paths_are_empty() {
                self.adopt(now);
            } else {
                self.tasks.agenda.hurry(now);
                let since = *self.adoption.waits_since.get_or_insert(now);
                self.paths.call_in(since, &self.snapshot, &mut self.accounting);
            }
        }
        if !self.vector.injected.is_empty() && self.adoption.pending.is_none() {
            self.inject();
        }
        if !self.peers.alone {
            self.take_over(now);
            if self.adoption.pending.is_none() && self.hooks.mesh.is_some() {
                self.take_brought();
            }
        }
        if now >= self.hooks.due {
            self.hooks.tend(now);
        }
        if !self.neighbours.held.is_empty() {
            self.tend(now);
        }
        if now >= self.protocols.host_due || self.protocols.host.firsts_came(&self.snapshot.translations) {
            self.paths.wake_instance(self.paths.dispatch.control, &mut self.tasks, &mut self.accounting);
        }
        if now >= self.watch_due {
            self.watch_ports();
            self.ports.bury_remains(&mut self.vector, &mut self.accounting);
            if !self.peers.alone {
                self.count_forsaken();
            }
            self.watch_due = now + WATCH;
        }
        if now >= self.audit_due {
            self.audit();
            self.remark();
            self.audit_due = now + AUDIT;
        }
        if !self.ports.blocked.is_empty() {
            self.ports.retry_blocked(now, &mut self.tasks);
        }
        if !self.ports.emulated.is_empty() {
            self.ports.attend(now, &mut self.tasks);
        }
    }

    /// When to step again though nothing is received.
    fn deadline(&self, now: Instant) -> Instant {
        self.deadline_by(now, self.tasks.agenda.next())
    }

    /// The same for a driver that sleeps on all ports: a port that has been silent for so long that a sign of it is worth more
    /// than its time is not looked at before that.
    pub fn rests_until(&self) -> Instant {
        let signs = |task: TaskId| match self.tasks.task(task) {
            Some(task_table::Task::Input(port)) if self.tasks.agenda.is_silent(task) => {
                let state = self.ports.states.get(port);
                state.is_some_and(|state| matches!(state.link.port.waiter(), packet::port::Waiter::Descriptor(_)))
            }
            _ => false,
        };
        self.deadline_by(self.accounting.now, self.tasks.agenda.next_but(signs))
    }

    /// `timer` is when a task is due.
    fn deadline_by(&self, now: Instant, timer: Instant) -> Instant {
        let mut until = self.protocols.host_due.min(self.audit_due).min(self.watch_due).min(timer).min(self.hooks.due);
        if !self.neighbours.held.is_empty() {
            until = until.min(self.neighbours.ask_due.max(now));
        }
        let retry = Nanos::new((now.since(self.ports.blocked_since).get() / 4).clamp(RETRY.0.get(), RETRY.1.get()));
        let shared =
            |state: &&PortState| state.lanes.as_ref().is_some_and(|l| l.is_waiting() || state.closing.is_some());
        if self.ports.states.iter().any(|state| shared(&state)) {
            until = until.min(now + retry);
        }
        for state in self.ports.blocked.iter().filter_map(|&port| self.ports.states.get(port)) {
            let again = match state.link.next() {
                Next::At(time) if time > now => time,
                Next::Ready | Next::At(_) => now + retry,
                Next::Idle => Instant::FAR,
            };
            until = until.min(again).min(state.closing.unwrap_or(Instant::FAR).max(now + retry));
        }
        for state in self.ports.states.iter().filter(|state| state.closing.is_none()) {
            // A port whose input task sleeps is not looked at before that wakes.
            let sleeps = self.tasks.agenda.sleeps_until(state.input).is_some() || state.stalled.is_some();
            if let (packet::port::Waiter::At(time), false) = (state.link.port.waiter(), sleeps) {
                until = until.min(time);
            }
        }
        until.min(self.ports.due_exactly().max(now))
    }

    /// When the first of its emulated links has to be served, which is to happen exactly then: a driver that sleeps had better be
    /// awake a moment before. [`Instant::FAR`] where there is none.
    pub fn due_exactly(&self) -> Instant {
        self.ports.due_exactly()
    }

    /// What the driver of this worker may sleep on: every port it receives by. One whose input task sleeps brings nothing
    /// before that wakes, unless it has been silent for so long that a sign of it is worth more than its time.
    pub fn waiters(&self) -> impl Iterator<Item = packet::port::Waiter> + '_ {
        let open = self.ports.states.iter().filter(|state| state.closing.is_none());
        open.map(|state| match self.tasks.agenda.sleeps_until(state.input) {
            Some(time) if !self.tasks.agenda.is_silent(state.input) => packet::port::Waiter::At(time),
            _ => state.link.port.waiter(),
        })
    }

    /// Whether every port it receives by is looked at only when its estimator says: there is nothing to look out for.
    pub fn sleeps(&self) -> bool {
        let mut open = self.ports.states.iter().filter(|state| state.closing.is_none()).peekable();
        let sleeps = |state: &PortState| self.tasks.agenda.sleeps_until(state.input).is_some();
        open.peek().is_some() && open.all(sleeps)
    }

    /// The time as the worker has it: that of the last step, and what was done in it.
    pub fn now(&self) -> Instant {
        self.accounting.now
    }

    /// Says that the worker is about to sleep. False where there is something to do after all; where it sleeps, it says so
    /// with [`Worker::wakes`] when it is awake again.
    pub fn may_sleep(&self) -> bool {
        if self.peers.alone {
            return true;
        }
        self.peers.bell.lie_down();
        let waits = |state: &PortState| match (&state.lanes, state.role) {
            (Some(lanes), _) => lanes.is_waiting() && state.link.port.room() > 0,
            (None, Role::Relay) => state.link.port.has_arrivals(),
            _ => false,
        };
        let found = self.adoption.mailbox.posted() != self.adoption.seen
            || self.peers.crew.has_mail()
            || self.hooks.has_mail()
            || self.ports.states.iter().any(waits);
        if found {
            self.peers.bell.get_up();
        }
        !found
    }

    /// The worker has slept. Ports that were silent are looked at now.
    pub fn wakes(&mut self) {
        self.peers.bell.get_up();
        for state in self.ports.states.iter() {
            if self.tasks.agenda.is_silent(state.input) {
                self.tasks.agenda.rouse(state.input, self.accounting.now);
            }
        }
    }

    /// Which worker it is.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The generation that runs.
    pub fn generation(&self) -> units::Generation {
        self.snapshot.generation
    }

    /// Checks the ledgers of every path and link, and the worker's own against the packets in its queues.
    ///
    /// # Panics
    /// When one does not balance.
    pub fn audit(&self) {
        let mut queued = (self.protocols.host.pending() + self.neighbours.held.len()) as u64;
        let (mut own, mut own_queued) = (crate::path::PathCounters::default(), queued);
        for instance in self.paths.instances.iter() {
            let inside = instance.queued() as u64;
            queued += inside;
            if instance.path == crate::snapshot::CONTROL || instance.path == crate::snapshot::GENERAL {
                // The two share the host, and what it holds back for neighbours.
                own += instance.counters;
                own_queued += inside;
            } else {
                assert_eq!(instance.counters.waiting(), inside, "path {}: {:?}", instance.path, instance.counters);
            }
        }
        assert_eq!(own.waiting(), own_queued, "paths of the router's own protocols: {own:?}");
        for (port, state) in self.ports.states.open() {
            let (counters, backlog) = (state.link.counters(), u64::from(state.link.backlog().packets));
            queued += backlog + state.link.under_way() as u64;
            assert_eq!(counters.offered, counters.sent + counters.dropped + backlog, "link {port}: {counters:?}");
            let stalled = state.stalled.as_ref().map_or(0, |stalled| stalled.len() as u64);
            queued += stalled;
            assert_eq!(
                state.received + state.brought,
                state.refused + state.passed + state.spread + stalled,
                "port {port}"
            );
        }
        assert_eq!(self.accounting.ledger.held(), queued, "packets in the queues of worker {}", self.id);
    }

    /// Asks the schemes of all links about every packet from now on, also where one may pass an idle link: to measure it.
    pub fn ask_always(&mut self) {
        self.ports.states.iter_mut().for_each(|state| state.link.ask_always());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Also where it panicked: nobody shall wait for its answer.
        self.adoption.mailbox.close();
    }
}

impl Ports {
    /// Emulated links at which something has arrived, or that could take what waits, are served.
    #[cold]
    pub(in crate::worker) fn attend(&mut self, now: Instant, tasks: &mut TaskTable) {
        let Ports { emulated, states: ports, .. } = self;
        for &mut port in emulated {
            let Some(state) = ports.get(port) else { continue };
            if state.link.due() <= now {
                state.urge(tasks, now);
                tasks.quiet = 0;
            }
        }
    }

    pub(in crate::worker) fn retry_blocked(&mut self, now: Instant, tasks: &mut TaskTable) {
        let Ports { blocked, blocked_since, states: ports, .. } = self;
        blocked.retain(|&port| {
            let Some(state) = ports.get(port) else { return false };
            let may_leave = match state.link.next() {
                Next::Ready => true,
                Next::At(time) => now >= time,
                Next::Idle => false,
            };
            if !(may_leave && state.link.port.room() > 0
                || state.closing.is_some_and(|end| now >= end || state.may_close()))
            {
                return true;
            }
            state.urge(tasks, now);
            (tasks.quiet, *blocked_since) = (0, now);
            false
        });
    }

    /// See [`Worker::due_exactly`].
    pub(in crate::worker) fn due_exactly(&self) -> Instant {
        let links = self.emulated.iter().filter_map(|&port| Some(&self.states.get(port)?.link));
        links.map(Link::due).min().unwrap_or(Instant::FAR)
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
            tasks.urge_instance(target, instance, accounting.now);
        }
    }
}
