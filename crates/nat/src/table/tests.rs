use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TIMEOUTS: Timeouts = [Nanos::secs(10), Nanos::secs(100), Nanos::secs(5), Nanos::secs(20), Nanos::secs(3)];
const OURS: u32 = 0xcb00_7101;

/// A packet from an inside end to a peer. Creates the connection if there is none.
fn packet(
    table: &mut ConnectionTable,
    inside: NatEndpoint,
    peer: NatEndpoint,
    now: Instant,
) -> Result<u32, ConnectError> {
    if let Some(slot) = table.from_inside(17, inside, peer) {
        let replied = table.connection(slot).replied;
        table.touch(slot, (ConnectionKind::Datagrams, replied), now);
        return Ok(slot);
    }
    let outside = match table.mapping_of_inside(17, inside, OURS) {
        Some(mapping) => table.mapping(mapping).outside,
        None => {
            let port = table.free_port(17, inside, OURS, (1024, 1087), |port| port == 1050);
            NatEndpoint::new(OURS, port.ok_or(ConnectError::NoPort)?)
        }
    };
    table.connect(17, (inside, outside, peer), (ConnectionKind::Datagrams, false), now, &TIMEOUTS)
}

proptest! {
    /// Compared with a map of all packets: mappings are a bijection, connections are found from both sides and live as long as specified. The least
    /// recently used one is evicted from a full table, and no port is used twice.
    #[test]
    fn mapping_is_a_bijection_and_lives_as_long_as_its_connections(
        steps in proptest::collection::vec((0u32..12, 1000u16..1100, 0u32..4, 1u64..600_000_000), 1..400),
    ) {
        let mut table = ConnectionTable::new(48, 7);
        let mut naive: BTreeMap<(NatEndpoint, NatEndpoint), (NatEndpoint, Instant)> = BTreeMap::new();
        let mut now = Instant::START;
        for (host, port, peer, wait) in steps {
            now += Nanos::new(wait);
            let due = |used: &Instant| *used + TIMEOUTS[ConnectionKind::Datagrams as usize] <= now;
            naive.retain(|_, (_, used)| !due(used));
            table.expire(now, &TIMEOUTS, usize::MAX);
            let (inside, peer) = (NatEndpoint::new(0x0a00_0000 + host, port), NatEndpoint::new(0xc000_0200 + peer, 53));
            match packet(&mut table, inside, peer, now) {
                Ok(slot) => {
                    let connection = *table.connection(slot);
                    let known = naive.iter().find(|((end, _), _)| *end == inside).map(|(_, (outside, _))| *outside);
                    prop_assert!(known.is_none_or(|outside| outside == connection.outside), "endpoint-independent");
                    if !naive.contains_key(&(inside, peer)) && naive.len() == 48 {
                        let oldest = naive.iter().min_by_key(|(_, (_, used))| *used).map(|(&ends, _)| ends).unwrap();
                        naive.remove(&oldest);
                    }
                    naive.insert((inside, peer), (connection.outside, now));
                }
                Err(ConnectError::Full | ConnectError::HostLimit) => prop_assert!(false, "unanswered connections make room"),
                Err(ConnectError::NoPort) => {
                    let ports: BTreeSet<NatEndpoint> = naive.values().map(|(outside, _)| *outside).collect();
                    prop_assert!(ports.len() >= 28, "{} of 63 given", ports.len());
                }
            }
            prop_assert_eq!(table.count(), naive.len());
            for host in 0..12 {
                let address = 0x0a00_0000 + host;
                let begun = naive.keys().filter(|(inside, _)| inside.address == address).count();
                prop_assert_eq!(table.opened_by(address), begun);
            }
            prop_assert_eq!(table.iter().count(), naive.len());
            let mut owners: BTreeMap<NatEndpoint, NatEndpoint> = BTreeMap::new();
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
fn mappings_preserve_the_port_or_else_its_parity() {
    let mut table = ConnectionTable::new(64, 1);
    let peer = NatEndpoint::new(0xc000_0201, 53);
    for (host, port) in [(1, 1030), (2, 1030), (3, 1031), (4, 1031), (5, 80)] {
        let slot = packet(&mut table, NatEndpoint::new(host, port), peer, Instant::START).unwrap();
        let given = table.connection(slot).outside.port;
        assert_eq!((given % 2, given == port), (port % 2, host == 1 || host == 3), "{host}:{port} {given}");
    }
}

/// A connection of a kind from a host to its own peer, answered or not.
fn connect(
    table: &mut ConnectionTable,
    host: u32,
    (kind, replied): (ConnectionKind, bool),
    at: u64,
) -> Result<u32, ConnectError> {
    let protocol = match kind {
        ConnectionKind::Datagrams => 17,
        ConnectionKind::Queries => 1,
        _ => 6,
    };
    let ends = (NatEndpoint::new(host, 1), NatEndpoint::new(OURS, 1000 + host as u16), NatEndpoint::new(9, 9));
    let now = Instant::new(at);
    let slot = table.connect(protocol, ends, (kind, false), now, &TIMEOUTS)?;
    table.touch(slot, (kind, replied), now);
    Ok(slot)
}

/// Every kind of connection against every other: which one is evicted.
#[test]
fn full_table_evicts_the_oldest_unanswered_and_never_established_tcp() {
    const WORTH: [(ConnectionKind, bool, usize); 7] = [
        (ConnectionKind::Opening, false, 0),
        (ConnectionKind::Opening, true, 0),
        (ConnectionKind::Closing, true, 0),
        (ConnectionKind::Datagrams, false, 0),
        (ConnectionKind::Queries, false, 0),
        (ConnectionKind::Datagrams, true, 1),
        (ConnectionKind::Queries, true, 1),
    ];
    for (first, replied, worth) in WORTH {
        for (second, answered, other) in WORTH {
            let mut table = ConnectionTable::new(4, 1);
            for host in 0..2 {
                connect(&mut table, host, (ConnectionKind::Established, true), 0).unwrap();
            }
            connect(&mut table, 2, (first, replied), 1).unwrap();
            connect(&mut table, 3, (second, answered), 2).unwrap();
            connect(&mut table, 4, (ConnectionKind::Opening, false), 3).unwrap();
            let gone: Vec<u32> = (0..5).filter(|&host| table.opened_by(host) == 0).collect();
            let expected = if worth <= other { 2 } else { 3 };
            assert_eq!(gone, [expected], "{first:?} {replied} before {second:?} {answered}");
            assert_eq!((table.count(), table.evicted), (4, 1));
        }
    }
    let mut table = ConnectionTable::new(2, 1);
    for host in 0..2 {
        connect(&mut table, host, (ConnectionKind::Established, true), 0).unwrap();
    }
    assert_eq!(connect(&mut table, 2, (ConnectionKind::Established, true), 1), Err(ConnectError::Full));
}

#[test]
fn evicted_port_belonged_to_a_single_evictable_connection() {
    let mut table = ConnectionTable::new(16, 1);
    let range = (1000, 1003);
    for host in 0..4 {
        connect(&mut table, host, (ConnectionKind::Datagrams, host == 0), host.into()).unwrap();
    }
    // The second mapping has a connection to another peer too, so it stays.
    let ends = (NatEndpoint::new(1, 1), NatEndpoint::new(OURS, 1001), NatEndpoint::new(8, 8));
    table.connect(17, ends, (ConnectionKind::Datagrams, false), Instant::new(5), &TIMEOUTS).unwrap();
    let inside = NatEndpoint::new(7, 4000);
    assert_eq!(table.free_port(17, inside, OURS, range, |_| false), None);
    let victim = |table: &ConnectionTable, taken: u16| {
        let victim = table.port_victim(17, inside, OURS, range, |port| port == taken);
        victim.map(|slot| table.connection(slot).outside.port)
    };
    assert_eq!(victim(&table, 0), Some(1002), "of the same parity, unanswered, alone");
    assert_eq!(victim(&table, 1002), Some(1003), "of the other parity");
    table.evict(table.port_victim(17, inside, OURS, range, |port| port == 1002).unwrap());
    assert_eq!(victim(&table, 1002), Some(1000), "answered, where there is no other");
    assert_eq!(table.port_victim(6, inside, OURS, range, |_| false), None, "another protocol's ports are others");
}
