//! Rules of a packet filter in the syntax of nftables: conditions that must all hold, then statements, then the verdict.
//!
//! ```text
//! rule      = { clause } { statement } verdict [ "comment" TEXT ]
//! clause    = a clause of a match
//! statement = "counter" | "log" [ "prefix" TEXT ] | "limit" "rate" [ "over" ] LIMIT | ("ip" | "ip6") "dscp" "set" DSCP
//! LIMIT     = NUMBER "/" ("second" | "minute" | "hour" | "day") [ "burst" NUMBER "packets" ] | RATE [ "burst" SIZE ]
//! verdict   = "accept" | "drop" | "reject" [ "with" "tcp" "reset" ]
//! ```
//!
//! `reject` sends a TCP reset, or an ICMP error for other protocols. A packet beyond a limit does not match the rule. With `over` only packets
//! beyond the limit match it.

use crate::Match;
use crate::matching::{MatchReader, Word, dscp_name, words};
use crate::text::{TextError, did_you_mean, quote};
use serde::{Serialize, Serializer};
use std::fmt;
use units::{Bytes, Rate};

/// Limit of characters in a comment, as in nftables.
const MOST_COMMENT: usize = 128;
/// Limit of characters in the prefix of a log entry, as in nftables.
const MOST_PREFIX: usize = 127;
/// The burst of a packet limit that names none, as in nftables.
const DEFAULT_BURST: u32 = 5;
/// The burst of a bit rate that names none: the largest IP packet.
const DEFAULT_BURST_SIZE: Bytes = Bytes::new(65_536);

/// A rule of a filter as a regular expression, for the schema.
pub(crate) const PATTERN: &str =
    r#"(^|\s)(accept|drop|reject(\s+with\s+tcp\s+reset)?)(\s+comment\s+("[^"]*"|[^"\s]+))?\s*$"#;

/// The verdict of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FilterVerdict {
    /// The packet continues.
    Accept,
    /// It is dropped.
    Drop,
    /// It is dropped. Its sender gets a TCP reset or an ICMP error.
    Reject,
}

/// An action of a rule on a matching packet before its verdict.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FilterStatement {
    /// Log the packet, with a text before its description.
    Log(Option<String>),
    /// Count it. Every rule counts its packets anyway.
    Counter,
    /// Continue with the rule only within a rate, or only beyond it.
    Limit(FilterLimit),
    /// Set the differentiated services code point, 0 to 63.
    SetDscp(u8),
}

/// The rate of a `limit`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FilterLimit {
    /// True if the rule matches the packets beyond the rate.
    pub over: bool,
    /// The rate.
    pub rate: LimitRate,
}

/// A rate of packets or of bits, with the burst that a limit allows after an idle time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LimitRate {
    /// So many packets in each period.
    Packets {
        /// Number of packets, at least 1.
        packets: u32,
        /// The period.
        per: LimitPeriod,
        /// Burst in packets.
        burst: u32,
    },
    /// Bits of IP packets.
    Bits {
        /// Bits per second.
        rate: Rate,
        /// Burst in bytes.
        burst: Bytes,
    },
}

/// The period of a packet rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LimitPeriod {
    /// A second.
    Second,
    /// 60 seconds.
    Minute,
    /// 3600 seconds.
    Hour,
    /// 86400 seconds.
    Day,
}

