//! Every neighbour of the router: the machines, their deadlines, the packets that wait for them, and the bounds on all
//! of it (RFC 6583: a scan of a large prefix must not push out the neighbours in use).

use super::machine::{Effects, Machine};
use crate::event::NeighbourState;
use packet::{DropReason, Packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use units::{Instant, InterfaceId};

/// Which neighbour: the same address on two links is two of them.
pub(super) type Key = (InterfaceId, IpAddr);

/// A packet that waits for a neighbour.
#[derive(Debug)]
pub(super) enum Waiting {
    /// On its way through: a whole frame, to be forwarded.
    Transit(Packet),
    /// The router's own: an IP packet, still without a link header.
    Own(Packet),
}

impl Waiting {
    pub fn packet(self) -> Packet {
        match self {
            Waiting::Transit(packet) | Waiting::Own(packet) => packet,
        }
    }
}

#[derive(Debug)]
struct Neighbour {
    machine: Machine,
    waiting: VecDeque<Waiting>,
}

/// How much may be remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub neighbours_per_interface: usize,
    pub pending_per_neighbour: usize,
    pub pending: usize,
}

/// The table. Deadlines and the order in which idle neighbours are given up are kept sorted beside it, so that every
/// operation is logarithmic.
#[derive(Debug)]
pub(super) struct Neighbours {
    bounds: Bounds,
    // Ordered and not hashed: whoever chooses the addresses gains nothing, and every run goes the same way.
    entries: BTreeMap<Key, Neighbour>,
    due: BTreeSet<(Instant, Key)>,
    idle: BTreeSet<(InterfaceId, Instant, IpAddr)>,
    counts: BTreeMap<InterfaceId, usize>,
    held: usize,
}

impl Neighbours {
    pub fn new(bounds: Bounds) -> Neighbours {
        Neighbours {
            bounds,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            idle: BTreeSet::new(),
            counts: BTreeMap::new(),
            held: 0,
        }
    }

    pub fn machine(&self, key: Key) -> Option<&Machine> {
        self.entries.get(&key).map(|neighbour| &neighbour.machine)
    }

