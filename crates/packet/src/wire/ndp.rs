//! Neighbour discovery for IPv6 (RFC 4861): validation of received messages, and the messages that a router sends.

use super::icmp6::{self, checksum_ok, write_packet};
use super::ipv6::{self, Ipv6Header};
use super::{Ipv6, Mac, protocol};
use std::fmt;
use std::net::Ipv6Addr;

/// The hop limit of every message: proof that no router forwarded it (RFC 4861 3.1).
pub const HOP_LIMIT: u8 = 255;

pub(super) const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
pub(super) const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
pub(super) const MTU: u8 = 5;
pub(super) const DNS_SERVERS: u8 = 25;
pub(super) const DNS_SEARCH: u8 = 31;

/// A message that passed the validation of its section of RFC 4861.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ndp<'a> {
    /// A host asks for routers (6.1.1).
    RouterSolicitation {
        /// May contain the sender's link address.
        options: NdpOptions<'a>,
    },
    /// A router announces itself and the parameters of the link (6.1.2).
    RouterAdvertisement {
        /// Its fixed part.
        parameters: RouterParameters,
        /// May contain the router's link address, the MTU, prefixes.
        options: NdpOptions<'a>,
    },
    /// Asks for the link address of `target`, or probes its reachability (7.1.1).
    NeighbourSolicitation {
        /// The address asked for.
        target: Ipv6Addr,
        /// May contain the sender's link address.
        options: NdpOptions<'a>,
    },
    /// Announces the link address of `target` (7.1.2).
    NeighbourAdvertisement {
        /// Router, solicited, override.
        flags: NeighbourFlags,
        /// The announced address.
        target: Ipv6Addr,
        /// Contains the link address, unless it answers a unicast solicitation.
        options: NdpOptions<'a>,
    },
    /// There is a better first hop for `destination` (8.1).
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// The destination of the redirected packets.
        destination: Ipv6Addr,
        /// May contain the target's link address and the start of the redirected packet.
        options: NdpOptions<'a>,
    },
}

/// The flags of a neighbour advertisement (RFC 4861 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeighbourFlags {
    /// R: the sender is a router.
    pub router: bool,
    /// S: it answers a solicitation and therefore proves reachability.
    pub solicited: bool,
    /// O: it overrides a cached link address.
    pub overrides: bool,
}

/// The fixed part of a router advertisement (RFC 4861 4.2). Zero means "unspecified", except for the lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterParameters {
    /// Hop limit hosts should use.
    pub hop_limit: u8,
    /// M: addresses are available by DHCPv6.
    pub managed: bool,
    /// O: other configuration is available by DHCPv6.
    pub other: bool,
    /// Prf: the router's preference for hosts (RFC 4191 2.2).
    pub preference: Preference,
    /// Lifetime as a default router in seconds; 0 if it is not one.
    pub lifetime_s: u16,
    /// Time in milliseconds for which a neighbour counts as reachable.
    pub reachable_ms: u32,
    /// Milliseconds between solicitations.
    pub retransmit_ms: u32,
}

/// The preference among several routers (RFC 4191 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    /// Preferred.
    High,
    /// Neutral.
    #[default]
    Medium,
    /// Avoided.
    Low,
}

impl Preference {
    /// The preference in the flags byte of an advertisement. The reserved value means medium (RFC 4191 2.2).
    fn of(flags: u8) -> Preference {
        match flags >> 3 & 3 {
            1 => Preference::High,
            3 => Preference::Low,
            _ => Preference::Medium,
        }
    }

    pub(super) fn bits(self) -> u8 {
        match self {
            Preference::High => 1 << 3,
            Preference::Medium => 0,
            Preference::Low => 3 << 3,
        }
    }
}

/// A prefix information option (RFC 4861 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// The prefix. Bits after `length` have no meaning.
    pub address: Ipv6Addr,
    /// Its length in bits, 0..=128.
    pub length: u8,
    /// L: its addresses are on-link.
    pub on_link: bool,
    /// A: hosts may form addresses from it (RFC 4862).
    pub autonomous: bool,
    /// Time in seconds for which it is on-link; all ones for infinity.
    pub valid_s: u32,
    /// Time in seconds for which addresses from it are preferred; all ones for infinity.
    pub preferred_s: u32,
}

