//! Connections and mappings, found from either side in constant time.
//!
//! A mapping ties an inside address and port to one of ours, for all peers (endpoint-independent mapping, RFC 4787 REQ-1). A connection is the
//! traffic between a mapping and one peer. All arrays are allocated at creation, none per packet. Connections of the same kind have the same
//! lifetime. So each kind has a list in order of last use, with the next one to expire at its front.
//!
//! Two rules prevent one host from starving the others (RFC 6888 REQ-4). The number of connections that an inside host may have opened is limited. A
//! new connection that finds the table or the ports full evicts another one: the oldest of [`UNANSWERED`], else of [`ANSWERED`]. Established TCP
//! connections are never evicted.

mod sample;

pub use super::slots::NONE;
use super::slots::{Index, Slots, keyed_hash};
use sample::Predetermined;
use units::{Instant, Nanos};

/// An address and a port, or an ICMP identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NatEndpoint {
    /// The IPv4 address.
    pub address: u32,
    /// The port.
    pub port: u16,
}

impl NatEndpoint {
    /// An end.
    pub const fn new(address: u32, port: u16) -> NatEndpoint {
        NatEndpoint { address, port }
    }

    pub(crate) fn key(self) -> u64 {
        u64::from(self.address) << 16 | u64::from(self.port)
    }
}

/// The kind of a connection, which determines its lifetime.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ConnectionKind {
    /// TCP before the handshake is complete.
    Opening,
    /// TCP after the handshake.
    Established,
    /// TCP after both FINs, or a RST.
    Closing,
    /// UDP.
    Datagrams,
    /// ICMP queries.
    Queries,
}

impl ConnectionKind {
    /// All kinds, in order.
    pub const ALL: [ConnectionKind; 5] = [
        ConnectionKind::Opening,
        ConnectionKind::Established,
        ConnectionKind::Closing,
        ConnectionKind::Datagrams,
        ConnectionKind::Queries,
    ];

    /// The name in `show`.
    pub const fn name(self) -> &'static str {
        match self {
            ConnectionKind::Opening => "opening",
            ConnectionKind::Established => "established",
            ConnectionKind::Closing => "closing",
            ConnectionKind::Datagrams => "udp",
            ConnectionKind::Queries => "icmp",
        }
    }
}

/// The lifetime of each kind of connection after its last packet.
pub type Timeouts = [Nanos; ConnectionKind::ALL.len()];

/// An inside end and the end of ours that replaces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The protocol.
    pub protocol: u8,
    /// The inside end.
    pub inside: NatEndpoint,
    /// Our end.
    pub outside: NatEndpoint,
    /// Connections that use it.
    pub connections: u32,
}

/// The traffic between a mapping and one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connection {
    /// The protocol.
    pub protocol: u8,
    /// Its kind.
    pub kind: ConnectionKind,
    /// True if the peer opened it.
    pub inbound: bool,
    /// True if both sides have sent packets.
    pub replied: bool,
    /// The sides that have sent a FIN: 1 is the inside, 2 the peer.
    pub finished: u8,
    /// The inside end.
    pub inside: NatEndpoint,
    /// Our end.
    pub outside: NatEndpoint,
    /// The peer.
    pub peer: NatEndpoint,
    /// The time of its last packet.
    pub last_packet: Instant,
    /// Packets from the inside, and from the peer.
    pub packets: [u64; 2],
    mapping: u32,
    /// The inside host that opened it; [`NONE`] if the peer did.
    host: u32,
    /// Its list.
    list: u8,
    before: u32,
    after: u32,
}

/// The reason why a connection was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectError {
    /// The table is full.
    Full,
    /// No port is free.
    NoPort,
    /// The inside host has reached its limit.
    HostLimit,
}

/// An inside host, and the number of connections it has opened.
#[derive(Clone, Copy, Debug)]
struct Host {
    address: u32,
    connections: u32,
}

