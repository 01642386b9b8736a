//! The parser of matches. Each word has its offset, so that an error can mark it.

use super::names::{
    DSCPS, FLAGS, FRAGMENTS, ICMP, ICMPV6, PROTOCOLS, STATES, TCP, UDP, icmp_types, named, number, wide_number,
};
use super::values::merged;
use super::{AddressMatch, FibMatch, Match, MatchError, MatchFamily, PortMatch, Word, words};
use crate::Prefix;
use crate::text::{did_you_mean, quote};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The first words of clauses.
const CLAUSES: &[&str] = &[
    "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "iif", "iifname", "vrf", "vlan", "fragment", "meta", "ct", "fib",
    "any",
];
/// The same as a regular expression, for the schema.
pub(crate) const FIRST_WORDS: &str =
    r"^\s*(any|ip|ip6|tcp|udp|icmp|icmpv6|iif|iifname|vrf|vlan|fragment|meta|ct|fib)(\s|$)";
/// Limit of values in a list. Named sets have no such limit.
const MOST_VALUES: usize = 1024;

impl Match {
    /// Parses a match by the grammar of this module.
    pub fn parse(text: &str) -> Result<Match, MatchError> {
        let words = words(text)?;
        let mut reader = MatchReader::new(text, &words, |_| false);
        if words.is_empty() {
            return reader.end.wrong("the match is empty", "write 'any' to match every packet");
        }
        while let Some(word) = reader.next() {
            if word.text == "any" && words.len() > 1 {
                return word.wrong(
                    "'any' cannot be combined with other clauses",
                    "remove it: a match without a clause for a field matches every value",
                );
            }
            reader.clause(word, CLAUSES)?;
        }
        Ok(reader.out)
    }

    /// As [`parse`](Match::parse) for a match that is compared with packets alone, like that of a capture: it has no condition on routes.
    pub fn parse_without_routes(text: &str) -> Result<Match, MatchError> {
        let matching = Match::parse(text)?;
        if matching.fib.is_some() {
            let word = words(text)?.into_iter().find(|word| word.text == "fib");
            let word = word.unwrap_or(Word { offset: 0, text });
            return word.wrong("a capture cannot match 'fib'", "use it in a filter or in [routing]");
        }
        Ok(matching)
    }
}

impl FromStr for Match {
    type Err = MatchError;
    fn from_str(text: &str) -> Result<Self, MatchError> {
        Match::parse(text)
    }
}

