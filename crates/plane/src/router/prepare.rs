//! Preparing a generation: everything that can fail, with nothing changed yet.

use super::desired::{Gateways, Routes};
use super::{Names, Router};
use crate::function;
use crate::host::HostLimits;
use crate::interface::{Attached, Interface};
use crate::link::Lines;
use crate::port::Port;
use crate::snapshot::{BEST_EFFORT, CONTROL, GENERAL, PathSpec, PortView, Rule, Snapshot};
use crate::worker::{Change, Decorate, NewFunctions, NewPort};
use packet::Region;
use packet::wire::ipv6;
use plan::{Call, InterfacePlan, Plan, PortPlan};
use schemes::Scheme;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use units::{Generation, InterfaceId, Mac, PathId, PortId};

/// Packets that wait at most in each queue of the built-in paths.
const OWN_CAPACITY: usize = 512;
/// Packets that wait at most in each queue of the path `best-effort`: a full batch of sixteen ports that get their turns
/// before the path gets its own.
const BEST_EFFORT_CAPACITY: usize = 4096;

/// Ids of 16 bits are given once each; the last means none.
const LAST_ID: usize = 65534;

/// Another scheme for a link that stays.
type NewScheme = (PortId, Box<dyn Scheme<Lines>>);

/// Opens what the plan says is behind a port.
pub trait Opener {
    /// Opens the device of `plan`: one port for each of its queues, at least one and at most `queues`. It keeps no frame
    /// of `region` before it is asked to receive.
    fn open(&mut self, plan: &PortPlan, region: &Arc<Region>, queues: usize) -> Result<Vec<Box<dyn Port>>, ApplyError>;
    /// Opens what the decorators of `plan` need (a capture file), and answers for each of `queues` queues how to put them
    /// around its port.
    fn decorate(&mut self, plan: &PortPlan, queues: usize) -> Result<Vec<Decorate>, ApplyError>;
}

/// Why a configuration cannot run here and now. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ApplyError {
    /// What of the configuration: `port lan`.
    pub place: String,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.reason, self.hint)
    }
}

impl std::error::Error for ApplyError {}

/// A generation ready to be published.
pub struct Prepared {
    pub(super) plan: Arc<Plan>,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) changes: Vec<Change>,
    pub(super) names: Names,
    pub(super) routes: Routes,
    pub(super) gateways: Gateways,
    pub(super) statics: HashMap<(InterfaceId, IpAddr), Mac>,
}

