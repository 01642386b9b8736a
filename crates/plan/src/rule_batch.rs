//! Changes of a list of rules at run time, one per line:
//!
//! ```text
//! add tcp dport 22 accept
//! add before 3 ip saddr 10.0.0.0/8 drop
//! add after 3 ip saddr @bad drop
//! replace 4 udp dport 53 limit rate 100/second accept
//! remove 5
//! # a comment
//! ```
//!
//! Numbers are ids of rules, which never change. A rule of a filter ends with its verdict. A rule of `routing` ends with `vrf NAME`, `via ADDRESS` and the like. A rule that selects a path ends with `path NAME`, and may give its
//! packets a class and a share of their output port: `path NAME class 7 share voice`. The lines are checked against the running plan. All errors are reported
//! at once, each with its line.

use crate::batch::connected_subnets;
use crate::connected::Connected;
use crate::diagnostic::{Diagnostics, Report, refuse_lines};
use crate::section::path::filter::before_comment;
use crate::section::path::filter::rule::FilterRule;
use crate::section::path::support::{RuleUses, refuse_interface, refuse_match, refuse_rule};
use crate::section::routing::completed;
use crate::section::routing::rule::RoutingRule;
use crate::share::ShareName;
use crate::text::{TextError, did_you_mean, quote};
use crate::words::Words;
use crate::{Match, Plan};

/// The most lines of a batch.
const MOST_LINES: usize = 1_000_000;

/// The kinds of lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuleListKind {
    /// The rules that select paths.
    Paths,
    /// The rules of a path's function `filter`.
    Filter,
    /// The rules that select routes.
    Routing,
}

/// A rule that selects the path of its packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRule {
    /// Its packets.
    pub matching: Match,
    /// The name of the path.
    pub path: String,
    /// The class of the packets; without one that of the path.
    pub class: Option<u8>,
    /// The share of their output port; without one that of their circuit.
    pub share: Option<ShareName>,
}

/// A rule of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleText {
    /// Selects a path.
    Path(PathRule),
    /// Decides in a filter.
    Filter(FilterRule),
    /// Selects a route.
    Routing(RoutingRule),
}

/// The place of a new rule, by the id of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RulePlace {
    /// Behind all others.
    End,
    /// Before this one.
    Before(u32),
    /// Behind this one.
    After(u32),
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuleChange {
    /// Adds a rule.
    Add(RulePlace, RuleText),
    /// Removes the rule with this id.
    Remove(u32),
    /// Puts another rule in the place of the rule with this id.
    Replace(u32, RuleText),
}

/// Changes that are valid for a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleBatch<'s> {
    source: &'s str,
    file: String,
    /// The changes in order, each with its line, counted from 1.
    pub changes: Vec<(usize, RuleChange)>,
}

impl RuleBatch<'_> {
    /// Reports that the change at this position cannot be made.
    pub fn refuse(&self, position: usize, reason: String, hint: String) -> Diagnostics {
        let line = self.changes.get(position).map_or(1, |(line, _)| *line);
        refuse_lines(self.source, &self.file, [(line, reason, hint)])
    }
}

/// Parses changes of a list of this kind. `file` is the name of the text in messages.
pub fn rule_batch<'s>(
    source: &'s str,
    file: &str,
    plan: &Plan,
    kind: RuleListKind,
) -> Result<RuleBatch<'s>, Diagnostics> {
    let mut report = Report::new(source, file);
    let connected = connected_subnets(plan);
    let mut reader = Reader { plan, kind, matches: CheckedMatches::new(&connected) };
    let mut changes = Vec::new();
    let mut start = 0;
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let span = start..start + line.trim_end().len();
        start += line.len();
        if number == MOST_LINES {
            let reason = format!("there are more than {MOST_LINES} lines");
            report.error(span, "", || (reason, "send them in several batches".to_string()));
            break;
        }
        let text = before_comment(&source[span.clone()]);
        let indent = text.len() - text.trim_start().len();
        match reader.line(text.trim_start()) {
            _ if indent == text.len() => {}
            Ok(change) => changes.push((number + 1, change)),
            Err(error) => {
                let from = span.start + indent + error.offset;
                report.error(from..(from + error.length).min(span.end), "", || (error.reason, error.hint));
            }
        }
    }
    if report.failed() { Err(report.finish()) } else { Ok(RuleBatch { source, file: file.to_string(), changes }) }
}

/// Parses matches, and checks them against the interfaces, VRFs and sets of a plan.
pub(crate) struct CheckedMatches<'p> {
    connected: &'p Connected,
    uses: RuleUses<'p>,
}

impl<'p> CheckedMatches<'p> {
    pub fn new(connected: &'p Connected) -> CheckedMatches<'p> {
        CheckedMatches { connected, uses: RuleUses::new(connected) }
    }

    pub fn parse(&mut self, text: &str) -> Result<Match, TextError> {
        let matching = Match::parse(text)?;
        refuse_match(text, &matching, &mut self.uses)?;
        refuse_interface(text, &matching, self.connected)?;
        Ok(matching)
    }
}

struct Reader<'p> {
    plan: &'p Plan,
    kind: RuleListKind,
    matches: CheckedMatches<'p>,
}

const VERBS: [&str; 3] = ["add", "remove", "replace"];

