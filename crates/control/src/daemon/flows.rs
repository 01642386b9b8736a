//! Flows that are reserved while the router runs: reports, changes, leases, and those that survive a restart.

use super::failure::ApplyFailure;
use super::shares::traffic;
use super::{ADOPTION_TIMEOUT, Control, Daemon, RUNNING};
use crate::api::{self, Author};
use crate::events::{EventLog, FlowEvent, LoggedEvent};
use io::clock;
use plan::{FlowBatch, FlowChange, Name, Plan, ReservedFlow, flow_batch};
use plane::{CostlyFlow, FlowPromise, FlowRefusal, FlowReport, FlowsChanged};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use units::Nanos;

/// The longest wait until the workers have carried out a batch, and the interval of checks.
const CARRY_OUT_TIMEOUT: Nanos = Nanos::secs(1);
const CARRY_OUT_CHECK: Nanos = Nanos::micros(50);

/// Ends the reservations whose leases are over.
pub(super) fn end_leases(control: &mut Control, log: &EventLog) {
    let now = clock::now();
    let ended = control.router.end_flow_leases(now);
    if ended.is_empty() {
        return;
    }
    keep(control, log);
    for name in ended {
        log.push(now, LoggedEvent::Flows(Box::new(FlowEvent::Expired { name: name.as_str().to_owned() })));
    }
}

/// Reports the flows whose packets have begun to need more processor time than their reservations rely on.
pub(super) fn report_costly(control: &mut Control, log: &EventLog) {
    for CostlyFlow { name, expected, measured } in control.router.costly_flows() {
        let event = FlowEvent::Costly { name: name.as_str().to_owned(), expected, measured };
        log.push(clock::now(), LoggedEvent::Flows(Box::new(event)));
    }
}

/// Writes the flows that survive a restart.
fn keep(control: &mut Control, log: &EventLog) {
    let kept: String = control
        .router
        .flows()
        .iter()
        .filter(|report| report.flow.keep)
        .map(|report| format!("add {}\n", report.flow))
        .collect();
    if let Err(warning) = control.history.keep_flows(&kept) {
        log.push(clock::now(), LoggedEvent::Warning(warning));
    }
}

fn promise(flow: &ReservedFlow, port: &Name, promise: &FlowPromise) -> api::FlowPromiseReply {
    api::FlowPromiseReply {
        path: flow.path.clone(),
        port: port.to_string(),
        parent: flow.parent.as_ref().map(|parent| parent.as_str().to_owned()),
        rate_bps: flow.rate.get(),
        packet_bytes: flow.packet.get(),
        burst_bytes: flow.burst.get(),
        delay_ns: flow.delay.map(Nanos::get),
        bound_ns: promise.bound.get(),
        share_bps: promise.terms.rate.get(),
        queue_bytes: promise.queue.get(),
        cpu_ppm: promise.cpu.get().into(),
        cost_ns: promise.cost.get(),
    }
}

/// The flow that does not fit, at its line.
fn shortage(batch: &FlowBatch<'_>, short: FlowRefusal) -> api::FlowRefusedReply {
    let FlowRefusal { position, resource, reason, hint } = short;
    let line = batch.changes.get(position).map_or(1, |(line, _)| *line) as u64;
    api::FlowRefusedReply { line, resource: resource.map(str::to_owned), reason, hint }
}

fn edited(batch: &FlowBatch<'_>, changed: &FlowsChanged, trial: bool) -> api::FlowsEdited {
    let added = changed.added.iter().map(|(flow, port, promised)| api::FlowAdded {
        name: flow.name.as_str().to_owned(),
        promise: promise(flow, port, promised),
    });
    api::FlowsEdited {
        trial,
        added: added.collect(),
        renewed: changed.renewed as u64,
        removed: changed.removed as u64,
        total: changed.total as u64,
        carried_out: changed.is_done(),
        overbooked: changed.overbooked.iter().map(|short| shortage(batch, short.clone())).collect(),
        refused: None,
    }
}

/// The refusal as an error at its line.
fn refusal(batch: &FlowBatch<'_>, refused: FlowRefusal) -> ApplyFailure {
    let reason = match refused.resource {
        Some(resource) => format!("{resource}: {}", refused.reason),
        None => refused.reason,
    };
    ApplyFailure::Batch(batch.refuse(refused.position, reason, refused.hint))
}

