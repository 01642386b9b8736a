//! The rules of a path's function `filter`: a list, or a file with a rule on each line.

pub(crate) mod rule;

use super::support::{self, RuleUses};
use crate::Call;
use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::document::{Section, Text};
use crate::key::{FILE, Form, Key, Kind, key};
use crate::matching::{Cover, Shadows};
use crate::text::{TextError, quote};
use rule::{FilterRule, FilterStatement};
use std::ops::Range;

/// Limit of rules of one packet filter.
pub(super) const MOST_RULES: usize = 1_000_000;

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
    if given.is_table() {
        let example = "filter = { file = \"acl.rules\" }";
        let table = given.section(report, KEYS, example);
        return table.map_or_else(Vec::new, |table| lines(report, &table, connected));
    }
    let mut reader =
        Rules { connected, uses: RuleUses::new(connected), shadows: Shadows::default(), spans: Vec::new() };
    section.texts(report, "filter", surplus, "\"tcp dport 22 accept\"", |report, text| reader.rule(report, text))
}

fn surplus(most: usize) -> (String, String) {
    (format!("a filter has at most {most} rules"), "merge rules with lists, or use several paths".to_string())
}

/// The rules of a file, or of the text in its place.
fn lines(report: &mut Report<'_>, table: &Section<'_>, connected: &Connected) -> Vec<FilterRule> {
    let file = table.text(report, "file");
    let Some(text) = table.text(report, "rules") else {
        report.error(table.span.clone(), table.path, || match &file {
            Some(_) => {
                let reason = "the rules of the file are missing".to_string();
                (reason, "apply the configuration with 'switchpath apply FILE', which reads the file".to_string())
            }
            None => ("there are no rules".to_string(), "write filter = { file = \"acl.rules\" }".to_string()),
        });
        return Vec::new();
    };
    if let Some(file) = file {
        report.read_from(&text.span, file.value);
    }
    let mut reader =
        Rules { connected, uses: RuleUses::new(connected), shadows: Shadows::default(), spans: Vec::new() };
    let mut rules = Vec::new();
    for line in text.lines(report.part()) {
        let Some(line) = without_comment(line) else { continue };
        if rules.len() == MOST_RULES {
            line.error(report, || surplus(MOST_RULES));
            break;
        }
        rules.extend(reader.rule(report, &line));
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
    shadows: Shadows,
    /// The positions of the rules so far.
    spans: Vec<Range<usize>>,
}

impl Rules<'_> {
    fn rule(&mut self, report: &mut Report<'_>, text: &Text<'_>) -> Option<FilterRule> {
        let checked = |rule| support::refuse_rule(text.value, &rule, &mut self.uses).map(|()| rule);
        let rule = FilterRule::parse(text.value).and_then(checked).map_err(|error| text.wrong(report, error)).ok()?;
        let interface = rule.matching.iif.as_deref();
        let unknown = interface.filter(|name| self.connected.interface(name).is_none() && !self.connected.incomplete);
        if let Some(name) = unknown {
            let (reason, hint) = self.connected.no_interface(name);
            let offset = text.value.find(name).unwrap_or(0);
            text.wrong(report, TextError { offset, length: name.len(), reason, hint });
            return Some(rule);
        }
        self.warn_if_covered(report, text, &rule);
        Some(rule)
    }

    fn warn_if_covered(&mut self, report: &mut Report<'_>, text: &Text<'_>, rule: &FilterRule) {
        self.spans.push(text.span.clone());
        if self.shadows.gave_up() {
            return;
        }
        // Packets beyond a limit reach the next rule.
        let decides = !rule.statements.iter().any(|statement| matches!(statement, FilterStatement::Limit(_)));
        let cover = self.shadows.add(&rule.matching, decides);
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
