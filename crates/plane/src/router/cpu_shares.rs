//! The CPU shares of a generation's tasks, as admission divides the cores.

use super::Router;
use super::measured_costs::Period;
use super::opener::ApplyError;
use crate::snapshot::{BEST_EFFORT, BUILT_IN, CONTROL, GENERAL, PortShares};
use crate::worker::Command;
use plan::admission::{Allotment, CostSource, Costs, PathAllotment, PathFlows, PortAllotment, overbook_flows};
use plan::{Admission, PathPlan, Plan, PortPlan};
use std::sync::Arc;
use units::{Nanos, PathId, Share};

/// The share of every task.
pub(super) struct CpuShares(Allotment);

impl CpuShares {
    /// The shares of `plan` at these costs. A reservation that does not fit is refused, unless `admission` only warns: then all tasks get proportionally
    /// less.
    pub fn of(plan: &Plan, costs: &Costs, admission: Admission, flows: &[PathFlows]) -> Result<CpuShares, ApplyError> {
        match overbook_flows(plan, costs, flows) {
            (_, Some(refused)) if admission == Admission::Refuse => Err(ApplyError {
                place: format!("path {}", refused.path),
                reason: format!("{refused}{}", measured_cost(plan, costs, &refused.path)),
                hint: "`switchpath check` shows the sum; admission = \"warn\" in [cpu] accepts it anyway".into(),
            }),
            (allotment, _) => Ok(CpuShares(allotment)),
        }
    }

    /// The share of a built-in path.
    pub fn built_in(&self, path: PathId) -> Share {
        match path {
            CONTROL | GENERAL => self.0.built_in.share,
            BEST_EFFORT => self.0.best_effort.share,
            _ => Share::of(1, 50),
        }
    }

    fn path(&self, path: &PathPlan) -> Option<&PathAllotment> {
        self.0.paths.iter().find(|allotted| allotted.name == path.name)
    }

    /// The share of a configured path.
    pub fn of_path(&self, path: &PathPlan) -> Share {
        self.path(path).map_or(Share::of(1, 50), |allotted| allotted.task.share)
    }

    /// The maximum time that a path waits for more packets.
    pub fn max_wait(&self, path: &PathPlan) -> Option<Nanos> {
        path.cpu.max_wait.or_else(|| self.path(path)?.max_wait)
    }

    /// The shares of the tasks of a port.
    pub fn of_port(&self, port: &PortPlan) -> PortShares {
        let allotted = self.0.ports.iter().find(|allotted| allotted.name == port.name);
        let (input, output) = allotted.map(|PortAllotment { input, output, .. }| (*input, *output)).unwrap_or_default();
        // Admission gives the output one share. Two tasks divide it here: one for packets of reservations, one for the rest.
        PortShares { input: input.share, reserved: output.reserved, output: output.share.minus(output.reserved) }
    }
}

impl Router {
    /// Divides the processor again by recent packet costs ([`Router::learn_costs`]). The costs at the time of the apply may be wrong by far, and a
    /// router that receives more than it can transmit wastes the work (spec Q-27). The generation stays the same. Returns true if the share of
    /// some task changes. If all changes are small, or a reservation would not fit, all tasks keep their shares.
    pub fn divide_cpu(&mut self) -> bool {
        self.divide_cpu_with(differs_notably)
    }

    /// The same, if some share differs so.
    pub(super) fn divide_cpu_with(&mut self, matters: fn(Share, Share) -> bool) -> bool {
        let Some(plan) = &self.plan else { return false };
        let costs = self.measured.costs(plan, &self.names, Some(plan), Period::Recent);
        let flows = self.flows.path_flows();
        let Ok(shares) = CpuShares::of(plan, &costs, plan.cpu.admission, &flows) else { return false };
        let mut snapshot = (*self.snapshot).clone();
        let mut differs = false;
        // All shares are set, but the workers get them only if one differs notably.
        let mut give = |has: &mut Share, share: Share| {
            differs |= matters(*has, share);
            *has = share;
        };
        for port in &plan.ports {
            let view = self.names.ports.get(&port.name).and_then(|id| snapshot.ports.get_mut(id.index()));
            if let Some(Some(view)) = view {
                let PortShares { input, reserved, output } = shares.of_port(port);
                give(&mut view.shares.input, input);
                give(&mut view.shares.reserved, reserved);
                give(&mut view.shares.output, output);
            }
        }
        // A snapshot has the configured paths in the order of the plan, behind the built-in ones.
        let (own, configured) = snapshot.paths.split_at_mut(BUILT_IN);
        own.iter_mut().for_each(|path| give(&mut path.share, shares.built_in(path.id)));
        for (index, (spec, path)) in configured.iter_mut().zip(&plan.paths).enumerate() {
            give(&mut spec.share, shares.of_path(path));
            if path.cpu.reservations {
                let reserved = flows.get(index).filter(|flows| !flows.is_empty());
                spec.cpu.reservation = reserved.map(PathFlows::rate).or(path.cpu.reservation);
            }
            // Not compared: a new wait reaches the workers with the next notable change of a share.
            spec.cpu.max_wait = shares.max_wait(path);
        }
        if differs {
            self.snapshot = Arc::new(snapshot);
            self.post(|| Command::SetShares(self.snapshot.clone()));
        }
        differs
    }
}

/// True if two shares differ by more than an eighth of the greater one.
fn differs_notably(has: Share, share: Share) -> bool {
    let (has, share) = (has.as_f64(), share.as_f64());
    (has - share).abs() > 0.125 * has.max(share)
}

/// The measured cost of `path` for an error message, if the refusal is based on it.
fn measured_cost(plan: &Plan, costs: &Costs, path: &str) -> String {
    let figure =
        plan.paths.iter().zip(&costs.paths).find(|(plan, _)| plan.name == path).map(|(_, path)| path.functions);
    let measured = figure.filter(|figure| figure.source == CostSource::Measured);
    measured.map_or_else(String::new, |figure| format!("; the measured cost of its packets is {} each", figure.cost))
}
