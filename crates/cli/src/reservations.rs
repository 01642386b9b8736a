//! The part of `check` about reservations: the processor share of each task, and reservations that do not fit.

use crate::output::Rows;
use anyhow::Result;
use plan::admission::{AdmissionError, Allotment, CostSource, Costs, PortCosts, TaskAllotment, admit};
use plan::{Cost, Plan, PortPlan};
use serde::Serialize;
use std::io::Write;
use units::{Nanos, Parts, Share};

/// Reservations of a configuration, tested against costs. The machine that checks need not be the one that runs the router.
#[derive(Debug, Serialize)]
pub struct ReservationCheck {
    /// The share of each task, when all reservations fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allotment: Option<Allotment>,
    /// The reservation that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<AdmissionError>,
    /// Costs used in the sum that are neither configured nor measured.
    pub assumed: Vec<String>,
    /// Costs left out of the sum because they are unknown.
    pub unknown: Vec<String>,
}

impl ReservationCheck {
    /// Computes the shares of a configuration from its declared costs, with assumptions for the others.
    pub fn of(plan: &Plan) -> ReservationCheck {
        let costs = Costs::assumed(plan);
        let (allotment, refused) = match admit(plan, &costs) {
            Ok(allotment) => (Some(allotment), None),
            Err(refused) => (None, Some(refused)),
        };
        ReservationCheck { allotment, refused, assumed: assumed(plan, &costs), unknown: unknown(plan, &costs) }
    }

    /// Prints the table, and the notes about it.
    pub fn print(&self, out: &mut dyn Write) -> Result<()> {
        if let Some(refused) = &self.refused {
            writeln!(out, "with these costs, {refused}")?;
        }
        if let Some(allotment) = &self.allotment {
            table(out, allotment)?;
            writeln!(
                out,
                "\nreservations use {} of the processor, switches to them {}, time-outs {}; {} is free",
                part(allotment.demand),
                part(allotment.overhead),
                part(allotment.tax),
                part(allotment.left)
            )?;
            allotment.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))?;
        }
        if !self.assumed.is_empty() {
            writeln!(out, "assumed until the router measures them: {}", self.assumed.join(", "))?;
        }
        if !self.unknown.is_empty() {
            writeln!(out, "unknown, and not included: {}", self.unknown.join("; "))?;
        }
        Ok(())
    }
}

/// Returns whether a configuration reserves a part of the processor. Without reservations there is nothing to report.
pub fn has_reservations(plan: &Plan) -> bool {
    let paths = plan.paths.iter().any(|path| path.cpu.reservation.is_some() || path.cpu.share.is_some());
    paths || plan.ports.iter().any(|port| port.cpu.share.is_some())
}

fn assumed(plan: &Plan, costs: &Costs) -> Vec<String> {
    let mut list = Vec::new();
    if costs.switch_source == CostSource::Assumed {
        list.push(format!("a switch costs {}", costs.switch.rounded()));
    }
    for (port, costs) in
        plan.ports.iter().zip(&costs.ports).filter(|(_, costs)| costs.input.source == CostSource::Assumed)
    {
        let (input, output) = (format_cost(costs.input.cost), format_cost(costs.output.cost));
        list.push(match costs.input.cost == costs.output.cost {
            true => format!("a packet on '{}' costs {input} in each direction", port.name),
            false => format!("a packet on '{}' costs {input} in and {output} out", port.name),
        });
    }
    let paths = plan.paths.iter().zip(&costs.paths);
    for (path, costs) in paths.filter(|(_, costs)| costs.functions.source == CostSource::Assumed) {
        list.push(format!("the functions of '{}' cost {}", path.name, format_cost(costs.functions.cost)));
    }
    list
}

/// Formats a cost. A cost that is the same for every packet is rounded.
fn format_cost(cost: Cost) -> String {
    if cost.kilobyte == Nanos::ZERO { cost.packet.rounded().to_string() } else { cost.to_string() }
}

fn unknown(plan: &Plan, costs: &Costs) -> Vec<String> {
    let names = |of: &dyn Fn(&PortPlan, &PortCosts) -> bool| {
        let ports = plan.ports.iter().zip(&costs.ports).filter(|(port, costs)| of(port, costs));
        ports.map(|(port, _)| format!("'{}'", port.name)).collect::<Vec<_>>().join(", ")
    };
    let links = names(&|port, costs| costs.link.is_none() && !matches!(port.scheme.name, "shape" | "cake"));
    let sleeps = |port: &PortPlan| port.cpu.estimator.is_some_and(|estimator| estimator.sleep_max.is_none());
    let rings = names(&|port, costs| costs.ring.is_none() && sleeps(port));
    let mut list = Vec::new();
    if !links.is_empty() {
        list.push(format!("the rate of the link of {links}"));
    }
    if !rings.is_empty() {
        list.push(format!("the sleep time of the input task of {rings}"));
    }
    list
}

fn percent(share: Share) -> String {
    format!("{:.2}%", share.as_f64() * 100.0)
}

fn part(part: Parts) -> String {
    format!("{:.2}%", part.as_f64() * 100.0)
}

/// Formats a time with three digits.
fn time(time: Nanos) -> String {
    let (mut number, mut unit) = (time.get() as f64, 0);
    while number >= 999.5 && unit < 3 {
        number /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || number >= 99.95 { 0 } else { 1 + usize::from(number < 9.995) };
    format!("{number:.digits$}{}", ["ns", "us", "ms", "s"][unit])
}

fn table(out: &mut dyn Write, allotment: &Allotment) -> Result<()> {
    let columns = ["TASK", ">SHARE", ">RESERVED", ">BATCH", ">RUN", ">COST", ">WAIT", ">LINK", ">THROUGH", ">QUEUE"];
    let mut rows = Rows::new(&columns);
    let mut add = |name: String, task: &TaskAllotment, rest: [String; 5]| {
        if *task == TaskAllotment::default() {
            return;
        }
        let batch = if task.batch == u32::MAX { "all".into() } else { task.batch.to_string() };
        let [cost, wait, link, through, queue] = rest;
        let run = time(task.run);
        rows.add([name, percent(task.share), percent(task.reserved), batch, run, cost, wait, link, through, queue]);
    };
    let none = || ["-", "-", "-", "-", "-"].map(String::from);
    for port in &allotment.ports {
        add(format!("input {}", port.name), &port.input, none());
    }
    for path in &allotment.paths {
        let queue = match path.rate {
            Some(_) => format!("{}/{}", path.queue_needed, path.queue),
            None => "-".into(),
        };
        let [link, through] = [path.link, path.through].map(|wait| wait.map_or_else(|| "-".into(), time));
        let rest = [time(path.cost), time(path.wait), link, through, queue];
        add(format!("path {}", path.name), &path.task, rest);
    }
    add("path best-effort".into(), &allotment.best_effort, none());
    for name in ["control", "general"] {
        add(format!("path {name}"), &allotment.built_in, none());
    }
    for port in &allotment.ports {
        add(format!("output {}", port.name), &port.output, none());
    }
    rows.print(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.50us"),
            (15_360, "15.4us"),
            (99_960, "100us"),
            (226_040, "226us"),
            (999_700, "1.00ms"),
            (9_999_999_999, "10.0s"),
            (1_000_000_000_000, "1000s"),
        ] {
            assert_eq!(time(Nanos::new(ns)), text);
        }
    }
}
