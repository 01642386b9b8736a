//! ICMP errors to the senders of packets (RFC 1812 4.3.2 and 5.2.7, RFC 4443 2.4 and 3).

use super::output::{HOPS, next_hop_key, packet_with};
use super::{LocalProtocols, Parsed, World, parse};
use fib::Outcome;
use nat::{Nat, NatRules};
use packet::wire::{
    Cast, Error4, Error6, Ipv4, Ipv6, Ipv6Header, icmp4, ipv4, ipv6, may_answer_with_error4, may_answer_with_error6,
};
use packet::{DropReason, Meta, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The cause of an ICMP error, in both families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum IcmpErrorCause {
    /// The time to live or hop limit is used up.
    Expired,
    /// A packet filter rejects it.
    Prohibited,
    /// No route matches.
    NoRoute,
    /// The route is `unreachable`.
    Unreachable,
    /// The next hop on the last link does not answer.
    NoAnswer,
    /// The scope of its source address ends here.
    BeyondScope,
    /// It is longer than the MTU of the next link.
    TooBig { mtu: u16 },
    /// No socket listens on the port. `length` is the end of the datagram within the packet.
    Port { length: usize },
    /// The protocol is not supported. `named_at` is the offset of the protocol field.
    Protocol { named_at: usize },
    /// The header is wrong at this offset.
    Field { pointer: usize },
    /// The IPv6 option at this offset is unknown and requires an error.
    Option { pointer: usize },
    /// A first fragment ends within its headers.
    TruncatedHeaders,
    /// The reassembly timed out.
    Reassembly,
}

impl IcmpErrorCause {
    /// The bytes of the packet that the error is about.
    fn quoted_bytes(self, packet: &[u8]) -> &[u8] {
        match self {
            IcmpErrorCause::Port { length } => packet.get(..length).unwrap_or(packet),
            _ => packet,
        }
    }

    fn in_ipv4(self) -> Option<Error4> {
        Some(match self {
            IcmpErrorCause::Expired => Error4::TimeExceeded,
            IcmpErrorCause::Prohibited => Error4::CommunicationProhibited,
            IcmpErrorCause::NoRoute => Error4::NetUnreachable,
            IcmpErrorCause::Unreachable | IcmpErrorCause::NoAnswer => Error4::HostUnreachable,
            IcmpErrorCause::TooBig { mtu } => Error4::FragmentationNeeded { mtu },
            IcmpErrorCause::Port { .. } => Error4::PortUnreachable,
            IcmpErrorCause::Protocol { .. } => Error4::ProtocolUnreachable,
            IcmpErrorCause::Field { pointer } => Error4::ParameterProblem { pointer: u8::try_from(pointer).ok()? },
            IcmpErrorCause::Reassembly => Error4::ReassemblyTimeExceeded,
            IcmpErrorCause::BeyondScope | IcmpErrorCause::Option { .. } | IcmpErrorCause::TruncatedHeaders => {
                return None;
            }
        })
    }

    fn in_ipv6(self) -> Option<Error6> {
        Some(match self {
            IcmpErrorCause::Expired => Error6::HopLimitExceeded,
            IcmpErrorCause::Prohibited => Error6::AdminProhibited,
            IcmpErrorCause::NoRoute | IcmpErrorCause::Unreachable => Error6::NoRoute,
            IcmpErrorCause::NoAnswer => Error6::AddressUnreachable,
            IcmpErrorCause::BeyondScope => Error6::BeyondScope,
            IcmpErrorCause::TooBig { mtu } => Error6::PacketTooBig { mtu: mtu.into() },
            IcmpErrorCause::Port { .. } => Error6::PortUnreachable,
            IcmpErrorCause::Protocol { named_at } => {
                Error6::UnrecognizedNextHeader { pointer: u32::try_from(named_at).ok()? }
            }
            IcmpErrorCause::Field { pointer } => Error6::ErroneousField { pointer: u32::try_from(pointer).ok()? },
            IcmpErrorCause::Option { pointer } => Error6::UnrecognizedOption { pointer: u32::try_from(pointer).ok()? },
            IcmpErrorCause::TruncatedHeaders => Error6::IncompleteHeaders,
            IcmpErrorCause::Reassembly => Error6::ReassemblyTimeExceeded,
        })
    }
}

impl LocalProtocols {
    /// Drops a packet for `reason` and sends an ICMP error, if that is allowed and within the rate limit.
    pub(super) fn drop_with_error(
        &mut self,
        mut packet: Packet,
        what: IcmpErrorCause,
        reason: DropReason,
        world: &mut impl World,
    ) {
        if !restore_translated(&mut packet, world) {
            return world.drop(packet, reason);
        }
        if what == IcmpErrorCause::NoAnswer {
            // The packet was forwarded to the last hop: quote it with the time to live with which it would have left.
            lower_hops(&mut packet);
        }
        match parse(&packet) {
            Some(Parsed::V4(ip)) => {
                self.send_error4(&packet, &Ipv4 { bytes: what.quoted_bytes(ip.bytes), ..ip }, what, world)
            }
            Some(Parsed::V6(ip)) => {
                self.send_error6(&packet, &Ipv6 { bytes: what.quoted_bytes(ip.bytes), ..ip }, what, world)
            }
            None => {}
        }
        world.drop(packet, reason);
    }

    fn send_error4(&mut self, packet: &Packet, ip: &Ipv4<'_>, what: IcmpErrorCause, world: &mut impl World) {
        let Some(error) = what.in_ipv4() else { return };
        let (from, to) = (ip.header.source(), ip.header.destination());
        let asked = world.lookup(packet.meta().in_interface, IpAddr::V4(to));
        // No error about a broadcast packet: many routers would answer one sender.
        if may_answer_with_error4(cast(packet), ip).is_err() || matches!(asked, Outcome::Broadcast(_)) {
            return;
        }
        let id = packet.meta().in_interface;
        let Some(way) = next_hop_key(IpAddr::V4(from), id, world) else { return };
        let Some(source) = source4(to, asked, way, world) else { return };
        // The rate limit comes last, so that only errors that are sent use tokens.
        if !self.may_send_error(packet, world) {
            return;
        }
        let identification = self.next_identification();
        let write = |buffer: &mut [u8]| error.write(buffer, ip, source, HOPS, identification);
        if let Some(error) = packet_with(icmp4::LONGEST_ERROR, world, write) {
            self.originate(way, error, world);
        }
    }

    fn send_error6(&mut self, packet: &Packet, ip: &Ipv6<'_>, what: IcmpErrorCause, world: &mut impl World) {
        let Some(error) = what.in_ipv6() else { return };
        if may_answer_with_error6(cast(packet), ip, error).is_err() {
            return;
        }
        let (from, to) = (ip.header.source(), ip.header.destination());
        let id = packet.meta().in_interface;
        let Some(way) = next_hop_key(IpAddr::V6(from), id, world) else { return };
        let own = world.interface(id).is_some_and(|i| i.ipv6.iter().any(|a| a.address == to));
        let own = own || matches!(world.lookup(id, IpAddr::V6(to)), Outcome::Local(_));
        // An address of the ingress interface, which RFC 4443 2.2 permits: traceroute then shows the path.
        let source: Option<Ipv6Addr> =
            if own { Some(to) } else { world.interface(id).and_then(|interface| self.source6(interface, from)) };
        let Some(source) = source else { return };
        if !self.may_send_error(packet, world) {
            return;
        }
        let write = |buffer: &mut [u8]| error.write(buffer, ip, source, HOPS);
        if let Some(error) = packet_with(ipv6::MINIMUM_MTU, world, write) {
            self.originate(way, error, world);
        }
    }

    /// True if the rate limit of the packet's interface allows one more error.
    fn may_send_error(&mut self, packet: &Packet, world: &impl World) -> bool {
        let now = world.now();
        self.interface_state(packet.meta().in_interface).is_some_and(|attachment| attachment.errors.take(now))
    }
}

/// Restores the original addresses and ports of a translated packet, because its sender knows those (RFC 5508 REQ-4). False if the connection is no
/// longer known: then the router sends no error.
pub(super) fn restore_translated(packet: &mut Packet, world: &impl World) -> bool {
    if packet.meta().flags & Meta::TRANSLATED == 0 {
        return true;
    }
    let restore = |(rules, nat): (&NatRules, &Nat)| nat.with(|state| state.restore(rules, packet));
    world.nat().and_then(restore).unwrap_or(false)
}

/// The source address of the error. It is the packet's destination if that is local; otherwise an address of the egress interface of the error, on
/// the prefix of the next hop (RFC 1812 4.3.2.4).
fn source4(to: Ipv4Addr, asked: Outcome, way: super::Key, world: &impl World) -> Option<Ipv4Addr> {
    if let Outcome::Local(_) = asked {
        return Some(to);
    }
    let IpAddr::V4(next) = way.1 else { return None };
    world.interface(way.0)?.source4(next)
}

/// The kind of link-layer destination of the frame.
fn cast(packet: &Packet) -> Cast {
    if packet.meta().flags & Meta::GROUP == 0 { Cast::Unicast } else { Cast::Multicast }
}

/// Decrements the time to live or hop limit, like forwarding.
pub(super) fn lower_hops(packet: &mut Packet) {
    let (at, is_ipv6) = (usize::from(packet.meta().l3), packet.meta().flags & Meta::IPV6 != 0);
    let Some(l3) = packet.bytes_mut().get_mut(at..) else { return };
    if is_ipv6 {
        if let Some(header) = Ipv6Header::of_mut(l3) {
            header.decrement_hop_limit();
        }
    } else if let Some(header) = l3.first_chunk_mut::<{ ipv4::HEADER }>() {
        ipv4::decrement_ttl(header);
    }
}
