//! The flow cache: the results of a list of rules for flows, found by exact match in front of the list.
//!
//! Packets of a flow differ in fields that no rule of the list tests: a length, a flag of TCP. The key of an entry has only the fields that some rule
//! tests (`PacketRules::tested4`), so all packets of a flow share an entry, and an entry never gives another result than the list.
//!
//! An entry belongs to one version of the rules and of the named sets: a change of either makes all entries invalid, without touching them.
//!
//! The cache costs memory accesses of its own, and gains only if most packets find an entry. So it counts, in windows of packets, how many do. If too few
//! do, it pauses for some windows and then tries again. A flood of random flows therefore costs at most a part of [`PAUSE`] in time, and the entries
//! need no secret hash.

use crate::packet_rules::FamilyKeys;
use crate::rule::{Key, RuleResult};
use packet::BATCH;
use packet::pool::prefetch;
use std::ops::Add;

/// Entries, a power of two: 512 KB for IPv4. The flows of a moment; a second-level cache holds most of them.
const ENTRIES: usize = 1 << 13;
/// Packets after which the cache counts its hits.
const WINDOW: u32 = 1 << 13;
/// Windows of a pause.
const PAUSE: u32 = 15;
/// The cache gains if so many of a hundred packets find an entry. A hit takes 9 ns. A miss takes 9 ns besides the look-up, which is 18 to 38 ns in a list of
/// 1000 to 10,000 rules: so the cache breaks even at 24 to 49 of a hundred. `switchpath bench rules` measures both.
const WORTH: u32 = 45;
/// Lists with fewer parts are looked up as fast without a cache.
pub(crate) const FEW_PARTS: usize = 64;

/// Counters of a flow cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCacheCounters {
    /// Packets whose entry was found.
    pub hits: u64,
    /// Packets that the list decided about, and that got an entry.
    pub misses: u64,
    /// Packets that the list decided about during a pause.
    pub passed: u64,
}

impl Add for FlowCacheCounters {
    type Output = FlowCacheCounters;

    fn add(self, other: FlowCacheCounters) -> FlowCacheCounters {
        FlowCacheCounters {
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            passed: self.passed + other.passed,
        }
    }
}

/// The versions of a list of rules and of the named sets.
pub(crate) type Versions = (u64, u64);

/// The cache of one family, for one worker.
pub(crate) struct FlowCache<const W: usize> {
    entries: Box<[Entry<W>]>,
    /// The versions of the entries with this number.
    versions: Versions,
    /// Above zero; the number of entries that were never filled is zero.
    epoch: u32,
    window: Window,
    counters: FlowCacheCounters,
    misses: Misses<W>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry<const W: usize> {
    key: [u64; W],
    epoch: u32,
    is_matched: bool,
    result: RuleResult,
}

/// The packets of a batch without an entry.
struct Misses<const W: usize> {
    keys: FamilyKeys<W>,
    /// The masked key and the place of each.
    masked: [([u64; W], u32); BATCH],
    results: [Option<RuleResult>; BATCH],
}

#[derive(Default)]
struct Window {
    packets: u32,
    hits: u32,
    /// Windows that are left of a pause.
    pause: u32,
}

impl<const W: usize> FlowCache<W> {
    pub fn new() -> Box<Self> {
        let empty = Entry { key: [0; W], epoch: 0, is_matched: false, result: RuleResult::default() };
        Box::new(FlowCache {
            entries: vec![empty; ENTRIES].into_boxed_slice(),
            versions: (0, 0),
            epoch: 1,
            window: Window::default(),
            counters: FlowCacheCounters::default(),
            misses: Misses { keys: FamilyKeys::EMPTY, masked: [([0; W], 0); BATCH], results: [None; BATCH] },
        })
    }

    pub fn counters(&self) -> FlowCacheCounters {
        self.counters
    }

    /// True during a pause: too few packets find an entry.
    pub fn pauses(&self) -> bool {
        self.window.pause > 0
    }

