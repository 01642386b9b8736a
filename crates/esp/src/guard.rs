//! How much one source may have executed, and create (spec E-54): otherwise one host could fill a store.
//!
//! Sources are told apart by the hash of their address into a table of fixed size, so two of them may share what one has.

use crate::store::Key;
use units::{Instant, Nanos, PacketRate};

/// Sources that are told apart, about.
const SOURCES: usize = 4096;

/// What each source may, in a store of a worker; as much as it likes where nothing is said. A second's worth may come at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// Instructions a second.
    pub rate: Option<PacketRate>,
    /// Entries a second.
    pub creates: Option<PacketRate>,
}

impl Limits {
    /// Whether anything is limited.
    pub fn any(&self) -> bool {
        self.rate.is_some() || self.creates.is_some()
    }
}

/// What sources have used.
#[derive(Debug)]
pub(crate) struct Guard {
    intervals: [Option<Nanos>; 2],
    key: Key,
    /// By source, the times up to which instructions and entries are paid for.
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

    /// The source of an IP packet: an IPv4 address, or the first 64 bits of an IPv6 address, which are one host's.
    pub fn source(&self, l3: &[u8]) -> usize {
        let word = match l3.first().map(|byte| byte >> 4) {
            Some(4) => l3.get(12..16).and_then(|b| b.first_chunk::<4>()).map(|b| u64::from(u32::from_be_bytes(*b))),
            _ => l3.get(8..16).and_then(|b| b.first_chunk::<8>()).map(|b| u64::from_be_bytes(*b)),
        };
        crate::store::below(self.key.hash(word.unwrap_or(0)), SOURCES as u64) as usize
    }

    /// Pays for an instruction. Answers whether the source may have it executed.
    pub fn instruction(&mut self, source: usize, now: Instant) -> bool {
        self.may(source, INSTRUCTIONS, 1, now) && {
            self.pay(source, INSTRUCTIONS, 1, now);
            true
        }
    }

    /// Whether the source may create so many entries.
    pub fn may_create(&self, source: usize, entries: u64, now: Instant) -> bool {
        self.may(source, ENTRIES, entries, now)
    }

    /// It has created so many.
    pub fn created(&mut self, source: usize, entries: u64, now: Instant) {
        self.pay(source, ENTRIES, entries, now);
    }

    fn may(&self, source: usize, what: usize, count: u64, now: Instant) -> bool {
        let Some(interval) = self.intervals[what] else { return true };
        // As with a token bucket of a second's worth: so much may be paid for ahead.
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