/// Reads clauses. It has the match so far, and the word that set each field.
pub(crate) struct MatchReader<'w, 't> {
    words: &'w [Word<'t>],
    end: Word<'t>,
    stops: fn(&[Word<'_>]) -> bool,
    /// The match so far.
    pub out: Match,
    family_set_by: Option<Word<'t>>,
    protocol_set_by: Option<Word<'t>>,
}

impl<'w, 't> MatchReader<'w, 't> {
    /// Begins with the first word of `text`. `stops` is true if no further clause begins with these words.
    pub fn new(text: &'t str, words: &'w [Word<'t>], stops: fn(&[Word<'_>]) -> bool) -> Self {
        let end = Word { offset: text.trim_end().len(), text: "" };
        MatchReader { words, end, stops, out: Match::default(), family_set_by: None, protocol_set_by: None }
    }

    /// True if no further clause follows.
    pub fn stops(&self) -> bool {
        self.words.is_empty() || (self.stops)(self.words)
    }

    /// The next word, if it is `wanted`.
    pub fn next_if(&mut self, wanted: &str) -> Option<Word<'t>> {
        let next = self.words.first().filter(|next| next.text == wanted).copied();
        next.inspect(|_| self.words = &self.words[1..])
    }

    /// The next word.
    pub fn next(&mut self) -> Option<Word<'t>> {
        let (word, rest) = self.words.split_first()?;
        self.words = rest;
        Some(*word)
    }

    /// The next word, which must be a field of the header `word`. None if it begins something else: `ip` alone is a condition, too.
    fn field(&mut self, word: Word<'t>, fields: &[&str]) -> Result<Option<Word<'t>>, MatchError> {
        match self.words.first() {
            None => Ok(None),
            Some(next) if fields.contains(&next.text) => Ok(self.next()),
            Some(next) if CLAUSES.contains(&next.text) || self.stops() => Ok(None),
            Some(next) => {
                let hint = did_you_mean(next.text, fields.iter().copied());
                next.wrong(format!("'{}' has no field {}", word.text, quote(next.text)), hint)
            }
        }
    }

    /// Reads the clause that begins with `word`. `known` are the words for a suggestion.
    pub fn clause(&mut self, word: Word<'t>, known: &[&str]) -> Result<(), MatchError> {
        match word.text {
            "any" => Ok(()),
            "ip" => self.ip(word, MatchFamily::V4),
            "ip6" => self.ip(word, MatchFamily::V6),
            "tcp" => self.transport(word, TCP, &["sport", "dport", "flags"]),
            "udp" => self.transport(word, UDP, &["sport", "dport"]),
            "icmp" => self.icmp(word, MatchFamily::V4, ICMP),
            "icmpv6" => self.icmp(word, MatchFamily::V6, ICMPV6),
            "iif" | "iifname" => self.interface(word),
            "vrf" => self.vrf(word),
            "vlan" => self.vlan(word),
            "fragment" => {
                let value = self.after(word, "'whole', 'first' or 'later'")?;
                let bits = bits(value, FRAGMENTS)?;
                once(&mut self.out.fragments, Some(bits), word, "the kind of fragment")
            }
            "meta" => self.meta(word),
            "ct" => self.connection(word),
            "fib" => self.fib(word),
            "saddr" | "daddr" | "dscp" | "protocol" | "nexthdr" | "flowlabel" => word.wrong(
                format!("'{0}' needs a header before it", word.text),
                format!("write 'ip {0} ...' or 'ip6 {0} ...'", word.text),
            ),
            "sport" | "dport" => word.wrong(
                format!("'{0}' needs a protocol before it", word.text),
                format!("write 'udp {0} ...' or 'tcp {0} ...'", word.text),
            ),
            "flags" => word.wrong("'flags' needs a protocol before it", "write 'tcp flags ...'"),
            "and" | "&&" => word.wrong("clauses need no word between them", "remove it: every clause must hold"),
            "or" | "||" | "not" | "!" | "!=" => word.wrong(
                format!("matches do not support {}", quote(word.text)),
                "write one path or rule for each alternative; the first that matches wins",
            ),
            _ => word.wrong(
                format!("no clause begins with {}", quote(word.text)),
                did_you_mean(word.text, known.iter().copied()),
            ),
        }
    }

    /// The word after `before`, or an error that names the missing operand.
    pub fn after(&mut self, before: Word<'t>, what: &str) -> Result<Word<'t>, MatchError> {
        match self.next() {
            // A port may be called `in`.
            Some(word) if word.text == "in" && before.text.starts_with("iif") => Ok(word),
            Some(word) if matches!(word.text, "!=" | "==" | "=" | "<" | ">" | "in") => {
                let hint = format!("write '{} VALUE'", before.text);
                word.wrong(format!("matches do not support {}", quote(word.text)), hint)
            }
            Some(word) => Ok(word),
            None => self.end.wrong(format!("'{}' is not followed by {what}", before.text), format!("add {what}")),
        }
    }

    /// The single value after `before`.
    pub fn value(&mut self, before: Word<'t>, what: &str) -> Result<Word<'t>, MatchError> {
        let word = self.after(before, what)?;
        if word.is_list() {
            let hint = "write one path or rule for each value";
            return word.wrong(format!("'{}' supports only one value", before.text), hint);
        }
        Ok(word)
    }

    /// The word after `before`, which must be `wanted`.
    pub fn keyword(&mut self, before: Word<'t>, wanted: &str, example: &str) -> Result<Word<'t>, MatchError> {
        let word = self.after(before, &format!("'{wanted}'"))?;
        if word.text != wanted {
            let reason = format!("'{}' supports only '{wanted}', not {}", before.text, quote(word.text));
            return word.wrong(reason, format!("write '{example}'"));
        }
        Ok(word)
    }

    fn ip(&mut self, word: Word<'t>, family: MatchFamily) -> Result<(), MatchError> {
        self.family(word, family)?;
        let fields: &[&str] = match family {
            MatchFamily::V6 => &["saddr", "daddr", "dscp", "nexthdr", "flowlabel"],
            _ => &["saddr", "daddr", "dscp", "protocol"],
        };
        let Some(field) = self.field(word, fields)? else { return Ok(()) };
        match field.text {
            "saddr" => {
                let addresses = self.addresses(field, family)?;
                once(&mut self.out.source, addresses, field, "the source address")
            }
            "daddr" => {
                let addresses = self.addresses(field, family)?;
                once(&mut self.out.destination, addresses, field, "the destination address")
            }
            "dscp" => {
                let dscp = self.dscp(field)?;
                once(&mut self.out.dscp, Some(dscp), field, "the code point")
            }
            "flowlabel" => {
                let value = self.value(field, "a flow label")?;
                let label = wide_number(value.text).filter(|label| *label <= 0xf_ffff);
                if label.is_none() {
                    let hint = "write a number from 0 to 1048575, or 0x0 to 0xfffff";
                    return value.wrong(format!("{} is no flow label", quote(value.text)), hint);
                }
                once(&mut self.out.flow_label, label, field, "the flow label")
            }
            _ => self.protocol_word(field),
        }
    }

    /// The code point after `field`.
    pub fn dscp(&mut self, field: Word<'t>) -> Result<u8, MatchError> {
        let value = self.value(field, "a code point, like 'ef' or 46")?;
        let hint = "write a name like ef, af41 or cs6, or a number from 0 to 63";
        named(DSCPS, value.text, 63)
            .map_or_else(|| value.wrong(format!("{} is no code point", quote(value.text)), hint), Ok)
    }

    fn addresses(&mut self, field: Word<'t>, family: MatchFamily) -> Result<AddressMatch, MatchError> {
        let word = self.after(field, "an address or a prefix")?;
        if word.text.starts_with('@') {
            return set_name(word).map(AddressMatch::Set);
        }
        let prefixes = values(word)?.map(|value| prefix(value, (field, family), word.is_list()));
        prefixes.collect::<Result<_, _>>().map(AddressMatch::prefixes)
    }

    fn protocol_word(&mut self, field: Word<'t>) -> Result<(), MatchError> {
        let word = self.value(field, "a protocol, like 'tcp' or 89")?;
        match named(PROTOCOLS, word.text, 255) {
            Some(protocol) => self.protocol(word, protocol),
            None => {
                let names = PROTOCOLS.iter().map(|(name, _)| *name);
                let hint =
                    format!("{}, or a number from 0 to 255", did_you_mean(word.text, names).trim_end_matches('?'));
                word.wrong(format!("{} is no protocol", quote(word.text)), hint)
            }
        }
    }

    fn transport(&mut self, word: Word<'t>, protocol: u8, fields: &[&str]) -> Result<(), MatchError> {
        self.protocol(word, protocol)?;
        let Some(field) = self.field(word, fields)? else { return Ok(()) };
        match field.text {
            "sport" => {
                let ports = self.ports(field)?;
                once(&mut self.out.sport, ports, field, "the source port")
            }
            "dport" => {
                let ports = self.ports(field)?;
                once(&mut self.out.dport, ports, field, "the destination port")
            }
            _ => {
                let flags = flags(self.value(field, "a flag, like 'syn'")?)?;
                once(&mut self.out.tcp_flags, Some(flags), field, "a condition on flags")
            }
        }
    }

    fn ports(&mut self, field: Word<'t>) -> Result<PortMatch, MatchError> {
        let word = self.after(field, "a port or a range of ports")?;
        if word.text.starts_with('@') {
            return set_name(word).map(PortMatch::Set);
        }
        let hint = "write a number from 0 to 65535, or a range like 5000-5010";
        let ranges = values(word)?.map(|value| range(value, number, "ports", hint));
        ranges.collect::<Result<_, _>>().map(PortMatch::ranges)
    }

    fn icmp(&mut self, word: Word<'t>, family: MatchFamily, protocol: u8) -> Result<(), MatchError> {
        self.family(word, family)?;
        self.protocol(word, protocol)?;
        let Some(field) = self.field(word, &["type", "code"])? else { return Ok(()) };
        if field.text == "code" {
            let value = self.value(field, "a code")?;
            let code = named(&[], value.text, 255);
            if code.is_none() {
                return value.wrong(format!("{} is no code", quote(value.text)), "write a number from 0 to 255");
            }
            return once(&mut self.out.icmp_code, code, field, "the code");
        }
        let word = self.after(field, "a type, like 'echo-request'")?;
        let types: Result<Vec<_>, _> = words_of(word)?.map(|value| icmp_type(value, icmp_types(protocol))).collect();
        once(&mut self.out.icmp_types, merged(types?), field, "the type")
    }

    fn interface(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let name = self.value(word, "an interface, like 'lan' or 'lan.20'")?;
        if !crate::names::is_interface(name.unquoted()) {
            return name.wrong(
                format!("{} is no interface", quote(name.text)),
                "write the name of a port, or of its VLAN like 'lan.20'",
            );
        }
        once(&mut self.out.iif, Some(name.unquoted().to_string()), word, "the interface")
    }

    fn vrf(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let name = self.value(word, "a VRF")?;
        if !crate::names::is_vrf(name.unquoted()) {
            return name.wrong(format!("{} is no name of a VRF", quote(name.text)), "write 'vrf red', or 'vrf main'");
        }
        once(&mut self.out.vrf, Some(name.unquoted().to_string()), word, "the VRF")
    }

    fn vlan(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let field = self.keyword(word, "id", "vlan id 20")?;
        let value = self.value(field, "the number of a VLAN")?;
        let id = number(value.text).filter(|id| *id <= 4095);
        if id.is_none() {
            return value.wrong(format!("{} is no VLAN", quote(value.text)), "write a number from 0 to 4095");
        }
        once(&mut self.out.vlan, id, word, "the VLAN")
    }

    fn meta(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let key = self.after(word, "'l4proto' or 'length'")?;
        match key.text {
            "l4proto" => self.protocol_word(key),
            "length" => {
                let value = self.value(key, "a length, like 64 or 64-1500")?;
                let hint = "write a number of bytes from 0 to 65535, or a range like 64-1500";
                let length = range(value, number, "lengths", hint)?;
                once(&mut self.out.length, Some(length), key, "the length")
            }
            _ => key.wrong(
                format!("{} is no 'meta' field", quote(key.text)),
                "write 'meta l4proto 89' or 'meta length 64-1500'",
            ),
        }
    }

    fn connection(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let field = self.keyword(word, "state", "ct state established")?;
        let states = bits(self.after(field, "a state, like 'established'")?, STATES)?;
        once(&mut self.out.states, Some(states), word, "the state")
    }

    fn fib(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        const EXAMPLE: &str = "fib saddr . iif oif missing";
        let mut last = self.keyword(word, "saddr", EXAMPLE)?;
        let dot = self.next_if(".");
        if let Some(dot) = dot {
            last = self.keyword(dot, "iif", EXAMPLE)?;
        }
        let result = self.after(last, "'oif'")?;
        if !matches!(result.text, "oif" | "check") {
            let reason = format!("'fib' supports only 'oif' here, not {}", quote(result.text));
            return result.wrong(reason, format!("write '{EXAMPLE}'"));
        }
        let value = self.after(result, "'missing' or 'exists'")?;
        if !matches!(value.text, "missing" | "exists") {
            let reason = format!("{} is neither 'missing' nor 'exists'", quote(value.text));
            return value.wrong(reason, format!("write '{EXAMPLE}'"));
        }
        let fib = FibMatch { by_input: dot.is_some(), missing: value.text == "missing" };
        once(&mut self.out.fib, Some(fib), word, "the condition on routes")
    }

    /// Requires an IP version, which `word` implies.
    pub fn family(&mut self, word: Word<'t>, family: MatchFamily) -> Result<(), MatchError> {
        if let Some(said) = self.family_set_by.filter(|_| self.out.family != family) {
            let reason = format!("'{}' contradicts the earlier '{}'", word.text, said.text);
            return word.wrong(reason, "a packet has one IP version; write a path or rule for each");
        }
        self.out.family = family;
        self.family_set_by.get_or_insert(word);
        Ok(())
    }

    fn protocol(&mut self, word: Word<'t>, protocol: u8) -> Result<(), MatchError> {
        if let Some(said) = self.protocol_set_by.filter(|_| self.out.protocol != Some(protocol)) {
            let reason = format!("'{}' contradicts the earlier '{}'", word.text, said.text);
            return word.wrong(reason, "a packet has one protocol; write a path or rule for each");
        }
        self.out.protocol = Some(protocol);
        self.protocol_set_by.get_or_insert(word);
        Ok(())
    }
}

/// Sets a field that must not be set twice.
fn once<T: Default + PartialEq>(slot: &mut T, value: T, word: Word<'_>, what: &str) -> Result<(), MatchError> {
    if std::mem::replace(slot, value) != T::default() {
        return word.wrong(format!("{what} is given twice"), "keep one: every clause must hold");
    }
    Ok(())
}

/// The values of a list in braces, or the word as the single value.
fn values<'t>(word: Word<'t>) -> Result<impl Iterator<Item = Word<'t>>, MatchError> {
    let list = if word.is_list() { Some(words_of(word)?) } else { None };
    let single = if list.is_none() { Some(word) } else { None };
    Ok(list.into_iter().flatten().chain(single))
}

/// The values of a list with or without braces.
fn words_of<'t>(word: Word<'t>) -> Result<impl Iterator<Item = Word<'t>>, MatchError> {
    if word.values().nth(MOST_VALUES).is_some() {
        return word
            .wrong(format!("a list has at most {MOST_VALUES} values"), "write several rules, or use a named set");
    }
    Ok(word.values())
}

