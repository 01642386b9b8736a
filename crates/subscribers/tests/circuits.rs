//! Circuit tables against a list of circuits that is searched from its longest prefix on.

use packet::wire::TagStack;
use packet::{Meta, Packet, Pool, Region};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use subscribers::{CircuitError, CircuitTable, LookUpDirection};
use units::{CircuitKey, Mac, ShareId};

/// A queue that packets have before a look-up.
const BEFORE: ShareId = ShareId(7_000_000);

/// A frame to look up: its tags, outermost first, its MAC addresses and its IP addresses.
#[derive(Clone, Debug)]
struct Frame {
    macs: [Mac; 2],
    tags: Vec<u16>,
    /// Source and destination. `None` for a frame without an IP header.
    addresses: Option<[IpAddr; 2]>,
    length: usize,
}

impl Frame {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.macs[1].0, self.macs[0].0].concat();
        for tag in &self.tags {
            bytes.extend([[0x81, 0], tag.to_be_bytes()].concat());
        }
        match self.addresses {
            Some([IpAddr::V4(source), IpAddr::V4(destination)]) => {
                bytes.extend([8, 0, 0x45, 0, 0, 20, 0, 0, 0x20, 1, 9, 17, 0, 0]);
                bytes.extend([source.octets(), destination.octets()].concat());
            }
            Some([IpAddr::V6(source), IpAddr::V6(destination)]) => {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 9]);
                bytes.extend([source.octets(), destination.octets()].concat());
            }
            _ => bytes.extend([8, 6, 0, 1, 8, 0]),
        }
        bytes.truncate(self.length);
        bytes
    }

    /// A packet as the classifier of a bridge leaves it.
    fn packet(&self, pool: &mut Pool) -> Packet {
        let bytes = self.bytes();
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(&bytes));
        let found = TagStack::of(&bytes).and_then(|stack| stack.ip_header(&bytes));
        let (l3, family) = found.unwrap_or((bytes.len(), packet::wire::Family::V4));
        let meta = packet.meta_mut();
        meta.l3 = l3 as u16;
        meta.set_share(BEFORE);
        meta.flags = if family == packet::wire::Family::V6 { Meta::IPV6 } else { 0 };
        packet
    }

    /// The share that the list of circuits gives it.
    fn expected(&self, direction: LookUpDirection, circuits: &[(CircuitKey, ShareId)]) -> Option<ShareId> {
        let side = usize::from(direction != LookUpDirection::Up);
        let bytes = self.bytes();
        let stack = TagStack::of(&bytes);
        let whole = stack
            .and_then(|stack| stack.ip_header(&bytes))
            .is_some_and(|(l3, family)| bytes.len() - l3 >= if family == packet::wire::Family::V4 { 20 } else { 40 });
        let address = self.addresses.filter(|_| whole).map(|addresses| addresses[side]);
        let covering = circuits.iter().filter_map(|(key, share)| match *key {
            CircuitKey::Prefix(network, length) if address.is_some_and(|a| covers(network, length, a)) => {
                Some((length, *share))
            }
            _ => None,
        });
        let by_key = |wanted: CircuitKey| circuits.iter().find(|(key, _)| *key == wanted).map(|(_, share)| *share);
        let tags: Vec<u16> =
            stack.map_or(vec![], |s| s.vlans.into_iter().skip_while(|v| *v == 0).take_while(|v| *v != 0).collect());
        let tagged = direction != LookUpDirection::Down;
        let pair = || by_key(CircuitKey::Vlan { outer: Some(*tags.first()?), vlan: *tags.get(1)? });
        let single = || by_key(CircuitKey::Vlan { outer: None, vlan: *tags.first()? });
        let mac = || {
            if bytes.len() >= 12 || side == 1 && bytes.len() >= 6 {
                by_key(CircuitKey::Mac(self.macs[side]))
            } else {
                None
            }
        };
        covering
            .max_by_key(|(length, _)| *length)
            .map(|(_, share)| share)
            .or_else(|| if tagged { pair().or_else(single) } else { None })
            .or_else(mac)
    }
}

