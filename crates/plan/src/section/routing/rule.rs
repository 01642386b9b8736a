//! Rules that select the route of packets: conditions, then statements, then the verdict.
//!
//! ```text
//! rule    = { clause } { statement } verdict [ "comment" TEXT ]
//! verdict = "accept" | "drop" | "unreachable" | "vrf" VRF | "via" ADDRESS [ "dev" INTERFACE ]
//! ```
//!
//! Clauses and statements are those of a filter. `vrf VRF` at the end is a verdict, everywhere else a condition on the input interface.

use crate::matching::{MatchReader, Word};
use crate::names::{self, Name};
use crate::section::path::filter::rule::{FilterStatement, RuleParts, RuleWords, sets_dscp, write_rule};
use crate::text::{TextError, quote};
use crate::{Match, MatchFamily};
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::IpAddr;

/// A rule as a regular expression, for the schema.
pub(crate) const PATTERN: &str =
    r#"(^|\s)(accept|drop|unreachable|vrf\s+\S+|via\s+\S+(\s+dev\s+\S+)?)(\s+comment\s+("[^"]*"|[^"\s]+))?\s*$"#;

/// The verdict of a routing rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RoutingVerdict {
    /// The packet takes the route of its destination, as without rules.
    Accept,
    /// It is dropped.
    Drop,
    /// It is dropped. Its sender gets an ICMP error.
    Unreachable,
    /// It takes the route of its destination in this VRF; `main` is the default one.
    Vrf(Name),
    /// It is sent to this next hop.
    Via {
        /// The address of the next hop. Its IP version is that of the rule's packets.
        address: IpAddr,
        /// The interface whose subnet it is on. The check of a plan fills it in.
        interface: Option<Name>,
    },
}

impl fmt::Display for RoutingVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoutingVerdict::Accept => f.write_str("accept"),
            RoutingVerdict::Drop => f.write_str("drop"),
            RoutingVerdict::Unreachable => f.write_str("unreachable"),
            RoutingVerdict::Vrf(name) => write!(f, "vrf {name}"),
            RoutingVerdict::Via { address, interface: None } => write!(f, "via {address}"),
            RoutingVerdict::Via { address, interface: Some(name) } => write!(f, "via {address} dev {name}"),
        }
    }
}

/// A routing rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RoutingRule {
    /// The packets of the rule.
    pub matching: Match,
    /// The actions before the verdict, in order.
    pub statements: Vec<FilterStatement>,
    /// The verdict.
    pub verdict: RoutingVerdict,
    /// The operator's remark.
    pub comment: Option<String>,
}

/// The first words of statements and verdicts. `vrf` is left out: it also begins a clause.
const WORDS: &[&str] = &["log", "counter", "limit", "accept", "drop", "unreachable", "via"];

const ROUTING: RuleWords = RuleWords {
    words: WORDS,
    known: &[
        "ip",
        "ip6",
        "tcp",
        "udp",
        "icmp",
        "icmpv6",
        "iif",
        "iifname",
        "vrf",
        "vlan",
        "fragment",
        "meta",
        "fib",
        "log",
        "counter",
        "limit",
        "accept",
        "drop",
        "unreachable",
        "via",
    ],
    verdicts: "accept, drop, unreachable, via ADDRESS or vrf NAME",
    stops,
};

fn stops(rest: &[Word<'_>]) -> bool {
    match rest {
        [vrf, _] if vrf.text == "vrf" => true,
        [vrf, _, comment, ..] if vrf.text == "vrf" => comment.text == "comment",
        // `reject` gets an error of its own.
        _ => sets_dscp(rest) || rest.first().is_some_and(|word| WORDS.contains(&word.text) || word.text == "reject"),
    }
}

impl RoutingRule {
    /// Parses a rule by the grammar of this module.
    pub fn parse(text: &str) -> Result<RoutingRule, TextError> {
        let RuleParts { matching, statements, verdict, comment } = RuleParts::parse(text, &ROUTING, verdict)?;
        Ok(RoutingRule { matching, statements, verdict, comment })
    }
}

fn verdict<'t>(reader: &mut MatchReader<'_, 't>, word: Word<'t>) -> Result<Option<RoutingVerdict>, TextError> {
    Ok(Some(match word.text {
        "accept" => RoutingVerdict::Accept,
        "drop" => RoutingVerdict::Drop,
        "unreachable" => RoutingVerdict::Unreachable,
        "reject" => return word.wrong("'reject' is no verdict of a routing rule", "write 'unreachable' or 'drop'"),
        "vrf" => {
            let name = reader.value(word, "a VRF")?;
            if !names::is_vrf(name.unquoted()) {
                let reason = format!("{} is no name of a VRF", quote(name.text));
                return name.wrong(reason, "write 'vrf red', or 'vrf main'");
            }
            RoutingVerdict::Vrf(name.unquoted().into())
        }
        "via" => via(reader, word)?,
        _ => return Ok(None),
    }))
}

