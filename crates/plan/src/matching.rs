//! Matches in the syntax of nftables: they select the packets of a path or a capture.
//!
//! ```text
//! match    = "any" | clause { clause }
//! clause   = "iif" INTERFACE | "ip" [ip-field] | "ip6" [ip-field] | ("tcp" | "udp") [port-field]
//!          | "icmp" | "icmpv6" | "meta" "l4proto" PROTOCOL
//! ip-field = "saddr" PREFIX | "daddr" PREFIX | "dscp" DSCP | "protocol" PROTOCOL (ip) | "nexthdr" PROTOCOL (ip6)
//! port-field = ("sport" | "dport") (PORT | PORT "-" PORT)
//! ```
//!
//! A packet has to satisfy every clause. A clause that contradicts an earlier one is an error, not a match of nothing.

mod names;
mod parse;

pub use names::{dscp_name, dscp_number, protocol_name, protocol_number};

use crate::Prefix;
use crate::text::TextError;
use names::{ICMP, ICMPV6, TCP, UDP};
use serde::{Serialize, Serializer};
use std::fmt;
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

/// A conjunction of conditions on one packet. A field that is not set is no condition. The default matches everything.
///
/// [`Match::parse`] builds it and ensures that it is consistent: addresses and `dscp` are of the `family`, and port ranges imply protocol 6 or 17.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub struct Match {
    /// The input interface, `lan` or `lan.20`. [`Match::matches`] ignores it: the caller knows interfaces by id and compares them itself.
    pub iif: Option<String>,
    /// The IP version.
    pub family: MatchFamily,
    /// The IP protocol, or the upper-layer protocol behind IPv6 extension headers.
    pub protocol: Option<u8>,
    /// Source addresses.
    pub source: Option<Prefix>,
    /// Destination addresses.
    pub destination: Option<Prefix>,
    /// The differentiated services code point (RFC 2474), 0 to 63.
    pub dscp: Option<u8>,
    /// TCP or UDP source ports.
    pub sport: Option<RangeInclusive<u16>>,
    /// TCP or UDP destination ports.
    pub dport: Option<RangeInclusive<u16>>,
}

/// A condition of a match.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Condition {
    /// The input interface.
    Interface,
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
}

impl Condition {
    /// Its name in a match.
    pub const fn name(self) -> &'static str {
        match self {
            Condition::Interface => "iif",
            Condition::Family => "ip version",
            Condition::Protocol => "protocol",
            Condition::Dscp => "dscp",
            Condition::Source => "saddr",
            Condition::Destination => "daddr",
            Condition::SourcePort => "sport",
            Condition::DestinationPort => "dport",
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
    /// Source port of TCP and UDP.
    pub sport: u16,
    /// Destination port of TCP and UDP.
    pub dport: u16,
    /// True for a fragment without ports: no condition on ports matches it.
    pub fragment: bool,
}

impl Match {
    /// True if every condition but `iif` holds.
    pub fn matches(&self, f: &MatchFields) -> bool {
        self.unmet(f).is_none()
    }

    /// The first condition, except for `iif`, that does not hold; `None` if the packet matches.
    #[inline]
    pub fn unmet(&self, f: &MatchFields) -> Option<Condition> {
        let family = match self.family {
            MatchFamily::Any => true,
            MatchFamily::V4 => f.source.is_ipv4(),
            MatchFamily::V6 => f.source.is_ipv6(),
        };
        let ports = |range: &Option<RangeInclusive<u16>>, port: u16| {
            range.as_ref().is_none_or(|range| !f.fragment && range.contains(&port))
        };
        let unmet = |holds: bool, condition| if holds { None } else { Some(condition) };
        unmet(family, Condition::Family)
            .or_else(|| unmet(self.protocol.is_none_or(|p| p == f.protocol), Condition::Protocol))
            .or_else(|| unmet(self.dscp.is_none_or(|d| d == f.dscp), Condition::Dscp))
            .or_else(|| unmet(self.source.is_none_or(|p| p.contains(f.source)), Condition::Source))
            .or_else(|| unmet(self.destination.is_none_or(|p| p.contains(f.destination)), Condition::Destination))
            .or_else(|| unmet(ports(&self.sport, f.sport), Condition::SourcePort))
            .or_else(|| unmet(ports(&self.dport, f.dport), Condition::DestinationPort))
    }

