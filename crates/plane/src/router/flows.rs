//! Flows that are reserved while the router runs (Panama, sections 4.1 and 4.3).
//!
//! A reserved flow is a rule of the list `paths`, a share of its output port, and a part of the share that its path has of the processor. Admission needs
//! only the sum of the flows of each path, so one more flow costs the same with ten thousand of them.

use super::Router;
use super::flow_admission::{FlowPlace, FlowPromise, FlowRefusal, LinkLeft, Unkept, entries, output_port};
use super::flow_sums::PathSums;
use super::measured_costs::Period;
use super::path_specs::came_by;
use super::port_tree::{SharesChanged, StagedShares};
use crate::filter::path_rule;
use crate::flow_rates::{FlowGrant, FlowUse};
use crate::snapshot::BUILT_IN;
use classifier::{ListedRule, Place, RuleEdit};
use plan::admission::Costs;
use plan::{FlowChange, Name, Plan, ReservedFlow, ShareChange, ShareName, ShareOrigin, ShareSettings, ShareTree};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Instant, Nanos, Rate, ShareId};

/// A flow as the router keeps it.
#[derive(Clone, Debug)]
pub(super) struct RunningFlow {
    pub flow: ReservedFlow,
    /// The output port.
    pub port: Name,
    /// The id of its rule.
    pub rule: u32,
    /// Its place among the rules of flows.
    order: u64,
    pub promise: FlowPromise,
    /// When its lease ends.
    ends: Option<Instant>,
    /// The processor time that it had used when its cost was last checked.
    checked: FlowUse,
    /// True if its packets need more time than the admission relies on, which was reported.
    is_costly: bool,
}

/// A flow whose packets need more processor time than its reservation relies on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CostlyFlow {
    /// Its name.
    pub name: ShareName,
    /// The time of the functions for a packet on which its admission relies.
    pub expected: Nanos,
    /// The measured mean.
    pub measured: Nanos,
}

/// The packets of a flow that one check of its cost needs: fewer may be those of a moment.
const CHECKED_PACKETS: u64 = 64;

impl RunningFlow {
    /// True if each of its functions is charged to it.
    fn is_interleaved(&self, interleaved: &[&str]) -> bool {
        interleaved.contains(&self.flow.path.as_str())
    }

    fn grant(&self) -> FlowGrant {
        let whole = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        FlowGrant { weight: whole(self.promise.weight), limit: whole(self.promise.queued(&self.flow)) }
    }
}

/// All reserved flows.
#[derive(Clone, Debug, Default)]
pub(super) struct RouterFlows {
    pub flows: BTreeMap<ShareName, RunningFlow>,
    /// By their places: the last rule of a flow is behind all others of flows.
    order: BTreeMap<u64, ShareName>,
    next: u64,
    /// Of each path, in the order of the plan.
    sums: Vec<PathSums>,
    /// Frames that the queues of all flows may hold.
    pub frames: u64,
}

/// A reserved flow for reports.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The flow.
    pub flow: ReservedFlow,
    /// The output port.
    pub port: Name,
    /// The number of its share.
    pub share: ShareId,
    /// The id of its rule in the list `paths`.
    pub rule: u32,
    /// Its promise.
    pub promise: FlowPromise,
    /// The processor time of its functions. `None` unless its path is interleaved.
    pub used: Option<FlowUse>,
    /// The time until its lease ends. `None` if it stays.
    pub lease_left: Option<Nanos>,
    /// The counts of its share.
    pub counts: link::ShareCounts,
}

/// The result of a batch of changes.
#[derive(Clone, Debug, Default)]
pub struct FlowsChanged {
    /// The flows that were reserved, in the order of the batch.
    pub added: Vec<(ReservedFlow, Name, FlowPromise)>,
    /// The number of reservations that were renewed.
    pub renewed: usize,
    /// The number of reservations that were ended.
    pub removed: usize,
    /// The flows among them that do not fit, each with the resource that is short: they were reserved because `admission` is `warn`.
    pub overbooked: Vec<FlowRefusal>,
    /// The number of reserved flows afterwards.
    pub total: usize,
    shares: Vec<SharesChanged>,
}

impl FlowsChanged {
    /// True if the workers of all ports have carried out the changes of their shares.
    pub fn is_done(&self) -> bool {
        self.shares.iter().all(SharesChanged::is_done)
    }
}

