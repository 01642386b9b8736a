//! Prepares a generation: does everything that can fail, and changes nothing yet.

use super::config_routes::{self, Gateways, Routes};
use super::cpu_shares::CpuShares;
use super::measured_costs::Period;
use super::opener::{ApplyError, Opener};
use super::path_specs::{paths, rules};
use super::prepared::Prepared;
use super::shares::SharePlans;
use super::tunnels::{tunnel_neighbours, tunnel_queues, tunnels};
use super::{Names, Router, hooks};
use crate::multicast::{GroupKey, MulticastRoute, MulticastRoutes};
use crate::relay::{RelayOwner, relay};
use crate::snapshot::{BUILT_IN, CONTROL, GENERAL, PathSpec, PortView, Snapshot};
use crate::tunnel::PEER;
use crate::worker::{Decorate, NewFunctions, NewPort, OpenedPort, SPREAD_SEED, SharedQueue, WorkerChange};
use fib::MOST_VRFS;
use link::medium::Medium;
use link::{LinkSetup, Queueing};
use packet::port::Port;
use packet::wire::ipv6;
use plan::{Admission, Answerer, Call, CpuPlan, InterfacePlan, NatPlan, Plan, PortPlan, PuntLimits};
use schemes::Sharing;
use stack::{Interface, InterfaceAddress, LocalProtocolLimits, ObjectiveTable};
use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use units::{Generation, InterfaceId, Mac, PortId, VrfId};

/// Ids have 16 bits and are never reused. The last value means none.
const LAST_ID: usize = 65534;

/// Packets in each direction between two workers that share a queue of a device: the arrivals of about 100 us at full rate. A worker may be busy
/// for that long.
const RELAY_CAPACITY: usize = 1024;

/// The parts of a generation for one worker.
#[derive(Default)]
struct WorkerParts {
    ports: Vec<NewPort>,
    /// New schemes for existing links.
    schemes: Vec<(PortId, Queueing)>,
    /// New emulated links of ports.
    links: Vec<(PortId, Option<LinkSetup>)>,
    functions: Vec<NewFunctions>,
}

impl Router {
    /// Prepares `plan`: opens its new ports, builds its schemes and functions, makes the snapshot. Otherwise returns every reason why it cannot
    /// run, and has changed nothing.
    pub fn prepare(&self, plan: &Plan, opener: &mut dyn Opener) -> Result<Prepared, Vec<ApplyError>> {
        self.prepare_by(plan, (plan.cpu.admission, false), opener).and_then(Prepared::refuse_overflow)
    }

    /// The same for a rollback to a plan that was admitted before: measurements since then do not refuse it.
    pub fn prepare_rollback(&self, plan: &Plan, opener: &mut dyn Opener) -> Result<Prepared, Vec<ApplyError>> {
        self.prepare_by(plan, (Admission::Warn, true), opener)
    }

