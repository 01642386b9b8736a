//! Rules of the function `dispatch`: they select a path by a packet's payload.
//!
//! ```text
//! rule = what PATH
//! what = "tls" "name" NAME | "http" "host" NAME | "dns" "name" NAME | "payload" OFFSET BYTES
//! ```
//!
//! A name that begins with `*.` matches all names below the rest of it. Bytes are written as `0x474554`.

use crate::Call;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::text::{TextError, did_you_mean, quote};
use serde::{Serialize, Serializer};
use std::fmt;

/// Limit of rules of one dispatch.
pub(super) const MOST_RULES: usize = 1024;
/// Limits of compared bytes, and of their offset in the payload.
const MOST_BYTES: usize = 64;
const MOST_OFFSET: usize = 1024;

/// The condition on a packet's payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PayloadCondition {
    /// A TLS ClientHello with this server name.
    TlsName(NamePattern),
    /// An HTTP/1 request for this host.
    HttpHost(NamePattern),
    /// A DNS message whose first question has this name.
    DnsName(NamePattern),
    /// These bytes at this offset after the TCP or UDP header.
    Bytes(usize, Vec<u8>),
}

/// A name, or all names below one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamePattern {
    /// In lower case; with a leading dot for all names below it.
    name: String,
    includes_subdomains: bool,
}

impl NamePattern {
    /// True if it matches a name, regardless of case and of a trailing dot.
    #[inline]
    pub fn matches(&self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b".").unwrap_or(name);
        match (self.includes_subdomains, name.len().checked_sub(self.name.len())) {
            (_, None) | (true, Some(0)) => false,
            (false, Some(rest)) if rest > 0 => false,
            (_, Some(rest)) => name[rest..].eq_ignore_ascii_case(self.name.as_bytes()),
        }
    }

    fn parse(word: &Word<'_>) -> Result<NamePattern, TextError> {
        let (name, below) = match word.text.strip_prefix('*') {
            Some(rest) => (rest, true),
            None => (word.text, false),
        };
        let labels = name.strip_prefix('.').filter(|_| below).unwrap_or(name);
        let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let sound = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(letter);
        let dotted = !below || name.starts_with('.');
        if !dotted || labels.len() > 253 || !labels.trim_end_matches('.').split('.').all(sound) {
            let hint = "write a name as 'www.example.org', or '*.example.org' for all below it";
            return Err(word.wrong(format!("{} is no name", quote(word.text)), hint));
        }
        Ok(NamePattern { name: name.trim_end_matches('.').to_ascii_lowercase(), includes_subdomains: below })
    }
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DispatchRule {
    text: String,
    /// The condition.
    pub condition: PayloadCondition,
    /// The path of packets that match.
    pub path: String,
}

impl fmt::Display for DispatchRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for DispatchRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A word and its offset.
struct Word<'t> {
    offset: usize,
    text: &'t str,
}

impl Word<'_> {
    fn wrong(&self, reason: impl Into<String>, hint: impl Into<String>) -> TextError {
        TextError { offset: self.offset, length: self.text.len(), reason: reason.into(), hint: hint.into() }
    }
}

const FORM: &str = "write 'tls name *.example.org PATH', 'http host', 'dns name', or 'payload 0 0x474554 PATH'";

impl DispatchRule {
    /// Parses a rule. The caller checks that the path exists.
    pub fn parse(text: &str) -> Result<DispatchRule, TextError> {
        let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
        let words: Vec<Word<'_>> =
            text.split_whitespace().map(|part| Word { offset: offset(part), text: part }).collect();
        let [kind, second, third, path] = &words[..] else {
            let reason = format!("a rule has four words, not {}", words.len());
            return Err(TextError { offset: 0, length: text.len(), reason, hint: FORM.to_string() });
        };
        let named = |what: &str| match second.text == what {
            true => NamePattern::parse(third),
            false => Err(second.wrong(format!("'{what}' has to follow '{}'", kind.text), FORM)),
        };
        let carries = match kind.text {
            "tls" => PayloadCondition::TlsName(named("name")?),
            "http" => PayloadCondition::HttpHost(named("host")?),
            "dns" => PayloadCondition::DnsName(named("name")?),
            "payload" => PayloadCondition::Bytes(at(second)?, bytes(third)?),
            other => {
                let hint = did_you_mean(other, ["tls", "http", "dns", "payload"]);
                return Err(kind.wrong(format!("{} is not a kind of rule", quote(other)), hint));
            }
        };
        let text = words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
        Ok(DispatchRule { text, condition: carries, path: path.text.to_string() })
    }
}

