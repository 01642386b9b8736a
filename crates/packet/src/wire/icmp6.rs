//! ICMP for IPv6 (RFC 4443): parsing messages, echo replies in place, building errors. Neighbour discovery is in `ndp`.

use super::icmp4::{Echo, EchoRefused, IcmpError, set_kind};
use super::ipv6::{self, Ipv6Header, MINIMUM_MTU};
use super::{Ipv6, Ipv6Spec, checksum, protocol};
use checksum::Sum;
use std::net::Ipv6Addr;

/// Bytes before the data of a message.
pub const HEADER: usize = 8;

/// Type of destination unreachable.
pub const UNREACHABLE: u8 = 1;
/// Type of packet too big.
pub const PACKET_TOO_BIG: u8 = 2;
/// Type of time exceeded.
pub const TIME_EXCEEDED: u8 = 3;
/// Type of a parameter problem.
pub const PARAMETER_PROBLEM: u8 = 4;
/// The lowest type that is not an error (RFC 4443 2.1).
pub const FIRST_INFORMATIONAL: u8 = 128;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type of a router solicitation (RFC 4861).
pub const ROUTER_SOLICITATION: u8 = 133;
/// Type of a router advertisement (RFC 4861).
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// Type of a neighbour solicitation (RFC 4861).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type of a neighbour advertisement (RFC 4861).
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type of a redirect (RFC 4861).
pub const REDIRECT: u8 = 137;

/// An ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp6<'a> {
    /// The quoted packet could not be delivered.
    Unreachable {
        /// The code (RFC 4443 3.1).
        code: u8,
        /// The start of the quoted packet ([`Ipv6::parse_quoted`]).
        original: &'a [u8],
    },
    /// The quoted packet exceeds the next link's MTU.
    PacketTooBig {
        /// Next-hop MTU in bytes.
        mtu: u32,
        /// The start of the quoted packet.
        original: &'a [u8],
    },
    /// The hop limit expired (code 0), or reassembly timed out (code 1).
    TimeExceeded {
        /// The code.
        code: u8,
        /// The start of the quoted packet.
        original: &'a [u8],
    },
    /// A header of the quoted packet is malformed.
    ParameterProblem {
        /// 0: erroneous field, 1: unrecognised next header, 2: unrecognised option.
        code: u8,
        /// Offset of the invalid byte.
        pointer: u32,
        /// The start of the quoted packet.
        original: &'a [u8],
    },
    /// Echo request.
    EchoRequest(Echo<'a>),
    /// Echo reply.
    EchoReply(Echo<'a>),
    /// Neighbour discovery, types 133 to 137; [`super::Ndp::parse`] parses it.
    Discovery {
        /// Its type.
        kind: u8,
    },
    /// Another type.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
        /// The bytes after the checksum.
        body: &'a [u8],
    },
}

impl<'a> Icmp6<'a> {
    /// Parses a message, the upper layer of the whole packet with header `ip`, and verifies its checksum.
    pub fn parse(ip: &Ipv6Header, message: &'a [u8]) -> Result<Self, IcmpError> {
        let parsed = Self::parse_without_checksum(message)?;
        if checksum_ok(ip.source(), ip.destination(), message) { Ok(parsed) } else { Err(IcmpError::Checksum) }
    }

    /// [`Icmp6::parse`] without the checksum, for quoted and truncated messages.
    pub fn parse_without_checksum(message: &'a [u8]) -> Result<Self, IcmpError> {
        let (&[kind, code, _, _, a, b, c, d], rest) = message.split_first_chunk().ok_or(IcmpError::Truncated)?;
        let word = u32::from_be_bytes([a, b, c, d]);
        let echo = Echo { identifier: u16::from_be_bytes([a, b]), sequence: u16::from_be_bytes([c, d]), data: rest };
        Ok(match kind {
            UNREACHABLE => Self::Unreachable { code, original: rest },
            PACKET_TOO_BIG => Self::PacketTooBig { mtu: word, original: rest },
            TIME_EXCEEDED => Self::TimeExceeded { code, original: rest },
            PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: word, original: rest },
            ECHO_REQUEST => Self::EchoRequest(echo),
            ECHO_REPLY => Self::EchoReply(echo),
            ROUTER_SOLICITATION..=REDIRECT => Self::Discovery { kind },
            _ => Self::Other { kind, code, body: &message[4..] },
        })
    }
}

