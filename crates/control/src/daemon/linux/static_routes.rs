//! Gives the kernel the configured routes: so programs of the machine reach what the router reaches, and routing daemons can announce it.

use super::{MAIN_TABLE, Served};
use io::netlink::{
    KernelChange, KernelError, KernelHop, KernelRequest, KernelRouteEntry, KernelTables, Netlink, RequestObject,
    RouteHops, RouteKind,
};
use plan::{Name, Plan, RouteAction};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The protocol of these routes in the kernel. Neither <linux/rtnetlink.h> nor iproute2 has another use for the number.
pub(super) const PROTOCOL: u8 = 83;

/// The configured routes on the kernel's interfaces.
#[derive(Default)]
pub(super) struct StaticRoutes {
    wanted: BTreeMap<(IpAddr, u8), KernelRouteEntry>,
    /// The kernel may lack some of them, or have others.
    is_dirty: bool,
    /// Routes of an earlier run may be left.
    is_swept: bool,
    /// The last reported refusal.
    refusal: Option<String>,
}

impl StaticRoutes {
    /// Takes over the routes of a plan. Routes of VRFs, and routes to interfaces that the kernel does not have, are left out.
    pub fn set(&mut self, plan: &Plan, served: &BTreeMap<Name, Served>, tables: &KernelTables) {
        let routes = plan.routes.iter().filter(|route| route.vrf.is_none());
        let wanted: BTreeMap<_, _> = routes
            .filter_map(|route| {
                let (destination, length) = (route.to.address, route.to.length);
                let entry = entry(destination, length, &route.action, served)?;
                Some(((destination, length), entry))
            })
            .collect();
        self.is_dirty |= wanted != self.wanted;
        // Routes that are no longer wanted are found in the kernel's tables, like those of an earlier run.
        self.is_swept &= self.wanted.keys().all(|key| wanted.contains_key(key));
        self.wanted = wanted;
        self.is_dirty |= !self.is_swept && tables.routes().any(|route| route.route.protocol == PROTOCOL);
    }

    /// Looks at a change of the kernel's tables, which may have cost a route.
    pub fn observe(&mut self, change: &KernelChange<'_>) {
        self.is_dirty |= match change {
            KernelChange::Link(..) | KernelChange::Address(..) => !self.wanted.is_empty(),
            KernelChange::Route { route, .. } => route.route.protocol == PROTOCOL,
            _ => false,
        };
    }

    /// Adds the missing routes to the kernel's main table, and removes others. Routes that the kernel refuses, for instance because an interface has no address
    /// yet, are tried again later. Returns a message about them if they are others than before.
    pub fn apply(&mut self, tables: &KernelTables, netlink: &mut Netlink) -> Result<Option<String>, KernelError> {
        if !self.is_dirty {
            return Ok(None);
        }
        let mut requests = Vec::new();
        if !self.is_swept {
            let old = tables.routes().map(|route| route.route).filter(|route| route.protocol == PROTOCOL);
            let old = old.filter(|route| !self.wanted.contains_key(&(route.destination, route.prefix)));
            requests.extend(old.map(|route| KernelRequest::Delete(RequestObject::Route(route))));
        }
        for (&(destination, length), entry) in &self.wanted {
            let effective = tables.effective_route(MAIN_TABLE, destination, length);
            let is_present = effective.is_some_and(|route| {
                route.route.protocol == PROTOCOL && (route.route.kind, &route.route.hops) == (entry.kind, &entry.hops)
            });
            if !is_present {
                requests.push(KernelRequest::Replace(RequestObject::Route(entry)));
            }
        }
        let refused = netlink.apply(requests)?;
        self.is_dirty = !refused.is_empty();
        self.is_swept = true;
        let refusal = refused
            .first()
            .map(|first| format!("{} configured routes are not in the kernel's table: {}", refused.len(), first.error));
        let is_news = refusal.is_some() && refusal != self.refusal;
        self.refusal.clone_from(&refusal);
        Ok(refusal.filter(|_| is_news))
    }
}

/// The kernel's form of a route; none if one of its interfaces is missing there.
fn entry(
    destination: IpAddr,
    length: u8,
    action: &RouteAction,
    served: &BTreeMap<Name, Served>,
) -> Option<KernelRouteEntry> {
    let hop = |interface: &Name, gateway: IpAddr, weight: u16| {
        let link = served.get(interface)?.device.index();
        Some(KernelHop { weight, ..KernelHop::new(Some(gateway), link) })
    };
    let (kind, hops) = match action {
        RouteAction::Via { gateway, interface } => (RouteKind::Unicast, vec![hop(interface, *gateway, 1)?]),
        RouteAction::Group(hops) => {
            let hops = hops.iter().map(|one| hop(&one.interface, one.gateway, one.weight)).collect::<Option<_>>()?;
            (RouteKind::Unicast, hops)
        }
        RouteAction::Blackhole => (RouteKind::Blackhole, Vec::new()),
        RouteAction::Unreachable => (RouteKind::Unreachable, Vec::new()),
    };
    let plain = KernelRouteEntry::new(destination, length, RouteHops::new(hops));
    // IPv6 replaces a metric of zero.
    let metric = if destination.is_ipv6() { 1 } else { 0 };
    Some(KernelRouteEntry { kind, protocol: PROTOCOL, metric, ..plain })
}
