//! The tables in memory, and how notifications and lists change them.

use super::change::{ChangeKind, KernelChange};
use super::next_hop_table::NextHopTable;
use super::route_table::RouteTable;
use super::{
    KernelAddress, KernelHop, KernelLink, KernelNeighbourEntry, KernelNeighbourState, KernelNextHop,
    KernelNotification, KernelObject, KernelRouteEntry, KernelRule, RoutePlacement,
};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;

/// Receives each difference.
pub(super) type Report<'a> = dyn FnMut(KernelChange<'_>) + 'a;

/// The routing tables that are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowedTables {
    /// All.
    All,
    /// Those with these numbers: 254 is the main table.
    Only(Vec<u32>),
}

impl FollowedTables {
    fn includes(&self, table: u32) -> bool {
        match self {
            FollowedTables::All => true,
            FollowedTables::Only(tables) => tables.contains(&table),
        }
    }
}

/// The order and identity of addresses. An IPv4 address may exist with several prefixes and peers.
type AddressKey = (u32, IpAddr, u8, Option<IpAddr>);

fn address_key(address: &KernelAddress) -> AddressKey {
    match address.address {
        IpAddr::V4(_) => (address.link, address.address, address.prefix, address.peer),
        IpAddr::V6(_) => (address.link, address.address, 0, None),
    }
}

/// Routes that the kernel may have changed without a notification.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    /// The links whose IPv4 routes, and those whose IPv6 routes.
    pub(super) links: [BTreeSet<u32>; 2],
    /// All routes of the family.
    pub(super) is_whole: [bool; 2],
    /// The next-hop objects.
    pub(super) has_next_hops: bool,
    /// IPv4 routes with one of these preferred sources.
    pub(super) sources: BTreeSet<IpAddr>,
}

impl Suspects {
    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(BTreeSet::is_empty)
            && self.is_whole == [false; 2]
            && !self.has_next_hops
            && self.sources.is_empty()
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct TableState {
    pub(super) followed: FollowedTables,
    pub(super) links: BTreeMap<u32, KernelLink>,
    pub(super) addresses: BTreeMap<AddressKey, KernelAddress>,
    pub(super) neighbours: BTreeMap<(u32, IpAddr), KernelNeighbourEntry>,
    pub(super) rules: Vec<KernelRule>,
    pub(super) next_hops: NextHopTable,
    pub(super) routes: RouteTable,
    pub(super) suspects: Suspects,
    /// Notifications of removed routes of IPv4 and IPv6.
    pub(super) removals: [u64; 2],
}

/// Applies a change of `routes` and reports it with the hops of `next_hops`.
macro_rules! report_routes {
    ($state:ident, $each:ident, $call:ident($($argument:expr),*)) => {{
        let TableState { routes, next_hops, .. } = $state;
        routes.$call($($argument,)* &mut |change, route, effective| {
            let effective = effective.map(|route| next_hops.resolve(route));
            $each(KernelChange::Route { change, route: next_hops.resolve(route), effective });
        })
    }};
}

/// Adds or changes an object, and reports it.
fn set<K: Ord, V: PartialEq>(map: &mut BTreeMap<K, V>, key: K, value: V, report: impl FnOnce(ChangeKind, &V)) {
    match map.get_mut(&key) {
        Some(old) if *old == value => {}
        Some(old) => {
            *old = value;
            report(ChangeKind::Changed, old);
        }
        None => report(ChangeKind::Added, map.entry(key).or_insert(value)),
    }
}

/// Compares with a list of all objects, and reports the differences.
fn reconcile<K: Ord, V: PartialEq>(
    map: &mut BTreeMap<K, V>,
    listed: impl IntoIterator<Item = V>,
    key: impl Fn(&V) -> K,
    mut report: impl FnMut(ChangeKind, &V),
) {
    let listed: BTreeMap<K, V> = listed.into_iter().map(|value| (key(&value), value)).collect();
    map.retain(|key, value| {
        let is_left = listed.contains_key(key);
        if !is_left {
            report(ChangeKind::Removed, value);
        }
        is_left
    });
    listed.into_iter().for_each(|(key, value)| set(map, key, value, &mut report));
}

/// True if the kernel reports the entry when it appears.
fn is_kept(neighbour: &KernelNeighbourEntry) -> bool {
    let is_reported = |state| !matches!(state, KernelNeighbourState::Incomplete | KernelNeighbourState::NoArp);
    !neighbour.is_proxy && neighbour.state.is_some_and(is_reported)
}

impl TableState {
    pub(super) fn new(followed: FollowedTables) -> TableState {
        TableState {
            followed,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            rules: Vec::new(),
            next_hops: NextHopTable::default(),
            routes: RouteTable::default(),
            suspects: Suspects::default(),
            removals: [0; 2],
        }
    }

