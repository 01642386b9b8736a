//! Next hops, groups of next hops, and the reachability of neighbours.

use super::Tables;
use crate::groups::{BUCKETS, MOST_GROUPS, MOST_MEMBERS, Member};
use std::fmt;
use std::net::IpAddr;
use units::{AdjacencyId, GroupId, InterfaceId, Mac};

/// A next hop of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NextHop {
    /// The interface it is on.
    pub interface: InterfaceId,
    /// Its address.
    pub address: IpAddr,
    /// Its weight: its share of the flows relative to the others; at least 1.
    pub weight: u16,
}

/// A member of a group, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// The next hop.
    pub hop: NextHop,
    /// True if packets may be sent to it: it has not failed to answer, and its port is up.
    pub usable: bool,
    /// The number of its buckets now, out of [`GroupMember::BUCKETS`].
    pub buckets: usize,
}

impl GroupMember {
    /// Buckets of a group.
    pub const BUCKETS: usize = BUCKETS;
}

/// The reason why a group could not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// No next hop, too many next hops, or weights that add up to more than the number of buckets.
    Size,
    /// The maximum number of groups is reached.
    Groups,
    /// No adjacency is left for a next hop.
    Adjacencies,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Size => {
                write!(f, "a group has 1 to {MOST_MEMBERS} next hops with weights of at most {BUCKETS} together")
            }
            GroupError::Groups => {
                write!(f, "there are {MOST_GROUPS} different groups of next hops, the most there can be")
            }
            GroupError::Adjacencies => write!(f, "there is no room for more gateways and neighbours"),
        }
    }
}

impl std::error::Error for GroupError {}

impl Tables {
    /// The adjacency of a next hop, created if necessary. `None` if the table is full. The caller holds it until it calls [`Tables::release`]. Routes
    /// and neighbours that name it hold it independently.
    pub fn adjacency_for(&self, interface: InterfaceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.hops.write().hold(interface, next_hop, &self.adjacencies)
    }

    /// Releases an adjacency. Without a holder its id may be reused for another next hop. Panics if it is released more often than it was held.
    pub fn release(&self, adjacency: AdjacencyId) {
        self.hops.write().release(adjacency, &self.adjacencies);
    }

    /// The interface and next hop of an adjacency that is in use.
    pub fn next_hop(&self, adjacency: AdjacencyId) -> Option<(InterfaceId, IpAddr)> {
        self.hops.read().get(adjacency)
    }

    /// The adjacency of a next hop that is in use.
    pub fn adjacency_of(&self, interface: InterfaceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.hops.read().id(interface, next_hop)
    }

    /// The group of these next hops. A next hop that is listed twice gets the sum of its weights. As many buckets as possible keep the member they
    /// have in the group `from`. The caller holds the group until it calls [`Tables::release_group`].
    pub fn group_for(&self, hops: &[NextHop], from: Option<GroupId>) -> Result<GroupId, GroupError> {
        let mut hops = hops.to_vec();
        // Sorted by interface and address, so that duplicates are adjacent.
        hops.sort_unstable();
        hops.dedup_by(|later, first| {
            let same = (later.interface, later.address) == (first.interface, first.address);
            if same {
                // A saturated sum exceeds `BUCKETS`, so the check below refuses it.
                first.weight = first.weight.saturating_add(later.weight);
            }
            same
        });
        let weights: usize = hops.iter().map(|hop| usize::from(hop.weight)).sum();
        let sized = (1..=MOST_MEMBERS).contains(&hops.len()) && weights <= BUCKETS && hops.iter().all(|h| h.weight > 0);
        if !sized {
            return Err(GroupError::Size);
        }
        let mut table = self.hops.write();
        let mut members = Vec::with_capacity(hops.len());
        for hop in hops {
            match table.hold(hop.interface, hop.address, &self.adjacencies) {
                Some(adjacency) => members.push(Member { adjacency, weight: hop.weight }),
                None => {
                    members.iter().for_each(|member| table.release(member.adjacency, &self.adjacencies));
                    return Err(GroupError::Adjacencies);
                }
            }
        }
        let group = self.members.lock().group(members.clone(), from, &mut table, &self.groups);
        // The group holds its members itself; these holds protected them until now.
        members.iter().for_each(|member| table.release(member.adjacency, &self.adjacencies));
        group.ok_or(GroupError::Groups)
    }

