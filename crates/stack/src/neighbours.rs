//! The neighbour table: state machines, timers, waiting packets, and their bounds. By RFC 6583 a scan of a large prefix must neither evict neighbours
//! in use nor keep new ones out.

use super::machine::{Effects, Machine};
use packet::event::NeighbourState;
use packet::{DropReason, Packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use units::{Instant, InterfaceId, Mac, Nanos};

/// The interval at which a message of a neighbour in use is accepted regardless of floods.
const HEARD_EVERY: Nanos = Nanos::millis(20);

/// The key of a neighbour: the same address on two links is two neighbours.
pub(super) type Key = (InterfaceId, IpAddr);

/// A packet that waits for a neighbour.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A forwarded packet: a whole frame.
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
    /// The position in the order of waiting, by the packet that waits here longest.
    turn: u64,
    /// When a message was last accepted because it is in use.
    heard: Instant,
}

/// The bounds of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub neighbours_per_interface: usize,
    pub pending_per_neighbour: usize,
    pub pending: usize,
}

/// The table. Timers and eviction orders are kept in sorted sets, so that every operation is logarithmic.
#[derive(Debug)]
pub(super) struct Neighbours {
    bounds: Bounds,
    // Ordered maps instead of hash tables: chosen addresses cannot degrade them, and runs are repeatable.
    entries: BTreeMap<Key, Neighbour>,
    due: BTreeSet<(Instant, Key)>,
    idle: BTreeSet<(InterfaceId, Instant, IpAddr)>,
    asked: BTreeSet<(InterfaceId, Instant, IpAddr)>,
    /// The neighbours with waiting packets, ordered by when the first of them began to wait.
    turns: BTreeSet<(u64, Key)>,
    next_turn: u64,
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
            asked: BTreeSet::new(),
            turns: BTreeSet::new(),
            next_turn: 0,
            counts: BTreeMap::new(),
            held: 0,
        }
    }

    pub fn machine(&self, key: Key) -> Option<&Machine> {
        self.entries.get(&key).map(|neighbour| &neighbour.machine)
    }

    /// All neighbours with the number of their waiting packets, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &Machine, usize)> {
        self.entries.iter().map(|(&key, neighbour)| (key, &neighbour.machine, neighbour.waiting.len()))
    }

    /// The packets that wait for any neighbour.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The first deadline.
    pub fn next(&self) -> Option<Instant> {
        self.due.first().map(|&(deadline, _)| deadline)
    }

    /// A neighbour whose deadline has passed. It stays due until [`Neighbours::step`] has moved its deadline.
    pub fn due(&self, now: Instant) -> Option<Key> {
        self.due.first().filter(|&&(deadline, _)| deadline <= now).map(|&(_, key)| key)
    }

    /// Changes a neighbour's state machine; none if there is no such neighbour.
    pub fn step(&mut self, key: Key, act: impl FnOnce(&mut Machine) -> Effects) -> Option<Effects> {
        let neighbour = self.entries.get_mut(&key)?;
        let before = neighbour.machine;
        let effects = act(&mut neighbour.machine);
        let after = neighbour.machine;
        // The sorted sets contain the old times: remove them before the new ones are inserted.
        self.unsort(key, &before);
        self.sort(key, &after);
        Some(effects)
    }

    /// Adds a neighbour. False, and nothing changed, if its interface has no room.
    pub fn insert(&mut self, key: Key, machine: Machine) -> bool {
        debug_assert!(!self.entries.contains_key(&key));
        if self.is_full(key.0) {
            return false;
        }
        *self.counts.entry(key.0).or_insert(0) += 1;
        self.sort(key, &machine);
        let (waiting, heard) = (VecDeque::new(), Instant::START);
        self.entries.insert(key, Neighbour { machine, waiting, turn: 0, heard });
        true
    }

    /// True if the interface has no room for another neighbour.
    pub fn is_full(&self, interface: InterfaceId) -> bool {
        self.counts.get(&interface).copied().unwrap_or(0) >= self.bounds.neighbours_per_interface
    }

    /// The neighbours of an interface that may be evicted: idle ones and then, for a `wanted` neighbour, unanswered ones. The oldest come first. A
    /// neighbour that exists answers long before a scan of the prefix has filled the table.
    pub fn spare(&self, interface: InterfaceId, wanted: bool) -> impl Iterator<Item = Key> + '_ {
        // An IPv4 address is less than any IPv6 address: the range of the interface begins here.
        let from = (interface, Instant::START, IpAddr::from([0, 0, 0, 0]));
        let asked = self.asked.range(from..).filter(move |_| wanted);
        let oldest = self.idle.range(from..).take_while(move |(on, ..)| *on == interface);
        oldest.chain(asked.take_while(move |(on, ..)| *on == interface)).map(|&(on, _, address)| (on, address))
    }

    /// True if a message of a neighbour is accepted regardless of floods: an answer to our request, or a message of a neighbour in use, at a limited
    /// rate.
    pub fn is_heard(&mut self, key: Key, mac: Option<Mac>, answers: bool, now: Instant) -> bool {
        let Some(neighbour) = self.entries.get_mut(&key) else { return false };
        if answers && neighbour.machine.is_asked() || neighbour.machine.state == NeighbourState::Incomplete {
            return true;
        }
        let in_use = neighbour.machine.usable().is_some_and(|known| mac.is_none_or(|mac| mac == known));
        let heard = in_use && now >= neighbour.heard + HEARD_EVERY;
        if heard {
            neighbour.heard = now;
        }
        heard
    }

    /// The first dynamic neighbour of an interface.
    pub fn found_on(&self, interface: InterfaceId) -> Option<Key> {
        let from = (interface, IpAddr::from([0, 0, 0, 0]));
        let here = self.entries.range(from..).take_while(|((on, _), _)| *on == interface);
        let mut found = here.filter(|(_, neighbour)| neighbour.machine.state != NeighbourState::Static);
        found.next().map(|(&key, _)| key)
    }

    /// Removes a neighbour and returns its state machine and waiting packets.
    pub fn remove(&mut self, key: Key) -> Option<(Machine, VecDeque<Waiting>)> {
        let neighbour = self.entries.remove(&key)?;
        self.unsort(key, &neighbour.machine);
        self.turns.remove(&(neighbour.turn, key));
        if let Some(count) = self.counts.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.0);
            }
        }
        self.held -= neighbour.waiting.len();
        Some((neighbour.machine, neighbour.waiting))
    }

    /// Holds a packet for a neighbour. Returns a packet to be dropped: one that had to make room, or the packet itself. If too many wait for the same
    /// neighbour, it is the oldest of them (RFC 4861 7.2.2). If too many wait in total, it is the oldest packet of the neighbour with the longest
    /// wait, which is the least likely to answer.
    pub fn hold(&mut self, key: Key, waiting: Waiting) -> Option<(Packet, DropReason)> {
        let Some(neighbour) = self.entries.get(&key) else {
            return Some((waiting.packet(), DropReason::NeighbourTable));
        };
        let gone = if neighbour.waiting.len() >= self.bounds.pending_per_neighbour {
            self.pop_waiting(key)
        } else if self.held >= self.bounds.pending {
            self.turns.first().map(|&(_, longest)| longest).and_then(|longest| self.pop_waiting(longest))
        } else {
            None
        };
        let neighbour = self.entries.get_mut(&key)?;
        // The first packet that waits for this neighbour sets its position in the order of waiting.
        if neighbour.waiting.is_empty() {
            self.next_turn += 1;
            neighbour.turn = self.next_turn;
            self.turns.insert((neighbour.turn, key));
        }
        neighbour.waiting.push_back(waiting);
        self.held += 1;
        gone.map(|waiting| (waiting.packet(), DropReason::NeighbourQueue))
    }

    fn pop_waiting(&mut self, key: Key) -> Option<Waiting> {
        let neighbour = self.entries.get_mut(&key)?;
        let waiting = neighbour.waiting.pop_front()?;
        self.held -= 1;
        if neighbour.waiting.is_empty() {
            self.turns.remove(&(neighbour.turn, key));
        }
        Some(waiting)
    }

    /// The packet that has waited longest for a neighbour.
    pub fn first_waiting(&self, key: Key) -> Option<&Waiting> {
        self.entries.get(&key)?.waiting.front()
    }

    /// Removes the packets that wait for a neighbour, oldest first.
    pub fn take_waiting(&mut self, key: Key) -> VecDeque<Waiting> {
        let Some(neighbour) = self.entries.get_mut(&key) else { return VecDeque::new() };
        let waiting = std::mem::take(&mut neighbour.waiting);
        self.turns.remove(&(neighbour.turn, key));
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
        if machine.state == NeighbourState::Incomplete {
            self.asked.insert((key.0, machine.since, key.1));
        }
    }

    fn unsort(&mut self, key: Key, machine: &Machine) {
        self.due.remove(&(machine.deadline, key));
        self.idle.remove(&(key.0, machine.since, key.1));
        self.asked.remove(&(key.0, machine.since, key.1));
    }

    /// Checks that the sorted sets agree with the entries, and that the bounds hold.
    #[cfg(test)]
    pub fn check(&self) {
        let timed = self.entries.values().filter(|n| n.machine.deadline != Instant::FAR).count();
        let idle = self.entries.values().filter(|n| n.machine.is_idle()).count();
        let held: usize = self.entries.values().map(|n| n.waiting.len()).sum();
        let asked = self.entries.values().filter(|n| n.machine.state == NeighbourState::Incomplete).count();
        let awaited = self.entries.values().filter(|n| !n.waiting.is_empty()).count();
        assert_eq!((self.due.len(), self.idle.len(), self.held), (timed, idle, held));
        assert_eq!((self.asked.len(), self.turns.len()), (asked, awaited));
        assert_eq!(self.counts.values().sum::<usize>(), self.entries.len());
        assert!(self.held <= self.bounds.pending);
        for (key, neighbour) in &self.entries {
            assert!(neighbour.waiting.len() <= self.bounds.pending_per_neighbour, "{key:?}");
            assert!(neighbour.waiting.is_empty() || neighbour.machine.usable().is_none(), "{key:?} waits for nothing");
        }
        assert!(self.counts.values().all(|&count| count <= self.bounds.neighbours_per_interface));
    }
}
