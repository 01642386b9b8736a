//! Connections and mappings: who is behind which of our ports, found from either side in constant time.
//!
//! A mapping ties an inside address and port to one of ours, whoever the peer is (endpoint-independent mapping, RFC 4787
//! REQ-1). A connection is what one peer and a mapping have said to each other. Everything lies in arrays that are made once:
//! nothing here allocates when packets flow. Connections of the same kind have the same lifetime, so each kind is a list in
//! the order of last use, and what is due is at its front.

use units::{Instant, Nanos};

/// No slot.
pub const NONE: u32 = u32::MAX;

/// An address and a port; of ICMP its identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct End {
    /// The IPv4 address.
    pub address: u32,
    /// The port.
    pub port: u16,
}

impl End {
    /// These.
    pub const fn new(address: u32, port: u16) -> End {
        End { address, port }
    }

    fn key(self) -> u64 {
        u64::from(self.address) << 16 | u64::from(self.port)
    }
}

/// What a connection is, and so how long it is remembered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Kind {
    /// TCP that has not been answered, or not in full.
    Opening,
    /// TCP in both directions.
    Established,
    /// TCP that was ended from both sides, or reset.
    Closing,
    /// UDP.
    Datagrams,
    /// ICMP questions.
    Queries,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Kind; 5] = [Kind::Opening, Kind::Established, Kind::Closing, Kind::Datagrams, Kind::Queries];

    /// As `show` names it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Opening => "opening",
            Kind::Established => "established",
            Kind::Closing => "closing",
            Kind::Datagrams => "udp",
            Kind::Queries => "icmp",
        }
    }
}

/// How long connections of each kind are remembered after their last packet.
pub type Timeouts = [Nanos; Kind::ALL.len()];

/// An inside end and the end of ours that stands for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The protocol.
    pub protocol: u8,
    /// Inside.
    pub inside: End,
    /// Ours.
    pub outside: End,
    /// Connections that use it.
    pub connections: u32,
}

/// What one peer and a mapping say to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The protocol.
    pub protocol: u8,
    /// Its kind.
    pub kind: Kind,
    /// Whether the peer began it.
    pub inbound: bool,
    /// Whether both sides have been heard.
    pub replied: bool,
    /// Which sides have ended it: the inside 1, the peer 2.
    pub finished: u8,
    /// Inside.
    pub inside: End,
    /// Ours.
    pub outside: End,
    /// The other side.
    pub peer: End,
    /// When its last packet came.
    pub used: Instant,
    /// Packets from the inside, and from the peer.
    pub packets: [u64; 2],
    mapping: u32,
    before: u32,
    after: u32,
}

/// A hash table of slot numbers, chained.
#[derive(Debug)]
struct Index {
    heads: Box<[u32]>,
    next: Box<[u32]>,
}

impl Index {
    fn new(slots: usize) -> Index {
        let heads = vec![NONE; slots.next_power_of_two().max(2)].into_boxed_slice();
        Index { heads, next: vec![NONE; slots].into_boxed_slice() }
    }

    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    #[inline]
    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut slot = self.heads[self.bucket(hash)];
        while slot != NONE {
            if is_it(slot) {
                return Some(slot);
            }
            slot = self.next[slot as usize];
        }
        None
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        self.next[slot as usize] = self.heads[bucket];
        self.heads[bucket] = slot;
    }

    fn remove(&mut self, hash: u64, slot: u32) {
        let bucket = self.bucket(hash);
        let next = self.next[slot as usize];
        if self.heads[bucket] == slot {
            self.heads[bucket] = next;
            return;
        }
        let mut at = self.heads[bucket];
        while at != NONE {
            if self.next[at as usize] == slot {
                self.next[at as usize] = next;
                return;
            }
            at = self.next[at as usize];
        }
    }
}

/// Values in slots that are given again.
#[derive(Debug)]
struct Slots<T> {
    values: Vec<T>,
    free: Vec<u32>,
    most: usize,
}

impl<T: Copy> Slots<T> {
    fn new(most: usize) -> Slots<T> {
        Slots { values: Vec::with_capacity(most), free: Vec::with_capacity(most), most }
    }

