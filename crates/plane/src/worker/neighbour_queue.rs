//! Transit packets that wait for the link-layer address of their next hop. Each waits on the worker of its flow.
//!
//! No packet overtakes another of its flow here, whenever the address is resolved. While packets to a destination wait, later packets to
//! it wait behind them, even if the tables can already forward them. If the routes lead elsewhere meanwhile, the next packet to the destination
//! releases those that wait. Only the request for the address goes to the first worker, which
//! runs the host (adr 0012).

use super::peers::NextHop;
use packet::{Meta, Packet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use units::{Instant, InterfaceId};

/// The ingress interface and destination address of a packet. They are the same for all packets of a flow.
type DestinationKey = (InterfaceId, IpAddr);

/// Counters in the filter in front of the table of destinations.
const FILTER: usize = 1024;

/// Packets that wait for next hops, and the state of those next hops.
pub(super) struct NeighbourQueue {
    pub waiting: WaitingPackets,
    /// Resolved next hops for which packets still wait.
    pub ready: VecDeque<NextHop>,
    /// When to check next whether a next hop has to be requested.
    pub request_due: Instant,
    /// The workers that have requested a next hop, one bit each.
    pub requesters: BTreeMap<NextHop, u64>,
}

impl Default for NeighbourQueue {
    fn default() -> NeighbourQueue {
        NeighbourQueue {
            waiting: WaitingPackets::default(),
            ready: VecDeque::new(),
            request_due: Instant::START,
            requesters: BTreeMap::new(),
        }
    }
}

/// The position of a packet among those that wait for the same next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueuePosition {
    /// In front of all: the packet was on a path, so it arrived before everything that waits. A path adds its packets last to first.
    First,
    /// Behind those, in front of the rest: the packet waited for another next hop.
    Early,
    /// Behind all: the packet has just arrived.
    Last,
}

/// Limits for waiting packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingBounds {
    /// Packets for one next hop.
    pub each: usize,
    /// Packets for all next hops.
    pub all: usize,
}

/// The waiting packets.
#[derive(Debug)]
pub(super) struct WaitingPackets {
    // Ordered maps instead of hash maps: senders cannot provoke collisions, and every run has the same order.
    hops: BTreeMap<NextHop, NextHopQueue>,
    /// The next hop that packets to a destination wait for, and their number.
    destinations: BTreeMap<DestinationKey, (NextHop, usize)>,
    /// The next hops by the arrival of their first waiting packet, and by the time of the last request.
    order: BTreeSet<(u64, NextHop)>,
    next_sequence: u64,
    requests: BTreeSet<(Option<Instant>, NextHop)>,
    /// The number of destinations with each hash.
    filter: Box<[u16; FILTER]>,
    packets: usize,
    /// The packet popped last was early.
    popped_early: bool,
}

#[derive(Debug)]
struct NextHopQueue {
    /// Packets that were on a path when the address was lost, or waited for another next hop. All of them arrived before the rest.
    early: VecDeque<Packet>,
    rest: VecDeque<Packet>,
    /// The time of the last request. None before the first.
    last_request: Option<Instant>,
    /// The position of the next hop in `order`.
    sequence: u64,
}

impl NextHopQueue {
    fn pop(&mut self) -> Option<Packet> {
        self.early.pop_front().or_else(|| self.rest.pop_front())
    }
}

impl Default for WaitingPackets {
    fn default() -> Self {
        let filter = Box::new([0; FILTER]);
        WaitingPackets {
            hops: BTreeMap::new(),
            destinations: BTreeMap::new(),
            order: BTreeSet::new(),
            next_sequence: 0,
            requests: BTreeSet::new(),
            filter,
            packets: 0,
            popped_early: false,
        }
    }
}

impl WaitingPackets {
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
    pub fn next_hop_ahead(&self, packet: &Packet) -> Option<NextHop> {
        let place = destination_key(packet)?;
        // The filter answers most lookups without the tree.
        if self.filter[hash(place)] == 0 {
            return None;
        }
        self.destinations.get(&place).map(|&(hop, _)| hop)
    }

