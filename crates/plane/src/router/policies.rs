//! Policies at work (spec N-23): what is wanted at a port brings its scheme, while packets flow.
//!
//! The objective in force is state, as neighbours are: which scheme it means is in the configuration that runs.

use super::Router;
use super::prepare::broken;
use super::prepared::ApplyError;
use crate::policy::{Controller, Decision};
use crate::worker::{Command, Reschedule, WorkerReport};
use link::{Demand, Queueing};
use plan::{Call, Objective, Plan, PortPlan, SchemeChange};
use schemes::Sharing;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use units::{Instant, Nanos, PortId};

/// Another objective has come into force, or should have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// At this port.
    pub port: PortId,
    /// Which.
    pub decision: Decision,
    /// The scheme that serves it; none where the one before does, too.
    pub scheme: Option<String>,
    /// Why the port keeps the one before.
    pub failed: Option<ApplyError>,
}

/// How a policy stands at a port.
#[derive(Clone, Debug)]
pub struct PolicyReport {
    /// The port.
    pub port: PortId,
    /// The objective in force.
    pub objective: Objective,
    /// How often another came into force.
    pub changes: u64,
    /// For how long all stays as it is.
    pub held: Nanos,
    /// What was counted in the last window.
    pub lately: Demand,
}

/// The controllers of all ports with a policy.
#[derive(Default)]
pub(super) struct Policies {
    controllers: BTreeMap<PortId, Controller>,
    /// Schemes that others have replaced come here, for their memory to be given back.
    retiring: Vec<Receiver<Vec<(PortId, Queueing)>>>,
}

/// How long to wait where a worker has not taken the change before yet: nothing more is posted to one that does not move.
const PATIENCE: Nanos = Nanos::millis(100);

impl Policies {
    /// Whether every worker has the schemes that were decided on.
    fn settled(&self) -> bool {
        self.retiring.iter().all(|retired| !matches!(retired.try_recv(), Err(TryRecvError::Empty)))
    }

    fn in_force(&self, port: PortId) -> Objective {
        self.controllers.get(&port).map_or(Objective::None, Controller::in_force)
    }
}

impl Router {
    /// The scheme that `plan` gives to one of its ports as things stand.
    pub(super) fn scheme_of<'p>(&self, plan: &'p Plan, port: &'p PortPlan, id: PortId) -> &'p Call {
        plan.scheme(port, self.policies.in_force(id))
    }

    /// The objective in force at a port of `plan`; none where it has no policy.
    pub(super) fn objective_of(&self, port: &PortPlan, id: PortId) -> Option<Objective> {
        port.policy.as_ref().map(|_| self.policies.in_force(id))
    }

    /// Goes by the policies of the configuration that runs.
    pub(super) fn adopt_policies(&mut self) {
        let Some(plan) = self.plan.clone() else { return };
        let rules = |port: &PortPlan| Some((*self.names.ports.get(&port.name)?, plan.policy(port)?.into()));
        let rules: BTreeMap<PortId, crate::policy::Rules> = plan.ports.iter().filter_map(rules).collect();
        let controllers = &mut self.policies.controllers;
        controllers.retain(|port, _| rules.contains_key(port));
        for (port, rules) in rules {
            controllers.entry(port).or_insert_with(|| Controller::new(rules)).rule(rules);
        }
    }

    /// How long until it is worth to [consult](Router::consult) the policies; nothing where there are none.
    pub fn consults_in(&self, now: Instant) -> Option<Nanos> {
        let least = if self.policies.settled() { Nanos::ZERO } else { PATIENCE };
        self.policies.controllers.values().map(|controller| controller.next(now).max(least)).min()
    }

    /// Has the policies decide by what the workers tell, and the ports change. Not while a generation is on its way to them; while
    /// a change is, nothing is decided.
    pub fn consult(&mut self, now: Instant, reports: &[WorkerReport]) -> Vec<Choice> {
        if !self.policies.settled() {
            return Vec::new();
        }
        self.policies.retiring.clear();
        let mut decided = Vec::new();
        for (&port, controller) in &mut self.policies.controllers {
            let mut counted = Demand::default();
            let ports = reports.iter().flat_map(|report| &report.ports).filter(|report| report.port == port);
            ports.for_each(|report| counted += report.demand);
            decided.extend(controller.observe(now, &counted).map(|decision| (port, decision)));
        }
        decided.into_iter().map(|(port, decision)| self.carry_out(port, decision)).collect()
    }

    fn carry_out(&mut self, port: PortId, decision: Decision) -> Choice {
        let mut choice = Choice { port, decision, scheme: None, failed: None };
        match self.reschedule(port, decision) {
            Ok(scheme) => choice.scheme = scheme,
            Err(error) => {
                self.policies.controllers.entry(port).and_modify(|controller| controller.withdraw(decision));
                choice.failed = Some(error);
            }
        }
        choice
    }

    /// Gives a port the scheme of an objective. Answers its text, where it is another.
    fn reschedule(&mut self, id: PortId, Decision { from, to, .. }: Decision) -> Result<Option<String>, ApplyError> {
        let (Some(plan), Some(view)) = (self.plan.clone(), self.snapshot.port(id)) else { return Ok(None) };
        let Some(port) = plan.ports.iter().find(|port| port.name == view.name) else { return Ok(None) };
        let scheme = plan.scheme(port, to);
        let differs = scheme != plan.scheme(port, from);
        let schemes = if differs { self.schemes(port, scheme)? } else { Vec::new() };
        let mut snapshot = (*self.snapshot).clone();
        if let Some(Some(view)) = snapshot.ports.get_mut(id.index()) {
            (view.scheme, view.objective) = (scheme.clone(), Some(to));
        }
        self.snapshot = Arc::new(snapshot);
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

    /// A scheme of a port for each worker.
    pub(super) fn schemes(&self, port: &PortPlan, scheme: &Call) -> Result<Vec<Queueing>, ApplyError> {
        let workers = self.mailboxes.len();
        let (mut sharing, change): (Sharing, SchemeChange) = (Sharing::among(workers), port.scheme_change);
        let one = |worker| {
            sharing = sharing.of(worker);
            let queueing = Queueing::of(scheme, self.region.frames(), &mut sharing);
            let queueing = queueing.map_err(|error| broken(format!("port {}", port.name), &error))?;
            Ok(queueing.changing(change))
        };
        (0..workers).map(one).collect()
    }

    /// How the policies stand.
    pub fn policies(&self, now: Instant) -> Vec<PolicyReport> {
        let report = |(&port, controller): (&PortId, &Controller)| PolicyReport {
            port,
            objective: controller.in_force(),
            changes: controller.changes(),
            held: controller.held(now),
            lately: *controller.lately(),
        };
        self.policies.controllers.iter().map(report).collect()
    }
}