impl Reader<'_> {
    fn line(&mut self, text: &str) -> Result<RuleChange, TextError> {
        let mut rest = Rest { text, at: 0 };
        match rest.word().unwrap_or_default() {
            "remove" => {
                let id = rest.id("remove 5")?;
                match rest.word() {
                    Some(word) => {
                        Err(rest.wrong(word, format!("{} follows the id", quote(word)), "write one id a line"))
                    }
                    None => Ok(RuleChange::Remove(id)),
                }
            }
            "replace" => {
                let id = rest.id("replace 5 tcp dport 22 accept")?;
                Ok(RuleChange::Replace(id, self.rule(&rest)?))
            }
            "add" => {
                let place = match rest.peek() {
                    Some("before") => {
                        rest.word();
                        RulePlace::Before(rest.id("add before 5 tcp dport 22 accept")?)
                    }
                    Some("after") => {
                        rest.word();
                        RulePlace::After(rest.id("add after 5 tcp dport 22 accept")?)
                    }
                    _ => RulePlace::End,
                };
                Ok(RuleChange::Add(place, self.rule(&rest)?))
            }
            other => {
                let hint = did_you_mean(other, VERBS);
                Err(rest.wrong(other, format!("{} is no change of rules", quote(other)), &hint))
            }
        }
    }

    /// The rest of a line as a rule.
    fn rule(&mut self, rest: &Rest<'_>) -> Result<RuleText, TextError> {
        let text = rest.text[rest.at..].trim_start();
        let offset = rest.text.len() - text.len();
        let rule = match self.kind {
            RuleListKind::Filter => self.filter_rule(text).map(RuleText::Filter),
            RuleListKind::Paths => self.path_rule(text),
            RuleListKind::Routing => RoutingRule::parse(text).and_then(|rule| {
                completed(text, rule, &mut self.matches.uses, self.matches.connected).map(RuleText::Routing)
            }),
        };
        rule.map_err(|error| TextError { offset: error.offset + offset, ..error })
    }

    fn filter_rule(&mut self, text: &str) -> Result<FilterRule, TextError> {
        let rule = FilterRule::parse(text)?;
        refuse_rule(text, &rule.matching, &rule.statements, &mut self.matches.uses)?;
        refuse_interface(text, &rule.matching, self.matches.connected)?;
        Ok(rule)
    }

    fn path_rule(&mut self, text: &str) -> Result<RuleText, TextError> {
        const EXAMPLE: &str = "end the rule with the path of its packets: ip saddr 10.0.0.0/8 path gold";
        // No match has the word `path`.
        let start = if text.starts_with("path ") { Some(0) } else { text.find(" path ").map(|at| at + 1) };
        let Some(start) = start else { return Err(TextError::whole(text, "the rule names no path", EXAMPLE)) };
        let mut words = Words { text, at: start + "path".len() };
        let name = words.needed("the name of the path", EXAMPLE)?;
        let known = || self.plan.paths.iter().map(|path| &*path.name).chain(["best-effort"]);
        if !known().any(|known| known == name.text) {
            return Err(name.wrong(format!("there is no path {}", quote(name.text)), did_you_mean(name.text, known())));
        }
        let (mut class, mut share) = (None, None);
        while let Some(option) = words.next()? {
            match option.text {
                "class" if class.is_none() => {
                    let number = words.needed("the class", "path gold class 7")?;
                    let wrong =
                        |_| number.wrong(format!("{} is no class", quote(number.text)), "write a number from 0 to 255");
                    class = Some(number.text.parse().map_err(wrong)?);
                }
                "share" if share.is_none() => share = Some(words.share_name("path gold share voice")?),
                "class" | "share" => {
                    return Err(option.wrong(format!("'{}' is given twice", option.text), "write it once"));
                }
                other => {
                    let hint = "after the path, write 'class' and 'share': path gold class 7 share voice";
                    return Err(option.wrong(format!("unexpected {}", quote(other)), hint));
                }
            }
        }
        let matching = self.matches.parse(text[..start].trim_end())?;
        Ok(RuleText::Path(PathRule { matching, path: name.text.to_string(), class, share }))
    }
}

/// The words of a line that have not been read.
struct Rest<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Rest<'t> {
    fn peek(&self) -> Option<&'t str> {
        self.text[self.at..].split_ascii_whitespace().next()
    }

    fn word(&mut self) -> Option<&'t str> {
        let word = self.peek()?;
        self.at += self.text[self.at..].find(word).unwrap_or(0) + word.len();
        Some(word)
    }

    fn id(&mut self, example: &str) -> Result<u32, TextError> {
        let hint = format!("write the id of a rule, as `switchpath rule list` shows it: {example}");
        match self.word() {
            None => Err(TextError::whole(self.text, "the id of a rule is missing", &hint)),
            Some(word) => match word.parse() {
                Ok(id) => Ok(id),
                Err(_) => Err(self.wrong(word, format!("{} is no id of a rule", quote(word)), &hint)),
            },
        }
    }

    /// An error at the word that was read last.
    fn wrong(&self, word: &str, reason: String, hint: &str) -> TextError {
        TextError { offset: self.at - word.len(), length: word.len(), reason, hint: hint.to_string() }
    }
}
