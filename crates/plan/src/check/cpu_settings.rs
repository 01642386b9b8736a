//! Checks `[cpu]`, ports and paths together: reservations that their settings make impossible.
//!
//! [`crate::admission`] knows the costs and checks that the reservations fit the processor.

use crate::diagnostic::Report;
use crate::text::quote;
use crate::{Batching, Congestion, EstimatorPlan, Grouping, InputShare, Layout, Receive};
use crate::{CpuPlan, PathPlan, PortPlan, throttle};
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use units::Parts;

/// The parts of a plan with reservations.
pub(super) struct CpuSettings<'p> {
    pub cpu: &'p CpuPlan,
    pub ports: &'p mut [PortPlan],
    pub paths: &'p [PathPlan],
}

/// The positions of values in the file.
pub(super) struct KeyPositions<'t>(pub &'t DeTable<'t>);

impl KeyPositions<'_> {
    pub fn find(table: &DeTable<'_>, keys: &[&str]) -> Option<Range<usize>> {
        let (key, rest) = keys.split_first()?;
        let value = table.get(*key)?;
        match (rest, value.get_ref()) {
            ([], _) => Some(value.span()),
            (_, DeValue::Table(table)) => KeyPositions::find(table, rest),
            _ => None,
        }
    }

    fn cpu(&self, key: &str) -> Range<usize> {
        KeyPositions::find(self.0, &["cpu", key]).or_else(|| KeyPositions::find(self.0, &["cpu"])).unwrap_or(0..0)
    }

    pub fn port(&self, name: &str, key: &str) -> Option<Range<usize>> {
        KeyPositions::find(self.0, &["port", name, key])
    }

    /// The position and the name of a path's key; the position of the path if the key is not set.
    fn path(&self, name: &str, key: &str) -> (Range<usize>, String) {
        let paths = match self.0.get("path").map(|value| value.get_ref()) {
            Some(DeValue::Array(paths)) => &paths[..],
            _ => &[],
        };
        let found = paths.iter().enumerate().find_map(|(index, value)| match value.get_ref() {
            DeValue::Table(table) => {
                let named = matches!(table.get("name")?.get_ref(), DeValue::String(text) if text == name);
                named.then(|| {
                    (KeyPositions::find(table, &[key]).unwrap_or(value.span()), format!("path[{index}].{key}"))
                })
            }
            _ => None,
        });
        found.unwrap_or((0..0, format!("path.{key}")))
    }
}

