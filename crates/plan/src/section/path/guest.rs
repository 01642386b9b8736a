//! Rules of a path's guest functions: texts for the guest, each with the treatment of the packets that it selects.
//!
//! ```text
//! rule = TEXT ( PATH | "drop" | "pass" )
//! ```
//!
//! Only the guest interprets the text. The last word is the treatment.

use crate::Call;
use crate::diagnostic::Report;
use crate::document::Section;
use crate::text::TextError;
use serde::{Serialize, Serializer};
use std::fmt;

/// Limit of rules of one path.
pub(super) const MOST_RULES: usize = 256;
/// Limit of a rule's text, in bytes.
const MOST_TEXT: usize = 255;
/// The prefix of guest names.
const GUEST: &str = "guest:";

/// The treatment of the packets that a rule selects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestTreatment {
    /// They continue on the path.
    Pass,
    /// They are dropped.
    Drop,
    /// They continue on the path of this name.
    Path(String),
}

/// A rule of a path's guest functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestRule {
    /// The text for the guest, its words separated by single spaces.
    pub text: String,
    /// The treatment of the packets that the guest assigns to the rule.
    pub treatment: GuestTreatment,
}

impl fmt::Display for GuestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let treatment = match &self.treatment {
            GuestTreatment::Pass => "pass",
            GuestTreatment::Drop => "drop",
            GuestTreatment::Path(path) => path,
        };
        write!(f, "{} {treatment}", self.text)
    }
}

impl Serialize for GuestRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl GuestRule {
    /// Parses a rule. The caller checks that the path exists.
    ///
    /// # Errors
    /// There are fewer than two words, or the text is too long or has control characters.
    pub fn parse(text: &str) -> Result<GuestRule, TextError> {
        let wrong = |reason: String, hint: &str| {
            Err(TextError { offset: 0, length: text.len(), reason, hint: hint.to_string() })
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((last, texts)) = words.split_last().filter(|(_, texts)| !texts.is_empty()) else {
            let hint = "write a text for the guest and a path, 'drop' or 'pass': '*.example.org video'";
            return wrong("a rule has at least two words".to_string(), hint);
        };
        let text = texts.join(" ");
        if text.len() > MOST_TEXT {
            return wrong(
                format!("the text of a rule has at most {MOST_TEXT} bytes"),
                "shorten it, or use several rules",
            );
        }
        if text.chars().any(char::is_control) {
            return wrong("the text of a rule has control characters".to_string(), "remove them");
        }
        let treatment = match *last {
            "pass" => GuestTreatment::Pass,
            "drop" => GuestTreatment::Drop,
            path => GuestTreatment::Path(path.to_string()),
        };
        Ok(GuestRule { text, treatment })
    }

    /// The path to which it sends packets.
    pub(super) fn path(&self) -> Option<&str> {
        match &self.treatment {
            GuestTreatment::Path(path) => Some(path),
            GuestTreatment::Pass | GuestTreatment::Drop => None,
        }
    }
}

/// A guest function of a path: its call, with its code. The error is at a part of the text.
pub(super) fn call(text: &str, catalogue: &crate::Catalogue) -> Option<Result<Call, TextError>> {
    let start = text.len() - text.trim_start().len();
    let name = text.trim_start().strip_prefix(GUEST)?;
    let name = name.split(['(', ')']).next().unwrap_or_default().trim_end();
    let wrong =
        |(reason, hint): (String, String)| TextError { offset: start, length: GUEST.len() + name.len(), reason, hint };
    let Some(guests) = &catalogue.guests else {
        let hint = "give their directory with --guests, or set SWITCHPATH_GUESTS".to_string();
        return Some(Err(wrong(("no directory of guests is set".to_string(), hint))));
    };
    let found = guests.function(name).map_err(wrong);
    Some(found.and_then(|(declaration, code)| {
        let call = Call::parse(text, &[declaration], "guest")?;
        Ok(Call { code: Some(code), ..call })
    }))
}

/// The rules of a path's guest functions.
pub(super) fn check(report: &mut Report<'_>, section: &Section<'_>, functions: &[Call]) -> Vec<GuestRule> {
    let Some(given) = section.node("guest_rules") else { return Vec::new() };
    let surplus = |most| (format!("the guests of a path have at most {most} rules"), "use several paths".to_string());
    let rules = section.texts(report, "guest_rules", surplus, "\"*.example.org video\"", |report, text| {
        GuestRule::parse(text.value).map_err(|error| text.wrong(report, error)).ok()
    });
    let guest = functions.iter().position(|call| call.name.starts_with(GUEST));
    let forwards = functions.iter().position(|call| call.name == "ip");
    let wrong = match (guest, forwards) {
        (None, _) => Some("there are rules, but the path has no guest function"),
        (Some(guest), Some(forwards)) if forwards < guest && rules.iter().any(|rule| rule.path().is_some()) => {
            Some("'ip' before the guest forwards the packet twice: on this path and on the other")
        }
        _ => None,
    };
    if let Some(wrong) = wrong.filter(|_| report.error_count() == 0) {
        report.error(given.span.clone(), given.path, || {
            (wrong.to_string(), "write the guest first: functions = [\"guest:NAME\", \"ip\"]".to_string())
        });
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_word_of_a_rule_is_its_treatment() {
        let of = |text: &str| GuestRule::parse(text).unwrap();
        assert_eq!(of(" *.example.org   video ").to_string(), "*.example.org video");
        assert_eq!(of("a b video").path(), Some("video"));
        assert_eq!((of("a b drop").treatment, of("x pass").treatment), (GuestTreatment::Drop, GuestTreatment::Pass));
        assert_eq!(of("a  b drop").text, "a b");
    }

    #[test]
    fn incomplete_and_overlong_rules_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "at least two words"),
            ("drop", "at least two words"),
            ("a\u{1b}b drop", "control characters"),
            (&format!("{} drop", "x".repeat(256)), "at most 255 bytes"),
        ] {
            let error = GuestRule::parse(text).unwrap_err();
            assert!(error.reason.contains(reason) && error.length == text.len(), "{text}: {}", error.reason);
        }
        assert!(GuestRule::parse(&format!("{} drop", "x".repeat(255))).is_ok());
    }
}
