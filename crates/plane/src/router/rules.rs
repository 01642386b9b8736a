//! The lists of rules that can change while the router runs.

use super::Router;
use super::path_specs::came_by;
use crate::filter::{filter_rule, path_rule};
use crate::snapshot::BUILT_IN;
use classifier::{ListedRule, RuleList};
use plan::{PathRule, RuleListKind, RuleText};
use std::sync::Arc;

/// The name of the list of rules that select paths. No path has this name.
pub const PATH_RULES: &str = "paths";

impl Router {
    /// All lists with their names: that of the rules that select paths, and that of each path with rules for its function `filter`.
    pub fn rule_lists(&self) -> Vec<(Arc<str>, RuleListKind, Arc<RuleList>)> {
        let snapshot = &self.snapshot;
        let filters = snapshot.paths.iter().filter(|path| path.functions.iter().any(|call| call.name == "filter"));
        let filters = filters.map(|path| (path.name.clone(), RuleListKind::Filter, path.filter.clone()));
        [(PATH_RULES.into(), RuleListKind::Paths, snapshot.rules.clone())].into_iter().chain(filters).collect()
    }

    /// A rule for a list, with the ids of its interface, its VRF, its path and its share.
    ///
    /// # Errors
    ///
    /// The reason and a hint if no port has the share.
    pub fn listed_rule(&self, rule: &RuleText) -> Result<ListedRule, (String, String)> {
        let listed = match rule {
            RuleText::Filter(rule) => filter_rule(rule, came_by(&rule.matching, &self.names)),
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
}
