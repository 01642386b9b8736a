//! The shares of ports, from the configuration, the files of subscribers and edits, and the circuits of subscribers.
//!
//! The tree that a port is to have is here. The worker that owns the port has its own form of it, and gets each change through [`LinkShares`]. A share's
//! number belongs to its name for as long as the router runs: at all ports, and also after the share was removed.

use super::Router;
use super::opener::{ApplyError, Opener};
use super::port_tree::{PortTree, SharesChanged, StagedShares, ids_used_up, put};
use super::share_ids::ShareIds;
use crate::worker::ROUND_TRIPS;
use classifier::Published;
use link::{LinkShares, ShareCounts};
use plan::{Name, Plan, PortPlan, ShareChange, ShareName, ShareNode, ShareOrigin, ShareTree, SubscriberSection};
use schemes::ShareEdit;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use subscribers::{CircuitTable, RoundTrips, RttSlots};
use units::{CircuitKey, Instant, Nanos, Rate, ShareId};

/// Why a change of shares is refused: its position, the reason, and a hint.
pub type ShareRefusal = (usize, String, String);

/// All shares of a router.
pub(super) struct RouterShares {
    pub ids: ShareIds,
    pub ports: BTreeMap<Name, PortTree>,
    pub circuits: Arc<Published<CircuitTable>>,
    /// The slots of round-trip times. `None` if they are not measured.
    round_trips: Option<RttSlots>,
    subscribers: Vec<RunningSubscriber>,
    /// The time from which leases count.
    pub now: Instant,
}

impl Default for RouterShares {
    fn default() -> Self {
        RouterShares {
            ids: ShareIds::default(),
            ports: BTreeMap::new(),
            circuits: Arc::new(Published::new(CircuitTable::default())),
            round_trips: None,
            subscribers: Vec::new(),
            now: Instant::START,
        }
    }
}

impl RouterShares {
    /// The number of a share that some port has, or the reason why there is none, and a hint.
    pub fn id(&self, name: &ShareName) -> Result<ShareId, (String, String)> {
        self.ids.id_in(name, self.ports.values().map(|port| &port.tree))
    }
}

/// The shares of a configuration that is being prepared.
#[derive(Default)]
pub(super) struct SharePlans {
    ids: ShareIds,
    ports: BTreeMap<Name, PlannedTree>,
    circuits: Option<CircuitTable>,
    pub round_trips: Option<Arc<RoundTrips>>,
    /// The share of each circuit, with the fingerprint of its settings.
    settings: Vec<(ShareId, u64)>,
    subscribers: Vec<RunningSubscriber>,
    pub warnings: Vec<String>,
}

struct PlannedTree {
    tree: ShareTree,
    shared: Arc<LinkShares>,
    /// The changes from the running tree.
    edits: Vec<ShareEdit>,
}

impl SharePlans {
    /// The number of a share that some port has, or the reason why there is none, and a hint.
    pub fn id(&self, name: &ShareName) -> Result<ShareId, (String, String)> {
        self.ids.id_in(name, self.ports.values().map(|port| &port.tree))
    }

    /// The errors of paths that name a share which no port has.
    fn unknown_shares(&self, plan: &Plan) -> impl Iterator<Item = ApplyError> {
        let named = plan.paths.iter().filter_map(|path| Some((path, path.link_share.as_ref()?)));
        named.filter_map(|(path, share)| {
            let (reason, hint) = self.id(share).err()?;
            Some(ApplyError { place: format!("path {}", path.name), reason, hint })
        })
    }

    /// The tree that a port is to have.
    pub fn tree(&self, port: &str) -> Option<&ShareTree> {
        self.ports.get(port).map(|planned| &planned.tree)
    }

    /// The shares of a port with all edits that make them.
    pub fn of_port(&self, port: &str) -> Option<(&Arc<LinkShares>, Vec<ShareEdit>)> {
        let planned = self.ports.get(port)?;
        Some((&planned.shared, all_edits(&planned.tree, &self.ids)))
    }
}

fn all_edits(tree: &ShareTree, ids: &ShareIds) -> Vec<ShareEdit> {
    tree.iter().filter_map(|node| put(&node, ids)).collect()
}

