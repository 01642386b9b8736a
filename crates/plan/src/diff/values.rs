//! A change as values: which key of the configuration had which value and has which now, for programs.

use super::{Change, Edit};
use serde::Serialize;
use std::fmt::Display;

/// A key whose value differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ValueChange {
    /// The key, like `port.lan.mtu` or `route[10.0.0.0/8]`.
    pub path: String,
    /// The value before; nothing where there was none.
    pub old: Option<String>,
    /// The value after; nothing where there is none.
    pub new: Option<String>,
}

fn value(path: String, old: Option<String>, new: Option<String>) -> Vec<ValueChange> {
    vec![ValueChange { path, old, new }]
}

/// What a change says behind its sign, kind and name.
fn rest(change: &Change, path: &str) -> String {
    let text = change.to_string();
    let behind = text.split_once(": ").map(|(_, rest)| rest).unwrap_or_default();
    if behind.is_empty() { path.to_owned() } else { behind.to_owned() }
}

impl Change {
    /// The values that differ, one for each key; a table that is new or gone is one value.
    pub fn values(&self) -> Vec<ValueChange> {
        let text = |value: &dyn Display| Some(value.to_string());
        match self {
            Change::RouterChanged { what } => edited("router", what),
            Change::CpuChanged { what } => edited("cpu", what),
            Change::ObjectivesChanged { what } => edited("objectives", what),
            Change::NatChanged { what } => edited("nat", what),
            Change::StateChanged { what } => edited("state", what),
            Change::PolicyChanged { name, what } => edited(&format!("policy.{name}"), what),
            Change::PortChanged { name, what } => edited(&format!("port.{name}"), what),
            Change::PathChanged { name, what } => edited(&format!("path.{name}"), what),
            Change::InterfaceChanged { port, name, what } => edited(&interface(port, name), what),
            Change::PolicyAdded { policy } => added(self, format!("policy.{}", policy.name)),
            Change::PortAdded { port } => added(self, format!("port.{}", port.name)),
            Change::PathAdded { path } => added(self, format!("path.{}", path.name)),
            Change::InterfaceAdded { port, interface: new } => added(self, interface(port, &new.name)),
            Change::PolicyRemoved { name } => removed("policy", name),
            Change::PortRemoved { name } => removed("port", name),
            Change::PathRemoved { name } => removed("path", name),
            Change::InterfaceRemoved { port, name } => value(interface(port, name), text(name), None),
            Change::RouteAdded { route } => value(route_path(route), None, text(&route.action)),
            Change::RouteRemoved { route } => value(route_path(route), text(&route.action), None),
            Change::RouteChanged { old, new } => value(route_path(new), text(&old.action), text(&new.action)),
            Change::NeighbourAdded { neighbour } => value(neighbour_path(neighbour), None, text(&neighbour.mac)),
            Change::NeighbourRemoved { neighbour } => value(neighbour_path(neighbour), text(&neighbour.mac), None),
            Change::NeighbourChanged { old, new } => value(neighbour_path(new), text(&old.mac), text(&new.mac)),
            Change::MulticastAdded { multicast } => value(multicast_path(multicast), None, Some(multicast.way())),
            Change::MulticastRemoved { multicast } => value(multicast_path(multicast), Some(multicast.way()), None),
            Change::MulticastChanged { old, new } => value(multicast_path(new), Some(old.way()), Some(new.way())),
            Change::PassThroughAdded { passthrough } => value("passthrough".into(), None, text(passthrough)),
            Change::PassThroughRemoved { passthrough } => value("passthrough".into(), text(passthrough), None),
            Change::PathsReordered { order } => value("paths.order".into(), None, Some(order.join(" "))),
        }
    }
}

/// Values that are written as `none` where there is none.
fn edited(table: &str, what: &[Edit]) -> Vec<ValueChange> {
    let side = |text: &str| (text != "none").then(|| text.to_owned());
    let one = |edit: &Edit| ValueChange {
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

fn interface(port: &str, name: &str) -> String {
    if port == name { format!("port.{port}") } else { format!("port.{port}.vlan.{name}") }
}

fn route_path(route: &crate::RoutePlan) -> String {
    match &route.vrf {
        None => format!("route[{}]", route.to),
        Some(vrf) => format!("route[vrf {vrf} {}]", route.to),
    }
}

fn neighbour_path(neighbour: &crate::NeighbourPlan) -> String {
    format!("neighbour[{} port {}]", neighbour.address, neighbour.interface)
}

fn multicast_path(multicast: &crate::MulticastPlan) -> String {
    format!("multicast[{}]", multicast.title())
}
