//! ICMP for IPv4 (RFC 792, 1122, 1812, 1191): parsing messages, echo replies in place, building errors.

use super::ipv4::{self, Ipv4Header};
use super::ipv4_options::{self, Ipv4Option};
use super::{Ipv4, Ipv4Error, Ipv4Spec, checksum, protocol};
use std::fmt;
use std::net::Ipv4Addr;

/// Bytes before the data of a message.
pub const HEADER: usize = 8;
/// Longest error packet, IP header included (RFC 1812 4.3.2.3).
pub const LONGEST_ERROR: usize = 576;

/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of destination unreachable.
pub const UNREACHABLE: u8 = 3;
/// Type of the deprecated source quench (RFC 6633).
pub const SOURCE_QUENCH: u8 = 4;
/// Type of a redirect.
pub const REDIRECT: u8 = 5;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;
/// Type of time exceeded.
pub const TIME_EXCEEDED: u8 = 11;
/// Type of a parameter problem.
pub const PARAMETER_PROBLEM: u8 = 12;

/// Code of destination unreachable: fragmentation needed and don't-fragment set.
pub const FRAGMENTATION_NEEDED: u8 = 4;

/// True if a type is known to be a query or reply and not an error: echo, timestamp, information and address mask. Only these may be answered with an
/// error. Router discovery (RFC 1256) stays on its link and is excluded.
pub const fn is_query(kind: u8) -> bool {
    matches!(kind, ECHO_REPLY | ECHO_REQUEST | 13..=18)
}

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Icmp4<'a> {
    /// Echo request.
    EchoRequest(Echo<'a>),
    /// Echo reply.
    EchoReply(Echo<'a>),
    /// The quoted packet could not be delivered.
    Unreachable {
        /// The code (RFC 1812 5.2.7.1).
        code: u8,
        /// Next-hop MTU in bytes when `code` is [`FRAGMENTATION_NEEDED`]; 0 from routers older than RFC 1191.
        mtu: u16,
        /// The start of the quoted packet ([`Ipv4::parse_quoted`]).
        original: &'a [u8],
    },
    /// The time to live expired (code 0), or reassembly timed out (code 1).
    TimeExceeded {
        /// The code.
        code: u8,
        /// The start of the quoted packet.
        original: &'a [u8],
    },
    /// A header of the quoted packet is malformed.
    ParameterProblem {
        /// 0: `pointer` is valid; 1: a required option is missing.
        code: u8,
        /// Offset of the malformed byte.
        pointer: u8,
        /// The start of the quoted packet.
        original: &'a [u8],
    },
    /// There is a better first hop for the quoted packet.
    Redirect {
        /// 0: for the network, 1: for the host; 2 and 3: the same for its type of service.
        code: u8,
        /// The better first hop.
        gateway: Ipv4Addr,
        /// The start of the quoted packet.
        original: &'a [u8],
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

/// The contents of echo requests and replies of both families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Identifies the sender.
    pub identifier: u16,
    /// Numbers the requests.
    pub sequence: u16,
    /// Returned unchanged in the reply.
    pub data: &'a [u8],
}

/// The reason why bytes are not an ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// Shorter than a message of its type.
    Truncated,
    /// The checksum is wrong.
    Checksum,
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "ICMP message truncated",
            Self::Checksum => "ICMP checksum wrong",
        })
    }
}

impl std::error::Error for IcmpError {}

impl<'a> Icmp4<'a> {
    /// Parses a message, the payload of a whole packet (not of a fragment), and verifies its checksum.
    pub fn parse(message: &'a [u8]) -> Result<Self, IcmpError> {
        let parsed = Self::parse_without_checksum(message)?;
        if checksum::sum(message) == 0xffff { Ok(parsed) } else { Err(IcmpError::Checksum) }
    }

    /// [`Icmp4::parse`] without the checksum, for quoted and truncated messages.
    pub fn parse_without_checksum(message: &'a [u8]) -> Result<Self, IcmpError> {
        let (&[kind, code, _, _, a, b, c, d], rest) = message.split_first_chunk().ok_or(IcmpError::Truncated)?;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let echo = Echo { identifier: high, sequence: low, data: rest };
        Ok(match kind {
            ECHO_REPLY => Self::EchoReply(echo),
            ECHO_REQUEST => Self::EchoRequest(echo),
            UNREACHABLE => Self::Unreachable { code, mtu: low, original: rest },
            TIME_EXCEEDED => Self::TimeExceeded { code, original: rest },
            PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: a, original: rest },
            REDIRECT => Self::Redirect { code, gateway: [a, b, c, d].into(), original: rest },
            _ => Self::Other { kind, code, body: &message[4..] },
        })
    }
}