/// The reason why a message must be silently discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NdpError {
    /// Shorter than its type requires.
    Truncated,
    /// Not of types 133 to 137.
    Kind,
    /// The hop limit is not 255.
    HopLimit,
    /// The ICMPv6 checksum is wrong.
    Checksum,
    /// The code is not 0.
    Code,
    /// An option has length zero or extends beyond the message.
    Options,
    /// The target is a group, or cannot be a first hop.
    Target,
    /// The source is not link-local where that is required, or it is unspecified although the message has a link address.
    Source,
    /// The destination is invalid: an unspecified source may ask only the solicited-node group, a solicited advertisement must not go to a group, and
    /// a redirect must not concern a group.
    Destination,
}

impl fmt::Display for NdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "neighbour discovery message truncated",
            Self::Kind => "not a neighbour discovery message",
            Self::HopLimit => "neighbour discovery with a hop limit other than 255",
            Self::Checksum => "neighbour discovery checksum wrong",
            Self::Code => "neighbour discovery code is not 0",
            Self::Options => "neighbour discovery option malformed",
            Self::Target => "neighbour discovery target not valid",
            Self::Source => "neighbour discovery source not valid",
            Self::Destination => "neighbour discovery destination not valid",
        })
    }
}

impl std::error::Error for NdpError {}

impl<'a> Ndp<'a> {
    /// Parses and checks `message`, the ICMPv6 upper layer of the unfragmented packet with header `ip`. Fragmented messages must be ignored (RFC
    /// 6980); [`Ndp::of`] does so.
    pub fn parse(ip: &Ipv6Header, message: &'a [u8]) -> Result<Self, NdpError> {
        let (&[kind, code, _, _, word @ ..], rest) = message.split_first_chunk::<8>().ok_or(NdpError::Truncated)?;
        if !(icmp6::ROUTER_SOLICITATION..=icmp6::REDIRECT).contains(&kind) {
            return Err(NdpError::Kind);
        }
        if ip.hop_limit() != HOP_LIMIT {
            return Err(NdpError::HopLimit);
        }
        if !checksum_ok(ip.source(), ip.destination(), message) {
            return Err(NdpError::Checksum);
        }
        if code != 0 {
            return Err(NdpError::Code);
        }
        match kind {
            icmp6::ROUTER_SOLICITATION => router_solicitation(ip, rest),
            icmp6::ROUTER_ADVERTISEMENT => router_advertisement(ip, word, rest),
            icmp6::NEIGHBOUR_SOLICITATION => neighbour_solicitation(ip, rest),
            icmp6::NEIGHBOUR_ADVERTISEMENT => neighbour_advertisement(ip, word, rest),
            _ => redirect(ip, rest),
        }
    }

    /// [`Ndp::parse`] for a whole packet.
    pub fn of(packet: &Ipv6<'a>) -> Result<Self, NdpError> {
        let chain = packet.chain().map_err(|_| NdpError::Truncated)?;
        match chain.offset.and_then(|at| packet.bytes.get(at..)) {
            // A fragment header is refused even in an atomic fragment (RFC 6980 5).
            Some(message) if chain.protocol == protocol::ICMPV6 && chain.fragment.is_none() => {
                Self::parse(packet.header, message)
            }
            _ => Err(NdpError::Kind),
        }
    }
}

fn router_solicitation<'a>(ip: &Ipv6Header, rest: &'a [u8]) -> Result<Ndp<'a>, NdpError> {
    let options = NdpOptions::checked(rest)?;
    if ip.source().is_unspecified() && options.source_mac().is_some() {
        return Err(NdpError::Source);
    }
    Ok(Ndp::RouterSolicitation { options })
}

