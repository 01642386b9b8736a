//! Routes of the kernel's tables, which routing daemons maintain. They belong to no generation, like those of the API.

use super::Router;
use super::config_routes::{Gateways, RouteGoal};
use crate::multicast::{KernelGroups, MulticastRoute};
use fib::{NextHop, Origin, Outcome, RouteChange};
use plan::{Name, Prefix};
use std::net::IpAddr;
use units::InterfaceId;

/// A route of the kernel: a new one, a changed one, or one that is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinuxRoute {
    /// Its VRF; `None` for the main one.
    pub vrf: Option<Name>,
    /// Its destination.
    pub to: Prefix,
    /// The treatment of its packets; `None`: the route is gone.
    pub action: Option<LinuxRouteAction>,
    /// The program that added it: see [`fib::RouteReport::protocol`].
    pub protocol: u8,
}

/// The treatment of the packets of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinuxRouteAction {
    /// They are sent to one of these next hops, selected by flow.
    Hops(Vec<LinuxHop>),
    /// They are for the machine, at all interfaces. The route disappears with this one.
    Local(Name),
    /// They are dropped silently.
    Blackhole,
    /// They are dropped with an ICMP error to the sender.
    Unreachable,
}

/// A next hop of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinuxHop {
    /// The interface.
    pub interface: Name,
    /// The gateway; `None`: the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Its weight among the others; at least 1.
    pub weight: u16,
}

/// The result of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinuxRouteSummary {
    /// Routes set.
    pub set: usize,
    /// Routes removed.
    pub removed: usize,
    /// Routes that the router cannot use: it has no room for them, or for their next hops, or no such interface.
    pub unusable: usize,
}

impl Router {
    /// Carries out changes of the kernel's routes, in their order. A route that the router cannot use is counted and left out, and no route of the
    /// kernel leads to its destination then.
    pub fn set_kernel_routes(&mut self, routes: &[LinuxRoute]) -> LinuxRouteSummary {
        let mut summary = LinuxRouteSummary::default();
        let mut gateways = Gateways::new(&self.tables);
        let mut room = self.tables.room();
        let changes: Vec<RouteChange> = routes
            .iter()
            .map(|route| {
                let vrf = self.names.vrf(route.vrf.as_ref());
                let fits = room > 0 || self.tables.contains(vrf, route.to);
                let goal = route.action.as_ref().filter(|_| fits).and_then(|action| self.goal(action));
                let outcome = goal.and_then(|goal| gateways.hold(&(vrf, route.to, Origin::Kernel), &goal).ok());
                match (&route.action, outcome) {
                    (None, _) => summary.removed += 1,
                    (Some(_), None) => summary.unusable += 1,
                    (Some(_), Some(_)) => {
                        summary.set += 1;
                        // Counted as if each were new: the exact number is known only afterwards.
                        room = room.saturating_sub(1);
                    }
                }
                let outcome = outcome.unwrap_or(Outcome::NoRoute);
                RouteChange { vrf, prefix: route.to, origin: Origin::Kernel, outcome }
            })
            .collect();
        let protocols = changes.iter().zip(routes).map(|(change, route)| (change.vrf, change.prefix, route.protocol));
        let protocols: Vec<_> = protocols.collect();
        self.tables.apply_routes(changes).expect("there is room for the routes, and their gateways are held");
        self.tables.set_protocols(&protocols);
        summary
    }

    /// Replaces the multicast routes of the kernel. Routes that stay keep their counters.
    pub fn set_kernel_groups(&mut self, routes: Vec<MulticastRoute>) {
        let published = &self.snapshot.kernel_groups;
        published.publish(KernelGroups::after(&published.latest(), routes));
    }

    fn goal(&self, action: &LinuxRouteAction) -> Option<RouteGoal> {
        let hops = match action {
            LinuxRouteAction::Local(name) => {
                return self.names.interfaces.get(name).map(|&id| RouteGoal::Plain(Outcome::Local(id)));
            }
            LinuxRouteAction::Blackhole => return Some(RouteGoal::Plain(Outcome::Blackhole)),
            LinuxRouteAction::Unreachable => return Some(RouteGoal::Plain(Outcome::Unreachable)),
            LinuxRouteAction::Hops(hops) => hops,
        };
        let interface = |hop: &LinuxHop| self.names.interfaces.get(&hop.interface).copied();
        match &hops[..] {
            [] => None,
            [hop] => {
                let interface: InterfaceId = interface(hop)?;
                let on_link = RouteGoal::Plain(Outcome::Connected(interface));
                Some(hop.gateway.map_or(on_link, |gateway| RouteGoal::Via(interface, gateway)))
            }
            hops => {
                let member = |hop: &LinuxHop| {
                    Some(NextHop { interface: interface(hop)?, address: hop.gateway?, weight: hop.weight.max(1) })
                };
                let members: Option<Vec<NextHop>> = hops.iter().map(member).collect();
                Some(RouteGoal::Group(members?.into()))
            }
        }
    }
}