    /// Applies a notification.
    pub(super) fn apply(&mut self, notification: KernelNotification, each: &mut Report<'_>) {
        let KernelNotification { object, is_removed, placement } = notification;
        match object {
            KernelObject::Link(link) if is_removed => self.remove_link(link.index, each),
            KernelObject::Link(link) => self.set_link(link, each),
            KernelObject::Address(address) if is_removed => self.remove_address(&address, each),
            KernelObject::Address(address) => {
                let report = |kind, address: &_| each(KernelChange::Address(kind, address));
                set(&mut self.addresses, address_key(&address), address, report);
            }
            KernelObject::Neighbour(neighbour) => self.apply_neighbour(neighbour, is_removed, each),
            KernelObject::Rule(rule) => self.apply_rule(rule, is_removed, each),
            KernelObject::NextHop(object) if is_removed => self.remove_next_hop(object.id, each),
            KernelObject::NextHop(object) => self.next_hops.set(object.without_link_state()),
            KernelObject::Route(route) => self.apply_route(route, is_removed, placement, each),
        }
    }

    fn set_link(&mut self, link: KernelLink, each: &mut Report<'_>) {
        if let Some(old) = self.links.get(&link.index) {
            // Without notifications the kernel removes the IPv4 routes of a link that is set down or joins or leaves a VRF, and the next-hop objects
            // of a link that is down or has no carrier.
            if old.up && !link.up || old.master != link.master {
                self.suspects.links[0].insert(link.index);
            }
            let is_lost = old.up && !link.up || old.carrier && !link.carrier || old.running && !link.running;
            self.suspects.has_next_hops |= is_lost;
        }
        set(&mut self.links, link.index, link, |kind, link| each(KernelChange::Link(kind, link)));
    }

    fn remove_link(&mut self, index: u32, each: &mut Report<'_>) {
        self.suspects.links[0].insert(index);
        self.suspects.has_next_hops = true;
        self.neighbours.retain(|key, neighbour| {
            if key.0 == index {
                each(KernelChange::Neighbour(ChangeKind::Removed, neighbour));
            }
            key.0 != index
        });
        self.addresses.retain(|key, address| {
            if key.0 == index {
                each(KernelChange::Address(ChangeKind::Removed, address));
            }
            key.0 != index
        });
        if let Some(link) = self.links.remove(&index) {
            each(KernelChange::Link(ChangeKind::Removed, &link));
        }
    }

    fn remove_address(&mut self, address: &KernelAddress, each: &mut Report<'_>) {
        let Some(old) = self.addresses.remove(&address_key(address)) else { return };
        each(KernelChange::Address(ChangeKind::Removed, &old));
        if old.address.is_ipv4() {
            // Without notifications the kernel removes the routes of a link without addresses, and before Linux 6.7 those with this source.
            self.suspects.sources.insert(old.address);
            let others = self.addresses.keys().filter(|key| key.0 == old.link && key.1.is_ipv4());
            if others.count() == 0 {
                self.suspects.links[0].insert(old.link);
            }
        }
    }

    fn apply_neighbour(&mut self, neighbour: KernelNeighbourEntry, is_removed: bool, each: &mut Report<'_>) {
        let key = (neighbour.link, neighbour.address);
        let mut report = |kind, neighbour: &_| each(KernelChange::Neighbour(kind, neighbour));
        if neighbour.is_proxy {
            return;
        }
        if !is_removed && is_kept(&neighbour) {
            set(&mut self.neighbours, key, neighbour, report);
        } else if let Some(old) = self.neighbours.remove(&key) {
            report(ChangeKind::Removed, &old);
        }
    }

    fn apply_rule(&mut self, rule: KernelRule, is_removed: bool, each: &mut Report<'_>) {
        let place = self.rules.iter().position(|old| *old == rule);
        match (place, is_removed) {
            (Some(place), true) => {
                self.rules.remove(place);
                each(KernelChange::Rule(ChangeKind::Removed, &rule));
            }
            (None, false) => {
                let order = |rule: &KernelRule| (rule.is_ipv6, rule.priority);
                let place = self.rules.partition_point(|old| order(old) <= order(&rule));
                self.rules.insert(place, rule);
                each(KernelChange::Rule(ChangeKind::Added, &self.rules[place]));
            }
            // The list that was read after the change had it already.
            (Some(_), false) | (None, true) => {}
        }
    }

