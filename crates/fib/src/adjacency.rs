//! Adjacencies: the neighbours as the fast path reads them.
//!
//! A route names an adjacency. The adjacency names the interface and the link-layer address (RFC 1812 5.2.1: the next hop is found first, then its
//! link-layer address). Every change of a link changes its version. A later stage can therefore check a link-layer address that an earlier stage
//! read.

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use units::{AdjacencyId, InterfaceId, Mac};

/// In the word of the interface: its port is down.
const DOWN: u32 = 1 << 31;
const RESOLVED: u64 = 1;
const VERSION: u64 = 0xffff;

/// The link of an adjacency at one moment: a link-layer address, or none, and a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkAddress(u64);

impl LinkAddress {
    /// True if the link-layer address is known.
    #[inline(always)]
    pub fn is_resolved(self) -> bool {
        self.0 & RESOLVED != 0
    }

    /// The link-layer address. It is valid only while the link is resolved.
    #[inline(always)]
    pub fn mac(self) -> Mac {
        Mac::from_number(self.0 >> 16)
    }

    /// The version. Every change of the link increments it; it wraps after 2^15 changes.
    #[inline(always)]
    pub fn version(self) -> u16 {
        (self.0 & VERSION) as u16
    }

    /// The link with this address, or with none, in the next version. The same link and version if nothing changes.
    fn with_mac(self, mac: Option<Mac>) -> LinkAddress {
        let now = self.is_resolved().then(|| self.mac());
        if now == mac { self } else { self.next_version(mac) }
    }

    fn next_version(self, mac: Option<Mac>) -> LinkAddress {
        // In steps of two: the lowest bit says that the link is resolved.
        let version = self.0.wrapping_add(2) & VERSION & !RESOLVED;
        LinkAddress(version | mac.map_or(0, |mac| mac.number() << 16 | RESOLVED))
    }
}

// Both words of an entry share a cache line.
#[derive(Default)]
#[repr(align(16))]
struct Entry {
    link: AtomicU64,
    /// The egress interface, and [`DOWN`].
    interface: AtomicU32,
}

/// All adjacencies by id. Readers take no lock.
pub struct Adjacencies {
    entries: Box<[Entry]>,
}

impl Adjacencies {
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity <= super::Outcome::LIMIT as usize, "an outcome names at most 2^20 adjacencies");
        Adjacencies { entries: std::iter::repeat_with(Entry::default).take(capacity).collect() }
    }

    /// The current link. Unresolved for an id that does not exist.
    #[inline(always)]
    pub fn load(&self, id: AdjacencyId) -> LinkAddress {
        self.entries
            .get(id.index())
            .map_or(LinkAddress::default(), |entry| LinkAddress(entry.link.load(Ordering::Acquire)))
    }

    /// The egress interface. For an id that does not exist it is that of id 0. It changes only while the link is unresolved; [`Adjacencies::hop`]
    /// reads both together.
    #[inline(always)]
    pub fn interface(&self, id: AdjacencyId) -> InterfaceId {
        let entry = self.entries.get(id.index());
        InterfaceId(entry.map_or(0, |entry| entry.interface.load(Ordering::Acquire) as u16))
    }

    /// Link and interface of the same moment. The link is unresolved if they changed during the read.
    #[inline(always)]
    pub fn hop(&self, id: AdjacencyId) -> (LinkAddress, InterfaceId) {
        let link = self.load(id);
        let interface = self.interface(id);
        // The writer stores the interface between two changes of the link. Reading link, interface, link in this order therefore shows either no
        // change or a changed version.
        if self.load(id) == link { (link, interface) } else { (LinkAddress::default(), interface) }
    }

    /// True if the port of the next hop is up.
    #[inline(always)]
    pub fn is_up(&self, id: AdjacencyId) -> bool {
        self.entries.get(id.index()).is_some_and(|entry| entry.interface.load(Ordering::Acquire) & DOWN == 0)
    }

    /// The maximum number of adjacencies.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn set(&self, id: AdjacencyId, mac: Option<Mac>) {
        let link = self.load(id).with_mac(mac);
        self.entries[id.index()].link.store(link.0, Ordering::Release);
    }

    /// Sets whether the port of the next hop is up. Writers exclude each other.
    fn set_up(&self, id: AdjacencyId, up: bool) {
        let entry = &self.entries[id.index()];
        let interface = entry.interface.load(Ordering::Acquire) & !DOWN;
        entry.interface.store(interface | if up { 0 } else { DOWN }, Ordering::Release);
    }

    /// Gives the slot to a next hop of `interface`, whose port is up or not.
    fn start(&self, id: AdjacencyId, interface: InterfaceId, up: bool) {
        let entry = &self.entries[id.index()];
        // Two version changes enclose the store: `hop` compares the versions and rejects an interface that it read in between.
        entry.link.store(self.load(id).next_version(None).0, Ordering::Release);
        entry.interface.store(u32::from(interface.0) | if up { 0 } else { DOWN }, Ordering::Release);
        entry.link.store(self.load(id).next_version(None).0, Ordering::Release);
    }
}

