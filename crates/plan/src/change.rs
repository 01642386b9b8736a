//! The difference between two plans: what an apply has to do, and what `diff` prints.

#[path = "diff/cpu.rs"]
mod cpu;
#[path = "diff/values.rs"]
mod values;

pub use values::ValueChange;

use crate::cpu::{PathCpu, Reservation, wait_text};
use crate::{Call, InterfacePlan, MulticastPlan, Name, NeighbourPlan, Objective, PathPlan, Plan, PolicyPlan};
use crate::{PassThroughPlan, PortPlan, ReversePath, RoutePlan};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::hash::Hash;
use units::Nanos;

/// One property that has another value, as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Edit {
    /// The key in the configuration, like `scheme`.
    pub what: &'static str,
    /// The value before.
    pub old: String,
    /// The value after.
    pub new: String,
}

/// One step from the old plan to the new.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// Properties of the router as a whole.
    RouterChanged {
        /// What is different.
        what: Vec<Edit>,
    },
    /// How workers divide their processors.
    CpuChanged {
        /// What is different.
        what: Vec<Edit>,
    },
    /// A new port with all of its interfaces.
    PortAdded {
        /// The port.
        port: Box<PortPlan>,
    },
    /// A port and all of its interfaces are gone.
    PortRemoved {
        /// Its name.
        name: Name,
    },
    /// Properties of a port that stays.
    PortChanged {
        /// Its name.
        name: Name,
        /// What is different.
        what: Vec<Edit>,
    },
    /// A new VLAN of a port that stays.
    InterfaceAdded {
        /// The port.
        port: Name,
        /// The interface.
        interface: InterfacePlan,
    },
    /// A VLAN of a port that stays is gone.
    InterfaceRemoved {
        /// The port.
        port: Name,
        /// The interface's name.
        name: Name,
    },
    /// Properties of an interface that stays.
    InterfaceChanged {
        /// The port.
        port: Name,
        /// The interface's name.
        name: Name,
        /// What is different.
        what: Vec<Edit>,
    },
    /// A route to a new destination.
    RouteAdded {
        /// The route.
        route: RoutePlan,
    },
    /// The route to a destination is gone.
    RouteRemoved {
        /// The route as it was.
        route: RoutePlan,
    },
    /// A destination is reached otherwise.
    RouteChanged {
        /// The route as it was.
        old: RoutePlan,
        /// The route to the same destination as it will be.
        new: RoutePlan,
    },
    /// A new static neighbour.
    NeighbourAdded {
        /// The neighbour.
        neighbour: NeighbourPlan,
    },
    /// A static neighbour is gone.
    NeighbourRemoved {
        /// The neighbour as it was.
        neighbour: NeighbourPlan,
    },
    /// A static neighbour has another MAC address.
    NeighbourChanged {
        /// The neighbour as it was.
        old: NeighbourPlan,
        /// The neighbour of the same address on the same interface as it will be.
        new: NeighbourPlan,
    },
    /// A group is forwarded that was not.
    MulticastAdded {
        /// The group.
        multicast: MulticastPlan,
    },
    /// A group is forwarded no more.
    MulticastRemoved {
        /// The group as it was.
        multicast: MulticastPlan,
    },
    /// The packets of a group come from, or go to, other interfaces.
    MulticastChanged {
        /// The group as it was.
        old: MulticastPlan,
        /// The same group as it will be.
        new: MulticastPlan,
    },
    /// Two ports are a piece of cable that were not.
    PassThroughAdded {
        /// The ports.
        passthrough: PassThroughPlan,
    },
    /// Two ports are no piece of cable any more.
    PassThroughRemoved {
        /// The ports.
        passthrough: PassThroughPlan,
    },
    /// Address and port translation, each side as text; `none` where there is none.
    NatChanged {
        /// What is different.
        what: Vec<Edit>,
    },
    /// Ephemeral state, each side as text; `none` where there is none.
    StateChanged {
        /// What is different.
        what: Vec<Edit>,
    },
    /// What code points ask for.
    ObjectivesChanged {
        /// What is different: the code points of each objective, before and after.
        what: Vec<Edit>,
    },
    /// A new policy.
    PolicyAdded {
        /// The policy.
        policy: Box<PolicyPlan>,
    },
    /// A policy is gone.
    PolicyRemoved {
        /// Its name.
        name: Name,
    },
    /// Properties of a policy that stays.
    PolicyChanged {
        /// Its name.
        name: Name,
        /// What is different.
        what: Vec<Edit>,
    },
    /// A new path; its place follows from [`Change::PathsReordered`] or the new plan.
    PathAdded {
        /// The path.
        path: PathPlan,
    },
    /// A path is gone.
    PathRemoved {
        /// Its name.
        name: String,
    },
    /// Properties of a path that stays.
    PathChanged {
        /// Its name.
        name: String,
        /// What is different.
        what: Vec<Edit>,
    },
    /// Paths are matched in another order than leaving out the removed and putting the added last would give.
    PathsReordered {
        /// Every path of the new plan, in order.
        order: Vec<String>,
    },
}