/// Lists of connections by kind. UDP and ICMP have a second list for answered connections.
const LISTS: usize = ConnectionKind::ALL.len() + 2;
const DATAGRAMS_ANSWERED: usize = ConnectionKind::ALL.len();
const QUERIES_ANSWERED: usize = ConnectionKind::ALL.len() + 1;
/// The lists evicted from first: half-open, closing and unanswered connections.
const UNANSWERED: [usize; 4] = [
    ConnectionKind::Opening as usize,
    ConnectionKind::Closing as usize,
    ConnectionKind::Datagrams as usize,
    ConnectionKind::Queries as usize,
];
/// The lists evicted from if those are empty.
const ANSWERED: [usize; 2] = [DATAGRAMS_ANSWERED, QUERIES_ANSWERED];
/// Connections examined per list to find one whose port can be reused.
const VICTIMS_TRIED: usize = 16;

fn list_of(kind: ConnectionKind, replied: bool) -> usize {
    match kind {
        ConnectionKind::Datagrams if replied => DATAGRAMS_ANSWERED,
        ConnectionKind::Queries if replied => QUERIES_ANSWERED,
        kind => kind as usize,
    }
}

/// The connections of a router.
#[derive(Debug)]
pub struct ConnectionTable {
    connections: Slots<Connection>,
    mappings: Slots<Mapping>,
    /// Connections by protocol, inside end and peer; by protocol, our end and peer.
    outbound: Index,
    inbound: Index,
    /// Mappings by protocol, inside end and our address; by protocol and our end.
    by_inside: Index,
    by_outside: Index,
    /// Inside hosts that have opened connections.
    hosts: Slots<Host>,
    by_host: Index,
    /// The oldest and the newest connection of each list.
    lists: [(u32, u32); LISTS],
    secret: u64,
    predetermined: Option<Predetermined>,
    /// Connections created so far.
    pub created: u64,
    /// Connections evicted early because the table or the ports were full.
    pub evicted: u64,
    /// Connections refused because their host reached its limit.
    pub limited: u64,
}

/// Expired connections removed per new connection.
const EXPIRED_PER_CALL: usize = 8;
/// Ports tried for a new mapping.
const PORTS_TRIED: u64 = 128;
/// Ports tried in addition, of either parity. If all are in use, the range is nearly full, and a connection is evicted instead.
const OTHERS_TRIED: u64 = 16;

impl ConnectionTable {
    /// A table for `most` connections. `secret` keys its hashes, because peers choose the ports.
    pub fn new(most: usize, secret: u64) -> ConnectionTable {
        let most = most.clamp(1, 1 << 24);
        ConnectionTable {
            connections: Slots::new(most),
            mappings: Slots::new(most),
            outbound: Index::new(most),
            inbound: Index::new(most),
            by_inside: Index::new(most),
            by_outside: Index::new(most),
            hosts: Slots::new(most),
            by_host: Index::new(most),
            lists: [(NONE, NONE); LISTS],
            secret,
            predetermined: None,
            created: 0,
            evicted: 0,
            limited: 0,
        }
    }

    /// The slot of an inside host that has opened connections.
    fn host(&self, address: u32) -> Option<u32> {
        let hash = self.hash(0, address.into(), 0);
        self.by_host.find(hash, |slot| self.hosts.values[slot as usize].address == address)
    }

    /// Connections opened by an inside host.
    pub fn opened_by(&self, address: u32) -> usize {
        self.host(address).map_or(0, |slot| self.hosts.values[slot as usize].connections as usize)
    }

    /// The inside host with the most open connections, and their number.
    pub fn busiest(&self) -> Option<(u32, u32)> {
        // Free slots are among them, with a count of zero.
        let busiest = self.hosts.values.iter().max_by_key(|host| host.connections)?;
        (busiest.connections > 0).then_some((busiest.address, busiest.connections))
    }

    /// Connections in the table.
    pub fn count(&self) -> usize {
        self.connections.used()
    }

    /// The capacity of the table.
    pub fn capacity(&self) -> usize {
        self.connections.most
    }