/// The writer's side: the adjacency of each next hop, and its number of holders.
///
/// Fresh slots are used first, then released slots in the order of their release. A packet that looked up a route with the old id has left the router
/// long before the id is reused. The version of a reused slot changes in any case.
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
    /// It did not answer a request, and the router has received nothing from it since.
    failed: bool,
}

impl Hops {
    pub fn new(capacity: usize) -> Self {
        Hops { slots: Vec::new(), ids: HashMap::new(), returned: VecDeque::new(), capacity, down: HashSet::new() }
    }

    /// The adjacency of a next hop, with one more holder. `None` if the table is full.
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
        // The version of the slot continues, so packets with the old meaning of the id notice the change.
        links.start(id, interface, !self.down.contains(&interface));
        self.ids.insert((interface, address), id);
        Some(id)
    }

    /// Adds a holder to an adjacency. False if it has none.
    pub fn hold_again(&mut self, id: AdjacencyId) -> bool {
        let slot = self.slots.get_mut(id.index()).filter(|slot| slot.holders > 0);
        slot.map(|slot| slot.holders += 1).is_some()
    }

    /// Removes a holder. The last one frees the slot.
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

    /// The id of a next hop that is in use.
    pub fn id(&self, interface: InterfaceId, address: IpAddr) -> Option<AdjacencyId> {
        self.ids.get(&(interface, address)).copied()
    }

    /// The interface and next hop of an adjacency that is in use.
    pub fn get(&self, id: AdjacencyId) -> Option<(InterfaceId, IpAddr)> {
        let slot = self.slots.get(id.index()).filter(|slot| slot.holders > 0)?;
        Some((slot.interface, slot.address))
    }

    /// Sets the link-layer address of a neighbour, or that it is unknown.
    pub fn link(&mut self, id: AdjacencyId, mac: Option<Mac>, links: &Adjacencies) {
        if mac.is_some() {
            self.slots[id.index()].failed = false;
        }
        links.set(id, mac);
    }

    /// Records that the neighbour did not answer.
    pub fn fail(&mut self, id: AdjacencyId) {
        self.slots[id.index()].failed = true;
    }

    /// True if packets may be sent to it: it has not failed to answer, and its port is up.
    pub fn is_usable(&self, id: AdjacencyId) -> bool {
        let slot = self.slots.get(id.index()).filter(|slot| slot.holders > 0);
        // A link that was never resolved counts as usable: only packets to it start its resolution.
        slot.is_some_and(|slot| !slot.failed && self.is_up(slot.interface))
    }

    /// True if the interface's port is up, or unknown.
    pub fn is_up(&self, interface: InterfaceId) -> bool {
        !self.down.contains(&interface)
    }

    /// Sets the state of an interface's port. Returns the adjacencies on the interface if the state changed.
    pub fn set_up(&mut self, interface: InterfaceId, up: bool, links: &Adjacencies) -> Vec<AdjacencyId> {
        // A set of ports that are down: `insert` and `remove` return true only if the state changed.
        let news = if up { self.down.remove(&interface) } else { self.down.insert(interface) };
        let on = self.ids.iter().filter(|((on, _), _)| news && *on == interface);
        on.map(|(_, &id)| id).inspect(|&id| links.set_up(id, up)).collect()
    }

    /// Marks every adjacency of an interface unresolved.
    pub fn lose(&mut self, interface: InterfaceId, links: &Adjacencies) {
        // Otherwise a later interface with this id would begin with its port down.
        self.down.remove(&interface);
        for (_, &id) in self.ids.iter().filter(|((of, _), _)| *of == interface) {
            links.set(id, None);
        }
    }

    /// The number of adjacencies in use.
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
    fn every_link_change_increments_version() {
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
    fn confirming_a_mac_keeps_version() {
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
    fn released_slots_are_reused_oldest_first() {
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
    fn adjacency_follows_the_state_of_its_port() {
        let links = Adjacencies::new(4);
        let mut hops = Hops::new(4);
        let (lan, wan) = (hops.hold(LAN, address(1), &links).unwrap(), hops.hold(WAN, address(2), &links).unwrap());
        assert_eq!(hops.set_up(LAN, false, &links), [lan]);
        // An adjacency that is made meanwhile, and the others as they were.
        let late = hops.hold(LAN, address(3), &links).unwrap();
        assert_eq!([lan, wan, late].map(|id| links.is_up(id)), [false, true, false]);
        assert_eq!([lan, wan, late].map(|id| links.interface(id)), [LAN, WAN, LAN]);
        assert!(hops.set_up(LAN, false, &links).is_empty(), "it was down");
        hops.set_up(LAN, true, &links);
        assert_eq!([lan, wan, late].map(|id| links.is_up(id)), [true; 3]);
        assert!(!links.is_up(AdjacencyId(4)), "there is none");
    }

    #[test]
    fn unknown_adjacency_is_unresolved() {
        let links = Adjacencies::new(2);
        for id in [AdjacencyId(2), AdjacencyId(u32::MAX)] {
            assert!(!links.load(id).is_resolved() && !links.hop(id).0.is_resolved());
        }
    }
}