impl Change {
    /// Whether the router must be started anew for it: threads and the frame pool are made once.
    pub fn restart_needed(&self) -> bool {
        match self {
            Change::RouterChanged { what } => {
                what.iter().any(|edit| matches!(edit.what, "workers" | "cores" | "frames" | "super_frames"))
            }
            _ => false,
        }
    }
}

/// What has to be done to get from `old` to `new`; empty just where they are equal. Linear in the size of the plans.
pub fn diff(old: &Plan, new: &Plan) -> Vec<Change> {
    let mut changes = Vec::new();
    router(old, new, &mut changes);
    cpu::cpu(&old.cpu, &new.cpu, &mut changes);
    nat(old, new, &mut changes);
    state(old, new, &mut changes);
    objectives(old, new, &mut changes);
    sides(
        &old.policies,
        &new.policies,
        |policy| &policy.name,
        &mut changes,
        |policy| Change::PolicyRemoved { name: policy.name.clone() },
        |policy| Change::PolicyAdded { policy: Box::new(policy.clone()) },
        policies,
    );
    sides(
        &old.ports,
        &new.ports,
        |port| &port.name,
        &mut changes,
        |port| Change::PortRemoved { name: port.name.clone() },
        |port| Change::PortAdded { port: Box::new(port.clone()) },
        ports,
    );
    sides(
        &old.routes,
        &new.routes,
        |route| (&route.vrf, route.to),
        &mut changes,
        |route| Change::RouteRemoved { route: route.clone() },
        |route| Change::RouteAdded { route: route.clone() },
        |old, new, changes| changes.push(Change::RouteChanged { old: old.clone(), new: new.clone() }),
    );
    sides(
        &old.neighbours,
        &new.neighbours,
        |n| (&n.interface, n.address),
        &mut changes,
        |n| Change::NeighbourRemoved { neighbour: n.clone() },
        |n| Change::NeighbourAdded { neighbour: n.clone() },
        |old, new, changes| changes.push(Change::NeighbourChanged { old: old.clone(), new: new.clone() }),
    );
    sides(
        &old.multicast,
        &new.multicast,
        |m| (&m.vrf, m.group, m.source),
        &mut changes,
        |m| Change::MulticastRemoved { multicast: m.clone() },
        |m| Change::MulticastAdded { multicast: m.clone() },
        |old, new, changes| changes.push(Change::MulticastChanged { old: old.clone(), new: new.clone() }),
    );
    let is_new = |pair: &&PassThroughPlan| !old.passthrough.contains(pair);
    let is_gone = |pair: &&PassThroughPlan| !new.passthrough.contains(pair);
    let gone = old.passthrough.iter().filter(is_gone).cloned();
    changes.extend(gone.map(|passthrough| Change::PassThroughRemoved { passthrough }));
    let come = new.passthrough.iter().filter(is_new).cloned();
    changes.extend(come.map(|passthrough| Change::PassThroughAdded { passthrough }));
    sides(
        &old.paths,
        &new.paths,
        |path| path.name.as_str(),
        &mut changes,
        |path| Change::PathRemoved { name: path.name.clone() },
        |path| Change::PathAdded { path: path.clone() },
        paths,
    );
    order(old, new, &mut changes);
    changes
}

