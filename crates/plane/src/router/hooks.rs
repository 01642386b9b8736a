//! The packet hooks of a configuration with ephemeral state, by ids.

use super::prepared::ApplyError;
use super::{Names, Router};
use crate::hook::{CannotMake, Maker, Marks, PacketHook, Stations, Wanted};
use crate::snapshot::Snapshot;
use crate::worker::{Change, NewHook, OwnerRings};
use plan::state::{MOST_ENTRIES, Places};
use plan::{Plan, PortPlan};
use std::sync::Arc;
use units::{PacketRate, Rate};

impl Router {
    /// Packet hooks are made by `maker`, from the next configuration on that has ephemeral state.
    pub fn execute_by(&mut self, maker: Arc<dyn Maker>) {
        self.maker = Some(maker);
    }

    /// True if the running generation names the same files as `plan`, and one has changed since it was read.
    pub fn renews(&self, plan: &Plan) -> bool {
        let (Some(state), Some(maker)) = (&plan.state, &self.maker) else { return false };
        let running = self.snapshot.stations.as_ref().filter(|stations| stations.wanted.plan == *state);
        running.is_some_and(|running| running.wanted.print != maker.print(state, self.build.limits.secret))
    }

    /// The packet hooks for `plan`. `None` if it has no ephemeral state.
    pub(super) fn stations(&self, plan: &Plan, names: &Names) -> Result<Option<Arc<Stations>>, ApplyError> {
        let Some(state) = &plan.state else { return Ok(None) };
        let Some(maker) = &self.maker else {
            let reason = "nobody executes instructions here".to_string();
            return Err(ApplyError { place: "state".into(), reason, hint: "remove [state]".into() });
        };
        let executes = |port: &&plan::PortPlan| port.state.at != Places::None;
        let wanted = Wanted {
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
            print: maker.print(state, self.build.limits.secret),
        };
        Ok(Some(Arc::new(Stations { wanted, marks: Marks::of(state), maker: maker.clone() })))
    }

    /// The change of each worker's hook.
    pub(super) fn make_stations(&self, stations: Option<&Stations>) -> Result<Vec<NewHook>, ApplyError> {
        let before = self.snapshot.stations.as_deref();
        let each = |what: fn() -> NewHook| self.mailboxes.iter().map(|_| what()).collect();
        match (before, stations) {
            (None, None) => Ok(each(|| NewHook::Stays)),
            (Some(_), None) => Ok(each(|| NewHook::Goes)),
            (Some(before), Some(stations)) if before == stations => Ok(each(|| NewHook::Stays)),
            (before, Some(stations)) => {
                let made = stations.maker.make(before.map(|before| &before.wanted), &stations.wanted);
                let refused = |CannotMake { reason, hint }| ApplyError { place: "state".to_string(), reason, hint };
                let made: Vec<Box<dyn PacketHook>> = made.map_err(refused)?;
                assert_eq!(made.len(), self.mailboxes.len(), "a station for each worker");
                Ok(made.into_iter().map(NewHook::Comes).collect())
            }
        }
    }

    /// Gives workers their hooks. With the first hooks they also get the handoff rings between them.
    pub(super) fn hand_out(&self, made: Vec<NewHook>, changes: &mut [Change]) {
        let first = |snapshot: &Snapshot| snapshot.stations.is_none();
        let comes = made.iter().any(|station| matches!(station, NewHook::Comes(_)));
        for (change, station) in changes.iter_mut().zip(made) {
            change.station = station;
        }
        if comes && changes.len() > 1 && first(&self.snapshot) {
            for (change, mesh) in changes.iter_mut().zip(OwnerRings::of(&self.bells)) {
                change.mesh = Some(Box::new(mesh));
            }
        }
    }
}

/// Ports whose devices can fill more entries than their stores hold (spec E-04), if the plan has no line rate for them. With a line rate, the
/// check of the plan has reported it.
pub(super) fn overflowing(plan: &Plan, names: &Names) -> Vec<ApplyError> {
    let Some(state) = plan.state.as_ref().filter(|state| !state.single_store) else { return Vec::new() };
    let untold = |port: &&PortPlan| port.state.at != Places::None && port.cpu.line_rate.is_none();
    let small = |port: &PortPlan| {
        let rate =
            names.rates.get(names.ports.get(&port.name)?).map(|known| known.0).filter(|rate| *rate != Rate::MAX)?;
        let (capacity, bound) = (port.state.capacity.unwrap_or(state.capacity), state.bound(PacketRate::most(rate)));
        (capacity < bound).then(|| ApplyError {
            place: format!("port {}", port.name),
            reason: format!("its store has {capacity} entries, and its device, which carries {rate}, can fill {bound}"),
            hint: match bound <= MOST_ENTRIES {
                true => format!(
                    "give it `capacity = {bound}`, or say what the line brings (line_rate), or what is more is aborted"
                ),
                false => "say what the line brings (line_rate), or what is more than it holds is aborted".into(),
            },
        })
    };
    plan.ports.iter().filter(untold).filter_map(small).collect()
}
