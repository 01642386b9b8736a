//! The CPU shares of a generation's tasks, as admission divides the cores.

use super::Router;
use super::measured_costs::Period;
use super::opener::ApplyError;
use crate::snapshot::{BEST_EFFORT, BUILT_IN, CONTROL, GENERAL, PortShares};
use crate::worker::Command;
use plan::admission::{Allotment, CostSource, Costs, PathAllotment, PathFlows, PortAllotment, admit_flows};
use plan::{Admission, PathPlan, Plan, PortPlan};
use std::sync::Arc;
use units::{Nanos, PathId, Share};

/// The share of every task.
pub(super) struct CpuShares(Option<Allotment>);

impl CpuShares {
    /// The shares of `plan` at these costs. A reservation that does not fit is refused, unless `admission` only warns.
    pub fn of(plan: &Plan, costs: &Costs, admission: Admission, flows: &[PathFlows]) -> Result<CpuShares, ApplyError> {
        match admit_flows(plan, costs, flows) {
            Ok(allotment) => Ok(CpuShares(Some(allotment))),
            // Without an allotment each task gets the share that its configuration requests, or a default.
            Err(_) if admission == Admission::Warn => Ok(CpuShares(None)),
            Err(refused) => Err(ApplyError {
                place: format!("path {}", refused.path),
                reason: format!("{refused}{}", measured_cost(plan, costs, &refused.path)),
                hint: "`switchpath check` shows the sum; admission = \"warn\" in [cpu] accepts it anyway".into(),
            }),
        }
    }

    /// The share of a built-in path.
    pub fn built_in(&self, path: PathId) -> Share {
        let least = Share::of(1, 50);
        match (&self.0, path) {
            (Some(allotment), CONTROL | GENERAL) => allotment.built_in.share,
            (Some(allotment), BEST_EFFORT) => allotment.best_effort.share,
            _ => least,
        }
    }

    fn path(&self, path: &PathPlan) -> Option<&PathAllotment> {
        self.0.as_ref()?.paths.iter().find(|allotted| allotted.name == path.name)
    }

    fn port(&self, port: &PortPlan) -> Option<&PortAllotment> {
        self.0.as_ref()?.ports.iter().find(|allotted| allotted.name == port.name)
    }

    /// The share of a configured path. If the reservations do not fit, each path gets the share that it requests, and all get proportionally
    /// less.
    pub fn of_path(&self, path: &PathPlan) -> Share {
        let said = || path.cpu.share.map(|share| Share::of(share.get().into(), 1_000_000));
        let asked = || {
            let reservation = path.cpu.reservation?;
            let each = path.cpu.cost?.of(reservation.size.unwrap_or_default());
            // Packets a second times nanoseconds a packet, of the 10^9 nanoseconds in a second.
            Some(Share::of(reservation.packets.get().saturating_mul(each.get()), 1_000_000_000))
        };
        let allotted = self.path(path).map(|allotted| allotted.task.share);
        allotted.or_else(said).or_else(asked).unwrap_or(Share::of(1, 50))
    }

    /// The maximum time that a path waits for more packets.
    pub fn max_wait(&self, path: &PathPlan) -> Option<Nanos> {
        path.cpu.max_wait.or_else(|| self.path(path)?.max_wait)
    }

    /// The shares of the tasks of a port.
    pub fn of_port(&self, port: &PortPlan) -> PortShares {
        let said = port.cpu.share.map_or(Share::of(1, 10), |share| Share::of(share.get().into(), 1_000_000));
        match self.port(port) {
            Some(PortAllotment { input, output, .. }) => {
                // Admission gives the output one share. Two tasks divide it here: one for packets of reservations, one for the rest.
                let rest = output.share.minus(output.reserved);
                PortShares { input: input.share, reserved: output.reserved, output: rest }
            }
            None => PortShares { input: said, reserved: Share::of(1, 10), output: Share::of(1, 10) },
        }
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
        // Also if the configuration only warns: `Warn` would replace the shares of the last division by defaults.
        let Ok(shares) = CpuShares::of(plan, &costs, Admission::Refuse, &flows) else { return false };
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
