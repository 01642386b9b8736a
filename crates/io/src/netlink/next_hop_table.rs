//! Next-hop objects in memory, with the hops of each group.

use super::change::ResolvedRoute;
use super::{KernelHop, KernelNextHop, KernelRouteEntry, NextHopTarget, RouteHops, RouteKind};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Entry {
    object: KernelNextHop,
    /// Its hops: for a group those of its members, with the weights of the group.
    hops: Box<[KernelHop]>,
    is_blackhole: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NextHopTable {
    entries: BTreeMap<u32, Entry>,
    /// Objects whose hops have changed since the last call of [`NextHopTable::take_changed`].
    changed: BTreeSet<u32>,
}

impl NextHopTable {
    /// All objects, by their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KernelNextHop> {
        self.entries.values().map(|entry| &entry.object)
    }

    /// Adds or replaces an object.
    pub(super) fn set(&mut self, object: KernelNextHop) {
        let id = object.id;
        if self.entries.get(&id).is_some_and(|entry| entry.object == object) {
            return;
        }
        self.entries.insert(id, Entry { object, hops: Box::default(), is_blackhole: false });
        self.resolve_object(id);
        self.resolve_groups(id);
        self.changed.insert(id);
    }

    /// Removes an object. Its routes are gone with it.
    pub(super) fn remove(&mut self, id: u32) {
        if self.entries.remove(&id).is_some() {
            self.resolve_groups(id);
            self.changed.remove(&id);
        }
    }

    /// Compares with a list of all objects. Returns the ids of those that are gone.
    pub(super) fn reconcile(&mut self, listed: Vec<KernelNextHop>) -> Vec<u32> {
        let present: BTreeSet<u32> = listed.iter().map(|object| object.id).collect();
        let gone: Vec<u32> = self.entries.keys().filter(|id| !present.contains(id)).copied().collect();
        gone.iter().for_each(|&id| self.remove(id));
        listed.into_iter().for_each(|object| self.set(object));
        gone
    }

    /// Objects whose hops have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.changed)
    }

    fn resolve_object(&mut self, id: u32) {
        let Some(entry) = self.entries.get(&id) else { return };
        let (mut hops, mut is_blackhole) = (Vec::new(), false);
        match &entry.object.target {
            NextHopTarget::Hop(hop) => hops.push(*hop),
            NextHopTarget::Blackhole => is_blackhole = true,
            NextHopTarget::Group(members) => {
                for &(member, weight) in members {
                    match self.entries.get(&member).map(|member| &member.object.target) {
                        Some(NextHopTarget::Hop(hop)) => hops.push(KernelHop { weight, ..*hop }),
                        // The kernel allows an object that drops packets only as the single member of a group.
                        Some(NextHopTarget::Blackhole) => is_blackhole = true,
                        // The kernel has no groups of groups.
                        Some(NextHopTarget::Group(_)) | None => {}
                    }
                }
            }
        }
        if let Some(entry) = self.entries.get_mut(&id) {
            (entry.hops, entry.is_blackhole) = (hops.into(), is_blackhole);
        }
    }

    /// Updates the groups with this member.
    fn resolve_groups(&mut self, member: u32) {
        let has_member = |entry: &Entry| match &entry.object.target {
            NextHopTarget::Group(members) => members.iter().any(|(id, _)| *id == member),
            _ => false,
        };
        let groups: Vec<u32> = self.entries.values().filter(|e| has_member(e)).map(|e| e.object.id).collect();
        for group in groups {
            self.resolve_object(group);
            self.changed.insert(group);
        }
    }

    /// A route with its hops.
    pub(super) fn resolve<'a>(&'a self, route: &'a KernelRouteEntry) -> ResolvedRoute<'a> {
        let RouteHops::Object(id) = route.hops else {
            return ResolvedRoute { route, kind: route.kind, hops: route.hops.own() };
        };
        let (hops, is_blackhole) =
            self.entries.get(&id.get()).map_or((&[][..], false), |entry| (&entry.hops[..], entry.is_blackhole));
        ResolvedRoute { route, kind: if is_blackhole { RouteKind::Blackhole } else { route.kind }, hops }
    }
}
