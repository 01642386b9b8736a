//! Rules of a packet filter in the syntax of nftables: clauses that must all hold, then the verdict.
//!
//! ```text
//! rule   = { clause } ("accept" | "drop" | "reject")
//! clause = a clause of a match | "ct" "state" STATE {"," STATE} | "tcp" "flags" FLAGS ["/" FLAGS] | ("icmp" | "icmpv6") "type" TYPE
//! ```
//!
//! Addresses, ports and types may be sets: `tcp dport { 22, 80-89 }`. `tcp flags syn/syn,ack` means that SYN is set and ACK is not. Without a mask
//! all named flags have to be set.

use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::matching::MatchFields;
use crate::text::{TextError, did_you_mean, quote};
use crate::{Call, Match, MatchFamily, Prefix};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;

/// Limit of rules of one packet filter.
pub(super) const MOST_RULES: usize = 1024;
/// Limit of values in a set.
const MOST_VALUES: usize = 1024;

/// The verdict of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterVerdict {
    /// The packet continues.
    Accept,
    /// It is dropped.
    Drop,
    /// It is dropped, and its sender gets an ICMP error.
    Reject,
}

const VERDICTS: [(&str, FilterVerdict); 3] =
    [("accept", FilterVerdict::Accept), ("drop", FilterVerdict::Drop), ("reject", FilterVerdict::Reject)];
/// Connection states by the plane's codes.
const STATES: [&str; 4] = ["untracked", "new", "established", "related"];
/// By their bit in the TCP header.
const FLAGS: [&str; 8] = ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"];
const TYPES: &[(&str, u8)] = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];
const TYPES6: &[(&str, u8)] = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
];

/// A set of numbers, as sorted ranges that do not touch.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ValueSet(Vec<(u128, u128)>);

impl ValueSet {
    fn of(mut ranges: Vec<(u128, u128)>) -> ValueSet {
        ranges.sort_unstable();
        let mut merged: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        ValueSet(merged)
    }

    #[inline]
    fn contains(&self, value: u128) -> bool {
        let behind = self.0.partition_point(|&(first, _)| first <= value);
        behind.checked_sub(1).is_some_and(|at| value <= self.0[at].1)
    }
}

/// Fields that rules use in addition to those of a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterFields {
    /// The state of its connection: 0 if unknown, 1 new, 2 established, 3 related.
    pub state: u8,
    /// The flags of the TCP header; `None` without one, or in a later fragment.
    pub flags: Option<u8>,
    /// The type of an ICMP or ICMPv6 message.
    pub kind: Option<u8>,
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilterRule {
    text: String,
    matching: Match,
    source: Option<ValueSet>,
    destination: Option<ValueSet>,
    sport: Option<ValueSet>,
    dport: Option<ValueSet>,
    kinds: Option<ValueSet>,
    /// A bit for each state.
    states: Option<u8>,
    /// The required flags, and the mask.
    flags: Option<(u8, u8)>,
    /// The verdict.
    pub verdict: FilterVerdict,
}

impl fmt::Display for FilterRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for FilterRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FilterRule {
    /// The required input interface. The caller knows interfaces by id and compares them itself.
    pub fn iif(&self) -> Option<&str> {
        self.matching.iif.as_deref()
    }

    /// True if every condition but `iif` holds.
    #[inline]
    pub fn matches(&self, f: &MatchFields, more: &FilterFields) -> bool {
        let within = |set: &Option<ValueSet>, value: u128| set.as_ref().is_none_or(|set| set.contains(value));
        let port =
            |set: &Option<ValueSet>, port: u16| set.as_ref().is_none_or(|set| !f.fragment && set.contains(port.into()));
        self.states.is_none_or(|states| states >> more.state & 1 != 0)
            && self.matching.matches(f)
            && self.flags.is_none_or(|(value, mask)| more.flags.is_some_and(|flags| flags & mask == value))
            && self.kinds.as_ref().is_none_or(|set| more.kind.is_some_and(|kind| set.contains(kind.into())))
            && port(&self.dport, f.dport)
            && port(&self.sport, f.sport)
            && within(&self.destination, number_of(f.destination))
            && within(&self.source, number_of(f.source))
    }

