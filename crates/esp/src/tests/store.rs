//! The lifetime of entries.

use super::{COMPUTATION, Place, count, part, put};
use crate::isa::{Abort, Operator, StateInstruction};
use crate::site::InstructionFate;
use crate::store::{CleanerMode, FullPolicy, Key, LIFETIME, StoreSpec};
use crate::wire::Part;
use units::{Instant, Nanos};

#[test]
fn ess_no_refresh() {
    let mut place = Place::small();
    place.fate(put(1, 5));
    place.wait(Nanos::secs(9));
    // Writes, reads and repeated creates do not extend it.
    assert_eq!(place.fate(put(1, 6)), InstructionFate::Forwarded);
    assert_eq!(
        place.run(StateInstruction::Get { tag: 1, value: 0 }),
        (InstructionFate::Forwarded, StateInstruction::Get { tag: 1, value: 6 })
    );
    assert_eq!(place.fate(StateInstruction::Mark { tag: 1, value: 7 }), InstructionFate::Forwarded);
    assert_eq!(place.value(1), Some(6));
    place.wait(Nanos::secs(1));
    assert_eq!(place.value(1), None);
    assert_eq!(place.fate(StateInstruction::Test { tag: 1 }), InstructionFate::Dropped);
}

#[test]
fn ess_expiry_exact() {
    for cleaning in [CleanerMode::Inline, CleanerMode::Dedicated] {
        // Without any cleaning in between: expired entries are absent even before they are freed.
        let mut place = Place::new(StoreSpec { cleaning, ..StoreSpec::of(100) });
        place.fate(put(1, 5));
        place.wait(Nanos::new(9_999_980_000));
        assert_eq!(place.fate(StateInstruction::Test { tag: 1 }), InstructionFate::Forwarded, "{cleaning:?}");
        place.wait(Nanos::new(20_000));
        assert_eq!(place.fate(StateInstruction::Test { tag: 1 }), InstructionFate::Dropped, "{cleaning:?}");
    }
}

#[test]
fn entries_never_outlive_any_configured_lifetime() {
    for lifetime in [Nanos::millis(1), Nanos::new(123_456_789), Nanos::secs(1800)] {
        // Also where ticks wrap.
        for start in [Instant::START, Instant::new((1 << 32) * 10_000 - 40_000), Instant::new((1 << 32) * 10_000)] {
            let mut place = Place::new(StoreSpec { lifetime, ..StoreSpec::of(100) });
            place.now = start;
            place.fate(put(1, 5));
            place.now = start + lifetime.saturating_sub(Nanos::new(30_001));
            assert_eq!(
                place.fate(StateInstruction::Test { tag: 1 }),
                InstructionFate::Forwarded,
                "{lifetime:?} from {start:?}"
            );
            place.now = start + lifetime;
            assert_eq!(
                place.fate(StateInstruction::Test { tag: 1 }),
                InstructionFate::Dropped,
                "{lifetime:?} from {start:?}"
            );
        }
    }
}

#[test]
fn ess_recreate_after_expiry() {
    let mut place = Place::small();
    place.fate(count(1, 9));
    place.fate(count(1, 9));
    place.wait(LIFETIME);
    place.fate(count(1, 9));
    assert_eq!(place.value(1), Some(1), "a new entry");
    place.wait(Nanos::millis(9_999));
    assert_eq!(place.value(1), Some(1), "with a lifetime of its own");
}

/// RCHLD creates two entries: with room for one, it creates none.
#[test]
fn ess_full_no_partial_write() {
    let mut place = Place::new(StoreSpec::of(8));
    (0..7).for_each(|tag| assert_eq!(place.fate(put(tag, tag)), InstructionFate::Forwarded));
    let child = StateInstruction::Rchld { counter: 100, child: 200 };
    assert_eq!(place.run(child), (InstructionFate::Aborted(Abort::Full), child));
    assert_eq!(place.value(100), None);
    assert_eq!(place.inspector.occupancy(place.now)[0].live, 7);
    // Present entries can still be written; new ones cannot be created.
    place.fate(put(7, 7));
    assert_eq!(place.fate(put(8, 8)), InstructionFate::Aborted(Abort::Full));
    assert_eq!(place.fate(count(3, 100)), InstructionFate::Forwarded);
    assert_eq!((place.value(3), place.value(8)), (Some(4), None));
    assert_eq!(place.site.shard().counters().full, 2);
}

#[test]
fn full_store_aborts_all_instructions_with_abort_all() {
    let mut place = Place::new(StoreSpec { when_full: FullPolicy::AbortAll, ..StoreSpec::of(8) });
    (0..8).for_each(|tag| assert_eq!(place.fate(put(tag, tag)), InstructionFate::Forwarded));
    assert_eq!(place.fate(count(3, 100)), InstructionFate::Aborted(Abort::Full));
    assert_eq!(place.value(3), Some(3));
    place.wait(LIFETIME);
    assert_eq!(place.fate(count(3, 100)), InstructionFate::Forwarded);
}

