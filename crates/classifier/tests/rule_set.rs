//! Rule sets against a list that is tried from its beginning, while rules come and go.

mod random;

use classifier::{Key, RuleResult, RuleSet, TernaryRule};
use proptest::prelude::*;
use random::Random;

/// Words with few different bits: many rules share values, masks and ranges, overlap and hide each other.
fn word() -> impl Strategy<Value = u64> {
    let few = prop_oneof![
        Just(0),
        Just(u64::MAX),
        (0u32..64).prop_map(|bits| u64::MAX << bits),
        (0u32..=32).prop_map(|bits| u64::from(u32::MAX.checked_shl(bits).unwrap_or(0))),
        any::<u64>(),
        (0u64..256).prop_map(|byte| byte << 24 | byte << 56),
    ];
    (few.clone(), few).prop_map(|(a, b)| a & b)
}

fn range() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        4 => Just((0, u16::MAX)),
        2 => (0u16..32).prop_map(|port| (port, port)),
        1 => (0u16..64, 0u16..64).prop_map(|(a, b)| (a.min(b), a.max(b))),
        1 => Just((1024, u16::MAX)),
        1 => any::<(u16, u16)>().prop_map(|(a, b)| (a.min(b), a.max(b))),
    ]
}

type Parts<const W: usize> = (Vec<(u64, u64)>, [(u16, u16); 4], u32);

fn rule<const W: usize>() -> impl Strategy<Value = Parts<W>> {
    let words = proptest::collection::vec((word(), word()), W - 1);
    (words, [range(), range(), range(), range()], 0u32..500)
}

fn made<const W: usize>((words, lanes, rank): &Parts<W>, id: usize) -> TernaryRule<W> {
    let mut rule = TernaryRule::any(*rank, RuleResult { counter: id as u32, ..RuleResult::default() });
    for (w, (value, mask)) in words.iter().enumerate() {
        rule = rule.bits(w, *value, *mask);
    }
    for (lane, (low, high)) in (0..).zip(lanes) {
        rule = rule.lane(lane, *low..=*high);
    }
    rule
}

/// A key in a rule, or near it: `change` flips bits of one word.
fn key_near<const W: usize>(rule: &TernaryRule<W>, free: [u64; W], (w, change): (usize, u64)) -> Key<W> {
    let mut key = rule.key_with(free);
    key.0[w % W] ^= change;
    key
}

/// Compares the ranks that the set and the list find.
fn agrees<const W: usize>(set: &RuleSet<W>, list: &[TernaryRule<W>], keys: &[Key<W>]) -> Result<(), TestCaseError> {
    let mut found = vec![None; keys.len()];
    set.look_up(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let first = list.iter().filter(|rule| rule.matches(key)).map(|rule| rule.rank).min();
        prop_assert_eq!(found.map(|rule: &TernaryRule<W>| rule.rank), first, "{:x?}", key);
        prop_assert!(found.is_none_or(|rule| rule.matches(key) && list.contains(rule)));
    }
    Ok(())
}

fn run<const W: usize>(
    rules: &[Parts<W>],
    built: usize,
    changes: &[(usize, bool)],
    keys: &[(usize, [u64; W], (usize, u64))],
) -> Result<(), TestCaseError> {
    let ternary: Vec<TernaryRule<W>> = rules.iter().enumerate().map(|(i, rule)| made(rule, i)).collect();
    let keys: Vec<Key<W>> =
        keys.iter().map(|(i, free, near)| key_near(&ternary[i % ternary.len()], *free, *near)).collect();
    let mut list = ternary[..built.min(ternary.len())].to_vec();
    let mut set = RuleSet::build(list.clone());
    agrees(&set, &list, &keys)?;
    for (i, rebuild) in changes {
        let rule = ternary[i % ternary.len()];
        let before = (set.clone(), list.clone());
        match list.iter().position(|other| *other == rule) {
            Some(at) => {
                prop_assert!(!set.insert(rule));
                prop_assert!(set.remove(&rule));
                list.remove(at);
            }
            None => {
                prop_assert!(!set.remove(&rule));
                prop_assert!(set.insert(rule));
                list.push(rule);
            }
        }
        if *rebuild {
            set = set.rebuilt();
        }
        prop_assert_eq!(set.len(), list.len());
        // The version that others still read is as it was.
        agrees(&before.0, &before.1, &keys[..keys.len().min(3)])?;
    }
    agrees(&set, &list, &keys)?;
    let mut expected: Vec<(u32, u32)> = list.iter().map(|rule| (rule.rank, rule.result.counter)).collect();
    let mut rules: Vec<(u32, u32)> = set.rules().iter().map(|rule| (rule.rank, rule.result.counter)).collect();
    expected.sort_unstable();
    rules.sort_unstable();
    prop_assert_eq!(rules, expected);
    Ok(())
}