    /// Parses a rule by the grammar of this module.
    pub fn parse(text: &str) -> Result<FilterRule, TextError> {
        let tokens = tokens(text)?;
        let Some((last, clauses)) = tokens.split_last() else {
            return Err(TextError::whole(text, "the rule is empty", "write a match and then accept, drop or reject"));
        };
        let verdict = VERDICTS.iter().find(|(name, _)| *name == last.text);
        let Some(&(_, verdict)) = verdict else {
            let hint = "end it with accept, drop or reject";
            return Err(last.wrong(format!("{} is no verdict", quote(last.text)), hint));
        };
        let mut rule = FilterRule {
            text: tokens.iter().map(|token| token.text).collect::<Vec<_>>().join(" "),
            matching: Match::default(),
            source: None,
            destination: None,
            sport: None,
            dport: None,
            kinds: None,
            states: None,
            flags: None,
            verdict,
        };
        // The parser of matches handles their clauses. All other words are replaced by spaces, so that offsets stay the same.
        let (mut blanked, mut sets) = (vec![last], Vec::new());
        let mut at = 0;
        while let Some(token) = clauses.get(at) {
            let value = |behind: usize, what: &str| {
                clauses.get(at + behind).ok_or_else(|| token.wrong(format!("{what} is missing"), format!("add {what}")))
            };
            match token.text {
                "ct" => {
                    let (word, states) = (value(1, "'state'")?, value(2, "a state")?);
                    if word.text != "state" {
                        return Err(word.wrong("'ct' supports only 'state'", "write 'ct state established'"));
                    }
                    rule.states = Some(bits(states, &STATES)?);
                    blanked.extend([token, word, states]);
                    at += 2;
                }
                "flags" => {
                    let flags = value(1, "a flag")?;
                    rule.flags = Some(flags_of(flags)?);
                    blanked.extend([token, flags]);
                    at += 1;
                }
                "type" => {
                    let before = at.checked_sub(1).and_then(|before| clauses.get(before)).map(|before| before.text);
                    let names = if before == Some("icmpv6") { TYPES6 } else { TYPES };
                    let kinds = value(1, "a type")?;
                    rule.kinds = Some(ValueSet::of(each(kinds, |text| number(text, names))?));
                    blanked.extend([token, kinds]);
                    at += 1;
                }
                field if clauses.get(at + 1).is_some_and(|next| next.text.starts_with('{')) => {
                    let set = &clauses[at + 1];
                    blanked.push(set);
                    sets.push((field, set));
                    at += 1;
                }
                _ => {}
            }
            at += 1;
        }
        let mut rest = text.as_bytes().to_vec();
        blanked.into_iter().for_each(|token| rest[token.offset..token.offset + token.text.len()].fill(b' '));
        for (_, set) in &sets {
            // The match is parsed with the first value of the set, which detects errors in it. The others must be of the same kind.
            let first = set.values().next().unwrap_or_default();
            rest[set.offset..set.offset + first.len()].copy_from_slice(first.as_bytes());
        }
        let rest = String::from_utf8(rest).unwrap_or_default();
        if !rest.trim().is_empty() {
            rule.matching = Match::parse(rest.trim_end())?;
        }
        sets.into_iter().try_for_each(|(field, set)| rule.take_set(field, set))?;
        Ok(rule)
    }

