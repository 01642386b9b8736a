//! The control side of the plane: turns plans into generations, which the workers adopt.
//!
//! An apply has three parts. [`Router::prepare`] does everything that can fail and changes nothing. [`Router::publish`] posts the generation to
//! every worker, and each adopts it between two of its steps. When all have adopted it, [`Router::complete`] updates the routes.
//!
//! Routes that only the old generation can use are withdrawn before the publication. Routes that need the new generation are added after its
//! adoption. So no packet ever follows a route to a missing interface.

pub(crate) mod config_routes;
mod cpu_shares;
mod edit;
mod flow_admission;
mod flow_plans;
mod flow_sums;
mod flows;
mod hooks;
mod kernel_routes;
mod known_costs;
mod measured_costs;
mod opener;
mod path_specs;
mod policies;
mod port_tree;
mod prepare;
mod prepared;
mod rules;
mod sets;
mod share_ids;
mod shares;
mod tunnels;

pub use crate::parker::WakeFn;
pub use edit::{EditError, EditSummary, Edits};
pub use flow_admission::{FlowPromise, FlowRefusal};
pub use flows::{CostlyFlow, FlowReport, FlowsChanged};
pub use kernel_routes::{LinuxHop, LinuxRoute, LinuxRouteAction, LinuxRouteSummary};
pub use known_costs::KnownCosts;
pub use opener::{ApplyError, Opener};
pub use policies::{PolicyChange, PolicyReport};
pub use port_tree::SharesChanged;
pub use prepared::Prepared;
pub use rules::{PATH_RULES, ROUTING_RULES};
pub use shares::{RunningSubscriber, ShareRefusal, ShareReport};

use crate::function::{FunctionRegistration, Functions};
use crate::parker::Parker;
use crate::punt::Punt;
use crate::snapshot::{Layout, Snapshot};
use crate::tunnel::TunnelState;
use crate::worker::{Adopted, Command, Mailbox, PeerRings, Worker, WorkerReport};
use config_routes::{Gateways, RouteKey, Routes};
use cpu::Schedulers;
use fib::{Origin, Outcome, RouteChange, RouteQuery, RouteReport, TableLimits, Tables};
use measured_costs::MeasuredCosts;
use packet::event::Observer;
use packet::{Pool, Region};
use plan::{Name, Plan};
use policies::Policies;
use stack::LocalProtocolLimits;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::Duration;
use units::{Generation, InterfaceId, Mac, Nanos, PathId, PortId, Rate, VrfId, WorkerId};

/// The build parameters of a router, besides its configuration.
pub struct Build {
    /// Frames of the pool.
    pub frames: usize,
    /// Super-frames of the pool.
    pub super_frames: usize,
    /// Workers.
    pub workers: u16,
    /// The number of tasks for each packet.
    pub layout: Option<Layout>,
    /// The measured cost of a task switch. Zero: to be measured.
    pub switch_cost: Nanos,
    /// Limits of the router's own protocols.
    pub limits: LocalProtocolLimits,
}

/// The control side of one router.
// Large: a method for each thing that the control side asks; applying, editing and policies are in files of their own.
pub struct Router {
    build: Build,
    region: Arc<Region>,
    tables: Arc<Tables>,
    mailboxes: Vec<Arc<Mailbox>>,
    parkers: Vec<Arc<Parker>>,
    plan: Option<Arc<Plan>>,
    snapshot: Arc<Snapshot>,
    names: Names,
    routes: Routes,
    statics: HashMap<(InterfaceId, IpAddr), Mac>,
    /// Neighbours added by edits.
    added_neighbours: HashMap<(InterfaceId, IpAddr), Mac>,
    measured: MeasuredCosts,
    policies: Policies,
    sets: sets::RouterSets,
    shares: shares::RouterShares,
    flows: flows::RouterFlows,
    punt: Arc<Punt>,
    /// Makes packet hooks. `None` if the router does not execute instructions.
    hook_maker: Option<Arc<dyn crate::hook::HookMaker>>,
    /// Makes the functions of paths.
    functions: Functions,
    /// Makes the CPU schedulers of workers.
    schedulers: Schedulers,
}

