//! Finds the part in an IP packet (spec E-16, E-18).

use super::part::{ERROR, set_error};
use packet::wire::ipv4_options::{self, Ipv4Option};
use packet::wire::{Ipv4, Ipv4Header, Ipv6, Ipv6Header, checksum, ipv4, ipv6, protocol, transport};
use std::hint::cold_path;
use std::ops::Range;

/// The header of an IPv4 option: type and length.
pub(super) const OPTION_HEADER: usize = 2;
/// The offset of the checksum in an IPv4 header.
const IPV4_CHECKSUM: usize = 10;

/// The carriage of a part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Carriage {
    /// A dedicated or piggybacked IP packet, by its protocol number.
    Protocol,
    /// A UDP datagram, by its destination port.
    Udp,
    /// An option in the header of an IPv4 packet that carries other data.
    Option,
}

/// The numbers by which routers recognise parts. A packet with none of them is an ordinary packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carriages {
    /// The protocol of IPv4, and next header of IPv6.
    pub protocol: u8,
    /// The UDP port; `None` if datagrams carry no parts.
    pub port: Option<u16>,
    /// The type of the IPv4 option; `None` if options carry no parts.
    pub option: Option<u8>,
}

impl Carriages {
    /// The protocol number for experiments (RFC 3692 3.1).
    pub const PROTOCOL: u8 = 253;
    /// The default UDP port.
    pub const PORT: u16 = 5937;
    /// The option for experiments that is copied into fragments (RFC 4727 3).
    pub const OPTION: u8 = 158;
    /// The defaults.
    pub const DEFAULT: Carriages =
        Carriages { protocol: Carriages::PROTOCOL, port: Some(Carriages::PORT), option: Some(Carriages::OPTION) };
}

impl Default for Carriages {
    fn default() -> Carriages {
        Carriages::DEFAULT
    }
}

impl Carriages {
    /// The range of an IP packet from the start of its part to the end of the packet, and the carriage.
    ///
    /// A first fragment is searched, and its part used if it is complete. Later fragments have no part.
    #[inline(always)]
    pub fn find(&self, l3: &[u8]) -> Option<(Range<usize>, Carriage)> {
        // The common case: IPv4 without options.
        if let Some(header) = Ipv4Header::of(l3)
            && (header.version(), header.header_length()) == (4, ipv4::HEADER)
        {
            let end = header.total_length().min(l3.len());
            if !header.is_first() {
                return None;
            }
            if header.protocol() == self.protocol && end >= ipv4::HEADER {
                return Some((ipv4::HEADER..end, Carriage::Protocol));
            }
            cold_path();
            return self.find_in_payload(header.protocol(), l3, ipv4::HEADER..end);
        }
        self.find_slowly(l3)
    }

    #[inline(never)]
    fn find_slowly(&self, l3: &[u8]) -> Option<(Range<usize>, Carriage)> {
        match l3.first()? >> 4 {
            4 => {
                let packet = Ipv4::parse_without_checksum(l3).ok()?;
                if !packet.header.is_first() {
                    return None;
                }
                if let Some(option) = self.option(&packet) {
                    return Some((option, Carriage::Option));
                }
                let upper = packet.header_length()..packet.bytes.len();
                self.find_in_payload(packet.header.protocol(), l3, upper)
            }
            6 => {
                // Without a full parse: the rest of a replicated packet is in another frame.
                let header = Ipv6Header::of(l3)?;
                let next = header.next_header();
                if next == self.protocol || next == protocol::UDP {
                    let end = (ipv6::HEADER + header.payload_length()).min(l3.len());
                    return self.find_in_payload(next, l3, ipv6::HEADER..end);
                }
                let packet = Ipv6::parse(l3).ok()?;
                let chain = packet.chain().ok()?;
                self.find_in_payload(chain.protocol, l3, chain.offset?..packet.bytes.len())
            }
            _ => None,
        }
    }

    /// The range of the part in an IPv4 option. The option must start at an even offset, so that a rewrite of the part leaves the header checksum
    /// valid.
    pub(super) fn option(&self, packet: &Ipv4<'_>) -> Option<Range<usize>> {
        let wanted = self.option?;
        let placed = ipv4_options::options(packet.options).map_while(Result::ok);
        let option = placed.into_iter().find(|placed| match placed.option {
            Ipv4Option::Unknown { kind, .. } => kind == wanted && placed.offset.is_multiple_of(2),
            _ => false,
        })?;
        let at = usize::from(option.offset);
        Some(at + OPTION_HEADER..at + usize::from(option.length))
    }

    /// The same for the payload of an IP packet.
    #[inline(always)]
    fn find_in_payload(&self, protocol: u8, l3: &[u8], upper: Range<usize>) -> Option<(Range<usize>, Carriage)> {
        if protocol == self.protocol {
            return (upper.start <= upper.end).then_some((upper, Carriage::Protocol));
        }
        if protocol != protocol::UDP {
            return None;
        }
        let port = l3.get(upper.start + 2..upper.end)?.first_chunk::<2>()?;
        let inner = upper.start + transport::UDP_HEADER..upper.end;
        (Some(u16::from_be_bytes(*port)) == self.port && inner.start <= inner.end).then_some((inner, Carriage::Udp))
    }
}

/// Sets the error bit of the part at offset `at` of a packet (spec E-06); a bare part has offset 0. Keeps the enclosing checksum valid. If the part's
/// own checksum cannot be located, updates the enclosing one instead (RFC 1624).
#[cold]
pub fn set_error_in(l3: &mut [u8], at: usize) {
    let (around, end) = enclosing_checksum(l3, at);
    let Some(part) = l3.get_mut(at..end) else { return };
    // With its own checksum updated, the sum over the part is unchanged, and so is the enclosing checksum.
    if set_error(part) {
        return;
    }
    let Some(&before) = part.first() else { return };
    let word = |first: u8| u16::from_be_bytes([first, 0]);
    part[0] = before | ERROR;
    let sum = around.and_then(|(at, update)| Some((l3.get_mut(at..)?.first_chunk_mut::<2>()?, update)));
    if let Some((sum, update)) = sum {
        *sum = update(u16::from_be_bytes(*sum), word(before), word(before | ERROR)).to_be_bytes();
    }
}

/// Updates a checksum for a word that changes from the second argument to the third.
type Update = fn(u16, u16, u16) -> u16;

/// The enclosing checksum with its update rule, and the end of the carriage.
fn enclosing_checksum(l3: &[u8], at: usize) -> (Option<(usize, Update)>, usize) {
    let udp = |protocol: u8, offset: usize| -> Option<(usize, Update)> {
        (protocol == protocol::UDP && offset + transport::UDP_HEADER == at)
            .then(|| (at - 2, checksum::update_udp as Update))
    };
    if at < ipv4::HEADER {
        return (None, l3.len());
    }
    if let Some(header) = Ipv4Header::of(l3)
        && header.version() == 4
    {
        let length = header.header_length();
        if at < length {
            let end = l3.get(at - 1).map_or(0, |&option| at - OPTION_HEADER + usize::from(option));
            return (Some((IPV4_CHECKSUM, checksum::update)), end.min(length));
        }
        return (udp(header.protocol(), length), header.total_length().min(l3.len()));
    }
    let Some(header) = Ipv6Header::of(l3) else { return (None, l3.len()) };
    let end = (ipv6::HEADER + header.payload_length()).min(l3.len());
    let sum = udp(header.next_header(), ipv6::HEADER).or_else(|| {
        let chain = Ipv6::parse(l3).ok()?.chain().ok()?;
        udp(chain.protocol, chain.offset?)
    });
    (sum, end)
}