/// True if the checksum of a message between these addresses is correct (RFC 4443 2.3).
pub fn checksum_ok(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> bool {
    sum(source, destination, message) == 0xffff
}

fn sum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    Sum::new().pseudo6(source, destination, protocol::ICMPV6, length).bytes(message).folded()
}

/// Sets the checksum of a message.
pub(super) fn seal(source: Ipv6Addr, destination: Ipv6Addr, message: &mut [u8]) {
    if let Some(field) = message.get_mut(2..4) {
        field.fill(0);
    }
    let checksum = !sum(source, destination, message);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Turns the echo request at the start of `l3` into its reply (RFC 4443 4.2) and returns the reply's length. The bytes after it are padding.
///
/// `source` is the address that answers: the requested one, or one of the interface if a group was asked. Extension headers are removed. The traffic
/// class stays, the flow label is cleared. Nothing is changed if the request is refused.
pub fn reply_to_echo(l3: &mut [u8], source: Ipv6Addr, hop_limit: u8) -> Result<usize, EchoRefused> {
    let packet = Ipv6::parse(l3).map_err(|_| EchoRefused::Malformed)?;
    let (asker, asked) = (packet.header.source(), packet.header.destination());
    let chain = packet.chain().map_err(|_| EchoRefused::Malformed)?;
    let (protocol::ICMPV6, Some(at), false) = (chain.protocol, chain.offset, chain.is_fragment()) else {
        return Err(EchoRefused::NotARequest);
    };
    if chain.routing.is_some_and(|routing| routing.segments_left != 0) {
        return Err(EchoRefused::SourceRouted);
    }
    let end = packet.bytes.len();
    let message = packet.bytes.get(at..).ok_or(EchoRefused::Malformed)?;
    if !matches!(Icmp6::parse(packet.header, message).map_err(EchoRefused::Icmp)?, Icmp6::EchoRequest(_)) {
        return Err(EchoRefused::NotARequest);
    }
    if !ipv6::is_unicast_source(asker) {
        return Err(EchoRefused::SourceNotUnicast);
    }
    let length = u16::try_from(message.len()).map_err(|_| EchoRefused::Malformed)?;
    l3.copy_within(at..end, ipv6::HEADER);
    let header = Ipv6Header::of_mut(l3).ok_or(EchoRefused::Malformed)?;
    header.set_next_header(protocol::ICMPV6);
    header.set_payload_length(length);
    header.set_hop_limit(hop_limit);
    header.set_flow_label(0);
    header.set_source(source);
    header.set_destination(asker);
    let end = ipv6::HEADER + usize::from(length);
    let message = l3.get_mut(ipv6::HEADER..end).ok_or(EchoRefused::Malformed)?;
    set_kind(message, ECHO_REPLY);
    // The pseudo-header sums both addresses, so swapping them changes nothing; only a different answering address does.
    if source != asked
        && let Some(field) = message.get_mut(2..4)
    {
        let old = u16::from_be_bytes([field[0], field[1]]);
        field.copy_from_slice(&checksum::update_address6(old, asked, source).to_be_bytes());
    }
    Ok(end)
}

/// An error that a router sends about a packet (RFC 4443 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error6 {
    /// No route.
    NoRoute,
    /// Administratively prohibited.
    AdminProhibited,
    /// The scope of the source address does not include the destination.
    BeyondScope,
    /// The neighbour does not answer.
    AddressUnreachable,
    /// No process listens on the port.
    PortUnreachable,
    /// The source address failed an ingress or egress policy.
    PolicyFailed,
    /// The route rejects the packet.
    RejectRoute,
    /// The packet exceeds the next link's MTU.
    PacketTooBig {
        /// Next-hop MTU in bytes.
        mtu: u32,
    },
    /// The hop limit expired.
    HopLimitExceeded,
    /// Reassembly timed out.
    ReassemblyTimeExceeded,
    /// A header field is invalid.
    ErroneousField {
        /// Offset of the byte from the start of the packet.
        pointer: u32,
    },
    /// A next header is unknown.
    UnrecognizedNextHeader {
        /// Offset of the field that names it.
        pointer: u32,
    },
    /// An unknown option asks for this report.
    UnrecognizedOption {
        /// Offset of its type byte.
        pointer: u32,
    },
    /// A first fragment ends before the end of its headers (RFC 7112 5).
    IncompleteHeaders,
}

