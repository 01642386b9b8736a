//! The next hops of packets. All packets to a next hop have the same outer headers and the same route, which are found once.

use crate::outer::OuterHeaders;
use crate::rows::{HopKey, RowWords};
use crate::table::TableSlice;
use fib::Outcome;
use packet::Packet;
use packet::wire::flow_hash;
use plane::function::Context;
use std::net::IpAddr;
use units::{Generation, InterfaceId, PortId};

/// The number of next hops that are kept, a power of two.
const HOPS: usize = 256;

/// The port and the MTU of a route, so that a packet is queued nowhere but in the queues of its slice.
type Route = Option<(PortId, u16)>;

/// The versions of the slices, of the configuration, and of the routes.
type Versions = (u64, Generation, u64);

/// A next hop, with its outer headers and its route by some versions.
pub(crate) struct NextHop {
    key: HopKey,
    epoch: u64,
    headers: Option<OuterHeaders>,
    next: IpAddr,
    /// `None` if the members of a group have different routes: they depend on the flow.
    route: Option<Route>,
}

impl NextHop {
    /// The outer headers. None after its meta-interface was deleted, or if its address is of another family than the next node's.
    #[inline(always)]
    pub fn headers(&self) -> Option<&OuterHeaders> {
        self.headers.as_ref()
    }

    /// The route of an outer packet, or `None` without one to another node.
    #[inline(always)]
    pub fn route(&self, packet: &Packet, context: Context<'_>) -> Route {
        match self.route {
            Some(route) => route,
            None => find_route(self.next, packet.meta().in_interface, context, Some(packet)).flatten(),
        }
    }
}

/// The next hops of recent packets, by a hash.
pub(crate) struct NextHops {
    versions: Versions,
    /// The number of changes of the versions: a next hop is for one of them.
    epoch: u64,
    /// Empty before the first packet.
    known: Vec<Option<NextHop>>,
}

impl NextHops {
    pub fn new() -> NextHops {
        NextHops { versions: Default::default(), epoch: 0, known: Vec::new() }
    }

    /// Begins a batch by a version of the slices. Next hops of other versions are found anew.
    pub fn adopt(&mut self, slices: u64, context: Context<'_>) {
        let versions = (slices, context.snapshot.generation, context.tables.changes());
        if self.versions != versions {
            self.versions = versions;
            self.epoch += 1;
        }
    }

    /// The next hop of a row.
    #[inline(always)]
    pub fn of(
        &mut self,
        row: &RowWords,
        (slice, from): (&TableSlice, InterfaceId),
        context: Context<'_>,
    ) -> Option<&NextHop> {
        let key = row.hop_key(slice.shared.id, from);
        // Hops differ in their last bits, which a multiplication moves to the first (Knuth, TAOCP 3, 6.4).
        let hash = (key[0] ^ key[0] >> 32 ^ key[2].rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (hash >> (64 - HOPS.ilog2())) as usize;
        // Two places for a next hop, so that few of them replace each other.
        let is_it = |hop: &NextHop| hop.key == key && hop.epoch == self.epoch;
        let at =
            [first, first ^ 1].into_iter().find(|at| self.known.get(*at).and_then(Option::as_ref).is_some_and(is_it));
        let at = match at {
            Some(at) => at,
            None => self.add(first, (key, row), (slice, from), context),
        };
        self.known.get(at)?.as_ref()
    }

    /// Finds a next hop, and keeps it. Returns its place.
    #[cold]
    fn add(
        &mut self,
        first: usize,
        (key, row): (HopKey, &RowWords),
        (slice, from): (&TableSlice, InterfaceId),
        context: Context<'_>,
    ) -> usize {
        if self.known.is_empty() {
            self.known.resize_with(HOPS, || None);
        }
        let is_free = |at: &usize| self.known[*at].as_ref().is_none_or(|hop| hop.epoch != self.epoch);
        let at = [first, first ^ 1].into_iter().find(is_free).unwrap_or(first);
        let next = row.next();
        let address = slice.interfaces.get(usize::from(row.interface())).copied().flatten();
        let headers = address.and_then(|address| OuterHeaders::new(address, next));
        let route = find_route(next.ip(), from, context, None);
        self.known[at] = Some(NextHop { key, epoch: self.epoch, headers, next: next.ip(), route });
        at
    }
}

/// The route to `next`. A member of a group is selected by the flow of an outer packet; `None` if one is needed and there is none.
fn find_route(next: IpAddr, from: InterfaceId, context: Context<'_>, packet: Option<&Packet>) -> Option<Route> {
    let tables = context.tables;
    let outcome = tables.lookup_from(from, next);
    let adjacency = match outcome {
        Outcome::Via(adjacency) => Some(adjacency),
        Outcome::Group(group) => {
            let packet = packet?;
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
    Some(interface.map(|interface| {
        let egress = context.snapshot.egress(interface);
        (egress.port, tables.mtu(interface, egress.mtu))
    }))
}