impl LimitPeriod {
    const ALL: [(&'static str, LimitPeriod, u32); 4] = [
        ("second", LimitPeriod::Second, 1),
        ("minute", LimitPeriod::Minute, 60),
        ("hour", LimitPeriod::Hour, 3_600),
        ("day", LimitPeriod::Day, 86_400),
    ];

    /// Its length in seconds.
    pub const fn seconds(self) -> u32 {
        Self::ALL[self as usize].2
    }
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FilterRule {
    /// The packets of the rule.
    pub matching: Match,
    /// The actions before the verdict, in order.
    pub statements: Vec<FilterStatement>,
    /// The verdict.
    pub verdict: FilterVerdict,
    /// The operator's remark.
    pub comment: Option<String>,
}

/// The words of a kind of rules.
pub(crate) struct RuleWords {
    /// The first words of statements and verdicts.
    pub words: &'static [&'static str],
    /// First words for a suggestion: those of clauses that rules need most, statements and verdicts.
    pub known: &'static [&'static str],
    /// The verdicts, for hints.
    pub verdicts: &'static str,
    /// True if no further clause begins with these words.
    pub stops: fn(&[Word<'_>]) -> bool,
}

/// The first words of statements and verdicts of filters.
const WORDS: &[&str] = &["log", "counter", "limit", "accept", "drop", "reject"];

const FILTER: RuleWords = RuleWords {
    words: WORDS,
    known: &[
        "ip", "ip6", "tcp", "udp", "icmp", "icmpv6", "iif", "iifname", "vrf", "vlan", "fragment", "meta", "ct", "fib",
        "log", "counter", "limit", "accept", "drop", "reject",
    ],
    verdicts: "accept, drop or reject",
    stops: |rest| sets_dscp(rest) || rest.first().is_some_and(|word| WORDS.contains(&word.text)),
};

/// True if these words begin with `ip dscp set`.
pub(crate) fn sets_dscp(rest: &[Word<'_>]) -> bool {
    matches!(rest, [ip, dscp, set, ..] if matches!(ip.text, "ip" | "ip6") && dscp.text == "dscp" && set.text == "set")
}

/// The parts of a rule whose verdict is a `V`.
pub(crate) struct RuleParts<V> {
    pub matching: Match,
    pub statements: Vec<FilterStatement>,
    pub verdict: V,
    pub comment: Option<String>,
}

impl<V> RuleParts<V> {
    /// Parses a rule. `verdict` reads the verdict that begins with a word, if one does.
    pub fn parse(
        text: &str,
        kind: &RuleWords,
        verdict: impl for<'w, 't> Fn(&mut MatchReader<'w, 't>, Word<'t>) -> Result<Option<V>, TextError>,
    ) -> Result<RuleParts<V>, TextError> {
        let words = words(text)?;
        let Some(last) = words.last() else {
            let hint = format!("write a match and then {}", kind.verdicts);
            return Err(TextError::whole(text, "the rule is empty", hint));
        };
        let mut reader = MatchReader::new(text, &words, kind.stops);
        while !reader.stops() {
            let Some(word) = reader.next() else { break };
            reader.clause(word, kind.known)?;
        }
        let mut statements = Vec::new();
        let verdict = loop {
            let Some(word) = reader.next() else {
                let hint = format!("end the rule with {}", kind.verdicts);
                return last.wrong(format!("{} is no verdict", quote(last.text)), hint);
            };
            match verdict(&mut reader, word)? {
                Some(verdict) => break verdict,
                None => statements.push(statement(&mut reader, word, kind)?),
            }
        };
        let comment = match reader.next_if("comment") {
            Some(word) => Some(quoted_text(reader.value(word, "a text")?, MOST_COMMENT)?),
            None => None,
        };
        if let Some(word) = reader.next() {
            let hint = "remove it: only a comment follows the verdict";
            return word.wrong(format!("{} follows the verdict", quote(word.text)), hint);
        }
        Ok(RuleParts { matching: reader.out, statements, verdict, comment })
    }
}

impl FilterRule {
    /// Parses a rule by the grammar of this module.
    pub fn parse(text: &str) -> Result<FilterRule, TextError> {
        let RuleParts { matching, statements, verdict, comment } = RuleParts::parse(text, &FILTER, verdict)?;
        Ok(FilterRule { matching, statements, verdict, comment })
    }
}

fn verdict<'t>(reader: &mut MatchReader<'_, 't>, word: Word<'t>) -> Result<Option<FilterVerdict>, TextError> {
    Ok(match word.text {
        "accept" => Some(FilterVerdict::Accept),
        "drop" => Some(FilterVerdict::Drop),
        "reject" => Some(reject(reader)?),
        _ => None,
    })
}

/// The rest of `reject with tcp reset`. For TCP it is the same as `reject` alone.
fn reject(reader: &mut MatchReader<'_, '_>) -> Result<FilterVerdict, TextError> {
    if let Some(with) = reader.next_if("with") {
        let tcp = reader.keyword(with, "tcp", "reject with tcp reset")?;
        let reset = reader.keyword(tcp, "reset", "reject with tcp reset")?;
        if reader.out.protocol != Some(6) {
            return reset.wrong("only TCP has resets", "begin the rule with 'tcp', or write 'reject' alone");
        }
    }
    Ok(FilterVerdict::Reject)
}

fn statement<'t>(
    reader: &mut MatchReader<'_, 't>,
    word: Word<'t>,
    kind: &RuleWords,
) -> Result<FilterStatement, TextError> {
    match word.text {
        "counter" => Ok(FilterStatement::Counter),
        "log" => match reader.next_if("prefix") {
            Some(prefix) => {
                quoted_text(reader.value(prefix, "a text")?, MOST_PREFIX).map(Some).map(FilterStatement::Log)
            }
            None => Ok(FilterStatement::Log(None)),
        },
        "limit" => limit(reader, word).map(FilterStatement::Limit),
        "ip" | "ip6" => {
            let dscp = reader.keyword(word, "dscp", "ip dscp set ef")?;
            let set = reader.keyword(dscp, "set", "ip dscp set ef")?;
            reader.dscp(set).map(FilterStatement::SetDscp)
        }
        "tcp" | "udp" | "icmp" | "icmpv6" | "iif" | "iifname" | "vrf" | "vlan" | "fragment" | "meta" | "ct" | "fib" => {
            word.wrong("a condition follows a statement", "move all conditions before the statements")
        }
        _ => word
            .wrong(format!("{} is no verdict", quote(word.text)), did_you_mean(word.text, kind.words.iter().copied())),
    }
}

fn limit<'t>(reader: &mut MatchReader<'_, 't>, word: Word<'t>) -> Result<FilterLimit, TextError> {
    const EXAMPLE: &str = "limit rate 10/second";
    let rate = reader.keyword(word, "rate", EXAMPLE)?;
    let over = reader.next_if("over");
    let value = reader.value(over.unwrap_or(rate), "a rate, like 10/second or 5mbit")?;
    let burst = |reader: &mut MatchReader<'_, 't>| match reader.next_if("burst") {
        Some(burst) => reader.value(burst, "a burst").map(Some),
        None => Ok(None),
    };
    let rate = match value.text.split_once('/') {
        Some((packets, period)) => {
            let known = LimitPeriod::ALL.iter().find(|(name, ..)| *name == period);
            let Some((packets, (_, per, _))) = count(packets).zip(known) else {
                let hint = "write a number and a period, like 10/second, 5/minute, 5/hour or 5/day";
                return value.wrong(format!("{} is no rate", quote(value.text)), hint);
            };
            let burst = match burst(reader)? {
                None => DEFAULT_BURST,
                Some(number) => {
                    let Some(burst) = count(number.text) else {
                        return number.wrong(format!("{} is no burst", quote(number.text)), "write 'burst 5 packets'");
                    };
                    reader.keyword(number, "packets", "burst 5 packets")?;
                    burst
                }
            };
            LimitRate::Packets { packets, per: *per, burst }
        }
        None => {
            // `5 mbit` like `5mbit`.
            let joined = match count(value.text) {
                Some(_) => format!("{}{}", value.text, reader.value(value, "a unit, like 'mbit' or '/second'")?.text),
                None => value.text.to_string(),
            };
            let rate: Rate = joined.parse().or_else(|error: units::UnitError| value.wrong(error.reason, error.hint))?;
            if rate == Rate::ZERO {
                return value.wrong("the rate is zero", "write 'drop' without a limit, or a larger rate");
            }
            let burst = match burst(reader)? {
                None => DEFAULT_BURST_SIZE,
                Some(size) => {
                    size.text.parse().or_else(|error: units::UnitError| size.wrong(error.reason, error.hint))?
                }
            };
            LimitRate::Bits { rate, burst }
        }
    };
    Ok(FilterLimit { over: over.is_some(), rate })
}

/// A number of packets, at least 1.
fn count(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok().filter(|count| *count > 0) } else { None }
}

