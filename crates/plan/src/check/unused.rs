//! Warns of objectives, code points and policies that nothing in the configuration uses.

use crate::diagnostic::Report;
use crate::document::Section;
use crate::section::objectives::{CodePoints, Objective};
use crate::section::path::PathPlan;
use crate::section::policy::Policies;
use crate::section::port::PortPlan;

pub(super) fn check(
    report: &mut Report<'_>,
    root: &Section<'_>,
    (code_points, policies): (&CodePoints, &Policies),
    (ports, paths): (&[PortPlan], &[PathPlan]),
) {
    if report.failed() {
        return;
    }
    let interfaces = || ports.iter().flat_map(|port| &port.interfaces);
    let trusts = interfaces().any(|interface| interface.trust);
    if let Some(place) = root.node("objectives").map(|node| node.span).filter(|_| !trusts) {
        report.warning(place, "objectives", || {
            let hint = "write trust = true in [port.NAME] if you control its hosts";
            ("no port trusts code points, so [objectives] has no effect".to_string(), hint.to_string())
        });
    }
    let all = root.node("port").map(|node| node.span).unwrap_or_default();
    if trusts && code_points.is_empty() {
        report.warning(all, "port", || {
            let hint = "add [objectives] with delay = [\"ef\"]";
            ("code points are trusted, but no code point has an objective".to_string(), hint.to_string())
        });
    }
    for (name, place) in &policies.names {
        if !ports.iter().any(|port| port.policy.as_ref() == Some(name)) {
            report.warning(place.clone(), format!("policy.{name}"), || {
                let hint = format!("write policy = \"{name}\" in [port.NAME]");
                (format!("no port uses the policy '{name}'"), hint)
            });
        }
    }
    let said = |objective: Objective| objective != Objective::None;
    let wanted = trusts && !code_points.is_empty()
        || interfaces().any(|interface| said(interface.objective))
        || paths.iter().any(|path| path.objective.is_some_and(said));
    let used = policies.names.iter().find(|(name, _)| ports.iter().any(|port| port.policy.as_ref() == Some(name)));
    if let Some((name, place)) = used.filter(|_| !wanted) {
        report.warning(place.clone(), format!("policy.{name}"), || {
            let hint = "write trust = true or objective = \"fct\" for an input interface";
            ("no received packet has an objective, so the policy never changes a scheme".to_string(), hint.to_string())
        });
    }
}