    /// Turns a field of the match into a set.
    fn take_set(&mut self, field: &str, set: &Token<'_>) -> Result<(), TextError> {
        let family = self.matching.family;
        let (place, values) = match field {
            "saddr" => (&mut self.source, each(set, |text| addresses(text, family))?),
            "daddr" => (&mut self.destination, each(set, |text| addresses(text, family))?),
            "sport" => (&mut self.sport, each(set, ports)?),
            "dport" => (&mut self.dport, each(set, ports)?),
            _ => return Err(set.wrong(format!("'{field}' does not support sets"), "write one rule for each value")),
        };
        *place = Some(ValueSet::of(values));
        match field {
            "saddr" => self.matching.source = None,
            "daddr" => self.matching.destination = None,
            "sport" => self.matching.sport = None,
            _ => self.matching.dport = None,
        }
        Ok(())
    }
}

fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A word or a whole set, and its offset.
#[derive(Clone, Copy)]
struct Token<'t> {
    offset: usize,
    text: &'t str,
}

impl<'t> Token<'t> {
    fn wrong(&self, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() }
    }

    /// The values of a set, or the single value.
    fn values(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        self.text.trim_start_matches('{').trim_end_matches('}').split(',').map(str::trim)
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, TextError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(tokens);
        }
        let length = match rest.starts_with('{') {
            true => rest.find('}').map(|at| at + 1).unwrap_or(rest.len()),
            false => rest.find(|c: char| c.is_whitespace() || c == '{').unwrap_or(rest.len()),
        };
        let token = Token { offset: text.len() - rest.len(), text: &rest[..length] };
        if token.text.starts_with('{') && !token.text.ends_with('}') {
            return Err(token.wrong("the set is not closed", "add '}'"));
        }
        tokens.push(token);
        rest = &rest[length..];
    }
}

/// Every value of a set as a range.
fn each(
    token: &Token<'_>,
    read: impl Fn(&str) -> Result<(u128, u128), (String, String)>,
) -> Result<Vec<(u128, u128)>, TextError> {
    let values: Vec<&str> = token.values().collect();
    if values.len() > MOST_VALUES {
        return Err(token.wrong(format!("a set has at most {MOST_VALUES} values"), "write several rules"));
    }
    values.into_iter().map(|value| read(value).map_err(|(reason, hint)| token.wrong(reason, hint))).collect()
}

fn addresses(text: &str, family: MatchFamily) -> Result<(u128, u128), (String, String)> {
    let prefix = match text.parse::<IpAddr>() {
        Ok(address) => Prefix::host(address),
        Err(_) => text.parse::<Prefix>().map_err(|error| (error.reason, error.hint))?,
    };
    if prefix.address.is_ipv4() != (family != MatchFamily::V6) {
        let hint = "write IPv4 addresses after 'ip', IPv6 addresses after 'ip6'";
        return Err((format!("{} is of the other IP version", quote(text)), hint.to_string()));
    }
    let bits = if prefix.address.is_ipv4() { 32 } else { 128 };
    let first = number_of(prefix.network().address);
    let span = 1u128.checked_shl(u32::from(bits - prefix.length)).map_or(u128::MAX, |span| span - 1);
    Ok((first, first | span))
}

fn ports(text: &str) -> Result<(u128, u128), (String, String)> {
    let range: Option<RangeInclusive<u16>> = match text.split_once('-') {
        Some((first, last)) => first.trim().parse().ok().zip(last.trim().parse().ok()).map(|(a, b)| a..=b),
        None => text.parse().ok().map(|port| port..=port),
    };
    match range.filter(|range| !range.is_empty()) {
        Some(range) => Ok(((*range.start()).into(), (*range.end()).into())),
        None => Err((format!("{} is no port", quote(text)), "write a number, or a range like 5000-5010".to_string())),
    }
}

fn number(text: &str, names: &[(&str, u8)]) -> Result<(u128, u128), (String, String)> {
    let known = names.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).or_else(|| text.parse().ok());
    let kind = known.ok_or_else(|| {
        (format!("{} is no type", quote(text)), did_you_mean(text, names.iter().map(|(name, _)| *name)))
    })?;
    Ok((kind.into(), kind.into()))
}

