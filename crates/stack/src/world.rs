//! What the router's own protocols may do: the worker, seen from the general path.

use crate::Interface;
use fib::{Outcome, Tables};
use nat::{Nat, Rules};
use packet::event::Event;
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{Instant, InterfaceId};

/// What is known of a next hop that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Packets may be sent to it.
    Usable,
    /// It does not answer, or is no neighbour any more.
    Failed,
    /// It cannot be remembered: the table is full.
    TableFull,
}

/// The worker, as the general path sees it. Every packet given to the host ends in exactly one of `send`, `forward`,
/// `consume` and `drop`, at once or after having waited for a neighbour.
pub trait World {
    /// The time of this step.
    fn now(&self) -> Instant;
    /// An interface of the generation that runs; nothing where it is gone.
    fn interface(&self, id: InterfaceId) -> Option<&Interface>;
    /// The longest IP packet that leaves by an interface now, in bytes; nothing where it is gone.
    fn mtu(&self, id: InterfaceId) -> Option<u16> {
        Some(self.tables().mtu(id, self.interface(id)?.mtu))
    }
    /// Every interface of the generation that runs.
    fn interfaces(&self) -> &[Interface];
    /// The routes and adjacencies.
    fn tables(&self) -> &Tables;
    /// The translation table and its rules; none without `[nat]`.
    fn nat(&self) -> Option<(&Rules, &Nat)> {
        None
    }
    /// An empty packet of the router's own with room for `length` bytes and a link header, already counted as generated;
    /// nothing where the pool is used up.
    fn generate(&mut self, length: usize) -> Option<Packet>;
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
    /// A next hop that [`Host::want`](super::Host::want) had no answer for has become usable, or failed.
    fn settled(&mut self, _interface: InterfaceId, _address: IpAddr, _verdict: Verdict) {}
    /// Tells the observer.
    fn event(&mut self, event: Event<'_>);
    /// What the routes say of `destination` in the VRF of the interface `scope`.
    fn lookup(&self, scope: InterfaceId, destination: IpAddr) -> Outcome {
        self.tables().lookup_from(scope, destination)
    }
    /// The next hop of a packet to `destination` under `outcome`: the gateway of an adjacency, that of a group's member
    /// for a flow of this hash, or the destination itself on a connected link.
    fn next_hop(&self, outcome: Outcome, destination: IpAddr, flow: u32) -> Option<(InterfaceId, IpAddr)> {
        match outcome {
            Outcome::Via(adjacency) => self.tables().next_hop(adjacency),
            Outcome::Group(group) => self.tables().next_hop(self.tables().groups().pick(group, flow)),
            Outcome::Connected(interface) => Some((interface, destination)),
            _ => None,
        }
    }
}