    /// The mixing function of SplitMix64 (Steele, Lea, Flood 2014), keyed and applied twice.
    fn hash(&self, protocol: u8, one: u64, other: u64) -> u64 {
        keyed_hash(self.secret, protocol, one, other)
    }

    /// The connection of an inside end with a peer.
    #[inline]
    pub fn from_inside(&self, protocol: u8, inside: NatEndpoint, peer: NatEndpoint) -> Option<u32> {
        let hash = self.hash(protocol, inside.key(), peer.key());
        self.outbound.find(hash, |slot| {
            let c = &self.connections.values[slot as usize];
            c.inside == inside && c.peer == peer && c.protocol == protocol
        })
    }

    /// The connection of an end of ours with a peer.
    #[inline]
    pub fn from_outside(&self, protocol: u8, outside: NatEndpoint, peer: NatEndpoint) -> Option<u32> {
        let hash = self.hash(protocol, outside.key(), peer.key());
        self.inbound.find(hash, |slot| {
            let c = &self.connections.values[slot as usize];
            c.outside == outside && c.peer == peer && c.protocol == protocol
        })
    }

    /// The mapping of an end of ours.
    pub fn mapping_of_outside(&self, protocol: u8, outside: NatEndpoint) -> Option<u32> {
        let hash = self.hash(protocol, outside.key(), 0);
        self.by_outside.find(hash, |slot| {
            let m = &self.mappings.values[slot as usize];
            m.outside == outside && m.protocol == protocol
        })
    }

    /// The mapping of an inside end to an address of ours.
    pub fn mapping_of_inside(&self, protocol: u8, inside: NatEndpoint, ours: u32) -> Option<u32> {
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

    /// A connection, mutable. The ends must not change: the hash tables find it by them.
    pub fn connection_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.connections.values[slot as usize]
    }

    /// A free port at `ours` between `first` and `last`: the inside port if it is free, as hosts expect; else an unpredictable one (RFC 6056) of the
    /// same parity (RFC 4787 REQ-3, REQ-4). `taken` are ports reserved for forwards.
    pub fn free_port(
        &self,
        protocol: u8,
        inside: NatEndpoint,
        ours: u32,
        (first, last): (u16, u16),
        taken: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let free =
            |port: u16| !taken(port) && self.mapping_of_outside(protocol, NatEndpoint::new(ours, port)).is_none();
        if (first..=last).contains(&inside.port) && free(inside.port) {
            return Some(inside.port);
        }
        let span = u64::from(last - first) + 1;
        // `created` changes with each connection, so the next port of a host is not predictable from the last.
        let start = self.hash(protocol, inside.key(), u64::from(ours) ^ self.created << 32);
        let at = |step: u64| first + ((start >> 16).wrapping_add(step) % span) as u16;
        // Quadratic probing: the growing step leaves a crowded range of ports quickly.
        let alike = (0..PORTS_TRIED).find_map(|i| {
            let port = at(i * (i + 1) / 2 * 2);
            // The parity is set last. At an edge of the range the port of that parity may lie outside.
            let even = (port & !1) | (inside.port & 1);
            let port = if (first..=last).contains(&even) { even } else { port };
            free(port).then_some(port)
        });
        // A port of the other parity is better than none. In a small range every port is tried.
        let tried = if span <= PORTS_TRIED { span } else { OTHERS_TRIED };
        alike.or_else(|| (0..tried).map(at).find(|&port| free(port)))
    }

    /// A connection to evict so that its port is free for a new mapping of `inside`, preferably of the same parity.
    pub fn port_victim(
        &self,
        protocol: u8,
        inside: NatEndpoint,
        ours: u32,
        (first, last): (u16, u16),
        taken: impl Fn(u16) -> bool,
    ) -> Option<u32> {
        // Only a mapping with a single connection becomes free by evicting that connection.
        let alone = |c: &Connection| self.mappings.values[c.mapping as usize].connections == 1;
        let fits = |c: &Connection| {
            let port = c.outside.port;
            c.protocol == protocol && c.outside.address == ours && (first..=last).contains(&port) && !taken(port)
        };
        let found = |lists: &[usize]| {
            let oldest = lists.iter().flat_map(|&list| self.slots_of(list).take(VICTIMS_TRIED));
            let may = oldest.filter(|&slot| fits(self.connection(slot)) && alone(self.connection(slot)));
            // Right parity first, then least recently used.
            may.min_by_key(|&slot| {
                let connection = self.connection(slot);
                (connection.outside.port % 2 != inside.port % 2, connection.last_packet)
            })
        };
        found(&UNANSWERED).or_else(|| found(&ANSWERED))
    }

