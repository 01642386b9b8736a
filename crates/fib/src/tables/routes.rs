//! Changes of routes, and reports about them.

use super::route_cache::Feeds;
use super::{GroupMember, NextHop, Tables, is_link_local};
use crate::rib::{Candidates, Rib};
use crate::{Origin, Outcome};
use parking_lot::MutexGuard;
use plan::Prefix;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;
use units::{AdjacencyId, GroupId, InterfaceId, VrfId};

/// Routes visited or changed under one hold of the writers' lock.
const BATCH: usize = 64;
/// The number of IPv4 prefixes from which the table has huge pages. Spread evenly, this many use most of its small pages.
const LARGE: usize = 1 << 14;

/// A route to set, or to clear if the outcome is [`Outcome::NoRoute`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteChange {
    /// The VRF of the route.
    pub vrf: VrfId,
    /// The destinations. Bits after the length are ignored.
    pub prefix: Prefix,
    /// The origin of the route.
    pub origin: Origin,
    /// How packets to these destinations are forwarded.
    pub outcome: Outcome,
}

/// The reason why a route was not set.
#[derive(PartialEq, Eq, Debug)]
pub enum RouteError {
    /// The tables hold the maximum number of prefixes.
    Full {
        /// The prefix that did not fit.
        prefix: Prefix,
        /// The limit.
        limit: usize,
    },
    /// The route leads to an adjacency that is not in use.
    NoAdjacency {
        /// The prefix of the route.
        prefix: Prefix,
        /// The adjacency.
        adjacency: AdjacencyId,
    },
    /// The route leads to a group that is not in use.
    NoGroup {
        /// The prefix of the route.
        prefix: Prefix,
        /// The group.
        group: GroupId,
    },
    /// The route's VRF never had an interface.
    NoVrf {
        /// The prefix of the route.
        prefix: Prefix,
        /// The VRF.
        vrf: VrfId,
    },
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Full { prefix, limit } => write!(f, "no room for {prefix}: the limit is {limit} routes"),
            RouteError::NoAdjacency { prefix, adjacency } => {
                write!(f, "the route to {prefix} names adjacency {adjacency}, which does not exist")
            }
            RouteError::NoGroup { prefix, group } => {
                write!(f, "the route to {prefix} names group {group}, which does not exist")
            }
            RouteError::NoVrf { prefix, vrf } => {
                write!(f, "the route to {prefix} names VRF {vrf}, which does not exist")
            }
        }
    }
}

impl std::error::Error for RouteError {}

/// The routes to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteQuery {
    /// Only those of this VRF.
    pub vrf: Option<VrfId>,
    /// Only those within this prefix.
    pub within: Option<Prefix>,
    /// Only those of this origin.
    pub origin: Option<Origin>,
}

/// A route, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteReport {
    /// The VRF of the route.
    pub vrf: VrfId,
    /// The destinations.
    pub prefix: Prefix,
    /// The origin of the route.
    pub origin: Origin,
    /// The program that added a route of [`Origin::Kernel`]: `RTPROT_*` of <linux/rtnetlink.h>. Zero if it is not known, and for other origins.
    pub protocol: u8,
    /// How packets to these destinations are forwarded.
    pub outcome: Outcome,
    /// True if packets use it: no preferred origin has a route for the prefix.
    pub active: bool,
    /// The egress interface, or the interface it belongs to; none for a group.
    pub interface: Option<InterfaceId>,
    /// The next hop, if there is one.
    pub next_hop: Option<IpAddr>,
    /// The next hops, if there are several.
    pub members: Vec<GroupMember>,
}

/// The routes behind the forwarding tables.
pub(super) struct RouteState {
    /// By VRF.
    ribs: Vec<Ribs>,
    /// Neighbours with a known link-layer address; each holds its adjacency.
    pub neighbours: BTreeSet<(IpAddr, InterfaceId)>,
    /// Prefixes of all VRFs with a route of an origin other than `Neighbour`.
    prefixes: usize,
    /// The number of routes that the configuration does not have, in all VRFs: those of the API and of the kernel.
    api_routes: usize,
    pub feeds: Feeds,
}

pub(super) struct Ribs {
    pub v4: Rib<u32>,
    pub v6: Rib<u128>,
}

