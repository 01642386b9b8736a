//! Routes in memory: 96 bytes for a route, and 6 to 12 to find it by its destination.
//!
//! The routes of one destination in one table form a chain in the kernel's order: by type of service and metric, and routes that are equal in both by
//! their placement.

use super::change::ChangeKind;
use super::{KernelHop, KernelRouteEntry, RouteHops, RoutePlacement};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::{iter, mem};

/// The end of a chain.
const END: u32 = u32::MAX;

/// Receives a difference: its kind, the route, and the route that the kernel uses now for the destination.
pub(super) type Report<'a> = dyn FnMut(ChangeKind, &KernelRouteEntry, Option<&KernelRouteEntry>) + 'a;

#[derive(Debug)]
struct Slot {
    /// `None` if the slot is vacant.
    route: Option<KernelRouteEntry>,
    /// The next route of the chain, or the next vacant slot.
    next: u32,
    /// The current list of the kernel has it, or a notification since the list began.
    is_listed: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RouteTable {
    slots: Vec<Slot>,
    vacant: Option<u32>,
    /// The first route of each chain. The hash is keyed: peers of a routing protocol choose the destinations.
    heads: HashTable<u32>,
    hasher: RandomState,
    /// The number of routes.
    length: usize,
    /// The number of routes that name a next-hop object.
    users: HashMap<NonZeroU32, usize>,
}

/// The place in a chain's order.
fn rank(route: &KernelRouteEntry) -> (Reverse<u8>, u32) {
    (Reverse(route.tos), route.metric)
}

/// True if the routes are for the same packets at the same metric: the kernel's placements are relative to such routes.
fn are_alternatives(a: &KernelRouteEntry, b: &KernelRouteEntry) -> bool {
    rank(a) == rank(b) && a.source == b.source
}

impl RouteTable {
    fn key(route: &KernelRouteEntry) -> (u32, IpAddr, u8) {
        (route.table, route.destination, route.prefix)
    }

    fn route(&self, slot: u32) -> &KernelRouteEntry {
        self.slots[slot as usize].route.as_ref().expect("a slot of a chain has a route")
    }

    fn head(&self, key: (u32, IpAddr, u8)) -> u32 {
        let hash = self.hasher.hash_one(key);
        self.heads.find(hash, |&slot| Self::key(self.route(slot)) == key).copied().unwrap_or(END)
    }

    fn chain(&self, head: u32) -> impl Iterator<Item = u32> {
        let unless_end = |slot: u32| Some(slot).filter(|&slot| slot != END);
        iter::successors(unless_end(head), move |&slot| unless_end(self.slots[slot as usize].next))
    }

    /// The routes that are alternatives of this one.
    fn alternatives(&self, route: &KernelRouteEntry) -> impl Iterator<Item = u32> {
        self.chain(self.head(Self::key(route))).filter(move |&slot| are_alternatives(self.route(slot), route))
    }

    fn find(&self, route: &KernelRouteEntry) -> Option<u32> {
        self.alternatives(route).find(|&slot| self.route(slot) == route)
    }

    /// The route that the kernel uses for a destination in a table, without regard to the type of service and the source.
    pub(super) fn effective(&self, key: (u32, IpAddr, u8)) -> Option<&KernelRouteEntry> {
        let mut chain = self.chain(self.head(key)).map(|slot| self.route(slot));
        chain.find(|route| route.tos == 0 && route.source.is_none())
    }

    /// The number of routes.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// All routes.
    pub(super) fn iter(&self) -> impl Iterator<Item = &KernelRouteEntry> {
        self.slots.iter().filter_map(|slot| slot.route.as_ref())
    }

    /// The number of routes that name this next-hop object.
    pub(super) fn users(&self, object: u32) -> usize {
        NonZeroU32::new(object).and_then(|object| self.users.get(&object)).copied().unwrap_or(0)
    }

    /// The hops of all alternatives of this route, and true if some have no hops of their own.
    pub(super) fn hops_of_alternatives(&self, route: &KernelRouteEntry) -> (Vec<KernelHop>, bool) {
        let (mut hops, mut has_others) = (Vec::new(), false);
        for slot in self.alternatives(route) {
            let own = self.route(slot).hops.own();
            hops.extend_from_slice(own);
            has_others |= own.is_empty();
        }
        (hops, has_others)
    }

    fn report(&self, change: ChangeKind, route: &KernelRouteEntry, report: &mut Report<'_>) {
        report(change, route, self.effective(Self::key(route)));
    }

    fn count_user(&mut self, hops: &RouteHops, is_more: bool) {
        let RouteHops::Object(object) = hops else { return };
        let users = self.users.entry(*object).or_default();
        *users = if is_more { *users + 1 } else { *users - 1 };
        if *users == 0 {
            self.users.remove(object);
        }
    }

