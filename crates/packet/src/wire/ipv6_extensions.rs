//! The chain of IPv6 extension headers (RFC 8200 4): the offset of the upper layer, and the headers before it that concern a router.
//!
//! Offsets count from the start of the IPv6 header, like the pointer of an ICMPv6 parameter problem.

use super::protocol;
use super::{Ipv6, ipv6};
use std::fmt;

/// The maximum number of extension headers: more than twice the kinds of RFC 8200 4.1, few enough to bound the work that an attacker can cause (RFC
/// 8504 5.3 asks for a limit).
pub const LONGEST_CHAIN: usize = 16;

/// A fragment header (RFC 8200 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// The offset of the header.
    pub at: usize,
    /// Offset of this fragment's payload in the fragmentable part, in bytes.
    pub offset: usize,
    /// True if more fragments follow.
    pub more: bool,
    /// The identification, which is equal in all fragments of a packet.
    pub identification: u32,
}

/// A routing header (RFC 8200 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// The offset of the header.
    pub at: usize,
    /// The routing type. Type 0 is deprecated and must be treated as unrecognised (RFC 5095).
    pub kind: u8,
    /// Addresses still to be visited.
    pub segments_left: u8,
}

/// The headers between the fixed header and the upper layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol after the last extension header, in a fragment that of the whole packet.
    pub protocol: u8,
    /// The offset of the upper layer, `None` in later fragments, which have none. Never beyond the packet.
    pub offset: Option<usize>,
    /// The offset of the next-header field that names it.
    pub named_at: usize,
    /// True if there are hop-by-hop options. They begin at offset 40.
    pub hop_by_hop: bool,
    /// The last routing header, or the first deprecated one ([`Chain::deprecated_routing`]).
    pub routing: Option<Routing>,
    /// The fragment header.
    pub fragment: Option<Fragment>,
}

/// The reason why the chain cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainError {
    /// A header extends beyond the packet.
    Truncated {
        /// Its offset.
        at: usize,
    },
    /// Hop-by-hop options that do not directly follow the fixed header (RFC 8200 4.1): an unrecognised next header.
    MisplacedHopByHop {
        /// Offset of the next-header field that names them.
        pointer: usize,
    },
    /// More than [`LONGEST_CHAIN`] headers.
    TooLong,
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { at } => write!(f, "IPv6 extension header truncated at byte {at}"),
            Self::MisplacedHopByHop { pointer } => write!(f, "IPv6 hop-by-hop options misplaced, byte {pointer}"),
            Self::TooLong => f.write_str("too many IPv6 extension headers"),
        }
    }
}

impl std::error::Error for ChainError {}

/// Offset of the next-header field in the fixed header.
const NEXT_HEADER_AT: usize = 6;

impl<'a> Ipv6<'a> {
    /// Follows the extension headers to the upper layer.
    #[inline]
    pub fn chain(&self) -> Result<Chain, ChainError> {
        walk(self.bytes, self.header.next_header())
    }

    /// The upper layer: its protocol and bytes. `None` in later fragments.
    pub fn upper(&self) -> Result<Option<(u8, &'a [u8])>, ChainError> {
        let chain = self.chain()?;
        Ok(chain.offset.and_then(|offset| Some((chain.protocol, self.bytes.get(offset..)?))))
    }

    /// The hop-by-hop options, if any, for [`check_hop_by_hop`].
    pub fn hop_by_hop(&self) -> Result<Option<Ipv6Options<'a>>, ChainError> {
        if self.header.next_header() != protocol::HOP_BY_HOP {
            return Ok(None);
        }
        let truncated = ChainError::Truncated { at: ipv6::HEADER };
        let field = *self.payload.get(1).ok_or(truncated)?;
        let rest = self.payload.get(2..header_length(protocol::HOP_BY_HOP, field)).ok_or(truncated)?;
        Ok(Some(Ipv6Options { rest, offset: ipv6::HEADER + 2 }))
    }
}