impl Tables {
    /// Sets the route of a prefix in the main VRF from one origin. It replaces that origin's previous route; [`Outcome::NoRoute`] clears it.
    pub fn set_route(&self, prefix: Prefix, origin: Origin, outcome: Outcome) -> Result<(), RouteError> {
        self.change_route(RouteChange { vrf: VrfId::MAIN, prefix, origin, outcome })
    }

    /// Removes the route of a prefix in the main VRF from one origin, if there is one.
    pub fn clear_route(&self, prefix: Prefix, origin: Origin) {
        let change = RouteChange { vrf: VrfId::MAIN, prefix, origin, outcome: Outcome::NoRoute };
        self.change_route(change).expect("a route can always be cleared");
    }

    /// Makes one change. Fails and changes nothing if the tables are full, or if the VRF or the next hop of the route does not exist.
    pub fn change_route(&self, change: RouteChange) -> Result<(), RouteError> {
        self.apply(&mut self.state.lock(), change)
    }

    /// Makes many changes in order. Other writers may change routes in between. After an error the earlier changes stay and the later ones are not
    /// made.
    pub fn apply_routes(&self, changes: impl IntoIterator<Item = RouteChange>) -> Result<(), RouteError> {
        let mut changes = changes.into_iter();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            // Collected before the lock is taken, because the iterator may be slow.
            batch.extend(changes.by_ref().take(BATCH));
            if batch.is_empty() {
                self.replan_route_caches();
                return Ok(());
            }
            let mut state = self.state.lock();
            let result = batch.drain(..).try_for_each(|change| self.apply(&mut state, change));
            let large = state.rib(VrfId::MAIN).v4.len() >= LARGE;
            MutexGuard::unlock_fair(state);
            if large && !self.large.swap(true, Ordering::Relaxed) {
                // This takes some milliseconds, so the lock is released.
                self.fib4.use_huge_pages();
            }
            result?;
        }
    }

    /// Notes for reports which program added the kernel's route of each prefix. Prefixes without such a route are left out.
    pub fn set_protocols(&self, routes: &[(VrfId, Prefix, u8)]) {
        for batch in routes.chunks(BATCH) {
            let mut state = self.state.lock();
            for &(vrf, prefix, protocol) in batch {
                let (prefix, ribs) = (prefix.network(), state.rib(vrf));
                match prefix.address {
                    IpAddr::V4(a) => ribs.v4.set_protocol((a.to_bits(), prefix.length), protocol),
                    IpAddr::V6(a) => ribs.v6.set_protocol((a.to_bits(), prefix.length), protocol),
                }
            }
            MutexGuard::unlock_fair(state);
        }
    }

    fn apply(&self, state: &mut RouteState, change: RouteChange) -> Result<(), RouteError> {
        let RouteChange { vrf, origin, outcome, .. } = change;
        let prefix = change.prefix.network();
        // A VRF that never had an interface has no routes to clear.
        if vrf != VrfId::MAIN && self.vrf(vrf).is_none() {
            return if outcome == Outcome::NoRoute { Ok(()) } else { Err(RouteError::NoVrf { prefix, vrf }) };
        }
        if outcome != Outcome::NoRoute && state.prefixes >= self.limits.routes && !state.contains(vrf, prefix) {
            return Err(RouteError::Full { prefix, limit: self.limits.routes });
        }
        // The new route's next hop is held before the old one is released: both may be the same adjacency, which would otherwise be freed in between.
        match outcome {
            Outcome::Via(adjacency) if !self.hops.write().hold_again(adjacency) => {
                return Err(RouteError::NoAdjacency { prefix, adjacency });
            }
            Outcome::Group(group) if !self.members.lock().hold_again(group) => {
                return Err(RouteError::NoGroup { prefix, group });
            }
            _ => {}
        }
        // Host routes of neighbours depend on the other routes. Without a neighbour in the prefix there is nothing to reconsider, as for most of a
        // routing table.
        let concerned = self.neighbours_in(state, vrf, prefix).next().is_some();
        let before = if concerned { state.governing(vrf, prefix) } else { Outcome::NoRoute };
        self.change(state, vrf, prefix, origin, outcome);
        if concerned {
            self.update_host_routes(state, vrf, prefix, before);
        }
        Ok(())
    }

    /// Changes the routes and the forwarding table. Releases the next hop of the old route; that of the new route is held already.
    pub(super) fn change(&self, state: &mut RouteState, vrf: VrfId, prefix: Prefix, origin: Origin, outcome: Outcome) {
        let word = outcome.encode();
        let own = self.vrf(vrf);
        let ribs = state.rib(vrf);
        let before = ribs.configured_len();
        let old = match (prefix.address, own) {
            (IpAddr::V4(a), None) => ribs.v4.change(&self.fib4, (a.to_bits(), prefix.length), origin, word),
            (IpAddr::V4(a), Some(own)) => ribs.v4.change(own, (a.to_bits(), prefix.length), origin, word),
            (IpAddr::V6(a), None) => ribs.v6.change(&self.fib6, (a.to_bits(), prefix.length), origin, word),
            (IpAddr::V6(a), Some(own)) => ribs.v6.change(own.v6(), (a.to_bits(), prefix.length), origin, word),
        };
        let after = ribs.configured_len();
        // Added first: a change may also reduce the count, and the difference of unsigned numbers would underflow.
        state.prefixes = state.prefixes + after - before;
        if matches!(origin, Origin::Api | Origin::Kernel) {
            state.api_routes = state.api_routes + usize::from(word != 0) - usize::from(old != 0);
        }
        if let IpAddr::V4(address) = prefix.address {
            let changed = (address.to_bits(), prefix.length);
            if let Some(feed) = state.feeds.get(vrf) {
                feed.change(changed.0, changed.1, &state.rib(vrf).v4.ranges_within(changed));
            }
        }
        self.count_change();
        // Released only now, when neither the forwarding table nor a route cache names it. A route that stays the same was held twice until here.
        match Outcome::decode(old) {
            Outcome::Via(adjacency) => self.release(adjacency),
            Outcome::Group(group) => self.release_group(group),
            _ => {}
        }
    }

    fn neighbours_in<'a>(
        &'a self,
        state: &'a RouteState,
        vrf: VrfId,
        prefix: Prefix,
    ) -> impl Iterator<Item = (IpAddr, InterfaceId)> + 'a {
        let network = prefix.network();
        // Neighbours are ordered by address, so those within a prefix are one range.
        let within = (network.address, InterfaceId(0))..=(network.last(), InterfaceId(u16::MAX));
        state.neighbours.range(within).copied().filter(move |&(_, on)| self.vrf_of(on) == vrf)
    }

    /// Sets or clears the host route of an address in the VRF of an interface, according to its neighbours and routes.
    pub(super) fn update_host_route(&self, state: &mut RouteState, interface: InterfaceId, address: IpAddr) {
        let (vrf, host) = (self.vrf_of(interface), Prefix::host(address));
        let mut hops = self.hops.write();
        let now = match state.governing(vrf, host) {
            // A neighbour on an interface of another VRF concerns the routes of that VRF. A link-local one has no host route (RFC 4291 2.5.6).
            Outcome::Connected(on) if self.vrf_of(on) != vrf || is_link_local(address) => None,
            Outcome::Connected(on) if state.neighbours.contains(&(address, on)) => hops.id(on, address),
            _ => None,
        };
        let outcome = now.map_or(Outcome::NoRoute, Outcome::Via);
        if let Some(id) = now {
            assert!(hops.hold_again(id), "a neighbour holds its adjacency");
        }
        // `change` takes this lock again, to release the old next hop.
        drop(hops);
        self.change(state, vrf, host, Origin::Neighbour, outcome);
    }

    /// Updates the host routes of the neighbours within `prefix` after the outcome for it changed.
    fn update_host_routes(&self, state: &mut RouteState, vrf: VrfId, prefix: Prefix, before: Outcome) {
        let after = state.governing(vrf, prefix);
        // Only a connected outcome makes host routes, so other changes cannot concern them.
        let connected = |outcome| matches!(outcome, Outcome::Connected(_));
        if before != after && (connected(before) || connected(after)) {
            let known: Vec<(IpAddr, InterfaceId)> = self.neighbours_in(state, vrf, prefix).collect();
            known.into_iter().for_each(|(address, on)| self.update_host_route(state, on, address));
        }
    }

    /// The route of exactly this prefix from one origin.
    pub fn route(&self, vrf: VrfId, prefix: Prefix, origin: Origin) -> Outcome {
        Outcome::decode(self.state.lock().candidates(vrf, prefix.network()).get(origin))
    }

    /// True if exactly this prefix has a route of an origin other than `Neighbour`.
    pub fn contains(&self, vrf: VrfId, prefix: Prefix) -> bool {
        self.state.lock().contains(vrf, prefix.network())
    }

    /// Removes an interface: its neighbours and every route that leads out of it or belongs to it. Groups lose only their members on it. Adjacencies
    /// that the caller holds remain held, unresolved.
    pub fn remove_interface(&self, interface: InterfaceId) {
        // Collected first: `unresolve` takes the lock of the routes.
        let neighbours: Vec<_> =
            self.state.lock().neighbours.iter().filter(|(_, on)| *on == interface).copied().collect();
        neighbours.into_iter().for_each(|(address, on)| self.unresolve(on, address));
        self.walk(&RouteQuery::default(), |state, (vrf, prefix), candidates| {
            for (origin, word) in candidates.iter() {
                let Some(outcome) = self.without_interface(Outcome::decode(word), interface) else { continue };
                self.apply(state, RouteChange { vrf, prefix, origin, outcome })
                    .expect("there is room for what is there");
                // The route now holds the group itself.
                if let Outcome::Group(group) = outcome {
                    self.release_group(group);
                }
            }
            true
        });
        self.hops.write().lose(interface, &self.adjacencies);
    }

    /// The new outcome of a route after its interface is removed; `None` if it stays the same. A group is returned held.
    fn without_interface(&self, outcome: Outcome, interface: InterfaceId) -> Option<Outcome> {
        let Outcome::Group(group) = outcome else {
            return (self.egress(outcome).0 == Some(interface)).then_some(Outcome::NoRoute);
        };
        let members = self.members(group);
        let left: Vec<NextHop> = members.iter().map(|m| m.hop).filter(|hop| hop.interface != interface).collect();
        if left.len() == members.len() {
            return None;
        }
        Some(self.group_for(&left, Some(group)).map_or(Outcome::NoRoute, Outcome::Group))
    }

    /// At most `limit` routes in order of VRF, family, address and length. Changes made meanwhile may be missed.
    pub fn routes(&self, query: &RouteQuery, limit: usize) -> Vec<RouteReport> {
        let mut reports = Vec::new();
        self.walk(query, |_, (vrf, prefix), candidates| {
            let wanted = candidates.iter().filter(|(origin, _)| query.origin.is_none_or(|only| only == *origin));
            for (origin, word) in wanted.take(limit - reports.len()) {
                reports.push(self.report((vrf, prefix), (origin, word), &candidates));
            }
            reports.len() < limit
        });
        reports
    }

    /// Reports one of the routes of a prefix.
    pub(super) fn report(
        &self,
        (vrf, prefix): (VrfId, Prefix),
        (origin, word): (Origin, u32),
        candidates: &Candidates,
    ) -> RouteReport {
        let outcome = Outcome::decode(word);
        let (interface, next_hop) = self.egress(outcome);
        let members = if let Outcome::Group(group) = outcome { self.members(group) } else { Vec::new() };
        let active = candidates.best() == Some((origin, word));
        let protocol = if origin == Origin::Kernel { candidates.protocol } else { 0 };
        RouteReport { vrf, prefix, origin, protocol, outcome, active, interface, next_hop, members }
    }

    /// Calls `visit` for every prefix with routes that matches `query`, regardless of its origin, until `visit` returns false. Releases the lock
    /// after every page.
    fn walk(&self, query: &RouteQuery, mut visit: impl FnMut(&mut RouteState, (VrfId, Prefix), Candidates) -> bool) {
        let vrfs = self.state.lock().ribs.len();
        let all = (0..vrfs).map(VrfId::at).filter(|vrf| query.vrf.is_none_or(|only| only == *vrf));
        for (vrf, within) in all.flat_map(|vrf| both_families(query.within).map(move |within| (vrf, within))) {
            let (mut from, mut inclusive) = (within.network(), true);
            loop {
                let mut state = self.state.lock();
                let page = state.page(vrf, from, inclusive);
                let complete = page.len() < BATCH;
                let mut beyond = false;
                for (prefix, candidates) in page {
                    // Pages are in order of address, so nothing after this prefix is within.
                    if !within.covers(prefix) {
                        beyond = true;
                        break;
                    }
                    if !visit(&mut state, (vrf, prefix), candidates) {
                        return;
                    }
                    (from, inclusive) = (prefix, false);
                }
                MutexGuard::unlock_fair(state);
                if complete || beyond {
                    break;
                }
            }
        }
    }

    /// The interface that an outcome leads out of or belongs to, and the next hop.
    fn egress(&self, outcome: Outcome) -> (Option<InterfaceId>, Option<IpAddr>) {
        match outcome {
            Outcome::Via(adjacency) => self.next_hop(adjacency).map_or((None, None), |(on, hop)| (Some(on), Some(hop))),
            Outcome::Connected(on) | Outcome::Local(on) | Outcome::Broadcast(on) => (Some(on), None),
            Outcome::NoRoute | Outcome::Blackhole | Outcome::Unreachable | Outcome::Special | Outcome::Group(_) => {
                (None, None)
            }
        }
    }

    /// IPv4 prefixes with a route, of all VRFs, host routes of neighbours included.
    pub fn len4(&self) -> usize {
        self.state.lock().ribs.iter().map(|ribs| ribs.v4.len()).sum()
    }

    /// IPv6 prefixes with a route, of all VRFs, host routes of neighbours included.
    pub fn len6(&self) -> usize {
        self.state.lock().ribs.iter().map(|ribs| ribs.v6.len()).sum()
    }

    /// Routes of [`Origin::Api`] and [`Origin::Kernel`], of all VRFs.
    pub fn api_routes(&self) -> usize {
        self.state.lock().api_routes
    }

    /// The number of prefixes that still fit.
    pub fn room(&self) -> usize {
        self.limits.routes.saturating_sub(self.state.lock().prefixes)
    }
}

