//! The state shared by all workers and the control side: routes, forwarding tables and adjacencies.
//!
//! Workers read without a lock. Changes are made in place and are visible at once, so they are not part of a configuration's generation. Writers
//! exclude each other. A writer releases its lock after a batch of routes in favour of waiting writers. A full routing table therefore never delays
//! the general path, which resolves neighbours.
//!
//! A neighbour with a known link-layer address becomes a host route only if the other routes agree: the longest prefix of another origin must say
//! "connected on this neighbour's interface". A neighbour learned on one link can therefore never attract traffic that a route sends elsewhere (RFC
//! 1812 5.2.4.3: the route comes first). Neighbours with link-local addresses have an adjacency but no route. The address is ambiguous without the
//! interface, and routers do not forward to it (RFC 4291 2.5.6).
//!
//! An interface belongs to one VRF for the lifetime of its id. Packets are looked up in the VRF of their ingress interface.

mod covering;
mod hops;
mod route_cache;
mod routes;

pub use hops::{GroupError, GroupMember, NextHop};
pub use routes::{RouteChange, RouteError, RouteQuery, RouteReport};

use super::adjacency::Hops;
use super::fib6::Nodes;
use super::groups::{Groups, Members};
use super::vrf::Vrf;
use super::{Adjacencies, Fib4, Fib6, Outcome};
use parking_lot::{Mutex, RwLock};
use routes::RouteState;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{InterfaceId, VrfId};
use zerocopy::FromZeros;

/// The maximum number of VRFs, including the main one.
pub const MOST_VRFS: usize = 4096;
/// The maximum number of interfaces.
const INTERFACES: usize = u16::MAX as usize + 1;

/// The capacity of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// Adjacencies: next hops and neighbours together, at most 2^20.
    pub adjacencies: usize,
    /// Prefixes of all VRFs and both families together, without the neighbours' host routes; at most 2^22.
    pub routes: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        TableLimits { adjacencies: 65536, routes: 1 << 22 }
    }
}

/// Routes, forwarding tables and adjacencies, shared by all workers and the control side.
///
/// Locks are taken in the order state, hops, members.
// Large: one place for the changes that concern routes, groups, neighbours and interfaces together. Each has a file under `tables/`.
pub struct Tables {
    fib4: Fib4,
    fib6: Fib6,
    /// VRFs by id. The first place, that of the main VRF, stays empty.
    vrfs: Box<[OnceLock<Box<Vrf>>]>,
    /// The nodes of the trees of all VRFs.
    nodes: Arc<Nodes>,
    /// The VRF of each interface.
    interface_vrfs: Box<[AtomicU16]>,
    /// The difference between 65,535 and the MTU of the link below each interface. Zero, the initial value, means no limit.
    mtu_reduction: Box<[AtomicU16; INTERFACES]>,
    /// Changes of forwarding tables, MTUs and VRFs of interfaces.
    changes: ChangeCount,
    adjacencies: Adjacencies,
    groups: Groups,
    state: Mutex<RouteState>,
    hops: RwLock<Hops>,
    members: Mutex<Members>,
    limits: TableLimits,
    large: AtomicBool,
    flow_key: AtomicU64,
}

