//! The store with its owner, its cleaner and an inspector, in every interleaving that the memory model allows: `make loom`. It compiles the store's
//! own files with the model checker's atomics.

#![cfg(loom)]
// The files are included whole, and each model uses only parts of them.
#![allow(dead_code, missing_docs, unused_imports)]

mod sync {
    pub use loom::sync::Arc;
    pub use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
}
mod memory {
    pub type Table<T> = Vec<T>;

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Pages {
        Small,
        Large,
    }

    pub struct HashTable<T>(Vec<T>, usize);

    pub fn hash_table<T: Default>(length: usize, first: usize, pages: Pages) -> HashTable<T> {
        HashTable(table(length, pages), first)
    }

    impl<T> HashTable<T> {
        pub fn index_of(&self, hash: u64) -> usize {
            ((u128::from(hash) * self.1 as u128) >> 64) as usize
        }

        pub fn select(&self, hash: u64) -> &T {
            &self.0[self.index_of(hash)]
        }
    }

    impl<T> std::ops::Deref for HashTable<T> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    pub fn table<T: Default>(length: usize, _: Pages) -> Table<T> {
        std::iter::repeat_with(T::default).take(length).collect()
    }

    pub fn fetch<T>(_: &T) {}
}
#[path = "../src/store/cleaner.rs"]
mod cleaner;
#[path = "../src/store/epochs.rs"]
mod epochs;
#[path = "../src/store/inspect.rs"]
mod inspect;
#[path = "../src/store/key.rs"]
mod key;
#[path = "../src/store/line.rs"]
mod line;
#[path = "../src/store/shard.rs"]
mod shard;
#[path = "../src/store/space.rs"]
mod space;
#[path = "../src/store/sweep.rs"]
mod sweep;
#[path = "../src/store/time.rs"]
mod time;
#[path = "../src/store/view.rs"]
mod view;

use cleaner::Cleaner;
use epochs::{Grace, WorkerEpochs};
use inspect::{Inspector, Occupancy};
use key::Key;
use loom::sync::Arc;
use loom::thread;
use shard::{CommitDecision, FullPolicy, Shard, StoreResult};
use space::Space;
use sweep::Sweep;
use time::Lifetime;
use units::{Instant, Nanos};
use view::{InstructionTags, TagView};

const LIFETIME: Nanos = Nanos::secs(10);
const KEY: Key = Key::new([1, 2]);
/// Just before the first entry expires, and the moment it does.
const BEFORE: Instant = Instant::new(LIFETIME.get() - 50_000);
const THEN: Instant = Instant::new(LIFETIME.get());

fn mix(first: u64, second: u64) -> u64 {
    KEY.hash(KEY.hash(first) ^ second)
}

impl CommitDecision for () {
    fn commits(&self) -> bool {
        true
    }
}

/// Two tags with the same home line.
fn neighbours(space: &Space) -> [u64; 2] {
    let home = space.home(1);
    [1, (2..).find(|tag| space.home(*tag) == home).expect("there are few homes")]
}

fn store(capacity: u64) -> (Arc<Space>, Arc<WorkerEpochs>, Shard) {
    let space = Arc::new(Space::new(capacity, Lifetime::of(LIFETIME), KEY, false, memory::Pages::Small));
    let epochs = Arc::new(WorkerEpochs::new(1));
    let shard = Shard::new(space.clone(), (epochs.clone(), 0), false, FullPolicy::AbortCreates);
    (space, epochs, shard)
}

fn set(shard: &mut Shard, now: Instant, tag: u64, value: u64) -> StoreResult<()> {
    let mut tags = InstructionTags::of([tag]);
    let mut session = shard.begin(now);
    session.prepare::<1>(&mut tags);
    session.execute::<1, _>(&tags, 0, |view: &mut TagView| view.set(0, value))
}

fn get(shard: &mut Shard, now: Instant, tag: u64) -> Option<u64> {
    let (mut tags, mut found) = (InstructionTags::of([tag]), None);
    let mut session = shard.begin(now);
    session.prepare::<1>(&mut tags);
    session.execute::<1, _>(&tags, 0, |view: &mut TagView| found = view.get(0));
    found
}

