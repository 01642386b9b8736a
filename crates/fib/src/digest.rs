//! A byte for each /24 network, in front of the forwarding table.
//!
//! Lookups spread over a million routes touch more of a 64 MB table than the processor's caches hold. A router has many routes but few next hops, so
//! there are few different outcomes. Each network therefore has a byte that names its outcome, and most lookups touch only these 16 MB. The byte
//! `ASK` says that the lookup must read the table. A network has this byte if its hosts have different outcomes, or if there are more outcomes than a
//! byte can number.
//!
//! The writer changes the table before its digest, so a reader of the byte finds the outcome before or after the change. A byte that no network has
//! any more is reused for another outcome, while a reader may still be about to read the old one. [`Sequence`] detects this.

use super::sequence::Sequence;
use super::sync::{AtomicU8, AtomicU32, Ordering};

/// Values of a byte.
const VALUES: usize = if cfg!(loom) { 4 } else { 256 };
/// No outcome: no route longer than the short prefixes.
const NOTHING: u8 = 0;
/// The lookup must read the table.
const ASK: u8 = (VALUES - 1) as u8;

/// The outcome of each byte.
pub(super) struct Digest([AtomicU32; VALUES]);

/// The writer's reference counts of a [`Digest`]: the number of networks with each byte.
pub(super) struct Users([u32; VALUES]);

impl Users {
    /// The counts for this many networks without an outcome.
    pub fn new(networks: u32) -> Self {
        let mut users = [0; VALUES];
        users[usize::from(NOTHING)] = networks;
        Users(users)
    }
}

impl Digest {
    pub fn new() -> Self {
        Digest(std::array::from_fn(|_| AtomicU32::new(0)))
    }

    /// The encoded outcome of a network with this byte. `None` if the lookup must read the table.
    #[inline(always)]
    pub fn get(&self, byte: &AtomicU8) -> Option<u32> {
        let byte = byte.load(Ordering::Acquire);
        // Loaded for `ASK` too, whose outcome is never set: the load does not depend on a branch.
        let found = self.0[usize::from(byte)].load(Ordering::Acquire);
        if byte == ASK { None } else { Some(found) }
    }

    /// The byte for networks with this encoded outcome, zero for no outcome. It is the byte that already stands for the outcome, else an unused byte,
    /// else `ASK`.
    pub fn byte(&self, word: u32, users: &Users, sequence: &Sequence) -> u8 {
        if word == 0 {
            return NOTHING;
        }
        let mut free = None;
        for byte in NOTHING + 1..ASK {
            let outcome = self.0[usize::from(byte)].load(Ordering::Relaxed);
            // Also without users: a byte keeps its outcome, so one that returns needs neither a store nor a step.
            if outcome == word {
                return byte;
            }
            if free.is_none() && users.0[usize::from(byte)] == 0 {
                free = Some((byte, outcome != 0));
            }
        }
        let Some((byte, used_before)) = free else { return ASK };
        // Readers may hold this byte from its earlier use. A byte that was never used needs no step.
        if used_before {
            sequence.step();
        }
        self.0[usize::from(byte)].store(word, Ordering::Release);
        byte
    }

    /// Marks a network whose hosts have different outcomes. The table has them already.
    pub fn ask(&self, slot: &AtomicU8, users: &mut Users) {
        self.set(slot, ASK, users);
    }

    /// Sets the byte of a network. The table has the outcome already.
    pub fn set(&self, slot: &AtomicU8, byte: u8, users: &mut Users) {
        users.0[usize::from(slot.load(Ordering::Relaxed))] -= 1;
        users.0[usize::from(byte)] += 1;
        slot.store(byte, Ordering::Release);
    }
}
