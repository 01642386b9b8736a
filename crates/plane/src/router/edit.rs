//! Routes and neighbours that come and go while the router runs, beside those of the configuration.
//!
//! They are no part of a generation: they stay when another configuration is applied, as long as there are the
//! interfaces and VRFs they name, and end with the router. A batch is checked as a whole before anything changes;
//! its changes then become visible one by one.

use super::Router;
use super::desired::{Gateways, Goal};
use crate::worker::Command;
use fib::{Origin, Outcome, RouteChange, RouteQuery, Tables};
use plan::batch::{BatchLine, Edit};
use plan::{NeighbourPlan, Prefix, RoutePlan};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac, VrfId};

/// Batches from this size on are brought into the order of the tables first: neighbouring routes share memory.
const SORTED: usize = 1024;
/// Routes between two reports of progress.
const PROGRESS: usize = 16384;

/// Why a line cannot be done. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EditError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub hint: String,
}

/// What a batch has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EditSummary {
    /// Routes set: new ones and ones that led elsewhere.
    pub routes_added: usize,
    /// Routes taken away.
    pub routes_removed: usize,
    /// Routes set to a destination that the configuration has a route to: that one is used.
    pub routes_shadowed: usize,
    /// Neighbours set.
    pub neighbours_added: usize,
    /// Neighbours taken away.
    pub neighbours_removed: usize,
}

/// A batch that can be done: everything it needs is held.
pub struct Edits {
    tables: Arc<Tables>,
    routes: Vec<RouteChange>,
    neighbours: Vec<(InterfaceId, IpAddr, Option<Mac>)>,
    summary: EditSummary,
    _gateways: Gateways,
}

/// The state after the lines read so far, where they have changed it.
struct Draft<'r> {
    router: &'r Router,
    routes: HashMap<(VrfId, Prefix), Outcome>,
    neighbours: HashMap<(InterfaceId, IpAddr), Option<Mac>>,
    /// Neighbours of each interface that are given by then, where that was counted.
    crowds: HashMap<InterfaceId, usize>,
    gateways: Gateways,
    /// Prefixes that still fit.
    room: usize,
    summary: EditSummary,
    changes: Vec<RouteChange>,
}

type Refusal = (String, String);

impl Router {
    /// Checks a batch that was read against the plan that runs, and takes hold of all it needs. Changes nothing. Every
    /// line that cannot be done is told, up to `most`.
    pub fn prepare_edits(&self, lines: &[BatchLine], most: usize) -> Result<Edits, Vec<EditError>> {
        let mut draft = Draft {
            router: self,
            routes: HashMap::with_capacity(lines.len()),
            neighbours: HashMap::new(),
            crowds: HashMap::new(),
            gateways: Gateways::new(&self.tables),
            room: self.tables.room(),
            summary: EditSummary::default(),
            changes: Vec::with_capacity(lines.len()),
        };
        let mut errors = Vec::new();
        for line in lines {
            if let Err((reason, hint)) = draft.take(&line.edit) {
                errors.push(EditError { line: line.line, reason, hint });
                if errors.len() == most {
                    break;
                }
            }
        }
        if errors.is_empty() { Ok(draft.finish()) } else { Err(errors) }
    }

    /// Makes the changes of a batch. `progress` is told now and then how many routes are done.
    pub fn make_edits(&mut self, edits: Edits, mut progress: impl FnMut(usize)) -> EditSummary {
        let mut done = 0;
        for chunk in edits.routes.chunks(PROGRESS) {
            edits
                .tables
                .apply_routes(chunk.iter().copied())
                .expect("the batch was checked, and nothing came in between");
            done += chunk.len();
            progress(done);
        }
        for &(interface, address, mac) in &edits.neighbours {
            match mac {
                Some(mac) => drop(self.given.insert((interface, address), mac)),
                None => drop(self.given.remove(&(interface, address))),
            }
            self.post(|| Command::Neighbour(interface, address, mac));
        }
        edits.summary
    }
}

impl Edits {
    /// Routes that will be set or taken away.
    pub fn routes(&self) -> usize {
        self.routes.len()
    }
}

