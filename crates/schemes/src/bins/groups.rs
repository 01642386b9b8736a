//! More than a thousand bins: groups of bins whose packets are of like virtual length (QFQ: Checconi, Rizzo and Valente,
//! IEEE/ACM Transactions on Networking 21(3), 2013). What a packet costs does not depend on how many bins wait.
//!
//! Group g has the bins with 2^(g-1) < L/w <= 2^g. With s = 2^g it sees their starts rounded down to multiples of s: those
//! that have the same lie in one slot, first come, first served. The tags of a group are those of its first slot, S' = floor(S/s) s
//! and F' = S' + 2s >= F. Among the groups with S' <= V the one with the least F' gives the first bin of its first slot; where
//! there is none, V becomes the least S'. QFQ keeps four sets of groups in bit maps to find it; here those in use are looked
//! through, a dozen as a rule, in two cache lines.
//!
//! A group spans 64 slots. A bin that starts beyond them goes to a coarser group, where it has a place.
//!
//! **The bound.** A packet may leave s before its start, and 2s after its finish as the [exact](super::eligible) tags have them.
//! So the work of a bin that waits is never further behind its share than 3 w s and, times its share, two of the longest packets
//! (theorem 3 there), s being less than twice L/w: less than 6 L + 2 l w/W, where the exact form has L + l w/W.

use super::eligible::{Bin, Waiting};
use super::list::{Links, List};
use super::virtual_time::Virtual;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

const SLOTS: u64 = 64;
/// The coarsest: no packet is longer than 2^32 bytes, in units of 2^-16.
const GROUPS: usize = 50;
/// The place of a bin that is nowhere.
const NOWHERE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Group {
    /// A bit for each slot that is not empty.
    used: u64,
    /// The number of the first slot that is not empty, counted from virtual time zero.
    first: u64,
    /// Slots are used in turn.
    slots: [List; SLOTS as usize],
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Groups {
    groups: Vec<Group>,
    /// S' and F' of each.
    start: [Virtual; GROUPS],
    finish: [Virtual; GROUPS],
    /// A bit for each group that is not empty.
    used: u64,
    /// By bin: its group and slot.
    places: Vec<u16>,
    links: Links,
}

impl Group {
    /// Whether a slot of that number has a place, and then makes it the first where it is.
    #[inline]
    fn reach(&mut self, number: u64) -> bool {
        if self.used == 0 {
            self.first = number;
            return true;
        }
        if number >= self.first {
            return number - self.first < SLOTS;
        }
        let last = self.first + (63 - u64::from(self.in_turn().leading_zeros()));
        let fits = last - number < SLOTS;
        if fits {
            self.first = number;
        }
        fits
    }

    /// Which slots are used, beginning with the first.
    #[inline]
    fn in_turn(&self) -> u64 {
        self.used.rotate_right((self.first % SLOTS) as u32)
    }
}

impl Groups {
    /// The tags of a group that is not empty are those of its first slot.
    #[inline]
    fn retag(&mut self, g: usize) {
        let first = self.groups[g].first;
        self.start[g] = first << g;
        self.finish[g] = (first + 2) << g;
    }

    /// The groups that are not empty.
    #[inline]
    fn each(&self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.used;
        core::iter::from_fn(move || {
            let g = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (g < GROUPS).then_some(g)
        })
    }

    /// The group whose turn it is.
    #[inline]
    fn least_finish(&self, now: Virtual) -> Option<usize> {
        let (mut least, mut best) = (Virtual::MAX, GROUPS);
        for g in self.each() {
            let finish = select_unpredictable(self.start[g] <= now, self.finish[g], Virtual::MAX);
            let better = finish < least;
            least = select_unpredictable(better, finish, least);
            best = select_unpredictable(better, g, best);
        }
        (best < GROUPS).then_some(best)
    }
}

impl Waiting for Groups {
    fn new(bins: usize) -> Groups {
        let group = Group { used: 0, first: 0, slots: [List::EMPTY; SLOTS as usize] };
        let (start, finish) = ([0; GROUPS], [0; GROUPS]);
        let (places, links) = (alloc::vec![NOWHERE; bins], Links::new(bins));
        Groups { groups: alloc::vec![group; GROUPS], start, finish, used: 0, places, links }
    }

    #[inline]
    fn contains(&self, bin: usize) -> bool {
        self.places[bin] != NOWHERE
    }

    #[inline]
    fn insert(&mut self, bins: &[Bin], bin: usize, _: Virtual) {
        let Bin { start, finish, .. } = bins[bin];
        let mut g = (64 - (finish - start).saturating_sub(1).leading_zeros()) as usize;
        // The coarsest takes whatever there is: tags that wait are nearer to each other than it spans.
        while !self.groups[g].reach(start >> g) && g < GROUPS - 1 {
            g += 1;
        }
        let group = &mut self.groups[g];
        let slot = (start >> g) % SLOTS;
        group.used |= 1 << slot;
        self.links.push(&mut group.slots[slot as usize], bin);
        self.places[bin] = (g as u16) << 6 | slot as u16;
        self.used |= 1 << g;
        self.retag(g);
    }

    #[inline]
    fn remove(&mut self, bin: usize) {
        let place = core::mem::replace(&mut self.places[bin], NOWHERE);
        let (g, slot) = (usize::from(place >> 6), usize::from(place & 63));
        let Some(group) = self.groups.get_mut(g) else { return };
        self.links.remove(&mut group.slots[slot], bin);
        if group.slots[slot].first().is_some() {
            return;
        }
        group.used &= !(1 << slot);
        if group.used == 0 {
            self.used &= !(1 << g);
            return;
        }
        group.first += u64::from(group.in_turn().trailing_zeros());
        self.retag(g);
    }

    #[inline]
    fn pick(&mut self, _: &[Bin], mut now: Virtual) -> Option<(usize, Virtual)> {
        let g = match self.least_finish(now) {
            Some(g) => g,
            None => {
                now = self.each().map(|g| self.start[g]).min()?;
                self.least_finish(now)?
            }
        };
        let Group { first, slots, .. } = &self.groups[g];
        slots[(first % SLOTS) as usize].first().map(|bin| (bin, now))
    }

    fn clear(&mut self) {
        for bin in 0..self.places.len() {
            self.remove(bin);
        }
    }
}
