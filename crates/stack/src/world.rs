//! The interface of the router's own protocols to the worker.

use crate::Interface;
use fib::{Outcome, Tables};
use nat::{Nat, NatRules};
use packet::event::Event;
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{Instant, InterfaceId};

/// The state of a requested next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHopState {
    /// Packets may be sent to it.
    Usable,
    /// It does not answer, or was removed.
    Failed,
    /// It cannot be added: the table is full.
    TableFull,
}

/// The worker, as the general path sees it. Every packet given to the host ends in exactly one of `send`, `forward`, `consume` and `drop`, at once or
/// after it has waited for a neighbour.
pub trait World {
    /// The time of this step.
    fn now(&self) -> Instant;
    /// An interface of the running generation; none if it was removed.
    fn interface(&self, id: InterfaceId) -> Option<&Interface>;
    /// The MTU for IP packets of an interface in bytes; none if it was removed.
    fn mtu(&self, id: InterfaceId) -> Option<u16> {
        Some(self.tables().mtu(id, self.interface(id)?.mtu))
    }
    /// All interfaces of the running generation.
    fn interfaces(&self) -> &[Interface];
    /// The routes and adjacencies.
    fn tables(&self) -> &Tables;
    /// The translation table and its rules; none without `[nat]`.
    fn nat(&self) -> Option<(&NatRules, &Nat)> {
        None
    }
    /// An empty packet of the router's own with room for `length` bytes and a link header, already counted as generated. None if the pool is empty.
    fn generate(&mut self, length: usize) -> Option<Packet>;
    /// Puts a complete frame, link header and VLAN tag included, on the output queue of `interface`'s port.
    fn send(&mut self, interface: InterfaceId, packet: Packet);
    /// Forwards a received packet after its exception was handled: looks its destination up again, decrements its time to live and passes it to its
    /// path. Its `exception` code tells which exceptions may follow. A packet forwarded with `Options` handled is not given to the host for its
    /// options again.
    fn forward(&mut self, packet: Packet);
    /// Consumes a packet for the router, which has been processed.
    fn consume(&mut self, packet: Packet);
    /// Gives a packet to the kernel, for programs of the machine. Only packets of interfaces with [`Interface::kernel`] come here.
    fn punt(&mut self, packet: Packet) {
        self.drop(packet, DropReason::LocalProtocol);
    }
    /// Gives a packet that has arrived at the end of its tunnel to the tunnel.
    fn decapsulate(&mut self, packet: Packet) {
        self.drop(packet, DropReason::LocalProtocol);
    }
    /// True if a packet for the router, which was reassembled, has arrived at the end of a tunnel.
    fn ends_tunnel(&self, _packet: &Packet) -> bool {
        false
    }
    /// The outer packet of a tunnel, which `outer` begins with, exceeded the MTU of a link on its way, in bytes.
    fn reduce_tunnel_mtu(&mut self, _outer: &[u8], _mtu: u32) {}
    /// A router could not deliver the outer packet of a tunnel, which `outer` begins with.
    fn record_tunnel_error(&mut self, _outer: &[u8]) {}
    /// Drops a packet.
    fn drop(&mut self, packet: Packet, reason: DropReason);
    /// A next hop for which [`Host::want`](super::LocalProtocols::request_next_hop) returned none has become usable, or failed.
    fn next_hop_settled(&mut self, _interface: InterfaceId, _address: IpAddr, _verdict: NextHopState) {}
    /// Reports an event to the observer.
    fn event(&mut self, event: Event<'_>);
    /// The route of `destination` in the VRF of the interface `scope`.
    fn lookup(&self, scope: InterfaceId, destination: IpAddr) -> Outcome {
        self.tables().lookup_from(scope, destination)
    }
    /// The next hop of a packet to `destination` under `outcome`: the gateway of an adjacency, that of a group's member for a flow of this hash, or
    /// the destination itself on a connected link.
    fn next_hop(&self, outcome: Outcome, destination: IpAddr, flow: u32) -> Option<(InterfaceId, IpAddr)> {
        match outcome {
            Outcome::Via(adjacency) => self.tables().next_hop(adjacency),
            Outcome::Group(group) => self.tables().next_hop(self.tables().groups().pick(group, flow)),
            Outcome::Connected(interface) => Some((interface, destination)),
            _ => None,
        }
    }
}
