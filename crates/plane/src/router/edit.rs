//! Routes and neighbours added and removed through the API while the router runs.
//!
//! They do not belong to a generation. They survive an apply as long as the interfaces and VRFs that they name exist, and they end with the
//! router. A batch is checked completely before anything changes. Then its changes become visible one by one.

use super::Router;
use super::config_routes::{Gateways, RouteGoal};
use crate::worker::Command;
use fib::{Origin, Outcome, RouteChange, RouteQuery, Tables};
use plan::batch::{BatchLine, Edit};
use plan::{NeighbourPlan, Prefix, RoutePlan};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use units::{InterfaceId, Mac, VrfId};

/// Batches of at least this size are sorted in the order of the tables first, because neighbouring routes share memory.
const SORTED: usize = 1024;
/// Routes between two reports of progress.
const PROGRESS: usize = 16384;

/// Why a line cannot be carried out. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EditError {
    /// The line, from 1.
    pub line: usize,
    /// The fault.
    pub reason: String,
    /// What to change.
    pub hint: String,
}

/// The changes of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EditSummary {
    /// Routes set: new ones and ones with a changed target.
    pub routes_added: usize,
    /// Routes removed.
    pub routes_removed: usize,
    /// Routes that are not used, because the configuration has a route to the same destination.
    pub routes_shadowed: usize,
    /// Neighbours set.
    pub neighbours_added: usize,
    /// Neighbours removed.
    pub neighbours_removed: usize,
}

/// A batch that is ready: all its resources are held.
pub struct Edits {
    tables: Arc<Tables>,
    routes: Vec<RouteChange>,
    neighbours: Vec<(InterfaceId, IpAddr, Option<Mac>)>,
    summary: EditSummary,
    _gateways: Gateways,
}

/// The state after the lines read so far, where they change it.
struct Draft<'r> {
    router: &'r Router,
    routes: HashMap<(VrfId, Prefix), Outcome>,
    neighbours: HashMap<(InterfaceId, IpAddr), Option<Mac>>,
    /// The number of neighbours of each interface after these lines, where it was needed.
    neighbour_counts: HashMap<InterfaceId, usize>,
    gateways: Gateways,
    /// Prefixes that still fit into the tables.
    room: usize,
    summary: EditSummary,
    changes: Vec<RouteChange>,
}

type Refusal = (String, String);

impl Router {
    /// Checks a batch against the running configuration and holds all resources it needs. Changes nothing. Reports every line that cannot be
    /// carried out, at most `most`.
    pub fn prepare_edits(&self, lines: &[BatchLine], most: usize) -> Result<Edits, Vec<EditError>> {
        let mut draft = Draft {
            router: self,
            routes: HashMap::with_capacity(lines.len()),
            neighbours: HashMap::new(),
            neighbour_counts: HashMap::new(),
            gateways: Gateways::new(&self.tables),
            room: self.tables.room(),
            summary: EditSummary::default(),
            changes: Vec::with_capacity(lines.len()),
        };
        let mut errors = Vec::new();
        for line in lines {
            if let Err((reason, hint)) = draft.apply(&line.edit) {
                errors.push(EditError { line: line.line, reason, hint });
                if errors.len() == most {
                    break;
                }
            }
        }
        if errors.is_empty() { Ok(draft.finish()) } else { Err(errors) }
    }

    /// Makes the changes of a batch. `progress` is called from time to time with the number of finished routes.
    pub fn apply_edits(&mut self, edits: Edits, mut progress: impl FnMut(usize)) -> EditSummary {
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
                Some(mac) => drop(self.added_neighbours.insert((interface, address), mac)),
                None => drop(self.added_neighbours.remove(&(interface, address))),
            }
            self.post(|| Command::Neighbour(interface, address, mac));
        }
        edits.summary
    }
}

impl Edits {
    /// The number of routes to be set or removed.
    pub fn routes(&self) -> usize {
        self.routes.len()
    }
}

