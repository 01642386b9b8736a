//! Where packets to multicast groups go: the routes of one generation (RFC 1112, RFC 7761 4.2).
//!
//! A route says by which interface the packets of a group come, and which interfaces get a copy each. The one for a packet's
//! source and group goes before the one for the group and any source. What is done with it is in `worker::copying`.

use std::collections::HashMap;
use std::net::IpAddr;
use units::{AdjacencyId, InterfaceId, VrfId};

/// The adjacency of a copy: no neighbour, its link-layer address follows from the group (RFC 1112 6.4, RFC 2464 7).
pub(crate) const COPY: AdjacencyId = AdjacencyId(u32::MAX - 1);
/// The adjacency of what passes through as it is, from one end of a piece of cable to the other.
pub(crate) const THROUGH: AdjacencyId = AdjacencyId(u32::MAX - 2);

/// The interface that a packet leaves by of which copies leave by several.
pub const SEVERAL: InterfaceId = InterfaceId(u16::MAX);

/// Whose packets to which group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupKey {
    /// The VRF they come in by.
    pub vrf: VrfId,
    /// The group.
    pub group: IpAddr,
    /// Their source; none for all others.
    pub source: Option<IpAddr>,
}

/// The way of a group's packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MulticastRoute {
    /// Whose packets.
    pub key: GroupKey,
    /// The interface they come by.
    pub from: InterfaceId,
    /// The interfaces that get a copy each; never that of `from`.
    pub to: Vec<InterfaceId>,
}

/// The multicast routes of one generation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastRoutes {
    routes: Vec<MulticastRoute>,
    positions: HashMap<GroupKey, usize>,
}

units::counters! {
    /// What was copied for a multicast group.
    pub struct GroupCounters {
        /// Packets to the group that were copied.
        packets "packets";
        /// Bytes of those, link header included.
        bytes "bytes";
        /// Copies that were put on a path.
        copies "copies_packets";
        /// Copies that were not: no frame, no room on the path, or longer than the link takes. Each has its drop reason.
        dropped "dropped_packets";
    }
}

impl MulticastRoutes {
    /// The routes of a generation, each of its own key.
    pub fn new(routes: Vec<MulticastRoute>) -> MulticastRoutes {
        let positions = routes.iter().enumerate().map(|(position, route)| (route.key, position)).collect();
        MulticastRoutes { routes, positions }
    }

    /// The position of the route of a packet that came in by an interface of `vrf`.
    pub fn find(&self, vrf: VrfId, source: IpAddr, group: IpAddr) -> Option<usize> {
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

    /// All of them, in the order of their positions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &MulticastRoute> {
        self.routes.iter()
    }

    /// What was counted for the routes of `old`, in the order of these: those that stay go on counting.
    pub(crate) fn carry(&self, old: &MulticastRoutes, counted: &[GroupCounters]) -> Vec<GroupCounters> {
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
    fn the_route_of_the_source_goes_before_that_of_the_group() {
        let table = routes(&[key(1, None), key(1, Some(7)), key(2, Some(7))]);
        let find = |group: u8, host: u8| table.find(VrfId::MAIN, [192, 0, 2, host].into(), [239, 0, 0, group].into());
        assert_eq!(
            [find(1, 7), find(1, 8), find(2, 7), find(2, 8), find(3, 7)],
            [Some(1), Some(0), Some(2), None, None]
        );
        assert_eq!(table.find(VrfId::at(1), [192, 0, 2, 7].into(), [239, 0, 0, 1].into()), None);
    }

    #[test]
    fn routes_that_stay_go_on_counting_wherever_they_stand() {
        let old = routes(&[key(1, None), key(2, None), key(2, Some(7))]);
        let counted: Vec<GroupCounters> =
            (1..4).map(|packets| GroupCounters { packets, ..GroupCounters::default() }).collect();
        let new = routes(&[key(0, None), key(2, Some(7)), key(1, None)]);
        let carried: Vec<u64> = new.carry(&old, &counted).iter().map(|counters| counters.packets).collect();
        assert_eq!(carried, [0, 3, 1]);
    }
}