/// Ids by name. An id keeps its name for as long as the router runs, and is never used for another.
#[derive(Clone, Debug, Default)]
struct Names {
    ports: HashMap<Name, PortId>,
    interfaces: HashMap<Name, InterfaceId>,
    paths: HashMap<String, PathId>,
    /// Includes VRFs that no longer exist.
    vrfs: HashMap<Name, VrfId>,
    /// The VRF of each interface outside of the main VRF.
    interface_vrfs: HashMap<InterfaceId, VrfId>,
    macs: HashMap<PortId, Mac>,
    /// The MAC addresses of devices that report one.
    devices: HashMap<PortId, Mac>,
    /// The link rates that devices reported when they were opened, and the number of packets each device buffers.
    rates: HashMap<PortId, (Rate, u32)>,
    /// The number of queues with which a device was opened.
    queues: HashMap<PortId, usize>,
    /// The state of each tunnel.
    tunnels: HashMap<PortId, Arc<TunnelState>>,
    next: [usize; 3],
}

impl Names {
    /// The VRF of a name in a prepared plan.
    fn vrf(&self, name: Option<&Name>) -> VrfId {
        name.and_then(|name| self.vrfs.get(name)).copied().unwrap_or(VrfId::MAIN)
    }

    /// A number that other routers do not have, from the router's name and its ports' addresses. Anyone can compute it.
    fn flow_key(&self, plan: &Plan) -> u64 {
        let mut macs: Vec<u64> = self.macs.values().map(|mac| mac.number()).collect();
        // The order of a hash map differs from start to start; the key must not.
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

    /// The same, with these limits of the tables. Panics if they are too small for any router.
    pub fn with_limits(
        mut build: Build,
        limits: TableLimits,
        mut observer: impl FnMut(WorkerId) -> Box<dyn Observer>,
    ) -> (Router, Vec<Worker>) {
        let region = Region::with_super_frames(build.frames, build.super_frames);
        // Reassembly may hold at most an eighth of the frames.
        build.limits.fragments = build.limits.fragments.min(build.frames / 8);
        let tables = Arc::new(Tables::with_limits(limits));
        let ids = (0..build.workers.max(1)).map(WorkerId);
        let mailboxes: Vec<Arc<Mailbox>> = ids.clone().map(|_| Arc::default()).collect();
        let bells: Vec<Arc<Parker>> = ids.clone().map(|_| Arc::default()).collect();
        let members = PeerRings::of(&bells).into_iter().zip(&bells);
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
        // The main VRF needs these before any configuration; `Routes::from_addresses` adds them for the others.
        let always = config_routes::martian_routes().map(special);
        tables.apply_routes(always).expect("empty tables have room for eight routes");
        let measured = MeasuredCosts::start(build.switch_cost);
        let router = Router {
            punt: Arc::new(Punt::for_worker(bells[0].clone())),
            parkers: bells,
            build,
            region,
            tables,
            mailboxes,
            plan: None,
            snapshot: Arc::new(Snapshot::empty()),
            // The next ids of ports, interfaces and paths. Paths 0 to 2 are built in.
            names: Names { next: [0, 0, 3], ..Names::default() },
            routes: Routes::default(),
            statics: HashMap::new(),
            added_neighbours: HashMap::new(),
            measured,
            policies: Policies::default(),
            sets: sets::RouterSets::default(),
            shares: shares::RouterShares::default(),
            flows: flows::RouterFlows::default(),
            hook_maker: None,
            functions: Functions::default(),
            schedulers: Schedulers::default(),
        };
        (router, workers)
    }

    /// The functions available to paths.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Makes this function available to the paths of future configurations. It is in no catalogue by itself: a plan is checked against one with
    /// [`Functions::declarations`].
    pub fn register_function(&mut self, function: FunctionRegistration) {
        self.functions = self.functions.with(function);
    }

    /// Has a service make the registered function `name` of paths from the next configuration on.
    pub fn provide_service(&mut self, name: &'static str, maker: Arc<dyn crate::function::FunctionMaker>) {
        self.functions = self.functions.with_service(name, maker);
    }

    /// The CPU schedulers available to configurations.
    pub fn cpu_schedulers(&self) -> &Schedulers {
        &self.schedulers
    }

    /// Makes this CPU scheduler available to future configurations. These must be checked against a catalogue with [`Schedulers::declarations`].
    pub fn register_cpu_scheduler(&mut self, scheduler: cpu::SchedulerRegistration) {
        self.schedulers = self.schedulers.with(scheduler);
    }

    /// The packets for programs of the machine, and from them.
    pub fn punt(&self) -> &Arc<Punt> {
        &self.punt
    }

    /// Numbers generations after `last`, for a router that continues a history. Must be called before the first generation.
    pub fn continue_from(&mut self, last: Generation) {
        assert!(self.plan.is_none(), "there is a generation already");
        let mut empty = Snapshot::empty();
        empty.generation = last;
        self.snapshot = Arc::new(empty);
    }

    /// Sets the wakeup of `worker`.
    pub fn set_wakeup(&mut self, worker: WorkerId, nudge: WakeFn) {
        self.parkers[worker.index()].set_wake(nudge);
    }

    /// Posts a command to every worker. `make` makes one for each.
    pub fn post(&self, mut make: impl FnMut() -> Command) {
        for (mailbox, bell) in self.mailboxes.iter().zip(&self.parkers) {
            mailbox.post(make());
            // Not `unpark`: a worker without peers does not announce its sleep (`Worker::prepare_sleep`).
            bell.wake();
        }
    }

    /// Posts a command to one worker.
    pub fn post_to(&self, worker: WorkerId, command: Command) {
        self.mailboxes[worker.index()].post(command);
        self.parkers[worker.index()].wake();
    }

    /// The frames all ports share.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// The routes and adjacencies.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The running configuration.
    pub fn plan(&self) -> Option<&Arc<Plan>> {
        self.plan.as_ref()
    }

    /// The running generation.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The VRF of this name, if an interface is or was in it. `main` is the main VRF.
    pub fn vrf(&self, name: &str) -> Option<VrfId> {
        if name == "main" { Some(VrfId::MAIN) } else { self.names.vrfs.get(name).copied() }
    }

    /// The names of all VRFs but the main one.
    pub fn vrf_names(&self) -> HashMap<VrfId, Name> {
        self.names.vrfs.iter().map(|(name, &vrf)| (vrf, name.clone())).collect()
    }

    /// Sets known costs. From the next configuration on they divide the processor, unless costs are configured or measured.
    pub fn set_known_costs(&mut self, costs: KnownCosts) {
        self.measured.known = costs;
    }

    /// Learns the costs that the workers have measured. They apply where the configuration states no costs.
    pub fn learn_costs(&mut self, reports: &[WorkerReport]) {
        self.measured.learn(reports);
    }

    /// Posts a prepared generation to the workers. Routes that it cannot use are withdrawn first.
    pub fn publish(&mut self, prepared: Prepared) -> PublishedGeneration {
        let Prepared { plan, snapshot, changes, names, routes, gateways, statics, sets, shares, flows, .. } = prepared;
        // Before the workers adopt the generation: then they may lack the interfaces of these routes.
        let gone: Vec<RouteKey> = self.routes.without(&routes).collect();
        for key in gone {
            let (vrf, prefix, origin) = key;
            let change = RouteChange { vrf, prefix, origin, outcome: Outcome::NoRoute };
            self.tables.change_route(change).expect("a route can always be cleared");
            self.routes.remove(&key);
        }
        self.names = names;
        // Only for the first generation: another key would move every flow to another member of its group.
        if self.plan.is_none() {
            self.tables.set_flow_key(self.build.limits.key(self.names.flow_key(&plan)));
        }
        // Before the workers adopt the interface: the neighbours they learn there belong to its VRF.
        for interface in &snapshot.interfaces {
            let vrf = self.names.interface_vrfs.get(&interface.id).copied().unwrap_or(VrfId::MAIN);
            self.tables.attach(interface.id, vrf);
        }
        // Before the workers adopt: a rule of the new generation finds its sets.
        self.publish_sets(sets);
        self.publish_shares(shares);
        self.publish_flows(flows);
        // Before the workers adopt: each then gets its caches from these feeds.
        if plan.route_cache > 0 {
            self.tables.set_route_cache(plan.route_cache as usize);
        }
        // Before the workers adopt: the function `nat` finds no state otherwise, and lets packets pass untranslated.
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
        PublishedGeneration { plan, snapshot, routes, gateways, statics, replies: acknowledgements }
    }

    /// Updates routes and static neighbours once every worker runs the generation.
    pub fn complete(&mut self, published: PublishedGeneration) -> Generation {
        let PublishedGeneration { plan, snapshot, routes, gateways, statics, .. } = published;
        self.remove_old_sets(&plan);
        // No worker uses the removed interfaces any more.
        for interface in self.snapshot.interfaces.iter().filter(|i| snapshot.interface(i.id).is_none()) {
            self.tables.remove_interface(interface.id);
        }
        // Only now: until all had adopted, a worker could still use a cache, which would miss the changes of routes.
        if plan.route_cache == 0 {
            self.tables.set_route_cache(0);
        }
        // Only now: until all had adopted, a worker could still translate.
        if snapshot.nat.is_none() {
            snapshot.translations.close();
        }
        self.snapshot = snapshot;
        // Unchanged routes are left alone, so that their groups and adjacencies stay too.
        let changes = routes.iter().filter(|(key, goal)| self.routes.get(key) != Some(goal));
        let changes = changes.map(|(key, goal)| RouteChange {
            vrf: key.0,
            prefix: key.1,
            origin: key.2,
            outcome: gateways.outcome(key, goal),
        });
        self.tables.apply_routes(changes).expect("the number of routes and their gateways were checked before");
        self.routes = routes;
        // After `remove_interface`, which has withdrawn all routes that lead to removed interfaces.
        self.withdraw_stranded();
        self.update_statics(statics);
        self.plan = Some(plan);
        self.adopt_policies();
        self.snapshot.generation
    }

    /// Withdraws routes and neighbours of edits whose VRFs and interfaces no longer exist.
    fn withdraw_stranded(&mut self) {
        // `names.vrfs` includes VRFs without interfaces, which no packet can enter.
        let there: Vec<VrfId> = self.snapshot.interfaces.iter().map(|i| self.tables.vrf_of(i.id)).collect();
        for &vrf in self.names.vrfs.values().filter(|vrf| !there.contains(vrf)) {
            for origin in [Origin::Api, Origin::Kernel] {
                let query = RouteQuery { vrf: Some(vrf), within: None, origin: Some(origin) };
                let given = self.tables.routes(&query, usize::MAX);
                let clear = |route: RouteReport| {
                    let (prefix, outcome) = (route.prefix, Outcome::NoRoute);
                    RouteChange { vrf, prefix, origin, outcome }
                };
                self.tables.apply_routes(given.into_iter().map(clear)).expect("a route can always be cleared");
            }
        }
        let snapshot = &self.snapshot;
        self.added_neighbours.retain(|(interface, _), _| snapshot.interface(*interface).is_some());
    }

    fn update_statics(&mut self, statics: HashMap<(InterfaceId, IpAddr), Mac>) {
        // If an edit has added the same neighbour, it takes effect again.
        for (&(interface, address), _) in self.statics.iter().filter(|(key, _)| !statics.contains_key(key)) {
            self.post(|| {
                Command::Neighbour(interface, address, self.added_neighbours.get(&(interface, address)).copied())
            });
        }
        for (&(interface, address), &mac) in &statics {
            if self.statics.get(&(interface, address)) != Some(&mac) {
                self.post(|| Command::Neighbour(interface, address, Some(mac)));
            }
        }
        self.statics = statics;
    }
}

/// A generation that the workers are adopting.
pub struct PublishedGeneration {
    plan: Arc<Plan>,
    snapshot: Arc<Snapshot>,
    routes: Routes,
    gateways: Gateways,
    statics: HashMap<(InterfaceId, IpAddr), Mac>,
    replies: Vec<Receiver<Adopted>>,
}

impl PublishedGeneration {
    /// True if every worker runs the generation. Workers that have ended are ignored.
    pub fn is_adopted(&mut self) -> bool {
        // An error other than `Empty` means that the worker has ended.
        self.replies.retain(|receiver| receiver.try_recv().err() == Some(TryRecvError::Empty));
        self.replies.is_empty()
    }

    /// Waits for every worker that has not ended. False if one has not adopted it within `patience`.
    pub fn wait(&mut self, patience: Duration) -> bool {
        while let Some(receiver) = self.replies.last() {
            match receiver.recv_timeout(patience) {
                // The order does not matter: every worker must answer or have ended.
                Ok(_) | Err(RecvTimeoutError::Disconnected) => drop(self.replies.pop()),
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