impl Router {
    /// Prepares `plan`: opens its new ports, builds its schemes and functions, makes the snapshot. Answers every reason
    /// it cannot run, and in that case has changed nothing.
    pub fn prepare(&self, plan: &Plan, opener: &mut dyn Opener) -> Result<Prepared, Vec<ApplyError>> {
        let mut errors = Vec::new();
        let mut names = self.names.clone();
        if names.next.iter().any(|&next| next + plan.interfaces().count() + plan.paths.len() > LAST_ID) {
            let reason = "more ports, interfaces or paths have come and gone than there are ids".to_string();
            let hint = "restart the router".to_string();
            return Err(vec![ApplyError { place: "router".into(), reason, hint }]);
        }
        let (ports, schemes) = self.prepare_ports(plan, opener, &mut names, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        let interfaces = interfaces(plan, &mut names);
        let paths = paths(plan, &mut names);
        let routes = Routes::of(plan, &names, &interfaces);
        let limits = self.tables.limits();
        if routes.len() > limits.routes {
            let reason = format!("there are {}, and {} fit", routes.len(), limits.routes);
            errors.push(ApplyError { place: "routes".into(), reason, hint: "aggregate some".into() });
        }
        let gateways = Gateways::of(&routes, &self.tables);
        if gateways.is_none() {
            let reason = format!("more than {} gateways and neighbours", limits.adjacencies);
            errors.push(ApplyError { place: "routes".into(), reason, hint: "use fewer gateways".into() });
        }
        let functions = self.prepare_functions(plan, &paths, &names, &mut errors);
        let (Some(gateways), true) = (gateways, errors.is_empty()) else { return Err(errors) };
        let snapshot = Snapshot::new(
            Generation(self.snapshot.generation.0 + 1),
            self.build.layout,
            views(plan, &names),
            interfaces,
            paths,
            rules(plan, &names),
            HostLimits { icmp_rate: plan.icmp_rate.into(), icmp_burst: plan.icmp_burst.into(), ..self.build.limits },
        );
        let snapshot = Arc::new(snapshot);
        let statics = plan.neighbours.iter().map(|n| ((names.interfaces[&n.interface], n.address), n.mac)).collect();
        let mut change = Change::to(snapshot.clone());
        change.ports = ports;
        change.schemes = schemes;
        change.functions = functions;
        let mut changes = vec![change];
        // Ports belong to the first worker; the others only follow the generation.
        changes.resize_with(self.mailboxes.len().max(1), || Change::to(snapshot.clone()));
        Ok(Prepared { plan: Arc::new(plan.clone()), snapshot, changes, names, routes, gateways, statics })
    }

    /// Opens the ports that are new or have another device, and prepares new decorators and schemes for the rest: what
    /// did not change stays, above all a capture that is being written.
    fn prepare_ports(
        &self,
        plan: &Plan,
        opener: &mut dyn Opener,
        names: &mut Names,
        errors: &mut Vec<ApplyError>,
    ) -> (Vec<NewPort>, Vec<NewScheme>) {
        let (mut ports, mut schemes) = (Vec::new(), Vec::new());
        names.ports.retain(|name, _| plan.ports.iter().any(|port| port.name == *name));
        for new in &plan.ports {
            let old = self.plan.as_ref().and_then(|plan| plan.ports.iter().find(|old| old.name == new.name));
            let next = names.next[0];
            let id = *names.ports.entry(new.name.clone()).or_insert_with(|| PortId::at(next));
            names.next[0] = next.max(id.index() + 1);
            let reopened = old.is_none_or(|old| old.device != new.device);
            let redecorated = reopened
                || old
                    .is_some_and(|old| (&old.capture, old.trace, old.faults) != (&new.capture, new.trace, new.faults));
            let rescheduled = old.is_none_or(|old| old.scheme != new.scheme);
            match rescheduled.then(|| scheme_of(new)).transpose() {
                Err(error) => errors.push(error),
                Ok(scheme) if redecorated => match self.prepare_port(new, id, reopened, scheme, opener) {
                    Ok(port) => {
                        if let Some(opened) = &port.port {
                            names.devices.remove(&id);
                            names.devices.extend(opened.mac().map(|mac| (id, mac)));
                        }
                        ports.push(port);
                    }
                    Err(error) => errors.push(error),
                },
                Ok(scheme) => schemes.extend(scheme.map(|scheme| (id, scheme))),
            }
            names.macs.insert(id, mac_of(new, names.devices.get(&id).copied()));
        }
        (ports, schemes)
    }

    fn prepare_port(
        &self,
        plan: &PortPlan,
        id: PortId,
        reopened: bool,
        scheme: Option<Box<dyn Scheme<Lines>>>,
        opener: &mut dyn Opener,
    ) -> Result<NewPort, ApplyError> {
        let port = if reopened { opener.open(plan, &self.region, 1)?.into_iter().next() } else { None };
        let decorate = opener.decorate(plan, 1)?.into_iter().next().expect("as many as were asked for");
        Ok(NewPort { id, port, decorate, scheme, capacity: self.region.frames().min(65536) })
    }

    /// Builds the functions of paths that are new, changed, or have a new port to serve.
    fn prepare_functions(
        &self,
        plan: &Plan,
        paths: &[PathSpec],
        names: &Names,
        errors: &mut Vec<ApplyError>,
    ) -> Vec<NewFunctions> {
        let mut functions = Vec::new();
        for path in paths.iter().filter(|path| path.id != CONTROL && path.id != GENERAL) {
            let old = self.snapshot.paths.iter().find(|old| old.id == path.id);
            let changed = old.is_none_or(|old| old.functions != path.functions);
            for port in plan.ports.iter().map(|port| names.ports[&port.name]) {
                if !changed && self.snapshot.port(port).is_some() {
                    continue;
                }
                match function::build(&path.functions) {
                    Ok(built) => functions.push(NewFunctions { path: path.id, port, functions: built }),
                    Err(unknown) => errors.push(broken(format!("path {}", path.name), &unknown)),
                }
            }
        }
        functions
    }
}

fn scheme_of(plan: &PortPlan) -> Result<Box<dyn Scheme<Lines>>, ApplyError> {
    let built = schemes::build(plan.scheme.name, &plan.scheme.options);
    built.map_err(|unknown| broken(format!("port {}", plan.name), &unknown))
}

fn broken(place: String, error: &dyn std::error::Error) -> ApplyError {
    ApplyError { place, reason: error.to_string(), hint: "run `switchpath check` on the configuration".into() }
}

/// The link-layer address of a port: as configured, else the device's, else one made from the port's name.
fn mac_of(plan: &PortPlan, device: Option<Mac>) -> Mac {
    plan.mac.or(device).unwrap_or_else(|| {
        // FNV-1a over the name; locally administered, unicast (IEEE 802 8.4).
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = plan.name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        Mac::from_number((hash & 0xffff_ffff) | 0x0253_0000_0000)
    })
}

fn interfaces(plan: &Plan, names: &mut Names) -> Vec<Interface> {
    names.interfaces.retain(|name, _| plan.interfaces().any(|(_, interface)| interface.name == *name));
    let mut interfaces = Vec::new();
    for (port, interface) in plan.interfaces() {
        let next = names.next[1];
        let id = *names.interfaces.entry(interface.name.clone()).or_insert_with(|| InterfaceId::at(next));
        names.next[1] = next.max(id.index() + 1);
        let port = names.ports[&port.name];
        interfaces.push(attach(interface, id, port, names.macs[&port]));
    }
    interfaces
}

fn attach(plan: &InterfacePlan, id: InterfaceId, port: PortId, mac: Mac) -> Interface {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for prefix in &plan.addresses {
        match prefix.address {
            IpAddr::V4(address) => ipv4.push(Attached { address, length: prefix.length }),
            IpAddr::V6(address) => ipv6.push(Attached { address, length: prefix.length }),
        }
    }
    if !ipv6.is_empty() && !ipv6.iter().any(|attached| attached.address.is_unicast_link_local()) {
        ipv6.push(Attached { address: ipv6::link_local(mac), length: 64 });
    }
    let (redirects, ra) = (plan.redirects, plan.ra.clone().map(Arc::new));
    Interface { id, name: plan.name.to_string(), port, vlan: plan.vlan, mac, mtu: plan.mtu, redirects, ra, ipv4, ipv6 }
}

fn paths(plan: &Plan, names: &mut Names) -> Vec<PathSpec> {
    let spec =
        |id, name: &str, functions, capacity, class| PathSpec { id, name: name.into(), functions, capacity, class };
    let forward = || vec![Call { name: "ip", options: Vec::new(), text: "ip".into() }];
    let mut paths = vec![
        spec(CONTROL, "control", Vec::new(), OWN_CAPACITY, 0),
        spec(GENERAL, "general", Vec::new(), OWN_CAPACITY, 0),
        spec(BEST_EFFORT, "best-effort", forward(), BEST_EFFORT_CAPACITY, 0),
    ];
    names.paths.retain(|name, _| plan.paths.iter().any(|path| path.name == *name));
    for path in &plan.paths {
        let next = names.next[2];
        let id = *names.paths.entry(path.name.clone()).or_insert_with(|| PathId::at(next));
        names.next[2] = next.max(id.index() + 1);
        paths.push(spec(id, &path.name, path.functions.clone(), path.queue as usize, path.class));
    }
    paths
}

/// The rules of the configured paths: they come after the three built-in ones.
fn rules(plan: &Plan, names: &Names) -> Vec<Rule> {
    let rule = |(position, path): (usize, &plan::PathPlan)| {
        let interface = path.matching.iif.as_ref().map(|name| names.interfaces.get(name.as_str()).copied());
        let interface = interface.map(|known| known.unwrap_or(InterfaceId(u16::MAX)));
        Rule { matching: path.matching.clone(), interface, path: position + 3 }
    };
    plan.paths.iter().enumerate().map(rule).collect()
}

fn views(plan: &Plan, names: &Names) -> Vec<Option<PortView>> {
    let mut views = vec![None; names.next[0]];
    for port in &plan.ports {
        let id = names.ports[&port.name];
        let of = |vlan: Option<u16>| port.interfaces.iter().find(|i| i.vlan == vlan);
        let untagged = of(None).map_or(InterfaceId(u16::MAX), |i| names.interfaces[&i.name]);
        let vlans = port.interfaces.iter().filter_map(|i| Some((i.vlan?, names.interfaces[&i.name]))).collect();
        views[id.index()] = Some(PortView { name: port.name.clone(), mac: names.macs[&id], untagged, vlans });
    }
    views
}
