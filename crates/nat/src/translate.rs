//! Reads and rewrites addresses and ports of a packet, and updates its checksums incrementally (RFC 1624).
//!
//! A partial checksum field holds only the sum of the pseudo-header, not complemented. A changed address changes it; a changed port does not, because
//! the sum over the header is added later. Headers of a super-frame's segments are copies of its own, so it is translated as one packet.

use super::fragments::Datagram;
use super::table::NatEndpoint;
use packet::Packet;
use packet::wire::checksum::{self, update, update_double};
use packet::wire::{Ipv4, Ipv4Header, icmp4, protocol};
use std::net::Ipv4Addr;

/// An end of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketEnd {
    /// The sender.
    Source,
    /// The receiver.
    Destination,
}

/// The kind of packet, as far as translation is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A whole packet with two ends, or the first fragment of one.
    Flow,
    /// An ICMP error about a packet with these ends.
    Error(QuotedPacket),
    /// A later fragment, which has no ports.
    Fragment,
}

/// The packet quoted by an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QuotedPacket {
    /// The protocol.
    pub protocol: u8,
    /// Source and destination, as in the quoted header.
    pub source: NatEndpoint,
    /// See `source`.
    pub destination: NatEndpoint,
}

/// The fields of a packet that translation needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketView {
    /// The protocol.
    pub protocol: u8,
    /// The ends. Ports are zero if there are none.
    pub source: NatEndpoint,
    /// See `source`.
    pub destination: NatEndpoint,
    /// The kind of packet.
    pub form: Form,
    /// The TCP flags.
    pub flags: u8,
    /// True if more fragments follow.
    pub more_fragments: bool,
    /// The identification that all fragments of a packet share.
    pub identification: u16,
    /// The TTL.
    pub ttl: u8,
    /// The offset of the transport header from the network header.
    l4: u8,
}

/// TCP flags.
pub const FIN: u8 = 1;
/// See [`FIN`].
pub const SYN: u8 = 2;
/// See [`FIN`].
pub const RST: u8 = 4;
/// See [`FIN`].
pub const ACK: u8 = 16;

/// The least bytes of a transport header for translation: up to the checksum and the flags.
const fn needed(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => 20,
        _ => 8,
    }
}

/// The offset of the checksum in the transport header.
const fn checksum_at(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => 2,
    }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk().copied()).map_or(0, u16::from_be_bytes)
}

fn set_word(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

/// The ports of a transport header, source first. For an ICMP query, the identifier is at the querier's side.
fn ports(protocol: u8, l4: &[u8]) -> Option<(u16, u16)> {
    if l4.len() < 8 {
        return None;
    }
    match protocol {
        protocol::TCP | protocol::UDP => Some((word(l4, 0), word(l4, 2))),
        // 13 to 18: timestamp and information (RFC 792), address mask (RFC 950). Requests are odd, replies even.
        protocol::ICMP if matches!(l4[0], icmp4::ECHO_REQUEST | 13 | 15 | 17) => Some((word(l4, 4), 0)),
        protocol::ICMP if matches!(l4[0], icmp4::ECHO_REPLY | 14 | 16 | 18) => Some((0, word(l4, 4))),
        _ => None,
    }
}

/// True if an ICMP message is an error about another packet.
const fn is_error(kind: u8) -> bool {
    matches!(kind, icmp4::UNREACHABLE | icmp4::SOURCE_QUENCH | icmp4::TIME_EXCEEDED | icmp4::PARAMETER_PROBLEM)
}

impl PacketView {
    /// Parses an IPv4 packet. `None` if it cannot be translated: a protocol other than TCP, UDP and ICMP, or a truncated header.
    #[inline]
    pub fn of(l3: &[u8]) -> Option<PacketView> {
        let packet = Ipv4::parse_without_checksum(l3).ok()?;
        let header = packet.header;
        let protocol = header.protocol();
        let (source, destination) = (u32::from(header.source()), u32::from(header.destination()));
        let mut view = PacketView {
            protocol,
            source: NatEndpoint::new(source, 0),
            destination: NatEndpoint::new(destination, 0),
            form: Form::Flow,
            flags: 0,
            more_fragments: header.more_fragments(),
            identification: header.identification(),
            ttl: header.ttl(),
            l4: packet.header_length() as u8,
        };
        if !matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP) {
            return None;
        }
        if !header.is_first() {
            view.form = Form::Fragment;
            return Some(view);
        }
        let l4 = packet.payload;
        if l4.len() < needed(protocol) {
            return None;
        }
        if protocol == protocol::ICMP && is_error(l4[0]) {
            view.form = Form::Error(QuotedPacket::of(&l4[8..])?);
            return Some(view);
        }
        (view.source.port, view.destination.port) = ports(protocol, l4)?;
        if protocol == protocol::TCP {
            view.flags = l4[13];
        }
        Some(view)
    }

    /// The fields that its fragments share.
    pub fn datagram(&self) -> Datagram {
        let (source, destination) = (self.source.address, self.destination.address);
        Datagram { source, destination, protocol: self.protocol, identification: self.identification }
    }

    /// The end at this side, and the other end.
    pub fn ends(&self, side: PacketEnd) -> (NatEndpoint, NatEndpoint) {
        match side {
            PacketEnd::Source => (self.source, self.destination),
            PacketEnd::Destination => (self.destination, self.source),
        }
    }
}

