//! The semantics of each instruction, as specified.

use super::{NODE, Place, count, put};
use crate::isa::{Abort, Opcode, Operator, StateInstruction};
use crate::site::InstructionFate;
use crate::store::mix;
use units::Nanos;

const ABSENT: InstructionFate = InstructionFate::Aborted(Abort::AbsentTag);

#[test]
fn count_boundary_lt_and_le() {
    let fates = |threshold, inclusive| {
        let mut place = Place::small();
        [0; 4].map(|_| {
            place.fate(StateInstruction::Count { counter: 1, threshold, inclusive }) == InstructionFate::Forwarded
        })
    };
    assert_eq!(fates(0, false), [false; 4]);
    assert_eq!(fates(1, false), [false; 4]);
    assert_eq!(fates(2, false), [true, false, false, false], "only the first of ten seconds");
    assert_eq!(fates(1, true), [true, false, false, false]);
    assert_eq!(fates(3, true), [true, true, true, false]);
    assert_eq!(fates(u32::MAX, true), [true; 4]);
}

#[test]
fn count_saturates() {
    let mut place = Place::small();
    place.fate(put(1, u64::MAX - 1));
    place.fate(count(1, 9));
    assert_eq!(place.value(1), Some(u64::MAX));
    assert_eq!(place.fate(count(1, 9)), InstructionFate::Dropped);
    assert_eq!(place.value(1), Some(u64::MAX));
}

#[test]
fn compare_absent_creates() {
    let mut place = Place::small();
    let mut compare = |value, relation| {
        place.fate(StateInstruction::Compare { tag: 1, value, relation }) == InstructionFate::Forwarded
    };
    // With any relation.
    assert!(compare(5, Operator::Lt));
    let maxima: Vec<bool> = [3, 7, 7, 6, 9].into_iter().map(|value| compare(value, Operator::Gt)).collect();
    assert_eq!(maxima, [false, true, false, false, true]);
    let changes: Vec<bool> = [9, 1, 1, 9].into_iter().map(|value| compare(value, Operator::Ne)).collect();
    assert_eq!(changes, [false, true, false, true]);
    assert_eq!(place.value(1), Some(9));
}

fn collect(value: u64) -> StateInstruction {
    StateInstruction::Collect { counter: 1, result: 2, value, operator: Operator::Add }
}

#[test]
fn collect_without_setup_aborts() {
    let mut place = Place::small();
    assert_eq!(place.run(collect(5)), (ABSENT, collect(5)));
    assert_eq!((place.value(1), place.value(2)), (None, None));
}

#[test]
fn collect_forwards_the_last_report_with_the_result() {
    let mut place = Place::small();
    for _ in 0..3 {
        place.fate(count(1, 100));
    }
    assert_eq!(place.fate(collect(5)), InstructionFate::Dropped);
    assert_eq!(place.fate(collect(6)), InstructionFate::Dropped);
    assert_eq!(place.run(collect(7)), (InstructionFate::Forwarded, collect(18)));
}

#[test]
fn collect_underflow() {
    let mut place = Place::small();
    place.fate(count(1, 100));
    assert_eq!(place.run(collect(5)), (InstructionFate::Forwarded, collect(5)));
    assert_eq!(place.run(collect(6)), (InstructionFate::Aborted(Abort::Underflow), collect(6)));
    assert_eq!((place.value(1), place.value(2)), (Some(0), Some(5)), "never below nothing");
}

fn rchld(child: u64) -> StateInstruction {
    StateInstruction::Rchld { counter: 1, child }
}

fn rcollect(child: u64, value: u64) -> StateInstruction {
    StateInstruction::Rcollect { counter: 1, result: 2, child, value, operator: Operator::Add }
}

/// The child that this router writes.
fn own() -> u64 {
    mix(NODE, 1)
}

#[test]
fn rchld_retransmit_first() {
    let mut place = Place::small();
    assert_eq!(place.run(rchld(10)), (InstructionFate::Forwarded, rchld(own())));
    assert_eq!(place.run(rchld(11)), (InstructionFate::Dropped, rchld(11)));
    // A retransmission passes again, since the first packet may have been lost upstream. The count stays.
    assert_eq!(place.run(rchld(10)), (InstructionFate::Forwarded, rchld(own())));
    assert_eq!(place.run(rchld(11)), (InstructionFate::Dropped, rchld(11)));
    assert_eq!(place.value(1), Some(2));
}

#[test]
fn rcollect_duplicate() {
    let mut place = Place::small();
    assert_eq!(place.fate(rcollect(10, 5)), ABSENT, "nobody knows the child");
    for child in [10, 11] {
        place.fate(rchld(child));
    }
    assert_eq!(place.fate(rcollect(10, 5)), InstructionFate::Dropped);
    assert_eq!(place.fate(rcollect(10, 5)), InstructionFate::Dropped, "counted once");
    assert_eq!((place.value(1), place.value(2)), (Some(1), Some(5)));
    assert_eq!(place.run(rcollect(11, 6)), (InstructionFate::Forwarded, rcollect(own(), 11)));
}