/// A step of a batch that can be undone.
enum Done {
    Added(ShareName),
    Removed(Box<RunningFlow>),
    Renewed(ShareName, (Option<Nanos>, Option<Instant>)),
}

/// The state of a batch that is being checked.
struct Batch {
    plan: Arc<Plan>,
    costs: Costs,
    done: Vec<Done>,
    staged: BTreeMap<Name, StagedShares>,
    rules: Vec<RuleEdit>,
    /// The flows whose rules are added, in the order of `rules`.
    adding: Vec<ShareName>,
    behind: Place,
}

impl RouterFlows {
    /// The admission sums of each path.
    pub fn path_flows(&self) -> Vec<plan::admission::PathFlows> {
        self.sums.iter().map(PathSums::flows).collect()
    }

    /// No flows yet, for the paths of a plan; those of the running router will follow.
    pub fn for_plan(&self, plan: &Plan) -> RouterFlows {
        let sums = plan.paths.iter().map(|_| PathSums::default()).collect();
        RouterFlows { next: self.next, sums, ..RouterFlows::default() }
    }

    /// The place of a flow under a plan. None if its path or its port is missing.
    pub fn place(plan: &Plan, flow: &ReservedFlow, port: &str) -> Option<FlowPlace> {
        let path = plan.paths.iter().position(|path| path.name == flow.path && path.cpu.reservations)?;
        let exit = plan.ports.iter().position(|known| *known.name == *port)?;
        Some(FlowPlace { path, entries: entries(plan, flow, exit), exit })
    }

    fn count(&mut self, plan: &Plan, running: &RunningFlow, add: bool) {
        let RunningFlow { flow, port, promise, .. } = running;
        let Some(FlowPlace { path, entries, exit }) = RouterFlows::place(plan, flow, port) else { return };
        self.sums.resize_with(plan.paths.len(), PathSums::default);
        self.sums[path].change(flow, (promise.terms.packets, promise.latest(flow)), (&entries, exit), add);
        let frames = promise.frames(flow);
        self.frames = if add { self.frames + frames } else { self.frames - frames };
    }

    pub fn insert(&mut self, plan: &Plan, running: RunningFlow) {
        self.count(plan, &running, true);
        self.order.insert(running.order, running.flow.name.clone());
        self.flows.insert(running.flow.name.clone(), running);
    }

    fn take(&mut self, plan: &Plan, name: &ShareName) -> Option<RunningFlow> {
        let running = self.flows.remove(name)?;
        self.order.remove(&running.order);
        self.count(plan, &running, false);
        Some(running)
    }

    /// The flow that has the rule with this id.
    fn of_rule(&self, rule: u32) -> Option<&ShareName> {
        self.flows.values().find(|running| running.rule == rule).map(|running| &running.flow.name)
    }

    /// The flows in the order of their rules.
    pub fn in_order(&self) -> impl Iterator<Item = &RunningFlow> {
        self.order.values().filter_map(|name| self.flows.get(name))
    }
}

/// The names of the paths whose functions are charged to each flow. Few paths are, so flows are compared with these only.
fn interleaved_paths(plan: Option<&Plan>) -> Vec<&str> {
    let paths = plan.map_or(&[][..], |plan| &plan.paths);
    paths.iter().filter(|path| path.cpu.interleave).map(|path| path.name.as_str()).collect()
}

fn settings(flow: &ReservedFlow, promise: &FlowPromise) -> ShareSettings {
    // The tree takes no burst below 64 bytes, which no packet of a flow is.
    ShareSettings {
        rate: Some(promise.terms.rate),
        burst: Some(promise.terms.burst.max(flow.packet)),
        queue: Some(promise.queue),
        turn: Some(promise.terms.turn),
        ..ShareSettings::default()
    }
}

fn share_of(flow: &ReservedFlow, promise: &FlowPromise) -> ShareChange {
    let (name, parent) = (flow.name.clone(), flow.parent.clone());
    ShareChange::Add { name, parent, settings: settings(flow, promise), lease: None }
}

