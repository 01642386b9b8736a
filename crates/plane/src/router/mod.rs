//! The control side of the plane: turns plans into generations and has the workers adopt them.
//!
//! An apply has three parts. [`Router::prepare`] does everything that can fail and changes nothing. [`Router::publish`]
//! hands the generation to every worker; each adopts it between two of its steps. When all have, [`Router::complete`]
//! brings the routes up to date. Routes that only the old generation could use are withdrawn before the workers are
//! told, routes that need the new one are added after: no packet ever follows a route to a place that is not there.

mod allotted;
pub(crate) mod desired;
mod edit;
mod hooks;
mod known;
mod measured;
mod policies;
mod prepare;
mod prepared;

pub use crate::bell::Nudge;
pub use edit::{EditError, EditSummary, Edits};
pub use known::KnownCosts;
pub use policies::{Choice, PolicyReport};
pub use prepare::Opener;
pub use prepared::{ApplyError, Prepared};

use crate::bell::Bell;
use crate::function::{Functions, Registration};
use crate::snapshot::{Layout, Snapshot};
use crate::worker::{Adopted, Command, Crew, Mailbox, Worker, WorkerReport};
use cpu::Schedulers;
use desired::{Gateways, Key, Routes};
use fib::{Origin, Outcome, RouteChange, RouteQuery, RouteReport, TableLimits, Tables};
use measured::Measured;
use packet::event::Observer;
use packet::{Pool, Region};
use plan::{Name, Plan};
use policies::Policies;
use stack::HostLimits;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;
use units::{Generation, InterfaceId, Mac, Nanos, PathId, PortId, Rate, VrfId, WorkerId};

/// What a router is made of, besides its configuration.
pub struct Build {
    /// Frames of the pool.
    pub frames: usize,
    /// Super-frames of the pool.
    pub super_frames: usize,
    /// Workers.
    pub workers: u16,
    /// How many tasks a packet passes.
    pub layout: Option<Layout>,
    /// What switching from one task to another was found to cost; zero: to be found out.
    pub switch_cost: Nanos,
    /// Limits of the router's own protocols.
    pub limits: HostLimits,
}

/// The control side of one router.
// Large: a method for each thing that the control side asks; applying, editing and policies are in files of their own.
pub struct Router {
    build: Build,
    region: Arc<Region>,
    tables: Arc<Tables>,
    mailboxes: Vec<Arc<Mailbox>>,
    bells: Vec<Arc<Bell>>,
    plan: Option<Arc<Plan>>,
    snapshot: Arc<Snapshot>,
    names: Names,
    routes: Routes,
    statics: HashMap<(InterfaceId, IpAddr), Mac>,
    /// Neighbours that came by edits.
    given: HashMap<(InterfaceId, IpAddr), Mac>,
    measured: Measured,
    policies: Policies,
    /// Who makes stations; none where instructions are not executed.
    maker: Option<Arc<dyn crate::hook::Maker>>,
    /// Who makes the functions of paths.
    functions: Functions,
    /// Who makes the CPU schedulers of workers.
    schedulers: Schedulers,
}

/// Ids by name. An id keeps its name for as long as the router runs, and none is given twice.
#[derive(Clone, Debug, Default)]
struct Names {
    ports: HashMap<Name, PortId>,
    interfaces: HashMap<Name, InterfaceId>,
    paths: HashMap<String, PathId>,
    /// All that ever were.
    vrfs: HashMap<Name, VrfId>,
    /// The VRF of each interface, the main one left out.
    places: HashMap<InterfaceId, VrfId>,
    macs: HashMap<PortId, Mac>,
    /// What the devices say of themselves, where they say anything.
    devices: HashMap<PortId, Mac>,
    /// What their links carry, as they said when they were opened, and how many packets the devices hold before them.
    rates: HashMap<PortId, (Rate, u32)>,
    /// How many queues a device was opened with.
    queues: HashMap<PortId, usize>,
    next: [usize; 3],
}

impl Names {
    /// The VRF of a name in a plan that was prepared.
    fn vrf(&self, name: Option<&Name>) -> VrfId {
        name.and_then(|name| self.vrfs.get(name)).copied().unwrap_or(VrfId::MAIN)
    }

