//! The canonical text of a match.

use super::names::{FLAGS, FRAGMENTS, ICMP, ICMPV6, STATES, TCP, UDP, icmp_types, name_of};
use super::values::{list, range};
use super::{AddressMatch, Match, MatchFamily, PortMatch, dscp_name, protocol_name};
use std::fmt;

impl fmt::Display for Match {
    /// The canonical text: it parses back to an equal match.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Match::default() {
            return f.write_str("any");
        }
        let mut clauses = Clauses { f, first: true };
        self.link_clauses(&mut clauses)?;
        let family_said = self.ip_clauses(&mut clauses)?;
        self.protocol_clauses(&mut clauses, family_said)?;
        self.other_clauses(&mut clauses)
    }
}

/// Writes clauses, with spaces between them.
struct Clauses<'c, 'f> {
    f: &'c mut fmt::Formatter<'f>,
    first: bool,
}

impl Clauses<'_, '_> {
    fn add(&mut self, clause: fmt::Arguments<'_>) -> fmt::Result {
        if !std::mem::take(&mut self.first) {
            self.f.write_str(" ")?;
        }
        self.f.write_fmt(clause)
    }

    /// Adds `name value`, if there is a value.
    fn value(&mut self, name: fmt::Arguments<'_>, value: &Option<impl fmt::Display>) -> fmt::Result {
        value.as_ref().map_or(Ok(()), |value| self.add(format_args!("{name} {value}")))
    }
}

impl Match {
    fn link_clauses(&self, to: &mut Clauses<'_, '_>) -> fmt::Result {
        to.value(format_args!("iif"), &self.iif)?;
        to.value(format_args!("vrf"), &self.vrf)?;
        to.value(format_args!("vlan id"), &self.vlan)
    }

    /// Writes the conditions on the IP header. True if there is one, so that the family needs no clause.
    fn ip_clauses(&self, to: &mut Clauses<'_, '_>) -> Result<bool, fmt::Error> {
        let ip = self.ip();
        for (field, addresses) in [("saddr", &self.source), ("daddr", &self.destination)] {
            if *addresses != AddressMatch::Any {
                to.add(format_args!("{ip} {field} {addresses}"))?;
            }
        }
        to.value(format_args!("{ip} dscp"), &self.dscp.map(dscp_name))?;
        to.value(format_args!("{ip} flowlabel"), &self.flow_label)?;
        let addresses = self.source != AddressMatch::Any || self.destination != AddressMatch::Any;
        Ok(addresses || self.dscp.is_some() || self.flow_label.is_some())
    }

    fn ip(&self) -> &'static str {
        if self.family == MatchFamily::V6 { "ip6" } else { "ip" }
    }

    fn protocol_clauses(&self, to: &mut Clauses<'_, '_>, family_said: bool) -> fmt::Result {
        let Some(protocol) = self.protocol else {
            let silent = family_said || self.family == MatchFamily::Any;
            return if silent { Ok(()) } else { to.add(format_args!("{}", self.ip())) };
        };
        let name = protocol_name(protocol);
        match (self.family, protocol) {
            (MatchFamily::V4, ICMP) | (MatchFamily::V6, ICMPV6) => self.icmp(to, &name, protocol),
            (family, TCP | UDP) => {
                if family != MatchFamily::Any && !family_said {
                    to.add(format_args!("{}", self.ip()))?;
                }
                self.transport(to, &name)
            }
            (MatchFamily::Any, _) => to.add(format_args!("meta l4proto {name}")),
            (MatchFamily::V4, _) => to.add(format_args!("ip protocol {name}")),
            (MatchFamily::V6, _) => to.add(format_args!("ip6 nexthdr {name}")),
        }
    }

    fn transport(&self, to: &mut Clauses<'_, '_>, protocol: &str) -> fmt::Result {
        for (field, ports) in [("sport", &self.sport), ("dport", &self.dport)] {
            if *ports != PortMatch::Any {
                to.add(format_args!("{protocol} {field} {ports}"))?;
            }
        }
        match self.tcp_flags {
            Some((value, mask)) if value == mask => to.add(format_args!("{protocol} flags {}", Bits(value, FLAGS))),
            Some((0, mask)) => to.add(format_args!("{protocol} flags none/{}", Bits(mask, FLAGS))),
            Some((value, mask)) => {
                to.add(format_args!("{protocol} flags {}/{}", Bits(value, FLAGS), Bits(mask, FLAGS)))
            }
            None if self.sport == PortMatch::Any && self.dport == PortMatch::Any => to.add(format_args!("{protocol}")),
            None => Ok(()),
        }
    }

    fn icmp(&self, to: &mut Clauses<'_, '_>, name: &str, protocol: u8) -> fmt::Result {
        if !self.icmp_types.is_empty() {
            to.add(format_args!("{name} type {}", Types(&self.icmp_types, icmp_types(protocol))))?;
        }
        match self.icmp_code {
            Some(code) => to.add(format_args!("{name} code {code}")),
            None if self.icmp_types.is_empty() => to.add(format_args!("{name}")),
            None => Ok(()),
        }
    }

    fn other_clauses(&self, to: &mut Clauses<'_, '_>) -> fmt::Result {
        to.value(format_args!("fragment"), &self.fragments.map(|mask| Bits(mask, FRAGMENTS)))?;
        to.value(format_args!("meta length"), &self.length.as_ref().map(Length))?;
        to.value(format_args!("ct state"), &self.states.map(|mask| Bits(mask, STATES)))?;
        self.fib.map_or(Ok(()), |fib| to.add(format_args!("{fib}")))
    }
}

/// The names of the bits of a mask: `syn,ack`.
struct Bits(u8, &'static [&'static str]);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = self.1.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0);
        set.enumerate().try_for_each(|(index, (_, name))| write!(f, "{}{name}", if index == 0 { "" } else { "," }))
    }
}

/// ICMP types, by name if they have one.
struct Types<'m>(&'m [std::ops::RangeInclusive<u8>], &'static [(&'static str, u8)]);

impl fmt::Display for Types<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.0, |f, types| match types.start() == types.end() {
            true => f.write_str(&name_of(self.1, *types.start())),
            false => range(f, types),
        })
    }
}

struct Length<'m>(&'m std::ops::RangeInclusive<u16>);

impl fmt::Display for Length<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        range(f, self.0)
    }
}
