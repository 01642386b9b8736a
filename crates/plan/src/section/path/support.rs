//! What the language of rules has but the router does not execute yet. `check` refuses it, so that no rule is ignored silently.

use super::filter::rule::{FilterRule, FilterStatement};
use crate::Match;
use crate::text::TextError;

const LATER: &str = "this version of the router does not support it: remove it";

/// The first part of a path's match that the router does not execute.
pub(super) fn refuse_match(text: &str, matching: &Match) -> Result<(), TextError> {
    if matching.states.is_some() {
        let hint = "use it in a filter behind 'nat'; a path is selected before connections are known";
        return Err(at(text, "ct", "a path cannot match 'ct state'", hint));
    }
    refuse_condition(text, matching)
}

/// The first part of a filter's rule that the router does not execute.
pub(super) fn refuse_rule(text: &str, rule: &FilterRule) -> Result<(), TextError> {
    refuse_condition(text, &rule.matching)?;
    for statement in &rule.statements {
        let word = match statement {
            FilterStatement::Counter => continue,
            FilterStatement::Log(_) => "log",
            FilterStatement::Limit(_) => "limit",
            FilterStatement::SetDscp(_) => "set",
        };
        return Err(at(text, word, &format!("filters do not execute '{word}'"), LATER));
    }
    Ok(())
}

fn refuse_condition(text: &str, matching: &Match) -> Result<(), TextError> {
    if let Some((name, _)) = matching.sets().next() {
        return Err(at(text, &format!("@{name}"), &format!("there is no set '{name}'"), "write a list: { 1, 2 }"));
    }
    match matching.vrf {
        Some(_) => Err(at(text, "vrf", "rules do not support 'vrf'", "name the interface: 'iif lan'")),
        None => Ok(()),
    }
}

/// An error that marks the first occurrence of `word`, which is the right one in nearly all cases.
fn at(text: &str, word: &str, reason: &str, hint: &str) -> TextError {
    let offset = text.find(word).unwrap_or(0);
    TextError { offset, length: word.len(), reason: reason.to_string(), hint: hint.to_string() }
}
