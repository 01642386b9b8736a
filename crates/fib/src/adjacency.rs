//! Adjacencies: the neighbours as the fast path sees them.
//!
//! A route names an adjacency, the adjacency says out of which interface and to which link-layer address (RFC 1812 5.2.1:
//! the next hop is found first, then its link-layer address). Every change of a link shows in its version, so a packet
//! that was given a link-layer address in one stage can be checked in a later one.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use units::{AdjacencyId, InterfaceId, Mac};

const RESOLVED: u64 = 1;
const VERSION: u64 = 0xffff;

/// The link of an adjacency at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Link(u64);

impl Link {
    /// Whether the link-layer address is known.
    #[inline(always)]
    pub fn is_resolved(self) -> bool {
        self.0 & RESOLVED != 0
    }

    /// The link-layer address; meaningful where the link is resolved.
    #[inline(always)]
    pub fn mac(self) -> Mac {
        Mac::from_number(self.0 >> 16)
    }

    /// Changes whenever the link does, and comes back to a value after 2^15 changes.
    #[inline(always)]
    pub fn version(self) -> u16 {
        (self.0 & VERSION) as u16
    }

    /// The next version, with this address or none. The same link where nothing changes.
    fn becoming(self, mac: Option<Mac>) -> Link {
        let now = self.is_resolved().then(|| self.mac());
        if now == mac { self } else { self.bumped(mac) }
    }

    fn bumped(self, mac: Option<Mac>) -> Link {
        let version = self.0.wrapping_add(2) & VERSION & !RESOLVED;
        Link(version | mac.map_or(0, |mac| mac.number() << 16 | RESOLVED))
    }
}

// Both words of an entry share a cache line.
#[derive(Default)]
#[repr(align(16))]
struct Entry {
    link: AtomicU64,
    interface: AtomicU32,
}

/// Every adjacency, by id; read without a lock.
pub struct Adjacencies {
    entries: Box<[Entry]>,
}

impl Adjacencies {
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity <= super::Outcome::LIMIT as usize, "an outcome names at most 2^20 adjacencies");
        Adjacencies { entries: std::iter::repeat_with(Entry::default).take(capacity).collect() }
    }

    /// The link now; unresolved for an id that does not exist.
    #[inline(always)]
    pub fn load(&self, id: AdjacencyId) -> Link {
        self.entries.get(id.index()).map_or(Link::default(), |entry| Link(entry.link.load(Ordering::Acquire)))
    }

    /// The interface it sends on; that of id 0 for an id that does not exist. It changes only while the link is
    /// unresolved: see [`Adjacencies::hop`] for both together.
    #[inline(always)]
    pub fn interface(&self, id: AdjacencyId) -> InterfaceId {
        let entry = self.entries.get(id.index());
        InterfaceId(entry.map_or(0, |entry| entry.interface.load(Ordering::Acquire) as u16))
    }

    /// Link and interface of the same moment; an unresolved link where they changed while being read.
    #[inline(always)]
    pub fn hop(&self, id: AdjacencyId) -> (Link, InterfaceId) {
        let link = self.load(id);
        let interface = self.interface(id);
        // An interface is stored between two changes of the link: link, interface and link again in this order see
        // either no change at all or a changed version.
        if self.load(id) == link { (link, interface) } else { (Link::default(), interface) }
    }

    /// How many there can be.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn set(&self, id: AdjacencyId, mac: Option<Mac>) {
        let link = self.load(id).becoming(mac);
        self.entries[id.index()].link.store(link.0, Ordering::Release);
    }

    /// Gives the slot to a next hop of `interface`.
    fn start(&self, id: AdjacencyId, interface: InterfaceId) {
        let entry = &self.entries[id.index()];
        entry.link.store(self.load(id).bumped(None).0, Ordering::Release);
        entry.interface.store(interface.0.into(), Ordering::Release);
        entry.link.store(self.load(id).bumped(None).0, Ordering::Release);
    }
}

/// The writer's side: which next hop has which adjacency, and how many hold it.
///
/// A slot is taken again in the order in which slots were given back, fresh ones first, so that a packet which has read
/// a route but not yet its adjacency is long gone; its version changes in any case.
pub(super) struct Hops {
    slots: Vec<Slot>,
    ids: HashMap<(InterfaceId, IpAddr), AdjacencyId>,
    returned: VecDeque<AdjacencyId>,
    capacity: usize,
    /// Interfaces whose port is down.
    down: HashSet<InterfaceId>,
}

struct Slot {
    interface: InterfaceId,
    address: IpAddr,
    holders: u32,
    /// It was asked and did not answer, and has not been heard of since.
    failed: bool,
}

impl Hops {
    pub fn new(capacity: usize) -> Self {
        Hops { slots: Vec::new(), ids: HashMap::new(), returned: VecDeque::new(), capacity, down: HashSet::new() }
    }

