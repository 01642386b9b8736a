//! The tunnels of a generation: their queues, their next hops, and the table of outer headers.

use super::Names;
use crate::tunnel::{PEER, Tunnel, TunnelEnd, TunnelState, Tunnels, tunnel_port};
use packet::port::Port;
use plan::{Plan, PortPlan, RouteAction};
use stack::Interface;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac, PortId, VrfId};

/// A queue for each worker to the port of a tunnel, and the worker's end of each.
pub(super) fn tunnel_queues((id, workers): (PortId, usize), names: &mut Names) -> (Vec<Box<dyn Port>>, Vec<TunnelEnd>) {
    // A changed tunnel begins anew: its path MTU is that of another path.
    let state = Arc::<TunnelState>::default();
    names.tunnels.insert(id, state.clone());
    (0..workers).map(|worker| tunnel_port(&state, worker == 0)).unzip()
}

/// The next hops of routes that lead into tunnels: they have an address at once, so that no packet waits for it.
pub(super) fn tunnel_neighbours(plan: &Plan, names: &Names) -> HashMap<(InterfaceId, IpAddr), Mac> {
    let is_tunnel = |port: &&PortPlan| port.device.tunnel.as_ref().is_some_and(|tunnel| !tunnel.is_segment());
    let tunnels: Vec<&plan::Name> = plan.ports.iter().filter(is_tunnel).map(|port| &port.name).collect();
    let mut neighbours = HashMap::new();
    let mut add = |interface: &plan::Name, gateway: IpAddr| {
        if let Some(&id) = names.interfaces.get(interface).filter(|_| tunnels.contains(&interface)) {
            neighbours.insert((id, gateway), PEER);
        }
    };
    // A router without tunnels may have a million routes.
    for route in plan.routes.iter().filter(|_| !tunnels.is_empty()) {
        match &route.action {
            RouteAction::Via { gateway, interface } => add(interface, *gateway),
            RouteAction::Group(hops) => hops.iter().for_each(|hop| add(&hop.interface, hop.gateway)),
            RouteAction::Blackhole | RouteAction::Unreachable => {}
        }
    }
    neighbours
}

/// The plan's tunnels, by ids.
pub(super) fn tunnels(plan: &Plan, names: &Names, interfaces: &[Interface]) -> Tunnels {
    let tunnel = |port: &PortPlan| {
        let plan = port.device.tunnel.clone()?;
        let (id, vrf) = (*names.ports.get(&port.name)?, names.vrf(plan.underlay_vrf.as_ref()));
        let has = |interface: &&Interface| {
            let own = match plan.local {
                IpAddr::V4(local) => interface.ipv4.iter().any(|attached| attached.address == local),
                IpAddr::V6(local) => interface.ipv6.iter().any(|attached| attached.address == local),
            };
            own && names.interface_vrfs.get(&interface.id).copied().unwrap_or(VrfId::MAIN) == vrf
        };
        // Programs of the machine may have set the interface down: then the tunnel has no address, and carries nothing.
        let underlay = interfaces.iter().find(has)?.id;
        let interface = *names.interfaces.get(&port.name)?;
        let (mac, state) = (*names.macs.get(&id)?, names.tunnels.get(&id)?.clone());
        Some(Tunnel { port: id, interface, underlay, mac, plan, state })
    };
    Tunnels::new(plan.ports.iter().filter_map(tunnel).collect())
}
