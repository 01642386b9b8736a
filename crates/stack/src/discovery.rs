//! Neighbour discovery: resolution of IPv6 neighbours and answers to solicitations (RFC 4861 7).

use super::dad::AddressStatus;
use super::local::finish;
use super::nud::{Answer, NudEvent};
use super::output::{next_hop_key, packet_with};
use super::{HeldPacket, LocalProtocols, World, is_on_link, is_own, l3};
use packet::wire::ndp::{self, NeighbourFlags};
use packet::wire::{Ethernet, Ipv6, Ipv6Header, Ndp, complete_checksum, ipv6};
use packet::{DropReason, Packet};
use plan::Answerer;
use std::net::{IpAddr, Ipv6Addr};
use units::{Instant, InterfaceId, Mac};

/// The buffer size for a solicitation or advertisement with its IPv6 header.
const ROOM: usize = 128;
/// The bytes of a link-layer address option.
const MAC_OPTION: usize = 8;

/// The contents of a message.
#[derive(Clone, Copy)]
enum MessageBody {
    Solicitation {
        target: Ipv6Addr,
        mac: Option<Mac>,
    },
    Advertisement {
        target: Ipv6Addr,
        mac: Option<Mac>,
        flags: NeighbourFlags,
    },
    RouterSolicitation {
        mac: Option<Mac>,
    },
    /// An advertisement of another router.
    RouterAdvertisement,
    /// A valid message that is not for routers: redirects are for hosts.
    Other,
}

/// A message with its addresses.
#[derive(Clone, Copy)]
struct Message {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    /// The source address of the frame.
    sender_mac: Mac,
    body: MessageBody,
}

/// Parses and validates a message by RFC 4861 6.1, 7.1 and 8.1. A link-layer address that no host can have makes it invalid too.
fn parse_message(packet: &Packet) -> Option<Message> {
    let ip = Ipv6::parse(l3(packet)).ok()?;
    let said = match Ndp::of(&ip).ok()? {
        Ndp::NeighbourSolicitation { target, options } => {
            MessageBody::Solicitation { target, mac: options.source_mac() }
        }
        Ndp::NeighbourAdvertisement { flags, target, options } => {
            MessageBody::Advertisement { target, mac: options.target_mac(), flags }
        }
        Ndp::RouterSolicitation { options } => MessageBody::RouterSolicitation { mac: options.source_mac() },
        Ndp::RouterAdvertisement { .. } => MessageBody::RouterAdvertisement,
        Ndp::Redirect { .. } => MessageBody::Other,
    };
    let mac = match said {
        MessageBody::Solicitation { mac, .. }
        | MessageBody::Advertisement { mac, .. }
        | MessageBody::RouterSolicitation { mac } => mac,
        MessageBody::RouterAdvertisement | MessageBody::Other => None,
    };
    let believable = mac.is_none_or(|mac| !mac.is_group() && mac != Mac::default());
    let station = Ethernet::parse(packet.bytes()).ok()?.source;
    believable.then_some(Message {
        source: ip.header.source(),
        destination: ip.header.destination(),
        sender_mac: station,
        body: said,
    })
}

