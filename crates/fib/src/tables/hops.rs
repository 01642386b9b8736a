//! Next hops, groups of them, and neighbours: who is where, and who can be reached.

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
    /// Its share of the flows, compared to the others'; at least 1.
    pub weight: u16,
}

/// A member of a group, for people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupMember {
    /// Who it is.
    pub hop: NextHop,
    /// Whether packets may reach it: it has not failed to answer, and its port is not down.
    pub usable: bool,
    /// Buckets it has now, of [`GroupMember::BUCKETS`].
    pub buckets: usize,
}

impl GroupMember {
    /// Buckets of a group.
    pub const BUCKETS: usize = BUCKETS;
}

/// Why there is no group of some next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// No next hop, more than a group can have, or weights that add up to more than it has buckets.
    Size,
    /// As many groups as there can be.
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
    /// The adjacency of a next hop, made if there is none; nothing where the table is full. The caller holds it until
    /// it calls [`Tables::release`]; routes that name it and the neighbour hold it for themselves.
    pub fn adjacency_for(&self, interface: InterfaceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.hops.write().hold(interface, next_hop, &self.adjacencies)
    }

    /// Lets an adjacency go; when nobody holds it any more its id may come to mean another next hop. Panics where it is
    /// released more often than it was held.
    pub fn release(&self, adjacency: AdjacencyId) {
        self.hops.write().release(adjacency, &self.adjacencies);
    }

    /// The interface and next hop of an adjacency, as long as somebody holds it.
    pub fn next_hop(&self, adjacency: AdjacencyId) -> Option<(InterfaceId, IpAddr)> {
        self.hops.read().get(adjacency)
    }

    /// The group of these next hops; one that is named twice has the sum of its weights. As many buckets as can be are
    /// where they are in the group `from`. The caller holds it until it calls [`Tables::release_group`].
    pub fn group_for(&self, hops: &[NextHop], from: Option<GroupId>) -> Result<GroupId, GroupError> {
        let mut hops = hops.to_vec();
        hops.sort_unstable();
        hops.dedup_by(|later, first| {
            let same = (later.interface, later.address) == (first.interface, first.address);
            if same {
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
        // The group holds its members for itself.
        members.iter().for_each(|member| table.release(member.adjacency, &self.adjacencies));
        group.ok_or(GroupError::Groups)
    }

    /// Lets a group go.
    pub fn release_group(&self, group: GroupId) {
        let mut table = self.hops.write();
        let members = self.members.lock().release(group);
        members.into_iter().for_each(|adjacency| table.release(adjacency, &self.adjacencies));
    }

    /// The members of a group, as long as somebody holds it.
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

    /// Groups somebody holds.
    pub fn groups_held(&self) -> usize {
        self.members.lock().len()
    }

    /// Adjacencies somebody holds.
    pub fn adjacencies_held(&self) -> usize {
        self.hops.read().len()
    }

    /// Whether a next hop is a member of a group: it is to be asked also when no packet wants to go there, for none
    /// will while it is left out.
    pub fn is_member(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let id = self.hops.read().id(interface, address);
        id.is_some_and(|id| self.members.lock().is_member(id))
    }

    /// A neighbour was asked and did not answer: groups leave it out until it is resolved.
    pub fn fail(&self, interface: InterfaceId, address: IpAddr) {
        let mut hops = self.hops.write();
        if let Some(id) = hops.id(interface, address) {
            hops.fail(id);
            self.members.lock().changed(id, &hops, &self.groups);
        }
    }

    /// The port of an interface is up, or down: then groups leave its next hops out.
    pub fn set_up(&self, interface: InterfaceId, up: bool) {
        let mut hops = self.hops.write();
        let on = hops.set_up(interface, up);
        let mut members = self.members.lock();
        on.into_iter().for_each(|id| members.changed(id, &hops, &self.groups));
    }

    /// A neighbour's link-layer address is known: its adjacency leads there, and packets to it go straight to it where
    /// the routes say that it is connected. False where no adjacency is left, and nothing is changed.
    #[must_use]
    pub fn resolve(&self, interface: InterfaceId, address: IpAddr, mac: Mac) -> bool {
        let mut state = self.state.lock();
        let mut hops = self.hops.write();
        let known = state.neighbours.contains(&(address, interface));
        let id = if known { hops.id(interface, address) } else { hops.hold(interface, address, &self.adjacencies) };
        let Some(id) = id else { return false };
        let was_usable = hops.is_usable(id);
        hops.link(id, Some(mac), &self.adjacencies);
        if !was_usable {
            self.members.lock().changed(id, &hops, &self.groups);
        }
        drop(hops);
        if state.neighbours.insert((address, interface)) {
            self.reconsider_host(&mut state, interface, address);
        }
        true
    }

    /// A neighbour's link-layer address is known no longer. Packets to it are asked about again.
    pub fn unresolve(&self, interface: InterfaceId, address: IpAddr) {
        let mut state = self.state.lock();
        if !state.neighbours.remove(&(address, interface)) {
            return;
        }
        let mut hops = self.hops.write();
        let id = hops.id(interface, address).expect("a neighbour holds its adjacency");
        hops.link(id, None, &self.adjacencies);
        drop(hops);
        self.reconsider_host(&mut state, interface, address);
        self.release(id);
    }
}