impl Router {
    /// The reserved flows, by name.
    pub fn flows(&self) -> Vec<FlowReport> {
        let interleaved = interleaved_paths(self.plan.as_deref());
        let report = |running: &RunningFlow| {
            let share = self.shares.ids.get(&running.flow.name).unwrap_or_default();
            let port = self.shares.ports.get(&running.port);
            FlowReport {
                flow: running.flow.clone(),
                port: running.port.clone(),
                share,
                rule: running.rule,
                promise: running.promise,
                used: running.is_interleaved(&interleaved).then(|| self.snapshot.flow_rates.used(share)),
                lease_left: running.ends.map(|end| end.since(self.shares.now)),
                counts: port.map(|port| port.shared.counts(share)).unwrap_or_default(),
            }
        };
        self.flows.flows.values().map(report).collect()
    }

    /// True if the flow of this name survives a restart.
    pub fn is_kept_flow(&self, name: &ShareName) -> bool {
        self.flows.flows.get(name).is_some_and(|running| running.flow.keep)
    }

    /// The reserved flow whose rule has this id in the list `paths`.
    pub fn flow_of_rule(&self, rule: u32) -> Option<&ShareName> {
        self.flows.of_rule(rule)
    }

    /// Reserves flows, renews and ends reservations: all changes, or none. With `is_trial` none, but with the same answer.
    ///
    /// # Errors
    /// The first change that cannot be made: the resource that ran out and the largest reservation that would fit, or the mistake.
    pub fn edit_flows(&mut self, changes: &[FlowChange], is_trial: bool) -> Result<FlowsChanged, FlowRefusal> {
        let Some(plan) = self.plan.clone() else {
            return Err(FlowRefusal::wrong("the router has no configuration".to_string(), "apply one"));
        };
        let costs = self.measured.costs(&plan, &self.names, Some(&plan), Period::Always);
        let list = self.snapshot.rules.clone();
        let last = self.flows.order.last_key_value();
        let last = last.and_then(|(_, name)| self.flows.flows.get(name)).map(|running| running.rule);
        let behind = list.rule_behind(last).map_or(Place::End, Place::Before);
        let (done, rules, adding) = (Vec::new(), Vec::new(), Vec::new());
        let mut batch = Batch { plan, costs, done, staged: BTreeMap::new(), rules, adding, behind };
        let mut changed = FlowsChanged::default();
        for (position, change) in changes.iter().enumerate() {
            match self.stage(change, &mut batch, &mut changed) {
                Ok(short) => changed.overbooked.extend(short.map(|short| FlowRefusal { position, ..short })),
                Err(refused) => {
                    self.undo(batch);
                    return Err(FlowRefusal { position, ..refused });
                }
            }
        }
        changed.total = self.flows.flows.len();
        if is_trial {
            self.undo(batch);
            return Ok(changed);
        }
        // Before the rules: the first packets find their queues.
        let adding = std::mem::take(&mut batch.adding);
        self.grant(adding.iter(), false);
        match list.edit(std::mem::take(&mut batch.rules)) {
            Ok(ids) => {
                for (name, id) in adding.iter().zip(ids) {
                    if let Some(running) = self.flows.flows.get_mut(name) {
                        running.rule = id;
                    }
                }
            }
            Err((_, error)) => {
                self.grant(adding.iter(), true);
                self.undo(batch);
                return Err(FlowRefusal::wrong(error.to_string(), "use a match with fewer combinations"));
            }
        }
        let removed = batch.done.iter().filter_map(|done| match done {
            Done::Removed(running) => Some(&running.flow.name),
            _ => None,
        });
        self.grant(removed.clone(), true);
        removed.for_each(|name| self.shares.ids.release(name));
        for (port, staged) in batch.staged {
            if let Some(tree) = self.shares.ports.get_mut(&port) {
                changed.shares.push(tree.commit(staged, &self.shares.ids));
            }
        }
        if !changed.added.is_empty() || changed.removed > 0 {
            self.divide_cpu_with(|before, after| before != after);
        }
        Ok(changed)
    }

    /// Ends the reservations whose leases are over. Returns their names.
    pub fn end_flow_leases(&mut self, now: Instant) -> Vec<ShareName> {
        self.shares.now = now;
        let ended = self.flows.flows.values().filter(|running| running.ends.is_some_and(|end| end <= now));
        let ended: Vec<ShareName> = ended.map(|running| running.flow.name.clone()).collect();
        if ended.is_empty() {
            return ended;
        }
        let changes: Vec<FlowChange> = ended.iter().cloned().map(FlowChange::Remove).collect();
        match self.edit_flows(&changes, false) {
            Ok(_) => ended,
            Err(_) => Vec::new(),
        }
    }

