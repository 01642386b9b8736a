//! The difference between two plans: the steps of an apply, and the output of `diff`.

use crate::Plan;
use crate::diff::{PropertyChange, Step};
use crate::names::Name;
use crate::section::multicast::{self, MulticastPlan};
use crate::section::neighbour::{self, NeighbourPlan};
use crate::section::passthrough::{self, PassThroughPlan};
use crate::section::path::{self, PathPlan};
use crate::section::policy::{self, PolicyPlan};
use crate::section::port::interface::{self, InterfacePlan};
use crate::section::port::{self, PortPlan};
use crate::section::route::{self, RoutePlan};
use crate::section::set::{self, SetPlan};
use crate::section::{cpu, linux, nat, objectives, router, routing, state, subscribers};
use serde::Serialize;
use std::fmt::{self, Display};

/// One step from the old plan to the new.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a difference has few changes, and lives for one apply")]
pub enum Change {
    /// Properties of the router as a whole.
    RouterChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// The division of the processors.
    CpuChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A new port with all of its interfaces.
    PortAdded {
        /// The port.
        port: Box<PortPlan>,
    },
    /// A removed port with all of its interfaces.
    PortRemoved {
        /// Its name.
        name: Name,
    },
    /// Changed properties of a port.
    PortChanged {
        /// Its name.
        name: Name,
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A new VLAN of an existing port.
    InterfaceAdded {
        /// The port.
        port: Name,
        /// The interface.
        interface: InterfacePlan,
    },
    /// A removed VLAN of an existing port.
    InterfaceRemoved {
        /// The port.
        port: Name,
        /// The interface's name.
        name: Name,
    },
    /// Changed properties of an interface.
    InterfaceChanged {
        /// The port.
        port: Name,
        /// The interface's name.
        name: Name,
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A route to a new destination.
    RouteAdded {
        /// The route.
        route: RoutePlan,
    },
    /// A removed route.
    RouteRemoved {
        /// The old route.
        route: RoutePlan,
    },
    /// A changed route to the same destination.
    RouteChanged {
        /// The old route.
        old: RoutePlan,
        /// The new route.
        new: RoutePlan,
    },
    /// A new static neighbour.
    NeighbourAdded {
        /// The neighbour.
        neighbour: NeighbourPlan,
    },
    /// A removed static neighbour.
    NeighbourRemoved {
        /// The old neighbour.
        neighbour: NeighbourPlan,
    },
    /// A changed MAC address of a static neighbour.
    NeighbourChanged {
        /// The old neighbour.
        old: NeighbourPlan,
        /// The new neighbour of the same address on the same interface.
        new: NeighbourPlan,
    },
    /// A new multicast group.
    MulticastAdded {
        /// The group.
        multicast: MulticastPlan,
    },
    /// A removed multicast group.
    MulticastRemoved {
        /// The old group.
        multicast: MulticastPlan,
    },
    /// A changed input or output interface of a group.
    MulticastChanged {
        /// The old group.
        old: MulticastPlan,
        /// The new group.
        new: MulticastPlan,
    },
    /// A new pair of pass-through ports.
    PassThroughAdded {
        /// The ports.
        passthrough: PassThroughPlan,
    },
    /// A removed pair of pass-through ports.
    PassThroughRemoved {
        /// The ports.
        passthrough: PassThroughPlan,
    },
    /// Address and port translation, each side as text; `none` without it.
    NatChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// Ephemeral state, each side as text; `none` without it.
    StateChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// Interfaces of the kernel, each side as text; `none` without them.
    LinuxChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// The subscribers of an access network, each side as text; `none` without them.
    SubscribersChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// The objectives of code points.
    ObjectivesChanged {
        /// The changed code points of each objective.
        what: Vec<PropertyChange>,
    },
    /// A new policy.
    PolicyAdded {
        /// The policy.
        policy: Box<PolicyPlan>,
    },
    /// A removed policy.
    PolicyRemoved {
        /// Its name.
        name: Name,
    },
    /// Changed properties of a policy.
    PolicyChanged {
        /// Its name.
        name: Name,
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A new set.
    SetAdded {
        /// The set.
        set: Box<SetPlan>,
    },
    /// A removed set.
    SetRemoved {
        /// Its name.
        name: Name,
    },
    /// Changed properties of a set, which is replaced.
    SetChanged {
        /// Its name.
        name: Name,
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A new path. [`Change::PathsReordered`] or the new plan has its position.
    PathAdded {
        /// The path.
        path: PathPlan,
    },
    /// A removed path.
    PathRemoved {
        /// Its name.
        name: String,
    },
    /// Changed properties of a path.
    PathChanged {
        /// Its name.
        name: String,
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// Changed routing rules.
    RoutingChanged {
        /// The changed properties.
        what: Vec<PropertyChange>,
    },
    /// A changed order of paths: other than removing the old ones and appending the new ones would give.
    PathsReordered {
        /// All paths of the new plan, in order.
        order: Vec<String>,
    },
}

impl Change {
    /// True if the change requires a restart of the router.
    pub fn restart_needed(&self) -> bool {
        match self {
            Change::RouterChanged { what } => what.iter().any(|edit| router::RESTART.contains(&edit.what)),
            // The thread that serves a namespace enters it at the start, before the router drops its privileges.
            Change::LinuxChanged { what } => what.iter().any(|edit| edit.what == linux::NAMESPACE),
            _ => false,
        }
    }
}

/// A key whose value differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ValueChange {
    /// The key, like `port.lan.mtu` or `route[10.0.0.0/8]`.
    pub path: String,
    /// The old value; `None` if the key was not set.
    pub old: Option<String>,
    /// The new value; `None` if the key is not set.
    pub new: Option<String>,
}

/// The steps from `old` to `new`; empty only if they are equal. Linear in the size of the plans.
pub fn diff(old: &Plan, new: &Plan) -> Vec<Change> {
    let mut all = Vec::new();
    edited(&mut all, router::diff(&old.router(), &new.router()), |what| Change::RouterChanged { what });
    edited(&mut all, cpu::diff(&old.cpu, &new.cpu), |what| Change::CpuChanged { what });
    edited(&mut all, nat::diff(&old.nat, &new.nat), |what| Change::NatChanged { what });
    edited(&mut all, state::diff(&old.state, &new.state), |what| Change::StateChanged { what });
    edited(&mut all, linux::diff(&old.linux, &new.linux), |what| Change::LinuxChanged { what });
    let subscribers = subscribers::diff(&old.subscribers, &new.subscribers);
    edited(&mut all, subscribers, |what| Change::SubscribersChanged { what });
    let objectives = objectives::diff(&old.objectives, &new.objectives);
    edited(&mut all, objectives, |what| Change::ObjectivesChanged { what });
    all.extend(policy::diff(&old.policies, &new.policies).into_iter().map(|step| match step {
        Step::Removed(policy) => Change::PolicyRemoved { name: policy.name.clone() },
        Step::Added(policy) => Change::PolicyAdded { policy: Box::new(policy.clone()) },
        Step::Changed(old, new) => Change::PolicyChanged { name: new.name.clone(), what: policy::edits(old, new) },
    }));
    for step in port::diff(&old.ports, &new.ports) {
        match step {
            Step::Removed(port) => all.push(Change::PortRemoved { name: port.name.clone() }),
            Step::Added(port) => all.push(Change::PortAdded { port: Box::new(port.clone()) }),
            Step::Changed(old, new) => {
                let name = &new.name;
                edited(&mut all, port::edits(old, new), |what| Change::PortChanged { name: name.clone(), what });
                let steps = interface::diff(&old.interfaces, &new.interfaces);
                all.extend(steps.into_iter().map(|step| interface_change(name, step)));
            }
        }
    }
    all.extend(route::diff(&old.routes, &new.routes).into_iter().map(|step| match step {
        Step::Removed(route) => Change::RouteRemoved { route: route.clone() },
        Step::Added(route) => Change::RouteAdded { route: route.clone() },
        Step::Changed(old, new) => Change::RouteChanged { old: old.clone(), new: new.clone() },
    }));
    all.extend(neighbour::diff(&old.neighbours, &new.neighbours).into_iter().map(|step| match step {
        Step::Removed(neighbour) => Change::NeighbourRemoved { neighbour: neighbour.clone() },
        Step::Added(neighbour) => Change::NeighbourAdded { neighbour: neighbour.clone() },
        Step::Changed(old, new) => Change::NeighbourChanged { old: old.clone(), new: new.clone() },
    }));
    all.extend(multicast::diff(&old.multicast, &new.multicast).into_iter().map(|step| match step {
        Step::Removed(multicast) => Change::MulticastRemoved { multicast: multicast.clone() },
        Step::Added(multicast) => Change::MulticastAdded { multicast: multicast.clone() },
        Step::Changed(old, new) => Change::MulticastChanged { old: old.clone(), new: new.clone() },
    }));
    all.extend(passthrough::diff(&old.passthrough, &new.passthrough).into_iter().map(|step| match step {
        Step::Removed(passthrough) => Change::PassThroughRemoved { passthrough: passthrough.clone() },
        Step::Added(passthrough) | Step::Changed(_, passthrough) => {
            Change::PassThroughAdded { passthrough: passthrough.clone() }
        }
    }));
    all.extend(set::diff(&old.sets, &new.sets).into_iter().map(|step| match step {
        Step::Removed(set) => Change::SetRemoved { name: set.name.clone() },
        Step::Added(set) => Change::SetAdded { set: Box::new(set.clone()) },
        Step::Changed(old, new) => Change::SetChanged { name: new.name.clone(), what: set::edits(old, new) },
    }));
    all.extend(path::diff(&old.paths, &new.paths).into_iter().map(|step| match step {
        Step::Removed(path) => Change::PathRemoved { name: path.name.clone() },
        Step::Added(path) => Change::PathAdded { path: path.clone() },
        Step::Changed(old, new) => Change::PathChanged { name: new.name.clone(), what: path::edits(old, new) },
    }));
    edited(&mut all, routing::diff(&old.routing, &new.routing), |what| Change::RoutingChanged { what });
    all.extend(path::order(&old.paths, &new.paths).map(|order| Change::PathsReordered { order }));
    all
}

fn edited(changes: &mut Vec<Change>, what: Vec<PropertyChange>, change: impl FnOnce(Vec<PropertyChange>) -> Change) {
    if !what.is_empty() {
        changes.push(change(what));
    }
}

fn interface_change(port: &Name, step: Step<'_, InterfacePlan>) -> Change {
    let port = port.clone();
    match step {
        Step::Removed(interface) => Change::InterfaceRemoved { port, name: interface.name.clone() },
        Step::Added(interface) => Change::InterfaceAdded { port, interface: interface.clone() },
        Step::Changed(old, new) => {
            Change::InterfaceChanged { port, name: new.name.clone(), what: interface::edits(old, new) }
        }
    }
}

fn edits(what: &[PropertyChange]) -> String {
    what.iter().map(|edit| edit.to_string()).collect::<Vec<_>>().join(", ")
}

impl Display for Change {
    /// One line: `+` for a new thing, `-` for a removed one, `~` for a changed one.
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
            Change::LinuxChanged { what } => write!(f, "~ linux: {}", edits(what)),
            Change::SubscribersChanged { what } => write!(f, "~ subscribers: {}", edits(what)),
            Change::PortAdded { port } => write!(f, "+ port {}: {}", port.name, port::summary(port)),
            Change::PortRemoved { name } => write!(f, "- port {name}"),
            Change::PortChanged { name, what } => write!(f, "~ port {name}: {}", edits(what)),
            Change::InterfaceAdded { interface, .. } => {
                write!(f, "+ interface {}: {}", interface.name, interface::summary(interface))
            }
            Change::InterfaceRemoved { name, .. } => write!(f, "- interface {name}"),
            Change::InterfaceChanged { name, what, .. } => write!(f, "~ interface {name}: {}", edits(what)),
            Change::RouteAdded { route } => write!(f, "+ route {route}"),
            Change::RouteRemoved { route } => write!(f, "- route {route}"),
            Change::RouteChanged { old, new } => {
                let own = new.vrf.as_ref().map_or_else(String::new, |vrf| format!("vrf {vrf} "));
                write!(f, "~ route {own}{}: {} -> {}", new.to, old.action, new.action)
            }
            Change::NeighbourAdded { neighbour } => write!(f, "+ neighbour {}", neighbour.summary()),
            Change::NeighbourRemoved { neighbour } => write!(f, "- neighbour {}", neighbour.summary()),
            Change::NeighbourChanged { old, new } => {
                write!(f, "~ neighbour {} port {}: mac {} -> {}", new.address, new.interface, old.mac, new.mac)
            }
            Change::MulticastAdded { multicast } => write!(f, "+ multicast {multicast}"),
            Change::MulticastRemoved { multicast } => write!(f, "- multicast {multicast}"),
            Change::MulticastChanged { old, new } => {
                write!(f, "~ multicast {}: {} -> {}", new.title(), old.interfaces_text(), new.interfaces_text())
            }
            Change::PassThroughAdded { passthrough } => write!(f, "+ passthrough {passthrough}"),
            Change::PassThroughRemoved { passthrough } => write!(f, "- passthrough {passthrough}"),
            Change::SetAdded { set } => write!(f, "+ set {}: {set}", set.name),
            Change::SetRemoved { name } => write!(f, "- set {name}"),
            Change::SetChanged { name, what } => write!(f, "~ set {name}: {}", edits(what)),
            Change::PathAdded { path } => write!(f, "+ path {}: {}", path.name, path::summary(path)),
            Change::PathRemoved { name } => write!(f, "- path {name}"),
            Change::PathChanged { name, what } => write!(f, "~ path {name}: {}", edits(what)),
            Change::RoutingChanged { what } => write!(f, "~ routing: {}", edits(what)),
            Change::PathsReordered { order } => write!(f, "~ paths: order {}", order.join(" ")),
        }
    }
}

fn value(path: String, old: Option<String>, new: Option<String>) -> Vec<ValueChange> {
    vec![ValueChange { path, old, new }]
}

/// The text of a change after its sign, kind and name.
fn rest(change: &Change, path: &str) -> String {
    let text = change.to_string();
    let behind = text.split_once(": ").map(|(_, rest)| rest).unwrap_or_default();
    if behind.is_empty() { path.to_owned() } else { behind.to_owned() }
}

impl Change {
    /// The changed values, one for each key. A new or removed table is one value.
    pub fn values(&self) -> Vec<ValueChange> {
        let text = |value: &dyn Display| Some(value.to_string());
        match self {
            Change::RouterChanged { what } => edits_of("router", what),
            Change::CpuChanged { what } => edits_of("cpu", what),
            Change::ObjectivesChanged { what } => edits_of("objectives", what),
            Change::NatChanged { what } => edits_of("nat", what),
            Change::StateChanged { what } => edits_of("state", what),
            Change::LinuxChanged { what } => edits_of("linux", what),
            Change::SubscribersChanged { what } => edits_of("subscribers", what),
            Change::RoutingChanged { what } => edits_of("routing", what),
            Change::PolicyChanged { name, what } => edits_of(&format!("policy.{name}"), what),
            Change::SetChanged { name, what } => edits_of(&format!("set.{name}"), what),
            Change::PortChanged { name, what } => edits_of(&format!("port.{name}"), what),
            Change::PathChanged { name, what } => edits_of(&format!("path.{name}"), what),
            Change::InterfaceChanged { port, name, what } => edits_of(&interface_path(port, name), what),
            Change::PolicyAdded { policy } => added(self, format!("policy.{}", policy.name)),
            Change::PortAdded { port } => added(self, format!("port.{}", port.name)),
            Change::SetAdded { set } => added(self, format!("set.{}", set.name)),
            Change::PathAdded { path } => added(self, format!("path.{}", path.name)),
            Change::InterfaceAdded { port, interface: new } => added(self, interface_path(port, &new.name)),
            Change::PolicyRemoved { name } => removed("policy", name),
            Change::PortRemoved { name } => removed("port", name),
            Change::SetRemoved { name } => removed("set", name),
            Change::PathRemoved { name } => removed("path", name),
            Change::InterfaceRemoved { port, name } => value(interface_path(port, name), text(name), None),
            Change::RouteAdded { route } => value(route.path(), None, text(&route.action)),
            Change::RouteRemoved { route } => value(route.path(), text(&route.action), None),
            Change::RouteChanged { old, new } => value(new.path(), text(&old.action), text(&new.action)),
            Change::NeighbourAdded { neighbour } => value(neighbour.path(), None, text(&neighbour.mac)),
            Change::NeighbourRemoved { neighbour } => value(neighbour.path(), text(&neighbour.mac), None),
            Change::NeighbourChanged { old, new } => value(new.path(), text(&old.mac), text(&new.mac)),
            Change::MulticastAdded { multicast } => value(multicast.path(), None, Some(multicast.interfaces_text())),
            Change::MulticastRemoved { multicast } => value(multicast.path(), Some(multicast.interfaces_text()), None),
            Change::MulticastChanged { old, new } => {
                value(new.path(), Some(old.interfaces_text()), Some(new.interfaces_text()))
            }
            Change::PassThroughAdded { passthrough } => value("passthrough".into(), None, text(passthrough)),
            Change::PassThroughRemoved { passthrough } => value("passthrough".into(), text(passthrough), None),
            Change::PathsReordered { order } => value("paths.order".into(), None, Some(order.join(" "))),
        }
    }
}

/// Changes of optional values, which are `none` if not set.
fn edits_of(table: &str, what: &[PropertyChange]) -> Vec<ValueChange> {
    let side = |text: &str| (text != "none").then(|| text.to_owned());
    let one = |edit: &PropertyChange| ValueChange {
        path: format!("{table}.{}", edit.what),
        old: side(&edit.old),
        new: side(&edit.new),
    };
    what.iter().map(one).collect()
}

fn added(change: &Change, path: String) -> Vec<ValueChange> {
    let new = rest(change, &path);
    value(path, None, Some(new))
}

fn removed(kind: &str, name: &str) -> Vec<ValueChange> {
    value(format!("{kind}.{name}"), Some(name.to_owned()), None)
}

fn interface_path(port: &str, name: &str) -> String {
    if port == name { format!("port.{port}") } else { format!("port.{port}.vlan.{name}") }
}