    /// The connection that a full table evicts.
    fn eviction_victim(&self) -> Option<u32> {
        let oldest = |lists: &[usize]| {
            // Each list is in order of last use, so only the first connections are compared.
            let firsts = lists.iter().map(|&list| self.lists[list].0).filter(|&slot| slot != NONE);
            firsts.min_by_key(|&slot| self.connection(slot).last_packet)
        };
        oldest(&UNANSWERED).or_else(|| oldest(&ANSWERED))
    }

    /// Removes a connection in favour of another.
    pub fn evict(&mut self, slot: u32) {
        self.evicted += 1;
        self.remove(slot);
    }

    /// Creates a connection of `inside` behind `outside` with `peer`, with the existing mapping or a new one. Removes expired connections first. A
    /// full table evicts a connection.
    pub fn connect(
        &mut self,
        protocol: u8,
        (inside, outside, peer): (NatEndpoint, NatEndpoint, NatEndpoint),
        (kind, inbound): (ConnectionKind, bool),
        now: Instant,
        timeouts: &Timeouts,
    ) -> Result<u32, ConnectError> {
        // Expired connections go first, so that an eviction hits a live one only if the table is full of them.
        self.expire(now, timeouts, EXPIRED_PER_CALL);
        // Evict before looking up the mapping: the evicted connection may be the last one of that mapping.
        if self.connections.used() == self.connections.most {
            let oldest = self.eviction_victim().ok_or(ConnectError::Full)?;
            self.evict(oldest);
        }
        if self.predetermined.as_ref().is_some_and(|foreseen| foreseen.full) {
            return Err(ConnectError::Full);
        }
        // An inbound connection to a forwarded port may be the first of its mapping.
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
            last_packet: now,
            packets: [0; 2],
            mapping,
            host: NONE,
            list: list_of(kind, false) as u8,
            before,
            after,
        };
        let Some(slot) = self.connections.take(connection) else { return Err(ConnectError::Full) };
        // Peers open inbound connections: they do not count against the limit of the inside host.
        if !inbound {
            self.connections.values[slot as usize].host = self.count_host(inside.address);
        }
        self.mappings.values[mapping as usize].connections += 1;
        self.outbound.insert(self.hash(protocol, inside.key(), peer.key()), slot);
        self.inbound.insert(self.hash(protocol, outside.key(), peer.key()), slot);
        self.append(slot);
        self.created += 1;
        Ok(slot)
    }

    /// Counts a new connection of an inside host. There are no more hosts than connections, so there is a slot.
    fn count_host(&mut self, address: u32) -> u32 {
        let known = self.host(address).or_else(|| {
            let slot = self.hosts.take(Host { address, connections: 0 })?;
            self.by_host.insert(self.hash(0, address.into(), 0), slot);
            Some(slot)
        });
        if let Some(slot) = known {
            self.hosts.values[slot as usize].connections += 1;
        }
        known.unwrap_or(NONE)
    }

    fn discount_host(&mut self, slot: u32) {
        let Some(host) = self.hosts.values.get_mut(slot as usize) else { return };
        host.connections = host.connections.saturating_sub(1);
        let Host { address, connections } = *host;
        // Free the slot with the last connection: so there are never more hosts than connections.
        if connections == 0 {
            self.by_host.remove(self.hash(0, address.into(), 0), slot);
            self.hosts.free.push(slot);
        }
    }

    fn add_mapping(&mut self, mapping: Mapping) -> Result<u32, ConnectError> {
        let Mapping { protocol, inside, outside, .. } = mapping;
        // Every mapping has a connection, so there are never more mappings than connections.
        let slot = self.mappings.take(mapping).ok_or(ConnectError::Full)?;
        self.by_inside.insert(self.hash(protocol, inside.key(), outside.address.into()), slot);
        self.by_outside.insert(self.hash(protocol, outside.key(), 0), slot);
        Ok(slot)
    }

    /// Records a packet of a connection: moves it to the end of its list, which may have changed.
    pub fn touch(&mut self, slot: u32, (kind, replied): (ConnectionKind, bool), now: Instant) {
        let list = list_of(kind, replied) as u8;
        let connection = &mut self.connections.values[slot as usize];
        (connection.last_packet, connection.kind, connection.replied) = (now, kind, replied);
        // Already the newest of its list: a busy connection is usually not moved.
        if connection.list == list && self.lists[usize::from(list)].1 == slot {
            return;
        }
        self.unlink(slot);
        self.connections.values[slot as usize].list = list;
        self.append(slot);
    }

    /// Removes at most `most` expired connections. Returns their number.
    pub fn expire(&mut self, now: Instant, timeouts: &Timeouts, most: usize) -> usize {
        let mut forgotten = 0;
        for list in 0..LISTS {
            while forgotten < most {
                // The list is in order of last use, so the first connection that is not due ends it.
                let (oldest, _) = self.lists[list];
                if oldest == NONE || !self.is_expired(oldest, now, timeouts) {
                    break;
                }
                self.remove(oldest);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// True if a connection has expired.
    pub fn is_expired(&self, slot: u32, now: Instant, timeouts: &Timeouts) -> bool {
        let connection = self.connection(slot);
        connection.last_packet + timeouts[connection.kind as usize] <= now
    }

    /// Removes a connection, and its mapping with the last connection.
    pub fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let Connection { protocol, inside, outside, peer, mapping, host, .. } = *self.connection(slot);
        self.discount_host(host);
        self.outbound.remove(self.hash(protocol, inside.key(), peer.key()), slot);
        self.inbound.remove(self.hash(protocol, outside.key(), peer.key()), slot);
        self.connections.free.push(slot);
        // The mapping lives as long as its connections; its port is free afterwards.
        let used = &mut self.mappings.values[mapping as usize];
        used.connections -= 1;
        if used.connections == 0 {
            let Mapping { inside, outside, .. } = *used;
            self.by_inside.remove(self.hash(protocol, inside.key(), outside.address.into()), mapping);
            self.by_outside.remove(self.hash(protocol, outside.key(), 0), mapping);
            self.mappings.free.push(mapping);
        }
    }

    /// All connections, oldest first within their kind. Answered ones of UDP and ICMP come last.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        (0..LISTS).flat_map(|list| self.slots_of(list)).map(|slot| self.connection(slot))
    }

    /// The connections of a list, oldest first.
    fn slots_of(&self, list: usize) -> impl Iterator<Item = u32> + '_ {
        let first = Some(self.lists[list].0).filter(|&slot| slot != NONE);
        let step = move |slot: &u32| Some(self.connection(*slot).after).filter(|&slot| slot != NONE);
        std::iter::successors(first, step)
    }

    fn append(&mut self, slot: u32) {
        let list = usize::from(self.connection(slot).list);
        let (first, last) = self.lists[list];
        let connection = &mut self.connections.values[slot as usize];
        (connection.before, connection.after) = (last, NONE);
        if last == NONE {
            self.lists[list] = (slot, slot);
        } else {
            self.connections.values[last as usize].after = slot;
            self.lists[list] = (first, slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Connection { before, after, list, .. } = *self.connection(slot);
        let ends = &mut self.lists[usize::from(list)];
        if before == NONE {
            ends.0 = after
        } else {
            self.connections.values[before as usize].after = after
        }
        if after == NONE { ends.1 = before } else { self.connections.values[after as usize].before = before }
    }
}

#[cfg(test)]
mod tests;
