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
//!
//! Each interface is in one VRF for as long as there is one of its id; what is looked up for a packet is looked up in
//! the VRF of the interface it came in by.

mod covering;
mod hops;
mod routes;

pub use hops::{GroupError, GroupMember, NextHop};
pub use routes::{RouteChange, RouteError, RouteQuery, RouteReport};

use super::adjacency::Hops;
use super::fib6::Nodes;
use super::groups::{Groups, Members};
use super::vrf::Vrf;
use super::{Adjacencies, Fib4, Fib6, Outcome};
use parking_lot::{Mutex, RwLock};
use routes::State;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use units::{InterfaceId, VrfId};
use zerocopy::FromZeros;

/// VRFs there can ever be, the main one included.
pub const MOST_VRFS: usize = 4096;
/// Interfaces there can ever be.
const INTERFACES: usize = u16::MAX as usize + 1;

/// How much the tables take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableLimits {
    /// Adjacencies: next hops and neighbours together, at most 2^20.
    pub adjacencies: usize,
    /// Prefixes of all VRFs and both families together, the neighbours' host routes not counted; at most 2^22.
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
// Large: one place for what routes, groups, neighbours and interfaces change together, in a file each under `tables/`.
pub struct Tables {
    fib4: Fib4,
    fib6: Fib6,
    /// By id; the main one, which is none of them, has the first place.
    vrfs: Box<[OnceLock<Box<Vrf>>]>,
    /// The nodes of all of them.
    nodes: Arc<Nodes>,
    /// The VRF of each interface.
    places: Box<[AtomicU16]>,
    /// By how much the medium below each interface carries less than the longest packet there can be: zero where it has no
    /// bound, as for every interface at first.
    short: Box<[AtomicU16; INTERFACES]>,
    adjacencies: Adjacencies,
    groups: Groups,
    state: Mutex<State>,
    hops: RwLock<Hops>,
    members: Mutex<Members>,
    limits: TableLimits,
    large: AtomicBool,
    flow_key: AtomicU64,
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
            vrfs: (0..MOST_VRFS).map(|_| OnceLock::new()).collect(),
            nodes: Nodes::new(),
            places: <[AtomicU16]>::new_box_zeroed_with_elems(INTERFACES).expect("128 KB"),
            short: <[AtomicU16; INTERFACES]>::new_box_zeroed().expect("128 KB"),
            adjacencies: Adjacencies::new(limits.adjacencies),
            groups: Groups::new(),
            state: Mutex::new(State::new()),
            hops: RwLock::new(Hops::new(limits.adjacencies)),
            members: Mutex::default(),
            limits,
            large: AtomicBool::new(false),
            flow_key: AtomicU64::new(0),
        }
    }

    /// How much they take.
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

    /// The longest IP packet that leaves by `interface` now, in bytes: the smaller of what its configuration says and what the
    /// medium below it carries.
    #[inline(always)]
    pub fn mtu(&self, interface: InterfaceId, configured: u16) -> u16 {
        configured.min(!self.short[interface.index()].load(Ordering::Relaxed))
    }

    /// The medium below `interface` carries IP packets of at most `mtu` bytes from now on; without one it has no bound.
    pub fn set_link_mtu(&self, interface: InterfaceId, mtu: Option<u16>) {
        self.short[interface.index()].store(!mtu.unwrap_or(u16::MAX), Ordering::Relaxed);
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
    pub fn place(&self, interface: InterfaceId) -> VrfId {
        VrfId(self.places[interface.index()].load(Ordering::Relaxed))
    }

    /// Puts an interface that has no neighbour yet into a VRF. It stays there: one that is to be in another gets another
    /// id. Panics beyond [`MOST_VRFS`].
    pub fn attach(&self, interface: InterfaceId, vrf: VrfId) {
        if vrf != VrfId::MAIN {
            self.vrfs[vrf.index()].get_or_init(|| Box::new(Vrf::new(&self.nodes)));
        }
        self.places[interface.index()].store(vrf.0, Ordering::Release);
    }

    /// The tables of a VRF; nothing for the main one and for those that nothing was ever attached to.
    #[inline(always)]
    pub fn vrf(&self, vrf: VrfId) -> Option<&Vrf> {
        self.vrfs.get(vrf.index())?.get().map(|vrf| &**vrf)
    }

    /// The encoded outcome for IPv4 packets that came in by `interface`.
    #[inline]
    pub fn lookup4(&self, interface: InterfaceId, destination: u32) -> u32 {
        match self.vrf(self.place(interface)) {
            None => self.fib4.lookup(destination),
            Some(vrf) => vrf.lookup4(destination),
        }
    }

    /// The encoded outcome for IPv6 packets that came in by `interface`.
    #[inline]
    pub fn lookup6(&self, interface: InterfaceId, destination: u128) -> u32 {
        match self.vrf(self.place(interface)) {
            None => self.fib6.lookup(destination),
            Some(vrf) => vrf.lookup6(destination),
        }
    }

    /// What happens to packets to this destination that come in by `interface`.
    pub fn lookup_from(&self, interface: InterfaceId, destination: IpAddr) -> Outcome {
        Outcome::decode(match destination {
            IpAddr::V4(address) => self.lookup4(interface, address.to_bits()),
            IpAddr::V6(address) => self.lookup6(interface, address.to_bits()),
        })
    }

    /// What happens to packets to this destination in the main VRF.
    pub fn lookup(&self, destination: IpAddr) -> Outcome {
        Outcome::decode(match destination {
            IpAddr::V4(address) => self.fib4.lookup(address.to_bits()),
            IpAddr::V6(address) => self.fib6.lookup(address.to_bits()),
        })
    }

    /// Keys the hash by which flows pick members of groups. Routers one behind the other should have different keys:
    /// with the same, the second would see only flows that picked the same way at the first (RFC 2991 4 on hashes).
    #[inline(always)]
    pub fn flow_key(&self) -> u64 {
        self.flow_key.load(Ordering::Relaxed)
    }

    /// Sets the key. Every flow of every group may move.
    pub fn set_flow_key(&self, key: u64) {
        self.flow_key.store(key, Ordering::Relaxed);
    }

    /// Bytes of memory the routes and forwarding tables use; of the tables' first levels bytes of address space, 128 MB
    /// of which are used only where written.
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
