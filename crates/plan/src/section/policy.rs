//! `[objectives]` and `[policy.NAME]`: what is wanted, and what serves it.

use super::cpu::{time, within};
use super::port::scheme;
use crate::diagnostic::Report;
use crate::document::{Node, Path, Section};
use crate::keys::{MOST_POLICIES, OBJECTIVES, POLICY};
use crate::names::{self, PORT_PATTERN};
use crate::objective::{CodePoints, Objective, PolicyPlan};
use crate::text::quote;
use crate::{Catalogue, Name, PathPlan, PortPlan, dscp_name, dscp_number};
use std::collections::BTreeMap;
use std::ops::Range;
use units::{Nanos, Parts};

/// Something changed more often is not measured, it is guessed.
const WINDOWS: std::ops::RangeInclusive<Nanos> = Nanos::millis(100)..=Nanos::secs(3600);
const DWELLS: std::ops::RangeInclusive<Nanos> = Nanos::millis(100)..=Nanos::secs(86_400);
/// More than a half: no two objectives can have it.
const SHARES: std::ops::RangeInclusive<Parts> = Parts::percent(51)..=Parts::ONE;

/// What is said of objectives, and where.
pub(super) struct Policies {
    pub code_points: CodePoints,
    pub policies: Vec<PolicyPlan>,
    /// The names of all policies, those with errors as well, and their places.
    names: Vec<(Name, Range<usize>)>,
    /// Where the code points are said.
    place: Option<Range<usize>>,
}

impl Policies {
    pub fn read(report: &mut Report<'_>, root: &Section<'_>, catalogue: &Catalogue) -> Policies {
        let place = root.node("objectives").map(|node| node.span);
        let code_points = code_points(report, root);
        let mut names = Vec::new();
        let policies = policies(report, root, catalogue, &mut names);
        Policies { code_points, policies, names, place }
    }

    /// The names of all there are.
    pub fn names(&self) -> impl Iterator<Item = &Name> + Clone {
        self.names.iter().map(|(name, _)| name)
    }

    /// What is said and comes to nothing.
    pub fn settle(&self, report: &mut Report<'_>, root: &Section<'_>, ports: &[PortPlan], paths: &[PathPlan]) {
        if report.failed() {
            return;
        }
        let interfaces = || ports.iter().flat_map(|port| &port.interfaces);
        let trusts = interfaces().any(|interface| interface.trust);
        if let Some(place) = self.place.clone().filter(|_| !trusts) {
            report.warning(place, "objectives", || {
                let hint = "say trust = true in [port.NAME] where the hosts are your own";
                ("no port trusts code points, so they ask for nothing".to_string(), hint.to_string())
            });
        }
        let all = root.node("port").map(|node| node.span).unwrap_or_default();
        if trusts && self.code_points.is_empty() {
            report.warning(all, "port", || {
                let hint = "add [objectives] with delay = [\"ef\"]";
                ("code points are trusted, and none asks for anything".to_string(), hint.to_string())
            });
        }
        for (name, place) in &self.names {
            if !ports.iter().any(|port| port.policy.as_ref() == Some(name)) {
                report.warning(place.clone(), format!("policy.{name}"), || {
                    let hint = format!("say policy = \"{name}\" in [port.NAME]");
                    (format!("no port has the policy '{name}'"), hint)
                });
            }
        }
        let said = |objective: Objective| objective != Objective::None;
        let wanted = trusts && !self.code_points.is_empty()
            || interfaces().any(|interface| said(interface.objective))
            || paths.iter().any(|path| path.objective.is_some_and(said));
        let used = self.names.iter().find(|(name, _)| ports.iter().any(|port| port.policy.as_ref() == Some(name)));
        if let Some((name, place)) = used.filter(|_| !wanted) {
            report.warning(place.clone(), format!("policy.{name}"), || {
                let hint = "say trust = true, or objective = \"fct\", where packets come in";
                ("nothing that comes in wants anything, so no port ever changes".to_string(), hint.to_string())
            });
        }
    }
}

