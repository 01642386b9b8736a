//! The reserved flows under another configuration.

use super::flow_admission::{FlowPlace, FlowPromise};
use super::flows::{RouterFlows, RunningFlow, rule_of};
use super::opener::ApplyError;
use super::shares::SharePlans;
use super::{Names, Router};
use classifier::{Place, RuleEdit, RuleList};
use plan::admission::{FlowLink, PathFlows};
use plan::{Plan, ShareName};
use std::sync::Arc;

/// The flows of a generation that is being prepared.
#[derive(Default)]
pub(super) struct FlowPlans {
    flows: RouterFlows,
    /// Reservations that a rollback ends.
    pub warnings: Vec<String>,
}

impl FlowPlans {
    pub fn path_flows(&self) -> Vec<PathFlows> {
        self.flows.path_flows()
    }
}

impl Router {
    /// The place of a running flow under another configuration: the index of its output port, or the missing part and a hint.
    pub(super) fn flow_place(&self, plan: &Plan, name: &ShareName) -> Result<usize, (String, String)> {
        let Some(RunningFlow { flow, port, .. }) = self.flows.flows.get(name) else {
            return Err(("there is no such flow".to_string(), String::new()));
        };
        let Some(FlowPlace { exit, .. }) = RouterFlows::place(plan, flow, port) else {
            let reason = format!("it needs the path {} with reservations = true, and the port {port}", flow.path);
            return Err((reason, "keep them".to_string()));
        };
        let is_known = |name: &str| plan.interfaces().any(|(_, interface)| *interface.name == *name);
        match flow.matching.iif.as_deref() {
            Some(name) if !is_known(name) => Err((format!("it needs the interface {name}"), "keep it".to_string())),
            _ => Ok(exit),
        }
    }

    /// The flows under another configuration: their paths, ports and shares must be there still. A rollback ends the reservations of others.
    pub(super) fn prepare_flows(
        &self,
        plan: &Plan,
        trees: &SharePlans,
        is_rollback: bool,
    ) -> Result<FlowPlans, Vec<ApplyError>> {
        let mut flows = self.flows.for_plan(plan);
        let mut failed: Vec<(&ShareName, String, String)> = Vec::new();
        for running in self.flows.in_order() {
            let (name, port) = (&running.flow.name, &running.port);
            let link = self.flow_place(plan, name).and_then(|exit| {
                let tree = trees.tree(port).filter(|tree| tree.get(name.as_str()).is_some());
                let gone = || (format!("the port {port} has no share for it"), "keep its scheme and rate".to_string());
                let above = tree.ok_or_else(gone)?.rates_above(running.flow.parent.as_ref())?;
                Ok(FlowLink::new(&plan.ports[exit].scheme, above))
            });
            match link {
                Ok(link) => {
                    let mut running = running.clone();
                    let FlowPromise { terms, bound, .. } = &mut running.promise;
                    let wait = link.wait(&running.flow, terms);
                    *bound = bound.saturating_sub(terms.wait) + wait;
                    terms.wait = wait;
                    flows.insert(plan, running);
                }
                Err((reason, hint)) => failed.push((name, reason, hint)),
            }
        }
        let mut plans = FlowPlans { flows, warnings: Vec::new() };
        if is_rollback {
            let warning = |(name, reason, _): (&ShareName, String, String)| {
                format!("the reservation of the flow {name} has ended: {reason}")
            };
            plans.warnings = failed.into_iter().map(warning).collect();
            return Ok(plans);
        }
        let error = |(name, reason, hint): (&ShareName, String, String)| ApplyError {
            place: format!("reserved flow {name}"),
            reason,
            hint: format!("{hint}, or end the reservation first: `switchpath reserve remove {name}`"),
        };
        let errors: Vec<ApplyError> = failed.into_iter().map(error).collect();
        if errors.is_empty() { Ok(plans) } else { Err(errors) }
    }

    /// Puts the rules of the flows in front of a list that was made anew for a plan.
    pub(super) fn list_flows(
        &self,
        plan: &Plan,
        names: &Names,
        list: Arc<RuleList>,
        flows: &mut FlowPlans,
    ) -> Arc<RuleList> {
        let same_paths = || {
            let position = |plan: &Plan, name: &str| plan.paths.iter().position(|path| path.name == name);
            let same = |running: &RunningFlow| {
                let name = &running.flow.path;
                self.plan.as_ref().is_some_and(|old| position(old, name) == position(plan, name))
            };
            self.flows.in_order().all(same)
        };
        let is_running = Arc::ptr_eq(&list, &self.snapshot.rules);
        // A running list also has the rules of flows that a rollback ends.
        let same_flows = flows.flows.flows.len() == self.flows.flows.len();
        if is_running && same_flows && same_paths() {
            return list;
        }
        let list = if is_running { list.as_configured() } else { list };
        let behind = list.rule_behind(None).map_or(Place::End, Place::Before);
        let names_in_order: Vec<ShareName> = flows.flows.in_order().map(|running| running.flow.name.clone()).collect();
        let rule = |name: &ShareName| {
            let running = &flows.flows.flows[name];
            let share = self.shares.ids.get(name).unwrap_or_default();
            RuleEdit::Add(behind, rule_of(plan, names, running, share))
        };
        let ids = list.edit(names_in_order.iter().map(rule).collect::<Vec<_>>());
        for (name, id) in names_in_order.iter().zip(ids.into_iter().flatten()) {
            if let Some(running) = flows.flows.flows.get_mut(name) {
                running.rule = id;
            }
        }
        list
    }

    /// The flows are those of a generation that is being published.
    pub(super) fn publish_flows(&mut self, plans: FlowPlans) {
        let before = std::mem::replace(&mut self.flows, plans.flows);
        let ended = || before.flows.keys().filter(|name| !self.flows.flows.contains_key(name.as_str()));
        self.grant(ended(), true);
        ended().for_each(|name| self.shares.ids.release(name));
    }
}
