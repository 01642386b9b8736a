//! The rules of a path's function `filter`: a list, or a file with a rule on each line.

pub(crate) mod rule;

use super::support::{RuleUses, refuse_interface, refuse_rule};
use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::key::{FILE, Form, Key, Kind, key};
use crate::matching::{Cover, Shadows};
use crate::text::quote;
use crate::{Call, Match};
use rule::{FilterRule, FilterStatement};
use std::ops::Range;

/// Limit of rules of one packet filter.
pub(crate) const MOST_RULES: usize = 1_000_000;

pub(crate) const KEYS: &[Key] = &[
    key(
        "file",
        Kind::Text(FILE),
        "",
        "\"acl.rules\"",
        "The file of the rules, one on each line. `#` begins a comment. A relative name starts at the directory of the \
         configuration.",
    ),
    key(
        "rules",
        Kind::Text(Form::Pattern("")),
        "",
        "\"tcp dport 22 accept\"",
        "The rules, one on each line. `check` and `apply` fill in the contents of `file`, so that a stored \
         configuration has them.",
    ),
];

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
    let mut reader = Rules { connected, uses: RuleUses::new(connected), covers: Covers::default() };
    rule_list(report, section, ("filter", "filter", "tcp dport 22 accept"), |report, text| reader.rule(report, text))
}

/// The rules of the key `key`: a list, or the name of a file. `what` has them, and `example` is one.
pub(crate) fn rule_list<R>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    (key, what, example): (&'static str, &str, &str),
    mut read: impl FnMut(&mut Report<'_>, &Text<'_>) -> Option<R>,
) -> Vec<R> {
    let surplus = |most| (format!("a {what} has at most {most} rules"), "merge rules with lists".to_string());
    match section.node(key) {
        Some(given) if given.is_table() => {
            let Some(table) = given.section(report, KEYS, &format!("{key} = {{ file = \"acl.rules\" }}")) else {
                return Vec::new();
            };
            lines(report, &table, key, surplus, read)
        }
        Some(_) => section.texts(report, key, surplus, &format!("\"{example}\""), |report, text| read(report, text)),
        None => Vec::new(),
    }
}

/// The rules of a file, or of the text in its place.
fn lines<R>(
    report: &mut Report<'_>,
    table: &Section<'_>,
    key: &str,
    surplus: impl Fn(usize) -> (String, String),
    mut read: impl FnMut(&mut Report<'_>, &Text<'_>) -> Option<R>,
) -> Vec<R> {
    let file = table.text(report, "file");
    let Some(text) = table.text(report, "rules") else {
        report.error(table.span.clone(), table.path, || match &file {
            Some(_) => {
                let reason = "the rules of the file are missing".to_string();
                (reason, "apply the configuration with 'switchpath apply FILE', which reads the file".to_string())
            }
            None => ("there are no rules".to_string(), format!("write {key} = {{ file = \"acl.rules\" }}")),
        });
        return Vec::new();
    };
    if let Some(file) = file {
        report.read_from(&text.span, file.value);
    }
    let mut rules = Vec::new();
    for line in text.lines(report.part()) {
        let Some(line) = without_comment(line) else { continue };
        if rules.len() == MOST_RULES {
            line.error(report, || surplus(MOST_RULES));
            break;
        }
        rules.extend(read(report, &line));
    }
    rules
}

/// A line up to its comment. `None` if nothing is left.
fn without_comment(line: Text<'_>) -> Option<Text<'_>> {
    let value = before_comment(line.value);
    // The position of a string with escapes is that of the whole string.
    let is_exact = line.span.len() == line.value.len();
    let span = if is_exact { line.span.start..line.span.start + value.len() } else { line.span };
    if value.trim_start().is_empty() { None } else { Some(Text { value, span, path: line.path }) }
}

/// A line up to its comment, without the blanks at its end.
pub(crate) fn before_comment(line: &str) -> &str {
    let mut quoted = false;
    let comment = line.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'#' && !quoted
    });
    line[..comment.unwrap_or(line.len())].trim_end()
}

/// Reads rules one after the other.
struct Rules<'c> {
    connected: &'c Connected,
    uses: RuleUses<'c>,
    covers: Covers,
}

impl Rules<'_> {
    fn rule(&mut self, report: &mut Report<'_>, text: &Text<'_>) -> Option<FilterRule> {
        let uses = &mut self.uses;
        let checked = |rule: FilterRule| refuse_rule(text.value, &rule.matching, &rule.statements, uses).map(|()| rule);
        let rule = FilterRule::parse(text.value).and_then(checked).map_err(|error| text.wrong(report, error)).ok()?;
        if let Err(error) = refuse_interface(text.value, &rule.matching, self.connected) {
            text.wrong(report, error);
            return Some(rule);
        }
        self.covers.add(report, text, &rule.matching, !has_limit(&rule.statements));
        Some(rule)
    }
}

/// True if packets beyond a limit reach the next rule.
pub(crate) fn has_limit(statements: &[FilterStatement]) -> bool {
    statements.iter().any(|statement| matches!(statement, FilterStatement::Limit(_)))
}

/// Warns about rules that no packet reaches.
#[derive(Default)]
pub(crate) struct Covers {
    shadows: Shadows,
    /// The positions of the rules so far.
    spans: Vec<Range<usize>>,
}

impl Covers {
    /// Adds the next rule. `decides` is false if packets that match it may reach later rules.
    pub fn add(&mut self, report: &mut Report<'_>, text: &Text<'_>, matching: &Match, decides: bool) {
        self.spans.push(text.span.clone());
        if self.shadows.gave_up() {
            return;
        }
        let cover = self.shadows.add(matching, decides);
        if self.shadows.gave_up() {
            report.warning(text.span.clone(), text.path, || {
                let reason =
                    "there are too many rules to find those that can never match: none was sought from here on";
                (reason.to_string(), "divide the rules among several paths".to_string())
            });
        }
        let Some(cover) = cover else { return };
        let (source, spans) = (report.part(), &self.spans);
        let name = |number: usize| {
            let text = source.get(spans[number].clone()).unwrap_or_default().trim_matches(['"', '\'']);
            format!("rule {}, {}", number + 1, quote(text))
        };
        report.warning(text.span.clone(), text.path, || {
            let reason = match cover {
                Cover::One(one) => format!("no packet can match this rule: {}, matches them all before it", name(one)),
                Cover::Several(first, last) => format!(
                    "no packet can match this rule: rules before it match them all together; the first is {}, the last is {}",
                    name(first),
                    name(last)
                ),
            };
            (reason, "remove this rule, or move it before the other".to_string())
        });
    }
}