/// The edits that make `new` of `old`. Each share is put before those below it and removed after them.
fn difference(old: Option<&ShareTree>, new: &ShareTree, ids: &ShareIds) -> Vec<ShareEdit> {
    let same = |node: &ShareNode<'_>| {
        old.and_then(|old| old.get(node.name.as_str())).is_some_and(|before| {
            (before.parent, before.settings, before.guarantee) == (node.parent, node.settings, node.guarantee)
        })
    };
    let mut edits: Vec<ShareEdit> = new.iter().filter(|node| !same(node)).filter_map(|node| put(&node, ids)).collect();
    let gone = old.into_iter().flat_map(ShareTree::iter).filter(|node| new.get(node.name.as_str()).is_none());
    let mut gone: Vec<ShareEdit> = gone.filter_map(|node| Some(ShareEdit::Remove(ids.get(node.name)?))).collect();
    gone.reverse();
    edits.extend(gone);
    edits
}

/// A share of a port, for reports.
#[derive(Clone, Debug)]
pub struct ShareReport {
    /// Its number.
    pub id: ShareId,
    /// Its name.
    pub name: ShareName,
    /// The share above it; `None` for the port.
    pub parent: Option<ShareName>,
    /// Its level: 1 directly below the port.
    pub level: usize,
    /// Who made it.
    pub origin: ShareOrigin,
    /// Its settings.
    pub settings: plan::ShareSettings,
    /// Its guarantee: its rate, or the sum of the guarantees below it.
    pub guarantee: Rate,
    /// The time until its lease ends. `None` if it stays.
    pub lease_left: Option<Nanos>,
    /// True if shares are below it.
    pub has_children: bool,
    /// Its counts, or for a share with others below the sum of theirs.
    pub counts: ShareCounts,
}

impl Router {
    /// The running shares of a port with all edits that make them.
    pub(super) fn running_shares(&self, port: &str) -> Option<(&Arc<LinkShares>, Vec<ShareEdit>)> {
        let running = self.shares.ports.get(port)?;
        Some((&running.shared, all_edits(&running.tree, &self.shares.ids)))
    }

    /// Reads the shares of a plan, and makes the changes from the running ones.
    pub(super) fn prepare_shares(
        &self,
        plan: &Plan,
        opener: &mut dyn Opener,
        is_rollback: bool,
    ) -> Result<SharePlans, Vec<ApplyError>> {
        let mut plans = SharePlans { ids: self.shares.ids.clone(), ..SharePlans::default() };
        let mut errors = Vec::new();
        let section = plan.subscribers.as_ref();
        let network = match section.map(|section| read_subscribers(section, opener)) {
            Some(Ok((network, warnings))) => {
                plans.warnings.extend(warnings);
                Some(network)
            }
            Some(Err(wrong)) => {
                errors.extend(wrong);
                None
            }
            None => None,
        };
        let shares = section.zip(network.as_ref()).map(|(section, network)| {
            let (shares, warnings) = section.shares(network.clone(), &plan.ports);
            plans.warnings.extend(warnings);
            shares
        });
        for port in plan.ports.iter().filter(|port| port.scheme.has_shares()) {
            let of_subscribers = section.zip(shares.as_ref());
            let of_subscribers = of_subscribers.and_then(|(section, shares)| section.shares_of(&port.name, shares));
            let flows = (plan, is_rollback);
            let built = self.prepare_tree(port, of_subscribers, opener, flows, &mut plans.warnings);
            match built {
                Ok(tree) => drop(self.plan_tree(port, tree, &mut plans).map_err(|error| errors.push(error))),
                Err(wrong) => errors.extend(wrong),
            }
        }
        if let Some(shares) = &shares {
            let number = |(key, name): &(CircuitKey, ShareName)| Some((*key, plans.ids.get(name)?));
            let numbered: Vec<(CircuitKey, ShareId)> = shares.circuits.iter().filter_map(number).collect();
            let table = CircuitTable::new(numbered.into_iter());
            let wrong = |error| ApplyError {
                place: "subscribers".to_string(),
                reason: format!("{error}"),
                hint: "give each subscriber keys of its own".to_string(),
            };
            plans.circuits = table.map_err(|error| errors.push(wrong(error))).ok();
        }
        errors.extend(plans.unknown_shares(plan));
        plans.round_trips = section.filter(|section| section.rtt).map(|_| self.round_trips());
        let subscribers = || network.iter().flat_map(|network| &network.subscribers);
        plans.subscribers = subscribers().map(RunningSubscriber::of).collect();
        let settings = plans.subscribers.iter().filter_map(|one| Some((plans.ids.get(&one.name)?, one.settings)));
        plans.settings = settings.collect();
        if errors.is_empty() { Ok(plans) } else { Err(errors) }
    }