fn via<'t>(reader: &mut MatchReader<'_, 't>, word: Word<'t>) -> Result<RoutingVerdict, TextError> {
    let value = reader.value(word, "an address, like '192.0.2.9'")?;
    let Ok(address) = value.text.parse::<IpAddr>() else {
        let hint = "write the address of a next hop, like 'via 192.0.2.9'";
        return value.wrong(format!("{} is no address", quote(value.text)), hint);
    };
    // A next hop has the IP version of its packets, so the address is a condition as well.
    reader.family(word, if address.is_ipv4() { MatchFamily::V4 } else { MatchFamily::V6 })?;
    let interface = match reader.next_if("dev") {
        None => None,
        Some(dev) => {
            let name = reader.value(dev, "a port, like 'wan'")?;
            if !names::is_interface(name.unquoted()) {
                let hint = "write the name of a port, or of its VLAN like 'lan.20'";
                return name.wrong(format!("{} is no interface", quote(name.text)), hint);
            }
            Some(name.unquoted().into())
        }
    };
    Ok(RoutingVerdict::Via { address, interface })
}

impl Serialize for RoutingRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for RoutingRule {
    /// The canonical text: it parses back to an equal rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rule(f, (&self.matching, &self.statements), &self.verdict, self.comment.as_ref())
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
            ("vrf red", "vrf red"),
            ("vrf red vrf blue", "vrf red vrf blue"),
            ("vrf red drop", "vrf red drop"),
            ("vrf red comment \"second uplink\"", "vrf red comment \"second uplink\""),
            ("ip saddr 10.1.0.0/16 vrf isp2", "ip saddr 10.1.0.0/16 vrf isp2"),
            ("tcp dport 80 via 192.0.2.9", "ip tcp dport 80 via 192.0.2.9"),
            ("ip6 saddr 2001:db8::/32 via fe80::1 dev wan.7", "ip6 saddr 2001:db8::/32 via fe80::1 dev wan.7"),
            ("limit rate over 10mbit ip dscp set af12 accept", "limit rate over 10mbit ip dscp set af12 accept"),
            ("udp limit rate 5mbit vrf red", "udp limit rate 5mbit vrf red"),
            ("fib saddr . iif check missing drop", "fib saddr . iif oif missing drop"),
            ("fib saddr oif missing log unreachable", "fib saddr oif missing log unreachable"),
        ] {
            let parsed = RoutingRule::parse(rule).unwrap_or_else(|error| panic!("{rule}: {error}"));
            assert_eq!(parsed.to_string(), canonical);
            assert_eq!(RoutingRule::parse(canonical).as_ref(), Ok(&parsed));
        }
    }

    #[test]
    fn wrong_rules_are_refused_with_their_position() {
        for (rule, at, reason) in [
            ("", 0, "the rule is empty"),
            ("tcp", 0, "'tcp' is no verdict"),
            ("tcp reject", 4, "'reject' is no verdict of a routing rule"),
            ("ip6 via 192.0.2.9", 4, "'via' contradicts the earlier 'ip6'"),
            ("via 192.0.2.999", 4, "'192.0.2.999' is no address"),
            ("via 192.0.2.9 dev", 17, "'dev' is not followed by a port, like 'wan'"),
            ("via 192.0.2.9 dev ?", 18, "'?' is no interface"),
            ("limit rate 1mbit vrf Red", 21, "'Red' is no name of a VRF"),
            ("vrf red vrf", 11, "'vrf' is not followed by a VRF"),
            ("accept drop", 7, "'drop' follows the verdict"),
            ("fib daddr type local drop", 4, "'fib' supports only 'saddr', not 'daddr'"),
            ("fib saddr . oif missing drop", 12, "'.' supports only 'iif', not 'oif'"),
            ("fib saddr type local drop", 10, "'fib' supports only 'oif' here, not 'type'"),
            ("fib saddr oif 0 drop", 14, "'0' is neither 'missing' nor 'exists'"),
            ("fib saddr oif missing fib saddr . iif oif missing drop", 22, "the condition on routes is given twice"),
        ] {
            let error = RoutingRule::parse(rule).expect_err(rule);
            assert_eq!((error.offset, &*error.reason), (at, reason), "{rule}");
            assert!(!error.hint.is_empty());
        }
    }

    proptest! {
        /// Words in any order: no panic, and what parses prints to something equal.
        #[test]
        fn parsed_rule_parses_back_as_printed(
            words in proptest::collection::vec(
                prop::sample::select(vec![
                    "ip", "ip6", "saddr", "10.0.0.0/8", "2001:db8::/32", "tcp", "dport", "80", "{ 1, 2 }", "vrf", "red", "iif",
                    "lan", "fib", ".", "oif", "missing", "exists", "limit", "rate", "over", "1mbit", "dscp", "set", "ef",
                    "log", "prefix", "\"a b\"", "via", "192.0.2.9", "fe80::1", "dev", "wan", "accept", "drop",
                    "unreachable", "comment", "\"", "#", "é",
                ]),
                0..9,
            ),
        ) {
            let text = words.join(" ");
            match RoutingRule::parse(&text) {
                Ok(rule) => {
                    let back = RoutingRule::parse(&rule.to_string());
                    prop_assert_eq!(back.as_ref(), Ok(&rule));
                }
                Err(error) => {
                    prop_assert!(!error.reason.is_empty() && !error.hint.is_empty());
                    prop_assert!(error.offset + error.length <= text.len(), "{}: {:?}", text, error);
                }
            }
        }
    }
}
