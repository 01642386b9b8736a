//! The port and the MTU of the route to a next hop, so that a packet is queued nowhere but in the queues of its slice.

use fib::Outcome;
use packet::Packet;
use packet::wire::flow_hash;
use plane::function::Context;
use std::net::IpAddr;
use units::{InterfaceId, PortId};

/// A next hop, and the interface whose VRF has its route.
type RouteOf = (InterfaceId, IpAddr);

/// Routes of one batch. Most packets in a row have the same next hop.
#[derive(Default)]
pub(crate) struct Routes {
    last: Option<(RouteOf, Option<(PortId, u16)>)>,
}

impl Routes {
    /// The port and the MTU for an outer packet to `next`, or `None` without a route to another node.
    pub fn find(&mut self, next: IpAddr, packet: &Packet, context: Context<'_>) -> Option<(PortId, u16)> {
        let (tables, from) = (context.tables, packet.meta().in_interface);
        let known = self.last.filter(|(key, _)| *key == (from, next));
        if let Some((_, route)) = known {
            return route;
        }
        let word = match next {
            IpAddr::V4(next) => tables.lookup4(from, u32::from(next)),
            IpAddr::V6(next) => tables.lookup6(from, u128::from(next)),
        };
        let outcome = Outcome::decode(word);
        let adjacency = match outcome {
            Outcome::Via(adjacency) => Some(adjacency),
            Outcome::Group(group) => {
                let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), tables.flow_key());
                // While a group is being rebuilt, it has no member for a moment.
                Some(tables.groups().pick(group, flow)).filter(|adjacency| adjacency.0 < Outcome::LIMIT)
            }
            _ => None,
        };
        let interface = match outcome {
            Outcome::Connected(interface) => Some(interface),
            _ => adjacency.map(|adjacency| tables.adjacencies().interface(adjacency)),
        };
        let route = interface.map(|interface| {
            let egress = context.snapshot.egress(interface);
            (egress.port, tables.mtu(interface, egress.mtu))
        });
        // The members of a group depend on the flow.
        if !matches!(outcome, Outcome::Group(_)) {
            self.last = Some(((from, next), route));
        }
        route
    }
}