fn quoted_text(word: Word<'_>, most: usize) -> Result<String, TextError> {
    let text = word.unquoted();
    if text.contains('"') {
        return word.wrong("the text is not closed", "add a '\"' behind it");
    }
    if text.chars().count() > most || text.chars().any(char::is_control) {
        return word.wrong(
            format!("a text has at most {most} characters, without control characters"),
            "write a shorter text of letters, digits and signs",
        );
    }
    Ok(text.to_string())
}

impl Serialize for FilterRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Writes the canonical text of a rule from its parts.
pub(crate) fn write_rule(
    f: &mut fmt::Formatter<'_>,
    (matching, statements): (&Match, &[FilterStatement]),
    verdict: &dyn fmt::Display,
    comment: Option<&String>,
) -> fmt::Result {
    if *matching != Match::default() {
        write!(f, "{matching} ")?;
    }
    statements.iter().try_for_each(|statement| write!(f, "{statement} "))?;
    write!(f, "{verdict}")?;
    comment.map_or(Ok(()), |comment| write!(f, " comment \"{comment}\""))
}

impl fmt::Display for FilterRule {
    /// The canonical text: it parses back to an equal rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            FilterVerdict::Accept => "accept",
            FilterVerdict::Drop => "drop",
            FilterVerdict::Reject => "reject",
        };
        write_rule(f, (&self.matching, &self.statements), &verdict, self.comment.as_ref())
    }
}

