//! ICMP errors: telling the sender what became of its packet (RFC 1812 4.3.2 and 5.2.7, RFC 4443 2.4 and 3).

use super::output::{HOPS, way, written};
use super::{Host, Parsed, World, parse};
use fib::Outcome;
use nat::{Nat, Rules};
use packet::wire::{
    Cast, Error4, Error6, Ipv4, Ipv6, Ipv6Header, icmp4, ipv4, ipv6, may_answer_with_error4, may_answer_with_error6,
};
use packet::{DropReason, Meta, Packet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is wrong with a packet, in both families.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Complaint {
    /// Its time to live is used up.
    Expired,
    /// A packet filter rejects it.
    Prohibited,
    /// No route leads there.
    NoRoute,
    /// The route says so.
    Unreachable,
    /// The last router's neighbour does not answer.
    NoAnswer,
    /// Its source address does not reach that far.
    BeyondScope,
    /// Longer than the next link takes, in bytes.
    TooBig { mtu: u16 },
    /// Nobody listens on the port; the datagram ends after so many bytes of its packet.
    Port { length: usize },
    /// The protocol, named at this byte of the packet, is not spoken.
    Protocol { named_at: usize },
    /// This byte of the header is wrong.
    Field { pointer: usize },
    /// The IPv6 option at this byte is not known and wants that to be told.
    Option { pointer: usize },
    /// It is a first fragment that ends before its headers do.
    CutHeaders,
    /// The rest of its packet has not come in time.
    Reassembly,
}

impl Complaint {
    /// The bytes of a packet it is about.
    fn about(self, packet: &[u8]) -> &[u8] {
        match self {
            Complaint::Port { length } => packet.get(..length).unwrap_or(packet),
            _ => packet,
        }
    }

    fn in_ipv4(self) -> Option<Error4> {
        Some(match self {
            Complaint::Expired => Error4::TimeExceeded,
            Complaint::Prohibited => Error4::CommunicationProhibited,
            Complaint::NoRoute => Error4::NetUnreachable,
            Complaint::Unreachable | Complaint::NoAnswer => Error4::HostUnreachable,
            Complaint::TooBig { mtu } => Error4::FragmentationNeeded { mtu },
            Complaint::Port { .. } => Error4::PortUnreachable,
            Complaint::Protocol { .. } => Error4::ProtocolUnreachable,
            Complaint::Field { pointer } => Error4::ParameterProblem { pointer: u8::try_from(pointer).ok()? },
            Complaint::Reassembly => Error4::ReassemblyTimeExceeded,
            Complaint::BeyondScope | Complaint::Option { .. } | Complaint::CutHeaders => return None,
        })
    }

    fn in_ipv6(self) -> Option<Error6> {
        Some(match self {
            Complaint::Expired => Error6::HopLimitExceeded,
            Complaint::Prohibited => Error6::AdminProhibited,
            Complaint::NoRoute | Complaint::Unreachable => Error6::NoRoute,
            Complaint::NoAnswer => Error6::AddressUnreachable,
            Complaint::BeyondScope => Error6::BeyondScope,
            Complaint::TooBig { mtu } => Error6::PacketTooBig { mtu: mtu.into() },
            Complaint::Port { .. } => Error6::PortUnreachable,
            Complaint::Protocol { named_at } => {
                Error6::UnrecognizedNextHeader { pointer: u32::try_from(named_at).ok()? }
            }
            Complaint::Field { pointer } => Error6::ErroneousField { pointer: u32::try_from(pointer).ok()? },
            Complaint::Option { pointer } => Error6::UnrecognizedOption { pointer: u32::try_from(pointer).ok()? },
            Complaint::CutHeaders => Error6::IncompleteHeaders,
            Complaint::Reassembly => Error6::ReassemblyTimeExceeded,
        })
    }
}

impl Host {
    /// Drops a packet for `reason` and tells its sender, where that is allowed and not too often.
    pub(super) fn refuse(&mut self, mut packet: Packet, what: Complaint, reason: DropReason, world: &mut impl World) {
        if !restored(&mut packet, world) {
            return world.drop(packet, reason);
        }
        if what == Complaint::NoAnswer {
            // It had been forwarded as far as could be: the sender sees the time to live it would have left with.
            lower_hops(&mut packet);
        }
        match parse(&packet) {
            Some(Parsed::V4(ip)) => self.tell4(&packet, &Ipv4 { bytes: what.about(ip.bytes), ..ip }, what, world),
            Some(Parsed::V6(ip)) => self.tell6(&packet, &Ipv6 { bytes: what.about(ip.bytes), ..ip }, what, world),
            None => {}
        }
        world.drop(packet, reason);
    }

    fn tell4(&mut self, packet: &Packet, ip: &Ipv4<'_>, what: Complaint, world: &mut impl World) {
        let Some(error) = what.in_ipv4() else { return };
        let (from, to) = (ip.header.source(), ip.header.destination());
        let asked = world.lookup(packet.meta().in_interface, IpAddr::V4(to));
        if may_answer_with_error4(cast(packet), ip).is_err() || matches!(asked, Outcome::Broadcast(_)) {
            return;
        }
        let id = packet.meta().in_interface;
        let Some(way) = way(IpAddr::V4(from), id, world) else { return };
        let Some(source) = source4(to, asked, way, world) else { return };
        if !self.may_complain(packet, world) {
            return;
        }
        let identification = self.next_identification();
        let write = |buffer: &mut [u8]| error.write(buffer, ip, source, HOPS, identification);
        if let Some(error) = written(icmp4::LONGEST_ERROR, world, write) {
            self.originate(way, error, world);
        }
    }

    fn tell6(&mut self, packet: &Packet, ip: &Ipv6<'_>, what: Complaint, world: &mut impl World) {
        let Some(error) = what.in_ipv6() else { return };
        if may_answer_with_error6(cast(packet), ip, error).is_err() {
            return;
        }
        let (from, to) = (ip.header.source(), ip.header.destination());
        let id = packet.meta().in_interface;
        let Some(way) = way(IpAddr::V6(from), id, world) else { return };
        let own = world.interface(id).is_some_and(|i| i.ipv6.iter().any(|a| a.address == to));
        let own = own || matches!(world.lookup(id, IpAddr::V6(to)), Outcome::Local(_));
        // An address of where the packet came in, as RFC 4443 2.2 leaves open: it shows the path in a traceroute.
        let source: Option<Ipv6Addr> =
            if own { Some(to) } else { world.interface(id).and_then(|interface| self.source6(interface, from)) };
        let Some(source) = source else { return };
        if !self.may_complain(packet, world) {
            return;
        }
        let write = |buffer: &mut [u8]| error.write(buffer, ip, source, HOPS);
        if let Some(error) = written(ipv6::MINIMUM_MTU, world, write) {
            self.originate(way, error, world);
        }
    }

    /// Whether one more error may be sent about packets of this one's interface now.
    fn may_complain(&mut self, packet: &Packet, world: &impl World) -> bool {
        let now = world.now();
        self.attachment(packet.meta().in_interface).is_some_and(|attachment| attachment.errors.take(now))
    }
}

/// Gives a translated packet back the ends that it came with, which its sender knows (RFC 5508 REQ-4). False if the connection is
/// forgotten: then the router sends no error.
pub(super) fn restored(packet: &mut Packet, world: &impl World) -> bool {
    if packet.meta().flags & Meta::TRANSLATED == 0 {
        return true;
    }
    let restore = |(rules, nat): (&Rules, &Nat)| nat.with(|state| state.restore(rules, packet));
    world.nat().and_then(restore).unwrap_or(false)
}

/// The address that complains: the one the packet was for, where it was ours; else one of the interface the error
/// leaves by (RFC 1812 4.3.2.4), on the next hop's prefix.
fn source4(to: Ipv4Addr, asked: Outcome, way: super::Key, world: &impl World) -> Option<Ipv4Addr> {
    if let Outcome::Local(_) = asked {
        return Some(to);
    }
    let IpAddr::V4(next) = way.1 else { return None };
    world.interface(way.0)?.source4(next)
}

/// To whom the frame was sent.
fn cast(packet: &Packet) -> Cast {
    if packet.meta().flags & Meta::GROUP == 0 { Cast::Unicast } else { Cast::Multicast }
}

/// Lowers the time to live or hop limit, as forwarding would.
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
