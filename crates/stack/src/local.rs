//! Packets for the router itself. It answers ICMP requests, processes neighbour messages, and rejects everything else with an error (RFC 1122 3.2.2,
//! RFC 4443 4).

use super::errors::{IcmpErrorCause, restore_translated};
use super::extensions::{self, UpperLayerError};
use super::options::is_own4;
use super::output::{HOPS, empty_packet, next_hop_key, packet_mark};
use super::reassembly::FragmentHeader;
use super::{LocalProtocols, Parsed, World, is_own, l3, parse, replies, reset};
use fib::Outcome;
use packet::wire::icmp4::{self, Icmp4};
use packet::wire::icmp6::{self, Icmp6};
use packet::wire::ipv4_options::{self, Ipv4Option};
use packet::wire::mld::{self, MldQuery};
use packet::wire::transport::verify_checksum;
use packet::wire::{Ipv4, Ipv4Header, Ipv6, Ipv6Header, ipv6, protocol};
use packet::{DropReason, Meta, Packet, segment};
use plan::Answerer;
use std::net::{IpAddr, Ipv6Addr};
use units::Mac;

/// The response to a packet for the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// The reply to an ICMP request.
    Reply,
    /// A TCP reset.
    Reset,
    /// An ICMP error; the packet is dropped for the reason.
    Error(IcmpErrorCause, DropReason),
    /// Processing as a neighbour discovery message.
    Discovery,
    /// None: it is a multicast membership query.
    Query(MldQuery),
    /// None: it is consumed silently.
    Silence,
    /// None: it is dropped for the reason.
    Drop(DropReason),
    /// None: it reports the path MTU of one of our packets.
    PathMtu,
    /// Reassembly; in IPv6 with this fragment header.
    Fragment(Option<FragmentHeader>),
}

impl LocalProtocols {
    pub(super) fn receive_local(&mut self, packet: Packet, world: &mut impl World) {
        self.deliver(packet, false, world);
    }

    /// Responds to a packet; `reassembled` if it was fragmented.
    pub(super) fn deliver(&mut self, packet: Packet, reassembled: bool, world: &mut impl World) {
        if reassembled && world.ends_tunnel(&packet) {
            return world.decapsulate(packet);
        }
        let answer = match parse(&packet) {
            Some(Parsed::V4(ip)) => {
                let one = packet.meta().flags & Meta::GROUP == 0 && is_for_local_unicast4(&packet, &ip, world);
                answer4(&ip, one)
            }
            Some(Parsed::V6(ip)) if self.is_for_duplicate(&packet, ip.header.destination(), world) => {
                Answer::Drop(DropReason::DuplicateAddress)
            }
            Some(Parsed::V6(ip)) => {
                let to = IpAddr::V6(ip.header.destination());
                answer6(&ip, world.interfaces().iter().any(|interface| is_own(interface, to)), reassembled)
            }
            None => Answer::Drop(DropReason::HeaderTruncated),
        };
        let kernel = world.interface(packet.meta().in_interface).and_then(|interface| interface.kernel);
        match answer {
            Answer::Reply if kernel == Some(Answerer::Kernel) => world.punt(packet),
            // The router has no listeners, but programs of the machine may listen. The kernel reassembles, resets and rejects by itself.
            Answer::Reset | Answer::Silence | Answer::Fragment(_) if kernel.is_some() => world.punt(packet),
            Answer::Error(_, DropReason::LocalProtocol | DropReason::LocalPort)
            | Answer::Drop(DropReason::LocalPort)
                if kernel.is_some() =>
            {
                world.punt(packet)
            }
            Answer::Reply => self.reply(packet, world),
            Answer::Reset => self.reset(packet, DropReason::LocalPort, world),
            Answer::Error(what, reason) => self.drop_with_error(packet, what, reason, world),
            Answer::Discovery => self.receive_discovery(packet, world),
            Answer::Query(query) => {
                let id = packet.meta().in_interface;
                let source = Ipv6Header::of(l3(&packet)).map_or(Ipv6Addr::UNSPECIFIED, |header| header.source());
                if !self.accepts_unsolicited((id, source.into()), Mac::default(), world.now()) {
                    return world.drop(packet, DropReason::NeighbourFlood);
                }
                self.receive_query(id, query, world);
                finish(packet, world);
            }
            Answer::Silence => {
                record_tunnel_error(&packet, world);
                world.consume(packet);
            }
            Answer::Drop(reason) => world.drop(packet, reason),
            Answer::PathMtu => {
                self.receive_path_mtu(&packet, world);
                finish(packet, world);
            }
            Answer::Fragment(header) => self.reassemble(packet, header, world),
        }
    }