    /// Adds a packet to those that wait for `hop`. Returns the packet to be dropped, if a limit is reached. If too many wait for the same
    /// next hop, that is the oldest of them (RFC 4861 7.2.2). If too many wait in total, it is the oldest packet of the next hop that
    /// packets have waited for longest: that next hop is the least likely to answer.
    pub fn enqueue(
        &mut self,
        hop: NextHop,
        packet: Packet,
        turn: QueuePosition,
        bounds: WaitingBounds,
    ) -> Option<Packet> {
        let Some(place) = destination_key(&packet) else { return Some(packet) };
        let waiting = self.hops.get(&hop).map_or(0, |held| held.early.len() + held.rest.len());
        // A limit of zero still admits one packet: without a waiting packet the address would never be requested.
        let longest = if waiting >= bounds.each.max(1) {
            Some(hop)
        } else if self.packets >= bounds.all.max(1) {
            self.order.first().map(|&(_, longest)| longest)
        } else {
            None
        };
        let mut gone = None;
        if let Some(longest) = longest {
            // A packet in front of all others of its next hop is the oldest itself, so it is the one to drop.
            gone = if turn == QueuePosition::First && longest == hop { None } else { self.pop(longest) };
            if gone.is_none() {
                return Some(packet);
            }
        }
        let held = self.entry(hop, None);
        match turn {
            QueuePosition::First => held.early.push_front(packet),
            QueuePosition::Early => held.early.push_back(packet),
            QueuePosition::Last => held.rest.push_back(packet),
        }
        self.count(place, hop);
        gone
    }

    /// The entry of a next hop. A new one gets the time of its last request, `asked`.
    fn entry(&mut self, hop: NextHop, asked: Option<Instant>) -> &mut NextHopQueue {
        let WaitingPackets { hops, order: turns, next_sequence: next_turn, requests: by_question, .. } = self;
        hops.entry(hop).or_insert_with(|| {
            *next_turn += 1;
            turns.insert((*next_turn, hop));
            by_question.insert((asked, hop));
            NextHopQueue { early: VecDeque::new(), rest: VecDeque::new(), last_request: asked, sequence: *next_turn }
        })
    }

    fn count(&mut self, place: DestinationKey, hop: NextHop) {
        let (at, waiting) = self.destinations.entry(place).or_insert((hop, 0));
        // Later packets to this destination must wait behind its latest packet.
        *at = hop;
        *waiting += 1;
        if *waiting == 1 {
            // Cannot overflow: a counter is at most the number of waiting packets, which `bounds` limits far below `u16::MAX`.
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
        self.remove_if_empty(hop);
        self.uncount(&packet);
        Some(packet)
    }

    fn uncount(&mut self, packet: &Packet) {
        let place =
            destination_key(packet).expect("it was asked before it was let wait, and its bytes are as they were");
        if let Some((_, waiting)) = self.destinations.get_mut(&place) {
            *waiting -= 1;
            if *waiting == 0 {
                self.destinations.remove(&place);
                self.filter[hash(place)] -= 1;
            }
        }
        self.packets -= 1;
    }

    /// Dequeues the packets for `hop` that meet `condition`, oldest first.
    pub fn take(&mut self, hop: NextHop, condition: impl Fn(&Packet) -> bool) -> Vec<Packet> {
        let Some(held) = self.hops.get_mut(&hop) else { return Vec::new() };
        // Most calls find none, and moving all packets would cost more.
        if !held.early.iter().chain(&held.rest).any(&condition) {
            return Vec::new();
        }
        let mut taken = Vec::new();
        for list in [&mut held.early, &mut held.rest] {
            let (gone, stays): (Vec<Packet>, Vec<Packet>) = list.drain(..).partition(&condition);
            list.extend(stays);
            taken.extend(gone);
        }
        self.remove_if_empty(hop);
        taken.iter().for_each(|packet| self.uncount(packet));
        taken
    }

    /// Removes the entry of a next hop without packets.
    fn remove_if_empty(&mut self, hop: NextHop) {
        if let Some(held) = self.hops.get(&hop).filter(|held| held.early.is_empty() && held.rest.is_empty()) {
            self.order.remove(&(held.sequence, hop));
            self.requests.remove(&(held.last_request, hop));
            self.hops.remove(&hop);
        }
    }

    /// True if packets wait for this next hop.
    pub fn contains(&self, hop: NextHop) -> bool {
        self.hops.contains_key(&hop)
    }

    /// Puts the packet popped last back to its position. Packets of a path that arrive meanwhile go in front of later ones.
    pub fn put_back(&mut self, hop: NextHop, packet: Packet, asked: Option<Instant>) {
        let Some(place) = destination_key(&packet) else { unreachable!("it was popped") };
        let early = self.popped_early;
        let held = self.entry(hop, asked);
        let list = if early { &mut held.early } else { &mut held.rest };
        list.push_front(packet);
        // Set again, because an entry that other packets have kept still has its earlier time.
        self.set_last_request(hop, asked);
        self.count(place, hop);
    }

    /// The next hops to request: first those never requested, then those last requested by `before`.
    pub fn due_requests(&self, before: Instant) -> impl Iterator<Item = NextHop> + '_ {
        // `None` sorts before every time, so the due entries are a prefix of the set.
        let due = move |(asked, _): &&(Option<Instant>, NextHop)| asked.is_none_or(|asked| asked <= before);
        self.requests.iter().take_while(due).map(|&(_, hop)| hop)
    }

