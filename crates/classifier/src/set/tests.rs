//! Sets against a plain list of elements.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Edits of a few neighbouring elements, so that they overlap and repeat.
fn near_value() -> BoxedStrategy<SetValue> {
    let v4 = (0u32..600, 20u8..=32).prop_map(|(low, length)| (Ipv4Addr::from_bits(0x0a00_0000 + low).into(), length));
    let short = (any::<u32>(), 0u8..=8).prop_map(|(bits, length)| (Ipv4Addr::from_bits(bits).into(), length));
    let edge = (Just(IpAddr::from(Ipv4Addr::BROADCAST)), 0u8..=32);
    let v6 = (0u128..600, 116u8..=128).prop_map(|(low, length)| (Ipv6Addr::from_bits(low << 1).into(), length));
    let far = (any::<u128>(), 0u8..=128).prop_map(|(bits, length)| (Ipv6Addr::from_bits(bits).into(), length));
    prop_oneof![8 => v4, 1 => short, 1 => edge, 4 => v6, 1 => far]
        .prop_map(|(address, length)| SetValue::Addresses(Prefix { address, length }.network()))
        .boxed()
}

fn near_ports() -> BoxedStrategy<SetValue> {
    let near = (0u16..300, 0u16..20).prop_map(|(first, more)| SetValue::Ports(first, first + more));
    let any = (any::<u16>(), any::<u16>()).prop_map(|(a, b)| SetValue::Ports(a.min(b), a.max(b)));
    prop_oneof![9 => near, 1 => any].boxed()
}

#[derive(Clone, Debug)]
enum Step {
    Edits(Vec<SetEdit>),
    Expire,
}

fn step(value: fn() -> BoxedStrategy<SetValue>) -> impl Strategy<Value = Step> {
    let expires = prop_oneof![Just(Instant::NEVER), (1u64..40).prop_map(Instant::new)];
    let add = (value(), expires).prop_map(|(value, expires)| SetEdit::Add(SetElement { value, expires }));
    let edit = prop_oneof![3 => add, 2 => value().prop_map(SetEdit::Remove)];
    // Some batches are larger than a node.
    let some = prop::collection::vec(edit.clone(), 0..8).prop_map(Step::Edits);
    let many = prop::collection::vec(edit, 100..700).prop_map(Step::Edits);
    prop_oneof![4 => some, 2 => many, 1 => Just(Step::Expire)]
}

/// The model: elements by value.
type Model = BTreeMap<SetValue, Instant>;

fn apply(model: &mut Model, edits: &[SetEdit]) {
    for edit in edits {
        match edit {
            SetEdit::Add(element) => _ = model.insert(element.value, element.expires),
            SetEdit::Remove(value) => _ = model.remove(value),
        }
    }
}

fn holds(value: &SetValue, address: IpAddr) -> bool {
    matches!(value, SetValue::Addresses(prefix) if prefix.contains(address))
}

/// The first and the last value of each element, and their neighbours.
fn edges<K: Copy + Ord>(ends: impl Iterator<Item = (K, K)>, near: impl Fn(K) -> [K; 3]) -> Vec<K> {
    ends.flat_map(|(first, last)| near(first).into_iter().chain(near(last))).collect()
}

fn agree(set: &Set, model: &Model) {
    let listed: Model = set.elements().map(|element| (element.value, element.expires)).collect();
    assert_eq!(&listed, model);
    assert_eq!(set.len(), model.len());
    assert_eq!(set.next_expiry(), model.values().min().copied().unwrap_or(Instant::NEVER));
    let prefixes =
        || model.keys().filter_map(|value| if let SetValue::Addresses(prefix) = value { Some(*prefix) } else { None });
    let ends4 = prefixes().filter_map(|prefix| match (prefix.address, prefix.last()) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Some((first.to_bits(), last.to_bits())),
        _ => None,
    });
    let mut v4 = edges(ends4, |at| [at.wrapping_sub(1), at, at.wrapping_add(1)]);
    v4.extend([0, u32::MAX, 0x0a00_0000]);
    let mut marks = vec![2; v4.len()];
    set.mark4(&v4, &mut marks, 4);
    for (address, mark) in v4.into_iter().zip(marks) {
        let expected = model.keys().any(|value| holds(value, Ipv4Addr::from_bits(address).into()));
        assert_eq!(mark, if expected { 6 } else { 2 }, "{}", Ipv4Addr::from_bits(address));
    }
    let ends6 = prefixes().filter_map(|prefix| match (prefix.address, prefix.last()) {
        (IpAddr::V6(first), IpAddr::V6(last)) => Some((first.to_bits(), last.to_bits())),
        _ => None,
    });
    let mut v6 = edges(ends6, |at| [at.wrapping_sub(1), at, at.wrapping_add(1)]);
    v6.extend([0, u128::MAX]);
    let mut marks = vec![0; v6.len()];
    set.mark6(&v6, &mut marks, 1);
    for (address, mark) in v6.into_iter().zip(marks) {
        let expected = model.keys().any(|value| holds(value, Ipv6Addr::from_bits(address).into()));
        assert_eq!(mark == 1, expected, "{}", Ipv6Addr::from_bits(address));
    }
}