impl Error6 {
    /// Type, code, and the word after the checksum.
    pub fn fields(self) -> (u8, u8, u32) {
        match self {
            Self::NoRoute => (UNREACHABLE, 0, 0),
            Self::AdminProhibited => (UNREACHABLE, 1, 0),
            Self::BeyondScope => (UNREACHABLE, 2, 0),
            Self::AddressUnreachable => (UNREACHABLE, 3, 0),
            Self::PortUnreachable => (UNREACHABLE, 4, 0),
            Self::PolicyFailed => (UNREACHABLE, 5, 0),
            Self::RejectRoute => (UNREACHABLE, 6, 0),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu),
            Self::HopLimitExceeded => (TIME_EXCEEDED, 0, 0),
            Self::ReassemblyTimeExceeded => (TIME_EXCEEDED, 1, 0),
            Self::ErroneousField { pointer } => (PARAMETER_PROBLEM, 0, pointer),
            Self::UnrecognizedNextHeader { pointer } => (PARAMETER_PROBLEM, 1, pointer),
            Self::UnrecognizedOption { pointer } => (PARAMETER_PROBLEM, 2, pointer),
            Self::IncompleteHeaders => (PARAMETER_PROBLEM, 3, 0),
        }
    }

    /// Writes the error packet to the source of `original`: IPv6 header, ICMPv6 header, and as much of the original as fits into 1280 bytes (RFC 4443
    /// 2.4(c)). Returns its length, `None` if `buffer` is too short.
    ///
    /// `source` is an address of the egress interface. The caller checks [`super::may_answer_with_error6`] first.
    pub fn write(self, buffer: &mut [u8], original: &Ipv6<'_>, source: Ipv6Addr, hop_limit: u8) -> Option<usize> {
        let quote = &original.bytes[..original.bytes.len().min(MINIMUM_MTU - ipv6::HEADER - HEADER)];
        let destination = original.header.source();
        let (kind, code, word) = self.fields();
        let [a, b, c, d] = word.to_be_bytes();
        write_packet(buffer, hop_limit, source, destination, |message| {
            message.put(&[kind, code, 0, 0, a, b, c, d])?;
            message.put(quote)
        })
    }
}

/// Writes an IPv6 packet whose ICMPv6 message `fill` writes, including its checksum. `None` if it does not fit.
pub(super) fn write_packet(
    buffer: &mut [u8],
    hop_limit: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    fill: impl FnOnce(&mut super::cursor::Cursor<'_>) -> Option<()>,
) -> Option<usize> {
    let mut message = super::cursor::Cursor::new(buffer, ipv6::HEADER);
    fill(&mut message)?;
    let end = message.position();
    let spec =
        Ipv6Spec { traffic_class: 0, flow_label: 0, next_header: protocol::ICMPV6, hop_limit, source, destination };
    spec.write(buffer, end - ipv6::HEADER)?;
    seal(source, destination, buffer.get_mut(ipv6::HEADER..end)?);
    Some(end)
}

/// Writes an echo request or reply between two addresses, including the IPv6 header, and returns its length, `None` if it does not fit.
pub fn write_echo(
    buffer: &mut [u8],
    kind: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
    echo: &Echo<'_>,
) -> Option<usize> {
    let [a, b] = echo.identifier.to_be_bytes();
    let [c, d] = echo.sequence.to_be_bytes();
    write_packet(buffer, hop_limit, source, destination, |message| {
        message.put(&[kind, 0, 0, 0, a, b, c, d])?;
        message.put(echo.data)
    })
}