    /// Records a request for `hop` at `now`.
    pub fn record_request(&mut self, hop: NextHop, now: Instant) {
        self.set_last_request(hop, Some(now));
    }

    fn set_last_request(&mut self, hop: NextHop, asked: Option<Instant>) {
        if let Some(held) = self.hops.get_mut(&hop) {
            self.requests.remove(&(held.last_request, hop));
            self.requests.insert((asked, hop));
            held.last_request = asked;
        }
    }

    /// The next hops that packets wait for, and their numbers of packets.
    pub fn iter(&self) -> impl Iterator<Item = (NextHop, usize)> + '_ {
        self.hops.iter().map(|(&hop, held)| (hop, held.early.len() + held.rest.len()))
    }
}

/// The key of a classified packet. None if it is no IP packet.
pub(super) fn destination_key(packet: &Packet) -> Option<DestinationKey> {
    Some((packet.meta().in_interface, destination(packet)?))
}

/// The destination address of a classified packet.
pub(super) fn destination(packet: &Packet) -> Option<IpAddr> {
    // The destination is at byte 16 of an IPv4 header (RFC 791 3.1), and at byte 24 of an IPv6 header (RFC 8200 3).
    let l3 = packet.bytes().get(usize::from(packet.meta().l3)..)?;
    if packet.meta().flags & Meta::IPV6 == 0 {
        l3.get(16..)?.first_chunk::<4>().map(|&address| Ipv4Addr::from(address).into())
    } else {
        l3.get(24..)?.first_chunk::<16>().map(|&address| Ipv6Addr::from(address).into())
    }
}

