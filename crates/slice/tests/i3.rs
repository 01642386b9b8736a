//! The fast path of I3 compared with the router without tables, over whole identifiers.

use classifier::{FilterChange, OpaqueKey, RuleResult, TenantFilter, TenantFilters, TenantId, TenantKey, TenantTable};
use packet::{Pool, Region};
use proptest::prelude::*;
use slice::bands::{BandFilters, FilterBands};
use slice::code::i3::{
    BOUNDARY, ChordKey, I3Drop, I3Error, I3Fate, I3Id, I3Node, I3Packet, I3Target, I3Trigger, I3Workload, RingHop,
    RingMark, RingNode, RingView, STACK, STACK_TARGET, fixed_header,
};
use slice::code::{CodeEnv, Diversion, ExceptionCode, Formatted, InnerEdit, LookupKey, LookupResult, code_option};
use slice::{FilterAction, FilterEdit, SliceMemory};
use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// A router, and the filters of its fast path: by definition, and in the table that all slices share.
struct Router {
    node: I3Node,
    bands: FilterBands,
    table: TenantTable,
    actions: Vec<FilterAction>,
    pool: RefCell<Pool>,
}

const SLICE: TenantId = TenantId(3);

/// The filters of a router that sends all packets by one queue and one meta-interface.
fn filters(node: &I3Node) -> BandFilters {
    slice::code::i3::filters(node, |_| (5, 6))
}

impl Router {
    fn new(node: I3Node) -> Router {
        let mut bands = FilterBands::default();
        let mut table = TenantFilters::default();
        table.create(SLICE, 128 << 10).unwrap();
        let mut actions = Vec::new();
        let changes = bands.update(&filters(&node)).into_iter().map(|edit| {
            let FilterEdit::Insert(position, filter) = edit else { panic!("the table is empty") };
            let result = RuleResult { action: actions.len() as u32, ..RuleResult::default() };
            actions.push(filter.action);
            let (value, mask) = (OpaqueKey::from_bytes(&filter.value), OpaqueKey::from_bytes(&filter.mask));
            FilterChange::Insert(position, TenantFilter::new(value, mask, result))
        });
        table.change(SLICE, changes.collect::<Vec<_>>()).unwrap();
        let table = table.reader().refresh().clone();
        Router { node, bands, table, actions, pool: RefCell::new(Pool::new(Region::new(1))) }
    }

    /// The action of the table for a key.
    fn look_up(&self, key: LookupKey) -> &FilterAction {
        let mut result = [None];
        self.table.look_up(&[TenantKey { tenant: SLICE, key: key.opaque() }], &mut result);
        &self.actions[result[0].expect("the filters cover all keys").action as usize]
    }

    /// The packet that the code option makes of this one, and its destination.
    fn forward(&self, bytes: &[u8]) -> Result<(SocketAddrV4, Vec<u8>), Diversion> {
        let memory = SliceMemory::default();
        let registration = code_option("i3").unwrap();
        let mut code = (registration.make)(&Default::default()).unwrap();
        let key = code.parse(bytes, &mut CodeEnv::new(&memory, 0, registration.parse_steps))?;
        let (next, data) = match self.look_up(key) {
            FilterAction::Send { queue: 5, interface: 6, next: SocketAddr::V4(next), data } => (*next, *data),
            FilterAction::Exception(code) => return Err(Diversion::Exception(*code)),
            other => panic!("{other:?}"),
        };
        let mut pool = self.pool.borrow_mut();
        let mut packet = pool.take().unwrap();
        assert!(packet.fill(bytes));
        let result = LookupResult { queue: 0, interface: 0, data };
        let mut env = CodeEnv::new(&memory, 0, registration.format_steps);
        let formatted = code.format(&mut InnerEdit::new(&mut packet), &result, &mut env);
        let after = packet.bytes().to_vec();
        pool.give(packet);
        match formatted {
            Ok(Formatted::Send) => Ok((next, after)),
            Ok(Formatted::Again(_)) => panic!("one look-up decides"),
            Err(diversion) => {
                assert_eq!(after, bytes, "the slow path gets the packet unchanged");
                Err(diversion)
            }
        }
    }

