//! The routes of a configuration: its static routes, and those derived from interface addresses.

use super::Names;
use fib::{GroupError, NextHop, Origin, Outcome, Tables};
use plan::{Plan, Prefix, RouteAction};
use stack::Interface;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{AdjacencyId, GroupId, InterfaceId, VrfId};

/// A route's VRF, destination and origin.
pub(crate) type RouteKey = (VrfId, Prefix, Origin);

/// The target of a route.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RouteGoal {
    /// Any outcome without a gateway.
    Plain(Outcome),
    /// A gateway.
    Via(InterfaceId, IpAddr),
    /// One of several gateways.
    Group(Arc<[NextHop]>),
}

impl RouteGoal {
    /// The target of a route of the plan. `None` if it names an interface that does not exist.
    pub(super) fn of(action: &RouteAction, names: &Names) -> Option<RouteGoal> {
        let hop = |hop: &plan::NextHopPlan| {
            let &interface = names.interfaces.get(&hop.interface)?;
            Some(NextHop { interface, address: hop.gateway, weight: hop.weight })
        };
        Some(match action {
            RouteAction::Blackhole => RouteGoal::Plain(Outcome::Blackhole),
            RouteAction::Unreachable => RouteGoal::Plain(Outcome::Unreachable),
            RouteAction::Via { gateway, interface } => RouteGoal::Via(*names.interfaces.get(interface)?, *gateway),
            RouteAction::Group(hops) => RouteGoal::Group(hops.iter().map(hop).collect::<Option<_>>()?),
        })
    }
}

/// Routes by VRF, destination and origin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes(HashMap<RouteKey, RouteGoal>);

impl Routes {
    /// The routes of `plan`, whose interfaces are `interfaces`.
    pub(super) fn of(plan: &Plan, names: &Names, interfaces: &[Interface]) -> Routes {
        let mut routes =
            Routes::from_addresses(interfaces, |id| names.interface_vrfs.get(&id).copied().unwrap_or(VrfId::MAIN));
        routes.0.reserve(plan.routes.len());
        for route in &plan.routes {
            let goal = RouteGoal::of(&route.action, names).unwrap_or(RouteGoal::Plain(Outcome::Unreachable));
            routes.0.insert((names.vrf(route.vrf.as_ref()), route.to, Origin::Static), goal);
        }
        routes
    }

    /// The routes derived from addresses. `place` returns the VRF of an interface.
    pub fn from_addresses(interfaces: &[Interface], place: impl Fn(InterfaceId) -> VrfId) -> Routes {
        // An IPv4 address has up to four routes, an IPv6 address up to three.
        let mut routes = Routes(HashMap::with_capacity(8 * interfaces.len()));
        for interface in interfaces {
            let vrf = place(interface.id);
            if vrf != VrfId::MAIN {
                // The main VRF has these routes from the start.
                let special =
                    martian_routes().map(|(prefix, outcome)| ((vrf, prefix, Origin::Local), RouteGoal::Plain(outcome)));
                routes.0.extend(special);
            }
            routes.attach(interface, vrf);
        }
        routes
    }

    fn attach(&mut self, interface: &Interface, vrf: VrfId) {
        let id = interface.id;
        let mut put = |address: IpAddr, length: u8, origin, outcome| {
            if let Some(prefix) = Prefix::new(address, length).map(Prefix::network) {
                self.0.insert((vrf, prefix, origin), RouteGoal::Plain(outcome));
            }
        };
        for attached in &interface.ipv4 {
            put(attached.address.into(), 32, Origin::Local, Outcome::Local(id));
            put(attached.address.into(), attached.length, Origin::Connected, Outcome::Connected(id));
            for address in [attached.broadcast(), attached.network()].into_iter().flatten() {
                put(address.into(), 32, Origin::Broadcast, Outcome::Broadcast(id));
            }
        }
        // Link-local addresses belong to their interface and have no routes: see `Snapshot::is_own6_on`.
        for attached in interface.ipv6.iter().filter(|attached| !attached.address.is_unicast_link_local()) {
            put(attached.address.into(), 128, Origin::Local, Outcome::Local(id));
            put(attached.address.into(), attached.length, Origin::Connected, Outcome::Connected(id));
            // The subnet-router anycast address (RFC 4291 2.6.1) is an address of the router.
            if let Some(anycast) = attached.subnet_router() {
                put(anycast.into(), 128, Origin::Local, Outcome::Local(id));
            }
        }
    }

    /// The keys of routes that `other` lacks.
    pub fn without<'a>(&'a self, other: &'a Routes) -> impl Iterator<Item = RouteKey> + 'a {
        self.0.keys().filter(|key| !other.0.contains_key(key)).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&RouteKey, &RouteGoal)> {
        self.0.iter()
    }