fn agree_on_ports(set: &Set, model: &Model) {
    let listed: Model = set.elements().map(|element| (element.value, element.expires)).collect();
    assert_eq!(&listed, model);
    let mut expected = vec![0; 1 << 16];
    for value in model.keys() {
        let SetValue::Ports(first, last) = value else { continue };
        expected[usize::from(*first)..=usize::from(*last)].fill(1 << 63);
    }
    let ports: Vec<u16> = (0..=u16::MAX).collect();
    let mut marks = vec![0; ports.len()];
    set.mark_ports(&ports, &mut marks, 1 << 63);
    assert!(marks == expected, "{model:?}");
}

/// Runs the steps on a set and on the model. Earlier versions of the set must stay what they were.
fn check_steps(kind: SetKind, steps: &[Step], agree: fn(&Set, &Model)) {
    let (mut set, mut model) = (Set::new(kind, 100_000), Model::new());
    let mut now = Instant::START;
    let mut versions = Vec::new();
    for step in steps {
        versions.push((set.clone(), model.clone()));
        match step {
            Step::Edits(edits) => {
                let before = model.clone();
                apply(&mut model, edits);
                let (after, counts) = set.edited(edits.iter().copied()).unwrap();
                set = after;
                let renewed =
                    |(value, expires): (&SetValue, &Instant)| before.get(value).is_some_and(|old| old != expires);
                let expected = SetEditCounts {
                    added: model.keys().filter(|value| !before.contains_key(value)).count(),
                    renewed: model.iter().filter(|one| renewed(*one)).count(),
                    removed: before.keys().filter(|value| !model.contains_key(value)).count(),
                    unchanged: counts.unchanged,
                };
                assert_eq!(counts, expected);
                assert_eq!(counts.added + counts.renewed + counts.removed + counts.unchanged, edits.len());
            }
            Step::Expire => {
                now += units::Nanos::new(10);
                let (after, expired) = set.unexpired(now);
                set = after;
                let gone: Model = expired.into_iter().map(|element| (element.value, element.expires)).collect();
                let (left, due): (Model, Model) = model.into_iter().partition(|(_, expires)| *expires > now);
                model = left;
                assert_eq!(gone, due);
            }
        }
        agree(&set, &model);
    }
    versions.iter().for_each(|(set, model)| agree(set, model));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn set_of_addresses_agrees_with_a_list(steps in prop::collection::vec(step(near_value), 1..10)) {
        check_steps(SetKind::Address, &steps, agree);
    }

    #[test]
    fn set_of_ports_agrees_with_a_list(steps in prop::collection::vec(step(near_ports), 1..8)) {
        check_steps(SetKind::Port, &steps, agree_on_ports);
    }

    #[test]
    fn listing_can_begin_at_any_value(values in prop::collection::btree_set(near_value(), 1..900), from in near_value()) {
        let edits = values.iter().map(|value| SetEdit::Add(SetElement { value: *value, expires: Instant::NEVER }));
        let (set, _) = Set::new(SetKind::Address, 1000).edited(edits).unwrap();
        let listed: Vec<SetValue> = set.elements_from(Some(from)).map(|element| element.value).collect();
        prop_assert_eq!(listed, values.range(from..).copied().collect::<Vec<_>>());
    }
}

fn add(value: SetValue) -> SetEdit {
    SetEdit::Add(SetElement { value, expires: Instant::NEVER })
}

fn text(text: &str) -> SetValue {
    text.parse().unwrap()
}

#[test]
fn removed_prefix_leaves_overlapping_prefixes() {
    let values = ["10.0.0.0/8", "10.1.0.0/16", "10.1.1.1"].map(text);
    let (set, _) = Set::new(SetKind::Address, 9).edited(values.map(add)).unwrap();
    let (set, _) = set.edited([SetEdit::Remove(text("10.0.0.0/8"))]).unwrap();
    let has = |address: &str| set.contains_address(address.parse().unwrap());
    assert!(has("10.1.1.1") && has("10.1.255.255") && !has("10.2.0.1"));
}

#[test]
fn refused_batch_changes_nothing() {
    let set = Set::new(SetKind::Address, 2);
    let wrong = set.edited([add(text("10.0.0.1")), add(text("80"))]).unwrap_err();
    assert_eq!(wrong, SetError::WrongKind { value: text("80"), kind: SetKind::Address });
    let (set, _) = set.edited(["10.0.0.1", "10.0.0.2"].map(text).map(add)).unwrap();
    let many = set.edited([add(text("10.0.0.3"))]).unwrap_err();
    assert_eq!(many.to_string(), "the set would have 3 elements, more than its limit of 2; raise its 'size'");
    assert!(
        set.edited([add(text("10.0.0.3")), SetEdit::Remove(text("10.0.0.1"))]).is_ok(),
        "the batch as a whole fits"
    );
}

#[test]
fn tree_shrinks_with_its_elements() {
    let values = (0..20_000u32).map(|n| SetValue::Addresses(Prefix::host(Ipv4Addr::from_bits(n * 7).into())));
    let (full, _) = Set::new(SetKind::Address, 20_000).edited(values.clone().map(add)).unwrap();
    let mut set = full.clone();
    // One at a time, in an order that leaves every leaf sparse before any is empty.
    let all: Vec<SetValue> = values.collect();
    for offset in 0..100 {
        for value in all.iter().skip(offset).step_by(100) {
            if offset < 90 {
                set = set.edited([SetEdit::Remove(*value)]).unwrap().0;
            }
        }
    }
    assert_eq!(set.len(), 2_000);
    assert!(set.memory().get() * 4 < full.memory().get(), "{:?} of {:?}", set.memory(), full.memory());
}