/// The filter counter of a destination (Knuth, TAOCP 3, 6.4).
#[inline]
fn hash((interface, address): DestinationKey) -> usize {
    let folded = match address {
        IpAddr::V4(address) => u64::from(address.to_bits()),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64 ^ address.to_bits() as u64,
    };
    // The multiplier is 2^64 divided by the golden ratio. The upper 10 bits of the product count to `FILTER`.
    ((folded ^ u64::from(interface.0) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Pool, Region};
    use proptest::prelude::*;

    const BOUNDS: WaitingBounds = WaitingBounds { each: 4, all: 9 };

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
        fn neighbour_queue_equals_bounded_lists(steps in prop::collection::vec((0u8..7, 0u8..12), 0..200)) {
            let mut pool = Pool::new(Region::new(256));
            let mut holding = WaitingPackets::default();
            let mut oracle: BTreeMap<NextHop, (VecDeque<u8>, VecDeque<u8>)> = BTreeMap::new();
            // In the order in which the first packet began to wait.
            let mut turns: Vec<NextHop> = Vec::new();
            let destinations: Vec<u8> = steps.iter().map(|step| step.1).collect();
            for (number, (step, to)) in steps.into_iter().enumerate() {
                // Each destination has one next hop; some destinations share it.
                let next = hop(to % 3);
                let number = number as u8;
                let lists = oracle.entry(next).or_default();
                match step {
                    0..4 => {
                        let packet = packet(&mut pool, to, number);
                        let turn = [QueuePosition::Last, QueuePosition::Early, QueuePosition::First, QueuePosition::Last][usize::from(step)];
                        let gone = holding.enqueue(next, packet, turn, BOUNDS);
                        let all: usize = oracle.values().map(|(a, b)| a.len() + b.len()).sum();
                        let lists = oracle.get_mut(&next).unwrap();
                        let each = lists.0.len() + lists.1.len();
                        let mut expected = None;
                        let mut fits = true;
                        if each >= BOUNDS.each || all >= BOUNDS.all {
                            let longest = if each >= BOUNDS.each { next } else { turns[0] };
                            let lists = oracle.get_mut(&longest).unwrap();
                            // A packet that would be first is the oldest itself.
                            let itself = turn == QueuePosition::First && longest == next;
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
                                QueuePosition::First => lists.0.push_front(number),
                                QueuePosition::Early => lists.0.push_back(number),
                                QueuePosition::Last => lists.1.push_back(number),
                            }
                        }
                        prop_assert_eq!(gone.as_ref().map(|p| p.bytes()[15]), if fits { expected } else { Some(number) });
                        gone.into_iter().for_each(|packet| pool.give(packet));
                    }
                    6 => {
                        let taken = holding.take(next, |packet| packet.bytes()[19] == to);
                        let is_taken = |number: &u8| destinations[usize::from(*number)] == to;
                        let expected: Vec<u8> = lists.0.iter().chain(&lists.1).copied().filter(is_taken).collect();
                        lists.0.retain(|number| !is_taken(number));
                        lists.1.retain(|number| !is_taken(number));
                        prop_assert_eq!(taken.iter().map(|p| p.bytes()[15]).collect::<Vec<u8>>(), expected);
                        taken.into_iter().for_each(|packet| pool.give(packet));
                        turns.retain(|hop| oracle.get(hop).is_some_and(|(a, b)| !(a.is_empty() && b.is_empty())));
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
                    prop_assert_eq!(holding.next_hop_ahead(&packet).is_some(), holding.destinations.contains_key(&destination_key(&packet).unwrap()));
                    pool.give(packet);
                }
            }
            prop_assert!(holding.filter.iter().all(|&count| count == 0) && holding.destinations.is_empty());
            prop_assert!(holding.hops.is_empty() && holding.is_empty());
            prop_assert!(holding.order.is_empty() && holding.requests.is_empty());
        }
    }

    #[test]
    fn later_packets_queue_behind_waiting_ones_of_their_destination() {
        let mut pool = Pool::new(Region::new(8));
        let mut holding = WaitingPackets::default();
        let (first, second, other) = (packet(&mut pool, 1, 0), packet(&mut pool, 1, 1), packet(&mut pool, 2, 2));
        assert_eq!(holding.next_hop_ahead(&second), None);
        assert!(holding.enqueue(hop(9), first, QueuePosition::Last, BOUNDS).is_none());
        assert_eq!((holding.next_hop_ahead(&second), holding.next_hop_ahead(&other)), (Some(hop(9)), None));
        assert_eq!(holding.due_requests(Instant::START).collect::<Vec<_>>(), [hop(9)]);
        holding.record_request(hop(9), Instant::new(5));
        assert_eq!(holding.due_requests(Instant::new(4)).count(), 0);
        assert_eq!(holding.due_requests(Instant::new(5)).count(), 1);
        let first = holding.pop(hop(9)).unwrap();
        assert_eq!(holding.next_hop_ahead(&second), None);
        [first, second, other].into_iter().for_each(|packet| pool.give(packet));
    }
}
