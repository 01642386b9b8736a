//! The sets and VRFs that rules may name, and the parts of their language that the router does not execute. `check` refuses these parts, so that no
//! rule is ignored silently.

use super::filter::rule::FilterStatement;
use crate::connected::Connected;
use crate::text::{TextError, did_you_mean};
use crate::{MOST_COMBINATIONS, MOST_SETS_USED, Match, SetKind};
use std::collections::BTreeSet;

/// The most rules of one filter that have a limit, like `classifier::MOST_LIMITS`.
const MOST_LIMITS: usize = 16;

/// The first part of a path's match that the router does not execute.
pub(crate) fn refuse_match(text: &str, matching: &Match, known: &mut RuleUses<'_>) -> Result<(), TextError> {
    if matching.states.is_some() {
        let hint = "use it in a filter behind 'nat'; a path is selected before connections are known";
        return Err(at(text, "ct", "a path cannot match 'ct state'", hint));
    }
    if matching.fib.is_some() {
        let hint = "use it in a filter or in [routing]: fib saddr . iif oif missing drop";
        return Err(at(text, "fib", "a path cannot match 'fib'", hint));
    }
    known.check(text, matching)
}

/// The first part of a rule with statements that the router does not execute.
pub(crate) fn refuse_rule(
    text: &str,
    matching: &Match,
    statements: &[FilterStatement],
    known: &mut RuleUses<'_>,
) -> Result<(), TextError> {
    known.check(text, matching)?;
    let mut limits = 0;
    for statement in statements {
        match statement {
            FilterStatement::Counter | FilterStatement::SetDscp(_) | FilterStatement::Log(_) => {}
            FilterStatement::Limit(_) => limits += 1,
        }
    }
    known.limits += limits;
    if limits > 1 {
        return Err(at(text, "limit", "the rule has two limits", "keep one; write a rule for the other"));
    }
    if limits > 0 && known.limits > MOST_LIMITS {
        let reason = format!("the list has more than {MOST_LIMITS} rules with a limit");
        return Err(at(text, "limit", &reason, "use a limit for several matches together"));
    }
    Ok(())
}

/// The parts of a list of rules that are bounded for the whole list: the sets that it names, compared with those that there are, and its limits.
pub(crate) struct RuleUses<'c> {
    connected: &'c Connected,
    used: BTreeSet<(String, &'static str)>,
    /// The number of rules with a limit.
    limits: usize,
}

impl<'c> RuleUses<'c> {
    pub fn new(connected: &'c Connected) -> Self {
        RuleUses { connected, used: BTreeSet::new(), limits: 0 }
    }

    fn check(&mut self, text: &str, matching: &Match) -> Result<(), TextError> {
        for (name, field) in matching.sets() {
            let marked = format!("@{name}");
            let Some((_, kind)) = self.connected.sets.iter().find(|(known, _)| **known == *name) else {
                if self.connected.incomplete {
                    continue;
                }
                let hint = match self.connected.sets.is_empty() {
                    true => format!("define it: [set.{name}] elements = [...]"),
                    false => did_you_mean(name, self.connected.sets.iter().map(|(known, _)| &**known)),
                };
                return Err(at(text, &marked, &format!("there is no set '{name}'"), &hint));
            };
            if field.set_kind() != Some(*kind) {
                let (has, needs) = match kind {
                    SetKind::Address => ("addresses", "a set of ports"),
                    SetKind::Port => ("ports", "a set of addresses"),
                };
                let reason = format!("the set '{name}' has {has}");
                return Err(at(text, &marked, &reason, &format!("'{}' needs {needs}", field.name())));
            }
            self.used.insert((name.to_string(), field.name()));
            if self.used.len() > MOST_SETS_USED {
                let reason =
                    format!("the rules use more than {MOST_SETS_USED} sets, counting a set once for each field");
                return Err(at(text, &marked, &reason, "join sets that are used in the same way"));
            }
        }
        let combinations = matching.combinations();
        if combinations > MOST_COMBINATIONS {
            let reason = format!("the lists have {combinations} combinations, more than {MOST_COMBINATIONS}");
            return Err(at(text, "{", &reason, "use a named set in place of the longest list"));
        }
        match &matching.vrf {
            Some(vrf) if self.connected.vrf(vrf).is_none() && !self.connected.incomplete => {
                let hint = "write the name of an interface's VRF, or 'main'";
                Err(at(text, vrf, &format!("no interface is in the VRF '{vrf}'"), hint))
            }
            _ => Ok(()),
        }
    }
}

/// An error if a match names an interface that does not exist.
pub(crate) fn refuse_interface(text: &str, matching: &Match, connected: &Connected) -> Result<(), TextError> {
    match matching.iif.as_deref() {
        Some(name) if connected.interface(name).is_none() && !connected.incomplete => {
            let (reason, hint) = connected.no_interface(name);
            Err(at(text, name, &reason, &hint))
        }
        _ => Ok(()),
    }
}

/// An error that marks the first occurrence of `word`, which is the right one in nearly all cases.
pub(crate) fn at(text: &str, word: &str, reason: &str, hint: &str) -> TextError {
    let offset = text.find(word).unwrap_or(0);
    TextError { offset, length: word.len(), reason: reason.to_string(), hint: hint.to_string() }
}