    fn prepare_by(
        &self,
        plan: &Plan,
        (admission, is_rollback): (Admission, bool),
        opener: &mut dyn Opener,
    ) -> Result<Prepared, Vec<ApplyError>> {
        let mut errors = Vec::new();
        let mut names = self.names.clone();
        // An upper bound, because existing names keep their ids.
        if names.next.iter().any(|&next| next + plan.interfaces().count() + plan.paths.len() > LAST_ID) {
            let reason = "the ids of ports, interfaces or paths are used up".to_string();
            let hint = "restart the router".to_string();
            return Err(vec![ApplyError { place: "router".into(), reason, hint }]);
        }
        let trees = self.prepare_shares(plan, opener, is_rollback)?;
        let mut flows = self.prepare_flows(plan, &trees, is_rollback)?;
        let mut shares: Vec<WorkerParts> = self.mailboxes.iter().map(|_| WorkerParts::default()).collect();
        self.prepare_ports((plan, &trees), opener, &mut names, &mut shares, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let sets = self.prepare_sets(plan, opener, is_rollback)?;
        if let Err(error) = assign_vrfs(plan, &mut names) {
            return Err(vec![error]);
        }
        let interfaces = interfaces(plan, &mut names);
        // Averages since the start, so that a moment does not decide about admission.
        let costs = self.measured.costs(plan, &names, self.plan.as_deref(), Period::Always);
        let sums = flows.path_flows();
        let parts = match CpuShares::of(plan, &costs, admission, &sums) {
            Ok(parts) => parts,
            Err(refused) => return Err(vec![refused]),
        };
        let mut paths = paths(plan, &parts, &mut names, (&self.snapshot.paths, &self.sets.store));
        for (spec, flows) in paths.iter_mut().skip(BUILT_IN).zip(&sums).filter(|(_, flows)| !flows.is_empty()) {
            spec.cpu.reservation = Some(flows.rate());
        }
        let routes = Routes::of(plan, &names, &interfaces);
        errors.extend(self.table_overflow(&routes));
        errors.extend(self.neighbour_overflow(plan, &names));
        let gateways = Gateways::of(&routes, &self.routes, &self.tables);
        if let Err(error) = &gateways {
            let (reason, hint) = (error.to_string(), "use fewer gateways".into());
            errors.push(ApplyError { place: "routes".into(), reason, hint });
        }
        for share in &mut shares {
            share.functions = self.prepare_functions(plan, &paths, &names, &mut errors);
        }
        let stations = self.hook_config(plan, &names).and_then(|stations| {
            let made = self.make_hooks(stations.as_deref())?;
            Ok((stations, made))
        });
        let (stations, made) = stations.unwrap_or_else(|error| {
            errors.push(error);
            (None, Vec::new())
        });
        let routing = self.routing_list((plan, is_rollback), &names, &mut errors);
        let (Ok(gateways), Some(routing), true) = (gateways, routing, errors.is_empty()) else { return Err(errors) };
        let list = rules(plan, &names, &trees, (&self.snapshot.rules, &self.sets.store));
        let list = self.list_flows(plan, &names, list, &mut flows);
        let nat = plan.nat.as_ref().map(|nat| translation(nat, &names, &interfaces, self.build.limits.secret));
        let mut snapshot = Snapshot::new(
            Generation(self.snapshot.generation.0 + 1),
            CpuPlan { layout: self.build.layout.unwrap_or(plan.cpu.layout), ..plan.cpu.clone() },
            self.views(plan, &parts, &names),
            interfaces,
            paths,
            (list, self.sets.store.clone()),
            LocalProtocolLimits {
                icmp_rate: plan.icmp_rate.into(),
                icmp_burst: plan.icmp_burst.into(),
                ..self.build.limits
            },
        );
        (snapshot.nat, snapshot.routing) = (nat, routing);
        // Translated connections survive the change of generation.
        snapshot.translations = self.snapshot.translations.clone();
        snapshot.log = self.snapshot.log.clone();
        snapshot.tunnels = Arc::new(tunnels(plan, &names, &snapshot.interfaces));
        snapshot.punt = self.punt.clone();
        snapshot.punt_limits = plan.linux.as_ref().map_or_else(PuntLimits::default, |linux| linux.limits);
        snapshot.flow_rates = self.snapshot.flow_rates.clone();
        snapshot.circuits = self.shares.circuits.clone();
        snapshot.round_trips = trees.round_trips.clone();
        snapshot.kernel_groups = self.snapshot.kernel_groups.clone();
        (snapshot.multicast, snapshot.route_cache) = (multicast(plan, &names), plan.route_cache > 0);
        let snapshot = Arc::new(snapshot.with_hooks(stations));
        let configured = plan.neighbours.iter().map(|n| ((names.interfaces[&n.interface], n.address), n.mac));
        let statics = configured.chain(tunnel_neighbours(plan, &names)).collect();
        let change = |WorkerParts { ports, schemes, links, functions }| {
            let mut change = WorkerChange::to(snapshot.clone());
            (change.available_functions, change.schedulers) = (self.functions.clone(), self.schedulers.clone());
            (change.ports, change.schemes, change.links, change.functions) = (ports, schemes, links, functions);
            change
        };
        let mut changes: Vec<WorkerChange> = shares.into_iter().map(change).collect();
        self.assign_hooks(made, &mut changes);
        let overflowing = hooks::overflowing(plan, &names);
        let before = self.plan.as_deref().map(|before| hooks::overflowing(before, &self.names));
        let overflow_anew = before.as_ref() != Some(&overflowing);
        let plan = Arc::new(plan.clone());
        Ok(Prepared {
            plan,
            snapshot,
            changes,
            names,
            routes,
            gateways,
            statics,
            sets,
            shares: trees,
            flows,
            overflowing,
            overflow_changed: overflow_anew,
        })
    }

    /// The error if the routes do not fit beside those that the API has added.
    fn table_overflow(&self, routes: &Routes) -> Option<ApplyError> {
        let (limit, given) = (self.tables.limits().routes, self.tables.api_routes());
        let count = routes.len() + config_routes::martian_routes().count();
        (count + given > limit).then(|| {
            let added = if given == 0 { String::new() } else { format!(", and {given} added by the API") };
            let reason = format!("there are {count}{added}; {limit} fit");
            let flush = if given == 0 { "" } else { ", or remove added ones: `switchpath route flush`" };
            ApplyError { place: "routes".into(), reason, hint: format!("aggregate some{flush}") }
        })
    }

    /// The interfaces whose static neighbours exceed the limit.
    fn neighbour_overflow(&self, plan: &Plan, names: &Names) -> Vec<ApplyError> {
        let limit = self.build.limits.neighbours_per_interface;
        let mut given: BTreeMap<&plan::Name, HashSet<IpAddr>> = BTreeMap::new();
        for neighbour in &plan.neighbours {
            given.entry(&neighbour.interface).or_default().insert(neighbour.address);
        }
        for (name, addresses) in &mut given {
            let here = names.interfaces.get(*name);
            addresses
                .extend(self.added_neighbours.keys().filter(|(on, _)| Some(on) == here).map(|(_, address)| *address));
        }
        let full = |(name, addresses): (&plan::Name, HashSet<IpAddr>)| {
            let reason = format!("{} are static, more than {limit}", addresses.len());
            let hint = "remove those that answer ARP or neighbour discovery".to_string();
            (addresses.len() > limit).then(|| ApplyError { place: format!("neighbours on {name}"), reason, hint })
        };
        given.into_iter().filter_map(full).collect()
    }

    /// Opens the ports that are new or have another device, and prepares changed decorators and schemes for the rest. Unchanged parts stay,
    /// above all a capture file that is being written.
    fn prepare_ports(
        &self,
        (plan, trees): (&Plan, &SharePlans),
        opener: &mut dyn Opener,
        names: &mut Names,
        shares: &mut [WorkerParts],
        errors: &mut Vec<ApplyError>,
    ) {
        // A port that is removed and returns later is a new port with a new id.
        names.ports.retain(|name, _| plan.ports.iter().any(|port| port.name == *name));
        for new in &plan.ports {
            let old = self.plan.as_ref().and_then(|plan| plan.ports.iter().find(|old| old.name == new.name));
            let next = names.next[0];
            let id = *names.ports.entry(new.name.clone()).or_insert_with(|| PortId::at(next));
            names.next[0] = next.max(id.index() + 1);
            // A tree of shares has one owner, so its port has one queue.
            let one_queue = |port: &PortPlan| self.mailboxes.len() > 1 && port.scheme.has_shares();
            let reopened = old.is_none_or(|old| old.device != new.device || one_queue(old) != one_queue(new));
            let decoration = |port: &PortPlan| {
                // The wire has the address of the port.
                let wire = port.dfq_wire.map(|wire| (wire, port.mac, port.cycle()));
                (port.capture.clone(), port.faults, wire)
            };
            let redecorated = reopened || old.is_some_and(|old| decoration(old) != decoration(new));
            let scheme = self.scheme_of(plan, new, id);
            let before = old.zip(self.plan.as_deref()).map(|(old, plan)| self.scheme_of(plan, old, id));
            // An unchanged scheme stays, with its queues and state.
            let scheme = Some(scheme).filter(|scheme| before != Some(*scheme));
            if let Err(error) =
                self.prepare_port((new, trees), id, (reopened, redecorated, scheme), opener, names, shares)
            {
                errors.push(error);
            }
            if old.map_or(new.link.is_some(), |old| old.link != new.link) {
                match new_link(new, opener) {
                    // A port with an emulated link has a single worker.
                    Ok(link) => shares[0].links.push((id, link)),
                    Err(error) => errors.push(error),
                }
            }
            names.macs.insert(id, new.mac_address(names.devices.get(&id).copied()));
        }
        errors.extend(self.policy_errors(plan));
    }

    /// The faults of schemes that policies may select later. Each new scheme is built once, because only building can fail.
    fn policy_errors(&self, plan: &Plan) -> Vec<ApplyError> {
        let known = |scheme: &Call| {
            self.plan.iter().flat_map(|plan| &plan.policies).any(|policy| policy.schemes.values().any(|s| s == scheme))
        };
        let used =
            plan.policies.iter().filter(|policy| plan.ports.iter().any(|p| p.policy.as_ref() == Some(&policy.name)));
        let each = used.flat_map(|policy| policy.schemes.values().map(move |scheme| (policy, scheme)));
        let tried = each.filter(|(_, scheme)| !known(scheme)).filter_map(|(policy, scheme)| {
            let error = Queueing::of(scheme, self.region.frames(), &mut Sharing::alone()).err()?;
            Some(unchecked_error(format!("policy {}, {scheme}", policy.name), &error))
        });
        tried.collect()
    }

    /// The parts of one port for each worker.
    fn prepare_port(
        &self,
        (plan, trees): (&PortPlan, &SharePlans),
        id: PortId,
        (reopened, redecorated, scheme): (bool, bool, Option<&Call>),
        opener: &mut dyn Opener,
        names: &mut Names,
        shares: &mut [WorkerParts],
    ) -> Result<(), ApplyError> {
        // The schemes first: if one is faulty, no device is opened.
        let schemes: Vec<Option<Queueing>> = match scheme {
            Some(scheme) => {
                self.schemes((plan, id), scheme, trees.of_port(&plan.name))?.into_iter().map(Some).collect()
            }
            None => shares.iter().map(|_| None).collect(),
        };
        if reopened {
            let most = if plan.scheme.has_shares() { 1 } else { shares.len() };
            let (queues, ends) = match &plan.device.tunnel {
                Some(_) => tunnel_queues((id, shares.len()), names),
                None => (opener.open(plan, &self.region, most)?, Vec::new()),
            };
            let mut ends = ends.into_iter();
            assert!((1..=shares.len()).contains(&queues.len()), "a port for each queue, and at most as many as asked");
            // The reopened device may report another address, or none.
            names.devices.remove(&id);
            names.devices.extend(queues[0].mac().map(|mac| (id, mac)));
            names.queues.insert(id, queues.len());
            let room = u32::try_from(queues[0].room()).unwrap_or(u32::MAX);
            names.rates.insert(id, (queues[0].link_rate(), room));
            let decorations = opener.decorate(plan, queues.len())?;
            let opened = self.distribute_queues(id, queues, decorations);
            for ((share, port), scheme) in shares.iter_mut().zip(opened).zip(schemes) {
                // The device of a tunnel has a queue for each worker, in the order of the workers.
                share.ports.push(NewPort { id, port, scheme, tunnel: ends.next().map(Box::new) });
            }
            return Ok(());
        }
        let queues = names.queues.get(&id).copied().unwrap_or(1);
        let decorations = if redecorated { opener.decorate(plan, queues)? } else { Vec::new() };
        let mut decorations: Vec<Option<Decorate>> = decorations.into_iter().map(Some).collect();
        for (worker, (share, scheme)) in shares.iter_mut().zip(schemes).enumerate() {
            let queue = self.queue_of(worker, id, queues);
            match queue.and_then(|queue| decorations.get_mut(queue)?.take()) {
                Some(decorate) => {
                    let port = OpenedPort::Redecorated(decorate);
                    share.ports.push(NewPort { id, port, scheme, tunnel: None });
                }
                // Relays have no decorators, and unchanged decorators stay: only the scheme changes.
                None => share.schemes.extend(scheme.map(|scheme| (id, scheme))),
            }
        }
        Ok(())
    }

    /// The queue of port `id` that `worker` owns, of `queues`. If there are fewer queues than workers, the first owner differs from port to
    /// port, so that all workers share the receiving.
    pub(super) fn queue_of(&self, worker: usize, id: PortId, queues: usize) -> Option<usize> {
        let workers = self.mailboxes.len();
        let shift = if queues == workers { 0 } else { id.index() % workers };
        Some((worker + workers - shift) % workers).filter(|&queue| queue < queues)
    }

    /// Gives each worker its queue. Workers without a queue get a relay to one that has.
    fn distribute_queues(&self, id: PortId, queues: Vec<Box<dyn Port>>, decorations: Vec<Decorate>) -> Vec<OpenedPort> {
        let workers = self.mailboxes.len();
        let count = queues.len();
        let owner = |queue: usize| (0..workers).find(|&w| self.queue_of(w, id, count) == Some(queue));
        let mut lanes: Vec<Vec<RelayOwner>> = queues.iter().map(|_| Vec::new()).collect();
        let mut opened: Vec<Option<OpenedPort>> = (0..workers).map(|_| None).collect();
        let without = (0..workers).filter(|&worker| self.queue_of(worker, id, count).is_none());
        for (position, worker) in without.enumerate() {
            // Spread the relays evenly over the queues.
            let queue = position % count;
            let owner = owner(queue).expect("every queue has an owner");
            let (ours, theirs) = (self.parkers[owner].clone(), self.parkers[worker].clone());
            let (lane, port) = relay(&*queues[queue], RELAY_CAPACITY, ours, theirs);
            lanes[queue].push(lane);
            opened[worker] = Some(OpenedPort::Relay(port));
        }
        for (queue, ((port, decorate), lanes)) in queues.into_iter().zip(decorations).zip(lanes).enumerate() {
            let lanes =
                (!lanes.is_empty()).then(|| Box::new(SharedQueue::new(lanes, self.build.limits.key(SPREAD_SEED))));
            let owner = owner(queue).expect("every queue has an owner");
            opened[owner] = Some(OpenedPort::Queue { port, decorate, first: queue == 0, relays: lanes });
        }
        opened.into_iter().flatten().collect()
    }

    /// The ports as the classifier needs them.
    fn views(&self, plan: &Plan, shares: &CpuShares, names: &Names) -> Vec<Option<PortView>> {
        // Indexed by port id: removed ports leave holes.
        let mut views = vec![None; names.next[0]];
        for port in &plan.ports {
            let id = names.ports[&port.name];
            let of = |vlan: Option<u16>| port.interfaces.iter().find(|i| i.vlan == vlan);
            // `u16::MAX` is never given out: untagged frames have no interface.
            let untagged = of(None).map_or(InterfaceId(u16::MAX), |i| names.interfaces[&i.name]);
            let vlans = port.interfaces.iter().filter_map(|i| Some((i.vlan?, names.interfaces[&i.name]))).collect();
            let (name, scheme) = (port.name.clone(), self.scheme_of(plan, port, id).clone());
            let pair = plan.passthrough.iter().find(|pair| pair.ports.contains(&name));
            let through = pair.and_then(|pair| pair.ports.iter().find(|other| **other != name));
            views[id.index()] = Some(PortView {
                name,
                mac: names.macs[&id],
                has_stations: port.interfaces.iter().any(|interface| !interface.kernel.stations.is_empty()),
                scheme,
                objective: self.objective_of(port, id),
                cpu: port.cpu,
                shares: shares.of_port(port),
                toward_subscribers: plan
                    .subscribers
                    .as_ref()
                    .is_some_and(|network| network.inside.contains(&port.name)),
                passthrough: through.and_then(|other| names.ports.get(other).copied()),
                untagged,
                vlans,
            });
        }
        views
    }

    /// Builds the functions of paths that are new, changed, or have a new port.
    fn prepare_functions(
        &self,
        plan: &Plan,
        paths: &[PathSpec],
        names: &Names,
        errors: &mut Vec<ApplyError>,
    ) -> Vec<NewFunctions> {
        let mut functions = Vec::new();
        // The local protocols process the packets of these two paths: they have no functions.
        for path in paths.iter().filter(|path| path.id != CONTROL && path.id != GENERAL) {
            let old = self.snapshot.paths.iter().find(|old| old.id == path.id);
            let changed = old.is_none_or(|old| {
                // A list that was made from the same rules is the same list.
                let same_filter = Arc::ptr_eq(&old.filter, &path.filter);
                let of = |path: &PathSpec| (path.functions.clone(), path.dispatch.clone(), path.guest_rules.clone());
                !same_filter || of(old) != of(path)
            });
            for port in plan.ports.iter().map(|port| names.ports[&port.name]) {
                if !changed && self.snapshot.port(port).is_some() {
                    continue;
                }
                match self.functions.build(path) {
                    Ok(built) => functions.push(NewFunctions { path: path.id, port, functions: built }),
                    Err(unknown) => errors.push(unchecked_error(format!("path {}", path.name), &unknown)),
                }
            }
        }
        functions
    }
}

/// The emulated link of a port, with its trace.
fn new_link(plan: &PortPlan, opener: &mut dyn Opener) -> Result<Option<LinkSetup>, ApplyError> {
    let Some(link) = &plan.link else { return Ok(None) };
    // The trace keeps only the text of an error. The opener's error names its own place and hint, so it is kept here.
    let mut unread = None;
    let trace = Medium::trace(&link.medium, |file| {
        opener.read(plan, file).map_err(|error| {
            let reason = error.reason.clone();
            unread = Some(error);
            reason
        })
    });
    let trace = trace.map_err(|reason| {
        let hint = "a trace has one whole number of milliseconds a line, in order".into();
        unread.unwrap_or(ApplyError { place: format!("port {}", plan.name), reason, hint })
    })?;
    Ok(Some(LinkSetup { plan: link.clone(), trace, observer: opener.link_witness(plan) }))
}

pub(super) fn unchecked_error(place: String, error: &dyn std::error::Error) -> ApplyError {
    ApplyError { place, reason: error.to_string(), hint: "run `switchpath check` on the configuration".into() }
}

/// Gives each VRF of the plan an id. Existing VRFs keep theirs.
fn assign_vrfs(plan: &Plan, names: &mut Names) -> Result<(), ApplyError> {
    for (_, interface) in plan.interfaces() {
        let Some(name) = interface.vrf.as_ref().filter(|name| !names.vrfs.contains_key(*name)) else { continue };
        // Id 0 is the main VRF, which is not in the map. Names are never removed, so each id is new.
        let next = names.vrfs.len() + 1;
        if next >= MOST_VRFS {
            let reason = format!("more than {MOST_VRFS} VRFs were in use since the start");
            return Err(ApplyError { place: format!("vrf {name}"), reason, hint: "restart the router".into() });
        }
        names.vrfs.insert(name.clone(), VrfId::at(next));
    }
    Ok(())
}

fn interfaces(plan: &Plan, names: &mut Names) -> Vec<Interface> {
    names.interfaces.retain(|name, _| plan.interfaces().any(|(_, interface)| interface.name == *name));
    let mut interfaces = Vec::new();
    for (port_plan, interface) in plan.interfaces() {
        let next = names.next[1];
        let vrf = names.vrf(interface.vrf.as_ref());
        let place = |id: &InterfaceId| names.interface_vrfs.get(id).copied().unwrap_or(VrfId::MAIN);
        if names.interfaces.get(&interface.name).is_some_and(|id| place(id) != vrf) {
            // An interface that moves to another VRF gets a new id, so that no state of the old VRF applies to it.
            names.interfaces.remove(&interface.name);
        }
        let id = *names.interfaces.entry(interface.name.clone()).or_insert_with(|| InterfaceId::at(next));
        names.next[1] = next.max(id.index() + 1);
        if vrf != VrfId::MAIN {
            names.interface_vrfs.insert(id, vrf);
        }
        let port = names.ports[&port_plan.name];
        let wants = Arc::new(ObjectiveTable::new(interface.trust, interface.objective, &plan.objectives));
        let kernel =
            plan.linux.as_ref().filter(|linux| linux.ports.contains(&port_plan.name)).map(|linux| linux.answer);
        let peer = port_plan.device.tunnel.as_ref().filter(|tunnel| !tunnel.is_segment()).map(|_| PEER);
        interfaces.push(Interface { peer, ..attach(interface, (id, port), names.macs[&port], wants, kernel) });
    }
    interfaces
}

fn attach(
    plan: &InterfacePlan,
    (id, port): (InterfaceId, PortId),
    mac: Mac,
    wants: Arc<ObjectiveTable>,
    kernel: Option<Answerer>,
) -> Interface {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for prefix in plan.addresses_in_force() {
        match prefix.address {
            IpAddr::V4(address) => ipv4.push(InterfaceAddress { address, length: prefix.length }),
            IpAddr::V6(address) => ipv6.push(InterfaceAddress { address, length: prefix.length }),
        }
    }
    // Every interface with IPv6 needs a link-local address (RFC 4291 2.1).
    if !ipv6.is_empty() && !ipv6.iter().any(|attached| attached.address.is_unicast_link_local()) {
        ipv6.push(InterfaceAddress { address: ipv6::link_local(mac), length: 64 });
    }
    let (redirects, ra) = (plan.redirects, plan.ra.clone().map(Arc::new));
    let mtu = plan.kernel.mtu.map_or(plan.mtu, |mtu| mtu.min(plan.mtu));
    let (name, vlan) = (plan.name.to_string(), plan.vlan);
    let reverse_path = plan.reverse_path;
    let stations = plan.kernel.stations.clone();
    Interface {
        id,
        name,
        port,
        vlan,
        mac,
        peer: None,
        mtu,
        redirects,
        reverse_path,
        ra,
        kernel,
        stations,
        routes_groups: plan.kernel.routes_groups,
        carries_ipv4: plan.kernel.carries_ipv4 || !ipv4.is_empty(),
        objectives: wants,
        ipv4,
        ipv6,
    }
}

/// The plan's address translation, by ids.
fn translation(plan: &NatPlan, names: &Names, interfaces: &[Interface], secret: u64) -> nat::NatRules {
    let ids: Vec<InterfaceId> = plan.outside.iter().filter_map(|name| names.interfaces.get(name).copied()).collect();
    let own = |id: &InterfaceId| interfaces.iter().find(|interface| interface.id == *id);
    let first = |id: &InterfaceId| Some((*id, u32::from(own(id)?.ipv4.first()?.address)));
    let all = ids.iter().filter_map(own).flat_map(|interface| &interface.ipv4);
    let mut addresses: Vec<u32> = all.map(|attached| u32::from(attached.address)).collect();
    // `NatRules::is_ours` searches by halving.
    addresses.sort_unstable();
    let forward = |forward: &plan::ForwardPlan| nat::Forward {
        protocol: forward.protocol,
        port: forward.port,
        inside: nat::NatEndpoint::new(forward.address.into(), forward.to),
    };
    nat::NatRules {
        outside: ids.iter().filter_map(first).collect(),
        addresses,
        ports: plan.ports,
        filtering: if plan.endpoint_independent_filtering {
            nat::Filtering::Endpoint
        } else {
            nat::Filtering::Connection
        },
        timeouts: plan.timeouts,
        forwards: nat::Forwards::new(plan.forwards.iter().map(forward).collect(), secret),
        connections: plan.connections as usize,
        per_host: plan.per_host as usize,
        secret,
    }
}

/// The plan's multicast routes, by ids.
fn multicast(plan: &Plan, names: &Names) -> MulticastRoutes {
    let route = |group: &plan::MulticastPlan| {
        let key = GroupKey { vrf: names.vrf(group.vrf.as_ref()), group: group.group, source: group.source };
        let to = group.to.iter().filter_map(|name| names.interfaces.get(name).copied()).collect();
        Some(MulticastRoute { key, from: *names.interfaces.get(&group.from)?, to })
    };
    MulticastRoutes::new(plan.multicast.iter().filter_map(route).collect())
}
