//! Takes over the routes of the kernel's main table.

use super::static_routes;
use crate::daemon::{ADOPTION_TIMEOUT, Daemon};
use crate::events::LoggedEvent;
use io::clock;
use io::netlink::{KernelChange, KernelHop, ResolvedRoute, RouteKind};
use plan::{Name, Prefix};
use plane::LinuxRouteAction;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use units::InterfaceId;

/// Routes that the router sets at once.
const BATCH: usize = 16_384;
/// RTPROT_KERNEL of <linux/rtnetlink.h>: the kernel has added the route itself.
const ADDED_BY_KERNEL: u8 = 2;
/// Programs that add routes: RTPROT_* of <linux/rtnetlink.h>, and those of FRR's `zebra/rt_netlink.h`.
const PROTOCOLS: &[(u8, &str)] = &[
    (2, "kernel"),
    (3, "boot"),
    (4, "static"),
    (9, "ra"),
    (11, "zebra"),
    (12, "bird"),
    (14, "xorp"),
    (16, "dhcp"),
    (17, "mrouted"),
    (18, "keepalived"),
    (42, "babel"),
    (44, "openr"),
    (186, "bgp"),
    (187, "isis"),
    (188, "ospf"),
    (189, "rip"),
    (190, "ripng"),
    (191, "nhrp"),
    (192, "eigrp"),
    (193, "ldp"),
    (194, "sharp"),
    (195, "pbr"),
    (196, "static"),
    (197, "openfabric"),
    (198, "srte"),
];

/// The interfaces of the router, by the numbers of those of the kernel.
pub(super) type RoutedInterfaces = BTreeMap<u32, (Name, InterfaceId)>;

/// Changes of routes on their way to the router.
pub(super) struct RouteBatch<'a> {
    daemon: &'a Daemon,
    interfaces: &'a RoutedInterfaces,
    routes: Vec<plane::LinuxRoute>,
    /// Routes that the router cannot use.
    unusable: usize,
    /// Links of the kernel with IPv6 next hops of IPv4 routes.
    ipv4_links: BTreeSet<u32>,
}

impl<'a> RouteBatch<'a> {
    pub fn new(daemon: &'a Daemon, interfaces: &'a RoutedInterfaces) -> RouteBatch<'a> {
        RouteBatch { daemon, interfaces, routes: Vec::new(), unusable: 0, ipv4_links: BTreeSet::new() }
    }

    /// Adds a change of the kernel's tables, if it is one of a route.
    pub fn add_change(&mut self, change: KernelChange<'_>) {
        if let KernelChange::Route { route, effective, .. } = change {
            self.set((route.route.destination, route.route.prefix), effective);
        }
    }

    /// Sets the route of a destination.
    pub fn set(&mut self, (destination, length): (IpAddr, u8), effective: Option<ResolvedRoute<'_>>) {
        let Some(to) = Prefix::new(destination, length) else { return };
        let protocol = effective.as_ref().map_or(0, |route| route.route.protocol);
        let action = effective.filter(|_| is_routed(destination)).and_then(|route| match self.action(&route) {
            Ok(action) => action,
            Err(Unusable) => {
                self.unusable += 1;
                None
            }
        });
        self.routes.push(plane::LinuxRoute { vrf: None, to, action, protocol });
        if self.routes.len() >= BATCH {
            self.flush();
        }
    }

    /// Makes packets to an address of the kernel its own, or no longer. The kernel receives them by the interfaces at which they arrive; `owner` is
    /// any interface of the router.
    pub fn set_own(&mut self, address: IpAddr, owner: Option<&Name>) {
        let action = owner.map(|owner| LinuxRouteAction::Local(owner.clone()));
        let protocol = if owner.is_some() { ADDED_BY_KERNEL } else { 0 };
        self.routes.push(plane::LinuxRoute { vrf: None, to: Prefix::host(address), action, protocol });
    }

    /// Sets the remaining routes, and reports those that the router cannot use. Returns the links of the kernel on which IPv4 routes have IPv6 next hops.
    pub fn finish(mut self) -> BTreeSet<u32> {
        self.flush();
        if self.unusable > 0 {
            let text = format!(
                "{} routes of the kernel cannot be used: their next hops are on other interfaces, encapsulated, or too many",
                self.unusable
            );
            self.daemon.log.push(clock::now(), LoggedEvent::Warning(text));
        }
        self.ipv4_links
    }

    fn flush(&mut self) {
        if self.routes.is_empty() {
            return;
        }
        // If a worker does not adopt a generation in time, routes do not wait for it.
        let mut guard = match self.daemon.lock_adopted(ADOPTION_TIMEOUT) {
            Some(guard) => guard,
            None => self.daemon.control.lock(),
        };
        self.unusable += guard.router.set_kernel_routes(&self.routes).unusable;
        self.routes.clear();
    }

    /// The action of the router for a route. `None` if it has the route by itself.
    fn action(&mut self, route: &ResolvedRoute<'_>) -> Result<Option<LinuxRouteAction>, Unusable> {
        // The prefixes of addresses are the router's connected routes, and its configured routes are its own.
        if [ADDED_BY_KERNEL, static_routes::PROTOCOL].contains(&route.route.protocol) {
            return Ok(None);
        }
        let action = match route.kind {
            RouteKind::Blackhole => LinuxRouteAction::Blackhole,
            RouteKind::Unreachable | RouteKind::Prohibit => LinuxRouteAction::Unreachable,
            RouteKind::Unicast if route.hops.is_empty() => return Ok(None),
            RouteKind::Unicast => {
                let is_ipv4 = route.route.destination.is_ipv4();
                let hops = route.hops.iter().map(|hop| self.hop(hop, is_ipv4)).collect::<Result<_, _>>()?;
                let by_ipv6 =
                    route.hops.iter().filter(|hop| is_ipv4 && hop.gateway.is_some_and(|gateway| gateway.is_ipv6()));
                self.ipv4_links.extend(by_ipv6.filter_map(|hop| hop.link).map(u32::from));
                LinuxRouteAction::Hops(hops)
            }
            _ => return Ok(None),
        };
        Ok(Some(action))
    }

    fn hop(&self, hop: &KernelHop, is_ipv4: bool) -> Result<plane::LinuxHop, Unusable> {
        let (interface, _) = hop.link.and_then(|link| self.interfaces.get(&link.get())).ok_or(Unusable)?;
        // IPv4 by an IPv6 gateway is RFC 8950. The kernel does not have the reverse.
        let foreign = hop.gateway.is_some_and(|gateway| gateway.is_ipv4() && !is_ipv4);
        if hop.flags.is_encapsulated() || foreign {
            return Err(Unusable);
        }
        Ok(plane::LinuxHop { interface: interface.clone(), gateway: hop.gateway, weight: hop.weight.max(1) })
    }
}

/// The router cannot use a route.
struct Unusable;

/// False for destinations that no router forwards to: groups, and addresses of the link.
pub(super) fn is_routed(destination: IpAddr) -> bool {
    match destination {
        IpAddr::V4(address) => !address.is_multicast() && !address.is_loopback(),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_loopback() && !address.is_unicast_link_local(),
    }
}

/// The program that added a route, by its number in the kernel; none for zero.
pub(in crate::daemon) fn protocol_name(protocol: u8) -> Option<String> {
    let known = PROTOCOLS.iter().find(|(number, _)| *number == protocol).map(|(_, name)| (*name).to_owned());
    known.or_else(|| (protocol != 0).then(|| protocol.to_string()))
}
