//! A copy of the kernel's tables that follows their changes.

use super::table_state::{Report, Suspects, TableState};
use super::watch::{KernelGroup, KernelWatch};
use super::{
    KernelAddress, KernelChange, KernelError, KernelLink, KernelNeighbourEntry, KernelNextHop, KernelRule, Netlink,
    ResolvedRoute,
};
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

pub use super::table_state::FollowedTables;

/// Bytes of notifications that may be queued: 80000 of them, which a routing daemon sends in half a second.
const BACKLOG: u32 = 64 << 20;
/// Rounds of lists and notifications in one update. Each beyond the first follows an overrun, or a change that the kernel did not report.
const MOST_ROUNDS: usize = 4;
/// Lists of the routes, if routes are removed while the kernel lists them. The same route is hardly left out of each.
const MOST_LISTS: usize = 3;
/// A list of all routes takes less time than one for each of more links.
const MOST_LINKS: usize = 8;

/// The result of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpdateResult {
    /// The tables are those of the kernel, up to notifications that are still queued. Otherwise call [`KernelTables::update`] again.
    pub is_complete: bool,
    /// More notifications may be queued.
    pub has_more: bool,
}

/// The kernel's links, addresses, neighbours, rules and routes of one network namespace: that of the thread that opened this.
///
/// Lists and notifications are combined without a gap: the notifications begin before the first list. When notifications are lost, new lists are
/// compared with the tables, and only differences are reported. The kernel changes some routes without a notification: it removes the IPv4 routes of a
/// link that is set down or loses its last address, and next-hop objects with their routes. After each cause of such changes the routes and objects
/// concerned are listed again.
///
/// The flags [`super::HopFlags::is_dead`] and [`super::HopFlags::is_link_down`] are left out: they follow from the state of the link, which is reported
/// once. Neighbours under resolution and those without ([`super::KernelNeighbourState::NoArp`]) are left out, because the kernel reports neither of them. Routes
/// that differ only in properties that [`super::KernelRouteEntry`] does not have are one route.
#[derive(Debug)]
pub struct KernelTables {
    netlink: Netlink,
    watch: KernelWatch,
    state: TableState,
    /// All tables must be listed.
    is_stale: bool,
    overruns: u64,
}

impl KernelTables {
    /// Opens it with empty tables. The first update lists all objects. Needs no privilege, but without CAP_NET_ADMIN more notifications are lost.
    pub fn open(followed: FollowedTables) -> Result<Self, KernelError> {
        Self::open_with_backlog(followed, BACKLOG)
    }

    /// As [`KernelTables::open`], with this number of bytes of notifications that may be queued.
    pub fn open_with_backlog(followed: FollowedTables, backlog: u32) -> Result<Self, KernelError> {
        let watch = KernelWatch::open(&KernelGroup::ALL, backlog)?;
        let state = TableState::new(followed);
        Ok(KernelTables { netlink: Netlink::open()?, watch, state, is_stale: true, overruns: 0 })
    }