/// The name in `@name`.
fn set_name(word: Word<'_>) -> Result<String, MatchError> {
    let name = word.text.trim_start_matches('@');
    if word.text.len() != name.len() + 1 || !crate::names::is_path(name) {
        let hint = "write '@', a letter, then letters, digits, '_' and '-', 31 at most";
        return word.wrong(format!("{} is no name of a set", quote(word.text)), hint);
    }
    Ok(name.to_string())
}

fn prefix(word: Word<'_>, (field, family): (Word<'_>, MatchFamily), in_list: bool) -> Result<Prefix, MatchError> {
    let prefix = match word.text.parse::<IpAddr>() {
        Ok(address) => Prefix::host(address),
        Err(_) => word.text.parse::<Prefix>().or_else(|error| word.wrong(error.reason, error.hint))?,
    };
    match (family, prefix.address) {
        (MatchFamily::V6, IpAddr::V4(_)) => word.wrong(
            format!("{} is an IPv4 address after 'ip6'", quote(word.text)),
            format!("write 'ip {} {}'", field.text, word.text),
        ),
        (MatchFamily::V4, IpAddr::V6(_)) => word.wrong(
            format!("{} is an IPv6 address after 'ip'", quote(word.text)),
            format!("write 'ip6 {} {}'", field.text, word.text),
        ),
        // Lists of older configurations may have such prefixes.
        _ if prefix.is_network() || in_list => Ok(prefix),
        _ => word.wrong(
            format!("{} has bits set after its prefix length", quote(word.text)),
            format!("write '{}'", prefix.network()),
        ),
    }
}