impl Draft<'_> {
    fn apply(&mut self, edit: &Edit) -> Result<(), Refusal> {
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

    /// The outcome of the route of an edit after the lines so far.
    fn route(&self, vrf: VrfId, to: Prefix) -> Outcome {
        let changed = self.routes.get(&(vrf, to)).copied();
        changed.unwrap_or_else(|| self.router.tables.route(vrf, to, Origin::Api))
    }

    fn set(&mut self, vrf: VrfId, prefix: Prefix, outcome: Outcome) {
        // Twice: the map shows later lines the present state, and the list keeps the order of the changes.
        self.routes.insert((vrf, prefix), outcome);
        self.changes.push(RouteChange { vrf, prefix, origin: Origin::Api, outcome });
    }

    fn add_route(&mut self, route: &RoutePlan) -> Result<(), Refusal> {
        let names = &self.router.names;
        let vrf = names.vrf(route.vrf.as_ref());
        let gone = || ("its port has been removed".to_string(), "send the batch again".to_string());
        // The batch was parsed against a plan. Another may have been applied since then.
        let goal = RouteGoal::of(&route.action, names).ok_or_else(gone)?;
        let held = self.gateways.hold(&(vrf, route.to, Origin::Api), &goal);
        let outcome = held.map_err(|error| (error.to_string(), "use fewer gateways".to_string()))?;
        // Only a prefix that is new to the tables needs room. Removed routes free none, because a sorted batch may add before it removes.
        if self.route(vrf, route.to) == Outcome::NoRoute && !self.router.tables.contains(vrf, route.to) {
            let full = || {
                let limit = self.router.tables.limits().routes;
                (format!("the table is full: the limit is {limit} routes"), "remove others first".to_string())
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
                "the route is part of the configuration: change it there and run `switchpath apply`"
            } else {
                "`switchpath route list` shows those that can be removed"
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
        // Destinations of earlier lines count as these lines left them, not as the tables have them.
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
        id.ok_or_else(|| (format!("the port or VLAN '{name}' has been removed"), "send the batch again".to_string()))
    }

    fn add_neighbour(&mut self, neighbour: &NeighbourPlan) -> Result<(), Refusal> {
        let key = (self.interface(&neighbour.interface)?, neighbour.address);
        if self.router.statics.contains_key(&key) {
            let reason = format!("{} is a neighbour of the configuration", neighbour.address);
            return Err((reason, "change the configuration, and run `switchpath apply`".to_string()));
        }
        if !self.is_added(key) {
            let limit = self.router.build.limits.neighbours_per_interface;
            let crowd = self.neighbour_count(key.0);
            if *crowd >= limit {
                let reason = format!("{} has the maximum of {limit} static neighbours", neighbour.interface);
                return Err((reason, "remove those that answer ARP or neighbour discovery".to_string()));
            }
            *crowd += 1;
        }
        self.summary.neighbours_added += 1;
        self.neighbours.insert(key, Some(neighbour.mac));
        Ok(())
    }

    fn del_neighbour(&mut self, interface: &plan::Name, address: IpAddr) -> Result<(), Refusal> {
        let key = (self.interface(interface)?, address);
        if !self.is_added(key) {
            let hint = "`switchpath show neighbours` shows all; this removes only those added at run time";
            return Err((format!("no neighbour {address} was added while the router runs"), hint.to_string()));
        }
        self.summary.neighbours_removed += 1;
        // A neighbour that the configuration has as well still counts.
        let stays = self.router.statics.contains_key(&key);
        *self.neighbour_count(key.0) -= usize::from(!stays);
        self.neighbours.insert(key, None);
        Ok(())
    }

    /// True if a neighbour was added, by an earlier edit or by one of these lines.
    fn is_added(&self, key: (InterfaceId, IpAddr)) -> bool {
        self.neighbours.get(&key).map_or(self.router.added_neighbours.contains_key(&key), Option::is_some)
    }

    /// The number of neighbours of an interface that the configuration and edits have added.
    fn neighbour_count(&mut self, interface: InterfaceId) -> &mut usize {
        let (given, statics) = (&self.router.added_neighbours, &self.router.statics);
        self.neighbour_counts.entry(interface).or_insert_with(|| {
            // A neighbour that both have added counts once.
            let added = given.keys().filter(|key| key.0 == interface && !statics.contains_key(*key)).count();
            added + statics.keys().filter(|key| key.0 == interface).count()
        })
    }

    fn finish(self) -> Edits {
        let Draft { router, mut changes, neighbours, summary, gateways, .. } = self;
        if changes.len() >= SORTED {
            // Of several changes to one destination only the last is made.
            // The sort must be stable, so that changes to one destination keep their order.
            changes.sort_by_key(|change| (change.vrf, change.prefix));
            // `dedup` keeps the first of equal keys. Reversed, that is the last change.
            changes.reverse();
            changes.dedup_by_key(|change| (change.vrf, change.prefix));
            changes.reverse();
        }
        // Neighbours that were added and removed within the batch change nothing.
        let told =
            neighbours.into_iter().filter(|(key, mac)| mac.is_some() || router.added_neighbours.contains_key(key));
        let neighbours = told.map(|((interface, address), mac)| (interface, address, mac)).collect();
        Edits { tables: router.tables.clone(), routes: changes, neighbours, summary, _gateways: gateways }
    }
}
