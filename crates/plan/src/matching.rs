//! Matches in the syntax of nftables: they select the packets of a path, a capture, or a rule of a filter.
//!
//! ```text
//! match      = "any" | clause { clause }
//! clause     = "iif" INTERFACE | "vrf" VRF | "vlan" "id" NUMBER
//!            | "ip" [ip-field] | "ip6" [ip-field] | ("tcp" | "udp") [port-field] | "tcp" "flags" FLAGS ["/" FLAGS]
//!            | ("icmp" | "icmpv6") ["type" TYPES | "code" NUMBER]
//!            | "meta" "l4proto" PROTOCOL | "meta" "length" RANGE
//!            | "fragment" FRAGMENT { "," FRAGMENT } | "ct" "state" STATE { "," STATE }
//!            | "fib" "saddr" [ "." "iif" ] ("oif" | "check") ("missing" | "exists")
//! ip-field   = ("saddr" | "daddr") (PREFIX | LIST | "@" SET) | "dscp" DSCP
//!            | "protocol" PROTOCOL (ip) | "nexthdr" PROTOCOL (ip6) | "flowlabel" NUMBER (ip6)
//! port-field = ("sport" | "dport") (RANGE | LIST | "@" SET)
//! LIST       = "{" value { "," value } "}"
//! RANGE      = NUMBER | NUMBER "-" NUMBER
//! FRAGMENT   = "whole" | "first" | "later"
//! ```
//!
//! A packet has to satisfy every clause. A clause that contradicts an earlier one is an error, not a match of nothing. `tcp flags syn/syn,ack` means
//! that SYN is set and ACK is not, `none/syn` that SYN is not set. Without a mask all named flags have to be set. A later fragment has no ports, TCP
//! flags or ICMP type: no condition on them accepts it.

mod display;
mod fib;
mod names;
mod parse;
mod shadow;
mod values;
mod words;

pub use fib::FibMatch;
pub use names::{dscp_name, dscp_number, protocol_name, protocol_number};
pub(crate) use parse::{FIRST_WORDS, MatchReader};
pub(crate) use shadow::{Cover, Shadows};
pub use values::{AddressMatch, NoSets, PortMatch, SetLookup};
pub(crate) use words::{Word, words};

use crate::SetKind;
use crate::text::TextError;
use serde::{Serialize, Serializer};
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// An error in a match, with its position.
pub type MatchError = TextError;

/// The IP version of a match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MatchFamily {
    /// Either.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The part of a packet: all of it, or a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MatchFragment {
    /// A whole packet.
    #[default]
    Whole,
    /// The first fragment, which has the header of the upper layer.
    First,
    /// Another fragment: without ports, TCP flags, and ICMP type.
    Later,
}

/// A conjunction of conditions on one packet. A field that is not set is no condition. The default matches everything.
///
/// [`Match::parse`] builds it and ensures that it is consistent: addresses, `dscp` and `flow_label` are of the `family`; conditions on ports, TCP
/// flags and ICMP messages imply their `protocol`.
// Large: a field for each condition of the language.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Match {
    /// The input interface, `lan` or `lan.20`. [`Match::unmet`] ignores it: the caller knows interfaces by id and compares them itself.
    pub iif: Option<String>,
    /// The VRF of the input interface; `main` is the default one. [`Match::unmet`] ignores it like `iif`.
    pub vrf: Option<String>,
    /// The IP version.
    pub family: MatchFamily,
    /// The IP protocol, or the upper-layer protocol behind IPv6 extension headers.
    pub protocol: Option<u8>,
    /// Source addresses.
    pub source: AddressMatch,
    /// Destination addresses.
    pub destination: AddressMatch,
    /// TCP or UDP source ports.
    pub sport: PortMatch,
    /// TCP or UDP destination ports.
    pub dport: PortMatch,
    /// The differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// TCP flags: their values, and the mask of the flags that matter. The values lie within the mask, which is not zero.
    pub tcp_flags: Option<(u8, u8)>,
    /// Types of ICMP or ICMPv6 messages, as sorted ranges that do not touch. Empty for no condition.
    pub icmp_types: Vec<RangeInclusive<u8>>,
    /// The code of ICMP or ICMPv6 messages.
    pub icmp_code: Option<u8>,
    /// Whole packets and fragments: bit `1 << MatchFragment as u8` for each that is accepted.
    pub fragments: Option<u8>,
    /// The identifier of the 802.1Q tag, 0 to 4095. Packets without a tag have none.
    pub vlan: Option<u16>,
    /// The IPv6 flow label, at most 20 bits (RFC 8200 3).
    pub flow_label: Option<u32>,
    /// The length of the IP packet in bytes, with its IP header.
    pub length: Option<RangeInclusive<u16>>,
    /// States of the packet's connection: bit `1 << state` for each that is accepted, of [`MatchFields::state`].
    pub states: Option<u8>,
    /// The route to the source. [`Match::unmet`] ignores it: the caller looks up the routes itself.
    pub fib: Option<FibMatch>,
}

