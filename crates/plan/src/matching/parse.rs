//! The parser of matches. Each word has its offset, so that an error can mark it.

use super::names::{DSCPS, ICMP, ICMPV6, PROTOCOLS, TCP, UDP, named, number};
use super::{Match, MatchError, MatchFamily};
use crate::Prefix;
use crate::text::{did_you_mean, quote};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The first words of clauses.
const CLAUSES: &[&str] = &["ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "iif", "meta", "any"];

/// One word and its byte offset.
#[derive(Clone, Copy)]
struct Word<'t> {
    offset: usize,
    text: &'t str,
}

impl Word<'_> {
    fn wrong<T>(self, reason: impl Into<String>, hint: impl Into<String>) -> Result<T, MatchError> {
        Err(MatchError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() })
    }
}

fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    text.split_whitespace().map(move |word| Word { offset: word.as_ptr().addr() - text.as_ptr().addr(), text: word })
}

/// The match so far, and the word that set each field.
struct Reader<'t> {
    words: std::iter::Peekable<Box<dyn Iterator<Item = Word<'t>> + 't>>,
    end: Word<'t>,
    out: Match,
    family_set_by: Option<Word<'t>>,
    protocol_set_by: Option<Word<'t>>,
}

impl Match {
    /// Parses a match by the grammar of this module.
    pub fn parse(text: &str) -> Result<Match, MatchError> {
        parse(text)
    }
}

impl FromStr for Match {
    type Err = MatchError;
    fn from_str(text: &str) -> Result<Self, MatchError> {
        Match::parse(text)
    }
}

fn parse(text: &str) -> Result<Match, MatchError> {
    let all: Box<dyn Iterator<Item = Word<'_>>> = Box::new(words(text));
    let mut reader = Reader {
        words: all.peekable(),
        end: Word { offset: text.trim_end().len(), text: "" },
        out: Match::default(),
        family_set_by: None,
        protocol_set_by: None,
    };
    if reader.words.peek().is_none() {
        return reader.end.wrong("the match is empty", "write 'any' to match every packet");
    }
    let mut clauses = 0usize;
    while let Some(word) = reader.words.next() {
        if word.text == "any" && (clauses > 0 || reader.words.peek().is_some()) {
            return word.wrong(
                "'any' cannot be combined with other clauses",
                "remove it: a match without a clause for a field matches every value",
            );
        }
        reader.clause(word)?;
        clauses += 1;
    }
    Ok(reader.out)
}

impl<'t> Reader<'t> {
    fn clause(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        match word.text {
            "any" => Ok(()),
            "ip" => self.ip(word, MatchFamily::V4),
            "ip6" => self.ip(word, MatchFamily::V6),
            "tcp" => self.transport(word, TCP),
            "udp" => self.transport(word, UDP),
            "icmp" => self.family(word, MatchFamily::V4).and_then(|()| self.protocol(word, ICMP)),
            "icmpv6" => self.family(word, MatchFamily::V6).and_then(|()| self.protocol(word, ICMPV6)),
            "iif" | "iifname" => self.interface(word),
            "meta" => {
                let key = self.after(word, "'l4proto'")?;
                if key.text != "l4proto" {
                    return key.wrong(format!("{} is no 'meta' field", quote(key.text)), "write 'meta l4proto 89'");
                }
                self.protocol_word(key)
            }
            "saddr" | "daddr" | "dscp" | "protocol" | "nexthdr" => word.wrong(
                format!("'{0}' needs a header before it", word.text),
                format!("write 'ip {0} ...' or 'ip6 {0} ...'", word.text),
            ),
            "sport" | "dport" => word.wrong(
                format!("'{0}' needs a protocol before it", word.text),
                format!("write 'udp {0} ...' or 'tcp {0} ...'", word.text),
            ),
            "and" | "&&" => word.wrong("clauses need no word between them", "remove it: every clause must hold"),
            "or" | "||" | "not" | "!" | "!=" => word.wrong(
                format!("matches do not support {}", quote(word.text)),
                "write one path for each alternative; the first that matches wins",
            ),
            _ => word.wrong(
                format!("no clause begins with {}", quote(word.text)),
                did_you_mean(word.text, CLAUSES.iter().copied()),
            ),
        }
    }