/// A bit for each name.
fn bits(token: &Token<'_>, names: &[&str]) -> Result<u8, TextError> {
    token.values().try_fold(0, |bits, value| match names.iter().position(|name| *name == value) {
        Some(bit) => Ok(bits | 1 << bit),
        None => Err(token.wrong(format!("{} is not known", quote(value)), did_you_mean(value, names.iter().copied()))),
    })
}

fn flags_of(token: &Token<'_>) -> Result<(u8, u8), TextError> {
    let part = |offset: usize, text| bits(&Token { offset: token.offset + offset, text }, &FLAGS);
    match token.text.split_once('/') {
        None => part(0, token.text).map(|flags| (flags, flags)),
        Some((value, mask)) => {
            let (flags, of) = (part(0, value)?, part(value.len() + 1, mask)?);
            if flags & !of != 0 {
                return Err(token.wrong("the mask after '/' lacks a flag before it", "add the flag to the mask"));
            }
            Ok((flags, of))
        }
    }
}

/// The rules of a path's function `filter`; a path without the function has none.
pub(super) fn check(
    report: &mut Report<'_>,
    section: &Section<'_>,
    connected: &Connected,
    functions: &[Call],
) -> Vec<FilterRule> {
    let filters = functions.iter().any(|call| call.name == "filter");
    let Some(given) = section.node("filter") else {
        if filters {
            report.error(section.span.clone(), section.path, || {
                let hint = "add rules, of which the first match decides: filter = [\"tcp dport 22 accept\", \"drop\"]";
                ("the function 'filter' has no rules".to_string(), hint.to_string())
            });
        }
        return Vec::new();
    };
    if !filters && report.error_count() == 0 {
        report.error(given.span.clone(), given.path, || {
            let hint = "name it: functions = [\"filter\", \"ip\"]";
            ("there are rules, but the path does not have the function 'filter'".to_string(), hint.to_string())
        });
    }
    let surplus = |most| {
        let hint = "merge rules with sets, or use several paths".to_string();
        (format!("a filter has at most {most} rules"), hint)
    };
    section.texts(report, "filter", surplus, "\"tcp dport 22 accept\"", |report, text| {
        let rule = FilterRule::parse(text.value).map_err(|error| text.wrong(report, error)).ok()?;
        let unknown = rule.iif().filter(|name| connected.interface(name).is_none() && !connected.incomplete);
        if let Some(name) = unknown {
            let (reason, hint) = connected.no_interface(name);
            let offset = text.value.find(name).unwrap_or(0);
            text.wrong(report, TextError { offset, length: name.len(), reason, hint });
        }
        Some(rule)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(protocol: u8, source: &str, destination: &str, (sport, dport): (u16, u16)) -> MatchFields {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        MatchFields { source, destination, protocol, dscp: 0, sport, dport, fragment: false }
    }

    fn holds(rule: &str, f: &MatchFields, more: FilterFields) -> bool {
        FilterRule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}")).matches(f, &more)
    }

    #[test]
    fn rules_match_as_written() {
        let web = fields(6, "10.0.0.7", "192.0.2.1", (4000, 443));
        let syn = FilterFields { flags: Some(2), ..FilterFields::default() };
        for (rule, expected) in [
            ("accept", true),
            ("tcp dport 443 accept", true),
            ("tcp dport { 80, 443 } accept", true),
            ("tcp dport {400-500,8080} drop", true),
            ("tcp dport { 80, 8080 } drop", false),
            ("udp dport { 443 } drop", false),
            ("ip saddr { 10.0.0.0/8, 172.16.0.0/12 } accept", true),
            ("ip saddr { 10.0.1.0/24, 172.16.0.0/12 } tcp dport 443 accept", false),
            ("ip saddr 10.0.0.7 ip daddr { 192.0.2.1, 192.0.2.2 } tcp dport 443 accept", true),
            ("tcp flags syn accept", true),
            ("tcp flags syn/syn,ack tcp dport 443 reject", true),
            ("tcp flags syn,ack drop", false),
            ("ct state new accept", false),
            ("ct state untracked,new accept", true),
            ("ip6 daddr { 2001:db8::/32 } drop", false),
            ("icmp type echo-request accept", false),
        ] {
            assert_eq!(holds(rule, &web, syn), expected, "{rule}");
        }
        let ping = fields(1, "10.0.0.7", "192.0.2.1", (0, 0));
        let asks = FilterFields { kind: Some(8), state: 2, ..FilterFields::default() };
        assert!(holds("icmp type { echo-request, echo-reply } ct state established accept", &ping, asks));
        assert!(holds("icmp accept", &ping, asks));
        assert!(!holds("icmp type 0 accept", &ping, asks));
        let later = MatchFields { fragment: true, ..web };
        assert!(!holds("tcp dport { 443 } accept", &later, syn));
    }

    #[test]
    fn error_marks_the_wrong_part_of_the_rule() {
        for (rule, marked) in [
            ("", ""),
            ("tcp dport 80", "80"),
            ("tcp dport { 80, 443 accept", "{ 80, 443 accept"),
            ("tcp dport { 80, x } accept", "{ 80, x }"),
            ("ip saddr { 10.0.0.0/8, ::1 } accept", "{ 10.0.0.0/8, ::1 }"),
            ("ct state old accept", "old"),
            ("ct mark 3 accept", "mark"),
            ("tcp flags syn/ack accept", "syn/ack"),
            ("icmp type ping accept", "ping"),
            ("tpc dport 80 accept", "tpc"),
            ("tcp dport { 80 } udp accept", "udp"),
            ("ip dscp { ef, af41 } accept", "{ ef, af41 }"),
        ] {
            let error = FilterRule::parse(rule).expect_err(rule);
            assert_eq!(&rule[error.offset..error.offset + error.length], marked, "{rule}: {error}");
            assert!(!error.hint.is_empty(), "{rule}");
        }
    }

    proptest! {
        #[test]
        fn set_matches_if_one_of_its_values_does(
            ranges in proptest::collection::vec((0u16.., 0u16..600), 1..20),
            port: u16,
        ) {
            let of = |&(first, more): &(u16, u16)| first..=first.saturating_add(more);
            let text: Vec<String> = ranges.iter().map(|r| format!("{}-{}", of(r).start(), of(r).end())).collect();
            let rule = format!("udp dport {{ {} }} accept", text.join(", "));
            let f = fields(17, "10.0.0.1", "10.0.0.2", (1, port));
            prop_assert_eq!(holds(&rule, &f, FilterFields::default()), ranges.iter().any(|r| of(r).contains(&port)));
        }

        #[test]
        fn any_text_is_a_rule_or_an_error_within_it(text in "[ a-z0-9{},/.:-]{0,60}") {
            if let Err(error) = FilterRule::parse(&text) {
                prop_assert!(text.get(error.offset..error.offset + error.length).is_some(), "{error}");
            }
        }

        #[test]
        fn set_of_addresses_is_the_union_of_its_prefixes(
            prefixes in proptest::collection::vec((any::<u32>(), 0u8..=32), 1..12),
            address: u32,
        ) {
            let prefixes: Vec<Prefix> = prefixes
                .into_iter()
                .map(|(bits, length)| Prefix::new(IpAddr::V4(bits.into()), length).unwrap().network())
                .collect();
            let text: Vec<String> = prefixes.iter().map(ToString::to_string).collect();
            let rule = format!("ip daddr {{ {} }} drop", text.join(","));
            let to = IpAddr::V4(address.into());
            let f = MatchFields { destination: to, ..fields(17, "10.0.0.1", "10.0.0.2", (1, 1)) };
            prop_assert_eq!(holds(&rule, &f, FilterFields::default()), prefixes.iter().any(|p| p.contains(to)));
        }
    }
}
