//! Policies (spec N-23): the objectives of packets at a port select its scheme while packets flow.
//!
//! The objective in force is state, like neighbours. The scheme for an objective is in the running configuration.

use super::Router;
use super::opener::ApplyError;
use super::prepare::unchecked_error;
use crate::policy::{Controller, Decision};
use crate::worker::{Command, Reschedule, WorkerReport};
use link::{Demand, LinkShares, Queueing};
use plan::{Call, Objective, Plan, PortPlan, SchemeChange};
use schemes::{ShareEdit, Sharing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use units::{Instant, Nanos, PortId};

/// Another objective has come into force, or could not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyChange {
    /// The port.
    pub port: PortId,
    /// The decision.
    pub decision: Decision,
    /// The new scheme. `None` if the previous one serves this objective too.
    pub scheme: Option<String>,
    /// Why the port keeps the previous scheme.
    pub failed: Option<ApplyError>,
}

/// The state of a policy at a port.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// The port.
    pub port: PortId,
    /// The objective in force.
    pub objective: Objective,
    /// The number of changes so far.
    pub changes: u64,
    /// The time until the next change is possible.
    pub dwell_left: Nanos,
    /// The packets and bytes of the last window.
    pub last_window: Demand,
}

/// The controllers of all ports with a policy.
#[derive(Default)]
pub(super) struct Policies {
    controllers: BTreeMap<PortId, Controller>,
    /// Receives replaced schemes, whose memory is freed here.
    retiring: Vec<Receiver<Vec<(PortId, Queueing)>>>,
}

/// The wait if a worker has not carried out the previous change yet. Nothing more is posted to a stalled worker.
const PATIENCE: Nanos = Nanos::millis(100);

impl Policies {
    /// True if every worker has carried out the last change of schemes.
    fn is_settled(&self) -> bool {
        // Any answer but `Empty` means done: `Disconnected` is a worker that has ended, or one that answered before. A received scheme is freed here,
        // not on the worker.
        self.retiring.iter().all(|retired| !matches!(retired.try_recv(), Err(TryRecvError::Empty)))
    }

    fn in_force(&self, port: PortId) -> Objective {
        self.controllers.get(&port).map_or(Objective::None, Controller::in_force)
    }
}

impl Router {
    /// The scheme that `plan` selects for one of its ports under the objective in force.
    pub(super) fn scheme_of<'p>(&self, plan: &'p Plan, port: &'p PortPlan, id: PortId) -> &'p Call {
        plan.scheme(port, self.policies.in_force(id))
    }

    /// The objective in force at a port of `plan`. `None` if it has no policy.
    pub(super) fn objective_of(&self, port: &PortPlan, id: PortId) -> Option<Objective> {
        port.policy.as_ref().map(|_| self.policies.in_force(id))
    }

    /// Applies the policies of the running configuration.
    pub(super) fn adopt_policies(&mut self) {
        let Some(plan) = self.plan.clone() else { return };
        let rules = |port: &PortPlan| Some((*self.names.ports.get(&port.name)?, plan.policy(port)?.into()));
        let rules: BTreeMap<PortId, crate::policy::PolicyRules> = plan.ports.iter().filter_map(rules).collect();
        let controllers = &mut self.policies.controllers;
        // A port that still has a policy keeps the objective in force: an apply does not restart the selection.
        controllers.retain(|port, _| rules.contains_key(port));
        for (port, rules) in rules {
            controllers.entry(port).or_insert_with(|| Controller::new(rules)).set_rules(rules);
        }
    }

    /// The time until the next call of [`Router::run_policies`]. `None` without policies.
    pub fn policies_due_in(&self, now: Instant) -> Option<Nanos> {
        let least = if self.policies.is_settled() { Nanos::ZERO } else { PATIENCE };
        self.policies.controllers.values().map(|controller| controller.next(now).max(least)).min()
    }

    /// Lets the policies decide by the workers' reports, and posts the changes. Must not be called while a generation is on its way to the
    /// workers. While a change of schemes is on its way, nothing is decided.
    pub fn run_policies(&mut self, now: Instant, reports: &[WorkerReport]) -> Vec<PolicyChange> {
        if !self.policies.is_settled() {
            return Vec::new();
        }
        self.policies.retiring.clear();
        let mut decided = Vec::new();
        for (&port, controller) in &mut self.policies.controllers {
            let mut counted = Demand::default();
            // Each worker counts the packets that it transmits at the port.
            let ports = reports.iter().flat_map(|report| &report.ports).filter(|report| report.port == port);
            ports.for_each(|report| counted += report.demand);
            decided.extend(controller.observe(now, &counted).map(|decision| (port, decision)));
        }
        decided.into_iter().map(|(port, decision)| self.carry_out(port, decision)).collect()
    }

