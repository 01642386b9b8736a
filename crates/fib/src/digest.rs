//! A byte for each /24 network, in front of the forwarding table.
//!
//! Lookups all over a million routes touch more of a table of 64 MB than a processor keeps near. What they find is one of
//! few outcomes, though, since a router has many routes and few next hops: so each network has a byte that says which, and most
//! lookups touch these 16 MB only. Where the hosts of a network differ, or where there are more outcomes than a byte can
//! tell apart, it says that the table must be asked.
//!
//! The table is written before its digest. A reader of the byte so finds what held before the change or after; but an
//! outcome's place is taken again when no network has it any more, and a reader may still be on its way there. [`Sequence`]
//! tells it.

use super::sequence::Sequence;
use super::sync::{AtomicU8, AtomicU32, Ordering};

/// Values of a byte.
const VALUES: usize = if cfg!(loom) { 4 } else { 256 };
/// No outcome: nothing longer than the short prefixes.
const NOTHING: u8 = 0;
/// The table must be asked.
const ASK: u8 = (VALUES - 1) as u8;

/// The outcomes that bytes stand for.
pub(super) struct Digest([AtomicU32; VALUES]);

/// The writer's account of a [`Digest`]: how many networks have each byte.
pub(super) struct Users([u32; VALUES]);

impl Users {
    /// Of so many networks without outcome.
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

    /// The encoded outcome of a network with this byte, `None` where the table must be asked.
    #[inline(always)]
    pub fn get(&self, byte: &AtomicU8) -> Option<u32> {
        let byte = byte.load(Ordering::Acquire);
        let found = self.0[usize::from(byte)].load(Ordering::Acquire);
        if byte == ASK { None } else { Some(found) }
    }

    /// The byte for networks with this encoded outcome, zero where they have none: the one it has, one that no network has
    /// any more, or the one that says to ask.
    pub fn byte(&self, word: u32, users: &Users, sequence: &Sequence) -> u8 {
        if word == 0 {
            return NOTHING;
        }
        let mut free = None;
        for byte in NOTHING + 1..ASK {
            let outcome = self.0[usize::from(byte)].load(Ordering::Relaxed);
            if outcome == word {
                return byte;
            }
            if free.is_none() && users.0[usize::from(byte)] == 0 {
                free = Some((byte, outcome != 0));
            }
        }
        let Some((byte, used_before)) = free else { return ASK };
        if used_before {
            sequence.step();
        }
        self.0[usize::from(byte)].store(word, Ordering::Release);
        byte
    }

    /// The hosts of a network differ, as the table says already.
    pub fn ask(&self, slot: &AtomicU8, users: &mut Users) {
        self.set(slot, ASK, users);
    }

    /// Gives a network the byte that was found for its outcome, which the table has already.
    pub fn set(&self, slot: &AtomicU8, byte: u8, users: &mut Users) {
        users.0[usize::from(slot.load(Ordering::Relaxed))] -= 1;
        users.0[usize::from(byte)] += 1;
        slot.store(byte, Ordering::Release);
    }
}