    pub fn get(&self, key: &RouteKey) -> Option<&RouteGoal> {
        self.0.get(key)
    }

    pub fn remove(&mut self, key: &RouteKey) {
        self.0.remove(key);
    }

    /// The number of routes.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The adjacencies and groups of the gateways in routes. They are held until the routes themselves hold them.
pub(super) struct Gateways {
    tables: Arc<Tables>,
    adjacencies: HashMap<(InterfaceId, IpAddr), AdjacencyId>,
    /// By the gateways, and the previous group of the route.
    groups: HashMap<(Arc<[NextHop]>, Option<GroupId>), GroupId>,
    /// The group of each route that leads to one.
    route_groups: HashMap<RouteKey, GroupId>,
}

impl Gateways {
    /// Holds nothing.
    pub fn new(tables: &Arc<Tables>) -> Gateways {
        Gateways {
            tables: tables.clone(),
            adjacencies: HashMap::new(),
            groups: HashMap::new(),
            route_groups: HashMap::new(),
        }
    }

    /// Holds the gateways of each route that `old` lacks or that has another target there.
    pub fn of(routes: &Routes, old: &Routes, tables: &Arc<Tables>) -> Result<Gateways, GroupError> {
        let mut gateways = Gateways::new(tables);
        for (key, goal) in routes.iter().filter(|(key, goal)| old.get(key) != Some(goal)) {
            gateways.hold(key, goal)?;
        }
        Ok(gateways)
    }

    /// Holds the gateways of a route. Returns the route's outcome.
    pub fn hold(&mut self, &(vrf, prefix, origin): &RouteKey, goal: &RouteGoal) -> Result<Outcome, GroupError> {
        Ok(match goal {
            RouteGoal::Plain(outcome) => *outcome,
            RouteGoal::Via(interface, gateway) => Outcome::Via(match self.adjacencies.entry((*interface, *gateway)) {
                // Held once for all routes that use it: `drop` releases each entry once.
                Entry::Occupied(held) => *held.get(),
                Entry::Vacant(vacant) => {
                    let adjacency = self.tables.adjacency_for(*interface, *gateway);
                    *vacant.insert(adjacency.ok_or(GroupError::Adjacencies)?)
                }
            }),
            RouteGoal::Group(hops) => {
                // The new group keeps the members of the previous one in most buckets, so most flows keep their next hop.
                let before = match self.tables.route(vrf, prefix, origin) {
                    Outcome::Group(group) => Some(group),
                    _ => None,
                };
                // The previous group is part of the key: routes with equal gateways but different histories need different buckets.
                let group = match self.groups.entry((hops.clone(), before)) {
                    Entry::Occupied(held) => *held.get(),
                    Entry::Vacant(vacant) => *vacant.insert(self.tables.group_for(hops, before)?),
                };
                self.route_groups.insert((vrf, prefix, origin), group);
                Outcome::Group(group)
            }
        })
    }

    /// The outcome of a route whose gateways are held.
    pub fn outcome(&self, key: &RouteKey, goal: &RouteGoal) -> Outcome {
        match goal {
            RouteGoal::Plain(outcome) => *outcome,
            RouteGoal::Via(interface, gateway) => Outcome::Via(self.adjacencies[&(*interface, *gateway)]),
            // By the route, because equal gateways may have several groups.
            RouteGoal::Group(_) => Outcome::Group(self.route_groups[key]),
        }
    }
}

impl Drop for Gateways {
    fn drop(&mut self) {
        // Routes in the tables hold their gateways themselves by now. Gateways of a generation that was not published are freed.
        self.adjacencies.values().for_each(|&adjacency| self.tables.release(adjacency));
        self.groups.values().for_each(|&group| self.tables.release_group(group));
    }
}

/// Destinations that never depend on configured routes (RFC 1812 5.3.7, RFC 4291 2.4).
pub(crate) fn martian_routes() -> impl Iterator<Item = (Prefix, Outcome)> {
    // IPv4 multicast is here too: its packets leave the fast path by this outcome (`Classifier::slow_path_route4`).
    let v4 = [([0, 0, 0, 0], 8), ([127, 0, 0, 0], 8), ([224, 0, 0, 0], 4), ([240, 0, 0, 0], 4)];
    let v4 = v4.into_iter().map(|(octets, length)| (IpAddr::from(Ipv4Addr::from(octets)), length));
    let v6 = [(Ipv6Addr::UNSPECIFIED, 128), (Ipv6Addr::LOCALHOST, 128)];
    let v6 = v6.into_iter().chain([(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10)]);
    let v6 = v6.chain([(Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 0), 8)]);
    let v6 = v6.map(|(address, length)| (IpAddr::from(address), length));
    v4.chain(v6).filter_map(|(address, length)| Some((Prefix::new(address, length)?, Outcome::Special)))
}