/// Compares two tables by key: first what is gone, then what is new or different, each in the order of its table.
fn sides<'p, T: PartialEq, K: Hash + Eq>(
    old: &'p [T],
    new: &'p [T],
    key: impl Fn(&'p T) -> K,
    changes: &mut Vec<Change>,
    removed: impl Fn(&T) -> Change,
    added: impl Fn(&T) -> Change,
    changed: impl Fn(&T, &T, &mut Vec<Change>),
) {
    // What most reloads find, without hashing a million routes.
    if old == new {
        return;
    }
    let mut left: HashMap<K, &T> = old.iter().map(|item| (key(item), item)).collect();
    let pairs: Vec<(&T, Option<&T>)> = new.iter().map(|item| (item, left.remove(&key(item)))).collect();
    changes.extend(old.iter().filter(|item| left.contains_key(&key(item))).map(&removed));
    for (item, before) in pairs {
        match before {
            None => changes.push(added(item)),
            Some(before) if before != item => changed(before, item, changes),
            Some(_) => {}
        }
    }
}

fn edit(edits: &mut Vec<Edit>, what: &'static str, old: impl Display, new: impl Display) {
    let (old, new) = (old.to_string(), new.to_string());
    if old != new {
        edits.push(Edit { what, old, new });
    }
}

/// Of which build a guest is.
fn build(scheme: &Call) -> String {
    scheme.code.as_ref().map_or_else(|| "none".to_string(), |code| format!("{:016x}", code.digest))
}

/// An optional value; `none` where it is not given.
fn or_none<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| "none".to_string(), |value| value.to_string())
}

/// A file, quoted, so that one called `none` differs from none.
fn file(value: &Option<String>) -> String {
    value.as_ref().map_or_else(|| "none".to_string(), |name| format!("{name:?}"))
}

fn joined<T: Display>(values: &[T]) -> String {
    if values.is_empty() {
        return "none".to_string();
    }
    values.iter().map(|value| value.to_string()).collect::<Vec<_>>().join(" ")
}

fn router(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "name", &old.name, &new.name);
    edit(&mut what, "workers", old.workers, new.workers);
    edit(&mut what, "cores", &old.cores, &new.cores);
    edit(&mut what, "spin", old.spin, new.spin);
    edit(&mut what, "frames", old.frames, new.frames);
    edit(&mut what, "super_frames", old.super_frames, new.super_frames);
    edit(&mut what, "icmp_rate", old.icmp_rate, new.icmp_rate);
    edit(&mut what, "icmp_burst", old.icmp_burst, new.icmp_burst);
    if !what.is_empty() {
        changes.push(Change::RouterChanged { what });
    }
}

fn nat(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "rules", or_none(&old.nat), or_none(&new.nat));
    if !what.is_empty() {
        changes.push(Change::NatChanged { what });
    }
}

fn state(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "rules", or_none(&old.state), or_none(&new.state));
    if !what.is_empty() {
        changes.push(Change::StateChanged { what });
    }
}

fn objectives(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    for objective in Objective::ALL {
        let of = |plan: &Plan| joined(&plan.objectives.of(*objective));
        edit(&mut what, objective.name(), of(old), of(new));
    }
    if !what.is_empty() {
        changes.push(Change::ObjectivesChanged { what });
    }
}