#[test]
fn rcollect_lost_upstream_repair() {
    let mut place = Place::small();
    for child in [10, 11] {
        place.fate(rchld(child));
    }
    for child in [10, 11] {
        place.fate(rcollect(child, 5));
    }
    // The result is sent again for the first child that repeats its report, no matter which. Repeats of other children in the same wave are dropped,
    // so they do not all reach the root.
    for (first, second) in [(10, 11), (10, 11), (11, 10), (11, 10)] {
        assert_eq!(place.run(rcollect(first, 5)), (InstructionFate::Forwarded, rcollect(own(), 10)));
        assert_eq!(place.fate(rcollect(second, 5)), InstructionFate::Dropped);
    }
    // A child that repeats alone has learned the mark of the others' repeats by then, and passes.
    assert_eq!(place.fate(rcollect(11, 5)), InstructionFate::Forwarded);
    assert_eq!(place.fate(rcollect(10, 5)), InstructionFate::Dropped);
    assert_eq!(place.fate(rcollect(10, 5)), InstructionFate::Forwarded);
    assert_eq!((place.value(1), place.value(2)), (Some(0), Some(10)));
}

/// Two routers in a row: the upper one counts the lower one once, however often it reports.
#[test]
fn router_counts_as_one_child_upstream() {
    let (mut lower, mut upper) = (Place::small(), Place::small());
    upper.rules.node = NODE + 1;
    let mut up = |instruction| match lower.run(instruction) {
        (InstructionFate::Forwarded, instruction) => Some(upper.run(instruction)),
        _ => None,
    };
    for child in [10, 11, 10] {
        up(rchld(child));
    }
    assert_eq!(up(rcollect(10, 5)), None);
    for child in [11, 10, 10] {
        let root = rcollect(mix(NODE + 1, 1), 11);
        assert_eq!(up(rcollect(child, 6)), Some((InstructionFate::Forwarded, root)));
    }
    assert_eq!(up(rcollect(11, 6)), None);
}

#[test]
fn mark_keeps_a_value_and_put_overwrites_it() {
    let mut place = Place::small();
    let get = |value| StateInstruction::Get { tag: 1, value };
    assert_eq!(place.run(get(3)), (ABSENT, get(3)));
    assert_eq!(place.fate(StateInstruction::Test { tag: 1 }), InstructionFate::Dropped);
    assert_eq!(place.inspector.entries(place.now).count(), 0, "looking creates nothing");
    place.fate(StateInstruction::Mark { tag: 1, value: 5 });
    place.fate(StateInstruction::Mark { tag: 1, value: 6 });
    assert_eq!(place.run(get(0)), (InstructionFate::Forwarded, get(5)));
    place.fate(put(1, 7));
    assert_eq!(place.run(get(0)), (InstructionFate::Forwarded, get(7)));
    assert_eq!(place.fate(StateInstruction::Test { tag: 1 }), InstructionFate::Forwarded);
    place.wait(Nanos::secs(10));
    assert_eq!(place.fate(get(0)), ABSENT);
}

/// `layer le allowed`, with the packet's layer and the allowed one in the store: `stored ge value`.
#[test]
fn setfwd_drops_layers_above_the_branch_limit() {
    let mut place = Place::small();
    let layer = |value| StateInstruction::Setfwd { tag: 1, value, relation: Operator::Ge };
    assert_eq!(place.fate(layer(0)), InstructionFate::Dropped, "nothing is allowed");
    place.fate(put(1, 2));
    let passes: Vec<bool> = (0..5).map(|n| place.fate(layer(n)) == InstructionFate::Forwarded).collect();
    assert_eq!(passes, [true, true, true, false, false]);
}

#[test]
fn instructions_create_no_more_than_declared() {
    let tags = |place: &Place| place.inspector.entries(place.now).count() as u64;
    for instruction in super::conformance::variants() {
        for before in [vec![], vec![put(0x11, 3)]] {
            let mut place = Place::small();
            for instruction in before {
                place.fate(instruction);
            }
            let there = tags(&place);
            place.fate(instruction);
            assert!(tags(&place) - there <= instruction.opcode().creates(), "{instruction:?}");
        }
    }
    assert_eq!(Opcode::ALL.map(Opcode::creates).into_iter().max(), Some(crate::bound::CREATES));
}

#[test]
fn operators_combine_and_compare_as_named() {
    let of = |operator: Operator| [operator.combine(6, 3), operator.combine(u64::MAX, 1)];
    let combined: Vec<(&str, [u64; 2])> = Operator::ALL[..8].iter().map(|o| (o.name(), of(*o))).collect();
    assert_eq!(
        combined,
        [
            ("add", [9, u64::MAX]),
            ("min", [3, 1]),
            ("max", [6, u64::MAX]),
            ("and", [2, 1]),
            ("or", [7, u64::MAX]),
            ("xor", [5, u64::MAX - 1]),
            ("first", [6, u64::MAX]),
            ("last", [3, 1]),
        ]
    );
    let holds = |operator: Operator| [operator.holds(1, 2), operator.holds(2, 2), operator.holds(3, 2)];
    let compared: Vec<[bool; 3]> = Operator::ALL[8..].iter().map(|o| holds(*o)).collect();
    let (y, n) = (true, false);
    assert_eq!(compared, [[y, n, n], [y, y, n], [n, y, n], [y, n, y], [n, y, y], [n, n, y]]);
    for (number, operator) in Operator::ALL.into_iter().enumerate() {
        assert_eq!(usize::from(operator.number()), number);
        assert_eq!(operator.to_string().parse(), Ok(operator));
    }
    assert!("modulo".parse::<Operator>().is_err_and(|error| error.to_string().contains("add, min, max")));
}