    /// The word after `before`, or an error that names the missing operand.
    fn after(&mut self, before: Word<'t>, what: &str) -> Result<Word<'t>, MatchError> {
        match self.words.next() {
            // A port may be called `in`.
            Some(word) if word.text == "in" && before.text.starts_with("iif") => Ok(word),
            Some(word) if matches!(word.text, "!=" | "==" | "=" | "<" | ">" | "in") => {
                let hint = format!("write '{} VALUE'", before.text);
                word.wrong(format!("matches do not support {}", quote(word.text)), hint)
            }
            Some(word) if word.text.starts_with('{') => {
                word.wrong("matches do not support sets", "write one path for each value, or a range of ports")
            }
            Some(word) => Ok(word),
            None => self.end.wrong(format!("'{}' is not followed by {what}", before.text), format!("add {what}")),
        }
    }

    fn ip(&mut self, word: Word<'t>, family: MatchFamily) -> Result<(), MatchError> {
        self.family(word, family)?;
        let fields: &[&str] = match family {
            MatchFamily::V6 => &["saddr", "daddr", "dscp", "nexthdr"],
            _ => &["saddr", "daddr", "dscp", "protocol"],
        };
        // A bare `ip` is a condition of its own; the next word then starts the next clause.
        let Some(field) = self.words.next_if(|next| !CLAUSES.contains(&next.text) && next.text != "iifname") else {
            return Ok(());
        };
        match field.text {
            "saddr" => {
                let prefix = self.prefix(field, family)?;
                once(&mut self.out.source, prefix, field, "the source address")
            }
            "daddr" => {
                let prefix = self.prefix(field, family)?;
                once(&mut self.out.destination, prefix, field, "the destination address")
            }
            "dscp" => {
                let value = self.after(field, "a code point, like 'ef' or 46")?;
                let dscp = named(DSCPS, value.text, 63);
                let Some(dscp) = dscp else {
                    let hint = "write a name like ef, af41 or cs6, or a number from 0 to 63";
                    return value.wrong(format!("{} is no code point", quote(value.text)), hint);
                };
                once(&mut self.out.dscp, dscp, field, "the code point")
            }
            "protocol" if family == MatchFamily::V4 => self.protocol_word(field),
            "nexthdr" if family == MatchFamily::V6 => self.protocol_word(field),
            _ => field.wrong(
                format!("'{}' has no field {}", word.text, quote(field.text)),
                did_you_mean(field.text, fields.iter().copied()),
            ),
        }
    }

    fn prefix(&mut self, field: Word<'t>, family: MatchFamily) -> Result<Prefix, MatchError> {
        let word = self.after(field, "an address or a prefix")?;
        let prefix = match word.text.parse::<IpAddr>() {
            Ok(address) => Prefix::host(address),
            Err(_) => word.text.parse::<Prefix>().or_else(|error| word.wrong(error.reason, error.hint))?,
        };
        match (family, prefix.address) {
            (MatchFamily::V6, IpAddr::V4(_)) => {
                return word.wrong(
                    format!("{} is an IPv4 address after 'ip6'", quote(word.text)),
                    format!("write 'ip {} {}'", field.text, word.text),
                );
            }
            (MatchFamily::V4, IpAddr::V6(_)) => {
                return word.wrong(
                    format!("{} is an IPv6 address after 'ip'", quote(word.text)),
                    format!("write 'ip6 {} {}'", field.text, word.text),
                );
            }
            _ => {}
        }
        if !prefix.is_network() {
            return word.wrong(
                format!("{} has bits set after its prefix length", quote(word.text)),
                format!("write '{}'", prefix.network()),
            );
        }
        Ok(prefix)
    }

    fn protocol_word(&mut self, field: Word<'t>) -> Result<(), MatchError> {
        let word = self.after(field, "a protocol, like 'tcp' or 89")?;
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

    fn transport(&mut self, word: Word<'t>, protocol: u8) -> Result<(), MatchError> {
        self.protocol(word, protocol)?;
        let Some(field) = self.words.next_if(|next| !CLAUSES.contains(&next.text) && next.text != "iifname") else {
            return Ok(());
        };
        let slot = match field.text {
            "sport" => &mut self.out.sport,
            "dport" => &mut self.out.dport,
            _ => {
                let hint = did_you_mean(field.text, ["sport", "dport"]);
                return field.wrong(format!("'{}' has no field {}", word.text, quote(field.text)), hint);
            }
        };
        let mut taken = slot.take();
        let value = self.after(field, "a port or a range of ports")?;
        let Some(range) = ports(value.text) else {
            let hint = "write a number from 0 to 65535, or a range like 5000-5010";
            return value.wrong(format!("{} is no port", quote(value.text)), hint);
        };
        if range.is_empty() {
            let hint = format!("write {}-{}", range.end(), range.start());
            return value.wrong("the range of ports ends before it begins", hint);
        }
        let what = if field.text == "sport" { "the source port" } else { "the destination port" };
        once(&mut taken, range, field, what)?;
        if field.text == "sport" {
            self.out.sport = taken
        } else {
            self.out.dport = taken
        }
        Ok(())
    }

    fn interface(&mut self, word: Word<'t>) -> Result<(), MatchError> {
        let name = self.after(word, "an interface, like 'lan' or 'lan.20'")?;
        let bare = name.text.strip_prefix('"').and_then(|n| n.strip_suffix('"')).unwrap_or(name.text);
        if !crate::names::is_interface(bare) {
            return name.wrong(
                format!("{} is no interface", quote(name.text)),
                "write the name of a port, or of its VLAN like 'lan.20'",
            );
        }
        once(&mut self.out.iif, bare.to_string(), word, "the interface")
    }

    fn family(&mut self, word: Word<'t>, family: MatchFamily) -> Result<(), MatchError> {
        if let Some(said) = self.family_set_by.filter(|_| self.out.family != family) {
            let reason = format!("'{}' contradicts the earlier '{}'", word.text, said.text);
            return word.wrong(reason, "a packet has one IP version; write a path for each");
        }
        self.out.family = family;
        self.family_set_by.get_or_insert(word);
        Ok(())
    }

    fn protocol(&mut self, word: Word<'t>, protocol: u8) -> Result<(), MatchError> {
        if let Some(said) = self.protocol_set_by.filter(|_| self.out.protocol != Some(protocol)) {
            let reason = format!("'{}' contradicts the earlier '{}'", word.text, said.text);
            return word.wrong(reason, "a packet has one protocol; write a path for each");
        }
        self.out.protocol = Some(protocol);
        self.protocol_set_by.get_or_insert(word);
        Ok(())
    }
}

/// Sets a field that must not be set twice.
fn once<T>(slot: &mut Option<T>, value: T, word: Word<'_>, what: &str) -> Result<(), MatchError> {
    if slot.replace(value).is_some() {
        return word.wrong(format!("{what} is given twice"), "keep one: every clause must hold");
    }
    Ok(())
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    match text.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(text).map(|port| port..=port),
    }
}