    /// Adds a route behind its alternatives, or before this one of them.
    fn insert(&mut self, route: KernelRouteEntry, before: Option<u32>, report: &mut Report<'_>) {
        self.count_user(&route.hops, true);
        self.length += 1;
        let slot = Slot { route: Some(route), next: END, is_listed: true };
        let place = match self.vacant {
            Some(place) => {
                let next = mem::replace(&mut self.slots[place as usize], slot).next;
                self.vacant = Some(next).filter(|&next| next != END);
                place
            }
            None => {
                assert!(self.slots.len() < END as usize, "the kernel has fewer routes than a slot number has values");
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.join(place, before);
        self.report(ChangeKind::Added, self.route(place), report);
    }

    /// Puts a slot into its chain.
    fn join(&mut self, place: u32, before: Option<u32>) {
        let route = self.route(place);
        let head = self.head(Self::key(route));
        let own = rank(route);
        let precedes = |&slot: &u32| before.map_or_else(|| rank(self.route(slot)) <= own, |before| slot != before);
        let previous = self.chain(head).take_while(precedes).last();
        match previous {
            Some(previous) => {
                let next = mem::replace(&mut self.slots[previous as usize].next, place);
                self.slots[place as usize].next = next;
            }
            None => {
                self.slots[place as usize].next = head;
                self.set_head(place, head, place);
            }
        }
    }

    /// Puts a slot behind its alternatives, or before this slot of the chain.
    fn reorder(&mut self, place: u32, before: Option<u32>, report: &mut Report<'_>) {
        let is_last = || self.alternatives(self.route(place)).last() == Some(place);
        if before.map_or_else(is_last, |before| before == place) {
            return;
        }
        self.leave(place);
        self.join(place, before);
        self.report(ChangeKind::Changed, self.route(place), report);
    }

    /// Makes `new` the head of the chain of `route` instead of `old`. [`END`] is no head.
    fn set_head(&mut self, route: u32, old: u32, new: u32) {
        let Self { slots, heads, hasher, .. } = self;
        let key = |slot: u32| Self::key(slots[slot as usize].route.as_ref().expect("a slot of a chain has a route"));
        let hash = hasher.hash_one(key(route));
        match heads.entry(hash, |&head| head == old, |&head| hasher.hash_one(key(head))) {
            Entry::Occupied(head) if new == END => drop(head.remove()),
            Entry::Occupied(mut head) => *head.get_mut() = new,
            Entry::Vacant(head) => drop(head.insert(new)),
        }
    }

    /// Takes a slot out of its chain.
    fn leave(&mut self, place: u32) {
        let head = self.head(Self::key(self.route(place)));
        let next = self.slots[place as usize].next;
        match self.chain(head).take_while(|&slot| slot != place).last() {
            Some(previous) => self.slots[previous as usize].next = next,
            None => self.set_head(place, place, next),
        }
    }

    fn remove(&mut self, place: u32, report: &mut Report<'_>) {
        self.leave(place);
        let slot = &mut self.slots[place as usize];
        let route = slot.route.take().expect("a slot of a chain has a route");
        slot.next = self.vacant.replace(place).unwrap_or(END);
        self.length -= 1;
        self.count_user(&route.hops, false);
        self.report(ChangeKind::Removed, &route, report);
    }

    /// Puts a route in the place of one with the same key and rank.
    fn replace(&mut self, place: u32, route: KernelRouteEntry, report: &mut Report<'_>) {
        self.slots[place as usize].is_listed = true;
        if *self.route(place) == route {
            return;
        }
        self.count_user(&route.hops, true);
        let old = self.slots[place as usize].route.replace(route).expect("a slot of a chain has a route");
        self.count_user(&old.hops, false);
        self.report(ChangeKind::Changed, self.route(place), report);
    }

    /// Adds a route as the kernel did. Returns false if it is uncertain which route it replaced, or what properties a merged route has: the kernel keeps
    /// those of each hop, and reports those of one of them.
    pub(super) fn add(&mut self, route: KernelRouteEntry, placement: RoutePlacement, report: &mut Report<'_>) -> bool {
        let first = self.alternatives(&route).next();
        if placement == RoutePlacement::Only {
            // The kernel had no alternative: any that is left here is gone.
            let others: Vec<u32> = self.alternatives(&route).skip(1).collect();
            others.into_iter().for_each(|other| self.remove(other, report));
        }
        let is_merged = route.is_merged();
        let merged = self.alternatives(&route).find(|&slot| is_merged && self.route(slot).is_merged());
        // The kernel adds no route twice: it has removed this one before, without a notification.
        let same = self.find(&route);
        if let Some(place) =
            same.filter(|_| matches!(placement, RoutePlacement::First | RoutePlacement::Last) && !is_merged)
        {
            let is_first = placement == RoutePlacement::First && route.destination.is_ipv4();
            self.reorder(place, first.filter(|_| is_first), report);
        }
        let place = match placement {
            _ if merged.is_some() => merged,
            _ if same.is_some() => same,
            RoutePlacement::Only => first,
            RoutePlacement::First | RoutePlacement::Last => None,
            // IPv6 replaces a route of the same sort, if there is one.
            RoutePlacement::Replace => {
                self.alternatives(&route).find(|&slot| self.route(slot).is_merged() == is_merged).or(first)
            }
        };
        let is_certain = match merged {
            _ if placement == RoutePlacement::Replace => self.alternatives(&route).nth(1).is_none(),
            Some(merged) => {
                let old = self.route(merged);
                KernelRouteEntry { hops: old.hops.clone(), ..route.clone() } == *old
            }
            None => true,
        };
        match place {
            Some(place) => self.replace(place, route, report),
            None => {
                // IPv6 adds behind the alternatives in any case.
                let is_first = placement == RoutePlacement::First && route.destination.is_ipv4();
                self.insert(route, first.filter(|_| is_first), report);
            }
        }
        is_certain
    }

    /// Removes a route as the kernel did: one that equals it, or its hops from a merged route. Returns false if the properties of the rest are uncertain.
    pub(super) fn delete(&mut self, route: &KernelRouteEntry, report: &mut Report<'_>) -> bool {
        if !route.is_merged() {
            self.find(route).into_iter().for_each(|place| self.remove(place, report));
            return true;
        }
        let Some(place) = self.alternatives(route).find(|&slot| self.route(slot).is_merged()) else { return true };
        let deleted = route.hops.own();
        let is_left = |hop: &&KernelHop| !deleted.iter().any(|d| d.gateway == hop.gateway && d.link == hop.link);
        let left: Vec<KernelHop> = self.route(place).hops.own().iter().filter(is_left).copied().collect();
        let is_whole = left.is_empty();
        if is_whole {
            self.remove(place, report);
        } else {
            let rest = KernelRouteEntry { hops: RouteHops::new(left), ..self.route(place).clone() };
            self.replace(place, rest, report);
        }
        is_whole
    }

    /// Begins a list of the kernel.
    pub(super) fn begin_list(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.is_listed = false);
    }

    /// Accepts a route of the list. Alternatives have the order of the list.
    pub(super) fn list(&mut self, route: KernelRouteEntry, report: &mut Report<'_>) {
        let (mut same, mut other, mut last_listed, mut is_behind) = (None, None, None, false);
        for slot in self.alternatives(&route) {
            let is_listed = self.slots[slot as usize].is_listed;
            if *self.route(slot) == route {
                if is_listed {
                    return; // the kernel repeats a route if others are added meanwhile
                }
                same = Some(slot);
            } else if is_listed {
                last_listed = Some(slot);
                is_behind |= same.is_some();
            } else {
                other = other.or(Some(slot));
            }
        }
        match (same, other) {
            (Some(place), _) => {
                self.slots[place as usize].is_listed = true;
                if is_behind {
                    let before = last_listed.map(|slot| self.slots[slot as usize].next);
                    self.reorder(place, before.filter(|&next| next != END), report);
                }
            }
            (None, Some(place)) => self.replace(place, route, report),
            (None, None) => self.insert(route, None, report),
        }
    }

    /// Ends the list: removes the routes that it does not have, of those that meet `is_in_scope`.
    pub(super) fn end_list(&mut self, is_in_scope: impl Fn(&KernelRouteEntry) -> bool, report: &mut Report<'_>) {
        self.remove_where(|route, is_listed| !is_listed && is_in_scope(route), report);
    }

    /// Removes the routes that name this next-hop object.
    pub(super) fn remove_users(&mut self, object: u32, report: &mut Report<'_>) {
        let names = |hops: &RouteHops| matches!(hops, RouteHops::Object(id) if id.get() == object);
        self.remove_where(|route, _| names(&route.hops), report);
    }

    fn remove_where(&mut self, condition: impl Fn(&KernelRouteEntry, bool) -> bool, report: &mut Report<'_>) {
        for place in 0..self.slots.len() {
            let slot = &self.slots[place];
            if slot.route.as_ref().is_some_and(|route| condition(route, slot.is_listed)) {
                self.remove(place as u32, report);
            }
        }
    }

    /// Reports the routes that name one of these next-hop objects as changed.
    pub(super) fn report_users(&self, is_changed: impl Fn(u32) -> bool, report: &mut Report<'_>) {
        for route in self.iter() {
            if matches!(route.hops, RouteHops::Object(object) if is_changed(object.get())) {
                self.report(ChangeKind::Changed, route, report);
            }
        }
    }
}

const _: () = assert!(mem::size_of::<Slot>() <= 96);