/// An instruction writes an entry that it found, and creates another one, while the found entry expires. A cleaner that freed the slot too early
/// would let it write into the new entry.
fn meets(clean: impl Fn(Arc<Space>, Arc<WorkerEpochs>) + Send + Sync + Clone + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (space, epochs, mut shard) = store(2);
        let [old, new] = neighbours(&space);
        assert_eq!(set(&mut shard, Instant::START, old, 5), StoreResult::Executed(()));
        let clean = clean.clone();
        let cleaner = thread::spawn(move || clean(space, epochs));
        let mut tags = InstructionTags::of([new, old]);
        let mut found = None;
        let mut session = shard.begin(BEFORE);
        session.prepare::<2>(&mut tags);
        let done = session.execute::<2, _>(&tags, 0, |view: &mut TagView| {
            found = view.get(1);
            view.set(0, 100);
            if found.is_some() {
                view.set(1, 6);
            }
        });
        drop(session);
        assert!(found.is_none_or(|value| value == 5), "its value until it is gone");
        if done == StoreResult::Executed(()) {
            assert_eq!(get(&mut shard, BEFORE, new), Some(100), "what was made is what it was made");
        }
        cleaner.join().unwrap();
    });
}

#[test]
fn found_entries_are_not_reused_before_the_instruction_ends() {
    meets(|space, epochs| {
        let mut cleaner = Cleaner::new(std::iter::once(space), epochs, Grace::Counters);
        for _ in 0..3 {
            cleaner.step(THEN);
        }
    });
}

/// The same with a cleaner that does not wait: the model finds the error.
#[test]
#[should_panic]
fn model_detects_a_cleaner_that_does_not_wait() {
    meets(|space, _| {
        Sweep::new(space).clean(THEN, 8);
    });
}

/// The owner sees freed slots as free, and can fill them again.
#[test]
fn freed_entries_make_room_for_new_ones() {
    loom::model(|| {
        let (space, epochs, mut shard) = store(1);
        assert_eq!(set(&mut shard, Instant::START, 1, 5), StoreResult::Executed(()));
        assert_eq!(set(&mut shard, BEFORE, 2, 6), StoreResult::Full, "there is room for one");
        let mut cleaner = Cleaner::new(std::iter::once(space.clone()), epochs, Grace::Counters);
        let cleans = thread::spawn(move || (0..2).map(|_| cleaner.step(THEN)).sum::<usize>());
        // This holds before and after the cleaner has run.
        assert_eq!(set(&mut shard, THEN, 2, 6), StoreResult::Executed(()));
        assert_eq!((get(&mut shard, THEN, 1), get(&mut shard, THEN, 2)), (None, Some(6)));
        cleans.join().unwrap();
    });
}

/// An inspector never returns a tag with another entry's value.
#[test]
fn inspector_never_mixes_two_entries() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (space, epochs, mut shard) = store(1);
        let [old, new] = neighbours(&space);
        set(&mut shard, Instant::START, old, old);
        let inspector = Inspector(vec![space.clone()]);
        let looks = thread::spawn(move || {
            let entries: Vec<_> = inspector.entries(BEFORE).collect();
            entries.iter().for_each(|entry| assert_eq!(entry.tag, entry.value));
        });
        let mut cleaner = Cleaner::new(std::iter::once(space), epochs, Grace::Counters);
        for _ in 0..2 {
            cleaner.step(THEN);
        }
        set(&mut shard, THEN, new, new);
        looks.join().unwrap();
    });
}

/// An owner gives up entries that ticks show live again, beside a cleaner that is just as late and may or may not believe the ticks. No look-up finds
/// them, and later entries stay.
#[test]
fn entries_given_up_by_the_owner_are_never_found() {
    loom::model(|| {
        let (space, epochs, mut shard) = store(1);
        assert_eq!(set(&mut shard, Instant::START, 1, 5), StoreResult::Executed(()));
        let late = Instant::START + Nanos::secs(7 * 3600);
        let mut cleaner = Cleaner::new(std::iter::once(space), epochs, Grace::Counters);
        let cleans = thread::spawn(move || {
            cleaner.step(late);
            cleaner.step(late);
            cleaner
        });
        assert_eq!(get(&mut shard, late, 1), None);
        let early = set(&mut shard, late, 1, 6);
        let mut cleaner = cleans.join().unwrap();
        while cleaner.step(late) > 0 {}
        let value = if early == StoreResult::Full { None } else { Some(6) };
        assert_eq!(get(&mut shard, late, 1), value);
        assert_eq!(set(&mut shard, late, 1, 7), StoreResult::Executed(()));
        cleaner.step(late);
        assert_eq!(get(&mut shard, late, 1), Some(7));
    });
}
