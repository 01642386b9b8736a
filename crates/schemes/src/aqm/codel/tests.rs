use super::*;

use crate::model::{Model, ModelFate};
use crate::single::Single;
use alloc::vec::Vec;
use units::Rate;

const MS: fn(u64) -> Nanos = Nanos::millis;

fn codel() -> CoDel {
    CoDel {
        target: MS(5),
        interval: MS(100),
        mtu: Bytes::new(1514),
        limit: 100_000,
        ecn: false,
        count_restart: CountRestart::Rfc8289,
        root: SquareRoot::Exact,
    }
}

fn scheme(codel: CoDel) -> Single<CoDel> {
    Single::new(codel)
}

/// A queue that receives more than the link can send. Returns the times of drops in milliseconds.
fn overloaded(codel: CoDel, seconds: u64, load: f64) -> (Vec<u64>, Model) {
    let (mut scheme, mut model) = (scheme(codel), Model::default());
    model.rate = Rate::mbit(12);
    let mut drops = Vec::new();
    let (mut offered, mut served) = (0.0, 0u64);
    while served < seconds * 1000 {
        // A packet of 1500 bytes leaves each millisecond.
        offered += load;
        while offered >= 1.0 {
            model.arrive_all(&mut scheme, [Record { length: 1500, ecn: 1, ..Record::default() }].into_iter());
            offered -= 1.0;
        }
        let before = model.count_fates(|fate| matches!(fate, ModelFate::Dropped(_)));
        model.ready(&mut scheme, 1);
        let after = model.count_fates(|fate| matches!(fate, ModelFate::Dropped(_)));
        drops.extend((before..after).map(|_| served));
        model.now += MS(1);
        served += 1;
    }
    (drops, model)
}

#[test]
fn codel_rfc8289_vectors() {
    // One and a half packets arrive in a millisecond. A packet that leaves at t arrived at about 2t/3, so from 14 ms on the delay exceeds 5 ms. The
    // first drop is one interval later, then after 100, 100/sqrt(2), 100/sqrt(3) ms ...
    let (drops, _) = overloaded(codel(), 1, 1.5);
    let gaps: Vec<u64> = drops.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(drops[0], 114);
    let expected: Vec<f64> = (1..=gaps.len()).map(|count| 100.0 / (count as f64).sqrt()).collect();
    let mut at = 0.0;
    for (index, gap) in expected.iter().enumerate() {
        at += gap;
        let measured = drops[index + 1] - drops[0];
        assert!((measured as f64 - at).abs() <= 1.0, "drop {index} after {measured} ms, not {at}");
    }
    assert!(drops.len() > 10);
}

#[test]
fn codel_backlog_after_removal() {
    // Two packets of 1514 bytes: without the first one at most an MTU is left, so no packet is ever late.
    let (mut scheme, mut model) = (scheme(codel()), Model::default());
    for _ in 0..50 {
        model.arrive(&mut scheme, &[1514, 1514]);
        model.now += MS(300);
        model.ready(&mut scheme, 2);
    }
    assert_eq!(model.count_fates(|fate| matches!(fate, ModelFate::Sent(_))), 100);
}

#[test]
fn codel_never_drops_last() {
    // The only packet is never dropped, at any delay and size.
    let (mut scheme, mut model) = (scheme(CoDel { mtu: Bytes::new(0), ..codel() }), Model::default());
    for _ in 0..50 {
        model.arrive(&mut scheme, &[60_000]);
        model.now += MS(300);
        model.ready(&mut scheme, 1);
    }
    assert_eq!(model.count_fates(|fate| matches!(fate, ModelFate::Sent(_))), 50);
}

/// Overload, an idle time of `rest` milliseconds, overload. Returns by how much the count at the restart is below the count at the end.
fn begins_again(again: CountRestart, rest: u64) -> u32 {
    let node = CoDel { count_restart: again, ..codel() };
    let (mut each, mut model) = (scheme(node), Model::default());
    // One and a half packets arrive in a millisecond, and one leaves.
    let run = |each: &mut Single<CoDel>, model: &mut Model| {
        let packets = 1 + model.now.get() / 1_000_000 % 2;
        model.arrive(each, &alloc::vec![1500; packets as usize]);
        model.ready(each, 1);
        model.now += MS(1);
    };
    (0..600).for_each(|_| run(&mut each, &mut model));
    let first = each.memory().count;
    assert!(first > 5, "it has dropped for a while: {first}");
    while model.waiting() > 0 {
        model.ready(&mut each, 100);
    }
    model.now += MS(rest);
    for _ in 0..400 {
        run(&mut each, &mut model);
        if each.memory().dropping {
            return first - each.memory().count;
        }
    }
    unreachable!("it drops again")
}

#[test]
fn codel_count_reentry_rfc8289() {
    // The count started at 1. All drops but that one count if the last phase ended less than 1.6 s ago.
    assert_eq!(begins_again(CountRestart::Rfc8289, 100), 1);
    assert!(begins_again(CountRestart::Rfc8289, 2_000) > 4, "it begins with 1 again");
}

#[test]
fn codel_count_reentry_acm2012() {
    assert!(begins_again(CountRestart::Acm2012, 400) > 4);
    assert_eq!(begins_again(CountRestart::Acm2012, 0), 2);
}

#[test]
fn codel_count_reentry_sfqcodel() {
    assert_eq!(begins_again(CountRestart::Sfqcodel, 500), 2);
    assert!(begins_again(CountRestart::Sfqcodel, 1_000) > 4);
}

#[test]
fn codel_marks_ecn_capable_packets() {
    let (drops, marked) = overloaded(CoDel { ecn: true, ..codel() }, 1, 1.5);
    assert!(drops.is_empty());
    let without = overloaded(codel(), 1, 1.5).0;
    let counts = (marked.marked.len(), without.len());
    assert!(counts.0.abs_diff(counts.1) <= 1, "{counts:?}: as many are marked as would be dropped");
}

#[test]
fn codel_with_target_of_1000_s_never_drops() {
    let (drops, model) = overloaded(CoDel { target: Nanos::secs(1000), ..codel() }, 2, 1.7);
    assert!(drops.is_empty() && model.waiting() > 1000);
}