    /// The running round-trip times, or new ones.
    fn round_trips(&self) -> Arc<RoundTrips> {
        let running = self.shares.round_trips.as_ref().map(|slots| slots.shared().clone());
        running.unwrap_or_else(|| Arc::new(RoundTrips::new(self.build.limits.key(ROUND_TRIPS))))
    }

    /// The tree of a port: its configuration, its subscribers, and the shares that edits have added to the running one.
    fn prepare_tree(
        &self,
        port: &PortPlan,
        subscribers: Option<&Vec<ShareChange>>,
        opener: &mut dyn Opener,
        (plan, is_rollback): (&Plan, bool),
        warnings: &mut Vec<String>,
    ) -> Result<ShareTree, Vec<ApplyError>> {
        let place = format!("port {}", port.name);
        let one = |reason: String, hint: String| vec![ApplyError { place: place.clone(), reason, hint }];
        let file = port.shares.file.as_deref();
        let text = file.map(|file| read_text(&place, file, opener)).transpose().map_err(|error| vec![error])?;
        let tree = port.share_tree(text.as_deref().zip(file));
        let mut tree = tree.map_err(|found| diagnostics_as_errors(&place, &found))?;
        if let Some(shares) = subscribers {
            tree.reserve(shares.len());
            let applied = tree.apply_all(shares, ShareOrigin::Subscribers);
            applied.map_err(|(_, reason, hint)| one(reason, hint))?;
        }
        let running = self.shares.ports.get(&port.name);
        for node in running.into_iter().flat_map(|port| port.tree.iter()) {
            match node.origin {
                ShareOrigin::Api => {}
                // `prepare_flows` refuses the configuration, or a rollback ends the reservation.
                ShareOrigin::Flow if self.flow_place(plan, node.name).is_ok() => {}
                _ => continue,
            }
            let (name, parent) = (node.name.clone(), node.parent.cloned());
            let again = ShareChange::Add { name, parent, settings: *node.settings, lease: node.lease };
            match tree.apply(&again, node.origin) {
                Err((reason, hint)) if node.origin == ShareOrigin::Flow && !is_rollback => {
                    let hint =
                        format!("{hint}, or end the reservation first: `switchpath reserve remove {}`", node.name);
                    return Err(one(format!("the reserved flow {} loses its share: {reason}", node.name), hint));
                }
                Err((reason, _)) => {
                    warnings.push(format!("{place}: the share {} of an edit is removed: {reason}", node.name));
                }
                Ok(()) => {}
            }
        }
        tree.commit();
        Ok(tree)
    }

    fn plan_tree(&self, port: &PortPlan, tree: ShareTree, plans: &mut SharePlans) -> Result<(), ApplyError> {
        for node in tree.iter() {
            if plans.ids.number(node.name).is_none() {
                return Err(ids_used_up(format!("port {}", port.name)));
            }
        }
        let running = self.shares.ports.get(&port.name);
        let edits = difference(running.map(|port| &port.tree), &tree, &plans.ids);
        let shared = running.map_or_else(Arc::default, |port| port.shared.clone());
        plans.ports.insert(port.name.clone(), PlannedTree { tree, shared, edits });
        Ok(())
    }

