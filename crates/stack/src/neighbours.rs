//! The neighbour table: state machines, timers, waiting packets, and their bounds. By RFC 6583 a scan of a large prefix must neither evict neighbours
//! in use nor keep new ones out.

use super::nud::{NudActions, NudState};
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
pub(super) enum HeldPacket {
    /// A forwarded packet: a whole frame.
    Transit(Packet),
    /// The router's own: an IP packet, still without a link header.
    Own(Packet),
}

impl HeldPacket {
    pub fn packet(self) -> Packet {
        match self {
            HeldPacket::Transit(packet) | HeldPacket::Own(packet) => packet,
        }
    }
}

#[derive(Debug)]
struct Neighbour {
    nud: NudState,
    held: VecDeque<HeldPacket>,
    /// The position in the order of waiting, by the packet that waits here longest.
    hold_number: u64,
    /// When a message was last accepted because it is in use.
    last_accepted: Instant,
}

/// The bounds of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourBounds {
    pub neighbours_per_interface: usize,
    pub pending_per_neighbour: usize,
    pub pending: usize,
}

/// The table. Timers and eviction orders are kept in sorted sets, so that every operation is logarithmic.
#[derive(Debug)]
pub(super) struct Neighbours {
    bounds: NeighbourBounds,
    // Ordered maps instead of hash tables: chosen addresses cannot degrade them, and runs are repeatable.
    entries: BTreeMap<Key, Neighbour>,
    due: BTreeSet<(Instant, Key)>,
    idle: BTreeSet<(InterfaceId, Instant, IpAddr)>,
    unanswered: BTreeSet<(InterfaceId, Instant, IpAddr)>,
    /// The neighbours with waiting packets, ordered by when the first of them began to wait.
    hold_order: BTreeSet<(u64, Key)>,
    next_hold_number: u64,
    counts: BTreeMap<InterfaceId, usize>,
    held_packets: usize,
}

impl Neighbours {
    pub fn new(bounds: NeighbourBounds) -> Neighbours {
        Neighbours {
            bounds,
            entries: BTreeMap::new(),
            due: BTreeSet::new(),
            idle: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            hold_order: BTreeSet::new(),
            next_hold_number: 0,
            counts: BTreeMap::new(),
            held_packets: 0,
        }
    }

    pub fn nud(&self, key: Key) -> Option<&NudState> {
        self.entries.get(&key).map(|neighbour| &neighbour.nud)
    }

