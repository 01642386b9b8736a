//! Groups of next hops that share a route's packets by flow (equal-cost multipath).
//!
//! A group is a fixed number of buckets, each of which names an adjacency. The hash of a packet's flow selects the bucket, so a flow stays with its
//! next hop as long as its bucket does (RFC 2992 explains why flows are spread and not packets). Changes move as few buckets as possible, unlike RFC
//! 2992's hash-threshold. Switches call this resilient hashing:
//!
//! - If a member fails or its port goes down, its buckets are divided among the other members. No other bucket moves. When the member recovers, it
//!   gets exactly these buckets back.
//! - If a group is made from another one ([`Members::group`] with `from`), the buckets of removed members move. A new member gets its share. No other
//!   bucket moves.
//!
//! Groups with the same members and the same buckets are stored once: a million routes over the same next hops cost one table of two kilobytes.

use super::adjacency::Hops;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use units::{AdjacencyId, GroupId};

/// Buckets of a group. Each of 64 members of equal weight has eight.
pub(super) const BUCKETS: usize = 512;
/// Bits of a flow's hash that do not select the bucket.
const UNUSED: u32 = 32 - BUCKETS.trailing_zeros();
/// The maximum number of members of a group.
pub(super) const MOST_MEMBERS: usize = 64;
/// The maximum number of groups.
pub(super) const MOST_GROUPS: usize = 4096;

#[repr(align(64))]
struct Buckets([AtomicU32; BUCKETS]);

/// All groups by id. Readers take no lock.
pub struct Groups(Box<[OnceLock<Box<Buckets>>]>);

impl Groups {
    pub(super) fn new() -> Groups {
        Groups((0..MOST_GROUPS).map(|_| OnceLock::new()).collect())
    }

    /// The group member that a flow uses. An invalid adjacency if the group does not exist.
    #[inline]
    pub fn pick(&self, group: GroupId, flow: u32) -> AdjacencyId {
        let buckets = self.0.get(group.index()).and_then(OnceLock::get);
        // Nine bits are left, so the index needs no bounds check.
        let bucket = buckets.map(|buckets| &buckets.0[(flow >> UNUSED) as usize]);
        // Above the 2^20 adjacencies, so it is unresolved for every reader.
        AdjacencyId(bucket.map_or(u32::MAX, |bucket| bucket.load(Ordering::Acquire)))
    }

    /// The member of each bucket of a group, in order.
    pub fn picks(&self, group: GroupId) -> impl Iterator<Item = AdjacencyId> + '_ {
        let buckets = self.0.get(group.index()).and_then(OnceLock::get).into_iter().flat_map(|buckets| &buckets.0);
        buckets.map(|bucket| AdjacencyId(bucket.load(Ordering::Acquire)))
    }

    fn write(&self, group: GroupId, bucket: usize, member: AdjacencyId) {
        let make = || Box::new(Buckets([const { AtomicU32::new(u32::MAX) }; BUCKETS]));
        self.0[group.index()].get_or_init(make).0[bucket].store(member.0, Ordering::Release);
    }

    /// Bytes of memory used.
    pub fn bytes(&self) -> usize {
        let made = self.0.iter().filter(|slot| slot.get().is_some()).count();
        size_of_val(&*self.0) + made * size_of::<Buckets>()
    }
}

/// A member of a group: its adjacency and its weight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Member {
    pub adjacency: AdjacencyId,
    pub weight: u16,
}

/// The identity of a group: its sorted members, and the member that owns each bucket.
type Content = (Box<[Member]>, Box<[u8; BUCKETS]>);

struct Group {
    members: Box<[Member]>,
    /// The member that owns each bucket.
    owners: Box<[u8; BUCKETS]>,
    /// The member that each bucket sends to now.
    now: Box<[u8; BUCKETS]>,
    holders: u32,
}

/// The writer's side: all groups and their members. A group holds each of its members.
///
/// Fresh ids are used first, then released ids in the order of their release. A packet that looked up a route with the old id has left the router
/// long before the id is reused.
#[derive(Default)]
pub(super) struct Members {
    groups: Vec<Option<Group>>,
    ids: HashMap<Content, GroupId>,
    returned: VecDeque<GroupId>,
    groups_of: HashMap<AdjacencyId, Vec<GroupId>>,
}

