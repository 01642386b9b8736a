//! The routes a configuration asks for: its own, and those that follow from its addresses.

use super::Names;
use crate::classify::{Origin, Outcome, Tables};
use crate::interface::Interface;
use plan::{Plan, Prefix, RouteAction};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{AdjacencyId, InterfaceId};

/// What a route is to lead to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Goal {
    /// Anything but a gateway.
    Plain(Outcome),
    /// A gateway.
    Via(InterfaceId, IpAddr),
}

/// Routes by destination and origin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(HashMap<(Prefix, Origin), Goal>);

impl Routes {
    /// The routes of `plan`, whose interfaces are `interfaces`.
    pub(super) fn of(plan: &Plan, names: &Names, interfaces: &[Interface]) -> Routes {
        let mut routes = Routes::following(interfaces);
        routes.0.reserve(plan.routes.len());
        for route in &plan.routes {
            let goal = match &route.action {
                RouteAction::Blackhole => Goal::Plain(Outcome::Blackhole),
                RouteAction::Unreachable => Goal::Plain(Outcome::Unreachable),
                RouteAction::Via { gateway, interface } => match names.interfaces.get(interface) {
                    Some(&id) => Goal::Via(id, *gateway),
                    None => Goal::Plain(Outcome::Unreachable),
                },
            };
            routes.0.insert((route.to, Origin::Static), goal);
        }
        routes
    }

    /// The routes that follow from addresses.
    pub fn following(interfaces: &[Interface]) -> Routes {
        let mut routes = Routes(HashMap::with_capacity(8 * interfaces.len()));
        interfaces.iter().for_each(|interface| routes.attach(interface));
        routes
    }

    fn attach(&mut self, interface: &Interface) {
        let id = interface.id;
        let mut put = |address: IpAddr, length: u8, origin, outcome| {
            if let Some(prefix) = Prefix::new(address, length).map(Prefix::network) {
                self.0.insert((prefix, origin), Goal::Plain(outcome));
            }
        };
        for attached in &interface.ipv4 {
            put(attached.address.into(), 32, Origin::Local, Outcome::Local(id));
            put(attached.address.into(), attached.length, Origin::Connected, Outcome::Connected(id));
            for address in [attached.broadcast(), attached.network()].into_iter().flatten() {
                put(address.into(), 32, Origin::Broadcast, Outcome::Broadcast(id));
            }
        }
        for attached in interface.ipv6.iter().filter(|attached| !attached.address.is_unicast_link_local()) {
            put(attached.address.into(), 128, Origin::Local, Outcome::Local(id));
            put(attached.address.into(), attached.length, Origin::Connected, Outcome::Connected(id));
            if let Some(anycast) = attached.subnet_router() {
                put(anycast.into(), 128, Origin::Local, Outcome::Local(id));
            }
        }
    }

    /// The keys of routes that `other` has not.
    pub fn without<'a>(&'a self, other: &'a Routes) -> impl Iterator<Item = (Prefix, Origin)> + 'a {
        self.0.keys().filter(|key| !other.0.contains_key(key)).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&(Prefix, Origin), &Goal)> {
        self.0.iter()
    }

    pub fn get(&self, key: &(Prefix, Origin)) -> Option<Goal> {
        self.0.get(key).copied()
    }

    pub fn remove(&mut self, key: &(Prefix, Origin)) {
        self.0.remove(key);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The adjacencies of the gateways that routes name, held until the routes hold them themselves.
pub(super) struct Gateways {
    tables: Arc<Tables>,
    held: HashMap<(InterfaceId, IpAddr), AdjacencyId>,
}

impl Gateways {
    /// Holds an adjacency for each gateway of `routes`; nothing where there are not enough.
    pub fn of(routes: &Routes, tables: &Arc<Tables>) -> Option<Gateways> {
        let mut gateways = Gateways { tables: tables.clone(), held: HashMap::new() };
        for goal in routes.0.values() {
            if let Goal::Via(interface, gateway) = *goal
                && let Entry::Vacant(vacant) = gateways.held.entry((interface, gateway))
            {
                vacant.insert(tables.adjacency_for(interface, gateway)?);
            }
        }
        Some(gateways)
    }

    /// What a route to `goal` says.
    pub fn outcome(&self, goal: Goal) -> Outcome {
        match goal {
            Goal::Plain(outcome) => outcome,
            Goal::Via(interface, gateway) => Outcome::Via(self.held[&(interface, gateway)]),
        }
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        self.held.values().for_each(|&adjacency| self.tables.release(adjacency));
    }
}

/// Destinations that are no matter of routes, whatever is configured (RFC 1812 5.3.7, RFC 4291 2.4).
pub(crate) fn always() -> impl Iterator<Item = (Prefix, Outcome)> {
    let v4 = [([0, 0, 0, 0], 8), ([127, 0, 0, 0], 8), ([224, 0, 0, 0], 4), ([240, 0, 0, 0], 4)];
    let v4 = v4.into_iter().map(|(octets, length)| (IpAddr::from(Ipv4Addr::from(octets)), length));
    let v6 = [(Ipv6Addr::UNSPECIFIED, 128), (Ipv6Addr::LOCALHOST, 128)];
    let v6 = v6.into_iter().chain([(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)]);
    let v6 = v6.chain([(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8)]);
    let v6 = v6.map(|(address, length)| (IpAddr::from(address), length));
    v4.chain(v6).filter_map(|(address, length)| Some((Prefix::new(address, length)?, Outcome::Special)))
}