/// The reason why an echo request is not answered, for ICMP and ICMPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EchoRefused {
    /// The IP header or an extension header is malformed.
    Malformed,
    /// The message is truncated, or its checksum is wrong.
    Icmp(IcmpError),
    /// Not an echo request, or a fragment of one.
    NotARequest,
    /// It arrived by a source route, which a reply in place cannot reverse (RFC 1122 3.2.2.6).
    SourceRouted,
    /// Its source is not a unicast address.
    SourceNotUnicast,
    /// It was sent to a multicast or broadcast address (RFC 1122 3.2.2.6 permits to discard such requests).
    NotToOneHost,
}

impl fmt::Display for EchoRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("IP header malformed"),
            Self::Icmp(error) => error.fmt(f),
            Self::NotARequest => f.write_str("not an echo request"),
            Self::SourceRouted => f.write_str("echo request by a source route"),
            Self::SourceNotUnicast => f.write_str("echo request from no single host"),
            Self::NotToOneHost => f.write_str("echo request to a group"),
        }
    }
}

impl std::error::Error for EchoRefused {}

impl From<Ipv4Error> for EchoRefused {
    fn from(_: Ipv4Error) -> Self {
        Self::Malformed
    }
}

/// Turns the echo request at the start of `l3` into its reply (RFC 1122 3.2.2.6) and returns the reply's length. The bytes after it are padding.
///
/// Addresses are swapped, and both checksums are updated incrementally. Type of service and options (except source routes) stay; don't-fragment is
/// cleared. Nothing is changed if the request is refused.
pub fn reply_to_echo(l3: &mut [u8], ttl: u8, identification: u16) -> Result<usize, EchoRefused> {
    let packet = Ipv4::parse(l3)?;
    let (source, destination) = (packet.header.source(), packet.header.destination());
    if packet.header.protocol() != protocol::ICMP || packet.header.is_fragment() {
        return Err(EchoRefused::NotARequest);
    }
    if !matches!(Icmp4::parse(packet.payload).map_err(EchoRefused::Icmp)?, Icmp4::EchoRequest(_)) {
        return Err(EchoRefused::NotARequest);
    }
    for placed in ipv4_options::options(packet.options) {
        let option = placed.map_err(|_| EchoRefused::Malformed)?.option;
        if matches!(option, Ipv4Option::LooseSourceRoute { .. } | Ipv4Option::StrictSourceRoute { .. }) {
            return Err(EchoRefused::SourceRouted);
        }
    }
    if !ipv4::is_unicast_source(source) {
        return Err(EchoRefused::SourceNotUnicast);
    }
    if destination.is_multicast() || destination.is_broadcast() {
        return Err(EchoRefused::NotToOneHost);
    }
    let (length, at) = (packet.bytes.len(), packet.header_length());
    let header = Ipv4Header::of_mut(l3).ok_or(EchoRefused::Malformed)?;
    header.set_source(destination);
    header.set_destination(source);
    header.set_ttl(ttl);
    header.set_identification(identification);
    header.set_fragment(false, false, 0);
    set_kind(l3.get_mut(at..).ok_or(EchoRefused::Malformed)?, ECHO_REPLY);
    Ok(length)
}

/// Changes the type of a message and updates its checksum.
pub(super) fn set_kind(message: &mut [u8], kind: u8) {
    if let Some([old, code, sum @ ..]) = message.first_chunk_mut::<4>() {
        let before = u16::from_be_bytes([*old, *code]);
        *old = kind;
        *sum = checksum::update(u16::from_be_bytes(*sum), before, u16::from_be_bytes([kind, *code])).to_be_bytes();
    }
}

/// An error that a router sends about a packet (RFC 1812 4.3.3 and 5.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Error4 {
    /// No route.
    NetUnreachable,
    /// The network is directly connected, but the host does not answer.
    HostUnreachable,
    /// The host does not support the protocol.
    ProtocolUnreachable,
    /// No process listens on the port.
    PortUnreachable,
    /// The packet exceeds the next hop's MTU and must not be fragmented (RFC 1191).
    FragmentationNeeded {
        /// Next-hop MTU in bytes.
        mtu: u16,
    },
    /// A source route cannot be followed.
    SourceRouteFailed,
    /// Administratively prohibited: the network.
    NetProhibited,
    /// Administratively prohibited: the host.
    HostProhibited,
    /// Administratively prohibited by a filter (RFC 1812 5.2.7.1 code 13).
    CommunicationProhibited,
    /// The time to live expired.
    TimeExceeded,
    /// Reassembly timed out.
    ReassemblyTimeExceeded,
    /// A byte of the header is invalid.
    ParameterProblem {
        /// Offset of the byte from the start of the header.
        pointer: u8,
    },
    /// There is a better first hop for this destination.
    RedirectHost {
        /// The better first hop.
        gateway: Ipv4Addr,
    },
}