/// Bytes of an extension header, from its length field.
pub(super) fn header_length(kind: u8, field: u8) -> usize {
    match kind {
        protocol::FRAGMENT => 8,
        protocol::AUTHENTICATION => (usize::from(field) + 2) * 4,
        _ => (usize::from(field) + 1) * 8,
    }
}

fn walk(packet: &[u8], first: u8) -> Result<Chain, ChainError> {
    let mut chain = Chain {
        protocol: first,
        offset: None,
        named_at: NEXT_HEADER_AT,
        hop_by_hop: first == protocol::HOP_BY_HOP,
        routing: None,
        fragment: None,
    };
    let mut at = ipv6::HEADER;
    for _ in 0..=LONGEST_CHAIN {
        match chain.protocol {
            protocol::HOP_BY_HOP if at != ipv6::HEADER => {
                return Err(ChainError::MisplacedHopByHop { pointer: chain.named_at });
            }
            protocol::HOP_BY_HOP
            | protocol::DESTINATION_OPTIONS
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION => {}
            _ => {
                chain.offset = Some(at);
                return Ok(chain);
            }
        }
        // Every extension header has at least eight bytes.
        let truncated = ChainError::Truncated { at };
        let header: &[u8; 8] = packet.get(at..).and_then(<[u8]>::first_chunk).ok_or(truncated)?;
        let length = header_length(chain.protocol, header[1]);
        if length > packet.len() - at {
            return Err(truncated);
        }
        // A later fragment continues the fragmentable part: its bytes are not headers.
        chain.note(at, header);
        (chain.protocol, chain.named_at) = (header[0], at);
        if chain.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return Ok(chain);
        }
        at += length;
    }
    Err(ChainError::TooLong)
}

impl Chain {
    /// Records routing and fragment headers.
    fn note(&mut self, at: usize, header: &[u8; 8]) {
        let [_, _, a, b, i, j, k, l] = *header;
        match self.protocol {
            protocol::ROUTING if self.deprecated_routing().is_none() => {
                self.routing = Some(Routing { at, kind: a, segments_left: b });
            }
            protocol::FRAGMENT => {
                let field = u16::from_be_bytes([a, b]);
                self.fragment = Some(Fragment {
                    at,
                    offset: usize::from(field & 0xfff8),
                    more: field & 1 != 0,
                    identification: u32::from_be_bytes([i, j, k, l]),
                });
            }
            _ => {}
        }
    }

    /// True for a fragment, false for a whole packet. An atomic fragment (RFC 6946) is whole.
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.more || fragment.offset != 0)
    }

    /// The routing header to refuse: type 0 with segments left. RFC 5095 3 asks for a parameter problem with code 0 that points at the routing type.
    pub fn deprecated_routing(&self) -> Option<Routing> {
        self.routing.filter(|routing| routing.kind == 0 && routing.segments_left != 0)
    }
}

/// The treatment of an unknown option, from its two highest bits (RFC 8200 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnknownOption {
    /// Skip it.
    Skip,
    /// Drop the packet.
    Discard,
    /// Drop the packet and report a parameter problem (code 2), even if it was sent to a group.
    Report,
    /// Drop the packet and report a parameter problem (code 2) unless it was sent to a group.
    ReportUnicast,
}

/// A hop-by-hop or destination option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Option<'a> {
    /// Its type.
    pub kind: u8,
    /// Offset of its type byte.
    pub offset: usize,
    /// Its data.
    pub data: &'a [u8],
}

impl Ipv6Option<'_> {
    /// One byte of padding.
    pub const PAD1: u8 = 0;
    /// Several bytes of padding.
    pub const PADN: u8 = 1;
    /// Router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;

    /// The treatment if its type is unknown.
    pub fn if_unknown(&self) -> UnknownOption {
        match self.kind >> 6 {
            0 => UnknownOption::Skip,
            1 => UnknownOption::Discard,
            2 => UnknownOption::Report,
            _ => UnknownOption::ReportUnicast,
        }
    }
}

/// An option extends beyond its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6OptionError {
    /// Offset of the option's type byte.
    pub pointer: usize,
}