fn at(word: &Word<'_>) -> Result<usize, TextError> {
    let offset = word.text.parse().ok().filter(|offset| *offset <= MOST_OFFSET);
    offset.ok_or_else(|| {
        word.wrong(format!("{} is not an offset in a payload", quote(word.text)), format!("give 0 to {MOST_OFFSET}"))
    })
}

fn bytes(word: &Word<'_>) -> Result<Vec<u8>, TextError> {
    let digits = word.text.strip_prefix("0x").unwrap_or("");
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let read: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(pair).collect();
    read.filter(|bytes| (1..=MOST_BYTES).contains(&bytes.len())).ok_or_else(|| {
        let hint = format!("write 1 to {MOST_BYTES} bytes, like 0x474554");
        word.wrong(format!("{} are not bytes in hexadecimal", quote(word.text)), hint)
    })
}

/// The rules of a path's function `dispatch`; a path without the function has none.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, functions: &[Call]) -> Vec<DispatchRule> {
    let place = functions.iter().position(|call| call.name == "dispatch");
    let Some(given) = section.node("dispatch") else {
        if place.is_some() {
            report.error(section.span.clone(), section.path, || {
                let hint = "add dispatch = [\"tls name *.example.org PATH\"]";
                ("the function 'dispatch' has no rules".to_string(), hint.to_string())
            });
        }
        return Vec::new();
    };
    let forwards = functions.iter().position(|call| call.name == "ip");
    let wrong = match (place, forwards) {
        (None, _) => Some("there are rules, but the path does not have the function 'dispatch'"),
        (Some(place), Some(forwards)) if forwards < place => {
            Some("'ip' before 'dispatch' forwards the packet twice: on this path and on the other")
        }
        _ => None,
    };
    if let Some(wrong) = wrong.filter(|_| report.error_count() == 0) {
        report.error(given.span.clone(), given.path, || {
            (wrong.to_string(), "write it first: functions = [\"dispatch\", \"ip\"]".to_string())
        });
    }
    let surplus = |most| (format!("a dispatch has at most {most} rules"), "use several paths".to_string());
    section.texts(report, "dispatch", surplus, "\"tls name *.example.org video\"", |report, text| {
        DispatchRule::parse(text.value).map_err(|error| text.wrong(report, error)).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_matches_itself_and_with_a_star_all_names_below() {
        let holds = |pattern: &str, name: &str| {
            let rule = DispatchRule::parse(&format!("tls name {pattern} p")).unwrap();
            let PayloadCondition::TlsName(pattern) = rule.condition else { panic!("{rule}") };
            pattern.matches(name.as_bytes())
        };
        for name in ["www.example.org", "WWW.Example.ORG", "www.example.org."] {
            assert!(holds("www.Example.org", name) && holds("*.example.org", name) && holds("*.org.", name), "{name}");
        }
        for name in ["example.org", "wwwexample.org", ".example.org", "", "example.org.uk"] {
            assert!(!holds("www.example.org", name) && !holds("*.example.org", name), "{name}");
        }
    }

    #[test]
    fn rules_parse_and_each_error_is_marked() {
        let rule = DispatchRule::parse("  payload  4 0x16030A  tls ").unwrap();
        assert_eq!((rule.condition.clone(), &*rule.path), (PayloadCondition::Bytes(4, vec![0x16, 3, 10]), "tls"));
        assert_eq!(rule.to_string(), "payload 4 0x16030A tls");
        for (text, marked, reason) in [
            ("tls name a.b", "tls name a.b", "a rule has four words, not 3"),
            ("smtp name a.b p", "smtp", "'smtp' is not a kind of rule"),
            ("tls host a.b p", "host", "'name' has to follow 'tls'"),
            ("http host a..b p", "a..b", "'a..b' is no name"),
            ("dns name *a.b p", "*a.b", "'*a.b' is no name"),
            ("payload x 0x00 p", "x", "'x' is not an offset in a payload"),
            ("payload 0 0x0 p", "0x0", "'0x0' are not bytes in hexadecimal"),
            ("payload 0 0x p", "0x", "'0x' are not bytes in hexadecimal"),
            ("payload 0 0xé1 p", "0xé1", "'0xé1' are not bytes in hexadecimal"),
        ] {
            let error = DispatchRule::parse(text).unwrap_err();
            assert_eq!((&text[error.offset..error.offset + error.length], &*error.reason), (marked, reason));
        }
    }
}
