//! Limits per source: instructions executed and entries created (spec E-54). Without limits one host can fill a store.
//!
//! The hash of a source address indexes a table of fixed size, so two sources may share one allowance.

use crate::store::Key;
use units::{Instant, Nanos, PacketRate};

/// Slots of the table, one per source except for hash collisions.
const SOURCES: usize = 4096;

/// The allowance of each source, per store and worker. `None` is no limit. A source may use a second's worth in one burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Instructions per second.
    pub rate: Option<PacketRate>,
    /// Entries created per second.
    pub creates: Option<PacketRate>,
}

impl Limits {
    /// True if any limit is set.
    pub fn any(&self) -> bool {
        self.rate.is_some() || self.creates.is_some()
    }
}

/// The allowances used by each source.
#[derive(Debug)]
pub(crate) struct Guard {
    intervals: [Option<Nanos>; 2],
    key: Key,
    /// For each source, the times up to which its instructions and entries are paid.
    paid: Box<[[Instant; 2]]>,
}

const INSTRUCTIONS: usize = 0;
const ENTRIES: usize = 1;

impl Guard {
    pub fn new(limits: Limits, key: Key) -> Guard {
        let interval = |rate: PacketRate| Nanos::new(1_000_000_000 / rate.get().max(1));
        let intervals = [limits.rate.map(interval), limits.creates.map(interval)];
        Guard { intervals, key, paid: vec![[Instant::START; 2]; SOURCES].into() }
    }

    /// The table slot of a packet's source: its IPv4 address, or the first 64 bits of its IPv6 address, since one host has all of them.
    pub fn source(&self, l3: &[u8]) -> usize {
        let word = match l3.first().map(|byte| byte >> 4) {
            Some(4) => l3.get(12..16).and_then(|b| b.first_chunk::<4>()).map(|b| u64::from(u32::from_be_bytes(*b))),
            _ => l3.get(8..16).and_then(|b| b.first_chunk::<8>()).map(|b| u64::from_be_bytes(*b)),
        };
        crate::store::below(self.key.hash(word.unwrap_or(0)), SOURCES as u64) as usize
    }

    /// Charges an instruction to a source. Returns false, and charges nothing, if the source has used its allowance.
    pub fn instruction(&mut self, source: usize, now: Instant) -> bool {
        self.may(source, INSTRUCTIONS, 1, now) && {
            self.pay(source, INSTRUCTIONS, 1, now);
            true
        }
    }

    /// True if the allowance of the source has room for so many entries.
    pub fn may_create(&self, source: usize, entries: u64, now: Instant) -> bool {
        self.may(source, ENTRIES, entries, now)
    }

    /// Charges created entries to the source.
    pub fn created(&mut self, source: usize, entries: u64, now: Instant) {
        self.pay(source, ENTRIES, entries, now);
    }

    fn may(&self, source: usize, what: usize, count: u64, now: Instant) -> bool {
        let Some(interval) = self.intervals[what] else { return true };
        // A token bucket of one second, kept as a time: a source may pay up to one second ahead. A single charge of more than a second's worth passes
        // an unused bucket.
        let ahead = self.paid[source][what].since(now);
        count == 0 || ahead + interval * count <= Nanos::secs(1).max(interval * count)
    }

    fn pay(&mut self, source: usize, what: usize, count: u64, now: Instant) {
        if let Some(interval) = self.intervals[what] {
            let paid = &mut self.paid[source][what];
            *paid = (*paid).max(now) + interval * count;
        }
    }
}