fn router_advertisement<'a>(ip: &Ipv6Header, word: [u8; 4], rest: &'a [u8]) -> Result<Ndp<'a>, NdpError> {
    let (&[a, b, c, d, e, f, g, h], rest) = rest.split_first_chunk::<8>().ok_or(NdpError::Truncated)?;
    let [hop_limit, flags, l0, l1] = word;
    if !ipv6::is_link_local(ip.source()) {
        return Err(NdpError::Source);
    }
    let says = RouterParameters {
        hop_limit,
        managed: flags & 0x80 != 0,
        other: flags & 0x40 != 0,
        preference: Preference::of(flags),
        lifetime_s: u16::from_be_bytes([l0, l1]),
        reachable_ms: u32::from_be_bytes([a, b, c, d]),
        retransmit_ms: u32::from_be_bytes([e, f, g, h]),
    };
    Ok(Ndp::RouterAdvertisement { parameters: says, options: NdpOptions::checked(rest)? })
}

fn neighbour_solicitation<'a>(ip: &Ipv6Header, rest: &'a [u8]) -> Result<Ndp<'a>, NdpError> {
    let (target, options) = target(rest)?;
    if ip.source().is_unspecified() {
        // An unspecified source is a duplicate address probe, which goes to the group only (RFC 4861 7.1.1).
        if ip.destination() != ipv6::solicited_node(target) {
            return Err(NdpError::Destination);
        }
        if options.source_mac().is_some() {
            return Err(NdpError::Source);
        }
    }
    Ok(Ndp::NeighbourSolicitation { target, options })
}

fn neighbour_advertisement<'a>(ip: &Ipv6Header, word: [u8; 4], rest: &'a [u8]) -> Result<Ndp<'a>, NdpError> {
    let (target, options) = target(rest)?;
    let bits = word[0];
    let flags = NeighbourFlags { router: bits & 0x80 != 0, solicited: bits & 0x40 != 0, overrides: bits & 0x20 != 0 };
    if flags.solicited && ip.destination().is_multicast() {
        return Err(NdpError::Destination);
    }
    Ok(Ndp::NeighbourAdvertisement { flags, target, options })
}

fn redirect<'a>(ip: &Ipv6Header, rest: &'a [u8]) -> Result<Ndp<'a>, NdpError> {
    let (target, rest) = address(rest)?;
    let (destination, rest) = address(rest)?;
    if !ipv6::is_link_local(ip.source()) {
        return Err(NdpError::Source);
    }
    if destination.is_multicast() {
        return Err(NdpError::Destination);
    }
    // RFC 4861 8.1: the target is a router by its link-local address, or the destination itself.
    if !ipv6::is_link_local(target) && target != destination {
        return Err(NdpError::Target);
    }
    Ok(Ndp::Redirect { target, destination, options: NdpOptions::checked(rest)? })
}

/// The target of a neighbour message and the options after it.
fn target(rest: &[u8]) -> Result<(Ipv6Addr, NdpOptions<'_>), NdpError> {
    let (target, rest) = address(rest)?;
    if target.is_multicast() {
        return Err(NdpError::Target);
    }
    Ok((target, NdpOptions::checked(rest)?))
}

fn address(rest: &[u8]) -> Result<(Ipv6Addr, &[u8]), NdpError> {
    let (octets, rest) = rest.split_first_chunk::<16>().ok_or(NdpError::Truncated)?;
    Ok(((*octets).into(), rest))
}

/// An option (RFC 4861 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// Link address of the sender.
    SourceMac(Mac),
    /// Link address of the target.
    TargetMac(Mac),
    /// A prefix of the link.
    Prefix(PrefixInformation),
    /// The start of the redirected packet.
    Redirected(&'a [u8]),
    /// The MTU of the link, in bytes.
    Mtu(u32),
    /// Recursive DNS servers (RFC 8106 5.1).
    DnsServers {
        /// Lifetime in seconds; all ones for infinity.
        lifetime_s: u32,
        /// Their addresses, sixteen bytes each.
        addresses: &'a [[u8; 16]],
    },
    /// DNS search domains (RFC 8106 5.2).
    DnsSearch {
        /// Lifetime in seconds; all ones for infinity.
        lifetime_s: u32,
        /// The domains in the format of RFC 1035 3.1, one after the other, padded with zeros.
        domains: &'a [u8],
    },
    /// Another type, or one of the above with a length that is invalid on Ethernet: to be ignored (RFC 4861 4.6).
    Unknown {
        /// Its type.
        kind: u8,
        /// The bytes after type and length.
        data: &'a [u8],
    },
}