    fn take(&mut self, value: T) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            self.values[slot as usize] = value;
            return Some(slot);
        }
        if self.values.len() == self.most {
            return None;
        }
        self.values.push(value);
        Some(self.values.len() as u32 - 1)
    }

    fn used(&self) -> usize {
        self.values.len() - self.free.len()
    }
}

/// Why there is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// As many connections as there may be.
    Full,
    /// No port of ours was found free.
    NoPort,
}

/// The connections of a router.
#[derive(Debug)]
pub struct Table {
    connections: Slots<Connection>,
    mappings: Slots<Mapping>,
    /// Connections by protocol, inside and peer; by protocol, ours and peer.
    outbound: Index,
    inbound: Index,
    /// Mappings by protocol, inside and our address; by protocol and ours.
    by_inside: Index,
    by_outside: Index,
    /// The first and the last connection of each kind, by last use.
    ages: [(u32, u32); Kind::ALL.len()],
    secret: u64,
    /// Connections ever made.
    pub made: u64,
    /// Connections that were forgotten before their time, because there were too many.
    pub evicted: u64,
}

/// Half-done connections that are given up for a new one, at most, and due ones looked at for each packet that makes one.
const DUE_PER_CALL: usize = 8;
/// Ports tried for a new mapping.
const PORTS_TRIED: u64 = 128;

impl Table {
    /// A table for so many connections; `secret` keys its hashes, for peers choose the ports.
    pub fn new(most: usize, secret: u64) -> Table {
        let most = most.clamp(1, 1 << 24);
        Table {
            connections: Slots::new(most),
            mappings: Slots::new(most),
            outbound: Index::new(most),
            inbound: Index::new(most),
            by_inside: Index::new(most),
            by_outside: Index::new(most),
            ages: [(NONE, NONE); Kind::ALL.len()],
            secret,
            made: 0,
            evicted: 0,
        }
    }

    /// Connections there are.
    pub fn count(&self) -> usize {
        self.connections.used()
    }

    /// Connections there may be.
    pub fn capacity(&self) -> usize {
        self.connections.most
    }

    /// The mixing function of SplitMix64 (Steele, Lea, Flood 2014), keyed, twice.
    fn hash(&self, protocol: u8, one: u64, other: u64) -> u64 {
        let mix = |mut z: u64| {
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        mix(mix(one ^ u64::from(protocol) << 56 ^ self.secret) ^ other)
    }

    /// The connection of an inside end with a peer.
    #[inline]
    pub fn from_inside(&self, protocol: u8, inside: End, peer: End) -> Option<u32> {
        let hash = self.hash(protocol, inside.key(), peer.key());
        self.outbound.find(hash, |slot| {
            let c = &self.connections.values[slot as usize];
            c.inside == inside && c.peer == peer && c.protocol == protocol
        })
    }

    /// The connection of an end of ours with a peer.
    #[inline]
    pub fn from_outside(&self, protocol: u8, outside: End, peer: End) -> Option<u32> {
        let hash = self.hash(protocol, outside.key(), peer.key());
        self.inbound.find(hash, |slot| {
            let c = &self.connections.values[slot as usize];
            c.outside == outside && c.peer == peer && c.protocol == protocol
        })
    }

    /// The mapping of an end of ours.
    pub fn mapping_of_outside(&self, protocol: u8, outside: End) -> Option<u32> {
        let hash = self.hash(protocol, outside.key(), 0);
        self.by_outside.find(hash, |slot| {
            let m = &self.mappings.values[slot as usize];
            m.outside == outside && m.protocol == protocol
        })
    }

    /// The mapping of an inside end to an address of ours.
    pub fn mapping_of_inside(&self, protocol: u8, inside: End, ours: u32) -> Option<u32> {
        let hash = self.hash(protocol, inside.key(), ours.into());
        self.by_inside.find(hash, |slot| {
            let m = &self.mappings.values[slot as usize];
            m.inside == inside && m.outside.address == ours && m.protocol == protocol
        })
    }

    /// A mapping.
    pub fn mapping(&self, slot: u32) -> &Mapping {
        &self.mappings.values[slot as usize]
    }

    /// A connection.
    pub fn connection(&self, slot: u32) -> &Connection {
        &self.connections.values[slot as usize]
    }

    /// A connection, to change what is not how it is found.
    pub fn connection_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.connections.values[slot as usize]
    }

