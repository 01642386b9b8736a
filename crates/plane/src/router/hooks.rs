//! The packet hooks of a configuration with ephemeral state, by ids.

use super::opener::ApplyError;
use super::{Names, Router};
use crate::hook::{HookConfig, HookError, HookMaker, Marks, PacketHook, StateConfig};
use crate::snapshot::Snapshot;
use crate::worker::{NewHook, OwnerRings, WorkerChange};
use plan::state::{ExecutionPlaces, MOST_ENTRIES};
use plan::{Plan, PortPlan};
use std::sync::Arc;
use units::{PacketRate, Rate};

impl Router {
    /// Packet hooks are made by `maker`, from the next configuration on that has ephemeral state.
    pub fn set_hook_maker(&mut self, maker: Arc<dyn HookMaker>) {
        self.hook_maker = Some(maker);
    }

    /// True if the running generation names the same files as `plan`, and one has changed since it was read.
    pub fn files_changed(&self, plan: &Plan) -> bool {
        let (Some(state), Some(maker)) = (&plan.state, &self.hook_maker) else { return false };
        // With another section the apply makes new hooks anyway.
        let running = self.snapshot.hooks.as_ref().filter(|stations| stations.state.plan == *state);
        running.is_some_and(|running| running.state.fingerprint != maker.fingerprint(state, self.build.limits.secret))
    }

    /// The packet hooks for `plan`. `None` if it has no ephemeral state.
    pub(super) fn hook_config(&self, plan: &Plan, names: &Names) -> Result<Option<Arc<HookConfig>>, ApplyError> {
        let Some(state) = &plan.state else { return Ok(None) };
        let Some(maker) = &self.hook_maker else {
            let reason = "this router executes no instructions".to_string();
            return Err(ApplyError { place: "state".into(), reason, hint: "remove [state]".into() });
        };
        let executes = |port: &&plan::PortPlan| port.state.at != ExecutionPlaces::None;
        let wanted = StateConfig {
            plan: state.clone(),
            ports: plan
                .ports
                .iter()
                .filter(executes)
                .map(|port| (names.ports[&port.name], port.state.clone()))
                .collect(),
            workers: self.mailboxes.len(),
            node: names.flow_key(plan),
            secret: self.build.limits.secret,
            fingerprint: maker.fingerprint(state, self.build.limits.secret),
        };
        Ok(Some(Arc::new(HookConfig { state: wanted, marks: Marks::of(state), maker: maker.clone() })))
    }

    /// The change of each worker's hook.
    pub(super) fn make_hooks(&self, stations: Option<&HookConfig>) -> Result<Vec<NewHook>, ApplyError> {
        let before = self.snapshot.hooks.as_deref();
        let each = |what: fn() -> NewHook| self.mailboxes.iter().map(|_| what()).collect();
        match (before, stations) {
            (None, None) => Ok(each(|| NewHook::Unchanged)),
            (Some(_), None) => Ok(each(|| NewHook::Remove)),
            (Some(before), Some(stations)) if before == stations => Ok(each(|| NewHook::Unchanged)),
            (before, Some(stations)) => {
                let made = stations.maker.make(before.map(|before| &before.state), &stations.state);
                let refused = |HookError { reason, hint }| ApplyError { place: "state".to_string(), reason, hint };
                let made: Vec<Box<dyn PacketHook>> = made.map_err(refused)?;
                assert_eq!(made.len(), self.mailboxes.len(), "a station for each worker");
                Ok(made.into_iter().map(NewHook::Install).collect())
            }
        }
    }

    /// Gives workers their hooks. With the first hooks they also get the handoff rings between them.
    pub(super) fn assign_hooks(&self, made: Vec<NewHook>, changes: &mut [WorkerChange]) {
        let first = |snapshot: &Snapshot| snapshot.hooks.is_none();
        let comes = made.iter().any(|station| matches!(station, NewHook::Install(_)));
        for (change, station) in changes.iter_mut().zip(made) {
            change.hook = station;
        }
        // A single worker owns every packet. Workers keep the rings when hooks are removed, because rings may hold packets.
        if comes && changes.len() > 1 && first(&self.snapshot) {
            for (change, mesh) in changes.iter_mut().zip(OwnerRings::of(&self.parkers)) {
                change.owner_rings = Some(Box::new(mesh));
            }
        }
    }
}

/// Ports whose devices can fill more entries than their stores hold (spec E-04), if the plan has no line rate for them. With a line rate, the
/// check of the plan has reported it.
pub(super) fn overflowing(plan: &Plan, names: &Names) -> Vec<ApplyError> {
    let Some(state) = plan.state.as_ref().filter(|state| !state.single_store) else { return Vec::new() };
    let untold = |port: &&PortPlan| port.state.at != ExecutionPlaces::None && port.cpu.line_rate.is_none();
    let small = |port: &PortPlan| {
        // `Rate::MAX`: the device reports no rate.
        let rate =
            names.rates.get(names.ports.get(&port.name)?).map(|known| known.0).filter(|rate| *rate != Rate::MAX)?;
        let (capacity, bound) =
            (port.state.capacity.unwrap_or(state.capacity), state.most_live_entries(PacketRate::max_for_line(rate)));
        (capacity < bound).then(|| ApplyError {
            place: format!("port {}", port.name),
            reason: format!("its store has {capacity} entries, but its device with {rate} can fill {bound}"),
            hint: match bound <= MOST_ENTRIES {
                true => format!("write `capacity = {bound}`, or the real line_rate; a full store aborts instructions"),
                false => "write the real line_rate; a full store aborts instructions".into(),
            },
        })
    };
    plan.ports.iter().filter(untold).filter_map(small).collect()
}