    /// Every neighbour and how many packets wait for it, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Machine, usize)> {
        self.entries.iter().map(|(&key, neighbour)| (key, &neighbour.machine, neighbour.waiting.len()))
    }

    /// Packets that wait for any neighbour.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(deadline, _)| deadline)
    }

    /// A neighbour whose deadline is over. It stays due until [`Neighbours::step`] has moved its deadline.
    pub fn due(&self, now: Instant) -> Option<Key> {
        self.due.first().filter(|&&(deadline, _)| deadline <= now).map(|&(_, key)| key)
    }

    /// Changes a neighbour's machine; nothing where there is no such neighbour.
    pub fn step(&mut self, key: Key, act: impl FnOnce(&mut Machine) -> Effects) -> Option<Effects> {
        let neighbour = self.entries.get_mut(&key)?;
        let before = neighbour.machine;
        let effects = act(&mut neighbour.machine);
        let after = neighbour.machine;
        self.unsort(key, &before);
        self.sort(key, &after);
        Some(effects)
    }

    /// Remembers one more. Where its interface has as many as it may, an idle one makes room: the oldest. False, and
    /// nothing changed, where none is idle.
    pub fn insert(&mut self, key: Key, machine: Machine) -> bool {
        debug_assert!(!self.entries.contains_key(&key));
        let count = self.counts.get(&key.0).copied().unwrap_or(0);
        if count >= self.bounds.neighbours_per_interface && !self.give_up_idle(key.0) {
            return false;
        }
        *self.counts.entry(key.0).or_insert(0) += 1;
        self.sort(key, &machine);
        self.entries.insert(key, Neighbour { machine, waiting: VecDeque::new() });
        true
    }

    fn give_up_idle(&mut self, interface: InterfaceId) -> bool {
        // An IPv4 address is less than any IPv6 address: this is where the interface's part begins.
        let from = (interface, Instant::START, IpAddr::from([0, 0, 0, 0]));
        let oldest = self.idle.range(from..).next().map(|&(i, _, address)| (i, address));
        match oldest {
            Some(key) if key.0 == interface => {
                // Nothing waits for an idle one: it is either not wanted or refused what wants it.
                self.remove(key).is_some()
            }
            _ => false,
        }
    }

    /// The first neighbour of an interface that was found and not given.
    pub fn found_on(&self, interface: InterfaceId) -> Option<Key> {
        let from = (interface, IpAddr::from([0, 0, 0, 0]));
        let here = self.entries.range(from..).take_while(|((on, _), _)| *on == interface);
        let mut found = here.filter(|(_, neighbour)| neighbour.machine.state != NeighbourState::Static);
        found.next().map(|(&key, _)| key)
    }

    /// Forgets a neighbour; its machine and what waited for it.
    pub fn remove(&mut self, key: Key) -> Option<(Machine, VecDeque<Waiting>)> {
        let neighbour = self.entries.remove(&key)?;
        self.unsort(key, &neighbour.machine);
        if let Some(count) = self.counts.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.0);
            }
        }
        self.held -= neighbour.waiting.len();
        Some((neighbour.machine, neighbour.waiting))
    }

    /// Lets a packet wait. What had to make room for it, or itself where there is none, comes back to be dropped: of
    /// those that wait for the same neighbour the oldest goes (RFC 4861 7.2.2).
    pub fn hold(&mut self, key: Key, waiting: Waiting) -> Option<(Packet, DropReason)> {
        let Some(neighbour) = self.entries.get_mut(&key) else {
            return Some((waiting.packet(), DropReason::NeighbourTable));
        };
        let full = neighbour.waiting.len() >= self.bounds.pending_per_neighbour || self.held >= self.bounds.pending;
        let gone = if full { neighbour.waiting.pop_front() } else { None };
        if full && gone.is_none() {
            return Some((waiting.packet(), DropReason::NeighbourQueue));
        }
        neighbour.waiting.push_back(waiting);
        self.held += usize::from(gone.is_none());
        gone.map(|waiting| (waiting.packet(), DropReason::NeighbourQueue))
    }

    /// The packet that has waited longest for a neighbour.
    pub fn first_waiting(&self, key: Key) -> Option<&Waiting> {
        self.entries.get(&key)?.waiting.front()
    }

    /// Takes the packets that wait for a neighbour, oldest first.
    pub fn take_waiting(&mut self, key: Key) -> VecDeque<Waiting> {
        let waiting = self.entries.get_mut(&key).map(|neighbour| std::mem::take(&mut neighbour.waiting));
        let waiting = waiting.unwrap_or_default();
        self.held -= waiting.len();
        waiting
    }

    fn sort(&mut self, key: Key, machine: &Machine) {
        if machine.deadline != Instant::FAR {
            self.due.insert((machine.deadline, key));
        }
        if machine.is_idle() {
            self.idle.insert((key.0, machine.since, key.1));
        }
    }

    fn unsort(&mut self, key: Key, machine: &Machine) {
        self.due.remove(&(machine.deadline, key));
        self.idle.remove(&(key.0, machine.since, key.1));
    }

    /// Checks that the sorted sets say what the entries say, and that the bounds hold.
    #[cfg(test)]
    pub fn check(&self) {
        let timed = self.entries.values().filter(|n| n.machine.deadline != Instant::FAR).count();
        let idle = self.entries.values().filter(|n| n.machine.is_idle()).count();
        let held: usize = self.entries.values().map(|n| n.waiting.len()).sum();
        assert_eq!((self.due.len(), self.idle.len(), self.held), (timed, idle, held));
        assert_eq!(self.counts.values().sum::<usize>(), self.entries.len());
        assert!(self.held <= self.bounds.pending);
        for (key, neighbour) in &self.entries {
            assert!(neighbour.waiting.len() <= self.bounds.pending_per_neighbour, "{key:?}");
            assert!(neighbour.waiting.is_empty() || neighbour.machine.usable().is_none(), "{key:?} waits for nothing");
        }
        assert!(self.counts.values().all(|&count| count <= self.bounds.neighbours_per_interface));
    }
}
