//! The filter sets of ClassBench: one rule a line, the first one with the highest priority.
//!
//! ```text
//! source/len destination/len first-last first-last protocol/mask flags/mask
//! ```
//!
//! Numbers are decimal or hexadecimal. The generator itself writes `@` before the source and `first : last`; both are read. The flags are those of
//! TCP in the high byte, so that 0x0200 is SYN. Rules have no verdict.

use super::{ImportPlace, Imported, MOST_RULES};
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
        ClassbenchRule::of_fields(&fields(line)).map_err(|(_, reason)| reason)
    }

    /// The rule of its fields. The error has the offset of the wrong field in the line.
    fn of_fields(fields: &[Field]) -> Result<ClassbenchRule, (usize, String)> {
        let [source, destination, sport, dport, protocol, flags @ ..] = fields else {
            return Err((0, format!("a rule has five or six fields, not {}", fields.len())));
        };
        let prefix = |(at, text): &Field| {
            let reason = |error: crate::TextError| (*at, error.reason);
            text.parse::<Prefix>().map(Prefix::network).map_err(reason)
        };
        let ports = |(at, text): &Field| {
            let ends = text.split_once('-').and_then(|(first, last)| number(first).zip(number(last)));
            ends.filter(|(first, last)| first <= last)
                .map(|(first, last)| first..=last)
                .ok_or_else(|| (*at, format!("'{text}' is no range of ports")))
        };
        let masked = |(at, text): &Field| {
            let parts = text.split_once('/').and_then(|(value, mask)| number(value).zip(number(mask)));
            parts.ok_or_else(|| (*at, format!("'{text}' is no value with its mask")))
        };
        let (value, mask) = masked(protocol)?;
        let number = u8::try_from(value).ok().zip(u8::try_from(mask).ok());
        Ok(ClassbenchRule {
            source: prefix(source)?,
            destination: prefix(destination)?,
            sport: ports(sport)?,
            dport: ports(dport)?,
            protocol: number.ok_or_else(|| (protocol.0, format!("{value}/{mask} is no protocol")))?,
            flags: flags.first().map_or(Ok((0, 0)), masked)?,
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

/// A field, and its offset in the line.
type Field = (usize, String);

/// The fields of a line: `first : last` is one field, and the `@` before the source is left out.
fn fields(line: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    let mut joins = false;
    for word in line.split_whitespace() {
        let offset = word.as_ptr().addr() - line.as_ptr().addr();
        match fields.last_mut() {
            Some((_, last)) if word == ":" || std::mem::take(&mut joins) => {
                joins = word == ":";
                *last += if joins { "-" } else { word };
            }
            _ => {
                let text = word.strip_prefix('@').unwrap_or(word);
                fields.push((offset + word.len() - text.len(), text.to_owned()));
            }
        }
    }
    fields
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
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (line, text) in lines {
        let of_match =
            |matching| FilterRule { matching, statements: Vec::new(), verdict: FilterVerdict::Accept, comment: None };
        let rule = ClassbenchRule::of_fields(&fields(text));
        match rule.and_then(|rule| rule.matches().map_err(|reason| (0, reason))) {
            Ok(matches) => {
                let place = ImportPlace::Line { line, column: 1 };
                out.rules.extend(matches.into_iter().map(|matching| (place.clone(), of_match(matching))));
            }
            Err((offset, reason)) => {
                let column = text.get(..offset).map_or(1, |before| before.chars().count() + 1);
                out.problem(ImportPlace::Line { line, column }, reason);
            }
        }
        if out.rules.len() > MOST_RULES {
            out.rules.truncate(MOST_RULES);
            let place = ImportPlace::Line { line, column: 1 };
            out.problem(
                place,
                format!("a filter has at most {MOST_RULES} rules: this one and all behind it are left out"),
            );
            break;
        }
    }
    if let Some((place, _)) = out.rules.first() {
        let place = place.clone();
        out.warn(place, "rules of ClassBench have no verdict: all of them accept");
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
        let rules: Vec<String> = imported.rules.iter().map(|(_, rule)| rule.to_string()).collect();
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
        assert_eq!(problems, ["6:1: protocol 2 has no ports", "7:22: '9-1' is no range of ports"]);
        let lines: Vec<String> = imported.rules.iter().map(|(place, _)| place.to_string()).collect();
        assert_eq!(lines, ["1:1", "2:1", "2:1", "4:1", "5:1"]);
        for (_, rule) in &imported.rules {
            assert_eq!(FilterRule::parse(&rule.to_string()).as_ref(), Ok(rule));
        }
    }
}