impl Members {
    /// The group of `members`, whose adjacencies differ, with one more holder. `None` if there are too many groups. A new group holds its adjacencies
    /// and keeps as many buckets of `from` in place as the shares allow.
    pub fn group(
        &mut self,
        mut members: Vec<Member>,
        from: Option<GroupId>,
        hops: &mut Hops,
        groups: &Groups,
    ) -> Option<GroupId> {
        assert!((1..=MOST_MEMBERS).contains(&members.len()), "members are bounded where they are read");
        assert!(members.iter().map(|m| usize::from(m.weight)).sum::<usize>() <= BUCKETS, "so are their weights");
        // Sorted, so that equal groups have equal contents in `ids`.
        members.sort_unstable();
        let before = from.and_then(|id| self.groups.get(id.index())?.as_ref());
        let home = match before {
            Some(group) if *group.members == *members => group.owners.clone(),
            before => assign(&members, before.map(|group| (&*group.members, &*group.owners))),
        };
        let content = (members.into_boxed_slice(), home);
        if let Some(&id) = self.ids.get(&content) {
            self.slot(id).holders += 1;
            return Some(id);
        }
        let id = if self.groups.len() < MOST_GROUPS {
            self.groups.push(None);
            GroupId::at(self.groups.len() - 1)
        } else {
            // Before anything is held, so that nothing has to be undone.
            self.returned.pop_front()?
        };
        for member in &content.0 {
            assert!(hops.hold_again(member.adjacency), "who makes a group holds its members");
            self.groups_of.entry(member.adjacency).or_default().push(id);
        }
        let (members, home) = content.clone();
        self.groups[id.index()] = Some(Group { members, now: home.clone(), owners: home, holders: 1 });
        self.ids.insert(content, id);
        // The group's buckets name its owners first, so that readers find a complete table. `deal` then moves the buckets of unusable members.
        self.slot(id).publish(id, groups);
        self.slot(id).deal(id, hops, groups);
        Some(id)
    }

    fn slot(&mut self, id: GroupId) -> &mut Group {
        self.groups[id.index()].as_mut().expect("whoever names a group holds it")
    }

    /// Adds a holder to a group. False if the group does not exist.
    pub fn hold_again(&mut self, id: GroupId) -> bool {
        let group = self.groups.get_mut(id.index()).and_then(Option::as_mut);
        group.map(|group| group.holders += 1).is_some()
    }

    /// Removes a holder. The last one deletes the group. Returns the adjacencies that the group held; the caller releases them.
    pub fn release(&mut self, id: GroupId) -> Vec<AdjacencyId> {
        let group = self.slot(id);
        group.holders -= 1;
        if group.holders > 0 {
            return Vec::new();
        }
        let Some(group) = self.groups[id.index()].take() else { return Vec::new() };
        let held: Vec<AdjacencyId> = group.members.iter().map(|member| member.adjacency).collect();
        for adjacency in &held {
            if let Some(of) = self.groups_of.get_mut(adjacency) {
                of.retain(|&other| other != id);
                // Adjacencies without groups have no entry: `is_member` relies on it.
                if of.is_empty() {
                    self.groups_of.remove(adjacency);
                }
            }
        }
        self.ids.remove(&(group.members, group.owners));
        self.returned.push_back(id);
        held
    }

    /// True if an adjacency is a member of any group.
    pub fn is_member(&self, adjacency: AdjacencyId) -> bool {
        self.groups_of.contains_key(&adjacency)
    }

    /// An adjacency has become usable or unusable.
    pub fn changed(&mut self, adjacency: AdjacencyId, hops: &Hops, groups: &Groups) {
        for id in self.groups_of.get(&adjacency).cloned().unwrap_or_default() {
            self.slot(id).deal(id, hops, groups);
        }
    }

    /// The members of a group, with the number of buckets that each has now.
    pub fn members(&self, id: GroupId) -> Vec<(Member, usize)> {
        let Some(Some(group)) = self.groups.get(id.index()) else { return Vec::new() };
        let buckets = |n: usize| group.now.iter().filter(|&&member| usize::from(member) == n).count();
        group.members.iter().enumerate().map(|(n, member)| (*member, buckets(n))).collect()
    }

    /// The number of groups in use.
    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

impl Group {
    fn publish(&self, id: GroupId, groups: &Groups) {
        for (bucket, &member) in self.now.iter().enumerate() {
            groups.write(id, bucket, self.members[usize::from(member)].adjacency);
        }
    }