    /// Releases a group. Panics if nothing holds it.
    pub fn release_group(&self, group: GroupId) {
        let mut table = self.hops.write();
        let members = self.members.lock().release(group);
        members.into_iter().for_each(|adjacency| table.release(adjacency, &self.adjacencies));
    }

    /// The members of a group that is in use.
    pub fn members(&self, group: GroupId) -> Vec<GroupMember> {
        let table = self.hops.read();
        let members = self.members.lock().members(group);
        let told = |(member, buckets): (Member, usize)| {
            let (interface, address) = table.get(member.adjacency)?;
            let hop = NextHop { interface, address, weight: member.weight };
            Some(GroupMember { hop, usable: table.is_usable(member.adjacency), buckets })
        };
        members.into_iter().filter_map(told).collect()
    }

    /// The number of groups in use.
    pub fn groups_in_use(&self) -> usize {
        self.members.lock().len()
    }

    /// The number of adjacencies in use.
    pub fn adjacencies_in_use(&self) -> usize {
        self.hops.read().len()
    }

    /// True if a next hop is a member of a group. It must then be resolved even without packets for it: an unusable member receives none.
    pub fn is_member(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let id = self.hops.read().id(interface, address);
        id.is_some_and(|id| self.members.lock().is_member(id))
    }

    /// A neighbour did not answer. Groups leave it out until it is resolved.
    pub fn fail(&self, interface: InterfaceId, address: IpAddr) {
        let mut hops = self.hops.write();
        if let Some(id) = hops.id(interface, address) {
            hops.fail(id);
            self.members.lock().changed(id, &hops, &self.groups);
        }
    }

    /// Sets the state of an interface's port. Groups leave out next hops on a port that is down.
    pub fn set_up(&self, interface: InterfaceId, up: bool) {
        let mut hops = self.hops.write();
        let on = hops.set_up(interface, up, &self.adjacencies);
        let mut members = self.members.lock();
        on.into_iter().for_each(|id| members.changed(id, &hops, &self.groups));
    }

    /// True if the port of an interface is up.
    pub fn is_up(&self, interface: InterfaceId) -> bool {
        self.hops.read().is_up(interface)
    }

    /// Sets the link-layer address of a neighbour. Packets to the neighbour use its adjacency directly if the routes say that it is connected.
    /// Returns false and changes nothing if no adjacency is left.
    #[must_use]
    pub fn resolve(&self, interface: InterfaceId, address: IpAddr, mac: Mac) -> bool {
        let mut state = self.state.lock();
        let mut hops = self.hops.write();
        // A known neighbour holds its adjacency already; a second hold would never be released.
        let known = state.neighbours.contains(&(address, interface));
        let id = if known { hops.id(interface, address) } else { hops.hold(interface, address, &self.adjacencies) };
        let Some(id) = id else { return false };
        let was_usable = hops.is_usable(id);
        hops.link(id, Some(mac), &self.adjacencies);
        // A neighbour that had failed gets its buckets back.
        if !was_usable {
            self.members.lock().changed(id, &hops, &self.groups);
        }
        // The lock is released first: `update_host_route` takes it again.
        drop(hops);
        if state.neighbours.insert((address, interface)) {
            self.update_host_route(&mut state, interface, address);
        }
        true
    }

    /// Forgets the link-layer address of a neighbour. The next packet to it triggers a new resolution.
    pub fn unresolve(&self, interface: InterfaceId, address: IpAddr) {
        let mut state = self.state.lock();
        if !state.neighbours.remove(&(address, interface)) {
            return;
        }
        let mut hops = self.hops.write();
        let id = hops.id(interface, address).expect("a neighbour holds its adjacency");
        hops.link(id, None, &self.adjacencies);
        drop(hops);
        self.update_host_route(&mut state, interface, address);
        self.release(id);
    }
}