    /// The flows whose packets have begun to need more processor time than their reservations rely on. Others do not suffer: each flow has its share. Only
    /// flows of interleaved paths are measured.
    pub fn costly_flows(&mut self) -> Vec<CostlyFlow> {
        let Router { flows, shares, snapshot, plan, .. } = self;
        let (interleaved, mut costly) = (interleaved_paths(plan.as_deref()), Vec::new());
        if interleaved.is_empty() {
            return costly;
        }
        for running in flows.flows.values_mut().filter(|running| running.is_interleaved(&interleaved)) {
            let used = snapshot.flow_rates.used(shares.ids.get(&running.flow.name).unwrap_or_default());
            let packets = used.packets.saturating_sub(running.checked.packets);
            if packets < CHECKED_PACKETS {
                continue;
            }
            let measured = Nanos::new(used.time.saturating_sub(running.checked.time).get() / packets);
            let expected = running.promise.cost;
            running.checked = used;
            // Reported once, and again only after it was below: a cost near the limit is no news every second.
            let limit = if running.is_costly { expected } else { Nanos::new(expected.get() / 4 * 5) };
            if measured > limit && !running.is_costly {
                costly.push(CostlyFlow { name: running.flow.name.clone(), expected, measured });
            }
            running.is_costly = measured > limit;
        }
        costly
    }