impl QuotedPacket {
    /// Parses the quoted packet of an ICMP error: its header and at least eight bytes (RFC 792).
    fn of(quoted: &[u8]) -> Option<QuotedPacket> {
        let header = Ipv4Header::of(quoted)?;
        let length = header.header_length();
        if header.version() != 4 || length < 20 || !header.is_first() {
            return None;
        }
        let protocol = header.protocol();
        let (from, to) = ports(protocol, quoted.get(length..)?)?;
        Some(QuotedPacket {
            protocol,
            source: NatEndpoint::new(header.source().into(), from),
            destination: NatEndpoint::new(header.destination().into(), to),
        })
    }
}

/// Replaces one end of a packet. The view must be that of the packet.
#[inline]
pub fn rewrite(packet: &mut Packet, view: &PacketView, side: PacketEnd, new: NatEndpoint) {
    let at = usize::from(packet.meta().l3);
    let partial = packet.is_offloaded()
        && packet.offload().checksum.is_some_and(|partial| {
            // Only a partial checksum of this very header: the packet may be a tunnel with one inside.
            usize::from(partial.start) == at + usize::from(view.l4)
                && usize::from(partial.offset) == checksum_at(view.protocol)
        });
    let Some(l3) = packet.bytes_mut().get_mut(at..) else { return };
    // The transport checksum covers the address through its pseudo-header, so `renumber` needs the old end.
    let old = if side == PacketEnd::Source { view.source } else { view.destination };
    set_address(l3, side, new.address);
    if view.form == Form::Fragment {
        return;
    }
    let Some(l4) = l3.get_mut(usize::from(view.l4)..) else { return };
    // An ICMP error has no ports, and its checksum covers no addresses: nothing else changes.
    if let Form::Flow = view.form {
        rewrite_port(l4, view.protocol, side, (old, new), partial);
    }
}

fn set_address(l3: &mut [u8], side: PacketEnd, address: u32) {
    if let Some(header) = Ipv4Header::of_mut(l3) {
        match side {
            PacketEnd::Source => header.set_source(Ipv4Addr::from(address)),
            PacketEnd::Destination => header.set_destination(Ipv4Addr::from(address)),
        }
    }
}

/// Replaces a port, and updates the checksum for port and address. A quoted header may end before its checksum, which is skipped then.
fn rewrite_port(l4: &mut [u8], protocol: u8, side: PacketEnd, (old, new): (NatEndpoint, NatEndpoint), partial: bool) {
    let place = match (protocol, side) {
        (protocol::ICMP, _) => 4,
        (_, PacketEnd::Source) => 0,
        (_, PacketEnd::Destination) => 2,
    };
    // An ICMP reply has its identifier at one side only; the other side's port is zero and must not be written.
    if protocol != protocol::ICMP || old.port != new.port {
        set_word(l4, place, new.port);
    }
    let at = checksum_at(protocol);
    if l4.len() < at + 2 {
        return;
    }
    let sum = word(l4, at);
    let sum = match protocol {
        protocol::ICMP => update(sum, old.port, new.port),
        // A zero checksum of UDP means that there is none (RFC 768).
        protocol::UDP if sum == 0 && !partial => return,
        // A partial sum is not complemented, but `update_double` expects a complemented one.
        _ if partial => !update_double(!sum, old.address, new.address),
        _ => update(update_double(sum, old.address, new.address), old.port, new.port),
    };
    // A computed zero is sent as all ones, for the same reason.
    let sum = if protocol == protocol::UDP && sum == 0 && !partial { 0xffff } else { sum };
    set_word(l4, at, sum);
}

