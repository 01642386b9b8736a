//! Transit packets that wait for the link-layer address of their next hop. Each waits on the worker of its flow.
//!
//! No packet overtakes another of its flow here, whenever the address is resolved. While packets to a destination wait, later packets to
//! it wait behind them, even if the tables can already forward them. Only the request for the address goes to the first worker, which
//! runs the host (adr 0012).

use super::peers::NextHop;
use packet::{Meta, Packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Instant, InterfaceId};

/// The ingress interface and destination address of a packet. They are the same for all packets of a flow.
type Place = (InterfaceId, IpAddr);

/// Counters in the filter in front of the table of places.
const FILTER: usize = 1024;

/// Packets that wait for next hops, and the state of those next hops.
pub(super) struct NeighbourQueue {
    pub held: Holding,
    /// Resolved next hops for which packets still wait.
    pub ready: VecDeque<NextHop>,
    /// When to check next whether a next hop has to be requested.
    pub ask_due: Instant,
    /// The workers that have requested a next hop, one bit each.
    pub asked_by: BTreeMap<NextHop, u64>,
}

impl Default for NeighbourQueue {
    fn default() -> NeighbourQueue {
        NeighbourQueue {
            held: Holding::default(),
            ready: VecDeque::new(),
            ask_due: Instant::START,
            asked_by: BTreeMap::new(),
        }
    }
}

/// The position of a packet among those that wait for the same next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// In front of all: the packet was on a path, so it arrived before everything that waits. A path adds its packets last to first.
    First,
    /// Behind those, in front of the rest: the packet waited for another next hop.
    Early,
    /// Behind all: the packet has just arrived.
    Last,
}

/// Limits for waiting packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct HoldingBounds {
    /// Packets for one next hop.
    pub each: usize,
    /// Packets for all next hops.
    pub all: usize,
}

/// The waiting packets.
#[derive(Debug)]
pub(super) struct Holding {
    // Ordered maps instead of hash maps: senders cannot provoke collisions, and every run has the same order.
    hops: BTreeMap<NextHop, Held>,
    /// The next hop that packets of a place wait for, and their number.
    places: BTreeMap<Place, (NextHop, usize)>,
    /// The next hops by the arrival of their first waiting packet, and by the time of the last request.
    turns: BTreeSet<(u64, NextHop)>,
    next_turn: u64,
    asked: BTreeSet<(Option<Instant>, NextHop)>,
    /// The number of places with each hash.
    filter: Box<[u16; FILTER]>,
    packets: usize,
    /// The packet popped last was early.
    popped_early: bool,
}

#[derive(Debug)]
struct Held {
    /// Packets that were on a path when the address was lost, or waited for another next hop. All of them arrived before the rest.
    early: VecDeque<Packet>,
    rest: VecDeque<Packet>,
    /// The time of the last request. None before the first.
    asked: Option<Instant>,
    /// The position of the next hop in `turns`.
    turn: u64,
}

impl Held {
    fn pop(&mut self) -> Option<Packet> {
        self.early.pop_front().or_else(|| self.rest.pop_front())
    }
}

impl Default for Holding {
    fn default() -> Self {
        let filter = Box::new([0; FILTER]);
        Holding {
            hops: BTreeMap::new(),
            places: BTreeMap::new(),
            turns: BTreeSet::new(),
            next_turn: 0,
            asked: BTreeSet::new(),
            filter,
            packets: 0,
            popped_early: false,
        }
    }
}

impl Holding {
    /// True if no packet waits.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The number of waiting packets.
    pub fn len(&self) -> usize {
        self.packets
    }

    /// The next hop for which earlier packets of this packet's flow wait.
    #[inline]
    pub fn before(&self, packet: &Packet) -> Option<NextHop> {
        let place = place(packet)?;
        // The filter answers most lookups without the tree.
        if self.filter[hash(place)] == 0 {
            return None;
        }
        self.places.get(&place).map(|&(hop, _)| hop)
    }

    /// Adds a packet to those that wait for `hop`. Returns the packet to be dropped, if a limit is reached. If too many wait for the same
    /// next hop, that is the oldest of them (RFC 4861 7.2.2). If too many wait in total, it is the oldest packet of the next hop that
    /// packets have waited for longest: that next hop is the least likely to answer.
    pub fn hold(&mut self, hop: NextHop, packet: Packet, turn: Turn, bounds: HoldingBounds) -> Option<Packet> {
        let Some(place) = place(&packet) else { return Some(packet) };
        let waiting = self.hops.get(&hop).map_or(0, |held| held.early.len() + held.rest.len());
        let longest = if waiting >= bounds.each.max(1) {
            Some(hop)
        } else if self.packets >= bounds.all.max(1) {
            self.turns.first().map(|&(_, longest)| longest)
        } else {
            None
        };
        let mut gone = None;
        if let Some(longest) = longest {
            // A packet in front of all others of its next hop is the oldest itself, so it is the one to drop.
            gone = if turn == Turn::First && longest == hop { None } else { self.pop(longest) };
            if gone.is_none() {
                return Some(packet);
            }
        }
        let held = self.begin(hop, None);
        match turn {
            Turn::First => held.early.push_front(packet),
            Turn::Early => held.early.push_back(packet),
            Turn::Last => held.rest.push_back(packet),
        }
        self.count(place, hop);
        gone
    }