    /// Gives every bucket to its owner if that is usable, otherwise to a usable member. If none is usable, nothing moves: packets then trigger the
    /// resolution of their neighbours.
    fn deal(&mut self, id: GroupId, hops: &Hops, groups: &Groups) {
        let usable: Vec<bool> = self.members.iter().map(|member| hops.is_usable(member.adjacency)).collect();
        if !usable.contains(&true) {
            return;
        }
        let mut moved = Vec::new();
        let mut orphans = Vec::new();
        for bucket in 0..BUCKETS {
            let (home, now) = (self.owners[bucket], self.now[bucket]);
            if usable[usize::from(home)] {
                if home != now {
                    moved.push((bucket, home));
                }
            } else if !usable[usize::from(now)] {
                // A substitute that is still usable keeps the bucket, so that its flows do not move again.
                orphans.push(bucket);
            }
        }
        // Usable owners get their buckets back before the shares are counted for the orphans.
        for &(bucket, member) in &moved {
            self.now[bucket] = member;
        }
        let weights: Vec<u16> =
            self.members.iter().zip(&usable).map(|(member, usable)| if *usable { member.weight } else { 0 }).collect();
        let mut shares = Shares::of(&weights, self.now.iter().copied());
        for bucket in orphans {
            // `shares` counts an orphan's bucket for its unusable owner, which has weight zero here and gets none.
            let member = shares.neediest();
            self.now[bucket] = member;
            moved.push((bucket, member));
        }
        for (bucket, member) in moved {
            groups.write(id, bucket, self.members[usize::from(member)].adjacency);
        }
    }
}

/// The target share and the current number of buckets of each member.
struct Shares {
    weights: Vec<i64>,
    total: i64,
    counts: Vec<i64>,
}

impl Shares {
    fn of(weights: &[u16], owners: impl Iterator<Item = u8>) -> Shares {
        let weights: Vec<i64> = weights.iter().map(|&weight| weight.into()).collect();
        let mut counts = vec![0; weights.len()];
        owners.for_each(|owner| counts[usize::from(owner)] += 1);
        Shares { total: weights.iter().sum(), weights, counts }
    }

    /// The buckets that a member lacks, times the sum of the weights. Integers keep the comparison exact.
    fn lacks(&self, member: usize) -> i64 {
        self.weights[member] * BUCKETS as i64 - self.counts[member] * self.total
    }

    /// Adds a bucket to the member that lacks most, the first of equals. Members of weight zero get none.
    fn neediest(&mut self) -> u8 {
        let weighty = (0..self.weights.len()).filter(|&member| self.weights[member] > 0);
        let neediest = weighty.max_by_key(|&member| (self.lacks(member), std::cmp::Reverse(member)));
        let neediest = neediest.expect("a member has a weight");
        self.counts[neediest] += 1;
        neediest as u8
    }

    /// Moves as few buckets as necessary to bring every member within one bucket of its share.
    fn even_out(&mut self, home: &mut [u8; BUCKETS]) {
        loop {
            let members = 0..self.weights.len();
            let poorest = members.clone().max_by_key(|&member| self.lacks(member)).expect("a group has members");
            let richest = members.min_by_key(|&member| (self.lacks(member), member)).expect("a group has members");
            // A bucket moves only if this brings both members nearer to their shares. The weights add up to at most the number of buckets, so a
            // member without a bucket lacks at least one whole bucket, and gets one.
            if self.lacks(poorest) - self.lacks(richest) <= self.total {
                return;
            }
            let bucket = home.iter().position(|&owner| usize::from(owner) == richest).expect("the richest has one");
            home[bucket] = poorest as u8;
            self.counts[richest] -= 1;
            self.counts[poorest] += 1;
        }
    }
}

/// The owner of each bucket: by weight, and as `before` as far as the weights allow.
fn assign(members: &[Member], before: Option<(&[Member], &[u8; BUCKETS])>) -> Box<[u8; BUCKETS]> {
    const NOBODY: u8 = u8::MAX;
    let place = |adjacency| members.iter().position(|member| member.adjacency == adjacency);
    let mut home = Box::new([NOBODY; BUCKETS]);
    let mut only_left = false;
    if let Some((old, owners)) = before {
        let kept: Vec<Option<usize>> = old.iter().map(|member| place(member.adjacency)).collect();
        for (bucket, &owner) in owners.iter().enumerate() {
            // By adjacency: a member whose weight has changed keeps its buckets at first.
            home[bucket] = kept[usize::from(owner)].map_or(NOBODY, |member| member as u8);
        }
        only_left = members.iter().all(|member| old.contains(member));
    }
    let weights: Vec<u16> = members.iter().map(|member| member.weight).collect();
    let mut shares = Shares::of(&weights, home.iter().copied().filter(|&owner| owner != NOBODY));
    for owner in home.iter_mut().filter(|owner| **owner == NOBODY) {
        *owner = shares.neediest();
    }
    // If members were only removed, the others keep all their buckets, even one more than their share.
    if !only_left {
        shares.even_out(&mut home);
    }
    home
}

#[cfg(test)]
mod tests;
