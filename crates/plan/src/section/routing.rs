//! `[routing]`: the rules that select the route of packets before the look-up.

pub(crate) mod rule;

use crate::connected::Connected;
use crate::diagnostic::Report;
use crate::diff::{PropertyChange, edit, summaries};
use crate::document::{Section, Text};
use crate::key::{Form, Key, Kind, key};
use crate::section::path::filter::{self, Covers, has_limit, rule_list};
use crate::section::path::support::{RuleUses, at, refuse_interface, refuse_rule};
use crate::text::TextError;
use rule::{RoutingRule, RoutingVerdict};

pub(crate) const KEY: Key = key(
    "routing",
    Kind::Table(KEYS),
    "",
    "{ rules = [\"ip saddr 10.1.0.0/16 vrf isp2\"] }",
    "Rules that select the route of packets before the look-up: policy routing.",
);

pub(crate) const KEYS: &[Key] = &[key(
    "rules",
    Kind::TextsOrTable { form: Form::Pattern(rule::PATTERN), most: filter::MOST_RULES, keys: filter::KEYS },
    "[]",
    "[\"ip saddr 10.1.0.0/16 vrf isp2\", \"udp dport 4500 via 192.0.2.9\"]",
    "The rules. The first rule that matches decides. Packets that match none take the route of their destination. \
     `{ file = \"policy.rules\" }` reads them from a file.",
)];

pub(crate) fn check(report: &mut Report<'_>, root: &Section<'_>, connected: &Connected) -> Vec<RoutingRule> {
    let Some(node) = root.node("routing") else { return Vec::new() };
    let Some(section) = node.section(report, KEYS, "[routing]") else { return Vec::new() };
    let mut rules = Rules { connected, uses: RuleUses::new(connected), covers: Covers::default() };
    let names = ("rules", "list of routing rules", "ip saddr 10.1.0.0/16 vrf isp2");
    rule_list(report, &section, names, |report, text| rules.rule(report, text))
}

/// Reads rules one after the other.
struct Rules<'c> {
    connected: &'c Connected,
    uses: RuleUses<'c>,
    covers: Covers,
}

impl Rules<'_> {
    fn rule(&mut self, report: &mut Report<'_>, text: &Text<'_>) -> Option<RoutingRule> {
        let rule =
            RoutingRule::parse(text.value).and_then(|rule| completed(text.value, rule, &mut self.uses, self.connected));
        let rule = rule.map_err(|error| text.wrong(report, error)).ok()?;
        // Packets reach the rules behind a target that is not usable.
        let always = !matches!(rule.verdict, RoutingVerdict::Vrf(_) | RoutingVerdict::Via { .. });
        self.covers.add(report, text, &rule.matching, always && !has_limit(&rule.statements));
        Some(rule)
    }
}

/// The rule with the interface of its next hop, or the first part of it that the router does not execute.
pub(crate) fn completed(
    text: &str,
    mut rule: RoutingRule,
    uses: &mut RuleUses<'_>,
    connected: &Connected,
) -> Result<RoutingRule, TextError> {
    if rule.matching.states.is_some() {
        let hint = "use it in a filter behind 'nat'; a route is selected before connections are known";
        return Err(at(text, "ct", "a routing rule cannot match 'ct state'", hint));
    }
    refuse_rule(text, &rule.matching, &rule.statements, uses)?;
    refuse_interface(text, &rule.matching, connected)?;
    match &mut rule.verdict {
        RoutingVerdict::Accept | RoutingVerdict::Drop | RoutingVerdict::Unreachable => {}
        RoutingVerdict::Vrf(name) => {
            if connected.vrf(name).is_none() && !connected.incomplete {
                let hint = "write the name of an interface's VRF, or 'main'";
                return Err(last(text, name, &format!("no interface is in the VRF '{name}'"), hint));
            }
        }
        RoutingVerdict::Via { address, interface } => {
            let on = match interface.as_deref().map(|name| (name, connected.interface(name))) {
                Some((name, None)) if !connected.incomplete => {
                    let (reason, hint) = connected.no_interface(name);
                    return Err(last(text, name, &reason, &hint));
                }
                Some((_, None)) => return Ok(rule),
                Some((_, on)) => on,
                None => None,
            };
            match connected.rule_hop_interface(*address, on) {
                Ok(found) => *interface = Some(connected.interface_name(found).clone()),
                Err(Some((reason, hint))) => return Err(last(text, "via ", &reason, &hint)),
                // An interface with an error may have the subnet.
                Err(None) => {}
            }
        }
    }
    Ok(rule)
}

/// An error that marks the last occurrence of `word`: a verdict follows all else.
fn last(text: &str, word: &str, reason: &str, hint: &str) -> TextError {
    let offset = text.rfind(word).unwrap_or(0);
    TextError { offset, length: word.trim_end().len(), reason: reason.to_string(), hint: hint.to_string() }
}

pub(crate) fn diff(old: &[RoutingRule], new: &[RoutingRule]) -> Vec<PropertyChange> {
    let mut what = Vec::new();
    let (old_rules, new_rules) = summaries(old, new, "rules");
    edit(&mut what, "rules", old_rules, new_rules);
    what
}