impl Error4 {
    /// Type, code, and the four bytes after the checksum.
    pub fn fields(self) -> (u8, u8, [u8; 4]) {
        const NONE: [u8; 4] = [0; 4];
        match self {
            Self::NetUnreachable => (UNREACHABLE, 0, NONE),
            Self::HostUnreachable => (UNREACHABLE, 1, NONE),
            Self::ProtocolUnreachable => (UNREACHABLE, 2, NONE),
            Self::PortUnreachable => (UNREACHABLE, 3, NONE),
            Self::FragmentationNeeded { mtu } => (UNREACHABLE, FRAGMENTATION_NEEDED, u32::from(mtu).to_be_bytes()),
            Self::SourceRouteFailed => (UNREACHABLE, 5, NONE),
            Self::NetProhibited => (UNREACHABLE, 9, NONE),
            Self::HostProhibited => (UNREACHABLE, 10, NONE),
            Self::CommunicationProhibited => (UNREACHABLE, 13, NONE),
            Self::TimeExceeded => (TIME_EXCEEDED, 0, NONE),
            Self::ReassemblyTimeExceeded => (TIME_EXCEEDED, 1, NONE),
            Self::ParameterProblem { pointer } => (PARAMETER_PROBLEM, 0, [pointer, 0, 0, 0]),
            Self::RedirectHost { gateway } => (REDIRECT, 1, gateway.octets()),
        }
    }

    /// Writes the error packet to the source of `original`: IPv4 header, ICMP header, and as much of the original as fits into 576 bytes (RFC 1812
    /// 4.3.2.3). Returns its length, `None` if `buffer` is too short.
    ///
    /// `source` is the address of the egress interface. Precedence is 6, and the type of service is the original's (RFC 1812 4.3.2.5). The caller
    /// checks [`super::may_answer_with_error4`] first.
    pub fn write(
        self,
        buffer: &mut [u8],
        original: &Ipv4<'_>,
        source: Ipv4Addr,
        ttl: u8,
        identification: u16,
    ) -> Option<usize> {
        const PRECEDENCE: u8 = 6 << 5;
        const TYPE_OF_SERVICE: u8 = 0x1e;
        let quote = &original.bytes[..original.bytes.len().min(LONGEST_ERROR - ipv4::HEADER - HEADER)];
        let spec = Ipv4Spec {
            type_of_service: PRECEDENCE | original.header.type_of_service() & TYPE_OF_SERVICE,
            identification,
            dont_fragment: false,
            ttl,
            protocol: protocol::ICMP,
            source,
            destination: original.header.source(),
        };
        let length = ipv4::HEADER + HEADER + quote.len();
        let packet = buffer.get_mut(..length)?;
        let at = spec.write(packet, HEADER + quote.len())?;
        write_message(packet.get_mut(at..)?, self.fields(), quote)?;
        Some(length)
    }
}

/// Writes a message that fills `message`, including its checksum.
fn write_message(message: &mut [u8], (kind, code, rest): (u8, u8, [u8; 4]), body: &[u8]) -> Option<()> {
    let [a, b, c, d] = rest;
    let (header, data) = message.split_first_chunk_mut::<HEADER>()?;
    *header = [kind, code, 0, 0, a, b, c, d];
    data.get_mut(..body.len())?.copy_from_slice(body);
    let sum = checksum::checksum(message);
    message.get_mut(2..4)?.copy_from_slice(&sum.to_be_bytes());
    Some(())
}

/// Writes an echo request or reply to `buffer` and returns its length, `None` if it does not fit.
pub fn write_echo(buffer: &mut [u8], kind: u8, echo: &Echo<'_>) -> Option<usize> {
    let length = HEADER + echo.data.len();
    let [a, b] = echo.identifier.to_be_bytes();
    let [c, d] = echo.sequence.to_be_bytes();
    write_message(buffer.get_mut(..length)?, (kind, 0, [a, b, c, d]), echo.data)?;
    Some(length)
}