    /// The entry of a next hop. A new one gets the time of its last request, `asked`.
    fn begin(&mut self, hop: NextHop, asked: Option<Instant>) -> &mut Held {
        let Holding { hops, turns, next_turn, asked: by_question, .. } = self;
        hops.entry(hop).or_insert_with(|| {
            *next_turn += 1;
            turns.insert((*next_turn, hop));
            by_question.insert((asked, hop));
            Held { early: VecDeque::new(), rest: VecDeque::new(), asked, turn: *next_turn }
        })
    }

    fn count(&mut self, place: Place, hop: NextHop) {
        let (at, waiting) = self.places.entry(place).or_insert((hop, 0));
        // Later packets of this place must wait behind its latest packet.
        *at = hop;
        *waiting += 1;
        if *waiting == 1 {
            self.filter[hash(place)] += 1;
        }
        self.packets += 1;
    }

    /// Dequeues the oldest packet that waits for `hop`. Removes the next hop's entry with its last packet.
    pub fn pop(&mut self, hop: NextHop) -> Option<Packet> {
        let held = self.hops.get_mut(&hop)?;
        // Remembered for `put_back`.
        self.popped_early = !held.early.is_empty();
        let packet = held.pop()?;
        if held.early.is_empty() && held.rest.is_empty() {
            self.turns.remove(&(held.turn, hop));
            self.asked.remove(&(held.asked, hop));
            self.hops.remove(&hop);
        }
        let place = place(&packet).expect("it was asked before it was let wait, and its bytes are as they were");
        if let Some((_, waiting)) = self.places.get_mut(&place) {
            *waiting -= 1;
            if *waiting == 0 {
                self.places.remove(&place);
                self.filter[hash(place)] -= 1;
            }
        }
        self.packets -= 1;
        Some(packet)
    }

    /// Puts the packet popped last back to its position. Packets of a path that arrive meanwhile go in front of later ones.
    pub fn put_back(&mut self, hop: NextHop, packet: Packet, asked: Option<Instant>) {
        let Some(place) = place(&packet) else { unreachable!("it was popped") };
        let early = self.popped_early;
        let held = self.begin(hop, asked);
        let list = if early { &mut held.early } else { &mut held.rest };
        list.push_front(packet);
        self.set_asked(hop, asked);
        self.count(place, hop);
    }

    /// The next hops to request: first those never requested, then those last requested by `before`.
    pub fn unasked(&self, before: Instant) -> impl Iterator<Item = NextHop> + '_ {
        let due = move |(asked, _): &&(Option<Instant>, NextHop)| asked.is_none_or(|asked| asked <= before);
        self.asked.iter().take_while(due).map(|&(_, hop)| hop)
    }

    /// Records a request for `hop` at `now`.
    pub fn asked(&mut self, hop: NextHop, now: Instant) {
        self.set_asked(hop, Some(now));
    }

    fn set_asked(&mut self, hop: NextHop, asked: Option<Instant>) {
        if let Some(held) = self.hops.get_mut(&hop) {
            self.asked.remove(&(held.asked, hop));
            self.asked.insert((asked, hop));
            held.asked = asked;
        }
    }

    /// The next hops that packets wait for, and their numbers of packets.
    pub fn iter(&self) -> impl Iterator<Item = (NextHop, usize)> + '_ {
        self.hops.iter().map(|(&hop, held)| (hop, held.early.len() + held.rest.len()))
    }
}

/// The place of a classified packet. None if it is no IP packet.
pub(super) fn place(packet: &Packet) -> Option<Place> {
    Some((packet.meta().in_interface, destination(packet)?))
}

/// The destination address of a classified packet.
pub(super) fn destination(packet: &Packet) -> Option<IpAddr> {
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..)?;
    if packet.meta().flags & Meta::IPV6 == 0 {
        l3.get(16..)?.first_chunk::<4>().map(|&address| Ipv4Addr::from(address).into())
    } else {
        l3.get(24..)?.first_chunk::<16>().map(|&address| Ipv6Addr::from(address).into())
    }
}

