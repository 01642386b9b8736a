//! Multicast routes of one generation (RFC 1112, RFC 7761 4.2).
//!
//! A route names the input interface of a group's packets, and the interfaces that get a replica each. A route for a packet's source and group
//! precedes the one for the group and any source. Replication is in `worker::replicate`.
//!
//! Programs of the machine, such as PIM daemons, have routes of their own ([`KernelGroups`]). They change with each receiver, so they belong to no
//! generation. A configured route for the packets precedes them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{AdjacencyId, InterfaceId, VrfId};

/// The adjacency of a replica. It has no neighbour: its link-layer address follows from the group (RFC 1112 6.4, RFC 2464 7).
pub(crate) const REPLICA: AdjacencyId = AdjacencyId(u32::MAX - 1);
/// The adjacency of packets that leave unchanged by the other pass-through port.
pub(crate) const PASSTHROUGH: AdjacencyId = AdjacencyId(u32::MAX - 2);

/// The position of the first route of [`KernelGroups`]. A configuration has fewer.
const FIRST_OF_KERNEL: usize = 1 << 19;

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

/// The counters of a group, which several threads share.
#[derive(Default, Debug)]
struct SharedCounters([AtomicU64; 4]);

/// The multicast routes of programs of the machine, each with its counters. A newer value has the same counters for the same source and group.
#[derive(Default, Debug)]
pub struct KernelGroups {
    routes: MulticastRoutes,
    counters: Vec<Arc<SharedCounters>>,
}

impl KernelGroups {
    /// These routes, each with its own key, after `old`.
    pub fn after(old: &KernelGroups, routes: Vec<MulticastRoute>) -> KernelGroups {
        let before = |route: &MulticastRoute| old.routes.positions.get(&route.key).map(|&at| old.counters[at].clone());
        let counters = routes.iter().map(|route| before(route).unwrap_or_default()).collect();
        KernelGroups { routes: MulticastRoutes::new(routes), counters }
    }

    /// The position of the route of a packet, which no configured route has.
    pub fn find(&self, vrf: VrfId, source: IpAddr, group: IpAddr) -> Option<usize> {
        self.routes.find(vrf, source, group).map(|position| FIRST_OF_KERNEL + position)
    }

    /// The route at a position.
    pub fn get(&self, position: usize) -> Option<&MulticastRoute> {
        self.routes.get(position.checked_sub(FIRST_OF_KERNEL)?)
    }

    /// Adds to the counters of the route at a position.
    pub(crate) fn count(&self, position: usize, counted: GroupCounters) {
        let Some(SharedCounters([packets, bytes, copies, dropped])) =
            position.checked_sub(FIRST_OF_KERNEL).and_then(|at| self.counters.get(at)).map(|counters| &**counters)
        else {
            return;
        };
        packets.fetch_add(counted.packets, Ordering::Relaxed);
        bytes.fetch_add(counted.bytes, Ordering::Relaxed);
        copies.fetch_add(counted.copies, Ordering::Relaxed);
        dropped.fetch_add(counted.dropped, Ordering::Relaxed);
    }

    /// The routes with their counters.
    pub fn iter(&self) -> impl Iterator<Item = (&MulticastRoute, GroupCounters)> {
        let read = |SharedCounters(counters): &SharedCounters| {
            let [packets, bytes, copies, dropped] = counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
            GroupCounters { packets, bytes, copies, dropped }
        };
        self.routes.iter().zip(self.counters.iter().map(move |counters| read(counters)))
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

    #[test]
    fn changed_routes_of_the_kernel_keep_their_counters() {
        let route = |key: GroupKey, to: u16| MulticastRoute { key, from: InterfaceId(0), to: vec![InterfaceId(to)] };
        let first =
            KernelGroups::after(&KernelGroups::default(), vec![route(key(1, Some(7)), 1), route(key(2, None), 1)]);
        let find = |table: &KernelGroups, group: u8| {
            table.find(VrfId::MAIN, [192, 0, 2, 7].into(), [239, 0, 0, group].into()).expect("there is a route")
        };
        first.count(find(&first, 2), GroupCounters { packets: 5, bytes: 500, copies: 10, dropped: 1 });
        let second = KernelGroups::after(&first, vec![route(key(2, None), 2), route(key(3, None), 1)]);
        // A worker that still has the old routes counts for the new ones too.
        first.count(find(&first, 2), GroupCounters { packets: 1, ..GroupCounters::default() });
        let listed: Vec<_> =
            second.iter().map(|(route, counted)| (route.to[0].0, counted.packets, counted.copies)).collect();
        assert_eq!(listed, [(2, 6, 10), (1, 0, 0)]);
        assert!(
            second.get(0).is_none() && second.get(find(&second, 3)).is_some(),
            "other positions than configured routes"
        );
    }
}