impl Daemon {
    /// Returns at most `limit` reserved flows, by name, with the packets of their shares.
    pub fn flows(&self, limit: usize) -> api::FlowsReply {
        let (reports, samples): (Vec<FlowReport>, _) = {
            let control = self.control.lock();
            (control.router.flows(), &self.share_samples)
        };
        let total = reports.len() as u64;
        let reply = |report: FlowReport| {
            let rates = samples.of(&report.port);
            api::FlowReply {
                name: report.flow.name.as_str().to_owned(),
                matching: report.flow.matching.to_string(),
                promise: promise(&report.flow, &report.port, &report.promise),
                rule: report.rule.into(),
                lease_left_ns: report.lease_left.map(Nanos::get),
                keep: report.flow.keep,
                functions: report.used.map(|used| api::FlowFunctions {
                    packets: used.packets,
                    time_ns: used.time.get(),
                    mean_ns: used.time.get().checked_div(used.packets),
                }),
                traffic: traffic(
                    &report.counts,
                    (report.promise.terms.rate, None),
                    rates.rate(rates.bytes(report.share)),
                ),
            }
        };
        api::FlowsReply { time_ns: self.now_ns(), total, flows: reports.into_iter().take(limit).map(reply).collect() }
    }

    /// Reserves flows, renews and ends reservations: all changes, or none. `text` has one change a line; `source` is its name in messages. A trial
    /// changes nothing, and says whether the batch fits. Returns when the workers have carried out the changes, or after a second.
    pub fn edit_flows(
        &self,
        (text, source): (&str, &str),
        trial: bool,
        author: &Author,
    ) -> Result<api::FlowsEdited, ApplyFailure> {
        if trial {
            return self.try_edit_flows((text, source), true);
        }
        let result = self.try_edit_flows((text, source), false);
        self.log_edit(source, &result, |edited| {
            LoggedEvent::Flows(Box::new(FlowEvent::Edited { edited: edited.clone(), author: author.clone() }))
        });
        result
    }

    fn try_edit_flows(&self, (text, source): (&str, &str), trial: bool) -> Result<api::FlowsEdited, ApplyFailure> {
        if self.state.load(Ordering::Acquire) != RUNNING {
            return Err(ApplyFailure::Unavailable);
        }
        let (batch, changed) = {
            // Not while a configuration is being adopted: that may have other paths and shares.
            let mut guard = self.lock_adopted(ADOPTION_TIMEOUT).ok_or(ApplyFailure::AdoptionTimeout)?;
            let control = &mut *guard;
            let plan: Arc<Plan> = control.router.plan().cloned().ok_or(ApplyFailure::Unavailable)?;
            let batch = flow_batch(text, source, &plan).map_err(ApplyFailure::Batch)?;
            let changes: Vec<FlowChange> = batch.changes.iter().map(|(_, change)| change.clone()).collect();
            // Sets the time from which new leases count.
            end_leases(control, &self.log);
            // Before the changes: afterwards an ended flow is unknown.
            let kept = |change: &FlowChange| match change {
                FlowChange::Add(flow) => flow.keep,
                FlowChange::Renew { name, .. } | FlowChange::Remove(name) => control.router.is_kept_flow(name),
            };
            let keeps = !trial && changes.iter().any(kept);
            match control.router.edit_flows(&changes, trial) {
                Ok(changed) => {
                    if keeps {
                        keep(control, &self.log);
                    }
                    (batch, changed)
                }
                Err(refused) if trial && refused.resource.is_some() => {
                    let mut nothing = edited(&batch, &FlowsChanged::default(), true);
                    nothing.total = control.router.flows().len() as u64;
                    return Ok(api::FlowsEdited { refused: Some(shortage(&batch, refused)), ..nothing });
                }
                Err(refused) => return Err(refusal(&batch, refused)),
            }
        };
        let deadline = clock::now() + CARRY_OUT_TIMEOUT;
        while !changed.is_done() && clock::now() < deadline {
            thread::park_timeout(CARRY_OUT_CHECK.into());
        }
        Ok(edited(&batch, &changed, trial))
    }

    /// Reserves the flows again that survive a restart, each by itself. A warning names those that do not fit any more.
    pub(super) fn restore_flows(&self) {
        let text = self.control.lock().history.kept_flows();
        for line in text.lines() {
            if let Err(failure) = self.try_edit_flows((line, "kept reservations"), false) {
                let reason = format!("a reservation is not restored: {}: {line}", api::ApiError::from(&failure));
                self.log.push(clock::now(), LoggedEvent::Warning(reason));
            }
        }
    }
}
