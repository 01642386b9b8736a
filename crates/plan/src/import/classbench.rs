//! The filter sets of ClassBench: one rule a line, the first one with the highest priority.
//!
//! ```text
//! source/len destination/len first-last first-last protocol/mask flags/mask
//! ```
//!
//! Numbers are decimal or hexadecimal. The generator itself writes `@` before the source and `first : last`; both are read. The flags are those of
//! TCP in the high byte, so that 0x0200 is SYN. Rules have no verdict.

use super::{Imported, MOST_RULES};
use crate::{AddressMatch, FilterRule, FilterVerdict, Match, MatchFamily, PortMatch, Prefix};
use std::ops::RangeInclusive;

/// A rule as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassbenchRule {
    /// Source network.
    pub source: Prefix,
    /// Destination network.
    pub destination: Prefix,
    /// Source ports.
    pub sport: RangeInclusive<u16>,
    /// Destination ports.
    pub dport: RangeInclusive<u16>,
    /// The protocol and its mask.
    pub protocol: (u8, u8),
    /// TCP flags and their mask, in the high byte.
    pub flags: (u16, u16),
}

const ALL_PORTS: RangeInclusive<u16> = 0..=u16::MAX;

impl ClassbenchRule {
    /// Parses a line.
    pub fn parse(line: &str) -> Result<ClassbenchRule, String> {
        let joined = line.replace(" : ", "-").replace('@', "");
        let fields: Vec<&str> = joined.split_whitespace().collect();
        let &[source, destination, sport, dport, protocol, ref flags @ ..] = &fields[..] else {
            return Err(format!("a rule has five or six fields, not {}", fields.len()));
        };
        let prefix = |text: &str| text.parse::<Prefix>().map(Prefix::network).map_err(|error| error.reason);
        let ports = |text: &str| {
            let ends = text.split_once('-').and_then(|(first, last)| number(first).zip(number(last)));
            ends.filter(|(first, last)| first <= last)
                .map(|(first, last)| first..=last)
                .ok_or(format!("'{text}' is no range of ports"))
        };
        let masked = |text: &str| {
            let parts = text.split_once('/').and_then(|(value, mask)| number(value).zip(number(mask)));
            parts.ok_or(format!("'{text}' is no value with its mask"))
        };
        let (value, mask) = masked(protocol)?;
        let protocol = u8::try_from(value).ok().zip(u8::try_from(mask).ok());
        Ok(ClassbenchRule {
            source: prefix(source)?,
            destination: prefix(destination)?,
            sport: ports(sport)?,
            dport: ports(dport)?,
            protocol: protocol.ok_or_else(|| format!("{value}/{mask} is no protocol"))?,
            flags: flags.first().map_or(Ok((0, 0)), |flags| masked(flags))?,
        })
    }

    /// The matches with the same packets: two, for TCP and UDP, if the rule has ports but no protocol.
    pub fn matches(&self) -> Result<Vec<Match>, String> {
        let family = if self.source.address.is_ipv4() { MatchFamily::V4 } else { MatchFamily::V6 };
        let mut base = Match { family, ..Match::default() };
        if self.source.address.is_ipv4() != self.destination.address.is_ipv4() {
            return Err("source and destination are of different IP versions".into());
        }
        let addresses = |prefix: Prefix| match prefix.length {
            0 => AddressMatch::Any,
            _ => AddressMatch::prefixes(vec![prefix]),
        };
        (base.source, base.destination) = (addresses(self.source), addresses(self.destination));
        let ports = |range: &RangeInclusive<u16>| match *range == ALL_PORTS {
            true => PortMatch::Any,
            false => PortMatch::ranges(vec![range.clone()]),
        };
        (base.sport, base.dport) = (ports(&self.sport), ports(&self.dport));
        let has_ports = (&base.sport, &base.dport) != (&PortMatch::Any, &PortMatch::Any);
        let flags = [self.flags.0 & self.flags.1, self.flags.1].map(u16::to_be_bytes);
        if flags[1][1] != 0 {
            return Err(format!("the mask {:#06x} has bits outside of the TCP flags", self.flags.1));
        }
        base.tcp_flags = (flags[1][0] != 0).then_some((flags[0][0], flags[1][0]));
        let protocols: &[Option<u8>] = match self.protocol {
            (_, 0) if base.tcp_flags.is_some() => &[Some(6)],
            (_, 0) if has_ports => &[Some(6), Some(17)],
            (_, 0) => &[None],
            (6, 255) => &[Some(6)],
            (17, 255) => &[Some(17)],
            (protocol, 255) if !has_ports => &[Some(protocol)],
            (protocol, 255) => return Err(format!("protocol {protocol} has no ports")),
            (protocol, mask) => return Err(format!("protocol {protocol}/{mask} is neither one protocol nor any")),
        };
        if base.tcp_flags.is_some() && protocols != [Some(6)] {
            return Err("only TCP has flags".into());
        }
        Ok(protocols.iter().map(|&protocol| Match { protocol, ..base.clone() }).collect())
    }
}

/// A number, decimal or hexadecimal.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Every rule of a text, with the verdict `accept`.
pub(super) fn import(text: &str) -> Imported {
    let mut out = Imported::default();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        match ClassbenchRule::parse(line).and_then(|rule| rule.matches()) {
            Ok(matches) => out.rules.extend(matches.into_iter().map(|matching| FilterRule {
                matching,
                statements: Vec::new(),
                verdict: FilterVerdict::Accept,
                comment: None,
            })),
            Err(reason) => out.problem(format!("line {}", index + 1), reason),
        }
        if out.rules.len() > MOST_RULES {
            out.rules.truncate(MOST_RULES);
            out.problem(format!("line {}", index + 1), format!("a filter has at most {MOST_RULES} rules"));
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_rules_or_problems() {
        let text = "\
            4.59.53.11/32 4.59.46.196/31 0-65535 25-25 6/255 0/512\n\
            @0.0.0.0/0\t10.0.0.0/8\t0 : 65535\t1024 : 2047\t0x00/0x00\t0x0000/0x0000\n\
            # a comment\n\
            1.2.3.0/24 0.0.0.0/0 0-65535 0-65535 47/255 0/0\n\
            44.145.159.192/26 61.140.226.71/32 0-65535 544-544 6/255 512/4608\n\
            200.188.153.57/32 230.42.198.198/32 20-20 0-65535 2/255 0/0\n\
            1.2.3.4/32 0.0.0.0/0 9-1 0-65535 6/255 0/0\n";
        let imported = import(text);
        let rules: Vec<String> = imported.rules.iter().map(ToString::to_string).collect();
        assert_eq!(
            rules,
            [
                "ip saddr 4.59.53.11 ip daddr 4.59.46.196/31 tcp dport 25 tcp flags none/syn accept",
                "ip daddr 10.0.0.0/8 tcp dport 1024-2047 accept",
                "ip daddr 10.0.0.0/8 udp dport 1024-2047 accept",
                "ip saddr 1.2.3.0/24 ip protocol gre accept",
                "ip saddr 44.145.159.192/26 ip daddr 61.140.226.71 tcp dport 544 tcp flags syn/syn,ack accept",
            ]
        );
        let problems: Vec<String> = imported.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["line 6: protocol 2 has no ports", "line 7: '9-1' is no range of ports"]);
        for rule in &imported.rules {
            assert_eq!(FilterRule::parse(&rule.to_string()).as_ref(), Ok(rule));
        }
    }
}