impl fmt::Display for FilterStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterStatement::Log(None) => f.write_str("log"),
            FilterStatement::Log(Some(prefix)) => write!(f, "log prefix \"{prefix}\""),
            FilterStatement::Counter => f.write_str("counter"),
            FilterStatement::SetDscp(dscp) => write!(f, "ip dscp set {}", dscp_name(*dscp)),
            FilterStatement::Limit(FilterLimit { over, rate }) => {
                write!(f, "limit rate {}", if *over { "over " } else { "" })?;
                match *rate {
                    LimitRate::Packets { packets, per, burst } => {
                        write!(f, "{packets}/{}", LimitPeriod::ALL[per as usize].0)?;
                        if burst == DEFAULT_BURST { Ok(()) } else { write!(f, " burst {burst} packets") }
                    }
                    LimitRate::Bits { rate, burst } => {
                        write!(f, "{rate}")?;
                        if burst == DEFAULT_BURST_SIZE { Ok(()) } else { write!(f, " burst {burst}") }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rule_is_printed_canonically() {
        for (rule, canonical) in [
            ("accept", "accept"),
            ("tcp  dport {443,80} accept", "tcp dport { 80, 443 } accept"),
            ("tcp dport { 80-90, 91 } drop", "tcp dport 80-91 drop"),
            ("ip saddr { 10.0.0.1/9, 10.128.0.0/9 } drop", "ip saddr 10.0.0.0/8 drop"),
            ("ip6 saddr @bad drop", "ip6 saddr @bad drop"),
            ("icmp type 8 icmp code 0 accept", "icmp type echo-request icmp code 0 accept"),
            ("icmp type { 13, 14 } accept", "icmp type 13-14 accept"),
            ("tcp flags ack,syn drop", "tcp flags syn,ack drop"),
            ("tcp flags none/syn drop", "tcp flags none/syn drop"),
            ("ct state established,new accept", "ct state new,established accept"),
            ("fragment later,first drop", "fragment first,later drop"),
            ("vlan id 7 vrf red iif lan drop", "iif lan vrf red vlan id 7 drop"),
            ("ip6 flowlabel 0x10 meta length 100-200 drop", "ip6 flowlabel 16 meta length 100-200 drop"),
            ("counter log accept", "counter log accept"),
            ("udp log prefix \"dns asked\" drop", "udp log prefix \"dns asked\" drop"),
            ("limit rate 10/second accept", "limit rate 10/second accept"),
            ("limit rate over 10/minute burst 7 packets drop", "limit rate over 10/minute burst 7 packets drop"),
            ("limit rate 10 mbit burst 20kb accept", "limit rate 10mbit burst 20kb accept"),
            ("ip dscp ef ip dscp set af41 accept", "ip dscp ef ip dscp set af41 accept"),
            ("ip6 ip6 dscp set 3 accept", "ip6 ip dscp set 3 accept"),
            ("tcp reject with tcp reset", "tcp reject"),
            ("drop comment \"the rest\"", "drop comment \"the rest\""),
            ("iif log drop", "iif log drop"),
        ] {
            let read = FilterRule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
            assert_eq!(read.to_string(), canonical, "{rule}");
            assert_eq!(FilterRule::parse(canonical), Ok(read), "{rule}");
        }
    }

    #[test]
    fn error_marks_the_wrong_part_of_the_rule() {
        for (rule, marked) in [
            ("", ""),
            ("tcp dport 80", "80"),
            ("tcp dport { 80, 443 accept", "{ 80, 443 accept"),
            ("tcp dport { 80, x } accept", "x"),
            ("tcp dport { } accept", ""),
            ("ip saddr { 10.0.0.0/8, ::1 } accept", "::1"),
            ("ip saddr @Bad accept", "@Bad"),
            ("ct state old accept", "old"),
            ("ct mark 3 accept", "mark"),
            ("tcp flags syn/ack accept", "syn/ack"),
            ("icmp type ping accept", "ping"),
            ("tpc dport 80 accept", "tpc"),
            ("tcp dport 80 acept", "acept"),
            ("tcp dport { 80 } udp accept", "udp"),
            ("ip dscp { ef, af41 } accept", "{ ef, af41 }"),
            ("log tcp accept", "tcp"),
            ("log prefix \"x accept", "\"x"),
            ("limit 5/second accept", "5/second"),
            ("limit rate 0/second accept", "0/second"),
            ("limit rate 5/second burst 3 accept", "accept"),
            ("limit rate 5mbits accept", "5mbits"),
            ("ip dscp set fast accept", "fast"),
            ("udp reject with tcp reset", "reset"),
            ("accept tcp", "tcp"),
            ("drop comment", ""),
            ("vlan id 4096 drop", "4096"),
            ("fragment some drop", "some"),
            ("meta length 9-3 drop", "9-3"),
        ] {
            let error = FilterRule::parse(rule).expect_err(rule);
            assert_eq!(&rule[error.offset..error.offset + error.length], marked, "{rule}: {error}");
            assert!(!error.hint.is_empty(), "{rule}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rule_or_an_error_within_it(
            text in r#"((ip|ip6|dscp|set|tcp|flags|syn|/|log|prefix|"|limit|rate|over|5|mbit|burst|packets|comment|accept|reject|with|\{|\}|,|@|-|[ -~]|é) ?){0,14}"#,
        ) {
            match FilterRule::parse(&text) {
                Ok(rule) => prop_assert_eq!(FilterRule::parse(&rule.to_string()), Ok(rule)),
                Err(error) => {
                    prop_assert!(text.get(error.offset..error.offset + error.length).is_some(), "{error}");
                    prop_assert!(!error.reason.is_empty() && !error.hint.is_empty());
                }
            }
        }
    }
}
