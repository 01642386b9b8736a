//! Read access to a store from another thread. It does not slow down the owners.

use super::line::{Line, SLOTS, SlotAddress};
use super::space::Space;
use super::sync::{Arc, Ordering, fence};
use super::time::Tick;
use plane::hook::Entry;
use units::Instant;

/// Read access to a store.
#[derive(Clone, Debug)]
pub struct Inspector(pub(super) Vec<Arc<Space>>);

/// The occupancy of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// The capacity in entries.
    pub capacity: u64,
    /// Live entries.
    pub live: u64,
    /// Entries that have expired and are not free yet.
    pub expired: u64,
    /// Entries created since the store was made.
    pub created: u64,
}

impl Inspector {
    /// All live entries at `now`, shard by shard. An entry that changes during the call is returned in its old or its new state.
    pub fn entries(&self, now: Instant) -> impl Iterator<Item = Entry> + '_ {
        let now = Tick::of(now);
        let places = |space: &Arc<Space>| (0..space.lines().len()).flat_map(|line| (0..SLOTS).map(move |s| (line, s)));
        self.0.iter().enumerate().flat_map(move |(shard, space)| {
            places(space).filter_map(move |(line, slot)| {
                let (tag, value, expiry) = read(space.line(line), slot, now)?;
                let (lifetime, left) = (space.lifetime.span(), now.until(expiry));
                let (age, creator) = (lifetime.saturating_sub(left), space.creator(SlotAddress::new(line, slot)));
                // An entry with more than a lifetime left is a wrapped tick: it expired long ago.
                (left <= lifetime).then_some(Entry { shard, tag, value, age, creator })
            })
        })
    }

    /// The occupancy of each shard at `now`.
    pub fn occupancy(&self, now: Instant) -> Vec<Occupancy> {
        let now = Tick::of(now);
        self.0.iter().map(|space| occupancy(space, now)).collect()
    }
}

/// A consistent copy of a slot. Reads again if the slot was reused meanwhile.
fn read(line: &Line, slot: usize, now: Tick) -> Option<(u64, u64, u32)> {
    // Owners write the expiry last when they fill a slot, and never wait for readers. After four collisions the slot is skipped.
    for _ in 0..4 {
        let expiry = line.expiries[slot].load(Ordering::Acquire);
        if !now.is_before(expiry) {
            return None;
        }
        let tag = line.tags[slot].load(Ordering::Relaxed);
        let value = line.values[slot].load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        if line.expiries[slot].load(Ordering::Relaxed) == expiry {
            return Some((tag, value, expiry));
        }
    }
    None
}

/// The log is in order of creation, so expired entries come before live ones and a binary search finds the boundary.
pub(super) fn occupancy(space: &Space, now: Tick) -> Occupancy {
    let (created, freed) = (space.created.load(Ordering::Acquire), space.freed.load(Ordering::Acquire));
    let declared_expired = space.declared_expired.load(Ordering::Acquire);
    let first = space.first_live((freed.max(declared_expired).min(created), created), now);
    let live = created - first;
    Occupancy { capacity: space.capacity, live, expired: first - freed.min(created), created }
}