impl RouteState {
    pub fn new() -> RouteState {
        RouteState {
            ribs: Vec::new(),
            neighbours: BTreeSet::new(),
            prefixes: 0,
            api_routes: 0,
            feeds: Feeds::default(),
        }
    }

    pub(super) fn rib(&mut self, vrf: VrfId) -> &mut Ribs {
        while self.ribs.len() <= vrf.index() {
            self.ribs.push(Ribs { v4: Rib::new(), v6: Rib::new() });
        }
        &mut self.ribs[vrf.index()]
    }

    pub fn candidates(&self, vrf: VrfId, prefix: Prefix) -> Candidates {
        let Some(ribs) = self.ribs.get(vrf.index()) else { return Candidates::default() };
        match prefix.address {
            IpAddr::V4(a) => ribs.v4.get((a.to_bits(), prefix.length)),
            IpAddr::V6(a) => ribs.v6.get((a.to_bits(), prefix.length)),
        }
    }

    fn contains(&self, vrf: VrfId, prefix: Prefix) -> bool {
        self.candidates(vrf, prefix).governing() != 0
    }

    pub fn governing(&self, vrf: VrfId, prefix: Prefix) -> Outcome {
        let Some(ribs) = self.ribs.get(vrf.index()) else { return Outcome::NoRoute };
        Outcome::decode(match prefix.address {
            IpAddr::V4(a) => ribs.v4.governing((a.to_bits(), prefix.length)),
            IpAddr::V6(a) => ribs.v6.governing((a.to_bits(), prefix.length)),
        })
    }