fn covers(network: IpAddr, length: u8, address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| (a ^ b).checked_shr(width - u32::from(length)).unwrap_or(0) == 0;
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Addresses that share many leading bits.
fn address4() -> impl Strategy<Value = IpAddr> {
    (0u32..4, 0u32..4, 0u32..4).prop_map(|(a, b, c)| Ipv4Addr::from_bits(a << 30 | b << 8 | c).into())
}

fn address6() -> impl Strategy<Value = IpAddr> {
    (0u128..3, 0u128..3, 0u128..3)
        .prop_map(|(a, b, c)| Ipv6Addr::from_bits(0x2001_0db8 << 96 | a << 88 | b << 64 | c).into())
}

fn mac() -> impl Strategy<Value = Mac> {
    (0u8..6).prop_map(|last| Mac([2, 0, 0, 0, 0, last]))
}

fn tag() -> impl Strategy<Value = u16> {
    prop_oneof![1u16..4, Just(4094)]
}

/// Keys with prefixes of any length, or of few.
fn keys() -> impl Strategy<Value = Vec<CircuitKey>> {
    let any = (
        proptest::collection::vec(0u8..=32, 5..20),
        proptest::collection::vec(prop_oneof![30..=64u8, 0..=128u8], 5..20),
    );
    let few = (
        proptest::collection::vec(prop_oneof![Just(32u8), 0..=32u8], 1..5),
        proptest::collection::vec(0..=128u8, 1..5),
    );
    prop_oneof![any, few]
        .prop_flat_map(|(lengths4, lengths6)| proptest::collection::vec(key(lengths4, lengths6), 0..40))
}

fn key(lengths4: Vec<u8>, lengths6: Vec<u8>) -> impl Strategy<Value = CircuitKey> {
    use proptest::sample::select;
    prop_oneof![
        3 => (address4(), select(lengths4)).prop_map(|(address, length)| CircuitKey::Prefix(address, length)),
        3 => (address6(), select(lengths6)).prop_map(|(address, length)| CircuitKey::Prefix(address, length)),
        1 => mac().prop_map(CircuitKey::Mac),
        1 => (proptest::option::of(tag()), tag()).prop_map(|(outer, vlan)| CircuitKey::Vlan { outer, vlan }),
    ]
}

fn frame() -> impl Strategy<Value = Frame> {
    let addresses = prop_oneof![
        3 => [address4(), address4()].prop_map(Some),
        3 => [address6(), address6()].prop_map(Some),
        1 => Just(None),
    ];
    let tags = proptest::collection::vec(prop_oneof![4 => tag(), 1 => Just(0)], 0..4);
    let length = prop_oneof![5 => Just(100usize), 1 => 1usize..100];
    ([mac(), mac()], tags, addresses, length).prop_map(|(macs, tags, addresses, length)| Frame {
        macs,
        tags,
        addresses,
        length,
    })
}

proptest! {
    #[test]
    fn look_up_finds_the_longest_prefix_then_tags_then_mac(
        keys in keys(),
        frames in proptest::collection::vec(frame(), 0..300),
    ) {
        // Later entries of an equal prefix are left out; equal prefixes may have different bits after their length.
        let mut circuits: Vec<(CircuitKey, ShareId)> = Vec::new();
        for (number, key) in (1..).zip(keys) {
            let same = |other: &CircuitKey| match (*other, key) {
                (CircuitKey::Prefix(a, m), CircuitKey::Prefix(b, n)) => m == n && covers(a, m, b),
                (a, b) => a == b,
            };
            if !circuits.iter().any(|(other, _)| same(other)) {
                circuits.push((key, ShareId(number)));
            }
        }
        let table = CircuitTable::new(circuits.iter().copied()).unwrap();
        prop_assert_eq!(table.keys(), circuits.len());
        let mut pool = Pool::new(Region::new(512));
        for direction in [LookUpDirection::Up, LookUpDirection::Down, LookUpDirection::DownBridged] {
            let mut packets: Vec<Packet> = frames.iter().map(|frame| frame.packet(&mut pool)).collect();
            table.look_up(direction, &mut packets);
            for (packet, frame) in packets.iter().zip(&frames) {
                let expected = frame.expected(direction, &circuits).unwrap_or(BEFORE);
                prop_assert_eq!(packet.meta().share(), expected, "{:?} {:?} in {:?}", direction, frame, circuits);
                prop_assert_eq!(packet.bytes(), frame.bytes());
            }
            packets.into_iter().for_each(|packet| pool.give(packet));
        }
    }
}

#[test]
fn impossible_and_duplicate_circuit_keys_are_refused() {
    let prefix = |text: &str, length| CircuitKey::Prefix(text.parse().unwrap(), length);
    let vlan = |outer, vlan| CircuitKey::Vlan { outer, vlan };
    let new =
        |entries: &[(CircuitKey, u32)]| CircuitTable::new(entries.iter().map(|&(key, share)| (key, ShareId(share))));
    for (key, share, error) in [
        (prefix("10.0.0.1", 33), 1, CircuitError::PrefixLength(prefix("10.0.0.1", 33))),
        (prefix("fd00::1", 129), 1, CircuitError::PrefixLength(prefix("fd00::1", 129))),
        (CircuitKey::Mac(Mac::BROADCAST), 1, CircuitError::NotUnicast(CircuitKey::Mac(Mac::BROADCAST))),
        (CircuitKey::Mac(Mac::ZERO), 1, CircuitError::NotUnicast(CircuitKey::Mac(Mac::ZERO))),
        (vlan(None, 0), 1, CircuitError::VlanRange(vlan(None, 0))),
        (vlan(Some(4095), 1), 1, CircuitError::VlanRange(vlan(Some(4095), 1))),
        (vlan(None, 5), 0, CircuitError::ShareRange(vlan(None, 5), ShareId(0))),
        (vlan(None, 5), 1 << 24, CircuitError::ShareRange(vlan(None, 5), ShareId(1 << 24))),
    ] {
        assert_eq!(new(&[(key, share)]).err(), Some(error));
    }
    // The bits after a prefix do not distinguish it.
    let twice = |share| new(&[(prefix("10.0.0.1", 24), 1), (vlan(None, 9), 4), (prefix("10.0.0.2", 24), share)]);
    assert_eq!(twice(2).err(), Some(CircuitError::Duplicate(prefix("10.0.0.0", 24))));
    assert_eq!(twice(1).unwrap().keys(), 2);
}

#[test]
fn hundred_thousand_macs_and_tag_pairs_are_found() {
    let mac = |n: u32| Mac::from_number(0x02_0000_0000_0000 << 8 >> 8 | u64::from(n) << 8 | 2 << 40);
    let keys = (0..100_000u32).flat_map(|n| {
        let pair = CircuitKey::Vlan { outer: Some((n / 4000 + 1) as u16), vlan: (n % 4000 + 1) as u16 };
        [(CircuitKey::Mac(mac(n)), ShareId(n + 1)), (pair, ShareId(n + 200_001))]
    });
    let table = CircuitTable::new(keys).unwrap();
    assert!(table.memory().get() < 16 << 20, "{table:?} uses {}", table.memory());
    let mut pool = Pool::new(Region::new(16));
    for n in (0..100_000).step_by(37) {
        let plain = Frame { macs: [mac(n), Mac::BROADCAST], tags: vec![], addresses: None, length: 100 };
        let tagged = Frame {
            macs: [mac(100_001 + n), Mac::BROADCAST],
            tags: vec![(n / 4000 + 1) as u16, (n % 4000 + 1) as u16],
            ..plain.clone()
        };
        let unknown = Frame { tags: vec![30, 1], ..tagged.clone() };
        let mut packets = [plain, tagged, unknown].map(|frame| frame.packet(&mut pool));
        table.look_up(LookUpDirection::Up, &mut packets);
        assert_eq!(
            packets.each_ref().map(|packet| packet.meta().share()),
            [ShareId(n + 1), ShareId(n + 200_001), BEFORE]
        );
        packets.into_iter().for_each(|packet| pool.give(packet));
    }
}

#[test]
fn share_of_a_rule_precedes_that_of_the_circuit() {
    let mac = Mac::from_number(0x0200_0000_0001);
    let table = CircuitTable::new([(CircuitKey::Mac(mac), ShareId(5))].into_iter()).unwrap();
    let frame = Frame { macs: [mac, Mac::BROADCAST], tags: vec![], addresses: None, length: 100 };
    let mut pool = Pool::new(Region::new(16));
    let mut packets = [frame.packet(&mut pool), frame.packet(&mut pool)];
    packets[1].meta_mut().set_share_by_rule(ShareId(9));
    table.look_up(LookUpDirection::Up, &mut packets);
    assert_eq!(packets.each_ref().map(|packet| packet.meta().share()), [ShareId(5), ShareId(9)]);
}