    /// A number that other routers do not have, from the router's name and its ports' addresses. Anyone can compute it.
    fn flow_key(&self, plan: &Plan) -> u64 {
        let mut macs: Vec<u64> = self.macs.values().map(|mac| mac.number()).collect();
        macs.sort_unstable();
        let bytes = plan.name.bytes().chain(macs.into_iter().flat_map(u64::to_be_bytes));
        // FNV-1a.
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

impl Router {
    /// A router without configuration, and its workers, which wait for one. `observer` makes one for each worker.
    pub fn new(build: Build, observer: impl FnMut(WorkerId) -> Box<dyn Observer>) -> (Router, Vec<Worker>) {
        Router::with_limits(build, TableLimits::default(), observer)
    }

    /// The same, with tables that take so much. Panics where that is less than every router has.
    pub fn with_limits(
        mut build: Build,
        limits: TableLimits,
        mut observer: impl FnMut(WorkerId) -> Box<dyn Observer>,
    ) -> (Router, Vec<Worker>) {
        let region = Region::with_super_frames(build.frames, build.super_frames);
        // What waits to be put together leaves most frames to others.
        build.limits.fragments = build.limits.fragments.min(build.frames / 8);
        let tables = Arc::new(Tables::with_limits(limits));
        let ids = (0..build.workers.max(1)).map(WorkerId);
        let mailboxes: Vec<Arc<Mailbox>> = ids.clone().map(|_| Arc::default()).collect();
        let bells: Vec<Arc<Bell>> = ids.clone().map(|_| Arc::default()).collect();
        let members = Crew::of(&bells).into_iter().zip(&bells);
        let workers = ids.zip(&mailboxes).zip(members).map(|((id, mailbox), (crew, bell))| {
            let pool = Pool::new(region.clone());
            Worker::new(
                (id, crew, bell.clone()),
                pool,
                tables.clone(),
                mailbox.clone(),
                build.switch_cost,
                observer(id),
                build.limits,
            )
        });
        let workers = workers.collect();
        let special = |(prefix, outcome)| RouteChange { vrf: VrfId::MAIN, prefix, origin: Origin::Local, outcome };
        let always = desired::always().map(special);
        tables.apply_routes(always).expect("empty tables have room for eight routes");
        let measured = Measured::start(build.switch_cost);
        let router = Router {
            bells,
            build,
            region,
            tables,
            mailboxes,
            plan: None,
            snapshot: Arc::new(Snapshot::empty()),
            names: Names { next: [0, 0, 3], ..Names::default() },
            routes: Routes::default(),
            statics: HashMap::new(),
            given: HashMap::new(),
            measured,
            policies: Policies::default(),
            maker: None,
            functions: Functions::default(),
            schedulers: Schedulers::default(),
        };
        (router, workers)
    }

    /// The functions that paths may have.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Paths of the configurations to come may have this function as well. It is in no catalogue by itself: a plan is checked against
    /// one with [`Functions::declarations`].
    pub fn register_function(&mut self, function: Registration) {
        self.functions = self.functions.with(function);
    }

    /// The CPU schedulers that a configuration may name.
    pub fn cpu_schedulers(&self) -> &Schedulers {
        &self.schedulers
    }

    /// Configurations to come may name this CPU scheduler as well, where they are checked against a catalogue with
    /// [`Schedulers::declarations`].
    pub fn register_cpu_scheduler(&mut self, scheduler: cpu::Registration) {
        self.schedulers = self.schedulers.with(scheduler);
    }

    /// Numbers generations from the one after `last` on, for a router that goes on with a history. Before the first one.
    pub fn continue_from(&mut self, last: Generation) {
        assert!(self.plan.is_none(), "there is a generation already");
        let mut empty = Snapshot::empty();
        empty.generation = last;
        self.snapshot = Arc::new(empty);
    }

    /// Says how to wake `worker` when it sleeps.
    pub fn on_post(&mut self, worker: WorkerId, nudge: Nudge) {
        self.bells[worker.index()].hang(nudge);
    }

    /// Posts a command to every worker; `make` makes one for each.
    pub fn post(&self, mut make: impl FnMut() -> Command) {
        for (mailbox, bell) in self.mailboxes.iter().zip(&self.bells) {
            mailbox.post(make());
            bell.nudge();
        }
    }

    /// Posts a command to one worker.
    pub fn post_to(&self, worker: WorkerId, command: Command) {
        self.mailboxes[worker.index()].post(command);
        self.bells[worker.index()].nudge();
    }

    /// The frames all ports share.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The routes and adjacencies.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The configuration that runs.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// The generation that runs.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The VRF of this name, where some interface is or was in it; `main` is the main one.
    pub fn vrf(&self, name: &str) -> Option<VrfId> {
        if name == "main" { Some(VrfId::MAIN) } else { self.names.vrfs.get(name).copied() }
    }

    /// The names of all VRFs but the main one.
    pub fn vrf_names(&self) -> HashMap<VrfId, Name> {
        self.names.vrfs.iter().map(|(name, &vrf)| (vrf, name.clone())).collect()
    }

    /// Divides the processor by these costs from the next configuration on, where that does not say others and none was
    /// measured.
    pub fn know(&mut self, costs: KnownCosts) {
        self.measured.known = costs;
    }

    /// Goes by what the workers have measured from now on, wherever a configuration does not say what things cost.
    pub fn learn(&mut self, reports: &[WorkerReport]) {
        self.measured.learn(reports);
    }

    /// Hands a prepared generation to the workers. Routes that it has no place for are withdrawn first.
    pub fn publish(&mut self, prepared: Prepared) -> Published {
        let Prepared { plan, snapshot, changes, names, routes, gateways, statics, .. } = prepared;
        let gone: Vec<Key> = self.routes.without(&routes).collect();
        for key in gone {
            let (vrf, prefix, origin) = key;
            let change = RouteChange { vrf, prefix, origin, outcome: Outcome::NoRoute };
            self.tables.change_route(change).expect("a route can always be cleared");
            self.routes.remove(&key);
        }
        self.names = names;
        if self.plan.is_none() {
            self.tables.set_flow_key(self.build.limits.key(self.names.flow_key(&plan)));
        }
        // Before a worker hears of an interface: what it learns there belongs to its VRF.
        for interface in &snapshot.interfaces {
            let vrf = self.names.places.get(&interface.id).copied().unwrap_or(VrfId::MAIN);
            self.tables.attach(interface.id, vrf);
        }
        if let Some(rules) = &snapshot.nat {
            snapshot.translations.open(rules);
        }
        let mut acknowledgements = Vec::new();
        let mut changes = changes.into_iter();
        self.post(|| {
            let (sender, receiver) = channel();
            acknowledgements.push(receiver);
            let change = changes.next().expect("one change was prepared for each worker");
            Command::Adopt(Box::new(change), sender)
        });
        Published { plan, snapshot, routes, gateways, statics, waiting: acknowledgements }
    }

    /// Brings routes and static neighbours up to date, once every worker runs the generation.
    pub fn complete(&mut self, published: Published) -> Generation {
        let Published { plan, snapshot, routes, gateways, statics, .. } = published;
        for interface in self.snapshot.interfaces.iter().filter(|i| snapshot.interface(i.id).is_none()) {
            self.tables.remove_interface(interface.id);
        }
        if snapshot.nat.is_none() {
            snapshot.translations.close();
        }
        self.snapshot = snapshot;
        let changes = routes.iter().filter(|(key, goal)| self.routes.get(key) != Some(goal));
        let changes = changes.map(|(key, goal)| RouteChange {
            vrf: key.0,
            prefix: key.1,
            origin: key.2,
            outcome: gateways.outcome(key, goal),
        });
        self.tables.apply_routes(changes).expect("the number of routes and their gateways were checked before");
        self.routes = routes;
        self.withdraw_stranded();
        self.update_statics(statics);
        self.plan = Some(plan);
        self.adopt_policies();
        self.snapshot.generation
    }

    /// Withdraws what edits have given to VRFs and interfaces that are there no more.
    fn withdraw_stranded(&mut self) {
        let there: Vec<VrfId> = self.snapshot.interfaces.iter().map(|i| self.tables.place(i.id)).collect();
        for &vrf in self.names.vrfs.values().filter(|vrf| !there.contains(vrf)) {
            let query = RouteQuery { vrf: Some(vrf), within: None, origin: Some(Origin::Api) };
            let given = self.tables.routes(&query, usize::MAX);
            let clear = |route: RouteReport| RouteChange {
                vrf,
                prefix: route.prefix,
                origin: Origin::Api,
                outcome: Outcome::NoRoute,
            };
            self.tables.apply_routes(given.into_iter().map(clear)).expect("a route can always be cleared");
        }
        let snapshot = &self.snapshot;
        self.given.retain(|(interface, _), _| snapshot.interface(*interface).is_some());
    }

    fn update_statics(&mut self, statics: HashMap<(InterfaceId, IpAddr), Mac>) {
        for (&(interface, address), _) in self.statics.iter().filter(|(key, _)| !statics.contains_key(key)) {
            self.post(|| Command::Neighbour(interface, address, self.given.get(&(interface, address)).copied()));
        }
        for (&(interface, address), &mac) in &statics {
            if self.statics.get(&(interface, address)) != Some(&mac) {
                self.post(|| Command::Neighbour(interface, address, Some(mac)));
            }
        }
        self.statics = statics;
    }
}

/// A generation on its way to the workers.
pub struct Published {
    plan: Arc<Plan>,
    snapshot: Arc<Snapshot>,
    routes: Routes,
    gateways: Gateways,
    statics: HashMap<(InterfaceId, IpAddr), Mac>,
    waiting: Vec<Receiver<Adopted>>,
}

impl Published {
    /// Whether every worker runs it by now; one that is gone is not waited for.
    pub fn is_adopted(&mut self) -> bool {
        self.waiting.retain(|receiver| receiver.try_recv().err() == Some(TryRecvError::Empty));
        self.waiting.is_empty()
    }

    /// Waits for every worker that is not gone; false where one has not adopted it within `patience`.
    pub fn wait(&mut self, patience: Duration) -> bool {
        while let Some(receiver) = self.waiting.last() {
            match receiver.recv_timeout(patience) {
                Ok(_) | Err(RecvTimeoutError::Disconnected) => drop(self.waiting.pop()),
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
        true
    }

    /// Its number.
    pub fn generation(&self) -> Generation {
        self.snapshot.generation
    }
}
