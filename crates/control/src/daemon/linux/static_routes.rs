//! Gives the kernel the routes of the configuration and of the API: so programs of the machine reach what the router reaches, and routing daemons can
//! announce it.

use super::{MAIN_TABLE, Served};
use fib::{NextHop, Origin, Outcome, RouteQuery, RouteReport, Tables};
use io::netlink::{
    KernelChange, KernelError, KernelHop, KernelRequest, KernelRouteEntry, KernelTables, Netlink, RequestObject,
    RouteHops, RouteKind,
};
use plan::{Name, NextHopPlan, Plan, RouteAction};
use std::collections::BTreeMap;
use std::net::IpAddr;
use units::{InterfaceId, VrfId};

/// The protocol of these routes in the kernel. Neither <linux/rtnetlink.h> nor iproute2 has another use for the number.
pub(super) const PROTOCOL: u8 = 83;
/// The most routes of the API that the kernel gets: to compare more would delay the kernel's own changes.
const MOST_API_ROUTES: usize = 16_384;

/// The routes on the kernel's interfaces that the router has by itself.
#[derive(Default)]
pub(super) struct StaticRoutes {
    wanted: BTreeMap<(IpAddr, u8), KernelRouteEntry>,
    /// The kernel may lack some of them, or have others.
    is_dirty: bool,
    /// Routes of an earlier run may be left.
    is_swept: bool,
    /// The API has more routes than the kernel gets.
    is_crowded: bool,
    /// The last reported refusal.
    refusal: Option<String>,
}

impl StaticRoutes {
    /// Takes over the routes of a plan and those of the API. Routes of VRFs, and routes to interfaces that the kernel does not have, are left out.
    pub fn set(&mut self, plan: &Plan, served: &BTreeMap<Name, Served>, (tables, fib): (&KernelTables, &Tables)) {
        let query = RouteQuery { vrf: Some(VrfId::MAIN), within: None, origin: Some(Origin::Api) };
        let mut added = fib.routes(&query, MOST_API_ROUTES + 1);
        self.is_crowded = added.len() > MOST_API_ROUTES;
        if self.is_crowded {
            added.clear();
        }
        let added = added.iter().filter_map(|report| {
            let to = (report.prefix.address, report.prefix.length);
            Some((to, entry(to, &action_of(report, served)?, served)?))
        });
        let configured = plan.routes.iter().filter(|route| route.vrf.is_none()).filter_map(|route| {
            let to = (route.to.address, route.to.length);
            Some((to, entry(to, &route.action, served)?))
        });
        // Configured ones have precedence, as they have in the router.
        let wanted: BTreeMap<_, _> = added.chain(configured).collect();
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
        let crowded = || format!("the kernel's table has no routes of the API: they are more than {MOST_API_ROUTES}");
        let refusal = refused
            .first()
            .map(|first| format!("{} routes are not in the kernel's table: {}", refused.len(), first.error))
            .or_else(|| self.is_crowded.then(crowded));
        let is_news = refusal.is_some() && refusal != self.refusal;
        self.refusal.clone_from(&refusal);
        Ok(refusal.filter(|_| is_news))
    }
}

/// The kernel's form of a route; none if one of its interfaces is missing there.
fn entry(
    (destination, length): (IpAddr, u8),
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

/// The action of a route of the API; none if it is not for the kernel, or one of its interfaces is missing there.
fn action_of(report: &RouteReport, served: &BTreeMap<Name, Served>) -> Option<RouteAction> {
    let name = |id: InterfaceId| served.iter().find(|(_, served)| served.wanted.id == id).map(|(name, _)| name.clone());
    Some(match report.outcome {
        Outcome::Via(_) => RouteAction::Via { gateway: report.next_hop?, interface: name(report.interface?)? },
        Outcome::Group(_) => {
            let hops = report.members.iter().map(|member| member.hop);
            let hop = |hop: NextHop| {
                Some(NextHopPlan { interface: name(hop.interface)?, gateway: hop.address, weight: hop.weight })
            };
            RouteAction::Group(hops.map(hop).collect::<Option<_>>()?)
        }
        Outcome::Blackhole => RouteAction::Blackhole,
        Outcome::Unreachable => RouteAction::Unreachable,
        _ => return None,
    })
}