/// Consecutive tags, and tags that differ only in high bits, fill a store to its last entry, as random tags do.
#[test]
fn store_fills_completely_and_look_ups_read_few_lines() {
    const CAPACITY: u64 = 20_000;
    for (name, step) in [("in a row", 1), ("apart", 1 << 40), ("at random", 0x9e37_79b9_7f4a_7c15)] {
        for key in 0..2 {
            let key = Key::new([key, !key]);
            let mut place = Place::new(StoreSpec { key, ..StoreSpec::of(CAPACITY) });
            for n in 0..CAPACITY {
                assert_eq!(place.fate(put(n.wrapping_mul(step), n)), InstructionFate::Forwarded, "{name}, the {n}th");
            }
            let created = place.site.shard().counters();
            for n in 0..CAPACITY {
                assert_eq!(
                    place.fate(StateInstruction::Test { tag: n.wrapping_mul(step) }),
                    InstructionFate::Forwarded,
                    "{name}"
                );
            }
            let probed = place.site.shard().counters().probed;
            let beyond: u64 = probed.iter().zip(created.probed).map(|(now, then)| now - then).sum();
            assert!(beyond < CAPACITY / 8, "{name}: {beyond} of {CAPACITY} in more than one line");
            assert_eq!(probed[3], 0, "{name}: nobody looks at more than seven lines");
        }
    }
}

/// A process that pauses for longer than ticks can compare finds nothing afterwards.
#[test]
fn entries_are_absent_after_a_pause_beyond_the_tick_range() {
    // Half of all ticks, and nearly all: long expired entries would look live.
    for away in [(1u64 << 31) + 5, (1 << 32) - 100, 1 << 32] {
        for cleaning in [CleanerMode::Inline, CleanerMode::Dedicated] {
            let mut place = Place::new(StoreSpec { cleaning, ..StoreSpec::of(8) });
            (0..8).for_each(|tag| assert_eq!(place.fate(put(tag, 1)), InstructionFate::Forwarded));
            let step = |place: &mut Place| place.cleaner.as_mut().map_or(0, |cleaner| cleaner.step(place.now));
            step(&mut place);
            place.wait(Nanos::new(away * 10_000));
            let fate = place.fate(StateInstruction::Test { tag: 3 });
            if cleaning == CleanerMode::Dedicated {
                assert_eq!(fate, InstructionFate::Aborted(Abort::Full), "until somebody has cleaned");
                while step(&mut place) > 0 {}
                assert_eq!(place.fate(StateInstruction::Test { tag: 3 }), InstructionFate::Dropped);
            } else {
                assert_eq!(fate, InstructionFate::Dropped);
            }
            assert_eq!(place.fate(put(3, 1)), InstructionFate::Forwarded);
        }
    }
}

/// The same if workers continue and only the cleaner stalls.
#[test]
fn expired_entries_stay_absent_while_the_cleaner_is_stalled() {
    let mut place = Place::new(StoreSpec { cleaning: CleanerMode::Dedicated, ..StoreSpec::of(8) });
    (0..4).for_each(|tag| assert_eq!(place.fate(put(tag, 1)), InstructionFate::Forwarded));
    // For twenty hours: after six hours ticks would show everything live again, after twelve they repeat.
    for minute in 1..1200 {
        place.wait(Nanos::secs(60));
        let fate = place.fate(StateInstruction::Test { tag: 3 });
        assert!(
            matches!(fate, InstructionFate::Dropped | InstructionFate::Aborted(Abort::Full)),
            "{fate:?} after {minute} minutes"
        );
        assert_eq!(place.inspector.entries(place.now).count(), 0, "after {minute} minutes");
    }
    let occupancy = place.inspector.occupancy(place.now)[0];
    assert_eq!((occupancy.live, occupancy.expired), (0, 4));
    assert_eq!(place.fate(put(9, 1)), InstructionFate::Aborted(Abort::Full), "until somebody has cleaned");
    place.clean();
    assert_eq!(place.fate(put(9, 1)), InstructionFate::Forwarded);
    assert_eq!(place.fate(StateInstruction::Test { tag: 3 }), InstructionFate::Dropped);
}

/// A cleaner that resumes after a pause removes expired entries, and no live ones.
#[test]
fn cleaner_resuming_after_a_pause_keeps_live_entries() {
    let store = || Place::new(StoreSpec { cleaning: CleanerMode::Dedicated, ..StoreSpec::of(8) });
    for hours in 1..30 {
        // First there is nothing to clean.
        let mut place = store();
        place.clean();
        place.wait(Nanos::secs(hours * 3600));
        assert_eq!(place.fate(put(1, 5)), InstructionFate::Forwarded);
        place.clean();
        assert_eq!(place.value(1), Some(5), "after {hours} hours");

        // Then there is, and the owner, which did not pause, has given it up.
        assert_eq!(place.fate(put(2, 6)), InstructionFate::Forwarded);
        place.wait(Nanos::secs(hours * 3600));
        for minute in 1..=15 {
            place.wait(Nanos::secs(60));
            place.fate(put(100 + minute, 7));
        }
        place.clean();
        assert!(place.inspector.entries(place.now).all(|entry| entry.value == 7), "after {hours} hours");
        assert_eq!(place.fate(put(3, 8)), InstructionFate::Forwarded);
        assert_eq!((place.value(2), place.value(3)), (None, Some(8)));
    }
}

