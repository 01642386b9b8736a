//! ARP: finding IPv4 neighbours and being found (RFC 826, RFC 1122 2.3.2), address conflicts (RFC 5227).

use super::machine::{Answer, Input};
use super::output::written;
use super::{Host, World, is_on_link, is_own, l3};
use packet::event::Event;
use packet::wire::{Arp, ArpOperation, arp, ethertype};
use packet::{DropReason, Meta, Packet};
use std::net::{IpAddr, Ipv4Addr};
use units::{InterfaceId, Mac, Nanos};

/// An address is defended at most this often (RFC 5227 1.1, DEFEND_INTERVAL).
const DEFEND_INTERVAL: Nanos = Nanos::secs(10);

impl Host {
    pub(super) fn receive_arp(&mut self, packet: Packet, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let Ok(message) = Arp::parse(l3(&packet)) else { return world.drop(packet, DropReason::BadArp) };
        let Some(interface) = world.interface(id) else { return world.drop(packet, DropReason::PortRemoved) };
        if !message.sender_is_believable() {
            return world.drop(packet, DropReason::BadArp);
        }
        if message.sender_ip.is_loopback() || message.sender_ip.is_multicast() || message.sender_ip.is_broadcast() {
            // Nobody's address, so that nobody asked.
            return world.drop(packet, DropReason::BadArp);
        }
        let sender = IpAddr::V4(message.sender_ip);
        let answers = message.operation == ArpOperation::Reply;
        if !self.hears((id, sender), message.sender_mac, answers, world.now()) {
            return world.drop(packet, DropReason::NeighbourFlood);
        }
        let (ours, mac) = (is_own(interface, IpAddr::V4(message.target_ip)), interface.mac);
        let sender_mac = message.sender_mac;
        if sender_mac == mac {
            // Our own, come back round some loop.
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
        if message.operation == ArpOperation::Request && ours {
            let reply = message.reply(mac);
            self.send_arp(id, &reply, sender_mac, world);
        }
        world.consume(packet);
    }

    /// RFC 826, "packet reception": who is known is updated by whatever it says; who is not known yet is remembered
    /// when it speaks to us, for it is about to be answered.
    fn learn4(&mut self, id: InterfaceId, message: &Arp, to_us: bool, ours: bool, world: &mut impl World) {
        let key = (id, IpAddr::V4(message.sender_ip));
        // A reply proves that the neighbour hears us only where we have asked.
        let asked = self.neighbours.machine(key).is_some_and(|machine| machine.is_asked());
        let input = if message.operation == ArpOperation::Reply && to_us && asked {
            Input::Answer(Answer { mac: Some(message.sender_mac), solicited: true, overrides: true })
        } else {
            Input::Claim(message.sender_mac)
        };
        self.hear(key, input, message.operation == ArpOperation::Request && ours, world);
    }

    /// Somebody else claims an address of ours: says so, and announces it, but not in a duel (RFC 5227 2.4(c)).
    pub(super) fn defend(&mut self, id: InterfaceId, address: IpAddr, mac: Mac, world: &mut impl World) {
        let now = world.now();
        let Some(attachment) = self.attachment(id) else { return };
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

    /// Tells everybody on the link that `address` is ours (RFC 5227 2.3).
    pub(super) fn announce4(&mut self, id: InterfaceId, address: Ipv4Addr, world: &mut impl World) {
        let Some(mac) = world.interface(id).map(|interface| interface.mac) else { return };
        self.send_arp(id, &Arp::announcement(mac, address), Mac::BROADCAST, world);
    }

    /// Asks for `target`: everybody, or only the one that had it last (RFC 1122 2.3.2.1, "unicast poll").
    pub(super) fn ask4(&mut self, id: InterfaceId, target: Ipv4Addr, directly: Option<Mac>, world: &mut impl World) {
        let Some(interface) = world.interface(id) else { return };
        let Some(source) = interface.source4(target) else { return };
        let request = Arp::request(interface.mac, source, target);
        self.send_arp(id, &request, directly.unwrap_or(Mac::BROADCAST), world);
    }

    fn send_arp(&mut self, id: InterfaceId, message: &Arp, destination: Mac, world: &mut impl World) {
        let bytes = message.to_bytes();
        let packet = written(arp::LENGTH, world, |buffer| {
            buffer.copy_from_slice(&bytes);
            Some(bytes.len())
        });
        if let Some(packet) = packet {
            self.transmit(id, packet, destination, ethertype::ARP, world);
        }
    }
}
