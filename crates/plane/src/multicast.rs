//! Multicast routes of one generation (RFC 1112, RFC 7761 4.2).
//!
//! A route names the input interface of a group's packets, and the interfaces that get a replica each. A route for a packet's source and group
//! precedes the one for the group and any source. Replication is in `worker::replicate`.

use std::collections::HashMap;
use std::net::IpAddr;
use units::{AdjacencyId, InterfaceId, VrfId};

/// The adjacency of a replica. It has no neighbour: its link-layer address follows from the group (RFC 1112 6.4, RFC 2464 7).
pub(crate) const REPLICA: AdjacencyId = AdjacencyId(u32::MAX - 1);
/// The adjacency of packets that leave unchanged by the other pass-through port.
pub(crate) const PASSTHROUGH: AdjacencyId = AdjacencyId(u32::MAX - 2);

/// The output interface of a packet whose replicas leave by several.
pub const SEVERAL_INTERFACES: InterfaceId = InterfaceId(u16::MAX);

/// The source and the group of a multicast route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// The VRF of the input interface.
    pub vrf: VrfId,
    /// The group.
    pub group: IpAddr,
    /// Their source. `None` for all other sources.
    pub source: Option<IpAddr>,
}

/// The route of a group's packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastRoute {
    /// The packets it applies to.
    pub key: GroupKey,
    /// The input interface.
    pub from: InterfaceId,
    /// The interfaces that get a replica each, never `from`.
    pub to: Vec<InterfaceId>,
}

/// The multicast routes of one generation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastRoutes {
    routes: Vec<MulticastRoute>,
    positions: HashMap<GroupKey, usize>,
}

units::counters! {
    /// The counters of a multicast group.
    pub struct GroupCounters {
        /// Packets to the group that were replicated.
        packets "packets";
        /// Bytes of those, link header included.
        bytes "bytes";
        /// Replicas that were put on a path.
        copies "copies_packets";
        /// Replicas that were dropped with a reason: no frame, no room on the path, or longer than the MTU.
        dropped "dropped_packets";
    }
}

impl MulticastRoutes {
    /// The routes of a generation, each with its own key.
    pub fn new(routes: Vec<MulticastRoute>) -> MulticastRoutes {
        let positions = routes.iter().enumerate().map(|(position, route)| (route.key, position)).collect();
        MulticastRoutes { routes, positions }
    }

    /// The position of the route of a packet received on an interface of `vrf`.
    pub fn find(&self, vrf: VrfId, source: IpAddr, group: IpAddr) -> Option<usize> {
        // The usual case, without hashing the key twice.
        if self.routes.is_empty() {
            return None;
        }
        let of = |source| self.positions.get(&GroupKey { vrf, group, source }).copied();
        of(Some(source)).or_else(|| of(None))
    }

    /// The route at a position.
    pub fn get(&self, position: usize) -> Option<&MulticastRoute> {
        self.routes.get(position)
    }

    /// All routes, in the order of their positions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &MulticastRoute> {
        self.routes.iter()
    }

    /// The counters of the routes of `old`, in the order of these routes. Routes that stay keep their counters.
    pub(crate) fn carry_counters(&self, old: &MulticastRoutes, counted: &[GroupCounters]) -> Vec<GroupCounters> {
        let before = |route: &MulticastRoute| {
            let position = old.positions.get(&route.key)?;
            counted.get(*position).copied()
        };
        self.routes.iter().map(|route| before(route).unwrap_or_default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: u8, source: Option<u8>) -> GroupKey {
        let source = source.map(|host| IpAddr::from([192, 0, 2, host]));
        GroupKey { vrf: VrfId::MAIN, group: [239, 0, 0, group].into(), source }
    }

    fn routes(keys: &[GroupKey]) -> MulticastRoutes {
        let route = |&key: &GroupKey| MulticastRoute { key, from: InterfaceId(0), to: vec![InterfaceId(1)] };
        MulticastRoutes::new(keys.iter().map(route).collect())
    }

    #[test]
    fn source_route_precedes_group_route() {
        let table = routes(&[key(1, None), key(1, Some(7)), key(2, Some(7))]);
        let find = |group: u8, host: u8| table.find(VrfId::MAIN, [192, 0, 2, host].into(), [239, 0, 0, group].into());
        assert_eq!(
            [find(1, 7), find(1, 8), find(2, 7), find(2, 8), find(3, 7)],
            [Some(1), Some(0), Some(2), None, None]
        );
        assert_eq!(table.find(VrfId::at(1), [192, 0, 2, 7].into(), [239, 0, 0, 1].into()), None);
    }

    #[test]
    fn kept_routes_keep_their_counters_at_any_position() {
        let old = routes(&[key(1, None), key(2, None), key(2, Some(7))]);
        let counted: Vec<GroupCounters> =
            (1..4).map(|packets| GroupCounters { packets, ..GroupCounters::default() }).collect();
        let new = routes(&[key(0, None), key(2, Some(7)), key(1, None)]);
        let carried: Vec<u64> = new.carry_counters(&old, &counted).iter().map(|counters| counters.packets).collect();
        assert_eq!(carried, [0, 3, 1]);
    }
}
