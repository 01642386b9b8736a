//! The store: values that packets leave behind under tags of their choice, each for the same time and no longer.
//!
//! A store belongs to a port or to the router as a whole, and is divided into shards, each of which one worker owns:
//! instructions of a computation always meet the same shard ([`shard_of`]) and so exclude each other without a lock. What
//! others do beside the owner, cleaning and looking, is by atomics of which each has one writer at a time.
//!
//! | file | what |
//! |---|---|
//! | `line` | three entries in a cache line, and where others of theirs are |
//! | `space` | the lines and the log of a shard; where a tag is |
//! | `shard` | the owner's side: batches of instructions |
//! | `view` | what an instruction sees |
//! | `sweep`, `cleaner`, `epochs` | taking away what has expired |
//! | `time` | ticks and lifetimes |
//! | `key` | keyed hashes |
//! | `inspect` | looking in from outside |

mod cleaner;
mod epochs;
mod inspect;
mod key;
mod line;
mod memory;
mod shard;
mod space;
mod sweep;
mod sync;
mod time;
mod view;

pub use cleaner::{Cleaner, CleanerCounters, Cleaning};
pub use epochs::{Epochs, Grace};
pub use inspect::{Inspector, Occupancy};
pub use key::Key;
pub(crate) use key::below;
pub use memory::Pages;
pub use plane::hook::Entry;
pub use shard::{Done, Ended, Found, Near, Session, Shard, ShardCounters, Value, WhenFull};
pub use sweep::Cleaned;
pub use time::LONGEST as LONGEST_LIFETIME;
pub use view::{MAX_TAGS, Present, Tags, Values, View};

use space::Space;
use std::sync::Arc;
use time::Lifetime;
use units::Nanos;

/// How long entries live where nothing else is said (Calvert et al. 2003, 2).
pub const LIFETIME: Nanos = Nanos::secs(10);

/// Entries of each of `shards` parts, so that together they have `capacity`. A part that is full is full, whatever room
/// the others have; computations are spread over them by a hash.
pub fn per_shard(capacity: u64, shards: usize) -> u64 {
    capacity.div_ceil(shards.max(1) as u64)
}

/// What a store is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// Entries in all shards together. See [`crate::bound`].
    pub capacity: u64,
    /// How long each lives.
    pub lifetime: Nanos,
    /// Parts, each owned by one worker.
    pub shards: usize,
    /// Who cleans.
    pub cleaning: Cleaning,
    /// What a full store does.
    pub when_full: WhenFull,
    /// The secret of its hashes.
    pub key: Key,
    /// Whether entries know which computation created them.
    pub diagnostics: bool,
    /// The pages of its tables.
    pub pages: Pages,
}

impl StoreSpec {
    /// A store of so many entries that live ten seconds, in one part, cleaned by its owner, with a key that is known, in small
    /// pages.
    pub const fn of(capacity: u64) -> StoreSpec {
        StoreSpec {
            capacity,
            lifetime: LIFETIME,
            shards: 1,
            cleaning: Cleaning::Inline,
            when_full: WhenFull::AbortCreates,
            key: Key::new([0x452821e638d01377, 0xbe5466cf34e90c6c]),
            diagnostics: false,
            pages: Pages::Small,
        }
    }
}

/// A store, to be divided among those who work on it.
pub struct Store {
    /// A shard for each worker, in their order.
    pub shards: Vec<Shard>,
    /// Cleans them, unless they do it themselves.
    pub cleaner: Option<Cleaner>,
    /// Looks into them.
    pub inspector: Inspector,
}

impl Store {
    /// An empty store. Worker `w` of `epochs` will own shard `w`.
    ///
    /// # Panics
    /// Where there is not a worker for each shard, or the capacity or the lifetime are beyond what there may be: the
    /// configuration was not checked.
    pub fn new(spec: StoreSpec, epochs: &Arc<Epochs>, grace: Grace) -> Store {
        assert!((1..=epochs.workers()).contains(&spec.shards), "{} shards", spec.shards);
        let lifetime = Lifetime::of(spec.lifetime);
        let each = per_shard(spec.capacity, spec.shards);
        let space = |shard| {
            // Tags that collide in one shard of one store do so in no other.
            let key = spec.key.derive(shard as u64);
            Arc::new(Space::new(each, lifetime, key, spec.diagnostics, spec.pages))
        };
        let spaces: Vec<Arc<Space>> = (0..spec.shards).map(space).collect();
        let cleans = spec.cleaning == Cleaning::Inline;
        let shard =
            |(w, space): (usize, &Arc<Space>)| Shard::new(space.clone(), (epochs.clone(), w), cleans, spec.when_full);
        let shards = spaces.iter().enumerate().map(shard).collect();
        let cleaner = (!cleans).then(|| Cleaner::new(spaces.iter().cloned(), epochs.clone(), grace));
        Store { shards, cleaner, inspector: Inspector(spaces) }
    }

    /// Bytes that a shard of `capacity` entries takes.
    pub fn bytes(capacity: u64) -> u64 {
        Space::bytes(capacity)
    }
}

/// Which of `shards` the packets of a computation meet, at every location of a router (spec E-10).
#[inline]
pub fn shard_of(key: Key, computation: u64, shards: usize) -> usize {
    key::below(key.hash(computation), shards as u64) as usize
}

/// Makes one number of two, the same on every router: how a parent knows a router from its other children.
#[inline]
pub const fn mix(first: u64, second: u64) -> u64 {
    // A key for everybody: nothing is secret here, and it shall be the same everywhere.
    const EVERYBODY: Key = Key::new([0x243f6a8885a308d3, 0xa4093822299f31d0]);
    EVERYBODY.join(first, second)
}
