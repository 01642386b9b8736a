//! Neighbour resolution and waiting packets: carries out the actions of the state machines.

use super::errors::IcmpErrorCause;
use super::nud::{ForwardingChange, NudActions, NudEvent, NudState, RequestTarget};
use super::world::NextHopState;
use super::{HeldPacket, Key, LocalProtocols, Parsed, World, parse};
use packet::event::{Event, NeighbourState};
use packet::wire::flow_hash;
use packet::{DropReason, Packet};
use std::net::IpAddr;
use units::{InterfaceId, Mac, Nanos};

/// The mean reachable time (RFC 4861 10, REACHABLE_TIME). The actual one is between half and one and a half of it (RFC 4861 6.3.2), so that
/// neighbours resolved together are not probed together.
const REACHABLE: Nanos = Nanos::secs(30);
/// The most neighbours checked for eviction. Only members of next-hop groups are exempt, and those are few.
const SPARE: usize = 64;

impl LocalProtocols {
    /// The caller wants to send packets to a neighbour and holds them itself. None while the neighbour is being resolved: [`World::next_hop_settled`] reports
    /// the result. May be called repeatedly.
    pub fn request_next_hop(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        world: &mut impl World,
    ) -> Option<NextHopState> {
        let (now, reachable, key) = (world.now(), self.reachable_time(), (interface, address));
        if world.interface(interface).is_none() {
            return Some(NextHopState::Failed);
        }
        let known = self.neighbours.step(key, |machine| machine.step(NudEvent::Needed, now, reachable));
        let effects = match known {
            Some(effects) => effects,
            None => {
                let (machine, effects) = first_state(key, world);
                if !self.add_neighbour(key, machine, world) {
                    return Some(NextHopState::TableFull);
                }
                effects
            }
        };
        self.apply(key, effects, world);
        match self.neighbours.nud(key) {
            Some(machine) if machine.usable_mac().is_some() => Some(NextHopState::Usable),
            Some(machine) if machine.state == NeighbourState::Failed => Some(NextHopState::Failed),
            Some(_) => None,
            // No adjacency was free.
            None => Some(NextHopState::TableFull),
        }
    }

    /// A packet whose next hop is not resolved, or no longer.
    pub(super) fn resolve(&mut self, packet: Packet, world: &mut impl World) {
        let destination = match parse(&packet) {
            Some(Parsed::V4(ip)) => IpAddr::V4(ip.header.destination()),
            Some(Parsed::V6(ip)) => IpAddr::V6(ip.header.destination()),
            None => return world.drop(packet, DropReason::HeaderTruncated),
        };
        let outcome = world.lookup(packet.meta().in_interface, destination);
        let flow = flow_hash(packet.bytes(), packet.meta().l3.into(), world.tables().flow_key());
        match world.next_hop(outcome, destination, flow) {
            Some(key) => self.submit(key, HeldPacket::Transit(packet), world),
            // The route has changed meanwhile: the classifier processes the packet again.
            None => world.forward(packet),
        }
    }

    /// Sends a packet to a neighbour now, or once its address is known.
    pub(super) fn submit(&mut self, key: Key, waiting: HeldPacket, world: &mut impl World) {
        let now = world.now();
        if world.interface(key.0).is_none() {
            return world.drop(waiting.packet(), DropReason::PortRemoved);
        }
        let reachable = self.reachable_time();
        let known = self.neighbours.step(key, |machine| machine.step(NudEvent::Needed, now, reachable));
        let effects = match known {
            Some(effects) => effects,
            None => {
                let (machine, effects) = first_state(key, world);
                if !self.add_neighbour(key, machine, world) {
                    return world.drop(waiting.packet(), DropReason::NeighbourTable);
                }
                effects
            }
        };
        let waits = |machine: &NudState| machine.usable_mac().is_none() && machine.state != NeighbourState::Failed;
        if self.neighbours.nud(key).is_some_and(waits) {
            // Hold the packet before the request is sent: its source determines the source of the request.
            if let Some((packet, reason)) = self.neighbours.hold(key, waiting) {
                world.drop(packet, reason);
            }
            return self.apply(key, effects, world);
        }
        self.apply(key, effects, world);
        match self.neighbours.nud(key).and_then(|machine| machine.usable_mac()) {
            Some(mac) => self.release(key, waiting, mac, world),
            None => self.drop_unresolved(waiting, world),
        }
    }