/// `80`, or `80-89`.
fn range<T: Copy + PartialOrd + std::fmt::Display>(
    word: Word<'_>,
    number: impl Fn(&str) -> Option<T>,
    what: &str,
    hint: &str,
) -> Result<RangeInclusive<T>, MatchError> {
    let ends = match word.text.split_once('-') {
        Some((first, last)) => number(first.trim()).zip(number(last.trim())),
        None => number(word.text).map(|value| (value, value)),
    };
    let Some((first, last)) = ends else {
        let singular = what.trim_end_matches('s');
        return word.wrong(format!("{} is no {singular}", quote(word.text)), hint);
    };
    if first > last {
        return word.wrong(format!("the range of {what} ends before it begins"), format!("write {last}-{first}"));
    }
    Ok(first..=last)
}

fn icmp_type(word: Word<'_>, names: &[(&str, u8)]) -> Result<RangeInclusive<u8>, MatchError> {
    // Names have hyphens, too.
    if let Some(kind) = named(names, word.text, u8::MAX) {
        return Ok(kind..=kind);
    }
    let hint = did_you_mean(word.text, names.iter().map(|(name, _)| *name));
    range(word, |text| named(&[], text, u8::MAX), "types", &hint)
}

/// A bit for each name of a list.
fn bits(word: Word<'_>, names: &[&str]) -> Result<u8, MatchError> {
    word.values().try_fold(0, |bits, value| match names.iter().position(|name| *name == value.text) {
        Some(bit) => Ok(bits | 1 << bit),
        None => {
            let hint = did_you_mean(value.text, names.iter().copied());
            value.wrong(format!("{} is not known", quote(value.text)), hint)
        }
    })
}

/// The values of flags and their mask.
fn flags(word: Word<'_>) -> Result<(u8, u8), MatchError> {
    let Some((values, mask)) = word.text.split_once('/') else {
        return bits(word, FLAGS).map(|flags| (flags, flags));
    };
    let mask = bits(Word { offset: word.offset + values.len() + 1, text: mask }, FLAGS)?;
    let values = match values {
        "none" => 0,
        _ => bits(Word { text: values, ..word }, FLAGS)?,
    };
    if values & !mask != 0 {
        return word.wrong("the mask after '/' lacks a flag before it", "add the flag to the mask");
    }
    Ok((values, mask))
}