/// The filter counter of a place (Knuth, TAOCP 3, 6.4).
#[inline]
fn hash((interface, address): Place) -> usize {
    let folded = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    ((folded ^ u64::from(interface.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use proptest::prelude::*;

    const BOUNDS: HoldingBounds = HoldingBounds { each: 4, all: 9 };

    /// A packet to 10.0.0.`to`, with a number in its source address.
    fn packet(pool: &mut Pool, to: u8, number: u8) -> Packet {
        let mut packet = pool.take().unwrap();
        let mut bytes = [0; 20];
        bytes[15] = number;
        bytes[16..].copy_from_slice(&[10, 0, 0, to]);
        packet.fill(&bytes);
        packet
    }

    fn hop(n: u8) -> NextHop {
        (InterfaceId(0), Ipv4Addr::new(192, 0, 2, n).into())
    }

    proptest! {
        /// Compares with two lists for each next hop.
        #[test]
        fn behaves_as_bounded_lists(steps in prop::collection::vec((0u8..6, 0u8..12), 0..200)) {
            let mut pool = Pool::new(Region::new(256));
            let mut holding = Holding::default();
            let mut oracle: BTreeMap<NextHop, (VecDeque<u8>, VecDeque<u8>)> = BTreeMap::new();
            // In the order in which the first packet began to wait.
            let mut turns: Vec<NextHop> = Vec::new();
            for (number, (step, to)) in steps.into_iter().enumerate() {
                // Each destination has one next hop; some destinations share it.
                let next = hop(to % 3);
                let number = number as u8;
                let lists = oracle.entry(next).or_default();
                match step {
                    0..4 => {
                        let packet = packet(&mut pool, to, number);
                        let turn = [Turn::Last, Turn::Early, Turn::First, Turn::Last][usize::from(step)];
                        let gone = holding.hold(next, packet, turn, BOUNDS);
                        let all: usize = oracle.values().map(|(a, b)| a.len() + b.len()).sum();
                        let lists = oracle.get_mut(&next).unwrap();
                        let each = lists.0.len() + lists.1.len();
                        let mut expected = None;
                        let mut fits = true;
                        if each >= BOUNDS.each || all >= BOUNDS.all {
                            let longest = if each >= BOUNDS.each { next } else { turns[0] };
                            let lists = oracle.get_mut(&longest).unwrap();
                            // A packet that would be first is the oldest itself.
                            let itself = turn == Turn::First && longest == next;
                            expected = if itself { None } else { lists.0.pop_front().or_else(|| lists.1.pop_front()) };
                            fits = expected.is_some();
                        }
                        turns.retain(|hop| oracle.get(hop).is_some_and(|(a, b)| !(a.is_empty() && b.is_empty())));
                        let lists = oracle.get_mut(&next).unwrap();
                        if fits {
                            if !turns.contains(&next) {
                                turns.push(next);
                            }
                            match turn {
                                Turn::First => lists.0.push_front(number),
                                Turn::Early => lists.0.push_back(number),
                                Turn::Last => lists.1.push_back(number),
                            }
                        }
                        prop_assert_eq!(gone.as_ref().map(|p| p.bytes()[15]), if fits { expected } else { Some(number) });
                        gone.into_iter().for_each(|packet| pool.give(packet));
                    }
                    _ => {
                        let popped = holding.pop(next);
                        let early = !lists.0.is_empty();
                        let expected = lists.0.pop_front().or_else(|| lists.1.pop_front());
                        prop_assert_eq!(popped.as_ref().map(|p| p.bytes()[15]), expected);
                        match popped {
                            Some(packet) if step == 5 => {
                                let lists = oracle.get_mut(&next).unwrap();
                                if early { &mut lists.0 } else { &mut lists.1 }.push_front(packet.bytes()[15]);
                                holding.put_back(next, packet, None);
                            }
                            Some(packet) => pool.give(packet),
                            None => {}
                        }
                        // A packet that is put back into an empty list begins to wait again.
                        let waits = |hop: &NextHop| oracle.get(hop).is_some_and(|(a, b)| !(a.is_empty() && b.is_empty()));
                        if step == 5 && oracle[&next].0.len() + oracle[&next].1.len() == 1 {
                            turns.retain(|&hop| hop != next);
                            turns.push(next);
                        }
                        turns.retain(waits);
                    }
                }
                let waiting: usize = oracle.values().map(|(a, b)| a.len() + b.len()).sum();
                prop_assert_eq!(holding.len(), waiting);
            }
            for next in (0..3).map(hop) {
                while let Some(packet) = holding.pop(next) {
                    prop_assert_eq!(holding.before(&packet).is_some(), holding.places.contains_key(&place(&packet).unwrap()));
                    pool.give(packet);
                }
            }
            prop_assert!(holding.filter.iter().all(|&count| count == 0) && holding.places.is_empty());
            prop_assert!(holding.hops.is_empty() && holding.is_empty());
            prop_assert!(holding.turns.is_empty() && holding.asked.is_empty());
        }
    }

    #[test]
    fn later_packets_of_a_waiting_destination_wait_behind() {
        let mut pool = Pool::new(Region::new(8));
        let mut holding = Holding::default();
        let (first, second, other) = (packet(&mut pool, 1, 0), packet(&mut pool, 1, 1), packet(&mut pool, 2, 2));
        assert_eq!(holding.before(&second), None);
        assert!(holding.hold(hop(9), first, Turn::Last, BOUNDS).is_none());
        assert_eq!((holding.before(&second), holding.before(&other)), (Some(hop(9)), None));
        assert_eq!(holding.unasked(Instant::START).collect::<Vec<_>>(), [hop(9)]);
        holding.asked(hop(9), Instant::new(5));
        assert_eq!(holding.unasked(Instant::new(4)).count(), 0);
        assert_eq!(holding.unasked(Instant::new(5)).count(), 1);
        let first = holding.pop(hop(9)).unwrap();
        assert_eq!(holding.before(&second), None);
        [first, second, other].into_iter().for_each(|packet| pool.give(packet));
    }
}