    /// Brings the tables up to date, and passes each difference to `each`. Waits only for answers of the kernel; the descriptor is readable if there
    /// are changes. After an error call it again: the next update lists all objects.
    pub fn update(&mut self, mut each: impl FnMut(KernelChange<'_>)) -> Result<UpdateResult, KernelError> {
        let result = self.run(&mut each);
        self.is_stale |= result.is_err();
        result
    }

    /// Makes the next update list all objects and report the differences. No event calls for it. It corrects two rare errors. A route is missing if other
    /// routes were removed during each list and the kernel left it out each time. A route is wrong if the kernel replaced it during a list, removed the
    /// new one, and has another with the same destination and metric.
    pub fn verify(&mut self) {
        self.is_stale = true;
    }

    /// The number of times that notifications were lost.
    pub fn overruns(&self) -> u64 {
        self.overruns
    }

    fn run(&mut self, each: &mut Report<'_>) -> Result<UpdateResult, KernelError> {
        let mut has_more = true;
        for _ in 0..MOST_ROUNDS {
            if mem::take(&mut self.is_stale) {
                self.list_all(each)?;
            } else if !self.state.suspects.is_empty() {
                self.list_suspects(each)?;
            }
            has_more = self.read_changes(each)?;
            if !self.is_stale && self.state.suspects.is_empty() {
                break;
            }
        }
        let is_complete = !self.is_stale && self.state.suspects.is_empty();
        Ok(UpdateResult { is_complete, has_more })
    }

    /// Applies the queued notifications. Returns true if there may be more.
    fn read_changes(&mut self, each: &mut Report<'_>) -> Result<bool, KernelError> {
        let Self { watch, state, .. } = self;
        let read = watch.changes(|notification| state.apply(notification, each));
        let read = read.map_err(|error| KernelError::new("watching", "the kernel's tables", error))?;
        if read.is_incomplete {
            self.is_stale = true;
            self.overruns += 1;
        }
        self.state.report_changed_next_hops(each);
        Ok(read.has_more)
    }

    fn list_all(&mut self, each: &mut Report<'_>) -> Result<(), KernelError> {
        // The lists are newer than the queued notifications. Those of old states could only mislead.
        let dropped = self.watch.changes(drop);
        dropped.map_err(|error| KernelError::new("watching", "the kernel's tables", error))?;
        self.state.suspects = Suspects::default();
        let (links, addresses) = (self.netlink.links()?, self.netlink.addresses()?);
        let (neighbours, rules) = (self.netlink.neighbours()?, self.netlink.rules()?);
        self.state.reconcile_objects(links, addresses, neighbours, rules, each);
        self.list_next_hops(each)?;
        self.list_routes(false, None, each)?;
        self.list_routes(true, None, each)
    }

    /// Lists the routes and objects that the kernel may have changed without a notification.
    fn list_suspects(&mut self, each: &mut Report<'_>) -> Result<(), KernelError> {
        let mut suspects = mem::take(&mut self.state.suspects);
        if suspects.has_next_hops {
            self.list_next_hops(each)?;
        }
        if !suspects.sources.is_empty() {
            for route in self.state.routes.iter() {
                if route.preferred_source.is_some_and(|source| suspects.sources.contains(&source)) {
                    let hops = self.state.next_hops.resolve(route).hops;
                    suspects.links[0].extend(hops.iter().filter_map(|hop| hop.link).map(u32::from));
                }
            }
        }
        for (family, links) in suspects.links.into_iter().enumerate() {
            let is_ipv6 = family == 1;
            if suspects.is_whole[family] || links.len() > MOST_LINKS {
                self.list_routes(is_ipv6, None, each)?;
                continue;
            }
            for link in links {
                self.list_routes(is_ipv6, Some(link), each)?;
            }
        }
        Ok(())
    }

    fn list_next_hops(&mut self, each: &mut Report<'_>) -> Result<(), KernelError> {
        self.netlink.wait_for_change()?;
        let listed = self.netlink.next_hops()?;
        self.state.reconcile_next_hops(listed, each);
        Ok(())
    }

    /// Lists the routes of a family, with a hop on one link if given.
    fn list_routes(&mut self, is_ipv6: bool, link: Option<u32>, each: &mut Report<'_>) -> Result<(), KernelError> {
        let family = (if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET }) as u8;
        let tables = match &self.state.followed {
            FollowedTables::Only(tables) if link.is_none() => tables.iter().copied().map(Some).collect(),
            // The kernel examines all routes in any case.
            _ => vec![None],
        };
        self.state.routes.begin_list();
        for _ in 0..MOST_LISTS {
            self.netlink.wait_for_change()?;
            let removals = self.state.removals[usize::from(is_ipv6)];
            for &table in &tables {
                let Self { netlink, state, .. } = self;
                netlink.routes_of_family(family, table, link, &mut |route| state.list_route(route, each))?;
            }
            // When routes are removed meanwhile, the kernel continues the list at a wrong place and leaves out as many. The lists are merged.
            self.read_changes(each)?;
            if self.is_stale {
                return Ok(());
            }
            if removals == self.state.removals[usize::from(is_ipv6)] {
                break;
            }
        }
        self.state.end_route_list(is_ipv6, link, each);
        Ok(())
    }

    /// The links, by their indexes.
    pub fn links(&self) -> impl Iterator<Item = &KernelLink> {
        self.state.links.values()
    }

    /// The addresses, by the indexes of their links.
    pub fn addresses(&self) -> impl Iterator<Item = &KernelAddress> {
        self.state.addresses.values()
    }

    /// The neighbours, by the indexes of their links.
    pub fn neighbours(&self) -> impl Iterator<Item = &KernelNeighbourEntry> {
        self.state.neighbours.values()
    }

    /// The rules, IPv4 first, in the order in which the kernel tries them.
    pub fn rules(&self) -> &[KernelRule] {
        &self.state.rules
    }

    /// The next-hop objects, by their ids.
    pub fn next_hops(&self) -> impl Iterator<Item = &KernelNextHop> {
        self.state.next_hops.iter()
    }

    /// The routes of the followed tables, in no order.
    pub fn routes(&self) -> impl Iterator<Item = ResolvedRoute<'_>> {
        self.state.routes.iter().map(|route| self.state.next_hops.resolve(route))
    }

    /// The number of routes.
    pub fn route_count(&self) -> usize {
        self.state.routes.len()
    }

    /// The route that the kernel uses for this destination prefix in this table. See [`KernelChange::Route`].
    pub fn effective_route(&self, table: u32, destination: IpAddr, prefix: u8) -> Option<ResolvedRoute<'_>> {
        let route = self.state.routes.effective((table, destination, prefix))?;
        Some(self.state.next_hops.resolve(route))
    }
}

impl AsFd for KernelTables {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}