impl fmt::Display for Ipv6OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IPv6 option malformed at byte {}", self.pointer)
    }
}

impl std::error::Error for Ipv6OptionError {}

/// Iterator over the options, including padding, up to the end or the first malformed one.
#[derive(Clone, Debug)]
pub struct Ipv6Options<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Ipv6Options<'a> {
    /// The options of a hop-by-hop or destination options header at offset `at` of its packet. None if the header is truncated.
    pub fn of(header: &'a [u8], at: usize) -> Self {
        Ipv6Options { rest: header.get(2..).unwrap_or_default(), offset: at + 2 }
    }
}

impl<'a> Iterator for Ipv6Options<'a> {
    type Item = Result<Ipv6Option<'a>, Ipv6OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, behind) = self.rest.split_first()?;
        let offset = self.offset;
        if kind == Ipv6Option::PAD1 {
            (self.rest, self.offset) = (behind, offset + 1);
            return Some(Ok(Ipv6Option { kind, offset, data: &[] }));
        }
        let Some((data, rest)) =
            behind.split_first().and_then(|(&length, data)| data.split_at_checked(usize::from(length)))
        else {
            self.rest = &[];
            return Some(Err(Ipv6OptionError { pointer: offset }));
        };
        (self.rest, self.offset) = (rest, offset + 2 + data.len());
        Some(Ok(Ipv6Option { kind, offset, data }))
    }
}

/// The requests of a packet's hop-by-hop options to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopByHop {
    /// Forward the packet. `router_alert` is the value of that option, if present.
    Forward {
        /// 0: multicast listener discovery, 1: RSVP, ... (RFC 2711).
        router_alert: Option<u16>,
    },
    /// Drop it silently.
    Discard,
    /// Drop it and report parameter problem code 2 with this pointer.
    Report {
        /// Offset of the unknown option.
        pointer: usize,
        /// True if it must be reported even for a multicast destination.
        even_multicast: bool,
    },
}

/// Checks padding. More than seven bytes in a row, or nonzero padding, serve no purpose but to hide data (RFC 4942 2.1.9.5).
#[derive(Clone, Copy, Debug, Default)]
pub struct Padding {
    bytes: usize,
}

impl Padding {
    /// True if the padding is still valid after this option, the next in order.
    pub fn accepts(&mut self, option: &Ipv6Option<'_>) -> bool {
        self.bytes = match option.kind {
            Ipv6Option::PAD1 => self.bytes + 1,
            Ipv6Option::PADN => self.bytes + 2 + option.data.len(),
            _ => 0,
        };
        self.bytes <= 7 && (self.bytes == 0 || option.data.iter().all(|&byte| byte == 0))
    }
}

/// Processes hop-by-hop options (RFC 8200 4.2, 4.3). Padding and router alert are known; all other options are unknown. Packets with a router alert
/// of another length than two, or with invalid padding, are dropped.
pub fn check_hop_by_hop(options: Ipv6Options<'_>) -> HopByHop {
    let (mut router_alert, mut padding) = (None, Padding::default());
    for option in options {
        let Ok(option) = option else { return HopByHop::Discard };
        if !padding.accepts(&option) {
            return HopByHop::Discard;
        }
        match (option.kind, option.data) {
            (Ipv6Option::PAD1 | Ipv6Option::PADN, _) => {}
            (Ipv6Option::ROUTER_ALERT, &[a, b]) => router_alert = Some(u16::from_be_bytes([a, b])),
            (Ipv6Option::ROUTER_ALERT, _) => return HopByHop::Discard,
            _ => match option.if_unknown() {
                UnknownOption::Skip => {}
                UnknownOption::Discard => return HopByHop::Discard,
                UnknownOption::Report => return HopByHop::Report { pointer: option.offset, even_multicast: true },
                UnknownOption::ReportUnicast => {
                    return HopByHop::Report { pointer: option.offset, even_multicast: false };
                }
            },
        }
    }
    HopByHop::Forward { router_alert }
}
