//! Layer 3 attachments: a port, or one VLAN of it, with its addresses.

use crate::Wants;
use plan::{RaPlan, ReversePath};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use units::{InterfaceId, Mac, PortId};

/// An address of the router on an interface, with the length of the connected prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attached<A> {
    /// The router's own address.
    pub address: A,
    /// Length of the connected prefix, in bits.
    pub length: u8,
}

/// An interface of one generation. Ids stay the same from generation to generation as long as the name does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its id.
    pub id: InterfaceId,
    /// As the configuration names it: `lan`, `lan.20`.
    pub name: String,
    /// The port below it.
    pub port: PortId,
    /// Its 802.1Q VLAN; untagged where none.
    pub vlan: Option<u16>,
    /// Its link-layer address.
    pub mac: Mac,
    /// The longest IP packet its configuration lets leave, in bytes. Its medium may carry less:
    /// [`Tables::mtu`](fib::Tables::mtu).
    pub mtu: u16,
    /// Its IPv4 addresses.
    pub ipv4: Vec<Attached<Ipv4Addr>>,
    /// Whether senders on its link are told of a better first hop there.
    pub redirects: bool,
    /// How the sources of what comes in are checked.
    pub reverse_path: ReversePath,
    /// What it advertises to IPv6 hosts.
    pub ra: Option<Arc<RaPlan>>,
    /// What packets want that come in by it.
    pub wants: Arc<Wants>,
    /// Its IPv6 addresses; where there is any, the link-local one formed from the MAC (RFC 4862 5.3) is among them.
    pub ipv6: Vec<Attached<Ipv6Addr>>,
}

impl Attached<Ipv4Addr> {
    fn mask(&self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)
    }
    /// Whether `other` lies in the connected prefix.
    pub fn covers(&self, other: Ipv4Addr) -> bool {
        (u32::from(self.address) ^ u32::from(other)) & self.mask() == 0
    }
    /// The directed broadcast address, where the prefix has one (not /31 and /32: RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        (self.length < 31).then(|| Ipv4Addr::from(u32::from(self.address) | !self.mask()))
    }
    /// The network address itself, where it is no host's (not /31 and /32: RFC 3021).
    pub fn network(&self) -> Option<Ipv4Addr> {
        (self.length < 31).then(|| Ipv4Addr::from(u32::from(self.address) & self.mask()))
    }
}

impl Attached<Ipv6Addr> {
    /// Whether `other` lies in the connected prefix.
    pub fn covers(&self, other: Ipv6Addr) -> bool {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        (u128::from(self.address) ^ u128::from(other)) & mask == 0
    }
    /// The subnet-router anycast address, which every router of the subnet has (RFC 4291 2.6.1); none on /127 and /128
    /// (RFC 6164).
    pub fn subnet_router(&self) -> Option<Ipv6Addr> {
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        (self.length < 127).then(|| Ipv6Addr::from(u128::from(self.address) & mask))
    }
}

impl Interface {
    /// The IPv4 address to answer `peer` with: the one on the same prefix, else the first.
    pub fn source4(&self, peer: Ipv4Addr) -> Option<Ipv4Addr> {
        self.ipv4.iter().find(|a| a.covers(peer)).or(self.ipv4.first()).map(|a| a.address)
    }
    /// The IPv6 address to answer `peer` with: of the same scope and prefix if there is one (RFC 6724 rule 2 and 8).
    pub fn source6(&self, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        let same_scope = |a: &&Attached<Ipv6Addr>| a.address.is_unicast_link_local() == peer.is_unicast_link_local();
        let covering = self.ipv6.iter().find(|a| same_scope(a) && a.covers(peer));
        covering.or_else(|| self.ipv6.iter().find(same_scope)).or(self.ipv6.first()).map(|a| a.address)
    }
    /// The interface's link-local address.
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.ipv6.iter().map(|a| a.address).find(Ipv6Addr::is_unicast_link_local)
    }
}
