//! More than a thousand bins: groups of bins whose packets have similar virtual lengths ([`Slots`]), first come, first served within a slot. The cost
//! of a packet does not depend on the number of waiting bins.
//!
//! If no group may send at V, V jumps to their least start.
//!
//! **The bound.** Let s be less than twice L/w. A packet may leave s before its start, and 2s after its finish in the [exact](super::wf2q) form.
//! The work of a waiting bin therefore lags behind its share by at most 3 w s and, times its share, two of the longest packets (QFQ, theorem 3). That
//! is less than 6 L + 2 l w/W; the exact form has L + l w/W.

use super::list::List;
use super::virtual_time::Virtual;
use super::wf2q::{Bin, NOWHERE, WaitingBins, Wf2qOrder};
use alloc::vec::Vec;

/// The coarsest group holds any packet: none is longer than 2^32 bytes, in units of 2^-16.
type Slots = units::QfqSlots<50>;

/// WF2Q+ with many bins.
pub(crate) type GroupedWf2q = Wf2qOrder<BinGroups>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct BinGroups {
    slots: Slots,
    /// The bins of each slot.
    lists: Vec<List>,
}

impl WaitingBins for BinGroups {
    fn new(_: usize) -> BinGroups {
        BinGroups { slots: Slots::default(), lists: alloc::vec![List::EMPTY; Slots::COUNT] }
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
        // `NOWHERE` is beyond the last list: that bin does not wait.
        let Some(list) = self.lists.get_mut(slot) else { return };
        list.remove(bins, bin);
        if list.first().is_none() {
            self.slots.close(slot);
        }
    }

    #[inline]
    fn pick(&mut self, _: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        let group = match self.slots.next_group(now) {
            Some(group) => group,
            None => {
                // No group may send at V: V jumps to the least start.
                now = self.slots.least_start()?;
                self.slots.next_group(now)?
            }
        };
        self.lists[self.slots.first(group)].first().map(|bin| (bin, now))
    }

    fn clear(&mut self, bins: &mut [Bin]) {
        // One by one, because the bins hold the links of the lists.
        for bin in 0..bins.len() {
            self.remove(bins, bin);
        }
    }

    /// Only within the same slot.
    #[inline]
    fn later(&self, bins: &[Bin], bin: usize, turns: usize) -> Option<usize> {
        (0..turns).try_fold(bin, |bin, _| bins[bin].link.behind())
    }
}