    fn carry_out(&mut self, port: PortId, decision: Decision) -> PolicyChange {
        let mut choice = PolicyChange { port, decision, scheme: None, failed: None };
        match self.reschedule(port, decision) {
            Ok(scheme) => choice.scheme = scheme,
            Err(error) => {
                // The port keeps its scheme, so the controller must not believe in the change.
                self.policies.controllers.entry(port).and_modify(|controller| controller.withdraw(decision));
                choice.failed = Some(error);
            }
        }
        choice
    }

    /// Gives a port the scheme of an objective. Returns the scheme's text if it changes.
    fn reschedule(&mut self, id: PortId, Decision { from, to, .. }: Decision) -> Result<Option<String>, ApplyError> {
        let (Some(plan), Some(view)) = (self.plan.clone(), self.snapshot.port(id)) else { return Ok(None) };
        let Some(port) = plan.ports.iter().find(|port| port.name == view.name) else { return Ok(None) };
        let scheme = plan.scheme(port, to);
        let differs = scheme != plan.scheme(port, from);
        // Only building can fail, so it comes before any change.
        let schemes =
            if differs { self.schemes((port, id), scheme, self.running_shares(&port.name))? } else { Vec::new() };
        let mut snapshot = (*self.snapshot).clone();
        if let Some(Some(view)) = snapshot.ports.get_mut(id.index()) {
            (view.scheme, view.objective) = (scheme.clone(), Some(to));
        }
        // The generation keeps its number: the scheme in force is state, not configuration.
        self.snapshot = Arc::new(snapshot);
        // Objectives may share a scheme: then only the report of the objective changes.
        if !differs {
            return Ok(None);
        }
        let (mut schemes, mut retiring) = (schemes.into_iter(), Vec::new());
        self.post(|| {
            let (reply, retired) = channel();
            retiring.push(retired);
            let scheme = schemes.next().expect("one was made for each worker");
            Command::Reschedule(Box::new(Reschedule { snapshot: self.snapshot.clone(), port: id, scheme, reply }))
        });
        self.policies.retiring.extend(retiring);
        Ok(Some(scheme.to_string()))
    }

    /// A scheme of a port, one for each worker.
    pub(super) fn schemes(
        &self,
        (port, id): (&PortPlan, PortId),
        scheme: &Call,
        shares: Option<(&Arc<LinkShares>, Vec<ShareEdit>)>,
    ) -> Result<Vec<Queueing>, ApplyError> {
        let workers = self.mailboxes.len();
        let (mut sharing, change): (Sharing, SchemeChange) = (Sharing::among(workers), port.scheme_change);
        // A tree of shares has one owner. The other workers hand their packets to it.
        let owner = |worker| self.queue_of(worker, id, 1) == Some(0);
        // Like the tree they split super-frames, for which they need a scheme of its kind.
        let plain = Call::scheme("share(leaves=2){fifo}", &link::catalogue()).ok();
        let one = |worker| {
            let kept = if scheme.has_shares() && !owner(worker) { plain.as_ref().unwrap_or(scheme) } else { scheme };
            // One value for all workers, so that their schemes share the meters of the port.
            sharing = sharing.of(worker);
            let queueing = Queueing::of(kept, self.region.frames(), &mut sharing);
            let queueing = queueing.map_err(|error| unchecked_error(format!("port {}", port.name), &error))?;
            let queueing = match &shares {
                Some((shares, edits)) if scheme.has_shares() && owner(worker) => queueing.with_shares(shares, edits),
                _ => queueing,
            };
            Ok(queueing.changing(change))
        };
        (0..workers).map(one).collect()
    }

    /// The state of all policies.
    pub fn policies(&self, now: Instant) -> Vec<PolicyReport> {
        let report = |(&port, controller): (&PortId, &Controller)| PolicyReport {
            port,
            objective: controller.in_force(),
            changes: controller.changes(),
            dwell_left: controller.dwell_left(now),
            last_window: *controller.last_window(),
        };
        self.policies.controllers.iter().map(report).collect()
    }
}