/// Replaces one end of the packet quoted by an ICMP error, and updates the error's checksum (RFC 5508 section 4.2).
pub fn rewrite_quoted(
    packet: &mut Packet,
    view: &PacketView,
    quoted: &QuotedPacket,
    side: PacketEnd,
    new: NatEndpoint,
) {
    let at = usize::from(packet.meta().l3) + usize::from(view.l4);
    let Some(message) = packet.bytes_mut().get_mut(at..) else { return };
    let Some((head, body)) = message.split_at_mut_checked(8) else { return };
    let Some(length) = Ipv4Header::of(body).map(Ipv4Header::header_length) else { return };
    // All bytes that may change, and an even number of them, so that their sum can be replaced as one word.
    let reach = (length + 20).min(body.len()) & !1;
    let before = checksum::sum(&body[..reach]);
    let old = if side == PacketEnd::Source { quoted.source } else { quoted.destination };
    set_address(body, side, new.address);
    if let Some(l4) = body.get_mut(length..) {
        rewrite_port(l4, quoted.protocol, side, (old, new), false);
    }
    let after = checksum::sum(&body[..reach]);
    set_word(head, 2, update(word(head, 2), before, after));
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::pool::{Offload, PartialChecksum, Segmentation};
    use packet::wire::{Ipv4Spec, transport};
    use packet::{Pool, Region};
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// An IPv4 packet with a transport header and valid checksums.
    fn ip(protocol: u8, source: NatEndpoint, destination: NatEndpoint, payload: &[u8]) -> Vec<u8> {
        let header = match protocol {
            protocol::TCP => 20,
            _ => 8,
        };
        let mut bytes = vec![0; 20 + header + payload.len()];
        let spec = Ipv4Spec {
            type_of_service: 0,
            identification: 7,
            dont_fragment: false,
            ttl: 64,
            protocol,
            source: source.address.into(),
            destination: destination.address.into(),
        };
        spec.write(&mut bytes, header + payload.len()).unwrap();
        let l4 = &mut bytes[20..];
        match protocol {
            protocol::ICMP => {
                l4[0] = if source.port > 0 { icmp4::ECHO_REQUEST } else { icmp4::ECHO_REPLY };
                set_word(l4, 4, source.port | destination.port);
            }
            _ => {
                set_word(l4, 0, source.port);
                set_word(l4, 2, destination.port);
            }
        }
        match protocol {
            protocol::TCP => l4[12] = 5 << 4,
            protocol::UDP => set_word(l4, 4, (8 + payload.len()) as u16),
            _ => {}
        }
        l4[header..].copy_from_slice(payload);
        let sum = sum_of(&bytes);
        set_word(&mut bytes[20..], checksum_at(protocol), sum);
        bytes
    }

    /// The transport checksum of a packet, computed with a zero field.
    fn sum_of(bytes: &[u8]) -> u16 {
        let parsed = Ipv4::parse(bytes).expect("its header checksum is right");
        let protocol = parsed.header.protocol();
        let mut l4 = parsed.payload.to_vec();
        set_word(&mut l4, checksum_at(protocol), 0);
        let (from, to): (IpAddr, IpAddr) = (parsed.header.source().into(), parsed.header.destination().into());
        match protocol {
            protocol::ICMP => checksum::checksum(&l4),
            _ => match transport::transport_checksum(from, to, protocol, &l4) {
                0 if protocol == protocol::UDP => 0xffff,
                sum => sum,
            },
        }
    }

    fn packet(pool: &mut Pool, bytes: &[u8]) -> Packet {
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&[&[0; 14], bytes].concat()));
        packet.meta_mut().l3 = 14;
        packet
    }

    fn ends() -> impl Strategy<Value = (u8, NatEndpoint, NatEndpoint, NatEndpoint)> {
        let end = || (1u32..0xdfff_ffff, 1u16..).prop_map(|(address, port)| NatEndpoint::new(address, port));
        (prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::ICMP)], end(), end(), end()).prop_map(
            |(protocol, source, destination, new)| {
                // An ICMP query has an identifier at the querier's side only.
                let port = if protocol == protocol::ICMP { 0 } else { destination.port };
                (protocol, source, NatEndpoint { port, ..destination }, new)
            },
        )
    }

    proptest! {
        #[test]
        fn translation_equals_a_packet_sent_from_the_new_end_and_reverts(
            (protocol, source, destination, new) in ends(),
            payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut pool = Pool::new(Region::new(2));
            let original = ip(protocol, source, destination, &payload);
            let mut packet = packet(&mut pool, &original);
            let view = PacketView::of(&packet.bytes()[14..]).unwrap();
            prop_assert_eq!((view.source, view.destination), (source, destination));
            rewrite(&mut packet, &view, PacketEnd::Source, new);
            prop_assert_eq!(&packet.bytes()[14..], &ip(protocol, new, destination, &payload)[..]);
            let view = PacketView::of(&packet.bytes()[14..]).unwrap();
            rewrite(&mut packet, &view, PacketEnd::Source, source);
            prop_assert_eq!(&packet.bytes()[14..], &original[..], "there and back");
            pool.give(packet);
        }

        #[test]
        fn completed_partial_checksum_is_correct(
            (protocol, source, destination, new) in ends(),
            payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            prop_assume!(protocol != protocol::ICMP);
            let mut pool = Pool::new(Region::new(2));
            let whole = ip(protocol, source, destination, &payload);
            let mut bytes = whole.clone();
            let length = (bytes.len() - 20) as u16;
            let pseudo = checksum::Sum::new().pseudo4(source.address.into(), destination.address.into(), protocol, length);
            set_word(&mut bytes[20..], checksum_at(protocol), pseudo.folded());
            let mut packet = packet(&mut pool, &bytes);
            let partial = PartialChecksum { start: 34, offset: checksum_at(protocol) as u16 };
            let offload = Offload { segmentation: Segmentation::None, size: 0, checksum: Some(partial) };
            prop_assert!(packet.set_offload(offload));
            let view = PacketView::of(&packet.bytes()[14..]).unwrap();
            rewrite(&mut packet, &view, PacketEnd::Source, new);
            prop_assert!(packet::wire::offload::complete(packet.bytes_mut(), partial));
            let expected = ip(protocol, new, destination, &payload);
            prop_assert_eq!(sum_of(&packet.bytes()[14..]), sum_of(&expected));
            // A TCP checksum of zero has two forms, and both are valid.
            let (made, meant) = (word(&packet.bytes()[34..], checksum_at(protocol)), sum_of(&expected));
            prop_assert!(made == meant || made | meant == 0xffff && made & meant == 0, "{made:x} {meant:x}");
            pool.give(packet);
        }

        #[test]
        fn icmp_error_quotes_the_packet_with_its_original_end(
            (protocol, source, destination, new) in ends(),
            payload in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut pool = Pool::new(Region::new(2));
            let error = |inner: &[u8]| {
                let mut bytes = ip(protocol::ICMP, NatEndpoint::new(0x0101_0101, 1), NatEndpoint::new(0x0202_0202, 0), inner);
                (bytes[20], bytes[21]) = (icmp4::UNREACHABLE, 3);
                set_word(&mut bytes, 24, 0);
                let sum = sum_of(&bytes);
                set_word(&mut bytes, 22, sum);
                bytes
            };
            let mut packet = packet(&mut pool, &error(&ip(protocol, source, destination, &payload)));
            let view = PacketView::of(&packet.bytes()[14..]).unwrap();
            let Form::Error(quoted) = view.form else { panic!("{view:?}") };
            prop_assert_eq!((quoted.protocol, quoted.source, quoted.destination), (protocol, source, destination));
            rewrite_quoted(&mut packet, &view, &quoted, PacketEnd::Source, new);
            let expected = error(&ip(protocol, new, destination, &payload));
            prop_assert_eq!(sum_of(&packet.bytes()[14..]), word(&packet.bytes()[14..], 22));
            prop_assert_eq!(&packet.bytes()[14 + 28..], &expected[28..]);
            pool.give(packet);
        }

        #[test]
        fn arbitrary_bytes_never_panic_parser_or_rewrite(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut pool = Pool::new(Region::new(2));
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = 0x45;
            }
            if bytes.len() > 20 {
                let length = bytes.len() as u16;
                set_word(&mut bytes, 2, length);
                set_word(&mut bytes, 6, 0);
                bytes[9] = [1, 6, 17][usize::from(bytes[9]) % 3];
            }
            let mut packet = packet(&mut pool, &bytes);
            if let Some(view) = PacketView::of(&packet.bytes()[14..]) {
                rewrite(&mut packet, &view, PacketEnd::Destination, NatEndpoint::new(1, 2));
                if let Form::Error(quoted) = view.form {
                    rewrite_quoted(&mut packet, &view, &quoted, PacketEnd::Source, NatEndpoint::new(1, 2));
                }
            }
            prop_assert_eq!(packet.len(), bytes.len() + 14);
            pool.give(packet);
        }
    }
}
