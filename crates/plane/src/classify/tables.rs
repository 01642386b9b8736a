//! What all workers and the control side share: routes, forwarding tables and adjacencies.
//!
//! Workers read without a lock. Changes are made in place and each is visible at once, so they are no part of a
//! configuration's generation. Writers exclude each other for at most [`BATCH`] routes at a time and let whoever waits
//! go first, so that the general path, which resolves neighbours, is never kept waiting by a full routing table.
//!
//! A neighbour whose link-layer address is known is a host route, but only as long as the routes leave the question
//! open: where the longest prefix that is no neighbour's says "connected on this neighbour's interface". So a neighbour
//! learned on one link can never draw traffic that a route sends elsewhere (RFC 1812 5.2.4.3: the route comes first).
//! Neighbours with link-local addresses have an adjacency and no route: the address means nothing without the interface,
//! and routers do not forward by it (RFC 4291 2.5.6).

use super::adjacency::Hops;
use super::rib::{Candidates, Rib};
use super::{Adjacencies, Fib4, Fib6, Origin, Outcome};
use parking_lot::{Mutex, MutexGuard, RwLock};
use plan::Prefix;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use units::{AdjacencyId, InterfaceId, Mac};

/// Routes looked at or changed in one hold of the writers' lock.
const BATCH: usize = 64;
/// IPv4 prefixes from which on the table has large pages: so many, spread evenly, use most of its small ones.
const LARGE: usize = 1 << 14;

/// How much the tables take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// Adjacencies: next hops and neighbours together, at most 2^21.
    pub adjacencies: usize,
    /// Prefixes of both families together, the neighbours' host routes not counted; at most 2^22.
    pub routes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        TableLimits { adjacencies: 65536, routes: 1 << 22 }
    }
}

/// A route that is set, or cleared where the outcome is [`Outcome::NoRoute`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteChange {
    /// The destinations; bits behind the length are ignored.
    pub prefix: Prefix,
    /// Who says so.
    pub origin: Origin,
    /// What to do with packets to them.
    pub outcome: Outcome,
}

/// Why a route was not set.
#[derive(PartialEq, Eq, Debug)]
pub enum RouteError {
    /// As many prefixes have routes as the tables may hold.
    Full {
        /// The prefix without room.
        prefix: Prefix,
        /// The limit.
        limit: usize,
    },
    /// The route leads to an adjacency nobody holds.
    NoAdjacency {
        /// The prefix of the route.
        prefix: Prefix,
        /// What it names.
        adjacency: AdjacencyId,
    },
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteError::Full { prefix, limit } => write!(f, "no room for {prefix}: the limit is {limit} routes"),
            RouteError::NoAdjacency { prefix, adjacency } => {
                write!(f, "the route to {prefix} names adjacency {adjacency}, which does not exist")
            }
        }
    }
}

impl std::error::Error for RouteError {}

/// Which routes to report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RouteQuery {
    /// Only those this prefix covers.
    pub within: Option<Prefix>,
    /// Only those from here.
    pub origin: Option<Origin>,
}

/// A route, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteReport {
    /// The destinations.
    pub prefix: Prefix,
    /// Who says so.
    pub origin: Origin,
    /// What is said.
    pub outcome: Outcome,
    /// Whether packets go by it: no origin with more to say has a route for the prefix.
    pub active: bool,
    /// The interface it leads out of or belongs to.
    pub interface: Option<InterfaceId>,
    /// The next hop, where it leads via one.
    pub next_hop: Option<IpAddr>,
}

/// Routes, forwarding tables and adjacencies, shared by all workers and the control side.
///
/// Locks are taken in the order state, hops.
pub struct Tables {
    fib4: Fib4,
    fib6: Fib6,
    adjacencies: Adjacencies,
    state: Mutex<State>,
    hops: RwLock<Hops>,
    limits: TableLimits,
    large: AtomicBool,
}