    /// The adjacency of a next hop, held once more; nothing where the table is full.
    pub fn hold(&mut self, interface: InterfaceId, address: IpAddr, links: &Adjacencies) -> Option<AdjacencyId> {
        if let Some(&id) = self.ids.get(&(interface, address)) {
            self.slots[id.index()].holders += 1;
            return Some(id);
        }
        let slot = Slot { interface, address, holders: 1, failed: false };
        let id = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            AdjacencyId::at(self.slots.len() - 1)
        } else {
            let id = self.returned.pop_front()?;
            self.slots[id.index()] = slot;
            id
        };
        links.start(id, interface);
        self.ids.insert((interface, address), id);
        Some(id)
    }

    /// Holds an adjacency once more; false where nobody holds it.
    pub fn hold_again(&mut self, id: AdjacencyId) -> bool {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.holders > 0);
        slot.map(|slot| slot.holders += 1).is_some()
    }

    /// Lets go; the last one frees the slot.
    pub fn release(&mut self, id: AdjacencyId, links: &Adjacencies) {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.holders > 0);
        let slot = slot.unwrap_or_else(|| panic!("adjacency {id} is released more often than it was held"));
        slot.holders -= 1;
        if slot.holders == 0 {
            self.ids.remove(&(slot.interface, slot.address));
            self.returned.push_back(id);
            links.set(id, None);
        }
    }

    /// The id of a next hop somebody holds.
    pub fn id(&self, interface: InterfaceId, address: IpAddr) -> Option<AdjacencyId> {
        self.ids.get(&(interface, address)).copied()
    }

    /// Who an adjacency leads to, as long as somebody holds it.
    pub fn get(&self, id: AdjacencyId) -> Option<(InterfaceId, IpAddr)> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.holders > 0)?;
        Some((slot.interface, slot.address))
    }

    /// Says where the neighbour is, or that it is not known.
    pub fn link(&mut self, id: AdjacencyId, mac: Option<Mac>, links: &Adjacencies) {
        if mac.is_some() {
            self.slots[id.index()].failed = false;
        }
        links.set(id, mac);
    }

    /// It was asked and did not answer.
    pub fn fail(&mut self, id: AdjacencyId) {
        self.slots[id.index()].failed = true;
    }

    /// Whether packets may reach it: it has not failed to answer, and its port is not down.
    pub fn is_usable(&self, id: AdjacencyId) -> bool {
        let slot = self.slots.get(id.index()).filter(|slot| slot.holders > 0);
        slot.is_some_and(|slot| !slot.failed && !self.down.contains(&slot.interface))
    }

    /// Says whether the port of an interface is up. Answers the adjacencies on it, where that is news.
    pub fn set_up(&mut self, interface: InterfaceId, up: bool) -> Vec<AdjacencyId> {
        let news = if up { self.down.remove(&interface) } else { self.down.insert(interface) };
        let on = self.ids.iter().filter(|((on, _), _)| news && *on == interface);
        on.map(|(_, &id)| id).collect()
    }

    /// Marks every adjacency of an interface unresolved.
    pub fn lose(&mut self, interface: InterfaceId, links: &Adjacencies) {
        self.down.remove(&interface);
        for (_, &id) in self.ids.iter().filter(|((of, _), _)| *of == interface) {
            links.set(id, None);
        }
    }

    /// Adjacencies somebody holds.
    pub fn len(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LAN: InterfaceId = InterfaceId(1);
    const WAN: InterfaceId = InterfaceId(2);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn every_change_of_a_link_shows_in_its_version() {
        let links = Adjacencies::new(1);
        let mut hops = Hops::new(1);
        let id = hops.hold(LAN, address(1), &links).unwrap();
        let mut seen = vec![links.load(id).version()];
        let mut expect_change = |links: &Adjacencies| {
            let version = links.load(id).version();
            assert!(!seen.contains(&version), "version {version} was seen before");
            seen.push(version);
        };
        hops.link(id, Some(Mac([2, 0, 0, 0, 0, 1])), &links);
        expect_change(&links);
        hops.link(id, Some(Mac([2, 0, 0, 0, 0, 2])), &links);
        expect_change(&links);
        hops.link(id, None, &links);
        expect_change(&links);
        hops.link(id, Some(Mac([2, 0, 0, 0, 0, 2])), &links);
        expect_change(&links);
        hops.release(id, &links);
        expect_change(&links);
        assert_eq!(hops.hold(WAN, address(9), &links), Some(id));
        expect_change(&links);
        assert_eq!(links.hop(id).1, WAN);
    }

    #[test]
    fn confirming_a_link_changes_nothing() {
        let links = Adjacencies::new(1);
        let mut hops = Hops::new(1);
        let id = hops.hold(LAN, address(1), &links).unwrap();
        hops.link(id, Some(Mac([2, 0, 0, 0, 0, 1])), &links);
        let before = links.load(id);
        hops.link(id, Some(Mac([2, 0, 0, 0, 0, 1])), &links);
        assert_eq!(links.load(id), before);
        assert_eq!((before.mac(), before.is_resolved()), (Mac([2, 0, 0, 0, 0, 1]), true));
    }

    #[test]
    fn a_slot_is_free_when_its_last_holder_lets_go_and_the_longest_free_is_taken_first() {
        let links = Adjacencies::new(3);
        let mut hops = Hops::new(3);
        let ids: Vec<_> = (0..3).map(|n| hops.hold(LAN, address(n), &links).unwrap()).collect();
        assert_eq!(hops.hold(LAN, address(1), &links), Some(ids[1]), "the same next hop is the same adjacency");
        assert_eq!(hops.hold(LAN, address(3), &links), None, "full");
        hops.release(ids[1], &links);
        assert_eq!(hops.get(ids[1]), Some((LAN, address(1))), "still held once");
        hops.release(ids[2], &links);
        hops.release(ids[1], &links);
        assert_eq!((hops.get(ids[1]), hops.len()), (None, 1));
        assert!(!hops.hold_again(ids[1]));
        assert_eq!(hops.hold(WAN, address(1), &links), Some(ids[2]));
        assert_eq!(hops.hold(WAN, address(2), &links), Some(ids[1]));
    }

    #[test]
    fn an_id_that_does_not_exist_is_unresolved() {
        let links = Adjacencies::new(2);
        for id in [AdjacencyId(2), AdjacencyId(u32::MAX)] {
            assert!(!links.load(id).is_resolved() && !links.hop(id).0.is_resolved());
        }
    }
}
