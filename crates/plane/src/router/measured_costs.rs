//! The costs of packets and task switches so far, as the workers have measured them. Admission uses them if the configuration states no cost.

use super::Names;
use super::known_costs::KnownCosts;
use crate::snapshot::BEST_EFFORT;
use crate::worker::WorkerReport;
use cpu::CostVerdict;
use plan::admission::{CostEstimate, CostSource, Costs};
use plan::{PathPlan, Plan};
use std::collections::HashMap;
use units::{Nanos, PathId, PortId, Rate};

/// A measured packet cost.
#[derive(Clone, Copy, Debug, Default)]
struct MeasuredCost {
    /// The average since the start.
    always: Nanos,
    /// The average of late. Packets in a flood cost less, because they arrive in large batches.
    recent: Nanos,
    /// The number of packets measured.
    packets: u64,
}

impl MeasuredCost {
    fn over(self, span: Period) -> Nanos {
        match span {
            Period::Always => self.always,
            Period::Recent => self.recent,
        }
    }

    /// Smooths the recent cost with the previous one.
    fn smooth(self, before: Option<&MeasuredCost>) -> MeasuredCost {
        let lately =
            // Half the new cost and half the previous one. Rounded up, so that a known cost never becomes zero.
            before.map_or(self.recent, |before| Nanos::new((before.recent.get() + self.recent.get()).div_ceil(2)));
        MeasuredCost { recent: lately, ..self }
    }
}

/// The period over which costs are averaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Period {
    /// Since the start: momentary costs must not decide whether a reservation is admitted.
    Always,
    /// The last reports: the division of the processor follows the present load.
    Recent,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(super) struct MeasuredCosts {
    /// The cost of a task switch. Zero: unknown.
    pub switch: Nanos,
    /// Costs known before any measurement.
    pub known: KnownCosts,
    inputs: HashMap<PortId, MeasuredCost>,
    outputs: HashMap<PortId, MeasuredCost>,
    /// Of the output tasks for packets of reservations. They send few packets at once, so a packet costs more than in a flood of best effort.
    reserved_outputs: HashMap<PortId, MeasuredCost>,
    /// With true if the cost exceeds the declared one.
    paths: HashMap<PathId, (MeasuredCost, bool)>,
}

impl MeasuredCosts {
    /// Only the cost of a task switch has been measured so far.
    pub fn start(switch: Nanos) -> MeasuredCosts {
        MeasuredCosts { switch, ..MeasuredCosts::default() }
    }

    /// Learns costs from the workers' reports. If several workers report a cost, the one with most packets counts. Costs without a report stay.
    pub fn learn(&mut self, reports: &[WorkerReport]) {
        // All workers get the same shares, so the most expensive switch counts. Zero: not measured yet.
        let switch = reports.iter().map(|report| report.switch_cost).max();
        self.switch = switch.filter(|&cost| cost > Nanos::ZERO).unwrap_or(self.switch);
        let mut heard = MeasuredCosts::default();
        for task in reports.iter().flat_map(|report| &report.tasks) {
            let Some(cost) = task.view.long_cost.filter(|&cost| cost > Nanos::ZERO) else { continue };
            let found = MeasuredCost { always: cost, recent: task.view.cost.0, packets: task.view.account.packets };
            let keep = |known: &mut MeasuredCost| *known = if found.packets > known.packets { found } else { *known };
            match (task.kind, task.port) {
                ("input", Some(port)) => keep(heard.inputs.entry(port).or_default()),
                ("output", Some(port)) => keep(heard.outputs.entry(port).or_default()),
                ("reserved", Some(port)) => keep(heard.reserved_outputs.entry(port).or_default()),
                // Paths that share a task get the task's cost: they have the same functions, or no reservation.
                _ => {
                    for path in &task.paths {
                        let (known, exceeds) = heard.paths.entry(*path).or_default();
                        keep(known);
                        *exceeds |= task.view.verdict == CostVerdict::Exceeds;
                    }
                }
            }
        }
        // After all reports: each cost is smoothed once for a call, not once for each worker.
        for (known, heard) in [
            (&mut self.inputs, heard.inputs),
            (&mut self.outputs, heard.outputs),
            (&mut self.reserved_outputs, heard.reserved_outputs),
        ] {
            for (port, found) in heard {
                let found = found.smooth(known.get(&port));
                known.insert(port, found);
            }
        }
        for (path, (found, exceeds)) in heard.paths {
            let found = found.smooth(self.paths.get(&path).map(|(before, _)| before));
            self.paths.insert(path, (found, exceeds));
        }
    }

    /// The costs of everything in `plan`: as declared, else as measured, else as assumed. If a path's measured cost exceeds the declared one,
    /// the measured cost is used. A path's measurement is valid only while it has the same functions as in `running`.
    pub fn costs(&self, plan: &Plan, names: &Names, running: Option<&Plan>, span: Period) -> Costs {
        let mut costs = Costs::assumed(plan);
        if costs.switch_source != CostSource::Declared && self.switch > Nanos::ZERO {
            (costs.switch, costs.switch_source) = (self.switch, CostSource::Measured);
        }
        self.known.replace_guesses(&mut costs);
        let better = |figure: &mut CostEstimate, found: Option<MeasuredCost>| {
            if let Some(found) = found {
                *figure = CostEstimate::flat(found.over(span), CostSource::Measured);
            }
        };
        for (port, costs) in plan.ports.iter().zip(&mut costs.ports) {
            let Some(id) = names.ports.get(&port.name) else { continue };
            // With an emulated link, the rate of the device does not apply: the emulated link is between the scheme and the device.
            if let Some((rate, room)) =
                names.rates.get(id).filter(|(rate, _)| port.link.is_none() && *rate != Rate::MAX)
            {
                (costs.link, costs.transmit) = (Some(*rate), Some(*room));
            }
            better(&mut costs.input, self.inputs.get(id).copied());
            // The more expensive of both: a reservation must not depend on how much best effort is sent beside it.
            let outputs = [self.outputs.get(id), self.reserved_outputs.get(id)];
            better(&mut costs.output, outputs.into_iter().flatten().copied().max_by_key(|found| found.over(span)));
        }
        // Ids outlive changes of a path, so a measurement may belong to other functions than those of the plan.
        let same = |path: &PathPlan| {
            let old = running?.paths.iter().find(|old| old.name == path.name)?;
            Some(old.functions == path.functions)
        };
        for (path, costs) in plan.paths.iter().zip(&mut costs.paths).filter(|(path, _)| same(path) == Some(true)) {
            let known = names.paths.get(&path.name).and_then(|id| self.paths.get(id));
            if let Some(&(found, exceeds)) = known
                && (exceeds || costs.functions.source != CostSource::Declared)
            {
                better(&mut costs.functions, Some(found));
            }
        }
        // Always valid: every generation gives this path the same function.
        better(&mut costs.best_effort, self.paths.get(&BEST_EFFORT).map(|&(found, _)| found));
        costs
    }
}