    /// True if a local address is a duplicate, so that packets to it are for another host.
    fn is_for_duplicate(&self, packet: &Packet, to: Ipv6Addr, world: &impl World) -> bool {
        if to.is_unicast_link_local() {
            return self.is_duplicate(packet.meta().in_interface, to);
        }
        match world.lookup(packet.meta().in_interface, to.into()) {
            Outcome::Local(owner) => self.is_duplicate(owner, to),
            _ => false,
        }
    }

    /// Learns a path MTU from an ICMP error about one of our packets (RFC 1191 4, RFC 8201 4).
    fn receive_path_mtu(&mut self, packet: &Packet, world: &mut impl World) {
        let (mtu, original) = match parse(packet) {
            Some(Parsed::V4(ip)) => match Icmp4::parse_without_checksum(ip.payload) {
                Ok(Icmp4::Unreachable { mtu, original, .. }) => (mtu.into(), original),
                _ => return,
            },
            Some(Parsed::V6(ip)) => {
                match ip.upper().map(|upper| upper.map(|(_, bytes)| Icmp6::parse_without_checksum(bytes))) {
                    Ok(Some(Ok(Icmp6::PacketTooBig { mtu, original }))) => (mtu, original),
                    _ => return,
                }
            }
            None => return,
        };
        let length = match packet.meta().flags & Meta::IPV6 {
            0 => Ipv4Header::of(original).map(Ipv4Header::total_length),
            _ => Ipv6Header::of(original).map(|header| ipv6::HEADER + header.payload_length()),
        };
        world.reduce_tunnel_mtu(original, mtu);
        if let (Some((destination, mark)), Some(length)) = (packet_mark(original), length) {
            self.path_mtus.learn(destination, mtu, length, mark, world.now());
        }
    }

    /// A packet filter rejects the packet. A TCP connection is reset in the name of its destination, so that the sender fails at once; other senders
    /// receive an ICMP error (RFC 1812 5.2.7.1).
    pub(super) fn reject(&mut self, mut packet: Packet, world: &mut impl World) {
        let segment = match parse(&packet) {
            Some(Parsed::V4(ip)) => ip.header.protocol() == protocol::TCP && !ip.header.is_fragment(),
            Some(Parsed::V6(ip)) => matches!(ip.upper(), Ok(Some((protocol::TCP, _)))),
            None => false,
        };
        if !segment || packet.meta().flags & Meta::GROUP != 0 {
            return self.drop_with_error(packet, IcmpErrorCause::Prohibited, DropReason::Rejected, world);
        }
        // Its sender knows the addresses from before the translation.
        if !restore_translated(&mut packet, world) {
            return world.drop(packet, DropReason::Rejected);
        }
        // With a wrong checksum the addresses may be wrong too. A segment from this machine has no checksum yet.
        let sound = !packet.is_offloaded() || segment::complete(&mut packet);
        if sound && verify_checksum(l3(&packet)) == Ok(Some(true)) {
            return self.reset(packet, DropReason::Rejected, world);
        }
        world.drop(packet, DropReason::Rejected);
    }