struct State {
    rib4: Rib<u32>,
    rib6: Rib<u128>,
    /// Neighbours with a known link-layer address; each holds its adjacency.
    neighbours: BTreeSet<(IpAddr, InterfaceId)>,
}

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Tables without routes, of the usual size.
    pub fn new() -> Self {
        Self::with_limits(TableLimits::default())
    }

    /// Tables without routes. Panics on limits beyond what the forms of the tables allow.
    pub fn with_limits(limits: TableLimits) -> Self {
        assert!(limits.routes <= 1 << 22, "at most 2^22 routes");
        Tables {
            fib4: Fib4::new(),
            fib6: Fib6::new(),
            adjacencies: Adjacencies::new(limits.adjacencies),
            state: Mutex::new(State { rib4: Rib::new(), rib6: Rib::new(), neighbours: BTreeSet::new() }),
            hops: RwLock::new(Hops::new(limits.adjacencies)),
            limits,
            large: AtomicBool::new(false),
        }
    }

    /// How much they take.
    pub fn limits(&self) -> TableLimits {
        self.limits
    }

    /// The IPv4 forwarding table.
    #[inline(always)]
    pub fn fib4(&self) -> &Fib4 {
        &self.fib4
    }

    /// The IPv6 forwarding table.
    #[inline(always)]
    pub fn fib6(&self) -> &Fib6 {
        &self.fib6
    }

    /// The adjacencies routes lead to.
    #[inline(always)]
    pub fn adjacencies(&self) -> &Adjacencies {
        &self.adjacencies
    }

    /// What happens to packets to this destination.
    pub fn lookup(&self, destination: IpAddr) -> Outcome {
        Outcome::decode(match destination {
            IpAddr::V4(address) => self.fib4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.fib6.lookup(address.to_bits()),
        })
    }

    /// The adjacency of a next hop, made if there is none; nothing where the table is full. The caller holds it until
    /// it calls [`Tables::release`]; routes that name it and the neighbour hold it for themselves.
    pub fn adjacency_for(&self, interface: InterfaceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.hops.write().hold(interface, next_hop, &self.adjacencies)
    }

    /// Lets an adjacency go; when nobody holds it any more its id may come to mean another next hop. Panics where it is
    /// released more often than it was held.
    pub fn release(&self, adjacency: AdjacencyId) {
        self.hops.write().release(adjacency, &self.adjacencies);
    }

    /// The interface and next hop of an adjacency, as long as somebody holds it.
    pub fn next_hop(&self, adjacency: AdjacencyId) -> Option<(InterfaceId, IpAddr)> {
        self.hops.read().get(adjacency)
    }

    /// Sets the route of a prefix from one origin, in place of the one that origin had; [`Outcome::NoRoute`] clears it.
    pub fn set_route(&self, prefix: Prefix, origin: Origin, outcome: Outcome) -> Result<(), RouteError> {
        self.apply(&mut self.state.lock(), RouteChange { prefix, origin, outcome })
    }

    /// Takes the route of a prefix from one origin away, if there is one.
    pub fn clear_route(&self, prefix: Prefix, origin: Origin) {
        let change = RouteChange { prefix, origin, outcome: Outcome::NoRoute };
        self.apply(&mut self.state.lock(), change).expect("a route can always be cleared");
    }

    /// Makes many changes in the order given, others coming in between. At an error the changes before it are made and
    /// those behind it are not.
    pub fn apply_routes(&self, changes: impl IntoIterator<Item = RouteChange>) -> Result<(), RouteError> {
        let mut changes = changes.into_iter();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            // Taken before the lock is: an iterator may take its time.
            batch.extend(changes.by_ref().take(BATCH));
            if batch.is_empty() {
                return Ok(());
            }
            let mut state = self.state.lock();
            let result = batch.drain(..).try_for_each(|change| self.apply(&mut state, change));
            let large = state.rib4.len() >= LARGE;
            MutexGuard::unlock_fair(state);
            if large && !self.large.swap(true, Ordering::Relaxed) {
                // Takes some milliseconds, in which nobody need wait for the lock.
                self.fib4.thicken();
            }
            result?;
        }
    }

    fn apply(&self, state: &mut State, change: RouteChange) -> Result<(), RouteError> {
        let RouteChange { origin, outcome, .. } = change;
        let prefix = change.prefix.network();
        if outcome != Outcome::NoRoute && state.len() >= self.limits.routes && !state.contains(prefix) {
            return Err(RouteError::Full { prefix, limit: self.limits.routes });
        }
        if let Outcome::Via(adjacency) = outcome
            && !self.hops.write().hold_again(adjacency)
        {
            return Err(RouteError::NoAdjacency { prefix, adjacency });
        }
        let concerned = state.neighbours_in(prefix).next().is_some();
        let before = if concerned { state.governing(prefix) } else { Outcome::NoRoute };
        self.change(state, prefix, origin, outcome);
        if concerned {
            self.reconsider(state, prefix, before);
        }
        Ok(())
    }

    /// Changes the routes and the forwarding table; the adjacency of the old route is released, that of the new one is
    /// held already.
    fn change(&self, state: &mut State, prefix: Prefix, origin: Origin, outcome: Outcome) {
        let word = outcome.encode();
        let old = match prefix.address {
            IpAddr::V4(a) => state.rib4.change(&self.fib4, (a.to_bits(), prefix.length), origin, word),
            IpAddr::V6(a) => state.rib6.change(&self.fib6, (a.to_bits(), prefix.length), origin, word),
        };
        if let Some(adjacency) = Outcome::adjacency(old) {
            self.release(adjacency);
        }
    }

    /// After a change of what governs `prefix`: brings the host routes of the neighbours in it up to date.
    fn reconsider(&self, state: &mut State, prefix: Prefix, before: Outcome) {
        let after = state.governing(prefix);
        let connected = |outcome| matches!(outcome, Outcome::Connected(_));
        if before != after && (connected(before) || connected(after)) {
            let addresses: Vec<IpAddr> = state.neighbours_in(prefix).map(|(address, _)| address).collect();
            addresses.into_iter().for_each(|address| self.reconsider_host(state, address));
        }
    }

    /// Sets or clears the host route of an address, as its neighbours and the routes say.
    fn reconsider_host(&self, state: &mut State, address: IpAddr) {
        let host = Prefix::host(address);
        let mut hops = self.hops.write();
        let now = match state.governing(host) {
            Outcome::Connected(on) if state.neighbours.contains(&(address, on)) && !is_link_local(address) => {
                hops.id(on, address)
            }
            _ => None,
        };
        let outcome = now.map_or(Outcome::NoRoute, Outcome::Via);
        if let Some(id) = now {
            assert!(hops.hold_again(id), "a neighbour holds its adjacency");
        }
        drop(hops);
        self.change(state, host, Origin::Neighbour, outcome);
    }

    /// A neighbour's link-layer address is known: its adjacency leads there, and packets to it go straight to it where
    /// the routes say that it is connected. False where no adjacency is left, and nothing is changed.
    #[must_use]
    pub fn resolve(&self, interface: InterfaceId, address: IpAddr, mac: Mac) -> bool {
        let mut state = self.state.lock();
        let mut hops = self.hops.write();
        let known = state.neighbours.contains(&(address, interface));
        let id = if known { hops.id(interface, address) } else { hops.hold(interface, address, &self.adjacencies) };
        let Some(id) = id else { return false };
        hops.link(id, Some(mac), &self.adjacencies);
        drop(hops);
        if state.neighbours.insert((address, interface)) {
            self.reconsider_host(&mut state, address);
        }
        true
    }

    /// A neighbour's link-layer address is known no longer. Packets to it are asked about again.
    pub fn unresolve(&self, interface: InterfaceId, address: IpAddr) {
        let mut state = self.state.lock();
        if !state.neighbours.remove(&(address, interface)) {
            return;
        }
        let mut hops = self.hops.write();
        let id = hops.id(interface, address).expect("a neighbour holds its adjacency");
        hops.link(id, None, &self.adjacencies);
        drop(hops);
        self.reconsider_host(&mut state, address);
        self.release(id);
    }

    /// An interface is gone: so are its neighbours and every route that leads out of it or belongs to it. Adjacencies
    /// the caller holds stay his, unresolved.
    pub fn remove_interface(&self, interface: InterfaceId) {
        let neighbours: Vec<_> =
            self.state.lock().neighbours.iter().filter(|(_, on)| *on == interface).copied().collect();
        neighbours.into_iter().for_each(|(address, on)| self.unresolve(on, address));
        for start in both_families(None) {
            self.walk(start, |state, prefix, candidates| {
                for (origin, word) in candidates.iter() {
                    if self.leads(Outcome::decode(word)).0 == Some(interface) {
                        let change = RouteChange { prefix, origin, outcome: Outcome::NoRoute };
                        self.apply(state, change).expect("a route can always be cleared");
                    }
                }
                true
            });
        }
        self.hops.write().lose(interface, &self.adjacencies);
    }

    /// At most `limit` routes in order of family, address and length. What changes meanwhile may be missed.
    pub fn routes(&self, query: &RouteQuery, limit: usize) -> Vec<RouteReport> {
        let mut reports = Vec::new();
        for start in both_families(query.within) {
            self.walk(start, |_, prefix, candidates| {
                let wanted = candidates.iter().filter(|(origin, _)| query.origin.is_none_or(|only| only == *origin));
                for (origin, word) in wanted.take(limit - reports.len()) {
                    let outcome = Outcome::decode(word);
                    let (interface, next_hop) = self.leads(outcome);
                    let active = candidates.best() == Some((origin, word));
                    reports.push(RouteReport { prefix, origin, outcome, active, interface, next_hop });
                }
                reports.len() < limit
            });
        }
        reports
    }

    /// Calls `visit` with every prefix `within` covers that has routes, until it answers false; lets go of the lock
    /// again and again.
    fn walk(&self, within: Prefix, mut visit: impl FnMut(&mut State, Prefix, Candidates) -> bool) {
        let (mut from, mut inclusive) = (within.network(), true);
        loop {
            let mut state = self.state.lock();
            let page = state.page(from, inclusive);
            let complete = page.len() < BATCH;
            for (prefix, candidates) in page {
                if !within.covers(prefix) || !visit(&mut state, prefix, candidates) {
                    return;
                }
                (from, inclusive) = (prefix, false);
            }
            if complete {
                return;
            }
            MutexGuard::unlock_fair(state);
        }
    }

    /// The interface an outcome leads out of or belongs to, and the next hop.
    fn leads(&self, outcome: Outcome) -> (Option<InterfaceId>, Option<IpAddr>) {
        match outcome {
            Outcome::Via(adjacency) => self.next_hop(adjacency).map_or((None, None), |(on, hop)| (Some(on), Some(hop))),
            Outcome::Connected(on) | Outcome::Local(on) | Outcome::Broadcast(on) => (Some(on), None),
            Outcome::NoRoute | Outcome::Blackhole | Outcome::Unreachable | Outcome::Special => (None, None),
        }
    }

    /// IPv4 prefixes with a route, host routes of neighbours included.
    pub fn len4(&self) -> usize {
        self.state.lock().rib4.len()
    }

    /// IPv6 prefixes with a route, host routes of neighbours included.
    pub fn len6(&self) -> usize {
        self.state.lock().rib6.len()
    }

    /// Adjacencies somebody holds.
    pub fn adjacencies_held(&self) -> usize {
        self.hops.read().len()
    }

    /// Bytes of address space the routes and forwarding tables hold; 128 MB of it are used only where written.
    pub fn bytes(&self) -> usize {
        let state = self.state.lock();
        let ribs = state.rib4.bytes() + state.rib6.bytes();
        drop(state);
        ribs + self.fib4.bytes() + self.fib6.bytes()
    }
}