/// In a cache line of its own: workers read the fields beside it for each packet, and routes may change often.
#[derive(Default)]
#[repr(align(64))]
struct ChangeCount(AtomicU64);

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

    /// Tables without routes. Panics if the limits exceed the capacity of the table formats.
    pub fn with_limits(limits: TableLimits) -> Self {
        assert!(limits.routes <= 1 << 22, "at most 2^22 routes");
        Tables {
            fib4: Fib4::new(),
            fib6: Fib6::new(),
            vrfs: (0..MOST_VRFS).map(|_| OnceLock::new()).collect(),
            nodes: Nodes::new(),
            interface_vrfs: <[AtomicU16]>::new_box_zeroed_with_elems(INTERFACES).expect("128 KB"),
            mtu_reduction: <[AtomicU16; INTERFACES]>::new_box_zeroed().expect("128 KB"),
            changes: ChangeCount::default(),
            adjacencies: Adjacencies::new(limits.adjacencies),
            groups: Groups::new(),
            state: Mutex::new(RouteState::new()),
            hops: RwLock::new(Hops::new(limits.adjacencies)),
            members: Mutex::default(),
            limits,
            large: AtomicBool::new(false),
            flow_key: AtomicU64::new(0),
        }
    }

    /// The capacity of the tables.
    pub fn limits(&self) -> TableLimits {
        self.limits
    }

    /// The IPv4 forwarding table of the main VRF.
    #[inline(always)]
    pub fn fib4(&self) -> &Fib4 {
        &self.fib4
    }

    /// The IPv6 forwarding table of the main VRF.
    #[inline(always)]
    pub fn fib6(&self) -> &Fib6 {
        &self.fib6
    }

    /// The current MTU of `interface` for IP packets, in bytes: the smaller of the configured one and that of the link below.
    #[inline(always)]
    pub fn mtu(&self, interface: InterfaceId, configured: u16) -> u16 {
        // `!` subtracts from 65,535.
        configured.min(!self.mtu_reduction[interface.index()].load(Ordering::Relaxed))
    }

    /// Sets the MTU of the link below `interface` for IP packets, in bytes; `None` means no limit.
    pub fn set_link_mtu(&self, interface: InterfaceId, mtu: Option<u16>) {
        self.mtu_reduction[interface.index()].store(!mtu.unwrap_or(u16::MAX), Ordering::Relaxed);
        self.count_change();
    }

    /// The number of changes of routes, MTUs and VRFs of interfaces. Read it before a look-up: with the same number, the look-up still has the same
    /// outcome. Neighbours and members of groups change without it: see [`LinkAddress::version`](super::LinkAddress::version).
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes.0.load(Ordering::Acquire)
    }

    /// Counts a change after it was made.
    fn count_change(&self) {
        self.changes.0.fetch_add(1, Ordering::Release);
    }

    /// The adjacencies routes lead to.
    #[inline(always)]
    pub fn adjacencies(&self) -> &Adjacencies {
        &self.adjacencies
    }

    /// The groups routes lead to.
    #[inline(always)]
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// The VRF of an interface.
    #[inline(always)]
    pub fn vrf_of(&self, interface: InterfaceId) -> VrfId {
        // Pairs with the store of `attach`: a reader that sees the id also sees the tables.
        VrfId(self.interface_vrfs[interface.index()].load(Ordering::Acquire))
    }

    /// Puts an interface without neighbours into a VRF for the lifetime of its id. To move it to another VRF, give it another id. Panics beyond
    /// [`MOST_VRFS`].
    pub fn attach(&self, interface: InterfaceId, vrf: VrfId) {
        // The tables exist before the interface names them: a lookup without them would use the main VRF.
        if vrf != VrfId::MAIN {
            self.vrfs[vrf.index()].get_or_init(|| Box::new(Vrf::new(&self.nodes)));
        }
        self.interface_vrfs[interface.index()].store(vrf.0, Ordering::Release);
        self.count_change();
    }

    /// The tables of a VRF. `None` for the main VRF, and for VRFs that never had an interface.
    #[inline(always)]
    pub fn vrf(&self, vrf: VrfId) -> Option<&Vrf> {
        self.vrfs.get(vrf.index())?.get().map(|vrf| &**vrf)
    }

    /// The outcome for packets to this destination in a VRF.
    pub fn lookup_in(&self, vrf: VrfId, destination: IpAddr) -> Outcome {
        Outcome::decode(match (self.vrf(vrf), destination) {
            // A VRF that never had an interface.
            (None, _) if vrf != VrfId::MAIN => return Outcome::NoRoute,
            (None, IpAddr::V4(address)) => self.fib4.lookup(address.to_bits()),
            (None, IpAddr::V6(address)) => self.fib6.lookup(address.to_bits()),
            (Some(vrf), IpAddr::V4(address)) => vrf.lookup4(address.to_bits()),
            (Some(vrf), IpAddr::V6(address)) => vrf.lookup6(address.to_bits()),
        })
    }

    /// The encoded outcome for IPv4 packets received on `interface`.
    #[inline]
    pub fn lookup4(&self, interface: InterfaceId, destination: u32) -> u32 {
        match self.vrf(self.vrf_of(interface)) {
            None => self.fib4.lookup(destination),
            Some(vrf) => vrf.lookup4(destination),
        }
    }

    /// The encoded outcome for IPv6 packets received on `interface`.
    #[inline]
    pub fn lookup6(&self, interface: InterfaceId, destination: u128) -> u32 {
        match self.vrf(self.vrf_of(interface)) {
            None => self.fib6.lookup(destination),
            Some(vrf) => vrf.lookup6(destination),
        }
    }

    /// The outcome for packets to this destination that are received on `interface`.
    pub fn lookup_from(&self, interface: InterfaceId, destination: IpAddr) -> Outcome {
        Outcome::decode(match destination {
            IpAddr::V4(address) => self.lookup4(interface, address.to_bits()),
            IpAddr::V6(address) => self.lookup6(interface, address.to_bits()),
        })
    }

    /// The outcome for packets to this destination in the main VRF.
    pub fn lookup(&self, destination: IpAddr) -> Outcome {
        Outcome::decode(match destination {
            IpAddr::V4(address) => self.fib4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.fib6.lookup(address.to_bits()),
        })
    }

    /// The key of the flow hash that selects group members. Routers in series should have different keys: with equal keys the second router would see
    /// only flows with the same selection at the first (RFC 2991 4 on hashes).
    #[inline(always)]
    pub fn flow_key(&self) -> u64 {
        self.flow_key.load(Ordering::Relaxed)
    }

    /// Sets the key. Any flow of any group may move.
    pub fn set_flow_key(&self, key: u64) {
        self.flow_key.store(key, Ordering::Relaxed);
    }

    /// Bytes used by routes and forwarding tables. For the first levels of the tables this is address space: 128 MB, used only where written.
    pub fn bytes(&self) -> usize {
        let ribs = self.state.lock().bytes();
        let vrfs: usize = self.vrfs.iter().filter_map(OnceLock::get).map(|vrf| vrf.bytes()).sum();
        ribs + vrfs + self.fib4.bytes() + self.fib6.bytes() + self.groups.bytes()
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