    /// Processes a message of a neighbour. An unknown one is added only if `create`.
    pub(super) fn receive_neighbour_message(
        &mut self,
        key: Key,
        input: NudEvent,
        create: bool,
        world: &mut impl World,
    ) {
        let (now, reachable) = (world.now(), self.reachable_time());
        let effects = match (self.neighbours.step(key, |machine| machine.step(input, now, reachable)), input) {
            (Some(effects), _) => effects,
            (None, NudEvent::Claim(mac)) if create => {
                let (machine, effects) = NudState::stale(mac, now);
                // A full table evicts no neighbour in use for one that may be needed later.
                if !self.add_neighbour(key, machine, world) {
                    return;
                }
                effects
            }
            _ => return,
        };
        self.apply(key, effects, world);
    }

    /// Starts the resolution of a neighbour from the beginning.
    pub(super) fn restart_resolution(&mut self, key: Key, world: &mut impl World) {
        let (machine, effects) = NudState::incomplete(world.now());
        // The state is the same as before: no event.
        let again = NudActions { changed: false, ..effects };
        let begin = |known: &mut NudState| {
            *known = machine;
            again
        };
        if let Some(effects) = self.neighbours.step(key, begin) {
            self.apply(key, effects, world);
        }
    }

    /// The deadline of a neighbour has passed.
    pub(super) fn on_neighbour_deadline(&mut self, key: Key, world: &mut impl World) {
        let (now, reachable) = (world.now(), self.reachable_time());
        if let Some(effects) =
            self.neighbours.step(key, |machine| machine.step(NudEvent::DeadlinePassed, now, reachable))
        {
            self.apply(key, effects, world);
        }
    }

    /// Sets a static neighbour.
    pub(super) fn add_static(&mut self, key: Key, mac: Mac, world: &mut impl World) -> bool {
        let (fixed, effects) = NudState::new_static(mac, world.now());
        let set = |machine: &mut NudState| {
            *machine = fixed;
            effects
        };
        if self.neighbours.step(key, set).is_none() && !self.add_neighbour(key, fixed, world) {
            // A static neighbour evicts a dynamic one.
            let Some(found) = self.neighbours.first_dynamic_on(key.0) else { return false };
            self.remove_and_drop(found, DropReason::NeighbourTable, world);
            assert!(self.neighbours.insert(key, fixed), "there is room for one now");
        }
        self.apply(key, effects, world);
        self.neighbours.nud(key).is_some()
    }

    /// Adds a neighbour. If its interface has no room, another is evicted: see [`Neighbours::spare`](super::neighbours::Neighbours::evictable). False,
    /// and nothing changed, if none can be.
    pub(super) fn add_neighbour(&mut self, key: Key, machine: NudState, world: &mut impl World) -> bool {
        if self.neighbours.is_full(key.0) {
            let wanted = machine.state != NeighbourState::Stale;
            // A member of a next-hop group stays: no packet would trigger its resolution again.
            let goes = |&(on, address): &Key| !world.tables().is_member(on, address);
            let Some(spare) = self.neighbours.evictable(key.0, wanted).take(SPARE).find(goes) else { return false };
            let waiting = self.neighbours.remove(spare).map(|(_, waiting)| waiting).unwrap_or_default();
            for waiting in waiting {
                world.drop(waiting.packet(), DropReason::NeighbourTable);
            }
            world.next_hop_settled(spare.0, spare.1, NextHopState::TableFull);
        }
        self.neighbours.insert(key, machine)
    }

    /// Removes a neighbour; packets that wait for it are dropped for `reason`.
    pub(super) fn remove_and_drop(&mut self, key: Key, reason: DropReason, world: &mut impl World) {
        let Some((machine, waiting)) = self.neighbours.remove(key) else { return };
        if machine.usable_mac().is_some() {
            world.tables().unresolve(key.0, key.1);
        }
        for waiting in waiting {
            world.drop(waiting.packet(), reason);
        }
        world.next_hop_settled(key.0, key.1, NextHopState::Failed);
    }