impl LocalProtocols {
    pub(super) fn receive_discovery(&mut self, packet: Packet, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let Some(message) = parse_message(&packet) else {
            return world.drop(packet, DropReason::BadNeighbourDiscovery);
        };
        if !self.accepts_message(id, message, world.now()) {
            return world.drop(packet, DropReason::NeighbourFlood);
        }
        let Some(interface) = world.interface(id) else { return world.drop(packet, DropReason::PortRemoved) };
        if is_own(interface, IpAddr::V6(message.source)) {
            // No other host may use this source: it is a loop or a forgery, or an objection in detection.
            let objects = matches!(message.body, MessageBody::Advertisement { target, .. } if target == message.source);
            if objects && self.receive_objection(id, message.source, message.sender_mac, world) {
                return world.consume(packet);
            }
            return world.drop(packet, DropReason::BadNeighbourDiscovery);
        }
        let (kernel_answers, advertises) = (interface.kernel == Some(Answerer::Kernel), interface.ra.is_some());
        let mut answered = false;
        let valid = match message.body {
            MessageBody::Solicitation { mac, .. } if kernel_answers => {
                self.learn6(id, message.source, mac, world);
                true
            }
            MessageBody::Solicitation { target, mac } => {
                let anycast = interface.ipv6.iter().any(|attached| attached.subnet_router() == Some(target));
                if anycast || is_own(interface, IpAddr::V6(target)) {
                    answered = true;
                    self.answer_solicitation(id, message, target, mac, anycast, world);
                }
                true
            }
            MessageBody::Advertisement { target, mac, flags } => {
                let own = is_own(interface, IpAddr::V6(target));
                if own && self.receive_objection(id, target, mac.unwrap_or(message.sender_mac), world) {
                    true
                } else {
                    self.receive_advertisement(id, target, mac, flags, world)
                }
            }
            MessageBody::RouterSolicitation { mac } => {
                self.learn6(id, message.source, mac, world);
                self.receive_router_solicitation(id, world);
                true
            }
            MessageBody::RouterAdvertisement => {
                let read = Ipv6::parse(l3(&packet)).ok();
                if let Some(Ndp::RouterAdvertisement { parameters: says, options }) =
                    read.and_then(|ip| Ndp::of(&ip).ok())
                {
                    self.receive_router_advertisement(id, message.source, says, options, world);
                }
                true
            }
            MessageBody::Other => true,
        };
        // The messages that the router has answered, or could have.
        let ours = match message.body {
            MessageBody::Solicitation { .. } => answered,
            MessageBody::RouterSolicitation { .. } => advertises,
            _ => false,
        };
        if valid && ours {
            world.consume(packet);
        } else if valid {
            finish(packet, world);
        } else {
            world.drop(packet, DropReason::BadNeighbourDiscovery);
        }
    }

    fn accepts_message(&mut self, id: InterfaceId, message: Message, now: Instant) -> bool {
        let (about, mac, answers) = match message.body {
            // An objection to an address must not be lost in a flood.
            MessageBody::Advertisement { target, .. } if self.awaits_objection(id, target) => return true,
            MessageBody::Advertisement { target, mac, .. } => (target, mac, true),
            MessageBody::Solicitation { target, mac } if message.source.is_unspecified() => {
                if self.awaits_objection(id, target) {
                    return true;
                }
                (message.source, mac, false)
            }
            MessageBody::Solicitation { mac, .. } | MessageBody::RouterSolicitation { mac } => {
                (message.source, mac, false)
            }
            MessageBody::RouterAdvertisement | MessageBody::Other => (message.source, None, false),
        };
        self.accepts_message_from((id, about.into()), mac.unwrap_or(message.sender_mac), answers, now)
    }

    /// Learns the sender's link-layer address (RFC 4861 7.2.3, 6.2.6).
    fn learn6(&mut self, id: InterfaceId, source: Ipv6Addr, mac: Option<Mac>, world: &mut impl World) {
        let address = IpAddr::V6(source);
        let on_link = !source.is_unspecified() && world.interface(id).is_some_and(|i| is_on_link(i, address));
        if let (Some(mac), true) = (mac, on_link) {
            self.receive_neighbour_message((id, address), NudEvent::Claim(mac), true, world);
        }
    }

    /// Answers a solicitation for a local address (RFC 4861 7.2.3 and 7.2.4).
    fn answer_solicitation(
        &mut self,
        id: InterfaceId,
        message: Message,
        target: Ipv6Addr,
        mac: Option<Mac>,
        anycast: bool,
        world: &mut impl World,
    ) {
        let Some(own) = world.interface(id).map(|interface| interface.mac) else { return };
        let detecting = message.source.is_unspecified();
        let standing = self.address_status(id, target);
        if mac == Some(own) || standing == AddressStatus::Duplicate && !detecting {
            return;
        }
        if detecting && self.receive_objection(id, target, message.sender_mac, world) {
            // Two hosts probe for the same address: neither gets it (RFC 4862 5.4.3).
            return;
        }
        self.learn6(id, message.source, mac, world);
        // A probe of duplicate address detection is answered by multicast (RFC 4862 5.4).
        let destination = if detecting { ipv6::ALL_NODES } else { message.source };
        // A unicast solicitation comes from a host that knows the address, so the answer overrides nothing (RFC 4861 7.2.4).
        let tells = message.destination.is_multicast();
        // Nor do answers for an anycast address or for one under detection (RFC 4861 7.2.7, RFC 4429 3.3).
        let overrides = tells && !anycast && standing == AddressStatus::Own;
        let flags = NeighbourFlags { router: true, solicited: !detecting, overrides };
        let Some(packet) = advertisement(target, destination, target, flags, own, tells, world) else { return };
        match (detecting, mac) {
            (true, _) => self.transmit_ip(id, packet, ipv6::multicast_mac(destination), world),
            (false, Some(mac)) => self.transmit_ip(id, packet, mac, world),
            (false, None) => match next_hop_key(IpAddr::V6(destination), id, world) {
                Some(way) => self.originate(way, packet, world),
                None => world.drop(packet, DropReason::NoRoute),
            },
        }
    }

