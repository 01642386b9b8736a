//! Redirects: the router reports a better first hop on the sender's link (RFC 1812 5.2.7.2, RFC 4861 8.2). They are sent only where configured, and
//! ignored when received.

use super::errors::lower_hops;
use super::output::{HOPS, packet_with};
use super::{LocalProtocols, Parsed, World, is_on_link, parse};
use crate::Interface;
use fib::Outcome;
use packet::event::NeighbourState;
use packet::wire::{Cast, Error4, Ipv4, Ipv6, icmp4, ipv4, ipv6, may_answer_with_error4, ndp};
use packet::{DropReason, Meta, Packet};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Bucket, Instant, InterfaceId, Mac, Nanos};

/// The number of redirects that are remembered, and the least time before one is repeated to a sender that ignores it (RFC 4861 8.2).
const REMEMBERED: usize = 64;
const REPEAT_INTERVAL: Nanos = Nanos::secs(5);

/// The redirects sent recently.
#[derive(Clone, Debug)]
pub(super) struct Redirects {
    bucket: Bucket,
    sent: VecDeque<(Instant, IpAddr, IpAddr)>,
}

impl Redirects {
    pub fn new(bucket: Bucket) -> Redirects {
        Redirects { bucket, sent: VecDeque::new() }
    }

    fn may_send(&mut self, sender: IpAddr, destination: IpAddr, now: Instant) -> bool {
        self.sent.retain(|&(when, ..)| now.since(when) < REPEAT_INTERVAL);
        let known = self.sent.iter().any(|&(_, from, to)| (from, to) == (sender, destination));
        // A full memory suppresses redirects: forgetting entries would void the limit for each sender.
        if known || self.sent.len() >= REMEMBERED || !self.bucket.take(now) {
            return false;
        }
        self.sent.push_back((now, sender, destination));
        true
    }
}

/// A better first hop for the sender of a packet.
struct BetterHop {
    sender: IpAddr,
    destination: IpAddr,
    hop: IpAddr,
}

impl LocalProtocols {
    /// A packet that leaves by its ingress interface: may send a redirect, and forwards the packet.
    pub(super) fn redirect(&mut self, mut packet: Packet, world: &mut impl World) {
        let id = packet.meta().in_interface;
        if parse(&packet).is_none() {
            return world.drop(packet, DropReason::HeaderTruncated);
        }
        if let Some(better) = better_hop(&packet, world)
            && self.may_redirect(id, &better, world.now())
        {
            match (better.sender, better.hop) {
                (IpAddr::V4(sender), IpAddr::V4(hop)) => self.redirect4(&mut packet, sender, hop, world),
                (IpAddr::V6(sender), IpAddr::V6(hop)) => self.redirect6(&packet, sender, hop, world),
                _ => {}
            }
        }
        world.forward(packet);
    }

    fn may_redirect(&mut self, id: InterfaceId, better: &BetterHop, now: Instant) -> bool {
        let Some(attachment) = self.interfaces.get_mut(&id) else { return false };
        attachment.redirects.may_send(better.sender, better.destination, now)
    }

    fn redirect4(&mut self, packet: &mut Packet, sender: Ipv4Addr, hop: Ipv4Addr, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let Some(source) = world.interface(id).and_then(|interface| interface.source4(sender)) else { return };
        let at = usize::from(packet.meta().l3);
        let header = packet.bytes().get(at..).and_then(|l3| l3.first_chunk::<{ ipv4::HEADER }>().copied());
        let Some(header) = header else { return };
        // The packet is quoted as it is forwarded.
        lower_hops(packet);
        let identification = self.next_identification();
        if let Some(Parsed::V4(ip)) = parse(packet) {
            let write = |buffer: &mut [u8]| {
                Error4::RedirectHost { gateway: hop }.write(buffer, &ip, source, HOPS, identification)
            };
            if let Some(message) = packet_with(icmp4::LONGEST_ERROR, world, write) {
                self.originate((id, sender.into()), message, world);
            }
        }
        packet.bytes_mut()[at..at + ipv4::HEADER].copy_from_slice(&header);
    }

    fn redirect6(&mut self, packet: &Packet, sender: Ipv6Addr, hop: Ipv6Addr, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let Some(source) = world.interface(id).and_then(Interface::link_local) else { return };
        if self.interfaces.get(&id).is_none_or(|attachment| attachment.detections.contains_key(&source)) {
            return;
        }
        let mac = self.known_mac(id, hop);
        let Some(Parsed::V6(ip)) = parse(packet) else { return };
        let write = |buffer: &mut [u8]| ndp::write_redirect(buffer, &ip, source, hop, mac);
        if let Some(message) = packet_with(ipv6::MINIMUM_MTU, world, write) {
            self.originate((id, sender.into()), message, world);
        }
    }

    fn known_mac(&self, id: InterfaceId, hop: Ipv6Addr) -> Option<Mac> {
        let machine = self.neighbours.nud((id, hop.into()))?;
        machine.mac.filter(|_| machine.state != NeighbourState::Failed)
    }
}

/// The better first hop of a packet, if its sender can reach it and redirects are enabled.
fn better_hop(packet: &Packet, world: &impl World) -> Option<BetterHop> {
    let id = packet.meta().in_interface;
    if packet.meta().flags & Meta::GROUP != 0 {
        return None;
    }
    let interface = world.interface(id).filter(|interface| interface.redirects)?;
    let (sender, destination) = match parse(packet)? {
        Parsed::V4(ip) => ends4(&ip)?,
        Parsed::V6(ip) => ends6(&ip)?,
    };
    let outcome = world.lookup(id, destination);
    // With several next hops another packet of the sender may use another one: none of them is better.
    if let Outcome::Group(_) = outcome {
        return None;
    }
    let (out, hop) = world.next_hop(outcome, destination, 0)?;
    let reaches = out == id && is_on_link(interface, sender) && is_on_link(interface, hop);
    let named = match hop {
        IpAddr::V4(_) => true,
        // A router is named by its link-local address only (RFC 4861 8.2).
        IpAddr::V6(address) => hop == destination || address.is_unicast_link_local(),
    };
    (reaches && named && sender != hop).then_some(BetterHop { sender, destination, hop })
}

fn ends4(ip: &Ipv4<'_>) -> Option<(IpAddr, IpAddr)> {
    may_answer_with_error4(Cast::Unicast, ip).ok()?;
    Some((ip.header.source().into(), ip.header.destination().into()))
}

fn ends6(ip: &Ipv6<'_>) -> Option<(IpAddr, IpAddr)> {
    let source = ip.header.source();
    ipv6::is_unicast_source(source).then(|| (source.into(), ip.header.destination().into()))
}