fn policies(old: &PolicyPlan, new: &PolicyPlan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "window", old.window, new.window);
    edit(&mut what, "dwell", old.dwell, new.dwell);
    edit(&mut what, "share", old.share, new.share);
    edit(&mut what, "packets", old.packets, new.packets);
    for objective in Objective::ALL {
        let of = |policy: &PolicyPlan| or_none(&policy.schemes.get(objective));
        edit(&mut what, objective.name(), of(old), of(new));
        if let (Some(old), Some(new)) = (old.schemes.get(objective), new.schemes.get(objective))
            && old.text == new.text
        {
            edit(&mut what, "build", build(old), build(new));
        }
    }
    changes.push(Change::PolicyChanged { name: new.name.clone(), what });
}

fn ports(old: &PortPlan, new: &PortPlan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "device", &old.device, &new.device);
    edit(&mut what, "write", file(&old.device.write), file(&new.device.write));
    edit(&mut what, "pace", old.device.pace, new.device.pace);
    edit(&mut what, "checksums", or_none(&old.device.checksums), or_none(&new.device.checksums));
    edit(&mut what, "offloads", old.device.offloads, new.device.offloads);
    edit(&mut what, "mac", or_none(&old.mac), or_none(&new.mac));
    edit(&mut what, "scheme", old.scheme.brief(), new.scheme.brief());
    if old.scheme.text == new.scheme.text {
        // A guest may have been built anew.
        edit(&mut what, "build", build(&old.scheme), build(&new.scheme));
    }
    edit(&mut what, "scheme_change", old.scheme_change, new.scheme_change);
    edit(&mut what, "policy", or_none(&old.policy), or_none(&new.policy));
    edit(&mut what, "share", or_none(&old.cpu.share), or_none(&new.cpu.share));
    edit(&mut what, "line_rate", or_none(&old.cpu.line_rate), or_none(&new.cpu.line_rate));
    edit(&mut what, "congestion", old.cpu.congestion, new.cpu.congestion);
    edit(&mut what, "estimator", or_none(&old.cpu.estimator), or_none(&new.cpu.estimator));
    edit(&mut what, "capture", file(&old.capture), file(&new.capture));
    edit(&mut what, "faults", or_none(&old.faults), or_none(&new.faults));
    edit(&mut what, "state", &old.state, &new.state);
    edit(&mut what, "link", or_none(&old.link), or_none(&new.link));
    if !what.is_empty() {
        changes.push(Change::PortChanged { name: new.name.clone(), what });
    }
    sides(
        &old.interfaces,
        &new.interfaces,
        |interface| interface.vlan,
        changes,
        |interface| Change::InterfaceRemoved { port: new.name.clone(), name: interface.name.clone() },
        |interface| Change::InterfaceAdded { port: new.name.clone(), interface: interface.clone() },
        |before, after, changes| {
            let mut what = Vec::new();
            edit(&mut what, "address", joined(&before.addresses), joined(&after.addresses));
            edit(&mut what, "vrf", vrf(&before.vrf), vrf(&after.vrf));
            edit(&mut what, "mtu", before.mtu, after.mtu);
            edit(&mut what, "redirects", before.redirects, after.redirects);
            edit(&mut what, "reverse_path", before.reverse_path, after.reverse_path);
            edit(&mut what, "ra", or_none(&before.ra), or_none(&after.ra));
            edit(&mut what, "trust", before.trust, after.trust);
            edit(&mut what, "objective", before.objective, after.objective);
            changes.push(Change::InterfaceChanged { port: new.name.clone(), name: after.name.clone(), what });
        },
    );
}

/// Rules, each within quotes.
fn quoted(rules: &[impl Display]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
    joined(&rules)
}

fn paths(old: &PathPlan, new: &PathPlan, changes: &mut Vec<Change>) {
    let mut what = Vec::new();
    edit(&mut what, "match", &old.matching, &new.matching);
    edit(&mut what, "functions", joined(&old.functions), joined(&new.functions));
    edit(&mut what, "filter", quoted(&old.filter), quoted(&new.filter));
    edit(&mut what, "dispatch", quoted(&old.dispatch), quoted(&new.dispatch));
    edit(&mut what, "queue", queues(old), queues(new));
    edit(&mut what, "class", old.class, new.class);
    edit(&mut what, "objective", wanted(old), wanted(new));
    path_cpu(&old.cpu, &new.cpu, &mut what);
    changes.push(Change::PathChanged { name: new.name.clone(), what });
}