fn code_points(report: &mut Report<'_>, root: &Section<'_>) -> CodePoints {
    let mut all = CodePoints::default();
    let section = root.node("objectives").and_then(|node| node.section(report, OBJECTIVES, "[objectives]"));
    let Some(section) = section else { return all };
    for key in OBJECTIVES {
        let objective = Objective::ALL.iter().copied().find(|objective| objective.name() == key.name);
        let parent = Path::Key(&section.path, key.name);
        for (index, span, value) in section.list(report, key.name) {
            let path = Path::Index(&parent, index);
            let node = Node::new(value, span, path);
            let Some(text) = node.text() else {
                node.no_text(report, "\"ef\"");
                continue;
            };
            let Some(dscp) = dscp_number(text.value) else {
                text.error(report, || {
                    let hint = "write a name like ef, af41 or cs6, or a number from 0 to 63";
                    (format!("{} is no code point", quote(text.value)), hint.to_string())
                });
                continue;
            };
            if let Some(before) = all.get(dscp) {
                text.error(report, || {
                    let reason = format!("the code point {} asks for {before} already", dscp_name(dscp));
                    (reason, "let each ask for one thing".to_string())
                });
            }
            all.0[usize::from(dscp)] = objective;
        }
    }
    all
}

fn policies(
    report: &mut Report<'_>,
    root: &Section<'_>,
    catalogue: &Catalogue,
    names: &mut Vec<(Name, Range<usize>)>,
) -> Vec<PolicyPlan> {
    let parent = Path::Key(&root.path, "policy");
    let mut tables = root.tables(report, "policy");
    if let Some((span, _, _)) = tables.get(MOST_POLICIES) {
        report.error(span.clone(), parent, || {
            (format!("there are more than {MOST_POLICIES} policies"), format!("use at most {MOST_POLICIES}"))
        });
        tables.truncate(MOST_POLICIES);
    }
    let mut policies = Vec::with_capacity(tables.len());
    for (span, name, value) in tables {
        let path = Path::Key(&parent, name);
        if !names::is_port(name) {
            report.error(span.clone(), path, || {
                let hint = format!("use a letter, then letters, digits, '_' and '-', 15 at most: {PORT_PATTERN}");
                (format!("{} is no name for a policy", quote(name)), hint)
            });
        }
        let name = Name::from(name);
        names.push((name.clone(), span));
        let node = Node::new(value.get_ref(), value.span(), path);
        let Some(section) = node.section(report, POLICY, &format!("[policy.{name}]")) else { continue };
        policies.push(policy(report, &section, name, catalogue));
    }
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    policies
}

fn policy(report: &mut Report<'_>, section: &Section<'_>, name: Name, catalogue: &Catalogue) -> PolicyPlan {
    let window = time(report, section, "window", WINDOWS).unwrap_or(Nanos::secs(1));
    let said = time(report, section, "dwell", DWELLS);
    let dwell = said.unwrap_or(Nanos::secs(30).max(window));
    if dwell < window {
        section.text(report, "dwell").into_iter().for_each(|text| {
            text.error(report, || {
                let hint = format!("give at least {window}, or a shorter window");
                (format!("{dwell} is less than the window of {window}"), hint)
            });
        });
    }
    let share = within(report, section, "share", SHARES).unwrap_or(Parts::percent(60));
    let packets = section.integer(report, "packets").unwrap_or(1);
    let mut schemes = BTreeMap::new();
    for key in OBJECTIVES {
        let objective = Objective::ALL.iter().copied().find(|objective| objective.name() == key.name);
        let text = section.text(report, key.name);
        let call = text.and_then(|text| scheme(report, &text, catalogue));
        schemes.extend(objective.zip(call));
    }
    PolicyPlan { name, window, dwell, share, packets, schemes }
}