    /// Tells the workers the rates of flows, or that they have none any more.
    pub(super) fn grant<'n>(&self, names: impl Iterator<Item = &'n ShareName>, ended: bool) {
        for name in names {
            let Some(share) = self.shares.ids.get(name) else { continue };
            let running = self.flows.flows.get(name).filter(|_| !ended);
            self.snapshot.flow_rates.set(share, running.map_or(FlowGrant::default(), RunningFlow::grant));
        }
    }

    /// Makes one change, which can be undone. Returns the resource that is short if a flow is overbooked.
    fn stage(
        &mut self,
        change: &FlowChange,
        batch: &mut Batch,
        changed: &mut FlowsChanged,
    ) -> Result<Option<FlowRefusal>, FlowRefusal> {
        match change {
            FlowChange::Add(flow) => {
                let (port, promise, short) = self.admit(flow, batch)?;
                changed.added.push((ReservedFlow::clone(flow), port, promise));
                return Ok(short);
            }
            FlowChange::Renew { name, lease } => {
                let now = self.shares.now;
                let running = self.flows.flows.get_mut(name).ok_or_else(|| unknown(name))?;
                let before = (running.flow.lease, running.ends);
                running.flow.lease = lease.or(running.flow.lease);
                running.ends = running.flow.lease.map(|lease| now + lease);
                batch.done.push(Done::Renewed(name.clone(), before));
                changed.renewed += 1;
            }
            FlowChange::Remove(name) => {
                let running = self.flows.take(&batch.plan, name).ok_or_else(|| unknown(name))?;
                let remove = ShareChange::Remove { name: name.clone(), all: false };
                let staged = self.stage_share(&running.port, &remove, batch);
                let (rule, is_new) = (running.rule, batch.adding.contains(name));
                batch.done.push(Done::Removed(Box::new(running)));
                staged?;
                if is_new {
                    let hint = "leave out both lines";
                    return Err(FlowRefusal::wrong(format!("the same batch reserves {name}"), hint));
                }
                // The operator cannot remove the rule of a flow.
                batch.rules.push(RuleEdit::Remove(rule));
                changed.removed += 1;
            }
        }
        Ok(None)
    }

    /// Changes the share of a flow in the tree of its port, which can be undone.
    fn stage_share(&mut self, port: &Name, change: &ShareChange, batch: &mut Batch) -> Result<(), FlowRefusal> {
        let wrong = |(reason, hint): (String, String)| FlowRefusal::wrong(reason, hint);
        let Some(tree) = self.shares.ports.get_mut(port) else { return Ok(()) };
        let staged = batch.staged.entry(port.clone()).or_default();
        tree.stage(change, ShareOrigin::Flow, &mut self.shares.ids, staged).map_err(wrong)
    }

    fn undo(&mut self, batch: Batch) {
        let Batch { plan, done, staged, .. } = batch;
        for done in done.into_iter().rev() {
            match done {
                Done::Added(name) => drop(self.flows.take(&plan, &name)),
                Done::Removed(running) => self.flows.insert(&plan, *running),
                Done::Renewed(name, (lease, ends)) => {
                    if let Some(running) = self.flows.flows.get_mut(&name) {
                        (running.flow.lease, running.ends) = (lease, ends);
                    }
                }
            }
        }
        for port in staged.keys() {
            if let Some(port) = self.shares.ports.get_mut(port) {
                port.tree.rollback();
            }
        }
    }

    /// Admits a flow, and stages its share and its rule. Returns also the resource that is short if the port overbooks.
    fn admit(
        &mut self,
        flow: &ReservedFlow,
        batch: &mut Batch,
    ) -> Result<(Name, FlowPromise, Option<FlowRefusal>), FlowRefusal> {
        if self.flows.flows.contains_key(&flow.name) {
            let hint = format!("use another name, renew it, or end it first: remove {}", flow.name);
            return Err(FlowRefusal::wrong(format!("there is a reserved flow {} already", flow.name), hint));
        }
        let plan = batch.plan.clone();
        let port = output_port(&plan, flow)?;
        let Some(place) = RouterFlows::place(&plan, flow, &port) else {
            let reason = format!("no flows can be reserved on the path {}", plan::quote(&flow.path));
            return Err(FlowRefusal::wrong(reason, "give it reservations = true in the configuration"));
        };
        let link = self.flow_link(&plan, &batch.costs, (&port, place.exit), flow)?;
        let tree = self.shares.ports.get(&port).map(|port| &port.tree);
        let overbooks = tree.is_some_and(ShareTree::overbooks);
        let left = tree.and_then(|tree| tree.rate_left(flow.parent.as_ref()));
        let left = LinkLeft { port: &port, rate: left.unwrap_or(Rate::ZERO) };
        let (promise, short) = match self.promise(&plan, &batch.costs, (&place, &link), (flow, left)) {
            Ok(promise) => (promise, None),
            Err(unkept) => {
                let Unkept { refusal, promise } = *unkept;
                let largest = self.largest(&plan, &batch.costs, (&place, &link), (flow, left));
                let refusal = FlowRefusal { hint: largest.unwrap_or(refusal.hint), ..refusal };
                if !overbooks {
                    return Err(refusal);
                }
                (promise, Some(refusal))
            }
        };
        self.stage_share(&port, &share_of(flow, &promise), batch)?;
        let running = RunningFlow {
            flow: flow.clone(),
            port: port.clone(),
            rule: 0,
            order: self.flows.next,
            promise,
            ends: flow.lease.map(|lease| self.shares.now + lease),
            checked: FlowUse::default(),
            is_costly: false,
        };
        self.flows.next += 1;
        let rule = self.flow_rule(&plan, &running);
        self.flows.insert(&plan, running);
        batch.done.push(Done::Added(flow.name.clone()));
        batch.rules.push(RuleEdit::Add(batch.behind, rule));
        batch.adding.push(flow.name.clone());
        Ok((port, promise, short))
    }

    /// The rule that gives the packets of a flow its path and its share.
    fn flow_rule(&self, plan: &Plan, running: &RunningFlow) -> ListedRule {
        rule_of(plan, &self.names, running, self.shares.ids.get(&running.flow.name).unwrap_or_default())
    }
}

fn unknown(name: &ShareName) -> FlowRefusal {
    FlowRefusal::wrong(format!("there is no reserved flow {name}"), "`switchpath reserve list` shows them")
}

/// The rule that gives the packets of a flow its path and its share.
pub(super) fn rule_of(plan: &Plan, names: &super::Names, running: &RunningFlow, share: ShareId) -> ListedRule {
    let flow = &running.flow;
    let position = plan.paths.iter().position(|path| path.name == flow.path).unwrap_or(0) + BUILT_IN;
    let origin = came_by(&flow.matching, names);
    path_rule(&flow.matching, origin, (position, &flow.path), (None, Some((&flow.name, share))))
}