    /// A port of `ours` that nobody has, between `first` and `last`: the inside one where it is free, as hosts expect, else
    /// one of the same parity (RFC 4787 REQ-3, REQ-4) at a place that cannot be guessed (RFC 6056). `taken` are ports that
    /// are given away for good.
    pub fn free_port(
        &self,
        protocol: u8,
        inside: End,
        ours: u32,
        (first, last): (u16, u16),
        taken: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let free = |port: u16| !taken(port) && self.mapping_of_outside(protocol, End::new(ours, port)).is_none();
        if (first..=last).contains(&inside.port) && free(inside.port) {
            return Some(inside.port);
        }
        let span = u64::from(last - first) + 1;
        let start = self.hash(protocol, inside.key(), u64::from(ours) ^ self.made << 32);
        // An odd step that grows visits neighbourhoods that are crowded only briefly.
        (0..PORTS_TRIED).find_map(|i| {
            let port = first + ((start >> 16).wrapping_add(i * (i + 1) / 2 * 2) % span) as u16;
            let even = (port & !1) | (inside.port & 1);
            let port = if (first..=last).contains(&even) { even } else { port };
            free(port).then_some(port)
        })
    }

    /// A connection that was not there, of `inside` behind `outside` with `peer`, by the mapping there is or a new one. What is
    /// due goes first; where there is no room, the oldest that was never answered in full goes.
    pub fn connect(
        &mut self,
        protocol: u8,
        (inside, outside, peer): (End, End, End),
        (kind, inbound): (Kind, bool),
        now: Instant,
        timeouts: &Timeouts,
    ) -> Result<u32, Refused> {
        self.expire(now, timeouts, DUE_PER_CALL);
        if self.connections.used() == self.connections.most {
            let (oldest, _) = self.ages[Kind::Opening as usize];
            if oldest == NONE {
                return Err(Refused::Full);
            }
            self.evicted += 1;
            self.forget(oldest);
        }
        let mapping = match self.mapping_of_outside(protocol, outside) {
            Some(mapping) => mapping,
            None => self.add_mapping(Mapping { protocol, inside, outside, connections: 0 })?,
        };
        let (before, after) = (NONE, NONE);
        let connection = Connection {
            protocol,
            kind,
            inbound,
            replied: false,
            finished: 0,
            inside,
            outside,
            peer,
            used: now,
            packets: [0; 2],
            mapping,
            before,
            after,
        };
        let Some(slot) = self.connections.take(connection) else { return Err(Refused::Full) };
        self.mappings.values[mapping as usize].connections += 1;
        self.outbound.insert(self.hash(protocol, inside.key(), peer.key()), slot);
        self.inbound.insert(self.hash(protocol, outside.key(), peer.key()), slot);
        self.append(slot);
        self.made += 1;
        Ok(slot)
    }

    /// Takes over a connection of another table, unless it is there.
    pub fn copy(&mut self, other: &Connection) {
        let Connection { protocol, inside, outside, peer, kind, inbound, used, .. } = *other;
        if self.from_inside(protocol, inside, peer).is_some() {
            return;
        }
        const FOREVER: Timeouts = [Nanos::MAX; Kind::ALL.len()];
        if let Ok(slot) = self.connect(protocol, (inside, outside, peer), (kind, inbound), used, &FOREVER) {
            let connection = self.connection_mut(slot);
            (connection.replied, connection.finished) = (other.replied, other.finished);
        }
    }

    fn add_mapping(&mut self, mapping: Mapping) -> Result<u32, Refused> {
        let Mapping { protocol, inside, outside, .. } = mapping;
        // Each has a connection, and of those there are no more.
        let slot = self.mappings.take(mapping).ok_or(Refused::Full)?;
        self.by_inside.insert(self.hash(protocol, inside.key(), outside.address.into()), slot);
        self.by_outside.insert(self.hash(protocol, outside.key(), 0), slot);
        Ok(slot)
    }

