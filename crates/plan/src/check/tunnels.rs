//! The addresses of tunnels: each tunnel has an address of the router, and its outer packets do not enter it again.

use crate::connected::{Connected, MAIN, VrfIndex};
use crate::diagnostic::Report;
use crate::names::Name;
use crate::section::port::PortPlan;
use crate::section::port::tunnel::{TunnelKind, TunnelPlan};
use crate::section::route::RoutePlan;
use crate::section::route::hop::RouteAction;
use std::net::IpAddr;

/// Checks the tunnels among `ports`, when all interfaces and routes are known.
pub(super) fn check(report: &mut Report<'_>, connected: &Connected, ports: &[PortPlan], routes: &[RoutePlan]) {
    check_addresses(report, connected, ports);
    check_routes(report, connected, ports, routes);
}

/// Reports tunnels without an address of their own, and tunnels that the router could not distinguish.
fn check_addresses(report: &mut Report<'_>, connected: &Connected, ports: &[PortPlan]) {
    let mut seen: Vec<(&PortPlan, &TunnelPlan)> = Vec::new();
    for place in &connected.tunnels {
        let Some((port, tunnel)) = tunnel_of(ports, &place.name) else { continue };
        let vrf = tunnel.underlay_vrf.as_deref().map_or(Some(MAIN), |name| connected.vrf(name));
        let owner = vrf.and_then(|vrf| connected.owner(vrf, tunnel.local));
        let error = match owner {
            _ if connected.incomplete => None,
            None => {
                let of = tunnel.underlay_vrf.as_ref().map_or_else(String::new, |vrf| format!(" in the VRF '{vrf}'"));
                let hint = "write an address that a port has in 'address'".to_string();
                Some((format!("{} is no address of the router{of}", tunnel.local), hint))
            }
            Some(owner) if *owner == port.name => {
                let hint = "write the address of the port by which the outer packets leave".to_string();
                Some((format!("{} is the address of the tunnel itself", tunnel.local), hint))
            }
            Some(_) => {
                let same = |other: &TunnelPlan| {
                    (other.kind, other.local, other.key, &other.underlay_vrf)
                        == (tunnel.kind, tunnel.local, tunnel.key, &tunnel.underlay_vrf)
                        && other.remotes.iter().any(|remote| tunnel.remotes.contains(remote))
                };
                seen.iter().find(|(_, other)| same(other)).map(|(other, _)| {
                    let reason = format!("'{}' is a tunnel between the same addresses", other.name);
                    let hint = match tunnel.kind {
                        TunnelKind::Gre => "give each tunnel a key of its own",
                        TunnelKind::Vxlan => "give each segment a network identifier of its own",
                        TunnelKind::Ipip => "use another address, or 'gre' with a key for each tunnel",
                    };
                    (reason, hint.to_string())
                })
            }
        };
        if let Some(error) = error {
            report.error(place.span.clone(), &place.path, || error);
        }
        seen.push((port, tunnel));
    }
}

/// Reports tunnels whose outer packets would enter the tunnel again (RFC 2473 4.1.2). Routes that are added later are not known here.
fn check_routes(report: &mut Report<'_>, connected: &Connected, ports: &[PortPlan], routes: &[RoutePlan]) {
    for place in &connected.tunnels {
        let Some((port, tunnel)) = tunnel_of(ports, &place.name) else { continue };
        let (mut next, mut seen) = (vec![tunnel], Vec::new());
        while let Some(outer) = next.pop() {
            let outs: Vec<_> = outer.remotes.iter().flat_map(|&end| egress(connected, routes, (outer, end))).collect();
            if outs.contains(&&port.name) {
                report.error(place.span.clone(), &place.path, || {
                    let ends: Vec<String> = tunnel.remotes.iter().map(ToString::to_string).collect();
                    let reason =
                        format!("the route to the other end, {}, leads into the tunnel itself", ends.join(", "));
                    (reason, "add a route to it by another port".to_string())
                });
                break;
            }
            for (port, inner) in outs.into_iter().filter_map(|name| tunnel_of(ports, name)) {
                if !seen.contains(&&port.name) {
                    seen.push(&port.name);
                    next.push(inner);
                }
            }
        }
    }
}

/// The interfaces by which the outer packets of a tunnel to one of its other ends leave, by the routes of the configuration.
fn egress<'p>(
    connected: &'p Connected,
    routes: &'p [RoutePlan],
    (tunnel, remote): (&TunnelPlan, IpAddr),
) -> Vec<&'p Name> {
    let vrf: Option<VrfIndex> = tunnel.underlay_vrf.as_deref().map_or(Some(MAIN), |name| connected.vrf(name));
    let direct = vrf.and_then(|vrf| connected.subnet_of(vrf, remote));
    let covers = |route: &&RoutePlan| route.vrf == tunnel.underlay_vrf && route.to.contains(remote);
    let route = routes.iter().filter(covers).max_by_key(|route| route.to.length);
    match (direct, route) {
        (Some((name, length)), route) if route.is_none_or(|route| route.to.length <= length) => vec![name],
        (_, Some(route)) => match &route.action {
            RouteAction::Via { interface, .. } => vec![interface],
            RouteAction::Group(hops) => hops.iter().map(|hop| &hop.interface).collect(),
            RouteAction::Blackhole | RouteAction::Unreachable => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn tunnel_of<'p>(ports: &'p [PortPlan], name: &str) -> Option<(&'p PortPlan, &'p TunnelPlan)> {
    let port = ports.iter().find(|port| *port.name == *name)?;
    Some((port, port.device.tunnel.as_ref()?))
}