    /// The results for a batch of packets. `tested` has the bits of keys that rules test; `list` looks up the keys that have no entry.
    pub fn look_up(
        &mut self,
        keys: &mut FamilyKeys<W>,
        (tested, versions): (&Key<W>, Versions),
        mut list: impl FnMut(&mut FamilyKeys<W>, &mut dyn FnMut(usize, RuleResult)),
        matched: &mut impl FnMut(usize, RuleResult),
    ) {
        let count = keys.len();
        if self.window.is_pause(count as u32) {
            self.counters.passed += count as u64;
            return list(keys, matched);
        }
        if self.versions != versions {
            self.adopt(versions);
        }
        let Misses { keys: missed, masked, results } = &mut self.misses;
        let (of_keys, positions) = keys.parts();
        for (key, masked) in of_keys.iter().zip(masked.iter_mut()) {
            let words: [u64; W] = std::array::from_fn(|w| key.0[w] & tested.0[w]);
            let place = place(&words);
            prefetch(&self.entries[place as usize]);
            *masked = (words, place);
        }
        missed.clear();
        for i in 0..count {
            let (words, place) = masked[i];
            let entry = &self.entries[place as usize];
            if entry.epoch == self.epoch && entry.key == words {
                if entry.is_matched {
                    matched(usize::from(positions[i]), entry.result);
                }
                continue;
            }
            // The misses stay in front, each behind its place before.
            masked[missed.len()] = (words, place);
            missed.push(usize::from(positions[i]), of_keys[i]);
        }
        let misses = missed.len();
        self.window.record(count as u32, (count - misses) as u32);
        self.counters.hits += (count - misses) as u64;
        self.counters.misses += misses as u64;
        if misses == 0 {
            return;
        }
        // The list answers by positions in the batch.
        let (_, positions) = missed.parts();
        let positions: [u16; BATCH] = *positions;
        for position in &positions[..misses] {
            results[usize::from(*position)] = None;
        }
        list(missed, &mut |position, result| results[position] = Some(result));
        for (i, position) in positions[..misses].iter().enumerate() {
            let result = results[usize::from(*position)];
            let (key, place) = masked[i];
            let (is_matched, epoch) = (result.is_some(), self.epoch);
            self.entries[place as usize] = Entry { key, epoch, is_matched, result: result.unwrap_or_default() };
            if let Some(result) = result {
                matched(usize::from(*position), result);
            }
        }
    }

    #[cold]
    fn adopt(&mut self, versions: Versions) {
        self.versions = versions;
        self.epoch = self.epoch.checked_add(1).unwrap_or_else(|| {
            // Entries of the first versions would become valid again.
            self.entries.iter_mut().for_each(|entry| entry.epoch = 0);
            1
        });
    }
}

impl Window {
    /// True if the cache pauses for the next `packets`.
    #[inline]
    fn is_pause(&mut self, packets: u32) -> bool {
        if self.pause == 0 {
            return false;
        }
        self.packets += packets;
        if self.packets >= WINDOW {
            (self.packets, self.pause) = (0, self.pause - 1);
        }
        self.pause > 0
    }

    fn record(&mut self, packets: u32, hits: u32) {
        self.packets += packets;
        self.hits += hits;
        if self.packets >= WINDOW {
            if u64::from(self.hits) * 100 < u64::from(self.packets) * u64::from(WORTH) {
                self.pause = PAUSE;
            }
            (self.packets, self.hits) = (0, 0);
        }
    }
}

/// The place of a key: a multiplicative hash of its words.
#[inline(always)]
fn place<const W: usize>(words: &[u64; W]) -> u32 {
    let mut hash = 0u64;
    for word in words {
        // The product's high half depends on all bits of both factors (wyhash).
        let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xe703_7ed1_a0b4_28db;
        hash = (product >> 64) as u64 ^ product as u64;
    }
    (hash >> (64 - ENTRIES.trailing_zeros())) as u32
}