    /// RFC 9293 3.10.7.1: there is no connection, so a reset is sent. The packet is dropped for `reason`.
    fn reset(&mut self, packet: Packet, reason: DropReason, world: &mut impl World) {
        let id = packet.meta().in_interface;
        let source = match parse(&packet) {
            Some(Parsed::V4(ip)) => IpAddr::V4(ip.header.source()),
            Some(Parsed::V6(ip)) => IpAddr::V6(ip.header.source()),
            None => return world.drop(packet, DropReason::HeaderTruncated),
        };
        // Write it to a local buffer first. A reset gets no answer, and this avoids allocating a packet only to drop it.
        let mut written = [0; reset::LONGEST];
        if let Some(length) = reset::write(&mut written, l3(&packet), HOPS)
            && let Some(way) = next_hop_key(source, id, world)
            && let Some(mut reply) = empty_packet(length, world)
        {
            reply.bytes_mut().copy_from_slice(&written[..length]);
            self.originate(way, reply, world);
        }
        world.drop(packet, reason);
    }
}

/// Ends the life of a message that the router's own protocols have processed without an answer: programs of the machine may need it too.
pub(super) fn finish(packet: Packet, world: &mut impl World) {
    let kernel = world.interface(packet.meta().in_interface).and_then(|interface| interface.kernel);
    if kernel.is_some() { world.punt(packet) } else { world.consume(packet) }
}

/// Records an ICMP error about an outer packet of a tunnel (RFC 2003 4, RFC 2473 8).
fn record_tunnel_error(packet: &Packet, world: &mut impl World) {
    /// Type, code, checksum and a word that depends on the type, in both families (RFC 792, RFC 4443).
    const HEADER: usize = 8;
    let message = match parse(packet) {
        Some(Parsed::V4(ip)) if ip.header.protocol() == protocol::ICMP => ip.payload,
        Some(Parsed::V6(ip)) => match ip.upper() {
            Ok(Some((protocol::ICMPV6, message))) => message,
            _ => return,
        },
        _ => return,
    };
    let is_ipv6 = packet.meta().flags & Meta::IPV6 != 0;
    // Unreachable, time exceeded, parameter problem.
    let is_error = message.first().is_some_and(|kind| if is_ipv6 { [1, 3, 4] } else { [3, 11, 12] }.contains(kind));
    if let Some(outer) = message.get(HEADER..).filter(|_| is_error) {
        world.record_tunnel_error(outer);
    }
}

/// True if a packet is for a local unicast address, not for a group.
fn is_for_local_unicast4(packet: &Packet, ip: &Ipv4<'_>, world: &impl World) -> bool {
    is_own4(ip.header.destination(), packet.meta().in_interface, world)
}

/// The response to an IPv4 packet; `one` if it is for a local unicast address.
fn answer4(ip: &Ipv4<'_>, one: bool) -> Answer {
    // Options were checked before, except those of multicast packets.
    for placed in ipv4_options::options(ip.options) {
        match placed.map(|placed| placed.option) {
            Ok(Ipv4Option::LooseSourceRoute { .. } | Ipv4Option::StrictSourceRoute { .. }) => {
                return Answer::Drop(DropReason::SourceRoute);
            }
            Ok(_) => {}
            Err(error) => {
                let what = IcmpErrorCause::Field { pointer: error.pointer.into() };
                return Answer::Error(what, DropReason::BadOption);
            }
        }
    }
    if ip.header.is_fragment() {
        return Answer::Fragment(None);
    }
    match ip.header.protocol() {
        protocol::ICMP => match Icmp4::parse(ip.payload) {
            Err(_) => Answer::Drop(DropReason::BadIcmp),
            // RFC 1122 3.2.2.6 leaves replies to broadcast requests open. They are not sent, because they amplify.
            Ok(Icmp4::EchoRequest(_)) if one => Answer::Reply,
            Ok(Icmp4::Other { kind: replies::TIMESTAMP, body, .. }) if one => {
                if body.len() >= 8 {
                    Answer::Reply
                } else {
                    Answer::Drop(DropReason::BadIcmp)
                }
            }
            Ok(Icmp4::Unreachable { code: icmp4::FRAGMENTATION_NEEDED, .. }) if one => Answer::PathMtu,
            Ok(_) => Answer::Silence,
        },
        protocol::UDP | protocol::TCP => port(ip.bytes, ip.header_length(), ip.header.protocol(), one),
        protocol::IGMP => Answer::Silence,
        _ => Answer::Error(IcmpErrorCause::Protocol { named_at: 9 }, DropReason::LocalProtocol),
    }
}