    /// True if this match includes every packet of `other`.
    pub fn covers(&self, other: &Match) -> bool {
        fn holds<T>(mine: &Option<T>, theirs: &Option<T>, within: impl Fn(&T, &T) -> bool) -> bool {
            match (mine, theirs) {
                (None, _) => true,
                (Some(mine), Some(theirs)) => within(mine, theirs),
                (Some(_), None) => false,
            }
        }
        let range = |a: &RangeInclusive<u16>, b: &RangeInclusive<u16>| a.start() <= b.start() && b.end() <= a.end();
        (self.family == MatchFamily::Any || self.family == other.family)
            && holds(&self.iif, &other.iif, |a, b| a == b)
            && holds(&self.protocol, &other.protocol, |a, b| a == b)
            && holds(&self.dscp, &other.dscp, |a, b| a == b)
            && holds(&self.source, &other.source, |a, b| a.covers(*b))
            && holds(&self.destination, &other.destination, |a, b| a.covers(*b))
            && holds(&self.sport, &other.sport, range)
            && holds(&self.dport, &other.dport, range)
    }
}

impl Serialize for Match {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Match {
    /// The canonical text: it parses back to an equal match.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clauses = self.clauses();
        if clauses.is_empty() { f.write_str("any") } else { f.write_str(&clauses.join(" ")) }
    }
}

impl Match {
    fn clauses(&self) -> Vec<String> {
        let mut clauses: Vec<String> = self.iif.iter().map(|name| format!("iif {name}")).collect();
        let ip = if self.family == MatchFamily::V6 { "ip6" } else { "ip" };
        let before = clauses.len();
        let address = |prefix: Prefix| match prefix == Prefix::host(prefix.address) {
            true => prefix.address.to_string(),
            false => prefix.to_string(),
        };
        clauses.extend(self.source.map(|p| format!("{ip} saddr {}", address(p))));
        clauses.extend(self.destination.map(|p| format!("{ip} daddr {}", address(p))));
        clauses.extend(self.dscp.map(|d| format!("{ip} dscp {}", dscp_name(d))));
        let family_said = clauses.len() > before;
        match (self.family, self.protocol) {
            (MatchFamily::V4, Some(ICMP)) => clauses.push("icmp".to_string()),
            (MatchFamily::V6, Some(ICMPV6)) => clauses.push("icmpv6".to_string()),
            (family, Some(protocol @ (TCP | UDP))) => {
                if family != MatchFamily::Any && !family_said {
                    clauses.push(ip.to_string());
                }
                clauses.extend(self.transport(if protocol == TCP { "tcp" } else { "udp" }));
            }
            (MatchFamily::Any, Some(protocol)) => clauses.push(format!("meta l4proto {}", protocol_name(protocol))),
            (MatchFamily::V4, Some(protocol)) => clauses.push(format!("ip protocol {}", protocol_name(protocol))),
            (MatchFamily::V6, Some(protocol)) => clauses.push(format!("ip6 nexthdr {}", protocol_name(protocol))),
            (MatchFamily::Any, None) => {}
            (_, None) if family_said => {}
            (_, None) => clauses.push(ip.to_string()),
        }
        clauses
    }

    fn transport(&self, protocol: &str) -> Vec<String> {
        let ports = |field: &str, range: &Option<RangeInclusive<u16>>| {
            range.as_ref().map(|range| match (*range.start(), *range.end()) {
                (first, last) if first == last => format!("{protocol} {field} {first}"),
                (first, last) => format!("{protocol} {field} {first}-{last}"),
            })
        };
        let said: Vec<String> =
            [ports("sport", &self.sport), ports("dport", &self.dport)].into_iter().flatten().collect();
        if said.is_empty() { vec![protocol.to_string()] } else { said }
    }
}