/// The options of a message, with checked lengths. Iterate over a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdpOptions<'a>(&'a [u8]);

impl<'a> NdpOptions<'a> {
    /// Checks that every option has a nonzero length and lies inside `bytes`.
    pub fn checked(bytes: &'a [u8]) -> Result<Self, NdpError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            (_, rest) = split_option(rest).ok_or(NdpError::Options)?;
        }
        Ok(Self(bytes))
    }

    /// The first source link address.
    pub fn source_mac(self) -> Option<Mac> {
        self.into_iter().find_map(|option| if let NdpOption::SourceMac(mac) = option { Some(mac) } else { None })
    }

    /// The first target link address.
    pub fn target_mac(self) -> Option<Mac> {
        self.into_iter().find_map(|option| if let NdpOption::TargetMac(mac) = option { Some(mac) } else { None })
    }
}

impl<'a> IntoIterator for NdpOptions<'a> {
    type Item = NdpOption<'a>;
    type IntoIter = NdpOptionsIter<'a>;

    fn into_iter(self) -> NdpOptionsIter<'a> {
        NdpOptionsIter(self.0)
    }
}

/// Iterator over the options.
#[derive(Clone, Debug)]
pub struct NdpOptionsIter<'a>(&'a [u8]);

impl<'a> Iterator for NdpOptionsIter<'a> {
    type Item = NdpOption<'a>;

    fn next(&mut self) -> Option<NdpOption<'a>> {
        let (option, rest) = split_option(self.0)?;
        self.0 = rest;
        option_of(option)
    }
}

/// The first option and the rest. Lengths count units of eight bytes, including type and length.
fn split_option(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::from(*bytes.get(1)?) * 8;
    if length == 0 { None } else { bytes.split_at_checked(length) }
}

fn option_of(option: &[u8]) -> Option<NdpOption<'_>> {
    let (&[kind, _], data) = option.split_first_chunk::<2>()?;
    let mac = data.try_into().map(Mac).ok();
    let known = match kind {
        SOURCE_LINK_ADDRESS => mac.map(NdpOption::SourceMac),
        TARGET_LINK_ADDRESS => mac.map(NdpOption::TargetMac),
        PREFIX => prefix_of(data).map(NdpOption::Prefix),
        REDIRECTED => data.get(6..).map(NdpOption::Redirected),
        MTU => match *data {
            [_, _, a, b, c, d] => Some(NdpOption::Mtu(u32::from_be_bytes([a, b, c, d]))),
            _ => None,
        },
        DNS_SERVERS => lifetime_of(data).and_then(|(lifetime_s, rest)| {
            let (addresses, rest) = rest.as_chunks::<16>();
            let whole = rest.is_empty() && !addresses.is_empty();
            whole.then_some(NdpOption::DnsServers { lifetime_s, addresses })
        }),
        DNS_SEARCH => lifetime_of(data).map(|(lifetime_s, domains)| NdpOption::DnsSearch { lifetime_s, domains }),
        _ => None,
    };
    Some(known.unwrap_or(NdpOption::Unknown { kind, data }))
}

/// The lifetime after two reserved bytes, and the rest.
fn lifetime_of(data: &[u8]) -> Option<(u32, &[u8])> {
    let (&[_, _, a, b, c, d], rest) = data.split_first_chunk()?;
    Some((u32::from_be_bytes([a, b, c, d]), rest))
}

fn prefix_of(data: &[u8]) -> Option<PrefixInformation> {
    let data: &[u8; 30] = data.try_into().ok()?;
    let [length, flags, v0, v1, v2, v3, p0, p1, p2, p3, _, _, _, _, address @ ..] = *data;
    if length > 128 {
        return None;
    }
    Some(PrefixInformation {
        address: address.into(),
        length,
        on_link: flags & 0x80 != 0,
        autonomous: flags & 0x40 != 0,
        valid_s: u32::from_be_bytes([v0, v1, v2, v3]),
        preferred_s: u32::from_be_bytes([p0, p1, p2, p3]),
    })
}