    /// The fate of a packet by the fast path alone. `Err` if it leaves the packet to the slow path.
    fn fast(&self, packet: &[u8]) -> Result<I3Fate, ExceptionCode> {
        match self.forward(packet) {
            Ok(sent) => Ok(I3Fate::Sent(vec![sent])),
            Err(Diversion::Exception(code)) => Err(code),
            Err(Diversion::Malformed) => {
                Ok(I3Fate::Dropped(I3Drop::Invalid(I3Packet::parse(packet).expect_err("it is valid"))))
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn id(bytes: &[(usize, u8)]) -> I3Id {
    let mut id = I3Id([0; 32]);
    bytes.iter().for_each(|(at, value)| id.0[*at] = *value);
    id
}

fn node(place: &I3Id, last: u8) -> RingNode {
    RingNode { key: place.chord_key(), address: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 5610) }
}

fn to(last: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, last), 4000)
}

fn trigger(id: I3Id, last: u8) -> I3Trigger {
    I3Trigger { id, prefix: 256, target: I3Target::Address(to(last)) }
}

fn packet_of(flags: u8, mark: RingMark, ids: &[I3Id], payload: &[u8]) -> Vec<u8> {
    let mut bytes = fixed_header(flags, mark, ids.len()).to_vec();
    ids.iter().for_each(|id| bytes.extend(id.0));
    bytes.extend(payload);
    bytes
}

/// A data packet from an end system.
fn data(id: I3Id) -> Vec<u8> {
    packet_of(0x50, RingMark::default(), &[id], b"data")
}

/// A router alone on its ring.
fn alone(triggers: impl IntoIterator<Item = I3Trigger>) -> Router {
    Router::new(I3Node::new(RingView::new(node(&id(&[]), 1), []), triggers))
}

#[test]
fn i3_simple_trigger_delivers_without_identifier() {
    let place = id(&[(0, 5), (31, 6)]);
    let router = alone([trigger(place, 7)]);
    let delivered = packet_of(0x10, RingMark::default(), &[], b"data");
    assert_eq!(delivered.len(), 3 + 4);
    assert_eq!(router.fast(&data(place)), Ok(I3Fate::Sent(vec![(to(7), delivered)])));
    // The other 152 bits count too.
    for at in 13..32 {
        let mut other = place;
        other.0[at] ^= 0x10;
        assert_eq!(router.fast(&data(other)), Err(ExceptionCode::NoMatch), "byte {at}");
    }
    assert_eq!(router.fast(&data(id(&[(12, 1)]))), Err(ExceptionCode::NoMatch));
}

#[test]
fn i3_prefix_length_of_a_trigger_counts_from_192_bits_on() {
    let place = id(&[(0, 5)]);
    let router = |prefix| alone([I3Trigger { prefix, ..trigger(place, 7) }]);
    let delivers = |prefix, at: usize| router(prefix).fast(&data(id(&[(0, 5), (at, 0x80)]))).is_ok();
    assert!(delivers(0, 24) && delivers(192, 24) && !delivers(0, 23) && !delivers(193, 24));
    assert!(delivers(200, 25) && !delivers(201, 25) && delivers(248, 31) && !delivers(256, 31));
}

#[test]
fn i3_104bit_collision_to_slowpath() {
    // They agree in 103 bits: two entries.
    let (first, near) = (id(&[(0, 5)]), id(&[(0, 5), (12, 1)]));
    let router = alone([trigger(first, 7), trigger(near, 8)]);
    let sent = |router: &Router, place| match router.fast(&data(place)) {
        Ok(I3Fate::Sent(packets)) => packets[0].0,
        other => panic!("{other:?}"),
    };
    assert_eq!((sent(&router, first), sent(&router, near)), (to(7), to(8)));
    // They agree in 104 bits: neither is chosen.
    for bit in 104..256u16 {
        let other = id(&[(0, 5), (usize::from(bit / 8), 0x80 >> (bit % 8))]);
        let router = alone([trigger(first, 7), trigger(other, 8)]);
        assert_eq!(router.fast(&data(first)), Err(ExceptionCode::MultiMatch), "bit {bit}");
        assert_eq!(router.fast(&data(other)), Err(ExceptionCode::MultiMatch), "bit {bit}");
    }
}

#[test]
fn i3_multi_match_to_slowpath() {
    let place = id(&[(0, 5)]);
    let router = alone([trigger(place, 7), trigger(place, 8)]);
    assert_eq!(router.fast(&data(place)), Err(ExceptionCode::MultiMatch));
    let copy = packet_of(0x10, RingMark::default(), &[], b"data");
    assert_eq!(router.node.process(&data(place)), I3Fate::Sent(vec![(to(7), copy.clone()), (to(8), copy)]));
}

#[test]
fn i3_stack_and_options_to_slowpath() {
    let (place, next) = (id(&[(0, 5)]), id(&[(0, 6)]));
    let router = alone([trigger(place, 7), I3Trigger { target: I3Target::Stack(vec![place]), ..trigger(next, 0) }]);
    for ids in 2..=15 {
        let packet = packet_of(0x10, RingMark::default(), &vec![place; ids], b"data");
        assert_eq!(router.fast(&packet), Err(STACK), "{ids} identifiers");
        // The slow path removes the first one.
        let rest = packet_of(0x10, RingMark::default(), &vec![place; ids - 1], b"data");
        assert_eq!(router.node.process(&packet), I3Fate::Sent(vec![(to(7), rest)]));
    }
    for flags in [0x20, 0x30, 0x60, 0x70] {
        let packet = packet_of(flags, RingMark::default(), &[place], b"\0\0");
        assert_eq!(router.fast(&packet), Err(ExceptionCode::Options));
        assert_eq!(router.node.process(&packet), I3Fate::Message);
    }
    // A trigger that leads to other identifiers.
    assert_eq!(router.fast(&data(next)), Err(STACK_TARGET));
    assert_eq!(router.node.process(&data(next)), router.node.process(&data(place)));
}

#[test]
fn i3_triggers_that_lead_to_each_other_end() {
    let (place, next) = (id(&[(0, 5)]), id(&[(0, 6)]));
    let leads = |from, to: &[I3Id]| I3Trigger { target: I3Target::Stack(to.to_vec()), ..trigger(from, 0) };
    let circle = alone([leads(place, &[next]), leads(next, &[place])]);
    assert_eq!(circle.node.process(&data(place)), I3Fate::Dropped(I3Drop::HopLimit));
    let twice = alone([leads(place, &[place]), leads(place, &[place])]);
    assert!(matches!(twice.node.process(&data(place)), I3Fate::Dropped(_)));
    let longer = alone([leads(place, &[place, place])]);
    assert_eq!(longer.node.process(&data(place)), I3Fate::Dropped(I3Drop::TooLarge));
}

#[test]
fn i3_hop_limit_to_slowpath() {
    let router = Router::new(I3Node::new(RingView::new(node(&id(&[(0, 9)]), 1), [node(&id(&[(0, 200)]), 2)]), []));
    let packet = |hops| packet_of(0x10, RingMark { hops, is_last: false }, &[id(&[(0, 100)])], b"");
    assert!(matches!(router.fast(&packet(63)), Ok(I3Fate::Sent(_))));
    for hops in [64, 65, 127] {
        assert_eq!(router.fast(&packet(hops)), Err(ExceptionCode::Ttl));
        assert_eq!(router.node.process(&packet(hops)), I3Fate::Dropped(I3Drop::HopLimit));
    }
}

/// The key of a packet for `place`.
fn key_of(place: &I3Id, is_last: bool) -> LookupKey {
    let packet = packet_of(0x10, RingMark { hops: 0, is_last }, &[*place], b"");
    let mut code = (code_option("i3").unwrap().make)(&Default::default()).unwrap();
    code.parse(&packet, &mut CodeEnv::new(&SliceMemory::default(), 0, 0)).unwrap()
}

/// The hop of an action, `None` if it leaves the packet to the slow path because of a boundary.
fn hop_of(action: &FilterAction) -> Option<RingHop> {
    match action {
        // Forward, without the mark and with it.
        FilterAction::Send { next: SocketAddr::V4(to), data: [kind @ (0 | 1), ..], .. } => {
            Some(RingHop::Router { to: *to, is_last: *kind == 1 })
        }
        FilterAction::Exception(BOUNDARY) => None,
        FilterAction::Exception(ExceptionCode::NoMatch) => Some(RingHop::Local),
        other => panic!("{other:?}"),
    }
}

#[test]
fn i3_invalid_packets_are_dropped() {
    let router = alone([trigger(id(&[]), 7)]);
    let valid = data(id(&[]));
    for length in 0..35 {
        assert_eq!(router.forward(&valid[..length]), Err(Diversion::Malformed), "{length} bytes");
        assert_eq!(router.node.process(&valid[..length]), I3Fate::Dropped(I3Drop::Invalid(I3Error::Truncated)));
    }
    for (at, value) in [(0, 0x11), (1, 0x90), (1, 0x40), (2, 0)] {
        let mut packet = valid.clone();
        packet[at] = value;
        assert_eq!(router.forward(&packet), Err(Diversion::Malformed), "byte {at}");
    }
}

#[test]
fn i3_blocks_of_routers_to_slowpath() {
    // The identifiers up to a router's key are its own, those behind it not: 104 bits do not say.
    let (own, successor) = (id(&[(0, 9), (19, 4)]), id(&[(0, 200), (19, 4)]));
    let router = Router::new(I3Node::new(RingView::new(node(&own, 1), [node(&successor, 2)]), [trigger(own, 7)]));
    for (place, code) in [(id(&[(0, 200)]), BOUNDARY), (id(&[(0, 9), (19, 3)]), ExceptionCode::NoMatch)] {
        assert_eq!(router.fast(&data(place)), Err(code));
    }
    assert_eq!(router.node.process(&data(id(&[(0, 9), (19, 3)]))), I3Fate::Dropped(I3Drop::NoTrigger));
    // A trigger in such a block decides for its own identifier.
    assert!(router.fast(&data(own)).is_ok());
}

#[test]
fn i3_trigger_in_the_part_of_another_router_is_not_used() {
    // It arrived when this router was still responsible.
    let place = id(&[(0, 100)]);
    let ring = RingView::new(node(&id(&[(0, 9)]), 1), [node(&id(&[(0, 200)]), 2)]);
    let router = Router::new(I3Node::new(ring, [trigger(place, 7)]));
    let forwarded = router.node.process(&data(place));
    assert!(matches!(&forwarded, I3Fate::Sent(sent) if sent[0].0 == node(&place, 2).address));
    assert_eq!(router.fast(&data(place)), Ok(forwarded));
}

#[test]
fn i3_range_wraparound() {
    // This router is behind zero, its successor far ahead, and the last range crosses zero.
    let (own, successor, predecessor) = (id(&[(12, 2)]), id(&[(0, 0x80)]), id(&[(0, 0xff), (12, 0xff)]));
    let router =
        Router::new(I3Node::new(RingView::new(node(&own, 1), [node(&successor, 2), node(&predecessor, 3)]), []));
    let block = |block: u128| {
        let mut place = I3Id([0x77; 32]);
        place.0[..13].copy_from_slice(&block.to_be_bytes()[3..]);
        place
    };
    let last = (1u128 << 104) - 1;
    let to = |last, is_last| Some(RingHop::Router { to: node(&own, last).address, is_last });
    let (at_successor, at_predecessor) = (1u128 << 103, predecessor.block());
    let hops = [
        (predecessor.block() + 1, Some(RingHop::Local)),
        (last, Some(RingHop::Local)),
        (0, Some(RingHop::Local)),
        (1, Some(RingHop::Local)),
        (2, None),
        (3, to(2, true)),
        (at_successor - 1, to(2, true)),
        (at_successor, None),
        (at_successor + 1, to(2, false)),
        (at_predecessor - 1, to(2, false)),
        (at_predecessor, None),
    ];
    let hop = |place: &I3Id, is_last| hop_of(router.look_up(key_of(place, is_last)));
    for (at, expected) in hops {
        assert_eq!(hop(&block(at), false), expected, "block {at:026x}");
        // Packets with the mark are ours or the predecessor's: only our own boundaries matter.
        let expected = match expected {
            None if at == at_successor => to(3, true),
            Some(RingHop::Router { .. }) => to(3, true),
            other => other,
        };
        assert_eq!(hop(&block(at), true), expected, "block {at:026x} with the mark");
    }
}

/// A key in one of four blocks, two of which are at either end of the ring, at one of three places.
fn crowded_key() -> impl Strategy<Value = ChordKey> {
    (0usize..4, 0usize..3).prop_map(|(block, place)| {
        let mut key = ChordKey([0; 20]);
        let block = [0u128, 1, 1 << 60, (1 << 104) - 1][block];
        key.0[..13].copy_from_slice(&block.to_be_bytes()[3..]);
        key.0[13..].copy_from_slice(&[[0; 7], [0x80; 7], [0xff; 7]][place]);
        key
    })
}

fn node_at(key: ChordKey) -> RingNode {
    let number = key.0[12] ^ key.0[5] ^ key.0[13] >> 4;
    RingNode { key, address: SocketAddrV4::new(Ipv4Addr::new(10, 0, key.0[12], number), 1000 + u16::from(key.0[13])) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn tables_have_the_next_hop_of_crowded_rings(
        own in crowded_key(), others in proptest::collection::vec(crowded_key(), 0..6), keys in proptest::collection::vec(crowded_key(), 8),
        free in proptest::collection::vec(any::<[u8; 20]>(), 4), is_last: bool,
    ) {
        let others: Vec<RingNode> = others.into_iter().map(node_at).collect();
        let node = I3Node::new(RingView::new(node_at(own), others), []);
        let bands = {
            let mut bands = FilterBands::default();
            bands.update(&filters(&node));
            bands
        };
        for key in keys.into_iter().chain(free.into_iter().map(ChordKey)) {
            let mut place = I3Id([0x55; 32]);
            place.0[..20].copy_from_slice(&key.0);
            let action = bands.find(&key_of(&place, is_last).bytes());
            let expected = node.ring.next_hop(&key, is_last);
            match hop_of(action.expect("the filters cover all keys")) {
                Some(hop) => prop_assert_eq!(hop, expected),
                None => {
                    // Only the blocks of routers, and not those that end with the router's key.
                    let routers = node.ring.ranges();
                    let at = routers.iter().find(|range| range.after.block() == key.block() && !range.after.ends_block());
                    prop_assert!(at.is_some());
                }
            }
        }
    }
}

fn frames() -> usize {
    std::env::var("SWITCHPATH_FRAMES").map_or(100_000, |n| n.parse().expect("SWITCHPATH_FRAMES is a number of frames"))
}

#[test]
fn gpe_only_equals_hybrid() {
    const RINGS: u64 = 40;
    let (mut fast, mut fates) = (0, [0u64; 3]);
    for seed in 0..RINGS {
        let mut workload = I3Workload::new(seed, 1 + seed as u32, seed as usize * 2, true);
        let own: Vec<RingNode> = workload.nodes().copied().collect();
        let router = Router::new(workload.router(&own[seed as usize % own.len()]));
        for number in 0..frames() as u64 / RINGS {
            let packet = workload.hostile_packet();
            let alone = router.node.process(&packet);
            fates[match alone {
                I3Fate::Sent(_) => 0,
                I3Fate::Dropped(_) => 1,
                I3Fate::Message => 2,
            }] += 1;
            // A packet of the slow path has the fate of the router without tables by itself.
            if let Ok(fate) = router.fast(&packet) {
                fast += 1;
                assert_eq!(fate, alone, "seed {seed}, packet {number}: {packet:02x?}");
            }
            if number % 64 == 0
                && let Ok(parsed) = I3Packet::parse(&packet)
            {
                let key = key_of(&parsed.id(), parsed.mark.is_last);
                assert_eq!(Some(router.look_up(key)), router.bands.find(&key.bytes()), "seed {seed}, packet {number}");
            }
        }
    }
    let all = fates.iter().sum::<u64>();
    // The frames are of all kinds, and the fast path is not idle.
    assert!(fates.iter().all(|fate| *fate > all / 100) && fast > all / 4, "{fast} of {all} by tables, fates {fates:?}");
}

#[test]
fn i3_packets_reach_their_triggers_by_tables_alone() {
    let mut workload = I3Workload::new(1, 64, 500, false);
    let nodes: Vec<RingNode> = workload.nodes().copied().collect();
    let routers: Vec<Router> = nodes.iter().map(|own| Router::new(workload.router(own))).collect();
    let mut most_hops = 0;
    for number in 0..2000 {
        let first = workload.packet(20);
        let (mut packet, mut at) = (first.clone(), number % routers.len());
        let place = I3Packet::parse(&first).unwrap().id();
        for hops in 0.. {
            let Ok(I3Fate::Sent(sent)) = routers[at].fast(&packet) else { panic!("packet {number} at router {at}") };
            let [(to, bytes)] = &sent[..] else { panic!("one packet") };
            match nodes.iter().position(|node| node.address == *to) {
                Some(next) => (at, packet) = (next, bytes.clone()),
                None => {
                    assert_eq!(nodes[at], *workload.responsible(&place.chord_key()));
                    assert_eq!(bytes[3..], first[35..]);
                    most_hops = most_hops.max(hops);
                    break;
                }
            }
        }
    }
    // About half the logarithm of the routers on average, the logarithm at most.
    assert!((2..=7).contains(&most_hops), "{most_hops} hops");
}

#[test]
fn i3_changes_of_triggers_touch_no_other_filters() {
    let workload = I3Workload::new(5, 64, 400, false);
    let own = *workload.nodes().next().unwrap();
    let node = workload.router(&own);
    let mut bands = FilterBands::default();
    let all = bands.update(&filters(&node)).len();
    let place = node.ring.own().key;
    let mut added = I3Id([1; 32]);
    added.0[..20].copy_from_slice(&place.0);
    let more = I3Node::new(node.ring.clone(), node.triggers().cloned().chain([trigger(added, 9)]));
    assert!(matches!(bands.update(&filters(&more))[..], [FilterEdit::Insert(..)]));
    assert!(matches!(bands.update(&filters(&node))[..], [FilterEdit::Delete(_)]));
    assert_eq!((bands.len(), bands.is_empty()), (all, false));
    // A share of the 128 K entries that leaves room for other slices.
    assert!(all < 4096, "{all} filters");
}