    /// Publishes prepared shares.
    pub(super) fn publish_shares(&mut self, plans: SharePlans) {
        let SharePlans { ids, ports, circuits, round_trips, settings, subscribers, .. } = plans;
        self.shares.ids = ids;
        // Before the circuits: a worker that finds one has its slot.
        let running = self.shares.round_trips.take();
        self.shares.round_trips = round_trips.map(|shared| {
            let same = running.filter(|slots| Arc::ptr_eq(slots.shared(), &shared));
            let mut slots = same.unwrap_or_else(|| RttSlots::new(shared));
            slots.assign(settings.into_iter());
            slots
        });
        self.shares.subscribers = subscribers;
        let mut running = std::mem::take(&mut self.shares.ports);
        for (name, PlannedTree { tree, shared, edits }) in ports {
            if !edits.is_empty() {
                shared.change(&edits);
            }
            let mut leases = running.remove(&name).map(|port| port.leases).unwrap_or_default();
            leases.retain(|share, _| tree.get(share.as_str()).is_some());
            self.shares.ports.insert(name, PortTree { tree, leases, shared });
        }
        self.shares.circuits.publish(circuits.unwrap_or_default());
    }

    /// Changes the shares of a port: all changes, or none.
    ///
    /// # Errors
    /// The position of the change that cannot be made, the reason and a hint.
    pub fn edit_shares(&mut self, port: &str, changes: &[ShareChange]) -> Result<SharesChanged, ShareRefusal> {
        let RouterShares { ids, ports, now, .. } = &mut self.shares;
        let Some(port) = ports.get_mut(port) else {
            let hint = "give it scheme = \"share(...)\"".to_string();
            return Err((0, format!("the port '{port}' has no shares"), hint));
        };
        let mut staged = StagedShares::default();
        for (position, change) in changes.iter().enumerate() {
            if let Err((reason, hint)) = port.stage(change, ShareOrigin::Api, ids, &mut staged) {
                port.tree.rollback();
                return Err((position, reason, hint));
            }
        }
        for change in changes {
            note_lease(change, &mut port.leases, *now);
        }
        Ok(port.commit(staged, ids))
    }

    /// Removes shares whose lease has ended. Returns them with their ports.
    pub fn end_share_leases(&mut self, now: Instant) -> Vec<(Name, ShareName)> {
        self.shares.now = now;
        let due = |(port, shares): (&Name, &PortTree)| {
            let ended = shares.leases.iter().filter(|(_, end)| **end <= now);
            ended.map(|(name, _)| (port.clone(), name.clone())).collect::<Vec<_>>()
        };
        let ended: Vec<(Name, ShareName)> = self.shares.ports.iter().flat_map(due).collect();
        // One at a time: a share with others below it stays until they end.
        let remove = |(port, name): &(Name, ShareName)| {
            self.edit_shares(port, &[ShareChange::Remove { name: name.clone(), all: false }]).is_ok()
        };
        ended.into_iter().filter(remove).collect()
    }

    /// The number of the share of this name.
    pub fn share_id(&self, name: &ShareName) -> Option<ShareId> {
        self.shares.ids.get(name)
    }

    /// The ports that have shares.
    pub fn share_ports(&self) -> impl Iterator<Item = &Name> {
        self.shares.ports.keys()
    }

    /// The counters of the shares of each port.
    pub fn share_counters(&self) -> impl Iterator<Item = (&Name, &Arc<LinkShares>)> {
        self.shares.ports.iter().map(|(port, running)| (port, &running.shared))
    }

    /// The shares of a port, each before those below it. `None` if the port has no shares.
    pub fn shares(&self, port: &str) -> Option<Vec<ShareReport>> {
        let PortTree { tree, leases, shared } = self.shares.ports.get(port)?;
        let mut reports: Vec<ShareReport> = Vec::with_capacity(tree.len());
        for node in tree.iter() {
            let id = self.shares.ids.get(node.name).unwrap_or_default();
            reports.push(ShareReport {
                id,
                name: node.name.clone(),
                parent: node.parent.cloned(),
                level: node.level - 1,
                origin: node.origin,
                settings: *node.settings,
                guarantee: node.guarantee,
                lease_left: leases.get(node.name).map(|end| end.since(self.shares.now)),
                has_children: false,
                counts: shared.counts(id),
            });
        }
        // From the last to the first, a share has its whole sum before it is added to the one above it, which is the last one before it on a higher level.
        let mut above: Vec<usize> = Vec::new();
        let mut parents: Vec<Option<usize>> = Vec::with_capacity(reports.len());
        for (place, report) in reports.iter().enumerate() {
            above.truncate(report.level - 1);
            parents.push(above.last().copied());
            above.push(place);
        }
        for place in (0..reports.len()).rev() {
            if let Some(parent) = parents[place] {
                let counts = reports[place].counts;
                reports[parent].counts.add(&counts);
                reports[parent].has_children = true;
            }
        }
        Some(reports)
    }

