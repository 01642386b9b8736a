//! ARP: resolution of IPv4 neighbours and replies to requests (RFC 826, RFC 1122 2.3.2), and address conflicts (RFC 5227).

use super::local::finish;
use super::nud::{Answer, NudEvent};
use super::output::packet_with;
use super::{LocalProtocols, World, is_on_link, is_own, l3};
use fib::Outcome;
use packet::event::Event;
use packet::wire::{Arp, ArpOperation, arp, ethertype};
use packet::{DropReason, Meta, Packet};
use plan::Answerer;
use std::net::{IpAddr, Ipv4Addr};
use units::{InterfaceId, Mac, Nanos};

/// The least time between two defences of an address (RFC 5227 1.1, DEFEND_INTERVAL).
const DEFEND_INTERVAL: Nanos = Nanos::secs(10);

impl LocalProtocols {
    pub(super) fn receive_arp(&mut self, packet: Packet, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let Ok(message) = Arp::parse(l3(&packet)) else { return world.drop(packet, DropReason::BadArp) };
        let Some(interface) = world.interface(id) else { return world.drop(packet, DropReason::PortRemoved) };
        if !message.has_unicast_sender() {
            return world.drop(packet, DropReason::BadArp);
        }
        if message.sender_ip.is_loopback() || message.sender_ip.is_multicast() || message.sender_ip.is_broadcast() {
            // No host can have such an address.
            return world.drop(packet, DropReason::BadArp);
        }
        let sender = IpAddr::V4(message.sender_ip);
        let answers = message.operation == ArpOperation::Reply;
        if !self.accepts_message_from((id, sender), message.sender_mac, answers, world.now()) {
            return world.drop(packet, DropReason::NeighbourFlood);
        }
        let (ours, mac, kernel) = (is_own(interface, IpAddr::V4(message.target_ip)), interface.mac, interface.kernel);
        let sender_mac = message.sender_mac;
        if sender_mac == mac {
            // One of our own frames that has returned through a loop.
            return world.consume(packet);
        }
        if is_own(interface, sender) {
            self.defend(id, sender, sender_mac, world);
            return world.drop(packet, DropReason::BadArp);
        }
        if is_on_link(interface, sender) && !message.is_probe() {
            let to_us = packet.meta().flags & Meta::GROUP == 0;
            self.learn4(id, &message, ours && to_us, ours, world);
        }
        // An address of the machine that is not the router's own: a virtual router has a link-layer address for it.
        let target = IpAddr::V4(message.target_ip);
        let machine = kernel.is_some() && !ours && matches!(world.lookup(id, target), Outcome::Local(_));
        if message.operation == ArpOperation::Request && kernel != Some(Answerer::Kernel) && !machine {
            if ours {
                let reply = message.reply(mac);
                // A reply is unicast: only the sender of the request needs it.
                self.send_arp(id, &reply, sender_mac, world);
            }
            return world.consume(packet);
        }
        finish(packet, world);
    }

    /// RFC 826, "packet reception": any message updates a known neighbour. An unknown one is added only when its message is for us, because it is
    /// about to receive a reply.
    fn learn4(&mut self, id: InterfaceId, message: &Arp, to_us: bool, ours: bool, world: &mut impl World) {
        let key = (id, IpAddr::V4(message.sender_ip));
        // A reply proves that the neighbour receives our frames only if we sent a request.
        let asked = self.neighbours.nud(key).is_some_and(|machine| machine.awaits_answer());
        let input = if message.operation == ArpOperation::Reply && to_us && asked {
            NudEvent::Answer(Answer { mac: Some(message.sender_mac), solicited: true, overrides: true })
        } else {
            NudEvent::Claim(message.sender_mac)
        };
        self.receive_neighbour_message(key, input, message.operation == ArpOperation::Request && ours, world);
    }

    /// Another host claims a local address: reports that and announces the address, but at a limited rate to avoid an ARP war (RFC 5227 2.4(c)).
    pub(super) fn defend(&mut self, id: InterfaceId, address: IpAddr, mac: Mac, world: &mut impl World) {
        let now = world.now();
        let Some(attachment) = self.interface_state(id) else { return };
        let may = attachment.defended.get(&address).is_none_or(|&last| now.since(last) >= DEFEND_INTERVAL);
        if !may {
            return;
        }
        attachment.defended.insert(address, now);
        world.event(Event::AddressConflict { interface: id, address, mac });
        match address {
            IpAddr::V4(address) => self.announce4(id, address, world),
            IpAddr::V6(address) => self.announce6(id, address, world),
        }
    }

    /// Announces a local address to all hosts on the link (RFC 5227 2.3).
    pub(super) fn announce4(&mut self, id: InterfaceId, address: Ipv4Addr, world: &mut impl World) {
        // A link without link-layer addresses of its own has no ARP.
        let Some(mac) = world.interface(id).filter(|interface| interface.peer.is_none()).map(|i| i.mac) else { return };
        self.send_arp(id, &Arp::announcement(mac, address), Mac::BROADCAST, world);
    }

    /// Sends a request for `target`: by broadcast, or by unicast to its last known address (RFC 1122 2.3.2.1, "unicast poll").
    pub(super) fn send_arp_request(
        &mut self,
        id: InterfaceId,
        target: Ipv4Addr,
        directly: Option<Mac>,
        world: &mut impl World,
    ) {
        let Some(interface) = world.interface(id) else { return };
        let Some(source) = interface.source4(target) else { return };
        let request = Arp::request(interface.mac, source, target);
        self.send_arp(id, &request, directly.unwrap_or(Mac::BROADCAST), world);
    }

    fn send_arp(&mut self, id: InterfaceId, message: &Arp, destination: Mac, world: &mut impl World) {
        let bytes = message.to_bytes();
        let packet = packet_with(arp::LENGTH, world, |buffer| {
            buffer.copy_from_slice(&bytes);
            Some(bytes.len())
        });
        if let Some(packet) = packet {
            self.transmit(id, packet, destination, ethertype::ARP, world);
        }
    }
}