/// The response to an IPv6 packet; `one` if it is for a local unicast address, `reassembled` if it was fragmented.
fn answer6(ip: &Ipv6<'_>, one: bool, reassembled: bool) -> Answer {
    let upper = match extensions::upper(ip, reassembled) {
        Ok(upper) => upper,
        Err(UpperLayerError::Silent(reason)) => return Answer::Drop(reason),
        Err(UpperLayerError::Report(what, reason)) => return Answer::Error(what, reason),
        Err(UpperLayerError::Fragment(header)) => return Answer::Fragment(Some(header)),
    };
    let message = ip.bytes.get(upper.at..).unwrap_or_default();
    match upper.protocol {
        protocol::ICMPV6 => match Icmp6::parse(ip.header, message) {
            Err(_) if is_discovery(message) => Answer::Drop(DropReason::BadNeighbourDiscovery),
            Err(_) => Answer::Drop(DropReason::BadIcmp),
            Ok(Icmp6::EchoRequest(_)) => Answer::Reply,
            // Neighbour discovery messages must not be fragmented (RFC 6980 5).
            Ok(Icmp6::Discovery { .. }) if reassembled => Answer::Drop(DropReason::BadNeighbourDiscovery),
            Ok(Icmp6::Discovery { .. }) => Answer::Discovery,
            Ok(Icmp6::PacketTooBig { .. }) if one => Answer::PathMtu,
            Ok(Icmp6::Other { kind: mld::QUERY, .. }) if !reassembled => {
                MldQuery::parse(ip, message).map_or(Answer::Silence, Answer::Query)
            }
            Ok(_) => Answer::Silence,
        },
        protocol::TCP => port(ip.bytes, upper.at, protocol::TCP, one),
        protocol::UDP => port(ip.bytes, upper.at, protocol::UDP, !ip.header.destination().is_multicast()),
        protocol::NO_NEXT_HEADER => Answer::Silence,
        kind => {
            let misplaced = kind == protocol::HOP_BY_HOP;
            let reason = if misplaced { DropReason::BadOption } else { DropReason::LocalProtocol };
            Answer::Error(IcmpErrorCause::Protocol { named_at: upper.named_at }, reason)
        }
    }
}

fn is_discovery(message: &[u8]) -> bool {
    message.first().is_some_and(|kind| (icmp6::ROUTER_SOLICITATION..=icmp6::REDIRECT).contains(kind))
}

/// The response to a UDP or TCP packet whose header begins at `at`: no socket listens. With a wrong checksum the packet may be for another host.
fn port(ip: &[u8], at: usize, kind: u8, one: bool) -> Answer {
    match verify_checksum(ip) {
        Ok(Some(false)) | Err(_) => Answer::Drop(DropReason::LocalPort),
        Ok(_) if !one => Answer::Drop(DropReason::LocalPort),
        Ok(_) if kind == protocol::TCP => Answer::Reset,
        Ok(_) => {
            // The error does not quote bytes behind the end of the datagram.
            let field = ip.get(at + 4..).and_then(|rest| rest.first_chunk::<2>());
            let length = field.map_or(ip.len(), |field| (at + usize::from(u16::from_be_bytes(*field))).min(ip.len()));
            Answer::Error(IcmpErrorCause::Port { length }, DropReason::LocalPort)
        }
    }
}