    /// The subscribers.
    pub fn subscribers(&self) -> &[RunningSubscriber] {
        &self.shares.subscribers
    }

    /// Reads the files of subscribers again, and changes the shares and circuits, all at once and without a new generation.
    ///
    /// # Errors
    /// The faults in the files. Nothing was changed.
    pub fn reload_subscribers(&mut self, opener: &mut dyn Opener) -> Result<Vec<String>, Vec<ApplyError>> {
        let Some(plan) = self.plan.clone() else { return Ok(Vec::new()) };
        let plans = self.prepare_shares(&plan, opener, false)?;
        let warnings = plans.warnings.clone();
        self.publish_shares(plans);
        Ok(warnings)
    }

    /// Hands all shares to workers that have lost them in a restart, and frees changes that all workers have carried out.
    pub fn restore_shares(&self) {
        for PortTree { tree, shared, .. } in self.shares.ports.values() {
            shared.forget_done();
            if shared.take_request() {
                shared.change(&all_edits(tree, &self.shares.ids));
            }
        }
    }
}

/// A subscriber whose circuit has shares.
#[derive(Clone, Debug)]
pub struct RunningSubscriber {
    /// The name of its shares.
    pub name: ShareName,
    /// Its title.
    pub title: String,
    /// A number that changes with its site, rates and keys, on which its round-trip times depend.
    pub settings: u64,
}

impl RunningSubscriber {
    fn of(subscriber: &plan::subscribers::Subscriber) -> RunningSubscriber {
        let plan::subscribers::Subscriber { name, title, parent, down, up, keys, .. } = subscriber;
        let mut hasher = DefaultHasher::new();
        (parent, down, up, keys).hash(&mut hasher);
        RunningSubscriber { name: name.clone(), title: title.clone(), settings: hasher.finish() }
    }
}

fn note_lease(change: &ShareChange, leases: &mut BTreeMap<ShareName, Instant>, now: Instant) {
    let (name, lease) = match change {
        ShareChange::Add { name, lease, .. } => (name, *lease),
        ShareChange::Set { name, lease: Some(lease), .. } => (name, *lease),
        _ => return,
    };
    match lease {
        Some(lease) => drop(leases.insert(name.clone(), now + lease)),
        None => drop(leases.remove(name)),
    }
}

fn read_text(place: &str, file: &str, opener: &mut dyn Opener) -> Result<String, ApplyError> {
    let bytes = opener.read_file(place, file)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        let reason = format!("{file}:{line}: the file is not UTF-8");
        ApplyError { place: place.to_string(), reason, hint: "save the file as UTF-8".to_string() }
    })
}

fn diagnostics_as_errors(place: &str, found: &plan::Diagnostics) -> Vec<ApplyError> {
    let one = |error: &plan::Diagnostic| ApplyError {
        place: place.to_string(),
        reason: format!("{}:{}:{}: {}", error.file, error.line, error.column, error.reason),
        hint: error.hint.clone(),
    };
    found.errors().map(one).collect()
}

type Network = (plan::subscribers::SubscriberPlan, Vec<String>);

/// Reads the files of subscribers.
fn read_subscribers(section: &SubscriberSection, opener: &mut dyn Opener) -> Result<Network, Vec<ApplyError>> {
    const PLACE: &str = "subscribers";
    let mut failed = None;
    let result = section.source.read(|file| {
        read_text(PLACE, file, opener).map_err(|error| {
            let found = plan::Diagnostics::unreadable(file, error.reason.clone(), &error.hint);
            failed = Some(error);
            found
        })
    });
    match (result.plan, failed) {
        (_, Some(error)) => Err(vec![error]),
        (Some(network), None) => {
            let warnings = result.diagnostics.warnings();
            let text = |w: &plan::Diagnostic| format!("{}:{}: {}; {}", w.file, w.line, w.reason, w.hint);
            Ok((network, warnings.map(text).collect()))
        }
        (None, None) => Err(diagnostics_as_errors(PLACE, &result.diagnostics)),
    }
}