proptest! {
    #[test]
    fn rule_set_agrees_with_a_list(
        rules in proptest::collection::vec(rule::<4>(), 1..300),
        built in 0usize..300,
        changes in proptest::collection::vec((any::<usize>(), prop::bool::weighted(0.02)), 0..100),
        keys in proptest::collection::vec((any::<usize>(), any::<[u64; 4]>(), (any::<usize>(), word())), 1..200),
    ) {
        run(&rules, built, &changes, &keys)?;
    }

    #[test]
    fn rule_set_that_grows_out_of_a_short_list_and_back_agrees_with_a_list(
        rules in proptest::collection::vec(rule::<4>(), 1..60),
        built in 0usize..40,
        changes in proptest::collection::vec((any::<usize>(), prop::bool::weighted(0.02)), 0..80),
        keys in proptest::collection::vec((any::<usize>(), any::<[u64; 4]>(), (any::<usize>(), word())), 1..100),
    ) {
        run(&rules, built, &changes, &keys)?;
    }

    #[test]
    fn rule_set_of_wide_keys_agrees_with_a_list(
        rules in proptest::collection::vec(rule::<7>(), 1..100),
        built in 0usize..100,
        changes in proptest::collection::vec((any::<usize>(), prop::bool::weighted(0.02)), 0..50),
        keys in proptest::collection::vec((any::<usize>(), any::<[u64; 7]>(), (any::<usize>(), word())), 1..100),
    ) {
        run(&rules, built, &changes, &keys)?;
    }
}

#[test]
fn rules_that_no_bits_separate_are_found_and_removed() {
    // Ranges that share no leading bit, and words without any condition.
    let rule = |i: u16| TernaryRule::<4>::any(i.into(), RuleResult::default()).lane(1, i..=u16::MAX - i);
    let mut set = RuleSet::default();
    let rules: Vec<_> = (0..2000).rev().map(rule).collect();
    rules.iter().for_each(|rule| assert!(set.insert(*rule)));
    let first = |set: &RuleSet<4>, port: u16| {
        let mut found = [None];
        set.look_up(&[Key([0, 0, 0, u64::from(port) << 16])], &mut found);
        found[0].map(|rule| rule.rank)
    };
    for port in [0, 1, 999, 1999, 30000, u16::MAX] {
        assert_eq!(first(&set, port), Some(0), "{port}");
    }
    assert!(set.remove(&rule(0)));
    assert_eq!(first(&set, 0), None);
    assert_eq!(first(&set, 500), Some(1));
    assert!(rules[..1999].iter().all(|rule| set.remove(rule)));
    assert!(set.is_empty() && set.rules().is_empty());
}

#[test]
fn set_that_has_grown_is_worn_until_it_is_rebuilt() {
    let mut random = Random(7);
    let mut set = RuleSet::<4>::default();
    for rank in 0..1000 {
        set.insert(TernaryRule::any(rank, RuleResult::default()).bits(0, random.next(), u64::MAX << (rank % 40)));
    }
    assert!(set.is_worn());
    let rebuilt = set.rebuilt();
    assert!(!rebuilt.is_worn());
    assert_eq!(rebuilt.rules(), set.rules());
}
