//! What the router's own protocols may do: the worker, seen from the general path.

use crate::classify::Outcome;
use crate::classify::Tables;
use crate::event::Event;
use crate::interface::Interface;
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{Instant, InterfaceId};

/// Why a packet takes the general path, as the classifier found it; the code in `Meta::exception`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Exception {
    /// An ARP packet.
    Arp = 1,
    /// For the router itself: one of its addresses, or a group it is a member of.
    Local = 2,
    /// It carries IP options or a hop-by-hop header: options are looked at, then it is forwarded.
    Options = 3,
    /// Its time to live is used up.
    Expired = 4,
    /// No route leads to its destination.
    NoRoute = 5,
    /// An unreachable route.
    Unreachable = 6,
    /// It is larger than the next link takes.
    TooBig = 7,
    /// The next hop's link-layer address is not known, or not confirmed.
    Resolve = 8,
    /// Its source address may not leave its link, and its destination is beyond (RFC 4443 3.1, code 2).
    BeyondScope = 9,
}

impl Exception {
    /// Every exception, in the order of their codes.
    pub const ALL: [Exception; 9] = [
        Exception::Arp,
        Exception::Local,
        Exception::Options,
        Exception::Expired,
        Exception::NoRoute,
        Exception::Unreachable,
        Exception::TooBig,
        Exception::Resolve,
        Exception::BeyondScope,
    ];

    /// The exception of a code in `Meta::exception`.
    pub fn of(code: u8) -> Option<Exception> {
        Self::ALL.get(usize::from(code).wrapping_sub(1)).copied()
    }
}

/// The worker, as the general path sees it. Every packet given to the host ends in exactly one of `send`, `forward`,
/// `consume` and `drop`, at once or after having waited for a neighbour.
pub trait World {
    /// The time of this step.
    fn now(&self) -> Instant;
    /// An interface of the generation that runs; nothing where it is gone.
    fn interface(&self, id: InterfaceId) -> Option<&Interface>;
    /// Every interface of the generation that runs.
    fn interfaces(&self) -> &[Interface];
    /// The routes and adjacencies.
    fn tables(&self) -> &Tables;
    /// An empty packet of the router's own, already counted as generated; nothing where the pool is used up.
    fn generate(&mut self) -> Option<Packet>;
    /// Puts a complete frame, link header and VLAN tag included, on the output queue of `interface`'s port.
    fn send(&mut self, interface: InterfaceId, packet: Packet);
    /// Sends a received packet on the way it was going, now that its exception is dealt with: looks its destination up
    /// again, lowers its time to live and gives it to its path. Its `exception` code is what may come next: a packet
    /// forwarded with `Options` handled is not given to the host for its options again.
    fn forward(&mut self, packet: Packet);
    /// The packet was for the router and has done its work.
    fn consume(&mut self, packet: Packet);
    /// The packet goes no further.
    fn drop(&mut self, packet: Packet, reason: DropReason);
    /// Tells the observer.
    fn event(&mut self, event: Event<'_>);
    /// The next hop of a packet to `destination` under `outcome`: the gateway of an adjacency, or the destination
    /// itself on a connected link.
    fn next_hop(&self, outcome: Outcome, destination: IpAddr) -> Option<(InterfaceId, IpAddr)> {
        match outcome {
            Outcome::Via(adjacency) => self.tables().next_hop(adjacency),
            Outcome::Connected(interface) => Some((interface, destination)),
            _ => None,
        }
    }
}