    /// A packet of a connection came: it is the youngest of its kind, which may have changed.
    pub fn touch(&mut self, slot: u32, kind: Kind, now: Instant) {
        let connection = &mut self.connections.values[slot as usize];
        connection.used = now;
        if connection.kind == kind && self.ages[kind as usize].1 == slot {
            return;
        }
        self.unlink(slot);
        self.connections.values[slot as usize].kind = kind;
        self.append(slot);
    }

    /// Forgets connections whose time is up, at most so many. Answers how many.
    pub fn expire(&mut self, now: Instant, timeouts: &Timeouts, most: usize) -> usize {
        let mut forgotten = 0;
        for kind in Kind::ALL {
            while forgotten < most {
                let (oldest, _) = self.ages[kind as usize];
                if oldest == NONE || !self.is_due(oldest, now, timeouts) {
                    break;
                }
                self.forget(oldest);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Whether the time of a connection is up.
    pub fn is_due(&self, slot: u32, now: Instant, timeouts: &Timeouts) -> bool {
        let connection = self.connection(slot);
        connection.used + timeouts[connection.kind as usize] <= now
    }

    /// Forgets a connection, and its mapping where it was the last of it.
    pub fn forget(&mut self, slot: u32) {
        self.unlink(slot);
        let Connection { protocol, inside, outside, peer, mapping, .. } = *self.connection(slot);
        self.outbound.remove(self.hash(protocol, inside.key(), peer.key()), slot);
        self.inbound.remove(self.hash(protocol, outside.key(), peer.key()), slot);
        self.connections.free.push(slot);
        let used = &mut self.mappings.values[mapping as usize];
        used.connections -= 1;
        if used.connections == 0 {
            let Mapping { inside, outside, .. } = *used;
            self.by_inside.remove(self.hash(protocol, inside.key(), outside.address.into()), mapping);
            self.by_outside.remove(self.hash(protocol, outside.key(), 0), mapping);
            self.mappings.free.push(mapping);
        }
    }

    /// Every connection, oldest first within its kind.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        Kind::ALL.into_iter().flat_map(move |kind| {
            let first = self.ages[kind as usize].0;
            let step = move |slot: &u32| Some(self.connection(*slot).after).filter(|&slot| slot != NONE);
            let slots = std::iter::successors(Some(first).filter(|&slot| slot != NONE), step);
            slots.map(|slot| self.connection(slot))
        })
    }

