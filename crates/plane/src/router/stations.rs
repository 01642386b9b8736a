//! Where instructions are executed: what a configuration says of ephemeral state, by ids, and the stations for it.

use super::prepare::ApplyError;
use super::{Names, Router};
use crate::snapshot::Snapshot;
use crate::station::{CannotMake, Maker, Marks, Station, Stations, Wanted};
use crate::worker::{Change, Mesh, NewStation};
use plan::Plan;
use plan::state::Places;
use std::sync::Arc;

impl Router {
    /// Instructions that packets carry are executed by what `maker` makes, from the next configuration on that says so.
    pub fn execute_by(&mut self, maker: Arc<dyn Maker>) {
        self.maker = Some(maker);
    }

    /// Whether a file that `plan` names has changed since it was read, where the running generation names it as well.
    pub fn renews(&self, plan: &Plan) -> bool {
        let (Some(state), Some(maker)) = (&plan.state, &self.maker) else { return false };
        let running = self.snapshot.stations.as_ref().filter(|stations| stations.wanted.plan == *state);
        running.is_some_and(|running| running.wanted.print != maker.print(state, self.build.limits.secret))
    }

    /// What `plan` wants executed; none where nothing is.
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

    /// What becomes of the station of each worker.
    pub(super) fn make_stations(&self, stations: Option<&Stations>) -> Result<Vec<NewStation>, ApplyError> {
        let before = self.snapshot.stations.as_deref();
        let each = |what: fn() -> NewStation| self.mailboxes.iter().map(|_| what()).collect();
        match (before, stations) {
            (None, None) => Ok(each(|| NewStation::Stays)),
            (Some(_), None) => Ok(each(|| NewStation::Goes)),
            (Some(before), Some(stations)) if before == stations => Ok(each(|| NewStation::Stays)),
            (before, Some(stations)) => {
                let made = stations.maker.make(before.map(|before| &before.wanted), &stations.wanted);
                let refused = |CannotMake { reason, hint }| ApplyError { place: "state".to_string(), reason, hint };
                let made: Vec<Box<dyn Station>> = made.map_err(refused)?;
                assert_eq!(made.len(), self.mailboxes.len(), "a station for each worker");
                Ok(made.into_iter().map(NewStation::Comes).collect())
            }
        }
    }

    /// Gives workers their stations, and rings between them with the first.
    pub(super) fn hand_out(&self, made: Vec<NewStation>, changes: &mut [Change]) {
        let first = |snapshot: &Snapshot| snapshot.stations.is_none();
        let comes = made.iter().any(|station| matches!(station, NewStation::Comes(_)));
        for (change, station) in changes.iter_mut().zip(made) {
            change.station = station;
        }
        if comes && changes.len() > 1 && first(&self.snapshot) {
            for (change, mesh) in changes.iter_mut().zip(Mesh::of(&self.bells)) {
                change.mesh = Some(Box::new(mesh));
            }
        }
    }
}