    fn apply_route(
        &mut self,
        route: KernelRouteEntry,
        is_removed: bool,
        placement: RoutePlacement,
        each: &mut Report<'_>,
    ) {
        let family = usize::from(route.destination.is_ipv6());
        self.removals[family] += u64::from(is_removed);
        let Some(route) = self.followed_route(route) else { return };
        // Before the change, because it may take hops away.
        let (hops, has_others) = self.routes.hops_of_alternatives(&route);
        let is_certain = if is_removed {
            report_routes!(self, each, delete(&route))
        } else {
            report_routes!(self, each, add(route, placement))
        };
        if !is_certain {
            self.suspects.links[family].extend(hops.iter().filter_map(|hop| hop.link).map(u32::from));
            self.suspects.is_whole[family] |= has_others;
        }
    }

    /// A route of a followed table, without the flags that follow from the state of its links.
    fn followed_route(&self, mut route: KernelRouteEntry) -> Option<KernelRouteEntry> {
        if !self.followed.includes(route.table) {
            return None;
        }
        route.hops.own_mut().iter_mut().for_each(|hop| *hop = hop.without_link_state());
        Some(route)
    }

    /// The kernel removes the routes that name the object with it, often without notifications.
    fn remove_next_hop(&mut self, id: u32, each: &mut Report<'_>) {
        self.next_hops.remove(id);
        if self.routes.users(id) > 0 {
            report_routes!(self, each, remove_users(id));
        }
    }

    /// Reports the routes whose next-hop objects have changed.
    pub(super) fn report_changed_next_hops(&mut self, each: &mut Report<'_>) {
        let mut changed = self.next_hops.take_changed();
        changed.retain(|&id| self.routes.users(id) > 0);
        if !changed.is_empty() {
            report_routes!(self, each, report_users(|id| changed.contains(&id)));
        }
    }

    /// Compares with lists of all objects of these kinds.
    pub(super) fn reconcile_objects(
        &mut self,
        links: Vec<KernelLink>,
        addresses: Vec<KernelAddress>,
        neighbours: Vec<KernelNeighbourEntry>,
        rules: Vec<KernelRule>,
        each: &mut Report<'_>,
    ) {
        reconcile(&mut self.links, links, |link| link.index, |kind, link| each(KernelChange::Link(kind, link)));
        let report = |kind, address: &_| each(KernelChange::Address(kind, address));
        reconcile(&mut self.addresses, addresses, address_key, report);
        let report = |kind, neighbour: &_| each(KernelChange::Neighbour(kind, neighbour));
        let neighbours = neighbours.into_iter().filter(is_kept);
        reconcile(&mut self.neighbours, neighbours, |neighbour| (neighbour.link, neighbour.address), report);
        let old = mem::replace(&mut self.rules, rules);
        for gone in old.iter().filter(|rule| !self.rules.contains(rule)) {
            each(KernelChange::Rule(ChangeKind::Removed, gone));
        }
        for new in self.rules.iter().filter(|rule| !old.contains(rule)) {
            each(KernelChange::Rule(ChangeKind::Added, new));
        }
    }

    /// Compares with a list of all next-hop objects.
    pub(super) fn reconcile_next_hops(&mut self, listed: Vec<KernelNextHop>, each: &mut Report<'_>) {
        let listed = listed.into_iter().map(KernelNextHop::without_link_state).collect();
        for gone in self.next_hops.reconcile(listed) {
            if self.routes.users(gone) > 0 {
                report_routes!(self, each, remove_users(gone));
            }
        }
        self.report_changed_next_hops(each);
    }

    /// Accepts a route of a list that has begun.
    pub(super) fn list_route(&mut self, route: KernelRouteEntry, each: &mut Report<'_>) {
        if let Some(route) = self.followed_route(route) {
            report_routes!(self, each, list(route));
        }
    }

    /// Ends the list of the routes of a family, with a hop on `link` if given.
    pub(super) fn end_route_list(&mut self, is_ipv6: bool, link: Option<u32>, each: &mut Report<'_>) {
        let TableState { routes, next_hops, .. } = self;
        let uses =
            |hops: &[KernelHop]| link.is_none_or(|link| hops.iter().any(|hop| hop.link.map(u32::from) == Some(link)));
        let is_in_scope =
            |route: &KernelRouteEntry| route.destination.is_ipv6() == is_ipv6 && uses(next_hops.resolve(route).hops);
        routes.end_list(is_in_scope, &mut |change, route, effective| {
            let effective = effective.map(|route| next_hops.resolve(route));
            each(KernelChange::Route { change, route: next_hops.resolve(route), effective });
        });
    }
}