    fn append(&mut self, slot: u32) {
        let kind = self.connection(slot).kind as usize;
        let (first, last) = self.ages[kind];
        let connection = &mut self.connections.values[slot as usize];
        (connection.before, connection.after) = (last, NONE);
        if last == NONE {
            self.ages[kind] = (slot, slot);
        } else {
            self.connections.values[last as usize].after = slot;
            self.ages[kind] = (first, slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Connection { before, after, kind, .. } = *self.connection(slot);
        let ends = &mut self.ages[kind as usize];
        if before == NONE {
            ends.0 = after
        } else {
            self.connections.values[before as usize].after = after
        }
        if after == NONE { ends.1 = before } else { self.connections.values[after as usize].before = before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    const TIMEOUTS: Timeouts = [Nanos::secs(10), Nanos::secs(100), Nanos::secs(5), Nanos::secs(20), Nanos::secs(3)];
    const OURS: u32 = 0xcb00_7101;

    /// A packet of an inside end to a peer: its connection, made where it was not there.
    fn packet(table: &mut Table, inside: End, peer: End, now: Instant) -> Result<u32, Refused> {
        if let Some(slot) = table.from_inside(17, inside, peer) {
            table.touch(slot, Kind::Datagrams, now);
            return Ok(slot);
        }
        let outside = match table.mapping_of_inside(17, inside, OURS) {
            Some(mapping) => table.mapping(mapping).outside,
            None => {
                let port = table.free_port(17, inside, OURS, (1024, 1087), |port| port == 1050);
                End::new(OURS, port.ok_or(Refused::NoPort)?)
            }
        };
        table.connect(17, (inside, outside, peer), (Kind::Datagrams, false), now, &TIMEOUTS)
    }

    proptest! {
        /// Against a map of everything that was said: mappings are a bijection, connections are found from either side,
        /// last as long as they should, and no port is given twice.
        #[test]
        fn a_mapping_is_a_bijection_and_lives_as_long_as_its_connections(
            steps in proptest::collection::vec((0u32..12, 1000u16..1100, 0u32..4, 0u64..8_000_000_000), 1..400),
        ) {
            let mut table = Table::new(48, 7);
            let mut naive: BTreeMap<(End, End), (End, Instant)> = BTreeMap::new();
            let mut now = Instant::START;
            for (host, port, peer, wait) in steps {
                now += Nanos::new(wait);
                let due = |used: &Instant| *used + TIMEOUTS[Kind::Datagrams as usize] <= now;
                naive.retain(|_, (_, used)| !due(used));
                table.expire(now, &TIMEOUTS, usize::MAX);
                let (inside, peer) = (End::new(0x0a00_0000 + host, port), End::new(0xc000_0200 + peer, 53));
                match packet(&mut table, inside, peer, now) {
                    Ok(slot) => {
                        let connection = *table.connection(slot);
                        let known = naive.iter().find(|((end, _), _)| *end == inside).map(|(_, (outside, _))| *outside);
                        prop_assert!(known.is_none_or(|outside| outside == connection.outside), "endpoint-independent");
                        naive.insert((inside, peer), (connection.outside, now));
                    }
                    Err(Refused::Full) => prop_assert_eq!(naive.len(), 48),
                    Err(Refused::NoPort) => {
                        let ports: BTreeSet<End> = naive.values().map(|(outside, _)| *outside).collect();
                        prop_assert!(ports.len() >= 28, "{} of 63 given", ports.len());
                    }
                }
                prop_assert_eq!(table.count(), naive.len());
                prop_assert_eq!(table.iter().count(), naive.len());
                let mut owners: BTreeMap<End, End> = BTreeMap::new();
                for (&(inside, peer), &(outside, _)) in &naive {
                    prop_assert_eq!(*owners.entry(outside).or_insert(inside), inside, "one port, one owner");
                    prop_assert!(outside.port != 1050 && (1024..=1087).contains(&outside.port));
                    let there = table.from_inside(17, inside, peer);
                    prop_assert!(there.is_some());
                    prop_assert_eq!(there, table.from_outside(17, outside, peer));
                    prop_assert_eq!(table.from_inside(6, inside, peer), None);
                }
            }
        }
    }

    #[test]
    fn ports_keep_their_number_where_they_can_and_their_parity_where_not() {
        let mut table = Table::new(64, 1);
        let peer = End::new(0xc000_0201, 53);
        for (host, port) in [(1, 1030), (2, 1030), (3, 1031), (4, 1031), (5, 80)] {
            let slot = packet(&mut table, End::new(host, port), peer, Instant::START).unwrap();
            let given = table.connection(slot).outside.port;
            assert_eq!((given % 2, given == port), (port % 2, host == 1 || host == 3), "{host}:{port} {given}");
        }
    }

    #[test]
    fn a_full_table_gives_up_what_was_never_answered_and_nothing_else() {
        let mut table = Table::new(4, 1);
        let connect = |table: &mut Table, host: u32, kind| {
            let ends = (End::new(host, 1), End::new(OURS, 1000 + host as u16), End::new(9, 9));
            table.connect(6, ends, (kind, false), Instant::START, &TIMEOUTS)
        };
        for host in 0..3 {
            connect(&mut table, host, Kind::Established).unwrap();
        }
        connect(&mut table, 3, Kind::Opening).unwrap();
        connect(&mut table, 4, Kind::Established).unwrap();
        assert_eq!((table.count(), table.evicted), (4, 1));
        assert_eq!(table.from_inside(6, End::new(3, 1), End::new(9, 9)), None);
        assert_eq!(connect(&mut table, 5, Kind::Opening), Err(Refused::Full));
    }
}