/// A store that gives up expired entries keeps the live ones.
#[test]
fn live_entries_are_never_given_up() {
    let mut place = Place::new(StoreSpec { cleaning: CleanerMode::Dedicated, ..StoreSpec::of(8) });
    assert_eq!(place.fate(put(1, 1)), InstructionFate::Forwarded);
    let mut seconds = 0;
    // One entry per lifetime and a bit, until the first is given up: fewer than the log holds.
    let given_up_at = loop {
        place.wait(Nanos::secs(1));
        seconds += 1;
        if seconds % 600 == 599 && place.fate(put(seconds, 9)) != InstructionFate::Forwarded {
            panic!("there is room");
        }
        if place.fate(StateInstruction::Test { tag: 1 }) == InstructionFate::Aborted(Abort::Full) {
            break seconds;
        }
    };
    assert!((3600..3600 + 900 + 20).contains(&given_up_at), "after {given_up_at} s");
    let before = place.inspector.entries(place.now).count();
    place.clean();
    assert_eq!(place.inspector.entries(place.now).count(), before);
    assert_eq!(place.fate(put(2, 2)), InstructionFate::Forwarded);
    assert_eq!(place.value(2), Some(2));
}

#[test]
fn computations_share_equal_tags_unless_scoped() {
    let of = |computation| Part { computation, ..part(count(1, 2)) };
    for (scoped, second) in [(false, InstructionFate::Dropped), (true, InstructionFate::Forwarded)] {
        let mut place = Place::new(StoreSpec { diagnostics: true, ..StoreSpec::of(100) });
        place.rules.scoped = scoped;
        let mut fate = |computation| place.pass(crate::site::Location::Input, &mut super::packet(&of(computation)));
        assert_eq!(fate(COMPUTATION), InstructionFate::Forwarded);
        assert_eq!(fate(COMPUTATION + 1), second);
        assert_eq!(place.site.shard().counters().collisions, u64::from(!scoped));
    }
}

#[test]
fn dump_shows_age_and_creator() {
    let mut place = Place::new(StoreSpec { diagnostics: true, ..StoreSpec::of(100) });
    place.fate(put(1, 5));
    place.wait(Nanos::secs(3));
    place.fate(put(2, 6));
    let mut entries: Vec<_> = place.inspector.entries(place.now).collect();
    entries.sort_by_key(|entry| entry.tag);
    assert_eq!(
        entries.iter().map(|e| (e.tag, e.value, e.age)).collect::<Vec<_>>(),
        [(1, 5, Nanos::secs(3)), (2, 6, Nanos::ZERO)]
    );
    assert!(entries[0].creator.is_some() && entries[0].creator == entries[1].creator);
    let occupancy = place.inspector.occupancy(place.now + Nanos::secs(8))[0];
    assert_eq!((occupancy.live, occupancy.expired, occupancy.created), (1, 1, 2));
    assert_eq!(place.site.shard().counters().high_water, 2);
}

/// An instruction that names one tag twice has one entry.
#[test]
fn duplicate_tag_is_one_entry() {
    let mut place = Place::small();
    let collect = |value| StateInstruction::Collect { counter: 1, result: 1, value, operator: Operator::Add };
    place.fate(put(1, 5));
    // 5 + 2 - 1, then 6 + 0 - 1, and so on.
    assert_eq!(place.fate(collect(2)), InstructionFate::Dropped);
    assert_eq!(place.value(1), Some(6));
    (0..5).for_each(|_| assert_eq!(place.fate(collect(0)), InstructionFate::Dropped));
    assert_eq!(place.run(collect(0)).0, InstructionFate::Forwarded);
    assert_eq!(place.inspector.entries(place.now).count(), 1);
}

/// An attacker with the key aims at one line: sixteen lines fill up, and no look-up reads more. Other tags are not affected (spec E-53).
#[test]
fn tags_aimed_at_one_line_fill_at_most_sixteen_lines() {
    let spec = StoreSpec { key: Key::new([8, 9]), ..StoreSpec::of(100) };
    let mut place = Place::new(spec);
    // The key of the only shard. The first of at most 400 lines is the home of the lowest hashes.
    let hash = |tag: &u64| spec.key.derive(0).scatter().hash(*tag);
    let mut aimed = (1..).filter(|tag| hash(tag) < u64::MAX / 400);
    let tags: Vec<u64> = aimed.by_ref().take(16 * 3).collect();
    for tag in &tags {
        assert_eq!(place.fate(put(*tag, 1)), InstructionFate::Forwarded);
    }
    for tag in aimed.take(20) {
        assert_eq!(place.fate(put(tag, 1)), InstructionFate::Aborted(Abort::Full));
    }
    for tag in (1..).filter(|tag| hash(tag) > u64::MAX / 2).take(100 - tags.len()) {
        assert_eq!(place.fate(put(tag, 2)), InstructionFate::Forwarded);
    }
    assert!(tags.iter().all(|tag| place.value(*tag) == Some(1)));
}
