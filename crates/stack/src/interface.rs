//! Layer 3 attachments: a port, or one VLAN of it, with its addresses.

use crate::ObjectiveTable;
use plan::{Answerer, RaPlan, ReversePath};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{InterfaceId, Mac, PortId};

/// An address of the router on an interface, with the length of the connected prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress<A> {
    /// The router's own address.
    pub address: A,
    /// Length of the connected prefix, in bits.
    pub length: u8,
}

/// An interface of one generation. An id is kept over all generations as long as the name exists.
// Large: workers and local protocols ask for single properties of the interface of a packet, and no two of them belong together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its id.
    pub id: InterfaceId,
    /// The name in the configuration: `lan`, `lan.20`.
    pub name: String,
    /// The port below it.
    pub port: PortId,
    /// Its 802.1Q VLAN; none for untagged.
    pub vlan: Option<u16>,
    /// Its link-layer address.
    pub mac: Mac,
    /// The link-layer address of all neighbours, if its link has no others: that of a tunnel. They are not resolved.
    pub peer: Option<Mac>,
    /// The configured MTU for IP packets in bytes. The medium may carry less: see [`Tables::mtu`](fib::Tables::mtu).
    pub mtu: u16,
    /// Its IPv4 addresses.
    pub ipv4: Vec<InterfaceAddress<Ipv4Addr>>,
    /// True if redirects are sent on its link.
    pub redirects: bool,
    /// The reverse-path check of packets that arrive here.
    pub reverse_path: ReversePath,
    /// Its router advertisements for IPv6 hosts.
    pub ra: Option<Arc<RaPlan>>,
    /// The side that answers for its addresses, if programs of the machine work on it too; none if the kernel has no interface for it.
    pub kernel: Option<Answerer>,
    /// Further link-layer addresses whose frames it receives: those of virtual routers that programs of the machine run.
    pub stations: Vec<Mac>,
    /// True if a program of the machine routes multicast on it.
    pub routes_groups: bool,
    /// True if it forwards IPv4 packets: it has an IPv4 address, or IPv6 next hops of IPv4 routes (RFC 8950).
    pub carries_ipv4: bool,
    /// The objectives of packets that arrive here.
    pub objectives: Arc<ObjectiveTable>,
    /// Its IPv6 addresses. If there are any, they include the link-local one formed from the MAC address (RFC 4862 5.3).
    pub ipv6: Vec<InterfaceAddress<Ipv6Addr>>,
}

impl InterfaceAddress<Ipv4Addr> {
    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }
    /// True if `other` is in the connected prefix.
    pub fn covers(&self, other: Ipv4Addr) -> bool {
        (u32::from(self.address) ^ u32::from(other)) & self.mask() == 0
    }
    /// The directed broadcast address, if the prefix has one (not /31 and /32: RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        (self.length < 31).then(|| Ipv4Addr::from(u32::from(self.address) | !self.mask()))
    }
    /// The network address, if no host may have it (not /31 and /32: RFC 3021).
    pub fn network(&self) -> Option<Ipv4Addr> {
        (self.length < 31).then(|| Ipv4Addr::from(u32::from(self.address) & self.mask()))
    }
}

impl InterfaceAddress<Ipv6Addr> {
    /// True if `other` is in the connected prefix.
    pub fn covers(&self, other: Ipv6Addr) -> bool {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        (u128::from(self.address) ^ u128::from(other)) & mask == 0
    }
    /// The subnet-router anycast address, which all routers of the subnet share (RFC 4291 2.6.1); none on /127 and /128 (RFC 6164).
    pub fn subnet_router(&self) -> Option<Ipv6Addr> {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        (self.length < 127).then(|| Ipv6Addr::from(u128::from(self.address) & mask))
    }
}

impl Interface {
    /// The IPv4 source address for `peer`: the one on the same prefix, otherwise the first.
    pub fn source4(&self, peer: Ipv4Addr) -> Option<Ipv4Addr> {
        self.ipv4.iter().find(|a| a.covers(peer)).or(self.ipv4.first()).map(|a| a.address)
    }
    /// The IPv6 source address for `peer`: of the same scope and prefix if there is one (RFC 6724 rules 2 and 8).
    pub fn source6(&self, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        let same_scope =
            |a: &&InterfaceAddress<Ipv6Addr>| a.address.is_unicast_link_local() == peer.is_unicast_link_local();
        let covering = self.ipv6.iter().find(|a| same_scope(a) && a.covers(peer));
        covering.or_else(|| self.ipv6.iter().find(same_scope)).or(self.ipv6.first()).map(|a| a.address)
    }
    /// The interface's link-local address.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.ipv6.iter().map(|a| a.address).find(Ipv6Addr::is_unicast_link_local)
    }
}