    fn apply(&mut self, key: Key, effects: NudActions, world: &mut impl World) {
        if effects.changed {
            self.report_state(key, world);
        }
        // The tables change first, so that no packet uses the neighbour while the waiting ones are handled.
        if let ForwardingChange::Down = effects.forwarding {
            world.tables().unresolve(key.0, key.1);
        }
        if effects.drop_held || effects.forwarding == ForwardingChange::Down {
            world.tables().fail(key.0, key.1);
        }
        if effects.remove {
            // Only a neighbour without open requests and waiting packets is removed.
            self.remove_unanswered(key, world);
            return self.retry_group_member(key, world);
        }
        if effects.drop_held {
            for waiting in self.neighbours.take_held(key) {
                self.drop_unresolved(waiting, world);
            }
            world.next_hop_settled(key.0, key.1, NextHopState::Failed);
        }
        if let ForwardingChange::Up(mac) = effects.forwarding {
            self.make_usable(key, mac, world);
        }
        match effects.request {
            Some(RequestTarget::AllHosts) => self.send_request(key, None, world),
            Some(RequestTarget::Unicast(mac)) => self.send_request(key, Some(mac), world),
            None => {}
        }
    }

    fn remove_unanswered(&mut self, key: Key, world: &mut impl World) {
        let waiting = self.neighbours.remove(key).map(|(_, waiting)| waiting).unwrap_or_default();
        for waiting in waiting {
            self.drop_unresolved(waiting, world);
        }
        world.next_hop_settled(key.0, key.1, NextHopState::Failed);
    }

    /// A group skips a next hop that does not answer, so no packet would trigger its resolution again: request it now.
    fn retry_group_member(&mut self, key: Key, world: &mut impl World) {
        if world.interface(key.0).is_some() && world.tables().is_member(key.0, key.1) {
            let (machine, effects) = first_state(key, world);
            if self.add_neighbour(key, machine, world) {
                self.apply(key, effects, world);
            }
        }
    }

    /// The fast path may use the neighbour from now on. Waiting packets are sent first.
    fn make_usable(&mut self, key: Key, mac: Mac, world: &mut impl World) {
        if !world.tables().resolve(key.0, key.1, mac) {
            // No adjacency is free. If the neighbour stayed, each packet would loop between the classifier and here.
            return self.remove_and_drop(key, DropReason::NeighbourTable, world);
        }
        for waiting in self.neighbours.take_held(key) {
            self.release(key, waiting, mac, world);
        }
        world.next_hop_settled(key.0, key.1, NextHopState::Usable);
    }

    fn release(&mut self, key: Key, waiting: HeldPacket, mac: Mac, world: &mut impl World) {
        match waiting {
            HeldPacket::Transit(packet) => world.forward(packet),
            HeldPacket::Own(packet) => self.transmit_ip(key.0, packet, mac, world),
        }
    }

    /// The neighbour did not answer (RFC 1812 5.2.7.1, RFC 4861 7.2.2).
    fn drop_unresolved(&mut self, waiting: HeldPacket, world: &mut impl World) {
        match waiting {
            HeldPacket::Transit(packet) => {
                self.drop_with_error(packet, IcmpErrorCause::NoAnswer, DropReason::NeighbourFailed, world)
            }
            HeldPacket::Own(packet) => world.drop(packet, DropReason::NeighbourFailed),
        }
    }

    fn send_request(&mut self, key: Key, directly: Option<Mac>, world: &mut impl World) {
        let now = world.now();
        // The rate limit keeps a prefix scan from becoming a broadcast storm. A neighbour left out is requested again in a second.
        if directly.is_none()
            && !self.interface_state(key.0).is_some_and(|attachment| attachment.request_bucket.take(now))
        {
            return;
        }
        match key.1 {
            IpAddr::V4(target) => self.send_arp_request(key.0, target, directly, world),
            IpAddr::V6(target) => self.send_solicitation(key.0, target, directly, world),
        }
    }

    fn report_state(&mut self, key: Key, world: &mut impl World) {
        if let Some(&NudState { state, mac, .. }) = self.neighbours.nud(key) {
            world.event(Event::Neighbour { interface: key.0, address: key.1, mac, state });
        }
    }

    /// A random reachable time between half and one and a half of the mean, equal in every run.
    fn reachable_time(&mut self) -> Nanos {
        Nanos::new(REACHABLE.get() / 2) + self.jitter(REACHABLE)
    }
}

/// The state of a neighbour that a packet needs: it is requested, except on a link whose neighbours have one link-layer address.
fn first_state(key: Key, world: &impl World) -> (NudState, NudActions) {
    match world.interface(key.0).and_then(|interface| interface.peer) {
        Some(mac) => NudState::new_static(mac, world.now()),
        None => NudState::incomplete(world.now()),
    }
}