fn path_cpu(old: &PathCpu, new: &PathCpu, what: &mut Vec<Edit>) {
    let wait = |wait: Option<Nanos>| wait.map_or("as [cpu]".to_string(), wait_text);
    edit(what, "reserve", or_none(&reserve(old)), or_none(&reserve(new)));
    let of = |cpu: &PathCpu, get: fn(&Reservation) -> Option<String>| or_none(&cpu.reservation.as_ref().and_then(get));
    let size = |reservation: &Reservation| reservation.size.map(|size| size.to_string());
    edit(what, "packet", of(old, size), of(new, size));
    let delay = |reservation: &Reservation| reservation.delay.map(|delay| delay.to_string());
    edit(what, "delay", of(old, delay), of(new, delay));
    edit(what, "share", or_none(&old.share), or_none(&new.share));
    edit(what, "max_wait", wait(old.max_wait), wait(new.max_wait));
    edit(what, "cost", or_none(&old.cost), or_none(&new.cost));
    edit(what, "limit", or_none(&old.limit), or_none(&new.limit));
    edit(what, "preemptible", old.preemptible, new.preemptible);
}

/// What its packets want, where it says so.
fn wanted(path: &PathPlan) -> &'static str {
    path.objective.map_or("as they say", Objective::name)
}

/// The rate as it was said: in bits, or in packets.
fn reserve(cpu: &PathCpu) -> Option<String> {
    cpu.reservation.map(|r| r.rate.map_or_else(|| r.packets.to_string(), |rate| rate.to_string()))
}

/// `512`, or `128/1024` before and behind the functions.
fn queues(path: &PathPlan) -> String {
    if path.input_queue == path.output_queue {
        return path.input_queue.to_string();
    }
    format!("{}/{}", path.input_queue, path.output_queue)
}

fn order(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let is_old = |name: &str| old.paths.iter().any(|path| path.name == name);
    let is_new = |name: &str| new.paths.iter().any(|path| path.name == name);
    let stay = old.paths.iter().map(|path| &path.name).filter(|name| is_new(name));
    let come = new.paths.iter().map(|path| &path.name).filter(|name| !is_old(name));
    if !stay.chain(come).eq(new.paths.iter().map(|path| &path.name)) {
        changes.push(Change::PathsReordered { order: new.paths.iter().map(|path| path.name.clone()).collect() });
    }
}

impl Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", self.what, self.old, self.new)
    }
}

fn edits(what: &[Edit]) -> String {
    what.iter().map(|edit| edit.to_string()).collect::<Vec<_>>().join(", ")
}

/// `address 192.0.2.1/24 mtu 1500`, and what is not the default.
fn interface_text(interface: &InterfacePlan) -> String {
    let own = interface.vrf.as_ref().map_or_else(String::new, |vrf| format!(" vrf {vrf}"));
    let redirects = if interface.redirects { " redirects true" } else { "" };
    let ra = interface.ra.as_ref().map_or_else(String::new, |ra| format!(" ra {ra}"));
    let sources = match interface.reverse_path {
        ReversePath::Off => String::new(),
        checked => format!(" reverse_path {checked}"),
    };
    let trust = if interface.trust { " trust true" } else { "" };
    let wants = match interface.objective {
        Objective::None => String::new(),
        objective => format!(" objective {objective}"),
    };
    format!("address {} mtu {}{own}{redirects}{sources}{ra}{trust}{wants}", joined(&interface.addresses), interface.mtu)
}

fn vrf(name: &Option<Name>) -> &str {
    name.as_deref().unwrap_or(crate::names::MAIN_VRF)
}