impl CpuSettings<'_> {
    pub fn check_all(self, report: &mut Report<'_>, table: &DeTable<'_>) {
        let places = KeyPositions(table);
        for port in self.ports.iter_mut() {
            let reserved = self.paths.iter().find(|path| path.cpu.reservation.is_some() && path.may_enter_by(port));
            // A reservation enables an estimator by default. Under a flood the card then drops packets at no cost, and at light load the worker does
            // not waste time on polling (section 3.3).
            if places.port(&port.name, "estimator").is_none()
                && reserved.is_some()
                && self.cpu.receive == Receive::Polling
            {
                port.cpu.estimator = EstimatorPlan::range(self.cpu.input_limit()).map(|(low, high)| EstimatorPlan {
                    low,
                    high,
                    ..EstimatorPlan::default()
                });
            }
            congestion(report, &places, port, reserved);
        }
        self.check_ineffective(report, &places);
        self.throttles(report, &places);
        self.queues(report, &places);
        self.shares(report, &places);
    }

    /// Reports settings that have no effect together, or break reservations.
    fn check_ineffective(&self, report: &mut Report<'_>, places: &KeyPositions<'_>) {
        let cpu = self.cpu;
        let mut warn = |key: &str, reason: String, hint: &str| {
            report.warning(places.cpu(key), format!("cpu.{key}"), || (reason, hint.to_string()));
        };
        if let Some(path) = self.paths.iter().find(|path| path.cpu.reservation.is_some()) {
            let name = quote(&path.name);
            let no_task = format!("{name} has a reservation, but no task of its own");
            if cpu.layout == Layout::One {
                warn("layout", no_task.clone(), "use layout 2 or 3");
            }
            if cpu.best_effort == Grouping::Single {
                warn("best_effort", no_task, "use another grouping; this one is for comparison only");
            }
            if !cpu.scheduler.respects_shares() {
                let reason = format!("{name} has a reservation, which this scheduler does not respect");
                warn("scheduler", reason, "use a scheduler that respects shares, like wf2q+");
            }
            if cpu.receive == Receive::Interrupt {
                let reason = format!("{name} has a reservation, which receiving before all other work can break");
                warn("receive", reason, "use \"polling\"; \"interrupt\" is for comparison only");
            }
        }
        let flows = self.paths.iter().find(|path| path.cpu.reservations);
        if let Some(path) = flows.filter(|_| !cpu.flow_scheduler.respects_shares()) {
            let reason =
                format!("{} has reserved flows, whose rates this scheduler does not respect", quote(&path.name));
            warn("flow_scheduler", reason, "use a scheduler that respects shares, like spfq");
        }
        if cpu.tune.is_some() && !matches!(cpu.forwarding, Batching::Throttle { .. }) {
            let reason = format!("tune has no effect: forwarding is {}, not throttle", cpu.forwarding);
            warn("tune", reason, "write forwarding = \"throttle(overhead=10%, slice=30us)\", or leave tune out");
        }
        if cpu.receive == Receive::Interrupt {
            for port in self.ports.iter().filter(|port| port.cpu.estimator.is_some()) {
                let place = places.port(&port.name, "estimator").unwrap_or(0..0);
                report.warning(place, format!("port.{}.estimator", port.name), || {
                    let reason = "the estimator has no effect with receive = \"interrupt\"";
                    (reason.to_string(), "leave it out, or use receive = \"polling\"".to_string())
                });
            }
        }
    }

    /// Checks `slice >= switch / overhead` (section 4.2), if the cost of a switch is configured.
    fn throttles(&self, report: &mut Report<'_>, places: &KeyPositions<'_>) {
        let Some(switch) = self.cpu.switch_cost else { return };
        let all = [("input", self.cpu.input), ("forwarding", self.cpu.forwarding), ("output", self.cpu.output)];
        for (key, batching) in all {
            let Batching::Throttle { overhead, slice } = batching else { continue };
            let least = throttle::least_slice(switch, overhead);
            if slice < least && !(key == "forwarding" && self.cpu.tune.is_some()) {
                report.error(places.cpu(key), format!("cpu.{key}"), || {
                    let reason = format!(
                        "a slice of {slice} is too short: with a switch of {switch}, an overhead of {overhead} requires {}",
                        least.rounded()
                    );
                    (reason, format!("give slice={least} or more, or a larger overhead"))
                });
            }
        }
    }

    /// Warns of paths that wait for too large a part of their queues, if all costs are configured.
    fn queues(&self, report: &mut Report<'_>, places: &KeyPositions<'_>) {
        let (Batching::Throttle { overhead, .. }, Some(switch)) = (self.cpu.forwarding, self.cpu.switch_cost) else {
            return;
        };
        let overhead = self.cpu.tune.map_or(overhead, |tune| tune.least);
        for path in self.paths {
            let Some(cost) = path.cpu.cost else { continue };
            let threshold = throttle::threshold(switch, overhead, cost.of(path.packet_size()));
            let capacity = path.queue_capacity(self.cpu.layout);
            if !throttle::is_near_capacity(threshold, capacity) {
                continue;
            }
            let (place, key) = places.path(&path.name, "queue");
            report.warning(place, key, || {
                let reason = match self.cpu.strict && threshold > capacity {
                    true => format!("the path's task waits for {threshold} packets, but its queue holds {capacity}: it never runs"),
                    false => format!(
                        "at an overhead of {overhead} the path's task waits for {threshold} packets, more than half of its \
                         queue of {capacity}"
                    ),
                };
                let room = threshold.saturating_mul(2);
                (reason, format!("give it a queue of {room} or more, or a max_wait"))
            });
        }
    }

    /// Checks that configured shares add up to one at most.
    fn shares(&self, report: &mut Report<'_>, places: &KeyPositions<'_>) {
        let explicit = self.cpu.input_share == InputShare::Explicit;
        let mut sum = 0u64;
        let mut add = |report: &mut Report<'_>, share: Parts, place: Range<usize>, path: String| {
            let before = sum;
            sum += u64::from(share.get());
            if sum > Parts::ONE.get().into() && before <= Parts::ONE.get().into() {
                report.error(place, path, || {
                    let total = Parts::millionths(u32::try_from(sum).unwrap_or(u32::MAX));
                    (format!("with this share the total is {total} of the processor"), "give less".to_string())
                });
            }
        };
        for port in self.ports.iter() {
            let path = format!("port.{}.share", port.name);
            let place = places.port(&port.name, "share");
            match (port.cpu.share, place) {
                (Some(share), Some(place)) if explicit => add(report, share, place, path),
                (Some(_), Some(place)) => report.error(place, path, || {
                    let reason = format!("the share has no effect: input_share is {}", self.cpu.input_share);
                    (reason, "remove it, or write input_share = \"explicit\" in [cpu]".to_string())
                }),
                (None, None) if explicit => {
                    let place = places.port(&port.name, "device").unwrap_or(0..0);
                    report.error(place, path, || {
                        let reason = format!("input_share is explicit, but '{}' has no share", port.name);
                        (reason, "add share = \"20%\" to the port".to_string())
                    });
                }
                _ => {}
            }
        }
        for path in self.paths {
            if let Some(share) = path.cpu.share {
                let (place, key) = places.path(&path.name, "share");
                add(report, share, place, key);
            }
        }
    }
}

/// Warns of a port that waits for a full path: packets of all other paths have to wait, too (section 3.3).
fn congestion(report: &mut Report<'_>, places: &KeyPositions<'_>, port: &PortPlan, reserved: Option<&PathPlan>) {
    let place = places.port(&port.name, "congestion");
    if let (Congestion::Throttle, Some(path), Some(place)) = (port.cpu.congestion, reserved, place) {
        report.warning(place, format!("port.{}.congestion", port.name), || {
            let reason =
                format!("any path that is full stops the packets of '{}', which has a reservation, as well", path.name);
            (reason, "use \"drop\" on ports that a path with a reservation may come in by".to_string())
        });
    }
}