impl State {
    /// Prefixes that count against the limit.
    fn len(&self) -> usize {
        (self.rib4.len() + self.rib6.len()).saturating_sub(self.neighbours.len())
    }

    fn contains(&self, prefix: Prefix) -> bool {
        match prefix.address {
            IpAddr::V4(a) => self.rib4.contains((a.to_bits(), prefix.length)),
            IpAddr::V6(a) => self.rib6.contains((a.to_bits(), prefix.length)),
        }
    }

    fn governing(&self, prefix: Prefix) -> Outcome {
        Outcome::decode(match prefix.address {
            IpAddr::V4(a) => self.rib4.governing((a.to_bits(), prefix.length)),
            IpAddr::V6(a) => self.rib6.governing((a.to_bits(), prefix.length)),
        })
    }

    fn neighbours_in(&self, prefix: Prefix) -> impl Iterator<Item = (IpAddr, InterfaceId)> + '_ {
        let network = prefix.network();
        self.neighbours.range((network.address, InterfaceId(0))..=(network.last(), InterfaceId(u16::MAX))).copied()
    }

    /// The next routes from a prefix on.
    fn page(&self, from: Prefix, inclusive: bool) -> Vec<(Prefix, Candidates)> {
        match from.address {
            IpAddr::V4(a) => {
                let page = self.rib4.page((a.to_bits(), from.length), inclusive, BATCH).into_iter();
                let prefix = |(bits, length)| Prefix { address: Ipv4Addr::from_bits(bits).into(), length };
                page.map(|(key, candidates)| (prefix(key), candidates)).collect()
            }
            IpAddr::V6(a) => {
                let page = self.rib6.page((a.to_bits(), from.length), inclusive, BATCH).into_iter();
                let prefix = |(bits, length)| Prefix { address: Ipv6Addr::from_bits(bits).into(), length };
                page.map(|(key, candidates)| (prefix(key), candidates)).collect()
            }
        }
    }
}

/// The prefix to look below, or all addresses of each family.
fn both_families(within: Option<Prefix>) -> impl Iterator<Item = Prefix> {
    let all = |address| Prefix { address, length: 0 };
    let everything = [all(Ipv4Addr::UNSPECIFIED.into()), all(Ipv6Addr::UNSPECIFIED.into())];
    let everything = everything.into_iter().filter(move |_| within.is_none());
    within.into_iter().chain(everything)
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

mod covering;
#[cfg(test)]
mod tests;