impl Display for Change {
    /// One line: `+` what is new, `-` what is gone, `~` what is different.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::RouterChanged { what } => write!(f, "~ router: {}", edits(what)),
            Change::CpuChanged { what } => write!(f, "~ cpu: {}", edits(what)),
            Change::ObjectivesChanged { what } => write!(f, "~ objectives: {}", edits(what)),
            Change::PolicyAdded { policy } => write!(f, "+ policy {}: {policy}", policy.name),
            Change::PolicyRemoved { name } => write!(f, "- policy {name}"),
            Change::PolicyChanged { name, what } => write!(f, "~ policy {name}: {}", edits(what)),
            Change::NatChanged { what } => write!(f, "~ nat: {}", edits(what)),
            Change::StateChanged { what } => write!(f, "~ state: {}", edits(what)),
            Change::PortAdded { port } => {
                write!(f, "+ port {}: device {} scheme {}", port.name, port.device, port.scheme.brief())?;
                port.policy.iter().try_for_each(|policy| write!(f, " policy {policy}"))?;
                port.interfaces.iter().try_for_each(|i| write!(f, ", {} {}", i.name, interface_text(i)))
            }
            Change::PortRemoved { name } => write!(f, "- port {name}"),
            Change::PortChanged { name, what } => write!(f, "~ port {name}: {}", edits(what)),
            Change::InterfaceAdded { interface, .. } => {
                write!(f, "+ interface {}: {}", interface.name, interface_text(interface))
            }
            Change::InterfaceRemoved { name, .. } => write!(f, "- interface {name}"),
            Change::InterfaceChanged { name, what, .. } => write!(f, "~ interface {name}: {}", edits(what)),
            Change::RouteAdded { route } => write!(f, "+ route {route}"),
            Change::RouteRemoved { route } => write!(f, "- route {route}"),
            Change::RouteChanged { old, new } => {
                let own = new.vrf.as_ref().map_or_else(String::new, |vrf| format!("vrf {vrf} "));
                write!(f, "~ route {own}{}: {} -> {}", new.to, old.action, new.action)
            }
            Change::NeighbourAdded { neighbour: n } => {
                write!(f, "+ neighbour {} mac {} port {}", n.address, n.mac, n.interface)
            }
            Change::NeighbourRemoved { neighbour: n } => {
                write!(f, "- neighbour {} mac {} port {}", n.address, n.mac, n.interface)
            }
            Change::NeighbourChanged { old, new } => {
                write!(f, "~ neighbour {} port {}: mac {} -> {}", new.address, new.interface, old.mac, new.mac)
            }
            Change::MulticastAdded { multicast } => write!(f, "+ multicast {multicast}"),
            Change::MulticastRemoved { multicast } => write!(f, "- multicast {multicast}"),
            Change::MulticastChanged { old, new } => {
                write!(f, "~ multicast {}: {} -> {}", new.title(), old.way(), new.way())
            }
            Change::PassThroughAdded { passthrough } => write!(f, "+ passthrough {passthrough}"),
            Change::PassThroughRemoved { passthrough } => write!(f, "- passthrough {passthrough}"),
            Change::PathAdded { path } => {
                let functions = joined(&path.functions);
                let PathPlan { name, matching, class, cpu, .. } = path;
                let queue = queues(path);
                write!(f, "+ path {name}: match {matching} functions {functions} queue {queue} class {class}")?;
                let mut what = Vec::new();
                path_cpu(&PathCpu::default(), cpu, &mut what);
                path.objective.iter().try_for_each(|objective| write!(f, " objective {objective}"))?;
                what.iter().try_for_each(|edit| write!(f, " {} {}", edit.what, edit.new))
            }
            Change::PathRemoved { name } => write!(f, "- path {name}"),
            Change::PathChanged { name, what } => write!(f, "~ path {name}: {}", edits(what)),
            Change::PathsReordered { order } => write!(f, "~ paths: order {}", order.join(" ")),
        }
    }
}
