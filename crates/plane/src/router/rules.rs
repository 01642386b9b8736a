//! The lists of rules that can change while the router runs.

use super::Names;
use super::Router;
use super::opener::ApplyError;
use super::path_specs::came_by;
use super::path_specs::shared_list;
use crate::filter::{filter_rule, path_rule};
use crate::routing::{HeldHop, routing_rule};
use crate::snapshot::BUILT_IN;
use classifier::{ListedRule, RuleList, RuleStatus};
use plan::{PathRule, Plan, RoutingRule, RuleListKind, RuleText, rule_batch};
use std::sync::Arc;
use units::{InterfaceId, VrfId};

/// The name of the list of rules that select paths. No path has this name.
pub const PATH_RULES: &str = "paths";
/// The name of the list of rules that select routes. No path has this name.
pub const ROUTING_RULES: &str = "routing";

impl Router {
    /// All lists with their names: those of the rules that select paths and routes, and that of each path with rules for its function `filter`.
    pub fn rule_lists(&self) -> Vec<(Arc<str>, RuleListKind, Arc<RuleList>)> {
        let snapshot = &self.snapshot;
        let filters = snapshot.paths.iter().filter(|path| path.functions.iter().any(|call| call.name == "filter"));
        let filters = filters.map(|path| (path.name.clone(), RuleListKind::Filter, path.filter.clone()));
        let paths = (PATH_RULES.into(), RuleListKind::Paths, snapshot.rules.clone());
        let routing = (ROUTING_RULES.into(), RuleListKind::Routing, snapshot.routing.clone());
        [paths, routing].into_iter().chain(filters).collect()
    }

    /// A rule for a list, with the ids of its interface, its VRF, its path and its share.
    ///
    /// # Errors
    ///
    /// The reason and a hint if no port has the share, or if there is no room for the next hop of the rule.
    pub fn listed_rule(&self, rule: &RuleText) -> Result<ListedRule, (String, String)> {
        let listed = match rule {
            RuleText::Filter(rule) => filter_rule(rule, came_by(&rule.matching, &self.names)),
            RuleText::Routing(rule) => self.routing_rule(rule, &self.names)?,
            RuleText::Path(PathRule { matching, path: name, class, share }) => {
                let configured = self.plan.iter().flat_map(|plan| &plan.paths).position(|path| path.name == *name);
                // The last of the built-in paths is that of all packets without a rule.
                let position = configured.map_or(BUILT_IN - 1, |position| position + BUILT_IN);
                let id = |share| self.shares.id(share).map(|id| (share, id));
                let share = share.as_ref().map(id).transpose()?;
                path_rule(matching, came_by(matching, &self.names), (position, name), (*class, share))
            }
        };
        Ok(listed)
    }

    fn routing_rule(&self, rule: &RoutingRule, names: &Names) -> Result<ListedRule, (String, String)> {
        let vrf = |name: &str| if name == "main" { Some(VrfId::MAIN) } else { names.vrfs.get(name).copied() };
        let interface = |name: &str| names.interfaces.get(name).copied();
        routing_rule(rule, came_by(&rule.matching, names), &self.tables, vrf, interface)
    }

    /// The rules of a plan that select routes: the running list if it was made from the same. Changes since then may name things that the plan lacks:
    /// that is an error, but a rollback loses the changes instead.
    pub(super) fn routing_list(
        &self,
        (plan, is_rollback): (&Plan, bool),
        names: &Names,
        errors: &mut Vec<ApplyError>,
    ) -> Option<Arc<RuleList>> {
        let rule = |(position, rule): (usize, &RoutingRule)| {
            let place = format!("routing rule {}", position + 1);
            self.routing_rule(rule, names).map_err(|(reason, hint)| ApplyError { place, reason, hint })
        };
        let rules: Result<Vec<ListedRule>, ApplyError> = plan.routing.iter().enumerate().map(rule).collect();
        match rules {
            Ok(rules) => {
                let list = shared_list(rules, &self.sets.store, Some(&self.snapshot.routing));
                let is_kept = Arc::ptr_eq(&list, &self.snapshot.routing) && list.is_changed();
                let stranded = if is_kept { stranded(&list, plan, names) } else { Vec::new() };
                if is_rollback && !stranded.is_empty() {
                    return Some(list.as_configured());
                }
                errors.extend(stranded);
                Some(list)
            }
            Err(wrong) => {
                errors.push(wrong);
                None
            }
        }
    }
}

/// The rules of a changed list that name something that the plan no longer has.
fn stranded(list: &RuleList, plan: &Plan, names: &Names) -> Vec<ApplyError> {
    let rules = list.rules();
    let text: String = rules.iter().map(|status| format!("add {}\n", status.rule.text)).collect();
    let remove = |id: u32| format!("remove it first: `switchpath rule remove {ROUTING_RULES} {id}`");
    let error = |id: u32, reason| ApplyError { place: format!("routing rule {id}"), reason, hint: remove(id) };
    if let Err(wrong) = rule_batch(&text, "rules", plan, RuleListKind::Routing) {
        let of = |wrong: &plan::Diagnostic| Some(error(rules.get(wrong.line - 1)?.id, wrong.reason.clone()));
        return wrong.errors().filter_map(of).collect();
    }
    // A port that was removed and added again, or moved to another VRF, has another id.
    let is_gone = |named: InterfaceId| !names.interfaces.values().any(|id| *id == named);
    let gone = rules.iter().filter(|RuleStatus { rule, .. }| {
        let hop = rule.held.get::<HeldHop>().map(|hop| hop.interface);
        rule.interface.into_iter().chain(hop).any(is_gone)
    });
    gone.map(|status| error(status.id, "a port that it names was replaced by another".to_string())).collect()
}
