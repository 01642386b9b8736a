//! The cleaner beside a worker. `tests/loom.rs` checks the interleavings.

use super::{Place, put};
use crate::isa::{Abort, StateInstruction};
use crate::site::InstructionFate;
use crate::store::{
    CleanerMode, CommitDecision, Grace, InstructionTags, LIFETIME, Store, StoreResult, StoreSpec, TagView, WorkerEpochs,
};
use std::sync::Arc;
use units::{Instant, Nanos};

fn spec(capacity: u64) -> StoreSpec {
    StoreSpec { cleaning: CleanerMode::Dedicated, ..StoreSpec::of(capacity) }
}

impl CommitDecision for () {
    fn commits(&self) -> bool {
        true
    }
}

/// While a worker is active, expired entries are unlinked but not freed.
#[test]
fn cleaner_unlink_before_free() {
    let epochs = Arc::new(WorkerEpochs::new(1));
    let mut store = Store::new(spec(1), &epochs, Grace::Counters);
    let (mut shard, mut cleaner) = (store.shards.remove(0), store.cleaner.take().unwrap());
    let set = |tag: u64| move |view: &mut TagView| view.set(0, tag);
    let mut tags = InstructionTags::of([1]);
    shard.begin(Instant::START).prepare::<1>(&mut tags);
    assert_eq!(shard.begin(Instant::START).execute::<1, _>(&tags, 0, set(5)), StoreResult::Executed(()));
    // The worker's clock is slightly behind the cleaner's.
    let mut session = shard.begin(Instant::new(LIFETIME.get() - 50_000));
    let now = Instant::START + LIFETIME;
    assert_eq!(cleaner.step(now), 1, "unlinked");
    assert_eq!(session.execute::<1, _>(&tags, 0, |view| assert_eq!(view.get(0), None)), StoreResult::Executed(()));
    assert_eq!((cleaner.step(now), cleaner.counters().limbo), (0, 1), "and kept as long as the worker is active");
    drop(session);
    assert_eq!((cleaner.step(now), cleaner.counters().limbo, cleaner.counters().freed), (1, 0, 1));
    assert_eq!(cleaner.counters().lag, Nanos::ZERO);
}

/// A worker that is active at every step of the cleaner, in a new batch each time.
#[test]
fn cleaner_busy_worker_not_pinning() {
    let freed = |grace| {
        let epochs = Arc::new(WorkerEpochs::new(1));
        let mut store = Store::new(spec(4), &epochs, grace);
        let (mut shard, mut cleaner) = (store.shards.remove(0), store.cleaner.take().unwrap());
        let mut tags = InstructionTags::of([1]);
        shard.begin(Instant::START).prepare::<1>(&mut tags);
        shard.begin(Instant::START).execute::<1, _>(&tags, 0, |view: &mut TagView| view.set(0, 1));
        let mut now = Instant::START + LIFETIME;
        for _ in 0..1000 {
            let session = shard.begin(now);
            cleaner.step(now);
            drop(session);
            now += Nanos::millis(20);
        }
        cleaner.counters().freed
    };
    assert_eq!(freed(Grace::Counters), 1);
    assert_eq!(freed(Grace::Bits), 0, "with a bare bit it stays for ever: two lifetimes have passed");
}

#[test]
fn capacity_is_exact_even_if_the_cleaner_is_late() {
    let mut place = Place::new(spec(100));
    (0..100).for_each(|tag| assert_eq!(place.fate(put(tag, 0)), InstructionFate::Forwarded));
    assert_eq!(place.fate(put(100, 0)), InstructionFate::Aborted(Abort::Full));
    place.wait(LIFETIME);
    // Nothing was cleaned. The log has room for a quarter more, and 64.
    let made = (200..400).take_while(|tag| place.fate(put(*tag, 0)) == InstructionFate::Forwarded).count();
    assert_eq!(made, 25 + 64);
    assert_eq!(place.site.shard().counters().late, 1);
    let cleaner = place.cleaner.as_mut().unwrap();
    assert_eq!(cleaner.due(place.now), Some(place.now));
    while cleaner.step(place.now) > 0 {}
    assert_eq!(cleaner.counters().freed, 100);
    let due = cleaner.due(place.now).unwrap().since(place.now);
    assert_eq!(due, LIFETIME, "when the first of the new ones expires");
    let made = (400..600).take_while(|tag| place.fate(put(*tag, 0)) == InstructionFate::Forwarded).count();
    assert_eq!(made, 100 - 89);
}

/// Inline cleaning keeps up at any load, and has nothing left to do after an idle lifetime.
#[test]
fn inline_cleaning_frees_entries_in_time() {
    let mut place = Place::new(StoreSpec::of(1000));
    for n in 0..50_000 {
        place.now = Instant::new(n * LIFETIME.get() / 1000);
        assert_eq!(place.fate(put(n, n)), InstructionFate::Forwarded, "the {n}th");
        let occupancy = place.inspector.occupancy(place.now)[0];
        assert!(occupancy.live <= 1000 && occupancy.expired <= 2, "{occupancy:?}");
    }
    let now = place.now + LIFETIME;
    assert!(place.site.shard().due(now) == Some(now));
    assert_eq!(place.site.shard().clean(now, 10_000), 1000);
    assert_eq!(place.site.shard().due(now), None);
    place.now = now;
    assert_eq!(place.fate(StateInstruction::Test { tag: 49_999 }), InstructionFate::Dropped);
}