impl Draft<'_> {
    fn take(&mut self, edit: &Edit) -> Result<(), Refusal> {
        match edit {
            Edit::AddRoute(route) => self.add_route(route),
            Edit::DelRoute(vrf, to) => self.del_route(self.router.names.vrf(vrf.as_ref()), *to),
            Edit::Flush(vrf) => {
                self.flush(vrf.as_ref().map(|vrf| self.router.names.vrf(vrf.as_ref())));
                Ok(())
            }
            Edit::AddNeighbour(neighbour) => self.add_neighbour(neighbour),
            Edit::DelNeighbour(interface, address) => self.del_neighbour(interface, *address),
        }
    }

    /// Where the route of an edit leads after the lines so far.
    fn route(&self, vrf: VrfId, to: Prefix) -> Outcome {
        let changed = self.routes.get(&(vrf, to)).copied();
        changed.unwrap_or_else(|| self.router.tables.route(vrf, to, Origin::Api))
    }

    fn set(&mut self, vrf: VrfId, prefix: Prefix, outcome: Outcome) {
        self.routes.insert((vrf, prefix), outcome);
        self.changes.push(RouteChange { vrf, prefix, origin: Origin::Api, outcome });
    }

    fn add_route(&mut self, route: &RoutePlan) -> Result<(), Refusal> {
        let names = &self.router.names;
        let vrf = names.vrf(route.vrf.as_ref());
        let gone = || ("its port is there no more".to_string(), "read the batch again".to_string());
        let goal = Goal::of(&route.action, names).ok_or_else(gone)?;
        let held = self.gateways.hold(&(vrf, route.to, Origin::Api), &goal);
        let outcome = held.map_err(|error| (error.to_string(), "use fewer gateways".to_string()))?;
        if self.route(vrf, route.to) == Outcome::NoRoute && !self.router.tables.contains(vrf, route.to) {
            let full = || {
                let limit = self.router.tables.limits().routes;
                (format!("there is no room for it: the limit is {limit} routes"), "take others away first".to_string())
            };
            self.room = self.room.checked_sub(1).ok_or_else(full)?;
        }
        let shadowed = self.router.tables.route(vrf, route.to, Origin::Static) != Outcome::NoRoute;
        self.summary.routes_shadowed += usize::from(shadowed);
        self.summary.routes_added += 1;
        self.set(vrf, route.to, outcome);
        Ok(())
    }

    fn del_route(&mut self, vrf: VrfId, to: Prefix) -> Result<(), Refusal> {
        if self.route(vrf, to) == Outcome::NoRoute {
            let fixed = self.router.tables.route(vrf, to, Origin::Static) != Outcome::NoRoute;
            let hint = if fixed {
                "that of the configuration goes when the configuration changes: `switchpath apply`"
            } else {
                "`switchpath route list` shows those that can be taken away"
            };
            return Err((format!("no route to {to} was added while the router runs"), hint.to_string()));
        }
        self.summary.routes_removed += 1;
        self.set(vrf, to, Outcome::NoRoute);
        Ok(())
    }

    fn flush(&mut self, vrf: Option<VrfId>) {
        let query = RouteQuery { vrf, within: None, origin: Some(Origin::Api) };
        let there = self.router.tables.routes(&query, usize::MAX).into_iter().map(|route| (route.vrf, route.prefix));
        let mut all: Vec<(VrfId, Prefix)> = there.filter(|key| !self.routes.contains_key(key)).collect();
        let added = self
            .routes
            .iter()
            .filter(|((of, _), outcome)| **outcome != Outcome::NoRoute && vrf.is_none_or(|vrf| vrf == *of));
        all.extend(added.map(|(key, _)| *key));
        self.summary.routes_removed += all.len();
        all.into_iter().for_each(|(vrf, prefix)| self.set(vrf, prefix, Outcome::NoRoute));
    }

    fn interface(&self, name: &plan::Name) -> Result<InterfaceId, Refusal> {
        let id = self.router.names.interfaces.get(name).copied();
        id.ok_or_else(|| (format!("there is no port or VLAN '{name}' any more"), "read the batch again".to_string()))
    }

    fn add_neighbour(&mut self, neighbour: &NeighbourPlan) -> Result<(), Refusal> {
        let key = (self.interface(&neighbour.interface)?, neighbour.address);
        if self.router.statics.contains_key(&key) {
            let reason = format!("{} is a neighbour of the configuration", neighbour.address);
            return Err((reason, "change the configuration, and `switchpath apply` it".to_string()));
        }
        if !self.is_given(key) {
            let limit = self.router.build.limits.neighbours_per_interface;
            let crowd = self.crowd(key.0);
            if *crowd >= limit {
                let reason =
                    format!("{} has {limit} neighbours that are given, the most it can have", neighbour.interface);
                return Err((reason, "leave out those that answer when they are asked".to_string()));
            }
            *crowd += 1;
        }
        self.summary.neighbours_added += 1;
        self.neighbours.insert(key, Some(neighbour.mac));
        Ok(())
    }

    fn del_neighbour(&mut self, interface: &plan::Name, address: IpAddr) -> Result<(), Refusal> {
        let key = (self.interface(interface)?, address);
        if !self.is_given(key) {
            let hint =
                "`switchpath show neighbours` shows them; those of the configuration go with it, others are found";
            return Err((format!("no neighbour {address} was added while the router runs"), hint.to_string()));
        }
        self.summary.neighbours_removed += 1;
        let stays = self.router.statics.contains_key(&key);
        *self.crowd(key.0) -= usize::from(!stays);
        self.neighbours.insert(key, None);
        Ok(())
    }

    /// Whether a neighbour was added, by an edit before or by one of these lines.
    fn is_given(&self, key: (InterfaceId, IpAddr)) -> bool {
        self.neighbours.get(&key).map_or(self.router.given.contains_key(&key), Option::is_some)
    }

    /// How many neighbours of an interface are given, by the configuration and by edits.
    fn crowd(&mut self, interface: InterfaceId) -> &mut usize {
        let (given, statics) = (&self.router.given, &self.router.statics);
        self.crowds.entry(interface).or_insert_with(|| {
            // Where both give one, it counts once.
            let added = given.keys().filter(|key| key.0 == interface && !statics.contains_key(*key)).count();
            added + statics.keys().filter(|key| key.0 == interface).count()
        })
    }

    fn finish(self) -> Edits {
        let Draft { router, mut changes, neighbours, summary, gateways, .. } = self;
        if changes.len() >= SORTED {
            // Of the changes of one destination the last stands, and only it is made.
            changes.sort_by_key(|change| (change.vrf, change.prefix));
            changes.reverse();
            changes.dedup_by_key(|change| (change.vrf, change.prefix));
            changes.reverse();
        }
        // Of those that came and went within the batch nobody need hear.
        let told = neighbours.into_iter().filter(|(key, mac)| mac.is_some() || router.given.contains_key(key));
        let neighbours = told.map(|((interface, address), mac)| (interface, address, mac)).collect();
        Edits { tables: router.tables.clone(), routes: changes, neighbours, summary, _gateways: gateways }
    }
}