/// A condition of a match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// The input interface.
    Interface,
    /// The VRF.
    Vrf,
    /// The IP version.
    Family,
    /// The protocol.
    Protocol,
    /// The differentiated services code point.
    Dscp,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The TCP flags.
    TcpFlags,
    /// The type of an ICMP message.
    IcmpType,
    /// The code of an ICMP message.
    IcmpCode,
    /// All of a packet, or a fragment.
    Fragment,
    /// The VLAN.
    Vlan,
    /// The IPv6 flow label.
    FlowLabel,
    /// The length of the IP packet.
    Length,
    /// The state of the connection.
    State,
    /// The route to the source.
    Fib,
    /// The limit of a rule.
    Limit,
    /// The target of a routing rule: its next hop, or a route in its VRF.
    Target,
}

impl Condition {
    /// The type of a named set that may be asked about this field; `None` for fields without sets.
    pub const fn set_kind(self) -> Option<SetKind> {
        match self {
            Condition::Source | Condition::Destination => Some(SetKind::Address),
            Condition::SourcePort | Condition::DestinationPort => Some(SetKind::Port),
            _ => None,
        }
    }

    /// Its name in a match.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::Interface => "iif",
            Condition::Vrf => "vrf",
            Condition::Family => "ip version",
            Condition::Protocol => "protocol",
            Condition::Dscp => "dscp",
            Condition::Source => "saddr",
            Condition::Destination => "daddr",
            Condition::SourcePort => "sport",
            Condition::DestinationPort => "dport",
            Condition::TcpFlags => "tcp flags",
            Condition::IcmpType => "icmp type",
            Condition::IcmpCode => "icmp code",
            Condition::Fragment => "fragment",
            Condition::Vlan => "vlan id",
            Condition::FlowLabel => "flowlabel",
            Condition::Length => "meta length",
            Condition::State => "ct state",
            Condition::Fib => "fib saddr",
            Condition::Limit => "limit",
            Condition::Target => "its port is down, or its VRF has no route",
        }
    }
}

/// The fields of a packet that matches use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatchFields {
    /// Source address; it determines the family.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// The IP protocol after extension headers.
    pub protocol: u8,
    /// The differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Source port. `None` for a protocol without ports, a later fragment, and a truncated header.
    pub sport: Option<u16>,
    /// Destination port. `None` like `sport`.
    pub dport: Option<u16>,
    /// The flags of the TCP header (RFC 9293 3.1). `None` without one.
    pub tcp_flags: Option<u8>,
    /// The type of an ICMP or ICMPv6 message. `None` without its header.
    pub icmp_type: Option<u8>,
    /// The code of an ICMP or ICMPv6 message. `None` without its header.
    pub icmp_code: Option<u8>,
    /// All of a packet, or a fragment.
    pub fragment: MatchFragment,
    /// The identifier of its 802.1Q tag, if it has one.
    pub vlan: Option<u16>,
    /// The IPv6 flow label; 0 for IPv4.
    pub flow_label: u32,
    /// The length of the IP packet in bytes; 65535 if it is longer.
    pub length: u16,
    /// The state of its connection: 0 if unknown, 1 new, 2 established, 3 related.
    pub state: u8,
}

impl Match {
    /// True if every condition but `iif`, `vrf` and `fib` holds.
    pub fn matches(&self, f: &MatchFields, sets: &impl SetLookup) -> bool {
        self.unmet(f, sets).is_none()
    }

    /// The first condition, except for `iif`, `vrf` and `fib`, that does not hold; `None` if the packet matches.
    #[inline]
    pub fn unmet(&self, f: &MatchFields, sets: &impl SetLookup) -> Option<Condition> {
        fn is<T: PartialEq>(wanted: Option<T>, found: impl Into<Option<T>>) -> bool {
            wanted.is_none() || wanted == found.into()
        }
        let bit = |mask: Option<u8>, value: u8| mask.is_none_or(|mask| u32::from(mask) >> value & 1 != 0);
        let family = match self.family {
            MatchFamily::Any => true,
            MatchFamily::V4 => f.source.is_ipv4(),
            MatchFamily::V6 => f.source.is_ipv6(),
        };
        // Cheap and selective conditions come first.
        let unmet = |holds: bool, condition| if holds { None } else { Some(condition) };
        unmet(family, Condition::Family)
            .or_else(|| unmet(is(self.protocol, f.protocol), Condition::Protocol))
            .or_else(|| unmet(is(self.dscp, f.dscp), Condition::Dscp))
            .or_else(|| unmet(self.source.contains(f.source, sets), Condition::Source))
            .or_else(|| unmet(self.destination.contains(f.destination, sets), Condition::Destination))
            .or_else(|| unmet(self.sport.contains(f.sport, sets), Condition::SourcePort))
            .or_else(|| unmet(self.dport.contains(f.dport, sets), Condition::DestinationPort))
            .or_else(|| {
                let flags = |(value, mask)| f.tcp_flags.is_some_and(|flags| flags & mask == value);
                unmet(self.tcp_flags.is_none_or(flags), Condition::TcpFlags)
            })
            .or_else(|| {
                let listed = |kind| values::within(&self.icmp_types, kind);
                unmet(self.icmp_types.is_empty() || f.icmp_type.is_some_and(listed), Condition::IcmpType)
            })
            .or_else(|| unmet(is(self.icmp_code, f.icmp_code), Condition::IcmpCode))
            .or_else(|| unmet(bit(self.fragments, f.fragment as u8), Condition::Fragment))
            .or_else(|| unmet(is(self.vlan, f.vlan), Condition::Vlan))
            .or_else(|| unmet(is(self.flow_label, f.flow_label), Condition::FlowLabel))
            .or_else(|| unmet(self.length.as_ref().is_none_or(|range| range.contains(&f.length)), Condition::Length))
            .or_else(|| unmet(bit(self.states, f.state), Condition::State))
    }