    /// All neighbours with the number of their waiting packets, by interface and address.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &NudState, usize)> {
        self.entries.iter().map(|(&key, neighbour)| (key, &neighbour.nud, neighbour.held.len()))
    }

    /// The packets that wait for any neighbour.
    pub fn held_packets(&self) -> usize {
        self.held_packets
    }

    /// The first deadline.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.due.first().map(|&(deadline, _)| deadline)
    }

    /// A neighbour whose deadline has passed. It stays due until [`Neighbours::step`] has moved its deadline.
    pub fn due(&self, now: Instant) -> Option<Key> {
        self.due.first().filter(|&&(deadline, _)| deadline <= now).map(|&(_, key)| key)
    }

    /// Changes a neighbour's state machine; none if there is no such neighbour.
    pub fn step(&mut self, key: Key, act: impl FnOnce(&mut NudState) -> NudActions) -> Option<NudActions> {
        let neighbour = self.entries.get_mut(&key)?;
        let before = neighbour.nud;
        let effects = act(&mut neighbour.nud);
        let after = neighbour.nud;
        // The sorted sets contain the old times: remove them before the new ones are inserted.
        self.remove_from_indexes(key, &before);
        self.add_to_indexes(key, &after);
        Some(effects)
    }

    /// Adds a neighbour. False, and nothing changed, if its interface has no room.
    pub fn insert(&mut self, key: Key, machine: NudState) -> bool {
        debug_assert!(!self.entries.contains_key(&key));
        if self.is_full(key.0) {
            return false;
        }
        *self.counts.entry(key.0).or_insert(0) += 1;
        self.add_to_indexes(key, &machine);
        let (waiting, heard) = (VecDeque::new(), Instant::START);
        self.entries.insert(key, Neighbour { nud: machine, held: waiting, hold_number: 0, last_accepted: heard });
        true
    }

    /// True if the interface has no room for another neighbour.
    pub fn is_full(&self, interface: InterfaceId) -> bool {
        self.counts.get(&interface).copied().unwrap_or(0) >= self.bounds.neighbours_per_interface
    }

    /// The neighbours of an interface that may be evicted: idle ones and then, for a `wanted` neighbour, unanswered ones. The oldest come first. A
    /// neighbour that exists answers long before a scan of the prefix has filled the table.
    pub fn evictable(&self, interface: InterfaceId, wanted: bool) -> impl Iterator<Item = Key> + '_ {
        // An IPv4 address is less than any IPv6 address: the range of the interface begins here.
        let from = (interface, Instant::START, IpAddr::from([0, 0, 0, 0]));
        let asked = self.unanswered.range(from..).filter(move |_| wanted);
        let oldest = self.idle.range(from..).take_while(move |(on, ..)| *on == interface);
        oldest.chain(asked.take_while(move |(on, ..)| *on == interface)).map(|&(on, _, address)| (on, address))
    }

    /// True if a message of a neighbour is accepted regardless of floods: an answer to our request, or a message of a neighbour in use, at a limited
    /// rate.
    pub fn accepts_message(&mut self, key: Key, mac: Option<Mac>, answers: bool, now: Instant) -> bool {
        let Some(neighbour) = self.entries.get_mut(&key) else { return false };
        if answers && neighbour.nud.awaits_answer() || neighbour.nud.state == NeighbourState::Incomplete {
            return true;
        }
        let in_use = neighbour.nud.usable_mac().is_some_and(|known| mac.is_none_or(|mac| mac == known));
        let heard = in_use && now >= neighbour.last_accepted + HEARD_EVERY;
        if heard {
            neighbour.last_accepted = now;
        }
        heard
    }

    /// The first dynamic neighbour of an interface.
    pub fn first_dynamic_on(&self, interface: InterfaceId) -> Option<Key> {
        let from = (interface, IpAddr::from([0, 0, 0, 0]));
        let here = self.entries.range(from..).take_while(|((on, _), _)| *on == interface);
        let mut found = here.filter(|(_, neighbour)| neighbour.nud.state != NeighbourState::Static);
        found.next().map(|(&key, _)| key)
    }

    /// Removes a neighbour and returns its state machine and waiting packets.
    pub fn remove(&mut self, key: Key) -> Option<(NudState, VecDeque<HeldPacket>)> {
        let neighbour = self.entries.remove(&key)?;
        self.remove_from_indexes(key, &neighbour.nud);
        self.hold_order.remove(&(neighbour.hold_number, key));
        if let Some(count) = self.counts.get_mut(&key.0) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&key.0);
            }
        }
        self.held_packets -= neighbour.held.len();
        Some((neighbour.nud, neighbour.held))
    }

    /// Holds a packet for a neighbour. Returns a packet to be dropped: one that had to make room, or the packet itself. If too many wait for the same
    /// neighbour, it is the oldest of them (RFC 4861 7.2.2). If too many wait in total, it is the oldest packet of the neighbour with the longest
    /// wait, which is the least likely to answer.
    pub fn hold(&mut self, key: Key, waiting: HeldPacket) -> Option<(Packet, DropReason)> {
        let Some(neighbour) = self.entries.get(&key) else {
            return Some((waiting.packet(), DropReason::NeighbourTable));
        };
        let gone = if neighbour.held.len() >= self.bounds.pending_per_neighbour {
            self.pop_held(key)
        } else if self.held_packets >= self.bounds.pending {
            self.hold_order.first().map(|&(_, longest)| longest).and_then(|longest| self.pop_held(longest))
        } else {
            None
        };
        let neighbour = self.entries.get_mut(&key)?;
        // The first packet that waits for this neighbour sets its position in the order of waiting.
        if neighbour.held.is_empty() {
            self.next_hold_number += 1;
            neighbour.hold_number = self.next_hold_number;
            self.hold_order.insert((neighbour.hold_number, key));
        }
        neighbour.held.push_back(waiting);
        self.held_packets += 1;
        gone.map(|waiting| (waiting.packet(), DropReason::NeighbourQueue))
    }

    fn pop_held(&mut self, key: Key) -> Option<HeldPacket> {
        let neighbour = self.entries.get_mut(&key)?;
        let waiting = neighbour.held.pop_front()?;
        self.held_packets -= 1;
        if neighbour.held.is_empty() {
            self.hold_order.remove(&(neighbour.hold_number, key));
        }
        Some(waiting)
    }

    /// The packet that has waited longest for a neighbour.
    pub fn first_held(&self, key: Key) -> Option<&HeldPacket> {
        self.entries.get(&key)?.held.front()
    }

    /// Removes the packets that wait for a neighbour, oldest first.
    pub fn take_held(&mut self, key: Key) -> VecDeque<HeldPacket> {
        let Some(neighbour) = self.entries.get_mut(&key) else { return VecDeque::new() };
        let waiting = std::mem::take(&mut neighbour.held);
        self.hold_order.remove(&(neighbour.hold_number, key));
        self.held_packets -= waiting.len();
        waiting
    }

    fn add_to_indexes(&mut self, key: Key, machine: &NudState) {
        if machine.deadline != Instant::NEVER {
            self.due.insert((machine.deadline, key));
        }
        if machine.is_idle() {
            self.idle.insert((key.0, machine.since, key.1));
        }
        if machine.state == NeighbourState::Incomplete {
            self.unanswered.insert((key.0, machine.since, key.1));
        }
    }

    fn remove_from_indexes(&mut self, key: Key, machine: &NudState) {
        self.due.remove(&(machine.deadline, key));
        self.idle.remove(&(key.0, machine.since, key.1));
        self.unanswered.remove(&(key.0, machine.since, key.1));
    }

    /// Checks that the sorted sets agree with the entries, and that the bounds hold.
    #[cfg(test)]
    pub fn check(&self) {
        let timed = self.entries.values().filter(|n| n.nud.deadline != Instant::NEVER).count();
        let idle = self.entries.values().filter(|n| n.nud.is_idle()).count();
        let held: usize = self.entries.values().map(|n| n.held.len()).sum();
        let asked = self.entries.values().filter(|n| n.nud.state == NeighbourState::Incomplete).count();
        let awaited = self.entries.values().filter(|n| !n.held.is_empty()).count();
        assert_eq!((self.due.len(), self.idle.len(), self.held_packets), (timed, idle, held));
        assert_eq!((self.unanswered.len(), self.hold_order.len()), (asked, awaited));
        assert_eq!(self.counts.values().sum::<usize>(), self.entries.len());
        assert!(self.held_packets <= self.bounds.pending);
        for (key, neighbour) in &self.entries {
            assert!(neighbour.held.len() <= self.bounds.pending_per_neighbour, "{key:?}");
            assert!(neighbour.held.is_empty() || neighbour.nud.usable_mac().is_none(), "{key:?} waits for nothing");
        }
        assert!(self.counts.values().all(|&count| count <= self.bounds.neighbours_per_interface));
    }
}
