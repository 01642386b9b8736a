//! The ephemeral state store: values that packets store under tags, each for the same fixed lifetime.
//!
//! A port has a store, and the router has a central one. A store is divided into shards, each owned by one worker. All instructions of a computation
//! execute on the same shard ([`shard_of`]), so they need no lock. Cleaners and inspectors run beside the owner through atomics, each of which has
//! one writer at a time.
//!
//! | file | content |
//! |---|---|
//! | `line` | three entries in a cache line, and where entries that did not fit are |
//! | `space` | the lines and the log of a shard; the home of a tag |
//! | `shard` | the owner's side: executes batches of instructions |
//! | `view` | the values that an instruction reads and writes |
//! | `sweep`, `cleaner`, `epochs` | removing expired entries |
//! | `time` | ticks and lifetimes |
//! | `key` | keyed hashes |
//! | `inspect` | read access from other threads |

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

pub use cleaner::{Cleaner, CleanerCounters, CleanerMode};
pub use epochs::{Grace, WorkerEpochs};
pub use inspect::{Inspector, Occupancy};
pub use key::Key;
pub(crate) use key::below;
pub use memory::Pages;
pub use plane::hook::Entry;
pub use shard::{
    CachedShard, CommitDecision, FullPolicy, Session, Shard, ShardCounters, StoreResult, TagLookup, Value,
};
pub use sweep::CleaningCounters;
pub use time::LONGEST as LONGEST_LIFETIME;
pub use view::{InstructionTags, MAX_TAGS, PresentTags, TagView, Values};

use space::Space;
use std::sync::Arc;
use time::Lifetime;
use units::Nanos;

/// The default lifetime of entries (Calvert et al. 2003, 2).
pub const LIFETIME: Nanos = Nanos::secs(10);

/// The capacity of each of `shards` shards, so that their sum is `capacity`. A shard can be full while others have room; a hash spreads computations
/// over them.
pub fn shard_capacity(capacity: u64, shards: usize) -> u64 {
    capacity.div_ceil(shards.max(1) as u64)
}

/// The parameters of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreSpec {
    /// The capacity of all shards together. See [`crate::bound`].
    pub capacity: u64,
    /// The lifetime of an entry.
    pub lifetime: Nanos,
    /// The number of shards, each owned by one worker.
    pub shards: usize,
    /// The cleaning mode.
    pub cleaning: CleanerMode,
    /// The policy for a full store.
    pub when_full: FullPolicy,
    /// The hash key.
    pub key: Key,
    /// True if entries record the computation that created them.
    pub diagnostics: bool,
    /// The page size of its tables.
    pub pages: Pages,
}

impl StoreSpec {
    /// A store of this capacity with one shard, a lifetime of ten seconds, inline cleaning, a fixed key and small pages.
    pub const fn of(capacity: u64) -> StoreSpec {
        StoreSpec {
            capacity,
            lifetime: LIFETIME,
            shards: 1,
            cleaning: CleanerMode::Inline,
            when_full: FullPolicy::AbortCreates,
            // Digits of pi. A fixed key makes runs repeatable; routers replace it at start.
            key: Key::new([0x452821e638d01377, 0xbe5466cf34e90c6c]),
            diagnostics: false,
            pages: Pages::Small,
        }
    }
}

/// A new store, to be divided among its workers.
pub struct Store {
    /// One shard per worker, in order.
    pub shards: Vec<Shard>,
    /// The cleaner; `None` with inline cleaning.
    pub cleaner: Option<Cleaner>,
    /// Read access to all shards.
    pub inspector: Inspector,
}

impl Store {
    /// Creates an empty store. Worker `w` of `epochs` will own shard `w`.
    ///
    /// # Panics
    /// If there are fewer workers than shards, or the capacity or lifetime exceeds its limit: the configuration was not checked.
    pub fn new(spec: StoreSpec, epochs: &Arc<WorkerEpochs>, grace: Grace) -> Store {
        assert!((1..=epochs.workers()).contains(&spec.shards), "{} shards", spec.shards);
        let lifetime = Lifetime::of(spec.lifetime);
        let each = shard_capacity(spec.capacity, spec.shards);
        let space = |shard| {
            // Each shard has its own key, so tags that collide in one shard do not collide in another.
            let key = spec.key.derive(shard as u64);
            Arc::new(Space::new(each, lifetime, key, spec.diagnostics, spec.pages))
        };
        let spaces: Vec<Arc<Space>> = (0..spec.shards).map(space).collect();
        let cleans = spec.cleaning == CleanerMode::Inline;
        let shard =
            |(w, space): (usize, &Arc<Space>)| Shard::new(space.clone(), (epochs.clone(), w), cleans, spec.when_full);
        let shards = spaces.iter().enumerate().map(shard).collect();
        let cleaner = (!cleans).then(|| Cleaner::new(spaces.iter().cloned(), epochs.clone(), grace));
        Store { shards, cleaner, inspector: Inspector(spaces) }
    }

    /// The memory of a shard of `capacity` entries, in bytes.
    pub fn bytes(capacity: u64) -> u64 {
        Space::bytes(capacity)
    }
}

/// The shard of a computation's packets, the same at every location of a router (spec E-10).
#[inline]
pub fn shard_of(key: Key, computation: u64, shards: usize) -> usize {
    key::below(key.hash(computation), shards as u64) as usize
}

/// Mixes two numbers into one, identically on every router. Parents identify their child routers by such numbers.
#[inline]
pub const fn mix(first: u64, second: u64) -> u64 {
    // A public key: the result must be the same everywhere, and nothing depends on its secrecy.
    const PUBLIC_KEY: Key = Key::new([0x243f6a8885a308d3, 0xa4093822299f31d0]);
    PUBLIC_KEY.join(first, second)
}
