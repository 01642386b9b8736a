//! More than a thousand bins: groups of bins whose packets are of like virtual length ([`Slots`]), in each slot first come, first
//! served. What a packet costs does not depend on how many bins wait.
//!
//! Where no group may go at V, V becomes the least start of them.
//!
//! **The bound.** A packet may leave s before its start, and 2s after its finish as the [exact](super::eligible) tags have them.
//! So the work of a bin that waits is never further behind its share than 3 w s and, times its share, two of the longest packets
//! (QFQ, theorem 3), s being less than twice L/w: less than 6 L + 2 l w/W, where the exact form has L + l w/W.

use super::eligible::{Bin, Eligible, NOWHERE, Waiting};
use super::list::List;
use super::virtual_time::Virtual;
use alloc::vec::Vec;

/// The coarsest takes whatever there is: no packet is longer than 2^32 bytes, in units of 2^-16.
type Slots = units::Slots<50>;

/// WF2Q+ with many bins.
pub(crate) type Grouped = Eligible<Groups>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Groups {
    slots: Slots,
    /// What lies in each slot.
    lists: Vec<List>,
}

impl Waiting for Groups {
    fn new(_: usize) -> Groups {
        Groups { slots: Slots::default(), lists: alloc::vec![List::EMPTY; Slots::COUNT] }
    }

    #[inline]
    fn contains(&self, bins: &[Bin], bin: usize) -> bool {
        bins[bin].slot != NOWHERE
    }

    #[inline]
    fn insert(&mut self, bins: &mut [Bin], bin: usize, _: Virtual) {
        let Bin { start, finish, .. } = bins[bin];
        let (slot, _) = self.slots.open(start, finish);
        self.lists[slot].push(bins, bin);
        bins[bin].slot = slot as u16;
    }

    #[inline]
    fn remove(&mut self, bins: &mut [Bin], bin: usize) {
        let slot = usize::from(core::mem::replace(&mut bins[bin].slot, NOWHERE));
        let Some(list) = self.lists.get_mut(slot) else { return };
        list.remove(bins, bin);
        if list.first().is_none() {
            self.slots.close(slot);
        }
    }

    #[inline]
    fn pick(&mut self, _: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        let group = match self.slots.turn(now) {
            Some(group) => group,
            None => {
                now = self.slots.least_start()?;
                self.slots.turn(now)?
            }
        };
        self.lists[self.slots.first(group)].first().map(|bin| (bin, now))
    }

    fn clear(&mut self, bins: &mut [Bin]) {
        for bin in 0..bins.len() {
            self.remove(bins, bin);
        }
    }

    /// As far as they lie in the same slot.
    #[inline]
    fn later(&self, bins: &[Bin], bin: usize, turns: usize) -> Option<usize> {
        (0..turns).try_fold(bin, |bin, _| bins[bin].link.behind())
    }
}