pub(super) fn mac_option(kind: u8, mac: Mac) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac.0;
    [kind, 1, a, b, c, d, e, f]
}

/// Writes a solicitation for `target`, including the IPv6 header, and returns its length, `None` if it does not fit.
///
/// `destination` is the target's [`ipv6::solicited_node`] group, or the target itself to probe it. `mac` is included unless `source` is unspecified
/// (RFC 4861 4.3).
pub fn write_neighbour_solicitation(
    buffer: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    mac: Mac,
) -> Option<usize> {
    write_packet(buffer, HOP_LIMIT, source, destination, |message| {
        message.put(&[icmp6::NEIGHBOUR_SOLICITATION, 0, 0, 0, 0, 0, 0, 0])?;
        message.put(&target.octets())?;
        if source.is_unspecified() { Some(()) } else { message.put(&mac_option(SOURCE_LINK_ADDRESS, mac)) }
    })
}

/// Writes an advertisement that `target` has the link address `mac`, including the IPv6 header. Returns its length, `None` if it does not fit.
pub fn write_neighbour_advertisement(
    buffer: &mut [u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    flags: NeighbourFlags,
    mac: Mac,
) -> Option<usize> {
    let bits = u8::from(flags.router) << 7 | u8::from(flags.solicited) << 6 | u8::from(flags.overrides) << 5;
    write_packet(buffer, HOP_LIMIT, source, destination, |message| {
        message.put(&[icmp6::NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, bits, 0, 0, 0])?;
        message.put(&target.octets())?;
        message.put(&mac_option(TARGET_LINK_ADDRESS, mac))
    })
}

/// Writes a router solicitation to [`ipv6::ALL_ROUTERS`], including the IPv6 header, and returns its length, `None` if it does not fit. `mac` is
/// included unless `source` is unspecified (RFC 4861 4.1).
pub fn write_router_solicitation(buffer: &mut [u8], source: Ipv6Addr, mac: Mac) -> Option<usize> {
    write_packet(buffer, HOP_LIMIT, source, ipv6::ALL_ROUTERS, |message| {
        message.put(&[icmp6::ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0])?;
        if source.is_unspecified() { Some(()) } else { message.put(&mac_option(SOURCE_LINK_ADDRESS, mac)) }
    })
}

/// Writes a redirect to the source of `original`: `target` is the better first hop for its destination. Returns the packet's length including the
/// IPv6 header, `None` if it does not fit.
///
/// `source` must be link-local. `mac` is the target's link address, if known. As much of the original follows as fits into 1280 bytes, in whole units
/// of eight (RFC 4861 4.5, 4.6.3).
pub fn write_redirect(
    buffer: &mut [u8],
    original: &Ipv6<'_>,
    source: Ipv6Addr,
    target: Ipv6Addr,
    mac: Option<Mac>,
) -> Option<usize> {
    const FIXED: usize = 40;
    let link_address = mac.map(|mac| mac_option(TARGET_LINK_ADDRESS, mac));
    let room = ipv6::MINIMUM_MTU - ipv6::HEADER - FIXED - link_address.map_or(0, |option| option.len()) - 8;
    let units = original.bytes.len().min(room) / 8;
    let quote = original.bytes.get(..units * 8)?;
    write_packet(buffer, HOP_LIMIT, source, original.header.source(), |message| {
        message.put(&[icmp6::REDIRECT, 0, 0, 0, 0, 0, 0, 0])?;
        message.put(&target.octets())?;
        message.put(&original.header.destination().octets())?;
        if let Some(option) = link_address {
            message.put(&option)?;
        }
        message.put(&[REDIRECTED, u8::try_from(units + 1).ok()?, 0, 0, 0, 0, 0, 0])?;
        message.put(quote)
    })
}