    /// Processes an advertisement (RFC 4861 7.2.5). False if another host advertises a local address.
    fn receive_advertisement(
        &mut self,
        id: InterfaceId,
        target: Ipv6Addr,
        mac: Option<Mac>,
        flags: NeighbourFlags,
        world: &mut impl World,
    ) -> bool {
        let Some(interface) = world.interface(id) else { return false };
        let address = IpAddr::V6(target);
        if is_own(interface, address) {
            if let Some(mac) = mac.filter(|&mac| mac != interface.mac) {
                self.defend(id, address, mac, world);
            }
            return false;
        }
        let answer = Answer { mac, solicited: flags.solicited, overrides: flags.overrides };
        self.receive_neighbour_message((id, address), NudEvent::Answer(answer), false, world);
        true
    }

    /// Announces a local address to all hosts on the link (RFC 4861 7.2.6).
    pub(super) fn announce6(&mut self, id: InterfaceId, address: Ipv6Addr, world: &mut impl World) {
        let Some(mac) = world.interface(id).map(|interface| interface.mac) else { return };
        let flags = NeighbourFlags { router: true, solicited: false, overrides: true };
        if let Some(packet) = advertisement(address, ipv6::ALL_NODES, address, flags, mac, true, world) {
            self.transmit_ip(id, packet, ipv6::multicast_mac(ipv6::ALL_NODES), world);
        }
    }

    /// Sends a solicitation for `target`: to its solicited-node group, or to its last known address (RFC 4861 7.2.2, 7.3.3).
    pub(super) fn send_solicitation(
        &mut self,
        id: InterfaceId,
        target: Ipv6Addr,
        directly: Option<Mac>,
        world: &mut impl World,
    ) {
        let Some(interface) = world.interface(id) else { return };
        // Prefer the source of the packet that triggered the resolution, if that is a local address on the link (RFC 4861 7.2.2).
        let prompting = match self.neighbours.first_held((id, IpAddr::V6(target))) {
            Some(HeldPacket::Own(packet)) => Ipv6Header::of(packet.bytes()).map(|header| header.source()),
            _ => None,
        };
        let prompting = prompting.filter(|&source| is_own(interface, IpAddr::V6(source)));
        let usable = |source: &Ipv6Addr| !self.is_duplicate(id, *source);
        let source = prompting.filter(usable).or_else(|| interface.link_local().filter(usable));
        let Some(source) = source.or_else(|| self.source6(interface, target)) else { return };
        let (own, tells) = (interface.mac, self.address_status(id, source) == AddressStatus::Own);
        let (destination, mac) = match directly {
            Some(mac) => (target, mac),
            None => (ipv6::solicited_node(target), ipv6::multicast_mac(ipv6::solicited_node(target))),
        };
        let write = |buffer: &mut [u8]| {
            let length = ndp::write_neighbour_solicitation(buffer, source, destination, target, own)?;
            // Include no link-layer address for a source under detection (RFC 4429 3.2).
            if tells { Some(length) } else { without_mac(buffer, length) }
        };
        if let Some(packet) = packet_with(ROOM, world, write) {
            self.transmit_ip(id, packet, mac, world);
        }
    }
}

/// An advertisement for `target`; with its link-layer address if `tells`.
fn advertisement(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    flags: NeighbourFlags,
    mac: Mac,
    tells: bool,
    world: &mut impl World,
) -> Option<Packet> {
    packet_with(ROOM, world, |buffer| {
        let length = ndp::write_neighbour_advertisement(buffer, source, destination, target, flags, mac)?;
        if tells { Some(length) } else { without_mac(buffer, length) }
    })
}

/// Removes the link-layer address option, which is the last one, from a message of `length` bytes. Returns the new length.
fn without_mac(buffer: &mut [u8], length: usize) -> Option<usize> {
    let length = length - MAC_OPTION;
    let payload = u16::try_from(length - ipv6::HEADER).ok()?;
    Ipv6Header::of_mut(buffer)?.set_payload_length(payload);
    complete_checksum(buffer.get_mut(..length)?).ok()?;
    Some(length)
}