    /// The next page of routes, from a prefix on.
    fn page(&self, vrf: VrfId, from: Prefix, inclusive: bool) -> Vec<(Prefix, Candidates)> {
        let Some(ribs) = self.ribs.get(vrf.index()) else { return Vec::new() };
        match from.address {
            IpAddr::V4(a) => {
                let page = ribs.v4.page((a.to_bits(), from.length), inclusive, BATCH).into_iter();
                let prefix = |(bits, length)| Prefix { address: Ipv4Addr::from_bits(bits).into(), length };
                page.map(|(key, candidates)| (prefix(key), candidates)).collect()
            }
            IpAddr::V6(a) => {
                let page = ribs.v6.page((a.to_bits(), from.length), inclusive, BATCH).into_iter();
                let prefix = |(bits, length)| Prefix { address: Ipv6Addr::from_bits(bits).into(), length };
                page.map(|(key, candidates)| (prefix(key), candidates)).collect()
            }
        }
    }

    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        self.ribs.iter().map(|ribs| ribs.v4.bytes() + ribs.v6.bytes()).sum()
    }
}

impl Ribs {
    fn configured_len(&self) -> usize {
        self.v4.configured_len() + self.v6.configured_len()
    }
}

/// The prefix to walk, or all addresses of each family.
fn both_families(within: Option<Prefix>) -> impl Iterator<Item = Prefix> {
    let all = |address| Prefix { address, length: 0 };
    let everything = [all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())];
    let everything = everything.into_iter().filter(move |_| within.is_none());
    within.into_iter().chain(everything)
}