    /// True if this match includes every packet of `other`, for all contents of named sets.
    pub fn covers(&self, other: &Match) -> bool {
        fn same<T: PartialEq>(mine: &Option<T>, theirs: &Option<T>) -> bool {
            mine.is_none() || mine == theirs
        }
        let bits = |mine: Option<u8>, theirs: Option<u8>, all: u8| theirs.unwrap_or(all) & !mine.unwrap_or(all) == 0;
        let flags = |(value, mask): (u8, u8)| other.tcp_flags.is_some_and(|(v, m)| mask & !m == 0 && v & mask == value);
        let length = |range: &RangeInclusive<u16>| {
            let (first, last) = other.length.as_ref().map_or((0, u16::MAX), |range| (*range.start(), *range.end()));
            range.contains(&first) && range.contains(&last)
        };
        (self.family == MatchFamily::Any || self.family == other.family)
            && same(&self.iif, &other.iif)
            && same(&self.vrf, &other.vrf)
            && same(&self.fib, &other.fib)
            && same(&self.protocol, &other.protocol)
            && same(&self.dscp, &other.dscp)
            && same(&self.icmp_code, &other.icmp_code)
            && same(&self.vlan, &other.vlan)
            && same(&self.flow_label, &other.flow_label)
            && bits(self.fragments, other.fragments, names::FRAGMENT_BITS)
            && bits(self.states, other.states, names::STATE_BITS)
            && self.tcp_flags.is_none_or(flags)
            && self.length.as_ref().is_none_or(length)
            && self.sport.covers(&other.sport)
            && self.dport.covers(&other.dport)
            && self.source.covers(&other.source)
            && self.destination.covers(&other.destination)
            && (self.icmp_types.is_empty()
                || !other.icmp_types.is_empty() && values::covers(&self.icmp_types, &other.icmp_types))
    }

    /// The named sets, each with the field that it is asked about.
    pub fn sets(&self) -> impl Iterator<Item = (&str, Condition)> {
        let addresses = [(&self.source, Condition::Source), (&self.destination, Condition::Destination)];
        let of_addresses = addresses.into_iter().filter_map(|(addresses, field)| match addresses {
            AddressMatch::Set(name) => Some((name.as_str(), field)),
            AddressMatch::Any | AddressMatch::Prefixes(_) => None,
        });
        let ports = [(&self.sport, Condition::SourcePort), (&self.dport, Condition::DestinationPort)];
        let of_ports = ports.into_iter().filter_map(|(ports, field)| match ports {
            PortMatch::Set(name) => Some((name.as_str(), field)),
            PortMatch::Any | PortMatch::Ranges(_) => None,
        });
        of_addresses.chain(of_ports)
    }

    /// The number of combinations of its listed values: so many entries a table of rules has for it. At most [`MOST_COMBINATIONS`] in a configuration.
    pub fn combinations(&self) -> usize {
        let addresses = |addresses: &AddressMatch| addresses.networks().len().max(1);
        let ports = |ports: &PortMatch| if let PortMatch::Ranges(ranges) = ports { ranges.len() } else { 1 };
        // Any choice of up to four values are at most two conditions on two bits.
        let bits = |accepted: Option<u8>| accepted.map_or(1, |accepted| accepted.count_ones().clamp(1, 2) as usize);
        [
            addresses(&self.source),
            addresses(&self.destination),
            ports(&self.sport),
            ports(&self.dport),
            self.icmp_types.len().max(1),
            bits(self.fragments),
            bits(self.states),
        ]
        .into_iter()
        .fold(1, usize::saturating_mul)
    }
}

/// The most combinations of listed values in one match.
pub const MOST_COMBINATIONS: usize = 1 << 16;
/// The most sets that a list of rules may use, counting a set once for each field that it is asked about.
pub const MOST_SETS_USED: usize = 32;

impl Serialize for Match {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
